// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/config_limits.h"

#include <cmath>

namespace kvloupe {

Result<void> check_config(const ModelConfig& config, const std::string& path) {
    const auto refuse = [&](const std::string& what) {
        return Error{path + ": " + what, "The configuration contradicts itself; use the one that came with the model."};
    };
    if (config.query_heads % config.kv_heads != 0)
        return refuse("the number of KV heads, " + std::to_string(config.kv_heads) +
                      ", does not divide the number of query heads, " + std::to_string(config.query_heads));
    if (config.head_dim % 2 != 0)
        return refuse("the head size " + std::to_string(config.head_dim) +
                      " is odd, but rotary embedding turns pairs of values");
    if (config.rotary_dim == 0 || config.rotary_dim > config.head_dim || config.rotary_dim % 2 != 0)
        return refuse("rotary embedding of " + std::to_string(config.rotary_dim) +
                      " values does not fit a head of " + std::to_string(config.head_dim));
    if (!std::isfinite(config.rope_theta) || config.rope_theta <= 0)
        return refuse("the rotary base " + std::to_string(config.rope_theta) + " is not a positive number");
    if (!std::isfinite(config.rms_epsilon) || config.rms_epsilon < 0 || config.rms_epsilon > 1)
        return refuse("the RMS-norm epsilon " + std::to_string(config.rms_epsilon) + " is not between 0 and 1");
    return {};
}

}  // namespace kvloupe
