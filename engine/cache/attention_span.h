// SPDX-License-Identifier: GPL-3.0-or-later
//
// AttentionSpan as arithmetic: which positions a query sees, which blocks nobody will read again, and how many blocks a
// sequence can hold at most (CACHE_SEMANTICS 1.1 "Sliding window" and 1.9). Pure functions.
#pragma once

#include "engine/cache/block_table.h"
#include "engine/cache/cache_options.h"

#include <algorithm>
#include <cstdint>

namespace kvloupe {

// Half-open range of logical blocks.
struct BlockRange {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::uint32_t size() const { return end > begin ? end - begin : 0; }
    bool contains(std::uint32_t logical) const { return logical >= begin && logical < end; }
    bool operator==(const BlockRange&) const = default;
};

// First position that the query at `position` sees; the sinks before it are seen besides.
constexpr std::uint32_t first_visible(const AttentionSpan& span, std::uint32_t position) {
    if (span.window > 0) return position >= span.window ? position - span.window + 1 : 0;
    if (span.chunk > 0) return position / span.chunk * span.chunk;
    return 0;
}

// Blocks that no query at `computed` or later sees: wholly before the window or chunk, or wholly between the sinks and
// the window. The lower end is rounded up and the upper end down, so that every block holding a visible token is kept.
constexpr BlockRange unseen_blocks(const AttentionSpan& span, std::uint32_t computed, std::uint32_t block_size) {
    const BlockRange range{blocks_for(span.window > 0 ? span.sinks : 0, block_size),
                           first_visible(span, computed) / block_size};
    return range.begin < range.end ? range : BlockRange{};
}

// Most blocks that a sequence of `slots` slots holds at once in a group, while a step computes at most `in_flight`
// tokens of it (W6). in_flight >= 1.
constexpr std::uint64_t most_blocks(const AttentionSpan& span, std::uint64_t slots, std::uint32_t in_flight,
                                    std::uint32_t block_size) {
    const auto blocks = [&](std::uint64_t tokens) { return (tokens + block_size - 1) / block_size; };
    const std::uint64_t all = blocks(slots);
    if (span.window > 0) {
        const std::uint64_t kept = std::min<std::uint64_t>(std::uint64_t{span.window} - 1 + in_flight, slots);
        return std::min(all, blocks(span.sinks) + blocks(kept) + 1);
    }
    if (span.chunk > 0)  // a chunk that ends inside a block reaches into one more
        return std::min(all, blocks(std::uint64_t{span.chunk} + in_flight) + (span.chunk % block_size != 0));
    return all;
}

}  // namespace kvloupe
