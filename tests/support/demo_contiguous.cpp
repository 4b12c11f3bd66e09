// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/demo_contiguous.h"

#include <algorithm>
#include <bit>

namespace kvloupe {

DemoContiguous::DemoContiguous(RecordingWriter& writer, LaneWriter& lane, const DemoSharingOptions& options)
    : DemoEngine(writer, lane, options) {
    for (std::uint32_t first = 1; first < m_info.blocks;) {
        const std::uint32_t blocks = std::bit_floor(m_info.blocks - first);
        m_arenas[first] = m_free[first] = blocks;
        first += blocks;
    }
}

std::uint64_t DemoContiguous::asked(const Sequence& sequence) const {
    return m_info.policy.reserve == "max" ? m_info.policy.max_model_len : sequence.final_slots();
}

std::uint64_t DemoContiguous::most_slots() const {
    const std::uint64_t largest = m_arenas.empty() ? 0 : m_arenas.begin()->second;
    const std::uint64_t slots = largest * m_info.block_size;
    return m_info.policy.reserve == "max" ? std::min<std::uint64_t>(slots, m_info.policy.max_model_len) : slots;
}

std::uint32_t DemoContiguous::arena_of(std::uint32_t block) const { return std::prev(m_arenas.upper_bound(block))->first; }

bool DemoContiguous::admit(Sequence& sequence, std::uint32_t budget, std::uint32_t& count) {
    const std::uint32_t blocks = std::bit_ceil(blocks_for(asked(sequence)));
    auto best = m_free.end();
    for (auto chunk = m_free.begin(); chunk != m_free.end(); ++chunk)
        if (chunk->second >= blocks && (best == m_free.end() || chunk->second < best->second)) best = chunk;
    if (best == m_free.end()) {
        refuse(sequence, Cause::pool_too_full, blocks, m_info.blocks - 1 - state().used_blocks());
        return false;
    }
    auto [first, size] = *best;
    m_free.erase(best);
    for (; size > blocks; size /= 2) m_free[first + size / 2] = size / 2;
    m_regions[sequence.id.value] = {first, blocks, asked(sequence)};
    Event event = DemoEngine::event(EventKind::admit, Cause::fits_beside_running, sequence.id);
    event.tokens = sequence.prompt;
    emit(event);
    for (std::uint32_t i = 0; i < blocks; ++i) {
        event = DemoEngine::event(EventKind::allocate, Cause::reservation, sequence.id);
        event.block = BlockId(first + i);
        event.other = i;
        emit(event);
    }
    count = std::min(sequence.to_do(), budget);
    return true;
}

void DemoContiguous::release(Sequence& sequence, Cause cause) {
    const Region region = m_regions.extract(sequence.id.value).mapped();
    for (std::uint32_t i = region.blocks; i-- > 0;) {
        Event event = DemoEngine::event(EventKind::free, cause, sequence.id);
        event.block = BlockId(region.first + i);
        event.other = 0;
        event.flags = Event::flag_front;
        emit(event);
    }
    const std::uint32_t arena = arena_of(region.first);
    std::uint32_t first = region.first, blocks = region.blocks;
    while (blocks < m_arenas[arena]) {
        const std::uint32_t buddy = arena + ((first - arena) ^ blocks);
        const auto found = m_free.find(buddy);
        if (found == m_free.end() || found->second != blocks) break;
        m_free.erase(found);
        first = std::min(first, buddy);
        blocks *= 2;
    }
    m_free[first] = blocks;
}

void DemoContiguous::count(SlotCounts& slots, StepRecord&) const {
    const std::uint64_t size = m_info.block_size;
    for (const Sequence& one : m_running) {
        const Region& region = m_regions.at(one.id.value);
        const std::uint64_t end = std::min(region.asked, one.final_slots());
        slots.token += one.computed;
        slots.reserved += end - one.computed;
        slots.internal += region.asked - end;
        slots.external += region.blocks * size - region.asked;
    }
    const std::uint32_t wanted = m_waiting.empty() ? 0 : std::bit_ceil(blocks_for(asked(m_waiting.front())));
    for (const auto& [first, blocks] : m_free) (blocks < wanted ? slots.external : slots.free) += blocks * size;
}

}  // namespace kvloupe
