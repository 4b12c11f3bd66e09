// SPDX-License-Identifier: GPL-3.0-or-later
//
// StageRanges: nested ranges requests > step > layer > stage under the names that the program's own views use. A backend is told
// operations, not stages; in a Llama pass the operation before tells which stage a norm or a product belongs to. A replayed
// pass shows as its step alone: its operations are not issued one by one.
#pragma once

#include "engine/record/step.h"

#include <cstdint>
#include <string>

namespace kvloupe::cuda {

enum class Operation : std::uint8_t { embed, norm, product, rotary_store, attention, activation, gather };

class StageRanges {
public:
    StageRanges() = default;
    ~StageRanges() { end_step(); }
    StageRanges(const StageRanges&) = delete;
    StageRanges& operator=(const StageRanges&) = delete;

    // requests: who is in the step; empty: no range of its own.
    void begin_step(const std::string& requests, std::uint32_t rows, std::uint32_t sequences);
    // Before the operation's launches.
    void enter(Operation operation);
    void end_step();

    // The stage that an operation begins or goes on with where `last` ran before; schedule: none of a known pass.
    static StageKind stage_of(Operation operation, StageKind last);

private:
    void leave_stage();
    void leave_layer();

    StageKind m_stage = StageKind::schedule;  // schedule: before the pass
    std::uint16_t m_layer = 0;                // the next layer's number
    bool m_in_requests = false, m_in_step = false, m_in_layer = false, m_in_stage = false;
};

}  // namespace kvloupe::cuda
