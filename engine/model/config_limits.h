// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a model's configuration must satisfy whatever file it came from.
#pragma once

#include "engine/model/model.h"

#include <string>

namespace kvloupe {

// Largest values that are believed. They are far above any model and keep every product of two within 64 bits.
struct ConfigLimits {
    static constexpr std::uint64_t layers = 4096;             // records keep layer numbers in 16 bits
    static constexpr std::uint64_t heads = 16384;             // and head numbers
    static constexpr std::uint64_t width = 1u << 24;          // hidden, intermediate, head_dim, ranks
    static constexpr std::uint64_t vocabulary = 1u << 28;     // token ids are int32
    static constexpr std::uint64_t context = 1u << 30;
    static constexpr std::uint64_t experts = 16384;
};

// Relations between the values: kv_heads divides query_heads in every layer, an even rotary width within head_dim, finite
// positive bases, scales and epsilon, experts in equal groups. layer_shapes holds one entry per layer. path is used in messages.
Result<void> check_config(const ModelConfig& config, const std::string& path);

}  // namespace kvloupe
