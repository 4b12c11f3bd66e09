// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/hash_index.h"

#include "engine/cache/attention_span.h"

#include <algorithm>
#include <bit>

namespace kvloupe {

HashChain::Rules HashIndex::rules(const CacheManagerOptions& options) {
    return {options.block_size, options.hash_bits, options.tag_extra_keys, options.compare_tokens};
}

HashIndex::HashIndex(BlockPool& pool, const CacheManagerOptions& options)
    : m_pool(pool), m_options(options), m_rules(rules(options)), m_entries(pool.size()), m_buckets(std::bit_ceil(pool.size())) {
    if (credulous()) m_truth.resize(pool.size());
    if (!options.compare_tokens) return;
    m_tokens.resize(pool.size() / page_blocks + 1);
    if (options.hash_bits < 256) m_exact.resize(pool.size());
}

std::unique_ptr<PrefixIndex> HashIndex::clone(BlockPool& pool, const CacheManagerOptions& options, const Sequences&) const {
    auto copy = std::make_unique<HashIndex>(pool, options);
    copy->m_entries = m_entries;
    copy->m_truth = m_truth;
    copy->m_buckets = m_buckets;
    copy->m_exact = m_exact;
    const std::size_t page = std::size_t{page_blocks} * m_options.block_size;
    for (std::size_t i = 0; i < m_tokens.size(); ++i) {
        if (!m_tokens[i]) continue;
        copy->m_tokens[i] = std::make_unique<TokenId[]>(page);
        std::copy_n(m_tokens[i].get(), page, copy->m_tokens[i].get());
    }
    return copy;
}

std::uint64_t HashIndex::bytes() const {
    const auto pages = static_cast<std::uint64_t>(std::count_if(m_tokens.begin(), m_tokens.end(), [](const auto& page) { return page != nullptr; }));
    return m_entries.size() * sizeof(Entry) + (m_truth.size() + m_exact.size()) * sizeof(BlockHash) +
           m_buckets.size() * sizeof(std::uint32_t) + pages * page_blocks * m_options.block_size * sizeof(TokenId);
}

HashChain HashIndex::truth_of(const CacheSequence& sequence, std::uint32_t blocks) const {
    HashChain chain;
    chain.extend({m_options.block_size, 256, true, false}, sequence.tokens, sequence.keys, blocks);
    return chain;
}

Cause HashIndex::cause_of_hit(const CacheSequence& sequence, std::uint32_t logical, BlockId block) const {
    if (!credulous() || m_truth[block.value] == truth_of(sequence, logical + 1).hash(logical)) return Cause::prefix_shared;
    return m_options.hash_bits < 256 && !m_options.compare_tokens ? Cause::hash_collision : Cause::keys_confused;
}

const TokenId* HashIndex::tokens_of(std::uint32_t block) const {
    return m_tokens[block / page_blocks].get() + std::size_t{block % page_blocks} * m_options.block_size;
}

bool HashIndex::equal(std::uint32_t block, const Key& key) const {
    if (!m_options.compare_tokens) return true;
    const auto own = key.tokens.subspan(std::size_t{key.block} * m_options.block_size, m_options.block_size);
    if (!std::equal(own.begin(), own.end(), tokens_of(block))) return false;
    return m_exact.empty() || m_exact[block] == key.chain.exact(key.block);
}

// The first block with this hash, 0 if there is none.
std::uint32_t HashIndex::first_of(const BlockHash& hash, std::uint32_t group) const {
    const std::uint64_t mix = mixed(hash, group);
    const auto tag = static_cast<std::uint32_t>(mix);
    for (std::uint32_t block = m_buckets[(mix >> 32) & (m_buckets.size() - 1)]; block != 0; block = m_entries[block].below)
        if (m_entries[block].tag == tag && m_entries[block].group == group && *m_pool.hash(BlockId{block}) == hash) return block;
    return 0;
}

BlockId HashIndex::find(const Key& key) const {
    for (std::uint32_t block = first_of(key.chain.hash(key.block), key.group); block != 0; block = m_entries[block].next)
        if (equal(block, key)) return BlockId{block};
    return BlockId::none();
}

// As find(), but never a block of the match so far: a collision that is believed could put one block into a table twice.
BlockId HashIndex::find_unused(const Key& key, const std::vector<BlockId>& used) const {
    const BlockId block = find(key);
    if (m_options.compare_tokens || m_options.hash_bits == 256) return block;
    return std::find(used.begin(), used.end(), block) == used.end() ? block : BlockId::none();
}

// The largest count of blocks, at most `blocks`, after which the group's next query finds all that it sees cached. A hit
// ends with a cached block, also where that block itself is out of sight. found: none = not looked up yet, the null
// block = not cached.
std::uint32_t HashIndex::longest_supported(std::uint32_t group, std::uint32_t blocks, const CacheSequence& sequence,
                                           const HashChain& chain, std::vector<BlockId>& found) const {
    const auto cached = [&](std::uint32_t block) {
        BlockId& entry = found[block];
        if (!entry.valid()) {
            entry = null_block_id;
            if (const BlockId id = find_unused({group, block, sequence.tokens, chain}, found); id.valid()) entry = id;
        }
        return entry != null_block_id;
    };
    while (blocks > 0) {
        const BlockRange unseen =
            unseen_blocks(m_options.groups[group].span, blocks * m_options.block_size, m_options.block_size);
        std::uint32_t missing = blocks;
        if (!cached(blocks - 1)) missing = blocks - 1;
        for (std::uint32_t block = blocks; missing == blocks && block-- > 0;) {
            if (unseen.contains(block)) {
                block = unseen.begin;
                continue;
            }
            if (!cached(block)) missing = block;
        }
        if (missing == blocks) return blocks;
        blocks = missing;
    }
    return 0;
}

PrefixMatch HashIndex::match(const CacheSequence& sequence, HashChain& chain) {
    const std::uint32_t size = m_options.block_size;
    const auto groups = static_cast<std::uint32_t>(m_options.groups.size());
    // The last token is computed again, because its logits are needed.
    auto blocks = static_cast<std::uint32_t>(sequence.tokens.empty() ? 0 : (sequence.tokens.size() - 1) / size);
    std::vector<std::vector<BlockId>> found(groups);
    bool any_full = false;
    for (std::uint32_t group = 0; group < groups; ++group) {
        if (!m_options.groups[group].span.full()) continue;
        any_full = true;
        for (std::uint32_t block = 0; block < blocks; ++block) {
            chain.extend(m_rules, sequence.tokens, sequence.keys, block + 1);
            const BlockId id = find_unused({group, block, sequence.tokens, chain}, found[group]);
            if (!id.valid()) blocks = block;
            else found[group].push_back(id);
        }
    }
    if (!any_full) chain.extend(m_rules, sequence.tokens, sequence.keys, blocks);
    for (std::uint32_t group = 0; group < groups; ++group)
        if (!m_options.groups[group].span.full()) found[group].resize(blocks);
    for (bool changed = true; changed;) {
        changed = false;
        for (std::uint32_t group = 0; group < groups; ++group) {
            if (m_options.groups[group].span.full()) continue;
            const std::uint32_t supported = longest_supported(group, blocks, sequence, chain, found[group]);
            changed = changed || supported < blocks;
            blocks = supported;
        }
    }
    PrefixMatch match;
    match.tokens = blocks * size;
    for (std::uint32_t group = 0; group < groups; ++group) {
        found[group].resize(blocks);
        const BlockRange unseen = unseen_blocks(m_options.groups[group].span, match.tokens, size);
        for (std::uint32_t block = unseen.begin; block < unseen.end; ++block) found[group][block] = null_block_id;
    }
    match.blocks = std::move(found);
    return match;
}

bool HashIndex::holds(const PrefixMatch& match, const HashChain& chain) const {
    for (const std::vector<BlockId>& table : match.blocks)
        for (std::uint32_t block = 0; block < table.size(); ++block)
            if (table[block] != null_block_id &&
                (block >= chain.size() || !m_pool.hashed(table[block]) || *m_pool.hash(table[block]) != chain.hash(block)))
                return false;
    return true;
}

void HashIndex::keep_content(BlockId block, const Key& key) {
    auto& page = m_tokens[block.value / page_blocks];
    if (!page) page.reset(new TokenId[std::size_t{page_blocks} * m_options.block_size]);
    const auto own = key.tokens.subspan(std::size_t{key.block} * m_options.block_size, m_options.block_size);
    std::copy(own.begin(), own.end(), page.get() + std::size_t{block.value % page_blocks} * m_options.block_size);
    if (!m_exact.empty()) m_exact[block.value] = key.chain.exact(key.block);
}

void HashIndex::insert(BlockId block, const Key& key) {
    const BlockHash& hash = key.chain.hash(key.block);
    Entry& entry = m_entries[block.value];
    entry = {};
    entry.group = key.group;
    const std::uint64_t mix = mixed(hash, key.group);
    entry.tag = static_cast<std::uint32_t>(mix);
    if (const std::uint32_t first = first_of(hash, key.group); first != 0) {
        entry.previous = m_entries[first].previous;
        m_entries[entry.previous].next = block.value;
        m_entries[first].previous = block.value;
    } else {
        std::uint32_t& head = bucket(mix);
        entry.previous = block.value;
        entry.below = head;
        if (head != 0) m_entries[head].above = block.value;
        head = block.value;
    }
    m_pool.set_hash(block, hash);
    if (m_options.compare_tokens) keep_content(block, key);
    if (key.truth) m_truth[block.value] = key.truth->hash(key.block);
}

// Out of the list of equal blocks and, if it was their first, out of its bucket's; the next equal one takes its place.
void HashIndex::remove(BlockId block, const BlockHash& hash) {
    const Entry entry = m_entries[block.value];
    if (m_entries[entry.previous].next != 0) {  // it is not the first
        m_entries[entry.next != 0 ? entry.next : first_of(hash, entry.group)].previous = entry.previous;
        m_entries[entry.previous].next = entry.next;
        return;
    }
    const std::uint32_t heir = entry.next;
    if (heir != 0) {
        m_entries[heir].previous = entry.previous;
        m_entries[heir].above = entry.above;
        m_entries[heir].below = entry.below;
    }
    (entry.above != 0 ? m_entries[entry.above].below : bucket(mixed(hash, entry.group))) = heir != 0 ? heir : entry.below;
    if (entry.below != 0) m_entries[entry.below].above = heir != 0 ? heir : entry.above;
}

void HashIndex::after_grow(const CacheSequence& sequence, PagedSequence& state, std::vector<Event>& events) {
    const std::uint32_t size = m_options.block_size;
    const auto full = static_cast<std::uint32_t>(std::min<std::size_t>(state.covered, sequence.tokens.size()) / size);
    for (std::uint32_t group = 0; group < state.groups.size(); ++group) {
        PagedSequence::Group& own = state.groups[group];
        if (own.registered >= full) continue;
        state.chain.extend(m_rules, sequence.tokens, sequence.keys, full);
        const HashChain truth = credulous() ? truth_of(sequence, full) : HashChain();
        std::uint32_t batch = own.registered;  // first block of the listener's batch
        const auto tell = [&](std::uint32_t end) {
            if (m_listener && end > batch)
                m_listener->block_stored(state.chain.hashes().subspan(batch, end - batch),
                                         batch == 0 ? std::nullopt : std::optional(state.chain.hash(batch - 1)),
                                         sequence.tokens.subspan(std::size_t{batch} * size, std::size_t{end - batch} * size));
        };
        for (std::uint32_t block = own.registered; block < full; ++block) {
            const BlockId id = own.table[block];
            if (id == null_block_id || m_pool.hashed(id)) {  // out of sight, or another owner filled it
                tell(block);
                batch = block + 1;
                continue;
            }
            insert(id, {group, block, sequence.tokens, state.chain, credulous() ? &truth : nullptr});
            const std::uint64_t shown = first_bytes(state.chain.hash(block));
            Event event;
            event.kind = EventKind::store;
            event.cause = Cause::block_full;
            event.group = static_cast<std::uint8_t>(group);
            event.sequence = sequence.id;
            event.block = id;
            event.other = static_cast<std::uint32_t>(shown >> 32);
            event.tokens = static_cast<std::uint32_t>(shown);
            events.push_back(event);
        }
        tell(full);
        own.registered = full;
    }
}

void HashIndex::forget(BlockId block) {
    const BlockHash hash = *m_pool.hash(block);
    remove(block, hash);
    m_pool.clear_hash(block);
    if (m_listener) m_listener->block_removed(std::span(&hash, 1));
}

void HashIndex::evict(BlockId block, std::vector<Event>& events) {
    Event event;
    event.kind = EventKind::evict;
    event.cause = Cause::requested;
    event.group = static_cast<std::uint8_t>(m_entries[block.value].group);
    event.block = block;
    forget(block);
    events.push_back(event);
}

void HashIndex::reset(std::vector<Event>&) {
    std::fill(m_buckets.begin(), m_buckets.end(), 0);
    m_pool.clear_all_hashes();
    if (m_listener) m_listener->all_blocks_cleared();
}

Result<void> HashIndex::audit() const {
    const auto broken = [](std::uint32_t block, const std::string& what) {
        return Error{"Cache invariant 4 does not hold: the prefix index points at block " + std::to_string(block) + ", " + what,
                     "This is a defect of the program; please report it with the scenario."};
    };
    std::size_t listed = 0, hashed = 0;
    for (std::uint32_t head : m_buckets)
        for (std::uint32_t above = 0; head != 0; above = head, head = m_entries[head].below) {
            if (!m_pool.hashed(BlockId{head})) return broken(head, "which has no hash");
            const BlockHash& hash = *m_pool.hash(BlockId{head});
            if (m_entries[head].above != above) return broken(head, "whose bucket is linked wrongly");
            std::uint32_t previous = m_entries[head].previous;
            for (std::uint32_t block = head; block != 0; previous = block, block = m_entries[block].next) {
                if (++listed > m_pool.size()) return broken(block, "whose list of equal blocks has no end");
                if (!m_pool.hashed(BlockId{block}) || *m_pool.hash(BlockId{block}) != hash)
                    return broken(block, "whose hash is another");
                if (m_entries[block].previous != previous || m_entries[block].group != m_entries[head].group)
                    return broken(block, "whose entry is linked wrongly");
            }
            if (m_entries[head].previous != previous) return broken(previous, "which is not the last of its list");
            if (first_of(hash, m_entries[head].group) != head) return broken(head, "which a look-up does not find");
        }
    for (std::uint32_t block = 0; block < m_pool.size(); ++block) hashed += m_pool.hashed(BlockId{block});
    if (hashed != listed)
        return Error{"Cache invariant 4 does not hold: " + std::to_string(hashed) + " blocks have a hash, but the prefix index lists " +
                         std::to_string(listed),
                     "This is a defect of the program; please report it with the scenario."};
    return {};
}

}  // namespace kvloupe
