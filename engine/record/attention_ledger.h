// SPDX-License-Identifier: GPL-3.0-or-later
//
// What attention moves in a step, counted, beside what the FlashAttention paper's formula says (attention_traffic.h). The
// count is the stage records' own: bytes that attention's stage has to read and write, derived from its shapes and the
// layout of the cache. The formula knows f32 numbers and reads K and V once per query head; the rest is accounted for here
// from the layout alone, so a count that is wrong by a byte stands apart as unexplained.
#pragma once

#include "engine/record/ledger.h"

#include <vector>

namespace kvloupe {

// On-chip memory that tiles are cut for: 192 KiB, of a multiprocessor of the paper's A100.
inline constexpr std::uint64_t flash_memory_bytes = 192 * 1024;

// Two entries of one lane at a step, step < step_count(): attention with its scores kept as a whole and attention by tiles,
// both predicted; counted is the form that the lane has, where the step's stages were recorded. Empty for an accounting lane
// and for a step that computed nothing.
std::vector<LedgerEntry> attention_ledger(const LaneRecord& lane, std::size_t step);

}  // namespace kvloupe
