// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles R1-R7 and R10 of CACHE_SEMANTICS section 2 (SGLang's radix cache), and the order of eviction by each policy.
#include "engine/cache/radix_tree.h"
#include "tests/cache/radix_test_hash.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <numeric>
#include <set>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

using Tokens = std::vector<TokenId>;

Tokens range(TokenId first, TokenId last) {
    Tokens tokens(static_cast<std::size_t>(last - first + 1));
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
}

// A tree with blocks handed out in ascending order, as a pool that never ends would.
struct Scene {
    explicit Scene(std::uint32_t page_size = 1, RadixEviction policy = RadixEviction::lru)
        : tree(page_size, policy) {}

    RadixTree::Inserted insert(const Tokens& tokens, const ExtraKeys& extra = {}, std::int32_t priority = 0) {
        std::vector<BlockId> pages(tokens.size() / tree.page_size());
        for (BlockId& page : pages) page = BlockId(next++);
        return tree.insert({tokens, extra}, pages, page_hashes({tokens, extra}, tree.page_size()), priority);
    }
    std::size_t match(const Tokens& tokens, const ExtraKeys& extra = {}) {
        return tree.match({tokens, extra}).pages.size() * tree.page_size();
    }
    // "total evictable protected", or what the audit found.
    std::string sizes() const {
        if (const auto sound = tree.audit(); !sound) return sound.error().sentence;
        return std::to_string(tree.total_tokens()) + ' ' + std::to_string(tree.evictable_tokens()) + ' ' +
               std::to_string(tree.protected_tokens());
    }

    RadixTree tree;
    std::uint32_t next = 1;
};

std::string text(const std::vector<BlockId>& blocks) {
    std::string line;
    for (const BlockId id : blocks) line += std::to_string(id.value) + ' ';
    return trimmed(line);
}

struct Listener : CacheListener {
    struct Stored {
        BlockHash hash;
        std::optional<BlockHash> parent;
        Tokens tokens;
    };
    explicit Listener(Check& found) : check(found) {}

    Check& check;
    std::vector<Stored> stored;
    std::vector<std::vector<BlockHash>> removed;
    int cleared = 0;

    void block_stored(std::span<const BlockHash> hashes, std::optional<BlockHash> parent,
                      std::span<const TokenId> tokens) override {
        CHECK_EQUAL(hashes.size(), std::size_t{1});
        stored.push_back({hashes[0], parent, Tokens(tokens.begin(), tokens.end())});
    }
    void block_removed(std::span<const BlockHash> hashes) override { removed.emplace_back(hashes.begin(), hashes.end()); }
    void all_blocks_cleared() override { ++cleared; }
};

void R1_aMatchInsideAnEdgeSplitsItAndKeepsTheTotal(Check& check) {
    Scene scene;
    scene.insert({1, 2, 3});
    CHECK_EQUAL(scene.sizes(), "3 3 0");
    CHECK_EQUAL(scene.match({1, 2, 3}), std::size_t{3});
    CHECK_EQUAL(scene.tree.walk().size(), std::size_t{2});  // the root and one node
    CHECK_EQUAL(scene.match({1, 2}), std::size_t{2});
    CHECK_EQUAL(scene.tree.walk().size(), std::size_t{3});
    CHECK_EQUAL(scene.tree.view(scene.tree.walk()[1]).tokens.size(), std::size_t{2});
    CHECK_EQUAL(scene.tree.view(scene.tree.walk()[2]).tokens.size(), std::size_t{1});
    CHECK_EQUAL(scene.match({9}), std::size_t{0});
    CHECK_EQUAL(scene.sizes(), "3 3 0");
}

void R2_whatIsThereIsNotStoredAgain(Check& check) {
    Scene scene;
    CHECK_EQUAL(scene.insert(range(1, 8)).present, 0u);
    CHECK_EQUAL(scene.insert({1, 2, 9, 10}).present, 2u);
    CHECK_EQUAL(scene.sizes(), "10 10 0");
    CHECK_EQUAL(scene.insert(range(1, 8)).present, 8u);
    CHECK_EQUAL(scene.sizes(), "10 10 0");
    // The first inserted pages stay: blocks 1 and 2 lead to both continuations.
    CHECK_EQUAL(text(scene.tree.match({Tokens{1, 2, 9, 10}, {}}).pages), "1 2 11 12");
}

void R3_queriesOnlySplit(Check& check) {
    Scene scene;
    scene.insert(range(1, 16));
    for (TokenId last = 16; last >= 1; --last) {
        CHECK_EQUAL(scene.match(range(1, last)), static_cast<std::size_t>(last));
        CHECK_EQUAL(scene.sizes(), "16 16 0");
    }
    CHECK_EQUAL(scene.tree.walk().size(), std::size_t{17});
    CHECK_EQUAL(scene.tree.matching_tokens({range(1, 20), {}}), 16u);
}

void R4_onlyWholePagesCount(Check& check) {
    Scene scene(2);
    const auto inserted = scene.insert({1, 2, 3, 4, 5});
    CHECK_EQUAL(inserted.present, 0u);
    CHECK_EQUAL(scene.sizes(), "4 4 0");
    CHECK_EQUAL(scene.match({1, 2, 3, 4, 5}), std::size_t{4});
    CHECK_EQUAL(scene.match({1, 2, 3, 9}), std::size_t{2});  // agrees in 3 tokens: one page
    CHECK_EQUAL(scene.match({1}), std::size_t{0});
    CHECK_EQUAL(scene.tree.path_pages(inserted.node), (std::vector<BlockId>{BlockId(1), BlockId(2)}));
}

void R5_extraKeysShareNothing(Check& check) {
    Scene scene;
    const std::vector<ExtraKeys> keys{{}, {"a", ""}, {"", "a"}, {"ab", "c"}, {"a", "bc"}};
    for (const ExtraKeys& key : keys) CHECK_EQUAL(scene.insert({1, 2, 3}, key).present, 0u);
    CHECK_EQUAL(scene.sizes(), "15 15 0");
    std::set<std::uint32_t> firsts;
    for (const ExtraKeys& key : keys) firsts.insert(scene.tree.match({Tokens{1, 2, 3}, key}).pages[0].value);
    CHECK_EQUAL(firsts.size(), keys.size());
    CHECK_EQUAL(scene.match({1, 2, 3}, {"b", ""}), std::size_t{0});
    CHECK_EQUAL(scene.match({1, 2}, {"a", ""}), std::size_t{2});  // a split keeps the keys
    CHECK_EQUAL(scene.match({1, 2, 3}, {"a", ""}), std::size_t{3});
}

void R6_lockedNodesStay(Check& check) {
    Scene scene;
    const RadixNodeId node = scene.insert({1, 2, 3}).node;
    scene.tree.lock(node);
    CHECK_EQUAL(scene.sizes(), "3 0 3");
    CHECK_THAT(scene.tree.evict(3).empty());
    CHECK_EQUAL(scene.sizes(), "3 0 3");
    scene.tree.lock(node);
    scene.tree.unlock(node);
    CHECK_EQUAL(scene.sizes(), "3 0 3");
    scene.tree.unlock(node);
    CHECK_EQUAL(scene.sizes(), "3 3 0");
    CHECK_EQUAL(text(scene.tree.evict(3)), "3 2 1");
}

void aSplitKeepsTheLocksOfBothHalves(Check& check) {
    Scene scene;
    const RadixNodeId node = scene.insert({1, 2, 3, 4}).node;
    scene.tree.lock(node);
    CHECK_EQUAL(scene.match({1, 2}), std::size_t{2});
    CHECK_EQUAL(scene.sizes(), "4 0 4");
    scene.insert({1, 2, 7, 8});
    CHECK_EQUAL(scene.sizes(), "6 2 4");
    scene.tree.unlock(node);  // the lock was taken before the split
    CHECK_EQUAL(scene.sizes(), "6 6 0");
}

void R7_theLeastRecentlyUsedLeafGoesAlone(Check& check) {
    Scene scene;
    scene.insert({1, 2});
    scene.insert({5, 6});
    scene.match({1, 2});
    CHECK_EQUAL(text(scene.tree.evict(2)), "4 3");
    CHECK_EQUAL(scene.sizes(), "2 2 0");
    CHECK_EQUAL(scene.match({1, 2}), std::size_t{2});
    CHECK_EQUAL(scene.match({5, 6}), std::size_t{0});
}

void wholeLeavesGoAndThenTheirParents(Check& check) {
    Scene scene;
    scene.insert({1, 2, 3, 4});      // 1 2 3 4
    scene.insert({1, 2, 8, 9, 10});  // 1 2, new 7 8 9
    CHECK_EQUAL(text(scene.tree.evict(1)), "4 3");  // the older leaf, whole
    CHECK_EQUAL(text(scene.tree.evict(4)), "9 8 7 2 1");
    CHECK_EQUAL(scene.sizes(), "0 0 0");
    CHECK_EQUAL(scene.tree.walk().size(), std::size_t{1});
    CHECK_THAT(scene.tree.evict(1).empty());
}

struct PoliciesDecideWhoGoesFirstCase {
    int policy;
    std::string order;
};
Cases<PoliciesDecideWhoGoesFirstCase> policiesDecideWhoGoesFirst_cases() {
    Cases<PoliciesDecideWhoGoesFirstCase> cases;
    // Inserted 1, 2, 3 with priorities 0, 5, 0; hits 2, 1, 0; last used 3, 1, 2.
    cases.add("lru", {int(RadixEviction::lru), "3 1 2"});
    cases.add("lfu", {int(RadixEviction::lfu), "3 2 1"});
    cases.add("fifo", {int(RadixEviction::fifo), "1 2 3"});
    cases.add("priority", {int(RadixEviction::priority), "2 3 1"});
    return cases;
}
void policiesDecideWhoGoesFirst(Check& check, const PoliciesDecideWhoGoesFirstCase& row) {
    Scene scene(1, RadixEviction(row.policy));
    const RadixNodeId first = scene.insert({10}, {}, 0).node;
    const RadixNodeId second = scene.insert({20}, {}, 5).node;
    scene.insert({30}, {}, 0);
    for (const RadixNodeId node : {first, first, second}) scene.tree.count_hit(node);
    scene.match({30});
    scene.match({10});
    scene.match({20});
    CHECK_EQUAL(scene.sizes(), "3 3 0");
    CHECK_EQUAL(text(scene.tree.evict(3)), row.order);
}

void aNodeIsAsImportantAsItsMostImportantUser(Check& check) {
    Scene scene(1, RadixEviction::priority);
    scene.insert({1, 2, 3}, {}, 7);
    scene.insert({5}, {}, 3);
    scene.insert({1, 2}, {}, -1);  // the upper half becomes important, the rest does not
    CHECK_EQUAL(text(scene.tree.evict(2)), "3 4");
    CHECK_EQUAL(scene.match({1, 2}), std::size_t{2});
}

void R10_aPageIsToldWithItsParentAndANodeGoesInOnePiece(Check& check) {
    Listener listener(check);
    Scene scene(2);
    scene.tree.set_listener(&listener);
    scene.insert({1, 2, 1, 2, 3, 4});
    CHECK_EQUAL(listener.stored.size(), std::size_t{3});
    CHECK_THAT(!listener.stored[0].parent);
    CHECK_THAT(listener.stored[1].parent == listener.stored[0].hash);
    CHECK_THAT(listener.stored[2].parent == listener.stored[1].hash);
    CHECK_EQUAL(listener.stored[2].tokens, (Tokens{3, 4}));
    CHECK_EQUAL(listener.stored[0].tokens, listener.stored[1].tokens);
    CHECK_THAT(listener.stored[0].hash != listener.stored[1].hash);  // identical tokens at another depth
    // A branch links to the page before it, also across a split.
    scene.insert({1, 2, 9, 9});
    CHECK_EQUAL(listener.stored.size(), std::size_t{4});
    CHECK_THAT(listener.stored[3].parent == listener.stored[0].hash);
    scene.tree.evict(1);  // the older leaf: [1 2][3 4]
    CHECK_EQUAL(listener.removed.size(), std::size_t{1});
    CHECK_THAT(listener.removed[0] == (std::vector<BlockHash>{listener.stored[1].hash, listener.stored[2].hash}));
    scene.tree.clear();
    CHECK_EQUAL(listener.cleared, 1);
    CHECK_EQUAL(scene.sizes(), "0 0 0");
}

void evictingAPageTakesWhatIsBehindIt(Check& check) {
    Scene scene;
    scene.insert({1, 2, 3, 4});
    const RadixNodeId other = scene.insert({1, 2, 3, 8}).node;  // block 8 behind 3
    scene.tree.lock(other);
    CHECK_THAT(scene.tree.evict_page(BlockId(2)).empty());  // owned
    CHECK_THAT(scene.tree.evict_page(BlockId(77)).empty());
    scene.tree.unlock(other);
    CHECK_EQUAL(text(scene.tree.evict_page(BlockId(2))), "8 4 3 2");
    CHECK_EQUAL(scene.sizes(), "1 1 0");
    CHECK_THAT(!scene.tree.node_of(BlockId(2)));
    CHECK_THAT(scene.tree.node_of(BlockId(1)));
}

void aPrefixOfAPathIsFoundAndSplitWhereItEnds(Check& check) {
    Scene scene(2);
    const RadixNodeId end = scene.insert(range(1, 8)).node;
    const RadixNodeId half = scene.tree.prefix_node(end, 4);
    CHECK_EQUAL(text(scene.tree.path_pages(half)), "1 2");
    CHECK_EQUAL(text(scene.tree.path_pages(end)), "1 2 3 4");
    CHECK_EQUAL(scene.tree.prefix_node(end, 4), half);
    CHECK_EQUAL(scene.tree.prefix_node(end, 8), end);
    CHECK_EQUAL(scene.tree.prefix_node(end, 0), RadixTree::root);
    CHECK_EQUAL(scene.sizes(), "8 8 0");
}

void theWalkNamesParentsBeforeChildren(Check& check) {
    Scene scene;
    scene.insert({1, 2, 3});
    scene.insert({1, 2, 4});
    scene.insert({7});
    std::string line;
    for (const RadixNodeId id : scene.tree.walk()) {
        const RadixNodeView view = scene.tree.view(id);
        line += std::to_string(view.depth) + ':' + text(std::vector<BlockId>(view.pages.begin(), view.pages.end())) +
                (view.leaf ? ". " : " ");
    }
    CHECK_EQUAL(trimmed(line), "0: 0:1 2 2:3. 2:6. 0:7.");
}

void aPathOfManyNodesNeedsNoStack(Check& check) {
    Scene scene;
    const Tokens tokens = range(1, 8000);
    const RadixNodeId end = scene.insert(tokens).node;
    for (std::size_t length = tokens.size() - 1; length >= 1; --length)  // one node for each token
        scene.tree.match({std::span(tokens).first(length), {}});
    CHECK_EQUAL(scene.tree.walk().size(), tokens.size() + 1);
    scene.tree.lock(end);
    CHECK_EQUAL(scene.sizes(), "8000 0 8000");
    scene.tree.unlock(end);
    CHECK_EQUAL(scene.tree.evict_page(BlockId(1)).size(), tokens.size());
    CHECK_EQUAL(scene.sizes(), "0 0 0");
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(R1_aMatchInsideAnEdgeSplitsItAndKeepsTheTotal));
    claims.add(CLAIM(R2_whatIsThereIsNotStoredAgain));
    claims.add(CLAIM(R3_queriesOnlySplit));
    claims.add(CLAIM(R4_onlyWholePagesCount));
    claims.add(CLAIM(R5_extraKeysShareNothing));
    claims.add(CLAIM(R6_lockedNodesStay));
    claims.add(CLAIM(aSplitKeepsTheLocksOfBothHalves));
    claims.add(CLAIM(R7_theLeastRecentlyUsedLeafGoesAlone));
    claims.add(CLAIM(wholeLeavesGoAndThenTheirParents));
    claims.add(CLAIM(policiesDecideWhoGoesFirst), policiesDecideWhoGoesFirst_cases());
    claims.add(CLAIM(aNodeIsAsImportantAsItsMostImportantUser));
    claims.add(CLAIM(R10_aPageIsToldWithItsParentAndANodeGoesInOnePiece));
    claims.add(CLAIM(evictingAPageTakesWhatIsBehindIt));
    claims.add(CLAIM(aPrefixOfAPathIsFoundAndSplitWhereItEnds));
    claims.add(CLAIM(theWalkNamesParentsBeforeChildren));
    claims.add(CLAIM(aPathOfManyNodesNeedsNoStack));
    return claims.rows();
}
