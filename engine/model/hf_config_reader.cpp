// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/hf_config_reader.h"

#include "engine/model/message.h"

#include <cmath>
#include <utility>

namespace kvloupe {

using nlohmann::json;

HfConfigReader::HfConfigReader(const json& object, std::string where, std::vector<std::string>& assumed, std::string prefix)
    : m_object(object), m_where(std::move(where)), m_prefix(std::move(prefix)), m_assumed(assumed) {}

bool HfConfigReader::fail(const std::string& what, const std::string& hint) {
    error = {m_where + ": " + what, hint};
    return false;
}

bool HfConfigReader::refuse(const std::string& what) {
    return fail(what, "KVLoupe reads models without it; other forms are not built yet.");
}

const json* HfConfigReader::find(std::initializer_list<const char*> keys, std::string* used) const {
    for (const char* key : keys) {
        const auto found = m_object.find(key);
        if (found == m_object.end() || found->is_null()) continue;
        if (used) *used = key;
        return &*found;
    }
    return nullptr;
}

bool HfConfigReader::is_null(const char* key) const {
    const auto found = m_object.find(key);
    return found != m_object.end() && found->is_null();
}

void HfConfigReader::assume(const std::string& key, const std::string& value) {
    m_assumed.push_back(m_prefix + key + " = " + value + " (not in config.json)");
}

bool HfConfigReader::take_count(const json& found, const std::string& key, std::uint64_t least, std::uint64_t limit,
                                std::uint32_t& value) {
    if (!found.is_number_integer()) return fail("key " + in_quotes(key) + " is " + describe(found) + ", not an integer");
    if (!found.is_number_unsigned() || found.get<std::uint64_t>() < least || found.get<std::uint64_t>() > limit)
        return fail("key " + in_quotes(key) + " is " + describe(found) + ", outside " + std::to_string(least) + " to " +
                    grouped(limit));
    value = static_cast<std::uint32_t>(found.get<std::uint64_t>());
    return true;
}

bool HfConfigReader::take_number(const json& found, const std::string& key, float& value) {
    if (!found.is_number() || !(found.get<double>() > 0) || !std::isfinite(static_cast<float>(found.get<double>())))
        return fail("key " + in_quotes(key) + " is " + describe(found) + ", not a positive number");
    value = static_cast<float>(found.get<double>());
    return true;
}

bool HfConfigReader::read_count(std::initializer_list<const char*> keys, std::uint64_t limit, std::uint32_t& value) {
    std::string key = *keys.begin();
    if (const json* const found = find(keys, &key)) return take_count(*found, key, 1, limit, value);
    assume(key, std::to_string(value));
    return true;
}

bool HfConfigReader::read_count_or_zero(const char* key, std::uint64_t limit, std::uint32_t& value) {
    if (const json* const found = find({key})) return take_count(*found, key, 0, limit, value);
    assume(key, std::to_string(value));
    return true;
}

bool HfConfigReader::need_count(const char* key, std::uint64_t limit, std::uint32_t& value, const char* needed_by) {
    if (const json* const found = find({key})) return take_count(*found, key, 1, limit, value);
    return fail("has no " + in_quotes(key) + ", which " + needed_by + " needs");
}

bool HfConfigReader::read_counts(std::initializer_list<const char*> keys, std::uint64_t limit, std::uint32_t layers,
                                 std::uint32_t fallback, std::vector<std::uint32_t>& values) {
    values.assign(layers, fallback);
    std::string key = *keys.begin();
    const json* const found = find(keys, &key);
    if (!found) {
        assume(key, std::to_string(fallback));
        return true;
    }
    if (!found->is_array()) {
        std::uint32_t value = 0;
        if (!take_count(*found, key, 1, limit, value)) return false;
        values.assign(layers, value);
        return true;
    }
    if (found->size() != layers)
        return fail("key " + in_quotes(key) + " is an array of " + grouped(found->size()) + " counts for " + grouped(layers) +
                    " layers");
    for (std::uint32_t i = 0; i < layers; ++i)
        if (!take_count((*found)[i], key, 1, limit, values[i])) return false;
    return true;
}

bool HfConfigReader::read_number(std::initializer_list<const char*> keys, float& value) {
    std::string key = *keys.begin();
    if (const json* const found = find(keys, &key)) return take_number(*found, key, value);
    assume(key, shortest(value));
    return true;
}

bool HfConfigReader::read_optional_number(std::initializer_list<const char*> keys, float& value) {
    value = 0;
    std::string key;
    const json* const found = find(keys, &key);
    return !found || take_number(*found, key, value);
}

bool HfConfigReader::read_flag(const char* key, bool& value) {
    const json* const found = find({key});
    if (!found) return true;
    if (!found->is_boolean()) return fail("key " + in_quotes(key) + " is " + describe(*found) + ", not true or false");
    value = found->get<bool>();
    return true;
}

bool HfConfigReader::read_name(const char* key, std::string& value) {
    const json* const found = find({key});
    if (!found) {
        assume(key, value);
        return true;
    }
    if (!found->is_string()) return fail("key " + in_quotes(key) + " is " + describe(*found) + ", not a string");
    value = found->get<std::string>();
    return true;
}

}  // namespace kvloupe
