// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/prefix_history.h"

#include <algorithm>

namespace kvloupe {

void PrefixHistory::begin(BlockId block, std::uint64_t index) {
    if (block == null_block_id || block.value >= m_entries.size()) return;
    const BlockState& state = m_state.blocks()[block.value];
    m_entries[block.value].push_back({index, index, state.first_owner, state.logical, 0});
}

void PrefixHistory::take(const Event& event, std::uint64_t index) {
    const bool inPool = event.block != null_block_id && event.block.value < m_entries.size();
    if (event.kind == EventKind::evict && inPool) {
        const BlockState& lost = m_state.blocks()[event.block.value];
        if (lost.hashed) m_evictions.push_back({m_steps, index, event.block, lost.hash, lost.parent_hash, lost.filled, lost.group});
    }
    m_state.apply(event);
    switch (event.kind) {
    case EventKind::allocate:
    case EventKind::swap_in: begin(event.block, index); break;
    case EventKind::copy_on_write: begin(BlockId(event.other), index); break;
    case EventKind::prefix_hit:
        // Merging a duplicate into the radix tree's block saved no computation: it is no hit.
        if (inPool && event.cause != Cause::duplicate_owner) {
            std::vector<Entry>& entries = m_entries[event.block.value];
            Entry hit = entries.empty() ? Entry{0, UINT64_MAX, SequenceId::none(), 0, 0} : entries.back();
            hit.event = index;
            ++hit.hits;
            entries.push_back(hit);
        }
        break;
    default: break;
    }
}

void PrefixHistory::update(const Recording& recording, LaneId laneId, const std::atomic<bool>& cancelled) {
    const LaneRecord& lane = recording.lane(laneId);
    if (&recording != m_recording || laneId != m_lane) {
        *this = PrefixHistory();
        m_recording = &recording;
        m_lane = laneId;
        const std::uint32_t blocks = lane.info().kv_cache ? lane.info().blocks : 0;
        m_state = lane.state_before(0);
        m_entries.resize(blocks);
    }
    const auto steps = static_cast<std::uint32_t>(lane.step_count());
    for (; m_steps < steps && !cancelled.load(std::memory_order_relaxed); ++m_steps) {
        const StepRecord& step = lane.step(m_steps);
        m_state.begin_step(m_steps);
        for (std::uint64_t i = step.events.begin; i < step.events.end; ++i) take(lane.events()[i], i);
        HitRate rate = m_rates.empty() ? HitRate() : m_rates.back();
        rate.hit += step.hit_tokens;
        rate.queried += step.queried_tokens;
        rate.resumedHit += step.preempted_hit_tokens;
        rate.resumedQueried += step.preempted_queried_tokens;
        m_rates.push_back(rate);
    }
}

PrefixHistory::Content PrefixHistory::content(BlockId block, std::uint64_t end) const {
    if (block.value >= m_entries.size()) return {UINT64_MAX, {}, 0, 0};
    const std::vector<Entry>& entries = m_entries[block.value];
    const auto after = std::partition_point(entries.begin(), entries.end(), [end](const Entry& e) { return e.event < end; });
    if (after == entries.begin()) return {UINT64_MAX, {}, 0, 0};
    const Entry& entry = *std::prev(after);
    return {entry.began, entry.writer, entry.logical, entry.hits};
}

std::span<const PrefixHistory::Eviction> PrefixHistory::evictions(std::uint32_t first, std::uint32_t last) const {
    const auto begin = std::partition_point(m_evictions.begin(), m_evictions.end(),
                                            [first](const Eviction& e) { return e.step < first; });
    const auto end = std::partition_point(begin, m_evictions.end(), [last](const Eviction& e) { return e.step <= last; });
    return {begin, end};
}

PrefixHistory::HitRate PrefixHistory::hitRate(std::uint32_t step) const {
    if (m_rates.empty()) return {};
    return m_rates[std::min<std::size_t>(step, m_rates.size() - 1)];
}

}  // namespace kvloupe
