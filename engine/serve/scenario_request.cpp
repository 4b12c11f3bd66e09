// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/json_document.h"
#include "engine/serve/scenario_parts.h"

#include <set>
#include <utility>

namespace kvloupe {

using nlohmann::json;

namespace {

constexpr std::uint32_t max_tokens = 10'000'000;
constexpr std::uint32_t max_children = 1024;
constexpr std::uint32_t max_step = 1'000'000;  // idle steps are recorded too

std::vector<AttentionWatch> read_watches(KeyReader& reader, ReadFailure& failure) {
    std::vector<AttentionWatch> watches;
    const json* list = reader.value("attention");
    if (!list->is_array()) {
        reader.fail("attention", "is " + describe(*list) + ", not a list");
        return watches;
    }
    std::set<std::uint32_t> layers;
    for (std::size_t i = 0; i < list->size() && !reader.failed(); ++i) {
        AttentionWatch watch;
        KeyReader entry((*list)[i], reader.path("attention[" + std::to_string(i) + "]"), failure);
        if (!entry.failed() && !entry.value("layer")) entry.fail("layer", "is missing", "Give a layer, counted from 0.");
        entry.whole("layer", 0, 65534, watch.layer);
        entry.whole_list("heads", 65535, watch.heads);
        entry.finish();
        if (!entry.failed() && !layers.insert(watch.layer).second)
            entry.fail("layer", std::to_string(watch.layer) + " stands twice", "List its heads in one entry.");
        watches.push_back(std::move(watch));
    }
    return watches;
}

}  // namespace

std::string_view name_of(ActionKind kind) {
    switch (kind) {
    case ActionKind::fork: return "fork";
    case ActionKind::cancel: return "cancel";
    case ActionKind::preempt: return "preempt";
    case ActionKind::evict: return "evict";
    case ActionKind::reset_prefix_cache: return "reset_prefix_cache";
    }
    return "";
}

RequestOptions read_request(const json& value, const std::string& where, ReadFailure& failure) {
    RequestOptions request;
    KeyReader reader(value, where, failure);
    if (reader.value("id")) {
        reader.text("id", request.id);
        if (!reader.failed() && request.id.empty()) reader.fail("id", "is empty", "Give the request an id, or leave it out.");
        if (request.id.size() > 200) reader.fail("id", "is longer than 200 bytes", "Give the request a short id.");
    }
    reader.text("prompt", request.prompt);
    reader.tokens("prompt_tokens", request.prompt_tokens);
    if (!reader.failed() && request.prompt.has_value() == request.prompt_tokens.has_value())
        failure.set(where, request.prompt ? "has both 'prompt' and 'prompt_tokens'" : "has no prompt",
                    "Give exactly one of 'prompt' and 'prompt_tokens'.");
    reader.whole("max_new_tokens", 1, max_tokens, request.max_new_tokens);
    reader.tokens("output_tokens", request.output_tokens);
    if (request.output_tokens && request.output_tokens->empty())
        reader.fail("output_tokens", "is empty", "Give at least one token, or leave the key out to sample.");
    reader.whole("arrival_step", 0, max_step, request.arrival_step);
    reader.number("temperature", 0, 1000, request.temperature);
    reader.whole("top_k", 0, max_tokens, request.top_k);
    reader.number("top_p", 0, 1, request.top_p);
    if (request.top_p <= 0) reader.fail("top_p", "0 leaves no token to choose", "Give a share above 0 and at most 1.");
    reader.whole_signed("priority", -1'000'000'000, 1'000'000'000, request.priority);
    for (const auto& [key, target] : {std::pair{"salt", &request.salt}, std::pair{"adapter", &request.adapter}}) {
        reader.text(key, *target);
        if (target->size() > 200) reader.fail(key, "is longer than 200 bytes", "Give a short name.");
    }
    reader.boolean("submitted", request.submitted);
    reader.whole("n", 1, max_children, request.n);
    std::uint32_t width = 1;
    reader.whole("beam_width", 1, max_children, width);
    request.beam_width = width > 1 ? width : 0;
    if (request.beam_width > 0) {
        if (request.n > 1) reader.fail("beam_width", "beam search and parallel sampling (n) exclude each other", "Give one of the two.");
        if (request.output_tokens)
            reader.fail("beam_width", "beam search chooses the tokens, but output_tokens forces them", "Give one of the two.");
        if (request.temperature > 0)
            reader.fail("beam_width", "beam search takes the most probable tokens, but a temperature is given", "Give one of the two.");
    }
    reader.finish();
    return request;
}

ScenarioAction read_action(const json& value, const std::string& where, ReadFailure& failure) {
    ScenarioAction action;
    KeyReader reader(value, where, failure);
    for (const char* key : {"at_step", "do"})
        if (!reader.failed() && !reader.value(key)) reader.fail(key, "is missing", "An action has at_step and do.");
    reader.whole("at_step", 0, max_step, action.at_step);
    reader.choice("do", {"fork", "cancel", "preempt", "evict", "reset_prefix_cache"}, action.kind);
    reader.text("request", action.request);
    reader.whole("block", 0, UINT32_MAX - 1, action.block);
    reader.text("as", action.as);
    reader.whole("position", 0, max_tokens, action.position);
    reader.text("prompt", action.prompt);
    reader.tokens("prompt_tokens", action.prompt_tokens);
    reader.tokens("output_tokens", action.output_tokens);
    reader.whole("max_new_tokens", 1, max_tokens, action.max_new_tokens);
    reader.finish();
    const std::string what(name_of(action.kind));
    const bool on_request = action.kind != ActionKind::evict && action.kind != ActionKind::reset_prefix_cache;
    const bool fork = action.kind == ActionKind::fork;
    const auto allow = [&](bool allowed, std::initializer_list<const char*> keys) {
        for (const char* key : keys)
            if (!allowed && !reader.failed() && reader.value(key)) reader.fail(key, "means nothing for " + what, "Remove it.");
    };
    allow(on_request, {"request"});
    allow(action.kind == ActionKind::evict, {"block"});
    allow(fork, {"as", "position", "prompt", "prompt_tokens", "output_tokens", "max_new_tokens"});
    if (!reader.failed() && on_request && !reader.value("request"))
        reader.fail("request", "is missing", "Name the request to " + what + " by its id.");
    if (!reader.failed() && action.kind == ActionKind::evict && !action.block)
        reader.fail("block", "is missing", "Name the block to evict by its number.");
    if (action.block == 0u) reader.fail("block", "0 is the null block, which is never evicted", "Give a block from 1.");
    if (action.position == 0u)
        reader.fail("position", "0 shares nothing with the parent", "Give a position from 1, or submit a request.");
    if (action.prompt && action.prompt_tokens)
        reader.fail("prompt", "stands beside prompt_tokens", "Give at most one of the two.");
    if (action.output_tokens && action.output_tokens->empty())
        reader.fail("output_tokens", "is empty", "Give at least one token, or leave the key out.");
    if (action.prompt_tokens && action.prompt_tokens->empty())
        reader.fail("prompt_tokens", "is empty", "Give at least one token, or leave the key out.");
    if (fork && reader.value("as") && (action.as.empty() || action.as.size() > 200))
        reader.fail("as", "is no name", "Give the new sequence a short name, or leave the key out.");
    return action;
}

Breakpoint read_breakpoint(const json& value, const std::string& where, ReadFailure& failure) {
    Breakpoint breakpoint;
    KeyReader reader(value, where, failure);
    std::optional<std::string> on;
    reader.text("on", on);
    if (on) {
        breakpoint.on = event_kind_from_name(*on);
        if (!breakpoint.on) {
            std::vector<std::string> names;
            for (int i = 0; i < event_kind_count; ++i) names.emplace_back(name_of(static_cast<EventKind>(i)));
            const std::string near = nearest_word(*on, names);
            reader.fail("on", "there is no event kind '" + *on + "'", near.empty() ? "" : "Did you mean '" + near + "'?");
        }
    }
    reader.text("request", breakpoint.request);
    reader.whole("block", 0, UINT32_MAX - 1, breakpoint.block);
    std::optional<std::uint32_t> token;
    reader.whole("token", 0, 0x7FFFFFFF, token);
    if (token) breakpoint.token = static_cast<TokenId>(*token);
    reader.whole("step", 0, UINT32_MAX - 1, breakpoint.step);
    reader.whole("used_blocks", 0, UINT32_MAX - 1, breakpoint.used_blocks);
    reader.text("lane", breakpoint.lane);
    reader.finish();
    const bool any = breakpoint.on || breakpoint.request || breakpoint.block || breakpoint.token || breakpoint.step ||
                     breakpoint.used_blocks;
    if (!reader.failed() && !any)
        failure.set(where, "names nothing to stop at", "Give on, request, block, token, step or used_blocks.");
    return breakpoint;
}

RecordOptions read_record(const json& value, const std::string& where, ReadFailure& failure) {
    RecordOptions record;
    KeyReader reader(value, where, failure);
    if (reader.value("attention")) record.attention = read_watches(reader, failure);
    reader.boolean("blocks", record.blocks);
    reader.whole("stages_every", 1, max_step, record.stages_every);
    reader.whole("memory_mib", 1, 1'048'576, record.memory_mib);
    reader.finish();
    return record;
}

}  // namespace kvloupe
