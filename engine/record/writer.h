// SPDX-License-Identifier: GPL-3.0-or-later
//
// Writers of a Recording: the session's worker thread owns them; nobody else writes.
#pragma once

#include "engine/record/lane_state.h"
#include "engine/record/recording.h"

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvloupe {

// Where a lane's recording stood after a step: as much of it is the beginning of another recording (begin_with).
struct LaneMark {
    std::uint64_t steps = 0;
    std::uint64_t sequences = 0, strings = 0;  // their logs name no steps
    std::uint64_t dropped_attention_rows = 0;
};

// Ranges of a step begin where those of the step before ended, so what was appended between two steps (an arrival, a
// cancellation) belongs to the next step and nothing is lost.
//
// Key frames: a copy of the state as soon as 4096 events were appended since the last and the pages that the copy keeps
// (what the events changed) cost no more than four times the events themselves. So a seek applies few events, whatever
// the size of the pool, and key frames cost no more than a small multiple of the events they stand for.
class LaneWriter {
public:
    // attention_budget_bytes: bytes that attention rows of this lane may take; rows beyond it are counted, not kept.
    LaneWriter(LaneRecord& record, std::chrono::steady_clock::time_point session_start,
               std::uint64_t attention_budget_bytes);

    SequenceId add_sequence(SequenceInfo info);
    StringId intern(std::string_view text);

    void begin_step();                       // starts the step's clock
    void event(Event event);                 // offset_ns is filled in
    // alternatives: at most 10, most probable first; alternatives_begin and alternative_count are filled in.
    void token(TokenRecord token, std::span<const Alternative> alternatives = {});
    // Stages of a step, the one in progress (next_step()) or an earlier one: each step once, in ascending order.
    void stages(std::uint64_t step, std::span<const StageRecord> stages);
    // weights: row.key_count softmax weights. Returns false when the budget is used up (counted).
    bool attention_row(AttentionRow row, std::span<const float> weights);
    // counters: everything but step, times and ranges, which are filled in. Publishes the step.
    void end_step(StepRecord counters);
    // Forgets what the step in progress appended as far as readers are concerned: the step is published with what
    // happened until the failure, so that no gap arises, and the lane is marked failed.
    void fail_step(StepRecord counters, std::string reason);
    void set_failure(std::string reason);

    LaneMark mark() const;                              // between steps

    const LaneState& state() const { return m_state; }  // after the events so far
    std::uint64_t elapsed_ns() const;                   // since the session's clock started
    std::size_t next_step() const { return m_record.step_count(); }
    LaneRecord& record() { return m_record; }

private:
    friend class RecordingWriter;

    std::uint64_t now_ns() const;  // since the session's clock started
    void publish(StepRecord counters);
    void begin_with(const LaneRecord& before, const LaneMark& mark);
    void copy_step(const LaneRecord& before, const StepRecord& step);
    void keep_key_frame(std::uint64_t step);

    LaneRecord& m_record;
    std::chrono::steady_clock::time_point m_session_start;
    const std::uint64_t* m_set_time_ns = nullptr;  // the recording's clock where it is set and not read
    std::uint64_t m_step_start_ns = 0;
    std::uint64_t m_attention_budget = 0;
    std::uint64_t m_attention_bytes = 0;
    std::uint64_t m_events_since_key_frame = 0;
    std::uint64_t m_key_frame_step = 0;
    bool m_in_step = false;
    StepRecord m_step;  // ends of the ranges published last
    std::unordered_map<std::string, StringId> m_interned;
    LaneState m_state;
};

class RecordingWriter {
public:
    RecordingWriter(std::string title, std::uint64_t memory_budget_bytes);

    // Before the first step only.
    LaneWriter& add_lane(LaneInfo info, std::shared_ptr<const VocabularyText> vocabulary);
    void lanes_complete();  // divides the attention budget

    // Before the first step, of a recording of the same lanes and requests: its steps up to the marks (lanes) are this one's too, with
    // their times; the clock goes on behind them. `before` has been recorded in this program: its logs are in memory.
    void begin_with(const Recording& before, std::span<const LaneMark> marks);

    RequestId add_request(RequestInfo info);
    // Reason and focus first, then the phase.
    void set_phase(Phase phase, std::string reason = {}, std::optional<PauseFocus> focus = std::nullopt);

    void set_device_memory(std::vector<DeviceMemory> memory);

    std::shared_ptr<const Recording> recording() const { return m_recording; }
    LaneWriter& lane(LaneId id) { return *m_lanes[id.value]; }
    std::uint64_t elapsed_ns() const;

    // From now on the recording's clock stands where it is set, nanoseconds since the start, and is no longer read from
    // the system: for tests, whose pictures and files must not change from run to run.
    void set_time(std::uint64_t nanoseconds);

private:
    std::shared_ptr<Recording> m_recording;
    std::unique_ptr<std::uint64_t> m_set_time_ns;
    std::chrono::steady_clock::time_point m_start;
    std::vector<std::unique_ptr<LaneWriter>> m_lanes;
};

}  // namespace kvloupe
