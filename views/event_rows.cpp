// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/event_rows.h"

#include <algorithm>

namespace kvloupe {

void EventRows::update(const Recording& recording, LaneId lane, const std::atomic<bool>& cancelled) {
    m_record = &recording.lane(lane);
    const std::size_t count = m_record->step_count();
    if (m_steps == 0 && count > 0) m_first = m_record->step(0).events.begin;
    for (; m_steps < count && !cancelled.load(std::memory_order_relaxed); ++m_steps) {
        const LogRange range = m_record->step(m_steps).events;
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
            const Event& event = m_record->events()[i];
            ++m_total;
            ++m_counts[static_cast<std::size_t>(event.kind)];
            ++m_causeCounts[static_cast<std::size_t>(event.cause)];
            if (!all() && m_filter.matches(recording, *m_record, event, static_cast<std::uint32_t>(m_steps)))
                m_shown.push_back({i, static_cast<std::uint32_t>(m_steps)});
        }
    }
}

std::uint32_t EventRows::stepAt(std::size_t row) const {
    if (!all()) return m_shown[row].step;
    std::size_t low = 0, high = m_steps;
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        if (m_record->step(middle).events.end <= m_first + row) low = middle + 1;
        else high = middle;
    }
    return static_cast<std::uint32_t>(low);
}

std::size_t EventRows::rowsUpTo(int step) const {
    if (step < 0 || m_steps == 0) return 0;
    if (all()) return static_cast<std::size_t>(m_record->step(std::min(static_cast<std::size_t>(step), m_steps - 1)).events.end - m_first);
    const auto after = std::partition_point(m_shown.begin(), m_shown.end(),
                                            [step](const Shown& shown) { return static_cast<int>(shown.step) <= step; });
    return static_cast<std::size_t>(after - m_shown.begin());
}

int EventRows::rowOf(std::uint64_t event) const {
    if (all()) return event >= m_first && event - m_first < m_total ? static_cast<int>(event - m_first) : -1;
    const auto found = std::lower_bound(m_shown.begin(), m_shown.end(), event,
                                        [](const Shown& shown, std::uint64_t wanted) { return shown.event < wanted; });
    return found != m_shown.end() && found->event == event ? static_cast<int>(found - m_shown.begin()) : -1;
}

}  // namespace kvloupe
