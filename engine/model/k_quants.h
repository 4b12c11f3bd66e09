// SPDX-License-Identifier: GPL-3.0-or-later
//
// Unpacking of the super-blocks of 256 elements: q4_k, q5_k, q6_k. Layouts: FORMATS 2.3; q5_k is q4_k with 32 bytes of fifth
// bits behind the scales (ggml-common.h).
#pragma once

#include "engine/record/dtype.h"

#include <cstddef>

namespace kvloupe {

// out (256) = the numbers of one pack of bytes_per_pack(type) bytes.
void dequantise_super_block(DType type, const std::byte* pack, float* out);

}  // namespace kvloupe
