// SPDX-License-Identifier: GPL-3.0-or-later
//
// Follows one lane of a recording into a recording file: what the lane has published since the last call becomes rows.
#pragma once

#include "engine/record/bulk_insert.h"
#include "engine/record/recording.h"

#include <array>
#include <cstdint>
#include <optional>

namespace kvloupe {

class KvtLaneWriter {
public:
    // The lane's steps from `first_step` on (a cut); what they name in other logs counts from there. The lane outlives this object.
    static Result<KvtLaneWriter> follow(SqlDatabase& database, const LaneRecord& lane, std::uint32_t number, std::size_t first_step = 0);

    // Appends published steps with all that belongs to them, at most until `events` events have been written, and no step from
    // end_step on. Returns how many steps were written. Inside a transaction of the caller.
    Result<std::size_t> append(std::uint64_t events, std::size_t end_step);
    // Stages of steps that were measured one step late, the last tile, failure and counts: once all steps are written.
    Result<void> append_rest();

    std::size_t steps() const { return m_step; }        // written, or left out at the front
    std::uint64_t events() const { return m_events; }
    std::uint64_t dropped_rows() const { return m_dropped_rows; }
    // Attention rows are left out from here on, and counted, until this is called with false.
    void leave_out_attention(bool leave_out) { m_leave_out_attention = leave_out; }

private:
    KvtLaneWriter(SqlDatabase& database, const LaneRecord& lane, std::uint32_t number)
        : m_database(&database), m_lane(&lane), m_number(number) {}
    std::int64_t id(std::uint64_t index) const;

    Result<void> prepare();
    Result<void> append_step(const StepRecord& step);
    Result<void> append_events(LogRange range);
    Result<void> append_tokens(LogRange range);
    Result<void> append_attention(LogRange range);
    Result<void> append_names();
    Result<void> append_stages(std::size_t end_step);
    std::array<BulkInsert*, 8> logs();
    Result<void> write_checks();
    Result<void> write_tile();
    Result<void> key_frame(std::size_t step);

    SqlDatabase* m_database = nullptr;
    const LaneRecord* m_lane = nullptr;
    std::uint32_t m_number = 0;
    std::optional<BulkInsert> m_step_rows, m_event_rows, m_token_rows, m_alternative_rows, m_stage_range_rows, m_stage_rows,
        m_attention_rows, m_block_rows;
    std::optional<SqlStatement> m_sequence, m_string, m_tile, m_key_frame, m_check;

    std::size_t m_step = 0;            // next to be written
    std::size_t m_first_step = 0;
    std::uint64_t m_events = 0, m_tokens = 0, m_alternatives = 0, m_attention = 0, m_weights = 0, m_stages = 0;  // written so far
    std::size_t m_sequences = 0, m_strings = 0, m_stage_ranges = 0, m_written_stage_ranges = 0;
    std::uint64_t m_key_frame_event = 0;  // events written when the last key frame was
    bool m_any_key_frame = false;
    std::vector<float> m_tile_weights;    // of the tile in progress
    std::uint64_t m_dropped_rows = 0;
    bool m_leave_out_attention = false;
};

}  // namespace kvloupe
