// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvloupe {

namespace {

constexpr double full_turn = 2 * std::numbers::pi;

// Long waves are stretched by the factor, short ones kept, those between interpolated.
double llama3(double frequency, const RotaryScaling& scaling) {
    const double turns = scaling.original_context * frequency / full_turn;  // within the context trained on
    if (turns > scaling.high_frequency_factor) return frequency;
    if (turns < scaling.low_frequency_factor) return frequency / scaling.factor;
    const double kept = (turns - scaling.low_frequency_factor) / (scaling.high_frequency_factor - scaling.low_frequency_factor);
    return kept * frequency + (1 - kept) * frequency / scaling.factor;
}

// The pair (as a real number) that turns `turns` times within the context trained on.
double yarn_pair(double turns, const RotaryShape& shape) {
    return shape.rotary_dim * std::log(shape.scaling.original_context / (turns * full_turn)) / (2 * std::log(double{shape.theta}));
}

double yarn(double frequency, std::uint32_t pair, const RotaryShape& shape) {
    const double last = shape.rotary_dim - 1.0;
    const double low = std::clamp(std::floor(yarn_pair(shape.scaling.beta_fast, shape)), 0.0, last);
    const double high = std::clamp(std::ceil(yarn_pair(shape.scaling.beta_slow, shape)), 0.0, last);
    const double stretched = std::clamp((pair - low) / std::max(high - low, 0.001), 0.0, 1.0);
    return frequency / shape.scaling.factor * stretched + frequency * (1 - stretched);
}

}  // namespace

std::vector<double> rotary_frequencies(const RotaryShape& shape) {
    std::vector<double> frequencies(shape.rotary_dim / 2);
    for (std::uint32_t i = 0; i < frequencies.size(); ++i) {
        double& frequency = frequencies[i];
        frequency = std::pow(double{shape.theta}, -2.0 * i / shape.rotary_dim);
        switch (shape.scaling.kind) {
        case RotaryScaling::Kind::none: break;
        case RotaryScaling::Kind::linear: frequency /= shape.scaling.factor; break;
        case RotaryScaling::Kind::llama3: frequency = llama3(frequency, shape.scaling); break;
        case RotaryScaling::Kind::yarn: frequency = yarn(frequency, i, shape); break;
        }
    }
    return frequencies;
}

}  // namespace kvloupe
