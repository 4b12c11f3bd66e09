// SPDX-License-Identifier: GPL-3.0-or-later
//
// A number that changes when an event of a range changes: what a recording file keeps beside its events, so that a flipped bit shows.
#pragma once

#include "engine/record/event.h"

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace kvloupe {

class EventCheck {
public:
    void add(const Event& event) {
        static_assert(sizeof(Event) == 32 && std::has_unique_object_representations_v<Event>, "no padding that could hold anything");
        for (const std::uint64_t word : std::bit_cast<std::array<std::uint64_t, 4>>(event)) {
            // The finishing steps of splitmix64 (Steele, Lea, Flood 2014) over a running value.
            m_value = (m_value ^ word) + 0x9E3779B97F4A7C15u;
            m_value = (m_value ^ (m_value >> 30)) * 0xBF58476D1CE4E5B9u;
            m_value = (m_value ^ (m_value >> 27)) * 0x94D049BB133111EBu;
            m_value ^= m_value >> 31;
        }
    }
    // As SQLite keeps it.
    std::int64_t value() const { return static_cast<std::int64_t>(m_value); }

private:
    std::uint64_t m_value = 0;
};

}  // namespace kvloupe
