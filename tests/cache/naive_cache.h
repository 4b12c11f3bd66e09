// SPDX-License-Identifier: GPL-3.0-or-later
//
// The paged cache once more, from the rules alone (CACHE_SEMANTICS 1.1, 1.2, 1.9): lists, linear searches, whole prefixes
// in place of chained hashes, and a plan that is tried on a copy. No regard for speed.
#pragma once

#include "engine/cache/attention_span.h"
#include "engine/cache/block_hash.h"
#include "engine/cache/cache_manager.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe {

class NaiveCache {
public:
    // What makes content equal: all tokens up to the end of the block, and the extra keys.
    struct Content {
        std::vector<TokenId> prefix;
        std::string adapter, salt;
        std::uint32_t group = 0;
        BlockHash hash{};
        std::uint64_t order = 0;  // of registering

        bool same(const Content& other) const {
            return prefix == other.prefix && adapter == other.adapter && salt == other.salt && group == other.group;
        }
    };
    struct Block {
        int references = 0;
        std::optional<Content> content;
    };
    struct Sequence {
        std::vector<std::vector<std::uint32_t>> tables;                   // (groups)(logical); 0 = null
        std::vector<std::uint32_t> done;                                  // (groups) blocks that were registered or found
        std::vector<std::pair<std::uint32_t, std::uint32_t>> registered;  // (group, logical) that it registered itself
    };
    struct Swapped {
        std::vector<std::vector<bool>> kept;
        std::uint32_t computed = 0;
    };
    struct Grow {
        std::uint32_t computed = 0, count = 0, lookahead = 0;
        bool admission = false, others = false, whole = false;
    };

    explicit NaiveCache(CacheManagerOptions options) : m_options(std::move(options)), m_blocks(m_options.blocks) {
        for (const BlockId block : m_options.free_queue) m_queue.push_back(block.value);
        for (std::uint32_t block = 1; block < m_options.blocks; ++block)
            if (std::find(m_queue.begin(), m_queue.end(), block) == m_queue.end()) m_queue.push_back(block);
    }

    const std::vector<Block>& blocks() const { return m_blocks; }
    const std::vector<std::uint32_t>& queue() const { return m_queue; }
    const std::map<std::uint32_t, Sequence>& sequences() const { return m_sequences; }
    const std::map<std::uint32_t, Swapped>& swapped() const { return m_swapped; }

    std::uint32_t host_used() const {
        std::uint32_t used = 0;
        for (const auto& [id, swapped] : m_swapped) used += kept_blocks(swapped);
        return used;
    }
    static std::uint32_t kept_blocks(const Swapped& swapped) {
        std::uint32_t count = 0;
        for (const auto& table : swapped.kept) count += static_cast<std::uint32_t>(std::count(table.begin(), table.end(), true));
        return count;
    }

    // A query at `computed` or later sees a token of the block.
    bool seen(std::uint32_t group, std::uint32_t computed, std::uint32_t logical) const {
        const AttentionSpan& span = m_options.groups[group].span;
        for (std::uint32_t key = logical * size(); key < (logical + 1) * size(); ++key) {
            if (span.window > 0 && (key < span.sinks || key + span.window > computed)) return true;
            if (span.chunk > 0 && key / span.chunk >= computed / span.chunk) return true;
            if (span.full()) return true;
        }
        return false;
    }

    Content content(const CacheSequence& sequence, std::uint32_t group, std::uint32_t logical) const {
        Content made;
        made.prefix.assign(sequence.tokens.begin(), sequence.tokens.begin() + (logical + 1) * size());
        const bool tagged = m_options.tag_extra_keys;
        made.adapter = sequence.keys.adapter, made.salt = sequence.keys.salt;
        made.group = group;
        BlockHash hash = root_hash();
        for (std::uint32_t block = 0; block <= logical; ++block)
            hash = shortened(hash_block(hash, std::span<const TokenId>(made.prefix).subspan(block * size(), size()),
                                        {made.adapter, block == 0 ? std::string_view(made.salt) : std::string_view()}, tagged),
                             m_options.hash_bits);
        made.hash = hash;
        // Bare keys: what an adapter says in the first block, a salt may say as well.
        if (!tagged && logical == 0 && made.adapter.empty()) std::swap(made.adapter, made.salt);
        return made;
    }

    // The block registered first with this content (without comparison: with this hash); 0: none.
    std::uint32_t look_up(const Content& wanted) const {
        std::uint32_t found = 0;
        for (std::uint32_t block = 1; block < m_blocks.size(); ++block) {
            const auto& own = m_blocks[block].content;
            if (!own || own->group != wanted.group || own->hash != wanted.hash) continue;
            if (m_options.compare_tokens && !own->same(wanted)) continue;
            if (found == 0 || own->order < m_blocks[found].content->order) found = block;
        }
        return found;
    }

    // The longest prefix after which every group finds all it sees; the tables of its hits.
    std::vector<std::vector<std::uint32_t>> match(const CacheSequence& sequence) const {
        const auto groups = static_cast<std::uint32_t>(m_options.groups.size());
        if (!m_options.prefix_caching || sequence.tokens.empty()) return std::vector<std::vector<std::uint32_t>>(groups);
        const auto most = static_cast<std::uint32_t>((sequence.tokens.size() - 1) / size());
        std::vector<std::vector<std::uint32_t>> found(groups);
        for (std::uint32_t group = 0; group < groups; ++group)
            for (std::uint32_t block = 0; block < most; ++block) found[group].push_back(look_up(content(sequence, group, block)));
        for (std::uint32_t length = most; length > 0; --length) {
            bool supported = true;
            for (std::uint32_t group = 0; group < groups; ++group)
                for (std::uint32_t block = 0; block < length; ++block)
                    supported = supported && (found[group][block] != 0 || (block + 1 < length && !seen(group, length * size(), block)));
            if (!supported) continue;
            for (std::uint32_t group = 0; group < groups; ++group) {
                found[group].resize(length);
                for (std::uint32_t block = 0; block < length; ++block)
                    if (!seen(group, length * size(), block)) found[group][block] = 0;
            }
            return found;
        }
        return std::vector<std::vector<std::uint32_t>>(groups);
    }

    // Why it is refused, with nothing changed; none: done.
    Cause grow(const CacheSequence& sequence, const Grow& step, const std::vector<std::vector<std::uint32_t>>& hits) {
        NaiveCache tried = *this;
        const std::size_t before = m_queue.size();
        std::size_t given_back = 0;
        const bool fits = tried.try_grow(sequence, step, hits, given_back);
        const std::size_t available = before + given_back;
        if (!fits) return Cause::pool_too_full;
        if (step.admission && step.whole) {
            std::uint64_t whole = 0;
            const std::uint64_t all = std::max<std::uint64_t>(sequence.tokens.size(), step.computed + step.count + step.lookahead);
            for (std::uint32_t group = 0; group < hits.size(); ++group) {
                const std::uint64_t needed = (all + size() - 1) / size();
                std::uint64_t cap = most_blocks(m_options.groups[group].span, all, std::max(1u, step.count), size());
                for (const std::uint32_t block : hits[group]) {
                    whole += block != 0 && m_blocks[block].references == 0;
                    cap -= block != 0 && cap > 0;
                }
                whole += std::min<std::uint64_t>(needed - std::min<std::uint64_t>(needed, hits[group].size()), cap);
            }
            if (whole > available) return Cause::prompt_too_long_now;
        }
        const std::size_t kept = step.admission && step.others ? m_options.watermark_blocks : 0;
        if (kept > 0 && available - tried.m_queue.size() > available - std::min(available, kept)) return Cause::below_watermark;
        *this = std::move(tried);
        return Cause::none;
    }

    void fork(std::uint32_t child, std::uint32_t parent, std::uint32_t position) {
        Sequence made;
        for (const auto& table : m_sequences.at(parent).tables) {
            made.tables.emplace_back(table.begin(), table.begin() + (position + size() - 1) / size());
            for (const std::uint32_t block : made.tables.back())
                if (block != 0) ++m_blocks[block].references;
            made.done.push_back(position / size());
        }
        m_sequences[child] = std::move(made);
    }

    // Everything beyond `valid` tokens that it registered itself loses its content.
    void release(std::uint32_t id, std::uint32_t valid) {
        m_swapped.erase(id);
        const auto found = m_sequences.find(id);
        if (found == m_sequences.end()) return;
        Sequence& own = found->second;
        for (std::uint32_t group = 0; group < own.tables.size(); ++group)
            for (auto block = static_cast<std::uint32_t>(own.tables[group].size()); block-- > 0;) {
                const std::uint32_t at = own.tables[group][block];
                if (at == 0) continue;
                const bool mine = std::find(own.registered.begin(), own.registered.end(), std::pair{group, block}) != own.registered.end();
                if (mine && (std::uint64_t{block} + 1) * size() > valid) m_blocks[at].content.reset();
                leave(at);
            }
        m_sequences.erase(found);
    }

    void swap_out(std::uint32_t id, std::uint32_t computed) {
        Swapped swapped;
        swapped.computed = computed;
        for (const auto& table : m_sequences.at(id).tables) {
            auto& kept = swapped.kept.emplace_back();
            for (std::uint32_t block = 0; block * size() < computed; ++block) kept.push_back(table[block] != 0);
        }
        release(id, computed);
        m_swapped[id] = std::move(swapped);
    }

    bool swap_in(std::uint32_t id) {
        const Swapped swapped = m_swapped.at(id);
        if (kept_blocks(swapped) > m_queue.size()) return false;
        Sequence made;
        for (const auto& table : swapped.kept) {
            auto& own = made.tables.emplace_back();
            for (const bool kept : table) own.push_back(kept ? pop() : 0);
            made.done.push_back(0);
        }
        m_sequences[id] = std::move(made);
        m_swapped.erase(id);
        return true;
    }

    void evict(std::uint32_t block) { m_blocks[block].content.reset(); }
    void reset() {
        for (Block& block : m_blocks) block.content.reset();
    }

private:
    std::uint32_t size() const { return m_options.block_size; }

    std::uint32_t pop() {
        const std::uint32_t block = m_queue.front();
        m_queue.erase(m_queue.begin());
        m_blocks[block] = {1, std::nullopt};
        return block;
    }

    void leave(std::uint32_t block) {
        if (--m_blocks[block].references > 0) return;
        const bool front = m_options.free_order == FreeOrder::vllm && !m_blocks[block].content;
        m_queue.insert(front ? m_queue.begin() : m_queue.end(), block);
    }

    // given_back: blocks without owners that were freed because nobody sees them.
    bool try_grow(const CacheSequence& sequence, const Grow& step, const std::vector<std::vector<std::uint32_t>>& hits,
                  std::size_t& given_back) {
        const bool known = m_sequences.count(sequence.id.value) > 0;
        Sequence& own = m_sequences[sequence.id.value];
        const std::size_t before = m_queue.size();
        if (known) {
            for (std::uint32_t group = 0; group < own.tables.size(); ++group)
                for (auto block = static_cast<std::uint32_t>(own.tables[group].size()); block-- > 0;)
                    if (own.tables[group][block] != 0 && !seen(group, step.computed, block))
                        leave(std::exchange(own.tables[group][block], 0));
        } else {
            own.tables = hits;
            for (const auto& table : hits) own.done.push_back(static_cast<std::uint32_t>(table.size()));
            for (const auto& table : hits)
                for (const std::uint32_t block : table) {
                    if (block == 0) continue;
                    if (m_blocks[block].references++ == 0) m_queue.erase(std::find(m_queue.begin(), m_queue.end(), block));
                }
        }
        given_back = known ? m_queue.size() - before : 0;
        const std::uint32_t end = step.computed + step.count + step.lookahead;
        for (std::uint32_t group = 0; group < own.tables.size(); ++group)
            for (std::uint32_t block = step.computed / size(); block < own.tables[group].size() && block * size() < end; ++block) {
                std::uint32_t& at = own.tables[group][block];
                if (at == 0) continue;
                if (m_blocks[at].references > 1 || m_blocks[at].content) own.done[group] = std::min(own.done[group], block);
                if (m_blocks[at].references > 1) {
                    if (m_queue.empty()) return false;
                    --m_blocks[at].references;
                    at = pop();
                } else {
                    m_blocks[at].content.reset();
                }
            }
        for (auto& table : own.tables)
            while (table.size() * size() < end) {
                if (m_queue.empty()) return false;
                table.push_back(pop());
            }
        if (!m_options.prefix_caching) return true;
        const std::size_t full = std::min<std::size_t>(sequence.tokens.size(), step.computed + step.count) / size();
        for (std::uint32_t group = 0; group < own.tables.size(); ++group)
            for (std::uint32_t block = 0; block < full; ++block) {
                const std::uint32_t at = own.tables[group][block];
                if (at == 0 || m_blocks[at].content || block < own.done[group]) continue;
                m_blocks[at].content = content(sequence, group, block);
                m_blocks[at].content->order = ++m_order;
                own.registered.emplace_back(group, block);
            }
        for (std::uint32_t& done : own.done) done = std::max(done, static_cast<std::uint32_t>(full));
        return true;
    }

    CacheManagerOptions m_options;
    std::vector<Block> m_blocks;
    std::vector<std::uint32_t> m_queue;
    std::map<std::uint32_t, Sequence> m_sequences;
    std::map<std::uint32_t, Swapped> m_swapped;
    std::uint64_t m_order = 0;
};

}  // namespace kvloupe
