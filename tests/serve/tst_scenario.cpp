// SPDX-License-Identifier: GPL-3.0-or-later
//
// The scenario reader takes what the contract (section 2) allows and refuses the rest by name.
#include "engine/serve/scenario.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/texts.h"

#include <nlohmann/json.hpp>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

Result<Scenario> parse(const std::string& json) {
    return parse_scenario(std::as_bytes(std::span(json)), "folder/two facts.json");
}

// A scenario with `extra` among the top-level keys.
std::string with(const std::string& extra) {
    return R"({"version": 1, "requests": [{"prompt": "Hello"}])" + (extra.empty() ? "" : ", " + extra) + "}";
}

void theSmallestScenarioGetsTheContractsDefaults(Check& check) {
    const auto scenario = parse(with(""));
    CHECK_RESULT(scenario);
    CHECK_EQUAL(scenario->title, "two facts");
    CHECK_EQUAL(scenario->model, "bundled");
    CHECK_EQUAL(scenario->device, "auto");
    CHECK_EQUAL(scenario->seed, std::uint64_t(0));
    CHECK_EQUAL(scenario->lanes.size(), std::size_t(1));
    const LaneOptions& lane = scenario->lanes[0];
    CHECK_EQUAL(lane.name, "cached");
    CHECK_THAT(lane.kv_cache);
    CHECK_EQUAL(lane.cache.block_size, 16u);
    CHECK_THAT(!lane.cache.blocks);
    CHECK_EQUAL(int(lane.cache.key_dtypes.front()), int(DType::f16));
    CHECK_EQUAL(lane.scheduler.max_num_seqs, 256u);
    CHECK_EQUAL(lane.scheduler.max_num_batched_tokens, 2048u);
    CHECK_THAT(lane.scheduler.chunked_prefill);
    CHECK_EQUAL(lane.scheduler.long_prefill_token_threshold, 0u);
    CHECK_EQUAL(scenario->requests[0].id, "a");
    CHECK_EQUAL(scenario->requests[0].max_new_tokens, 64u);
    CHECK_EQUAL(scenario->requests[0].temperature, 0.0f);
    CHECK_EQUAL(scenario->record.memory_mib, 256u);
    CHECK_EQUAL(scenario->record.stages_every, 1u);
    CHECK_THAT(!scenario->record.attention);
}

void everyKeyOfThisVersionIsRead(Check& check) {
    const auto scenario = parse(R"({
        "_": "a comment", "version": 1, "model": "bundled:gqa", "device": "cpu", "seed": 18446744073709551615,
        "lanes": [
          {"name": "one", "_": ["any", {"thing": 1}], "cache": {"block_size": 7, "blocks": 30, "dtype": "f32", "dtype_v": "bf16",
           "kind": "paged", "prefix_caching": true, "prefix_index": "hash", "free_order": "append", "watermark": 0.25,
           "window": 64, "sinks": 4, "positions": "rank", "hash_bits": 12, "compare_tokens": false, "tag_extra_keys": false,
           "max_model_len": 99, "memory_share": 0.5, "rotate": false},
           "scheduler": {"max_num_seqs": 3, "max_num_batched_tokens": 1024, "chunked_prefill": false,
                         "long_prefill_token_threshold": 400, "batching": "static", "policy": "priority",
                         "preemption": "swap", "swap_blocks": 8, "reserve_full_prompt": false, "victim": "sglang"},
           "convert": {}, "attention": "tiled", "mla": "absorbed"},
          {"kv_cache": false, "model": "other.gguf", "device": "cuda:1"},
          {"name": "tree", "cache": {"prefix_index": "radix", "radix_eviction": "lfu"}},
          {"name": "runs", "model": "none", "cache": {"kind": "contiguous", "reserve": "grow", "bytes_per_token": 1000}},
          {"name": "chunks", "cache": {"attention_chunk": 32}},
          {"name": "int8", "cache": {"dtype": "int8", "scale": "joint", "rotate": true}, "attention": "materialised", "mla": "expanded"},
          {"name": "kivi", "cache": {"dtype_k": "kivi2", "dtype_v": ["f16", "kivi4"], "group": 16, "residual": 64},
           "convert": {"to": "gqa", "kv_heads": 2}},
          {"name": "latent", "convert": {"to": "mla", "budget": 512, "by": "sensitivity"}}],
        "requests": [{"prompt_tokens": [1, 2, 3], "output_tokens": [4], "arrival_step": 5, "n": 3, "priority": -2, "salt": "s", "adapter": "x"},
                     {"id": "a", "prompt": "x", "temperature": 0.5, "top_k": 40, "top_p": 0.9, "max_new_tokens": 7}],
        "actions": [{"at_step": 3, "do": "cancel", "request": "a"}, {"at_step": 4, "do": "preempt", "request": "b.2"},
                    {"at_step": 4, "do": "evict", "block": 9}, {"at_step": 5, "do": "reset_prefix_cache"},
                    {"at_step": 6, "do": "fork", "request": "a", "as": "c", "position": 3, "prompt_tokens": [7],
                     "output_tokens": [8, 9], "max_new_tokens": 2},
                    {"at_step": 7, "do": "fork", "request": "c", "prompt": "and"}],
        "breakpoints": [{"on": "allocate", "request": "a", "block": 3, "token": 4, "step": 5, "used_blocks": 6, "lane": "one"}],
        "record": {"attention": [{"layer": 2, "heads": [0, 1]}, {"layer": 3}], "blocks": true, "stages_every": 4, "memory_mib": 16}
    })");
    CHECK_RESULT(scenario);
    CHECK_EQUAL(scenario->seed, UINT64_MAX);
    CHECK_EQUAL(scenario->lanes[0].cache.block_size, 7u);
    CHECK_EQUAL(scenario->lanes[0].cache.memory_share, 0.5);
    CHECK_EQUAL(scenario->lanes[1].cache.memory_share, 0.9);
    CHECK_EQUAL(*scenario->lanes[0].cache.blocks, 30u);
    CHECK_EQUAL(int(scenario->lanes[0].cache.key_dtypes.front()), int(DType::f32));
    CHECK_EQUAL(int(scenario->lanes[0].cache.value_dtypes.front()), int(DType::bf16));
    CHECK_THAT(!scenario->lanes[0].scheduler.chunked_prefill);
    CHECK_EQUAL(scenario->lanes[0].scheduler.long_prefill_token_threshold, 400u);
    CHECK_EQUAL(scenario->lanes[1].name, "uncached");
    CHECK_EQUAL(scenario->lanes[1].model, "other.gguf");
    CHECK_EQUAL(scenario->lanes[1].device, "cuda:1");
    CHECK_EQUAL(scenario->requests[0].id, "b");  // "a" was taken
    CHECK_EQUAL(*scenario->requests[0].prompt_tokens, (std::vector<TokenId>{1, 2, 3}));
    CHECK_EQUAL(*scenario->requests[0].output_tokens, (std::vector<TokenId>{4}));
    CHECK_EQUAL(scenario->requests[1].top_p, 0.9f);
    const CacheOptions& cache = scenario->lanes[0].cache;
    CHECK_THAT(cache.prefix_caching && !cache.compare_tokens && !cache.tag_extra_keys && cache.positions_by_rank);
    CHECK_EQUAL(int(cache.free_order), int(FreeOrder::append));
    CHECK_EQUAL(cache.watermark, 0.25);
    CHECK_EQUAL(cache.hash_bits, 12u);
    CHECK_EQUAL(cache.max_model_len, 99u);
    CHECK_THAT(cache.span && *cache.span == (AttentionSpan{64, 4, 0}));
    const SchedulerOptions& scheduler = scenario->lanes[0].scheduler;
    CHECK_EQUAL(int(scheduler.batching), int(Batching::fixed));
    CHECK_EQUAL(int(scheduler.policy), int(SchedulingPolicy::priority));
    CHECK_EQUAL(int(scheduler.preemption), int(PreemptionMode::swap));
    CHECK_EQUAL(scheduler.swap_blocks, 8u);
    CHECK_THAT(!scheduler.reserve_full_prompt);
    CHECK_EQUAL(int(scheduler.victim), int(VictimRule::sglang));
    CHECK_EQUAL(int(scenario->lanes[2].cache.prefix_index), int(PrefixIndexKind::radix));
    CHECK_EQUAL(int(scenario->lanes[2].cache.radix_eviction), int(RadixEviction::lfu));
    CHECK_THAT(is_accounting(*scenario, scenario->lanes[3]) && !is_accounting(*scenario, scenario->lanes[2]));
    CHECK_EQUAL(int(scenario->lanes[3].cache.kind), int(CacheKind::contiguous));
    CHECK_EQUAL(int(scenario->lanes[3].cache.reserve), int(Reserve::grow));
    CHECK_THAT(!scenario->lanes[3].cache.prefix_caching);
    CHECK_EQUAL(scenario->lanes[3].cache.bytes_per_token, 1000u);
    CHECK_THAT(scenario->lanes[4].cache.span && *scenario->lanes[4].cache.span == (AttentionSpan{0, 0, 32}));
    const LaneOptions& int8 = scenario->lanes[5];
    CHECK_THAT(int8.cache.key_dtypes == std::vector{DType::int8} && int8.cache.value_dtypes == std::vector{DType::int8});
    CHECK_THAT(int8.cache.scale == KvScale::joint && int8.cache.rotate && int8.attention == AttentionForm::materialised && int8.latent_expanded);
    CHECK_THAT(!int8.convert && !scenario->lanes[0].convert && scenario->lanes[0].attention == AttentionForm::tiled);
    const LaneOptions& kivi = scenario->lanes[6];
    CHECK_THAT(kivi.cache.key_dtypes == std::vector{DType::kivi2} && kivi.cache.value_dtypes == (std::vector{DType::f16, DType::kivi4}));
    CHECK_THAT(kivi.cache.group == 16u && kivi.cache.residual == 64u && !kivi.cache.scale);
    CHECK_THAT(kivi.convert == (ConvertOptions{ConvertOptions::Target::gqa, 2, 0, 0, ConvertOptions::Measure::energy}));
    CHECK_THAT(scenario->lanes[7].convert == (ConvertOptions{ConvertOptions::Target::mla, 0, 0, 512, ConvertOptions::Measure::sensitivity}));
    CHECK_EQUAL(scenario->lanes[7].convert->text(), "to MLA of 512 values in all layers, by sensitivity");
    CHECK_EQUAL(scenario->requests[0].n, 3u);
    CHECK_EQUAL(scenario->requests[0].priority, -2);
    CHECK_EQUAL(scenario->requests[0].salt + scenario->requests[0].adapter, "sx");
    CHECK_EQUAL(int(scenario->actions[0].kind), int(ActionKind::cancel));
    CHECK_EQUAL(*scenario->actions[2].block, 9u);
    const ScenarioAction& fork = scenario->actions[4];
    CHECK_EQUAL(fork.as, "c");
    CHECK_EQUAL(*fork.position, 3u);
    CHECK_EQUAL(*fork.prompt_tokens, (std::vector<TokenId>{7}));
    CHECK_EQUAL(*fork.output_tokens, (std::vector<TokenId>{8, 9}));
    CHECK_EQUAL(*fork.max_new_tokens, 2u);
    CHECK_EQUAL(scenario->actions[5].as, "c-2");  // a fork without a name
    CHECK_EQUAL(int(*scenario->breakpoints[0].on), int(EventKind::allocate));
    CHECK_EQUAL(*scenario->breakpoints[0].used_blocks, 6u);
    CHECK_EQUAL(scenario->record.attention->size(), std::size_t(2));
    CHECK_THAT(scenario->record.attention->at(1).heads.empty());
    CHECK_THAT(scenario->record.blocks);
}

struct BadScenariosAreRefusedByNameCase {
    std::string json, says;
};
Cases<BadScenariosAreRefusedByNameCase> badScenariosAreRefusedByName_cases() {
    Cases<BadScenariosAreRefusedByNameCase> cases;
    const auto row = [&](const char* name, const std::string& json, const char* says) {
        cases.add(name, {json, says});
    };
    const auto cache = [&](const std::string& key) { return with(R"("lanes": [{"cache": {)" + key + "}}]"); };
    const auto scheduler = [&](const std::string& key) { return with(R"("lanes": [{"scheduler": {)" + key + "}}]"); };
    const auto request = [&](const std::string& keys) {
        return std::string(R"({"version": 1, "requests": [{)") + keys + "}]}";
    };
    row("no JSON", "not json", "two facts.json");
    row("cut off", R"({"version": 1, "requests": [)", "two facts.json");
    row("an array", "[]", "not an object");
    row("no version", R"({"requests": []})", "'version' is missing");
    row("version 2", R"({"version": 2, "requests": []})", "version: 2");
    row("version as text", R"({"version": "1", "requests": []})", "version: is the string '1'");
    row("no requests", R"({"version": 1})", "'requests' is missing");
    row("typo at the top", with(R"("device_": "cpu")"), "unknown key 'device_'. Did you mean 'device'?");
    row("typo in a lane", with(R"("lanes": [{"kvcache": true}])"), "lanes[0]: unknown key 'kvcache'. Did you mean 'kv_cache'?");
    row("typo in a cache", cache(R"("blocksize": 4)"), "lanes[0].cache: unknown key 'blocksize'. Did you mean 'block_size'?");
    row("unknown without a neighbour", with(R"("zzzzzzzzzz": 1)"), "unknown key 'zzzzzzzzzz'");
    row("duplicate key", R"({"version": 1, "version": 1, "requests": []})", "'version' appears twice");
    row("deep", with("\"_\": " + std::string(100000, '[') + std::string(100000, ']')), "deeper than");
    row("block size 0", cache(R"("block_size": 0)"), "lanes[0].cache.block_size: 0 is out of range");
    row("block size as text", cache(R"("block_size": "16")"), "block_size: is the string '16', not a whole number");
    row("block size 1.5", cache(R"("block_size": 1.5)"), "block_size: is the number 1.5");
    row("no blocks", cache(R"("blocks": 0)"), "blocks: 0 leaves no block to use");
    row("one block", cache(R"("blocks": 1)"), "blocks: 1 leaves no block to use");
    row("negative blocks", cache(R"("blocks": -5)"), "blocks: -5 is out of range");
    row("too many blocks", cache(R"("blocks": 4294967295)"), "blocks: 4294967295 is out of range");
    row("huge number", cache(R"("blocks": 1e300)"), "blocks: is the number 1e+300");
    row("no dtype", cache(R"("dtype_k": "f17")"), "dtype_k: is the string 'f17', which is no precision of a cache. Did you mean 'f16'?");
    row("dtype of weights alone", cache(R"("dtype": "q4_k")"), "dtype: is the string 'q4_k', which is no precision of a cache");
    row("dtype of nothing", cache(R"("dtype": 8)"), "dtype: is the number 8, which is no precision of a cache. Give f32, f16,");
    row("dtypes of no layer", cache(R"("dtype": [])"), "dtype: is a list of 0 precisions");
    row("dtype of a layer", cache(R"("dtype_v": ["f16", "fp8"])"), "dtype_v: entry 1 is the string 'fp8'");
    row("scale", cache(R"("scale": "pack")"), "scale: is the string 'pack', which is none of its values");
    row("group without kivi", cache(R"("dtype": "int4", "group": 32)"), "cache.group: means nothing without a precision kivi2 or kivi4");
    row("residual without kivi", cache(R"("residual": 128)"), "cache.residual: means nothing");
    row("group 0", cache(R"("dtype": "kivi2", "group": 0)"), "group: 0 is out of range");
    row("rotate", cache(R"("rotate": 1)"), "rotate: is the number 1");
    const auto action = [&](const std::string& keys) { return with("\"actions\": [{\"at_step\": 1, " + keys + "}]"); };
    row("contiguous with prefix caching", cache(R"("kind": "contiguous", "prefix_caching": true)"), "cache.prefix_caching: a contiguous region");
    row("kind", cache(R"("kind": "pagd")"), "kind: is the string 'pagd', which is none of its values. Did you mean 'paged'?");
    row("contiguous with an index", cache(R"("kind": "contiguous", "prefix_index": "hash")"), "cache.prefix_index: means nothing");
    row("contiguous with a window", cache(R"("kind": "contiguous", "window": 4)"), "cache.window: means nothing");
    row("contiguous with a watermark", cache(R"("kind": "contiguous", "watermark": 0.1)"), "cache.watermark: means nothing");
    row("contiguous with swapping", with(R"("lanes": [{"cache": {"kind": "contiguous"}, "scheduler": {"preemption": "swap", "swap_blocks": 4}}])"), "lanes[0].scheduler.preemption");
    row("reserve when paged", cache(R"("reserve": "max")"), "cache.reserve: means nothing");
    row("eviction without a tree", cache(R"("radix_eviction": "lru")"), "cache.radix_eviction: means nothing");
    row("radix without caching", cache(R"("prefix_index": "radix", "prefix_caching": false)"), "cache.prefix_index: a radix index needs");
    row("radix with a chunk", cache(R"("prefix_index": "radix", "attention_chunk": 8)"), "cache.prefix_index: a radix index needs all blocks of a prefix, but an attention chunk");
    row("radix with a window", cache(R"("prefix_index": "radix", "window": 8)"), "cache.prefix_index: a radix index needs all blocks of a prefix, but a window");
    row("radix with short hashes", cache(R"("prefix_index": "radix", "hash_bits": 8)"), "cache.hash_bits: means nothing");
    row("no hash bits", cache(R"("hash_bits": 0)"), "hash_bits: 0 is out of range");
    row("watermark 1", cache(R"("watermark": 1)"), "cache.watermark: 1 or more");
    row("watermark above 1", cache(R"("watermark": 1.5)"), "watermark: 1.5 is out of range");
    row("window 0", cache(R"("window": 0)"), "window: 0 is out of range");
    row("sinks without a window", cache(R"("sinks": 4)"), "cache.sinks: 4 sinks without a window");
    row("window and chunk", cache(R"("window": 4, "attention_chunk": 4)"), "cache.attention_chunk: a chunk and a window");
    row("rank without a window", cache(R"("positions": "rank")"), "cache.positions: 'rank'");
    row("free order", cache(R"("free_order": 7)"), "free_order: is the number 7, which is none of its values. Give vllm or append.");
    row("bytes per token of a model", cache(R"("bytes_per_token": 8)"), "lanes[0].cache.bytes_per_token");
    row("memory share 0", cache(R"("memory_share": 0)"), "cache.memory_share: 0 leaves the pool no memory");
    row("memory share above 1", cache(R"("memory_share": 1.5)"), "memory_share: 1.5 is out of range");
    row("batching", scheduler(R"("batching": "dynamic")"), "batching: is the string 'dynamic'");
    row("swap without host blocks", scheduler(R"("preemption": "swap")"), "scheduler.swap_blocks: is 0");
    row("victim", scheduler(R"("victim": "oldest")"), "victim: is the string 'oldest'");
    row("accounting without a cache", with(R"("model": "none", "lanes": [{"kv_cache": false}])"), "lanes[0].kv_cache: is false, but a lane without a model");
    row("accounting reserves a context", with(R"("model": "none", "lanes": [{"cache": {"kind": "contiguous"}}])"), "lanes[0].cache.max_model_len: is missing");
    row("beams without a model", R"({"version": 1, "model": "none", "requests": [{"prompt_tokens": [1], "beam_width": 2}]})", "requests[0].beam_width: beam search needs a model");
    row("contiguous beams", R"({"version": 1, "lanes": [{"cache": {"kind": "contiguous"}}], "requests": [{"prompt": "a", "beam_width": 2}]})", "requests[0].beam_width: beams share");
    row("no budget", scheduler(R"("max_num_batched_tokens": 0)"), "max_num_batched_tokens: 0 is out of range");
    const auto convert = [&](const std::string& keys) { return with(R"("lanes": [{"convert": {)" + keys + "}}]"); };
    row("convert to nothing", convert(R"("kv_heads": 1)"), "lanes[0].convert.to: is missing");
    row("convert to MHA", convert(R"("to": "mha")"), "convert.to: is the string 'mha', which is none of its values. Did you mean");
    row("convert without heads", convert(R"("to": "gqa")"), "convert.kv_heads: is missing");
    row("convert to MQA with heads", convert(R"("to": "mqa", "kv_heads": 2)"), "convert.kv_heads: 2 is not 1");
    row("convert heads to a latent", convert(R"("to": "mla", "kv_heads": 2, "width": 8)"), "convert.kv_heads: means nothing for a latent");
    row("convert without a width", convert(R"("to": "mla")"), "convert.width: is missing");
    row("convert by width and budget", convert(R"("to": "mla", "width": 8, "budget": 64)"), "convert.budget: stands beside a width");
    row("convert heads by width", convert(R"("to": "gqa", "kv_heads": 1, "width": 8)"), "convert.width: means nothing without a latent");
    row("convert heads by energy", convert(R"("to": "mqa", "by": "energy")"), "convert.by: means nothing without a latent");
    row("convert width 0", convert(R"("to": "mla", "width": 0)"), "convert.width: 0 is out of range");
    row("convert typo", convert(R"("to": "mla", "widht": 8)"), "lanes[0].convert: unknown key 'widht'. Did you mean 'width'?");
    row("convert an accounting lane", with(R"("model": "none", "lanes": [{"convert": {"to": "mqa"}}])"), "lanes[0].convert: needs a model");
    row("attention", with(R"("lanes": [{"attention": "flash"}])"), "attention: is the string 'flash', which is none of its values");
    row("mla", with(R"("lanes": [{"mla": true}])"), "lanes[0].mla: is true");
    row("lane twice", with(R"("lanes": [{"name": "x"}, {"name": "x"}])"), "lanes[1].name: 'x' is used twice");
    row("cache of an uncached lane", with(R"("lanes": [{"kv_cache": false, "cache": {"blocks": 9}}])"), "lanes[0].cache");
    row("device", with(R"("device": "gpu")"), "there is no device 'gpu'");
    row("device without a name", with(R"("device": "")"), "there is no device ''");
    row("device of a lane without a name", with(R"("lanes": [{"device": ""}])"), "lanes[0].device: there is no device ''");
    row("seed", with(R"("seed": -1)"), "seed: -1 is out of range");
    row("no prompt", request(R"("id": "a")"), "requests[0]: has no prompt");
    row("two prompts", request(R"("prompt": "a", "prompt_tokens": [1])"), "requests[0]: has both");
    row("token below 0", request(R"("prompt_tokens": [1, -2])"), "prompt_tokens: entry 1 is the number -2");
    row("token as text", request(R"("prompt_tokens": ["a"])"), "prompt_tokens: entry 0 is the string 'a'");
    row("no forced tokens", request(R"("prompt": "a", "output_tokens": [])"), "output_tokens: is empty");
    row("no new tokens", request(R"("prompt": "a", "max_new_tokens": 0)"), "max_new_tokens: 0 is out of range");
    row("top_p 0", request(R"("prompt": "a", "top_p": 0)"), "top_p: 0");
    row("top_p 2", request(R"("prompt": "a", "top_p": 2)"), "top_p: 2 is out of range");
    row("cold", request(R"("prompt": "a", "temperature": -1)"), "temperature: -1 is out of range");
    row("n", request(R"("prompt": "a", "n": 0)"), "n: 0 is out of range");
    row("n and beams", request(R"("prompt": "a", "n": 2, "beam_width": 4)"), "requests[0].beam_width: beam search and parallel");
    row("forced beams", request(R"("prompt": "a", "output_tokens": [1], "beam_width": 4)"), "requests[0].beam_width: beam search chooses");
    row("hot beams", request(R"("prompt": "a", "temperature": 1, "beam_width": 4)"), "requests[0].beam_width: beam search takes");
    row("salt", request(R"("prompt": "a", "salt": 5)"), "salt: is the number 5, not a text");
    row("priority", request(R"("prompt": "a", "priority": 1e10)"), "priority: 10000000000");
    row("child's name", R"({"version": 1, "requests": [{"id": "a", "n": 2, "prompt": "x"}, {"id": "a.1", "prompt": "y"}]})", "requests[0].id: its child 'a.1'");
    row("id twice", R"({"version": 1, "requests": [{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}]})",
        "requests[1].id: 'a' is used twice");
    row("fork's name twice", with(R"("actions": [{"at_step": 1, "do": "fork", "request": "a", "as": "b"}, {"at_step": 2, "do": "fork", "request": "a", "as": "b"}])"), "actions[1].as: 'b' is used twice");
    row("fork called as a request", action(R"("do": "fork", "request": "a", "as": "a")"), "actions[0].as: 'a' is used twice");
    row("fork at 0", action(R"("do": "fork", "request": "a", "position": 0)"), "actions[0].position: 0 shares nothing");
    row("fork with two prompts", action(R"("do": "fork", "request": "a", "prompt": "x", "prompt_tokens": [1])"), "actions[0].prompt: stands beside");
    row("fork of nobody", action(R"("do": "fork")"), "actions[0].request: is missing");
    row("cancel with a position", action(R"("do": "cancel", "request": "a", "position": 3)"), "actions[0].position: means nothing for cancel");
    row("evict nothing", action(R"("do": "evict")"), "actions[0].block: is missing");
    row("evict the null block", action(R"("do": "evict", "block": 0)"), "actions[0].block: 0 is the null block");
    row("evict beyond the pool", with(R"("lanes": [{"cache": {"blocks": 9}}], "actions": [{"at_step": 1, "do": "evict", "block": 9}])"), "actions[0].block: 9 is no block of lane 'cached'");
    row("reset with a request", action(R"("do": "reset_prefix_cache", "request": "a")"), "actions[0].request: means nothing for reset_prefix_cache");
    row("no action", action(R"("do": "jump", "request": "a")"), "do: is the string 'jump', which is none of its values");
    row("preempt nobody", action(R"("do": "preempt", "request": "b")"), "actions[0].request: there is no request 'b'");
    row("action on nobody", with(R"("actions": [{"at_step": 1, "do": "cancel", "request": "b"}])"), "there is no request 'b'");
    row("breakpoint typo", with(R"("breakpoints": [{"on": "alocate"}])"), "Did you mean 'allocate'?");
    row("breakpoint at nothing", with(R"("breakpoints": [{"lane": "cached"}])"), "breakpoints[0]: names nothing");
    row("breakpoint lane", with(R"("breakpoints": [{"step": 1, "lane": "x"}])"), "there is no lane 'x'");
    row("watch without a layer", with(R"("record": {"attention": [{"heads": [1]}]})"), "record.attention[0].layer: is missing");
    row("watch twice", with(R"("record": {"attention": [{"layer": 1}, {"layer": 1}]})"), "stands twice");
    row("no memory", with(R"("record": {"memory_mib": 0})"), "memory_mib: 0 is out of range");
    return cases;
}
void badScenariosAreRefusedByName(Check& check, const BadScenariosAreRefusedByNameCase& row) {
    const auto scenario = parse(row.json);
    CHECK_THAT(!scenario);
    const std::string message = scenario.error().message();
    CHECK_OR_SAY(contains(message, row.says), message);
    CHECK_OR_SAY(contains(message, "two facts.json"), message);
    CHECK_OR_SAY(message.size() < 600, message);
}

void commentsAreAllowedEverywhere(Check& check) {
    CHECK_THAT(parse(R"({"_": 1, "version": 1, "lanes": [{"_": 2, "cache": {"_": 3}, "scheduler": {"_": 4}}],
        "requests": [{"_": 5, "prompt": "a"}], "actions": [{"_": 6, "at_step": 0, "do": "cancel", "request": "a"}],
        "breakpoints": [{"_": 7, "step": 1}], "record": {"_": 8, "attention": [{"_": 9, "layer": 0}]}})"));
}

void aMissingFileIsNamed(Check& check) {
    const auto scenario = load_scenario("/nonexistent/folder/x.json");
    CHECK_THAT(!scenario);
    CHECK_THAT(contains(scenario.error().sentence, "/nonexistent/folder/x.json"));
    const TemporaryFolder folder;
    CHECK_THAT(!load_scenario(folder.path()));
}

void theSchemaKnowsTheKeysThatTheReaderKnows(Check& check) {
    const auto schema = nlohmann::json::parse(read_file(KVLOUPE_SOURCE_DIR "/resources/scenario.schema.json"));
    CHECK_THAT(schema.is_object() && !schema.empty());
    const nlohmann::json& definitions = schema.at("$defs");
    // For each object of a scenario: any key of the schema is known to the reader (it may refuse the value 12345,
    // but never as an unknown key), and a key that the schema lacks is unknown to it.
    struct Place { std::string name, before, after; };
    const std::vector<Place> places = {
        {"lane", R"("lanes": [{)", "}]"},
        {"cache", R"("lanes": [{"cache": {)", "}}]"},
        {"scheduler", R"("lanes": [{"scheduler": {)", "}}]"},
        {"convert", R"("lanes": [{"convert": {)", "}}]"},
        {"action", R"("actions": [{)", "}]"},
        {"breakpoint", R"("breakpoints": [{)", "}]"},
        {"record", R"("record": {)", "}"},
    };
    for (const Place& place : places) {
        const nlohmann::json& properties = definitions.at(place.name).at("properties");
        CHECK_OR_SAY(properties.size() >= 3, place.name);
        for (const auto& property : properties.items()) {
            const auto result = parse(with(place.before + '"' + property.key() + "\": 12345" + place.after));
            if (result) continue;
            const std::string message = result.error().message();
            CHECK_OR_SAY(!contains(message, "unknown key"), message);
        }
    }
    CHECK_THAT(schema.at("properties").contains("requests"));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(theSmallestScenarioGetsTheContractsDefaults));
    claims.add(CLAIM(everyKeyOfThisVersionIsRead));
    claims.add(CLAIM(badScenariosAreRefusedByName), badScenariosAreRefusedByName_cases());
    claims.add(CLAIM(commentsAreAllowedEverywhere));
    claims.add(CLAIM(aMissingFileIsNamed));
    claims.add(CLAIM(theSchemaKnowsTheKeysThatTheReaderKnows));
    return claims.rows();
}
