// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles R1-R7 and R10 of CACHE_SEMANTICS section 2 (SGLang's radix cache), and the order of eviction by each policy.
#include <QRegularExpression>
#include <QTest>

#include "engine/cache/radix_tree.h"
#include "tests/cache/radix_test_hash.h"

#include <numeric>
#include <set>

using namespace kvloupe;

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
    QByteArray sizes() const {
        if (const auto sound = tree.audit(); !sound) return QByteArray::fromStdString(sound.error().sentence);
        return QByteArray::number(tree.total_tokens()) + ' ' + QByteArray::number(tree.evictable_tokens()) + ' ' +
               QByteArray::number(tree.protected_tokens());
    }

    RadixTree tree;
    std::uint32_t next = 1;
};

QByteArray text(const std::vector<BlockId>& blocks) {
    QByteArray line;
    for (const BlockId id : blocks) line += QByteArray::number(id.value) + ' ';
    return line.trimmed();
}

struct Listener : CacheListener {
    struct Stored {
        BlockHash hash;
        std::optional<BlockHash> parent;
        Tokens tokens;
    };
    std::vector<Stored> stored;
    std::vector<std::vector<BlockHash>> removed;
    int cleared = 0;

    void block_stored(std::span<const BlockHash> hashes, std::optional<BlockHash> parent,
                      std::span<const TokenId> tokens) override {
        QCOMPARE(hashes.size(), std::size_t{1});
        stored.push_back({hashes[0], parent, Tokens(tokens.begin(), tokens.end())});
    }
    void block_removed(std::span<const BlockHash> hashes) override { removed.emplace_back(hashes.begin(), hashes.end()); }
    void all_blocks_cleared() override { ++cleared; }
};

}  // namespace

class TestRadixTree : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void R1_aMatchInsideAnEdgeSplitsItAndKeepsTheTotal() {
        Scene scene;
        scene.insert({1, 2, 3});
        QCOMPARE(scene.sizes(), QByteArray("3 3 0"));
        QCOMPARE(scene.match({1, 2, 3}), std::size_t{3});
        QCOMPARE(scene.tree.walk().size(), std::size_t{2});  // the root and one node
        QCOMPARE(scene.match({1, 2}), std::size_t{2});
        QCOMPARE(scene.tree.walk().size(), std::size_t{3});
        QCOMPARE(scene.tree.view(scene.tree.walk()[1]).tokens.size(), std::size_t{2});
        QCOMPARE(scene.tree.view(scene.tree.walk()[2]).tokens.size(), std::size_t{1});
        QCOMPARE(scene.match({9}), std::size_t{0});
        QCOMPARE(scene.sizes(), QByteArray("3 3 0"));
    }

    void R2_whatIsThereIsNotStoredAgain() {
        Scene scene;
        QCOMPARE(scene.insert(range(1, 8)).present, 0u);
        QCOMPARE(scene.insert({1, 2, 9, 10}).present, 2u);
        QCOMPARE(scene.sizes(), QByteArray("10 10 0"));
        QCOMPARE(scene.insert(range(1, 8)).present, 8u);
        QCOMPARE(scene.sizes(), QByteArray("10 10 0"));
        // The first inserted pages stay: blocks 1 and 2 lead to both continuations.
        QCOMPARE(text(scene.tree.match({Tokens{1, 2, 9, 10}, {}}).pages), QByteArray("1 2 11 12"));
    }

    void R3_queriesOnlySplit() {
        Scene scene;
        scene.insert(range(1, 16));
        for (TokenId last = 16; last >= 1; --last) {
            QCOMPARE(scene.match(range(1, last)), static_cast<std::size_t>(last));
            QCOMPARE(scene.sizes(), QByteArray("16 16 0"));
        }
        QCOMPARE(scene.tree.walk().size(), std::size_t{17});
        QCOMPARE(scene.tree.matching_tokens({range(1, 20), {}}), 16u);
    }

    void R4_onlyWholePagesCount() {
        Scene scene(2);
        const auto inserted = scene.insert({1, 2, 3, 4, 5});
        QCOMPARE(inserted.present, 0u);
        QCOMPARE(scene.sizes(), QByteArray("4 4 0"));
        QCOMPARE(scene.match({1, 2, 3, 4, 5}), std::size_t{4});
        QCOMPARE(scene.match({1, 2, 3, 9}), std::size_t{2});  // agrees in 3 tokens: one page
        QCOMPARE(scene.match({1}), std::size_t{0});
        QCOMPARE(scene.tree.path_pages(inserted.node), (std::vector<BlockId>{BlockId(1), BlockId(2)}));
    }

    void R5_extraKeysShareNothing() {
        Scene scene;
        const std::vector<ExtraKeys> keys{{}, {"a", ""}, {"", "a"}, {"ab", "c"}, {"a", "bc"}};
        for (const ExtraKeys& key : keys) QCOMPARE(scene.insert({1, 2, 3}, key).present, 0u);
        QCOMPARE(scene.sizes(), QByteArray("15 15 0"));
        std::set<std::uint32_t> firsts;
        for (const ExtraKeys& key : keys) firsts.insert(scene.tree.match({Tokens{1, 2, 3}, key}).pages[0].value);
        QCOMPARE(firsts.size(), keys.size());
        QCOMPARE(scene.match({1, 2, 3}, {"b", ""}), std::size_t{0});
        QCOMPARE(scene.match({1, 2}, {"a", ""}), std::size_t{2});  // a split keeps the keys
        QCOMPARE(scene.match({1, 2, 3}, {"a", ""}), std::size_t{3});
    }

    void R6_lockedNodesStay() {
        Scene scene;
        const RadixNodeId node = scene.insert({1, 2, 3}).node;
        scene.tree.lock(node);
        QCOMPARE(scene.sizes(), QByteArray("3 0 3"));
        QVERIFY(scene.tree.evict(3).empty());
        QCOMPARE(scene.sizes(), QByteArray("3 0 3"));
        scene.tree.lock(node);
        scene.tree.unlock(node);
        QCOMPARE(scene.sizes(), QByteArray("3 0 3"));
        scene.tree.unlock(node);
        QCOMPARE(scene.sizes(), QByteArray("3 3 0"));
        QCOMPARE(text(scene.tree.evict(3)), QByteArray("3 2 1"));
    }

    void aSplitKeepsTheLocksOfBothHalves() {
        Scene scene;
        const RadixNodeId node = scene.insert({1, 2, 3, 4}).node;
        scene.tree.lock(node);
        QCOMPARE(scene.match({1, 2}), std::size_t{2});
        QCOMPARE(scene.sizes(), QByteArray("4 0 4"));
        scene.insert({1, 2, 7, 8});
        QCOMPARE(scene.sizes(), QByteArray("6 2 4"));
        scene.tree.unlock(node);  // the lock was taken before the split
        QCOMPARE(scene.sizes(), QByteArray("6 6 0"));
    }

    void R7_theLeastRecentlyUsedLeafGoesAlone() {
        Scene scene;
        scene.insert({1, 2});
        scene.insert({5, 6});
        scene.match({1, 2});
        QCOMPARE(text(scene.tree.evict(2)), QByteArray("4 3"));
        QCOMPARE(scene.sizes(), QByteArray("2 2 0"));
        QCOMPARE(scene.match({1, 2}), std::size_t{2});
        QCOMPARE(scene.match({5, 6}), std::size_t{0});
    }

    void wholeLeavesGoAndThenTheirParents() {
        Scene scene;
        scene.insert({1, 2, 3, 4});      // 1 2 3 4
        scene.insert({1, 2, 8, 9, 10});  // 1 2, new 7 8 9
        QCOMPARE(text(scene.tree.evict(1)), QByteArray("4 3"));  // the older leaf, whole
        QCOMPARE(text(scene.tree.evict(4)), QByteArray("9 8 7 2 1"));
        QCOMPARE(scene.sizes(), QByteArray("0 0 0"));
        QCOMPARE(scene.tree.walk().size(), std::size_t{1});
        QVERIFY(scene.tree.evict(1).empty());
    }

    void policiesDecideWhoGoesFirst_data() {
        QTest::addColumn<int>("policy");
        QTest::addColumn<QByteArray>("order");
        // Inserted 1, 2, 3 with priorities 0, 5, 0; hits 2, 1, 0; last used 3, 1, 2.
        QTest::newRow("lru") << int(RadixEviction::lru) << QByteArray("3 1 2");
        QTest::newRow("lfu") << int(RadixEviction::lfu) << QByteArray("3 2 1");
        QTest::newRow("fifo") << int(RadixEviction::fifo) << QByteArray("1 2 3");
        QTest::newRow("priority") << int(RadixEviction::priority) << QByteArray("2 3 1");
    }
    void policiesDecideWhoGoesFirst() {
        QFETCH(const int, policy);
        QFETCH(const QByteArray, order);
        Scene scene(1, RadixEviction(policy));
        const RadixNodeId first = scene.insert({10}, {}, 0).node;
        const RadixNodeId second = scene.insert({20}, {}, 5).node;
        scene.insert({30}, {}, 0);
        for (const RadixNodeId node : {first, first, second}) scene.tree.count_hit(node);
        scene.match({30});
        scene.match({10});
        scene.match({20});
        QCOMPARE(scene.sizes(), QByteArray("3 3 0"));
        QCOMPARE(text(scene.tree.evict(3)), order);
    }

    void aNodeIsAsImportantAsItsMostImportantUser() {
        Scene scene(1, RadixEviction::priority);
        scene.insert({1, 2, 3}, {}, 7);
        scene.insert({5}, {}, 3);
        scene.insert({1, 2}, {}, -1);  // the upper half becomes important, the rest does not
        QCOMPARE(text(scene.tree.evict(2)), QByteArray("3 4"));
        QCOMPARE(scene.match({1, 2}), std::size_t{2});
    }

    void R10_aPageIsToldWithItsParentAndANodeGoesInOnePiece() {
        Listener listener;
        Scene scene(2);
        scene.tree.set_listener(&listener);
        scene.insert({1, 2, 1, 2, 3, 4});
        QCOMPARE(listener.stored.size(), std::size_t{3});
        QVERIFY(!listener.stored[0].parent);
        QVERIFY(listener.stored[1].parent == listener.stored[0].hash);
        QVERIFY(listener.stored[2].parent == listener.stored[1].hash);
        QCOMPARE(listener.stored[2].tokens, (Tokens{3, 4}));
        QCOMPARE(listener.stored[0].tokens, listener.stored[1].tokens);
        QVERIFY(listener.stored[0].hash != listener.stored[1].hash);  // identical tokens at another depth
        // A branch links to the page before it, also across a split.
        scene.insert({1, 2, 9, 9});
        QCOMPARE(listener.stored.size(), std::size_t{4});
        QVERIFY(listener.stored[3].parent == listener.stored[0].hash);
        scene.tree.evict(1);  // the older leaf: [1 2][3 4]
        QCOMPARE(listener.removed.size(), std::size_t{1});
        QVERIFY(listener.removed[0] == (std::vector<BlockHash>{listener.stored[1].hash, listener.stored[2].hash}));
        scene.tree.clear();
        QCOMPARE(listener.cleared, 1);
        QCOMPARE(scene.sizes(), QByteArray("0 0 0"));
    }

    void evictingAPageTakesWhatIsBehindIt() {
        Scene scene;
        scene.insert({1, 2, 3, 4});
        const RadixNodeId other = scene.insert({1, 2, 3, 8}).node;  // block 8 behind 3
        scene.tree.lock(other);
        QVERIFY(scene.tree.evict_page(BlockId(2)).empty());  // owned
        QVERIFY(scene.tree.evict_page(BlockId(77)).empty());
        scene.tree.unlock(other);
        QCOMPARE(text(scene.tree.evict_page(BlockId(2))), QByteArray("8 4 3 2"));
        QCOMPARE(scene.sizes(), QByteArray("1 1 0"));
        QVERIFY(!scene.tree.node_of(BlockId(2)));
        QVERIFY(scene.tree.node_of(BlockId(1)));
    }

    void aPrefixOfAPathIsFoundAndSplitWhereItEnds() {
        Scene scene(2);
        const RadixNodeId end = scene.insert(range(1, 8)).node;
        const RadixNodeId half = scene.tree.prefix_node(end, 4);
        QCOMPARE(text(scene.tree.path_pages(half)), QByteArray("1 2"));
        QCOMPARE(text(scene.tree.path_pages(end)), QByteArray("1 2 3 4"));
        QCOMPARE(scene.tree.prefix_node(end, 4), half);
        QCOMPARE(scene.tree.prefix_node(end, 8), end);
        QCOMPARE(scene.tree.prefix_node(end, 0), RadixTree::root);
        QCOMPARE(scene.sizes(), QByteArray("8 8 0"));
    }

    void theWalkNamesParentsBeforeChildren() {
        Scene scene;
        scene.insert({1, 2, 3});
        scene.insert({1, 2, 4});
        scene.insert({7});
        QByteArray line;
        for (const RadixNodeId id : scene.tree.walk()) {
            const RadixNodeView view = scene.tree.view(id);
            line += QByteArray::number(view.depth) + ':' + text(std::vector<BlockId>(view.pages.begin(), view.pages.end())) +
                    (view.leaf ? ". " : " ");
        }
        QCOMPARE(line.trimmed(), QByteArray("0: 0:1 2 2:3. 2:6. 0:7."));
    }

    void aPathOfManyNodesNeedsNoStack() {
        Scene scene;
        const Tokens tokens = range(1, 8000);
        const RadixNodeId end = scene.insert(tokens).node;
        for (std::size_t length = tokens.size() - 1; length >= 1; --length)  // one node for each token
            scene.tree.match({std::span(tokens).first(length), {}});
        QCOMPARE(scene.tree.walk().size(), tokens.size() + 1);
        scene.tree.lock(end);
        QCOMPARE(scene.sizes(), QByteArray("8000 0 8000"));
        scene.tree.unlock(end);
        QCOMPARE(scene.tree.evict_page(BlockId(1)).size(), tokens.size());
        QCOMPARE(scene.sizes(), QByteArray("0 0 0"));
    }
};

QTEST_GUILESS_MAIN(TestRadixTree)
#include "tst_radix_tree.moc"
