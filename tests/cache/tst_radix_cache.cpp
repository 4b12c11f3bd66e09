// SPDX-License-Identifier: GPL-3.0-or-later
//
// The radix tree as the paged cache's prefix index: oracles R4 to R7 and R10 of CACHE_SEMANTICS section 2 through the
// manager, and its rules about time, duplicates and eviction (1.4). The driver replays every event.
#include "tests/cache/cache_driver.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

CacheManagerOptions radix(std::uint32_t blocks, std::uint32_t block_size, RadixEviction eviction = RadixEviction::lru) {
    CacheManagerOptions options = CacheDriver::paged(blocks, block_size);
    options.prefix_index = PrefixIndexKind::radix;
    options.radix_eviction = eviction;
    return options;
}

// Blocks of the events of a kind in the last change.
std::string blocks_of(const CacheDriver& driver, EventKind kind) {
    std::string line;
    for (const Event& event : driver.events)
        if (event.kind == kind) line += std::to_string(event.block.value) + ' ';
    return trimmed(line);
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

void aPrefixIsFoundOnlyWhenItsStepHasRun(Check& check) {
    CacheDriver driver(radix(20, 4));
    driver.add(0, tokens_from(100, 10));
    driver.add(1, tokens_from(100, 12));
    driver.notes = false;
    CHECK_THAT(driver.admit(0));
    CHECK_EQUAL(driver.hit(1), 0u);
    driver.note(0);
    CHECK_EQUAL(driver.hit(1), 8u);
    CHECK_EQUAL(driver.count(EventKind::store), std::size_t(2));
    CHECK_THAT(driver.hashed(1) && driver.hashed(2) && !driver.hashed(3));
    driver.notes = true;
    CHECK_THAT(driver.admit(1));
    CHECK_EQUAL(driver.table(1), "1 2 4");
    CHECK_EQUAL(driver.cache->owners(BlockId{2}), 2u);
}

void theLastTokenIsComputedAgain(Check& check) {
    CacheDriver driver(radix(20, 4));
    driver.add(0, tokens_from(100, 8));
    CHECK_THAT(driver.admit(0));
    driver.add(1, tokens_from(100, 8));
    driver.add(2, tokens_from(100, 9));
    CHECK_EQUAL(driver.hit(1), 4u);
    CHECK_EQUAL(driver.hit(2), 8u);
}

void chunksComeInStepByStep(Check& check) {
    CacheDriver driver(radix(20, 4));
    driver.add(0, tokens_from(100, 20));
    driver.add(1, tokens_from(100, 20));
    CHECK_THAT(driver.admit(0, 9));
    CHECK_EQUAL(driver.hit(1), 8u);
    CHECK_THAT(driver.compute(0, 6));
    CHECK_EQUAL(driver.hit(1), 12u);
}

void whatDecodingAddsComesInAtTheEnd(Check& check) {
    CacheDriver driver(radix(20, 4));
    driver.add(0, tokens_from(100, 6));
    CHECK_THAT(driver.admit(0));
    for (TokenId token = 200; token < 207; ++token) CHECK_THAT(driver.append(0, {token}));  // 13 tokens
    CHECK_EQUAL(driver.table(0), "1 2 3 4");
    CHECK_THAT(driver.hashed(1) && !driver.hashed(2) && !driver.hashed(3));
    driver.release(0);
    CHECK_EQUAL(blocks_of(driver, EventKind::store), "2 3");
    CHECK_EQUAL(driver.cache->cached_blocks(), 3u);
    CHECK_EQUAL(driver.cache->free_blocks(), 16u);
    CHECK_EQUAL(driver.free_order().substr(0, 3), "4 5");  // its tail was freed, the others are kept
    driver.add(1, joined(tokens_from(100, 6), tokens_from(200, 7)));
    CHECK_EQUAL(driver.hit(1), 12u);
}

void equalBlocksAreKeptOnce(Check& check) {
    CacheDriver driver(radix(20, 4));
    driver.add(0, tokens_from(100, 11));
    driver.add(1, joined(tokens_from(100, 8), tokens_from(300, 5)));
    driver.notes = false;
    CHECK_THAT(driver.admit(0) && driver.admit(1));  // in one step: neither finds the other
    CHECK_EQUAL(driver.table(1), "4 5 6 7");
    driver.note(0);
    driver.note(1);
    CHECK_EQUAL(driver.table(1), "1 2 6 7");
    CHECK_EQUAL(blocks_of(driver, EventKind::prefix_hit), "1 2");
    CHECK_EQUAL(blocks_of(driver, EventKind::free), "4 5");
    for (const Event& event : driver.events)
        if (event.kind != EventKind::store) CHECK_EQUAL(event.cause, Cause::duplicate_owner);
    CHECK_EQUAL(driver.cache->used_blocks(), 5u);
    CHECK_EQUAL(blocks_of(driver, EventKind::store), "6");
}

void duplicatesMadeByDecodingGoAtTheEnd(Check& check) {
    CacheDriver driver(radix(20, 4));
    for (const std::uint32_t id : {0u, 1u}) {
        driver.add(id, {7, static_cast<TokenId>(id)});
        driver.sequences[id].tokens = {7};
        driver.sequences[id].prompt = 1;
        CHECK_THAT(driver.admit(id));
        for (TokenId token = 8; token < 12; ++token) CHECK_THAT(driver.append(id, {token}));
    }
    CHECK_EQUAL(driver.cache->used_blocks(), 4u);
    driver.release(0);
    CHECK_EQUAL(driver.cache->cached_blocks(), 1u);
    driver.release(1);
    CHECK_EQUAL(driver.cache->cached_blocks(), 1u);
    CHECK_EQUAL(driver.cache->free_blocks(), 18u);
}

void aPreemptedSequenceFindsItsPromptAgain(Check& check) {
    CacheDriver driver(radix(20, 4));
    driver.add(0, tokens_from(100, 9));
    CHECK_THAT(driver.admit(0));
    for (TokenId token = 200; token < 204; ++token) CHECK_THAT(driver.append(0, {token}));  // 13 tokens, 3 full blocks
    driver.release(0, Cause::sequence_preempted, 13);
    CHECK_EQUAL(driver.cache->cached_blocks(), 2u);  // what it decoded is freed, not taken in
    CHECK_THAT(driver.admit(0));
    CHECK_EQUAL(driver.hit_tokens, 8u);
    CHECK_THAT(driver.hashed(driver.cache->table(SequenceId{0})[2].value));  // recomputed as a prompt: taken in
}

void aFailedSequenceAddsNothing(Check& check) {
    CacheDriver driver(radix(20, 4));
    driver.add(0, tokens_from(100, 9));
    driver.notes = false;
    CHECK_THAT(driver.admit(0));
    driver.release(0, Cause::sequence_failed, 0);
    CHECK_EQUAL(driver.cache->cached_blocks(), 0u);
}

Cases<bool> R5_extraKeysShareNothing_cases() {
    Cases<bool> cases;
    cases.add("tagged", true);
    cases.add("untagged: the wrong hit", false);
    return cases;
}
void R5_extraKeysShareNothing(Check& check, bool tagged) {
    auto options = radix(20, 4);
    options.tag_extra_keys = tagged;
    CacheDriver driver(options);
    driver.add(0, tokens_from(100, 9), "a");
    CHECK_THAT(driver.admit(0));
    driver.add(1, tokens_from(100, 9), "b");
    driver.add(2, tokens_from(100, 9), "", "a");
    driver.add(3, tokens_from(100, 9), "a");
    CHECK_EQUAL(driver.hit(1), 0u);
    CHECK_EQUAL(driver.hit(2), tagged ? 0u : 8u);
    CHECK_EQUAL(driver.hit(3), 8u);
}

void R6_whatRunsIsNotEvicted(Check& check) {
    CacheDriver driver(radix(6, 4));
    driver.add(0, tokens_from(100, 12));
    CHECK_THAT(driver.admit(0));  // 3 of 5 blocks
    driver.add(1, tokens_from(500, 12));
    CHECK_THAT(!driver.admit(1));
    CHECK_EQUAL(driver.refused, Cause::pool_too_full);
    CHECK_EQUAL(driver.plan.needed_blocks, 3u);
    CHECK_EQUAL(driver.plan.free_blocks, 2u);
    driver.release(0);
    CHECK_EQUAL(driver.cache->cached_blocks(), 3u);
    driver.notes = false;
    CHECK_THAT(driver.admit(1));
    CHECK_EQUAL(driver.plan.free_blocks, 5u);  // evictable blocks count as free
    CHECK_EQUAL(blocks_of(driver, EventKind::evict), "3 2 1");  // the whole leaf for one block
    CHECK_EQUAL(driver.cache->cached_blocks(), 0u);
}

struct R7_theOrderOfEvictionIsThePolicysCase {
    int policy;
    std::string evicted;
};
Cases<R7_theOrderOfEvictionIsThePolicysCase> R7_theOrderOfEvictionIsThePolicys_cases() {
    Cases<R7_theOrderOfEvictionIsThePolicysCase> cases;
    // Blocks 1, 2, 3 for prompts a, b, c; priorities 0, 5, 0; hits: a twice, b once; then looked up c, a, b.
    cases.add("lru", {int(RadixEviction::lru), "3 1 2"});
    cases.add("lfu", {int(RadixEviction::lfu), "3 2 1"});
    cases.add("fifo", {int(RadixEviction::fifo), "1 2 3"});
    cases.add("priority", {int(RadixEviction::priority), "2 3 1"});
    return cases;
}
void R7_theOrderOfEvictionIsThePolicys(Check& check, const R7_theOrderOfEvictionIsThePolicysCase& row) {
    CacheDriver driver(radix(5, 4, RadixEviction(row.policy)));
    const auto prompt = [](TokenId first) { return tokens_from(first, 4); };
    const auto serve = [&](std::uint32_t id, TokenId first, std::int32_t priority) {
        driver.add(id, prompt(first)).priority = priority;
        CHECK_THAT(driver.admit(id));
        driver.release(id);
    };
    serve(0, 100, 0);
    serve(1, 200, 5);
    serve(2, 300, 0);
    CHECK_EQUAL(driver.cache->cached_blocks(), 3u);
    std::uint32_t id = 3;
    for (const TokenId first : {100, 100, 200}) {
        driver.add(id, joined(prompt(first), {9})).priority = first == 200 ? 5 : 0;
        CHECK_THAT(driver.admit(id));
        CHECK_EQUAL(driver.hit_tokens, 4u);
        driver.release(id++);
    }
    for (const TokenId first : {300, 100, 200}) {
        driver.add(id, joined(prompt(first), {9}));
        CHECK_EQUAL(driver.hit(id), 4u);
    }
    driver.add(20, tokens_from(1000, 16));
    driver.notes = false;
    CHECK_THAT(driver.admit(20));
    CHECK_EQUAL(blocks_of(driver, EventKind::evict), row.evicted);
}

void R10_listenersHearOfPagesAndNodes(Check& check) {
    Listener listener;
    CacheDriver driver(radix(6, 2));
    driver.cache->set_listener(&listener);
    driver.add(0, {1, 2, 1, 2, 3, 4});
    CHECK_THAT(driver.admit(0));
    CHECK_EQUAL(listener.stored.size(), std::size_t(3));
    CHECK_THAT(listener.stored[0] != listener.stored[1]);  // identical tokens at another depth
    CHECK_THAT(!listener.parents[0] && listener.parents[2] == listener.stored[1]);
    CHECK_EQUAL(driver.cache->hash(BlockId{3}), std::optional(listener.stored[2]));
    driver.release(0);
    driver.add(1, tokens_from(50, 10));
    CHECK_THAT(driver.admit(1));
    CHECK_EQUAL(listener.removed, std::vector<std::size_t>{3});
    driver.release(1);
    CHECK_THAT(driver.apply(*driver.cache->plan_reset()));
    CHECK_EQUAL(listener.cleared, 1);
}

void hitsLeaveWhatCanBeEvicted(Check& check) {
    CacheDriver driver(radix(6, 4));
    driver.add(0, tokens_from(100, 16));
    CHECK_THAT(driver.admit(0));
    driver.release(0);
    CHECK_EQUAL(driver.cache->cached_blocks(), 4u);
    // 8 hit tokens and 13 more: 2 + 4 blocks of 1 free and 4 evictable ones, of which it holds 2 itself.
    driver.add(1, joined(tokens_from(100, 8), tokens_from(700, 13)));
    CHECK_THAT(!driver.admit(1));
    CHECK_EQUAL(driver.plan.needed_blocks, 6u);
    driver.add(2, joined(tokens_from(100, 8), tokens_from(700, 12)));
    driver.notes = false;
    CHECK_THAT(driver.admit(2));
    CHECK_EQUAL(driver.table(2), "1 2 5 3 4");
    CHECK_EQUAL(blocks_of(driver, EventKind::evict), "4 3");
}

void anActionEvictsABlockWithWhatIsBehindIt(Check& check) {
    CacheDriver driver(radix(10, 4));
    driver.add(0, tokens_from(100, 16));
    CHECK_THAT(driver.admit(0));
    CHECK_THAT(!driver.cache->plan_evict(BlockId{2}));  // in use
    driver.release(0);
    CHECK_THAT(!driver.cache->plan_evict(BlockId{7}));  // nothing in it
    CHECK_THAT(driver.apply(*driver.cache->plan_evict(BlockId{2})));
    CHECK_EQUAL(blocks_of(driver, EventKind::evict), "4 3 2");
    CHECK_EQUAL(driver.free_order(), "2 3 4 5 6 7 8 9");
    driver.add(1, tokens_from(100, 16));
    CHECK_EQUAL(driver.hit(1), 4u);
}

void aResetGivesEverythingBack(Check& check) {
    CacheDriver driver(radix(10, 4));
    driver.add(0, tokens_from(100, 16));
    driver.add(1, tokens_from(100, 9));
    CHECK_THAT(driver.admit(0) && driver.admit(1));
    driver.release(0);
    CHECK_THAT(!driver.cache->plan_reset());
    driver.release(1);
    CHECK_THAT(driver.apply(*driver.cache->plan_reset()));
    CHECK_EQUAL(driver.cache->cached_blocks(), 0u);
    CHECK_EQUAL(driver.cache->free_blocks(), 9u);
    CHECK_EQUAL(driver.hit(0), 0u);
    CHECK_EQUAL(driver.events.back().kind, EventKind::reset);
}

struct WindowsAndGroupsAreRefusedByKeyCase {
    int window, chunk, groups;
};
Cases<WindowsAndGroupsAreRefusedByKeyCase> windowsAndGroupsAreRefusedByKey_cases() {
    Cases<WindowsAndGroupsAreRefusedByKeyCase> cases;
    cases.add("window", {8, 0, 1});
    cases.add("chunk", {0, 8, 1});
    cases.add("two groups", {0, 0, 2});
    return cases;
}
void windowsAndGroupsAreRefusedByKey(Check& check, const WindowsAndGroupsAreRefusedByKeyCase& row) {
    auto options = radix(10, 4);
    CHECK_THAT(CacheManager::create(options));
    options.groups.resize(static_cast<std::size_t>(row.groups));
    options.groups[0].span.window = static_cast<std::uint32_t>(row.window);
    options.groups[0].span.chunk = static_cast<std::uint32_t>(row.chunk);
    const auto made = CacheManager::create(options);
    CHECK_THAT(!made);
    CHECK_THAT(made.error().sentence.find("prefix_index") != std::string::npos);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aPrefixIsFoundOnlyWhenItsStepHasRun));
    claims.add(CLAIM(theLastTokenIsComputedAgain));
    claims.add(CLAIM(chunksComeInStepByStep));
    claims.add(CLAIM(whatDecodingAddsComesInAtTheEnd));
    claims.add(CLAIM(equalBlocksAreKeptOnce));
    claims.add(CLAIM(duplicatesMadeByDecodingGoAtTheEnd));
    claims.add(CLAIM(aPreemptedSequenceFindsItsPromptAgain));
    claims.add(CLAIM(aFailedSequenceAddsNothing));
    claims.add(CLAIM(R5_extraKeysShareNothing), R5_extraKeysShareNothing_cases());
    claims.add(CLAIM(R6_whatRunsIsNotEvicted));
    claims.add(CLAIM(R7_theOrderOfEvictionIsThePolicys), R7_theOrderOfEvictionIsThePolicys_cases());
    claims.add(CLAIM(R10_listenersHearOfPagesAndNodes));
    claims.add(CLAIM(hitsLeaveWhatCanBeEvicted));
    claims.add(CLAIM(anActionEvictsABlockWithWhatIsBehindIt));
    claims.add(CLAIM(aResetGivesEverythingBack));
    claims.add(CLAIM(windowsAndGroupsAreRefusedByKey), windowsAndGroupsAreRefusedByKey_cases());
    return claims.rows();
}
