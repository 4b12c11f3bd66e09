// SPDX-License-Identifier: GPL-3.0-or-later
//
// The line above the block pool: what the step did to blocks, with cause, bytes and time.
#include "views/pool_view.h"

#include "engine/record/describe.h"
#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"
#include "views/token_track.h"

#include <algorithm>

namespace kvloupe {

namespace {

constexpr std::uint64_t copy_events_searched = 200000;  // backwards, for the fork behind a copy

}  // namespace

PoolView::Callout PoolView::calloutOf(const LaneRecord& lane, std::size_t step) {
    // The rarer and the more telling comes first.
    static constexpr EventKind order[] = {EventKind::copy_on_write, EventKind::preempt, EventKind::evict,
                                          EventKind::prefix_hit,    EventKind::fork,    EventKind::allocate,
                                          EventKind::free,          EventKind::refuse,  EventKind::reject};
    const Recording& recording = *cursor()->recording();
    const LogRange range = lane.step(step).events;
    const Event* chosen = nullptr;
    std::uint64_t chosenIndex = 0;
    std::size_t chosenRank = std::size(order);
    std::vector<QString> blocks;
    std::uint64_t bytes = 0, duration = 0;
    for (std::uint64_t i = range.begin; i < range.end; ++i) {
        const Event& event = lane.events()[i];
        const auto rank = static_cast<std::size_t>(std::find(std::begin(order), std::end(order), event.kind) - order);
        if (rank == std::size(order)) continue;
        if (rank > chosenRank) continue;
        // Of equals: the first of the sequence in focus.
        if (rank < chosenRank || (chosen->sequence != cursor()->sequence() && event.sequence == cursor()->sequence())) {
            chosen = &event;
            chosenIndex = i;
            chosenRank = rank;
            blocks.clear();
            m_touched.clear();
            bytes = duration = 0;
        }
        if (event.kind == chosen->kind && event.sequence == chosen->sequence && event.block.valid()) {
            blocks.push_back(QString::number(event.block.value));
            m_touched.push_back(event.block.value);
            if (event.kind == EventKind::copy_on_write) m_touched.push_back(event.other);
            bytes += event_bytes(lane, event);
            duration += event.duration_ns;
        }
    }
    std::sort(m_touched.begin(), m_touched.end());
    m_touched.erase(std::unique(m_touched.begin(), m_touched.end()), m_touched.end());

    Callout callout;
    if (!chosen) {
        const StepWork work = workOf(lane, cursor()->sequence(), step);
        const std::uint32_t size = m_state->block_size();
        if (work.count > 0 && size > 0 && (work.first + work.count - 1) / size < m_table.size()) {
            const std::uint32_t last = work.first + work.count - 1;
            callout.title = tr("No block changed hands");
            callout.cause = tr("step %1 wrote position %2 of sequence %3 to slot %4 of block %5")
                                .arg(QString::number(step), QString::number(last),
                                     sequenceLabel(recording, lane, cursor()->sequence()), QString::number(last % size),
                                     QString::number(m_table[last / size].value));
        } else {
            callout.title = tr("No block changed hands in step %1").arg(step);
        }
        return callout;
    }
    QStringList names(blocks.begin(), blocks.begin() + std::min<std::ptrdiff_t>(std::ssize(blocks), 4));
    if (blocks.size() > 4) names << tr("… %1 in all").arg(blocks.size());
    const QString list = names.join(QStringLiteral(", "));
    const QString who = sequenceLabel(recording, lane, chosen->sequence);
    callout.happened = chosen->kind != EventKind::refuse;  // waiting touches no block
    switch (chosen->kind) {
    case EventKind::allocate: callout.title = tr("Taken: %1 for sequence %2").arg(list, who); break;
    case EventKind::free: callout.title = tr("Given back: %1 by sequence %2").arg(list, who); break;
    case EventKind::copy_on_write:
        callout.title = chosen->cause == Cause::grown_by_copy
                            ? tr("Grown by copy: %1 blocks of sequence %2").arg(blocks.size()).arg(who)
                            : tr("Copy-on-write: block %1 → block %2").arg(chosen->block.value).arg(chosen->other);
        callout.numbers.emplace_back(tr("%1 slots").arg(chosen->tokens), std::nullopt);
        if (chosen->cause == Cause::shared_block_written) findFork(callout, lane, step, *chosen);
        break;
    case EventKind::evict: callout.title = tr("Evicted: %1").arg(list); break;
    case EventKind::prefix_hit: callout.title = tr("Prefix hit: sequence %1 shares %2").arg(who, list); break;
    case EventKind::preempt: callout.title = tr("Sequence %1 preempted").arg(who); break;
    case EventKind::fork: callout.title = tr("Fork: sequence %1").arg(who); break;
    case EventKind::refuse: callout.title = tr("Sequence %1 waits").arg(who); break;
    case EventKind::reject: callout.title = tr("Sequence %1 rejected").arg(who); break;
    default: callout.title = QString::fromLatin1(name_of(chosen->kind).data()).replace(QLatin1Char('_'), QLatin1Char(' ')); break;
    }
    callout.cause = QString::fromStdString(describe_event(recording, lane, chosenIndex));
    if (bytes > 0) callout.numbers.emplace_back(formatBytes(bytes), Origin::derived);
    if (duration > 0) callout.numbers.emplace_back(formatDuration(static_cast<double>(duration)), Origin::measured);
    return callout;
}

// The newest fork that made the copied block shared: of the writer from its parent, or from the writer.
void PoolView::findFork(Callout& callout, const LaneRecord& lane, std::size_t step, const Event& copy) const {
    std::uint64_t left = copy_events_searched;
    for (std::size_t s = step + 1; s-- > 0 && left > 0;) {
        const LogRange range = lane.step(s).events;
        for (std::uint64_t i = range.end; i-- > range.begin && left > 0; --left) {
            const Event& event = lane.events()[i];
            if (event.kind != EventKind::fork) continue;
            if (event.sequence != copy.sequence && event.other != copy.sequence.value) continue;
            callout.fork = i;
            callout.forkStep = static_cast<std::uint32_t>(s);
            return;
        }
    }
}

void PoolView::paintCallout(const Canvas& canvas, const PoolLayout& layout) const {
    const QRectF& area = layout.callout;
    if (area.isEmpty()) return;
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    painter.fillRect(area, m_callout.happened ? colours.focusWash : colours.head);
    painter.fillRect(QRectF(area.left(), area.top(), canvas.u(3), area.height()),
                     m_callout.happened ? colours.focus : colours.line);
    const bool two = area.height() > canvas.u(40);
    QRectF text = area.adjusted(canvas.u(12), two ? canvas.u(4) : 0, -canvas.u(10), two ? -canvas.u(4) : 0);
    QRectF first(text.left(), text.top(), text.width(), two ? text.height() / 2 : text.height());
    if (area.width() > canvas.u(360)) {
        for (auto number = m_callout.numbers.rbegin(); number != m_callout.numbers.rend(); ++number) {
            const TextStyle style{12};
            double used = canvas.width(number->first, style);
            if (number->second)
                used = canvas.number(first, *number->second, number->first, style);
            else
                canvas.text(first, number->first, style, Qt::AlignRight | Qt::AlignVCenter);
            first.setRight(first.right() - used - canvas.u(14));
        }
    }
    const TextStyle title{13, QFont::DemiBold, colours.ink1, false}, cause{12, QFont::Normal, colours.ink2, false};
    canvas.text(first, m_callout.title, title);
    if (!two) {
        first.setLeft(first.left() + canvas.width(m_callout.title, title) + canvas.u(10));
        canvas.text(first, m_callout.cause, cause);
        return;
    }
    QRectF second(text.left(), first.bottom(), text.width(), text.height() / 2);
    if (m_callout.fork && !layout.calloutLink.isEmpty()) {
        canvas.text(layout.calloutLink, tr("Show the fork (step %1)").arg(m_callout.forkStep),
                    {12, QFont::Normal, colours.accent, false}, Qt::AlignRight | Qt::AlignVCenter);
        second.setRight(layout.calloutLink.left() - canvas.u(8));
    }
    canvas.text(second, m_callout.cause, cause);
}

}  // namespace kvloupe
