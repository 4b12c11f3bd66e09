// SPDX-License-Identifier: GPL-3.0-or-later
//
// HashIndex: chained hash -> the blocks with that content, in the order in which they came (CACHE_SEMANTICS 1.1). Equal
// blocks are never merged; a look-up answers with the first. O(1) per block, also with many equal ones.
// With compare_tokens a block counts as found only if its tokens and the whole hash of its prefix are equal, so that a
// shortened hash that collides is never believed.
#pragma once

#include "engine/cache/prefix_index.h"

#include <memory>
#include <vector>

namespace kvloupe {

class HashIndex final : public PrefixIndex {
public:
    // Both must outlive the index.
    HashIndex(BlockPool& pool, const CacheManagerOptions& options);

    PrefixMatch match(const CacheSequence& sequence, HashChain& chain) override;
    bool holds(const PrefixMatch& match, const HashChain& chain) const override;
    void after_grow(const CacheSequence& sequence, PagedSequence& state, std::vector<Event>& events) override;
    Cause cause_of_hit(const CacheSequence& sequence, std::uint32_t logical, BlockId block) const override;
    std::uint32_t group_of(BlockId block) const override { return m_entries[block.value].group; }
    void forget(BlockId block) override;
    void evict(BlockId block, std::vector<Event>& events) override;
    void reset(std::vector<Event>& events) override;
    std::unique_ptr<PrefixIndex> clone(BlockPool& pool, const CacheManagerOptions& options, const Sequences& sequences) const override;
    std::uint64_t bytes() const override;
    Result<void> audit() const override;

    static HashChain::Rules rules(const CacheManagerOptions& options);

private:
    // Blocks of equal hash and group are a list in the order in which they came; the first of each list stands in the
    // list of its bucket. 0: none.
    struct Entry {
        std::uint32_t previous = 0;  // equal block before it; of the first: the last
        std::uint32_t next = 0;
        std::uint32_t above = 0;     // in the bucket; of the first of a list
        std::uint32_t below = 0;
        std::uint32_t group = 0;
        std::uint32_t tag = 0;       // of hash and group: tells most others in the bucket apart
    };
    // What a block is compared with.
    struct Key {
        std::uint32_t group;
        std::uint32_t block;  // logical
        std::span<const TokenId> tokens;
        const HashChain& chain;
        const HashChain* truth = nullptr;  // the chain by whole, tagged hashes, where hits may be wrong
    };

    // Bits from hash and group: high ones choose the bucket, low ones are the tag.
    static std::uint64_t mixed(const BlockHash& hash, std::uint32_t group) {
        // The multiplier spreads short hashes, whose low bits are all 0.
        const std::uint64_t product = (first_bytes(hash) + group) * 0x9E3779B97F4A7C15u;
        return product ^ product >> 32;
    }
    std::uint32_t& bucket(std::uint64_t mix) { return m_buckets[(mix >> 32) & (m_buckets.size() - 1)]; }
    std::uint32_t first_of(const BlockHash& hash, std::uint32_t group) const;
    void remove(BlockId block, const BlockHash& hash);
    BlockId find(const Key& key) const;
    BlockId find_unused(const Key& key, const std::vector<BlockId>& used) const;
    bool equal(std::uint32_t block, const Key& key) const;
    void insert(BlockId block, const Key& key);
    void keep_content(BlockId block, const Key& key);
    const TokenId* tokens_of(std::uint32_t block) const;
    std::uint32_t longest_supported(std::uint32_t group, std::uint32_t blocks, const CacheSequence& sequence,
                                    const HashChain& chain, std::vector<BlockId>& found) const;

    // By the rules chosen (for teaching) a hit can be wrong.
    bool credulous() const { return (m_options.hash_bits < 256 && !m_options.compare_tokens) || !m_options.tag_extra_keys; }
    HashChain truth_of(const CacheSequence& sequence, std::uint32_t blocks) const;

    static constexpr std::uint32_t page_blocks = 1024;

    BlockPool& m_pool;
    const CacheManagerOptions& m_options;
    HashChain::Rules m_rules;
    std::vector<Entry> m_entries;                      // (blocks); counts while the pool says that it has a hash
    std::vector<BlockHash> m_truth;                    // (blocks) what a block really holds; empty unless credulous
    std::vector<std::uint32_t> m_buckets;              // (a power of two >= blocks) first block
    std::vector<std::unique_ptr<TokenId[]>> m_tokens;  // pages of (page_blocks, block_size)
    std::vector<BlockHash> m_exact;                    // (blocks), where hashes are shortened
};

}  // namespace kvloupe
