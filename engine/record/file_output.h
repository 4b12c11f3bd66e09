// SPDX-License-Identifier: GPL-3.0-or-later
//
// Files that appear whole or not at all: written beside their place, then renamed.
#pragma once

#include "engine/record/result.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvloupe {

// A group of files in one folder. Errors name file and reason; whatever happens, no part of a file stays behind.
class FileOutput {
public:
    explicit FileOutput(std::string folder) : m_folder(std::move(folder)) {}
    ~FileOutput();  // removes what was written and not put in place
    FileOutput(const FileOutput&) = delete;
    FileOutput& operator=(const FileOutput&) = delete;

    Result<void> create_folder();
    Result<void> write(const std::string& name, std::string_view bytes);  // beside its place
    Result<void> put_in_place();                                          // renames all that was written

private:
    std::string m_folder;
    std::vector<std::pair<std::string, std::string>> m_written;  // temporary path, path
};

// Refuses a path that names a folder, a device or anything else that a file must not replace.
Result<void> check_replaceable(const std::string& path);

// One file by the same rule.
Result<void> write_file(const std::string& path, std::string_view bytes);

}  // namespace kvloupe
