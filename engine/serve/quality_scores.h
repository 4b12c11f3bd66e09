// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a lane thought of every predicted token of an item, and of how far that lay from the reference lane's thoughts.
#pragma once

#include "engine/record/ids.h"
#include "engine/record/quality.h"
#include "engine/serve/quality_text.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kvloupe {

// By prediction: number i is of the token at position scored + i.
struct ItemScores {
    std::vector<float> loss;          // -ln p(token)
    std::vector<TokenId> top;         // the most probable token
    std::vector<float> divergence;    // KL(reference || lane); empty where there is no reference to compare with

    std::size_t size() const { return loss.size(); }
};

struct LaneScores {
    std::vector<ItemScores> items;    // those that were run, in order
    double seconds = 0;               // of the lane's steps
};

// Figures of a lane. reference: null for the reference itself and for a lane with another tokenizer; both ran the same items.
LaneQuality quality_of(std::span<const QualityItem> items, const QualitySource& source, const LaneScores& scores,
                       const LaneScores* reference);

// What the bootstrap draws for such a source, as the report says it.
std::string unit_text(const QualitySource& source);

}  // namespace kvloupe
