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

std::uint64_t DemoContiguous::asked(const Sequence& sequence, std::uint32_t count) const {
    const std::string& reserve = m_info.policy.reserve;
    if (reserve == "max") return m_info.policy.max_model_len;
    if (reserve == "pow2") return std::uint64_t{sequence.prompt} + std::bit_ceil(sequence.max_new);
    if (reserve == "grow") return std::uint64_t{sequence.computed} + count;
    return sequence.final_slots();
}

std::uint64_t DemoContiguous::most_slots() const {
    const std::uint64_t largest = m_arenas.empty() ? 0 : m_arenas.begin()->second;
    const std::uint64_t slots = largest * m_info.block_size;
    return m_info.policy.reserve == "max" ? std::min<std::uint64_t>(slots, m_info.policy.max_model_len) : slots;
}

std::uint32_t DemoContiguous::arena_of(std::uint32_t block) const { return std::prev(m_arenas.upper_bound(block))->first; }

// The smallest chunk that is large enough, at the lowest address, halved as far as it goes.
std::optional<DemoContiguous::Region> DemoContiguous::take(std::uint64_t slots) {
    const std::uint32_t blocks = std::bit_ceil(blocks_for(slots));
    auto best = m_free.end();
    for (auto chunk = m_free.begin(); chunk != m_free.end(); ++chunk)
        if (chunk->second >= blocks && (best == m_free.end() || chunk->second < best->second)) best = chunk;
    if (best == m_free.end()) return std::nullopt;
    auto [first, size] = *best;
    m_free.erase(best);
    for (; size > blocks; size /= 2) m_free[first + size / 2] = size / 2;
    return Region{first, blocks, slots};
}

void DemoContiguous::give_back(const Region& region) {
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

bool DemoContiguous::admit(Sequence& sequence, std::uint32_t budget, std::uint32_t& count) {
    count = std::min(sequence.to_do(), budget);
    const std::uint64_t slots = asked(sequence, count);
    const std::optional<Region> region = take(slots);
    if (!region) {
        refuse(sequence, Cause::pool_too_full, std::bit_ceil(blocks_for(slots)), m_info.blocks - 1 - state().used_blocks());
        return false;
    }
    m_regions[sequence.id.value] = *region;
    Event event = DemoEngine::event(sequence.started ? EventKind::resume : EventKind::admit,
                                    sequence.started ? Cause::recomputed : Cause::fits_beside_running, sequence.id);
    event.tokens = sequence.started ? 0 : sequence.prompt;
    emit(event);
    for (std::uint32_t i = 0; i < region->blocks; ++i) {
        const bool grows = m_info.policy.reserve == "grow";
        event = DemoEngine::event(EventKind::allocate, grows ? Cause::first_slot_of_block : Cause::reservation, sequence.id);
        event.block = BlockId(region->first + i);
        event.other = i;
        emit(event);
    }
    return true;
}

// A region that grows moves to a larger one: what is written is copied, the rest of the new one taken, the old given back.
bool DemoContiguous::grow(std::size_t index, std::uint32_t count) {
    if (m_info.policy.reserve != "grow") return true;
    const SequenceId id = m_running[index].id;
    const std::uint64_t slots = asked(m_running[index], count);
    const Region old = m_regions[id.value];
    if (slots <= old.blocks * std::uint64_t{m_info.block_size}) {
        m_regions[id.value].asked = slots;
        return true;
    }
    std::optional<Region> region = take(slots);
    while (!region) {
        const std::size_t victim = m_running.size() - 1;
        Event event = DemoEngine::event(EventKind::preempt, Cause::last_running, m_running[victim].id);
        event.other = id.value;
        event.tokens = m_running[victim].computed;
        emit(event);
        release(m_running[victim], Cause::sequence_preempted);
        m_running[victim].computed = 0;
        take_from_running(victim);
        if (victim == index) return false;
        region = take(slots);
    }
    const Sequence& sequence = m_running[index];
    const std::uint32_t written = blocks_for(sequence.computed);
    for (std::uint32_t i = 0; i < region->blocks; ++i) {
        const BlockId to(region->first + i);
        Event event = DemoEngine::event(i < written ? EventKind::copy_on_write : EventKind::allocate, Cause::grown_by_copy, id);
        event.block = i < written ? BlockId(old.first + i) : to;
        event.other = i < written ? to.value : i;
        if (i < written) event.tokens = std::min(m_info.block_size, sequence.computed - i * m_info.block_size);
        emit(event);
    }
    for (std::uint32_t i = old.blocks; i-- > 0;) {
        Event event = DemoEngine::event(EventKind::free, Cause::grown_by_copy, id);
        event.block = BlockId(old.first + i);
        event.other = 0;
        event.flags = Event::flag_front;
        emit(event);
    }
    give_back(old);
    m_regions[id.value] = *region;
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
    give_back(region);
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
    const std::uint32_t wanted = m_waiting.empty() ? 0 : std::bit_ceil(blocks_for(asked(m_waiting.front(), m_waiting.front().to_do())));
    for (const auto& [first, blocks] : m_free) (blocks < wanted ? slots.external : slots.free) += blocks * size;
}

}  // namespace kvloupe
