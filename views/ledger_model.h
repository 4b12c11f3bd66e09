// SPDX-License-Identifier: GPL-3.0-or-later
//
// LedgerModel: every predicted number of one or all lanes at the cursor's step beside its measured one, with the residual
// and what explains it: the ledger of memory, then what attention moved in the step beside FlashAttention's formula.
#pragma once

#include "views/cursor.h"

#include "engine/record/ledger.h"

#include <QAbstractTableModel>
#include <QFont>

#include <vector>

namespace kvloupe {

struct Palette;

class LedgerModel : public QAbstractTableModel {
    Q_OBJECT

public:
    enum Column { lane, what, predicted, measured, residual, unexplained, why, how, columnCount_ };

    explicit LedgerModel(QObject* parent = nullptr);

    // allLanes: of every lane, else of the cursor's.
    void show(const Cursor& cursor, bool allLanes, const Palette& palette, const QFont& font);

    struct Line {
        LaneId lane;
        int step = -1;  // of that lane
        LedgerEntry entry;
    };
    const std::vector<Line>& lines() const { return m_lines; }
    // What nothing explains, absolute, over all lines; bytes.
    std::uint64_t unexplainedBytes() const;
    // One line in full sentences.
    QString sentence(int row) const;

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    static bool sameShape(const std::vector<Line>& a, const std::vector<Line>& b);
    QString text(const Line& line, int column) const;
    QString plain(const Line& line, int column) const;
    QString laneName(LaneId id) const;

    std::shared_ptr<const Recording> m_recording;
    std::vector<Line> m_lines;
    const Palette* m_palette = nullptr;
    QFont m_font;
    LaneId m_focus;
};

}  // namespace kvloupe
