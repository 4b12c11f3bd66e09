// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/hf_config.h"

#include "engine/model/config_limits.h"
#include "engine/model/hf_parts.h"
#include "engine/model/message.h"

#include <exception>
#include <optional>

namespace kvloupe {

namespace {

using nlohmann::json;

class Parser {
public:
    // text: the object that describes the language model; in a model of text and images it lies within `root`.
    Parser(const json& root, const json& text, const std::string& path)
        : m_path(path), m_root(root, path, config.model.assumed), m_text(text, path, config.model.assumed) {}
    HfConfig config;

    Result<void> parse() {
        ModelConfig& model = config.model;
        if (!read_architecture()) return m_root.error;
        const HfFamily& family = *m_family;
        if (!read_hf_sizes(m_text, family, model) || !read_hf_latent(m_text, family, model) ||
            !read_hf_experts(m_text, family, model) || !read_hf_windows(m_text, family, model) ||
            !read_hf_rotary(m_text, family, model))
            return m_text.error;
        if (m_latents && !read_late_latents(*m_latents, family, model)) return m_latents->error;
        take_first_layer();
        if (!read_storage() || !read_tokens()) return m_root.error;
        return check_config(model, m_path);
    }

private:
    bool unknown(const std::string& name) {
        return m_root.fail("the architecture " + in_quotes(name) + " is not built yet",
                           "KVLoupe reads " + known_architectures() + ".");
    }

    bool read_architecture() {
        const json* const type = m_root.find({"model_type"});
        const json* const classes = m_root.find({"architectures"});
        if (type && !type->is_string()) return m_root.fail("key 'model_type' is " + describe(*type) + ", not a string");
        if (classes && (!classes->is_array() || classes->empty() || !classes->front().is_string()))
            return m_root.fail("key 'architectures' is " + describe(*classes) + ", not an array of names");
        if (!type && !classes)
            return m_root.fail("has neither 'model_type' nor 'architectures', so its architecture is unknown");
        if (type && *type == late_latent_type) return read_converted();
        if (type) {
            m_family = family_of_type(type->get_ref<const std::string&>());
            if (!m_family) return unknown(type->get<std::string>());
        }
        if (classes) {
            const std::string& name = classes->front().get_ref<const std::string&>();
            const HfFamily* const of_class = family_of_class(name);
            if (!of_class) return unknown(name);
            if (m_family && m_family != of_class)
                return m_root.fail("'model_type' is " + in_quotes(m_family->architecture) + ", but the class " + in_quotes(name) +
                                   " is of " + std::string(of_class->architecture));
            m_family = of_class;
        }
        config.model.architecture = m_family->architecture;
        if (!type) m_root.assume("model_type", config.model.architecture);
        return true;
    }

    // The family of the model that was converted; its class is KVLoupe's own, so that no other program takes it for the family's.
    bool read_converted() {
        const json* const latents = m_root.find({late_latent_type});
        if (!latents || !latents->is_object()) return m_root.fail("has no object 'kvloupe_latent', which describes its latents");
        m_latents.emplace(*latents, m_path + ": kvloupe_latent", config.model.assumed, "kvloupe_latent.");
        std::string type;
        if (!m_latents->find({"model_type"}))
            return m_root.fail("'kvloupe_latent' has no 'model_type' of the model that was converted");
        if (!m_latents->read_name("model_type", type)) {
            m_root.error = m_latents->error;
            return false;
        }
        m_family = family_of_type(type);
        if (!m_family) return unknown(type);
        config.model.architecture = m_family->architecture;
        return true;
    }

    // What ModelConfig says of the first layer, or of the largest one.
    void take_first_layer() {
        ModelConfig& model = config.model;
        std::uint32_t widest = 0;
        for (const LayerShape& layer : model.layer_shapes)
            widest = std::max(widest, layer.experts ? model.experts.intermediate * std::max(1u, model.experts.shared)
                                                    : layer.intermediate);
        model.intermediate = widest;
    }

    bool read_storage() {
        if (const json* const dtype = m_text.find({"torch_dtype", "dtype"}); dtype && dtype->is_string())
            config.dtype = dtype->get<std::string>();
        else if (const json* const outer = m_root.find({"torch_dtype", "dtype"}); outer && outer->is_string())
            config.dtype = outer->get<std::string>();
        if (const json* const packed = m_root.find({"quantization_config"})) {
            config.packed_by = "an unnamed method";
            if (packed->is_object())
                if (const auto method = packed->find("quant_method"); method != packed->end() && method->is_string())
                    config.packed_by = method->get<std::string>();
        }
        if (!m_root.find({"num_nextn_predict_layers"})) return true;
        return m_root.read_count_or_zero("num_nextn_predict_layers", ConfigLimits::layers, config.extra_layers);
    }

    bool read_token(const json& value, const char* key, TokenId& token) {
        if (!value.is_number_integer())
            return m_root.fail(std::string("key '") + key + "' is " + describe(value) + ", not a token id");
        if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= config.model.vocabulary)
            return m_root.fail(std::string("key '") + key + "' is " + describe(value) + ", outside the vocabulary of " +
                               grouped(config.model.vocabulary) + " tokens");
        token = static_cast<TokenId>(value.get<std::uint64_t>());
        return true;
    }

    const json* find_token(const char* key) const {
        const json* const found = m_root.find({key});
        return found ? found : m_text.find({key});
    }

    bool read_tokens() {
        TokenId token = 0;
        if (const json* const bos = find_token("bos_token_id")) {
            if (!read_token(*bos, "bos_token_id", token)) return false;
            config.bos = token;
        }
        const json* const eos = find_token("eos_token_id");
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

    const std::string& m_path;
    HfConfigReader m_root, m_text;
    const HfFamily* m_family = nullptr;
    std::optional<HfConfigReader> m_latents;  // of a model that KVLoupe converted
};

}  // namespace

Result<HfConfig> parse_hf_config(std::span<const std::byte> bytes, const std::string& path) {
    try {
        const Result<json> document = parse_json(bytes, path);
        if (!document) return document.error();
        const json& root = *document;
        const char* const fix_config = "Use the config.json that came with the model.";
        if (!root.is_object()) return Error{path + ": is " + describe(root) + ", not an object", fix_config};
        const auto text = root.find("text_config");
        const bool nested = text != root.end() && !text->is_null();
        if (nested && !text->is_object())
            return Error{path + ": key 'text_config' is " + describe(*text) + ", not an object", fix_config};
        Parser parser(root, nested ? *text : root, path);
        if (const Result<void> parsed = parser.parse(); !parsed) return parsed.error();
        return std::move(parser.config);
    } catch (const std::exception& failure) {
        return Error{path + ": cannot be read (" + failure.what() + ")", "Use the config.json that came with the model."};
    }
}

}  // namespace kvloupe
