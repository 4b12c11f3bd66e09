// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/radix_index.h"

#include <algorithm>
#include <cassert>
#include <unordered_map>

namespace kvloupe {

namespace {

Event index_event(EventKind kind, Cause cause, SequenceId sequence, BlockId block) {
    Event event;
    event.kind = kind;
    event.cause = cause;
    event.sequence = sequence;
    event.block = block;
    return event;
}

}  // namespace

RadixIndex::RadixIndex(BlockPool& pool, const CacheManagerOptions& options)
    : m_pool(pool), m_options(options), m_rules{options.block_size, options.hash_bits, options.tag_extra_keys, false},
      m_tree(options.block_size, options.radix_eviction) {}

std::unique_ptr<PrefixIndex> RadixIndex::clone(BlockPool& pool, const CacheManagerOptions& options, const Sequences& sequences) const {
    auto copy = std::make_unique<RadixIndex>(pool, options);
    copy->m_tree = m_tree;
    copy->m_tree.set_listener(nullptr);
    copy->m_owners = m_owners;
    for (std::size_t i = 0; i < m_owners.size(); ++i) copy->m_owners[i].state = m_owners[i].state ? sequences[i].get() : nullptr;
    return copy;
}

RadixIndex::Owner& RadixIndex::owner_of(SequenceId sequence, PagedSequence& state) {
    if (sequence.value >= m_owners.size()) m_owners.resize(sequence.value + std::size_t{1});
    Owner& owner = m_owners[sequence.value];
    owner.state = &state;
    return owner;
}

RadixKey RadixIndex::key_of(const CacheSequence& sequence, std::size_t tokens) const {
    // Bare, a salt without an adapter is taken for an adapter of that name.
    ExtraKeys keys = sequence.keys;
    if (!m_options.tag_extra_keys && keys.adapter.empty()) std::swap(keys.adapter, keys.salt);
    return {sequence.tokens.first(tokens), keys};
}

PrefixMatch RadixIndex::match(const CacheSequence& sequence, HashChain&) {
    // The last token is computed again, because its logits are needed.
    const std::size_t tokens = sequence.tokens.empty() ? 0 : sequence.tokens.size() - 1;
    PrefixMatch match;
    match.blocks.push_back(m_tree.match(key_of(sequence, tokens)).pages);
    match.tokens = static_cast<std::uint32_t>(match.blocks[0].size()) * m_options.block_size;
    return match;
}

bool RadixIndex::holds(const PrefixMatch& match, const HashChain&) const {
    const std::vector<BlockId>& pages = match.blocks[0];
    if (pages.empty()) return true;
    const auto node = m_tree.node_of(pages.back());
    return node && m_tree.path_pages(*node) == pages;
}

void RadixIndex::move_lock(Owner& owner, RadixNodeId node, std::uint32_t pages) {
    m_tree.lock(node);
    m_tree.unlock(owner.node);
    owner.node = node;
    owner.pages = pages;
}

void RadixIndex::after_match(const CacheSequence& sequence, PagedSequence& state) {
    const std::vector<BlockId>& table = state.groups[0].table;
    const auto pages = static_cast<std::uint32_t>(table.size());
    Owner& owner = owner_of(sequence.id, state);
    owner.noted = pages * m_options.block_size;
    if (pages == 0) return;
    move_lock(owner, *m_tree.node_of(table.back()), pages);  // the look-up made the node end there
    m_tree.count_hit(owner.node);
}

void RadixIndex::after_grow(const CacheSequence& sequence, PagedSequence& state, std::vector<Event>&) {
    owner_of(sequence.id, state);
}

void RadixIndex::after_fork(SequenceId parent, SequenceId child, PagedSequence& state) {
    Owner& owner = owner_of(child, state);
    const Owner& from = m_owners[parent.value];
    const RadixNodeId node = from.node;
    const auto pages = std::min(from.pages, static_cast<std::uint32_t>(state.groups[0].table.size()));
    owner.noted = state.covered;
    move_lock(owner, m_tree.prefix_node(node, pages * m_options.block_size), pages);
}

void RadixIndex::after_swap_in(SequenceId sequence, PagedSequence& state) {
    owner_of(sequence, state).noted = state.covered;
}

void RadixIndex::after_copy(SequenceId sequence, std::uint32_t block) {
    Owner& owner = m_owners[sequence.value];
    if (block < owner.pages) move_lock(owner, m_tree.prefix_node(owner.node, block * m_options.block_size), block);
}

void RadixIndex::after_computed(const CacheSequence& sequence, PagedSequence& state, std::uint32_t computed,
                                std::vector<Event>& events) {
    Owner& owner = owner_of(sequence.id, state);
    const bool prefill = computed <= sequence.prompt_tokens || computed > owner.noted + std::uint64_t{1};
    owner.noted = computed;
    if (prefill) take_in(sequence, owner, computed, events);
}

void RadixIndex::before_release(const CachePlan& plan, PagedSequence& state, std::vector<Event>& events) {
    Owner& owner = owner_of(plan.sequence.id, state);
    const bool ended = plan.cause != Cause::sequence_preempted && plan.cause != Cause::swapped_out &&
                       plan.cause != Cause::sequence_failed;
    if (ended) take_in(plan.sequence, owner, std::min(state.covered, plan.valid_tokens), events);
    m_tree.unlock(owner.node);
    owner = {};
}

// The tree has all full blocks of the sequence's first `computed` tokens then, and they stand in its table.
void RadixIndex::take_in(const CacheSequence& sequence, Owner& owner, std::uint32_t computed, std::vector<Event>& events) {
    const auto tokens = std::min<std::size_t>(computed, sequence.tokens.size());
    const auto pages = static_cast<std::uint32_t>(tokens / m_options.block_size);
    if (pages <= owner.pages) return;
    PagedSequence::Group& own = owner.state->groups[0];
    HashChain& chain = owner.state->chain;
    chain.extend(m_rules, sequence.tokens, sequence.keys, pages);
    m_tree.set_listener(m_listener);
    const RadixTree::Inserted inserted =
        m_tree.insert(key_of(sequence, tokens), std::span(own.table).first(pages), chain.hashes(), sequence.priority);
    const std::uint32_t present = inserted.present / m_options.block_size;
    if (present > owner.pages) {
        const std::vector<BlockId> path = m_tree.path_pages(inserted.node);
        for (std::uint32_t block = owner.pages; block < present; ++block) replace(sequence, owner, block, path[block], events);
    }
    for (std::uint32_t block = present; block < pages; ++block) store(sequence, owner, block, events);
    move_lock(owner, inserted.node, pages);
    own.registered = own.own_from = pages;
    lock_for_sharers(sequence.id, std::span(own.table).first(pages), present);
}

void RadixIndex::replace(const CacheSequence& sequence, Owner& owner, std::uint32_t block, BlockId page,
                         std::vector<Event>& events) {
    BlockId& entry = owner.state->groups[0].table[block];
    if (entry == page) return;
    Event hit = index_event(EventKind::prefix_hit, Cause::duplicate_owner, sequence.id, page);
    hit.other = block;
    events.push_back(hit);
    m_pool.touch(page);
    const BlockPool::Released released = m_pool.release(entry);
    Event freed = index_event(EventKind::free, Cause::duplicate_owner, sequence.id, entry);
    freed.other = static_cast<std::uint32_t>(released.owners_left);
    if (released.front) freed.flags |= Event::flag_front;
    events.push_back(freed);
    entry = page;
}

void RadixIndex::store(const CacheSequence& sequence, Owner& owner, std::uint32_t block, std::vector<Event>& events) {
    const BlockId id = owner.state->groups[0].table[block];
    const BlockHash& hash = owner.state->chain.hash(block);
    m_pool.set_hash(id, hash);
    const std::uint64_t shown = first_bytes(hash);
    Event event = index_event(EventKind::store, Cause::block_full, sequence.id, id);
    event.other = static_cast<std::uint32_t>(shown >> 32);
    event.tokens = static_cast<std::uint32_t>(shown);
    events.push_back(event);
}

// Pages first and later are new in the tree; forks that own some of them lock them too.
void RadixIndex::lock_for_sharers(SequenceId sequence, std::span<const BlockId> pages, std::uint32_t first) {
    const bool shared = std::any_of(pages.begin() + first, pages.end(),
                                    [this](BlockId id) { return m_pool.block(id).references > 1; });
    if (!shared) return;
    for (std::uint32_t id = 0; id < m_owners.size(); ++id) {
        Owner& owner = m_owners[id];
        if (!owner.state || id == sequence.value) continue;
        const std::vector<BlockId>& table = owner.state->groups[0].table;
        auto block = static_cast<std::uint32_t>(std::min(pages.size(), table.size()));
        const std::uint32_t begin = std::max(first, owner.pages);
        while (block > begin && table[block - 1] != pages[block - 1]) --block;
        if (block <= begin) continue;
        const RadixNodeId end = *m_tree.node_of(pages[block - 1]);
        move_lock(owner, m_tree.prefix_node(end, block * m_options.block_size), block);
    }
}

bool RadixIndex::pinned(BlockId block) const {
    const auto node = m_tree.node_of(block);
    return node && m_tree.view(*node).locks > 0;
}

std::uint32_t RadixIndex::evictable() const {
    return static_cast<std::uint32_t>(m_tree.evictable_tokens() / m_options.block_size);
}

void RadixIndex::let_go(std::span<const BlockId> pages, const Event& event, std::vector<Event>& events) {
    for (const BlockId page : pages) {
        m_pool.clear_hash(page);
        Event gone = event;
        gone.block = page;
        gone.flags = Event::flag_released;
        if (m_pool.let_go(page)) gone.flags |= Event::flag_front;
        events.push_back(gone);
    }
}

void RadixIndex::evict_for(std::uint32_t blocks, SequenceId taker, std::vector<Event>& events) {
    m_tree.set_listener(m_listener);
    const std::vector<BlockId> pages = m_tree.evict(std::uint64_t{blocks} * m_options.block_size);
    let_go(pages, index_event(EventKind::evict, Cause::leaf_evicted, taker, BlockId::none()), events);
}

// What the tree has is computed, and it is copied before it is written: the paged cache never takes its hash alone.
void RadixIndex::forget([[maybe_unused]] BlockId block) { assert(!m_tree.node_of(block)); }

void RadixIndex::evict(BlockId block, std::vector<Event>& events) {
    m_tree.set_listener(m_listener);
    const std::vector<BlockId> pages = m_tree.evict_page(block);
    let_go(pages, index_event(EventKind::evict, Cause::requested, SequenceId::none(), BlockId::none()), events);
}

void RadixIndex::reset(std::vector<Event>& events) {
    std::vector<BlockId> pages;
    const std::vector<RadixNodeId> nodes = m_tree.walk();
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
        const std::span<const BlockId> run = m_tree.view(*node).pages;
        pages.insert(pages.end(), run.rbegin(), run.rend());
    }
    m_tree.set_listener(m_listener);
    m_tree.clear();
    let_go(pages, index_event(EventKind::evict, Cause::requested, SequenceId::none(), BlockId::none()), events);
}

Result<void> RadixIndex::audit() const {
    const auto broken = [](BlockId block, const std::string& what) {
        return Error{"Radix index: block " + std::to_string(block.value) + " " + what,
                     "This is a defect of the program; please report it with the scenario."};
    };
    if (auto result = m_tree.audit(); !result) return result;
    std::unordered_map<std::uint32_t, std::uint32_t> locks;  // node -> sequences whose path goes through it
    for (const Owner& owner : m_owners)
        for (RadixNodeId node = owner.node; node != RadixTree::root; node = m_tree.view(node).parent) ++locks[node.value];
    std::uint32_t held = 0;
    for (const RadixNodeId node : m_tree.walk()) {
        if (node == RadixTree::root) continue;
        const RadixNodeView view = m_tree.view(node);
        if (view.locks != locks[node.value])
            return broken(view.pages[0], "begins a node that is locked " + std::to_string(view.locks) + " times, but " +
                                             std::to_string(locks[node.value]) + " sequences lock it");
        for (std::size_t index = 0; index < view.pages.size(); ++index) {
            const Block& block = m_pool.block(view.pages[index]);
            const BlockHash* hash = m_pool.hash(view.pages[index]);
            if (!hash || *hash != view.hashes[index]) return broken(view.pages[index], "has another hash than the tree");
            if (block.linked()) return broken(view.pages[index], "is in the tree and in the free queue");
            if (block.references > 0 && view.locks == 0) return broken(view.pages[index], "is owned, but may be evicted");
            held += block.references == 0;
        }
    }
    if (held != m_pool.held_count())
        return broken(null_block_id, "and the tree: " + std::to_string(held) + " pages without an owner, but " +
                                         std::to_string(m_pool.held_count()) + " held blocks");
    // CACHE_SEMANTICS 1.4: when nothing runs, free + evictable + protected = usable.
    if (m_pool.used_count() == 0 &&
        m_pool.free_count() + m_tree.total_tokens() / m_options.block_size != m_pool.usable())
        return broken(null_block_id, "and the tree: " + std::to_string(m_pool.free_count()) + " free + " +
                                         std::to_string(m_tree.total_tokens() / m_options.block_size) + " kept are not " +
                                         std::to_string(m_pool.usable()));
    return {};
}

}  // namespace kvloupe
