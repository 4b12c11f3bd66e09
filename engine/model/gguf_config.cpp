// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/gguf_config.h"

#include "engine/model/config_limits.h"
#include "engine/model/gguf_parts.h"
#include "engine/model/message.h"

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>

namespace kvloupe {

namespace {

constexpr std::array<GgufFamily, 6> gguf_families = {{
    {"llama", "llama", RotaryLayout::adjacent},  // Mistral and Mixtral too
    {"qwen2", "qwen2", RotaryLayout::half_split},
    {"qwen3", "qwen3", RotaryLayout::half_split},
    {"gemma2", "gemma2", RotaryLayout::half_split},
    {"gemma3", "gemma3", RotaryLayout::half_split},
    {"deepseek2", "deepseek_v2", RotaryLayout::adjacent},  // V3 too
}};

class ConfigReader {
public:
    explicit ConfigReader(const GgufFile& file) : m_file(file), m_keys(file, config.assumed) {}
    ModelConfig config;

    Result<void> read() {
        if (!read_architecture() || !refuse_unbuilt() || !read_sizes() || !read_heads() ||
            !read_gguf_experts(m_keys, *m_family, config) || !read_windows() ||
            (m_family->is_gemma() && !read_gguf_gemma(m_keys, *m_family, config)) ||
            !read_gguf_rotary(m_keys, *m_family, config))
            return m_keys.error;
        return check_config(config, m_file.path);
    }

private:
    bool read_architecture() {
        const auto found = m_file.metadata.find("general.architecture");
        if (found == m_file.metadata.end())
            return m_keys.fail("has no key 'general.architecture', so its architecture is unknown");
        const std::string* const name = m_file.string("general.architecture");
        if (!name) return m_keys.fail("key 'general.architecture' is " + describe(found->second) + ", not a string");
        m_family = gguf_family(*name);
        if (!m_family)
            return m_keys.fail("the architecture " + in_quotes(*name) + " is not built yet",
                               "KVLoupe reads " + known_gguf_architectures() + ".");
        m_keys.use_architecture(*name);
        config.architecture = m_family->architecture;
        config.name = std::filesystem::path(m_file.path).stem().string();
        if (const std::string* const title = m_file.string("general.name"); title && !title->empty() && *title != *name)
            config.name = *title;
        return true;
    }

    // Features that change the result and that the engine does not have: refused rather than ignored.
    bool refuse_unbuilt() {
        if (const auto parts = m_file.unsigned_integer("split.count"); parts && *parts > 1)
            return m_keys.fail("is one of " + grouped(*parts) + " parts ('split.count'); files in parts are not built yet",
                               "Merge the parts into one file.");
        for (const char* key : {"logit_scale", "embedding_scale", "residual_scale"}) {
            float number = 0;
            if (!m_keys.read_optional_number(key, number)) return false;
            if (number != 0)
                return m_keys.refuse("key " + in_quotes(m_keys.full(key)) + " is " + std::to_string(number) +
                                     ", which is not built yet");
        }
        return true;
    }

    bool read_sizes() {
        if (!m_keys.need_count("block_count", ConfigLimits::layers, config.layers) ||
            !m_keys.need_count("embedding_length", ConfigLimits::width, config.hidden) ||
            !m_keys.need_count("context_length", ConfigLimits::context, config.context_length) ||
            !m_keys.need_number("attention.layer_norm_rms_epsilon", config.rms_epsilon))
            return false;
        if (const GgufTensor* const embedding = m_file.tensor("token_embd.weight"))
            if (!m_keys.check_count("token_embd.weight rows", row_count(*embedding), ConfigLimits::vocabulary, config.vocabulary))
                return false;
        config.tied_embeddings = m_file.tensor("output.weight") == nullptr;
        config.attention_bias = m_file.tensor("blk.0.attn_q.bias") != nullptr;
        config.query_key_norm = m_family->is("qwen3") || m_family->is("gemma3");
        config.layer_shapes.assign(config.layers, LayerShape{});
        std::vector<std::uint32_t> intermediate;
        if (!m_keys.need_counts("feed_forward_length", ConfigLimits::width, config.layers, intermediate)) return false;
        for (std::uint32_t i = 0; i < config.layers; ++i) config.layer_shapes[i].intermediate = intermediate[i];
        config.intermediate = *std::max_element(intermediate.begin(), intermediate.end());
        return true;
    }

    bool read_heads() {
        std::vector<std::uint32_t> query_heads, kv_heads;
        if (!m_keys.need_counts("attention.head_count", ConfigLimits::heads, config.layers, query_heads)) return false;
        kv_heads = query_heads;
        const bool latent = m_family->is("deepseek2");  // its count of KV heads is that of the cache, not of the heads
        if (!latent && !m_keys.has("attention.head_count_kv"))
            m_keys.assume("attention.head_count_kv", std::to_string(kv_heads.front()));
        else if (!latent && !m_keys.need_counts("attention.head_count_kv", ConfigLimits::heads, config.layers, kv_heads))
            return false;
        for (std::uint32_t i = 0; i < config.layers; ++i) {
            config.layer_shapes[i].query_heads = query_heads[i];
            config.layer_shapes[i].kv_heads = kv_heads[i];
        }
        config.query_heads = query_heads.front();
        config.kv_heads = kv_heads.front();
        return latent ? read_gguf_latent(m_keys, config) : read_head_dim();
    }

    bool read_head_dim() {
        if (m_keys.has("attention.key_length")) {
            if (!m_keys.need_count("attention.key_length", ConfigLimits::width, config.head_dim)) return false;
        } else if (config.hidden % config.query_heads != 0) {
            return m_keys.fail("has no key " + in_quotes(m_keys.full("attention.key_length")) + ", and " +
                               in_quotes(m_keys.full("embedding_length")) + " " + std::to_string(config.hidden) +
                               " is no multiple of " + in_quotes(m_keys.full("attention.head_count")) + " " +
                               std::to_string(config.query_heads));
        } else {
            config.head_dim = config.hidden / config.query_heads;
        }
        std::uint32_t value_length = config.head_dim;
        if (!m_keys.read_optional_count("attention.value_length", ConfigLimits::width, value_length)) return false;
        if (value_length != config.head_dim)
            return m_keys.refuse(in_quotes(m_keys.full("attention.value_length")) + " " + std::to_string(value_length) +
                                 " differs from the key length " + std::to_string(config.head_dim) + ", which is not built yet");
        return true;
    }

    // Of Gemma by its own rule. Others have one window in all layers, or none.
    bool read_windows() {
        if (m_family->is_gemma()) return true;
        std::uint32_t window = 0;
        if (!m_keys.read_optional_count("attention.sliding_window", ConfigLimits::context, window)) return false;
        for (LayerShape& layer : config.layer_shapes) layer.window = window;
        for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping", "attention.scale"}) {
            float number = 0;
            if (!m_keys.read_optional_number(key, number)) return false;
            if (number != 0)
                return m_keys.refuse("key " + in_quotes(m_keys.full(key)) + " is " + std::to_string(number) +
                                     ", which is not built yet");
        }
        return true;
    }

    const GgufFile& m_file;
    GgufConfigReader m_keys;
    const GgufFamily* m_family = nullptr;
};

}  // namespace

const GgufFamily* gguf_family(std::string_view name) {
    for (const GgufFamily& family : gguf_families)
        if (family.name == name) return &family;
    return nullptr;
}

std::string known_gguf_architectures() {
    std::string text;
    for (std::size_t i = 0; i < gguf_families.size(); ++i)
        text += (i == 0 ? "" : i + 1 == gguf_families.size() ? " and " : ", ") + std::string(gguf_families[i].name);
    return text;
}

Result<ModelConfig> config_from_gguf(const GgufFile& file) {
    try {
        ConfigReader reader(file);
        if (const Result<void> read = reader.read(); !read) return read.error();
        return std::move(reader.config);
    } catch (const std::exception& failure) {
        return Error{file.path + ": its configuration cannot be read (" + failure.what() + ")",
                     "Convert the model again, or use another file of it."};
    }
}

}  // namespace kvloupe
