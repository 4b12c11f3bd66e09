// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/sql_database.h"

#include <sqlite3.h>

#include <cctype>
#include <cstring>

namespace kvloupe {

namespace {

std::string_view view_of(const void* data, int size) {
    return data && size > 0 ? std::string_view(static_cast<const char*>(data), static_cast<std::size_t>(size)) : std::string_view();
}

// The path as a file: URI: what has a meaning in URIs is written as %XX.
std::string uri_of(const std::string& path) {
    static constexpr char digits[] = "0123456789ABCDEF";
    std::string uri = "file:";
    for (const char c : path) {
        const auto byte = static_cast<unsigned char>(c);
        const bool plain = std::strchr("/-._~", c) != nullptr || (byte < 0x80 && std::isalnum(byte) != 0);
        if (plain && c != '\0') {
            uri.push_back(c);
        } else {
            uri.push_back('%');
            uri.push_back(digits[byte >> 4]);
            uri.push_back(digits[byte & 15]);
        }
    }
    return uri;
}

Error error_of(sqlite3* database, const std::string& path) {
    const int code = database ? sqlite3_errcode(database) : SQLITE_NOMEM;
    const std::string what = path + ": ";
    switch (code & 0xFF) {
    case SQLITE_FULL: return {what + "the disk is full", "Make room, or choose another folder"};
    case SQLITE_NOTADB: return {what + "this is not a recording: it is no SQLite file", "Choose a file that KVLoupe recorded"};
    case SQLITE_CORRUPT: return {what + "the file is damaged (" + sqlite3_errmsg(database) + ")", "Open a backup, or record the run again"};
    case SQLITE_CANTOPEN: return {what + "the file cannot be opened", "Check its path and the rights on its folder"};
    case SQLITE_READONLY: return {what + "the file cannot be written", "Check the rights on the file and its folder"};
    case SQLITE_IOERR: return {what + "reading or writing failed (" + std::string(sqlite3_errmsg(database)) + ")", "Check the disk"};
    case SQLITE_BUSY: return {what + "another program holds the file", "Close it there"};
    default: return {what + (database ? sqlite3_errmsg(database) : "out of memory"), ""};
    }
}

}  // namespace

void SqlStatement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

void SqlStatement::bind(int index, std::int64_t value) { sqlite3_bind_int64(m_statement.get(), index, value); }
void SqlStatement::bind(int index, double value) { sqlite3_bind_double(m_statement.get(), index, value); }
void SqlStatement::bind_text(int index, std::string_view text) {
    sqlite3_bind_text64(m_statement.get(), index, text.empty() ? "" : text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}
void SqlStatement::bind_bytes(int index, std::string_view bytes) {
    sqlite3_bind_blob64(m_statement.get(), index, bytes.empty() ? "" : bytes.data(), bytes.size(), SQLITE_TRANSIENT);
}
void SqlStatement::bind_null(int index) { sqlite3_bind_null(m_statement.get(), index); }

Result<bool> SqlStatement::step() {
    const int code = sqlite3_step(m_statement.get());
    if (code == SQLITE_ROW) return true;
    sqlite3* const database = sqlite3_db_handle(m_statement.get());
    if (code == SQLITE_DONE) {
        sqlite3_reset(m_statement.get());
        return false;
    }
    const char* const name = sqlite3_db_filename(database, "main");
    Error error = error_of(database, name ? name : "");
    sqlite3_reset(m_statement.get());
    return error;
}

Result<void> SqlStatement::run() {
    for (;;) {
        const auto row = step();
        if (!row) return row.error();
        if (!*row) return {};
    }
}

void SqlStatement::reset() { sqlite3_reset(m_statement.get()); }

std::int64_t SqlStatement::integer(int column) const { return sqlite3_column_int64(m_statement.get(), column); }
double SqlStatement::real(int column) const { return sqlite3_column_double(m_statement.get(), column); }
std::string_view SqlStatement::text(int column) const {
    const void* const text = sqlite3_column_text(m_statement.get(), column);
    return view_of(text, sqlite3_column_bytes(m_statement.get(), column));
}
std::string_view SqlStatement::bytes(int column) const {
    const void* const bytes = sqlite3_column_blob(m_statement.get(), column);
    return view_of(bytes, sqlite3_column_bytes(m_statement.get(), column));
}
bool SqlStatement::is_null(int column) const { return sqlite3_column_type(m_statement.get(), column) == SQLITE_NULL; }
int SqlStatement::columns() const { return sqlite3_column_count(m_statement.get()); }
std::string_view SqlStatement::column_name(int column) const {
    const char* const name = sqlite3_column_name(m_statement.get(), column);
    return name ? name : "";
}

void SqlDatabase::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Result<SqlDatabase> SqlDatabase::open(const std::string& path, const std::string& uri, int flags, const std::string& vfs) {
    sqlite3* handle = nullptr;
    const int code = sqlite3_open_v2(uri.c_str(), &handle, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX,
                                     vfs.empty() ? nullptr : vfs.c_str());
    SqlDatabase database;
    database.m_database.reset(handle);
    database.m_path = path;
    if (code != SQLITE_OK) return error_of(handle, path);
    sqlite3_extended_result_codes(handle, 1);
    return database;
}

Result<SqlDatabase> SqlDatabase::create(const std::string& path, const std::string& vfs) {
    auto database = open(path, uri_of(path), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_EXCLUSIVE, vfs);
    if (!database) return database;
    if (const auto set = database->execute("PRAGMA page_size = 8192; PRAGMA journal_mode = MEMORY;"); !set) return set.error();
    return database;
}

Result<SqlDatabase> SqlDatabase::open_to_append(const std::string& path, const std::string& vfs) {
    auto database = open(path, uri_of(path), SQLITE_OPEN_READWRITE, vfs);
    if (!database) return database;
    // Commits go to a log that is taken over now and then. What the operating system has been given survives the end of the
    // program; only a power cut may cost more, and no order of writes does harm then that reading the log would not see.
    // Where a log cannot be shared SQLite keeps the former mode and says so, or fails with the first transaction.
    {
        auto mode = database->prepare("PRAGMA journal_mode = WAL");
        const auto row = mode ? mode->step() : Result<bool>(mode.error());
        database->m_shared_log = row && *row && mode->text(0) == "wal";
    }
    database->m_shared_log = database->m_shared_log && database->execute("BEGIN IMMEDIATE; COMMIT;");
    if (!database->m_shared_log)
        if (const auto locked = database->execute("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"); !locked) return locked.error();
    const auto set = database->execute("PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 4096; PRAGMA cache_size = -16384;");
    if (!set) return set.error();
    return database;
}

Result<SqlDatabase> SqlDatabase::open_beside(const std::string& path, const std::string& vfs) {
    auto database = open(path, uri_of(path), SQLITE_OPEN_READWRITE, vfs);
    if (!database) return database;
    const auto set = database->execute("PRAGMA synchronous = NORMAL; SELECT count(*) FROM sqlite_schema;");
    if (!set) return set.error();
    return database;
}

bool SqlDatabase::count_log_pages(std::atomic<int>& pages) {
    if (!m_shared_log) return false;
    sqlite3_wal_hook(m_database.get(), [](void* counter, sqlite3*, const char*, int count) {
        static_cast<std::atomic<int>*>(counter)->store(count);
        return SQLITE_OK;
    }, &pages);
    return true;
}

void SqlDatabase::leave_log_pages() { sqlite3_wal_hook(m_database.get(), nullptr, nullptr); }

void SqlDatabase::take_log_over() {
    sqlite3_wal_checkpoint_v2(m_database.get(), "main", SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
}

Result<SqlDatabase> SqlDatabase::open_read_only(const std::string& path) {
    auto database = open(path, uri_of(path) + "?immutable=1", SQLITE_OPEN_READONLY, {});
    if (!database) return database;
    sqlite3* const handle = database->handle();
    sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    const auto set = database->execute("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA query_only = ON; PRAGMA cache_size = -16384;");
    if (!set) return set.error();
    return database;
}

Result<void> SqlDatabase::recover(const std::string& path) {
    auto database = open(path, uri_of(path), SQLITE_OPEN_READWRITE, {});
    if (!database) return database.error();
    sqlite3_db_config(database->handle(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(database->handle(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    return database->execute("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE;");
}

Result<void> SqlDatabase::execute(const char* sql) {
    if (sqlite3_exec(m_database.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) return error();
    return {};
}

Result<SqlStatement> SqlDatabase::prepare(std::string_view sql) {
    sqlite3_stmt* handle = nullptr;
    if (sqlite3_prepare_v3(m_database.get(), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &handle, nullptr) !=
        SQLITE_OK)
        return error();
    SqlStatement statement;
    statement.m_statement.reset(handle);
    return statement;
}

Error SqlDatabase::error() const { return error_of(m_database.get(), m_path); }

}  // namespace kvloupe
