// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/lane_state.h"

#include <algorithm>

namespace kvloupe {

LaneState::LaneState(std::uint32_t blocks, std::uint32_t block_size)
    : m_block_size(block_size), m_blocks(blocks), m_previous(blocks ? blocks + 1 : 0), m_next(blocks ? blocks + 1 : 0) {
    if (blocks == 0) return;
    m_previous[blocks] = m_next[blocks] = blocks;
    for (std::uint32_t block = 1; block < blocks; ++block) link_back(block);
}

void LaneState::link_back(std::uint32_t block) {
    const auto sentinel = static_cast<std::uint32_t>(m_blocks.size());
    m_previous[block] = m_previous[sentinel];
    m_next[block] = sentinel;
    m_next[m_previous[sentinel]] = block;
    m_previous[sentinel] = block;
}

void LaneState::link_front(std::uint32_t block) {
    const auto sentinel = static_cast<std::uint32_t>(m_blocks.size());
    m_next[block] = m_next[sentinel];
    m_previous[block] = sentinel;
    m_previous[m_next[sentinel]] = block;
    m_next[sentinel] = block;
}

void LaneState::unlink(std::uint32_t block) {
    m_next[m_previous[block]] = m_next[block];
    m_previous[m_next[block]] = m_previous[block];
}

std::vector<BlockId> LaneState::free_order(std::size_t limit) const {
    std::vector<BlockId> order;
    if (m_blocks.empty()) return order;
    const auto sentinel = static_cast<std::uint32_t>(m_blocks.size());
    for (std::uint32_t block = m_next[sentinel]; block != sentinel && order.size() < limit; block = m_next[block])
        order.emplace_back(block);
    return order;
}

std::uint64_t LaneState::memory_bytes() const {
    std::uint64_t bytes = sizeof(*this) + m_blocks.capacity() * sizeof(BlockState) +
                          m_sequences.capacity() * sizeof(SequenceState) +
                          (m_holders.capacity() + m_previous.capacity() + m_next.capacity()) * sizeof(std::uint32_t);
    for (const SequenceState& sequence : m_sequences) bytes += sequence.table.capacity() * sizeof(BlockId);
    return bytes;
}

SequenceState& LaneState::sequence(SequenceId id) {
    if (id.value >= m_sequences.size()) m_sequences.resize(id.value + std::size_t{1});
    return m_sequences[id.value];
}

// Slots of the sequence's logical block that it has written.
std::uint32_t LaneState::slots_written(SequenceId id, std::uint32_t logical) const {
    const std::uint64_t computed = m_sequences[id.value].computed_tokens;
    const std::uint64_t begin = std::uint64_t{logical} * m_block_size;
    return computed <= begin ? 0 : static_cast<std::uint32_t>(std::min<std::uint64_t>(computed - begin, m_block_size));
}

void LaneState::take(std::uint32_t block) {
    if (m_blocks[block].owners++ == 0) {
        unlink(block);
        ++m_used;
    }
}

// Puts a block into the table; the entry may lie beyond the table's end (then null blocks fill the gap).
void LaneState::put(SequenceId id, std::uint32_t logical, std::uint32_t block) {
    std::vector<BlockId>& table = sequence(id).table;
    if (table.empty()) m_holders.push_back(id.value);
    if (logical >= table.size()) table.resize(logical + std::size_t{1}, null_block_id);
    table[logical] = BlockId(block);
    BlockState& state = m_blocks[block];
    if (block == null_block_id.value) return;
    if (!state.first_owner.valid()) {
        state.first_owner = id;
        state.logical = logical;
    }
    state.filled = std::max(state.filled, slots_written(id, logical));
}

// One of the owners that are left, and the slots they have written. Sharers hold a block at the same logical index.
void LaneState::settle_owner(std::uint32_t block) {
    BlockState& state = m_blocks[block];
    state.first_owner = SequenceId::none();
    std::uint32_t filled = 0;
    for (const std::uint32_t holder : m_holders) {
        const std::vector<BlockId>& table = m_sequences[holder].table;
        if (state.logical >= table.size() || table[state.logical].value != block) continue;
        if (!state.first_owner.valid() || holder < state.first_owner.value) state.first_owner = SequenceId(holder);
        filled = std::max(filled, slots_written(SequenceId(holder), state.logical));
    }
    if (!state.hashed) state.filled = filled;
}

// Null blocks at the end of a table stand for nothing.
void LaneState::trim(SequenceId id) {
    std::vector<BlockId>& table = sequence(id).table;
    if (table.empty()) return;
    while (!table.empty() && table.back() == null_block_id) table.pop_back();
    if (table.empty()) m_holders.erase(std::find(m_holders.begin(), m_holders.end(), id.value));
}

// What nobody owns is lost without its hash; what is owned holds what its owners wrote.
void LaneState::drop_hash(std::uint32_t block) {
    if (!m_blocks[block].hashed) return;
    m_blocks[block].hashed = false;
    if (m_blocks[block].owners > 0) settle_owner(block);
    else m_blocks[block].filled = 0;
}

void LaneState::leave(SequenceId id, std::uint32_t block, const Event& event) {
    std::vector<BlockId>& table = sequence(id).table;
    const auto entry = std::find(table.rbegin(), table.rend(), BlockId(block));
    if (entry != table.rend()) {
        *entry = null_block_id;
        trim(id);
    }
    BlockState& state = m_blocks[block];
    if (state.owners == 0) return;
    if (--state.owners > 0) {
        settle_owner(block);
        return;
    }
    --m_used;
    state.first_owner = SequenceId::none();
    state.logical = 0;
    if (!state.hashed) state.filled = 0;
    if (event.flags & Event::flag_front) link_front(block);
    else link_back(block);
}

void LaneState::fill(SequenceId id, std::uint32_t first, std::uint32_t end) {
    SequenceState& state = sequence(id);
    state.computed_tokens = end;
    if (m_block_size == 0 || first >= end) return;
    const std::uint32_t last = std::min<std::uint32_t>((end - 1) / m_block_size + 1,
                                                       static_cast<std::uint32_t>(state.table.size()));
    for (std::uint32_t logical = first / m_block_size; logical < last; ++logical)
        if (const BlockId block = state.table[logical]; in_pool(block))
            m_blocks[block.value].filled = std::max(m_blocks[block.value].filled, slots_written(id, logical));
}

void LaneState::fork(const Event& event) {
    const SequenceId parent(event.other);
    sequence(event.sequence).status = SequenceStatus::running;
    if (!parent.valid() || parent.value >= m_sequences.size()) return;
    const std::vector<BlockId> table = m_sequences[parent.value].table;
    sequence(event.sequence).computed_tokens = std::min(event.tokens, m_sequences[parent.value].computed_tokens);
    if (m_block_size == 0) return;
    const std::size_t shared = std::min<std::size_t>(
        (std::uint64_t{event.tokens} + m_block_size - 1) / m_block_size, table.size());
    for (std::size_t logical = 0; logical < shared; ++logical) {
        if (in_pool(table[logical])) take(table[logical].value);
        put(event.sequence, static_cast<std::uint32_t>(logical), table[logical].value);
    }
}

void LaneState::copy_on_write(const Event& event) {
    const BlockId destination(event.other);
    if (!in_pool(event.block) || !in_pool(destination)) return;
    std::vector<BlockId>& table = sequence(event.sequence).table;
    const auto entry = std::find(table.rbegin(), table.rend(), event.block);
    if (entry == table.rend()) return;
    const auto logical = static_cast<std::uint32_t>(table.rend() - entry) - 1;
    take(destination.value);
    BlockState& copy = m_blocks[destination.value];
    copy.hashed = false;
    copy.filled = event.tokens;
    copy.first_owner = event.sequence;
    copy.logical = logical;
    *entry = destination;
    leave(event.sequence, event.block.value, event);
}

void LaneState::apply(std::span<const Event> events) {
    for (const Event& event : events) apply(event);
}

void LaneState::apply(const Event& event) {
    const bool has_block = in_pool(event.block);
    if (!event.sequence.valid() && event.kind != EventKind::evict && event.kind != EventKind::store &&
        event.kind != EventKind::reset)
        return;
    switch (event.kind) {
    case EventKind::arrive:
        sequence(event.sequence).prompt_tokens = event.tokens;
        break;
    case EventKind::admit:
    case EventKind::resume:
        sequence(event.sequence).status = SequenceStatus::running;
        break;
    case EventKind::reject:
        sequence(event.sequence).status = SequenceStatus::rejected;
        break;
    case EventKind::allocate:
    case EventKind::prefix_hit: {
        SequenceState& state = sequence(event.sequence);
        if (!has_block) break;
        const auto next = static_cast<std::uint32_t>(state.table.size());
        const std::uint32_t logical = event.other == Event{}.other ? next : event.other;
        if (event.kind == EventKind::prefix_hit) state.computed_tokens += event.tokens;
        take(event.block.value);
        BlockState& block = m_blocks[event.block.value];
        if (event.kind == EventKind::allocate) {
            block.hashed = false;
            block.filled = 0;
        }
        put(event.sequence, logical, event.block.value);
        break;
    }
    case EventKind::fork:
        fork(event);
        break;
    case EventKind::copy_on_write:
        copy_on_write(event);
        break;
    case EventKind::free:
        if (has_block) leave(event.sequence, event.block.value, event);
        break;
    case EventKind::null_block:
        if (!m_blocks.empty() && event.other != Event{}.other) put(event.sequence, event.other, null_block_id.value);
        break;
    case EventKind::evict:
        if (has_block) drop_hash(event.block.value);
        break;
    case EventKind::store:
        if (has_block) m_blocks[event.block.value].hashed = true;
        break;
    case EventKind::reset:
        for (std::uint32_t block = 1; block < m_blocks.size(); ++block) drop_hash(block);
        break;
    case EventKind::preempt: {
        SequenceState& state = sequence(event.sequence);
        state.status = SequenceStatus::preempted;
        state.computed_tokens -= std::min(state.computed_tokens, event.tokens);
        break;
    }
    case EventKind::prefill:
        if (event.other != Event{}.other) fill(event.sequence, event.other, event.other + event.tokens);
        break;
    case EventKind::decode:
        if (event.other != Event{}.other) fill(event.sequence, event.other, event.other + 1);
        break;
    case EventKind::finish: {
        SequenceState& state = sequence(event.sequence);
        state.output_tokens = event.tokens;
        state.status = event.cause == Cause::sequence_cancelled ? SequenceStatus::cancelled
                       : event.cause == Cause::sequence_failed  ? SequenceStatus::failed
                                                                : SequenceStatus::finished;
        trim(event.sequence);
        break;
    }
    case EventKind::refuse:
    case EventKind::swap_out:
    case EventKind::swap_in:
        break;
    }
}

}  // namespace kvloupe
