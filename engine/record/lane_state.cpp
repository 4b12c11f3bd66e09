// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/lane_state.h"

#include <algorithm>

namespace kvloupe {

LaneState::LaneState(std::uint32_t blocks, std::uint32_t block_size)
    : m_block_size(block_size), m_blocks(blocks, BlockState{}), m_links(blocks ? blocks + std::size_t{1} : 0, Link{}) {
    if (blocks == 0) return;
    const std::uint32_t first = blocks > 1 ? 1 : blocks;
    m_links.edit(blocks, m_made) = {blocks > 1 ? blocks - 1 : blocks, first};
    m_links.edit(first, m_made).previous = blocks;
}

std::uint64_t LaneState::memory_bytes() const {
    std::uint64_t bytes = sizeof(*this) + m_blocks.bytes() + m_sequences.bytes() + m_links.bytes() + m_owners.bytes() +
                          m_holders.capacity() * sizeof(std::uint32_t);
    for (const SequenceState& one : m_sequences) {
        bytes += one.table.bytes() + one.group_tables.capacity() * sizeof(TableState);
        for (const TableState& group : one.group_tables) bytes += group.bytes();
    }
    return bytes;
}

std::uint64_t LaneState::made_bytes() const {
    return m_made + sizeof(*this) + m_blocks.own_bytes() + m_sequences.own_bytes() + m_links.own_bytes() +
           m_owners.own_bytes() + m_holders.capacity() * sizeof(std::uint32_t);
}

const TableState& LaneState::table(SequenceId sequence, std::uint8_t group) const {
    if (sequence.value >= m_sequences.size()) return m_no_table;
    const SequenceState& state = m_sequences[sequence.value];
    if (group == 0) return state.table;
    return group <= state.group_tables.size() ? state.group_tables[group - std::size_t{1}] : m_no_table;
}

std::uint32_t LaneState::last_use_of(BlockId block) const {
    if (!in_pool(block)) return BlockState::no_step;
    const BlockState& state = m_blocks[block.value];
    return state.owners > 0 ? m_step : state.last_use;
}

SequenceState& LaneState::sequence(SequenceId id) {
    if (id.value >= m_sequences.size()) m_sequences.resize(id.value + std::size_t{1}, SequenceState{}, m_made);
    return m_sequences.edit(id.value, m_made);
}

TableState& LaneState::edit_table(SequenceState& state, std::uint8_t group) {
    if (group == 0) return state.table;
    if (group > state.group_tables.size()) state.group_tables.resize(group);
    return state.group_tables[group - std::size_t{1}];
}

// Slots of the sequence's logical block that it has written.
std::uint32_t LaneState::slots_written(SequenceId id, std::uint32_t logical) const {
    const std::uint64_t computed = m_sequences[id.value].computed_tokens;
    const std::uint64_t begin = std::uint64_t{logical} * m_block_size;
    return computed <= begin ? 0 : static_cast<std::uint32_t>(std::min<std::uint64_t>(computed - begin, m_block_size));
}

// The entry may lie beyond the table's end; then null blocks fill the gap.
void LaneState::set_entry(SequenceId id, std::uint32_t logical, std::uint32_t block, std::uint8_t group) {
    SequenceState& state = sequence(id);
    if (state.m_holder == none) {
        state.m_holder = static_cast<std::uint32_t>(m_holders.size());
        m_holders.push_back(id.value);
    }
    m_groups = std::max<std::uint32_t>(m_groups, group + std::uint32_t{1});
    TableState& entries = edit_table(state, group);
    if (logical >= entries.size()) entries.resize(logical + std::size_t{1}, null_block_id, m_made);
    entries.edit(logical, m_made) = BlockId(block);
}

// Null blocks at the end of a table stand for nothing.
void LaneState::trim(SequenceId id, std::uint8_t group) {
    SequenceState& state = sequence(id);
    TableState& entries = edit_table(state, group);
    while (!entries.empty() && entries.back() == null_block_id) entries.pop_back();
    if (state.m_holder == none || !state.table.empty()) return;
    for (const TableState& other : state.group_tables)
        if (!other.empty()) return;
    const std::uint32_t moved = m_holders.back();
    m_holders[state.m_holder] = moved;
    m_sequences.edit(moved, m_made).m_holder = state.m_holder;
    m_holders.pop_back();
    state.m_holder = none;
}

void LaneState::trim_all(SequenceId id) {
    for (std::size_t group = 0; group <= m_sequences[id.value].group_tables.size(); ++group)
        trim(id, static_cast<std::uint8_t>(group));
}

void LaneState::remember(SequenceId id, std::uint8_t group, std::uint32_t logical, std::uint64_t hash) {
    std::vector<SequenceState::Stored>& stored = sequence(id).m_stored;
    if (stored.size() <= group) stored.resize(group + std::size_t{1});
    stored[group] = {logical, hash};
}

void LaneState::place(const Event& event) {
    SequenceState& state = sequence(event.sequence);
    if (event.kind == EventKind::swap_in) {
        m_host -= state.host_blocks > 0;
        state.host_blocks -= state.host_blocks > 0;
    }
    if (!in_pool(event.block)) return;
    const TableState& entries = table(event.sequence, event.group);
    const bool appends = event.other == Event{}.other || event.kind == EventKind::swap_in;
    const auto logical = appends ? static_cast<std::uint32_t>(entries.size()) : event.other;
    const std::uint64_t end = std::uint64_t{logical} * m_block_size + event.tokens;
    if (event.tokens > 0 && (event.kind == EventKind::prefix_hit ||
                             (event.kind == EventKind::swap_in && state.status == SequenceStatus::swapped)))
        state.computed_tokens = std::max(state.computed_tokens, static_cast<std::uint32_t>(end));
    const BlockId before = logical < entries.size() ? entries[logical] : null_block_id;
    if (before == event.block) return;
    join(event.sequence, event.block.value, logical, event.group);
    set_entry(event.sequence, logical, event.block.value, event.group);
    if (in_pool(before)) detach(event.sequence, before.value);
    BlockState& block = edit(event.block.value);
    if (event.kind == EventKind::prefix_hit) {
        if (block.hashed) remember(event.sequence, event.group, logical, block.hash);
    } else {
        drop_hash(event.block.value);
        set_filled(block, event.kind == EventKind::swap_in ? event.tokens : 0);
        block.born = m_step;
    }
    set_filled(block, std::max(block.filled, slots_written(event.sequence, logical)));
}

void LaneState::fill(SequenceId id, std::uint32_t first, std::uint32_t end) {
    SequenceState& state = sequence(id);
    state.computed_tokens = end;
    if (m_block_size == 0 || first >= end) return;
    for (std::size_t group = 0; group <= state.group_tables.size(); ++group) {
        const TableState& entries = table(id, static_cast<std::uint8_t>(group));
        const auto last = static_cast<std::uint32_t>(
            std::min<std::size_t>((end - std::size_t{1}) / m_block_size + 1, entries.size()));
        for (std::uint32_t logical = first / m_block_size; logical < last; ++logical) {
            if (!in_pool(entries[logical])) continue;
            BlockState& block = edit(entries[logical].value);
            set_filled(block, std::max(block.filled, slots_written(id, logical)));
            block.last_use = m_step;
        }
    }
}

void LaneState::fork(const Event& event) {
    sequence(event.sequence).status = SequenceStatus::running;
    if (event.other >= m_sequences.size()) return;
    // The child of a parent that waits has nothing to share and waits as well.
    if (m_sequences[event.other].status == SequenceStatus::preempted || m_sequences[event.other].status == SequenceStatus::swapped)
        sequence(event.sequence).status = SequenceStatus::preempted;
    const SequenceState parent = m_sequences[event.other];  // tables are shared, not copied
    SequenceState& child = sequence(event.sequence);
    child.prompt_tokens = std::min(event.tokens, parent.prompt_tokens);
    child.computed_tokens = std::min(event.tokens, parent.computed_tokens);
    if (m_block_size == 0) return;
    const std::size_t last = (std::uint64_t{event.tokens} + m_block_size - 1) / m_block_size;
    for (std::size_t group = 0; group <= parent.group_tables.size(); ++group) {
        const TableState& entries = group == 0 ? parent.table : parent.group_tables[group - 1];
        for (std::size_t i = 0; i < std::min(last, entries.size()); ++i) {
            const auto logical = static_cast<std::uint32_t>(i);
            const auto of = static_cast<std::uint8_t>(group);
            if (in_pool(entries[i])) join(event.sequence, entries[i].value, logical, of);
            set_entry(event.sequence, logical, entries[i].value, of);
        }
    }
}

void LaneState::copy_on_write(const Event& event) {
    const BlockId destination(event.other);
    if (!in_pool(event.block) || !in_pool(destination)) return;
    if (find(event.sequence, destination.value) == none) {
        const std::uint32_t logical = find(event.sequence, event.block.value);
        if (logical == none) return;
        const std::uint8_t group = m_blocks[event.block.value].group;
        join(event.sequence, destination.value, logical, group);
        set_entry(event.sequence, logical, destination.value, group);
        if (event.cause == Cause::grown_by_copy) detach(event.sequence, event.block.value);
        else part(event.sequence, event.block.value, event.flags);
    }
    drop_hash(destination.value);
    BlockState& copy = edit(destination.value);
    set_filled(copy, event.tokens);
    copy.born = m_step;
}

void LaneState::null_block(const Event& event) {
    if (m_blocks.empty() || event.other == Event{}.other) return;
    const TableState& entries = table(event.sequence, event.group);
    const BlockId before = event.other < entries.size() ? entries[event.other] : null_block_id;
    set_entry(event.sequence, event.other, null_block_id.value, event.group);
    if (in_pool(before)) detach(event.sequence, before.value);
}

void LaneState::store(const Event& event) {
    if (!in_pool(event.block)) return;
    BlockState& block = edit(event.block.value);
    if (block.owners == 0 && !block.held) return;  // nobody could have filled it
    const SequenceId owner = event.sequence.valid() ? event.sequence : block.first_owner;
    m_hashed += !block.hashed;
    block.hashed = true;
    block.hash = std::uint64_t{event.other} << 32 | event.tokens;
    block.parent_hash = 0;
    const std::uint32_t logical = owner.valid() ? find(owner, event.block.value) : none;
    if (logical == none) return;
    if (logical > 0) {
        const BlockId before = table(owner, block.group)[logical - 1];
        const std::vector<SequenceState::Stored>& stored = m_sequences[owner.value].m_stored;
        if (in_pool(before) && m_blocks[before.value].hashed) block.parent_hash = m_blocks[before.value].hash;
        else if (block.group < stored.size() && stored[block.group].logical + 1 == logical)
            block.parent_hash = stored[block.group].hash;  // before the window
    }
    remember(owner, block.group, logical, block.hash);
}

void LaneState::evict(const Event& event) {
    if (!in_pool(event.block)) return;
    drop_hash(event.block.value);
    if (!(event.flags & Event::flag_released) || !m_blocks[event.block.value].held) return;
    BlockState& block = edit(event.block.value);
    block.held = false;
    block.filled = 0;
    block.born = BlockState::no_step;
    --m_cached;
    if (event.flags & Event::flag_front) link_front(event.block.value);
    else link_back(event.block.value);
}

void LaneState::reset() {
    for (std::uint32_t block = 1; block < m_blocks.size() && m_hashed + m_cached > 0; ++block) {
        if (!m_blocks[block].hashed && !m_blocks[block].held) continue;
        Event event;
        event.block = BlockId(block);
        event.flags = Event::flag_released;
        evict(event);
    }
}

void LaneState::finish(const Event& event) {
    SequenceState& state = sequence(event.sequence);
    state.output_tokens = event.tokens;
    state.status = event.cause == Cause::sequence_cancelled ? SequenceStatus::cancelled
                   : event.cause == Cause::sequence_failed  ? SequenceStatus::failed
                                                            : SequenceStatus::finished;
    m_host -= state.host_blocks;
    state.host_blocks = 0;
    trim_all(event.sequence);
}

void LaneState::apply(std::span<const Event> events) {
    for (const Event& event : events) apply(event);
}

void LaneState::apply(const Event& event) {
    if (!event.sequence.valid() && event.kind != EventKind::evict && event.kind != EventKind::store &&
        event.kind != EventKind::reset)
        return;
    switch (event.kind) {
    case EventKind::arrive: sequence(event.sequence).prompt_tokens = event.tokens; break;
    case EventKind::admit: sequence(event.sequence).status = SequenceStatus::running; break;
    case EventKind::resume: {
        SequenceState& state = sequence(event.sequence);
        state.status = SequenceStatus::running;
        if (event.cause == Cause::swapped_in) state.computed_tokens = event.tokens;
        break;
    }
    case EventKind::reject: sequence(event.sequence).status = SequenceStatus::rejected; break;
    case EventKind::allocate:
    case EventKind::prefix_hit:
    case EventKind::swap_in: place(event); break;
    case EventKind::fork: fork(event); break;
    case EventKind::copy_on_write: copy_on_write(event); break;
    case EventKind::free:
        if (in_pool(event.block)) leave(event.sequence, event.block.value, event.flags);
        break;
    case EventKind::null_block: null_block(event); break;
    case EventKind::evict: evict(event); break;
    case EventKind::store: store(event); break;
    case EventKind::reset: reset(); break;
    case EventKind::preempt: {
        SequenceState& state = sequence(event.sequence);
        if (state.status != SequenceStatus::swapped) state.status = SequenceStatus::preempted;
        state.computed_tokens -= std::min(state.computed_tokens, event.tokens);
        trim_all(event.sequence);
        break;
    }
    case EventKind::swap_out: {
        SequenceState& state = sequence(event.sequence);
        state.status = SequenceStatus::swapped;
        ++state.host_blocks;
        ++m_host;
        break;
    }
    case EventKind::prefill:
        if (event.other != Event{}.other) fill(event.sequence, event.other, event.other + event.tokens);
        break;
    case EventKind::decode:
        if (event.other != Event{}.other) fill(event.sequence, event.other, event.other + 1);
        break;
    case EventKind::finish: finish(event); break;
    case EventKind::refuse: break;
    }
}

}  // namespace kvloupe
