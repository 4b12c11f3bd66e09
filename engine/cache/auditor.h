// SPDX-License-Identifier: GPL-3.0-or-later
//
// Auditor: checks the seven invariants of CACHE_SEMANTICS 1.1 over pool, tables and prefix index. O(blocks + entries).
#pragma once

#include "engine/cache/block_pool.h"
#include "engine/cache/block_table.h"
#include "engine/record/result.h"

#include <cstdint>
#include <map>
#include <span>

namespace kvloupe {

class ReservingCache;

struct IndexEntry {
    BlockHash hash;
    BlockId block;
};

struct AuditSubject {
    const BlockPool& pool;
    const std::map<SequenceId, BlockTable>& tables;
    std::uint32_t block_size = 1;
    std::span<const IndexEntry> index;  // entries of the prefix index; empty while prefix caching is off
};

// Error: the first invariant that does not hold, with block or sequence and values.
Result<void> audit(const AuditSubject& subject);
Result<void> audit(const ReservingCache& manager);

}  // namespace kvloupe
