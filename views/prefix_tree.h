// SPDX-License-Identifier: GPL-3.0-or-later
//
// PrefixTree: the blocks of a lane after a step as a tree of token prefixes: a node per block that is owned or cached, below
// the block that holds the tokens before its own; chains without branches make one row.
// A hashed block's parent is the block whose hash its own contains; an owned block's is the entry before it in its
// owner's table. Blocks that carry the same hash (they are never merged by the chained index) are nodes of their own.
#pragma once

#include "views/prefix_history.h"

#include <vector>

namespace kvloupe {

class PrefixTree {
public:
    static constexpr std::uint32_t none = 0xFFFFFFFFu;

    struct Node {
        BlockId block;
        std::uint8_t group = 0;
        bool hashed = false, held = false, evicted = false;
        std::uint32_t logical = 0;      // blocks from the root
        std::uint32_t owners = 0;
        std::uint32_t filled = 0;       // slots
        std::uint32_t hits = 0;         // since its content began (measured)
        std::uint32_t parent = none, children = 0;
        std::uint32_t next = 0;         // place in the order in which content goes, from 1; 0: it is not free to go
        std::uint64_t hash = 0, parentHash = 0;
        SequenceId writer, owner;       // who wrote it; one of those that own it
        std::uint64_t event = UINT64_MAX;  // that began its content; of an evicted block: that took its hash
        std::uint32_t evictedAt = 0;    // step
        bool orphan = false;            // its prefix is not in the cache any more
    };

    struct Row {
        std::uint32_t begin = 0, end = 0;  // of order()
        std::uint32_t parentRow = none;    // the row it branches off, at its end
        std::uint32_t depth = 0;           // branches above it
    };

    struct Options {
        std::uint32_t recentSteps = 32;    // evicted blocks are shown that long
        std::uint32_t recentBlocks = 512;  // and no more of them
    };

    struct Source {
        const Recording& recording;
        LaneId lane;
        const LaneState& state;            // of the lane after `step`
        const PrefixHistory& history;      // of the lane, at least up to `step`
        std::uint32_t step = 0;
    };
    void build(const Source& source, const Options& options);
    void clear() { *this = PrefixTree(); }

    const std::vector<Node>& nodes() const { return m_nodes; }
    const std::vector<std::uint32_t>& order() const { return m_order; }  // nodes, row after row
    const std::vector<Row>& rows() const { return m_rows; }
    std::uint32_t deepest() const { return m_deepest; }  // blocks from the root, at least 1
    // Node of a block that is owned or cached, or none.
    std::uint32_t nodeOf(BlockId block) const { return block.value < m_nodeOf.size() ? m_nodeOf[block.value] : none; }
    std::uint32_t rowOf(std::uint32_t node) const;
    // True where `next` is a prediction by the radix tree's policy; else it is the place in the free queue.
    bool predicted() const { return m_predicted; }

private:
    void collect(const Source& source);
    void collectEvicted(const Source& source, const Options& options);
    void connect(const LaneState& state);
    void lineUp();
    void rankQueue(const LaneState& state);
    void rankLeaves(const Source& source);
    std::uint32_t byHash(std::uint8_t group, std::uint64_t hash) const;

    struct Key {
        std::uint64_t hash = 0;
        std::uint8_t group = 0;
        std::uint32_t node = 0;
    };
    std::vector<Node> m_nodes;
    std::vector<std::uint32_t> m_nodeOf;   // index: block
    std::vector<Key> m_keys;               // sorted
    std::vector<std::uint32_t> m_order;
    std::vector<std::uint32_t> m_place;    // index: node; place in m_order
    std::vector<Row> m_rows;
    std::uint32_t m_deepest = 1;
    bool m_predicted = false;
};

}  // namespace kvloupe
