// SPDX-License-Identifier: GPL-3.0-or-later
//
// Files that tests read and write.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace kvloupe::test {

inline bool file_exists(const std::string& path) { return std::filesystem::exists(path); }

// The first by its name, of a folder's files that begin and end so; nothing where there is none.
inline std::string first_file(const std::string& folder, std::string_view begin, std::string_view end) {
    std::string first;
    std::error_code absent;
    for (const auto& entry : std::filesystem::directory_iterator(folder, absent)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with(begin) || !name.ends_with(end)) continue;
        if (first.empty() || entry.path().string() < first) first = entry.path().string();
    }
    return first;
}

// Everything in a file; nothing where it cannot be read.
inline std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Replaces what is there. False where that fails.
inline bool write_bytes(const std::string& path, std::string_view bytes) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    return !file.fail();
}

}  // namespace kvloupe::test
