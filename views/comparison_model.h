// SPDX-License-Identifier: GPL-3.0-or-later
//
// ComparisonModel: one row per lane, what its cache holds and costs at the cursor's step, each number with its origin.
#pragma once

#include "views/cursor.h"
#include "engine/record/quality.h"
#include "views/lane_difference.h"
#include "views/lane_progress.h"
#include "views/predicted_bytes.h"
#include "views/request_progress.h"

#include <QAbstractTableModel>
#include <QFont>

namespace kvloupe {

struct Palette;

class ComparisonModel : public QAbstractTableModel {
    Q_OBJECT

public:
    enum Column {
        lane, kvHeads, storedAs, bytesPerToken, blocks, kvBytes, predicted, residual, decode, prefill, perplexity, recall,
        ttft, itl, computed, hitRate, preemptions, logits, weights,
        columnCount_
    };

    explicit ComparisonModel(Cursor* cursor, QObject* parent = nullptr);

    // Looks at new steps and at the cursor.
    void update(const Palette& palette, const QFont& font);
    // Measured quality of the lanes by their names; shown from the next update() on. Null: none.
    void setQuality(std::shared_ptr<const QualityReport> report) { m_quality = std::move(report); }
    // Predicted bytes of a lane; the steps that update() has seen.
    const PredictedBytes& prediction(std::size_t row) const { return m_predicted[row]; }

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    struct Cell {
        QString text;      // shown
        QString plain;     // CSV
        QVariant origin;   // int of Origin, or none
        QString tip;
    };
    Cell cell(std::uint32_t row, int column) const;
    Cell requestCell(const RequestSums& sums, int column) const;
    Cell logitCell(std::uint32_t row, std::size_t step) const;
    Cell byteCell(std::uint32_t row, std::size_t step, int column) const;
    QString residualTip(std::uint32_t row) const;
    Cell qualityCell(const LaneInfo& info, int column) const;

    Cursor* m_cursor;
    std::shared_ptr<const Recording> m_recording;
    std::vector<LaneProgress> m_progress;
    std::vector<PredictedBytes> m_predicted;                // per lane
    std::shared_ptr<const QualityReport> m_quality;
    std::vector<RequestProgress> m_requests;                // per lane
    std::vector<std::optional<LaneDifference>> m_logits;   // per lane
    std::vector<std::vector<Cell>> m_cells;
    const Palette* m_palette = nullptr;
    QFont m_font;
};

}  // namespace kvloupe
