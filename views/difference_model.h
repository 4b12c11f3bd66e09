// SPDX-License-Identifier: GPL-3.0-or-later
//
// DifferenceModel: what differs between the lane in focus and the one that it is compared with: configuration, then numbers by
// their relative change, then where they first part. Plain values for CSV; a row of the last section can be gone to.
#pragma once

#include <QAbstractTableModel>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/record/recording_diff.h"

#include <QFont>
#include <QString>

#include <optional>
#include <vector>

namespace kvloupe {

struct Palette;

class DifferenceModel : public QAbstractTableModel {
    Q_OBJECT

public:
    enum Column { section, what, here, there, delta, percent, columnCount_ };

    explicit DifferenceModel(QObject* parent = nullptr) : QAbstractTableModel(parent) {}

    // thereName: head of the other lane's column.
    void show(RecordingDiff diff, const QString& hereName, const QString& thereName);
    void setLook(const Palette& palette, const QFont& font);
    const RecordingDiff& diff() const { return m_diff; }
    // Of a row in the last section; null for others.
    const Parting* partingAt(int row) const;
    // One row in full sentences.
    QString sentence(int row) const;
    static QString kindName(Parting::Kind kind);  // "first other token"

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    enum Section { configuration, numbers, first };
    struct Place {
        Section section;
        std::size_t index;  // in it
    };
    Place placeOf(int row) const;
    const DiffValue& value(const Place& place) const;
    QString text(const Place& place, int column) const;
    QString plain(const Place& place, int column) const;
    static QString sectionName(Section section);

    RecordingDiff m_diff;
    QString m_hereName, m_thereName;
    const Palette* m_palette = nullptr;
    QFont m_bold;
};

}  // namespace kvloupe
