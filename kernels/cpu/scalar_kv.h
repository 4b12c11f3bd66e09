// SPDX-License-Identifier: GPL-3.0-or-later
//
// The scalar twins of the cache's precisions: what a row is worth after it was stored, from the formulas alone and without any
// layout. The oracle of the tests of both backends.
#pragma once

#include "engine/record/kv_format.h"

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe::cpu::scalar {

// H x / sqrt(n), by the definition: the sign of element (i, j) is the parity of the bits that i and j share.
std::vector<float> turned(std::span<const float> x);

// The nearest number of an 8-bit float, ties to the even code, found among all of its numbers; saturating.
float nearest_fp8(DType type, float x);

// A token's K or V row as it is stored (KvPlane::width() values: of one head, or of those that share packs).
struct StoredRow {
    KvFormat format;
    std::uint32_t head_dim = 0;
    std::span<const float> values;
    float scale = 1;  // of KvScale::tensor and head
};
struct RowPair {
    std::vector<float> k, v;
};
// Both as a read gives them back. Not KIVI's, whose scales go over blocks.
RowPair kept(const StoredRow& keys, const StoredRow& values);

// KIVI: a sealed block of one head, (tokens, head_dim), from what the f16 page held.
std::vector<float> sealed(const KvFormat& format, KvPart part, std::span<const float> rows, std::uint32_t head_dim);
// And what the page holds.
std::vector<float> unsealed(const KvFormat& format, std::span<const float> row);

}  // namespace kvloupe::cpu::scalar
