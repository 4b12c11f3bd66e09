// SPDX-License-Identifier: GPL-3.0-or-later
//
// A file mapped read-only into memory; tensors are views into it and share its lifetime.
#pragma once

#include "engine/record/result.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace kvloupe {

class MappedFile {
public:
    // Errors: cannot be opened, is a folder, is empty, cannot be mapped.
    static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const { return {m_data, m_size}; }
    const std::string& path() const { return m_path; }

private:
    MappedFile() = default;
    std::string m_path;
    const std::byte* m_data = nullptr;
    std::size_t m_size = 0;
};

}  // namespace kvloupe
