// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/file_output.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace kvloupe {

namespace {

Error file_error(const std::string& path, int code) {
    Error error{path + " cannot be written: " + std::strerror(code), ""};
    switch (code) {
    case ENOSPC:
    case EDQUOT: error.hint = "Free some space on that disk or choose another folder."; break;
    case EROFS:
    case EACCES:
    case EPERM: error.hint = "Choose a folder that you may write to."; break;
    case ENOTDIR:
    case EEXIST: error.hint = "A file stands where a folder is needed; choose another folder."; break;
    case ENAMETOOLONG: error.hint = "Choose a shorter name."; break;
    case EFBIG: error.hint = "Files may not grow that large here; choose another folder."; break;
    default: error.hint = "Choose another folder."; break;
    }
    return error;
}

int write_all(const std::string& path, std::string_view bytes) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) return errno;
    int code = 0;
    for (std::size_t done = 0; done < bytes.size() && code == 0;) {
        const ssize_t count = ::write(file, bytes.data() + done, bytes.size() - done);
        if (count > 0) done += static_cast<std::size_t>(count);
        else if (count < 0 && errno != EINTR) code = errno;
        else if (count == 0) code = EIO;
    }
    if (code == 0 && ::fsync(file) != 0 && errno != EINVAL && errno != EROFS) code = errno;
    if (::close(file) != 0 && code == 0 && errno != EINTR) code = errno;
    if (code != 0) ::unlink(path.c_str());
    return code;
}

}  // namespace

FileOutput::~FileOutput() {
    for (const auto& [temporary, path] : m_written) ::unlink(temporary.c_str());
}

Result<void> FileOutput::create_folder() {
    std::error_code code;
    std::filesystem::create_directories(m_folder, code);
    if (code) return file_error(m_folder, code.value());
    if (!std::filesystem::is_directory(m_folder, code)) return file_error(m_folder, ENOTDIR);
    return {};
}

Result<void> FileOutput::write(const std::string& name, std::string_view bytes) {
    const std::string path = m_folder + "/" + name;
    std::error_code code;
    if (std::filesystem::is_directory(path, code)) return file_error(path, EISDIR);
    const std::string temporary = path + "." + std::to_string(::getpid()) + ".part";
    ::unlink(temporary.c_str());  // left by a process of the same number that was killed
    if (const int failed = write_all(temporary, bytes)) return file_error(path, failed);
    m_written.emplace_back(temporary, path);
    return {};
}

Result<void> FileOutput::put_in_place() {
    while (!m_written.empty()) {
        const auto& [temporary, path] = m_written.front();
        if (::rename(temporary.c_str(), path.c_str()) != 0) return file_error(path, errno);
        m_written.erase(m_written.begin());
    }
    return {};
}

Result<void> check_replaceable(const std::string& path) {
    std::error_code code;
    const std::filesystem::file_status there = std::filesystem::status(path, code);
    if (!std::filesystem::exists(there) || std::filesystem::is_regular_file(there)) return {};
    return Error{path + " cannot be written: what has this name is no file", "Choose another name"};
}

Result<void> write_file(const std::string& path, std::string_view bytes) {
    std::filesystem::path place(path);
    std::error_code code;
    if (std::filesystem::is_symlink(place, code)) {  // the link stays, what it names is written
        place = std::filesystem::weakly_canonical(place, code);
        if (code) return file_error(path, code.value());
    }
    if (auto free = check_replaceable(path); !free) return free;
    FileOutput output(place.has_parent_path() ? place.parent_path().string() : std::string("."));
    if (auto written = output.write(place.filename().string(), bytes); !written) return written;
    return output.put_in_place();
}

}  // namespace kvloupe
