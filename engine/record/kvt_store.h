// SPDX-License-Identifier: GPL-3.0-or-later
//
// A recording file that is open for reading, by several logs and threads: a connection for each kind of reading (reading_as.h).
#pragma once

#include "engine/record/reading_as.h"
#include "engine/record/sql_database.h"

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace kvloupe {

class KvtStore {
public:
    // A file that was not closed is recovered into a copy, which ends with this object; the file stays as it is.
    // Errors: no such file, no recording, a newer version, damage that SQLite notices at once.
    static Result<std::shared_ptr<KvtStore>> open(const std::string& path);
    ~KvtStore();
    KvtStore(const KvtStore&) = delete;
    KvtStore& operator=(const KvtStore&) = delete;

    static constexpr std::size_t connections = reading_kinds;
    // The calling thread's.
    static std::size_t own_connection() { return static_cast<std::size_t>(ReadingAs::here()); }

    // While a connection is locked the caller may use its database and its statements.
    [[nodiscard]] std::unique_lock<std::mutex> lock(std::size_t connection = 0) { return std::unique_lock(m_mutexes[connection]); }
    SqlDatabase& database() { return m_databases[0]; }
    // A statement of that connection, which is opened with the first one. Under lock(connection).
    Result<SqlStatement> prepare(std::size_t connection, const std::string& sql);

    bool recovered() const { return !m_copy.empty(); }
    std::int64_t version() const { return m_version; }  // of the tables
    const std::string& path() const { return m_path; }
    // Remembers the first thing that could not be read; under lock() or not.
    void set_damage(const std::string& sentence);
    std::string damage() const;

private:
    KvtStore() = default;
    Result<void> copy_and_recover();
    Result<void> check_kind();

    std::string m_path;
    std::int64_t m_version = 0;
    std::string m_copy;  // folder of the recovered copy, or ""
    std::array<std::mutex, connections> m_mutexes;
    std::array<SqlDatabase, connections> m_databases;
    mutable std::mutex m_damage_mutex;
    std::string m_damage;
};

// One query of a store, prepared once for each connection that asks it.
class KvtStatement {
public:
    static Result<KvtStatement> of(std::shared_ptr<KvtStore> store, std::string sql);
    ~KvtStatement();
    KvtStatement(KvtStatement&&) = default;
    KvtStatement& operator=(KvtStatement&&) = delete;

    // use(SqlStatement&) with the calling thread's, while its connection is locked. Not at all where it cannot be prepared, which
    // becomes the store's damage.
    template <class Use>
    void with(Use use) {
        const std::size_t connection = KvtStore::own_connection();
        const auto lock = m_store->lock(connection);
        if (ready(connection)) use(m_statements[connection]);
    }
    KvtStore& store() const { return *m_store; }

private:
    KvtStatement(std::shared_ptr<KvtStore> store, std::string sql) : m_store(std::move(store)), m_sql(std::move(sql)) {}
    bool ready(std::size_t connection);

    std::shared_ptr<KvtStore> m_store;
    std::string m_sql;
    std::array<SqlStatement, KvtStore::connections> m_statements;
};

}  // namespace kvloupe
