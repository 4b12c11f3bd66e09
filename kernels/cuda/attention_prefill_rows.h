// SPDX-License-Identifier: GPL-3.0-or-later
//
// The query rows that a block of a prefill kernel takes, and the keys they see, in two passes over runs of consecutive keys:
// first the sinks, then the window (all keys, where there is no window). Two passes because sink keys that are read by rank meet
// another copy of the queries; a tile of keys that holds both kinds is read twice. Every key of a pass is seen by some row of
// the block, so that no slot is read that holds nothing.
#pragma once

#include "kernels/cuda/attention_common.h"

#include <cstddef>
#include <cstdint>

namespace kvloupe::cuda {

inline constexpr std::uint32_t no_row = 0xFFFFFFFFu;

struct KeyRange {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
};

struct PrefillRows;

struct KeyPass {
    std::uint32_t begin = 0;         // keys begin .. end - 1 are seen by some row
    std::uint32_t end = 0;
    std::uint32_t begin_of_all = 0;  // keys begin_of_all .. end_of_all - 1 by every row
    std::uint32_t end_of_all = 0;
    bool sinks = false;

    __device__ bool holds(std::uint32_t key) const { return key >= begin && key < end; }
    __device__ bool sees_all(std::uint32_t key, std::uint32_t count) const {
        return key >= begin_of_all && key + count <= end_of_all;
    }
    __device__ KeyRange seen_by(const PrefillRows& rows, const KeySpan& span, std::uint32_t row) const;
};

struct PrefillRows {
    std::uint32_t first_row = 0;       // in the batch
    std::uint32_t first_position = 0;
    std::uint32_t count = 0;
    KeyRows keys;

    // Rows first .. first + most - 1 of a tile, as far as the sequence has them.
    __device__ PrefillRows(const AttentionArgs& args, const PrefillTile& tile, std::uint32_t first, std::uint32_t most,
                           std::uint32_t query_head) {
        const SequenceRows sequence = args.sequences[tile.sequence];
        const std::uint32_t row = tile.first_row + first;
        const std::uint32_t left = row < sequence.rows ? sequence.rows - row : 0;
        first_row = sequence.first_row + row;
        first_position = sequence.first_position + row;
        count = left < most ? left : most;
        keys.table = args.block_tables + sequence.table_begin;
        keys.pages = args.table_pages == nullptr ? nullptr : args.table_pages + sequence.table_begin;
        keys.block_size = args.cache.block_size;
        keys.kv_heads = args.cache.kv_heads;
        keys.kv_head = query_head / (args.query_heads / args.cache.kv_heads);
    }

    // Index of a query among (rows, query_heads).
    __device__ std::size_t query(const AttentionArgs& args, std::uint32_t row, std::uint32_t head) const {
        return std::size_t{first_row + row} * args.query_heads + head;
    }
    __device__ std::uint32_t dropped(const KeySpan& span, std::uint32_t row) const {
        return dropped_keys(span, visible_keys(span, first_position + row));
    }
    // number: 0 the sinks, 1 the window. Sinks, beginnings and ends never fall from a row to the next.
    __device__ KeyPass pass(const KeySpan& span, unsigned number) const {
        if (count == 0) return {};
        const VisibleKeys first = visible_keys(span, first_position);
        const VisibleKeys last = visible_keys(span, first_position + count - 1);
        if (number == 0) return {0, last.sinks, 0, first.sinks, true};
        return {first.begin, last.end, last.begin, first.end, false};
    }
};

// What a block does, in shared memory: as registers it would be 16 that every thread holds alike.
struct PrefillWork {
    PrefillRows rows;
    KeyPass passes[2];
    std::uint32_t first_head;  // query head

    __device__ PrefillWork(const AttentionArgs& args, const PrefillTile& tile, std::uint32_t head)
        : rows(args, tile, 0, prefill_rows, head), passes{rows.pass(args.span, 0), rows.pass(args.span, 1)}, first_head(head) {}
};

__device__ inline KeyRange KeyPass::seen_by(const PrefillRows& rows, const KeySpan& span, std::uint32_t row) const {
    if (row >= rows.count) return {};
    const VisibleKeys keys = visible_keys(span, rows.first_position + row);
    return sinks ? KeyRange{0, keys.sinks} : KeyRange{keys.begin, keys.end};
}

}  // namespace kvloupe::cuda
