// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/kvt_query.h"

#include "engine/record/describe.h"

#include <sqlite3.h>

#include <cstring>

namespace kvloupe {

namespace {

constexpr int instructions_between_looks = 10'000;  // of SQLite's virtual machine, some 0.1 ms

int allow_reading(void*, int action, const char*, const char* function, const char*, const char*) {
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    case SQLITE_FUNCTION: return function && std::strcmp(function, "load_extension") == 0 ? SQLITE_DENY : SQLITE_OK;
    default: return SQLITE_DENY;
    }
}

struct Watch {
    std::chrono::steady_clock::time_point end;
    const std::stop_token* stop = nullptr;
    bool late = false;
};

int look(void* data) {
    Watch& watch = *static_cast<Watch*>(data);
    if (watch.stop->stop_requested()) return 1;
    watch.late = std::chrono::steady_clock::now() > watch.end;
    return watch.late ? 1 : 0;
}

// describe(lane, event): NULL where there is no such event.
void describe(sqlite3_context* context, int, sqlite3_value** values) {
    const auto& recording = *static_cast<const Recording*>(sqlite3_user_data(context));
    const std::int64_t lane = sqlite3_value_int64(values[0]), event = sqlite3_value_int64(values[1]);
    if (lane < 0 || static_cast<std::size_t>(lane) >= recording.lanes().size()) return sqlite3_result_null(context);
    const LaneRecord& record = *recording.lanes()[static_cast<std::size_t>(lane)];
    if (event < 0 || static_cast<std::size_t>(event) >= record.events().size()) return sqlite3_result_null(context);
    const std::string text = describe_event(recording, record, static_cast<std::uint64_t>(event));
    sqlite3_result_text64(context, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

SqlValue value_of(sqlite3_stmt* statement, int column) {
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER: return std::int64_t{sqlite3_column_int64(statement, column)};
    case SQLITE_FLOAT: return sqlite3_column_double(statement, column);
    case SQLITE_TEXT: {
        const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
        return std::string(text ? text : "", static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
    }
    case SQLITE_BLOB: {
        const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement, column));
        return bytes ? std::vector<std::byte>(bytes, bytes + sqlite3_column_bytes(statement, column)) : std::vector<std::byte>();
    }
    default: return std::monostate();
    }
}

}  // namespace

Result<std::unique_ptr<KvtQuery>> KvtQuery::open(const std::string& path) {
    auto recording = open_kvt(path);
    if (!recording) return recording.error();
    auto store = KvtStore::open(path);
    if (!store) return store.error();
    std::unique_ptr<KvtQuery> query(new KvtQuery());
    query->m_store = std::move(*store);
    query->m_recording = std::move(*recording);
    if (auto ready = query->prepare_connection(); !ready) return ready.error();
    return query;
}

KvtQuery::~KvtQuery() = default;

Result<void> KvtQuery::prepare_connection() {
    sqlite3* const database = m_store->database().handle();
    auto* const recording = const_cast<void*>(static_cast<const void*>(m_recording.recording.get()));
    if (sqlite3_create_function_v2(database, "describe", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, recording, describe,
                                   nullptr, nullptr, nullptr) != SQLITE_OK)
        return m_store->database().error();
    sqlite3_limit(database, SQLITE_LIMIT_LENGTH, 256 << 20);  // of a text that a query builds
    sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_set_authorizer(database, allow_reading, nullptr);
    return m_store->database().execute("SELECT 1");
}

Result<QueryEnd> KvtQuery::run(const std::string& sql, const QueryLimits& limits,
                               const std::function<void(std::vector<std::string>)>& columns,
                               const std::function<void(std::vector<SqlValue>)>& row) {
    const auto lock = m_store->lock();
    sqlite3* const database = m_store->database().handle();
    sqlite3_stmt* handle = nullptr;
    const char* rest = nullptr;
    const int code = sqlite3_prepare_v2(database, sql.c_str(), static_cast<int>(sql.size()), &handle, &rest);
    const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> statement(handle, sqlite3_finalize);
    if (code == SQLITE_AUTH) return Error{"The query would do more than read", "A recording answers SELECT alone"};
    if (code != SQLITE_OK) return Error{"The query is not understood: " + std::string(sqlite3_errmsg(database)), "README, 'The recording file', names tables and columns"};
    if (!handle) return Error{"There is no query", "Give a SELECT statement"};
    if (!sqlite3_stmt_readonly(handle) || sqlite3_column_count(handle) == 0)
        return Error{"The query would do more than read", "A recording answers SELECT alone"};
    if (rest && std::string(rest).find_first_not_of(" \t\r\n;") != std::string::npos)
        return Error{"There is more than one statement", "Give one SELECT"};

    const int count = sqlite3_column_count(handle);
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) {
        const char* name = sqlite3_column_name(handle, i);
        names.emplace_back(name ? name : "");
    }
    columns(std::move(names));

    Watch watch{std::chrono::steady_clock::now() + limits.time, &limits.stop};
    sqlite3_progress_handler(database, instructions_between_looks, look, &watch);
    QueryEnd end;
    int stepped = SQLITE_ROW;
    while ((stepped = sqlite3_step(handle)) == SQLITE_ROW) {
        if (end.rows == limits.rows) {
            end.cut = true;
            break;
        }
        std::vector<SqlValue> values;
        values.reserve(static_cast<std::size_t>(count));
        for (int i = 0; i < count; ++i) values.push_back(value_of(handle, i));
        row(std::move(values));
        ++end.rows;
        if (limits.stop.stop_requested()) break;
    }
    sqlite3_progress_handler(database, 0, nullptr, nullptr);
    if (limits.stop.stop_requested()) return Error{"The query was stopped", ""};
    if (watch.late)
        return Error{"The query took longer than " + std::to_string(limits.time.count() / 1000) + " s and was ended",
                     "Ask for fewer steps (WHERE step BETWEEN …)"};
    if (stepped != SQLITE_ROW && stepped != SQLITE_DONE) return m_store->database().error();
    return end;
}

}  // namespace kvloupe
