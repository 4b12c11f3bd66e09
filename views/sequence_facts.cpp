// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/sequence_facts.h"

#include "engine/record/lane_state.h"

#include <algorithm>

namespace kvloupe {

void SequenceFactLog::update(const Recording& recording, LaneId lane, const std::atomic<bool>& cancelled) {
    const LaneRecord& record = recording.lane(lane);
    const std::size_t count = record.step_count();
    for (; m_steps < count && !cancelled.load(std::memory_order_relaxed); ++m_steps) {
        const LogRange range = record.step(m_steps).events;
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
            const Event& event = record.events()[i];
            const bool counted = event.kind == EventKind::prefix_hit || event.kind == EventKind::copy_on_write ||
                                 event.kind == EventKind::preempt || event.kind == EventKind::null_block;
            if (!counted || !event.sequence.valid()) continue;
            if (event.sequence.value >= m_entries.size()) m_entries.resize(event.sequence.value + std::size_t{1});
            std::vector<Entry>& own = m_entries[event.sequence.value];
            Entry entry{static_cast<std::uint32_t>(m_steps), own.empty() ? SequenceCounts{} : own.back().counts};
            if (event.kind == EventKind::prefix_hit) entry.counts.hit_tokens += event.tokens;
            if (event.kind == EventKind::copy_on_write) {
                ++entry.counts.copies;
                entry.counts.copied_slots += event.tokens;
            }
            if (event.kind == EventKind::preempt) {
                ++entry.counts.preemptions;
                entry.counts.hit_tokens = 0;
            }
            if (event.kind == EventKind::null_block) ++entry.counts.nulled;
            own.push_back(entry);
        }
    }
}

SequenceCounts SequenceFactLog::upTo(SequenceId sequence, std::size_t step) const {
    if (!sequence.valid() || sequence.value >= m_entries.size()) return {};
    const std::vector<Entry>& own = m_entries[sequence.value];
    const auto after = std::partition_point(own.begin(), own.end(), [step](const Entry& entry) { return entry.step <= step; });
    return after == own.begin() ? SequenceCounts{} : std::prev(after)->counts;
}

std::vector<SequenceWaste> wasteOf(const Recording& recording, const LaneRecord& lane, const LaneState& state) {
    std::vector<SequenceWaste> waste(state.sequences().size());
    const std::uint64_t size = state.block_size();
    if (size == 0) return waste;
    // Positions that a sequence may write before it ends.
    const auto limitOf = [&](std::uint32_t id) -> std::uint64_t {
        if (id >= lane.sequences().size()) return 0;
        const SequenceInfo& info = lane.sequences()[id];
        std::uint64_t limit = info.prompt_tokens ? info.prompt_tokens : state.sequences()[id].prompt_tokens;
        if (info.request.valid() && info.request.value < recording.requests().size()) {
            const RequestInfo& request = recording.requests()[info.request.value];
            limit = info.prompt_tokens ? info.prompt_tokens : request.prompt.size();
            limit += request.max_new_tokens > 0 ? request.max_new_tokens - 1 : 0;
        }
        return limit;
    };
    // The furthest slot of each block that any of its owners may write.
    std::vector<std::uint32_t> reach(state.blocks().size(), 0), owner(state.blocks().size(), SequenceId::none().value);
    std::vector<std::uint32_t> holders = state.holders();
    std::sort(holders.begin(), holders.end());
    for (const std::uint32_t holder : holders) {
        const SequenceState& sequence = state.sequences()[holder];
        const std::uint64_t limit = limitOf(holder);
        const auto look = [&](const TableState& table) {
            for (std::size_t logical = 0; logical < table.size(); ++logical) {
                const std::uint32_t block = table[logical].value;
                if (block == null_block_id.value || block >= reach.size()) continue;
                const std::uint64_t begin = logical * size;
                const std::uint64_t most = limit > begin ? std::min(limit - begin, size) : 0;
                reach[block] = std::max(reach[block], static_cast<std::uint32_t>(most));
                if (owner[block] == SequenceId::none().value) owner[block] = holder;
            }
        };
        look(sequence.table);
        for (const auto& table : sequence.group_tables) look(table);
    }
    for (std::size_t block = 0; block < reach.size(); ++block) {
        if (owner[block] == SequenceId::none().value) continue;
        const std::uint64_t filled = std::min<std::uint64_t>(state.blocks()[block].filled, size);
        const std::uint64_t may = std::max<std::uint64_t>(reach[block], filled);
        waste[owner[block]].reserved += may - filled;
        waste[owner[block]].never += size - may;
    }
    return waste;
}

std::uint32_t inheritedTokens(const LaneRecord& lane, SequenceId sequence) {
    if (!sequence.valid() || sequence.value >= lane.sequences().size()) return 0;
    const SequenceInfo& info = lane.sequences()[sequence.value];
    return info.parent.valid() ? info.forked_at : 0;
}

}  // namespace kvloupe
