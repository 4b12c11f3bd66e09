// SPDX-License-Identifier: GPL-3.0-or-later
//
// The inspector's account of one block: owners, hash and parent, since when and why it holds what it holds.
#include "views/inspector_view.h"

#include "engine/record/describe.h"
#include "views/format.h"
#include "views/picking.h"

#include <algorithm>

namespace kvloupe {

namespace {

constexpr std::uint64_t events_searched = 200000;   // backwards, for what happened to the block
constexpr std::size_t queue_searched = 100000;      // from the head, for its place

}  // namespace

void InspectorView::describeOwned(BlockId block) {
    const LaneRecord& lane = *cursor()->laneRecord();
    const LaneState& state = *cursor()->state();
    const BlockState& stored = state.blocks()[block.value];
    const auto step = static_cast<std::size_t>(cursor()->stepOf(cursor()->lane()));
    add(tr("Reference count"), QString::number(stored.owners), Origin::measured);
    std::uint32_t written = 0;
    for (const BlockOwner& owner : ownersOf(state, block)) {
        const std::uint32_t first = owner.logical * state.block_size();
        QString where = tr("logical %1, %2–%3").arg(owner.logical).arg(first).arg(first + std::max(stored.filled, 1u) - 1);
        if (state.groups() > 1) where += tr(", group %1").arg(owner.group);
        add(tr("Sequence %1").arg(sequenceLabel(*cursor()->recording(), lane, owner.sequence)), where);
        const StepWork work = workOf(lane, owner.sequence, step);
        const std::uint32_t end = first + state.block_size();
        const std::uint32_t from = std::max(work.first, first), to = std::min(work.first + work.count, end);
        if (to > from) written = std::max(written, to - from);
    }
    add(tr("Slots filled"), tr("%1 of %2").arg(stored.filled).arg(state.block_size()), Origin::measured);
    add(tr("Bytes held"), formatBytes(lane.info().block_bytes), Origin::measured);
    add(tr("Bytes filled"), formatBytes(stored.filled * lane.info().bytes_per_token), Origin::derived);
    if (stored.owners > 1)
        add(tr("Bytes saved by sharing"), formatBytes((stored.owners - 1) * lane.info().block_bytes), Origin::derived);
    add(tr("Written this step"), formatBytes(written * lane.info().bytes_per_token), Origin::derived);
}

void InspectorView::describeBlock(BlockId block) {
    const LaneRecord& lane = *cursor()->laneRecord();
    const LaneState& state = *cursor()->state();
    if (block.value >= state.blocks().size()) return;
    const BlockState& stored = state.blocks()[block.value];
    if (block == null_block_id) {
        head(tr("Block 0, the null block"));
        say(tr("A placeholder in block tables. It is never written and never freed."));
        return;
    }
    head(tr("Block %1").arg(block.value),
         stored.owners == 1 ? std::optional<unsigned>(stored.first_owner.value) : std::nullopt);
    const auto step = static_cast<std::uint32_t>(cursor()->stepOf(cursor()->lane()));
    if (stored.owners > 0) {
        describeOwned(block);
    } else {
        say(stored.held     ? tr("Nobody owns it; the radix tree keeps its K and V.")
            : stored.hashed ? tr("Free, but its K and V are still cached: a hit takes it back.")
                            : tr("Free."));
        add(tr("Bytes held"), formatBytes(lane.info().block_bytes), Origin::measured);
        if (!stored.held) {
            const std::vector<BlockId> order = state.free_order(queue_searched);
            const auto place = std::find(order.begin(), order.end(), block);
            add(tr("Place in the free queue"),
                place == order.end() ? tr("beyond %1").arg(formatCount(queue_searched))
                : order.size() < queue_searched
                    ? tr("%1 of %2").arg(formatCount(static_cast<quint64>(place - order.begin()) + 1), formatCount(order.size()))
                    : tr("%1 of %2 or more").arg(formatCount(static_cast<quint64>(place - order.begin()) + 1), formatCount(order.size())),
                Origin::measured);
        }
    }
    if (stored.hashed && stored.hash != 0) {
        add(tr("Hash"), formatHash(stored.hash) + QStringLiteral("…"), Origin::measured);
        add(tr("Parent hash"), stored.parent_hash != 0 ? formatHash(stored.parent_hash) + QStringLiteral("…") : tr("none: it begins the prefix"));
    } else if (lane.info().policy.prefix_caching) {
        add(tr("Hash"), stored.owners > 0 ? tr("none yet") : tr("none"));
    }
    if (stored.born != BlockState::no_step && stored.born <= step) {
        add(tr("Content since step"), QString::number(stored.born), Origin::measured);
        add(tr("Age"), stored.born == step ? tr("this step") : step - stored.born == 1 ? tr("1 step") : tr("%1 steps").arg(step - stored.born), Origin::derived);
    }
    if (const std::uint32_t last = state.last_use_of(block); last != BlockState::no_step)
        add(tr("Last use"), last == step ? tr("this step") : tr("step %1").arg(last), Origin::measured);
    tellHistory(block);
}

// The newest copy from it, copy to it or allocation, and loss of its hash, with their causes; newest first.
void InspectorView::tellHistory(BlockId block) {
    const LaneRecord& lane = *cursor()->laneRecord();
    const BlockState& stored = cursor()->state()->blocks()[block.value];
    bool copied = false, evicted = false, born = false;
    std::uint64_t left = events_searched;
    for (auto s = static_cast<std::size_t>(cursor()->stepOf(cursor()->lane())) + 1; s-- > 0 && left > 0 && !born;) {
        const LogRange range = lane.step(s).events;
        for (std::uint64_t i = range.end; i-- > range.begin && left > 0; --left) {  // to its begin: an eviction made room
            const Event& event = lane.events()[i];
            const bool own = event.block == block;
            bool tell = false;
            if (event.kind == EventKind::copy_on_write && own && !copied) tell = copied = true;
            if (event.kind == EventKind::evict && own && !evicted) tell = evicted = true;
            const bool origin = (event.kind == EventKind::copy_on_write && event.other == block.value) ||
                                ((event.kind == EventKind::allocate || event.kind == EventKind::swap_in) && own);
            // What nobody owns and nothing caches has no content whose origin could be told.
            if (origin) born = true;
            if (origin && (stored.owners > 0 || stored.hashed || stored.held)) tell = true;
            if (tell) say(tr("Step %1: %2").arg(s).arg(QString::fromStdString(describe_event(*cursor()->recording(), lane, i))));
        }
    }
}

}  // namespace kvloupe
