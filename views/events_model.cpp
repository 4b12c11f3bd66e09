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

namespace kvloupe {

EventsModel::EventsModel(QObject* parent) : QAbstractTableModel(parent) {}

void EventsModel::grow(std::vector<Shown>& added) {
    const int count = static_cast<int>(m_record->step_count());
    for (; m_steps < count; ++m_steps) {
        const LogRange range = m_record->step(static_cast<std::size_t>(m_steps)).events;
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
            const Event& event = m_record->events()[i];
            ++m_total;
            ++m_counts[static_cast<std::size_t>(event.kind)];
            ++m_causeCounts[static_cast<std::size_t>(event.cause)];
            if (m_filter.matches(*m_recording, *m_record, event, static_cast<std::uint32_t>(m_steps)))
                added.push_back({i, static_cast<std::uint32_t>(m_steps)});
        }
    }
}

void EventsModel::rebuild() {
    beginResetModel();
    m_shown.clear();
    m_total = 0;
    m_counts.fill(0);
    m_causeCounts.fill(0);
    m_steps = 0;
    if (m_record) grow(m_shown);
    endResetModel();
}

void EventsModel::show(std::shared_ptr<const Recording> recording, LaneId lane, int step) {
    if (recording != m_recording || lane != m_lane) {
        m_recording = std::move(recording);
        m_lane = lane;
        m_record = m_recording && lane.value < m_recording->lanes().size() ? &m_recording->lane(lane) : nullptr;
        m_cursor = step;
        rebuild();
        return;
    }
    if (!m_record) return;
    if (step != m_cursor) {
        // What lies between the two cursors fades or comes back; copies of the cursor's step are in focus.
        const int first = rowsUpTo(std::min(step, m_cursor) - 1), last = rowsUpTo(std::max(step, m_cursor)) - 1;
        m_cursor = step;
        if (first <= last) Q_EMIT dataChanged(index(first, 0), index(last, ColumnCount - 1));
    }
    std::vector<Shown> added;
    grow(added);
    if (added.empty()) return;
    const int first = static_cast<int>(m_shown.size());
    beginInsertRows({}, first, first + static_cast<int>(added.size()) - 1);
    m_shown.insert(m_shown.end(), added.begin(), added.end());
    endInsertRows();
}

void EventsModel::setFilter(const EventFilter& filter) {
    m_filter = filter;
    rebuild();
}

int EventsModel::rowsUpTo(int step) const {
    const auto after = std::partition_point(m_shown.begin(), m_shown.end(),
                                            [step](const Shown& shown) { return static_cast<int>(shown.step) <= step; });
    return static_cast<int>(after - m_shown.begin());
}

const Event& EventsModel::event(int row) const { return m_record->events()[eventAt(row)]; }

int EventsModel::rowOf(std::uint64_t event) const {
    const auto found = std::lower_bound(m_shown.begin(), m_shown.end(), event,
                                        [](const Shown& shown, std::uint64_t wanted) { return shown.event < wanted; });
    return found != m_shown.end() && found->event == event ? static_cast<int>(found - m_shown.begin()) : -1;
}

int EventsModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(m_shown.size()); }

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
