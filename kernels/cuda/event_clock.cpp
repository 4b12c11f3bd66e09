// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/event_clock.h"

#include <cmath>

namespace kvloupe::cuda {

EventClock::~EventClock() {
    for (Set& set : m_sets)
        for (cudaEvent_t event : set.events)
            if (cudaEventDestroy(event) != cudaSuccess) (void)cudaGetLastError();
}

bool EventClock::record(Set& set, std::size_t index) {
    if (index == set.events.size()) {
        cudaEvent_t event = nullptr;
        if (!m_card.fault().note(cudaEventCreateWithFlags(&event, cudaEventDefault), "the stage timers")) return false;
        set.events.push_back(event);
    }
    return m_card.fault().note(cudaEventRecord(set.events[index], m_card.stream), "the stage timers");
}

std::uint64_t EventClock::start() {
    Set& set = m_sets[++m_set % 2];
    set.timings.clear();
    set.read = 0;
    if (m_card.ready()) record(set, 0);
    return m_set;
}

void EventClock::mark(StageKind kind, std::uint16_t layer) {
    Set& set = m_sets[m_set % 2];
    if (m_set == 0 || !m_card.ready()) return;
    if (record(set, set.timings.size() + 1)) set.timings.push_back({kind, layer, 0});
}

std::span<const StageTiming> EventClock::timings(std::uint64_t number) {
    Set& set = m_sets[number % 2];
    if (number == 0 || number > m_set || number + 1 < m_set) return {};
    if (set.read == set.timings.size()) return set.timings;
    bool good = m_card.ready() && m_card.fault().note(cudaEventSynchronize(set.events[set.timings.size()]), "the stage timers");
    for (std::size_t i = set.read; good && i < set.timings.size(); ++i) {
        float milliseconds = 0;
        good = m_card.fault().note(cudaEventElapsedTime(&milliseconds, set.events[i], set.events[i + 1]), "the stage timers");
        set.timings[i].duration_ns = static_cast<std::uint64_t>(std::llround(static_cast<double>(milliseconds) * 1e6));
    }
    if (!good) set.timings.clear();
    set.read = set.timings.size();
    return set.timings;
}

}  // namespace kvloupe::cuda
