// SPDX-License-Identifier: GPL-3.0-or-later
//
// RequestTimeline: the times of a lane's sequences as they were after any step, from one pass over the recording: 4 bytes a token. What
// it answers is what all_request_times() would say, without reading the events again.
#pragma once

#include "engine/record/request_pass.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe {

class RequestTimeline {
public:
    // Reads the steps that are new; stops early when cancelled. One recording and lane for life.
    void update(const Recording& recording, LaneId lane, const std::atomic<bool>& cancelled);
    std::size_t steps() const { return m_steps; }

    // Up to and including `step`, as far as steps were read. gaps: inter_token_ms too, which costs the sequence's tokens.
    RequestTimes at(SequenceId sequence, std::size_t step, bool gaps) const;

private:
    static constexpr std::uint32_t never = 0xFFFFFFFFu;
    struct Life {
        std::uint32_t queued = never, first_token = never, ended = never;  // steps in which these became known
        std::optional<double> queue_ms, time_to_first_token_ms;
        std::string finish_reason, reason;
        bool dropped = false;
        std::vector<std::uint32_t> tokens;  // steps that gave it a token, one each
    };
    void note(SequenceId sequence, std::uint32_t step);

    const LaneRecord* m_lane = nullptr;
    std::optional<RequestPass> m_pass;
    std::vector<Life> m_lives;  // index: SequenceId
    std::size_t m_steps = 0;
};

}  // namespace kvloupe
