// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/row_check.h"

#include "engine/record/kvt_schema.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>

namespace kvloupe {

void RowCheck::add_bytes(std::string_view bytes) {
    add(bytes.size() ^ 0x62797465);
    for (std::size_t at = 0; at < bytes.size(); at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
        add(word);
    }
}

void RowCheck::add_row(const SqlStatement& row) {
    for (int column = 0; column < row.columns(); ++column) {
        switch (sqlite3_column_type(row.handle(), column)) {
        case SQLITE_NULL: add_null(); break;
        case SQLITE_INTEGER: add_integer(row.integer(column)); break;
        case SQLITE_FLOAT: add_real(row.real(column)); break;
        default: add_bytes(row.bytes(column)); break;
        }
    }
}

Result<CheckedRows> check_of(SqlDatabase& database, const std::string& sql) {
    auto statement = database.prepare(sql);
    if (!statement) return statement.error();
    RowCheck check;
    CheckedRows checked;
    for (;;) {
        const auto row = statement->step();
        if (!row) return row.error();
        if (!*row) break;
        check.add_row(*statement);
        ++checked.rows;
    }
    checked.value = check.value();
    return checked;
}

std::vector<CheckedTable> checked_logs(std::uint32_t lane) {
    std::vector<CheckedTable> tables;
    for (const char* name : {"event_log", "token_log", "alternative_log", "stage_log", "attention_rows"})
        tables.push_back({name, std::string("SELECT * FROM ") + name + " WHERE id >= " + std::to_string(kvt::row_id(lane, 0)) +
                                    " AND id < " + std::to_string(kvt::row_id(lane + 1, 0)) + " ORDER BY id"});
    const std::pair<const char*, const char*> keyed[] = {{"steps", "step"}, {"stage_ranges", "number"}, {"block_states", "step, block"}};
    for (const auto& [name, key] : keyed)
        tables.push_back({name, std::string("SELECT * FROM ") + name + " WHERE lane = " + std::to_string(lane) + " ORDER BY " + key});
    return tables;
}

std::vector<CheckedTable> checked_lists(std::int64_t version) {
    std::vector<CheckedTable> tables;
    const std::pair<const char*, const char*> lists[] = {
        {"meta", "key"}, {"lanes", "lane"}, {"vocabularies", "vocabulary"}, {"vocabulary", "vocabulary, token"}, {"requests", "request"},
        {"sequences", "lane, sequence"}, {"strings", "lane, string"}, {"event_kinds", "kind"}, {"causes", "cause"}, {"stage_kinds", "kind"},
        {"attention_tiles", "id"}};
    for (const auto& [name, key] : lists) tables.push_back({name, std::string("SELECT * FROM ") + name + " ORDER BY " + key});
    tables.push_back({"key_frames", std::string("SELECT lane, step, data FROM key_frames ORDER BY ") + (version == 1 ? "lane, step" : "id")});
    return tables;
}

}  // namespace kvloupe
