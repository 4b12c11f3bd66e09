// SPDX-License-Identifier: GPL-3.0-or-later
//
// Which experts a token passes, and how much each of them counts: the rules of ExpertShape over a router's logits.
// Sources: Mixtral (arXiv 2401.04088, section 2.1), DeepSeek-V2 (arXiv 2405.04434, section 2.2.2), DeepSeek-V3 (arXiv
// 2412.19437, section 2.1.2).
#pragma once

#include "engine/model/config.h"

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe {

struct ExpertChoice {
    std::uint32_t expert = 0;
    float weight = 0;  // of its output
};

// logits (count); bias (count) or empty: takes part in choosing, not in weighting. In the order of choice; ties go to the
// lower expert. Logits that are not numbers give weights that are none.
std::vector<ExpertChoice> choose_experts(const ExpertShape& shape, std::span<const float> logits, std::span<const float> bias);

// The rows of a step, expert by expert.
struct ExpertRows {
    struct Group {
        std::uint32_t expert = 0;
        std::vector<std::uint32_t> rows;  // ascending
        std::vector<float> weights;       // (rows)
    };
    std::vector<Group> groups;            // of the experts that have rows, ascending
};
// logits (rows, count)
ExpertRows sort_by_expert(const ExpertShape& shape, std::span<const float> logits, std::span<const float> bias);

}  // namespace kvloupe
