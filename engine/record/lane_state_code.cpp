// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/lane_state_code.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kvloupe {

namespace {

constexpr std::uint64_t code_version = 1;
constexpr std::uint64_t max_table = std::uint64_t{1} << 24;  // entries: what a file can name without taking all memory

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

void put_table(CodeBytes& out, const TableState& table) {
    put_number(out, table.size());
    put_indices(out, table, [](BlockId id) { return id.value; });
}

}  // namespace

// Numbers out of bytes; after the first one that is not there all are 0 and good() is false.
class LaneStateCode::Reader {
public:
    explicit Reader(std::string_view bytes) : m_bytes(bytes) {}

    std::uint64_t number() {
        if (m_at < m_bytes.size() && static_cast<unsigned char>(m_bytes[m_at]) < 0x80) return static_cast<unsigned char>(m_bytes[m_at++]);
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            if (m_at >= m_bytes.size()) break;
            const auto byte = static_cast<unsigned char>(m_bytes[m_at++]);
            value |= std::uint64_t{byte & 0x7Fu} << shift;
            if (byte < 0x80) return value;
        }
        m_good = false;
        m_at = m_bytes.size();
        return 0;
    }
    std::uint32_t number32() {
        const std::uint64_t value = number();
        if (value > 0xFFFFFFFFu) m_good = false;
        return static_cast<std::uint32_t>(value);
    }
    std::uint32_t index() { return number32() - 1u; }  // 0: none
    // A column: put(i, number) for each; most numbers are a byte.
    template <class Put>
    void column(std::size_t count, Put put) {
        std::uint64_t wide = 0;
        std::size_t at = m_at;
        for (std::size_t i = 0; i < count; ++i) {
            std::uint64_t value = 0;
            if (at < m_bytes.size() && static_cast<unsigned char>(m_bytes[at]) < 0x80) {
                value = static_cast<unsigned char>(m_bytes[at++]);
            } else {
                m_at = at;
                value = number();
                at = m_at;
            }
            wide |= value >> 32;
            put(i, value);
        }
        m_at = at;
        m_wide = wide != 0;
    }
    template <class Put>
    void column32(std::size_t count, Put put) {
        column(count, [&](std::size_t i, std::uint64_t value) { put(i, static_cast<std::uint32_t>(value)); });
        if (m_wide) m_good = false;
    }
    template <class Put>
    void indices(std::size_t count, Put put) {
        column32(count, [&](std::size_t i, std::uint32_t value) { put(i, value - 1u); });
    }
    // A count of things of which each takes at least one byte.
    std::size_t count() {
        const std::uint64_t value = number();
        if (value > m_bytes.size() - m_at) m_good = false;
        return m_good ? static_cast<std::size_t>(value) : 0;
    }
    bool good() const { return m_good; }
    bool at_end() const { return m_at == m_bytes.size(); }

private:
    std::string_view m_bytes;
    std::size_t m_at = 0;
    bool m_good = true, m_wide = false;
};

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
         {code_version, std::uint64_t{state.m_block_size}, std::uint64_t{change.step(state.m_step)}, std::uint64_t{state.m_used},
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
    put_column(out, blocks, [&](const BlockState& b) { return change.hash(b.hash); });
    put_column(out, blocks, [&](const BlockState& b) { return change.hash(b.parent_hash); });
    put_indices(out, blocks, [](const BlockState& b) { return b.m_more; });
    put_column(out, blocks, [](const BlockState& b) { return b.m_more_count; });

    put_indices(out, state.m_links, [](const LaneState::Link& l) { return l.previous; });
    put_indices(out, state.m_links, [](const LaneState::Link& l) { return l.next; });

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

bool LaneStateCode::read_blocks(Reader& in, LaneState& state, std::uint32_t blocks) {
    if (in.count() != blocks) return false;
    std::vector<BlockState> all(blocks);
    in.column32(blocks, [&](std::size_t i, std::uint32_t v) { all[i].owners = v; });
    in.column32(blocks, [&](std::size_t i, std::uint32_t v) {
        all[i].hashed = (v & 1) != 0;
        all[i].held = (v & 2) != 0;
    });
    in.indices(blocks, [&](std::size_t i, std::uint32_t v) { all[i].first_owner = SequenceId(v); });
    in.column32(blocks, [&](std::size_t i, std::uint32_t v) { all[i].logical = v; });
    in.column32(blocks, [&](std::size_t i, std::uint32_t v) { all[i].filled = v; });
    in.column32(blocks, [&](std::size_t i, std::uint32_t v) { all[i].group = static_cast<std::uint8_t>(v); });
    in.indices(blocks, [&](std::size_t i, std::uint32_t v) { all[i].born = v; });
    in.indices(blocks, [&](std::size_t i, std::uint32_t v) { all[i].last_use = v; });
    in.column(blocks, [&](std::size_t i, std::uint64_t v) { all[i].hash = v; });
    in.column(blocks, [&](std::size_t i, std::uint64_t v) { all[i].parent_hash = v; });
    in.indices(blocks, [&](std::size_t i, std::uint32_t v) { all[i].m_more = v; });
    in.column32(blocks, [&](std::size_t i, std::uint32_t v) { all[i].m_more_count = v; });
    if (!in.good()) return false;
    for (std::uint32_t i = 0; i < blocks; ++i) state.edit(i) = all[i];
    return true;
}

bool LaneStateCode::read_queue(Reader& in, LaneState& state, std::uint32_t blocks) {
    const std::size_t count = state.m_links.size();
    std::vector<LaneState::Link> links(count);
    in.indices(count, [&](std::size_t i, std::uint32_t v) { links[i].previous = v; });
    in.indices(count, [&](std::size_t i, std::uint32_t v) { links[i].next = v; });
    if (!in.good()) return false;
    for (std::size_t i = 0; i < count; ++i)
        if (links[i].previous != state.m_links[i].previous || links[i].next != state.m_links[i].next)
            state.m_links.edit(i, state.m_made) = links[i];
    if (count == 0) return true;
    // From the sentinel round to the sentinel, each link answered by its counterpart, over the blocks that are free.
    std::uint32_t free = 0;
    for (std::uint32_t block = 1; block < blocks; ++block) free += state.m_blocks[block].owners == 0 && !state.m_blocks[block].held;
    std::uint32_t at = blocks;
    for (std::uint32_t walked = 0; walked <= free; ++walked) {
        const std::uint32_t next = state.next(at);
        if (next > blocks || state.previous(next) != at) return false;
        if (next == blocks) return walked == free;
        if (next == 0 || state.m_blocks[next].owners > 0 || state.m_blocks[next].held) return false;
        at = next;
    }
    return false;
}

bool LaneStateCode::read_owners(Reader& in, LaneState& state) {
    const std::size_t count = in.count();
    state.m_free_owner = in.index();
    std::vector<LaneState::Owner> owners(count);
    for (auto& owner : owners) owner.sequence = SequenceId(in.index());
    for (auto& owner : owners) owner.logical = in.number32();
    for (auto& owner : owners) owner.next = in.index();
    if (!in.good()) return false;
    for (const auto& owner : owners) state.m_owners.push_back(owner, state.m_made);
    return true;
}

// Every entry of the owners' lists stands in one list only, so each list ends.
bool LaneStateCode::lists_end(const LaneState& state) {
    std::vector<bool> named(state.m_owners.size());
    const auto name = [&](std::uint32_t index) {
        if (index == LaneState::none) return true;
        if (index >= named.size() || named[index]) return false;
        named[index] = true;
        return true;
    };
    if (!name(state.m_free_owner)) return false;
    for (const BlockState& block : state.m_blocks)
        if (!name(block.m_more)) return false;
    for (const auto& owner : state.m_owners)
        if (!name(owner.next)) return false;
    return true;
}

bool LaneStateCode::read_sequences(Reader& in, LaneState& state, std::uint32_t blocks) {
    std::vector<SequenceState> all(in.count());
    for (SequenceState& s : all) {
        const std::uint32_t status = in.number32();
        if (status > static_cast<std::uint32_t>(SequenceStatus::failed)) return false;
        s.status = static_cast<SequenceStatus>(status);
    }
    for (SequenceState& s : all) s.prompt_tokens = in.number32();
    for (SequenceState& s : all) s.computed_tokens = in.number32();
    for (SequenceState& s : all) s.output_tokens = in.number32();
    for (SequenceState& s : all) s.host_blocks = in.number32();
    for (SequenceState& s : all) s.m_holder = in.index();
    const auto read_table = [&](TableState& table) {
        const std::size_t size = in.count();
        if (size > max_table) return false;
        for (std::size_t i = 0; i < size; ++i) {
            const std::uint32_t block = in.index();
            if (block >= blocks) return false;
            table.push_back(BlockId(block), state.m_made);
        }
        return in.good();
    };
    for (SequenceState& s : all)
        if (!read_table(s.table)) return false;
    for (SequenceState& s : all) {
        s.group_tables.resize(std::min<std::size_t>(in.count(), 256));
        for (TableState& table : s.group_tables)
            if (!read_table(table)) return false;
    }
    for (SequenceState& s : all) {
        s.m_stored.resize(in.count());
        for (auto& stored : s.m_stored) {
            stored.logical = in.number32();
            stored.hash = in.number();
        }
    }
    if (!in.good()) return false;
    for (SequenceState& s : all) state.m_sequences.push_back(std::move(s), state.m_made);
    return true;
}

bool LaneStateCode::read_holders(Reader& in, LaneState& state) {
    state.m_holders.resize(in.count());
    for (std::uint32_t& holder : state.m_holders) holder = in.number32();
    for (std::size_t i = 0; i < state.m_holders.size(); ++i) {
        const std::uint32_t holder = state.m_holders[i];
        if (holder >= state.m_sequences.size() || state.m_sequences[holder].m_holder != i) return false;
    }
    for (const SequenceState& s : state.m_sequences)
        if (s.m_holder != LaneState::none && s.m_holder >= state.m_holders.size()) return false;
    for (std::size_t left = in.count(); left > 0; --left) state.m_detached.insert(in.number());
    return in.good();
}

Result<LaneState> LaneStateCode::decode(std::string_view bytes, std::uint32_t blocks, std::uint32_t block_size) {
    const Error broken{"A key frame of the recording is damaged", "Open a backup of the file, or record the run again"};
    Reader in(bytes);
    if (in.number() != code_version) return broken;
    LaneState state(blocks, block_size);
    if (in.number() != block_size) return broken;
    state.m_step = in.number32();
    state.m_used = in.number32();
    state.m_cached = in.number32();
    state.m_host = in.number32();
    state.m_filled = in.number();
    state.m_saved = in.number();
    state.m_groups = in.number32();
    state.m_hashed = in.number32();
    if (!in.good() || state.m_groups == 0 || state.m_groups > 256) return broken;
    if (!read_blocks(in, state, blocks) || !read_queue(in, state, blocks) || !read_owners(in, state) || !lists_end(state) ||
        !read_sequences(in, state, blocks) || !read_holders(in, state) || !in.at_end())
        return broken;
    return state;
}

}  // namespace kvloupe
