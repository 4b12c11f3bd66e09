// SPDX-License-Identifier: GPL-3.0-or-later
//
// What differs between two recordings: configuration first, then the numbers of their results, the largest relative change first, then
// where they part: the first token, the first block table, the first logit that is not the same. Lanes are compared by name;
// where each has one lane, those two whatever they are called.
#pragma once

#include "engine/record/recording.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe {

struct DiffValue {
    std::string lane;               // "" where it is of the recording; of two names "A → B"
    std::string name;               // path: "policy.free_order", "cache.copies"
    std::string a, b;               // as text; "–" where it does not exist
    std::optional<double> delta;    // b - a
    std::optional<double> percent;  // of a; none where a is 0
    std::optional<Origin> origin{}; // of a number; configuration has none
};

struct Parting {
    enum Kind : std::uint8_t { token, table, logit };
    Kind kind = token;
    std::string lane;
    std::size_t step_a = 0, step_b = 0;  // where it shows
    SequenceId sequence;                 // of a's lane
    std::uint32_t position = 0;          // in it; of a table: the first of the logical block
    BlockId block;                       // of a table: a's, none where it has none there
    std::string sentence;                // "step 41: sequence a, position 52: 'boat' against 'ship'"
};

struct LanePair {
    std::uint32_t a = 0, b = 0;
};

struct RecordingDiff {
    std::vector<DiffValue> configuration;
    std::vector<DiffValue> numbers;
    std::vector<Parting> first;  // for each pair of lanes at most one of each kind
    std::vector<LanePair> lanes;

    bool same() const { return configuration.empty() && numbers.empty() && first.empty(); }
};

// Times are measured anew in every run: they stand among the numbers, and a pair that differs in times alone is told of as any other
// unless times is false.
RecordingDiff diff_recordings(const Recording& a, const Recording& b, bool times = true);
// Of one lane with one other, whatever they are called, also of the same recording.
RecordingDiff diff_lanes(const Recording& a, LaneId lane, const Recording& b, LaneId other, bool times = true);

std::string diff_json(const RecordingDiff& diff);

}  // namespace kvloupe
