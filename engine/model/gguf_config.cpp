// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/gguf_config.h"

#include "engine/model/config_limits.h"
#include "engine/model/message.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <sstream>

namespace kvloupe {

namespace {

const char* const convert_again = "Convert the model again, or use another file of it.";

class ConfigReader {
public:
    explicit ConfigReader(const GgufFile& file) : m_file(file) {}
    ModelConfig config;
    Error error;

    bool read() {
        return read_architecture() && refuse_unbuilt() && read_sizes() && read_heads() && read_rotary() && check();
    }

private:
    bool fail(const std::string& what, const std::string& hint = convert_again) {
        error = {m_file.path + ": " + what, hint};
        return false;
    }
    bool refuse(const std::string& what) {
        return fail(what, "KVLoupe reads Llama models without it; other forms are not built yet.");
    }

    const GgufValue* find(const std::string& key) const {
        const auto found = m_file.metadata.find(key);
        return found == m_file.metadata.end() ? nullptr : &found->second;
    }

    void assume(const std::string& key, const std::string& value) {
        config.assumed.push_back(key + " = " + value + " (not in the GGUF file)");
    }

    bool check_count(const std::string& key, std::uint64_t number, std::uint64_t limit, std::uint32_t& value) {
        if (number == 0 || number > limit)
            return fail("key " + in_quotes(key) + " is " + grouped(number) + ", outside 1 to " + grouped(limit));
        value = static_cast<std::uint32_t>(number);
        return true;
    }

    bool read_count(const std::string& key, std::uint64_t limit, std::uint32_t& value) {
        const GgufValue* const found = find(key);
        if (!found) return fail("has no key " + in_quotes(key));
        const std::optional<std::uint64_t> number = m_file.unsigned_integer(key);
        if (!number) return fail("key " + in_quotes(key) + " is " + describe(*found) + ", not an unsigned integer");
        return check_count(key, *number, limit, value);
    }

    // A head count: one integer, or one per layer; different counts per layer are not built.
    bool read_head_count(const std::string& key, std::uint32_t& value) {
        const GgufArray* const array = m_file.array(key);
        if (!array) return read_count(key, ConfigLimits::heads, value);
        if (array->numbers.size() != config.layers)
            return fail("key " + in_quotes(key) + " is an array of " + grouped(array->numbers.size()) +
                        " numbers for " + grouped(config.layers) + " layers");
        const double first = array->numbers.front();
        for (const double number : array->numbers)
            if (number != first)
                return refuse("key " + in_quotes(key) + " differs between layers, which is not built yet");
        // Also false for NaN.
        if (!(first >= 1 && first <= ConfigLimits::heads) || first != static_cast<double>(static_cast<std::uint32_t>(first)))
            return fail("key " + in_quotes(key) + " holds " + std::to_string(first) + ", outside 1 to " +
                        grouped(ConfigLimits::heads));
        value = static_cast<std::uint32_t>(first);
        return true;
    }

    bool read_number(const std::string& key, float& value) {
        const std::optional<double> number = m_file.number(key);
        if (!number) return fail("key " + in_quotes(key) + " is " + describe(*find(key)) + ", not a number");
        value = static_cast<float>(*number);
        return true;
    }

    bool read_architecture() {
        const GgufValue* const found = find("general.architecture");
        if (!found) return fail("has no key 'general.architecture', so its architecture is unknown");
        const std::string* const name = m_file.string("general.architecture");
        if (!name) return fail("key 'general.architecture' is " + describe(*found) + ", not a string");
        if (*name != "llama")
            return fail("the architecture " + in_quotes(*name) + " is not built yet", "KVLoupe reads Llama models.");
        config.architecture = *name;
        config.name = std::filesystem::path(m_file.path).stem().string();
        if (const std::string* const title = m_file.string("general.name"); title && !title->empty() && *title != *name)
            config.name = *title;
        return true;
    }

    // Features that change the result and that the engine does not have: refused rather than ignored.
    bool refuse_unbuilt() {
        if (const auto parts = m_file.unsigned_integer("split.count"); parts && *parts > 1)
            return fail("is one of " + grouped(*parts) + " parts ('split.count'); files in parts are not built yet",
                        "Merge the parts into one file.");
        for (const char* key : {"llama.expert_count", "llama.attention.sliding_window"}) {
            const std::optional<std::uint64_t> number = m_file.unsigned_integer(key);
            if (number && *number > 0)
                return refuse("key " + in_quotes(key) + " is " + grouped(*number) + ", which is not built yet");
        }
        for (const char* key : {"llama.attn_logit_softcapping", "llama.final_logit_softcapping", "llama.logit_scale",
                                "llama.embedding_scale", "llama.residual_scale", "llama.attention.scale"}) {
            const std::optional<double> number = m_file.number(key);
            if (number && *number != 0)
                return refuse("key " + in_quotes(key) + " is " + std::to_string(*number) + ", which is not built yet");
        }
        const std::string* const scaling = m_file.string("llama.rope.scaling.type");
        if (scaling && *scaling != "none")
            return refuse("'llama.rope.scaling.type' is " + in_quotes(*scaling) + "; rope scaling is not built yet");
        for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
            const std::optional<double> number = m_file.number(key);
            if (number && *number != 0 && *number != 1)
                return refuse("key " + in_quotes(key) + " is " + std::to_string(*number) +
                              "; rope scaling is not built yet");
        }
        return true;
    }

    bool read_sizes() {
        if (!read_count("llama.block_count", ConfigLimits::layers, config.layers) ||
            !read_count("llama.embedding_length", ConfigLimits::width, config.hidden) ||
            !read_count("llama.feed_forward_length", ConfigLimits::width, config.intermediate) ||
            !read_count("llama.context_length", ConfigLimits::context, config.context_length))
            return false;
        if (const GgufTensor* const embedding = m_file.tensor("token_embd.weight"))
            if (!check_count("token_embd.weight rows", row_count(*embedding), ConfigLimits::vocabulary, config.vocabulary))
                return false;
        config.tied_embeddings = m_file.tensor("output.weight") == nullptr;
        return true;
    }

    bool read_heads() {
        if (!read_head_count("llama.attention.head_count", config.query_heads)) return false;
        config.kv_heads = config.query_heads;
        if (!find("llama.attention.head_count_kv"))
            assume("llama.attention.head_count_kv", std::to_string(config.kv_heads));
        else if (!read_head_count("llama.attention.head_count_kv", config.kv_heads))
            return false;
        if (find("llama.attention.key_length")) {
            if (!read_count("llama.attention.key_length", ConfigLimits::width, config.head_dim)) return false;
        } else if (config.hidden % config.query_heads != 0) {
            return fail("has no key 'llama.attention.key_length', and 'llama.embedding_length' " +
                        std::to_string(config.hidden) + " is no multiple of 'llama.attention.head_count' " +
                        std::to_string(config.query_heads));
        } else {
            config.head_dim = config.hidden / config.query_heads;
        }
        if (!find("llama.attention.value_length")) return true;
        std::uint32_t value_length = 0;
        if (!read_count("llama.attention.value_length", ConfigLimits::width, value_length)) return false;
        if (value_length != config.head_dim)
            return refuse("'llama.attention.value_length' " + std::to_string(value_length) +
                          " differs from the key length " + std::to_string(config.head_dim) + ", which is not built yet");
        return true;
    }

    bool read_rotary() {
        config.rotary_layout = RotaryLayout::adjacent;
        config.rotary_dim = config.head_dim;
        if (find("llama.rope.dimension_count") &&
            !read_count("llama.rope.dimension_count", ConfigLimits::width, config.rotary_dim))
            return false;
        if (!find("llama.rope.freq_base"))
            assume("llama.rope.freq_base", "10000");
        else if (!read_number("llama.rope.freq_base", config.rope_theta))
            return false;
        const std::string epsilon = "llama.attention.layer_norm_rms_epsilon";
        if (!find(epsilon)) return fail("has no key " + in_quotes(epsilon));
        return read_number(epsilon, config.rms_epsilon);
    }

    bool check() {
        const Result<void> checked = check_config(config, m_file.path);
        if (!checked) error = checked.error();
        return static_cast<bool>(checked);
    }

    const GgufFile& m_file;
};

}  // namespace

Result<ModelConfig> config_from_gguf(const GgufFile& file) {
    try {
        ConfigReader reader(file);
        if (!reader.read()) return reader.error;
        return std::move(reader.config);
    } catch (const std::exception& failure) {
        return Error{file.path + ": its configuration cannot be read (" + failure.what() + ")", convert_again};
    }
}

}  // namespace kvloupe
