// SPDX-License-Identifier: GPL-3.0-or-later
//
// EventsModel: all recorded events of one lane, filtered; those after the cursor are faded, not hidden. It grows by what is
// new; texts are made when a row is drawn.
#pragma once

#include <QAbstractTableModel>
#include <QColor>

#include "views/event_rows.h"
#include "views/growing_data.h"

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
    const EventFilter& filter() const { return m_rows->filter(); }

    std::uint64_t eventAt(int row) const { return m_rows->eventAt(static_cast<std::size_t>(row)); }
    std::uint32_t stepAt(int row) const { return m_rows->stepAt(static_cast<std::size_t>(row)); }
    int rowOf(std::uint64_t event) const;  // -1 when it is filtered out
    int rowsUpTo(int step) const;            // rows of steps 0 .. step
    const Event& event(int row) const;
    std::uint64_t total() const { return m_rows->total(); }  // events read, filtered or not
    const std::array<std::uint64_t, event_kind_count>& counts() const { return m_rows->counts(); }
    const std::array<std::uint64_t, cause_count>& causeCounts() const { return m_rows->causeCounts(); }
    bool reading() const { return m_rows.reading(); }  // many events: in the background
    void settle();                                     // waits for that

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

Q_SIGNALS:
    void readOn();  // a job has read more

private:
    void follow();
    void publish();
    void rebuild(const EventFilter& filter);
    QString text(const Event& event, int row, int column) const;

    std::shared_ptr<const Recording> m_recording;
    const LaneRecord* m_record = nullptr;
    LaneId m_lane;
    int m_cursor = -1;    // step up to which rows are not faded
    int m_rowCount = 0;   // as told
    GrowingData<EventRows> m_rows;
    QColor m_focusWash;
};

}  // namespace kvloupe
