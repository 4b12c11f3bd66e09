// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rows of a cache, written and read. The cache is never expanded as a whole: rows whose elements are numbers by themselves
// (floats, fp8, int8) are read where they lie; of the others (4 and 2 bits, packs) a tile of one head at most is expanded into
// scratch that stays in the second-level cache.
#pragma once

#include "kernels/cpu/cpu_cache.h"
#include "kernels/cpu/kernels.h"

#include <cstdint>

namespace kvloupe::cpu {

// --- kv_store.cpp ---
// Where the K and V of a token go. page: page + 1 of the f16 page that stands for the block, where one does.
struct KvSlot {
    std::uint64_t block = 0;
    std::uint32_t offset = 0;
    std::uint32_t page = 0;
};
// Scales per head from the largest magnitudes of the first rows (count, heads, head_dim) that are ever written; once.
void take_head_scales(const CpuPlane& plane, const float* rows, std::uint32_t count);
// Writes k (kv_heads, key_dim) and v (kv_heads, value_dim), turned where the format says so. Returns how many finite values
// the precision could not hold: infinite now, or set to the end of its range.
std::uint64_t store_token(const CpuKvCache& cache, std::uint32_t layer, const KvSlot& slot, const float* k, const float* v);
// Quantises what page `page` (from 0) holds for a whole block, all layers and planes that keep a residual. The page is NaN
// afterwards: whoever still reads it sees that.
void seal_block(const CpuKvCache& cache, std::uint32_t block, std::uint32_t page);

// --- kv_rows.cpp ---
// Tokens of one head in a block.
struct KvRun {
    std::uint64_t block = 0;
    std::uint32_t page = 0;    // page + 1, or 0
    std::uint32_t offset = 0;  // of the first
    std::uint32_t count = 0;
};
// out (count, head_dim): as they are stored, that is still turned where the format turns rows.
void expand_rows(const CpuKvCache& cache, std::uint32_t layer, KvPart part, std::uint32_t head, const KvRun& run, float* out);

// A sequence's blocks and the pages that stand for them; pages null: none.
struct KvTable {
    const std::uint32_t* blocks = nullptr;
    const std::uint32_t* pages = nullptr;
};

// Room for the rows of one tile, aligned to 64.
struct KvTileRoom {
    const std::byte** rows = nullptr;  // (tile_tokens)
    float* scales = nullptr;           // (tile_tokens)
    float* expanded = nullptr;         // (tile_tokens, head_dim) where expands(); else null
};
// Whether a tile of such rows has to be expanded.
bool expands(const CpuPlane& plane);
// Bytes of a room.
std::uint64_t tile_room_bytes(const CpuPlane& plane);
KvTileRoom tile_room(const CpuPlane& plane, std::byte* memory);
// The rows of a head for positions first + t, for the tokens t that `any` names. Valid until the room is used again.
KvTileRows read_tile(const CpuKvCache& cache, std::uint32_t layer, KvPart part, std::uint32_t head, const KvTable& table,
                     std::uint32_t first, const TileSpan& any, const KvTileRoom& room);

// --- kv_expand.cpp ---
// out (count) = code * step + minimum; 8 / bits codes in a byte, the lower bits first.
void expand_codes(int bits, const std::byte* codes, std::uint32_t count, float step, float minimum, float* out);
// out (count) = code * steps + minima, each element with its own.
void expand_channels(int bits, const std::byte* codes, std::uint32_t count, const float* steps, const float* minima, float* out);
// Packs of q5_0 and q5_1; count: elements.
void expand_fives(DType dtype, const std::byte* packs, std::uint32_t count, float* out);

}  // namespace kvloupe::cpu
