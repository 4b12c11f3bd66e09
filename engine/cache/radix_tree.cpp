// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/radix_tree.h"

#include <algorithm>
#include <cassert>
#include <string_view>

namespace kvloupe {

namespace {

std::uint64_t mix(std::uint64_t state, std::uint64_t value) {  // splitmix64's finaliser over a running state
    state = (state ^ value) + 0x9E3779B97F4A7C15u;
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBu;
    return state ^ (state >> 31);
}

// The length in front keeps ("ab", "c") and ("a", "bc") apart.
std::string encoded(const ExtraKeys& extra) {
    if (extra.adapter.empty() && extra.salt.empty()) return {};
    std::string text = std::to_string(extra.adapter.size()) + ':';
    text += extra.adapter;
    text += extra.salt;
    return text;
}

template <class T>
std::vector<T> cut_front(std::vector<T>& values, std::size_t count) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<T> front(values.begin(), middle);
    values.erase(values.begin(), middle);
    values.shrink_to_fit();
    return front;
}

}  // namespace

RadixTree::RadixTree(std::uint32_t page_size, RadixEviction policy)
    : m_page_size(page_size), m_policy(policy), m_nodes(1) {
    assert(page_size >= 1);
    m_nodes[root.value].locks = 1;
}

std::uint64_t RadixTree::edge_key(std::uint32_t parent, std::span<const TokenId> page, const std::string& extra) const {
    std::uint64_t key = mix(0, parent);
    if (parent == root.value && !extra.empty()) key = mix(key, std::hash<std::string_view>{}(extra));
    for (const TokenId token : page) key = mix(key, static_cast<std::uint32_t>(token));
    return key;
}

RadixTree::Step RadixTree::step_down(std::uint32_t node, std::span<const TokenId> rest, const std::string& extra) const {
    if (rest.empty()) return {};
    const auto found = m_edges.equal_range(edge_key(node, rest.first(m_page_size), extra));
    for (auto edge = found.first; edge != found.second; ++edge) {
        const Node& child = m_nodes[edge->second];
        if (child.parent != node || (node == root.value && child.extra != extra)) continue;
        const std::size_t length = std::min(child.tokens.size(), rest.size());
        const auto end = std::mismatch(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(length), child.tokens.begin());
        const std::size_t equal = whole(static_cast<std::size_t>(end.first - rest.begin()));
        if (equal > 0) return {edge->second, static_cast<std::uint32_t>(equal)};
    }
    return {};
}

RadixTree::Match RadixTree::match(const RadixKey& key) {
    const std::string extra = encoded(key.extra);
    auto rest = key.tokens.first(whole(key.tokens.size()));
    const std::uint64_t now = ++m_clock;
    Match match;
    while (true) {
        Step step = step_down(match.node.value, rest, extra);
        if (step.node == none) return match;
        const bool inside = step.tokens < m_nodes[step.node].tokens.size();
        if (inside) step.node = split(step.node, step.tokens);
        unqueue(step.node);
        m_nodes[step.node].last_access = now;
        queue(step.node);
        match.node = RadixNodeId(step.node);
        const std::vector<BlockId>& pages = m_nodes[step.node].pages;
        match.pages.insert(match.pages.end(), pages.begin(), pages.end());
        if (inside) return match;
        rest = rest.subspan(step.tokens);
    }
}

std::uint32_t RadixTree::matching_tokens(const RadixKey& key) const {
    const std::string extra = encoded(key.extra);
    auto rest = key.tokens.first(whole(key.tokens.size()));
    std::uint32_t node = root.value, tokens = 0;
    while (true) {
        const Step step = step_down(node, rest, extra);
        if (step.node == none) return tokens;
        tokens += step.tokens;
        if (step.tokens < m_nodes[step.node].tokens.size()) return tokens;
        node = step.node;
        rest = rest.subspan(step.tokens);
    }
}

RadixTree::Inserted RadixTree::insert(const RadixKey& key, std::span<const BlockId> pages,
                                      std::span<const BlockHash> hashes, std::int32_t priority) {
    const std::string extra = encoded(key.extra);
    auto rest = key.tokens.first(whole(key.tokens.size()));
    assert(pages.size() >= rest.size() / m_page_size && hashes.size() >= rest.size() / m_page_size);
    const std::uint64_t now = ++m_clock;
    Inserted inserted;
    while (!rest.empty()) {
        Step step = step_down(inserted.node.value, rest, extra);
        if (step.node == none) break;
        if (step.tokens < m_nodes[step.node].tokens.size()) step.node = split(step.node, step.tokens);
        unqueue(step.node);
        m_nodes[step.node].last_access = now;
        m_nodes[step.node].priority = std::min(m_nodes[step.node].priority, priority);
        queue(step.node);
        inserted.node = RadixNodeId(step.node);
        inserted.present += step.tokens;
        rest = rest.subspan(step.tokens);
    }
    if (rest.empty()) return inserted;
    const std::size_t first = inserted.present / m_page_size, count = rest.size() / m_page_size;
    const std::uint32_t leaf = append(inserted.node.value, rest, pages.subspan(first, count), hashes.subspan(first, count));
    if (inserted.node == root) m_nodes[leaf].extra = extra;
    add_edge(leaf);
    m_nodes[leaf].last_access = m_nodes[leaf].created = now;
    m_nodes[leaf].priority = priority;
    queue(leaf);
    inserted.node = RadixNodeId(leaf);
    return inserted;
}

// A new leaf with all of `rest`, not yet reachable by an edge and not in the order of eviction.
std::uint32_t RadixTree::append(std::uint32_t parent, std::span<const TokenId> rest, std::span<const BlockId> pages,
                                std::span<const BlockHash> hashes) {
    unqueue(parent);
    const std::uint32_t leaf = new_node();
    Node& node = m_nodes[leaf];
    node.parent = parent;
    node.depth = m_nodes[parent].depth + static_cast<std::uint32_t>(m_nodes[parent].tokens.size());
    node.tokens.assign(rest.begin(), rest.end());
    node.pages.assign(pages.begin(), pages.end());
    node.hashes.assign(hashes.begin(), hashes.end());
    std::optional<BlockHash> before;
    if (parent != root.value) before = m_nodes[parent].hashes.back();
    for (std::size_t page = 0; page < pages.size(); ++page) {
        if (m_listener)
            m_listener->block_stored(hashes.subspan(page, 1), before, rest.subspan(page * m_page_size, m_page_size));
        before = hashes[page];
        const std::uint32_t block = pages[page].value;
        if (block >= m_node_of.size()) m_node_of.resize(block + std::size_t{1}, none);
        assert(m_node_of[block] == none);
        m_node_of[block] = leaf;
    }
    m_total += node.tokens.size();
    return leaf;
}

// The first `tokens` tokens of the node become a node above it, which is returned; the node keeps its id and its children.
std::uint32_t RadixTree::split(std::uint32_t id, std::uint32_t tokens) {
    assert(tokens > 0 && tokens % m_page_size == 0 && tokens < m_nodes[id].tokens.size());
    const std::uint32_t above = new_node();
    Node& lower = m_nodes[id];
    Node& upper = m_nodes[above];
    unqueue(id);
    remove_edge(id);
    upper.parent = lower.parent;
    upper.depth = lower.depth;
    upper.locks = lower.locks;
    upper.hits = lower.hits;
    upper.last_access = lower.last_access;
    upper.created = lower.created;
    upper.priority = lower.priority;
    upper.tokens = cut_front(lower.tokens, tokens);
    upper.pages = cut_front(lower.pages, tokens / m_page_size);
    upper.hashes = cut_front(lower.hashes, tokens / m_page_size);
    upper.extra = std::move(lower.extra);
    lower.extra.clear();
    lower.parent = above;
    lower.depth += tokens;
    for (const BlockId page : upper.pages) m_node_of[page.value] = above;
    add_edge(above);
    add_edge(id);
    queue(id);
    return above;
}

void RadixTree::lock(RadixNodeId node) {
    for (std::uint32_t id = node.value; id != root.value; id = m_nodes[id].parent) {
        unqueue(id);
        if (m_nodes[id].locks++ == 0) m_protected += m_nodes[id].tokens.size();
    }
}

void RadixTree::unlock(RadixNodeId node) {
    for (std::uint32_t id = node.value; id != root.value; id = m_nodes[id].parent) {
        assert(m_nodes[id].locks > 0);
        if (--m_nodes[id].locks == 0) m_protected -= m_nodes[id].tokens.size();
        queue(id);
    }
}

void RadixTree::count_hit(RadixNodeId node) {
    for (std::uint32_t id = node.value; id != root.value; id = m_nodes[id].parent) {
        unqueue(id);
        ++m_nodes[id].hits;
        queue(id);
    }
}

std::vector<BlockId> RadixTree::evict(std::uint64_t tokens) {
    const std::uint64_t before = m_total;
    std::vector<BlockId> pages;
    while (before - m_total < tokens && !m_leaves.empty()) remove(m_leaves.begin()->node, pages);
    return pages;
}

std::vector<BlockId> RadixTree::evict_page(BlockId page) {
    std::vector<BlockId> pages;
    const auto top = node_of(page);
    if (!top || m_nodes[top->value].locks > 0) return pages;
    const std::vector<BlockId>& run = m_nodes[top->value].pages;
    const auto index = static_cast<std::uint32_t>(std::find(run.begin(), run.end(), page) - run.begin());
    if (index > 0) split(top->value, index * m_page_size);
    for (std::uint32_t id = top->value;;) {
        if (m_nodes[id].last_child != none) {
            id = m_nodes[id].last_child;
            continue;
        }
        const std::uint32_t parent = m_nodes[id].parent;
        remove(id, pages);
        if (id == top->value) return pages;
        id = parent;
    }
}

void RadixTree::remove(std::uint32_t id, std::vector<BlockId>& pages) {
    assert(id != root.value && m_nodes[id].locks == 0 && m_nodes[id].first_child == none);
    unqueue(id);
    remove_edge(id);
    Node& node = m_nodes[id];
    const std::uint32_t parent = node.parent;
    m_total -= node.tokens.size();
    for (const BlockId page : node.pages) m_node_of[page.value] = none;
    pages.insert(pages.end(), node.pages.rbegin(), node.pages.rend());
    if (m_listener) m_listener->block_removed(node.hashes);
    node = Node{};
    m_unused.push_back(id);
    queue(parent);
}

void RadixTree::clear() {
    m_nodes.assign(1, Node{});
    m_nodes[root.value].locks = 1;
    m_unused.clear();
    m_edges.clear();
    m_node_of.clear();
    m_leaves.clear();
    m_total = m_protected = 0;
    if (m_listener) m_listener->all_blocks_cleared();
}

RadixNodeId RadixTree::prefix_node(RadixNodeId node, std::uint32_t tokens) {
    std::uint32_t id = node.value;
    while (m_nodes[id].depth >= tokens && id != root.value) id = m_nodes[id].parent;
    const std::uint32_t inside = tokens - std::min(tokens, m_nodes[id].depth);
    if (inside == 0 || inside >= m_nodes[id].tokens.size()) return RadixNodeId(id);
    return RadixNodeId(split(id, inside));
}

std::vector<BlockId> RadixTree::path_pages(RadixNodeId node) const {
    const Node& end = m_nodes[node.value];
    std::vector<BlockId> pages(end.depth / m_page_size + end.pages.size());
    for (std::uint32_t id = node.value; id != root.value; id = m_nodes[id].parent)
        std::copy(m_nodes[id].pages.begin(), m_nodes[id].pages.end(), pages.begin() + m_nodes[id].depth / m_page_size);
    return pages;
}

std::optional<RadixNodeId> RadixTree::node_of(BlockId page) const {
    if (page.value >= m_node_of.size() || m_node_of[page.value] == none) return std::nullopt;
    return RadixNodeId(m_node_of[page.value]);
}

std::uint32_t RadixTree::new_node() {
    if (!m_unused.empty()) {
        const std::uint32_t id = m_unused.back();
        m_unused.pop_back();
        return id;
    }
    m_nodes.emplace_back();
    return static_cast<std::uint32_t>(m_nodes.size() - 1);
}

void RadixTree::add_edge(std::uint32_t id) {
    Node& node = m_nodes[id];
    Node& parent = m_nodes[node.parent];
    node.previous = parent.last_child;
    node.next = none;
    (node.previous == none ? parent.first_child : m_nodes[node.previous].next) = id;
    parent.last_child = id;
    m_edges.emplace(edge_key(node.parent, std::span(node.tokens).first(m_page_size), node.extra), id);
}

void RadixTree::remove_edge(std::uint32_t id) {
    const Node& node = m_nodes[id];
    Node& parent = m_nodes[node.parent];
    (node.previous == none ? parent.first_child : m_nodes[node.previous].next) = node.next;
    (node.next == none ? parent.last_child : m_nodes[node.next].previous) = node.previous;
    const auto found = m_edges.equal_range(edge_key(node.parent, std::span(node.tokens).first(m_page_size), node.extra));
    for (auto edge = found.first; edge != found.second; ++edge)
        if (edge->second == id) {
            m_edges.erase(edge);
            return;
        }
    assert(false);
}

bool RadixTree::may_go(std::uint32_t id) const {
    const Node& node = m_nodes[id];
    return id != root.value && node.locks == 0 && node.first_child == none;
}

void RadixTree::set_policy(RadixEviction policy) {
    std::vector<std::uint32_t> leaves;
    for (const Rank& leaf : m_leaves) leaves.push_back(leaf.node);
    m_leaves.clear();
    m_policy = policy;
    for (const std::uint32_t leaf : leaves) queue(leaf);
}

std::uint64_t RadixTree::bytes() const {
    const std::uint64_t pages = m_total / m_page_size;
    return m_nodes.size() * (sizeof(Node) + 128) + m_total * sizeof(TokenId) + pages * (sizeof(BlockId) + sizeof(BlockHash)) +
           m_node_of.size() * sizeof(std::uint32_t);
}

RadixTree::Rank RadixTree::rank(std::uint32_t id) const {
    const Node& node = m_nodes[id];
    switch (m_policy) {
    case RadixEviction::lru: return {0, node.last_access, id};
    case RadixEviction::lfu: return {node.hits, node.last_access, id};
    case RadixEviction::fifo: return {0, node.created, id};
    case RadixEviction::priority: return {-std::int64_t{node.priority}, node.last_access, id};
    }
    return {0, node.last_access, id};
}

}  // namespace kvloupe
