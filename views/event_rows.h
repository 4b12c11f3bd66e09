// SPDX-License-Identifier: GPL-3.0-or-later
//
// EventRows: which events of a lane a filter lets through, in order, and how many there are of each kind and cause. Without a filter a
// row is an event, and nothing is stored for it.
#pragma once

#include "views/event_filter.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace kvloupe {

class EventRows {
public:
    EventRows() = default;
    explicit EventRows(EventFilter filter) : m_filter(std::move(filter)) {}

    // Reads the steps that are new; stops early when cancelled. One recording and lane for life.
    void update(const Recording& recording, LaneId lane, const std::atomic<bool>& cancelled);
    std::size_t steps() const { return m_steps; }

    const EventFilter& filter() const { return m_filter; }
    std::size_t rows() const { return all() ? static_cast<std::size_t>(m_total) : m_shown.size(); }
    std::uint64_t eventAt(std::size_t row) const { return all() ? m_first + row : m_shown[row].event; }
    std::uint32_t stepAt(std::size_t row) const;     // all: O(log steps)
    std::size_t rowsUpTo(int step) const;            // rows of steps 0 .. step
    int rowOf(std::uint64_t event) const;            // -1 when it is filtered out
    std::uint64_t total() const { return m_total; }  // events read, filtered or not
    const std::array<std::uint64_t, event_kind_count>& counts() const { return m_counts; }
    const std::array<std::uint64_t, cause_count>& causeCounts() const { return m_causeCounts; }

private:
    struct Shown {
        std::uint64_t event = 0;
        std::uint32_t step = 0;
    };
    bool all() const { return m_filter.empty() || !m_filter.error.isEmpty(); }

    EventFilter m_filter;
    const LaneRecord* m_record = nullptr;
    std::size_t m_steps = 0;
    std::uint64_t m_first = 0;  // event of row 0, without a filter
    std::uint64_t m_total = 0;
    std::vector<Shown> m_shown;
    std::array<std::uint64_t, event_kind_count> m_counts{};
    std::array<std::uint64_t, cause_count> m_causeCounts{};
};

}  // namespace kvloupe
