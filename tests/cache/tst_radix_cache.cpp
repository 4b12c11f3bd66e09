// SPDX-License-Identifier: GPL-3.0-or-later
//
// The radix tree as the paged cache's prefix index: oracles R4 to R7 and R10 of CACHE_SEMANTICS section 2 through the
// manager, and its rules about time, duplicates and eviction (1.4). The driver replays every event.
#include <QRegularExpression>
#include <QTest>

#include "tests/cache/cache_driver.h"

using namespace kvloupe;

namespace {

CacheManagerOptions radix(std::uint32_t blocks, std::uint32_t block_size, RadixEviction eviction = RadixEviction::lru) {
    CacheManagerOptions options = CacheDriver::paged(blocks, block_size);
    options.prefix_index = PrefixIndexKind::radix;
    options.radix_eviction = eviction;
    return options;
}

// Blocks of the events of a kind in the last change.
QByteArray blocks_of(const CacheDriver& driver, EventKind kind) {
    QByteArray line;
    for (const Event& event : driver.events)
        if (event.kind == kind) line += QByteArray::number(event.block.value) + ' ';
    return line.trimmed();
}

struct Listener : CacheListener {
    std::vector<BlockHash> stored;
    std::vector<std::optional<BlockHash>> parents;
    std::vector<std::size_t> removed;  // hashes a call
    int cleared = 0;

    void block_stored(std::span<const BlockHash> hashes, std::optional<BlockHash> parent, std::span<const TokenId>) override {
        stored.insert(stored.end(), hashes.begin(), hashes.end());
        parents.push_back(parent);
    }
    void block_removed(std::span<const BlockHash> hashes) override { removed.push_back(hashes.size()); }
    void all_blocks_cleared() override { ++cleared; }
};

}  // namespace

class TestRadixCache : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void aPrefixIsFoundOnlyWhenItsStepHasRun() {
        CacheDriver driver(radix(20, 4));
        driver.add(0, tokens_from(100, 10));
        driver.add(1, tokens_from(100, 12));
        driver.notes = false;
        QVERIFY(driver.admit(0));
        QCOMPARE(driver.hit(1), 0u);
        driver.note(0);
        QCOMPARE(driver.hit(1), 8u);
        QCOMPARE(driver.count(EventKind::store), std::size_t(2));
        QVERIFY(driver.hashed(1) && driver.hashed(2) && !driver.hashed(3));
        driver.notes = true;
        QVERIFY(driver.admit(1));
        QCOMPARE(driver.table(1), QByteArray("1 2 4"));
        QCOMPARE(driver.cache->owners(BlockId{2}), 2u);
    }

    void theLastTokenIsComputedAgain() {
        CacheDriver driver(radix(20, 4));
        driver.add(0, tokens_from(100, 8));
        QVERIFY(driver.admit(0));
        driver.add(1, tokens_from(100, 8));
        driver.add(2, tokens_from(100, 9));
        QCOMPARE(driver.hit(1), 4u);
        QCOMPARE(driver.hit(2), 8u);
    }

    void chunksComeInStepByStep() {
        CacheDriver driver(radix(20, 4));
        driver.add(0, tokens_from(100, 20));
        driver.add(1, tokens_from(100, 20));
        QVERIFY(driver.admit(0, 9));
        QCOMPARE(driver.hit(1), 8u);
        QVERIFY(driver.compute(0, 6));
        QCOMPARE(driver.hit(1), 12u);
    }

    void whatDecodingAddsComesInAtTheEnd() {
        CacheDriver driver(radix(20, 4));
        driver.add(0, tokens_from(100, 6));
        QVERIFY(driver.admit(0));
        for (TokenId token = 200; token < 207; ++token) QVERIFY(driver.append(0, {token}));  // 13 tokens
        QCOMPARE(driver.table(0), QByteArray("1 2 3 4"));
        QVERIFY(driver.hashed(1) && !driver.hashed(2) && !driver.hashed(3));
        driver.release(0);
        QCOMPARE(blocks_of(driver, EventKind::store), QByteArray("2 3"));
        QCOMPARE(driver.cache->cached_blocks(), 3u);
        QCOMPARE(driver.cache->free_blocks(), 16u);
        QCOMPARE(driver.free_order().left(3), QByteArray("4 5"));  // its tail was freed, the others are kept
        driver.add(1, joined(tokens_from(100, 6), tokens_from(200, 7)));
        QCOMPARE(driver.hit(1), 12u);
    }

    void equalBlocksAreKeptOnce() {
        CacheDriver driver(radix(20, 4));
        driver.add(0, tokens_from(100, 11));
        driver.add(1, joined(tokens_from(100, 8), tokens_from(300, 5)));
        driver.notes = false;
        QVERIFY(driver.admit(0) && driver.admit(1));  // in one step: neither finds the other
        QCOMPARE(driver.table(1), QByteArray("4 5 6 7"));
        driver.note(0);
        driver.note(1);
        QCOMPARE(driver.table(1), QByteArray("1 2 6 7"));
        QCOMPARE(blocks_of(driver, EventKind::prefix_hit), QByteArray("1 2"));
        QCOMPARE(blocks_of(driver, EventKind::free), QByteArray("4 5"));
        for (const Event& event : driver.events)
            if (event.kind != EventKind::store) QCOMPARE(event.cause, Cause::duplicate_owner);
        QCOMPARE(driver.cache->used_blocks(), 5u);
        QCOMPARE(blocks_of(driver, EventKind::store), QByteArray("6"));
    }

    void duplicatesMadeByDecodingGoAtTheEnd() {
        CacheDriver driver(radix(20, 4));
        for (const std::uint32_t id : {0u, 1u}) {
            driver.add(id, {7, static_cast<TokenId>(id)});
            driver.sequences[id].tokens = {7};
            driver.sequences[id].prompt = 1;
            QVERIFY(driver.admit(id));
            for (TokenId token = 8; token < 12; ++token) QVERIFY(driver.append(id, {token}));
        }
        QCOMPARE(driver.cache->used_blocks(), 4u);
        driver.release(0);
        QCOMPARE(driver.cache->cached_blocks(), 1u);
        driver.release(1);
        QCOMPARE(driver.cache->cached_blocks(), 1u);
        QCOMPARE(driver.cache->free_blocks(), 18u);
    }

    void aPreemptedSequenceFindsItsPromptAgain() {
        CacheDriver driver(radix(20, 4));
        driver.add(0, tokens_from(100, 9));
        QVERIFY(driver.admit(0));
        for (TokenId token = 200; token < 204; ++token) QVERIFY(driver.append(0, {token}));  // 13 tokens, 3 full blocks
        driver.release(0, Cause::sequence_preempted, 13);
        QCOMPARE(driver.cache->cached_blocks(), 2u);  // what it decoded is freed, not taken in
        QVERIFY(driver.admit(0));
        QCOMPARE(driver.hit_tokens, 8u);
        QVERIFY(driver.hashed(driver.cache->table(SequenceId{0})[2].value));  // recomputed as a prompt: taken in
    }

    void aFailedSequenceAddsNothing() {
        CacheDriver driver(radix(20, 4));
        driver.add(0, tokens_from(100, 9));
        driver.notes = false;
        QVERIFY(driver.admit(0));
        driver.release(0, Cause::sequence_failed, 0);
        QCOMPARE(driver.cache->cached_blocks(), 0u);
    }

    void R5_extraKeysShareNothing_data() {
        QTest::addColumn<bool>("tagged");
        QTest::newRow("tagged") << true;
        QTest::newRow("untagged: the wrong hit") << false;
    }
    void R5_extraKeysShareNothing() {
        QFETCH(const bool, tagged);
        auto options = radix(20, 4);
        options.tag_extra_keys = tagged;
        CacheDriver driver(options);
        driver.add(0, tokens_from(100, 9), "a");
        QVERIFY(driver.admit(0));
        driver.add(1, tokens_from(100, 9), "b");
        driver.add(2, tokens_from(100, 9), "", "a");
        driver.add(3, tokens_from(100, 9), "a");
        QCOMPARE(driver.hit(1), 0u);
        QCOMPARE(driver.hit(2), tagged ? 0u : 8u);
        QCOMPARE(driver.hit(3), 8u);
    }

    void R6_whatRunsIsNotEvicted() {
        CacheDriver driver(radix(6, 4));
        driver.add(0, tokens_from(100, 12));
        QVERIFY(driver.admit(0));  // 3 of 5 blocks
        driver.add(1, tokens_from(500, 12));
        QVERIFY(!driver.admit(1));
        QCOMPARE(driver.refused, Cause::pool_too_full);
        QCOMPARE(driver.plan.needed_blocks, 3u);
        QCOMPARE(driver.plan.free_blocks, 2u);
        driver.release(0);
        QCOMPARE(driver.cache->cached_blocks(), 3u);
        driver.notes = false;
        QVERIFY(driver.admit(1));
        QCOMPARE(driver.plan.free_blocks, 5u);  // evictable blocks count as free
        QCOMPARE(blocks_of(driver, EventKind::evict), QByteArray("3 2 1"));  // the whole leaf for one block
        QCOMPARE(driver.cache->cached_blocks(), 0u);
    }

    void R7_theOrderOfEvictionIsThePolicys_data() {
        QTest::addColumn<int>("policy");
        QTest::addColumn<QByteArray>("evicted");
        // Blocks 1, 2, 3 for prompts a, b, c; priorities 0, 5, 0; hits: a twice, b once; then looked up c, a, b.
        QTest::newRow("lru") << int(RadixEviction::lru) << QByteArray("3 1 2");
        QTest::newRow("lfu") << int(RadixEviction::lfu) << QByteArray("3 2 1");
        QTest::newRow("fifo") << int(RadixEviction::fifo) << QByteArray("1 2 3");
        QTest::newRow("priority") << int(RadixEviction::priority) << QByteArray("2 3 1");
    }
    void R7_theOrderOfEvictionIsThePolicys() {
        QFETCH(const int, policy);
        QFETCH(const QByteArray, evicted);
        CacheDriver driver(radix(5, 4, RadixEviction(policy)));
        const auto prompt = [](TokenId first) { return tokens_from(first, 4); };
        const auto serve = [&](std::uint32_t id, TokenId first, std::int32_t priority) {
            driver.add(id, prompt(first)).priority = priority;
            QVERIFY(driver.admit(id));
            driver.release(id);
        };
        serve(0, 100, 0);
        serve(1, 200, 5);
        serve(2, 300, 0);
        QCOMPARE(driver.cache->cached_blocks(), 3u);
        std::uint32_t id = 3;
        for (const TokenId first : {100, 100, 200}) {
            driver.add(id, joined(prompt(first), {9})).priority = first == 200 ? 5 : 0;
            QVERIFY(driver.admit(id));
            QCOMPARE(driver.hit_tokens, 4u);
            driver.release(id++);
        }
        for (const TokenId first : {300, 100, 200}) {
            driver.add(id, joined(prompt(first), {9}));
            QCOMPARE(driver.hit(id), 4u);
        }
        driver.add(20, tokens_from(1000, 16));
        driver.notes = false;
        QVERIFY(driver.admit(20));
        QCOMPARE(blocks_of(driver, EventKind::evict), evicted);
    }

    void R10_listenersHearOfPagesAndNodes() {
        Listener listener;
        CacheDriver driver(radix(6, 2));
        driver.cache->set_listener(&listener);
        driver.add(0, {1, 2, 1, 2, 3, 4});
        QVERIFY(driver.admit(0));
        QCOMPARE(listener.stored.size(), std::size_t(3));
        QVERIFY(listener.stored[0] != listener.stored[1]);  // identical tokens at another depth
        QVERIFY(!listener.parents[0] && listener.parents[2] == listener.stored[1]);
        QCOMPARE(driver.cache->hash(BlockId{3}), std::optional(listener.stored[2]));
        driver.release(0);
        driver.add(1, tokens_from(50, 10));
        QVERIFY(driver.admit(1));
        QCOMPARE(listener.removed, std::vector<std::size_t>{3});
        driver.release(1);
        QVERIFY(driver.apply(*driver.cache->plan_reset()));
        QCOMPARE(listener.cleared, 1);
    }

    void hitsLeaveWhatCanBeEvicted() {
        CacheDriver driver(radix(6, 4));
        driver.add(0, tokens_from(100, 16));
        QVERIFY(driver.admit(0));
        driver.release(0);
        QCOMPARE(driver.cache->cached_blocks(), 4u);
        // 8 hit tokens and 13 more: 2 + 4 blocks of 1 free and 4 evictable ones, of which it holds 2 itself.
        driver.add(1, joined(tokens_from(100, 8), tokens_from(700, 13)));
        QVERIFY(!driver.admit(1));
        QCOMPARE(driver.plan.needed_blocks, 6u);
        driver.add(2, joined(tokens_from(100, 8), tokens_from(700, 12)));
        driver.notes = false;
        QVERIFY(driver.admit(2));
        QCOMPARE(driver.table(2), QByteArray("1 2 5 3 4"));
        QCOMPARE(blocks_of(driver, EventKind::evict), QByteArray("4 3"));
    }

    void anActionEvictsABlockWithWhatIsBehindIt() {
        CacheDriver driver(radix(10, 4));
        driver.add(0, tokens_from(100, 16));
        QVERIFY(driver.admit(0));
        QVERIFY(!driver.cache->plan_evict(BlockId{2}));  // in use
        driver.release(0);
        QVERIFY(!driver.cache->plan_evict(BlockId{7}));  // nothing in it
        QVERIFY(driver.apply(*driver.cache->plan_evict(BlockId{2})));
        QCOMPARE(blocks_of(driver, EventKind::evict), QByteArray("4 3 2"));
        QCOMPARE(driver.free_order(), QByteArray("2 3 4 5 6 7 8 9"));
        driver.add(1, tokens_from(100, 16));
        QCOMPARE(driver.hit(1), 4u);
    }

    void aResetGivesEverythingBack() {
        CacheDriver driver(radix(10, 4));
        driver.add(0, tokens_from(100, 16));
        driver.add(1, tokens_from(100, 9));
        QVERIFY(driver.admit(0) && driver.admit(1));
        driver.release(0);
        QVERIFY(!driver.cache->plan_reset());
        driver.release(1);
        QVERIFY(driver.apply(*driver.cache->plan_reset()));
        QCOMPARE(driver.cache->cached_blocks(), 0u);
        QCOMPARE(driver.cache->free_blocks(), 9u);
        QCOMPARE(driver.hit(0), 0u);
        QCOMPARE(driver.events.back().kind, EventKind::reset);
    }

    void windowsAndGroupsAreRefusedByKey_data() {
        QTest::addColumn<int>("window");
        QTest::addColumn<int>("chunk");
        QTest::addColumn<int>("groups");
        QTest::newRow("window") << 8 << 0 << 1;
        QTest::newRow("chunk") << 0 << 8 << 1;
        QTest::newRow("two groups") << 0 << 0 << 2;
    }
    void windowsAndGroupsAreRefusedByKey() {
        QFETCH(const int, window);
        QFETCH(const int, chunk);
        QFETCH(const int, groups);
        auto options = radix(10, 4);
        QVERIFY(CacheManager::create(options));
        options.groups.resize(static_cast<std::size_t>(groups));
        options.groups[0].span.window = static_cast<std::uint32_t>(window);
        options.groups[0].span.chunk = static_cast<std::uint32_t>(chunk);
        const auto made = CacheManager::create(options);
        QVERIFY(!made);
        QVERIFY(made.error().sentence.find("prefix_index") != std::string::npos);
    }
};

QTEST_GUILESS_MAIN(TestRadixCache)
#include "tst_radix_cache.moc"
