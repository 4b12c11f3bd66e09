// SPDX-License-Identifier: GPL-3.0-or-later
//
// PagedCache, the half that changes things.
#include "engine/cache/paged_cache.h"

#include "engine/cache/attention_span.h"
#include "engine/cache/hash_index.h"
#include "engine/cache/radix_index.h"

#include <algorithm>
#include <string>
#include <utility>

namespace kvloupe {

namespace {

Event event_of(EventKind kind, Cause cause, SequenceId sequence, BlockId block, std::uint32_t group) {
    Event event;
    event.kind = kind;
    event.cause = cause;
    event.sequence = sequence;
    event.block = block;
    event.group = static_cast<std::uint8_t>(group);
    return event;
}

}  // namespace

PagedCache::PagedCache(CacheManagerOptions options)
    : CacheManager(std::move(options)), m_pool(m_options.blocks, m_options.free_order, m_options.free_queue),
      m_host(m_options.host_blocks) {
    for (const CacheGroup& group : m_options.groups) m_all_full = m_all_full && group.span.full();
    if (!m_options.prefix_caching) return;
    if (m_options.prefix_index == PrefixIndexKind::radix) m_index = std::make_unique<RadixIndex>(m_pool, m_options);
    else m_index = std::make_unique<HashIndex>(m_pool, m_options);
}

PagedCache::PagedCache(const PagedCache& other)
    : CacheManager(other), m_pool(other.m_pool), m_host(other.m_host), m_all_full(other.m_all_full), m_swapped(other.m_swapped),
      m_matched(other.m_matched), m_matched_chain(other.m_matched_chain), m_version(other.m_version) {
    for (const auto& sequence : other.m_sequences) m_sequences.push_back(sequence ? std::make_unique<PagedSequence>(*sequence) : nullptr);
    if (other.m_index) m_index = other.m_index->clone(m_pool, m_options, m_sequences);
}

std::uint64_t PagedCache::bytes() const {
    std::uint64_t bytes = m_pool.bytes() + m_sequences.size() * sizeof(m_sequences[0]);
    for (const auto& sequence : m_sequences) {
        if (!sequence) continue;
        bytes += sizeof *sequence + sequence->chain.size() * sizeof(BlockHash);
        for (const PagedSequence::Group& group : sequence->groups) bytes += sizeof group + group.table.size() * sizeof(BlockId);
    }
    return bytes + (m_index ? m_index->bytes() : 0);
}

std::vector<std::uint32_t> PagedCache::taken_host_blocks() const {
    std::vector<std::uint32_t> taken;
    for (const auto& [sequence, swapped] : m_swapped)
        for (const std::vector<std::uint32_t>& group : swapped.host)
            for (const std::uint32_t block : group)
                if (block != no_host) taken.push_back(block);
    return taken;
}

PagedSequence& PagedCache::make(SequenceId sequence) {
    if (sequence.value >= m_sequences.size()) m_sequences.resize(sequence.value + std::size_t{1});
    auto& state = m_sequences[sequence.value];
    state = std::make_unique<PagedSequence>();
    state->groups.resize(m_options.groups.size());
    if (m_matched == sequence) {
        state->chain = std::exchange(m_matched_chain, {});
        m_matched = SequenceId::none();
    }
    return *state;
}

Result<void> PagedCache::check(const CachePlan& plan) const {
    const auto who = [&] { return "sequence " + std::to_string(plan.sequence.id.value); };
    if (plan.version != m_version)
        return Error{"The cache plan of " + who() + " is out of date", "Plan again after every change of the pool."};
    if (!plan.fits())
        return Error{"The cache plan of " + who() + " needs " + std::to_string(plan.needed_blocks) + " blocks, but " +
                         std::to_string(plan.free_blocks) + " are free",
                     "Wait until another sequence ends, or give the pool more blocks."};
    if (plan.kind == CachePlan::grow && plan.request.match && m_index && !find(plan.sequence.id) &&
        !m_index->holds(*plan.request.match, m_matched == plan.sequence.id ? m_matched_chain : HashChain{}))
        return Error{"The prefix match of " + who() + " is out of date", "Look it up again after every change of the pool."};
    return {};
}

Result<std::vector<Event>> PagedCache::apply(const CachePlan& plan) {
    if (const Result<void> checked = check(plan); !checked) return checked.error();
    ++m_version;
    if (m_index) m_index->set_listener(m_listener);
    std::vector<Event> events;
    switch (plan.kind) {
    case CachePlan::grow: apply_grow(plan, events); break;
    case CachePlan::fork: apply_fork(plan, events); break;
    case CachePlan::release: apply_release(plan, events); break;
    case CachePlan::swap_out: apply_swap_out(plan, events); break;
    case CachePlan::swap_in: apply_swap_in(plan, events); break;
    case CachePlan::evict: m_index->evict(plan.block, events); break;
    case CachePlan::reset:
        if (m_index) m_index->reset(events);
        events.push_back(event_of(EventKind::reset, Cause::requested, SequenceId::none(), BlockId::none(), 0));
        break;
    }
    return events;
}

std::vector<Event> PagedCache::note_computed(const CacheSequence& sequence, std::uint32_t computed) {
    std::vector<Event> events;
    PagedSequence* state = find(sequence.id);
    if (!state || !m_index) return events;
    m_index->set_listener(m_listener);
    m_index->after_computed(sequence, *state, computed, events);
    ++m_version;  // what can be evicted may have changed
    return events;
}

void PagedCache::forget(BlockId block, SequenceId sequence, Cause cause, std::vector<Event>& events) {
    events.push_back(event_of(EventKind::evict, cause, sequence, block, m_index->group_of(block)));
    m_index->forget(block);
}

BlockId PagedCache::pop(SequenceId taker, std::vector<Event>& events) {
    if (m_pool.free_count() == 0) m_index->evict_for(1, taker, events);
    const BlockId block = m_pool.front();
    if (m_pool.hashed(block)) forget(block, taker, Cause::block_needed, events);
    return *m_pool.take();
}

void PagedCache::leave(SequenceId sequence, BlockId block, std::uint32_t group, Cause cause, std::vector<Event>& events) {
    const bool hold = m_index && m_index->keeps(block);
    const BlockPool::Released released = m_pool.release(block, hold);
    Event event = event_of(EventKind::free, cause, sequence, block, group);
    event.other = static_cast<std::uint32_t>(released.owners_left);
    if (released.front) event.flags |= Event::flag_front;
    if (hold && released.owners_left == 0) event.flags |= Event::flag_held;
    events.push_back(event);
}

void PagedCache::drop_unseen(SequenceId sequence, PagedSequence& state, std::uint32_t computed, std::vector<Event>& events) {
    for (std::uint32_t group = 0; group < state.groups.size(); ++group) {
        const BlockRange range = newly_unseen(state, group, computed);
        if (range.size() == 0) continue;
        PagedSequence::Group& own = state.groups[group];
        const Cause cause = m_options.groups[group].span.chunk > 0 ? Cause::out_of_chunk : Cause::out_of_window;
        for (std::uint32_t block = range.end; block-- > range.begin;) {
            const BlockId id = own.table[block];
            if (id == null_block_id) continue;
            Event event = event_of(EventKind::null_block, cause, sequence, id, group);
            event.other = block;
            events.push_back(event);
            own.table[block] = null_block_id;
            ++own.nulls;
            leave(sequence, id, group, cause, events);
        }
        own.unseen_end = range.end;
    }
}

void PagedCache::take_hits(const CachePlan& plan, PagedSequence& state, std::vector<Event>& events) {
    const PrefixMatch& match = *plan.request.match;
    for (std::uint32_t group = 0; group < state.groups.size(); ++group) {
        PagedSequence::Group& own = state.groups[group];
        own.table = match.blocks[group];
        own.registered = own.own_from = static_cast<std::uint32_t>(own.table.size());
        own.unseen_end = unseen_blocks(m_options.groups[group].span, match.tokens, m_options.block_size).end;
        const Cause unseen = m_options.groups[group].span.chunk > 0 ? Cause::out_of_chunk : Cause::out_of_window;
        for (std::uint32_t block = 0; block < own.table.size(); ++block) {
            const BlockId id = own.table[block];
            const bool null = id == null_block_id;
            m_pool.touch(id);
            own.nulls += null;
            const Cause hit = null || !m_index ? unseen : m_index->cause_of_hit(plan.sequence, block, id);
            Event event = event_of(null ? EventKind::null_block : EventKind::prefix_hit, hit, plan.sequence.id, id, group);
            event.other = block;
            event.tokens = null ? 0 : m_options.block_size;
            events.push_back(event);
        }
    }
    if (m_index) m_index->after_match(plan.sequence, state);
}

// A block that the sequence is about to write is its own: it copies one that others own too, and takes the hash from one
// that only it owns.
void PagedCache::prepare_writes(const CachePlan& plan, PagedSequence& state, std::vector<Event>& events) {
    const GrowRequest& request = plan.request;
    const std::uint64_t end = std::uint64_t{request.computed} + request.new_tokens + request.lookahead;
    for (std::uint32_t group = 0; group < state.groups.size(); ++group) {
        PagedSequence::Group& own = state.groups[group];
        const BlockRange range = written_blocks(own, request.computed, end);
        for (std::uint32_t block = range.begin; block < range.end; ++block) {
            const BlockId id = own.table[block];
            if (id == null_block_id) continue;
            if (written_by_copy(id)) {
                const BlockId copy = pop(plan.sequence.id, events);
                Event event = event_of(EventKind::copy_on_write, Cause::shared_block_written, plan.sequence.id, id, group);
                event.other = copy.value;
                event.tokens = block == range.begin ? request.computed % m_options.block_size : 0;
                own.table[block] = copy;
                const bool hold = m_index && m_index->keeps(id);
                if (m_pool.release(id, hold).owners_left == 0 && hold) event.flags |= Event::flag_held;
                events.push_back(event);
                if (m_index) m_index->after_copy(plan.sequence.id, block);
            } else if (m_pool.hashed(id)) {
                forget(id, plan.sequence.id, Cause::last_owner_writes, events);
            } else {
                continue;
            }
            own.registered = std::min(own.registered, block);
            own.own_from = std::min(own.own_from, block);
        }
    }
}

void PagedCache::apply_grow(const CachePlan& plan, std::vector<Event>& events) {
    const GrowRequest& request = plan.request;
    PagedSequence* state = find(plan.sequence.id);
    if (state) {
        if (!m_all_full) drop_unseen(plan.sequence.id, *state, request.computed, events);
    } else {
        state = &make(plan.sequence.id);
        if (request.match && request.match->tokens > 0) take_hits(plan, *state, events);
    }
    prepare_writes(plan, *state, events);
    const std::uint64_t slots = std::uint64_t{request.computed} + request.new_tokens + request.lookahead;
    for (std::uint32_t group = 0; group < state->groups.size(); ++group) {
        std::vector<BlockId>& table = state->groups[group].table;
        for (const std::uint32_t needed = blocks_for(slots, m_options.block_size); table.size() < needed;) {
            const BlockId block = pop(plan.sequence.id, events);
            Event event = event_of(EventKind::allocate, Cause::first_slot_of_block, plan.sequence.id, block, group);
            event.other = static_cast<std::uint32_t>(table.size());
            events.push_back(event);
            table.push_back(block);
        }
    }
    state->covered = std::max(state->covered, request.computed + request.new_tokens);
    if (m_index) m_index->after_grow(plan.sequence, *state, events);
}

void PagedCache::apply_fork(const CachePlan& plan, std::vector<Event>& events) {
    const std::uint32_t shared = blocks_for(plan.position, m_options.block_size);
    PagedSequence& child = make(plan.sequence.id);
    const PagedSequence& parent = *find(plan.parent);
    child.covered = plan.position;
    child.chain = parent.chain;
    child.chain.shorten(plan.position / m_options.block_size);
    for (std::uint32_t group = 0; group < child.groups.size(); ++group) {
        PagedSequence::Group& own = child.groups[group];
        const std::vector<BlockId>& table = parent.groups[group].table;
        own.table.assign(table.begin(), table.begin() + shared);
        for (const BlockId block : own.table) {
            m_pool.touch(block);
            own.nulls += block == null_block_id;
        }
        own.registered = own.own_from = plan.position / m_options.block_size;
    }
    Event event = event_of(EventKind::fork, plan.cause, plan.sequence.id, BlockId::none(), 0);
    event.other = plan.parent.value;
    event.tokens = plan.position;
    events.push_back(event);
    if (m_index) m_index->after_fork(plan.parent, plan.sequence.id, child);
}

void PagedCache::leave_all(const CachePlan& plan, PagedSequence& state, std::vector<Event>& events) {
    if (m_index) m_index->before_release(plan, state, events);
    for (std::uint32_t group = 0; group < state.groups.size(); ++group) {
        const PagedSequence::Group& own = state.groups[group];
        for (auto block = static_cast<std::uint32_t>(own.table.size()); block-- > 0;) {
            const BlockId id = own.table[block];
            if (id == null_block_id) continue;
            const bool undone = block >= own.own_from && block < own.registered &&
                                (std::uint64_t{block} + 1) * m_options.block_size > plan.valid_tokens;
            if (undone && m_pool.hashed(id)) forget(id, plan.sequence.id, Cause::sequence_preempted, events);
            leave(plan.sequence.id, id, group, plan.cause, events);
        }
    }
}

void PagedCache::apply_release(const CachePlan& plan, std::vector<Event>& events) {
    if (const auto swapped = m_swapped.find(plan.sequence.id); swapped != m_swapped.end()) {
        for (const std::vector<std::uint32_t>& table : swapped->second.host)
            for (const std::uint32_t host : table)
                if (host != no_host) m_host.give_back(host);
        m_swapped.erase(swapped);
    }
    PagedSequence* state = find(plan.sequence.id);
    if (!state) return;
    leave_all(plan, *state, events);
    if (plan.cause == Cause::sequence_preempted) {  // it stands at the head of the queue now and is looked up soon
        m_matched = plan.sequence.id;
        m_matched_chain = std::move(state->chain);
    }
    m_sequences[plan.sequence.id.value].reset();
}

void PagedCache::apply_swap_out(const CachePlan& plan, std::vector<Event>& events) {
    PagedSequence& state = *find(plan.sequence.id);
    Swapped& swapped = m_swapped[plan.sequence.id];
    swapped.computed = plan.valid_tokens;
    for (std::uint32_t group = 0; group < state.groups.size(); ++group) {
        const std::vector<BlockId>& table = state.groups[group].table;
        const BlockRange range = written_blocks(state.groups[group], 0, plan.valid_tokens);
        std::vector<std::uint32_t>& host = swapped.host.emplace_back(range.end, no_host);
        for (std::uint32_t block = range.begin; block < range.end; ++block) {
            if (table[block] == null_block_id) continue;
            host[block] = m_host.take();
            Event event = event_of(EventKind::swap_out, Cause::swapped_out, plan.sequence.id, table[block], group);
            event.other = host[block];
            event.tokens = std::min(m_options.block_size, plan.valid_tokens - block * m_options.block_size);
            events.push_back(event);
        }
    }
    leave_all(plan, state, events);
    swapped.chain = std::move(state.chain);
    m_sequences[plan.sequence.id.value].reset();
}

void PagedCache::apply_swap_in(const CachePlan& plan, std::vector<Event>& events) {
    const auto node = m_swapped.extract(plan.sequence.id);
    Swapped& swapped = node.mapped();
    PagedSequence& state = make(plan.sequence.id);
    state.covered = swapped.computed;
    state.chain = std::move(swapped.chain);
    for (std::uint32_t group = 0; group < state.groups.size(); ++group) {
        PagedSequence::Group& own = state.groups[group];
        const Cause unseen = m_options.groups[group].span.chunk > 0 ? Cause::out_of_chunk : Cause::out_of_window;
        for (std::uint32_t block = 0; block < swapped.host[group].size(); ++block) {
            const std::uint32_t host = swapped.host[group][block];
            if (host == no_host) {
                Event event = event_of(EventKind::null_block, unseen, plan.sequence.id, null_block_id, group);
                event.other = block;
                events.push_back(event);
                own.table.push_back(null_block_id);
                ++own.nulls;
                continue;
            }
            const BlockId id = pop(plan.sequence.id, events);
            Event event = event_of(EventKind::swap_in, Cause::swapped_in, plan.sequence.id, id, group);
            event.other = host;
            event.tokens = std::min(m_options.block_size, swapped.computed - block * m_options.block_size);
            events.push_back(event);
            own.table.push_back(id);
            m_host.give_back(host);
        }
    }
    if (m_index) m_index->after_swap_in(plan.sequence.id, state);
}

}  // namespace kvloupe
