// SPDX-License-Identifier: GPL-3.0-or-later
//
// Tensor cores, through one function: D (16, 8) = A (16, 16) * B (16, 8) + C (16, 8) of a warp, f16 or bf16 factors, f32 sums
// (mma.sync m16n8k16, sm_80 and newer), and ldmatrix, which loads its fragments. All 32 lanes call them together.
//
// Fragments (PTX ISA, "Matrix fragments for mma.m16n8k16"); lane l has g = l / 4 and t = l % 4; a register holds two
// elements, the one with the lower column (A) or row (B) in its low half:
//   a[0]: row g,     columns 2t, 2t + 1      a[2]: row g,     columns 2t + 8, 2t + 9
//   a[1]: row g + 8, columns 2t, 2t + 1      a[3]: row g + 8, columns 2t + 8, 2t + 9
//   b[0]: column g, rows 2t, 2t + 1          b[1]: column g, rows 2t + 8, 2t + 9
//   c[0], c[1]: row g, columns 2t, 2t + 1    c[2], c[3]: row g + 8, columns 2t, 2t + 1
#pragma once

#include "kernels/cuda/platform.h"

#include <cstdint>
#include <type_traits>

namespace kvloupe::cuda {

// c += a * b. Element: __half or __nv_bfloat16, as packed in a and b.
template <class Element>
__device__ __forceinline__ void multiply_accumulate(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    static_assert(std::is_same_v<Element, __half> || std::is_same_v<Element, __nv_bfloat16>);
#if defined(__CUDACC__)
    if constexpr (std::is_same_v<Element, __half>)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    std::uint32_t in[10] = {a[0], a[1], a[2], a[3], b[0], b[1]}, out[4];
    for (int i = 0; i < 4; ++i) in[6 + i] = __float_as_uint(c[i]);
    emulation::exchange(std::is_same_v<Element, __half> ? emulation::multiply_f16 : emulation::multiply_bf16, 0xFFFFFFFFu,
                        in, 10, out, 4);
    for (int i = 0; i < 4; ++i) c[i] = __uint_as_float(out[i]);
#endif
}

// Four 8x8 matrices of 16-bit elements from shared memory: lane 8 m + r names row r of matrix m (16 bytes, aligned to 16).
// to[m] of lane l: row l / 4, columns 2 (l % 4) and one more; transposed: column l / 4, rows 2 (l % 4) and one more.
template <bool transposed = false>
__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], const void* row) {
#if defined(__CUDACC__)
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    if constexpr (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
#else
    if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) emulation::fail_launch("ldmatrix of a row not aligned to 16");
    if (!emulation::is_shared(row, 16)) emulation::fail_launch("ldmatrix of memory that is not shared");
    const std::uint32_t* const words = static_cast<const std::uint32_t*>(row);
    const std::uint32_t in[4] = {words[0], words[1], words[2], words[3]};
    emulation::exchange(transposed ? emulation::load_matrices_transposed : emulation::load_matrices, 0xFFFFFFFFu, in, 4, to, 4);
#endif
}

}  // namespace kvloupe::cuda
