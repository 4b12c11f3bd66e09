// SPDX-License-Identifier: GPL-3.0-or-later
//
// RadixTree from the outside: the walk over its nodes, and whether they, the counters and the order of eviction agree.
#include "engine/cache/radix_tree.h"

#include <algorithm>

namespace kvloupe {

namespace {

Error broken(std::uint32_t node, const std::string& what) {
    return Error{"Radix tree: node " + std::to_string(node) + " " + what,
                 "This is a defect of the program; please report it with the scenario."};
}

}  // namespace

std::vector<RadixNodeId> RadixTree::walk() const {
    std::vector<RadixNodeId> order;
    std::uint32_t id = root.value;
    while (true) {
        order.emplace_back(id);
        if (m_nodes[id].first_child != none) {
            id = m_nodes[id].first_child;
            continue;
        }
        while (id != root.value && m_nodes[id].next == none) id = m_nodes[id].parent;
        if (id == root.value) return order;
        id = m_nodes[id].next;
    }
}

RadixNodeView RadixTree::view(RadixNodeId id) const {
    const Node& node = m_nodes[id.value];
    RadixNodeView view;
    if (node.parent != none) view.parent = RadixNodeId(node.parent);
    view.depth = node.depth;
    view.tokens = node.tokens;
    view.pages = node.pages;
    view.hashes = node.hashes;
    view.locks = node.locks;
    view.hits = node.hits;
    view.last_access = node.last_access;
    view.created = node.created;
    view.priority = node.priority;
    view.leaf = node.first_child == none;
    return view;
}

const std::string& RadixTree::extra_key(RadixNodeId node) const { return m_nodes[node.value].extra; }

Result<void> RadixTree::audit_node(std::uint32_t id) const {
    const Node& node = m_nodes[id];
    const Node& parent = m_nodes[node.parent];
    if (node.tokens.empty() || node.tokens.size() % m_page_size != 0 ||
        node.pages.size() * m_page_size != node.tokens.size() || node.hashes.size() != node.pages.size())
        return broken(id, "holds " + std::to_string(node.tokens.size()) + " tokens in " + std::to_string(node.pages.size()) +
                              " pages of " + std::to_string(m_page_size) + " with " + std::to_string(node.hashes.size()) +
                              " hashes");
    if (node.depth != parent.depth + parent.tokens.size()) return broken(id, "does not begin where its parent ends");
    for (const BlockId page : node.pages)
        if (node_of(page) != RadixNodeId(id))
            return broken(id, "holds block " + std::to_string(page.value) + ", which is noted elsewhere");
    const auto rest = std::span(node.tokens);
    if (step_down(node.parent, rest, node.extra).node != id) return broken(id, "is not found from its parent");
    if (node.locks > parent.locks && node.parent != root.value)
        return broken(id, "is locked " + std::to_string(node.locks) + " times, its parent " + std::to_string(parent.locks));
    if (may_go(id) != m_leaves.contains(rank(id)))
        return broken(id, may_go(id) ? "could be evicted, but is not in the order of eviction"
                                     : "is in the order of eviction, but is locked or no leaf");
    return {};
}

Result<void> RadixTree::audit() const {
    std::uint64_t total = 0, locked = 0;
    std::size_t leaves = 0, pages = 0;
    const std::vector<RadixNodeId> order = walk();
    for (const RadixNodeId id : order) {
        if (id == root) continue;
        if (auto result = audit_node(id.value); !result) return result;
        const Node& node = m_nodes[id.value];
        total += node.tokens.size();
        if (node.locks > 0) locked += node.tokens.size();
        pages += node.pages.size();
        leaves += may_go(id.value);
    }
    const auto noted = static_cast<std::size_t>(
        std::count_if(m_node_of.begin(), m_node_of.end(), [](std::uint32_t node) { return node != none; }));
    if (noted != pages)
        return broken(root.value, "reaches " + std::to_string(pages) + " pages, but " + std::to_string(noted) + " are noted");
    if (total != m_total || locked != m_protected)
        return broken(root.value, "reaches " + std::to_string(total) + " tokens, " + std::to_string(locked) +
                                      " of them protected; counted are " + std::to_string(m_total) + " and " +
                                      std::to_string(m_protected));
    if (leaves != m_leaves.size())
        return broken(root.value, "reaches " + std::to_string(leaves) + " leaves that may go; " +
                                      std::to_string(m_leaves.size()) + " stand in the order of eviction");
    if (order.size() + m_unused.size() != m_nodes.size() || m_edges.size() + 1 != order.size())
        return broken(root.value, "reaches " + std::to_string(order.size()) + " nodes of " +
                                      std::to_string(m_nodes.size() - m_unused.size()));
    return {};
}

}  // namespace kvloupe
