// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/figures.h"
#include "engine/record/recount.h"
#include "engine/record/results.h"
#include "engine/record/results_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace kvloupe {

namespace {

using Json = nlohmann::ordered_json;

Json optional_number(const std::optional<double>& value) {
    return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json count_or_null(std::uint64_t value) { return value > 0 ? Json(value) : Json(nullptr); }
Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// Objects and lists of objects over lines, lists of numbers on one.
void append_json(std::string& text, const Json& json, int indent) {
    const auto line = [&](int depth) { text += '\n' + std::string(static_cast<std::size_t>(depth) * 2, ' '); };
    if (json.empty() || (!json.is_object() && !(json.is_array() && json.front().is_object()))) {
        text += json.dump(-1, ' ', false, Json::error_handler_t::replace);
        return;
    }
    text += json.is_object() ? '{' : '[';
    bool first = true;
    for (const auto& item : json.items()) {
        if (!first) text += ',';
        first = false;
        line(indent + 1);
        if (json.is_object()) text += Json(item.key()).dump(-1, ' ', false, Json::error_handler_t::replace) + ": ";
        append_json(text, item.value(), indent + 1);
    }
    line(indent);
    text += json.is_object() ? '}' : ']';
}

Json model_of(const LaneInfo& info) {
    Json model;
    model["name"] = text_or_null(info.model_name);
    model["architecture"] = text_or_null(info.architecture);
    model["layers"] = count_or_null(info.layers);
    model["query_heads"] = count_or_null(info.query_heads);
    model["kv_heads"] = count_or_null(info.kv_heads);
    model["head_dim"] = count_or_null(info.head_dim);
    model["parameters"] = count_or_null(info.parameters);
    return model;
}

// Output tokens of every sequence (index: SequenceId), sampled and forced, and the step that gave each.
struct Output {
    std::vector<TokenId> tokens;
    std::vector<std::uint32_t> steps;
};

std::vector<Output> outputs_of(const LaneRecord& lane, std::size_t steps) {
    std::vector<Output> outputs(lane.sequences().size());
    for (std::size_t s = 0; s < steps; ++s) {
        const StepRecord& step = lane.step(s);
        for (std::uint64_t t = step.tokens.begin; t < step.tokens.end; ++t) {
            const TokenRecord& token = lane.tokens()[t];
            if (token.source == TokenRecord::prompt || token.sequence.value >= outputs.size()) continue;
            outputs[token.sequence.value].tokens.push_back(token.token);
            outputs[token.sequence.value].steps.push_back(static_cast<std::uint32_t>(s));
        }
    }
    return outputs;
}

Json result_of(const LaneRecord& lane, const Output& output, const RequestTimes& times) {
    const bool failed = times.finish_reason.empty() && !lane.failure().empty();
    Json result;
    result["output_tokens"] = output.tokens;
    result["text"] = text_of(lane.vocabulary(), output.tokens);
    result["finish_reason"] = failed ? Json("failed") : text_or_null(times.finish_reason);
    result["reason"] = failed ? Json(lane.failure()) : text_or_null(times.reason);
    result["queue_ms"] = optional_number(times.queue_ms);
    result["ttft_ms"] = optional_number(times.time_to_first_token_ms);
    result["itl_ms"]["p50"] = optional_number(percentile(times.inter_token_ms, 50));
    result["itl_ms"]["p95"] = optional_number(percentile(times.inter_token_ms, 95));
    return result;
}

Json requests_of(const Recording& recording, const LaneRecord& lane, const std::vector<Output>& outputs,
                 std::size_t steps) {
    std::vector<RequestTimes> times(outputs.size());
    if (steps > 0) times = all_request_times(recording, lane, steps - 1);
    const SequenceNames names(recording, lane);
    std::map<std::uint32_t, std::vector<std::uint32_t>> sequences;  // by request; the request's own first
    for (std::uint32_t i = 0; i < outputs.size() && i < names.names.size(); ++i)
        sequences[lane.sequences()[i].request.value].push_back(i);
    Json list = Json::array();
    for (std::uint32_t r = 0; r < recording.requests().size(); ++r) {
        const RequestInfo& info = recording.requests()[r];
        const std::vector<std::uint32_t>& own = sequences[r];
        Json request;
        request["id"] = info.id;
        request["prompt_tokens"] = info.prompt;
        // A request that has not arrived in the lane has no sequence yet.
        const std::uint32_t first = own.empty() ? 0 : own.front();
        request.update(own.empty() ? result_of(lane, {}, {}) : result_of(lane, outputs[first], times[first]));
        request["sequences"] = Json::array();
        for (std::size_t i = 1; i < own.size(); ++i) {
            Json child;
            child["id"] = names.names[own[i]];
            child.update(result_of(lane, outputs[own[i]], times[own[i]]));
            request["sequences"].push_back(std::move(child));
        }
        list.push_back(std::move(request));
    }
    return list;
}

Json kv_of(const LaneRecord& lane, const Recount& counted, std::size_t steps) {
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
    Json kv;
    kv["bytes_per_token"] = info.kv_cache ? count_or_null(info.bytes_per_token) : Json(nullptr);
    kv["block_bytes"] = info.kv_cache ? count_or_null(info.block_bytes) : Json(nullptr);
    kv["peak_used_blocks"] = counted.peak_used_blocks;
    kv["peak_used_bytes"] = counted.peak_used_blocks * info.block_bytes;
    kv["waste_percent"] = pool > 0 && over > 0 ? Json(100.0 * sum / static_cast<double>(over)) : Json(nullptr);
    const std::array<const char*, 6> names = {"token", "cached", "reserved", "internal", "external", "free"};
    for (std::size_t k = 0; k < names.size(); ++k)
        kv["slots"][names[k]] = pool > 0 && steps > 0
                                    ? Json(shares[k] / static_cast<double>(pool) / static_cast<double>(steps))
                                    : Json(nullptr);
    return kv;
}

Json cache_of(const LaneRecord& lane, std::size_t steps) {
    std::uint64_t queried = 0, hit = 0, copies = 0, copied = 0, evictions = 0, preemptions = 0;
    for (std::size_t s = 0; s < steps; ++s) {
        const StepRecord& step = lane.step(s);
        queried += step.queried_tokens;
        hit += step.hit_tokens;
        for (std::uint64_t e = step.events.begin; e < step.events.end; ++e) {
            const Event& event = lane.events()[e];
            evictions += event.kind == EventKind::evict;
            preemptions += event.kind == EventKind::preempt;
            if (event.kind != EventKind::copy_on_write) continue;
            ++copies;
            copied += event_bytes(lane, event);
        }
    }
    Json cache;
    cache["queried_tokens"] = queried;
    cache["hit_tokens"] = hit;
    cache["copies"] = copies;
    cache["copied_bytes"] = copied;
    cache["evictions"] = evictions;
    cache["preemptions"] = preemptions;
    return cache;
}

Json lane_of(const Recording& recording, const LaneRecord& lane, const LaneInfo& first,
             const std::vector<Output>& outputs, std::size_t steps) {
    const LaneInfo& info = lane.info();
    Json json;
    json["name"] = info.name;
    if (const Json model = model_of(info); model != model_of(first)) json["model"] = model;
    if (info.device != first.device) json["device"] = text_or_null(info.device);
    json["steps"] = steps;
    json["requests"] = requests_of(recording, lane, outputs, steps);
    json["kv"] = kv_of(lane, recount(recording, lane, steps), steps);
    json["cache"] = cache_of(lane, steps);
    const TimeSplit split = time_split(lane, steps);
    json["time"]["prefill_ms"] = split.prefill_ms;
    json["time"]["decode_ms"] = split.decode_ms;
    json["time"]["decode_tokens_per_s"] =
        split.decode_ms > 0 ? Json(static_cast<double>(split.decode_tokens) / split.decode_ms * 1e3) : Json(nullptr);
    std::uint64_t computed = 0;
    for (std::size_t s = 0; s < steps; ++s) computed += lane.step(s).computed_tokens;
    json["computed_tokens"] = computed;
    json["dropped_attention_rows"] = lane.dropped_attention_rows();
    return json;
}

// First step of `lane` that gave another token than `reference` at the same place of the same request.
std::size_t first_difference(const LaneRecord& lane, const std::vector<Output>& outputs, const LaneRecord& reference,
                             const std::vector<Output>& reference_outputs) {
    std::map<std::uint32_t, std::vector<std::uint32_t>> by_request;  // sequences of the reference, in order
    for (std::uint32_t i = 0; i < reference_outputs.size(); ++i)
        by_request[reference.sequences()[i].request.value].push_back(i);
    std::map<std::uint32_t, std::size_t> seen;
    std::size_t first = SIZE_MAX;
    for (std::uint32_t i = 0; i < outputs.size(); ++i) {
        const std::uint32_t request = lane.sequences()[i].request.value;
        const std::size_t place = seen[request]++;
        if (place >= by_request[request].size()) continue;
        const Output& ours = outputs[i];
        const Output& theirs = reference_outputs[by_request[request][place]];
        for (std::size_t t = 0; t < ours.tokens.size() && t < theirs.tokens.size(); ++t) {
            if (ours.tokens[t] == theirs.tokens[t]) continue;
            first = std::min<std::size_t>(first, ours.steps[t]);
            break;
        }
    }
    return first;
}

}  // namespace

std::string summary_json(const Recording& recording) {
    const auto& lanes = recording.lanes();
    std::vector<std::size_t> steps;
    std::vector<std::vector<Output>> outputs;
    for (const auto& lane : lanes) {
        steps.push_back(lane->step_count());
        outputs.push_back(outputs_of(*lane, steps.back()));
    }
    const LaneInfo none;
    const LaneInfo& first = lanes.empty() ? none : lanes.front()->info();
    Json summary;
    summary["version"] = 1;
    summary["model"] = model_of(first);
    summary["device"] = text_or_null(first.device);
    summary["lanes"] = Json::array();
    Json differences = Json::object();
    for (std::size_t i = 0; i < lanes.size(); ++i) {
        summary["lanes"].push_back(lane_of(recording, *lanes[i], first, outputs[i], steps[i]));
        std::size_t reference = 0;
        while (reference < i && lanes[reference]->info().weights_id != lanes[i]->info().weights_id) ++reference;
        std::optional<double> largest;
        if (reference < i) {
            const std::size_t end =
                std::min(steps[i], first_difference(*lanes[i], outputs[i], *lanes[reference], outputs[reference]));
            for (std::size_t s = 0; s < end; ++s)
                if (const float value = lanes[i]->step(s).logit_difference; !std::isnan(value))
                    largest = std::max(largest.value_or(0.0), static_cast<double>(value));
        }
        differences[lanes[i]->info().name] = optional_number(largest);
    }
    summary["comparison"]["max_abs_logit_difference"] = std::move(differences);
    Json& origins = summary["origins"];
    for (const char* key : {"queue_ms", "ttft_ms", "itl_ms", "block_bytes", "peak_used_blocks", "peak_used_bytes",
                            "computed_tokens", "queried_tokens", "hit_tokens", "copies", "evictions", "preemptions",
                            "max_abs_logit_difference"})
        origins[key] = "measured";
    for (const char* key : {"bytes_per_token", "waste_percent", "slots", "copied_bytes", "prefill_ms", "decode_ms",
                            "decode_tokens_per_s"})
        origins[key] = "derived";
    std::string text;
    append_json(text, summary, 0);
    return text += '\n';
}

}  // namespace kvloupe
