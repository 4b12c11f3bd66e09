// SPDX-License-Identifier: GPL-3.0-or-later
//
// The inspector's account of one sequence: where it comes from, its table, what it reused, copied and wastes.
#include "views/inspector_view.h"

#include "views/format.h"
#include "views/picking.h"

#include <algorithm>

namespace kvloupe {

namespace {

constexpr std::size_t entries_told = 48;

}  // namespace

void InspectorView::describeSequence(SequenceId sequence) {
    const LaneRecord& lane = *cursor()->laneRecord();
    const LaneState& state = *cursor()->state();
    const Recording& recording = *cursor()->recording();
    if (!sequence.valid() || sequence.value >= state.sequences().size()) return;
    const SequenceState& now = state.sequences()[sequence.value];
    const auto step = static_cast<std::size_t>(cursor()->stepOf(cursor()->lane()));
    head(tr("Sequence %1").arg(sequenceLabel(recording, lane, sequence)), sequence.value);
    const QString names[] = {tr("arrived"),  tr("running"),  tr("preempted"), tr("swapped out"),
                             tr("finished"), tr("rejected"), tr("cancelled"), tr("failed")};
    add(tr("State"), names[static_cast<int>(now.status)]);
    if (sequence.value < lane.sequences().size()) {
        const SequenceInfo& info = lane.sequences()[sequence.value];
        if (info.request.valid() && info.request.value < recording.requests().size()) {
            const RequestInfo& request = recording.requests()[info.request.value];
            add(tr("Request"), QString::fromStdString(request.id));
            if (request.priority != 0) add(tr("Priority"), QString::number(request.priority));
            add(tr("Salt"), QString::fromStdString(request.salt));
            add(tr("Adapter"), QString::fromStdString(request.adapter));
        }
        if (info.parent.valid()) {
            add(tr("Parent"), sequenceLabel(recording, lane, info.parent));
            add(tr("Forked at position"), formatCount(info.forked_at), Origin::measured);
        }
        QStringList children;
        for (std::uint32_t s = sequence.value + 1; s < state.sequences().size() && s < lane.sequences().size(); ++s)
            if (lane.sequences()[s].parent == sequence) children << sequenceName(recording, lane, SequenceId(s));
        add(tr("Children"), children.join(QStringLiteral(", ")));
    }
    if (now.prompt_tokens > 0) add(tr("Prompt tokens"), formatCount(now.prompt_tokens), Origin::measured);
    add(tr("Tokens computed"), formatCount(now.computed_tokens), Origin::measured);
    if (!lane.info().kv_cache) return;

    m_facts.update(cursor()->sharedRecording(), cursor()->lane(), [this] {
        refresh();
        update();
    });
    const SequenceCounts counts = m_facts.upTo(sequence, step);
    if (lane.info().policy.prefix_caching || counts.hit_tokens > 0)
        add(tr("Tokens hit in the cache"), formatCount(counts.hit_tokens), Origin::measured);
    if (counts.copies > 0)
        add(tr("Blocks copied on write"), tr("%1, %2 slots").arg(counts.copies).arg(formatCount(counts.copied_slots)), Origin::measured);
    if (counts.preemptions > 0) add(tr("Preemptions"), formatCount(counts.preemptions), Origin::measured);
    if (counts.nulled > 0) add(tr("Blocks out of its window"), formatCount(counts.nulled), Origin::measured);
    if (now.host_blocks > 0) add(tr("Blocks in host memory"), formatCount(now.host_blocks), Origin::measured);

    std::uint64_t blocks = 0, shared = 0;
    for (std::size_t group = 0; group <= now.group_tables.size(); ++group) {
        const TableState& table = tableOf(now, static_cast<std::uint8_t>(group));
        for (const BlockId block : table)
            if (block != null_block_id) {
                ++blocks;
                shared += state.blocks()[block.value].owners > 1;
            }
    }
    add(tr("Blocks"), shared > 0 ? tr("%1, %2 shared").arg(formatCount(blocks), formatCount(shared)) : formatCount(blocks), Origin::measured);
    add(tr("Bytes held"), formatBytes(blocks * lane.info().block_bytes), Origin::derived);
    if (shared > 0) add(tr("of them shared"), formatBytes(shared * lane.info().block_bytes), Origin::derived);
    add(tr("Bytes filled"), formatBytes(now.table.empty() ? 0 : now.computed_tokens * lane.info().bytes_per_token), Origin::derived);
    const std::vector<SequenceWaste> waste = wasteOf(recording, lane, state);
    const SequenceWaste& own = waste[sequence.value];
    add(tr("Slots wasted"), formatCount(own.total()), Origin::predicted);
    add(tr("reserved for its tokens"), formatCount(own.reserved), Origin::predicted);
    add(tr("never to be written"), formatCount(own.never), Origin::predicted);
    for (std::size_t group = 0; group <= now.group_tables.size(); ++group) {
        const TableState& table = tableOf(now, static_cast<std::uint8_t>(group));
        if (table.empty()) continue;
        QStringList ids;
        for (std::size_t i = 0; i < std::min(table.size(), entries_told); ++i)
            ids << (table[i] == null_block_id ? tr("null") : QString::number(table[i].value));
        if (table.size() > entries_told) ids << tr("… %1 more").arg(table.size() - entries_told);
        const QString list = ids.join(QStringLiteral(", "));
        say(now.group_tables.empty() ? tr("Block table: %1").arg(list)
                                     : tr("Block table of group %1: %2").arg(QString::number(group), list));
    }
}

}  // namespace kvloupe
