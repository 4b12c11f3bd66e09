// SPDX-License-Identifier: GPL-3.0-or-later
//
// Who owns which block. A block names one owner; further ones stand in a list of its own, from which nobody is taken
// when he leaves: an entry counts while the sequence's table has the block at its place. Entries that no longer count
// are dropped when they come to the head, or all at once when they outnumber the owners: O(1) amortised.
// Rejected: searching the tables of all sequences (a system prompt shared by a thousand sequences makes every release
// a thousand times dearer); a list with links in every table entry (twice the memory of every table).
#include "engine/record/lane_state.h"

#include <algorithm>

namespace kvloupe {

namespace {

std::uint64_t pair_of(SequenceId id, std::uint32_t block) { return std::uint64_t{id.value} << 32 | block; }

}  // namespace

bool LaneState::stands(SequenceId id, std::uint32_t logical, std::uint32_t block) const {
    const TableState& entries = table(id, m_blocks[block].group);
    return logical < entries.size() && entries[logical].value == block;
}

std::uint32_t LaneState::find(SequenceId id, std::uint32_t block) const {
    const BlockState& state = m_blocks[block];
    if (state.owners == 0) return none;
    if (stands(id, state.logical, block)) return state.logical;  // sharers hold a block at the same logical index …
    for (std::uint32_t i = state.m_more; i != none; i = m_owners[i].next)  // … unless a short hash deceived them
        if (m_owners[i].sequence == id && stands(id, m_owners[i].logical, block)) return m_owners[i].logical;
    return none;
}

std::vector<SequenceId> LaneState::owners_of(BlockId block, std::size_t limit) const {
    std::vector<SequenceId> owners;
    if (!in_pool(block)) return owners;
    const BlockState& state = m_blocks[block.value];
    if (state.first_owner.valid() && limit > 0) owners.push_back(state.first_owner);
    for (std::uint32_t i = state.m_more; i != none && owners.size() < std::min<std::size_t>(limit, state.owners);
         i = m_owners[i].next) {
        const Owner& owner = m_owners[i];
        if (!stands(owner.sequence, owner.logical, block.value)) continue;
        if (std::find(owners.begin(), owners.end(), owner.sequence) == owners.end()) owners.push_back(owner.sequence);
    }
    std::sort(owners.begin(), owners.end());
    return owners;
}

std::uint32_t LaneState::take_owner(std::uint32_t index) {
    Owner& owner = m_owners.edit(index, m_made);
    const std::uint32_t next = owner.next;
    owner.next = m_free_owner;
    m_free_owner = index;
    return next;
}

void LaneState::forget_owners(BlockState& state) {
    while (state.m_more != none) state.m_more = take_owner(state.m_more);
    state.m_more_count = 0;
}

void LaneState::compact(BlockState& state, std::uint32_t block) {
    if (state.m_more_count <= 2 * state.owners + 4) return;
    std::uint32_t last = none;
    for (std::uint32_t i = state.m_more; i != none;) {
        if (stands(m_owners[i].sequence, m_owners[i].logical, block)) {
            last = i;
            i = m_owners[i].next;
            continue;
        }
        i = take_owner(i);
        --state.m_more_count;
        if (last == none) state.m_more = i;
        else m_owners.edit(last, m_made).next = i;
    }
}

// The block's new owner; the caller sets the table entry.
void LaneState::join(SequenceId id, std::uint32_t block, std::uint32_t logical, std::uint8_t group) {
    BlockState& state = edit(block);
    if (state.cached()) --m_cached;
    if (state.owners == 0) {
        if (state.held) state.held = false;
        else unlink(block);
        ++m_used;
        m_filled += state.filled;
    } else {
        ++m_saved;
    }
    ++state.owners;
    state.group = group;
    state.last_use = m_step;
    if (!state.first_owner.valid()) {
        state.first_owner = id;
        state.logical = logical;
        return;
    }
    const Owner owner{id, logical, state.m_more};
    if (m_free_owner == none) {
        m_owners.push_back(owner, m_made);
        state.m_more = static_cast<std::uint32_t>(m_owners.size()) - 1;
    } else {
        state.m_more = m_free_owner;
        Owner& unused = m_owners.edit(m_free_owner, m_made);
        m_free_owner = unused.next;
        unused = owner;
    }
    ++state.m_more_count;
}

void LaneState::set_filled(BlockState& state, std::uint32_t filled) {
    if (state.owners > 0) m_filled += std::uint64_t{filled} - state.filled;
    state.filled = filled;
}

void LaneState::detach(SequenceId id, std::uint32_t block) {
    m_detached.insert(pair_of(id, block));
    settle(block);
}

void LaneState::leave(SequenceId id, std::uint32_t block, std::uint8_t flags) {
    if (m_detached.erase(pair_of(id, block)) == 0) {
        if (const std::uint32_t logical = find(id, block); logical != none) {
            const std::uint8_t group = m_blocks[block].group;
            edit_table(sequence(id), group).edit(logical, m_made) = null_block_id;
            trim(id, group);
        }
    }
    part(id, block, flags);
}

void LaneState::part(SequenceId id, std::uint32_t block, std::uint8_t flags) {
    if (m_blocks[block].owners == 0) return;
    BlockState& state = edit(block);
    state.last_use = m_step;
    if (--state.owners > 0) {
        --m_saved;
        if (state.first_owner == id || !state.hashed) settle(block);
        compact(state, block);
        return;
    }
    --m_used;
    m_filled -= state.filled;
    forget_owners(state);
    state.first_owner = SequenceId::none();
    state.logical = 0;
    if (flags & Event::flag_held) state.held = true;
    else if (flags & Event::flag_front) link_front(block);
    else link_back(block);
    if (state.cached()) {
        ++m_cached;
    } else {
        state.filled = 0;
        state.born = BlockState::no_step;
    }
}

// One of the owners that are left, and the slots they have written.
void LaneState::settle(std::uint32_t block) {
    BlockState& state = edit(block);
    if (state.first_owner.valid() && !stands(state.first_owner, state.logical, block))
        state.first_owner = SequenceId::none();
    while (!state.first_owner.valid() && state.m_more != none) {
        const Owner owner = m_owners[state.m_more];
        state.m_more = take_owner(state.m_more);
        --state.m_more_count;
        if (!stands(owner.sequence, owner.logical, block)) continue;
        state.first_owner = owner.sequence;
        state.logical = owner.logical;
    }
    if (state.hashed || !state.first_owner.valid()) return;
    std::uint32_t filled = slots_written(state.first_owner, state.logical);
    for (std::uint32_t i = state.m_more; i != none && filled < state.filled; i = m_owners[i].next)
        if (stands(m_owners[i].sequence, m_owners[i].logical, block))
            filled = std::max(filled, slots_written(m_owners[i].sequence, m_owners[i].logical));
    set_filled(state, filled);
}

// What nobody owns is lost without its hash; what is owned holds what its owners wrote.
void LaneState::drop_hash(std::uint32_t block) {
    if (!m_blocks[block].hashed) return;
    BlockState& state = edit(block);
    const bool cached = state.cached();
    state.hashed = false;
    state.hash = state.parent_hash = 0;
    --m_hashed;
    if (cached && !state.cached()) --m_cached;
    if (state.owners > 0) {
        settle(block);
    } else if (!state.held) {
        state.filled = 0;
        state.born = BlockState::no_step;
    }
}

}  // namespace kvloupe
