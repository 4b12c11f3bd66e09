// SPDX-License-Identifier: GPL-3.0-or-later
//
// TokenTrack: the tokens of one sequence as they stand after a step, read from the lane's token log incrementally: a
// longer recording costs what is new, a step back costs nothing but the sequence's length.
#pragma once

#include "engine/record/recording.h"

#include <QString>

#include <vector>

namespace kvloupe {

struct TrackedToken {
    TokenId token = 0;
    TokenRecord::Source source = TokenRecord::prompt;
    const TokenRecord* record = nullptr;  // null: of the prompt, not recorded on its own
};

class TokenTrack {
public:
    // step < the lane's step count. Throws nothing; a sequence that has not arrived gives no tokens.
    void update(const Recording& recording, LaneId lane, SequenceId sequence, std::size_t step);
    void clear();

    const std::vector<TrackedToken>& tokens() const { return m_tokens; }  // index: position

private:
    const Recording* m_recording = nullptr;
    LaneId m_lane;
    SequenceId m_sequence;
    std::uint64_t m_scanned = 0;           // end of the part of the token log that was looked at
    std::vector<std::uint64_t> m_indices;  // entries of the log that belong to the sequence, ascending
    std::vector<TrackedToken> m_tokens;
};

// Positions whose K/V a step computed for a sequence, from its prefill and decode events; count 0 when it did nothing.
struct StepWork {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    bool recomputed = false;  // an uncached lane went over the whole prefix again
};
StepWork workOf(const LaneRecord& lane, SequenceId sequence, std::size_t step);

// Label of a token in a small cell: the space in front is left out, line ends and lone spaces are drawn as signs.
QString tokenLabel(const VocabularyText& vocabulary, TokenId token);
// The token with its exact text in quotes, for tips and CSV.
QString tokenText(const VocabularyText& vocabulary, TokenId token);

}  // namespace kvloupe
