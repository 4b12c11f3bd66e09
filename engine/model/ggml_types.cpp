// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/ggml_types.h"

#include "engine/model/gguf.h"

#include <array>

namespace kvloupe {

namespace {

constexpr std::array<GgmlType, 32> known_types = {{
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
}};

}  // namespace

const GgmlType* find_ggml_type(std::uint32_t id) {
    for (const GgmlType& type : known_types)
        if (type.id == id) return &type;
    return nullptr;
}

std::string ggml_type_name(std::uint32_t ggml_type) {
    const GgmlType* const type = find_ggml_type(ggml_type);
    return type ? std::string(type->name) : "type " + std::to_string(ggml_type);
}

std::optional<DType> dtype_from_ggml(std::uint32_t ggml_type) {
    switch (ggml_type) {
    case 0: return DType::f32;
    case 1: return DType::f16;
    case 2: return DType::q4_0;
    case 3: return DType::q4_1;
    case 6: return DType::q5_0;
    case 7: return DType::q5_1;
    case 8: return DType::q8_0;
    case 12: return DType::q4_k;
    case 13: return DType::q5_k;
    case 14: return DType::q6_k;
    case 30: return DType::bf16;
    default: return std::nullopt;
    }
}

}  // namespace kvloupe
