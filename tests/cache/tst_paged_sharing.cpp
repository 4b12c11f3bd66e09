// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles C1, C2, C5 and N2 of CACHE_SEMANTICS section 2, and the block tables of the PagedAttention paper, Fig. 6 to 8
// (FORMATS 3.2): forks, copy-on-write, swapping, preemption.
#include "tests/cache/cache_driver.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::vector<BlockId> ids(std::initializer_list<std::uint32_t> values) {
    std::vector<BlockId> result;
    for (const auto value : values) result.push_back(BlockId{value});
    return result;
}

const Event* first_of(const CacheDriver& driver, EventKind kind) {
    for (const Event& event : driver.events)
        if (event.kind == kind) return &event;
    return nullptr;
}

struct C1_aForkCopiesExactlyItsPartialBlockCase {
    int length, appended;
    bool caching;
};
Cases<C1_aForkCopiesExactlyItsPartialBlockCase> C1_aForkCopiesExactlyItsPartialBlock_cases() {
    Cases<C1_aForkCopiesExactlyItsPartialBlockCase> cases;
    for (int length : {1, 3, 4, 5, 7, 8, 12})
        for (int appended : {1, 2, 4, 9})
            for (bool caching : {false, true})
                cases.add(printed("%d + %d%s", length, appended, caching ? ", cached" : ""), {length, appended, caching});
    return cases;
}
void C1_aForkCopiesExactlyItsPartialBlock(Check& check, const C1_aForkCopiesExactlyItsPartialBlockCase& row) {
    CacheDriver driver(CacheDriver::paged(20, 4, row.caching));
    driver.add(0, tokens_from(0, std::size_t(row.length)));
    CHECK_THAT(driver.admit(0));
    const std::string parent = driver.table(0);
    const int before = int(driver.cache->used_blocks());
    CHECK_EQUAL(before, (row.length + 3) / 4);
    CHECK_THAT(driver.fork(1, 0, std::uint32_t(row.length)));
    CHECK_EQUAL(int(driver.cache->used_blocks()), before);  // C2: no allocation
    for (const BlockId block : driver.cache->table(SequenceId{1})) CHECK_EQUAL(driver.cache->owners(block), 2u);
    CHECK_THAT(driver.append(1, tokens_from(700, std::size_t(row.appended))));
    CHECK_EQUAL(int(driver.cache->used_blocks()) - before, (row.length + row.appended + 3) / 4 - row.length / 4);
    CHECK_EQUAL(driver.count(EventKind::copy_on_write), std::size_t(row.length % 4 > 0));
    if (const Event* copy = first_of(driver, EventKind::copy_on_write)) {
        CHECK_EQUAL(int(copy->tokens), row.length % 4);
        CHECK_EQUAL(copy->cause, Cause::shared_block_written);
    }
    CHECK_EQUAL(driver.table(0), parent);
    driver.release(0);
    driver.release(1);
    CHECK_EQUAL(driver.cache->used_blocks(), 0u);
}

void C1_withinAStepTheParentWritesFirstAndCopies(Check& check) {
    CacheDriver driver(CacheDriver::paged(20, 4));
    driver.add(0, tokens_from(0, 6));
    CHECK_THAT(driver.admit(0));
    CHECK_THAT(driver.fork(1, 0, 6));
    CHECK_THAT(driver.append(0, {50}));
    CHECK_EQUAL(driver.table(0), "1 3");
    CHECK_EQUAL(driver.count(EventKind::copy_on_write), std::size_t(1));
    CHECK_THAT(driver.append(1, {60}));
    CHECK_EQUAL(driver.table(1), "1 2");
    CHECK_EQUAL(driver.plan.needed_blocks, 0u);
}

void C2_theLastOwnerWritesInPlace(Check& check) {
    CacheDriver driver(CacheDriver::paged(20, 4));
    driver.add(0, tokens_from(0, 6));
    CHECK_THAT(driver.admit(0));
    CHECK_THAT(driver.fork(1, 0, 6));
    driver.release(0);
    CHECK_THAT(driver.append(1, {60}));
    CHECK_EQUAL(driver.table(1), "1 2");
    CHECK_EQUAL(driver.cache->used_blocks(), 2u);
}

void aWriteIntoAHashedBlockDropsTheHashFirst(Check& check) {
    CacheDriver driver(CacheDriver::paged(20, 4));
    driver.add(0, tokens_from(0, 8));
    CHECK_THAT(driver.admit(0));
    CHECK_THAT(driver.fork(1, 0, 6));
    driver.release(0);
    CHECK_THAT(driver.hashed(2));
    CHECK_THAT(driver.append(1, {60}));
    CHECK_EQUAL(driver.table(1), "1 2");
    CHECK_THAT(driver.hashed(1) && !driver.hashed(2));
    CHECK_EQUAL(driver.events.front().kind, EventKind::evict);
    CHECK_EQUAL(driver.events.front().cause, Cause::last_owner_writes);
    CHECK_THAT(driver.append(1, {61}));  // full again, with other tokens
    CHECK_THAT(driver.hashed(2));
    driver.add(2, {0, 1, 2, 3, 4, 5, 60, 61, 9});
    CHECK_EQUAL(driver.hit(2), 8u);
    driver.add(3, tokens_from(0, 9));
    CHECK_EQUAL(driver.hit(3), 4u);
}

void aCopyLeavesTheHashedSourceAsItIs(Check& check) {
    CacheDriver driver(CacheDriver::paged(20, 4));
    driver.add(0, tokens_from(0, 8));
    CHECK_THAT(driver.admit(0));
    CHECK_THAT(driver.fork(1, 0, 6));
    CHECK_THAT(driver.append(1, {60, 61, 62}));
    CHECK_EQUAL(driver.table(1), "1 3 4");
    CHECK_THAT(driver.hashed(2) && driver.hashed(3));
    CHECK_EQUAL(first_of(driver, EventKind::copy_on_write)->tokens, 2u);
}

// A fork that computes the token before its position again writes into a full, shared block.
void aForkMayComputeItsLastTokenAgain(Check& check) {
    CacheDriver driver(CacheDriver::paged(20, 4));
    driver.add(0, tokens_from(0, 11));
    CHECK_THAT(driver.admit(0));
    CHECK_THAT(driver.fork(1, 0, 8, {}));
    driver.sequences[1].computed = 7;
    CHECK_THAT(driver.compute(1, 1));
    CHECK_EQUAL(driver.table(1), "1 4");
    CHECK_EQUAL(first_of(driver, EventKind::copy_on_write)->tokens, 3u);
    CHECK_THAT(driver.hashed(2) && driver.hashed(4));
}

void forksThatCannotBeAreRefused(Check& check) {
    CacheDriver driver(CacheDriver::paged(20, 4));
    driver.add(0, tokens_from(0, 6));
    driver.add(5, tokens_from(0, 6));
    CHECK_THAT(!driver.fork(1, 0, 6));
    CHECK_THAT(contains(driver.error, "without blocks"));
    CHECK_THAT(driver.admit(0) && driver.admit(5));
    CHECK_THAT(!driver.cache->plan_fork(driver.view(5), SequenceId{0}, 6));
    driver.sequences.at(0).tokens.resize(9);
    CHECK_THAT(!driver.fork(1, 0, 7));
    CHECK_THAT(contains(driver.error, "7"));
}

void aForkInsideALostWindowIsRefused(Check& check) {
    auto options = CacheDriver::paged(20, 2);
    options.groups[0].span.window = 4;
    CacheDriver driver(options);
    driver.add(0, tokens_from(0, 10));
    CHECK_THAT(driver.admit(0, 9));
    CHECK_THAT(driver.compute(0, 1));
    CHECK_EQUAL(driver.table(0), "0 0 0 4 5");
    CHECK_THAT(!driver.fork(1, 0, 7));
    CHECK_THAT(contains(driver.error, "left the window"));
    CHECK_THAT(driver.fork(2, 0, 10));
    CHECK_THAT(driver.append(2, {99}));
    CHECK_EQUAL(driver.table(2), "0 0 0 4 5 6");
}

void undoTakesBackTheHashesOfTheStep(Check& check) {
    CacheDriver driver(CacheDriver::paged(20, 4));
    driver.add(0, tokens_from(0, 16));
    CHECK_THAT(driver.admit(0, 8));
    CHECK_THAT(driver.compute(0, 8));
    driver.release(0, Cause::sequence_preempted, 8);
    CHECK_THAT(driver.hashed(1) && driver.hashed(2) && !driver.hashed(3) && !driver.hashed(4));
    CHECK_EQUAL(driver.count(EventKind::evict), std::size_t(2));
    CHECK_EQUAL(driver.hit(0), 8u);
}

void undoKeepsWhatOthersGave(Check& check) {
    CacheDriver driver(CacheDriver::paged(20, 4));
    driver.add(0, tokens_from(0, 8));
    CHECK_THAT(driver.admit(0));
    CHECK_THAT(driver.fork(1, 0, 6));
    driver.release(1, Cause::sequence_preempted, 6);
    CHECK_THAT(driver.hashed(2));
}

void N2_aPreemptedSequenceAsksForNoBlockTwice(Check& check) {
    CacheDriver driver(CacheDriver::paged(10, 256));
    driver.add(0, tokens_from(0, 257));
    CHECK_THAT(driver.admit(0));
    driver.release(0, Cause::sequence_preempted, 257);
    CHECK_THAT(driver.admit(0));
    CHECK_EQUAL(driver.hit_tokens, 256u);
    const std::string table = driver.table(0);
    CHECK_EQUAL(driver.cache->table(SequenceId{0}).size(), std::size_t(2));
    CHECK_THAT(driver.append(0, {5}));
    CHECK_EQUAL(driver.table(0), table);
    CHECK_EQUAL(driver.plan.needed_blocks, 0u);
}

void C5_swapOutAndInKeepsOrderAndSlots(Check& check) {
    auto options = CacheDriver::paged(8, 4);
    options.host_blocks = 4;
    CacheDriver driver(options);
    driver.add(0, tokens_from(0, 14));
    CHECK_THAT(driver.admit(0));
    CHECK_THAT(driver.apply(driver.cache->plan_swap_out(driver.view(0), 14)));
    CHECK_EQUAL(driver.count(EventKind::swap_out), std::size_t(4));
    CHECK_EQUAL(driver.cache->used_blocks(), 0u);
    CHECK_EQUAL(driver.cache->host_blocks_used(), 4u);
    std::map<std::uint32_t, std::uint32_t> slots_on_host;
    for (const Event& event : driver.events)
        if (event.kind == EventKind::swap_out) slots_on_host[event.other] = event.tokens;
    CHECK_THAT(slots_on_host == (std::map<std::uint32_t, std::uint32_t>{{0, 4}, {1, 4}, {2, 4}, {3, 2}}));
    driver.add(1, tokens_from(500, 3));
    CHECK_THAT(driver.admit(1));
    const CachePlan full = driver.cache->plan_swap_out(driver.view(1), 3);
    CHECK_EQUAL(full.refused_because, Cause::pool_too_full);
    CHECK_THAT(driver.apply(driver.cache->plan_swap_in(driver.view(0))));
    std::uint32_t host = 0;
    for (const Event& event : driver.events)
        if (event.kind == EventKind::swap_in) {
            CHECK_EQUAL(event.other, host++);
            CHECK_EQUAL(event.tokens, host < 4 ? 4u : 2u);
        }
    CHECK_EQUAL(driver.cache->table(SequenceId{0}).size(), std::size_t(4));
    CHECK_EQUAL(driver.cache->host_blocks_used(), 0u);
    CHECK_THAT(driver.append(0, {14, 15}));
    CHECK_EQUAL(driver.cache->table(SequenceId{0}).size(), std::size_t(4));
    for (const BlockId block : driver.cache->table(SequenceId{0})) CHECK_THAT(driver.hashed(block.value));
}

void swapWithoutRoomOrSequenceIsRefused(Check& check) {
    auto options = CacheDriver::paged(8, 4);
    options.host_blocks = 2;
    CacheDriver driver(options);
    driver.add(0, tokens_from(0, 9));
    CHECK_THAT(driver.admit(0));
    const CachePlan out = driver.cache->plan_swap_out(driver.view(0), 9);
    CHECK_EQUAL(out.refused_because, Cause::pool_too_full);
    CHECK_EQUAL(out.needed_blocks, 3u);
    CHECK_EQUAL(out.free_blocks, 2u);
    CHECK_THAT(!driver.cache->plan_swap_in(driver.view(0)).fits());
}

void aSwappedSequenceThatEndsGivesItsHostBlocksBack(Check& check) {
    auto options = CacheDriver::paged(8, 4);
    options.host_blocks = 3;
    CacheDriver driver(options);
    driver.add(0, tokens_from(0, 9));
    CHECK_THAT(driver.admit(0));
    CHECK_THAT(driver.apply(driver.cache->plan_swap_out(driver.view(0), 9)));
    driver.release(0, Cause::sequence_cancelled);
    CHECK_EQUAL(driver.cache->host_blocks_used(), 0u);
}

// "Four score and seven years ago our": block tables, fills and order of Fig. 6 and 7.
void pagedAttentionFigures6And7(Check& check) {
    auto options = CacheDriver::paged(9, 4, false);
    options.free_queue = ids({7, 1, 5, 2, 3});
    CacheDriver driver(options);
    CHECK_EQUAL(driver.free_order(), "7 1 5 2 3 4 6 8");
    driver.add(0, tokens_from(0, 7));
    driver.add(1, tokens_from(100, 5));  // "it was the best of": its last word falls into a block of its own
    CHECK_THAT(driver.admit(0));
    CHECK_EQUAL(driver.table(0), "7 1");
    CHECK_EQUAL(driver.sequences[0].computed % 4, 3u);  // 3 of 4 slots
    CHECK_THAT(driver.append(0, {7}));                  // "fathers" fills the block
    CHECK_EQUAL(driver.table(0), "7 1");
    CHECK_EQUAL(driver.plan.needed_blocks, 0u);
    CHECK_THAT(driver.admit(1));
    CHECK_EQUAL(driver.table(1), "5 2");
    CHECK_THAT(driver.append(0, {8}));  // "brought" opens one
    CHECK_EQUAL(driver.table(0), "7 1 3");
}

void pagedAttentionFigure8(Check& check) {
    auto options = CacheDriver::paged(9, 4, false);
    options.free_queue = ids({7, 1, 3});
    CacheDriver driver(options);
    driver.add(0, tokens_from(0, 7));
    CHECK_THAT(driver.admit(0));
    CHECK_THAT(driver.fork(1, 0, 7));
    CHECK_EQUAL(driver.table(1), "7 1");
    CHECK_EQUAL(driver.cache->owners(BlockId{7}), 2u);
    CHECK_EQUAL(driver.cache->owners(BlockId{1}), 2u);
    CHECK_THAT(driver.append(0, {70}));  // the first to write copies block 1 to block 3 …
    CHECK_EQUAL(driver.table(0), "7 3");
    const Event* copy = first_of(driver, EventKind::copy_on_write);
    CHECK_THAT(copy && copy->block == BlockId{1} && copy->other == 3 && copy->tokens == 3);
    CHECK_EQUAL(driver.cache->owners(BlockId{1}), 1u);
    CHECK_THAT(driver.append(1, {71}));  // … the last owner writes in place
    CHECK_EQUAL(driver.table(1), "7 1");
    CHECK_EQUAL(driver.count(EventKind::copy_on_write), std::size_t(1));
    CHECK_EQUAL(driver.cache->owners(BlockId{7}), 2u);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(C1_aForkCopiesExactlyItsPartialBlock), C1_aForkCopiesExactlyItsPartialBlock_cases());
    claims.add(CLAIM(C1_withinAStepTheParentWritesFirstAndCopies));
    claims.add(CLAIM(C2_theLastOwnerWritesInPlace));
    claims.add(CLAIM(aWriteIntoAHashedBlockDropsTheHashFirst));
    claims.add(CLAIM(aCopyLeavesTheHashedSourceAsItIs));
    claims.add(CLAIM(aForkMayComputeItsLastTokenAgain));
    claims.add(CLAIM(forksThatCannotBeAreRefused));
    claims.add(CLAIM(aForkInsideALostWindowIsRefused));
    claims.add(CLAIM(undoTakesBackTheHashesOfTheStep));
    claims.add(CLAIM(undoKeepsWhatOthersGave));
    claims.add(CLAIM(N2_aPreemptedSequenceAsksForNoBlockTwice));
    claims.add(CLAIM(C5_swapOutAndInKeepsOrderAndSlots));
    claims.add(CLAIM(swapWithoutRoomOrSequenceIsRefused));
    claims.add(CLAIM(aSwappedSequenceThatEndsGivesItsHostBlocksBack));
    claims.add(CLAIM(pagedAttentionFigures6And7));
    claims.add(CLAIM(pagedAttentionFigure8));
    return claims.rows();
}
