// SPDX-License-Identifier: GPL-3.0-or-later
//
// Scalar packing and unpacking of rows in every stored form: the reference that fast kernels are tested against.
// Layouts and rounding: FORMATS 2.3 (the rules of ggml's reference quantisers).
#pragma once

#include "engine/record/dtype.h"

#include <cstddef>
#include <span>

namespace kvloupe {

// packed: row_bytes(type, out.size()) bytes. out.size() must be a multiple of elements_per_pack(type).
void dequantise_row(DType type, const std::byte* packed, std::span<float> out);

// packed: row_bytes(type, values.size()) bytes are written. values.size() must be a multiple of
// elements_per_pack(type). Not for q4_k, q5_k and q6_k, which are only read. Scales are f16: a block whose largest magnitude
// exceeds what they can hold becomes infinite.
void quantise_row(DType type, std::span<const float> values, std::byte* packed);

}  // namespace kvloupe
