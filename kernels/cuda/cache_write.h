// SPDX-License-Identifier: GPL-3.0-or-later
//
// rotary_store() where K or V is not kept in plain rows of numbers (cache_write.cu).
#pragma once

#include "kernels/cuda/kernels.h"

namespace kvloupe::cuda {

// Rows of up to that many elements, of one head or of the heads that share packs.
inline constexpr std::uint32_t widest_stored_row = 1024;

cudaError_t turn_and_quantise_rows(const RotaryStore& args, cudaStream_t stream);

}  // namespace kvloupe::cuda
