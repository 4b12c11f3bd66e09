// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles W1, W2, W3 and W6 of CACHE_SEMANTICS section 2 as arithmetic, and the bound of 1.9 against a count by hand.
#include "engine/cache/attention_span.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

bool sees(const AttentionSpan& span, std::uint32_t query, std::uint32_t key) {
    if (key > query) return false;
    if (span.window > 0) return key < span.sinks || query - key < span.window;
    if (span.chunk > 0) return key / span.chunk == query / span.chunk;
    return true;
}

struct W1_W2_W3_unseenBlocksCase {
    AttentionSpan span;
    int blockSize, computed, begin, end;
};
Cases<W1_W2_W3_unseenBlocksCase> W1_W2_W3_unseenBlocks_cases() {
    Cases<W1_W2_W3_unseenBlocksCase> cases;
    const auto row = [&](const char* name, AttentionSpan span, int size, int computed, int begin, int end) {
        cases.add(printed("%s computed %d", name, computed), {span, size, computed, begin, end});
    };
    for (const auto& [computed, nulls] : {std::pair{4, 0}, {5, 1}, {6, 1}, {7, 2}, {11, 4}})
        row("W1", {4, 0, 0}, 2, computed, 0, nulls);
    for (const auto& [computed, nulls] : {std::pair{0, 0}, {4, 2}, {6, 2}, {12, 6}}) row("W2", {0, 0, 4}, 2, computed, 0, nulls);
    row("W3", {8, 16, 0}, 4, 28, 4, 5);
    row("W3", {8, 16, 0}, 4, 36, 4, 7);
    row("W3 full attention", {}, 4, 36, 0, 0);
    row("sinks end inside a block", {8, 5, 0}, 4, 36, 2, 7);
    row("sinks beyond the window", {8, 40, 0}, 4, 36, 0, 0);
    return cases;
}
void W1_W2_W3_unseenBlocks(Check& check, const W1_W2_W3_unseenBlocksCase& row) {
    const BlockRange range = unseen_blocks(row.span, std::uint32_t(row.computed), std::uint32_t(row.blockSize));
    CHECK_EQUAL(int(range.size()), row.end - row.begin);
    if (row.end > row.begin) CHECK_EQUAL(int(range.begin), row.begin);
}

struct W6_admissionCapCase {
    AttentionSpan span;
    int inFlight, blocks;
};
Cases<W6_admissionCapCase> W6_admissionCap_cases() {
    Cases<W6_admissionCapCase> cases;
    cases.add("window, 1024 in flight", {AttentionSpan{1024, 0, 0}, 1024, 129});
    cases.add("window, 2048 in flight", {AttentionSpan{1024, 0, 0}, 2048, 193});
    cases.add("chunk, 1024 in flight", {AttentionSpan{0, 0, 1024}, 1024, 128});
    cases.add("chunk, 2048 in flight", {AttentionSpan{0, 0, 1024}, 2048, 192});
    cases.add("4 sinks, window 64, decoding (1.9)", {AttentionSpan{64, 4, 0}, 0, 6});
    return cases;
}
void W6_admissionCap(Check& check, const W6_admissionCapCase& row) {
    CHECK_EQUAL(int(most_blocks(row.span, 1u << 30, std::uint32_t(row.inFlight), 16)), row.blocks);
    CHECK_EQUAL(int(most_blocks(row.span, 32, std::uint32_t(row.inFlight), 16)), 2);  // never more than it has
}

// Every kept block is seen by a later query, no unseen one is; and the cap is never passed.
void blocksAreUnseenExactlyWhenNoLaterQuerySeesThem(Check& check) {
    for (const AttentionSpan span : {AttentionSpan{1, 0, 0}, AttentionSpan{5, 0, 0}, AttentionSpan{8, 3, 0}, AttentionSpan{6, 9, 0},
                                     AttentionSpan{0, 0, 1}, AttentionSpan{0, 0, 6}, AttentionSpan{0, 0, 7}, AttentionSpan{}})
        for (std::uint32_t size : {1u, 2u, 3u, 4u, 7u})
            for (std::uint32_t computed = 0; computed < 60; ++computed) {
                const BlockRange range = unseen_blocks(span, computed, size);
                std::uint32_t kept = 0;
                for (std::uint32_t block = 0; block < blocks_for(computed + 1, size); ++block) {
                    bool seen = false;
                    for (std::uint32_t query = computed; query < computed + 70; ++query)
                        for (std::uint32_t key = block * size; key < (block + 1) * size; ++key)
                            seen = seen || sees(span, query, key);
                    CHECK_EQUAL(range.contains(block), !seen);
                    kept += seen;
                }
                CHECK_THAT(kept <= most_blocks(span, computed + 1, 1, size));
                CHECK_THAT(kept <= most_blocks(span, 1000, 1, size));
            }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(W1_W2_W3_unseenBlocks), W1_W2_W3_unseenBlocks_cases());
    claims.add(CLAIM(W6_admissionCap), W6_admissionCap_cases());
    claims.add(CLAIM(blocksAreUnseenExactlyWhenNoLaterQuerySeesThem));
    return claims.rows();
}
