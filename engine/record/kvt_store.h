// SPDX-License-Identifier: GPL-3.0-or-later
//
// A recording file that is open for reading: one connection that several logs read from, whatever thread asks.
#pragma once

#include "engine/record/sql_database.h"

#include <memory>
#include <mutex>
#include <string>

namespace kvloupe {

class KvtStore {
public:
    // A file that was not closed is recovered into a copy, which ends with this object; the file stays as it is.
    // Errors: no such file, no recording, a newer version, damage that SQLite notices at once.
    static Result<std::shared_ptr<KvtStore>> open(const std::string& path);
    ~KvtStore();
    KvtStore(const KvtStore&) = delete;
    KvtStore& operator=(const KvtStore&) = delete;

    // While it is locked the caller may use the database and its statements.
    [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(m_mutex); }
    SqlDatabase& database() { return m_database; }

    bool recovered() const { return !m_copy.empty(); }
    const std::string& path() const { return m_path; }
    // Remembers the first thing that could not be read; under lock() or not.
    void set_damage(const std::string& sentence);
    std::string damage() const;

private:
    KvtStore() = default;
    Result<void> copy_and_recover();
    Result<void> check_kind();

    std::string m_path;
    std::string m_copy;  // folder of the recovered copy, or ""
    std::mutex m_mutex;
    SqlDatabase m_database;
    mutable std::mutex m_damage_mutex;
    std::string m_damage;
};

}  // namespace kvloupe
