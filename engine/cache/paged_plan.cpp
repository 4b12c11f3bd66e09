// SPDX-License-Identifier: GPL-3.0-or-later
//
// PagedCache, the half that only looks: plans and look-ups.
#include "engine/cache/attention_span.h"
#include "engine/cache/paged_cache.h"

#include <algorithm>
#include <string>

namespace kvloupe {

CachePlan PagedCache::plan_of(CachePlan::Kind kind, const CacheSequence& sequence) const {
    CachePlan plan;
    plan.kind = kind;
    plan.sequence = sequence;
    plan.version = m_version;
    plan.free_blocks = m_pool.free_count() + (m_index ? m_index->evictable() : 0);
    return plan;
}

std::uint64_t PagedCache::most_slots(std::uint32_t, std::uint32_t new_tokens) const {
    const auto fits = [&](std::uint64_t slots) {
        std::uint64_t blocks = 0;
        for (const CacheGroup& group : m_options.groups)
            blocks += most_blocks(group.span, slots, std::max(1u, new_tokens), m_options.block_size);
        return blocks <= usable_blocks();
    };
    // Positions are 32 bits wide, so nothing longer needs an answer.
    std::uint64_t most = 0, too_many = std::uint64_t{1} << 32;
    if (fits(too_many)) return too_many;
    while (too_many - most > 1) {
        const std::uint64_t middle = most + (too_many - most) / 2;
        (fits(middle) ? most : too_many) = middle;
    }
    return most;
}

PrefixMatch PagedCache::match(const CacheSequence& sequence) {
    if (!m_index) return {0, std::vector<std::vector<BlockId>>(m_options.groups.size())};
    if (m_matched != sequence.id) {
        m_matched = sequence.id;
        m_matched_chain = {};
    }
    return m_index->match(sequence, m_matched_chain);
}

BlockRange PagedCache::newly_unseen(const PagedSequence& state, std::uint32_t group, std::uint32_t computed) const {
    const AttentionSpan& span = m_options.groups[group].span;
    if (span.full()) return {};
    const PagedSequence::Group& own = state.groups[group];
    BlockRange range = unseen_blocks(span, computed, m_options.block_size);
    range.begin = std::max(range.begin, own.unseen_end);
    range.end = std::min(range.end, static_cast<std::uint32_t>(own.table.size()));
    return range.begin < range.end ? range : BlockRange{};
}

BlockRange PagedCache::written_blocks(const PagedSequence::Group& group, std::uint64_t first, std::uint64_t end) const {
    if (first >= end) return {};
    const BlockRange range{static_cast<std::uint32_t>(first / m_options.block_size),
                           std::min(blocks_for(end, m_options.block_size), static_cast<std::uint32_t>(group.table.size()))};
    return range.begin < range.end ? range : BlockRange{};
}

bool PagedCache::written_by_copy(BlockId block) const {
    return m_pool.block(block).references > 1 || (m_index && m_index->keeps(block));
}

std::uint64_t PagedCache::copies_needed(const GrowRequest& request, const PagedSequence& state) const {
    const std::uint64_t end = std::uint64_t{request.computed} + request.new_tokens + request.lookahead;
    std::uint64_t copies = 0;
    for (const PagedSequence::Group& group : state.groups) {
        const BlockRange range = written_blocks(group, request.computed, end);
        for (std::uint32_t block = range.begin; block < range.end; ++block)
            copies += written_by_copy(group.table[block]);
    }
    return copies;
}

std::uint64_t PagedCache::given_back(const GrowRequest& request, const PagedSequence& state) const {
    std::uint64_t blocks = 0;
    for (std::uint32_t group = 0; group < state.groups.size(); ++group) {
        const BlockRange range = newly_unseen(state, group, request.computed);
        for (std::uint32_t block = range.begin; block < range.end; ++block)
            blocks += m_pool.block(state.groups[group].table[block]).references == 1;
    }
    return blocks;
}

namespace {

std::uint64_t hit_blocks(const PrefixMatch& match, std::uint32_t group) {
    if (match.tokens == 0) return 0;
    const std::vector<BlockId>& table = match.blocks[group];
    return table.size() - static_cast<std::size_t>(std::count(table.begin(), table.end(), null_block_id));
}

}  // namespace

std::uint64_t PagedCache::hits_leaving(const PrefixMatch& match) const {
    std::uint64_t blocks = 0;
    for (const std::vector<BlockId>& table : match.blocks)
        for (const BlockId block : table) blocks += block != null_block_id && m_pool.block(block).references == 0;
    return blocks;
}

CachePlan PagedCache::plan_grow(const GrowRequest& request) const {
    CachePlan plan = plan_of(CachePlan::grow, *request.sequence);
    plan.request = request;
    const PagedSequence* state = find(request.sequence->id);
    const std::uint32_t size = m_options.block_size;
    const std::uint64_t slots = std::uint64_t{request.computed} + request.new_tokens + request.lookahead;
    const bool gate = request.admission && request.whole_prompt;
    std::uint64_t now = 0, whole = 0, available = plan.free_blocks;  // blocks
    for (std::uint32_t group = 0; group < m_options.groups.size(); ++group) {
        const std::uint64_t have = state           ? state->groups[group].table.size()
                                   : request.match && request.match->tokens > 0 ? request.match->blocks[group].size()
                                                                                : 0;
        const std::uint64_t needed = blocks_for(slots, size);
        now += needed - std::min(needed, have);
        if (!gate) continue;
        const std::uint64_t all = std::max<std::uint64_t>(request.sequence->tokens.size(), slots);
        const std::uint64_t blocks = blocks_for(all, size);
        // What it holds at once at most, of which its hits are a part.
        const std::uint64_t cap = most_blocks(m_options.groups[group].span, all, std::max(1u, request.new_tokens), size);
        const std::uint64_t kept = request.match ? hit_blocks(*request.match, group) : 0;
        whole += std::min(blocks - std::min(blocks, have), cap - std::min(cap, kept));
    }
    if (state) {
        now += copies_needed(request, *state);
        if (!m_all_full) available += given_back(request, *state);
    } else if (request.match) {
        const std::uint64_t hits = hits_leaving(*request.match);
        now += hits;
        whole += hits;
    }
    const std::uint64_t kept =
        request.admission && request.others_scheduled ? std::min<std::uint64_t>(m_options.watermark_blocks, available) : 0;
    if (now > available) plan.refused_because = Cause::pool_too_full;
    else if (gate && whole > available) plan.refused_because = Cause::prompt_too_long_now;
    else if (now > available - kept) plan.refused_because = Cause::below_watermark;
    plan.needed_blocks = static_cast<std::uint32_t>(plan.refused_because == Cause::prompt_too_long_now ? whole : now);
    plan.free_blocks =
        static_cast<std::uint32_t>(plan.refused_because == Cause::prompt_too_long_now ? available : available - kept);
    return plan;
}

Result<CachePlan> PagedCache::plan_fork(const CacheSequence& child, SequenceId parent, std::uint32_t position) const {
    const PagedSequence* state = find(parent);
    if (!state)
        return Error{"A sequence without blocks cannot be forked", "Fork a request while it runs."};
    if (find(child.id) || m_swapped.count(child.id))
        return Error{"Sequence " + std::to_string(child.id.value) + " owns blocks already and cannot become a fork", ""};
    if (position > state->covered)
        return Error{"The fork position " + std::to_string(position) + " lies beyond the " + std::to_string(state->covered) +
                         " tokens that the sequence has in the cache",
                     "Give a position within the sequence."};
    // The child may compute the position before the fork again, so it must see what that one saw.
    for (std::uint32_t group = 0; position > 0 && group < state->groups.size(); ++group) {
        if (m_options.groups[group].span.full()) continue;
        const BlockRange unseen = unseen_blocks(m_options.groups[group].span, position - 1, m_options.block_size);
        for (std::uint32_t block = 0; block < blocks_for(position, m_options.block_size); ++block)
            if (!unseen.contains(block) && state->groups[group].table[block] == null_block_id)
                return Error{"The fork position " + std::to_string(position) + " sees tokens that have left the window",
                             "Fork at the end, or at a position whose window is still kept."};
    }
    CachePlan plan = plan_of(CachePlan::fork, child);
    plan.parent = parent;
    plan.position = position;
    return plan;
}

CachePlan PagedCache::plan_release(const CacheSequence& sequence, Cause cause, std::uint32_t valid_tokens) const {
    CachePlan plan = plan_of(CachePlan::release, sequence);
    plan.cause = cause;
    plan.valid_tokens = valid_tokens;
    return plan;
}

CachePlan PagedCache::plan_swap_out(const CacheSequence& sequence, std::uint32_t computed) const {
    CachePlan plan = plan_of(CachePlan::swap_out, sequence);
    plan.cause = Cause::swapped_out;
    plan.valid_tokens = computed;
    plan.free_blocks = m_host.free();
    const PagedSequence* state = find(sequence.id);
    if (!state) {
        plan.refused_because = Cause::action_refused;
        return plan;
    }
    for (const PagedSequence::Group& group : state->groups) {
        const BlockRange range = written_blocks(group, 0, computed);
        for (std::uint32_t block = range.begin; block < range.end; ++block)
            plan.needed_blocks += group.table[block] != null_block_id;
    }
    if (plan.needed_blocks > plan.free_blocks) plan.refused_because = Cause::pool_too_full;
    return plan;
}

CachePlan PagedCache::plan_swap_in(const CacheSequence& sequence) const {
    CachePlan plan = plan_of(CachePlan::swap_in, sequence);
    plan.cause = Cause::swapped_in;
    const auto swapped = m_swapped.find(sequence.id);
    if (swapped == m_swapped.end()) {
        plan.refused_because = Cause::action_refused;
        return plan;
    }
    for (const std::vector<std::uint32_t>& table : swapped->second.host)
        for (const std::uint32_t host : table) plan.needed_blocks += host != no_host;
    if (plan.needed_blocks > plan.free_blocks) plan.refused_because = Cause::pool_too_full;
    return plan;
}

Result<CachePlan> PagedCache::plan_evict(BlockId block) const {
    const std::string name = "Block " + std::to_string(block.value);
    if (block.value >= m_options.blocks || block == null_block_id)
        return Error{name + " is none of the blocks 1 to " + std::to_string(m_options.blocks - 1), ""};
    if (const std::uint32_t owners = m_pool.block(block).references; owners > 0)
        return Error{name + " is in use by " + std::to_string(owners) + (owners == 1 ? " sequence" : " sequences") +
                         " and cannot be evicted", ""};
    if (!m_pool.hashed(block)) return Error{name + " holds nothing that could be evicted", ""};
    if (m_index->pinned(block)) return Error{name + " lies before blocks that are in use and cannot be evicted", ""};
    CachePlan plan = plan_of(CachePlan::evict, {});
    plan.block = block;
    return plan;
}

Result<CachePlan> PagedCache::plan_reset() const {
    if (m_pool.used_count() > 0)
        return Error{"The prefix cache cannot be cleared while " + std::to_string(m_pool.used_count()) + " blocks are in use",
                     "Preempt what runs first."};
    return plan_of(CachePlan::reset, {});
}

std::span<const BlockId> PagedCache::table(SequenceId sequence, std::uint32_t group) const {
    const PagedSequence* state = find(sequence);
    return state && group < state->groups.size() ? std::span<const BlockId>(state->groups[group].table) : std::span<const BlockId>();
}

std::uint32_t PagedCache::owners(BlockId block) const {
    return block.value < m_options.blocks ? static_cast<std::uint32_t>(m_pool.block(block).references) : 0;
}

std::optional<BlockHash> PagedCache::hash(BlockId block) const {
    if (block.value >= m_options.blocks || !m_pool.hashed(block)) return std::nullopt;
    return *m_pool.hash(block);
}

}  // namespace kvloupe
