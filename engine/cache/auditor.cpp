// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/auditor.h"

#include "engine/cache/reserving_cache.h"

#include <algorithm>
#include <string>

namespace kvloupe {

namespace {

Error broken(int invariant, const std::string& what) {
    return Error{"Cache invariant " + std::to_string(invariant) + " does not hold: " + what,
                 "This is a defect of the program; please report it with the scenario."};
}

std::string block_name(std::uint32_t id) { return "block " + std::to_string(id); }

// 1, 2 and 7: the queue and the counts.
Result<void> audit_queue(const BlockPool& pool) {
    const std::vector<BlockId> order = pool.free_order();
    if (order.size() != pool.free_count())
        return broken(2, "the free queue holds " + std::to_string(order.size()) + " blocks, the counter says " +
                             std::to_string(pool.free_count()));
    std::vector<bool> listed(pool.size(), false);
    for (const BlockId id : order) {
        if (listed[id.value]) return broken(2, block_name(id.value) + " stands twice in the free queue");
        listed[id.value] = true;
    }
    std::uint32_t in_use = 0;
    for (std::uint32_t id = 0; id < pool.size(); ++id) {
        const Block& block = pool.block(BlockId{id});
        if (id == null_block_id.value) {
            if (listed[id]) return broken(1, "the null block is in the free queue");
            continue;
        }
        if (block.references < 0 || (block.references == 0) != listed[id] || block.linked() != listed[id])
            return broken(1, block_name(id) + " has " + std::to_string(block.references) + " references and is " +
                                 (listed[id] ? "" : "not ") + "in the free queue");
        if (block.references > 0) ++in_use;
    }
    if (order.size() + in_use + 1 != pool.size())
        return broken(7, std::to_string(order.size()) + " free + " + std::to_string(in_use) + " in use + 1 null are not " +
                             std::to_string(pool.size()));
    return {};
}

// 3, 5 and 6: tables against reference counts and hashes.
Result<void> audit_tables(const AuditSubject& subject) {
    std::vector<std::int32_t> pointed(subject.pool.size(), 0);
    for (const auto& entry : subject.tables) {
        const BlockTable& table = entry.second;
        const std::string who = "sequence " + std::to_string(entry.first.value);
        if (std::uint64_t{table.tokens} > std::uint64_t{table.blocks.size()} * subject.block_size)
            return broken(3, who + " holds " + std::to_string(table.tokens) + " tokens in " +
                                 std::to_string(table.blocks.size()) + " blocks of " + std::to_string(subject.block_size));
        std::vector<std::uint32_t> sorted;
        for (std::size_t logical = 0; logical < table.blocks.size(); ++logical) {
            const BlockId id = table.blocks[logical];
            if (id.value >= subject.pool.size()) return broken(3, who + " points at " + block_name(id.value));
            if (id == null_block_id) continue;
            ++pointed[id.value];
            sorted.push_back(id.value);
            if (subject.pool.hashed(id) && (logical + 1) * subject.block_size > table.tokens)
                return broken(5, block_name(id.value) + " has a hash, but " + who + " has not filled it");
        }
        std::sort(sorted.begin(), sorted.end());
        const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
        if (twice != sorted.end()) return broken(6, block_name(*twice) + " occurs twice in the table of " + who);
    }
    for (std::uint32_t id = 0; id < subject.pool.size(); ++id) {
        const Block& block = subject.pool.block(BlockId{id});
        if (id != null_block_id.value && block.references != pointed[id])
            return broken(3, block_name(id) + " has " + std::to_string(block.references) + " references, but " +
                                 std::to_string(pointed[id]) + " table entries point at it");
    }
    return {};
}

}  // namespace

Result<void> audit(const AuditSubject& subject) {
    if (auto result = audit_queue(subject.pool); !result) return result;
    if (auto result = audit_tables(subject); !result) return result;
    for (const IndexEntry& entry : subject.index) {
        if (entry.block.value >= subject.pool.size() || !subject.pool.hashed(entry.block) ||
            *subject.pool.hash(entry.block) != entry.hash)
            return broken(4, "the prefix index points at " + block_name(entry.block.value) + ", whose hash is another");
    }
    return {};
}

Result<void> audit(const ReservingCache& manager) {
    return audit(AuditSubject{manager.pool(), manager.tables(), manager.block_size(), {}});
}

}  // namespace kvloupe
