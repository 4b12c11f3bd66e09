// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/attention_traffic.h"

#include <algorithm>

namespace kvloupe {

namespace {

std::uint64_t divided_up(std::uint64_t value, std::uint64_t by) { return value / by + (value % by != 0 ? 1 : 0); }

}  // namespace

std::uint64_t standard_elements(const AttentionTraffic& a) {
    const std::uint64_t square = 4 * a.query_count() * a.tokens;
    return (a.causal ? square / 2 : square) + least_elements(a);
}

std::uint64_t flash_columns(std::uint64_t memory, std::uint64_t head_dim) { return divided_up(memory, 4 * head_dim); }

std::uint64_t flash_rows(std::uint64_t memory, std::uint64_t head_dim) {
    return std::min(flash_columns(memory, head_dim), head_dim);
}

std::uint64_t flash_elements(const AttentionTraffic& a, std::uint64_t columns) {
    const std::uint64_t passes = divided_up(a.tokens, columns);
    const std::uint64_t in_passes = passes * a.query_count() * (a.head_dim + 2 * a.value_width() + 4);
    return a.tokens * (a.head_dim + a.value_width()) + (a.causal ? divided_up(in_passes, 2) : in_passes);
}

std::uint64_t least_elements(const AttentionTraffic& a) {
    return (a.query_count() + a.tokens) * (a.head_dim + a.value_width());
}

}  // namespace kvloupe
