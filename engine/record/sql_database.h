// SPDX-License-Identifier: GPL-3.0-or-later
//
// SqlDatabase, SqlStatement: SQLite behind Result<T>. One connection is used by one thread at a time; who shares it locks.
// Why SQLite: a recording survives a crash, any SQL tool reads it, and its file format is kept for decades.
#pragma once

#include "engine/record/result.h"

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
    // A file that is there, to be written at length: with a log beside it until it is closed, locked for others.
    static Result<SqlDatabase> open_to_append(const std::string& path, const std::string& vfs = {});
    // A file that is only read: no lock is taken and no file made beside it, so it must not be written meanwhile. With SQLite's
    // defensive settings: the schema is not trusted, damaged cells are refused.
    static Result<SqlDatabase> open_read_only(const std::string& path);
    // A file that was not closed: what stands in its log is taken over. Writes the file.
    static Result<void> recover(const std::string& path);

    Result<void> execute(const char* sql);
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
};

}  // namespace kvloupe
