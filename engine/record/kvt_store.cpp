// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/kvt_store.h"

#include "engine/record/kvt_schema.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace kvloupe {

namespace {

namespace fs = std::filesystem;

const char* const choose_another = "Choose a file that KVLoupe recorded";

bool is_sqlite(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::array<char, 16> head{};
    file.read(head.data(), head.size());
    return file.gcount() == 16 && std::memcmp(head.data(), "SQLite format 3", 16) == 0;
}

// The number that a pragma answers, or an error.
Result<std::int64_t> number_of(SqlDatabase& database, const char* pragma) {
    auto statement = database.prepare(pragma);
    if (!statement) return statement.error();
    const auto row = statement->step();
    if (!row) return row.error();
    return *row ? statement->integer(0) : 0;
}

}  // namespace

Result<std::shared_ptr<KvtStore>> KvtStore::open(const std::string& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) return Error{path + ": there is no such file", "Check the name"};
    if (!fs::is_regular_file(status)) return Error{path + ": this is not a file", choose_another};
    if (!is_sqlite(path)) return Error{path + ": this is not a recording (no SQLite file)", choose_another};
    std::shared_ptr<KvtStore> store(new KvtStore());
    store->m_path = path;
    const bool log = fs::exists(path + "-wal", error) && fs::file_size(path + "-wal", error) > 0;
    if (log)
        if (auto recovered = store->copy_and_recover(); !recovered) return recovered.error();
    auto database = SqlDatabase::open_read_only(log ? store->m_copy + "/recording.kvt" : path);
    if (!database) return database.error();
    store->m_databases[0] = std::move(*database);
    if (auto kind = store->check_kind(); !kind) return kind.error();
    return store;
}

KvtStore::~KvtStore() {
    m_databases = {};
    std::error_code error;
    if (!m_copy.empty()) fs::remove_all(m_copy, error);
}

Result<void> KvtStore::copy_and_recover() {
    std::error_code error;
    const fs::path temporary = fs::temp_directory_path(error);
    std::string folder = (temporary / "kvloupe-XXXXXX").string();
    if (error || !mkdtemp(folder.data()))
        return Error{m_path + ": the recording was not closed, and no folder for a recovered copy can be made in " + temporary.string(),
                     "Set TMPDIR to a folder that can be written"};
    m_copy = folder;
    for (const char* end : {"", "-wal"}) {
        fs::copy_file(m_path + end, m_copy + "/recording.kvt" + end, error);
        if (error)
            return Error{m_path + ": the recording was not closed, and it cannot be copied for recovery to " + m_copy + " (" + error.message() + ")",
                         "Make room there, or set TMPDIR to another folder"};
    }
    if (auto recovered = SqlDatabase::recover(m_copy + "/recording.kvt"); !recovered)
        return Error{m_path + ": the recording was not closed, and recovery failed: " + recovered.error().sentence, recovered.error().hint};
    return {};
}

Result<void> KvtStore::check_kind() {
    const auto kind = number_of(m_databases[0], "PRAGMA application_id");
    if (!kind) return kind.error();
    if (*kind != kvt::application_id) return Error{m_path + ": this SQLite file is not a recording", choose_another};
    const auto version = number_of(m_databases[0], "PRAGMA user_version");
    if (!version) return version.error();
    if (*version < 1)
        return Error{m_path + ": it says version " + std::to_string(*version) + ", which no recording has", choose_another};
    if (*version > kvt::version)
        return Error{m_path + ": its version " + std::to_string(*version) + " is newer than this program, which reads up to " +
                         std::to_string(kvt::version),
                     "Open it with a newer KVLoupe"};
    m_version = *version;
    return {};
}

Result<SqlStatement> KvtStore::prepare(std::size_t connection, const std::string& sql) {
    if (!m_databases[connection].handle()) {
        auto database = SqlDatabase::open_read_only(m_databases[0].path());
        if (!database) return database.error();
        m_databases[connection] = std::move(*database);
    }
    return m_databases[connection].prepare(sql);
}

void KvtStore::set_damage(const std::string& sentence) {
    const std::lock_guard lock(m_damage_mutex);
    if (m_damage.empty()) m_damage = sentence;
}

std::string KvtStore::damage() const {
    const std::lock_guard lock(m_damage_mutex);
    return m_damage;
}

Result<KvtStatement> KvtStatement::of(std::shared_ptr<KvtStore> store, std::string sql) {
    KvtStatement statement(std::move(store), std::move(sql));
    const auto lock = statement.m_store->lock();
    auto first = statement.m_store->prepare(0, statement.m_sql);
    if (!first) return first.error();
    statement.m_statements[0] = std::move(*first);
    return statement;
}

KvtStatement::~KvtStatement() {
    for (std::size_t connection = 0; m_store && connection < KvtStore::connections; ++connection) {
        const auto lock = m_store->lock(connection);
        m_statements[connection] = SqlStatement();
    }
}

bool KvtStatement::ready(std::size_t connection) {
    if (m_statements[connection].handle()) return true;
    auto statement = m_store->prepare(connection, m_sql);
    if (statement) m_statements[connection] = std::move(*statement);
    else m_store->set_damage(statement.error().message());
    return m_statements[connection].handle() != nullptr;
}

}  // namespace kvloupe
