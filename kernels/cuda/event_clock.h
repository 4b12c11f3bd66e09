// SPDX-License-Identifier: GPL-3.0-or-later
//
// EventClock: stage times by CUDA events. A mark records one event behind the stage's launches, without waiting; the times
// are read a step later, when they lie long behind. The newest two sets are kept, and events are used again.
#pragma once

#include "engine/backend.h"
#include "kernels/cuda/card.h"

#include <array>
#include <vector>

namespace kvloupe::cuda {

class EventClock {
public:
    explicit EventClock(Card& card) : m_card(card) {}
    ~EventClock();
    EventClock(const EventClock&) = delete;
    EventClock& operator=(const EventClock&) = delete;

    std::uint64_t start();
    void mark(StageKind kind, std::uint16_t layer);
    // Waits for the set's last mark. Empty where the card failed.
    std::span<const StageTiming> timings(std::uint64_t set);

private:
    struct Set {
        std::vector<cudaEvent_t> events;    // events[0]: the start; events[i + 1]: behind stage i
        std::vector<StageTiming> timings;
        std::size_t read = 0;               // stages whose duration is filled in
    };
    bool record(Set& set, std::size_t index);

    Card& m_card;
    std::array<Set, 2> m_sets;
    std::uint64_t m_set = 0;
};

}  // namespace kvloupe::cuda
