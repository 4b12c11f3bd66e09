// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/lane_state_code.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kvloupe {

namespace {

// Bytes that grow; a number takes at most ten.
class CodeBytes {
public:
    void put(std::uint64_t value) {
        if (m_bytes.size() - m_end < 10) m_bytes.resize(2 * m_bytes.size() + 4096);
        char* at = &m_bytes[m_end];
        for (; value >= 0x80; value >>= 7) *at++ = static_cast<char>(value | 0x80);
        *at++ = static_cast<char>(value);
        m_end = static_cast<std::size_t>(at - m_bytes.data());
    }
    void put_raw(std::uint64_t value) {  // eight bytes, the lowest first
        if (m_bytes.size() - m_end < 8) m_bytes.resize(2 * m_bytes.size() + 4096);
        for (int i = 0; i < 8; ++i) m_bytes[m_end++] = static_cast<char>(value >> (8 * i));
    }
    std::string take() {
        m_bytes.resize(m_end);
        return std::move(m_bytes);
    }

private:
    std::string m_bytes;
    std::size_t m_end = 0;
};

void put_number(CodeBytes& out, std::uint64_t value) { out.put(value); }

// "none" (all ones) is frequent and becomes 0.
void put_index(CodeBytes& out, std::uint32_t value) { put_number(out, value == 0xFFFFFFFFu ? 0 : std::uint64_t{value} + 1); }

template <class Range, class Field>
void put_column(CodeBytes& out, const Range& range, Field field) {
    for (const auto& one : range) put_number(out, field(one));
}

template <class Range, class Field>
void put_indices(CodeBytes& out, const Range& range, Field field) {
    for (const auto& one : range) put_index(out, field(one));
}

// Hashes are as good as random: eight bytes each. What a block's content goes on from mostly lies in another block, whose index
// takes two or three: a code per block (0: nothing before it, 1: a hash that no block has, else that block + 2), then the hashes.
template <class Blocks>
void put_hashes(CodeBytes& out, const Blocks& blocks, const StateChange& change) {
    unsigned bits = 4;
    while ((std::size_t{1} << bits) < 2 * blocks.size()) ++bits;
    const std::size_t mask = (std::size_t{1} << bits) - 1;
    std::vector<std::uint32_t> found(mask + 1, 0xFFFFFFFFu);  // open addressing; the multiplier is 2^64 by the golden ratio
    const auto slot_of = [bits](std::uint64_t hash) { return static_cast<std::size_t>((hash * 0x9E3779B97F4A7C15u) >> (64 - bits)); };
    std::vector<std::uint64_t> hashes, parents, alone;
    hashes.reserve(blocks.size());
    parents.reserve(blocks.size());
    for (const BlockState& block : blocks) {
        parents.push_back(block.parent_hash);
        hashes.push_back(block.hash);
        put_number(out, block.hash != 0);
        if (block.hash == 0) continue;
        std::size_t slot = slot_of(block.hash);
        while (found[slot] != 0xFFFFFFFFu && hashes[found[slot]] != block.hash) slot = (slot + 1) & mask;
        found[slot] = static_cast<std::uint32_t>(hashes.size() - 1);
    }
    for (const std::uint64_t hash : hashes)
        if (hash != 0) out.put_raw(change.hash(hash));
    for (const std::uint64_t parent : parents) {
        std::size_t slot = slot_of(parent);
        while (parent != 0 && found[slot] != 0xFFFFFFFFu && hashes[found[slot]] != parent) slot = (slot + 1) & mask;
        const bool known = parent != 0 && found[slot] != 0xFFFFFFFFu;
        put_number(out, parent == 0 ? 0 : known ? std::uint64_t{found[slot]} + 2 : 1);
        if (parent != 0 && !known) alone.push_back(change.hash(parent));
    }
    for (const std::uint64_t hash : alone) out.put_raw(hash);
}

void put_table(CodeBytes& out, const TableState& table) {
    put_number(out, table.size());
    put_indices(out, table, [](BlockId id) { return id.value; });
}

}  // namespace

// The finishing steps of splitmix64 (Steele, Lea, Flood 2014): without the key nobody can try out what was hashed.
std::uint64_t StateChange::hash(std::uint64_t hash) const {
    if (hash_key == 0 || hash == 0) return hash;
    hash = (hash ^ hash_key) + 0x9E3779B97F4A7C15u;
    hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9u;
    hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBu;
    return hash ^ (hash >> 31) ^ hash_key;
}

std::string LaneStateCode::encode(const LaneState& state, const StateChange& change) {
    CodeBytes out;
    for (const std::uint64_t number :
         {newest_version, std::uint64_t{state.m_block_size}, std::uint64_t{change.step(state.m_step)}, std::uint64_t{state.m_used},
          std::uint64_t{state.m_cached}, std::uint64_t{state.m_host}, state.m_filled, state.m_saved, std::uint64_t{state.m_groups},
          std::uint64_t{state.m_hashed}})
        put_number(out, number);

    const auto& blocks = state.m_blocks;
    put_number(out, blocks.size());
    put_column(out, blocks, [](const BlockState& b) { return b.owners; });
    put_column(out, blocks, [](const BlockState& b) { return (b.hashed ? 1u : 0u) | (b.held ? 2u : 0u); });
    put_indices(out, blocks, [](const BlockState& b) { return b.first_owner.value; });
    put_column(out, blocks, [](const BlockState& b) { return b.logical; });
    put_column(out, blocks, [](const BlockState& b) { return b.filled; });
    put_column(out, blocks, [](const BlockState& b) { return b.group; });
    put_indices(out, blocks, [&](const BlockState& b) { return change.step(b.born); });
    put_indices(out, blocks, [&](const BlockState& b) { return change.step(b.last_use); });
    put_hashes(out, blocks, change);
    put_indices(out, blocks, [](const BlockState& b) { return b.m_more; });
    put_column(out, blocks, [](const BlockState& b) { return b.m_more_count; });

    // The free queue from its front: how far each is from the one behind the block before it, in zigzag.
    const std::vector<BlockId> queue = state.free_order(SIZE_MAX);
    put_number(out, queue.size());
    std::int64_t expected = 1;
    for (const BlockId block : queue) {
        const std::int64_t off = std::int64_t{block.value} - expected;
        put_number(out, static_cast<std::uint64_t>(off < 0 ? -2 * off - 1 : 2 * off));
        expected = std::int64_t{block.value} + 1;
    }

    put_number(out, state.m_owners.size());
    put_index(out, state.m_free_owner);
    put_indices(out, state.m_owners, [](const LaneState::Owner& o) { return o.sequence.value; });
    put_column(out, state.m_owners, [](const LaneState::Owner& o) { return o.logical; });
    put_indices(out, state.m_owners, [](const LaneState::Owner& o) { return o.next; });

    const auto& sequences = state.m_sequences;
    put_number(out, sequences.size());
    put_column(out, sequences, [](const SequenceState& s) { return static_cast<std::uint32_t>(s.status); });
    put_column(out, sequences, [](const SequenceState& s) { return s.prompt_tokens; });
    put_column(out, sequences, [](const SequenceState& s) { return s.computed_tokens; });
    put_column(out, sequences, [](const SequenceState& s) { return s.output_tokens; });
    put_column(out, sequences, [](const SequenceState& s) { return s.host_blocks; });
    put_indices(out, sequences, [](const SequenceState& s) { return s.m_holder; });
    for (const SequenceState& one : sequences) put_table(out, one.table);
    for (const SequenceState& one : sequences) {
        put_number(out, one.group_tables.size());
        for (const TableState& table : one.group_tables) put_table(out, table);
    }
    for (const SequenceState& one : sequences) {
        put_number(out, one.m_stored.size());
        for (const auto& stored : one.m_stored) {
            put_number(out, stored.logical);
            put_number(out, change.hash(stored.hash));
        }
    }

    put_number(out, state.m_holders.size());
    for (const std::uint32_t holder : state.m_holders) put_number(out, holder);
    std::vector<std::uint64_t> detached(state.m_detached.begin(), state.m_detached.end());
    std::sort(detached.begin(), detached.end());
    put_number(out, detached.size());
    for (const std::uint64_t pair : detached) put_number(out, pair);
    return out.take();
}

}  // namespace kvloupe
