// SPDX-License-Identifier: GPL-3.0-or-later
//
// Each of the seven invariants, broken on purpose, is found.
#include "engine/cache/hash_index.h"
#include "engine/cache/paged_audit.h"
#include "tests/support/claims.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// Sequence 0 owns blocks 1 and 2 of a pool of 6, 6 of 8 slots filled; block 1 is registered.
struct Scene {
    CacheManagerOptions options;
    BlockPool pool{6};
    std::vector<std::unique_ptr<PagedSequence>> sequences;
    std::unique_ptr<HashIndex> index;
    std::vector<TokenId> tokens{1, 2, 3, 4, 5, 6};

    Scene() {
        options.blocks = 6;
        options.block_size = 4;
        options.prefix_caching = true;
        index = std::make_unique<HashIndex>(pool, options);
        sequences.push_back(std::make_unique<PagedSequence>());
        PagedSequence& own = *sequences[0];
        own.groups.resize(1);
        own.groups[0].table = {*pool.take(), *pool.take()};
        own.covered = 6;
        std::vector<Event> events;
        index->after_grow({SequenceId{0}, tokens, 6, 6, {}, 0}, own, events);
    }
    PagedSequence::Group& group() { return sequences[0]->groups[0]; }

    // The number of the invariant that is said to be broken, 0 if none.
    int broken() const {
        for (const Result<void>& result : {audit_pool(pool), audit_tables(pool, sequences, 4), index->audit()}) {
            if (result) continue;
            const std::string sentence = result.error().sentence;
            const std::string before = "invariant ";
            const std::size_t at = sentence.find(before);
            return at == std::string::npos ? 0 : sentence[at + before.size()] - '0';
        }
        return 0;
    }
};

void aSoundPoolPasses(Check& check) {
    const Scene scene;
    CHECK_THAT(scene.pool.hashed(BlockId{1}));
    CHECK_EQUAL(scene.broken(), 0);
}

void aReferencedBlockInTheQueueIsFound(Check& check) {
    Scene scene;
    scene.pool.append(std::vector<BlockId>{BlockId{1}});
    CHECK_EQUAL(scene.broken(), 1);
}

void aFreeBlockOutsideTheQueueIsFound(Check& check) {
    Scene scene;
    scene.pool.unlink(BlockId{4});
    CHECK_EQUAL(scene.broken(), 1);
}

void theNullBlockInTheQueueIsFound(Check& check) {
    Scene scene;
    scene.pool.append(std::vector<BlockId>{null_block_id});
    CHECK_EQUAL(scene.broken(), 1);
}

void aTableEntryWithoutAReferenceIsFound(Check& check) {
    Scene scene;
    scene.sequences.push_back(std::make_unique<PagedSequence>());
    scene.sequences[1]->groups.resize(1);
    scene.sequences[1]->groups[0].table = {BlockId{1}};
    CHECK_EQUAL(scene.broken(), 3);
}

void aReferenceWithoutATableEntryIsFound(Check& check) {
    Scene scene;
    scene.pool.touch(BlockId{2});
    CHECK_EQUAL(scene.broken(), 3);
}

void moreTokensThanSlotsAreFound(Check& check) {
    Scene scene;
    scene.sequences[0]->covered = 9;
    CHECK_EQUAL(scene.broken(), 3);
}

void aNullEntryThatWasNotCountedIsFound(Check& check) {
    Scene scene;
    scene.group().table.push_back(null_block_id);
    CHECK_EQUAL(scene.broken(), 3);
    scene.group().nulls = 1;
    CHECK_EQUAL(scene.broken(), 0);
}

void anIndexEntryWithoutItsHashIsFound(Check& check) {
    Scene scene;
    scene.pool.clear_hash(BlockId{1});
    CHECK_EQUAL(scene.broken(), 4);
}

void anIndexEntryWithAnotherHashIsFound(Check& check) {
    Scene scene;
    scene.pool.set_hash(BlockId{1}, BlockHash{});
    CHECK_EQUAL(scene.broken(), 4);
}

void aHashThatTheIndexDoesNotKnowIsFound(Check& check) {
    Scene scene;
    scene.pool.set_hash(BlockId{4}, BlockHash{});
    CHECK_EQUAL(scene.broken(), 4);
}

void aHashOnABlockThatIsNotFullIsFound(Check& check) {
    Scene scene;
    scene.group().registered = 2;
    scene.pool.set_hash(BlockId{2}, BlockHash{});
    CHECK_EQUAL(scene.broken(), 5);
}

void aBlockTwiceInOneTableIsFound(Check& check) {
    Scene scene;
    scene.group().table.push_back(BlockId{1});
    scene.pool.touch(BlockId{1});
    CHECK_EQUAL(scene.broken(), 6);
}

void aHeldBlockIsNotLost(Check& check) {
    Scene scene;
    scene.pool.take();
    scene.pool.release(BlockId{3}, true);
    CHECK_EQUAL(scene.broken(), 0);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aSoundPoolPasses));
    claims.add(CLAIM(aReferencedBlockInTheQueueIsFound));
    claims.add(CLAIM(aFreeBlockOutsideTheQueueIsFound));
    claims.add(CLAIM(theNullBlockInTheQueueIsFound));
    claims.add(CLAIM(aTableEntryWithoutAReferenceIsFound));
    claims.add(CLAIM(aReferenceWithoutATableEntryIsFound));
    claims.add(CLAIM(moreTokensThanSlotsAreFound));
    claims.add(CLAIM(aNullEntryThatWasNotCountedIsFound));
    claims.add(CLAIM(anIndexEntryWithoutItsHashIsFound));
    claims.add(CLAIM(anIndexEntryWithAnotherHashIsFound));
    claims.add(CLAIM(aHashThatTheIndexDoesNotKnowIsFound));
    claims.add(CLAIM(aHashOnABlockThatIsNotFullIsFound));
    claims.add(CLAIM(aBlockTwiceInOneTableIsFound));
    claims.add(CLAIM(aHeldBlockIsNotLost));
    return claims.rows();
}
