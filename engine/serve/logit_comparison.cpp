// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/logit_comparison.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

LogitComparison::LogitComparison(std::span<const std::uint64_t> weights_ids, std::uint64_t memory_bytes)
    : m_reference(weights_ids.size()), m_followers(weights_ids.size(), 0), m_memory(memory_bytes) {
    for (std::size_t lane = 1; lane < weights_ids.size(); ++lane) {
        if (weights_ids[lane] == 0) continue;
        const auto first = std::find(weights_ids.begin(), weights_ids.begin() + static_cast<std::ptrdiff_t>(lane), weights_ids[lane]);
        const auto index = static_cast<std::size_t>(first - weights_ids.begin());
        if (index == lane) continue;
        m_reference[lane] = LaneId{static_cast<std::uint32_t>(index)};
        ++m_followers[index];
    }
}

void LogitComparison::keep(LaneId lane, RequestId request, std::uint32_t index, std::span<const float> logits) {
    const Key key{lane.value, request.value};
    m_entries[{key, index}] = Entry{{logits.begin(), logits.end()}, m_followers[lane.value]};
    m_age.emplace_back(key, index);
    m_bytes += logits.size_bytes();
    while (m_bytes > m_memory && !m_age.empty()) {
        const auto oldest = m_entries.find(m_age.front());
        m_age.pop_front();
        if (oldest == m_entries.end()) continue;
        m_bytes -= oldest->second.logits.size() * sizeof(float);
        m_entries.erase(oldest);
    }
}

std::optional<float> LogitComparison::add(LaneId lane, RequestId request, std::uint32_t index,
                                          std::span<const float> logits, TokenId token) {
    Track& own = m_tracks[{lane.value, request.value}];
    if (m_followers[lane.value] > 0) {
        own.tokens.push_back(token);
        keep(lane, request, index, logits);
        return std::nullopt;
    }
    const LaneId reference = m_reference[lane.value];
    if (!reference.valid()) return std::nullopt;

    const Key key{reference.value, request.value};
    const Track& other = m_tracks[key];
    // Counts the leading tokens that are equal, as far as both lanes have come.
    const auto advance = [&] {
        for (; !own.differs && own.equal < std::min(own.tokens.size(), other.tokens.size()); ++own.equal) {
            own.differs = own.tokens[own.equal] != other.tokens[own.equal];
            if (own.differs) break;
        }
    };
    advance();
    std::optional<float> difference;
    const auto entry = m_entries.find({key, index});
    if (entry != m_entries.end()) {
        const std::vector<float>& expected = entry->second.logits;
        if (!own.differs && own.equal == index && expected.size() == logits.size()) {
            float largest = 0;
            for (std::size_t i = 0; i < logits.size(); ++i) largest = std::max(largest, std::fabs(logits[i] - expected[i]));
            difference = largest;
        }
        if (--entry->second.readers == 0) {
            m_bytes -= expected.size() * sizeof(float);
            m_entries.erase(entry);
            while (!m_age.empty() && !m_entries.count(m_age.front())) m_age.pop_front();
        }
    }
    own.tokens.push_back(token);
    advance();
    return difference;
}

}  // namespace kvloupe
