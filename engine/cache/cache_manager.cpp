// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/cache_manager.h"

#include "engine/cache/contiguous_cache.h"
#include "engine/cache/paged_cache.h"

#include <set>
#include <string>

namespace kvloupe {

namespace {

Result<void> check_sizes(const CacheManagerOptions& options) {
    if (options.block_size == 0) return Error{"cache.block_size is 0", "Give at least 1 slot a block."};
    if (options.blocks < 2)
        return Error{"cache.blocks is " + std::to_string(options.blocks) + ", but one of them is the null block", "Give at least 2."};
    if (std::uint64_t{options.blocks} * options.block_size > (std::uint64_t{1} << 40))
        return Error{"cache.blocks " + std::to_string(options.blocks) + " times cache.block_size " +
                         std::to_string(options.block_size) + " is more slots than can be counted",
                     "Give fewer or smaller blocks."};
    if (options.groups.empty() || options.groups.size() > 255)
        return Error{std::to_string(options.groups.size()) + " KV cache groups; there must be 1 to 255", ""};
    std::set<BlockId> seen;
    for (const BlockId block : options.free_queue)
        if (block == null_block_id || block.value >= options.blocks || !seen.insert(block).second)
            return Error{"The free queue cannot start with block " + std::to_string(block.value),
                         "Name each of the blocks 1 to " + std::to_string(options.blocks - 1) + " at most once."};
    return {};
}

Result<void> check_span(const AttentionSpan& span) {
    if (span.sinks > 0 && span.window == 0)
        return Error{"cache.sinks is " + std::to_string(span.sinks) + " without a window", "Give cache.window too, or no sinks."};
    if (span.chunk > 0 && span.window > 0)
        return Error{"cache.attention_chunk is " + std::to_string(span.chunk) + " beside a window of " + std::to_string(span.window),
                     "Give cache.window or cache.attention_chunk, not both."};
    return {};
}

Result<void> check_paged(const CacheManagerOptions& options, bool all_full) {
    if (options.watermark_blocks >= options.blocks - 1)
        return Error{"cache.watermark keeps " + std::to_string(options.watermark_blocks) + " blocks free, but only " +
                         std::to_string(options.blocks - 1) + " are usable",
                     "Give a share below 1."};
    if (!options.prefix_caching) return {};
    if (options.hash_bits < 1 || options.hash_bits > 256)
        return Error{"cache.hash_bits is " + std::to_string(options.hash_bits), "Give 1 to 256."};
    if (options.prefix_index != PrefixIndexKind::radix) return {};
    if (!all_full)
        return Error{"cache.prefix_index radix does not go with cache.window or cache.attention_chunk",
                     "Use the hash index, or full attention."};
    if (options.groups.size() > 1)
        return Error{"cache.prefix_index radix keeps one KV cache group, but there are " + std::to_string(options.groups.size()),
                     "Use the hash index."};
    return {};
}

Result<void> check_contiguous(const CacheManagerOptions& options, bool all_full) {
    if (options.prefix_caching)
        return Error{"cache.prefix_caching does not go with cache.kind contiguous: there are no blocks to share",
                     "Use cache.kind paged, or switch prefix caching off."};
    if (!all_full)
        return Error{"cache.window and cache.attention_chunk do not go with cache.kind contiguous", "Use cache.kind paged."};
    if (options.groups.size() > 1)
        return Error{"cache.kind contiguous keeps one KV cache group, but there are " + std::to_string(options.groups.size()),
                     "Use cache.kind paged."};
    if (options.host_blocks > 0)
        return Error{"scheduler.swap_blocks does not go with cache.kind contiguous", "Use cache.kind paged."};
    if (options.watermark_blocks > 0)
        return Error{"cache.watermark does not go with cache.kind contiguous", "Use cache.kind paged."};
    if (options.reserve == Reserve::max && options.max_model_len == 0)
        return Error{"cache.reserve max needs a length", "Give cache.max_model_len."};
    return {};
}

}  // namespace

Result<std::unique_ptr<CacheManager>> CacheManager::create(CacheManagerOptions options) {
    if (auto sizes = check_sizes(options); !sizes) return sizes.error();
    bool all_full = true;
    for (const CacheGroup& group : options.groups) {
        if (auto span = check_span(group.span); !span) return span.error();
        all_full = all_full && group.span.full();
    }
    if (options.kind == CacheKind::contiguous) {
        if (auto checked = check_contiguous(options, all_full); !checked) return checked.error();
        return std::unique_ptr<CacheManager>(std::make_unique<ContiguousCache>(std::move(options)));
    }
    if (auto checked = check_paged(options, all_full); !checked) return checked.error();
    return std::unique_ptr<CacheManager>(std::make_unique<PagedCache>(std::move(options)));
}

}  // namespace kvloupe
