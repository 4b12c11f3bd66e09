// SPDX-License-Identifier: GPL-3.0-or-later
//
// Element types of weights and of the KV cache, as they are stored.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kvloupe {

// q…: packs with their scales inside, in weights (GGUF, FORMATS 2.3) and, those of 32, in the cache. From fp8_e4m3 on: codes
// of a cache whose scales lie beside them (engine/record/kv_format.h).
enum class DType : std::uint8_t {
    f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k, fp8_e4m3, fp8_e5m2, int8, int4, kivi2, kivi4
};

struct DTypeFacts {
    DType type;
    std::string_view name;       // as scenarios and the program's texts spell it
    std::uint32_t elements;      // of a pack: what is stored together
    std::uint32_t bytes;         // of a pack, scales inside it included
};

inline constexpr std::array<DTypeFacts, 17> dtype_facts = {{
    {DType::f32, "f32", 1, 4},         {DType::f16, "f16", 1, 2},           {DType::bf16, "bf16", 1, 2},
    {DType::q8_0, "q8_0", 32, 34},     {DType::q4_0, "q4_0", 32, 18},       {DType::q4_1, "q4_1", 32, 20},
    {DType::q5_0, "q5_0", 32, 22},     {DType::q5_1, "q5_1", 32, 24},       {DType::q4_k, "q4_k", 256, 144},
    {DType::q5_k, "q5_k", 256, 176},   {DType::q6_k, "q6_k", 256, 210},     {DType::fp8_e4m3, "fp8_e4m3", 1, 1},
    {DType::fp8_e5m2, "fp8_e5m2", 1, 1}, {DType::int8, "int8", 1, 1},       {DType::int4, "int4", 2, 1},
    {DType::kivi2, "kivi2", 4, 1},     {DType::kivi4, "kivi4", 2, 1},
}};

constexpr const DTypeFacts& facts_of(DType type) { return dtype_facts[static_cast<std::size_t>(type)]; }

constexpr std::uint32_t elements_per_pack(DType type) { return facts_of(type).elements; }
constexpr std::uint32_t bytes_per_pack(DType type) { return facts_of(type).bytes; }

// f32, f16, bf16: every element is a number by itself.
constexpr bool is_float(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }
// Packs with their scales inside.
constexpr bool is_packed(DType type) { return type >= DType::q8_0 && type <= DType::q6_k; }
// What a weight can be stored in.
constexpr bool is_weight_type(DType type) { return type <= DType::q6_k; }

// Bytes of a row of `count` elements; count must be a multiple of elements_per_pack. Scales beside the codes not included.
constexpr std::uint64_t row_bytes(DType type, std::uint64_t count) {
    return count / elements_per_pack(type) * bytes_per_pack(type);
}

constexpr std::string_view name_of(DType type) { return facts_of(type).name; }

constexpr std::optional<DType> dtype_from_name(std::string_view name) {
    for (const DTypeFacts& facts : dtype_facts)
        if (facts.name == name) return facts.type;
    return std::nullopt;
}

}  // namespace kvloupe
