// SPDX-License-Identifier: GPL-3.0-or-later
//
// Pairs of formats for K and V that attention is tested over, fitted to a shape.
#pragma once

#include "tests/emulation/coded_cache.h"

#include <vector>

namespace kvloupe::test {

struct FormatPair {
    KvFormat keys, values;
};

// Every format for K and V alike, then some of different ones: codes beside f16, packs beside codes, KIVI on one side.
inline std::vector<FormatPair> format_pairs() {
    std::vector<FormatPair> pairs;
    for (const KvFormat& format : coded_formats()) pairs.push_back({format, format});
    const auto of = [](DType type) { return KvFormat::of(type); };
    for (const auto& [keys, values] : std::vector<std::pair<DType, DType>>{{DType::fp8_e4m3, DType::f16}, {DType::f16, DType::int4},
             {DType::q8_0, DType::q4_0}, {DType::int8, DType::int4}, {DType::kivi2, DType::f16}, {DType::int8, DType::kivi4}, {DType::bf16, DType::int8}})
        pairs.push_back({of(keys), of(values)});
    return pairs;
}

// Groups that the block and the head hold; false where the shape holds the formats in no way.
inline bool fit(FormatPair& pair, std::uint32_t kv_heads, std::uint32_t head_dim, std::uint32_t block_size) {
    const auto group = [](std::uint32_t most) {
        std::uint32_t size = 32;
        while (most % size != 0) size /= 2;
        return size;
    };
    for (KvFormat* format : {&pair.keys, &pair.values})
        if (format->keeps_residual()) {
            format->group = group(format == &pair.keys ? block_size : head_dim);
            format->residual = block_size;
        }
    if (pair.values.keeps_residual() && pair.values.group < 4) return false;  // a byte of codes has one step
    return KvPlane::of(pair.keys, KvPart::keys, kv_heads, head_dim, block_size) && KvPlane::of(pair.values, KvPart::values, kv_heads, head_dim, block_size);
}

}  // namespace kvloupe::test
