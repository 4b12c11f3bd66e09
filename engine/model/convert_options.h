// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a loaded model's attention is to become (contract, section 2: lanes[].convert).
#pragma once

#include <cstdint>
#include <string>

namespace kvloupe {

struct ConvertOptions {
    // KV heads that are means of several (arXiv 2305.13245), or a latent from a low-rank factorisation of the joint projection.
    enum class Target : std::uint8_t { gqa, mqa, mla };
    // By what a layer's width is chosen: the share of the squared singular values that it keeps, or what its loss costs.
    enum class Measure : std::uint8_t { energy, sensitivity };

    Target to = Target::gqa;
    std::uint32_t kv_heads = 0;  // gqa: of every layer; mqa: 1; mla: 0
    std::uint32_t width = 0;     // mla: of every layer's latent; 0: by budget
    std::uint32_t budget = 0;    // mla: the layers' widths add up to this; 0: by width
    Measure by = Measure::energy;

    bool operator==(const ConvertOptions&) const = default;

    // "to GQA with 2 KV heads", "to MLA of width 64, by energy", "to MLA of 512 values in all layers, by sensitivity".
    std::string text() const {
        const std::string measure = by == Measure::energy ? ", by energy" : ", by sensitivity";
        if (to == Target::gqa) return "to GQA with " + std::to_string(kv_heads) + " KV heads";
        if (to == Target::mqa) return "to MQA";
        if (width > 0) return "to MLA of width " + std::to_string(width) + measure;
        return "to MLA of " + std::to_string(budget) + " values in all layers" + measure;
    }
};

}  // namespace kvloupe
