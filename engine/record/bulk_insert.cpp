// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/bulk_insert.h"

#include <cmath>

namespace kvloupe {

Result<BulkInsert> BulkInsert::into(SqlDatabase& database, const std::string& table, int columns) {
    std::string row = "(?";
    for (int i = 1; i < columns; ++i) row += ",?";
    row += ")";
    std::string many = row;
    for (std::size_t i = 1; i < rows_per_statement; ++i) many += "," + row;
    BulkInsert insert;
    insert.m_table = table;
    insert.m_columns = columns;
    auto statement = database.prepare("INSERT INTO " + table + " VALUES " + many);
    if (!statement) return statement.error();
    insert.m_many = std::move(*statement);
    statement = database.prepare("INSERT INTO " + table + " VALUES " + row);
    if (!statement) return statement.error();
    insert.m_one = std::move(*statement);
    insert.m_cells.reserve(insert.full());
    return insert;
}

void BulkInsert::put_real(double value) {
    if (std::isnan(value)) return put_null();
    if (value == 0) value = 0;  // SQLite keeps no negative zero
    m_cells.push_back({Kind::real, 0, value});
    m_check.add_real(value);
}

void BulkInsert::put_null() {
    m_cells.push_back({});
    m_check.add_null();
}

Result<void> BulkInsert::write(SqlStatement& statement, const Cell* cells, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        const int parameter = static_cast<int>(i) + 1;
        switch (cells[i].kind) {
        case Kind::null: statement.bind_null(parameter); break;
        case Kind::integer: statement.bind(parameter, cells[i].integer); break;
        case Kind::real: statement.bind(parameter, cells[i].real); break;
        }
    }
    return statement.run();
}

Result<void> BulkInsert::flush() {
    const std::size_t columns = static_cast<std::size_t>(m_columns);
    std::size_t at = 0;
    for (; m_cells.size() - at >= full(); at += full())
        if (auto written = write(m_many, &m_cells[at], full()); !written) return written;
    for (; m_cells.size() - at >= columns; at += columns)
        if (auto written = write(m_one, &m_cells[at], columns); !written) return written;
    m_cells.clear();
    return {};
}

}  // namespace kvloupe
