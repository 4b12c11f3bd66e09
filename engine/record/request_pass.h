// SPDX-License-Identifier: GPL-3.0-or-later
//
// RequestPass: the times of a lane's sequences, brought up to date step by step (rules: RequestTimes in describe.h).
#pragma once

#include "engine/record/describe.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe {

class RequestPass {
public:
    // Follows all sequences of the lane, also those that come while it goes on.
    RequestPass(const Recording& recording, const LaneRecord& lane) : m_recording(&recording), m_lane(&lane), m_all(true) {}
    // Follows these alone; whoever stems from another needs it, too.
    RequestPass(const Recording& recording, const LaneRecord& lane, const std::vector<SequenceId>& followed);

    // false: inter_token_ms stay empty, for who counts the times of tokens himself (default: true).
    void keep_gaps(bool keep) { m_keep_gaps = keep; }

    // Steps must come in order, without a gap from the first one on that holds something of the sequences.
    void step(const StepRecord& step);

    std::size_t size() const { return m_progress.size(); }
    // The sequence must be followed.
    const RequestTimes& of(SequenceId sequence) const { return m_progress[sequence.value]->times; }
    // Sequences that the last step gave a token, once for each token.
    const std::vector<SequenceId>& sampled() const { return m_sampled; }

private:
    struct Progress {
        RequestTimes times;
        std::optional<std::uint64_t> arrived;
        std::optional<std::uint64_t> previous_token;
    };
    Progress* find(SequenceId sequence);
    void token(Progress& own, std::uint64_t step_end);
    void event(Progress& own, const Event& event, const StepRecord& step);
    void stem(Progress& own, const Event& event, std::uint64_t step_start);
    void first_token(Progress& own, std::uint64_t step_end);

    const Recording* m_recording;
    const LaneRecord* m_lane;
    std::vector<std::optional<Progress>> m_progress;  // index: SequenceId; none: not followed
    std::vector<SequenceId> m_sampled;
    bool m_all = false;
    bool m_keep_gaps = true;
};

}  // namespace kvloupe
