// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/scenario_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace kvloupe {

namespace {

using Ordered = nlohmann::ordered_json;

// The shortest decimal number that is read as the same float.
double shortest(float value) {
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    double number = 0;
    std::from_chars(text.data(), end, number);
    return static_cast<float>(number) == value ? number : static_cast<double>(value);
}

template <class T>
void put(Ordered& object, const char* key, const T& value, const T& otherwise) {
    if (value != otherwise) object[key] = value;
}

template <class T>
void put(Ordered& object, const char* key, const std::optional<T>& value) {
    if (value) object[key] = *value;
}

// The words stand in the order of the enum.
template <class Choice>
void put_choice(Ordered& object, const char* key, Choice value, Choice otherwise, std::initializer_list<const char*> words) {
    if (value != otherwise) object[key] = *(words.begin() + static_cast<std::ptrdiff_t>(value));
}

Ordered dtypes_json(const std::vector<DType>& types) {
    if (types.size() == 1) return std::string(name_of(types.front()));
    Ordered list = Ordered::array();
    for (const DType type : types) list.push_back(std::string(name_of(type)));
    return list;
}

void put_precision(Ordered& json, const CacheOptions& cache, const CacheOptions& base) {
    const bool same = cache.key_dtypes == base.key_dtypes && cache.value_dtypes == base.value_dtypes;
    // What stands beside a precision is forgotten where a branch gives one of its own.
    const bool kept = same && cache.scale == base.scale && cache.group == base.group && cache.residual == base.residual;
    if (!kept && cache.key_dtypes == cache.value_dtypes) {
        json["dtype"] = dtypes_json(cache.key_dtypes);
    } else if (!kept) {
        json["dtype_k"] = dtypes_json(cache.key_dtypes);
        json["dtype_v"] = dtypes_json(cache.value_dtypes);
    }
    if (!kept && cache.scale) json["scale"] = std::string(name_of(*cache.scale));
    if (!kept) put(json, "group", cache.group);
    if (!kept) put(json, "residual", cache.residual);
    put(json, "rotate", cache.rotate, base.rotate);
}

// What the kind of a cache leaves to be said.
CacheOptions base_of_kind(const CacheOptions& base, CacheKind kind) {
    if (base.kind == kind) return base;
    CacheOptions fresh;
    fresh.max_model_len = base.max_model_len;
    fresh.prefix_caching = kind == CacheKind::paged;
    return fresh;
}

Ordered cache_json(const CacheOptions& cache, const CacheOptions& base) {
    Ordered json = Ordered::object();
    put(json, "block_size", cache.block_size, base.block_size);
    if (cache.blocks != base.blocks) json["blocks"] = cache.blocks ? Ordered(*cache.blocks) : Ordered("auto");
    put_precision(json, cache, base);
    put(json, "bytes_per_token", cache.bytes_per_token, base.bytes_per_token);
    put_choice(json, "kind", cache.kind, base.kind, {"paged", "contiguous"});
    const CacheOptions rules = base_of_kind(base, cache.kind);
    put(json, "prefix_caching", cache.prefix_caching, rules.prefix_caching);
    put_choice(json, "prefix_index", cache.prefix_index, rules.prefix_index, {"hash", "radix"});
    put_choice(json, "free_order", cache.free_order, rules.free_order, {"vllm", "append"});
    put_choice(json, "reserve", cache.reserve, rules.reserve, {"max", "pow2", "oracle", "grow"});
    put(json, "max_model_len", cache.max_model_len, rules.max_model_len);
    put(json, "hash_bits", cache.hash_bits, rules.hash_bits);
    put(json, "compare_tokens", cache.compare_tokens, rules.compare_tokens);
    put(json, "tag_extra_keys", cache.tag_extra_keys, rules.tag_extra_keys);
    put_choice(json, "radix_eviction", cache.radix_eviction, rules.radix_eviction, {"lru", "lfu", "fifo", "priority"});
    put(json, "watermark", cache.watermark, rules.watermark);
    const AttentionSpan span = cache.span.value_or(AttentionSpan()), before = rules.span.value_or(AttentionSpan());
    put(json, "window", span.window, before.window);
    put(json, "sinks", span.sinks, before.sinks);
    put(json, "attention_chunk", span.chunk, before.chunk);
    if (cache.positions_by_rank != rules.positions_by_rank) json["positions"] = cache.positions_by_rank ? "rank" : "absolute";
    put(json, "memory_share", cache.memory_share, base.memory_share);
    return json;
}

Ordered scheduler_json(const SchedulerOptions& scheduler, const SchedulerOptions& base) {
    Ordered json = Ordered::object();
    put(json, "max_num_seqs", scheduler.max_num_seqs, base.max_num_seqs);
    put(json, "max_num_batched_tokens", scheduler.max_num_batched_tokens, base.max_num_batched_tokens);
    put(json, "chunked_prefill", scheduler.chunked_prefill, base.chunked_prefill);
    put(json, "long_prefill_token_threshold", scheduler.long_prefill_token_threshold, base.long_prefill_token_threshold);
    put_choice(json, "batching", scheduler.batching, base.batching, {"continuous", "static"});
    put_choice(json, "policy", scheduler.policy, base.policy, {"fcfs", "priority"});
    put_choice(json, "preemption", scheduler.preemption, base.preemption, {"recompute", "swap"});
    put(json, "swap_blocks", scheduler.swap_blocks, base.swap_blocks);
    put(json, "reserve_full_prompt", scheduler.reserve_full_prompt, base.reserve_full_prompt);
    put_choice(json, "victim", scheduler.victim, base.victim, {"vllm", "sglang"});
    return json;
}

Ordered convert_json(const ConvertOptions& convert) {
    Ordered json;
    put_choice(json, "to", convert.to, static_cast<ConvertOptions::Target>(0xFF), {"gqa", "mqa", "mla"});
    if (convert.to != ConvertOptions::Target::mla) put(json, "kv_heads", convert.kv_heads, 0u);
    put(json, "width", convert.width, 0u);
    put(json, "budget", convert.budget, 0u);
    put_choice(json, "by", convert.by, ConvertOptions::Measure::energy, {"energy", "sensitivity"});
    return json;
}

// What differs from `base`: from the defaults, or from the lane that it continues.
Ordered lane_json(const LaneOptions& lane, const LaneOptions& base) {
    Ordered json;
    json["name"] = lane.name;
    if (lane.branch) {
        Ordered& branch = json["branch"];
        branch["of"] = lane.branch->of;
        branch["at_step"] = lane.branch->at_step;
        put(branch, "token", lane.branch->token);
        put(branch, "request", lane.branch->request, std::string());
    }
    put(json, "kv_cache", lane.kv_cache, base.kv_cache);
    if (lane.kv_cache)
        if (Ordered cache = cache_json(lane.cache, base.cache); !cache.empty()) json["cache"] = std::move(cache);
    if (Ordered scheduler = scheduler_json(lane.scheduler, base.scheduler); !scheduler.empty()) json["scheduler"] = std::move(scheduler);
    put(json, "model", lane.model, base.model);
    put(json, "device", lane.device, base.device);
    if (lane.convert != base.convert) json["convert"] = lane.convert ? convert_json(*lane.convert) : Ordered::object();
    put_choice(json, "attention", lane.attention, base.attention, {"tiled", "materialised"});
    const bool forms = lane.latent_expanded != base.latent_expanded || lane.latent_absorbed != base.latent_absorbed;
    if (forms) json["mla"] = lane.latent_expanded ? "expanded" : "absorbed";
    return json;
}

Ordered request_json(const RequestOptions& request) {
    const RequestOptions base;
    Ordered json;
    json["id"] = request.id;
    put(json, "prompt", request.prompt);
    put(json, "prompt_tokens", request.prompt_tokens);
    put(json, "max_new_tokens", request.max_new_tokens, base.max_new_tokens);
    put(json, "output_tokens", request.output_tokens);
    put(json, "arrival_step", request.arrival_step, base.arrival_step);
    put(json, "temperature", shortest(request.temperature), double(base.temperature));
    put(json, "top_k", request.top_k, base.top_k);
    put(json, "top_p", shortest(request.top_p), double(base.top_p));
    put(json, "priority", request.priority, base.priority);
    put(json, "salt", request.salt, base.salt);
    put(json, "adapter", request.adapter, base.adapter);
    put(json, "n", request.n, base.n);
    put(json, "beam_width", request.beam_width, base.beam_width);
    put(json, "submitted", request.submitted, base.submitted);
    return json;
}

Ordered action_json(const ScenarioAction& action) {
    Ordered json;
    json["at_step"] = action.at_step;
    json["do"] = std::string(name_of(action.kind));
    put(json, "request", action.request, std::string());
    put(json, "block", action.block);
    put(json, "as", action.as, std::string());
    put(json, "position", action.position);
    put(json, "prompt", action.prompt);
    put(json, "prompt_tokens", action.prompt_tokens);
    put(json, "output_tokens", action.output_tokens);
    put(json, "max_new_tokens", action.max_new_tokens);
    return json;
}

Ordered breakpoint_json(const Breakpoint& breakpoint) {
    Ordered json;
    if (breakpoint.on) json["on"] = std::string(name_of(*breakpoint.on));
    put(json, "request", breakpoint.request);
    put(json, "block", breakpoint.block);
    put(json, "token", breakpoint.token);
    put(json, "step", breakpoint.step);
    put(json, "used_blocks", breakpoint.used_blocks);
    put(json, "lane", breakpoint.lane);
    return json;
}

Ordered record_json(const RecordOptions& record) {
    const RecordOptions base;
    Ordered json = Ordered::object();
    if (record.attention) {
        Ordered& list = json["attention"] = Ordered::array();
        for (const AttentionWatch& watch : *record.attention) {
            Ordered entry;
            entry["layer"] = watch.layer;
            if (!watch.heads.empty()) entry["heads"] = watch.heads;
            list.push_back(std::move(entry));
        }
    }
    put(json, "blocks", record.blocks, base.blocks);
    put(json, "stages_every", record.stages_every, base.stages_every);
    put(json, "memory_mib", record.memory_mib, base.memory_mib);
    return json;
}

template <class Entry, class Write>
void put_list(Ordered& document, const char* key, const std::vector<Entry>& entries, Write write) {
    if (entries.empty()) return;
    Ordered& list = document[key] = Ordered::array();
    for (const Entry& entry : entries) list.push_back(write(entry));
}

}  // namespace

std::string scenario_json(const Scenario& scenario) {
    const Scenario base;
    Ordered document;
    document["version"] = 1;
    put(document, "_", scenario.comment, base.comment);
    put(document, "model", scenario.model, base.model);
    put(document, "device", scenario.device, base.device);
    put(document, "seed", scenario.seed, base.seed);
    put_list(document, "lanes", scenario.lanes, [&](const LaneOptions& lane) {
        const auto parent = std::find_if(scenario.lanes.begin(), scenario.lanes.end(),
                                         [&](const LaneOptions& each) { return lane.branch && each.name == lane.branch->of; });
        return lane_json(lane, parent == scenario.lanes.end() ? LaneOptions() : *parent);
    });
    document["requests"] = Ordered::array();
    for (const RequestOptions& request : scenario.requests) document["requests"].push_back(request_json(request));
    put_list(document, "actions", scenario.actions, action_json);
    put_list(document, "breakpoints", scenario.breakpoints, breakpoint_json);
    if (Ordered record = record_json(scenario.record); !record.empty()) document["record"] = std::move(record);
    return document.dump(-1, ' ', false, Ordered::error_handler_t::replace) + '\n';
}

}  // namespace kvloupe
