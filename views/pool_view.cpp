// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/pool_view.h"

#include "views/csv_line.h"
#include "views/format.h"
#include "views/picking.h"
#include "views/reference.h"

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
    m_freeBlocks = m_cachedBlocks = m_sharedBlocks = m_unusedSlots = 0;
    m_difference = {};
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
    m_blocks.update(*cursor(), m_colour);
    updateDifference();
    const SequenceId focus = cursor()->sequence();
    if (focus.valid() && focus.value < m_state->sequences().size()) {
        const SequenceState& sequence = m_state->sequences()[focus.value];
        const Pick& pick = cursor()->shown();
        m_group = 0;
        if (pick.block)
            for (const BlockOwner& owner : m_blocks.owners(pick.block->value))
                if (owner.sequence == focus) m_group = owner.group;
        m_table = tableOf(sequence, m_group);
    }
    for (const std::uint32_t holder : m_state->holders())
        if (!m_state->sequences()[holder].table.empty()) m_owners.push_back(SequenceId(holder));
    std::sort(m_owners.begin(), m_owners.end(), [](SequenceId a, SequenceId b) { return a.value < b.value; });
    for (std::size_t b = 1; b < m_state->blocks().size(); ++b) {
        const BlockState& block = m_state->blocks()[b];
        if (block.owners == 0) {
            ++m_freeBlocks;
            m_cachedBlocks += block.hashed || block.held;
        } else {
            m_sharedBlocks += block.owners > 1;
            m_unusedSlots += m_state->block_size() - std::min(block.filled, m_state->block_size());
        }
    }
    m_place.clear();
    m_layout = layoutFor(QRectF(rect()));
    const bool places = m_queueShown == QueueShown::places && !m_layout.image;
    m_freeOrder = m_state->free_order(places ? SIZE_MAX : queue_shown);
    if (places) {
        m_place.assign(m_state->blocks().size(), 0);
        for (std::size_t i = 0; i < m_freeOrder.size(); ++i) m_place[m_freeOrder[i].value] = static_cast<std::uint32_t>(i + 1);
    }
    m_callout = calloutOf(*lane, static_cast<std::size_t>(cursor()->stepOf(cursor()->lane())));
    explain(m_layout);
}

QStringList PoolView::colourNames() { return {tr("owner"), tr("owner count"), tr("age"), tr("last use"), tr("attention mass")}; }

std::vector<ViewChoice> PoolView::choices() const {
    std::vector<ViewChoice> all;
    if (cursor()->reference()) all.push_back(differenceChoice(m_showDifference));
    all.push_back({QStringLiteral("colour"), tr("Colour by"), colourNames(), static_cast<int>(m_colour)});
    all.push_back({QStringLiteral("queue"), tr("Free queue"), {tr("from the head"), tr("places in the cells"), tr("not shown")},
                   static_cast<int>(m_queueShown)});
    return all;
}

void PoolView::setChoice(const QString& key, int index) {
    if (key == QLatin1String("colour")) m_colour = static_cast<PoolColour>(index);
    if (key == QLatin1String(difference_key)) m_showDifference = index == 1;
    if (key == QLatin1String("queue")) m_queueShown = static_cast<QueueShown>(index);
}

void PoolView::explain(const PoolLayout& layout) {
    const LaneInfo& info = cursor()->laneRecord()->info();
    QString text = tr("lane %1 · %2 blocks of %3 slots · block 0 is the null block")
                       .arg(QString::fromStdString(info.name), formatCount(m_state->blocks().size()),
                            QString::number(m_state->block_size()));
    if (info.policy.kind == "contiguous") text += tr(" · contiguous regions");
    if (info.policy.groups.size() > 1) text += tr(" · %1 cache groups").arg(info.policy.groups.size());
    if (compares())
        text = tr("%1 blocks differ from %2 · ")
                   .arg(formatCount(m_difference.blocks.size() - 1 - m_difference.count(BlockChange::same)), cursor()->reference()->label()) +
               text;
    else if (m_colour != PoolColour::owner) text += tr(" · coloured by %1").arg(colourNames()[static_cast<int>(m_colour)]);
    if (layout.blocksPerDot > 1)
        text += tr(" · folded: %1 blocks per dot, the most frequent state shown").arg(layout.blocksPerDot);
    setSubtitle(text);
}

PoolLayout PoolView::layoutFor(const QRectF& area) const {
    return PoolLayout::compute(area, m_state ? static_cast<std::uint32_t>(m_state->blocks().size()) : 0,
                               static_cast<std::uint32_t>(m_table.size()), unit(), m_queueShown == QueueShown::strip);
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
    const auto step = static_cast<std::uint32_t>(cursor()->stepOf(cursor()->lane()));
    QStringList lines;
    if (stored.owners == 0 && stored.held)
        lines << tr("Block %1 has no owner; the radix tree keeps its K and V.").arg(block.value);
    else if (stored.owners == 0 && stored.hashed)
        lines << tr("Block %1 is free but cached: its K and V can be reused.").arg(block.value);
    else if (stored.owners == 0)
        lines << tr("Block %1 is free.").arg(block.value);
    else
        lines << tr("Block %1 · %2 reference count %3").arg(block.value).arg(originMark(Origin::measured)).arg(stored.owners);
    for (const BlockOwner& owner : m_blocks.owners(block.value)) {
        const std::uint32_t first = owner.logical * m_state->block_size();
        lines << tr("sequence %1, logical %2, positions %3–%4")
                     .arg(sequenceLabel(*cursor()->recording(), *lane, owner.sequence), QString::number(owner.logical),
                          QString::number(first), QString::number(first + std::max(stored.filled, 1u) - 1));
    }
    if (stored.owners > 0)
        lines << tr("%1 %2 of %3 slots filled, %4 held")
                     .arg(originMark(Origin::measured), QString::number(stored.filled), QString::number(m_state->block_size()),
                          formatBytes(lane->info().block_bytes));
    if (stored.hashed && stored.hash != 0) lines << tr("hash %1…").arg(formatHash(stored.hash));
    if (stored.born != BlockState::no_step && stored.born <= step)
        lines << tr("content since step %1 (%2 %3 steps)").arg(stored.born).arg(originMark(Origin::derived)).arg(step - stored.born);
    if (const std::uint32_t last = m_state->last_use_of(block); stored.owners == 0 && last != BlockState::no_step)
        lines << tr("last owned in step %1").arg(last);
    if (block.value < m_place.size() && m_place[block.value] > 0)
        lines << tr("place %1 in the free queue").arg(formatCount(m_place[block.value]));
    if (m_blocks.evicted(block.value)) lines << tr("It lost its hash in this step.");
    if (const auto value = m_blocks.value(block.value); value && m_colour == PoolColour::mass)
        lines << tr("%1 attention mass %2 (layer %3, head %4)")
                     .arg(originMark(Origin::derived), formatPercent(*value), QString::number(cursor()->layer()),
                          QString::number(cursor()->head()));
    if (compares()) lines << describeDifference(block);
    return lines.join(QLatin1Char('\n'));
}

QString PoolView::tipAt(const QPointF& position) const {
    const Pick pick = pickAt(position);
    if (m_callout.fork && m_layout.calloutLink.contains(position)) return tr("Go to the fork and lock it.");
    return pick.block ? describe(*pick.block) : QString();
}

void PoolView::resizeEvent(QResizeEvent* event) {
    View::resizeEvent(event);
    m_layout = layoutFor(QRectF(rect()));
    if (m_state && !isEmptyShown()) explain(m_layout);
}

// With several cache groups the block that is meant decides whose table is shown.
void PoolView::refreshSelection() {
    if (cursor()->laneRecord() && cursor()->laneRecord()->info().policy.groups.size() > 1)
        refresh();
    else
        update();
}

void PoolView::mouseMoveEvent(QMouseEvent* event) { cursor()->setHover(pickAt(event->position())); }

void PoolView::mousePressEvent(QMouseEvent* event) {
    if (event->button() == Qt::LeftButton && m_callout.fork && m_layout.calloutLink.contains(event->position())) {
        Pick fork;
        fork.lane = cursor()->lane();
        fork.event = m_callout.fork;
        fork.sequence = cursor()->laneRecord()->events()[*m_callout.fork].sequence;
        cursor()->setStep(static_cast<int>(m_callout.forkStep));
        cursor()->lock(fork);
        return;
    }
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
    QString csv = QStringLiteral("block,state,owners_measured,sequences,logical,filled_slots_measured,slots,bytes_measured,hash,"
                                 "born_step_measured,last_use_step_measured,free_queue_place,evicted_in_step,");
    static const char* const names[] = {"", "owner_count_measured", "age_steps_derived", "last_use_steps_derived",
                                        "attention_mass_derived"};
    if (compares())
        csv += QStringLiteral("difference,reference_state,reference_owners_measured,reference_sequences,"
                              "reference_filled_slots_measured,");
    csv += m_colour == PoolColour::owner ? QStringLiteral("group") : QLatin1String("group,") + QLatin1String(names[static_cast<int>(m_colour)]);
    csv += QStringLiteral("\r\n");
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane || !m_state || isEmptyShown()) return csv;
    std::vector<std::uint32_t> place(m_state->blocks().size(), 0);
    const std::vector<BlockId> order = m_state->free_order();
    for (std::size_t i = 0; i < order.size(); ++i) place[order[i].value] = static_cast<std::uint32_t>(i + 1);
    const auto stepText = [](std::uint32_t step) { return step == BlockState::no_step ? QString() : QString::number(step); };
    for (std::uint32_t b = 0; b < m_state->blocks().size(); ++b) {
        const BlockState& block = m_state->blocks()[b];
        QStringList sequences, logicals;
        for (const BlockOwner& owner : m_blocks.owners(b)) {
            sequences << sequenceLabel(*cursor()->recording(), *lane, owner.sequence);
            logicals << QString::number(owner.logical);
        }
        const char* state = b == 0 ? "null" : block.owners ? "used" : block.hashed || block.held ? "cached" : "free";
        QStringList fields{QString::number(b), QLatin1String(state), QString::number(b ? block.owners : 0),
                           sequences.join(QStringLiteral("; ")), logicals.join(QStringLiteral("; ")),
                           QString::number(b ? block.filled : 0), QString::number(m_state->block_size()),
                           QString::number(lane->info().block_bytes), block.hashed && block.hash ? formatHash(block.hash) : QString(),
                           stepText(block.born), stepText(m_state->last_use_of(BlockId(b))), place[b] ? QString::number(place[b]) : QString(),
                           m_blocks.evicted(b) ? QStringLiteral("yes") : QStringLiteral("no")};
        if (compares()) fields << differenceFields(b);
        fields << QString::number(block.group);
        if (m_colour != PoolColour::owner) {
            const auto value = m_blocks.value(b);
            fields << (value ? QString::number(*value, 'g', 7) : QString());
        }
        csv += csvLine(fields);
    }
    return csv;
}

}  // namespace kvloupe
