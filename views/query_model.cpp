// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/query_model.h"

#include "views/format.h"
#include "views/table_picture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvloupe {

namespace {

constexpr int bytes_shown = 24;

// NULL, then numbers, then texts, then bytes.
int rankOf(const SqlValue& value) {
    constexpr int ranks[] = {0, 1, 1, 2, 3};
    return ranks[value.index()];
}

bool lessThan(const SqlValue& a, const SqlValue& b) {
    if (rankOf(a) != rankOf(b)) return rankOf(a) < rankOf(b);
    const auto *x = std::get_if<std::int64_t>(&a), *y = std::get_if<std::int64_t>(&b);
    if (x && y) return *x < *y;
    if (const auto m = sqlNumber(a), n = sqlNumber(b); m && n) return *m < *n;
    return a < b;
}

}  // namespace

QString sqlText(const SqlValue& value) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return QString::number(*integer);
    if (const auto* real = std::get_if<double>(&value)) return QString::number(*real, 'g', 12);
    if (const auto* text = std::get_if<std::string>(&value)) return QString::fromStdString(*text);
    if (const auto* bytes = std::get_if<std::vector<std::byte>>(&value))
        return QString::fromLatin1(QByteArray(reinterpret_cast<const char*>(bytes->data()), static_cast<qsizetype>(bytes->size())).toHex());
    return {};
}

std::optional<double> sqlNumber(const SqlValue& value) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
    if (const auto* real = std::get_if<double>(&value); real && std::isfinite(*real)) return *real;
    return {};
}

void QueryModel::show(QueryAnswer answer) {
    beginResetModel();
    m_answer = std::move(answer);
    m_order.resize(m_answer.rows.size());
    std::iota(m_order.begin(), m_order.end(), 0u);
    endResetModel();
}

const SqlValue& QueryModel::value(int row, int column) const {
    return m_answer.rows[m_order[static_cast<std::size_t>(row)]][static_cast<std::size_t>(column)];
}

int QueryModel::columnNamed(const QString& name) const {
    for (std::size_t i = 0; i < m_answer.columns.size(); ++i)
        if (QString::fromStdString(m_answer.columns[i]).compare(name, Qt::CaseInsensitive) == 0) return static_cast<int>(i);
    return -1;
}

std::optional<std::int64_t> QueryModel::integer(int row, int column) const {
    if (row < 0 || row >= rowCount() || column < 0 || column >= columnCount()) return {};
    const auto* integer = std::get_if<std::int64_t>(&value(row, column));
    return integer ? std::optional(*integer) : std::nullopt;
}

std::vector<int> QueryModel::numericColumns() const {
    std::vector<int> columns;
    for (int column = 0; column < columnCount(); ++column) {
        if (column == columnNamed(QStringLiteral("step")) || column == columnNamed(QStringLiteral("lane"))) continue;
        bool number = false, other = false;
        for (const auto& row : m_answer.rows) {
            const SqlValue& cell = row[static_cast<std::size_t>(column)];
            number = number || sqlNumber(cell).has_value();
            other = other || rankOf(cell) > 1;
        }
        if (number && !other) columns.push_back(column);
    }
    return columns;
}

int QueryModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(m_order.size()); }

int QueryModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(m_answer.columns.size()); }

QVariant QueryModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount() || index.column() >= columnCount()) return {};
    const SqlValue& cell = value(index.row(), index.column());
    switch (role) {
    case Qt::DisplayRole: {
        const QString text = sqlText(cell);
        const bool bytes = std::holds_alternative<std::vector<std::byte>>(cell);
        return bytes && text.size() > 2 * bytes_shown ? text.left(2 * bytes_shown) + QStringLiteral("…") : text;
    }
    case Qt::AccessibleTextRole:
    case csvRole: return sqlText(cell);
    case Qt::ToolTipRole: return std::holds_alternative<std::string>(cell) ? QVariant(sqlText(cell)) : QVariant();
    case Qt::TextAlignmentRole: return static_cast<int>((sqlNumber(cell) ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    default: return {};
    }
}

QVariant QueryModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || section < 0 || section >= columnCount()) return {};
    if (role == Qt::DisplayRole || role == csvRole) return QString::fromStdString(m_answer.columns[static_cast<std::size_t>(section)]);
    if (role == Qt::TextAlignmentRole) {
        const bool number = rowCount() > 0 && sqlNumber(value(0, section)).has_value();
        return static_cast<int>((number ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    }
    return {};
}

void QueryModel::sort(int column, Qt::SortOrder order) {
    if (column >= columnCount()) return;
    Q_EMIT layoutAboutToBeChanged({}, VerticalSortHint);
    const std::vector<std::uint32_t> before = m_order;
    std::iota(m_order.begin(), m_order.end(), 0u);
    if (column >= 0) {
        const auto& rows = m_answer.rows;
        const auto at = static_cast<std::size_t>(column);
        std::stable_sort(m_order.begin(), m_order.end(), [&](std::uint32_t a, std::uint32_t b) {
            return order == Qt::AscendingOrder ? lessThan(rows[a][at], rows[b][at]) : lessThan(rows[b][at], rows[a][at]);
        });
    }
    std::vector<int> place(m_order.size());
    for (std::size_t i = 0; i < m_order.size(); ++i) place[m_order[i]] = static_cast<int>(i);
    const QModelIndexList moved = persistentIndexList();
    QModelIndexList to;
    for (const QModelIndex& each : moved) to << index(place[before[static_cast<std::size_t>(each.row())]], each.column());
    changePersistentIndexList(moved, to);
    Q_EMIT layoutChanged({}, VerticalSortHint);
}

}  // namespace kvloupe
