// SPDX-License-Identifier: GPL-3.0-or-later
//
// Reads keys of a GGUF file's metadata: bounds, defaults that are noted, and sentences that name key and value. Keys of the
// architecture are given without its name: "block_count" is "llama.block_count".
#pragma once

#include "engine/model/gguf.h"
#include "engine/model/model.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe {

class GgufConfigReader {
public:
    GgufConfigReader(const GgufFile& file, std::vector<std::string>& assumed) : m_file(file), m_assumed(assumed) {}
    void use_architecture(const std::string& name) { m_prefix = name + "."; }

    Error error;  // of the first read that returned false
    bool fail(const std::string& what, const std::string& hint = "Convert the model again, or use another file of it.");
    // For what is understood but not computed.
    bool refuse(const std::string& what);

    const GgufFile& file() const { return m_file; }
    std::string full(const std::string& key) const { return m_prefix + key; }
    const GgufValue* find(const std::string& key) const;  // of the architecture
    bool has(const std::string& key) const { return find(key) != nullptr; }
    void assume(const std::string& key, const std::string& value);

    bool check_count(const std::string& name, std::uint64_t number, std::uint64_t limit, std::uint32_t& value);
    bool need_count(const std::string& key, std::uint64_t limit, std::uint32_t& value);            // absent: an error
    bool read_count(const std::string& key, std::uint64_t limit, std::uint32_t& value);            // absent: noted
    // Absent: not noted. 0 is allowed.
    bool read_optional_count(const std::string& key, std::uint64_t limit, std::uint32_t& value);
    // One count, or an array of one per layer. Absent: an error.
    bool need_counts(const std::string& key, std::uint64_t limit, std::uint32_t layers, std::vector<std::uint32_t>& values);
    bool need_number(const std::string& key, float& value);
    bool read_number(const std::string& key, float& value);           // absent: noted
    bool read_optional_number(const std::string& key, float& value);  // absent: not noted
    bool read_flag(const std::string& key, bool& value);              // absent: not noted

private:
    const GgufFile& m_file;
    std::vector<std::string>& m_assumed;
    std::string m_prefix;
};

}  // namespace kvloupe
