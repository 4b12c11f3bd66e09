// SPDX-License-Identifier: GPL-3.0-or-later
//
// EventsModel: all recorded events of one lane, filtered; those after the cursor are faded, not hidden. It grows by what is
// new; texts are made when a row is drawn.
#pragma once

#include <QAbstractTableModel>
#include <QColor>

#include "views/event_filter.h"

#include <array>
#include <memory>
#include <vector>

namespace kvloupe {

class EventsModel : public QAbstractTableModel {
    Q_OBJECT

public:
    enum Column { Step, Kind, Sequence, Blocks, CauseText, Bytes, Time, ColumnCount };

    explicit EventsModel(QObject* parent = nullptr);

    // Events of all published steps; those of steps after `step` are faded.
    void show(std::shared_ptr<const Recording> recording, LaneId lane, int step);
    void setFilter(const EventFilter& filter);
    void setFocusWash(const QColor& colour) { m_focusWash = colour; }  // behind the copies of the cursor's step
    const EventFilter& filter() const { return m_filter; }

    std::uint64_t eventAt(int row) const { return m_shown[static_cast<std::size_t>(row)].event; }
    std::uint32_t stepAt(int row) const { return m_shown[static_cast<std::size_t>(row)].step; }
    int rowOf(std::uint64_t event) const;  // -1 when it is filtered out
    int rowsUpTo(int step) const;            // rows of steps 0 .. step
    const Event& event(int row) const;
    std::uint64_t total() const { return m_total; }  // recorded events, filtered or not
    const std::array<std::uint64_t, event_kind_count>& counts() const { return m_counts; }
    const std::array<std::uint64_t, cause_count>& causeCounts() const { return m_causeCounts; }

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    struct Shown {
        std::uint64_t event = 0;
        std::uint32_t step = 0;
    };
    void grow(std::vector<Shown>& added);
    void rebuild();
    QString text(const Event& event, int row, int column) const;

    std::shared_ptr<const Recording> m_recording;
    const LaneRecord* m_record = nullptr;
    LaneId m_lane;
    int m_steps = 0;      // looked at: rows and counts stand for them
    int m_cursor = -1;    // step up to which rows are not faded
    EventFilter m_filter;
    std::vector<Shown> m_shown;
    std::uint64_t m_total = 0;
    std::array<std::uint64_t, event_kind_count> m_counts{};
    std::array<std::uint64_t, cause_count> m_causeCounts{};
    QColor m_focusWash;
};

}  // namespace kvloupe
