// SPDX-License-Identifier: GPL-3.0-or-later
//
// The buddy allocator by hand-made cases and against a model that knows only which blocks are taken.
#include "engine/cache/buddy_allocator.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <algorithm>
#include <bit>
#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::string text(const std::vector<Chunk>& chunks) {
    std::string line;
    for (const Chunk& chunk : chunks)
        line += std::to_string(chunk.first.value) + '+' + std::to_string(chunk.blocks) + ' ';
    return trimmed(line);
}

// One flag a block, everything else searched for.
struct Model {
    explicit Model(std::uint32_t blocks) : taken(blocks, false) { taken[0] = true; }

    std::uint32_t arena(std::uint32_t offset) const {  // length of the arena that holds the offset
        const auto blocks = static_cast<std::uint32_t>(taken.size() - 1);
        std::uint32_t begin = 0;
        for (std::uint32_t length = std::bit_floor(blocks);; length /= 2)
            if (blocks & length) {
                if (offset < begin + length) return length;
                begin += length;
            }
    }
    bool free(std::uint32_t offset, std::uint32_t length) const {
        return offset + length < taken.size() && arena(offset) >= length &&
               std::none_of(taken.begin() + offset + 1, taken.begin() + offset + 1 + length, [](bool flag) { return flag; });
    }
    // The whole free chunk around an offset.
    Chunk around(std::uint32_t offset) const {
        std::uint32_t length = 1;
        while (free(offset & ~(2 * length - 1), 2 * length)) length *= 2;
        return {BlockId((offset & ~(length - 1)) + 1), length};
    }
    std::vector<Chunk> chunks() const {
        std::vector<Chunk> result;
        for (std::uint32_t offset = 0; offset + 1 < taken.size();) {
            if (taken[offset + 1]) {
                ++offset;
                continue;
            }
            result.push_back(around(offset));
            offset += result.back().blocks;
        }
        return result;
    }
    std::optional<Chunk> allocate(std::uint32_t blocks) {
        const std::uint32_t length = std::bit_ceil(blocks);
        std::optional<Chunk> best;
        for (const Chunk& chunk : chunks())
            if (chunk.blocks >= length && (!best || chunk.blocks < best->blocks)) best = chunk;
        if (!best) return std::nullopt;
        set({best->first, length}, true);
        return Chunk{best->first, length};
    }
    void set(const Chunk& chunk, bool flag) {
        std::fill_n(taken.begin() + chunk.first.value, chunk.blocks, flag);
    }

    std::vector<bool> taken;
};

struct APoolIsCutIntoArenasLargestFirstCase {
    int blocks;
    std::string arenas;
};
Cases<APoolIsCutIntoArenasLargestFirstCase> aPoolIsCutIntoArenasLargestFirst_cases() {
    Cases<APoolIsCutIntoArenasLargestFirstCase> cases;
    cases.add("null block alone", {1, ""});
    cases.add("one", {2, "1+1"});
    cases.add("a power of two", {17, "1+16"});
    cases.add("the paper's 983 blocks of 16 slots", {984, "1+512 513+256 769+128 897+64 961+16 977+4 981+2 983+1"});
    return cases;
}
void aPoolIsCutIntoArenasLargestFirst(Check& check, const APoolIsCutIntoArenasLargestFirstCase& row) {
    const BuddyAllocator buddy(static_cast<std::uint32_t>(row.blocks));
    CHECK_EQUAL(text(buddy.free_chunks()), row.arenas);
    CHECK_EQUAL(buddy.free_blocks(), static_cast<std::uint32_t>(row.blocks - 1));
    CHECK_THAT(buddy.audit({}));
}

void theSmallestChunkThatFitsIsHalved(Check& check) {
    BuddyAllocator buddy(25);  // arenas of 16 and 8
    const auto three = buddy.allocate(3);
    CHECK_THAT(three == (Chunk{BlockId(17), 4}));
    CHECK_EQUAL(text(buddy.free_chunks()), "1+16 21+4");
    CHECK_THAT(buddy.allocate(5) == (Chunk{BlockId(1), 8}));
    CHECK_EQUAL(buddy.largest_free(), 8u);
    CHECK_THAT(!buddy.allocate(9));  // 12 blocks are free, but not in one chunk
    CHECK_EQUAL(buddy.free_blocks(), 12u);
    buddy.release(*three);
    CHECK_EQUAL(text(buddy.free_chunks()), "9+8 17+8");  // side by side, but of different arenas
    CHECK_THAT(!buddy.allocate(16));
    CHECK_THAT(!buddy.allocate(17));
}

void freeChunksBelowALengthAreSummed(Check& check) {
    BuddyAllocator buddy(984);
    CHECK_EQUAL(buddy.free_below(0), 0u);
    CHECK_EQUAL(buddy.free_below(1), 0u);
    CHECK_EQUAL(buddy.free_below(2), 1u);
    CHECK_EQUAL(buddy.free_below(128), 87u);  // 64 + 16 + 4 + 2 + 1
    CHECK_EQUAL(buddy.free_below(129), 215u);
    CHECK_EQUAL(buddy.free_below(UINT64_MAX), 983u);
}

void buddiesJoinUpToTheWholeArena(Check& check) {
    BuddyAllocator buddy(9);
    std::vector<Chunk> taken;
    for (int i = 0; i < 8; ++i) taken.push_back(*buddy.allocate(1));
    CHECK_EQUAL(buddy.largest_free(), 0u);
    CHECK_THAT(buddy.audit(taken));
    for (const int index : {0, 2, 4, 6}) buddy.release(taken[static_cast<std::size_t>(index)]);
    CHECK_EQUAL(buddy.largest_free(), 1u);
    buddy.release(taken[1]);
    CHECK_EQUAL(text(buddy.free_chunks()), "1+2 3+1 5+1 7+1");
    for (const int index : {3, 5, 7}) buddy.release(taken[static_cast<std::size_t>(index)]);
    CHECK_EQUAL(text(buddy.free_chunks()), "1+8");
}

void theAuditFindsWhatIsLostOrTakenTwice(Check& check) {
    BuddyAllocator buddy(9);
    const Chunk chunk = *buddy.allocate(4);
    CHECK_THAT(buddy.audit({chunk}));
    CHECK_THAT(!buddy.audit({}));
    CHECK_THAT(!buddy.audit({chunk, chunk}));
    CHECK_THAT(!buddy.audit({Chunk{BlockId(1), 2}, Chunk{BlockId(3), 1}, Chunk{BlockId(4), 2}}));
}

Cases<int> aRandomWalkAgreesWithTheModel_cases() {
    Cases<int> cases;
    for (const int blocks : {2, 3, 16, 17, 64, 100, 512}) cases.add(printed("%d", blocks), blocks);
    return cases;
}
void aRandomWalkAgreesWithTheModel(Check& check, int blocks) {
    std::mt19937 random(static_cast<std::uint32_t>(blocks));
    BuddyAllocator buddy(static_cast<std::uint32_t>(blocks));
    Model model(static_cast<std::uint32_t>(blocks));
    std::vector<Chunk> taken;
    for (int step = 0; step < 2000; ++step) {
        if (taken.empty() || random() % 100 < 55) {
            // Mostly short ones, so that the pool is cut up.
            const auto width = std::uniform_int_distribution<int>(0, std::bit_width(unsigned(blocks)))(random);
            const auto wanted = std::uniform_int_distribution<std::uint32_t>(1, 1u << width)(random);
            const auto chunk = buddy.allocate(wanted);
            CHECK_THAT(chunk == model.allocate(wanted));
            if (chunk) taken.push_back(*chunk);
        } else {
            const std::size_t index = std::uniform_int_distribution<std::size_t>(0, taken.size() - 1)(random);
            buddy.release(taken[index]);
            model.set(taken[index], false);
            taken.erase(taken.begin() + std::ptrdiff_t(index));
        }
        CHECK_EQUAL(text(buddy.free_chunks()), text(model.chunks()));
        const auto sound = buddy.audit(taken);
        CHECK_RESULT(sound);
    }
    for (const Chunk& chunk : taken) buddy.release(chunk);
    CHECK_EQUAL(text(buddy.free_chunks()), text(BuddyAllocator(static_cast<std::uint32_t>(blocks)).free_chunks()));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aPoolIsCutIntoArenasLargestFirst), aPoolIsCutIntoArenasLargestFirst_cases());
    claims.add(CLAIM(theSmallestChunkThatFitsIsHalved));
    claims.add(CLAIM(freeChunksBelowALengthAreSummed));
    claims.add(CLAIM(buddiesJoinUpToTheWholeArena));
    claims.add(CLAIM(theAuditFindsWhatIsLostOrTakenTwice));
    claims.add(CLAIM(aRandomWalkAgreesWithTheModel), aRandomWalkAgreesWithTheModel_cases());
    return claims.rows();
}
