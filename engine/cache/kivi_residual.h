// SPDX-License-Identifier: GPL-3.0-or-later
//
// Which tokens of a sequence KIVI keeps quantised (FORMATS 3.8): the newest stay in f16 until there are `residual` of them, then
// all of these are quantised at once.
#pragma once

#include <cstdint>

namespace kvloupe {

// The first so many of `computed` tokens are quantised. residual: a multiple of the block size, at least one block.
constexpr std::uint32_t sealed_tokens(std::uint32_t computed, std::uint32_t residual, std::uint32_t /*block_size*/) {
    return computed / residual * residual;
}

}  // namespace kvloupe
