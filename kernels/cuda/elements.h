// SPDX-License-Identifier: GPL-3.0-or-later
//
// Stored elements of every weight type on the device, one or eight at a time: plain ones and the packs of GGUF (FORMATS 2.3).
#pragma once

#include "engine/record/dtype.h"
#include "kernels/cuda/conversions.h"
#include "kernels/cuda/super_packs.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kvloupe::cuda {

// q8_0: f16 d, 32 int8. q4_0: f16 d, 16 bytes of nibbles. q4_1: f16 d, f16 m, 16 bytes of nibbles; the low nibbles are
// elements 0 .. 15. Packs are aligned to 2 bytes only. The other packs: super_packs.h.
template <DType dtype>
inline constexpr unsigned pack_bytes = bytes_per_pack(dtype);
template <DType dtype>
inline constexpr unsigned pack_elements = elements_per_pack(dtype);
template <DType dtype>
inline constexpr bool is_packed = dtype >= DType::q8_0 && dtype <= DType::q6_k;

// The value of quant q (0 .. 15, or -128 .. 127) of a pack: exact in f32, but for q4_1's sum.
template <DType dtype>
__device__ __forceinline__ float pack_value(const std::byte* pack, int quant) {
    if constexpr (dtype == DType::q8_0) return half_at(pack) * static_cast<float>(quant);
    else if constexpr (dtype == DType::q4_0) return half_at(pack) * static_cast<float>(quant - 8);
    else return half_at(pack) * static_cast<float>(quant) + half_at(pack + 2);
}

// Element `index` of a row.
template <DType dtype>
__device__ __forceinline__ float load_element(const std::byte* row, std::uint64_t index) {
    if constexpr (!is_packed<dtype>) {
        return to_float(reinterpret_cast<const Plain<dtype>*>(row)[index]);
    } else if constexpr (is_super<dtype>) {
        constexpr std::uint32_t elements = pack_elements<dtype>;
        return super_value<dtype>(row + index / elements * pack_bytes<dtype>, static_cast<unsigned>(index % elements));
    } else {
        const std::byte* const pack = row + index / 32 * pack_bytes<dtype>;
        const unsigned inside = static_cast<unsigned>(index % 32);
        if constexpr (dtype == DType::q8_0) {
            return pack_value<dtype>(pack, reinterpret_cast<const signed char*>(pack)[2 + inside]);
        } else {
            const unsigned byte = reinterpret_cast<const unsigned char*>(pack)[pack_bytes<dtype> - 16 + inside % 16];
            return pack_value<dtype>(pack, static_cast<int>(inside < 16 ? byte & 15u : byte >> 4));
        }
    }
}

// Elements index .. index + 7 of a row; index is a multiple of 8, and the matrix begins at a multiple of 16, as
// its plain rows do.
template <DType dtype>
__device__ __forceinline__ void load_eight(const std::byte* row, std::uint64_t index, float (&to)[8]) {
    if constexpr (dtype == DType::f32) {
        const float* const at = reinterpret_cast<const float*>(row) + index;
        float low[4], high[4];
        load_four(at, low);
        load_four(at + 4, high);
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < 4; ++i) to[i] = low[i], to[4 + i] = high[i];
    } else if constexpr (!is_packed<dtype>) {
        load_16_bytes(reinterpret_cast<const Plain<dtype>*>(row) + index, to);
    } else if constexpr (is_super<dtype>) {
        SuperColumns<dtype> columns;
        columns.load(row, static_cast<std::uint32_t>(index));
        columns.expand(to);
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < 8; ++i) {
            to[i] *= columns.scale();
            if constexpr (has_offset<dtype>) to[i] += columns.offset();
        }
    } else {
        const std::byte* const pack = row + index / 32 * pack_bytes<dtype>;
        const unsigned inside = static_cast<unsigned>(index % 32);
        // Two quants a load: all that the alignment allows.
        const unsigned at = dtype == DType::q8_0 ? 2 + inside : pack_bytes<dtype> - 16 + inside % 16;
        const unsigned short* const words = reinterpret_cast<const unsigned short*>(pack + at);
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned word = words[i];
            if constexpr (dtype == DType::q8_0) {
                to[2 * i] = pack_value<dtype>(pack, static_cast<signed char>(word & 0xFFu));
                to[2 * i + 1] = pack_value<dtype>(pack, static_cast<signed char>(word >> 8));
            } else {
                const unsigned nibbles = inside < 16 ? word : word >> 4;
                to[2 * i] = pack_value<dtype>(pack, static_cast<int>(nibbles & 15u));
                to[2 * i + 1] = pack_value<dtype>(pack, static_cast<int>(nibbles >> 8 & 15u));
            }
        }
    }
}

// --- host: from a DType to a template argument ---

// use(std::integral_constant<DType, dtype>{})
template <class Use>
cudaError_t with_dtype(DType dtype, const Use& use) {
    switch (dtype) {
    case DType::f32: return use(std::integral_constant<DType, DType::f32>{});
    case DType::f16: return use(std::integral_constant<DType, DType::f16>{});
    case DType::bf16: return use(std::integral_constant<DType, DType::bf16>{});
    case DType::q8_0: return use(std::integral_constant<DType, DType::q8_0>{});
    case DType::q4_0: return use(std::integral_constant<DType, DType::q4_0>{});
    case DType::q4_1: return use(std::integral_constant<DType, DType::q4_1>{});
    case DType::q5_0: return use(std::integral_constant<DType, DType::q5_0>{});
    case DType::q5_1: return use(std::integral_constant<DType, DType::q5_1>{});
    case DType::q4_k: return use(std::integral_constant<DType, DType::q4_k>{});
    case DType::q5_k: return use(std::integral_constant<DType, DType::q5_k>{});
    case DType::q6_k: return use(std::integral_constant<DType, DType::q6_k>{});
    default: break;
    }
    return cudaErrorInvalidValue;
}

}  // namespace kvloupe::cuda
