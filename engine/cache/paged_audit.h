// SPDX-License-Identifier: GPL-3.0-or-later
//
// The invariants of CACHE_SEMANTICS 1.1, each on what it speaks of. Error: the first that does not hold, with its number,
// block or sequence and values.
#pragma once

#include "engine/cache/block_pool.h"
#include "engine/cache/prefix_index.h"
#include "engine/record/result.h"

#include <memory>
#include <span>

namespace kvloupe {

// 1, 2 and 7: the free queue, the counts, and that every block is free, in use, held or null. O(blocks).
Result<void> audit_pool(const BlockPool& pool);

// 3, 5 and 6: tables (index: SequenceId; null: owns nothing) against reference counts and hashes. O(blocks + entries).
Result<void> audit_tables(const BlockPool& pool, std::span<const std::unique_ptr<PagedSequence>> sequences,
                          std::uint32_t block_size);

// 4, every entry of a prefix index points to a block with that hash, is PrefixIndex::audit().

}  // namespace kvloupe
