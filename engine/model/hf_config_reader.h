// SPDX-License-Identifier: GPL-3.0-or-later
//
// Reads the keys of one JSON object of a config.json: spellings, defaults that are noted, bounds, and sentences that name key and
// value. For .cpp files only: it brings nlohmann's header.
#pragma once

#include "engine/model/json_document.h"
#include "engine/model/model.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace kvloupe {

class HfConfigReader {
public:
    // where: begins every sentence ("folder/config.json"). prefix: of keys that are noted as assumed ("rope_scaling.").
    HfConfigReader(const nlohmann::json& object, std::string where, std::vector<std::string>& assumed, std::string prefix = {});

    Error error;  // of the first read that returned false
    bool fail(const std::string& what, const std::string& hint = "Use the config.json that came with the model.");
    // For what is understood but not computed.
    bool refuse(const std::string& what);

    // The first of the spellings that is there and not null.
    const nlohmann::json* find(std::initializer_list<const char*> keys, std::string* used = nullptr) const;
    bool is_null(const char* key) const;  // there, and null
    void assume(const std::string& key, const std::string& value);

    // Each reads one key (the first spelling that is there). Absent: `value` is the default already, and it is noted.
    bool read_count(std::initializer_list<const char*> keys, std::uint64_t limit, std::uint32_t& value);  // 1 to limit
    bool read_count_or_zero(const char* key, std::uint64_t limit, std::uint32_t& value);
    bool read_number(std::initializer_list<const char*> keys, float& value);                              // positive, finite
    bool read_flag(const char* key, bool& value);  // absent: not noted
    bool read_name(const char* key, std::string& value);
    // Absent or null is an error: "has no 'kv_lora_rank', which … needs".
    bool need_count(const char* key, std::uint64_t limit, std::uint32_t& value, const char* needed_by);
    // One count for all layers, or an array of one per layer.
    bool read_counts(std::initializer_list<const char*> keys, std::uint64_t limit, std::uint32_t layers, std::uint32_t fallback,
                     std::vector<std::uint32_t>& values);
    // Absent or null: 0, and nothing is noted.
    bool read_optional_number(std::initializer_list<const char*> keys, float& value);

    const nlohmann::json& object() const { return m_object; }
    const std::string& where() const { return m_where; }
    std::vector<std::string>& assumed() { return m_assumed; }

private:
    bool take_count(const nlohmann::json& found, const std::string& key, std::uint64_t least, std::uint64_t limit,
                    std::uint32_t& value);
    bool take_number(const nlohmann::json& found, const std::string& key, float& value);

    const nlohmann::json& m_object;
    std::string m_where, m_prefix;
    std::vector<std::string>& m_assumed;
};

}  // namespace kvloupe
