// SPDX-License-Identifier: GPL-3.0-or-later
//
// DecoderOptions: what a lane may choose about how its model attends.
#pragma once

#include "engine/backend.h"

#include <cstdint>
#include <vector>

namespace kvloupe {

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1.2): queries are taken down to the latent and attend
// over the cached latents themselves; or keys and values of all heads are made from the latents first.
enum class MlaForm : std::uint8_t { absorbed, expanded };

struct DecoderOptions {
    std::vector<KeySpan> spans;         // (layers) which keys a query sees; empty: as the model says
    AttentionForm attention = AttentionForm::tiled;
    MlaForm mla = MlaForm::absorbed;
    std::vector<std::uint32_t> groups;  // (layers) cache group of a layer: whose block tables and slots; empty: one for all

    // Rotation after expansion does not commute with absorption.
    MlaForm form_of(const LatentShape& latent) const { return latent.late_rotation ? MlaForm::expanded : mla; }
    std::uint32_t group_of(std::uint32_t layer) const { return layer < groups.size() ? groups[layer] : 0; }
};

}  // namespace kvloupe
