// SPDX-License-Identifier: GPL-3.0-or-later
//
// Element types of weights and of the KV cache, as they are stored.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvloupe {

enum class DType : std::uint8_t { f32, f16, bf16, q8_0, q4_0, q4_1 };

// Elements per packed block: 1 for the plain types, 32 for the quantised ones (GGUF block layouts, FORMATS 2.3).
constexpr std::uint32_t elements_per_pack(DType type) {
    return type == DType::q8_0 || type == DType::q4_0 || type == DType::q4_1 ? 32 : 1;
}

// Bytes per packed block.
constexpr std::uint32_t bytes_per_pack(DType type) {
    switch (type) {
    case DType::f32: return 4;
    case DType::f16: return 2;
    case DType::bf16: return 2;
    case DType::q8_0: return 34;
    case DType::q4_0: return 18;
    case DType::q4_1: return 20;
    }
    return 0;
}

// Bytes of a row of `count` elements; count must be a multiple of elements_per_pack.
constexpr std::uint64_t row_bytes(DType type, std::uint64_t count) {
    return count / elements_per_pack(type) * bytes_per_pack(type);
}

constexpr std::string_view name_of(DType type) {
    switch (type) {
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::q8_0: return "q8_0";
    case DType::q4_0: return "q4_0";
    case DType::q4_1: return "q4_1";
    }
    return "?";
}

constexpr std::optional<DType> dtype_from_name(std::string_view name) {
    for (DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1})
        if (name_of(type) == name) return type;
    return std::nullopt;
}

}  // namespace kvloupe
