// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace kvloupe::test {

// A folder of its own that goes with what was put into it.
class TemporaryFolder {
public:
    TemporaryFolder() : m_path((std::filesystem::temp_directory_path() / "kvloupe-test-XXXXXX").string()) {
        if (mkdtemp(m_path.data()) == nullptr) throw std::runtime_error("no temporary folder can be made: " + m_path);
    }
    ~TemporaryFolder() {
        std::error_code failed;
        std::filesystem::remove_all(m_path, failed);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    const std::string& path() const { return m_path; }
    std::string file(const std::string& name) const { return m_path + "/" + name; }

private:
    std::string m_path;
};

}  // namespace kvloupe::test
