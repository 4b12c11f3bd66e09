// SPDX-License-Identifier: GPL-3.0-or-later
//
// QueryModel: the answer to a question as a table: sorted by any column, numbers before texts, NULL first.
#pragma once

#include <QAbstractTableModel>

#include "views/query_asker.h"

#include <optional>
#include <vector>

namespace kvloupe {

class QueryModel : public QAbstractTableModel {
    Q_OBJECT

public:
    explicit QueryModel(QObject* parent = nullptr) : QAbstractTableModel(parent) {}

    void show(QueryAnswer answer);
    void clear() { show({}); }
    const QueryAnswer& answer() const { return m_answer; }

    const SqlValue& value(int row, int column) const;
    // The first column of that name, whatever its case; -1 where there is none.
    int columnNamed(const QString& name) const;
    // The row's whole number in that column, where it is one.
    std::optional<std::int64_t> integer(int row, int column) const;
    // Columns whose values are numbers (or NULL) and at least one number, in order; `step` and `lane` aside.
    std::vector<int> numericColumns() const;

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;
    // column -1: as it was answered.
    void sort(int column, Qt::SortOrder order = Qt::AscendingOrder) override;

private:
    QueryAnswer m_answer;
    std::vector<std::uint32_t> m_order;  // row shown -> row answered
};

// Bytes as hexadecimal digits, NULL as "", numbers without separators.
QString sqlText(const SqlValue& value);
// The value as a number, where it is one.
std::optional<double> sqlNumber(const SqlValue& value);

}  // namespace kvloupe
