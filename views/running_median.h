// SPDX-License-Identifier: GPL-3.0-or-later
//
// RunningMedian: the median of values that keep coming.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

namespace kvloupe {

class RunningMedian {
public:
    void add(double value) {
        if (m_lower.empty() || value <= m_lower.top()) m_lower.push(value);
        else m_upper.push(value);
        if (m_lower.size() > m_upper.size() + 1) {
            m_upper.push(m_lower.top());
            m_lower.pop();
        } else if (m_upper.size() > m_lower.size()) {
            m_lower.push(m_upper.top());
            m_upper.pop();
        }
    }
    std::size_t count() const { return m_lower.size() + m_upper.size(); }
    // The mean of the two in the middle for an even count.
    std::optional<double> value() const {
        if (m_lower.empty()) return std::nullopt;
        return m_lower.size() > m_upper.size() ? m_lower.top() : (m_lower.top() + m_upper.top()) / 2;
    }

private:
    std::priority_queue<double> m_lower;                                             // the smaller half
    std::priority_queue<double, std::vector<double>, std::greater<double>> m_upper;  // the larger half, never bigger
};

}  // namespace kvloupe
