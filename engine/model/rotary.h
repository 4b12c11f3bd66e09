// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rotary position embedding as arithmetic: by how much a pair of values is turned per position, with the scalings that models
// come with. The backends build their tables from here, so that all of them turn by the same angles.
#pragma once

#include <cstdint>
#include <vector>

namespace kvloupe {

// How rotary pairs lie in a head: GGUF llama files keep adjacent pairs, Hugging Face files half-split ones.
enum class RotaryLayout : std::uint8_t { adjacent /* (2i, 2i+1) */, half_split /* (i, i + d/2) */ };

// rope_scaling of a configuration.
struct RotaryScaling {
    enum class Kind : std::uint8_t { none, linear, llama3, yarn };
    Kind kind = Kind::none;
    float factor = 1;
    std::uint32_t original_context = 0;  // llama3, yarn: positions the model was trained on before
    float low_frequency_factor = 1;      // llama3
    float high_frequency_factor = 4;
    float beta_fast = 32;                // yarn
    float beta_slow = 1;
    float magnitude = 1;                 // yarn: cosines and sines are multiplied by it

    bool operator==(const RotaryScaling&) const = default;
};

struct RotaryShape {
    float theta = 10000.0f;
    std::uint32_t rotary_dim = 0;        // rotated values of a head, from its first on; 0: nothing is turned
    RotaryLayout layout = RotaryLayout::half_split;
    RotaryScaling scaling = {};

    bool operator==(const RotaryShape&) const = default;
};

// (rotary_dim / 2) radians per position of pair i: theta^(-2 i / rotary_dim), scaled. Sources: RoFormer (arXiv 2104.09864);
// linear: position interpolation (arXiv 2306.15595); llama3: Llama 3.1's model card; yarn: arXiv 2309.00071, section 3.2.
std::vector<double> rotary_frequencies(const RotaryShape& shape);

}  // namespace kvloupe
