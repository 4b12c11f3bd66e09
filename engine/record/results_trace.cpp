// SPDX-License-Identifier: GPL-3.0-or-later
//
// trace.json: Chrome Trace Events (FORMATS 2.6), readable by Perfetto and chrome://tracing.
// Each lane is two processes. "NAME engine": thread 1 has a slice per step with the slices of its stages inside, thread
// 2 instants of what the cache and the scheduler decided,
// 3 and 4 where copies came from and went, each copy a slice on both with a flow between them; counters kv_blocks (used, cached,
// free), running, waiting, hit_rate (of all tokens asked for so far). A flow leads from a request's admission to the step that
// gave its first token.
// "NAME requests": one async track per sequence with its phases queued, prefill, decode, preempted, swapped out inside.
// Stage records hold durations, not starts: inside a step stages stand one behind the other in the order they ran.
//
// A trace beyond the limit is thinned, from the finest detail up, until it fits; "otherData" and an instant at the
// beginning say what was left out. Rejected: cutting off the end, because the end is what a long run is looked at for.
#include "engine/record/results.h"
#include "engine/record/results_text.h"
#include "engine/record/results_trace_parts.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace kvloupe {

namespace {

// How much is written; each level leaves out more.
struct Detail {
    enum Stages { by_layer, by_kind, no_stages };
    Stages stages = by_layer;
    bool instants = true;
    std::size_t stride = 1;  // steps per slice and counter point

    std::string left_out() const {
        if (stages == by_layer) return "";
        std::string text = stages == by_kind ? "stages are summed over the layers of a step" : "the stages of steps";
        if (stride > 1) text += "; " + std::to_string(stride) + " steps are drawn as one";
        if (!instants) text += "; decisions of cache and scheduler, copies and flows";
        return text;
    }
    void coarsen() {
        if (stages == by_layer) stages = by_kind;
        else if (stages == by_kind) stages = no_stages;
        else if (instants) instants = false;
        else stride *= 2;
    }
};

// No stage slice is shorter than this (its keys alone), so a level that cannot fit is not tried.
constexpr std::uint64_t least_stage_bytes = 110;

std::uint64_t least_size(const Recording& recording, const Detail& detail) {
    std::uint64_t slices = 0;
    for (const auto& lane : recording.lanes()) {
        const std::size_t steps = lane->step_count();
        if (steps == 0 || detail.stages == Detail::no_stages) continue;
        if (detail.stages == Detail::by_layer) slices += lane->stages().size();
        else
            for (std::size_t s = 0; s < steps; ++s)
                slices += lane->stages_of(s).size() / std::max<std::uint64_t>(lane->info().layers, 1);
    }
    return slices * least_stage_bytes;
}

void add_metadata(TraceText& trace, const char* what, std::size_t process, int thread, const std::string& name) {
    trace.add(std::string("\"ph\":\"M\",\"name\":\"") + what + "\",\"pid\":" + std::to_string(process) +
              ",\"tid\":" + std::to_string(thread) + ",\"args\":{\"name\":" + trace_string(name) + "}");
}

std::string slice_fields(const std::string& head, const std::string& name, std::uint64_t duration, const std::string& arguments) {
    return head + ",\"dur\":" + microseconds(duration) + ",\"name\":" + trace_string(name) + ",\"args\":{" + arguments + "}";
}

void add_slice(TraceText& trace, const std::string& name, std::uint64_t ns, std::uint64_t duration, std::size_t process,
               const std::string& arguments) {
    trace.add(slice_fields(trace_head("X", ns, process, 1), name, duration, arguments));
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
    return text;
}

void add_counters(TraceText& trace, const LaneRecord& lane, std::size_t process, std::size_t steps, std::size_t stride) {
    const auto point = [&](const char* name, std::uint64_t ns, const std::string& values) {
        trace.add(trace_head("C", ns, process, 0) + ",\"name\":\"" + name + "\",\"args\":{" + values + "}");
    };
    std::array<std::uint32_t, 5> last{};
    std::uint64_t hit = 0, queried = 0;  // tokens, since the beginning
    for (std::size_t s = 0; s < steps; s += stride) {
        const StepRecord& step = lane.step(s);
        const bool is_last = s + stride >= steps;  // held to the end by a last point
        const std::array<std::uint32_t, 5> now = {step.used_blocks, step.cached_blocks, step.free_blocks, step.running,
                                                  step.waiting};
        const std::uint64_t ns = step.start_ns + (is_last ? step.duration_ns : 0);
        if (lane.info().kv_cache && (s == 0 || is_last || !std::equal(now.begin(), now.begin() + 3, last.begin())))
            point("kv_blocks", ns,
                  "\"used\":" + std::to_string(now[0]) + ",\"cached\":" + std::to_string(now[1]) +
                      ",\"free\":" + std::to_string(now[2]));
        if (s == 0 || is_last || now[3] != last[3]) point("running", ns, "\"requests\":" + std::to_string(now[3]));
        if (s == 0 || is_last || now[4] != last[4]) point("waiting", ns, "\"requests\":" + std::to_string(now[4]));
        last = now;
        const std::uint64_t before = queried;
        for (std::size_t i = s; i < std::min(s + stride, steps); ++i) {
            hit += lane.step(i).hit_tokens;
            queried += lane.step(i).queried_tokens;
        }
        if (queried > 0 && (queried != before || is_last)) point("hit_rate", ns, "\"percent\":" + percent(hit, queried));
    }
}

void add_stages(TraceText& trace, const LaneRecord& lane, const StepRecord& step, std::size_t process, bool by_layer) {
    std::vector<StageRecord> stages;
    const LogRange range = lane.stages_of(step.step.value);
    for (std::uint64_t i = range.begin; i < range.end; ++i) {
        const StageRecord& stage = lane.stages()[i];
        const auto same = std::find_if(stages.begin(), stages.end(),
                                       [&](const StageRecord& other) { return other.kind == stage.kind; });
        if (by_layer || same == stages.end()) {
            stages.push_back(stage);
            continue;
        }
        same->duration_ns += stage.duration_ns;
        same->calls += stage.calls;
        same->bytes += stage.bytes;
        same->flops += stage.flops;
    }
    std::uint64_t ns = step.start_ns;
    const std::uint64_t end = step.start_ns + step.duration_ns;
    for (const StageRecord& stage : stages) {
        std::string name(name_of(stage.kind));
        if (by_layer && stage.layer != StageRecord::no_layer) name += " L" + std::to_string(stage.layer);
        // A slice must lie within its step; the measured duration stands in the arguments either way.
        const std::uint64_t shown = std::min(stage.duration_ns, end - ns);
        add_slice(trace, name, ns, shown, process,
                  "\"duration_us\":" + microseconds(stage.duration_ns) + ",\"calls\":" + std::to_string(stage.calls) +
                      ",\"bytes\":" + std::to_string(stage.bytes) + ",\"flops\":" + std::to_string(stage.flops));
        ns += shown;
        if (trace.full()) return;
    }
}

bool is_decision(EventKind kind) {
    switch (kind) {
    case EventKind::refuse:
    case EventKind::reject:
    case EventKind::prefix_hit:
    case EventKind::fork:
    case EventKind::copy_on_write:
    case EventKind::evict:
    case EventKind::preempt:
    case EventKind::swap_out:
    case EventKind::swap_in:
    case EventKind::reset: return true;
    default: return false;
    }
}

// A copy as a slice on the track of sources and one on that of destinations, bound by a flow. `free`: when the one before ended.
void add_copy(TraceText& trace, const Event& event, std::uint64_t index, std::uint64_t ns, std::size_t process, std::uint64_t& free) {
    ns = std::max(ns, free);
    const std::uint64_t shown = std::max<std::uint64_t>(event.duration_ns, 1);  // a flow binds to a slice that lasts
    free = ns + shown;
    const std::string arguments = "\"event\":" + std::to_string(index) + ",\"slots\":" + std::to_string(event.tokens) +
                                  ",\"duration_us\":" + microseconds(event.duration_ns);
    const std::string id = std::to_string(process) + ":" + std::to_string(index);
    constexpr const char* next = "},\n{";
    trace.add(slice_fields(trace_head("X", ns, process, 3), "block " + std::to_string(event.block.value), shown, arguments) + next +
              slice_fields(trace_head("X", ns, process, 4), "block " + std::to_string(event.other), shown, arguments) + next +
              flow_fields({"s", "copy", id, ns, process, 3}) + next + flow_fields({"f", "copy", id, ns, process, 4}));
}

void add_steps(TraceText& trace, const Recording& recording, const LaneRecord& lane, std::size_t process,
               const Detail& detail) {
    const std::size_t steps = lane.step_count();
    std::uint64_t copied = 0;
    for (std::size_t s = 0; s < steps && !trace.full(); s += detail.stride) {
        const std::size_t last = std::min(s + detail.stride, steps) - 1;
        const StepRecord& step = lane.step(s);
        std::uint64_t prefill = 0, decode = 0;
        for (std::size_t i = s; i <= last; ++i) {
            prefill += lane.step(i).prefill_tokens;
            decode += lane.step(i).decode_tokens;
        }
        const std::uint64_t end = lane.step(last).start_ns + lane.step(last).duration_ns;
        const std::string name =
            last == s ? "step " + std::to_string(s) : "steps " + std::to_string(s) + "–" + std::to_string(last);
        add_slice(trace, name, step.start_ns, end - step.start_ns, process,
                  "\"prefill_tokens\":" + std::to_string(prefill) + ",\"decode_tokens\":" + std::to_string(decode));
        if (detail.stages != Detail::no_stages)
            add_stages(trace, lane, step, process, detail.stages == Detail::by_layer);
        if (!detail.instants) continue;
        for (std::uint64_t e = step.events.begin; e < lane.step(last).events.end; ++e) {
            const Event& event = lane.events()[e];
            if (!is_decision(event.kind)) continue;
            if (event.kind == EventKind::copy_on_write) add_copy(trace, event, e, step.start_ns + event.offset_ns, process, copied);
            trace.add(trace_head("i", step.start_ns + event.offset_ns, process, 2) + ",\"s\":\"t\",\"name\":\"" +
                      std::string(name_of(event.kind)) +
                      "\",\"args\":{\"cause\":" + trace_string(describe_event(recording, lane, e)) + "}");
        }
    }
    add_counters(trace, lane, process, steps, detail.stride);
}

std::string events_of(const Recording& recording, std::uint64_t limit, const Detail& detail, bool& fits,
                      std::size_t& sequences_left_out) {
    TraceText trace(limit);
    for (std::size_t i = 0; i < recording.lanes().size(); ++i) {
        const std::string& name = recording.lanes()[i]->info().name;
        add_metadata(trace, "process_name", 2 * i + 1, 0, name + " engine");
        add_metadata(trace, "thread_name", 2 * i + 1, 1, "steps");
        add_metadata(trace, "thread_name", 2 * i + 1, 2, "decisions");
        add_metadata(trace, "thread_name", 2 * i + 1, 3, "copies from");
        add_metadata(trace, "thread_name", 2 * i + 1, 4, "copies to");
        add_metadata(trace, "process_name", 2 * i + 2, 0, name + " requests");
    }
    for (std::size_t i = 0; i < recording.lanes().size() && !trace.full(); ++i)
        add_steps(trace, recording, *recording.lanes()[i], 2 * i + 1, detail);
    sequences_left_out = 0;
    const bool steps_fit = !trace.full();
    for (std::size_t i = 0; i < recording.lanes().size() && steps_fit; ++i)
        sequences_left_out += add_trace_requests(trace, recording, i, detail.instants);
    fits = steps_fit && sequences_left_out == 0;
    return trace.take();
}

}  // namespace

std::string trace_json(const Recording& recording, std::uint64_t limit_bytes) {
    constexpr std::uint64_t envelope = 1024;  // room for what stands around the events
    const std::uint64_t limit = limit_bytes > envelope ? limit_bytes - envelope : 0;
    std::size_t longest = 1;
    for (const auto& lane : recording.lanes()) longest = std::max(longest, lane->step_count());
    Detail detail;
    bool fits = false;
    std::size_t left_out = 0;
    while (detail.stages != Detail::no_stages && least_size(recording, detail) > limit) detail.coarsen();
    std::string events = events_of(recording, limit, detail, fits, left_out);
    while (!fits && detail.stride < longest) {
        detail.coarsen();
        events = events_of(recording, limit, detail, fits, left_out);
    }
    std::string note = detail.left_out();
    if (left_out > 0) note += "; " + std::to_string(left_out) + " sequences";
    if (!fits && left_out == 0) note += "; whatever came after the limit";
    std::string json = "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"title\":" + trace_string(recording.title().substr(0, 100));
    if (!note.empty()) json += ",\"left_out\":" + trace_string("To stay within " + std::to_string(limit_bytes) + " bytes: " + note);
    json += "},\"traceEvents\":[\n";
    if (!note.empty()) {
        json += "{\"ph\":\"i\",\"ts\":0,\"pid\":1,\"tid\":2,\"s\":\"g\",\"name\":" + trace_string("Left out: " + note) + "}";
        if (!events.empty()) json += ",\n";
    }
    return json + events + "\n]}\n";
}

}  // namespace kvloupe
