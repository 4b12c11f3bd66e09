// SPDX-License-Identifier: GPL-3.0-or-later
//
// Forks, copies and swapped sequences over a radix tree: what a sequence owns is never evicted, what the tree has is never
// written. The driver audits the manager and replays the events after every change.
#include "tests/cache/cache_driver.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

CacheDriver scene(std::uint32_t blocks, std::uint32_t host_blocks = 0) {
    CacheManagerOptions options = CacheDriver::paged(blocks, 4);
    options.prefix_index = PrefixIndexKind::radix;
    options.host_blocks = host_blocks;
    return CacheDriver(options);
}

std::string blocks_of(const CacheDriver& driver, EventKind kind) {
    std::string line;
    for (const Event& event : driver.events)
        if (event.kind == kind) line += std::to_string(event.block.value) + ' ';
    return trimmed(line);
}

void decode(Check& check, CacheDriver& driver, std::uint32_t id, TokenId first, int count) {
    for (int i = 0; i < count; ++i) CHECK_THAT(driver.append(id, {first + i}));
}

void aForkKeepsWhatItSharesFromEviction(Check& check) {
    CacheDriver driver = scene(6);
    driver.add(0, tokens_from(100, 12));
    CHECK_THAT(driver.admit(0));
    CHECK_THAT(driver.fork(1, 0, 8));
    driver.release(0);
    CHECK_EQUAL(driver.cache->cached_blocks(), 1u);  // the third block: the fork has the others
    driver.add(2, tokens_from(900, 16));
    CHECK_THAT(!driver.admit(2));
    CHECK_EQUAL(driver.plan.free_blocks, 3u);
    driver.add(3, tokens_from(900, 12));
    driver.notes = false;
    CHECK_THAT(driver.admit(3));
    CHECK_EQUAL(blocks_of(driver, EventKind::evict), "3");
    CHECK_EQUAL(driver.table(1), "1 2");
}

void aWriteIntoABlockOfTheTreeIsACopy(Check& check) {
    CacheDriver driver = scene(10);
    driver.add(0, tokens_from(100, 8));
    CHECK_THAT(driver.admit(0));
    CHECK_THAT(driver.fork(1, 0, 6));
    driver.release(0);
    CHECK_EQUAL(driver.cache->owners(BlockId{2}), 1u);  // the fork is its last owner, but the tree has it too
    CHECK_THAT(driver.append(1, {60}));
    CHECK_EQUAL(driver.plan.needed_blocks, 1u);
    CHECK_EQUAL(driver.table(1), "1 3");
    const Event& copy = driver.events.front();
    CHECK_EQUAL(copy.kind, EventKind::copy_on_write);
    CHECK_EQUAL(copy.block.value, 2u);
    CHECK_EQUAL(copy.tokens, 2u);
    CHECK_THAT(copy.flags & Event::flag_held);
    CHECK_EQUAL(driver.cache->cached_blocks(), 1u);
    driver.add(2, tokens_from(100, 9));
    CHECK_EQUAL(driver.hit(2), 8u);
    // The copied block is the fork's own: it can be evicted now, the first one cannot.
    CHECK_THAT(driver.cache->plan_evict(BlockId{2}));
    CHECK_THAT(!driver.cache->plan_evict(BlockId{1}));
}

void aForkMayComputeItsLastTokenAgain(Check& check) {
    CacheDriver driver = scene(10);
    driver.add(0, tokens_from(100, 11));
    CHECK_THAT(driver.admit(0));
    CHECK_THAT(driver.fork(1, 0, 8));
    driver.sequences[1].computed = 7;
    driver.notes = false;
    CHECK_THAT(driver.compute(1, 1));
    CHECK_EQUAL(driver.table(1), "1 4");
    // The same token again: the tree's block takes the copy's place.
    driver.note(1);
    CHECK_EQUAL(driver.table(1), "1 2");
    CHECK_EQUAL(blocks_of(driver, EventKind::free), "4");
}

void blocksThatForksShareComeInForAllOfThem(Check& check) {
    CacheDriver driver = scene(8);
    driver.add(0, tokens_from(100, 6));
    CHECK_THAT(driver.admit(0));
    decode(check, driver, 0, 200, 3);  // 9 tokens: block 2 is full, but was filled by decoding
    CHECK_THAT(!driver.hashed(2));
    CHECK_THAT(driver.fork(1, 0, 9));
    CHECK_THAT(driver.fork(2, 0, 7));
    driver.release(0);
    CHECK_THAT(driver.hashed(1) && driver.hashed(2));
    CHECK_EQUAL(driver.cache->cached_blocks(), 0u);  // the forks own both
    driver.add(3, tokens_from(900, 20));
    CHECK_THAT(!driver.admit(3));
    CHECK_EQUAL(driver.plan.free_blocks, 4u);
    driver.release(1);
    CHECK_EQUAL(driver.cache->cached_blocks(), 0u);  // block 2 is the second fork's as well
    driver.release(2);
    CHECK_EQUAL(driver.cache->cached_blocks(), 2u);
    CHECK_THAT(driver.admit(3));
}

void aForkKeepsItsDuplicatesUntilItEndsItself(Check& check) {
    CacheDriver driver = scene(12);
    for (const std::uint32_t id : {0u, 1u}) {
        driver.add(id, tokens_from(100, 6));
        CHECK_THAT(driver.admit(id));
        decode(check, driver, id, 200, 3);
    }
    CHECK_EQUAL(driver.table(0), "1 2 3");
    CHECK_EQUAL(driver.table(1), "1 4 5");
    CHECK_THAT(driver.fork(2, 1, 9));
    driver.release(0);
    CHECK_THAT(driver.hashed(2));
    driver.release(1);  // block 2 takes the place of block 4, which the fork still has
    CHECK_EQUAL(driver.cache->owners(BlockId{4}), 1u);
    CHECK_EQUAL(driver.table(2), "1 4 5");
    decode(check, driver, 2, 203, 3);
    driver.release(2);
    CHECK_THAT(!driver.hashed(4));
    CHECK_EQUAL(driver.cache->cached_blocks(), 3u);
    CHECK_EQUAL(driver.cache->used_blocks(), 0u);
    driver.add(3, joined(tokens_from(100, 6), tokens_from(200, 7)));
    CHECK_EQUAL(driver.hit(3), 12u);
}

void aSwappedSequenceLetsGoAndComesBackInBlocksOfItsOwn(Check& check) {
    CacheDriver driver = scene(12, 8);
    driver.add(0, tokens_from(100, 9));
    CHECK_THAT(driver.admit(0));
    decode(check, driver, 0, 200, 3);
    CHECK_THAT(driver.apply(driver.cache->plan_swap_out(driver.view(0), 12)));
    CHECK_EQUAL(driver.cache->used_blocks(), 0u);
    CHECK_EQUAL(driver.cache->cached_blocks(), 2u);  // the prompt's blocks; what it decoded lies in host memory only
    CHECK_THAT(driver.apply(driver.cache->plan_swap_in(driver.view(0))));
    CHECK_EQUAL(driver.cache->used_blocks(), 3u);
    CHECK_EQUAL(driver.cache->cached_blocks(), 2u);
    decode(check, driver, 0, 203, 1);
    CHECK_EQUAL(driver.cache->cached_blocks(), 2u);
    driver.release(0);
    CHECK_EQUAL(driver.cache->cached_blocks(), 3u);  // its copies of the prompt's blocks were duplicates
    CHECK_EQUAL(driver.cache->free_blocks(), 8u);
    driver.add(1, joined(tokens_from(100, 9), tokens_from(200, 4)));
    CHECK_EQUAL(driver.hit(1), 12u);
}

// The fork's own block with the same tokens stands in its table; the tree's is on the path to the next one it owns.
void blocksBeforeOwnedOnesArePinned(Check& check) {
    CacheDriver driver = scene(12);
    driver.add(0, tokens_from(100, 4));
    driver.add(1, tokens_from(100, 8));
    driver.notes = false;
    CHECK_THAT(driver.admit(0) && driver.admit(1));
    driver.note(0);
    driver.release(0);
    CHECK_THAT(driver.fork(2, 1, 8));
    driver.note(1);
    driver.release(1);
    CHECK_EQUAL(driver.table(2), "2 3");
    CHECK_EQUAL(driver.cache->used_blocks(), 2u);
    CHECK_EQUAL(driver.cache->cached_blocks(), 1u);
    CHECK_THAT(!driver.cache->plan_evict(BlockId{1}));
    driver.add(3, tokens_from(900, 40));
    CHECK_THAT(!driver.admit(3));
    CHECK_EQUAL(driver.plan.free_blocks, 8u);  // of 11: two are owned, one is pinned
    driver.release(2);
    CHECK_EQUAL(driver.cache->cached_blocks(), 2u);
    CHECK_THAT(driver.apply(*driver.cache->plan_evict(BlockId{1})));
    CHECK_EQUAL(blocks_of(driver, EventKind::evict), "3 1");
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aForkKeepsWhatItSharesFromEviction));
    claims.add(CLAIM(aWriteIntoABlockOfTheTreeIsACopy));
    claims.add(CLAIM(aForkMayComputeItsLastTokenAgain));
    claims.add(CLAIM(blocksThatForksShareComeInForAllOfThem));
    claims.add(CLAIM(aForkKeepsItsDuplicatesUntilItEndsItself));
    claims.add(CLAIM(aSwappedSequenceLetsGoAndComesBackInBlocksOfItsOwn));
    claims.add(CLAIM(blocksBeforeOwnedOnesArePinned));
    return claims.rows();
}
