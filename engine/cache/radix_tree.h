// SPDX-License-Identifier: GPL-3.0-or-later
//
// RadixTree: prefix index by tokens, whole pages at a time (CACHE_SEMANTICS 1.4, SGLang). A node holds a run of pages, an
// edge is told by the first page of its run; equal tokens have one path, so that nothing is kept twice.
//
// Goals: a look-up costs O(length) and no recursion; an eviction O(log leaves), because the leaves that may go stand
// ordered by the policy all the time. Non-goals: which sequence owns a block, in which queue a freed one stands (the cache
// manager); windows and attention chunks.
// Rejected: runs shared by both halves of a split (the split would be O(1), but the tokens of an evicted tail would stay
// as long as its head); a heap built for each eviction, as SGLang does (O(leaves) for one block).
//
// Order of time: a counter, one tick for each look-up and each insertion.
// Where this differs from SGLang, or SGLang leaves it open:
// - Lower priority numbers are more important, as everywhere here; SGLang's higher ones are. A node has the most
//   important priority of those that were inserted through it.
// - The upper half of a split is as old as the lower one (policy fifo).
// - Hits are counted when a sequence takes them (count_hit), not on every look-up of one that waits.
// - All its keys apart from tokens (adapter, salt) decide at the root: other keys, another branch.
#pragma once

#include "engine/cache/cache_manager.h"

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kvloupe {

using RadixNodeId = Index<struct RadixNodeTag>;

struct RadixKey {
    std::span<const TokenId> tokens;  // cut to whole pages
    ExtraKeys extra;
};

// A node as others see it. The spans hold until the tree changes.
struct RadixNodeView {
    RadixNodeId parent;               // none: the root
    std::uint32_t depth = 0;          // tokens before its run
    std::span<const TokenId> tokens;  // its run: whole pages, at least one; the root's is empty
    std::span<const BlockId> pages;   // (tokens / page_size)
    std::span<const BlockHash> hashes;// (pages), chained from the root
    std::uint32_t locks = 0;          // sequences that own its pages; the root counts one of its own
    std::uint32_t hits = 0;
    std::uint64_t last_access = 0;    // tick
    std::uint64_t created = 0;        // tick
    std::int32_t priority = 0;
    bool leaf = true;
};

class RadixTree {
public:
    static constexpr RadixNodeId root{0};

    // page_size >= 1 tokens.
    RadixTree(std::uint32_t page_size, RadixEviction policy);

    // One block_stored for each page, one block_removed for each node with the hashes of all its pages (oracle R10).
    void set_listener(CacheListener* listener) { m_listener = listener; }

    struct Match {
        RadixNodeId node = root;     // ends where the match ends
        std::vector<BlockId> pages;  // (matched tokens / page_size)
    };
    // Longest prefix in the tree. Splits the node in which it ends and makes the nodes on the path the latest used.
    Match match(const RadixKey& key);
    // Tokens of that prefix; changes nothing.
    std::uint32_t matching_tokens(const RadixKey& key) const;

    struct Inserted {
        RadixNodeId node = root;    // ends where the key ends
        std::uint32_t present = 0;  // tokens that were there before: their pages stay, the caller's are duplicates
    };
    // Takes in the pages that are not there yet. pages, hashes: at least one for each whole page of the key. The hashes are
    // names for others, chained from the start of the key; the tree itself compares tokens.
    Inserted insert(const RadixKey& key, std::span<const BlockId> pages, std::span<const BlockHash> hashes,
                    std::int32_t priority);

    // The nodes from here to the root: owned once more, once less. Unlocking what is not locked is a caller's error.
    void lock(RadixNodeId node);
    void unlock(RadixNodeId node);
    void count_hit(RadixNodeId node);

    // Removes whole unlocked leaves in the order of the policy until at least `tokens` tokens have gone or none is left.
    // A parent without children and locks is a leaf then. Returns the pages in the order in which they went: of a node
    // the last one first.
    std::vector<BlockId> evict(std::uint64_t tokens);
    // Removes this page with everything behind it, since a prefix has no holes. Nothing if it is locked or not there.
    std::vector<BlockId> evict_page(BlockId page);
    // Forgets everything, locks too.
    void clear();
    // Another order of eviction from now on.
    void set_policy(RadixEviction policy);

    std::uint32_t page_size() const { return m_page_size; }
    std::uint64_t total_tokens() const { return m_total; }
    std::uint64_t protected_tokens() const { return m_protected; }
    std::uint64_t evictable_tokens() const { return m_total - m_protected; }
    // The node that holds the block as a page, if one does.
    std::optional<RadixNodeId> node_of(BlockId page) const;
    // The node on the path from `node` to the root in which the first `tokens` tokens of that path end, split so that they
    // end with it. tokens: whole pages, at most as many as the path has.
    RadixNodeId prefix_node(RadixNodeId node, std::uint32_t tokens);
    // Pages from the root to the end of the node.
    std::vector<BlockId> path_pages(RadixNodeId node) const;

    // Nodes in depth-first order, children by age of their edge; the root first.
    std::vector<RadixNodeId> walk() const;
    RadixNodeView view(RadixNodeId node) const;
    std::uint64_t bytes() const;  // that a copy takes, about
    const std::string& extra_key(RadixNodeId node) const;  // of a child of the root: its adapter and salt, encoded

    // Structure, counters and order of eviction against each other. Error: the first that does not hold.
    Result<void> audit() const;

private:
    static constexpr std::uint32_t none = RadixNodeId::none_value;

    struct Node {
        std::uint32_t parent = none;
        std::uint32_t first_child = none, last_child = none;  // siblings in a list, oldest edge first
        std::uint32_t previous = none, next = none;
        std::uint32_t depth = 0;
        std::uint32_t locks = 0;
        std::uint32_t hits = 0;
        std::uint64_t last_access = 0;
        std::uint64_t created = 0;
        std::int32_t priority = 0;
        std::vector<TokenId> tokens;
        std::vector<BlockId> pages;
        std::vector<BlockHash> hashes;
        std::string extra;  // of the root's children
    };

    // Place in the order of eviction, first to go first. The node makes equal ranks different.
    struct Rank {
        std::int64_t first = 0;
        std::uint64_t second = 0;
        std::uint32_t node = 0;
        auto operator<=>(const Rank&) const = default;
    };

    struct Step {  // one edge down
        std::uint32_t node = none;
        std::uint32_t tokens = 0;  // that agree with the node's run, whole pages
    };

    std::size_t whole(std::size_t tokens) const { return tokens - tokens % m_page_size; }
    std::uint64_t edge_key(std::uint32_t parent, std::span<const TokenId> page, const std::string& extra) const;
    Step step_down(std::uint32_t node, std::span<const TokenId> rest, const std::string& extra) const;
    void add_edge(std::uint32_t node);
    void remove_edge(std::uint32_t node);
    std::uint32_t new_node();
    std::uint32_t split(std::uint32_t node, std::uint32_t tokens);
    std::uint32_t append(std::uint32_t parent, std::span<const TokenId> rest, std::span<const BlockId> pages,
                         std::span<const BlockHash> hashes);
    void remove(std::uint32_t node, std::vector<BlockId>& pages);
    bool may_go(std::uint32_t node) const;
    Rank rank(std::uint32_t node) const;
    void queue(std::uint32_t node) {
        if (may_go(node)) m_leaves.insert(rank(node));
    }
    void unqueue(std::uint32_t node) {
        if (may_go(node)) m_leaves.erase(rank(node));
    }
    Result<void> audit_node(std::uint32_t node) const;

    std::uint32_t m_page_size;
    RadixEviction m_policy;
    CacheListener* m_listener = nullptr;
    std::vector<Node> m_nodes;                                         // index: RadixNodeId
    std::vector<std::uint32_t> m_unused;                               // indices of removed nodes
    std::unordered_multimap<std::uint64_t, std::uint32_t> m_edges;     // edge_key -> child
    std::vector<std::uint32_t> m_node_of;                              // block -> node, none
    std::set<Rank> m_leaves;                                           // unlocked leaves
    std::uint64_t m_clock = 0;
    std::uint64_t m_total = 0;      // tokens
    std::uint64_t m_protected = 0;  // tokens of locked nodes
};

}  // namespace kvloupe
