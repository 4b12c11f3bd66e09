// SPDX-License-Identifier: GPL-3.0-or-later
//
// A number over the rows of a table in the order of their keys, which another order, another value or a missing row changes: what a
// recording file keeps of its own content (table `checks`), so that a flipped bit shows.
#pragma once

#include "engine/record/sql_database.h"

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

class RowCheck {
public:
    void add_null() { add(0x6E756C6C); }
    void add_integer(std::int64_t value) { add(static_cast<std::uint64_t>(value)); }
    void add_real(double value) { add(std::bit_cast<std::uint64_t>(value) ^ 0x7265616C); }
    void add_bytes(std::string_view bytes);
    // Of all columns of the statement's row, as SQLite says their types.
    void add_row(const SqlStatement& row);

    // As SQLite keeps it.
    std::int64_t value() const { return static_cast<std::int64_t>(m_value); }

private:
    // The finishing steps of splitmix64 (Steele, Lea, Flood 2014) over a running value.
    void add(std::uint64_t word) {
        m_value = (m_value ^ word) + 0x9E3779B97F4A7C15u;
        m_value = (m_value ^ (m_value >> 30)) * 0xBF58476D1CE4E5B9u;
        m_value = (m_value ^ (m_value >> 27)) * 0x94D049BB133111EBu;
        m_value ^= m_value >> 31;
    }

    std::uint64_t m_value = 0;
};

struct CheckedRows {
    std::int64_t rows = 0;
    std::int64_t value = 0;

    bool operator==(const CheckedRows&) const = default;
};

// Over the rows that a query answers.
Result<CheckedRows> check_of(SqlDatabase& database, const std::string& sql);

// What is checked of a lane and of the file: name and query. The queries of logs read each row as it was put (BulkInsert).
struct CheckedTable {
    std::string name;
    std::string sql;
};
std::vector<CheckedTable> checked_logs(std::uint32_t lane);
// Of a file of that version.
std::vector<CheckedTable> checked_lists(std::int64_t version);

}  // namespace kvloupe
