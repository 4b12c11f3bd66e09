// SPDX-License-Identifier: GPL-3.0-or-later
//
// Tables and views of a recording file (.kvt), version 2; README, "The recording file", describes them for those who query it.
//
// Logs that grow with the run have a number as their only key: lane * 2^40 + index in the lane's log. So rows are appended at the end
// of one tree per table without a secondary index, a step finds its events by the range that it names, and the views join
// both ways. Rejected: events as blobs (no SQL tool could read them); a step in every event (a tenth of the file for what the range
// already says). Version 1 had key frames in an index on lane and step: SQLite loads whole frames to compare such keys, ten for each
// that is read.
#pragma once

#include <cstdint>
#include <string>

namespace kvloupe::kvt {

inline constexpr std::int32_t application_id = 0x4B564C50;  // "KVLP"
inline constexpr std::int32_t version = 2;                  // newest that this program writes and reads
inline constexpr unsigned index_bits = 40;
inline constexpr std::int64_t row_id(std::uint32_t lane, std::uint64_t index) {
    return static_cast<std::int64_t>(std::uint64_t{lane} << index_bits | index);
}

// Statements of a new file, tables then views; event kinds, causes and stages are filled in by the writer from their names.
extern const char* const create_tables;
extern const char* const create_views;

// Key frames of a lane in a file of that version: their steps, ascending; and the bytes of one, for a step as parameter.
std::string key_frame_steps(std::int64_t version, std::uint32_t lane);
std::string key_frame_data(std::int64_t version, std::uint32_t lane);
// A frame's key: of step -1, what a cut begins with, the lane's first.
inline constexpr std::int64_t key_frame_id(std::uint32_t lane, std::int64_t step) { return row_id(lane, 0) + step + 1; }

}  // namespace kvloupe::kvt
