// SPDX-License-Identifier: GPL-3.0-or-later
//
// Search for the next event in a lane's log: forwards and backwards from a place, around the ends, without an index: a look at an
// event costs nanoseconds as long as no text is asked for, and whoever waits may give up.
#pragma once

#include "views/event_filter.h"

#include <atomic>
#include <cstdint>
#include <optional>

namespace kvloupe {

struct EventHit {
    std::uint64_t event = 0;   // index into the lane's events
    std::uint32_t step = 0;
    bool wrapped = false;      // found beyond the end of the recording, from its other end on
};

// Where a search begins. Without an event the events of `step` are looked at too; with one of them, only what lies beyond it.
struct SearchPlace {
    std::uint32_t step = 0;
    std::optional<std::uint64_t> event;
};

class EventSearch {
public:
    // Both outlive the search. The lane's steps of now are searched.
    EventSearch(const Recording& recording, const LaneRecord& lane) : m_recording(recording), m_lane(lane) {}

    // forwards: towards later events. Empty: none matches, or it was cancelled. The event one starts from is the last one tried.
    std::optional<EventHit> find(const EventFilter& filter, const SearchPlace& from, bool forwards,
                                 const std::atomic<bool>& cancelled) const;
    // Step of an event of a published step: O(log steps).
    std::uint32_t stepOf(std::uint64_t event) const;

private:
    std::optional<EventHit> findForwards(const EventFilter& filter, LogRange range, const std::atomic<bool>& cancelled) const;
    std::optional<EventHit> findBackwards(const EventFilter& filter, LogRange range, const std::atomic<bool>& cancelled) const;
    bool matches(const EventFilter& filter, std::uint64_t event, std::uint32_t step) const;

    const Recording& m_recording;
    const LaneRecord& m_lane;
};

// "copy-on-write of request a on block 5 that says “owner”"; "event" for an empty filter.
QString filterText(const EventFilter& filter);

}  // namespace kvloupe
