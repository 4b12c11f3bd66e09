// SPDX-License-Identifier: GPL-3.0-or-later
//
// EventsModel: the events of one lane up to a step, filtered. It grows by what is new and shrinks from the end when the
// cursor goes back; texts are made when a row is drawn.
#pragma once

#include <QAbstractTableModel>

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

    // Events of all steps up to and including `step`; -1 for none.
    void show(std::shared_ptr<const Recording> recording, LaneId lane, int step);
    void setFilter(const EventFilter& filter);
    const EventFilter& filter() const { return m_filter; }

    std::uint64_t eventAt(int row) const { return m_shown[static_cast<std::size_t>(row)].event; }
    std::uint32_t stepAt(int row) const { return m_shown[static_cast<std::size_t>(row)].step; }
    int rowOf(std::uint64_t event) const;  // -1 when it is filtered out
    std::uint64_t total() const { return m_total; }  // events up to the step, filtered or not
    const std::array<std::uint64_t, event_kind_count>& counts() const { return m_counts; }

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    struct Shown {
        std::uint64_t event = 0;
        std::uint32_t step = 0;
    };
    void grow(int step, std::vector<Shown>& added);
    void rebuild(int step);
    QString text(const Event& event, int row, int column) const;

    std::shared_ptr<const Recording> m_recording;
    const LaneRecord* m_record = nullptr;
    LaneId m_lane;
    int m_step = -1;      // rows and counts stand for steps 0 .. m_step
    EventFilter m_filter;
    std::vector<Shown> m_shown;
    std::uint64_t m_total = 0;
    std::array<std::uint64_t, event_kind_count> m_counts{};
};

}  // namespace kvloupe
