// SPDX-License-Identifier: GPL-3.0-or-later
//
// SqlDatabase, SqlStatement: SQLite behind Result<T>. One connection is used by one thread at a time; who shares it locks.
// Why SQLite: a recording survives a crash, any SQL tool reads it, and its file format is kept for decades.
#pragma once

#include "engine/record/result.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace kvloupe {

class SqlStatement {
public:
    SqlStatement() = default;

    // Parameters count from 1. What is bound stays until it is bound anew.
    void bind(int index, std::int64_t value);
    void bind(int index, double value);
    void bind_text(int index, std::string_view text);
    void bind_bytes(int index, std::string_view bytes);
    void bind_null(int index);

    // True: a row is there. After an error or the last row the statement begins anew with the next call.
    Result<bool> step();
    // For a statement without rows: runs it to its end.
    Result<void> run();
    void reset();

    // Of the row; columns count from 0. What is NULL or of another type is 0 or empty, as SQLite converts it.
    std::int64_t integer(int column) const;
    double real(int column) const;
    std::string_view text(int column) const;   // valid until the next step
    std::string_view bytes(int column) const;  // valid until the next step
    bool is_null(int column) const;
    int columns() const;
    std::string_view column_name(int column) const;

    sqlite3_stmt* handle() const { return m_statement.get(); }

private:
    friend class SqlDatabase;
    struct Finalize {
        void operator()(sqlite3_stmt* statement) const;
    };
    std::unique_ptr<sqlite3_stmt, Finalize> m_statement;
};

class SqlDatabase {
public:
    SqlDatabase() = default;

    // A new file; it must not be there yet. vfs: the name of SQLite's file system to use, "" for the usual one.
    static Result<SqlDatabase> create(const std::string& path, const std::string& vfs = {});
    // A file that is there, to be written at length: with a log beside it until it is closed. Others may read meanwhile; where the
    // file system has no memory that programs share, it is locked for them.
    static Result<SqlDatabase> open_to_append(const std::string& path, const std::string& vfs = {});
    // A second connection to a file that is being written so. Error: also where it is locked.
    static Result<SqlDatabase> open_beside(const std::string& path, const std::string& vfs = {});
    // A file that is only read: no lock is taken and no file made beside it, so it must not be written meanwhile. With SQLite's
    // defensive settings: the schema is not trusted, damaged cells are refused.
    static Result<SqlDatabase> open_read_only(const std::string& path);
    // A file that was not closed: what stands in its log is taken over. Writes the file.
    static Result<void> recover(const std::string& path);

    Result<void> execute(const char* sql);

    // From here on `pages` is how many pages the log had after the newest commit, and the log is no longer taken over by commits.
    // False: it is locked for others, and commits go on doing so. Until leave_log_pages(); this object is not moved meanwhile.
    bool count_log_pages(std::atomic<int>& pages);
    void leave_log_pages();
    // Takes over what other connections have committed to the log, as far as none of them is in the way.
    void take_log_over();
    Result<SqlStatement> prepare(std::string_view sql);

    // An error of the newest call, with the file's name.
    Error error() const;
    const std::string& path() const { return m_path; }
    sqlite3* handle() const { return m_database.get(); }

private:
    struct Close {
        void operator()(sqlite3* database) const;
    };
    static Result<SqlDatabase> open(const std::string& path, const std::string& uri, int flags, const std::string& vfs);

    std::unique_ptr<sqlite3, Close> m_database;
    std::string m_path;
    bool m_shared_log = false;  // open_to_append(): others may open it too
};

}  // namespace kvloupe
