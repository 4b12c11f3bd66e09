// SPDX-License-Identifier: GPL-3.0-or-later
//
// Tables and views of a recording file (.kvt), version 1; README, "The recording file", describes them for those who query it.
//
// Logs that grow with the run have a number as their only key: lane * 2^40 + index in the lane's log. So rows are appended at the end
// of one tree per table without a secondary index, a step finds its events by the range that it names, and the views join
// both ways. Rejected: events as blobs (no SQL tool could read
// them); a step in every event (a tenth of the file for what the range already says).
#pragma once

#include <cstdint>

namespace kvloupe::kvt {

inline constexpr std::int32_t application_id = 0x4B564C50;  // "KVLP"
inline constexpr std::int32_t version = 1;                  // newest that this program writes and reads
inline constexpr unsigned index_bits = 40;
inline constexpr std::int64_t row_id(std::uint32_t lane, std::uint64_t index) {
    return static_cast<std::int64_t>(std::uint64_t{lane} << index_bits | index);
}

// Statements of a new file, tables then views; event kinds, causes and stages are filled in by the writer from their names.
extern const char* const create_tables;
extern const char* const create_views;

}  // namespace kvloupe::kvt
