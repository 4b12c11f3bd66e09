// SPDX-License-Identifier: GPL-3.0-or-later
//
// Files that tests read and write.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::test {

inline bool file_exists(const std::string& path) { return std::filesystem::exists(path); }

// The names of what a folder holds, in order, of those that begin and end so; none where the folder is absent.
inline std::vector<std::string> names_in(const std::string& folder, std::string_view begin = "", std::string_view end = "") {
    std::vector<std::string> names;
    std::error_code absent;
    for (const auto& entry : std::filesystem::directory_iterator(folder, absent)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with(begin) && name.ends_with(end)) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
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
