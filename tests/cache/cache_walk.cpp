// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cache/cache_walk.h"

namespace kvloupe {

namespace {

std::vector<std::uint32_t> values(const auto& blocks) {
    std::vector<std::uint32_t> result;
    for (const BlockId block : blocks) result.push_back(block.value);
    return result;
}

std::vector<std::uint32_t> without_nulls_at_end(std::vector<std::uint32_t> table) {
    while (!table.empty() && table.back() == 0) table.pop_back();
    return table;
}

std::string list(const std::vector<std::uint32_t>& values) {
    std::string text;
    for (const std::uint32_t value : values) text += std::to_string(value) + " ";
    return text;
}

}  // namespace

void CacheWalk::compare() {
    if (const auto sound = m_cache->audit(); !sound) return fail(sound.error().message());
    const auto same = [&](const std::string& what, const std::vector<std::uint32_t>& ours, const std::vector<std::uint32_t>& theirs) {
        if (ours != theirs) fail(what + " is " + list(ours) + "but should be " + list(theirs));
    };
    same("the free queue", values(m_cache->free_order()), m_naive.queue());
    same("the replayed free queue", values(m_replay.free_order()), m_naive.queue());
    std::uint32_t used = 0, cached = 0;
    for (std::uint32_t block = 1; block < m_options.blocks; ++block) {
        const NaiveCache::Block& right = m_naive.blocks()[block];
        const BlockState& replayed = m_replay.blocks()[block];
        const std::string name = "block " + std::to_string(block);
        if (int(m_cache->owners(BlockId{block})) != right.references) fail(name + " has another number of owners");
        if (int(replayed.owners) != right.references) fail(name + " has another number of owners when replayed");
        const auto hash = m_cache->hash(BlockId{block});
        if (hash.has_value() != right.content.has_value() || (hash && *hash != right.content->hash)) fail(name + " has another hash");
        if (replayed.hashed != hash.has_value() || (hash && replayed.hash != first_bytes(*hash)))
            fail(name + " has another hash when replayed");
        used += right.references > 0;
        cached += right.references == 0 && right.content;
    }
    if (m_cache->used_blocks() != used || m_replay.used_blocks() != used) fail("another number of used blocks");
    if (m_cache->cached_blocks() != cached || m_replay.cached_blocks() != cached) fail("another number of cached blocks");
    if (m_cache->host_blocks_used() != m_naive.host_used() || m_replay.host_blocks() != m_naive.host_used())
        fail("another number of host blocks");
    std::vector<SlotHolder> holders;
    for (std::uint32_t id = 0; id < m_next; ++id) {
        const auto found = m_naive.sequences().find(id);
        for (std::uint32_t group = 0; group < m_options.groups.size(); ++group) {
            const std::string name = "the table of sequence " + std::to_string(id) + ", group " + std::to_string(group) + ",";
            const auto right = found == m_naive.sequences().end() ? std::vector<std::uint32_t>() : found->second.tables[group];
            same(name, values(m_cache->table(SequenceId{id}, group)), right);
            const bool replayed = id < m_replay.sequences().size();
            same(name + " replayed,",
                 without_nulls_at_end(replayed ? values(m_replay.table(SequenceId{id}, std::uint8_t(group))) : std::vector<std::uint32_t>()),
                 without_nulls_at_end(right));
        }
        if (const auto own = m_living.find(id); own != m_living.end() && own->second.where == Living::running)
            holders.push_back({SequenceId{id}, own->second.computed, own->second.computed + id % 5});
    }
    const SlotCounts counts = m_cache->count_slots(holders, 0), right = count_by_hand(holders);
    if (counts.token != right.token || counts.reserved != right.reserved || counts.internal != right.internal ||
        counts.cached != right.cached || counts.free != right.free || counts.external != 0)
        fail("slots are counted as token " + std::to_string(counts.token) + ", reserved " + std::to_string(counts.reserved) +
             ", internal " + std::to_string(counts.internal) + ", not " + std::to_string(right.token) + ", " +
             std::to_string(right.reserved) + ", " + std::to_string(right.internal));
}

// Slot by slot: token if an owner has written it, else reserved if one will, else internal.
SlotCounts CacheWalk::count_by_hand(const std::vector<SlotHolder>& holders) const {
    SlotCounts counts;
    for (std::uint32_t block = 1; block < m_options.blocks; ++block) {
        const NaiveCache::Block& state = m_naive.blocks()[block];
        for (std::uint32_t offset = 0; offset < m_options.block_size; ++offset) {
            bool written = false, wanted = false;
            for (const SlotHolder& holder : holders)
                for (const auto& table : m_naive.sequences().at(holder.sequence.value).tables)
                    for (std::uint32_t logical = 0; logical < table.size(); ++logical) {
                        if (table[logical] != block) continue;
                        written = written || logical * m_options.block_size + offset < holder.written;
                        wanted = wanted || logical * m_options.block_size + offset < holder.final_size;
                    }
            if (state.references == 0) ++(state.content ? counts.cached : counts.free);
            else ++(written ? counts.token : wanted ? counts.reserved : counts.internal);
        }
    }
    return counts;
}

}  // namespace kvloupe
