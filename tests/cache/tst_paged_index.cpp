// SPDX-License-Identifier: GPL-3.0-or-later
//
// Prefix index of the paged cache: what a listener is told (V15, V23), collisions of shortened hashes, out-of-date plans.
#include "engine/cache/block_hash.h"

#include "tests/cache/cache_driver.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

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

void V23_storingIsToldInOneBatchWithItsParent(Check& check) {
    CacheDriver driver(CacheDriver::paged(11, 4));
    Told told;
    driver.cache->set_listener(&told);
    driver.add(0, tokens_from(100, 14));
    CHECK_THAT(driver.admit(0, 8));
    CHECK_EQUAL(told.stored.size(), std::size_t(1));
    CHECK_EQUAL(told.stored[0].hashes.size(), std::size_t(2));
    CHECK_THAT(!told.stored[0].parent);
    CHECK_THAT(told.stored[0].tokens == tokens_from(100, 8));
    CHECK_THAT(driver.compute(0));
    CHECK_EQUAL(told.stored.size(), std::size_t(2));
    CHECK_EQUAL(told.stored[1].hashes.size(), std::size_t(1));
    CHECK_THAT(told.stored[1].parent == told.stored[0].hashes[1]);
    CHECK_THAT(told.stored[1].tokens == tokens_from(108, 4));
    CHECK_THAT(told.stored[1].hashes[0] == driver.cache->hash(BlockId{3}));
    CHECK_EQUAL(driver.count(EventKind::store), std::size_t(1));
    const Event& store = driver.events.back();
    CHECK_EQUAL(std::uint64_t(store.other) << 32 | store.tokens, first_bytes(told.stored[1].hashes[0]));
}

void V23_reallocatingTellsEachRemoval(Check& check) {
    CacheDriver driver(CacheDriver::paged(5, 4));
    Told told;
    driver.cache->set_listener(&told);
    driver.add(0, tokens_from(100, 12));
    CHECK_THAT(driver.admit(0));
    driver.release(0);
    driver.add(1, tokens_from(500, 15));
    CHECK_THAT(driver.admit(1));
    CHECK_EQUAL(told.removed.size(), std::size_t(3));
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK_EQUAL(told.removed[i].size(), std::size_t(1));
        CHECK_THAT(told.removed[i][0] == told.stored[0].hashes[2 - i]);  // the deepest block of the chain first
    }
    CHECK_EQUAL(driver.count(EventKind::evict), std::size_t(3));
    CHECK_EQUAL(told.cleared, 0);
}

void V15_resetIsTold(Check& check) {
    CacheDriver driver(CacheDriver::paged(5, 4));
    Told told;
    driver.cache->set_listener(&told);
    auto plan = driver.cache->plan_reset();
    CHECK_THAT(plan && driver.apply(*plan));
    CHECK_EQUAL(told.cleared, 1);
    CHECK_THAT(told.removed.empty());
}

void aGapInARunOfStoredBlocksSplitsTheBatch(Check& check) {
    auto options = CacheDriver::paged(20, 2);
    options.groups = {{{4, 0, 0}, {}}};
    CacheDriver driver(options);
    driver.add(0, tokens_from(0, 12));
    CHECK_THAT(driver.admit(0, 10));
    CHECK_THAT(driver.compute(0));
    driver.release(0);
    Told told;
    driver.cache->set_listener(&told);
    driver.add(1, tokens_from(0, 21));
    CHECK_THAT(driver.admit(1));
    CHECK_EQUAL(told.stored.size(), std::size_t(1));
    CHECK_THAT(told.stored[0].tokens == tokens_from(12, 8));
    CHECK_THAT(told.stored[0].parent.has_value());
}

Cases<bool> aShortHashIsNotBelieved_cases() {
    Cases<bool> cases;
    cases.add("tokens compared", true);
    cases.add("believed", false);
    return cases;
}
void aShortHashIsNotBelieved(Check& check, bool compare) {
    auto options = CacheDriver::paged(20, 1);
    options.hash_bits = 4;
    options.compare_tokens = compare;
    CacheDriver driver(options);
    const auto [first, other] = colliding(4);
    driver.add(0, {first, 50});
    CHECK_THAT(driver.admit(0, 1));
    driver.add(1, {other, 50});
    CHECK_EQUAL(driver.hit(1), compare ? 0u : 1u);
    driver.add(2, {first, 51});
    CHECK_EQUAL(driver.hit(2), 1u);
}

// Equal tokens of the block itself are not enough: what stands before it counts.
void aCollisionBeforeTheBlockIsNotBelieved(Check& check) {
    const auto [first, other] = colliding(4);
    auto options = CacheDriver::paged(20, 1);
    options.hash_bits = 4;
    CacheDriver driver(options);
    driver.add(0, {first, 50, 60});
    driver.add(1, {other, 50, 60});
    CHECK_THAT(driver.admit(0) && driver.admit(1));
    CHECK_EQUAL(driver.hit_tokens, 0u);
    CHECK_THAT(driver.cache->hash(BlockId{2}) == driver.cache->hash(BlockId{5}));
    driver.add(2, {other, 50, 61});
    CHECK_EQUAL(text(driver.cache->match(driver.view(2)).blocks[0]), "4 5");
    driver.add(3, {first, 50, 61});
    CHECK_EQUAL(text(driver.cache->match(driver.view(3)).blocks[0]), "1 2");
}

void plansAndMatchesGoOutOfDate(Check& check) {
    CacheDriver driver(CacheDriver::paged(6, 4));
    driver.add(0, tokens_from(0, 9));
    CHECK_THAT(driver.admit(0));
    driver.release(0);
    driver.add(1, tokens_from(0, 9));
    const CacheSequence sequence = driver.view(1);
    const PrefixMatch match = driver.cache->match(sequence);
    CHECK_EQUAL(match.tokens, 8u);
    GrowRequest request{&sequence, 8, 1, 0, &match, true, false, true};
    const CachePlan plan = driver.cache->plan_grow(request);
    auto evict = driver.cache->plan_evict(BlockId{2});
    CHECK_THAT(evict && driver.apply(*evict));
    const auto old = driver.cache->apply(plan);
    CHECK_THAT(!old);
    CHECK_THAT(contains(old.error().sentence, "out of date"));
    const auto stale = driver.cache->apply(driver.cache->plan_grow(request));
    CHECK_THAT(!stale);
    CHECK_THAT(contains(stale.error().sentence, "match"));
    CHECK_EQUAL(driver.cache->used_blocks(), 0u);
}

void theWatermarkBindsOnlyBesideOthers(Check& check) {
    auto options = CacheDriver::paged(6, 4);
    options.watermark_blocks = 2;
    CacheDriver driver(options);
    driver.add(0, tokens_from(0, 16));
    driver.others_scheduled = true;
    CHECK_THAT(!driver.admit(0));
    CHECK_EQUAL(driver.refused, Cause::below_watermark);
    CHECK_EQUAL(driver.plan.needed_blocks, 4u);
    CHECK_EQUAL(driver.plan.free_blocks, 3u);
    driver.others_scheduled = false;
    CHECK_THAT(driver.admit(0));
    CHECK_THAT(driver.append(0, {99}));  // growing may use the last blocks
}

void theGateAsksForTheWholePrompt(Check& check) {
    CacheDriver driver(CacheDriver::paged(6, 4));
    driver.add(0, tokens_from(0, 24));
    CHECK_THAT(!driver.admit(0, 8));
    CHECK_EQUAL(driver.refused, Cause::prompt_too_long_now);
    CHECK_EQUAL(driver.plan.needed_blocks, 6u);
    CHECK_EQUAL(driver.plan.free_blocks, 5u);
    driver.whole_prompt = false;
    CHECK_THAT(driver.admit(0, 8));
    CHECK_EQUAL(driver.table(0), "1 2");
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(V23_storingIsToldInOneBatchWithItsParent));
    claims.add(CLAIM(V23_reallocatingTellsEachRemoval));
    claims.add(CLAIM(V15_resetIsTold));
    claims.add(CLAIM(aGapInARunOfStoredBlocksSplitsTheBatch));
    claims.add(CLAIM(aShortHashIsNotBelieved), aShortHashIsNotBelieved_cases());
    claims.add(CLAIM(aCollisionBeforeTheBlockIsNotBelieved));
    claims.add(CLAIM(plansAndMatchesGoOutOfDate));
    claims.add(CLAIM(theWatermarkBindsOnlyBesideOthers));
    claims.add(CLAIM(theGateAsksForTheWholePrompt));
    return claims.rows();
}
