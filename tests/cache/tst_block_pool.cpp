// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles V3, V5, V14 (the pool's part) and V22 of CACHE_SEMANTICS section 2.
#include "engine/cache/block_pool.h"
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

std::string text(const std::vector<BlockId>& blocks) {
    std::string line;
    for (const BlockId id : blocks) line += std::to_string(id.value) + ' ';
    return trimmed(line);
}

BlockHash hash_of(int value) {
    BlockHash hash{};
    hash[0] = std::byte(value);
    return hash;
}

void blockZeroIsTheNullBlockAndTheRestIsFreeInOrder(Check& check) {
    const BlockPool pool(6);
    CHECK_EQUAL(pool.usable(), 5u);
    CHECK_EQUAL(pool.free_count(), 5u);
    CHECK_EQUAL(pool.used_count(), 0u);
    CHECK_THAT(!pool.block(null_block_id).linked());
    CHECK_EQUAL(text(pool.free_order()), "1 2 3 4 5");
    CHECK_EQUAL(text(pool.free_order(2)), "1 2");
}

void V22_takingFromAnEmptyQueueGivesNothing(Check& check) {
    BlockPool pool(2);
    CHECK_EQUAL(pool.take()->value, 1u);
    CHECK_THAT(!pool.take());
    CHECK_EQUAL(pool.free_count(), 0u);
    CHECK_EQUAL(pool.used_count(), 1u);
}

void V22_unlinkFromTheMiddleJoinsBothNeighbours(Check& check) {
    BlockPool pool(6);
    pool.unlink(BlockId{3});
    CHECK_EQUAL(text(pool.free_order()), "1 2 4 5");
    pool.unlink(BlockId{1});
    pool.unlink(BlockId{5});
    CHECK_EQUAL(text(pool.free_order()), "2 4");
    CHECK_EQUAL(pool.free_count(), 2u);
}

void V22_prependAndAppendKeepTheOrderOfTheirLists(Check& check) {
    BlockPool pool(7);
    for (int i = 0; i < 6; ++i) CHECK_THAT(pool.take());
    pool.append(ids({3}));
    pool.prepend(ids({4, 5}));
    pool.prepend(ids({1, 2}));
    CHECK_EQUAL(text(pool.free_order()), "1 2 4 5 3");
    pool.append({});
    pool.prepend({});
    CHECK_EQUAL(text(pool.free_order()), "1 2 4 5 3");
    pool.append(ids({6}));
    for (const std::uint32_t expected : {1, 2, 4, 5, 3, 6}) CHECK_EQUAL(pool.take()->value, expected);
    CHECK_THAT(!pool.take());
}

void theQueueMayBeginInAnOrderOfItsOwn(Check& check) {
    const BlockPool pool(9, FreeOrder::vllm, ids({7, 1, 5, 2, 3}));
    CHECK_EQUAL(text(pool.free_order()), "7 1 5 2 3 4 6 8");
}

void withTheOrderAppendEveryBlockGoesToTheTail(Check& check) {
    BlockPool pool(4, FreeOrder::append);
    CHECK_EQUAL(pool.take()->value, 1u);
    CHECK_THAT(!pool.release(BlockId{1}).front);
    CHECK_EQUAL(text(pool.free_order()), "2 3 1");
}

void aHeldBlockIsInNoQueueUntilItIsLetGo(Check& check) {
    BlockPool pool(4);
    CHECK_EQUAL(pool.take()->value, 1u);
    pool.set_hash(BlockId{1}, hash_of(1));
    pool.release(BlockId{1}, true);
    CHECK_EQUAL(text(pool.free_order()), "2 3");
    CHECK_EQUAL(pool.used_count(), 0u);
    CHECK_EQUAL(pool.cached_count(), 1u);
    pool.touch(BlockId{1});
    CHECK_EQUAL(pool.held_count(), 0u);
    CHECK_EQUAL(pool.used_count(), 1u);
    pool.release(BlockId{1}, true);
    pool.clear_hash(BlockId{1});
    CHECK_THAT(pool.let_go(BlockId{1}));
    CHECK_EQUAL(text(pool.free_order()), "1 2 3");
    CHECK_EQUAL(pool.cached_count(), 0u);
}

void allHashesAreForgottenAtOnce(Check& check) {
    BlockPool pool(4);
    CHECK_EQUAL(pool.take()->value, 1u);
    CHECK_EQUAL(pool.take()->value, 2u);
    for (std::uint32_t id : {1u, 2u}) pool.set_hash(BlockId{id}, hash_of(int(id)));
    pool.release(BlockId{1});
    CHECK_EQUAL(pool.cached_count(), 1u);
    pool.clear_all_hashes();
    CHECK_EQUAL(pool.cached_count(), 0u);
    CHECK_THAT(!pool.hash(BlockId{1}) && !pool.hash(BlockId{2}));
    pool.set_hash(BlockId{2}, hash_of(9));
    CHECK_THAT(*pool.hash(BlockId{2}) == hash_of(9));
}

// V3 with the prefix hits done by hand: the pool's part of it.
void blocksWithAHashGoToTheTailAndOthersToTheHead(Check& check) {
    BlockPool pool(11);
    for (int i = 0; i < 4; ++i) CHECK_THAT(pool.take());
    for (std::uint32_t i = 1; i <= 3; ++i) pool.set_hash(BlockId{i}, hash_of(int(i)));
    for (std::uint32_t i = 1; i <= 3; ++i) pool.touch(BlockId{i});
    CHECK_EQUAL(pool.take()->value, 5u);
    CHECK_EQUAL(pool.free_count(), 5u);
    for (const BlockId id : ids({4, 3, 2, 1})) pool.release(id);
    for (const BlockId id : ids({5, 3, 2, 1})) pool.release(id);
    CHECK_EQUAL(text(pool.free_order()), "5 4 6 7 8 9 10 3 2 1");
    // V5: taking them all loses the hashes, in this order.
    int evictions = 0;
    for (const BlockId expected : ids({5, 4, 6, 7, 8, 9, 10, 3, 2, 1})) {
        bool evicted = false;
        CHECK_EQUAL(pool.take(&evicted)->value, expected.value);
        CHECK_THAT(!pool.hashed(expected));
        evictions += evicted;
    }
    CHECK_EQUAL(evictions, 3);
}

void touchingAFreeBlockTakesItOutOfTheQueue(Check& check) {
    BlockPool pool(3);
    CHECK_EQUAL(pool.take()->value, 1u);
    pool.set_hash(BlockId{1}, hash_of(1));
    CHECK_THAT(!pool.release(BlockId{1}).front);
    pool.touch(BlockId{1});
    CHECK_EQUAL(pool.block(BlockId{1}).references, 1);
    CHECK_EQUAL(pool.take()->value, 2u);  // V14: the block that was hit is never handed out as new
    CHECK_THAT(!pool.take());
}

void aSecondReleaseOfAFreeBlockChangesNothing(Check& check) {
    BlockPool pool(4);
    CHECK_THAT(pool.take());
    CHECK_THAT(pool.release(BlockId{1}).front);
    const std::string before = text(pool.free_order());
    pool.release(BlockId{1});
    CHECK_EQUAL(text(pool.free_order()), before);
    CHECK_EQUAL(pool.block(BlockId{1}).references, 0);
    CHECK_EQUAL(pool.free_count(), 3u);
}

void theNullBlockIsNeitherTouchedNorFreed(Check& check) {
    BlockPool pool(4);
    pool.touch(null_block_id);
    pool.release(null_block_id);
    CHECK_EQUAL(pool.block(null_block_id).references, 0);
    CHECK_EQUAL(text(pool.free_order()), "1 2 3");
}

void aSharedBlockIsFreeOnlyWithItsLastOwner(Check& check) {
    BlockPool pool(3);
    CHECK_THAT(pool.take());
    pool.touch(BlockId{1});
    CHECK_EQUAL(pool.release(BlockId{1}).owners_left, 1);
    CHECK_EQUAL(pool.free_count(), 1u);
    CHECK_EQUAL(pool.release(BlockId{1}).owners_left, 0);
    CHECK_EQUAL(pool.free_count(), 2u);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(blockZeroIsTheNullBlockAndTheRestIsFreeInOrder));
    claims.add(CLAIM(V22_takingFromAnEmptyQueueGivesNothing));
    claims.add(CLAIM(V22_unlinkFromTheMiddleJoinsBothNeighbours));
    claims.add(CLAIM(V22_prependAndAppendKeepTheOrderOfTheirLists));
    claims.add(CLAIM(theQueueMayBeginInAnOrderOfItsOwn));
    claims.add(CLAIM(withTheOrderAppendEveryBlockGoesToTheTail));
    claims.add(CLAIM(aHeldBlockIsInNoQueueUntilItIsLetGo));
    claims.add(CLAIM(allHashesAreForgottenAtOnce));
    claims.add(CLAIM(blocksWithAHashGoToTheTailAndOthersToTheHead));
    claims.add(CLAIM(touchingAFreeBlockTakesItOutOfTheQueue));
    claims.add(CLAIM(aSecondReleaseOfAFreeBlockChangesNothing));
    claims.add(CLAIM(theNullBlockIsNeitherTouchedNorFreed));
    claims.add(CLAIM(aSharedBlockIsFreeOnlyWithItsLastOwner));
    return claims.rows();
}
