// SPDX-License-Identifier: GPL-3.0-or-later
//
// PositionTap: sees the logits of positions inside a prompt as well, of which a step otherwise computes none. For measuring what
// a lane thinks of a given text.
#pragma once

#include "engine/record/ids.h"

#include <cstdint>
#include <span>

namespace kvloupe {

class PositionTap {
public:
    virtual ~PositionTap() = default;
    // Whether the logits (vocabulary) after the token at that position are wanted.
    virtual bool wants(RequestId request, std::uint32_t position) const = 0;
    // Called in the step that computes them; again where a preempted sequence is computed again.
    virtual void logits(RequestId request, std::uint32_t position, std::span<const float> logits) = 0;
};

}  // namespace kvloupe
