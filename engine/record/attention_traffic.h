// SPDX-License-Identifier: GPL-3.0-or-later
//
// How many elements attention moves between the device's memory and the processor, by the counting model of FlashAttention
// (arXiv 2205.14135, Theorem 2 and its proof; FORMATS 3.7), for one head, forward, over N tokens of d values. Predicted:
// what a stage of a lane really moves is in its stage records. The paper has as many queries as keys and rows of one width;
// with a cache a step has R queries for N keys, and heads of MLA have keys and values of different widths: the same counts
// with those numbers.
#pragma once

#include <cstdint>

namespace kvloupe {

struct AttentionTraffic {
    std::uint64_t tokens = 0;     // N
    std::uint64_t head_dim = 0;   // d, of queries and keys
    bool causal = false;          // half of the N^2 terms
    std::uint64_t queries = 0;    // R; 0: as many as tokens
    std::uint64_t value_dim = 0;  // of values and outputs; 0: as wide as keys

    std::uint64_t query_count() const { return queries > 0 ? queries : tokens; }
    std::uint64_t value_width() const { return value_dim > 0 ? value_dim : head_dim; }
};

// Scores are written; read, and weights written; weights are read; Q, K, V read, O written: 4 R N + (R + N) (d + dv), which
// is 4 N^2 + 4 N d in the paper's case.
std::uint64_t standard_elements(const AttentionTraffic& attention);

// Algorithm 1 of the paper, with `memory` elements of on-chip memory: columns per pass Bc = ceil(M / 4d), and rows per tile
// min(Bc, d).
std::uint64_t flash_columns(std::uint64_t memory, std::uint64_t head_dim);
std::uint64_t flash_rows(std::uint64_t memory, std::uint64_t head_dim);

// K and V once; in each of the Tc = ceil(N / columns) passes Q is read, O, l and m are read and written:
// N (d + dv) + Tc (R d + 2 R dv + 4 R), which is 2 N d + Tc (3 N d + 4 N) in the paper's case. columns > 0.
std::uint64_t flash_elements(const AttentionTraffic& attention, std::uint64_t columns);

// Q, K, V and O once each: (R + N) (d + dv), in the paper's case 4 N d. No exact algorithm moves less.
std::uint64_t least_elements(const AttentionTraffic& attention);

}  // namespace kvloupe
