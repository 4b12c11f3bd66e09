// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/kivi_residual.h"

#include <algorithm>

namespace kvloupe {

std::uint32_t KiviResidual::quantised_tokens(std::uint32_t computed, std::uint32_t prompt) const {
    if (residual == 0) return computed;
    if (rule == ResidualRule::kivi) return computed / residual * residual;
    // A prompt that is not computed to its end yet, in chunks, is quantised as far as it goes.
    const std::uint32_t at_once = std::min(computed, prompt);
    return at_once + (computed - at_once) / residual * residual;
}

}  // namespace kvloupe
