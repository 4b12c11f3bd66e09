// SPDX-License-Identifier: GPL-3.0-or-later
//
// Random inputs of the emulated tests: numbers, and matrices in every stored form. The same seed, the same values.
#pragma once

#include "engine/model/half.h"
#include "engine/record/dtype.h"
#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace kvloupe::test {

inline constexpr DType all_types[] = {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1};
inline constexpr DType super_types[] = {DType::q5_0, DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k};
inline constexpr DType float_types[] = {DType::f32, DType::f16, DType::bf16};

inline std::vector<float> random_floats(std::size_t count, unsigned seed, float spread = 1) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random);
    return values;
}

// 0 .. count - 1 in random order: the first ones are distinct places.
inline std::vector<std::uint32_t> random_order(std::uint32_t count, unsigned seed) {
    std::vector<std::uint32_t> order(count);
    for (std::uint32_t i = 0; i < count; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    return order;
}

// The bytes of a random matrix. cols is a multiple of the type's pack.
inline std::vector<std::byte> random_matrix(DType type, std::uint64_t rows, std::uint64_t cols, unsigned seed) {
    std::vector<std::byte> bytes(rows * row_bytes(type, cols));
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    std::byte* to = bytes.data();
    const auto put = [&to](const auto& value) {
        std::memcpy(to, &value, sizeof value);
        to += sizeof value;
    };
    if (cpu::is_super(type)) {
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 255);
        for (to = bytes.data(); to < bytes.data() + bytes.size();) {
            // The f16 numbers: one at the end of q6_k's packs, one or two at the front of the others.
            std::byte* const next = to + bytes_per_pack(type);
            if (type == DType::q6_k) to = next - 2;
            put(f32_to_f16(normal(random) / (elements_per_pack(type) == 32 ? 1 : 64)));
            if (type != DType::q5_0 && type != DType::q6_k) put(f32_to_f16(normal(random)));
            to = next;
        }
        return bytes;
    }
    for (std::uint64_t pack = 0; pack < rows * cols / elements_per_pack(type); ++pack) {
        const float value = normal(random);
        switch (type) {
        case DType::f32: put(value); break;
        case DType::f16: put(f32_to_f16(value)); break;
        case DType::bf16: put(f32_to_bf16(value)); break;
        case DType::q4_1: put(f32_to_f16(value)), put(f32_to_f16(normal(random))); break;
        default: put(f32_to_f16(value));
        }
        const unsigned quants = type == DType::q8_0 ? 32 : elements_per_pack(type) == 32 ? 16 : 0;
        for (unsigned i = 0; i < quants; ++i) put(static_cast<std::uint8_t>(random()));
    }
    return bytes;
}

inline cpu::PackedMatrix packed(DType type, const std::vector<std::byte>& bytes, std::uint64_t rows, std::uint64_t cols) {
    return {bytes.data(), type, rows, cols};
}

}  // namespace kvloupe::test
