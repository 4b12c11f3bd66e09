// SPDX-License-Identifier: GPL-3.0-or-later
//
// LaneDifference: differences of one lane's logits and choices to those of the first lane with the same weights.
#pragma once

#include "engine/record/recording.h"

#include <optional>
#include <vector>

namespace kvloupe {

// Kept up to date by looking at new steps only.
class LaneDifference {
public:
    struct Difference {
        std::uint32_t step = 0;
        TokenId own = 0, reference = 0;   // greedy choices
        bool sameText = true;             // all tokens before it were equal, so the logits answer the same text
    };

    LaneDifference(const Recording* recording, LaneId lane, LaneId reference);

    void advance();
    LaneId lane() const { return m_lane; }
    LaneId reference() const { return m_reference; }
    std::size_t steps() const { return m_largest.size(); }
    // Difference of the step; NaN where none was measured.
    float at(std::size_t step) const { return m_recording->lane(m_lane).step(step).logit_difference; }
    // Largest up to and including `step`, over the steps whose logits answer the same text (contract, section 4): the last
    // of them is the step that first gives another token, for its logits were computed before. NaN where there is none.
    float largest(std::size_t step) const { return m_largest[step]; }
    // Steps in which the most probable token is not the reference's.
    const std::vector<Difference>& differences() const { return m_differences; }
    // Step in which a sequence was first given another token than the reference's; from the next one on texts differ.
    std::optional<std::uint32_t> textsPartAt() const { return m_textsPartAt; }

private:
    void compareTokens(std::size_t step);
    // The lane's sequence and the reference's are the same one of the same request.
    bool same(SequenceId own, SequenceId reference) const;

    const Recording* m_recording;
    LaneId m_lane, m_reference;
    std::vector<float> m_largest;
    std::vector<Difference> m_differences;
    std::optional<std::uint32_t> m_textsPartAt;
};

}  // namespace kvloupe
