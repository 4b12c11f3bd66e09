// SPDX-License-Identifier: GPL-3.0-or-later
//
// Options that contradict each other are refused by a sentence that names the scenario's key.
#include "engine/cache/cache_manager.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <functional>

using namespace kvloupe;
using namespace kvloupe::test;

using Change = std::function<void(CacheManagerOptions&)>;

namespace {

struct ContradictionsAreRefusedByNameCase {
    Change change;
    std::string key;
};
Cases<ContradictionsAreRefusedByNameCase> contradictionsAreRefusedByName_cases() {
    Cases<ContradictionsAreRefusedByNameCase> cases;
    const auto row = [&](const char* name, const char* key, Change change) { cases.add(name, {change, std::string(key)}); };
    const auto contiguous = [&](Change further) -> Change {
        return [further](CacheManagerOptions& options) {
            options.kind = CacheKind::contiguous;
            options.prefix_caching = false;
            options.max_model_len = 64;
            further(options);
        };
    };
    row("no block size", "cache.block_size", [](auto& o) { o.block_size = 0; });
    row("no usable block", "cache.blocks", [](auto& o) { o.blocks = 1; });
    row("too many slots", "cache.blocks", [](auto& o) { o.blocks = 1u << 31, o.block_size = 1u << 31; });
    row("sinks without a window", "cache.sinks", [](auto& o) { o.groups[0].span.sinks = 4; });
    row("chunk and window", "cache.attention_chunk", [](auto& o) { o.groups[0].span = {8, 0, 8}; });
    row("watermark of all blocks", "cache.watermark", [](auto& o) { o.watermark_blocks = o.blocks - 1; });
    row("no hash bits", "cache.hash_bits", [](auto& o) { o.hash_bits = 0; });
    row("too many hash bits", "cache.hash_bits", [](auto& o) { o.hash_bits = 257; });
    row("radix with a window", "cache.prefix_index",
        [](auto& o) { o.prefix_index = PrefixIndexKind::radix, o.groups[0].span.window = 8; });
    row("radix with a chunk", "cache.prefix_index",
        [](auto& o) { o.prefix_index = PrefixIndexKind::radix, o.groups[0].span.chunk = 8; });
    row("radix with groups", "cache.prefix_index", [](auto& o) { o.prefix_index = PrefixIndexKind::radix, o.groups.resize(2); });
    row("no group", "group", [](auto& o) { o.groups.clear(); });
    row("contiguous with prefix caching", "cache.prefix_caching", contiguous([](auto& o) { o.prefix_caching = true; }));
    row("contiguous with a window", "cache.window", contiguous([](auto& o) { o.groups[0].span.window = 8; }));
    row("contiguous with a chunk", "cache.attention_chunk", contiguous([](auto& o) { o.groups[0].span.chunk = 8; }));
    row("contiguous with swapping", "scheduler.swap_blocks", contiguous([](auto& o) { o.host_blocks = 4; }));
    row("contiguous without a length", "cache.max_model_len", contiguous([](auto& o) { o.max_model_len = 0; }));
    row("free queue with the null block", "block 0", [](auto& o) { o.free_queue = {BlockId{0}}; });
    row("free queue beyond the pool", "block 9", [](auto& o) { o.free_queue = {BlockId{9}}; });
    row("free queue with a block twice", "block 3", [](auto& o) { o.free_queue = {BlockId{3}, BlockId{3}}; });
    return cases;
}
void contradictionsAreRefusedByName(Check& check, const ContradictionsAreRefusedByNameCase& row) {
    CacheManagerOptions options;
    options.blocks = 9;
    options.prefix_caching = true;
    CHECK_THAT(CacheManager::create(options));
    row.change(options);
    const auto made = CacheManager::create(options);
    CHECK_THAT(!made);
    const std::string sentence = made.error().message();
    CHECK_OR_SAY(contains(sentence, row.key), sentence);
}

Cases<Change> whatIsAllowed_cases() {
    Cases<Change> cases;
    const auto row = [&](const char* name, Change change) { cases.add(name, change); };
    row("one usable block", [](auto& o) { o.blocks = 2; });
    row("window of 1", [](auto& o) { o.groups[0].span.window = 1; });
    row("one hash bit", [](auto& o) { o.hash_bits = 1; });
    row("watermark that leaves one block", [](auto& o) { o.watermark_blocks = o.blocks - 2; });
    row("groups with and without windows", [](auto& o) { o.groups = {{{}, {}}, {{8, 2, 0}, {}}, {{0, 0, 4}, {}}}; });
    row("all free blocks named", [](auto& o) { o.blocks = 3, o.free_queue = {BlockId{2}, BlockId{1}}; });
    return cases;
}
void whatIsAllowed(Check& check, const Change& change) {
    CacheManagerOptions options;
    options.blocks = 9;
    options.prefix_caching = true;
    change(options);
    const auto made = CacheManager::create(options);
    CHECK_THAT(made);
    CHECK_THAT((*made)->audit());
    CHECK_EQUAL((*made)->free_blocks(), options.blocks - 1);
    if (!options.free_queue.empty()) CHECK_THAT((*made)->free_order() == options.free_queue);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(contradictionsAreRefusedByName), contradictionsAreRefusedByName_cases());
    claims.add(CLAIM(whatIsAllowed), whatIsAllowed_cases());
    return claims.rows();
}
