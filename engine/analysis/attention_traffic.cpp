// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/analysis/attention_traffic.h"

#include <algorithm>

namespace kvloupe {

namespace {

std::uint64_t divided_up(std::uint64_t value, std::uint64_t by) { return value / by + (value % by != 0 ? 1 : 0); }

}  // namespace

std::uint64_t standard_elements(const AttentionTraffic& a) {
    const std::uint64_t square = 4 * a.tokens * a.tokens;
    return (a.causal ? square / 2 : square) + 4 * a.tokens * a.head_dim;
}

std::uint64_t flash_columns(std::uint64_t memory, std::uint64_t head_dim) { return divided_up(memory, 4 * head_dim); }

std::uint64_t flash_rows(std::uint64_t memory, std::uint64_t head_dim) { return std::min(flash_columns(memory, head_dim), head_dim); }

std::uint64_t flash_elements(const AttentionTraffic& a, std::uint64_t columns) {
    const std::uint64_t passes = divided_up(a.tokens, columns);
    const std::uint64_t in_passes = passes * (3 * a.tokens * a.head_dim + 4 * a.tokens);
    return 2 * a.tokens * a.head_dim + (a.causal ? divided_up(in_passes, 2) : in_passes);
}

std::uint64_t least_elements(const AttentionTraffic& a) { return 4 * a.tokens * a.head_dim; }

}  // namespace kvloupe
