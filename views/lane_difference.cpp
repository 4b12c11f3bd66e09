// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/lane_difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvloupe {

LaneDifference::LaneDifference(const Recording* recording, LaneId lane, LaneId reference)
    : m_recording(recording), m_lane(lane), m_reference(reference) {}

bool LaneDifference::same(SequenceId own, SequenceId reference) const {
    const LaneRecord &lane = m_recording->lane(m_lane), &other = m_recording->lane(m_reference);
    if (own.value >= lane.sequences().size() || reference.value >= other.sequences().size()) return false;
    const SequenceInfo &a = lane.sequences()[own.value], &b = other.sequences()[reference.value];
    return a.request == b.request && a.name == b.name;
}

void LaneDifference::compareTokens(std::size_t step) {
    const LaneRecord &own = m_recording->lane(m_lane), &other = m_recording->lane(m_reference);
    const StepRecord &a = own.step(step), &b = other.step(step);
    const bool sameText = !m_textsPartAt;
    for (std::uint64_t i = a.tokens.begin; i < a.tokens.end; ++i) {
        const TokenRecord& token = own.tokens()[i];
        if (token.alternative_count == 0) continue;
        for (std::uint64_t j = b.tokens.begin; j < b.tokens.end; ++j) {
            const TokenRecord& reference = other.tokens()[j];
            if (reference.alternative_count == 0 || reference.position != token.position) continue;
            if (!same(token.sequence, reference.sequence)) continue;
            const TokenId greedy = own.alternatives()[token.alternatives_begin].token;
            const TokenId expected = other.alternatives()[reference.alternatives_begin].token;
            if (greedy != expected) m_differences.push_back({static_cast<std::uint32_t>(step), greedy, expected, sameText});
            if (token.token != reference.token && !m_textsPartAt) m_textsPartAt = static_cast<std::uint32_t>(step);
            break;
        }
    }
}

void LaneDifference::advance() {
    const std::size_t count =
        std::min(m_recording->lane(m_lane).step_count(), m_recording->lane(m_reference).step_count());
    for (std::size_t step = m_largest.size(); step < count; ++step) {
        const float now = at(step);
        float largest = m_largest.empty() ? std::numeric_limits<float>::quiet_NaN() : m_largest.back();
        const bool agreed = !m_textsPartAt;  // before this step, whose logits are therefore those of the same text
        compareTokens(step);
        if (agreed && !std::isnan(now)) largest = std::isnan(largest) ? now : std::max(largest, now);
        m_largest.push_back(largest);
    }
}

}  // namespace kvloupe
