// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/prefix_tree.h"

#include <algorithm>
#include <tuple>

namespace kvloupe {

void PrefixTree::build(const Source& source, const Options& options) {
    clear();
    collect(source);
    collectEvicted(source, options);
    connect(source.state);
    lineUp();
    if (source.recording.lane(source.lane).info().policy.prefix_index == "radix") rankLeaves(source);
    else rankQueue(source.state);
}

void PrefixTree::collect(const Source& source) {
    const LaneRecord& lane = source.recording.lane(source.lane);
    const std::uint64_t end = lane.step(source.step).events.end;
    const auto& blocks = source.state.blocks();
    m_nodeOf.assign(blocks.size(), none);
    for (std::uint32_t b = 1; b < blocks.size(); ++b) {
        const BlockState& state = blocks[b];
        if (state.owners == 0 && !state.hashed && !state.held) continue;
        const PrefixHistory::Content content = source.history.content(BlockId(b), end);
        Node node;
        node.block = BlockId(b);
        node.group = state.group;
        node.hashed = state.hashed;
        node.held = state.held;
        node.owners = state.owners;
        node.owner = state.first_owner;
        node.filled = state.filled;
        node.hits = content.hits;
        node.hash = state.hashed ? state.hash : 0;
        node.parentHash = state.hashed ? state.parent_hash : 0;
        node.writer = content.known() ? content.writer : state.first_owner;
        node.logical = state.owners > 0 ? state.logical : content.logical;
        node.event = content.event;
        m_nodeOf[b] = static_cast<std::uint32_t>(m_nodes.size());
        if (state.hashed) m_keys.push_back({state.hash, state.group, m_nodeOf[b]});
        m_nodes.push_back(node);
    }
    const auto byKey = [](const Key& a, const Key& b) { return std::tie(a.hash, a.group, a.node) < std::tie(b.hash, b.group, b.node); };
    std::sort(m_keys.begin(), m_keys.end(), byKey);
}

std::uint32_t PrefixTree::byHash(std::uint8_t group, std::uint64_t hash) const {
    const auto found = std::lower_bound(m_keys.begin(), m_keys.end(), std::tie(hash, group),
                                        [](const Key& key, const auto& wanted) { return std::tie(key.hash, key.group) < wanted; });
    return found != m_keys.end() && found->hash == hash && found->group == group ? found->node : none;
}

// The newest first, each content once, and none that is there again.
void PrefixTree::collectEvicted(const Source& source, const Options& options) {
    const std::uint32_t first = source.step >= options.recentSteps ? source.step - options.recentSteps + 1 : 0;
    const auto evictions = source.history.evictions(first, source.step);
    std::vector<Key> keys;
    for (auto eviction = evictions.rbegin(); eviction != evictions.rend() && keys.size() < options.recentBlocks; ++eviction) {
        if (byHash(eviction->group, eviction->hash) != none) continue;
        const bool listed = std::any_of(keys.begin(), keys.end(), [&](const Key& key) {
            return key.hash == eviction->hash && key.group == eviction->group;
        });
        if (listed) continue;
        // A block that its last owner went on to write is still there, without its hash.
        const std::uint32_t there = nodeOf(eviction->block);
        const PrefixHistory::Content content = source.history.content(eviction->block, eviction->event);
        if (there != none && m_nodes[there].event == content.event) continue;
        Node node;
        node.block = eviction->block;
        node.group = eviction->group;
        node.evicted = true;
        node.evictedAt = eviction->step;
        node.event = eviction->event;
        node.filled = eviction->filled;
        node.hash = eviction->hash;
        node.parentHash = eviction->parent;
        node.hits = content.hits;
        node.writer = content.writer;
        node.logical = content.logical;
        keys.push_back({node.hash, node.group, static_cast<std::uint32_t>(m_nodes.size())});
        m_nodes.push_back(node);
    }
    m_keys.insert(m_keys.end(), keys.begin(), keys.end());
    std::sort(m_keys.begin(), m_keys.end(),
              [](const Key& a, const Key& b) { return std::tie(a.hash, a.group, a.node) < std::tie(b.hash, b.group, b.node); });
}

void PrefixTree::connect(const LaneState& state) {
    for (std::uint32_t n = 0; n < m_nodes.size(); ++n) {
        Node& node = m_nodes[n];
        m_deepest = std::max(m_deepest, node.logical + 1);
        if (node.logical == 0) continue;
        std::uint32_t parent = none;
        if (node.owners > 0 && node.owner.valid()) {
            const auto& table = state.table(node.owner, node.group);
            // Blocks before the window are null: the nearest one that is left.
            for (std::uint32_t logical = std::min<std::uint32_t>(node.logical, static_cast<std::uint32_t>(table.size())); logical-- > 0;)
                if (table[logical] != null_block_id) {
                    parent = nodeOf(table[logical]);
                    break;
                }
        }
        if (parent == none && node.hashed) parent = node.parentHash ? byHash(node.group, node.parentHash) : none;
        if (parent == none && node.evicted && node.parentHash) parent = byHash(node.group, node.parentHash);
        // With hashes cut short, equal ones may stand at different depths: a parent is always nearer to the root.
        if (parent != none && m_nodes[parent].logical >= node.logical) parent = none;
        node.parent = parent;
        node.orphan = parent == none;
        if (parent != none) ++m_nodes[parent].children;
    }
}

// Rows from the top: roots by age, below each what branches off.
void PrefixTree::lineUp() {
    const auto count = static_cast<std::uint32_t>(m_nodes.size());
    std::vector<std::uint32_t> first(count + std::size_t{2}, 0), children(count);  // of each node; of the roots at `count`
    const auto slot = [&](const Node& node) { return node.parent == none ? count : node.parent; };
    for (const Node& node : m_nodes) ++first[slot(node) + std::size_t{1}];
    for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    std::vector<std::uint32_t> fill(first.begin(), first.end() - 1);
    for (std::uint32_t n = 0; n < count; ++n) children[fill[slot(m_nodes[n])]++] = n;
    const auto older = [this](std::uint32_t a, std::uint32_t b) {
        const Node &x = m_nodes[a], &y = m_nodes[b];
        return std::tie(x.group, x.evicted, x.event, a) < std::tie(y.group, y.evicted, y.event, b);
    };
    for (std::size_t n = 0; n <= count; ++n)
        if (first[n + 1] - first[n] > 1) std::sort(children.begin() + first[n], children.begin() + first[n + 1], older);
    struct Branch {
        std::uint32_t node, parentRow, depth;
    };
    std::vector<Branch> open;
    const auto push = [&](std::size_t n, std::uint32_t row, std::uint32_t depth) {
        for (std::uint32_t i = first[n + 1]; i > first[n]; --i) open.push_back({children[i - 1], row, depth});
    };
    push(count, none, 0);
    m_order.reserve(count);
    m_place.assign(count, 0);
    while (!open.empty()) {
        const Branch branch = open.back();
        open.pop_back();
        Row row;
        row.begin = static_cast<std::uint32_t>(m_order.size());
        row.parentRow = branch.parentRow;
        row.depth = branch.depth;
        std::uint32_t node = branch.node;
        for (;;) {
            m_place[node] = static_cast<std::uint32_t>(m_order.size());
            m_order.push_back(node);
            if (m_nodes[node].children != 1) break;
            node = children[first[node]];
        }
        row.end = static_cast<std::uint32_t>(m_order.size());
        m_rows.push_back(row);
        push(node, static_cast<std::uint32_t>(m_rows.size()) - 1, branch.depth + 1);
    }
}

std::uint32_t PrefixTree::rowOf(std::uint32_t node) const {
    if (node >= m_place.size()) return none;
    const auto row = std::partition_point(m_rows.begin(), m_rows.end(), [&](const Row& r) { return r.end <= m_place[node]; });
    return static_cast<std::uint32_t>(row - m_rows.begin());
}

// The head of the free queue is taken first; what has a hash loses it then.
void PrefixTree::rankQueue(const LaneState& state) {
    std::uint32_t place = 0;
    for (const BlockId block : state.free_order()) {
        ++place;
        if (const std::uint32_t node = nodeOf(block); node != none) m_nodes[node].next = place;
    }
}

// A radix tree gives up leaves that nobody uses, a whole row at a time, by its policy (CACHE_SEMANTICS 1.4).
void PrefixTree::rankLeaves(const Source& source) {
    m_predicted = true;
    const LaneRecord& lane = source.recording.lane(source.lane);
    const std::string& policy = lane.info().policy.radix_eviction;
    struct Leaf {
        std::int64_t key = 0;
        std::uint32_t use = 0, row = 0;
    };
    std::vector<Leaf> leaves;
    // Evicted cells are gone: a row ends for the policy where they begin, and a node whose children are all gone is a leaf.
    std::vector<std::uint32_t> present(m_nodes.size(), 0);
    for (const Node& node : m_nodes)
        if (!node.evicted && node.parent != none) ++present[node.parent];
    for (std::uint32_t r = 0; r < m_rows.size(); ++r) {
        std::uint32_t last = m_rows[r].end;
        while (last > m_rows[r].begin && m_nodes[m_order[last - 1]].evicted) --last;
        if (last == m_rows[r].begin) continue;
        const std::uint32_t n = m_order[last - 1];
        const Node& node = m_nodes[n];
        if (node.owners > 0 || present[n] > 0) continue;
        Leaf leaf{0, source.state.last_use_of(node.block), r};
        if (policy == "lfu") leaf.key = node.hits;
        else if (policy == "fifo") leaf.key = source.state.blocks()[node.block.value].born;
        else if (policy == "priority" && node.writer.value < lane.sequences().size()) {
            const RequestId request = lane.sequences()[node.writer.value].request;
            if (request.value < source.recording.requests().size()) leaf.key = -std::int64_t{source.recording.requests()[request.value].priority};
        }
        leaves.push_back(leaf);
    }
    std::sort(leaves.begin(), leaves.end(), [](const Leaf& a, const Leaf& b) { return std::tie(a.key, a.use, a.row) < std::tie(b.key, b.use, b.row); });
    std::uint32_t place = 0;
    for (const Leaf& leaf : leaves) {
        ++place;
        for (std::uint32_t i = m_rows[leaf.row].end; i-- > m_rows[leaf.row].begin;) {
            Node& node = m_nodes[m_order[i]];
            if (node.evicted) continue;
            if (node.owners > 0) break;
            node.next = place;
        }
    }
}

}  // namespace kvloupe
