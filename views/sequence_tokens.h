// SPDX-License-Identifier: GPL-3.0-or-later
//
// SequenceTokens: the tokens of every sequence of a lane by position, read from the token log once; what a child inherited
// is found at its parent, what was not recorded on its own in the request's prompt.
#pragma once

#include "engine/record/recording.h"

#include <QString>

#include <atomic>
#include <optional>
#include <vector>

namespace kvloupe {

class SequenceTokens {
public:
    // Reads the steps that are new until cancelled; another lane or recording starts over.
    void update(const Recording& recording, LaneId lane, const std::atomic<bool>& cancelled = std::atomic<bool>(false));
    std::size_t steps() const { return m_steps; }  // read so far

    std::optional<TokenId> token(SequenceId sequence, std::uint32_t position) const;
    // Text of positions first .. first + count - 1, on one line, at most `longest` characters; token numbers where the
    // lane has no vocabulary.
    QString text(SequenceId sequence, std::uint32_t first, std::uint32_t count, int longest) const;

private:
    static constexpr TokenId unknown = -1;
    const Recording* m_recording = nullptr;
    const LaneRecord* m_lane = nullptr;
    LaneId m_laneId;
    std::size_t m_steps = 0;
    std::uint64_t m_scanned = 0;
    std::vector<std::vector<TokenId>> m_tokens;  // (sequence, position)
};

}  // namespace kvloupe
