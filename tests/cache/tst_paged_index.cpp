// SPDX-License-Identifier: GPL-3.0-or-later
//
// Prefix index of the paged cache: what a listener is told (V15, V23), collisions of shortened hashes, out-of-date plans.
#include <QRegularExpression>
#include <QTest>

#include "tests/cache/cache_driver.h"

#include "engine/cache/block_hash.h"

using namespace kvloupe;

namespace {

struct Told : CacheListener {
    struct Stored {
        std::vector<BlockHash> hashes;
        std::optional<BlockHash> parent;
        std::vector<TokenId> tokens;
    };
    std::vector<Stored> stored;
    std::vector<std::vector<BlockHash>> removed;
    int cleared = 0;

    void block_stored(std::span<const BlockHash> hashes, std::optional<BlockHash> parent, std::span<const TokenId> tokens) override {
        stored.push_back({{hashes.begin(), hashes.end()}, parent, {tokens.begin(), tokens.end()}});
    }
    void block_removed(std::span<const BlockHash> hashes) override { removed.emplace_back(hashes.begin(), hashes.end()); }
    void all_blocks_cleared() override { ++cleared; }
};

// Two different first tokens whose blocks of one token have the same hash of `bits` bits.
std::pair<TokenId, TokenId> colliding(std::uint32_t bits) {
    const auto hash = [&](TokenId token) { return shortened(hash_block(root_hash(), std::vector<TokenId>{token}, {}), bits); };
    for (TokenId other = 1;; ++other)
        if (hash(other) == hash(0)) return {0, other};
}

}  // namespace

class TestPagedIndex : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void V23_storingIsToldInOneBatchWithItsParent() {
        CacheDriver driver(CacheDriver::paged(11, 4));
        Told told;
        driver.cache->set_listener(&told);
        driver.add(0, tokens_from(100, 14));
        QVERIFY(driver.admit(0, 8));
        QCOMPARE(told.stored.size(), std::size_t(1));
        QCOMPARE(told.stored[0].hashes.size(), std::size_t(2));
        QVERIFY(!told.stored[0].parent);
        QVERIFY(told.stored[0].tokens == tokens_from(100, 8));
        QVERIFY(driver.compute(0));
        QCOMPARE(told.stored.size(), std::size_t(2));
        QCOMPARE(told.stored[1].hashes.size(), std::size_t(1));
        QVERIFY(told.stored[1].parent == told.stored[0].hashes[1]);
        QVERIFY(told.stored[1].tokens == tokens_from(108, 4));
        QVERIFY(told.stored[1].hashes[0] == driver.cache->hash(BlockId{3}));
        QCOMPARE(driver.count(EventKind::store), std::size_t(1));
        const Event& store = driver.events.back();
        QCOMPARE(std::uint64_t(store.other) << 32 | store.tokens, first_bytes(told.stored[1].hashes[0]));
    }

    void V23_reallocatingTellsEachRemoval() {
        CacheDriver driver(CacheDriver::paged(5, 4));
        Told told;
        driver.cache->set_listener(&told);
        driver.add(0, tokens_from(100, 12));
        QVERIFY(driver.admit(0));
        driver.release(0);
        driver.add(1, tokens_from(500, 15));
        QVERIFY(driver.admit(1));
        QCOMPARE(told.removed.size(), std::size_t(3));
        for (std::size_t i = 0; i < 3; ++i) {
            QCOMPARE(told.removed[i].size(), std::size_t(1));
            QVERIFY(told.removed[i][0] == told.stored[0].hashes[2 - i]);  // the deepest block of the chain first
        }
        QCOMPARE(driver.count(EventKind::evict), std::size_t(3));
        QCOMPARE(told.cleared, 0);
    }

    void V15_resetIsTold() {
        CacheDriver driver(CacheDriver::paged(5, 4));
        Told told;
        driver.cache->set_listener(&told);
        auto plan = driver.cache->plan_reset();
        QVERIFY(plan && driver.apply(*plan));
        QCOMPARE(told.cleared, 1);
        QVERIFY(told.removed.empty());
    }

    void aGapInARunOfStoredBlocksSplitsTheBatch() {
        auto options = CacheDriver::paged(20, 2);
        options.groups = {{{4, 0, 0}, {}}};
        CacheDriver driver(options);
        driver.add(0, tokens_from(0, 12));
        QVERIFY(driver.admit(0, 10));
        QVERIFY(driver.compute(0));
        driver.release(0);
        Told told;
        driver.cache->set_listener(&told);
        driver.add(1, tokens_from(0, 21));
        QVERIFY(driver.admit(1));
        QCOMPARE(told.stored.size(), std::size_t(1));
        QVERIFY(told.stored[0].tokens == tokens_from(12, 8));
        QVERIFY(told.stored[0].parent.has_value());
    }

    void aShortHashIsNotBelieved_data() {
        QTest::addColumn<bool>("compare");
        QTest::newRow("tokens compared") << true;
        QTest::newRow("believed") << false;
    }
    void aShortHashIsNotBelieved() {
        QFETCH(bool, compare);
        auto options = CacheDriver::paged(20, 1);
        options.hash_bits = 4;
        options.compare_tokens = compare;
        CacheDriver driver(options);
        const auto [first, other] = colliding(4);
        driver.add(0, {first, 50});
        QVERIFY(driver.admit(0, 1));
        driver.add(1, {other, 50});
        QCOMPARE(driver.hit(1), compare ? 0u : 1u);
        driver.add(2, {first, 51});
        QCOMPARE(driver.hit(2), 1u);
    }

    // Equal tokens of the block itself are not enough: what stands before it counts.
    void aCollisionBeforeTheBlockIsNotBelieved() {
        const auto [first, other] = colliding(4);
        auto options = CacheDriver::paged(20, 1);
        options.hash_bits = 4;
        CacheDriver driver(options);
        driver.add(0, {first, 50, 60});
        driver.add(1, {other, 50, 60});
        QVERIFY(driver.admit(0) && driver.admit(1));
        QCOMPARE(driver.hit_tokens, 0u);
        QVERIFY(driver.cache->hash(BlockId{2}) == driver.cache->hash(BlockId{5}));
        driver.add(2, {other, 50, 61});
        QCOMPARE(text(driver.cache->match(driver.view(2)).blocks[0]), QByteArray("4 5"));
        driver.add(3, {first, 50, 61});
        QCOMPARE(text(driver.cache->match(driver.view(3)).blocks[0]), QByteArray("1 2"));
    }

    void plansAndMatchesGoOutOfDate() {
        CacheDriver driver(CacheDriver::paged(6, 4));
        driver.add(0, tokens_from(0, 9));
        QVERIFY(driver.admit(0));
        driver.release(0);
        driver.add(1, tokens_from(0, 9));
        const CacheSequence sequence = driver.view(1);
        const PrefixMatch match = driver.cache->match(sequence);
        QCOMPARE(match.tokens, 8u);
        GrowRequest request{&sequence, 8, 1, 0, &match, true, false, true};
        const CachePlan plan = driver.cache->plan_grow(request);
        auto evict = driver.cache->plan_evict(BlockId{2});
        QVERIFY(evict && driver.apply(*evict));
        const auto old = driver.cache->apply(plan);
        QVERIFY(!old);
        QVERIFY(QString::fromStdString(old.error().sentence).contains("out of date"));
        const auto stale = driver.cache->apply(driver.cache->plan_grow(request));
        QVERIFY(!stale);
        QVERIFY(QString::fromStdString(stale.error().sentence).contains("match"));
        QCOMPARE(driver.cache->used_blocks(), 0u);
    }

    void theWatermarkBindsOnlyBesideOthers() {
        auto options = CacheDriver::paged(6, 4);
        options.watermark_blocks = 2;
        CacheDriver driver(options);
        driver.add(0, tokens_from(0, 16));
        driver.others_scheduled = true;
        QVERIFY(!driver.admit(0));
        QCOMPARE(driver.refused, Cause::below_watermark);
        QCOMPARE(driver.plan.needed_blocks, 4u);
        QCOMPARE(driver.plan.free_blocks, 3u);
        driver.others_scheduled = false;
        QVERIFY(driver.admit(0));
        QVERIFY(driver.append(0, {99}));  // growing may use the last blocks
    }

    void theGateAsksForTheWholePrompt() {
        CacheDriver driver(CacheDriver::paged(6, 4));
        driver.add(0, tokens_from(0, 24));
        QVERIFY(!driver.admit(0, 8));
        QCOMPARE(driver.refused, Cause::prompt_too_long_now);
        QCOMPARE(driver.plan.needed_blocks, 6u);
        QCOMPARE(driver.plan.free_blocks, 5u);
        driver.whole_prompt = false;
        QVERIFY(driver.admit(0, 8));
        QCOMPARE(driver.table(0), QByteArray("1 2"));
    }
};

QTEST_GUILESS_MAIN(TestPagedIndex)
#include "tst_paged_index.moc"
