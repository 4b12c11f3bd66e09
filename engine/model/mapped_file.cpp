// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace kvloupe {

namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// Closes the descriptor when the mapping is made: a mapping does not need it.
class Descriptor {
public:
    explicit Descriptor(int fd) : m_fd(fd) {}
    ~Descriptor() {
        if (m_fd >= 0) ::close(m_fd);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return m_fd; }

private:
    int m_fd;
};

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
    // O_NONBLOCK: a named pipe must not hang the program; it is refused below.
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0)
        return Error{path + " cannot be opened: " + reason(errno), "Check the path and its permissions."};
    struct stat status {};
    if (::fstat(file.get(), &status) != 0)
        return Error{path + " cannot be read: " + reason(errno), "Check the path and its permissions."};
    if (S_ISDIR(status.st_mode)) return Error{path + " is a folder, not a file", "Give a file."};
    if (!S_ISREG(status.st_mode)) return Error{path + " is not an ordinary file", "Give a file on a disk."};
    if (status.st_size <= 0) return Error{path + " is empty (0 bytes)", "Download or copy the file again."};

    const auto size = static_cast<std::size_t>(status.st_size);
    void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data == MAP_FAILED)
        return Error{path + " cannot be mapped into memory (" + std::to_string(size) + " bytes): " + reason(errno),
                     "Copy the file to a local disk."};
    std::shared_ptr<MappedFile> mapped(new MappedFile);
    mapped->m_path = path;
    mapped->m_data = static_cast<const std::byte*>(data);
    mapped->m_size = size;
    return std::shared_ptr<const MappedFile>(std::move(mapped));
}

MappedFile::~MappedFile() {
    if (m_data) ::munmap(const_cast<std::byte*>(m_data), m_size);
}

}  // namespace kvloupe
