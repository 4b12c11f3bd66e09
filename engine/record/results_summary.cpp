// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/figures.h"
#include "engine/record/recount.h"
#include "engine/record/results.h"
#include "engine/record/results_summary.h"
#include "engine/record/results_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <nlohmann/json.hpp>

namespace kvloupe {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson optional_number(const std::optional<double>& value) {
    return value && std::isfinite(*value) ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson count_or_null(std::uint64_t value) { return value > 0 ? OrderedJson(value) : OrderedJson(nullptr); }
OrderedJson text_or_null(const std::string& text) { return text.empty() ? OrderedJson(nullptr) : OrderedJson(text); }

// Objects and lists of objects over lines, lists of numbers on one.
void append_json(std::string& text, const OrderedJson& json, int indent) {
    const auto line = [&](int depth) { text += '\n' + std::string(static_cast<std::size_t>(depth) * 2, ' '); };
    if (json.empty() || (!json.is_object() && !(json.is_array() && json.front().is_object()))) {
        text += json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
        return;
    }
    text += json.is_object() ? '{' : '[';
    bool first = true;
    for (const auto& item : json.items()) {
        if (!first) text += ',';
        first = false;
        line(indent + 1);
        if (json.is_object()) text += OrderedJson(item.key()).dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + ": ";
        append_json(text, item.value(), indent + 1);
    }
    line(indent);
    text += json.is_object() ? '}' : ']';
}

OrderedJson model_of(const LaneInfo& info) {
    OrderedJson model;
    model["name"] = text_or_null(info.model_name);
    model["architecture"] = text_or_null(info.architecture);
    model["layers"] = count_or_null(info.layers);
    model["query_heads"] = count_or_null(info.query_heads);
    model["kv_heads"] = count_or_null(info.kv_heads);
    model["head_dim"] = count_or_null(info.head_dim);
    model["parameters"] = count_or_null(info.parameters);
    return model;
}

// Output tokens of every sequence (index: SequenceId), sampled and forced, and the step that gave each; of children also
// the prompt.
struct Output {
    std::vector<TokenId> tokens;
    std::vector<std::uint32_t> steps;
    std::vector<TokenId> prompt;
};

std::vector<Output> outputs_of(const LaneRecord& lane, const SequenceNames& names, std::size_t steps) {
    std::vector<Output> outputs(names.names.size());
    for (std::size_t s = 0; s < steps; ++s) {
        const StepRecord& step = lane.step(s);
        for (std::uint64_t t = step.tokens.begin; t < step.tokens.end; ++t) {
            const TokenRecord& token = lane.tokens()[t];
            if (token.sequence.value >= outputs.size()) continue;
            if (token.source == TokenRecord::prompt) {
                if (names.is_child[token.sequence.value]) outputs[token.sequence.value].prompt.push_back(token.token);
                continue;
            }
            outputs[token.sequence.value].tokens.push_back(token.token);
            outputs[token.sequence.value].steps.push_back(static_cast<std::uint32_t>(s));
        }
    }
    return outputs;
}

// A list of ids, or where only equality counts (compact) the text that it would be written as: one value instead of thousands.
OrderedJson tokens_json(const std::vector<TokenId>& tokens, bool compact) {
    if (!compact) return tokens;
    std::string text = "[";
    for (std::size_t i = 0; i < tokens.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(tokens[i]);
    return text + "]";
}

OrderedJson result_of(const LaneRecord& lane, const Output& output, const RequestTimes& times, bool compact) {
    const bool failed = times.finish_reason.empty() && !lane.failure().empty();
    OrderedJson result;
    result["output_tokens"] = tokens_json(output.tokens, compact);
    result["text"] = text_of(lane.vocabulary(), output.tokens);
    result["finish_reason"] = failed ? OrderedJson("failed") : text_or_null(times.finish_reason);
    result["reason"] = failed ? OrderedJson(lane.failure()) : text_or_null(times.reason);
    result["queue_ms"] = optional_number(times.queue_ms);
    result["ttft_ms"] = optional_number(times.time_to_first_token_ms);
    result["itl_ms"]["p50"] = optional_number(percentile(times.inter_token_ms, 50));
    result["itl_ms"]["p95"] = optional_number(percentile(times.inter_token_ms, 95));
    return result;
}

OrderedJson child_of(const LaneRecord& lane, const SequenceNames& names, std::uint32_t id, const Output& output,
              const RequestTimes& times, bool compact) {
    const SequenceInfo& info = lane.sequences()[id];
    OrderedJson child;
    child["id"] = names.names[id];
    child["parent"] = info.parent.valid() ? OrderedJson(names.name(info.parent)) : OrderedJson(nullptr);
    child["forked_at"] = info.parent.valid() ? OrderedJson(info.forked_at) : OrderedJson(nullptr);
    child["prompt_tokens"] = tokens_json(output.prompt, compact);
    child.update(result_of(lane, output, times, compact));
    return child;
}

// A request that is one sequence has its result; one that became several (n, beams) has that of the first. All but the
// request's own sequence are listed as its children, without beams that others replaced.
OrderedJson requests_of(const Recording& recording, const LaneRecord& lane, const SequenceNames& names,
                 const std::vector<Output>& outputs, std::size_t steps, bool compact) {
    std::vector<RequestTimes> times(outputs.size());
    if (steps > 0) times = all_request_times(recording, lane, steps - 1);
    times.resize(outputs.size());
    std::vector<std::vector<std::uint32_t>> sequences(recording.requests().size());  // by request
    std::vector<std::optional<double>> queued(sequences.size());                     // of its first sequence, even if dropped
    for (std::uint32_t i = 0; i < outputs.size(); ++i) {
        const RequestId request = lane.sequences()[i].request;
        if (request.value >= sequences.size()) continue;
        if (!times[i].dropped) sequences[request.value].push_back(i);
        if (!queued[request.value]) queued[request.value] = times[i].queue_ms;
    }
    OrderedJson list = OrderedJson::array();
    for (std::uint32_t r = 0; r < sequences.size(); ++r) {
        const RequestInfo& info = recording.requests()[r];
        OrderedJson request;
        request["id"] = info.id;
        if (!compact) request["prompt_tokens"] = info.prompt;
        std::optional<std::uint32_t> own;  // none: it has not arrived in the lane
        OrderedJson children = OrderedJson::array();
        for (const std::uint32_t i : sequences[r]) {
            if (!own || (!names.is_child[i] && names.is_child[*own])) own = i;
            if (names.is_child[i]) children.push_back(child_of(lane, names, i, outputs[i], times[i], compact));
        }
        request.update(own ? result_of(lane, outputs[*own], times[*own], compact) : result_of(lane, {}, {}, compact));
        request["queue_ms"] = optional_number(queued[r]);
        request["sequences"] = std::move(children);
        list.push_back(std::move(request));
    }
    return list;
}

OrderedJson kv_of(const LaneRecord& lane, const Recount& counted, std::size_t steps) {
    const LaneInfo& info = lane.info();
    const std::uint64_t pool = info.kv_cache && info.blocks > 1 ? std::uint64_t{info.blocks - 1} * info.block_size : 0;
    double waiting_sum = 0, all_sum = 0;
    std::uint64_t waiting_steps = 0, all_steps = 0;
    bool waits = false;
    std::array<double, 6> shares{};
    for (std::size_t s = 0; s < steps; ++s) {
        const SlotCounts& slots = counted.slots[s];
        const std::array<std::uint64_t, 6> kinds = {slots.token,    slots.cached,   slots.reserved,
                                                    slots.internal, slots.external, slots.free};
        for (std::size_t k = 0; k < kinds.size(); ++k) shares[k] += static_cast<double>(kinds[k]);
        waits = waits || lane.step(s).waiting > 0;
        const auto wasted = wasted_share(slots);
        if (!wasted) continue;
        all_sum += *wasted;
        ++all_steps;
        if (lane.step(s).waiting == 0) continue;
        waiting_sum += *wasted;
        ++waiting_steps;
    }
    const double sum = waits ? waiting_sum : all_sum;
    const std::uint64_t over = waits ? waiting_steps : all_steps;
    OrderedJson kv;
    kv["bytes_per_token"] = info.kv_cache ? count_or_null(info.bytes_per_token) : OrderedJson(nullptr);
    kv["block_bytes"] = info.kv_cache ? count_or_null(info.block_bytes) : OrderedJson(nullptr);
    kv["peak_used_blocks"] = counted.peak_used_blocks;
    std::uint64_t peak_bytes = counted.peak_used_blocks * info.block_bytes;
    for (std::size_t s = 0; s < steps; ++s) peak_bytes = std::max(peak_bytes, lane.step(s).kv_bytes);  // with what KIVI keeps in f16
    kv["peak_used_bytes"] = peak_bytes;
    kv["waste_percent"] = pool > 0 && over > 0 ? OrderedJson(100.0 * sum / static_cast<double>(over)) : OrderedJson(nullptr);
    const std::array<const char*, 6> names = {"token", "cached", "reserved", "internal", "external", "free"};
    for (std::size_t k = 0; k < names.size(); ++k)
        kv["slots"][names[k]] = pool > 0 && steps > 0
                                    ? OrderedJson(shares[k] / static_cast<double>(pool) / static_cast<double>(steps))
                                    : OrderedJson(nullptr);
    return kv;
}

// How the cache keeps each run of layers that are alike.
OrderedJson layout_of(const LaneInfo& info) {
    OrderedJson list = OrderedJson::array();
    const auto json_of = [](const LayerInfo& layer) {
        OrderedJson json;
        json["keys"] = text_of(layer.keys);
        json["values"] = text_of(layer.values);
        json["kv_heads"] = layer.kv_heads;
        json["key_dim"] = layer.key_dim;
        json["value_dim"] = layer.value_dim;
        json["latent"] = layer.latent;
        json["window"] = count_or_null(layer.window);
        json["sinks"] = layer.sinks;
        json["chunk"] = count_or_null(layer.chunk);
        json["bytes_per_token"] = layer.bytes_per_token();
        return json;
    };
    for (std::size_t i = 0; i < info.layer_infos.size(); ++i) {
        OrderedJson layer = json_of(info.layer_infos[i]);
        const bool alike = !list.empty() && layer == json_of(info.layer_infos[i - 1]);
        if (alike) {
            list.back()["last_layer"] = i;
            continue;
        }
        OrderedJson entry;
        entry["first_layer"] = entry["last_layer"] = i;
        entry.update(layer);
        list.push_back(std::move(entry));
    }
    return list;
}

OrderedJson cache_of(const LaneRecord& lane, std::size_t steps) {
    std::uint64_t queried = 0, hit = 0, preempted_queried = 0, preempted_hit = 0;
    std::uint64_t copies = 0, copied = 0, evictions = 0, preemptions = 0, overflowed = 0;
    for (std::size_t s = 0; s < steps; ++s) {
        const StepRecord& step = lane.step(s);
        queried += step.queried_tokens;
        hit += step.hit_tokens;
        preempted_queried += step.preempted_queried_tokens;
        preempted_hit += step.preempted_hit_tokens;
        overflowed += step.overflowed_values;
        for (std::uint64_t e = step.events.begin; e < step.events.end; ++e) {
            const Event& event = lane.events()[e];
            evictions += event.kind == EventKind::evict;
            preemptions += event.kind == EventKind::preempt;
            if (event.kind != EventKind::copy_on_write) continue;
            ++copies;
            copied += event_bytes(lane, event);
        }
    }
    OrderedJson cache;
    cache["queried_tokens"] = queried;
    cache["hit_tokens"] = hit;
    cache["preempted_queried_tokens"] = preempted_queried;
    cache["preempted_hit_tokens"] = preempted_hit;
    cache["copies"] = copies;
    cache["copied_bytes"] = copied;
    cache["evictions"] = evictions;
    cache["preemptions"] = preemptions;
    cache["overflowed_values"] = overflowed;
    cache["dtype"] = text_or_null(lane.info().kv_cache ? lane.info().cache_dtype : std::string());
    cache["layout"] = lane.info().kv_cache ? layout_of(lane.info()) : OrderedJson::array();
    cache["residual_pages"] = lane.info().residual_pages;
    cache["window_is_foreign"] = lane.info().window_is_foreign;
    cache["notes"] = lane.info().notes;
    return cache;
}

OrderedJson memory_of(const std::vector<DeviceMemory>& devices) {
    OrderedJson json = OrderedJson::object();
    for (const DeviceMemory& device : devices) {
        OrderedJson& entry = json[device.id];
        entry["total_bytes"] = device.total_bytes;
        entry["used_bytes"] = device.used_bytes();
        entry["weight_bytes"] = device.weight_bytes;
        entry["kv_cache_bytes"] = device.kv_cache_bytes;
        entry["activation_bytes"] = device.activation_bytes;
        entry["residual_bytes"] = device.residual_bytes();
    }
    return json;
}

// What is read of a lane once for the whole document.
struct LaneResult {
    const LaneRecord& lane;
    std::size_t steps;
    SequenceNames names;
    std::vector<Output> outputs;

    LaneResult(const Recording& recording, const LaneRecord& record)
        : lane(record), steps(record.step_count()), names(recording, record), outputs(outputs_of(record, names, steps)) {}
};

OrderedJson lane_of(const Recording& recording, const LaneResult& result, const LaneInfo& first, bool compact) {
    const LaneRecord& lane = result.lane;
    const std::size_t steps = result.steps;
    const LaneInfo& info = lane.info();
    OrderedJson json;
    json["name"] = info.name;
    if (const OrderedJson model = model_of(info); model != model_of(first)) json["model"] = model;
    if (info.device != first.device) json["device"] = text_or_null(info.device);
    if (!info.branch.of.empty()) {
        json["branch"]["of"] = info.branch.of;
        json["branch"]["at_step"] = info.branch.at_step;
        json["branch"]["how"] = info.branch.how;
        json["branch"]["token"] = info.branch.token < 0 ? OrderedJson(nullptr) : OrderedJson(info.branch.token);
        json["branch"]["request"] = text_or_null(info.branch.request);
    }
    json["steps"] = steps;
    json["requests"] = requests_of(recording, lane, result.names, result.outputs, steps, compact);
    json["kv"] = kv_of(lane, recount(recording, lane, steps), steps);
    json["cache"] = cache_of(lane, steps);
    const TimeSplit split = time_split(lane, steps);
    json["time"]["prefill_ms"] = split.prefill_ms;
    json["time"]["decode_ms"] = split.decode_ms;
    json["time"]["decode_tokens_per_s"] =
        split.decode_ms > 0 ? OrderedJson(static_cast<double>(split.decode_tokens) / split.decode_ms * 1e3) : OrderedJson(nullptr);
    std::uint64_t computed = 0;
    for (std::size_t s = 0; s < steps; ++s) computed += lane.step(s).computed_tokens;
    json["computed_tokens"] = computed;
    json["dropped_attention_rows"] = lane.dropped_attention_rows();
    return json;
}

// First step of `ours` in which a sequence got another token than the sequence of that name in `theirs`.
std::size_t first_difference(const LaneResult& ours, const LaneResult& theirs) {
    std::unordered_map<std::string_view, std::size_t> by_name;
    for (std::size_t i = 0; i < theirs.outputs.size(); ++i) by_name.emplace(theirs.names.names[i], i);
    std::size_t first = SIZE_MAX;
    for (std::size_t i = 0; i < ours.outputs.size(); ++i) {
        const auto same = by_name.find(ours.names.names[i]);
        if (same == by_name.end()) continue;
        const Output& a = ours.outputs[i];
        const Output& b = theirs.outputs[same->second];
        for (std::size_t t = 0; t < a.tokens.size() && t < b.tokens.size(); ++t) {
            if (a.tokens[t] == b.tokens[t]) continue;
            first = std::min<std::size_t>(first, a.steps[t]);
            break;
        }
    }
    return first;
}

}  // namespace

nlohmann::ordered_json lane_summary(const Recording& recording, std::size_t lane) {
    return lane_of(recording, LaneResult(recording, *recording.lanes()[lane]), recording.lanes().front()->info(), true);
}

nlohmann::ordered_json summary_origins() {
    OrderedJson origins;
    for (const char* key : {"queue_ms", "ttft_ms", "itl_ms", "block_bytes", "peak_used_blocks", "peak_used_bytes",
                            "computed_tokens", "queried_tokens", "hit_tokens", "preempted_queried_tokens",
                            "preempted_hit_tokens", "copies", "evictions", "preemptions", "overflowed_values",
                            "max_abs_logit_difference"})
        origins[key] = "measured";
    for (const char* key : {"bytes_per_token", "waste_percent", "slots", "copied_bytes", "prefill_ms", "decode_ms",
                            "decode_tokens_per_s"})
        origins[key] = "derived";
    return origins;
}

std::string summary_json(const Recording& recording) {
    const auto& lanes = recording.lanes();
    std::vector<LaneResult> results;
    for (const auto& lane : lanes) results.emplace_back(recording, *lane);
    const LaneInfo none;
    const LaneInfo& first = lanes.empty() ? none : lanes.front()->info();
    OrderedJson summary;
    summary["version"] = 1;
    summary["model"] = model_of(first);
    summary["device"] = text_or_null(first.device);
    summary["lanes"] = OrderedJson::array();
    OrderedJson differences = OrderedJson::object();
    for (std::size_t i = 0; i < lanes.size(); ++i) {
        summary["lanes"].push_back(lane_of(recording, results[i], first, false));
        std::size_t reference = 0;
        while (reference < i && lanes[reference]->info().weights_id != lanes[i]->info().weights_id) ++reference;
        std::optional<double> largest;
        if (reference < i) {
            // Including the step that first gave another token: its logits still answer the same text.
            const std::size_t last = first_difference(results[i], results[reference]);
            for (std::size_t s = 0; s < results[i].steps && s <= last; ++s)
                if (const float value = lanes[i]->step(s).logit_difference; !std::isnan(value))
                    largest = std::max(largest.value_or(0.0), static_cast<double>(value));
        }
        differences[lanes[i]->info().name] = optional_number(largest);
    }
    summary["comparison"]["max_abs_logit_difference"] = std::move(differences);
    summary["origins"] = summary_origins();
    if (const auto devices = recording.device_memory(); !devices.empty()) {
        summary["memory"] = memory_of(devices);
        for (const char* key : {"total_bytes", "used_bytes", "weight_bytes", "kv_cache_bytes", "activation_bytes"})
            summary["origins"][key] = "measured";
        summary["origins"]["residual_bytes"] = "derived";
    }
    std::string text;
    append_json(text, summary, 0);
    return text += '\n';
}

}  // namespace kvloupe
