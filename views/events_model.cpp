// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/events_model.h"

#include "engine/record/describe.h"
#include "views/event_names.h"
#include "views/format.h"
#include "views/picking.h"
#include "views/table_picture.h"

#include <QBrush>
#include <QFont>

#include <algorithm>
#include <climits>

namespace kvloupe {

EventsModel::EventsModel(QObject* parent) : QAbstractTableModel(parent) {}

void EventsModel::publish() {
    const int rows = static_cast<int>(std::min<std::size_t>(m_rows->rows(), INT_MAX));
    if (rows <= m_rowCount) return;
    beginInsertRows({}, m_rowCount, rows - 1);
    m_rowCount = rows;
    endInsertRows();
}

void EventsModel::follow() {
    m_rows.follow(m_recording, m_lane, [this] {
        follow();  // what came meanwhile
        publish();
        Q_EMIT readOn();
    });
}

void EventsModel::rebuild(const EventFilter& filter) {
    beginResetModel();
    m_rowCount = 0;
    m_rows.begin(EventRows(filter), m_recording, m_lane);
    if (m_record) follow();
    m_rowCount = static_cast<int>(std::min<std::size_t>(m_rows->rows(), INT_MAX));
    endResetModel();
}

void EventsModel::show(std::shared_ptr<const Recording> recording, LaneId lane, int step) {
    if (recording != m_recording || lane != m_lane) {
        const EventFilter filter = m_rows->filter();
        m_recording = std::move(recording);
        m_lane = lane;
        m_record = m_recording && lane.value < m_recording->lanes().size() ? &m_recording->lane(lane) : nullptr;
        m_cursor = step;
        rebuild(filter);
        return;
    }
    if (!m_record) return;
    if (step != m_cursor) {
        // What lies between the two cursors fades or comes back; copies of the cursor's step are in focus.
        const int first = rowsUpTo(std::min(step, m_cursor) - 1), last = rowsUpTo(std::max(step, m_cursor)) - 1;
        m_cursor = step;
        if (first <= last) Q_EMIT dataChanged(index(first, 0), index(last, ColumnCount - 1));
    }
    follow();
    publish();
}

void EventsModel::setFilter(const EventFilter& filter) { rebuild(filter); }

void EventsModel::settle() {
    m_rows.settle();
    publish();
}

int EventsModel::rowsUpTo(int step) const {
    return static_cast<int>(std::min(m_rows->rowsUpTo(step), static_cast<std::size_t>(m_rowCount)));
}

const Event& EventsModel::event(int row) const { return m_record->events()[eventAt(row)]; }

int EventsModel::rowOf(std::uint64_t event) const {
    const int row = m_rows->rowOf(event);
    return row < m_rowCount ? row : -1;
}

int EventsModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : m_rowCount; }

int EventsModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : ColumnCount; }

QString EventsModel::text(const Event& event, int row, int column) const {
    switch (column) {
    case Step: return QString::number(stepAt(row));
    case Kind: return kindLabel(event.kind);
    case Sequence: return sequenceLabel(*m_recording, *m_record, event.sequence);
    case Blocks:
        if (!event.block.valid()) return {};
        if (event.kind == EventKind::copy_on_write) return QStringLiteral("%1 → %2").arg(event.block.value).arg(event.other);
        return QString::number(event.block.value);
    case CauseText: return QString::fromStdString(describe_event(*m_recording, *m_record, eventAt(row)));
    case Bytes: return formatBytes(event_bytes(*m_record, event));
    case Time: return event.duration_ns > 0 ? formatDuration(event.duration_ns) : QString();
    default: return {};
    }
}

QVariant EventsModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount() || index.column() >= ColumnCount) return {};
    const Event& event = m_record->events()[eventAt(index.row())];
    const int column = index.column();
    switch (role) {
    case Qt::DisplayRole:
    case Qt::AccessibleTextRole: return text(event, index.row(), column);
    case Qt::ToolTipRole: return column == CauseText ? QVariant(text(event, index.row(), column)) : QVariant();
    case Qt::TextAlignmentRole:
        return static_cast<int>((column >= Bytes || column == Step ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    case Qt::FontRole:
        if (column == Blocks) {
            QFont font;
            font.setFixedPitch(true);
            return font;
        }
        return {};
    case fadedRole: return static_cast<int>(stepAt(index.row())) > m_cursor;
    case focusRole: return event.kind == EventKind::copy_on_write && static_cast<int>(stepAt(index.row())) == m_cursor;
    case Qt::BackgroundRole:
        if (event.kind == EventKind::copy_on_write && static_cast<int>(stepAt(index.row())) == m_cursor && m_focusWash.isValid())
            return QBrush(m_focusWash);
        return {};
    case glyphRole: return column == Kind ? QVariant(static_cast<int>(event.kind)) : QVariant();
    case ownerRole: return column == Sequence && event.sequence.valid() ? QVariant(event.sequence.value) : QVariant();
    case originRole:
        if (column == Bytes) return static_cast<int>(Origin::derived);
        if (column == Time && event.duration_ns > 0) return static_cast<int>(Origin::measured);
        return {};
    case csvRole:
        if (column == Bytes) return QString::number(event_bytes(*m_record, event));
        if (column == Time) return event.duration_ns > 0 ? QString::number(event.duration_ns / 1000.0) : QString();
        return {};
    default: return {};
    }
}

QVariant EventsModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || section < 0 || section >= ColumnCount) return {};
    if (role == Qt::DisplayRole) {
        const QString names[] = {tr("Step"), tr("Event"), tr("Sequence"), tr("Blocks"), tr("Cause"), tr("Bytes"), tr("Time")};
        return names[section];
    }
    if (role == csvRole) {
        static const char* names[] = {"step", "kind", "sequence", "blocks", "cause", "bytes_derived", "duration_us_measured"};
        return QString::fromLatin1(names[section]);
    }
    if (role == Qt::TextAlignmentRole)
        return static_cast<int>((section >= Bytes || section == Step ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    return {};
}

}  // namespace kvloupe
