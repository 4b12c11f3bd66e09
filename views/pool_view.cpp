// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/pool_view.h"

#include "engine/record/describe.h"
#include "views/format.h"
#include "views/picking.h"
#include "views/token_track.h"

#include <QKeyEvent>
#include <QMouseEvent>

#include <algorithm>

namespace kvloupe {

namespace {

constexpr std::size_t queue_shown = 64;

}  // namespace

PoolView::PoolView(Cursor* cursor, QWidget* parent)
    : View(QStringLiteral("pool"), tr("Block pool"), cursor, parent) {}

void PoolView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    m_state = cursor()->state();
    m_table.clear();
    m_owners.clear();
    m_touched.clear();
    m_freeOrder.clear();
    m_freeBlocks = m_cachedBlocks = m_unusedSlots = 0;
    if (!lane) {
        setEmpty(tr("Open a model or a scenario to see its block pool."));
        setSubtitle({});
        return;
    }
    if (!lane->info().kv_cache) {
        setSubtitle(tr("lane %1").arg(QString::fromStdString(lane->info().name)));
        setEmpty(tr("Lane %1 keeps no KV cache: it has no blocks and computes the whole prefix again in every step.")
                     .arg(QString::fromStdString(lane->info().name)));
        return;
    }
    if (!m_state) {
        setSubtitle(tr("%1 blocks of %2 slots").arg(formatCount(lane->info().blocks)).arg(lane->info().block_size));
        setEmpty(tr("Every block is free: no step has run yet."), tr("Step"), QStringLiteral("step"));
        return;
    }
    setEmpty({});
    const SequenceId focus = cursor()->sequence();
    if (focus.valid() && focus.value < m_state->sequences().size()) m_table = m_state->sequences()[focus.value].table;
    for (std::size_t s = 0; s < m_state->sequences().size(); ++s)
        if (!m_state->sequences()[s].table.empty()) m_owners.push_back(SequenceId(static_cast<std::uint32_t>(s)));
    for (std::size_t b = 1; b < m_state->blocks().size(); ++b) {
        const BlockState& block = m_state->blocks()[b];
        if (block.owners == 0) {
            ++m_freeBlocks;
            m_cachedBlocks += block.hashed;
        } else {
            m_unusedSlots += m_state->block_size() - std::min(block.filled, m_state->block_size());
        }
    }
    m_freeOrder = m_state->free_order(queue_shown);
    m_callout = calloutOf(*lane, static_cast<std::size_t>(cursor()->stepOf(cursor()->lane())));
    m_layout = layoutFor(QRectF(rect()));
    explain(m_layout);
}

void PoolView::explain(const PoolLayout& layout) {
    QString text = tr("lane %1 · %2 blocks of %3 slots · block 0 is the null block")
                       .arg(QString::fromStdString(cursor()->laneRecord()->info().name),
                            formatCount(m_state->blocks().size()), QString::number(m_state->block_size()));
    if (layout.blocksPerDot > 1)
        text += tr(" · folded: %1 blocks per dot, the most frequent state shown").arg(layout.blocksPerDot);
    setSubtitle(text);
}

PoolView::Callout PoolView::calloutOf(const LaneRecord& lane, std::size_t step) {
    // The rarer and the more telling comes first.
    static constexpr EventKind order[] = {EventKind::copy_on_write, EventKind::preempt, EventKind::evict,
                                          EventKind::prefix_hit,    EventKind::fork,    EventKind::allocate,
                                          EventKind::free,          EventKind::refuse,  EventKind::reject};
    const Recording& recording = *cursor()->recording();
    const LogRange range = lane.step(step).events;
    const Event* chosen = nullptr;
    std::size_t chosenRank = std::size(order);
    std::vector<QString> blocks;
    std::uint64_t bytes = 0;
    for (std::uint64_t i = range.begin; i < range.end; ++i) {
        const Event& event = lane.events()[i];
        const auto rank = static_cast<std::size_t>(std::find(std::begin(order), std::end(order), event.kind) - order);
        if (rank == std::size(order)) continue;
        if (event.block.valid() && event.kind != EventKind::evict) m_touched.push_back(event.block.value);
        if (event.kind == EventKind::copy_on_write) m_touched.push_back(event.other);
        if (rank > chosenRank) continue;
        // Of equals: the first of the sequence in focus.
        if (rank < chosenRank || (chosen->sequence != cursor()->sequence() && event.sequence == cursor()->sequence())) {
            chosen = &event;
            chosenRank = rank;
            blocks.clear();
            bytes = 0;
        }
        if (event.kind == chosen->kind && event.sequence == chosen->sequence && event.block.valid()) {
            blocks.push_back(QString::number(event.block.value));
            bytes += event_bytes(lane, event);
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
        callout.title = tr("Copy-on-write: block %1 → block %2").arg(chosen->block.value).arg(chosen->other);
        break;
    case EventKind::refuse: callout.title = tr("Sequence %1 waits").arg(who); break;
    case EventKind::reject: callout.title = tr("Sequence %1 rejected").arg(who); break;
    default: callout.title = QString::fromLatin1(name_of(chosen->kind).data()).replace(QLatin1Char('_'), QLatin1Char(' ')); break;
    }
    callout.cause = QString::fromStdString(describe_cause(recording, lane, *chosen));
    if (bytes > 0) callout.size = formatBytes(bytes);
    return callout;
}

PoolLayout PoolView::layoutFor(const QRectF& area) const {
    return PoolLayout::compute(area, m_state ? static_cast<std::uint32_t>(m_state->blocks().size()) : 0,
                               static_cast<std::uint32_t>(m_table.size()), unit());
}

std::uint32_t PoolView::tableRowShown(const PoolLayout& layout, std::uint32_t box) const {
    const auto rows = static_cast<std::uint32_t>(m_table.size());
    const std::uint32_t shown = layout.boxesShown(rows);
    if (shown == rows) return box;
    // The first boxes, a gap, and the last ones: where the sequence writes is always in sight.
    const std::uint32_t head = shown / 3;
    if (box == head) return Index<int>::none_value;
    return box < head ? box : rows - (shown - box);
}

Pick PoolView::pickAt(const QPointF& point) const {
    if (!m_state) return {};
    const auto rows = static_cast<std::uint32_t>(m_table.size());
    for (std::uint32_t i = 0; i < m_layout.boxesShown(rows); ++i) {
        const std::uint32_t logical = tableRowShown(m_layout, i);
        if (logical < rows && m_layout.box(i, rows).contains(point))
            return pickBlock(*cursor(), m_table[logical], {}, cursor()->sequence());
    }
    const auto block = m_layout.blockAt(point);
    if (!block) return {};
    std::optional<std::uint32_t> slot;
    const QRectF cell = m_layout.cell(*block);
    if (m_layout.slotBar && point.y() > cell.center().y() && m_state->block_size() > 0) {
        const double share = (point.x() - cell.left() - 4 * unit()) / (cell.width() - 8 * unit());
        if (share >= 0 && share < 1) slot = static_cast<std::uint32_t>(share * m_state->block_size());
    }
    return pickBlock(*cursor(), BlockId(*block), slot, cursor()->sequence());
}

QString PoolView::describe(BlockId block) const {
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane || !m_state || block.value >= m_state->blocks().size()) return {};
    if (block == null_block_id) return tr("Block 0 is the null block: a placeholder, never written.");
    const BlockState& stored = m_state->blocks()[block.value];
    if (stored.owners == 0)
        return stored.hashed ? tr("Block %1 is free but cached: its K and V can be reused.").arg(block.value)
                             : tr("Block %1 is free.").arg(block.value);
    QStringList lines;
    lines << tr("Block %1").arg(block.value);
    for (const BlockOwner& owner : ownersOf(*m_state, block)) {
        const std::uint32_t first = owner.logical * m_state->block_size();
        lines << tr("sequence %1, logical %2, positions %3–%4")
                     .arg(sequenceLabel(*cursor()->recording(), *lane, owner.sequence), QString::number(owner.logical),
                          QString::number(first), QString::number(first + std::max(stored.filled, 1u) - 1));
    }
    lines << tr("%1 %2 of %3 slots filled, %4 held")
                 .arg(originMark(Origin::measured), QString::number(stored.filled), QString::number(m_state->block_size()),
                      formatBytes(lane->info().block_bytes));
    return lines.join(QLatin1Char('\n'));
}

QString PoolView::tipAt(const QPointF& position) const {
    const Pick pick = pickAt(position);
    return pick.block ? describe(*pick.block) : QString();
}

void PoolView::resizeEvent(QResizeEvent* event) {
    View::resizeEvent(event);
    m_layout = layoutFor(QRectF(rect()));
    if (m_state && !isEmptyShown()) explain(m_layout);
}

void PoolView::mouseMoveEvent(QMouseEvent* event) { cursor()->setHover(pickAt(event->position())); }

void PoolView::mousePressEvent(QMouseEvent* event) {
    const Pick pick = pickAt(event->position());
    if (event->button() == Qt::LeftButton && !pick.empty()) cursor()->lock(pick);
}

void PoolView::keyPressEvent(QKeyEvent* event) {
    const int count = m_state ? static_cast<int>(m_state->blocks().size()) : 0;
    const Pick& pick = cursor()->hover().block ? cursor()->hover() : cursor()->locked();
    const int columns = static_cast<int>(m_layout.columns * m_layout.blocksPerDot);
    int move = 0;
    switch (event->key()) {
    case Qt::Key_Left: move = -1; break;
    case Qt::Key_Right: move = 1; break;
    case Qt::Key_Up: move = -columns; break;
    case Qt::Key_Down: move = columns; break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
        if (cursor()->hover().block) cursor()->lock(cursor()->hover());
        return;
    default: View::keyPressEvent(event); return;
    }
    if (count == 0 || isEmptyShown()) return;
    const int from = pick.block ? static_cast<int>(pick.block->value) : move > 0 ? -move : 0;
    const int to = from + move;
    if (to < 0 || to >= count) return;
    cursor()->setHover(pickBlock(*cursor(), BlockId(static_cast<std::uint32_t>(to)), {}, cursor()->sequence()));
}

QString PoolView::csv() const {
    QString csv = QStringLiteral("block,state,owners,sequences,logical,filled_slots_measured,slots,bytes_measured\r\n");
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane || !m_state || isEmptyShown()) return csv;
    std::vector<std::vector<BlockOwner>> owners(m_state->blocks().size());
    for (std::size_t s = 0; s < m_state->sequences().size(); ++s) {
        const auto& table = m_state->sequences()[s].table;
        for (std::size_t logical = 0; logical < table.size(); ++logical)
            if (table[logical].value < owners.size())
                owners[table[logical].value].push_back(
                    {SequenceId(static_cast<std::uint32_t>(s)), static_cast<std::uint32_t>(logical)});
    }
    for (std::size_t b = 0; b < m_state->blocks().size(); ++b) {
        const BlockState& block = m_state->blocks()[b];
        QStringList names, logicals;
        if (b > 0)
            for (const BlockOwner& owner : owners[b]) {
                names << sequenceLabel(*cursor()->recording(), *lane, owner.sequence);
                logicals << QString::number(owner.logical);
            }
        const char* state = b == 0 ? "null" : block.owners ? "used" : block.hashed ? "cached" : "free";
        csv += QStringLiteral("%1,%2,%3,%4,%5,%6,%7,%8\r\n")
                   .arg(QString::number(b), QLatin1String(state), QString::number(b ? block.owners : 0),
                        csvField(names.join(QStringLiteral("; "))), csvField(logicals.join(QStringLiteral("; "))),
                        QString::number(b ? block.filled : 0), QString::number(m_state->block_size()),
                        QString::number(lane->info().block_bytes));
    }
    return csv;
}

}  // namespace kvloupe
