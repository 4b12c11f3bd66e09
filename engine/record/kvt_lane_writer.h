// SPDX-License-Identifier: GPL-3.0-or-later
//
// Follows one lane of a recording into a recording file: what the lane has published since the last call becomes rows.
#pragma once

#include "engine/record/bulk_insert.h"
#include "engine/record/lane_state_code.h"
#include "engine/record/recording.h"

#include <array>
#include <cstdint>
#include <future>
#include <optional>
#include <string>

namespace kvloupe {

// What of a lane goes into the file. Steps count from first_step there, and so does whatever names a step.
struct LanePart {
    std::size_t first_step = 0;
    std::size_t end_step = SIZE_MAX;  // not this one; SIZE_MAX: all that come
    bool strip = false;               // ids of tokens become 0
    std::uint64_t hash_key = 0;       // StateChange::hash_key

    // Sequences that the part's steps know: the first so many of the lane; SIZE_MAX where the part is open at its end.
    std::size_t sequences(const LaneRecord& lane) const;
};

class KvtLaneWriter {
public:
    // The lane outlives this object. A cut begins with a key frame of what its first step found, at step -1, and with the tokens
    // of sequences that lived then, in front of those that its first step names.
    static Result<KvtLaneWriter> follow(SqlDatabase& database, const LaneRecord& lane, std::uint32_t number, const LanePart& part = {});

    // Appends published steps with all that belongs to them, at most until `events` events have been written. Returns how many
    // steps were written. Inside a transaction of the caller.
    Result<std::size_t> append(std::uint64_t events);
    // Stages of steps that were measured one step late, the last tile, failure and counts: once all steps are written.
    Result<void> append_rest();

    std::size_t steps() const { return m_step; }        // written, or left out at the front
    std::uint64_t events() const { return m_events; }
    std::uint64_t dropped_rows() const { return m_dropped_rows; }
    // Attention rows are left out from here on, and counted, until this is called with false.
    void leave_out_attention(bool leave_out) { m_leave_out_attention = leave_out; }

private:
    KvtLaneWriter(SqlDatabase& database, const LaneRecord& lane, std::uint32_t number, const LanePart& part)
        : m_database(&database), m_lane(&lane), m_number(number), m_part(part), m_step(part.first_step) {}
    std::int64_t id(std::uint64_t index) const;
    StateChange change() const { return {static_cast<std::uint32_t>(m_part.first_step), m_part.hash_key}; }

    Result<void> prepare();
    Result<void> append_step(const StepRecord& step);
    Result<void> append_events(LogRange range);
    Result<void> append_token(const TokenRecord& token);
    Result<void> append_earlier_tokens();
    Result<void> append_attention(LogRange range);
    Result<void> append_names();
    Result<void> append_stages(std::size_t end_step);
    std::array<BulkInsert*, 8> logs();
    Result<void> write_checks();
    Result<void> write_tile();
    Result<void> key_frame(const LaneState& state, std::int64_t step);
    Result<void> write_key_frame();  // the one that is being encoded; waits for it
    Result<void> block_states(const LaneState& state, std::int64_t step);

    SqlDatabase* m_database = nullptr;
    const LaneRecord* m_lane = nullptr;
    std::uint32_t m_number = 0;
    LanePart m_part;
    std::size_t m_end_sequence = SIZE_MAX;
    std::optional<BulkInsert> m_step_rows, m_event_rows, m_token_rows, m_alternative_rows, m_stage_range_rows, m_stage_rows,
        m_attention_rows, m_block_rows;
    std::optional<SqlStatement> m_sequence, m_string, m_tile, m_key_frame, m_check;

    std::size_t m_step = 0;            // next to be written
    std::uint64_t m_events = 0, m_tokens = 0, m_alternatives = 0, m_attention = 0, m_weights = 0, m_stages = 0;  // written so far
    std::size_t m_sequences = 0, m_strings = 0, m_stage_ranges = 0, m_written_stage_ranges = 0;
    std::uint64_t m_key_frame_event = 0;  // events written when the last key frame was
    bool m_any_key_frame = false;
    std::future<std::string> m_frame;     // being encoded; may be empty
    std::int64_t m_frame_step = 0;
    std::uint64_t m_block_states_event = 0, m_block_states = 0;  // when block_states were written last, and how many
    std::vector<float> m_tile_weights;    // of the tile in progress
    std::uint64_t m_dropped_rows = 0;
    bool m_leave_out_attention = false;
};

}  // namespace kvloupe
