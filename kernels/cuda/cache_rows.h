// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rows of K or V in whatever precision, expanded to f32 where they are used: one element or four neighbours at a time, the
// precision chosen at run time (it is the same for all threads of a launch). What the general kernels read by: decode without
// an instance of its own, prefill's tiles, watched heads, rows that are handed out. Expanding an element costs some 10
// instructions beside its load; the kernels with a bandwidth to keep (decode_tensor.h, decode_codes.h) do not come here.
//
// Rejected: the precision as a template parameter of every reader (14 precisions for K times 14 for V).
#pragma once

#include "kernels/cuda/codes.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/super_packs.h"

#include <cstdint>

namespace kvloupe::cuda {

// Where a token lies: what the block tables said.
struct TokenPlace {
    std::uint32_t block = 0;
    std::uint32_t page = 0;    // page + 1 of the f16 page that stands for the block, 0: none
    std::uint32_t offset = 0;  // in the block
};

__device__ __forceinline__ TokenPlace place_of(const std::uint32_t* table, const std::uint32_t* pages, std::uint32_t position,
                                               std::uint32_t block_size) {
    const std::uint32_t entry = position / block_size;
    return {table[entry], pages != nullptr ? pages[entry] : 0u, position - entry * block_size};
}

// Of a pack of 32: where its minimum, high bits and quants begin.
struct PackLayout {
    unsigned bytes, minimum, high, quants;  // 0: it has none
};
__host__ __device__ __forceinline__ PackLayout pack_layout(DType dtype) {
    switch (dtype) {
    case DType::q8_0: return {34, 0, 0, 2};
    case DType::q5_1: return {24, 2, 4, 8};
    case DType::q5_0: return {22, 0, 2, 6};
    case DType::q4_1: return {20, 2, 0, 4};
    default: return {18, 0, 0, 2};  // q4_0
    }
}

// f16 step and minimum, side by side.
__device__ __forceinline__ float2 step_and_minimum(const std::byte* at) {
    const std::uint32_t both = *reinterpret_cast<const std::uint32_t*>(at);
    return make_float2(f16_value(static_cast<std::uint16_t>(both)), f16_value(static_cast<std::uint16_t>(both >> 16)));
}

// K or V of one KV head.
class HeadRows {
public:
    __device__ HeadRows(const CacheLayer& cache, bool values, std::uint32_t kv_head)
        : m_tensor(values ? cache.values : cache.keys), m_block_size(cache.block_size), m_kv_head(kv_head),
          m_width(values ? cache.head_dim_v : cache.head_dim_k), m_kv_heads(cache.kv_heads), m_keys(!values) {}

    // Elements first .. first + count - 1 of a row. count: 1, or 4 where first and the head size are multiples of 4.
    template <unsigned count>
    __device__ __forceinline__ void load(const TokenPlace& place, std::uint32_t first, float (&to)[count]) const {
        const CacheTensor& t = m_tensor;
        if (t.in_rows) {
            const std::uint64_t row = (std::uint64_t{place.block} * m_kv_heads + m_kv_head) * m_block_size + place.offset;
            return load_float(t.dtype, t.data, row * m_width + first, to);
        }
        if (t.pages != nullptr && place.page > 0) {
            const std::uint32_t row = m_kv_head * m_block_size + place.offset;
            return load_float(DType::f16, t.pages + (place.page - 1) * t.page_stride, std::uint64_t{row} * m_width + first, to);
        }
        const std::uint32_t plane_row = m_kv_head / t.heads_per_row;
        const std::byte* const codes = t.data + place.block * t.block_stride + std::uint64_t{plane_row} * t.row_stride +
                                       std::uint64_t{place.offset} * t.code_bytes;
        switch (t.dtype) {
        case DType::f32:
        case DType::f16:
        case DType::bf16: return load_float(t.dtype, codes, first, to);
        case DType::int8:
        case DType::fp8_e4m3:
        case DType::fp8_e5m2: {
            const float scale = *reinterpret_cast<const float*>(token_scales(place, plane_row));
            const std::uint32_t word = bytes_of<count>(codes + first);
            KVLOUPE_UNROLL
            for (unsigned i = 0; i < count; ++i) {
                const std::uint32_t code = word >> 8 * i & 0xFFu;
                to[i] = scale * (t.dtype == DType::int8 ? static_cast<float>(static_cast<signed char>(code)) : fp8_value(t.dtype, code));
            }
            return;
        }
        case DType::int4: {
            const float2 by = step_and_minimum(token_scales(place, plane_row));
            KVLOUPE_UNROLL
            for (unsigned i = 0; i < count; ++i) to[i] = fmaf(small_code<4>(codes, first + i), by.x, by.y);
            return;
        }
        case DType::kivi2:
        case DType::kivi4: {
            const std::byte* const by = token_scales(place, plane_row);
            KVLOUPE_UNROLL
            for (unsigned i = 0; i < count; ++i) {
                const std::uint32_t pair = m_keys ? place.offset / t.group * m_width + first + i : (first + i) / t.group;
                const float code = t.dtype == DType::kivi4 ? small_code<4>(codes, first + i) : small_code<2>(codes, first + i);
                const float2 scale = step_and_minimum(by + 4 * std::uint64_t{pair});
                to[i] = fmaf(code, scale.x, scale.y);
            }
            return;
        }
        default: return load_pack(codes, m_kv_head % t.heads_per_row * m_width + first, to);
        }
    }

private:
    // Of the row of a token; with KIVI's keys of all groups of the block.
    __device__ __forceinline__ const std::byte* token_scales(const TokenPlace& place, std::uint32_t plane_row) const {
        const CacheTensor& t = m_tensor;
        return t.scales + place.block * t.scale_block_stride + std::uint64_t{plane_row} * t.scale_row_stride +
               std::uint64_t{place.offset} * t.scale_stride;
    }
    template <unsigned count>
    __device__ __forceinline__ static void load_float(DType dtype, const std::byte* data, std::uint64_t index, float (&to)[count]) {
        switch (dtype) {
        case DType::f16: return load_some(reinterpret_cast<const __half*>(data) + index, to);
        case DType::bf16: return load_some(reinterpret_cast<const __nv_bfloat16*>(data) + index, to);
        default: return load_some(reinterpret_cast<const float*>(data) + index, to);
        }
    }
    template <class Element, unsigned count>
    __device__ __forceinline__ static void load_some(const Element* at, float (&to)[count]) {
        if constexpr (count == 4) load_four(at, to);
        else to[0] = to_float(at[0]);
    }
    template <unsigned count>
    __device__ __forceinline__ static std::uint32_t bytes_of(const std::byte* at) {
        if constexpr (count == 4) return *reinterpret_cast<const std::uint32_t*>(at);
        else return static_cast<std::uint32_t>(*at);
    }
    template <unsigned bits>
    __device__ __forceinline__ static float small_code(const std::byte* codes, std::uint32_t index) {
        constexpr unsigned in_byte = 8 / bits;
        return static_cast<float>(static_cast<std::uint32_t>(codes[index / in_byte]) >> bits * (index % in_byte) & ((1u << bits) - 1));
    }
    template <unsigned count>
    __device__ __forceinline__ void load_pack(const std::byte* row, std::uint32_t index, float (&to)[count]) const {
        const PackLayout layout = pack_layout(m_tensor.dtype);
        const std::byte* const pack = row + index / 32 * layout.bytes;
        const std::uint32_t inside = index % 32;
        const float step = half_at(pack), minimum = layout.minimum > 0 ? half_at(pack + layout.minimum) : 0.0f;
        const auto* const quants = reinterpret_cast<const unsigned char*>(pack + layout.quants);
        if (m_tensor.dtype == DType::q8_0) {
            KVLOUPE_UNROLL
            for (unsigned i = 0; i < count; ++i) to[i] = step * static_cast<float>(static_cast<signed char>(quants[inside + i]));
            return;
        }
        std::uint32_t high = 0;
        float middle = layout.minimum > 0 ? 0.0f : 8.0f;
        if (layout.high > 0) {
            const auto* const halves = reinterpret_cast<const unsigned short*>(pack + layout.high);
            high = (halves[0] | static_cast<std::uint32_t>(halves[1]) << 16) >> inside;
            middle *= 2;
        }
        KVLOUPE_UNROLL
        for (unsigned i = 0; i < count; ++i) {
            const unsigned byte = quants[(inside + i) % 16];
            const unsigned code = (inside < 16 ? byte & 15u : byte >> 4) | (high >> i & 1u) << 4;
            to[i] = fmaf(static_cast<float>(code) - middle, step, minimum);
        }
    }

    const CacheTensor& m_tensor;
    std::uint32_t m_block_size, m_kv_head, m_width, m_kv_heads;
    bool m_keys;
};

// Keys and values as attention reads them: with a latent, a key is the latent and the rotary key behind it, a value the latent.
class AttendedRows {
public:
    __device__ AttendedRows(const CacheLayer& cache, bool latent, std::uint32_t kv_head)
        : m_first(cache, false, kv_head), m_second(cache, true, kv_head), m_values(cache, !latent, kv_head), m_width(cache.head_dim_k) {}

    // Elements as HeadRows has them; with four at a time the latent's width is a multiple of 4.
    template <unsigned count>
    __device__ __forceinline__ void key(const TokenPlace& place, std::uint32_t first, float (&to)[count]) const {
        if (first < m_width) m_first.load(place, first, to);
        else m_second.load(place, first - m_width, to);
    }
    template <unsigned count>
    __device__ __forceinline__ void value(const TokenPlace& place, std::uint32_t first, float (&to)[count]) const {
        m_values.load(place, first, to);
    }

private:
    HeadRows m_first, m_second, m_values;  // of a key's parts; of values: chosen once, because every load is a switch of its own
    std::uint32_t m_width;
};

// Elements of a row by value, by a function of its own: a load is a switch over all precisions, and a decode kernel has dozens of
// them; copied to each place they kept the compiler busy for minutes.
template <unsigned count>
struct LoadedElements {
    float at[count];
};
template <unsigned count>
__device__ KVLOUPE_NO_INLINE LoadedElements<count> load_key_apart(const AttendedRows& rows, TokenPlace place, std::uint32_t first) {
    LoadedElements<count> loaded;
    rows.key(place, first, loaded.at);
    return loaded;
}
template <unsigned count>
__device__ KVLOUPE_NO_INLINE LoadedElements<count> load_value_apart(const AttendedRows& rows, TokenPlace place, std::uint32_t first) {
    LoadedElements<count> loaded;
    rows.value(place, first, loaded.at);
    return loaded;
}

// Whether four neighbours lie in one aligned word, or in packs.
inline bool reads_fours(const CacheTensor& tensor) {
    const std::uint64_t unit = tensor.dtype == DType::f32 ? 16 : tensor.dtype == DType::f16 || tensor.dtype == DType::bf16 ? 8
                               : kvloupe::is_packed(tensor.dtype) ? 2 : 4;
    return is_aligned(tensor.data, 16) && tensor.block_stride % unit == 0 && tensor.row_stride % unit == 0 && tensor.page_stride % 8 == 0;
}

// Whether a tensor says all that reading it takes.
inline bool readable(const CacheTensor& tensor) {
    if (tensor.in_rows) return tensor.dtype == DType::f32 || tensor.dtype == DType::f16 || tensor.dtype == DType::bf16;
    return tensor.heads_per_row > 0 && elements_per_pack(tensor.dtype) <= 32;
}

}  // namespace kvloupe::cuda
