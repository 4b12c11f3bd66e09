// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/json_document.h"
#include "engine/serve/scenario_parts.h"

namespace kvloupe {

using nlohmann::json;

namespace {

constexpr std::uint32_t max_block_size = 1u << 20;
constexpr std::uint32_t max_blocks = 10'000'000;
constexpr std::uint32_t max_budget = 10'000'000;
constexpr std::uint32_t max_bytes_per_token = 1u << 30;

// Rules that a kind of cache leaves behind when a branch, or the first key of a lane, chooses the other one.
void forget_rules(CacheOptions& cache) {
    CacheOptions fresh;
    fresh.kind = cache.kind;
    fresh.block_size = cache.block_size;
    fresh.blocks = cache.blocks;
    fresh.memory_share = cache.memory_share;
    fresh.key_dtypes = std::move(cache.key_dtypes);
    fresh.value_dtypes = std::move(cache.value_dtypes);
    fresh.scale = cache.scale;
    fresh.group = cache.group;
    fresh.residual = cache.residual;
    fresh.rotate = cache.rotate;
    fresh.bytes_per_token = cache.bytes_per_token;
    fresh.max_model_len = cache.max_model_len;
    fresh.prefix_caching = cache.kind == CacheKind::paged;
    cache = std::move(fresh);
}

// Keys of the cache manager but those of the attention span.
void read_manager(KeyReader& reader, CacheOptions& cache) {
    const CacheKind inherited = cache.kind;
    reader.choice("kind", {"paged", "contiguous"}, cache.kind);
    if (cache.kind != inherited) forget_rules(cache);
    reader.boolean("prefix_caching", cache.prefix_caching);
    reader.choice("prefix_index", {"hash", "radix"}, cache.prefix_index);
    reader.choice("free_order", {"vllm", "append"}, cache.free_order);
    reader.choice("reserve", {"max", "pow2", "oracle", "grow"}, cache.reserve);
    reader.whole("max_model_len", 1, max_budget, cache.max_model_len);
    reader.whole("hash_bits", 1, 256, cache.hash_bits);
    reader.boolean("compare_tokens", cache.compare_tokens);
    reader.boolean("tag_extra_keys", cache.tag_extra_keys);
    reader.choice("radix_eviction", {"lru", "lfu", "fifo", "priority"}, cache.radix_eviction);
}

void read_span(KeyReader& reader, CacheOptions& cache) {
    AttentionSpan span = cache.span.value_or(AttentionSpan());
    reader.whole("window", 1, max_budget, span.window);
    reader.whole("sinks", 0, max_budget, span.sinks);
    reader.whole("attention_chunk", 1, max_budget, span.chunk);
    if (const auto rank = reader.choice("positions", {"absolute", "rank"})) cache.positions_by_rank = *rank == 1;
    if (span.sinks > 0 && span.window == 0)
        reader.fail("sinks", std::to_string(span.sinks) + " sinks without a window keep what is kept anyway",
                    "Give a window, or remove the sinks.");
    if (span.window > 0 && span.chunk > 0)
        reader.fail("attention_chunk", "a chunk and a window exclude each other", "Give one of the two.");
    if (cache.positions_by_rank && span.window == 0)
        reader.fail("positions", "'rank' differs from 'absolute' only where a window drops tokens", "Give a window, or remove the key.");
    if (!span.full()) cache.span = span;
}

// Rules that exclude each other, or that mean nothing for the kind.
void check_kind(KeyReader& reader, const CacheOptions& cache) {
    const bool radix = cache.prefix_index == PrefixIndexKind::radix;
    if (cache.kind == CacheKind::contiguous) {
        if (cache.prefix_caching)
            reader.fail("prefix_caching", "a contiguous region belongs to one request and cannot be shared",
                        "Remove the key, or give \"kind\": \"paged\".");
        for (const char* key : {"prefix_index", "free_order", "window", "sinks", "attention_chunk", "hash_bits",
                                "compare_tokens", "tag_extra_keys", "radix_eviction"})
            if (reader.value(key))
                reader.fail(key, "means nothing for a contiguous cache", "Remove the key, or give \"kind\": \"paged\".");
        if (cache.watermark > 0)
            reader.fail("watermark", "means nothing for a contiguous cache", "Remove the key, or give \"kind\": \"paged\".");
        return;
    }
    if (reader.value("reserve"))
        reader.fail("reserve", "means nothing for a paged cache, which takes blocks as they are needed",
                    "Remove the key, or give \"kind\": \"contiguous\".");
    if (reader.value("radix_eviction") && !radix)
        reader.fail("radix_eviction", "means nothing without a radix index", "Remove the key, or give \"prefix_index\": \"radix\".");
    if (!radix) return;
    if (!cache.prefix_caching)
        reader.fail("prefix_index", "a radix index needs prefix caching", "Remove \"prefix_caching\": false, or the index.");
    if (cache.span)
        reader.fail("prefix_index", std::string("a radix index needs all blocks of a prefix, but ") +
                                        (cache.span->window > 0 ? "a window" : "an attention chunk") + " gives some of them up",
                    "Give \"prefix_index\": \"hash\", or remove it.");
    if (cache.hash_bits != 256 || !cache.compare_tokens)
        reader.fail(cache.hash_bits != 256 ? "hash_bits" : "compare_tokens",
                    "means nothing for a radix index, which compares tokens and no hashes", "Remove the key.");
}

void read_cache(const json& value, const std::string& where, CacheOptions& cache, ReadFailure& failure) {
    KeyReader reader(value, where, failure);
    reader.whole("block_size", 1, max_block_size, cache.block_size);
    if (const json* blocks = reader.value("blocks"); blocks && *blocks == "auto") {
        cache.blocks.reset();
    } else if (blocks) {
        std::uint32_t count = 0;
        if (blocks->is_number_integer() && (*blocks == 0 || *blocks == 1))
            reader.fail("blocks", blocks->dump() + " leaves no block to use: block 0 is the null block",
                        "Give at least 2, or \"auto\".");
        reader.whole("blocks", 2, max_blocks, count);
        if (!reader.failed()) cache.blocks = count;
    }
    read_precision(reader, cache);
    reader.whole("bytes_per_token", 1, max_bytes_per_token, cache.bytes_per_token);
    read_manager(reader, cache);
    reader.number("watermark", 0, 1, cache.watermark);
    if (cache.watermark >= 1)
        reader.fail("watermark", "1 or more would leave no block to admission", "Give a share of the blocks below 1.");
    read_span(reader, cache);
    reader.number("memory_share", 0, 1, cache.memory_share);
    if (cache.memory_share == 0) reader.fail("memory_share", "0 leaves the pool no memory", "Give a share above 0, at most 1.");
    check_kind(reader, cache);
    reader.finish();
}

void read_scheduler(const json& value, const std::string& where, SchedulerOptions& scheduler, ReadFailure& failure) {
    KeyReader reader(value, where, failure);
    reader.whole("max_num_seqs", 1, 1'000'000, scheduler.max_num_seqs);
    reader.whole("max_num_batched_tokens", 1, max_budget, scheduler.max_num_batched_tokens);
    reader.boolean("chunked_prefill", scheduler.chunked_prefill);
    reader.whole("long_prefill_token_threshold", 0, max_budget, scheduler.long_prefill_token_threshold);
    reader.choice("batching", {"continuous", "static"}, scheduler.batching);
    reader.choice("policy", {"fcfs", "priority"}, scheduler.policy);
    reader.choice("preemption", {"recompute", "swap"}, scheduler.preemption);
    reader.whole("swap_blocks", 0, max_blocks, scheduler.swap_blocks);
    reader.boolean("reserve_full_prompt", scheduler.reserve_full_prompt);
    reader.choice("victim", {"vllm", "sglang"}, scheduler.victim);
    if (scheduler.preemption == PreemptionMode::swap && scheduler.swap_blocks == 0)
        reader.fail("swap_blocks", "is 0, but preemption by swapping needs blocks of host memory",
                    "Give at least 1, or \"preemption\": \"recompute\".");
    reader.finish();
}

}  // namespace

void read_device(KeyReader& reader, std::string& target) {
    reader.text("device", target);
    if (!reader.value("device") || target == "auto" || target == "cpu") return;
    const std::string number = target.rfind("cuda:", 0) == 0 ? target.substr(5) : std::string();
    const bool digits = !number.empty() && number.size() <= 4 &&
                        number.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) reader.fail("device", "there is no device '" + target + "'", "Give auto, cpu or cuda:N.");
}

LaneOptions read_lane(const json& value, const std::string& where, const std::vector<LaneOptions>& before, ReadFailure& failure) {
    LaneOptions lane;
    KeyReader reader(value, where, failure);
    if (const json* branch = reader.value("branch")) lane = read_branch(*branch, reader.path("branch"), before, failure);
    reader.boolean("kv_cache", lane.kv_cache);
    if (!lane.kv_cache) lane.cache = {};
    if (!lane.kv_cache && !lane.branch) lane.name = "uncached";
    reader.text("name", lane.name);
    if (lane.name.empty()) reader.fail("name", "is empty", "Give the lane a name.");
    if (lane.name.size() > 200) reader.fail("name", "is longer than 200 bytes", "Give the lane a short name.");
    if (const json* cache = reader.value("cache")) {
        if (!lane.kv_cache && cache->is_object() && !cache->empty())
            reader.fail("cache", "the lane has no KV cache (kv_cache is false)", "Remove one of the two keys.");
        read_cache(*cache, reader.path("cache"), lane.cache, failure);
    }
    if (const json* scheduler = reader.value("scheduler"))
        read_scheduler(*scheduler, reader.path("scheduler"), lane.scheduler, failure);
    reader.text("model", lane.model);
    if (lane.scheduler.preemption == PreemptionMode::swap && lane.cache.kind == CacheKind::contiguous)
        reader.fail("scheduler.preemption", "'swap' moves single blocks, which a contiguous cache has not",
                    "Give \"recompute\", or \"kind\": \"paged\".");
    read_device(reader, lane.device);
    if (const json* convert = reader.value("convert")) lane.convert = read_convert(*convert, reader.path("convert"), failure);
    read_attention(reader, lane);
    reader.finish();
    return lane;
}

}  // namespace kvloupe
