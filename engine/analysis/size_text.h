// SPDX-License-Identifier: GPL-3.0-or-later
//
// A size report in words: every formula with every factor, the same for the command and the window.
#pragma once

#include "engine/analysis/size_report.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe {

// Layers that cost the same, with the formula of a token.
struct SizeFactor {
    std::uint32_t layers = 0;
    KvLayerSize each;
    std::string formula;               // "2 × 32 layers × 8 KV heads × 128 values × 2 B"
    std::uint64_t bytes_per_token = 0; // of these layers together
};

// In order of the first layer of each kind.
std::vector<SizeFactor> size_factors(const std::vector<KvLayerSize>& layers);

struct SizeLine {
    std::string label;  // "KV per token"
    std::string text;
    bool warning = false;  // a note, or an assumption
};

std::vector<SizeLine> size_lines(const SizeReport& report);

// "2 × 2,048 …" of the reserve, with its result.
std::string activation_formula(const ActivationReserve& reserve);

// "36,864 B", "131,072 B (128 KiB)", "16,060,522,496 B (14.96 GiB)".
std::string exact_bytes(std::uint64_t bytes);
// "14.96 GiB", "512 MiB", "640 B": four digits, the binary unit that has no leading zero.
std::string short_bytes(std::uint64_t bytes);

}  // namespace kvloupe
