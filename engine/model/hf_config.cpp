// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/hf_config.h"

#include "engine/model/config_limits.h"
#include "engine/model/json_document.h"
#include "engine/model/message.h"

#include <cmath>
#include <exception>
#include <initializer_list>
#include <sstream>

namespace kvloupe {

namespace {

using nlohmann::json;

const char* const fix_config = "Use the config.json that came with the model.";

// 1e-06 and 10000, as a person writes them.
std::string shortest(double number) {
    std::ostringstream text;
    text << number;
    return text.str();
}

class Parser {
public:
    Parser(const json& document, const std::string& path) : m_root(document), m_path(path) {}
    HfConfig config;
    Error error;

    bool parse() {
        return read_architecture() && refuse_unbuilt() && read_sizes() && read_rotary() && read_tokens() && check();
    }

private:
    bool fail(const std::string& what, const std::string& hint = fix_config) {
        error = {m_path + ": " + what, hint};
        return false;
    }
    bool refuse(const std::string& what) {
        return fail(what, "KVLoupe reads Llama models without it; other forms are not built yet.");
    }

    // The first of the spellings that is there and not null.
    const json* find(std::initializer_list<const char*> keys, std::string* used = nullptr) const {
        for (const char* key : keys) {
            const auto found = m_root.find(key);
            if (found == m_root.end() || found->is_null()) continue;
            if (used) *used = key;
            return &*found;
        }
        return nullptr;
    }

    void assume(const std::string& key, const std::string& value) {
        config.model.assumed.push_back(key + " = " + value + " (not in config.json)");
    }

    // An integer from 1 to `limit`; `fallback` 0: whatever is in `value` is the default already.
    bool read_count(std::initializer_list<const char*> keys, std::uint64_t limit, std::uint32_t& value) {
        std::string key = *keys.begin();
        const json* const found = find(keys, &key);
        if (!found) {
            assume(key, std::to_string(value));
            return true;
        }
        if (!found->is_number_integer())
            return fail("key " + in_quotes(key) + " is " + describe(*found) + ", not an integer");
        if (!found->is_number_unsigned() || found->get<std::uint64_t>() == 0 || found->get<std::uint64_t>() > limit)
            return fail("key " + in_quotes(key) + " is " + describe(*found) + ", outside 1 to " + grouped(limit));
        value = static_cast<std::uint32_t>(found->get<std::uint64_t>());
        return true;
    }

    bool read_flag(const char* key, bool& value) {
        const json* const found = find({key});
        if (!found) return true;
        if (!found->is_boolean()) return fail("key " + in_quotes(key) + " is " + describe(*found) + ", not true or false");
        value = found->get<bool>();
        return true;
    }

    bool read_architecture() {
        const json* const type = find({"model_type"});
        const json* const classes = find({"architectures"});
        if (type && !type->is_string()) return fail("key 'model_type' is " + describe(*type) + ", not a string");
        if (classes && (!classes->is_array() || classes->empty() || !classes->front().is_string()))
            return fail("key 'architectures' is " + describe(*classes) + ", not an array of names");
        if (!type && !classes)
            return fail("has neither 'model_type' nor 'architectures', so its architecture is unknown");
        const std::string hint = "KVLoupe reads Llama models (model_type llama, LlamaForCausalLM).";
        if (type && *type != "llama")
            return fail("the architecture " + in_quotes(type->get<std::string>()) + " is not built yet", hint);
        if (classes && classes->front() != "LlamaForCausalLM")
            return fail("the architecture " + in_quotes(classes->front().get<std::string>()) + " is not built yet", hint);
        if (!type) assume("model_type", "llama");
        config.model.architecture = "llama";
        return true;
    }

    bool refuse_unbuilt() {
        for (const char* key : {"attention_bias", "mlp_bias"}) {
            bool flag = false;
            if (!read_flag(key, flag)) return false;
            if (flag) return refuse(std::string("'") + key + "' is true: projections with a bias are not built yet");
        }
        if (find({"quantization_config"}))
            return refuse("'quantization_config' is set: packed Hugging Face weights are not built yet");
        if (const json* const activation = find({"hidden_act"})) {
            if (!activation->is_string())
                return fail("key 'hidden_act' is " + describe(*activation) + ", not a string");
            if (*activation != "silu" && *activation != "swish")
                return refuse("'hidden_act' is " + in_quotes(activation->get<std::string>()) +
                              ": activations other than silu are not built yet");
        }
        if (const json* const part = find({"partial_rotary_factor"}))
            if (!part->is_number() || part->get<double>() != 1.0)
                return refuse("'partial_rotary_factor' is " + describe(*part) + ": only 1 is built yet");
        return true;
    }

    bool read_sizes() {
        ModelConfig& model = config.model;
        model.vocabulary = 32000;  // the defaults of LlamaConfig
        model.hidden = 4096;
        model.intermediate = 11008;
        model.layers = 32;
        model.query_heads = 32;
        model.context_length = 2048;
        if (!read_count({"vocab_size"}, ConfigLimits::vocabulary, model.vocabulary) ||
            !read_count({"hidden_size", "n_embd"}, ConfigLimits::width, model.hidden) ||
            !read_count({"intermediate_size"}, ConfigLimits::width, model.intermediate) ||
            !read_count({"num_hidden_layers", "n_layer", "n_layers"}, ConfigLimits::layers, model.layers) ||
            !read_count({"num_attention_heads", "n_head", "n_heads"}, ConfigLimits::heads, model.query_heads) ||
            !read_count({"max_position_embeddings"}, ConfigLimits::context, model.context_length))
            return false;
        model.kv_heads = model.query_heads;
        if (!read_count({"num_key_value_heads", "num_kv_heads"}, ConfigLimits::heads, model.kv_heads)) return false;
        if (find({"head_dim"})) return read_count({"head_dim"}, ConfigLimits::width, model.head_dim);
        if (model.hidden % model.query_heads != 0)
            return fail("has no 'head_dim', and 'hidden_size' " + std::to_string(model.hidden) +
                        " is no multiple of 'num_attention_heads' " + std::to_string(model.query_heads));
        model.head_dim = model.hidden / model.query_heads;
        assume("head_dim", std::to_string(model.head_dim));
        return true;
    }

    // A positive number; absent: `value` is the default and is noted.
    bool read_number(const json* found, const char* key, float& value) {
        if (!found) {
            assume(key, shortest(value));
            return true;
        }
        if (!found->is_number() || !(found->get<double>() > 0) || !std::isfinite(static_cast<float>(found->get<double>())))
            return fail(std::string("key '") + key + "' is " + describe(*found) + ", not a positive number");
        value = static_cast<float>(found->get<double>());
        return true;
    }

    // rope_scaling (or rope_parameters of newer files): only the plain form is built.
    bool read_rope_object(const char* key, const json*& theta) {
        const json* const rope = find({key});
        if (!rope) return true;
        if (!rope->is_object()) return fail(std::string("key '") + key + "' is " + describe(*rope) + ", not an object");
        for (const char* name : {"rope_type", "type"}) {
            const auto type = rope->find(name);
            if (type == rope->end()) continue;
            if (!type->is_string())
                return fail(std::string("'") + name + "' of '" + key + "' is " + describe(*type) + ", not a string");
            if (*type != "default")
                return refuse(std::string("'") + key + "' of type " + in_quotes(type->get<std::string>()) +
                              " is not built yet");
        }
        const auto factor = rope->find("factor");
        if (factor != rope->end() && (!factor->is_number() || factor->get<double>() != 1.0))
            return refuse(std::string("'") + key + "' with the factor " + describe(*factor) + " is not built yet");
        const auto own_theta = rope->find("rope_theta");
        if (own_theta != rope->end()) theta = &*own_theta;
        return true;
    }

    bool read_rotary() {
        ModelConfig& model = config.model;
        const json* theta = find({"rope_theta"});
        if (!read_rope_object("rope_scaling", theta) || !read_rope_object("rope_parameters", theta)) return false;
        model.rope_theta = 10000.0f;
        model.rms_epsilon = 1e-6f;  // LlamaConfig's default, not the 1e-5 most files carry
        if (!read_number(theta, "rope_theta", model.rope_theta) ||
            !read_number(find({"rms_norm_eps"}), "rms_norm_eps", model.rms_epsilon))
            return false;
        model.rotary_dim = model.head_dim;
        model.rotary_layout = RotaryLayout::half_split;
        if (!find({"tie_word_embeddings"})) assume("tie_word_embeddings", "false");
        return read_flag("tie_word_embeddings", model.tied_embeddings);
    }

    bool read_token(const json& value, const char* key, TokenId& token) {
        if (!value.is_number_integer())
            return fail(std::string("key '") + key + "' is " + describe(value) + ", not a token id");
        if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= config.model.vocabulary)
            return fail(std::string("key '") + key + "' is " + describe(value) + ", outside the vocabulary of " +
                        grouped(config.model.vocabulary) + " tokens");
        token = static_cast<TokenId>(value.get<std::uint64_t>());
        return true;
    }

    bool read_tokens() {
        if (const json* const dtype = find({"torch_dtype", "dtype"}); dtype && dtype->is_string())
            config.dtype = dtype->get<std::string>();
        TokenId token = 0;
        if (const json* const bos = find({"bos_token_id"})) {
            if (!read_token(*bos, "bos_token_id", token)) return false;
            config.bos = token;
        }
        const json* const eos = find({"eos_token_id"});
        if (!eos) return true;
        if (!eos->is_array()) {
            if (!read_token(*eos, "eos_token_id", token)) return false;
            config.end_tokens.push_back(token);
            return true;
        }
        for (const json& value : *eos) {
            if (!read_token(value, "eos_token_id", token)) return false;
            config.end_tokens.push_back(token);
        }
        return true;
    }

    bool check() {
        const Result<void> checked = check_config(config.model, m_path);
        if (!checked) error = checked.error();
        return static_cast<bool>(checked);
    }

    const json& m_root;
    const std::string& m_path;
};

}  // namespace

Result<HfConfig> parse_hf_config(std::span<const std::byte> bytes, const std::string& path) {
    try {
        const Result<json> document = parse_json(bytes, path);
        if (!document) return document.error();
        if (!document->is_object()) return Error{path + ": is " + describe(*document) + ", not an object", fix_config};
        Parser parser(*document, path);
        if (!parser.parse()) return parser.error;
        return std::move(parser.config);
    } catch (const std::exception& failure) {
        return Error{path + ": cannot be read (" + failure.what() + ")", fix_config};
    }
}

}  // namespace kvloupe
