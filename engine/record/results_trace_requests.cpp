// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/lane_state.h"
#include "engine/record/results_text.h"
#include "engine/record/results_trace_parts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace kvloupe {

namespace {

constexpr const char* swapped_out_phase = "swapped out";

// The phases of one sequence as they follow each other.
struct RequestTrack {
    struct Phase {
        const char* name;
        std::uint64_t begin, end;
    };
    std::vector<Phase> phases;
    const char* open = nullptr;
    std::uint64_t since = 0;
    bool has_token = false;
    bool decodes = false;
    std::optional<std::uint64_t> admitted, first_token;  // moments inside slices of the engine's track

    void enter(const char* name, std::uint64_t ns) {
        if (open) phases.push_back({open, since, std::max(since, ns)});
        open = name;
        since = ns;
        decodes = false;
    }
};

// What a cut finds going on.
void begin_with(std::vector<RequestTrack>& tracks, const LaneRecord& lane) {
    if (lane.step_count() == 0 || !lane.begins_later()) return;
    const LaneState state = lane.state_before(0);
    const std::uint64_t begin = lane.step(0).start_ns;
    for (std::size_t i = 0; i < std::min(tracks.size(), state.sequences().size()); ++i) {
        const SequenceState& one = state.sequences()[i];
        RequestTrack& track = tracks[i];
        switch (one.status) {
        case SequenceStatus::arrived: track.enter("queued", begin); break;
        case SequenceStatus::running:
            track.has_token = track.decodes = one.computed_tokens > one.prompt_tokens;
            track.enter(track.decodes ? "decode" : "prefill", begin);
            track.decodes = track.has_token;
            break;
        case SequenceStatus::preempted: track.enter("preempted", begin); break;
        case SequenceStatus::swapped: track.enter(swapped_out_phase, begin); break;
        default: break;
        }
    }
}

void follow(RequestTrack& track, const Event& event, const StepRecord& step) {
    const std::uint64_t ns = step.start_ns + event.offset_ns, end = step.start_ns + step.duration_ns;
    switch (event.kind) {
    case EventKind::arrive: track.enter("queued", ns); break;
    case EventKind::resume:
        if (event.cause == Cause::swapped_in && track.has_token) {  // it goes on where it was
            track.enter("decode", ns);
            track.decodes = true;
            break;
        }
        track.enter("prefill", ns);
        break;
    case EventKind::admit:
        if (!track.admitted && step.duration_ns > 0) track.admitted = std::min(ns, end - 1);
        [[fallthrough]];
    case EventKind::fork: track.enter("prefill", ns); break;
    case EventKind::preempt: track.enter("preempted", ns); break;
    case EventKind::swap_out:
        if (track.open) track.open = swapped_out_phase;  // and not merely preempted
        break;
    case EventKind::reject:
    case EventKind::finish: track.enter(nullptr, ns); break;
    default: break;
    }
}

std::vector<RequestTrack> request_tracks(const LaneRecord& lane) {
    std::vector<RequestTrack> tracks(lane.sequences().size());
    const std::size_t steps = lane.step_count();
    begin_with(tracks, lane);
    std::vector<std::uint32_t> sampled;  // sequences with an output token in the step
    for (std::size_t s = 0; s < steps; ++s) {
        const StepRecord& step = lane.step(s);
        const std::uint64_t end = step.start_ns + step.duration_ns;
        sampled.clear();
        for (std::uint64_t t = step.tokens.begin; t < step.tokens.end; ++t) {
            const TokenRecord& token = lane.tokens()[t];
            if (token.source == TokenRecord::prompt || token.sequence.value >= tracks.size()) continue;
            sampled.push_back(token.sequence.value);
        }
        for (std::uint64_t e = step.events.begin; e < step.events.end; ++e) {
            const Event& event = lane.events()[e];
            if (event.sequence.value < tracks.size()) follow(tracks[event.sequence.value], event, step);
        }
        for (const std::uint32_t sequence : sampled) {
            RequestTrack& track = tracks[sequence];
            if (!track.has_token && step.duration_ns > 0) track.first_token = end - 1;
            track.has_token = true;
            if (!track.open || track.decodes || track.open == swapped_out_phase) continue;
            track.enter("decode", end);
            track.decodes = true;
        }
        if (s + 1 == steps)
            for (RequestTrack& track : tracks)
                if (track.open) track.enter(nullptr, end);
    }
    return tracks;
}

}  // namespace

std::string trace_string(const std::string& text) {
    const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7F && c != '"' && c != '\\'; });
    if (plain) return '"' + text + '"';
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string trace_head(const char* phase, std::uint64_t ns, std::size_t process, int thread) {
    return std::string("\"ph\":\"") + phase + "\",\"ts\":" + microseconds(ns) + ",\"pid\":" + std::to_string(process) +
           ",\"tid\":" + std::to_string(thread);
}

std::string flow_fields(const TraceFlow& flow) {
    return trace_head(flow.phase, flow.ns, flow.process, flow.thread) + ",\"cat\":\"" + flow.name + "\",\"name\":\"" + flow.name +
           "\",\"id\":\"" + flow.id + '"' + (flow.phase[0] == 'f' ? ",\"bp\":\"e\"" : "");
}

std::size_t add_trace_requests(TraceText& trace, const Recording& recording, std::size_t lane_index, bool flows) {
    const LaneRecord& lane = *recording.lanes()[lane_index];
    const std::size_t process = 2 * lane_index + 2;
    const SequenceNames names(recording, lane);
    const std::vector<RequestTrack> tracks = request_tracks(lane);
    std::size_t left_out = 0;
    for (std::uint32_t i = 0; i < tracks.size(); ++i) {
        const RequestTrack& track = tracks[i];
        if (track.phases.empty()) continue;
        const std::string number = std::to_string(lane_index) + ":" + std::to_string(i);
        const std::string id = ",\"cat\":\"request\",\"id\":\"" + number + "\",\"name\":";
        const std::string name = trace_string(names.name(SequenceId(i)));
        std::string text = trace_head("b", track.phases.front().begin, process, 1) + id + name + "},\n{";
        for (const RequestTrack::Phase& phase : track.phases) {
            const std::string phase_name = std::string("\"") + phase.name + "\"},\n{";
            text += trace_head("b", phase.begin, process, 1) + id + phase_name;
            text += trace_head("e", phase.end, process, 1) + id + phase_name;
        }
        text += trace_head("e", track.phases.back().end, process, 1) + id + name;
        if (!trace.add(text)) ++left_out;
        if (!flows || !track.admitted || !track.first_token || *track.first_token < *track.admitted) continue;
        trace.add(flow_fields({"s", "first token", number, *track.admitted, process - 1, 1}) + "},\n{" +
                  flow_fields({"f", "first token", number, *track.first_token, process - 1, 1}));
    }
    return left_out;
}

}  // namespace kvloupe
