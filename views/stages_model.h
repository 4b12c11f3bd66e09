// SPDX-License-Identifier: GPL-3.0-or-later
//
// StagesModel: what each stage of the model cost in one step, or summed over the decode steps up to it, held against what
// the device reaches and against a step that was pinned. Last row: the sum.
#pragma once

#include "views/lane_progress.h"
#include "views/stage_bound.h"

#include <QAbstractTableModel>
#include <QColor>
#include <QFont>
#include <QSortFilterProxyModel>

#include <array>

namespace kvloupe {

struct Palette;

// Sums over the stage records of one kind.
struct StageSums {
    std::uint64_t calls = 0;
    std::uint64_t durationNs = 0;   // measured
    std::uint64_t bytes = 0;        // derived from shapes
    std::uint64_t flops = 0;        // derived from shapes
    std::vector<std::uint64_t> layerNs;  // per layer, for stages that belong to layers

    StageWork work() const { return {durationNs, bytes, flops}; }

    void add(const StageRecord& record);
    void subtract(const StageRecord& record);
};

class StagesModel : public QAbstractTableModel {
    Q_OBJECT

public:
    enum Column {
        stage, calls, time, timeChange, changeShare, share, bytes, flops, intensity, bandwidth, rate, ofMemory, ofCompute, boundBy,
        perLayer, columnCount_,
    };
    static constexpr int sortRole = 0x0100 + 90;  // double
    static constexpr int totalRole = 0x0100 + 91; // true in the last row

    explicit StagesModel(QObject* parent = nullptr);

    // step: of the lane; summed: over the decode steps 0 .. step, else the step alone. -1: nothing.
    void show(std::shared_ptr<const Recording> recording, LaneId lane, int step, bool summed);
    void setLook(const Palette& palette, const QFont& font);
    void setCeilings(const Ceilings& ceilings);
    // Keeps the sums of the step that is shown, to compare later ones with; another recording forgets them.
    void pin();
    void unpin();
    bool pinned() const { return m_pinned.has_value(); }
    int pinnedStep() const { return m_pinned ? m_pinned->step : -1; }
    LaneId pinnedLane() const { return m_pinned ? m_pinned->lane : LaneId(); }
    // The columns of differences say something: a step is pinned, and one step is shown.
    bool compares() const { return pinned() && !m_summed; }

    const StageSums& sums(StageKind kind) const { return m_sums[static_cast<std::size_t>(kind)]; }
    const StageSums& total() const { return m_total; }
    std::size_t stepsSummed() const { return m_stepsSummed; }
    // A stage shown has a rate above a ceiling.
    bool aboveCeiling() const;

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    struct Number {
        double value = 0;
        bool exists = false;
        QString text;
        QString plain;
        Origin origin = Origin::derived;
    };
    struct Pinned {
        LaneId lane;
        int step = -1;
        std::array<StageSums, stage_kind_count> sums;
        StageSums total;
    };
    const StageSums& sumsOf(int row) const;
    const StageSums& pinnedOf(int row) const;
    Number number(int row, int column) const;
    QString boundText(int row) const;
    void addStep(std::size_t step, bool add);

    std::shared_ptr<const Recording> m_recording;
    LaneId m_lane;
    std::optional<LaneProgress> m_progress;
    bool m_summed = false;
    bool m_computes = true;       // the lane has a model
    int m_step = -1;              // up to which m_sums count
    std::size_t m_stepsSummed = 0;
    std::array<StageSums, stage_kind_count> m_sums;
    StageSums m_total;
    std::vector<StageKind> m_rows;   // kinds that occur; the sum follows
    Ceilings m_ceilings;
    std::optional<Pinned> m_pinned;
    const Palette* m_palette = nullptr;
    QFont m_font;
};

// Sorts the stages; the sum stays last. Columns of differences are there while there is something to differ from.
class StagesProxy : public QSortFilterProxyModel {
    Q_OBJECT

public:
    using QSortFilterProxyModel::QSortFilterProxyModel;
    // The model pinned or let go.
    void columnsChanged() { invalidateFilter(); }

protected:
    bool lessThan(const QModelIndex& left, const QModelIndex& right) const override;
    bool filterAcceptsColumn(int column, const QModelIndex& parent) const override;
};

}  // namespace kvloupe
