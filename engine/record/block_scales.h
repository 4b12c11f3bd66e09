// SPDX-License-Identifier: GPL-3.0-or-later
//
// The scales of a block, worked out from its stored values: the largest code of every scaled group is used by the value that
// gave the scale, so largest value ÷ largest code is the scale (kv_format.h). Derived, not read; of rotated rows to about one
// part in a million, because they are turned again first.
#pragma once

#include "engine/record/block_values.h"

#include <string>
#include <vector>

namespace kvloupe {

struct StoredScales {
    enum class Axis : std::uint8_t {
        none,      // no scale, or one that a block does not tell
        token,     // (tokens, per_entry): groups of channels of a row
        channel,   // (width, per_entry): groups of tokens of a channel (KIVI keys)
    };
    Axis axis = Axis::none;
    std::uint32_t per_entry = 0;
    std::uint32_t run = 1;         // channels, or tokens, that share one scale
    std::uint32_t offset = 0;      // channels of earlier heads in the first run (packs over neighbouring heads)
    std::vector<double> steps;     // what a code is multiplied with
    std::vector<double> minimums;  // and what is added to it; empty: 0
    // Of the value at that place; axis is not none.
    std::size_t index(std::uint32_t token, std::uint32_t channel) const {
        if (axis == Axis::token) return std::size_t{token} * per_entry + (channel + offset) / run;
        return std::size_t{channel} * per_entry + token / run;
    }
    std::string rule;              // "largest |x| ÷ 127 of a token's row"; of Axis::none: why there is none
};

// Of one head of K or V.
StoredScales scales_of(const BlockValues& values, KvPart part, std::uint32_t head);

}  // namespace kvloupe
