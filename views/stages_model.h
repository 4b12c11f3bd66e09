// SPDX-License-Identifier: GPL-3.0-or-later
//
// StagesModel: what each stage of the model cost in one step, or summed over the decode steps up to it. Last row: the sum.
#pragma once

#include "views/lane_progress.h"

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

    void add(const StageRecord& record);
    void subtract(const StageRecord& record);
};

class StagesModel : public QAbstractTableModel {
    Q_OBJECT

public:
    enum Column { stage, calls, time, share, bytes, flops, intensity, bandwidth, rate, ofMeasured, boundBy, perLayer, columnCount_ };
    static constexpr int sortRole = 0x0100 + 90;  // double
    static constexpr int totalRole = 0x0100 + 91; // true in the last row

    explicit StagesModel(QObject* parent = nullptr);

    // step: of the lane; summed: over the decode steps 0 .. step, else the step alone. -1: nothing.
    void show(std::shared_ptr<const Recording> recording, LaneId lane, int step, bool summed);
    void setLook(const Palette& palette, const QFont& font);
    // Bytes per second that a read of the memory reached; 0: not measured.
    void setMeasuredBandwidth(double bytesPerSecond);

    const StageSums& sums(StageKind kind) const { return m_sums[static_cast<std::size_t>(kind)]; }
    const StageSums& total() const { return m_total; }
    std::size_t stepsSummed() const { return m_stepsSummed; }

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
    const StageSums& sumsOf(int row) const;
    Number number(int row, int column) const;
    void lookForCeiling();
    QString boundText(int row, bool explained) const;
    void addStep(std::size_t step, bool add);
    QColor colourOf(StageKind kind) const;

    std::shared_ptr<const Recording> m_recording;
    LaneId m_lane;
    std::optional<LaneProgress> m_progress;
    bool m_summed = false;
    int m_step = -1;              // up to which m_sums count
    std::size_t m_stepsSummed = 0;
    std::array<StageSums, stage_kind_count> m_sums;
    StageSums m_total;
    std::vector<StageKind> m_rows;   // kinds that occur; the sum follows
    double m_measuredBandwidth = 0;
    double m_bestRate = 0;        // FLOP per second: the highest that any stage record of the lane reached (derived)
    std::uint64_t m_looked = 0;   // stage records looked at for it
    const Palette* m_palette = nullptr;
    QFont m_font;
};

// Sorts the stages; the sum stays last.
class StagesProxy : public QSortFilterProxyModel {
    Q_OBJECT

public:
    using QSortFilterProxyModel::QSortFilterProxyModel;

protected:
    bool lessThan(const QModelIndex& left, const QModelIndex& right) const override;
};

}  // namespace kvloupe
