// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/analysis/known_models.h"

#include "engine/analysis/nearest_names.h"
#include "engine/model/json_document.h"
#include "engine/model/message.h"

#include <initializer_list>
#include <limits>
#include <set>

namespace kvloupe {

namespace {

using nlohmann::json;

// One entry. A key that is asked for counts as known; what is left over at the end is an error.
class EntryReader {
public:
    EntryReader(const json& entry, const std::string& path) : m_entry(entry), m_path(path) {}
    KnownModel known;
    Error error;

    bool read() {
        if (!m_entry.is_object()) return fail("an entry is " + describe(m_entry) + ", not an object");
        return read_names() && read_shape() && read_layers() && read_latent() && read_experts() && read_form() &&
               no_others() && consistent();
    }

private:
    bool fail(const std::string& what) {
        const std::string name = known.names.empty() ? "" : " of " + in_quotes(known.names.front());
        error = {m_path + ": the entry" + name + ": " + what,
                 "Correct the table of known models, or install KVLoupe again."};
        return false;
    }

    const json* find(const char* key) {
        m_known_keys.insert(key);
        const auto found = m_entry.find(key);
        return found == m_entry.end() ? nullptr : &*found;
    }

    // An integer of 1 or more; absent: `value` stays if it is optional.
    bool read_count(const json& object, const char* key, std::uint32_t& value, bool needed) {
        const auto found = object.find(key);
        if (found == object.end()) return !needed || fail(std::string("key '") + key + "' is missing");
        if (!found->is_number_unsigned() || found->get<std::uint64_t>() == 0 || found->get<std::uint64_t>() > largest)
            return fail(std::string("key '") + key + "' is " + describe(*found) + ", not a whole number from 1 to " +
                        grouped(largest));
        value = found->get<std::uint32_t>();
        return true;
    }
    bool count(const char* key, std::uint32_t& value, bool needed = true) {
        m_known_keys.insert(key);
        return read_count(m_entry, key, value, needed);
    }

    bool flag(const char* key, bool& value) {
        const json* const found = find(key);
        if (!found) return true;
        if (!found->is_boolean())
            return fail(std::string("key '") + key + "' is " + describe(*found) + ", not true or false");
        value = found->get<bool>();
        return true;
    }

    bool only(const json& object, const char* name, std::initializer_list<const char*> keys) {
        if (!object.is_object())
            return fail(std::string("key '") + name + "' is " + describe(object) + ", not an object");
        const std::set<std::string> allowed(keys.begin(), keys.end());
        for (const auto& item : object.items())
            if (allowed.count(item.key()) == 0)
                return fail(std::string("'") + name + "' has an unknown key " + in_quotes(item.key()));
        return true;
    }

    bool read_names() {
        const json* const names = find("names");
        if (!names || !names->is_array() || names->empty()) return fail("key 'names' is no list of names");
        for (const json& name : *names) {
            if (!name.is_string()) return fail("key 'names' holds " + describe(name));
            known.names.push_back(name.get<std::string>());
        }
        known.model.config.name = known.names.front();
        known.model.source = "known model";
        return true;
    }

    bool read_shape() {
        ModelConfig& config = known.model.config;
        const json* const family = find("family");
        if (!family || !family->is_string()) return fail("key 'family' is no name");
        config.architecture = family->get<std::string>();
        if (!(count("layers", config.layers) && count("hidden", config.hidden) &&
              count("query_heads", config.query_heads) && count("intermediate", config.intermediate) &&
              count("vocabulary", config.vocabulary) && count("context", config.context_length)))
            return false;
        config.kv_heads = config.query_heads;
        if (!count("kv_heads", config.kv_heads, false)) return false;
        config.head_dim = config.hidden / config.query_heads;
        if (!count("head_dim", config.head_dim, false)) return false;
        if (const json* const dtype = find("weights")) {
            const auto type = dtype->is_string() ? dtype_from_name(dtype->get<std::string>()) : std::nullopt;
            if (!type || !is_weight_type(*type))
                return fail("key 'weights' is " + describe(*dtype) + ", no precision of weights");
            known.model.weight_dtype = *type;
        }
        return flag("tied", config.tied_embeddings) && flag("attention_bias", config.attention_bias) &&
               flag("query_key_norm", config.query_key_norm) && flag("post_norms", config.post_norms);
    }

    // "window": tokens of a local layer; "global_every": N, every N-th layer sees all tokens (Gemma 3: 6). Without it,
    // all layers are local.
    bool read_layers() {
        ModelConfig& config = known.model.config;
        std::uint32_t window = 0, every = 0;
        if (!count("window", window, false) || !count("global_every", every, false)) return false;
        if (config.layers > 10000) return fail("key 'layers' is " + std::to_string(config.layers) + ", more than 10,000");
        config.make_uniform();
        for (std::uint32_t i = 0; i < config.layers; ++i)
            if (every == 0 || (i + 1) % every != 0) config.layer_shapes[i].window = window;
        return true;
    }

    bool read_latent() {
        const json* const latent = find("latent");
        if (!latent) return true;
        LatentShape& shape = known.model.config.latent;
        return only(*latent, "latent", {"query_rank", "kv_rank", "nope_dim", "rotary_dim", "value_dim"}) &&
               read_count(*latent, "query_rank", shape.query_rank, false) &&
               read_count(*latent, "kv_rank", shape.kv_rank, true) &&
               read_count(*latent, "nope_dim", shape.nope_dim, true) &&
               read_count(*latent, "rotary_dim", shape.rotary_dim, true) &&
               read_count(*latent, "value_dim", shape.value_dim, true);
    }

    // "first_dense": so many layers from the first on have a dense part instead.
    bool read_experts() {
        const json* const experts = find("experts");
        if (!experts) return true;
        ExpertShape& shape = known.model.config.experts;
        std::uint32_t dense = 0;
        if (!(only(*experts, "experts", {"count", "used", "shared", "intermediate", "first_dense", "corrected"}) &&
              read_count(*experts, "count", shape.count, true) && read_count(*experts, "used", shape.used, true) &&
              read_count(*experts, "shared", shape.shared, false) &&
              read_count(*experts, "intermediate", shape.intermediate, true) &&
              read_count(*experts, "first_dense", dense, false)))
            return false;
        if (const auto corrected = experts->find("corrected"); corrected != experts->end()) {
            if (!corrected->is_boolean())
                return fail("key 'corrected' is " + describe(*corrected) + ", not true or false");
            shape.corrected = corrected->get<bool>();
        }
        std::vector<LayerShape>& layers = known.model.config.layer_shapes;
        for (std::size_t i = dense; i < layers.size(); ++i) layers[i].experts = true;
        return true;
    }

    bool read_form() {
        WeightForm& form = known.model.form;
        return flag("gated", form.gated) && flag("biases", form.biases) && flag("norm_biases", form.norm_biases) &&
               count("positions", form.positions, false);
    }

    bool no_others() {
        for (const auto& item : m_entry.items())
            if (m_known_keys.count(item.key()) == 0) return fail("an unknown key " + in_quotes(item.key()));
        return true;
    }

    bool consistent() {
        const ModelConfig& config = known.model.config;
        if (config.query_heads % config.kv_heads != 0)
            return fail(std::to_string(config.kv_heads) + " KV heads do not divide " +
                        std::to_string(config.query_heads) + " query heads");
        if (config.experts.used > config.experts.count) return fail("more experts are used than there are");
        return true;
    }

    static constexpr std::uint64_t largest = 10'000'000;
    const json& m_entry;
    const std::string& m_path;
    std::set<std::string> m_known_keys;
};

}  // namespace

Result<KnownModels> KnownModels::parse(std::span<const std::byte> bytes, const std::string& path) {
    const Result<json> document = parse_json(bytes, path);
    if (!document) return document.error();
    const auto models = document->is_object() ? document->find("models") : document->end();
    if (!document->is_object() || models == document->end() || !models->is_array())
        return Error{path + ": holds no list 'models'", "It should be KVLoupe's resources/known_models.json."};
    KnownModels table;
    std::set<std::string> taken;
    for (const json& entry : *models) {
        EntryReader reader(entry, path);
        if (!reader.read()) return reader.error;
        for (const std::string& name : reader.known.names)
            if (!taken.insert(plain_name(name)).second)
                return Error{path + ": two entries are called " + in_quotes(name), "Every name must stand once."};
        table.m_models.push_back(std::move(reader.known));
    }
    return table;
}

const KnownModel* KnownModels::find(std::string_view name) const {
    const std::string wanted = plain_name(name);
    for (const KnownModel& known : m_models)
        for (const std::string& each : known.names)
            if (plain_name(each) == wanted) return &known;
    return nullptr;
}

std::vector<std::string> KnownModels::names() const {
    std::vector<std::string> names;
    for (const KnownModel& known : m_models) names.push_back(known.names.front());
    return names;
}

std::vector<std::string> KnownModels::all_names() const {
    std::vector<std::string> names;
    for (const KnownModel& known : m_models) names.insert(names.end(), known.names.begin(), known.names.end());
    return names;
}

}  // namespace kvloupe
