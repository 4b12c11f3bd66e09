// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/json_document.h"
#include "engine/serve/scenario_parts.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace kvloupe {

using nlohmann::json;

namespace {

constexpr std::uint32_t max_block_size = 1u << 20;
constexpr std::uint32_t max_blocks = 10'000'000;
constexpr std::uint32_t max_budget = 10'000'000;

// Precisions of the contract that this version does not compute with.
constexpr std::array<std::string_view, 11> later_types = {"fp8_e4m3", "fp8_e5m2", "int8", "int4", "kivi2", "kivi4",
                                                          "q8_0",     "q5_1",     "q5_0", "q4_1", "q4_0"};

void read_dtype(KeyReader& reader, const char* key, DType& target) {
    const json* value = reader.value(key);
    if (!value) return;
    const char* const built = "This version keeps the cache as f32, f16 or bf16.";
    if (value->is_array())
        return reader.fail(key, "a list (a precision per layer) is not built in this version of KVLoupe", built);
    if (!value->is_string()) return reader.fail(key, "is " + describe(*value) + ", not a precision", built);
    const std::string name = value->get<std::string>();
    const auto type = dtype_from_name(name);
    if (type && elements_per_pack(*type) == 1) target = *type;
    else if (std::find(later_types.begin(), later_types.end(), name) != later_types.end())
        reader.fail(key, "'" + name + "' is not built in this version of KVLoupe", built);
    else reader.fail(key, "is " + describe(*value) + ", which is no precision", built);
}

void read_cache(const json& value, const std::string& where, CacheOptions& cache, ReadFailure& failure) {
    KeyReader reader(value, where, failure);
    reader.whole("block_size", 1, max_block_size, cache.block_size);
    if (const json* blocks = reader.value("blocks"); blocks && *blocks != "auto") {
        std::uint32_t count = 0;
        if (blocks->is_number_integer() && (*blocks == 0 || *blocks == 1))
            reader.fail("blocks", blocks->dump() + " leaves no block to use: block 0 is the null block",
                        "Give at least 2, or \"auto\".");
        reader.whole("blocks", 2, max_blocks, count);
        if (!reader.failed()) cache.blocks = count;
    }
    read_dtype(reader, "dtype", cache.dtype_k);
    cache.dtype_v = cache.dtype_k;
    read_dtype(reader, "dtype_k", cache.dtype_k);
    read_dtype(reader, "dtype_v", cache.dtype_v);
    reader.not_built("bytes_per_token");
    reader.not_built("kind", "\"paged\"");
    reader.not_built("prefix_caching", "false");
    reader.not_built("prefix_index");
    reader.not_built("free_order", "\"vllm\"");
    reader.not_built("watermark", "0");
    for (const char* key : {"window", "sinks", "attention_chunk", "reserve", "max_model_len", "hash_bits",
                            "compare_tokens", "tag_extra_keys", "radix_eviction", "memory_share", "scale", "group",
                            "residual"})
        reader.not_built(key);
    reader.not_built("positions", "\"absolute\"");
    reader.not_built("rotate", "false");
    reader.finish();
}

void read_scheduler(const json& value, const std::string& where, SchedulerOptions& scheduler, ReadFailure& failure) {
    KeyReader reader(value, where, failure);
    reader.whole("max_num_seqs", 1, 1'000'000, scheduler.max_num_seqs);
    reader.whole("max_num_batched_tokens", 1, max_budget, scheduler.max_num_batched_tokens);
    reader.boolean("chunked_prefill", scheduler.chunked_prefill);
    reader.whole("long_prefill_token_threshold", 0, max_budget, scheduler.long_prefill_token_threshold);
    reader.not_built("batching", "\"continuous\"");
    reader.not_built("policy", "\"fcfs\"");
    reader.not_built("preemption", "\"recompute\"");  // nothing is ever preempted: admission reserves all a request may need
    reader.not_built("swap_blocks", "0");
    reader.not_built("reserve_full_prompt", "true");
    reader.not_built("victim", "\"vllm\"");
    reader.finish();
}

}  // namespace

void read_device(KeyReader& reader, std::string& target) {
    reader.text("device", target);
    if (target.empty() || target == "auto" || target == "cpu") return;
    const std::string number = target.rfind("cuda:", 0) == 0 ? target.substr(5) : std::string();
    const bool digits = !number.empty() && number.size() <= 4 &&
                        number.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) reader.fail("device", "there is no device '" + target + "'", "Give auto, cpu or cuda:N.");
}

LaneOptions read_lane(const json& value, const std::string& where, ReadFailure& failure) {
    LaneOptions lane;
    KeyReader reader(value, where, failure);
    reader.boolean("kv_cache", lane.kv_cache);
    if (!lane.kv_cache) lane.name = "uncached";
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
    if (lane.model == "none")
        reader.fail("model", "'none' (a lane without arithmetic) is not built in this version of KVLoupe",
                    "Name a model: bundled, bundled:NAME or a path.");
    read_device(reader, lane.device);
    reader.not_built("convert", "{}");
    reader.not_built("attention", "\"tiled\"");
    reader.not_built("mla", "\"absorbed\"");
    reader.finish();
    return lane;
}

}  // namespace kvloupe
