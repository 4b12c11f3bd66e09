// SPDX-License-Identifier: GPL-3.0-or-later
//
// HashIndex: chained hash -> the blocks with that content, in the order in which they came (CACHE_SEMANTICS 1.1). Equal
// blocks are never merged; a look-up answers with the first. O(1) per block, also with many equal ones.
// With compare_tokens a block counts as found only if its tokens and the whole hash of its prefix are equal, so that a
// shortened hash that collides is never believed.
#pragma once

#include "engine/cache/prefix_index.h"

#include <memory>
#include <unordered_map>
#include <vector>

namespace kvloupe {

class HashIndex final : public PrefixIndex {
public:
    // Both must outlive the index.
    HashIndex(BlockPool& pool, const CacheManagerOptions& options);

    PrefixMatch match(const CacheSequence& sequence, HashChain& chain) override;
    bool holds(const PrefixMatch& match, const HashChain& chain) const override;
    void after_grow(const CacheSequence& sequence, PagedSequence& state, std::vector<Event>& events) override;
    std::uint32_t group_of(BlockId block) const override { return m_entries[block.value].group; }
    void forget(BlockId block) override;
    void evict(BlockId block, std::vector<Event>& events) override;
    void reset(std::vector<Event>& events) override;
    Result<void> audit() const override;

    static HashChain::Rules rules(const CacheManagerOptions& options);

private:
    struct First8 {
        std::size_t operator()(const BlockHash& hash) const noexcept { return first_bytes(hash); }
    };
    // Blocks of equal hash are a list, linked through m_entries.
    struct Same {
        std::uint32_t first = 0;
        std::uint32_t last = 0;
    };
    struct Entry {
        std::uint32_t previous = 0;  // 0: none
        std::uint32_t next = 0;
        std::uint8_t group = 0;
    };
    // What a block is compared with.
    struct Key {
        std::uint32_t group;
        std::uint32_t block;  // logical
        std::span<const TokenId> tokens;
        const HashChain& chain;
    };

    BlockId find(const Key& key) const;
    BlockId find_unused(const Key& key, const std::vector<BlockId>& used) const;
    bool equal(std::uint32_t block, const Key& key) const;
    void insert(BlockId block, const Key& key);
    void keep_content(BlockId block, const Key& key);
    const TokenId* tokens_of(std::uint32_t block) const;
    std::uint32_t longest_supported(std::uint32_t group, std::uint32_t blocks, const CacheSequence& sequence,
                                    const HashChain& chain, std::vector<BlockId>& found) const;

    static constexpr std::uint32_t page_blocks = 1024;

    BlockPool& m_pool;
    const CacheManagerOptions& m_options;
    HashChain::Rules m_rules;
    std::vector<std::unordered_map<BlockHash, Same, First8>> m_blocks;  // (groups)
    std::vector<Entry> m_entries;                                       // (blocks)
    std::vector<std::unique_ptr<TokenId[]>> m_tokens;                   // pages of (page_blocks, block_size)
    std::vector<BlockHash> m_exact;                                     // (blocks), where hashes are shortened
};

}  // namespace kvloupe
