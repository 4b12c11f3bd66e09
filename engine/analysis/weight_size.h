// SPDX-License-Identifier: GPL-3.0-or-later
//
// How many parameters a configuration has, part by part, in all or on one GPU of a tensor-parallel group (predicted; for
// a file its tensors are counted instead). On a group, projections, feed-forward parts, experts, embedding and output
// are divided, rounded up; norms, the router and a latent's down-projections stand on every GPU.
#pragma once

#include "engine/model/config.h"

#include <cstdint>
#include <vector>

namespace kvloupe {

// What older families have and ModelConfig has no words for, because KVLoupe does not run them.
struct WeightForm {
    bool gated = true;            // feed-forward parts of three matrices; else of two
    bool biases = false;          // of every projection and feed-forward matrix
    bool norm_biases = false;     // LayerNorm instead of RMS norm
    std::uint32_t positions = 0;  // rows of a learned position embedding
};

struct LayerParameters {
    std::uint64_t attention = 0;
    std::uint64_t feed_forward = 0;  // dense, or router, experts and shared experts
    std::uint64_t norms = 0;
    std::uint64_t sum() const { return attention + feed_forward + norms; }
};

struct ModelParameters {
    std::uint64_t embedding = 0;     // positions included
    std::uint64_t output = 0;        // 0: tied to the embedding
    std::uint64_t output_norm = 0;
    std::vector<LayerParameters> layers;

    std::uint64_t attention() const;
    std::uint64_t sum() const;
    // Of a stage: `count` layers from `first` on, with the embedding in front of the first and the output behind the
    // last (a tied output stands there a second time where that is another GPU's).
    std::uint64_t stage(std::uint32_t first, std::uint32_t count) const;
};

// gpus divides the query heads.
ModelParameters count_parameters(const ModelConfig& config, const WeightForm& form = {}, std::uint32_t gpus = 1);

}  // namespace kvloupe
