// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/recount.h"
#include "engine/record/results.h"
#include "engine/record/results_text.h"

#include <algorithm>
#include <initializer_list>

namespace kvloupe {

namespace {

std::size_t longest(const std::vector<std::size_t>& counts) {
    return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
}

std::vector<std::size_t> step_counts(const Recording& recording) {
    std::vector<std::size_t> counts;
    for (const auto& lane : recording.lanes()) counts.push_back(lane->step_count());
    return counts;
}

// Kinds whose `tokens` field counts tokens.
bool counts_tokens(EventKind kind) {
    switch (kind) {
    case EventKind::arrive:
    case EventKind::admit:
    case EventKind::prefix_hit:
    case EventKind::fork:
    case EventKind::copy_on_write:
    case EventKind::preempt:
    case EventKind::swap_out:
    case EventKind::swap_in:
    case EventKind::resume:
    case EventKind::prefill:
    case EventKind::decode:
    case EventKind::finish: return true;
    default: return false;
    }
}

// Kinds whose `other` names a second block: where it was copied to, or of host memory.
bool has_other_block(EventKind kind) {
    return kind == EventKind::copy_on_write || kind == EventKind::swap_out || kind == EventKind::swap_in;
}

void append_event(std::string& csv, const Recording& recording, const LaneRecord& lane, const SequenceNames& names,
                  std::uint64_t index) {
    const Event& event = lane.events()[index];
    csv += ',';
    csv += name_of(event.kind);
    csv += ',' + csv_field(names.request(event.sequence)) + ',' + csv_field(names.name(event.sequence)) + ',';
    if (event.block.valid()) csv += std::to_string(event.block.value);
    csv += ',';
    if (has_other_block(event.kind) && event.other != Event{}.other) csv += std::to_string(event.other);
    csv += ',';
    if (counts_tokens(event.kind)) csv += std::to_string(event.tokens);
    csv += ',' + std::to_string(event_bytes(lane, event)) + ',' + csv_field(describe_event(recording, lane, index));
    csv += "\r\n";
}

}  // namespace

std::string steps_csv(const Recording& recording) {
    std::string csv =
        "step,lane,time_us,duration_us,running,waiting,prefill_tokens,decode_tokens,used_blocks,cached_blocks,"
        "free_blocks,kv_bytes,token_slots,reserved_slots,internal_slots,external_slots,hit_tokens,queried_tokens\r\n";
    const std::vector<std::size_t> counts = step_counts(recording);
    std::vector<Recount> recounts;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        recounts.push_back(recount(recording, *recording.lanes()[i], counts[i]));
        names.push_back(csv_field(recording.lanes()[i]->info().name));
    }
    for (std::size_t s = 0, end = longest(counts); s < end; ++s) {
        for (std::size_t i = 0; i < counts.size(); ++i) {
            if (s >= counts[i]) continue;
            const StepRecord& step = recording.lanes()[i]->step(s);
            const SlotCounts& slots = recounts[i].slots[s];
            csv += std::to_string(s) + ',' + names[i] + ',' + microseconds(step.start_ns) + ',' +
                   microseconds(step.duration_ns);
            for (const std::uint64_t value : std::initializer_list<std::uint64_t>{
                     step.running, step.waiting, step.prefill_tokens, step.decode_tokens, step.used_blocks,
                     step.cached_blocks, step.free_blocks, step.kv_bytes, slots.token, slots.reserved, slots.internal,
                     slots.external, step.hit_tokens, step.queried_tokens})
                csv += ',' + std::to_string(value);
            csv += "\r\n";
        }
    }
    return csv;
}

std::string events_csv(const Recording& recording) {
    std::string csv = "step,time_us,lane,kind,request,sequence,block,other_block,tokens,bytes,cause\r\n";
    const std::vector<std::size_t> counts = step_counts(recording);
    std::vector<SequenceNames> names;
    std::vector<std::string> lane_names;
    for (const auto& lane : recording.lanes()) {
        names.emplace_back(recording, *lane);
        lane_names.push_back(csv_field(lane->info().name));
    }
    for (std::size_t s = 0, end = longest(counts); s < end; ++s) {
        for (std::size_t i = 0; i < counts.size(); ++i) {
            if (s >= counts[i]) continue;
            const LaneRecord& lane = *recording.lanes()[i];
            const StepRecord& step = lane.step(s);
            for (std::uint64_t e = step.events.begin; e < step.events.end; ++e) {
                const Event& event = lane.events()[e];
                csv += std::to_string(s) + ',' + microseconds(step.start_ns + event.offset_ns) + ',' + lane_names[i];
                append_event(csv, recording, lane, names[i], e);
            }
        }
    }
    return csv;
}

}  // namespace kvloupe
