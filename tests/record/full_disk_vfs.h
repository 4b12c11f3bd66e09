// SPDX-License-Identifier: GPL-3.0-or-later
//
// A file system of SQLite's that runs full: the usual one, until so many writes have been done, in all files together.
#pragma once

#include <sqlite3.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

namespace kvloupe::test {

class FullDiskVfs {
public:
    explicit FullDiskVfs(std::string name) : m_name(std::move(name)), m_real(sqlite3_vfs_find(nullptr)) {
        m_vfs = *m_real;
        m_vfs.zName = m_name.c_str();
        m_vfs.pAppData = this;
        m_vfs.szOsFile = static_cast<int>(sizeof(File)) + m_real->szOsFile;
        m_vfs.xOpen = &FullDiskVfs::open;
        m_vfs.pNext = nullptr;
        sqlite3_vfs_register(&m_vfs, 0);
    }
    ~FullDiskVfs() { sqlite3_vfs_unregister(&m_vfs); }
    FullDiskVfs(const FullDiskVfs&) = delete;
    FullDiskVfs& operator=(const FullDiskVfs&) = delete;

    const std::string& name() const { return m_name; }
    void full_after(std::int64_t writes) { m_left = writes; }
    std::int64_t left() const { return m_left; }

private:
    struct File {
        sqlite3_file base;
        FullDiskVfs* disk;
    };
    static File* mine(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
    static sqlite3_file* real(sqlite3_file* file) { return reinterpret_cast<sqlite3_file*>(mine(file) + 1); }

    static int open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out) {
        auto* const disk = static_cast<FullDiskVfs*>(vfs->pAppData);
        mine(file)->disk = disk;
        std::memset(real(file), 0, static_cast<std::size_t>(disk->m_real->szOsFile));
        const int code = disk->m_real->xOpen(disk->m_real, name, real(file), flags, out);
        file->pMethods = code == SQLITE_OK ? methods() : nullptr;
        return code;
    }
    static int write(sqlite3_file* file, const void* data, int size, sqlite3_int64 at) {
        if (mine(file)->disk->m_left.fetch_sub(1) <= 0) return SQLITE_FULL;
        return real(file)->pMethods->xWrite(real(file), data, size, at);
    }
    // All else as the real one has it.
    static const sqlite3_io_methods* methods() {
        static const sqlite3_io_methods all = {
            2,
            [](sqlite3_file* f) { return real(f)->pMethods->xClose(real(f)); },
            [](sqlite3_file* f, void* d, int n, sqlite3_int64 at) { return real(f)->pMethods->xRead(real(f), d, n, at); },
            &FullDiskVfs::write,
            [](sqlite3_file* f, sqlite3_int64 size) { return real(f)->pMethods->xTruncate(real(f), size); },
            [](sqlite3_file* f, int flags) { return real(f)->pMethods->xSync(real(f), flags); },
            [](sqlite3_file* f, sqlite3_int64* size) { return real(f)->pMethods->xFileSize(real(f), size); },
            [](sqlite3_file* f, int lock) { return real(f)->pMethods->xLock(real(f), lock); },
            [](sqlite3_file* f, int lock) { return real(f)->pMethods->xUnlock(real(f), lock); },
            [](sqlite3_file* f, int* out) { return real(f)->pMethods->xCheckReservedLock(real(f), out); },
            [](sqlite3_file* f, int op, void* arg) { return real(f)->pMethods->xFileControl(real(f), op, arg); },
            [](sqlite3_file* f) { return real(f)->pMethods->xSectorSize(real(f)); },
            [](sqlite3_file* f) { return real(f)->pMethods->xDeviceCharacteristics(real(f)); },
            [](sqlite3_file* f, int page, int size, int extend, void volatile** out) {
                return real(f)->pMethods->xShmMap(real(f), page, size, extend, out);
            },
            [](sqlite3_file* f, int offset, int n, int flags) { return real(f)->pMethods->xShmLock(real(f), offset, n, flags); },
            [](sqlite3_file* f) { real(f)->pMethods->xShmBarrier(real(f)); },
            [](sqlite3_file* f, int remove) { return real(f)->pMethods->xShmUnmap(real(f), remove); },
            nullptr,
            nullptr,
        };
        return &all;
    }

    std::string m_name;
    sqlite3_vfs* m_real;
    sqlite3_vfs m_vfs{};
    std::atomic<std::int64_t> m_left{INT64_MAX};
};

}  // namespace kvloupe::test
