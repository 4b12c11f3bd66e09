// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/lane_state_code.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace kvloupe {

namespace {

constexpr std::uint64_t max_table = std::uint64_t{1} << 24;  // entries: what a file can name without taking all memory

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
    std::uint64_t raw() {
        std::uint64_t value = 0;
        if (m_bytes.size() - m_at < 8) {
            m_good = false;
            m_at = m_bytes.size();
            return 0;
        }
        for (int i = 0; i < 8; ++i) value |= std::uint64_t{static_cast<unsigned char>(m_bytes[m_at + static_cast<std::size_t>(i)])} << (8 * i);
        m_at += 8;
        return value;
    }
    // A column: put(i, number) for each; most numbers are a byte.
    template <class Put>
    void column(std::size_t count, Put put) {
        std::uint64_t wide = 0;
        std::size_t at = m_at;
        for (std::size_t i = 0; i < count; ++i) {
            while (i + 8 <= count && at + 8 <= m_bytes.size()) {  // eight small ones at once
                std::uint64_t eight = 0;
                std::memcpy(&eight, m_bytes.data() + at, 8);
                if (eight & 0x8080808080808080u) break;
                for (std::size_t k = 0; k < 8; ++k) put(i + k, static_cast<std::uint64_t>(static_cast<unsigned char>(m_bytes[at + k])));
                at += 8;
                i += 8;
            }
            if (i == count) break;
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

bool LaneStateCode::read_blocks(Reader& in, LaneState& state, std::uint32_t blocks, std::uint64_t version) {
    if (in.count() != blocks) return false;
    // Straight into the state's pages: a copy of all blocks would cost as much as reading them.
    constexpr std::size_t page = decltype(state.m_blocks)::page_size;
    std::vector<BlockState*> pages;
    for (std::uint32_t first = 0; first < blocks; first += page) pages.push_back(&state.edit(first));
    const auto all = [&pages](std::size_t i) -> BlockState& { return pages[i / page][i % page]; };
    // Columns lie close together until the blocks are made from all of them, each touched once.
    std::array<std::vector<std::uint32_t>, 8> columns;
    for (std::vector<std::uint32_t>& column : columns) {
        column.resize(blocks);
        in.column32(blocks, [&column](std::size_t i, std::uint32_t v) { column[i] = v; });
    }
    const auto& [owners, flags, first_owners, logicals, fills, groups, births, last_uses] = columns;
    for (std::uint32_t i = 0; i < blocks; ++i) {
        BlockState& block = all(i);
        block.owners = owners[i];
        block.hashed = (flags[i] & 1) != 0;
        block.held = (flags[i] & 2) != 0;
        block.first_owner = SequenceId(first_owners[i] - 1u);
        block.logical = logicals[i];
        block.filled = fills[i];
        block.group = static_cast<std::uint8_t>(groups[i]);
        block.born = births[i] - 1u;
        block.last_use = last_uses[i] - 1u;
    }
    if (version == 1) {
        in.column(blocks, [&](std::size_t i, std::uint64_t v) { all(i).hash = v; });
        in.column(blocks, [&](std::size_t i, std::uint64_t v) { all(i).parent_hash = v; });
    } else {
        in.column(blocks, [&](std::size_t i, std::uint64_t v) { all(i).hash = v; });
        for (std::uint32_t i = 0; i < blocks && in.good(); ++i)
            if (all(i).hash != 0) all(i).hash = in.raw();
        std::vector<std::uint32_t> alone;
        bool inside = true;
        in.column32(blocks, [&](std::size_t i, std::uint32_t v) {
            if (v == 1) alone.push_back(static_cast<std::uint32_t>(i));
            else if (v > 1 && v - 2 < blocks) all(i).parent_hash = all(v - 2).hash;
            else inside = inside && v == 0;
        });
        if (!inside) return false;
        for (const std::uint32_t i : alone) all(i).parent_hash = in.raw();
    }
    in.indices(blocks, [&](std::size_t i, std::uint32_t v) { all(i).m_more = v; });
    in.column32(blocks, [&](std::size_t i, std::uint32_t v) { all(i).m_more_count = v; });
    return in.good();
}

bool LaneStateCode::read_order(Reader& in, LaneState& state, std::uint32_t blocks) {
    std::vector<std::uint32_t> order(in.count());
    std::int64_t expected = 1;
    std::vector<bool> named(blocks);
    for (std::uint32_t& block : order) {
        const std::uint64_t code = in.number32();
        expected += code % 2 == 0 ? static_cast<std::int64_t>(code / 2) : -static_cast<std::int64_t>(code / 2) - 1;
        if (!in.good() || expected < 1 || expected >= blocks) return false;
        block = static_cast<std::uint32_t>(expected++);
        if (named[block] || state.m_blocks[block].owners > 0 || state.m_blocks[block].held) return false;
        named[block] = true;
    }
    for (std::uint32_t block = 1; block < blocks; ++block)
        if (!named[block] && state.m_blocks[block].owners == 0 && !state.m_blocks[block].held) return false;
    if (blocks == 0) return true;
    const auto link = [&](std::uint32_t block, std::uint32_t previous, std::uint32_t next) {
        if (state.previous(block) != previous || state.next(block) != next) state.m_links.edit(block, state.m_made) = {previous, next};
    };
    for (std::size_t i = 0; i < order.size(); ++i)
        link(order[i], i == 0 ? blocks : order[i - 1], i + 1 == order.size() ? blocks : order[i + 1]);
    link(blocks, order.empty() ? blocks : order.back(), order.empty() ? blocks : order.front());
    return true;
}

// Of version 1: both neighbours of every block.
bool LaneStateCode::read_links(Reader& in, LaneState& state, std::uint32_t blocks) {
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
    const std::size_t count = in.count();
    // Straight into the state's pages, as the blocks: most sequences of a long run have ended and hold nothing.
    constexpr std::size_t page = decltype(state.m_sequences)::page_size;
    std::vector<SequenceState*> pages;
    for (std::size_t i = 0; i < count; i += page) {
        for (std::size_t k = i; k < std::min(count, i + page); ++k) state.m_sequences.push_back({}, state.m_made);
        pages.push_back(&state.m_sequences.edit(i, state.m_made));
    }
    const auto all = [&pages](std::size_t i) -> SequenceState& { return pages[i / page][i % page]; };
    bool known = true;
    in.column32(count, [&](std::size_t i, std::uint32_t v) {
        known = known && v <= static_cast<std::uint32_t>(SequenceStatus::failed);
        all(i).status = static_cast<SequenceStatus>(v);
    });
    if (!known) return false;
    in.column32(count, [&](std::size_t i, std::uint32_t v) { all(i).prompt_tokens = v; });
    in.column32(count, [&](std::size_t i, std::uint32_t v) { all(i).computed_tokens = v; });
    in.column32(count, [&](std::size_t i, std::uint32_t v) { all(i).output_tokens = v; });
    in.column32(count, [&](std::size_t i, std::uint32_t v) { all(i).host_blocks = v; });
    in.indices(count, [&](std::size_t i, std::uint32_t v) { all(i).m_holder = v; });
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
    for (std::size_t i = 0; i < count; ++i)
        if (!read_table(all(i).table)) return false;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t tables = std::min<std::size_t>(in.count(), 256);
        if (tables == 0) continue;
        all(i).group_tables.resize(tables);
        for (TableState& table : all(i).group_tables)
            if (!read_table(table)) return false;
    }
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t stores = in.count();
        if (stores == 0) continue;
        all(i).m_stored.resize(stores);
        for (auto& stored : all(i).m_stored) {
            stored.logical = in.number32();
            stored.hash = in.number();
        }
    }
    return in.good();
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
    const std::uint64_t version = in.number();
    if (version < 1 || version > newest_version) return broken;
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
    if (!read_blocks(in, state, blocks, version)) return broken;
    if (!(version == 1 ? read_links(in, state, blocks) : read_order(in, state, blocks))) return broken;
    if (!read_owners(in, state) || !lists_end(state) || !read_sequences(in, state, blocks) || !read_holders(in, state) || !in.at_end()) return broken;
    return state;
}

}  // namespace kvloupe
