// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a cache manager is told once: its size and its rules. Names follow the scenario's keys (contract, section 2).
#pragma once

#include "engine/record/ids.h"

#include <cstdint>
#include <vector>

namespace kvloupe {

enum class CacheKind : std::uint8_t { paged, contiguous };
enum class PrefixIndexKind : std::uint8_t { hash, radix };
// Where a block goes that nobody owns any more (CACHE_SEMANTICS 1.1): vllm: with a hash to the tail, without one to the
// head (since June 2026); append: always to the tail (before).
enum class FreeOrder : std::uint8_t { vllm, append };
enum class RadixEviction : std::uint8_t { lru, lfu, fifo, priority };
// Contiguous: how long a region is reserved: to max_model_len, to the output rounded up to a power of two, to the true
// length, or what is needed now, growing by copy.
enum class Reserve : std::uint8_t { max, pow2, oracle, grow };

// Which keys a query at position p sees. All zero: positions 0 .. p.
struct AttentionSpan {
    std::uint32_t window = 0;  // positions p - window + 1 .. p, and the sinks
    std::uint32_t sinks = 0;   // the first positions; only with a window
    std::uint32_t chunk = 0;   // positions floor(p / chunk) * chunk .. p; not with a window

    bool full() const { return window == 0 && chunk == 0; }
    bool operator==(const AttentionSpan&) const = default;
};

// KV cache group: layers that share one block table.
struct CacheGroup {
    AttentionSpan span;
    std::vector<std::uint32_t> layers;  // may be empty where nobody asks which
};

struct CacheManagerOptions {
    CacheKind kind = CacheKind::paged;
    std::uint32_t blocks = 2;       // null block included
    std::uint32_t block_size = 16;  // slots
    bool prefix_caching = false;
    PrefixIndexKind prefix_index = PrefixIndexKind::hash;
    FreeOrder free_order = FreeOrder::vllm;
    RadixEviction radix_eviction = RadixEviction::lru;
    std::uint32_t hash_bits = 256;  // 1 .. 256; fewer force collisions
    bool compare_tokens = true;     // on a hit; off: a collision is believed
    bool tag_extra_keys = true;     // each key is hashed with what it is; off: bare, an adapter "x" equals a salt "x"
    std::uint32_t watermark_blocks = 0;
    std::uint32_t host_blocks = 0;  // room for swapped-out sequences
    Reserve reserve = Reserve::max;
    std::uint32_t max_model_len = 0;
    std::vector<CacheGroup> groups = {CacheGroup{}};
    std::vector<BlockId> free_queue;  // the head of the free queue at the start; all others follow, ascending
};

}  // namespace kvloupe
