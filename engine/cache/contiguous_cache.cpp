// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/contiguous_cache.h"

#include "engine/cache/block_table.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <string>

namespace kvloupe {

namespace {

Event event_of(EventKind kind, Cause cause, SequenceId sequence, BlockId block) {
    Event event;
    event.kind = kind;
    event.cause = cause;
    event.sequence = sequence;
    event.block = block;
    return event;
}

Event freed(Cause cause, SequenceId sequence, BlockId block) {
    Event event = event_of(EventKind::free, cause, sequence, block);
    event.other = 0;  // owners left
    return event;
}

Event allocated(Cause cause, SequenceId sequence, BlockId block, std::size_t logical) {
    Event event = event_of(EventKind::allocate, cause, sequence, block);
    event.other = static_cast<std::uint32_t>(logical);
    return event;
}

}  // namespace

ContiguousCache::ContiguousCache(CacheManagerOptions options)
    : CacheManager(std::move(options)), m_buddy(m_options.blocks), m_owner(m_options.blocks) {}

std::uint64_t ContiguousCache::chunk_for(std::uint64_t slots) const {
    return BuddyAllocator::chunk_blocks((slots + block_size() - 1) / block_size());
}

std::uint64_t ContiguousCache::requested_slots(const CacheSequence& sequence, std::uint64_t needed) const {
    const std::uint64_t final_slots = std::max(needed, sequence.final_slots);
    switch (m_options.reserve) {
    case Reserve::max: return std::max<std::uint64_t>(needed, m_options.max_model_len);
    case Reserve::oracle: return final_slots;
    case Reserve::grow: return needed;
    case Reserve::pow2: break;
    }
    // final_slots = prompt + new tokens - 1: the last new token is never written.
    const std::uint64_t new_tokens = final_slots + 1 > sequence.prompt_tokens ? final_slots + 1 - sequence.prompt_tokens : 1;
    std::uint64_t slots = sequence.prompt_tokens + std::bit_ceil(new_tokens);
    if (m_options.max_model_len > 0) slots = std::min<std::uint64_t>(slots, m_options.max_model_len);
    return std::max(slots, final_slots);
}

std::uint64_t ContiguousCache::most_slots(std::uint32_t prompt_tokens, std::uint32_t new_tokens) const {
    const std::uint64_t longest_chunk = std::uint64_t{m_buddy.largest_arena()} * block_size();
    const std::uint64_t limit = m_options.max_model_len > 0 ? m_options.max_model_len : UINT64_MAX;
    switch (m_options.reserve) {
    case Reserve::max: return limit <= longest_chunk ? limit : 0;
    case Reserve::oracle: return std::min(longest_chunk, limit);
    case Reserve::grow: return std::min(most_growing_slots(prompt_tokens, new_tokens), limit);
    case Reserve::pow2: break;
    }
    if (limit <= longest_chunk) return limit;
    if (prompt_tokens >= longest_chunk) return 0;
    return std::min(limit, prompt_tokens + std::bit_floor(longest_chunk - prompt_tokens) - 1);
}

// A sequence that has the pool for itself, from its first step until a move finds no second run. Moves within one chunk
// length go to and fro between two places after at most a few, so that an even number of them changes nothing.
std::uint64_t ContiguousCache::most_growing_slots(std::uint32_t prompt_tokens, std::uint32_t new_tokens) const {
    BuddyAllocator buddy(m_options.blocks);
    const std::uint64_t step = std::max(1u, new_tokens);
    std::uint64_t slots = std::min<std::uint64_t>(std::max(1u, prompt_tokens), step);
    std::optional<Chunk> held = buddy.allocate(chunk_for(slots));
    if (!held) return 0;
    while (true) {
        std::uint64_t next = slots < prompt_tokens ? std::min<std::uint64_t>(slots + step, prompt_tokens) : slots + 1;
        const std::uint64_t chunk_slots = std::uint64_t{held->blocks} * block_size();
        std::uint64_t moves = 1;
        if (slots >= prompt_tokens && next < chunk_slots) {
            const std::uint64_t same = chunk_slots - slots;  // moves that stay within this length
            moves = same > 8 ? 8 + same % 2 : same;
            next = chunk_slots;
        }
        for (std::uint64_t done = 0; done < moves; ++done) {
            const auto other = buddy.allocate(chunk_for(next));
            if (!other) return slots + done;
            buddy.release(*held);
            held = other;
        }
        slots = next;
    }
}

PrefixMatch ContiguousCache::match(const CacheSequence&) {
    PrefixMatch match;
    match.blocks.resize(1);
    return match;
}

CachePlan ContiguousCache::plan_of(CachePlan::Kind kind, const CacheSequence& sequence) const {
    CachePlan plan;
    plan.kind = kind;
    plan.sequence = sequence;
    plan.free_blocks = m_buddy.largest_free();
    plan.version = m_version;
    return plan;
}

CachePlan ContiguousCache::plan_grow(const GrowRequest& request) const {
    CachePlan plan = plan_of(CachePlan::grow, *request.sequence);
    plan.request = request;
    const std::uint64_t needed = std::uint64_t{request.computed} + request.new_tokens + request.lookahead;
    const auto region = m_regions.find(plan.sequence.id);
    if (region != m_regions.end() && needed <= region->second.requested) return plan;
    const auto refuse = [&plan](Cause cause, std::uint64_t blocks) {
        plan.refused_because = cause;
        plan.needed_blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, UINT32_MAX));
    };
    const std::uint64_t chunk = chunk_for(requested_slots(plan.sequence, needed));
    plan.needed_blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk, UINT32_MAX));
    if (request.admission && request.whole_prompt) {
        const std::uint64_t whole =
            chunk_for(requested_slots(plan.sequence, std::max<std::uint64_t>(needed, plan.sequence.tokens.size())));
        if (whole > plan.free_blocks && chunk <= plan.free_blocks) refuse(Cause::prompt_too_long_now, whole);
    }
    if (chunk > plan.free_blocks) refuse(Cause::pool_too_full, chunk);
    return plan;
}

Result<CachePlan> ContiguousCache::plan_fork(const CacheSequence&, SequenceId parent, std::uint32_t) const {
    return Error{"Sequence " + std::to_string(parent.value) + " cannot be forked: cache.kind is contiguous",
                 "Sequences share blocks only in a paged cache."};
}

CachePlan ContiguousCache::plan_release(const CacheSequence& sequence, Cause cause, std::uint32_t valid_tokens) const {
    CachePlan plan = plan_of(CachePlan::release, sequence);
    plan.cause = cause;
    plan.valid_tokens = valid_tokens;
    return plan;
}

CachePlan ContiguousCache::refused_swap(CachePlan::Kind kind, const CacheSequence& sequence) const {
    CachePlan plan = plan_of(kind, sequence);
    plan.refused_because = Cause::pool_too_full;  // there is no host memory
    plan.needed_blocks = static_cast<std::uint32_t>(table(sequence.id).size());
    plan.free_blocks = 0;
    return plan;
}

CachePlan ContiguousCache::plan_swap_out(const CacheSequence& sequence, std::uint32_t) const {
    return refused_swap(CachePlan::swap_out, sequence);
}

CachePlan ContiguousCache::plan_swap_in(const CacheSequence& sequence) const {
    return refused_swap(CachePlan::swap_in, sequence);
}

Result<CachePlan> ContiguousCache::plan_evict(BlockId block) const {
    return Error{"Block " + std::to_string(block.value) + " has no hash: cache.kind is contiguous",
                 "Blocks are found again only in a paged cache."};
}

Result<CachePlan> ContiguousCache::plan_reset() const {
    if (!m_regions.empty())
        return Error{std::to_string(used_blocks()) + " blocks are in use", "Reset the prefix cache when nothing runs."};
    return plan_of(CachePlan::reset, {});
}

Result<std::vector<Event>> ContiguousCache::apply(const CachePlan& plan) {
    if (plan.version != m_version)
        return Error{"The cache plan of sequence " + std::to_string(plan.sequence.id.value) + " is out of date",
                     "Plan again after every change of the pool."};
    if (!plan.fits())
        return Error{"Sequence " + std::to_string(plan.sequence.id.value) + " needs a run of " +
                         std::to_string(plan.needed_blocks) + " blocks, but the longest free one has " +
                         std::to_string(plan.free_blocks),
                     "Wait until another sequence ends, or give the pool more blocks."};
    ++m_version;
    std::vector<Event> events;
    if (plan.kind == CachePlan::release) release(plan, events);
    if (plan.kind == CachePlan::reset) {
        events.push_back(event_of(EventKind::reset, Cause::requested, SequenceId::none(), BlockId::none()));
        if (m_listener) m_listener->all_blocks_cleared();
    }
    if (plan.kind != CachePlan::grow || plan.needed_blocks == 0) return events;
    const std::uint64_t needed =
        std::uint64_t{plan.request.computed} + plan.request.new_tokens + plan.request.lookahead;
    const std::uint64_t requested = requested_slots(plan.sequence, needed);
    if (m_regions.contains(plan.sequence.id)) move(plan, requested, events);
    else reserve(plan, requested, events);
    return events;
}

ContiguousCache::Region ContiguousCache::make_region(std::uint64_t requested) {
    const auto chunk = m_buddy.allocate((requested + block_size() - 1) / block_size());
    assert(chunk);  // the plan saw a free chunk of this length
    Region region{*chunk, requested, {}};
    region.table.reserve(chunk->blocks);
    for (std::uint32_t index = 0; index < chunk->blocks; ++index) region.table.emplace_back(chunk->first.value + index);
    return region;
}

void ContiguousCache::set_owner(const Region& region, SequenceId owner) {
    for (const BlockId block : region.table) m_owner[block.value] = owner;
}

void ContiguousCache::reserve(const CachePlan& plan, std::uint64_t requested, std::vector<Event>& events) {
    const SequenceId id = plan.sequence.id;
    const Region& region = m_regions.emplace(id, make_region(requested)).first->second;
    set_owner(region, id);
    const Cause cause = m_options.reserve == Reserve::grow ? Cause::first_slot_of_block : Cause::reservation;
    for (std::size_t logical = 0; logical < region.table.size(); ++logical)
        events.push_back(allocated(cause, id, region.table[logical], logical));
}

void ContiguousCache::move(const CachePlan& plan, std::uint64_t requested, std::vector<Event>& events) {
    const SequenceId id = plan.sequence.id;
    Region& held = m_regions.at(id);
    Region next = make_region(requested);
    const std::size_t filled = std::min<std::size_t>(blocks_for(plan.request.computed, block_size()), held.table.size());
    for (std::size_t logical = 0; logical < filled; ++logical) {
        Event copy = event_of(EventKind::copy_on_write, Cause::grown_by_copy, id, held.table[logical]);
        copy.other = next.table[logical].value;
        copy.tokens = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(block_size(), plan.request.computed - std::uint64_t{logical} * block_size()));
        events.push_back(copy);
    }
    for (std::size_t logical = filled; logical < next.table.size(); ++logical)
        events.push_back(allocated(Cause::grown_by_copy, id, next.table[logical], logical));
    for (auto block = held.table.rbegin(); block != held.table.rend(); ++block)
        events.push_back(freed(Cause::grown_by_copy, id, *block));
    set_owner(held, SequenceId::none());
    m_buddy.release(held.chunk);
    set_owner(next, id);
    held = std::move(next);
}

void ContiguousCache::release(const CachePlan& plan, std::vector<Event>& events) {
    const auto found = m_regions.find(plan.sequence.id);
    if (found == m_regions.end()) return;
    const Region& region = found->second;
    for (auto block = region.table.rbegin(); block != region.table.rend(); ++block)
        events.push_back(freed(plan.cause, plan.sequence.id, *block));
    set_owner(region, SequenceId::none());
    m_buddy.release(region.chunk);
    m_regions.erase(found);
}

std::vector<Event> ContiguousCache::note_computed(const CacheSequence&, std::uint32_t) { return {}; }

std::span<const BlockId> ContiguousCache::table(SequenceId sequence, std::uint32_t) const {
    const auto found = m_regions.find(sequence);
    return found == m_regions.end() ? std::span<const BlockId>{} : found->second.table;
}

std::uint32_t ContiguousCache::owners(BlockId block) const {
    return block.value < m_owner.size() && m_owner[block.value].valid() ? 1 : 0;
}

std::vector<BlockId> ContiguousCache::free_order(std::size_t limit) const {
    std::vector<BlockId> order;
    for (const Chunk& chunk : m_buddy.free_chunks())
        for (std::uint32_t index = 0; index < chunk.blocks && order.size() < limit; ++index)
            order.emplace_back(chunk.first.value + index);
    return order;
}

SlotCounts ContiguousCache::count_slots(std::span<const SlotHolder> holders, std::uint64_t waiting_slots) const {
    SlotCounts counts;
    std::uint64_t held = 0;
    for (const auto& [id, region] : m_regions) {
        held += region.requested;
        counts.external += std::uint64_t{region.chunk.blocks} * block_size() - region.requested;
    }
    for (const SlotHolder& holder : holders) {
        const auto region = m_regions.find(holder.sequence);
        if (region == m_regions.end()) continue;
        const std::uint64_t written = std::min<std::uint64_t>(holder.written, region->second.requested);
        const std::uint64_t end = std::clamp(holder.final_size, written, region->second.requested);
        counts.token += written;
        counts.reserved += end - written;
    }
    counts.internal = held - counts.token - counts.reserved;
    const std::uint64_t holes = m_buddy.free_below(chunk_for(waiting_slots)) * block_size();
    counts.external += holes;
    counts.free = std::uint64_t{m_buddy.free_blocks()} * block_size() - holes;
    return counts;
}

Result<void> ContiguousCache::audit() const {
    const auto broken = [](SequenceId id, const std::string& what) {
        return Error{"Contiguous cache: sequence " + std::to_string(id.value) + " " + what,
                     "This is a defect of the program; please report it with the scenario."};
    };
    std::vector<Chunk> taken;
    std::size_t owned = 0;
    for (const auto& [id, region] : m_regions) {
        taken.push_back(region.chunk);
        owned += region.table.size();
        if (region.table.size() != region.chunk.blocks)
            return broken(id, "has " + std::to_string(region.table.size()) + " table entries for a chunk of " +
                                  std::to_string(region.chunk.blocks) + " blocks");
        if (region.requested == 0 || region.requested > std::uint64_t{region.chunk.blocks} * block_size())
            return broken(id, "reserves " + std::to_string(region.requested) + " slots in a chunk of " +
                                  std::to_string(region.chunk.blocks) + " blocks");
        for (std::uint32_t index = 0; index < region.chunk.blocks; ++index)
            if (region.table[index].value != region.chunk.first.value + index || m_owner[region.table[index].value] != id)
                return broken(id, "does not own block " + std::to_string(region.chunk.first.value + index) +
                                      " of its chunk, or its table names another");
    }
    const auto owners = static_cast<std::size_t>(
        std::count_if(m_owner.begin(), m_owner.end(), [](SequenceId owner) { return owner.valid(); }));
    if (owners != owned)
        return Error{"Contiguous cache: " + std::to_string(owners) + " blocks have an owner, the tables hold " +
                         std::to_string(owned),
                     "This is a defect of the program; please report it with the scenario."};
    return m_buddy.audit(std::move(taken));
}

}  // namespace kvloupe
