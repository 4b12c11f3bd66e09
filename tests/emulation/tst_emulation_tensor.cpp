// SPDX-License-Identifier: GPL-3.0-or-later
//
// mma.sync, ldmatrix and cp.async as kernels/cuda wraps them, against plain loops over matrices in memory. The fragments
// are packed and unpacked here by the tables of the PTX ISA, element by element.
#include "kernels/cuda/async_copy.h"
#include "kernels/cuda/mma.h"
#include "tests/emulation/device_memory.h"
#include "tests/support/rows.h"

#include <bit>

using namespace kvloupe;
using namespace kvloupe::test;
using cuda::launch;

namespace {

// PTX ISA: element i of lane's fragment (a: 8, b: 4, c: 4), as row and column.
struct Place {
    unsigned row, col;
};
__device__ Place place_a(unsigned lane, unsigned i) {
    const unsigned group = lane >> 2, thread = lane % 4;
    return {(i < 2 || (i >= 4 && i < 6)) ? group : group + 8, thread * 2 + (i & 1) + (i < 4 ? 0 : 8)};
}
__device__ Place place_b(unsigned lane, unsigned i) { return {lane % 4 * 2 + (i & 1) + (i < 2 ? 0 : 8), lane >> 2}; }
__device__ Place place_c(unsigned lane, unsigned i) { return {i < 2 ? lane >> 2 : (lane >> 2) + 8, lane % 4 * 2 + (i & 1)}; }

template <class Element>
std::uint16_t bits_of(Element value) { return std::bit_cast<std::uint16_t>(value); }

template <class Element>
__global__ void multiply_matrices(const Element* a, const Element* b, float* c) {
    KVLOUPE_KERNEL(multiply_matrices);
    const unsigned lane = threadIdx.x % 32;
    std::uint32_t fragment_a[4] = {}, fragment_b[2] = {};
    float sum[4];
    for (unsigned i = 0; i < 8; ++i) {
        const Place at = place_a(lane, i);
        fragment_a[i / 2] |= std::uint32_t{bits_of(a[at.row * 16 + at.col])} << (16 * (i % 2));
    }
    for (unsigned i = 0; i < 4; ++i) {
        const Place at = place_b(lane, i), to = place_c(lane, i);
        fragment_b[i / 2] |= std::uint32_t{bits_of(b[at.row * 8 + at.col])} << (16 * (i % 2));
        sum[i] = c[to.row * 8 + to.col];
    }
    cuda::multiply_accumulate<Element>(sum, fragment_a, fragment_b);
    for (unsigned i = 0; i < 4; ++i) c[place_c(lane, i).row * 8 + place_c(lane, i).col] = sum[i];
}

template <class Element>
void products(Check& check) {
    std::vector<Element> a(256), b(128);
    std::vector<float> c(128);
    for (unsigned i = 0; i < 256; ++i) a[i] = Element(std::sin(static_cast<float>(i * i)));
    for (unsigned i = 0; i < 128; ++i) b[i] = Element(std::cos(static_cast<float>(i * 7))), c[i] = static_cast<float>(i);
    DeviceArray<Element> device_a(a), device_b(b);
    DeviceArray<float> device_c(c);
    LAUNCHED(launch(multiply_matrices<Element>, 1, 32, 0, nullptr, device_a.data(), device_b.data(), device_c.data()));
    for (unsigned row = 0; row < 16; ++row)
        for (unsigned col = 0; col < 8; ++col) {
            double sum = static_cast<double>(c[row * 8 + col]);
            for (unsigned k = 0; k < 16; ++k)
                sum += static_cast<double>(float(a[row * 16 + k])) * static_cast<double>(float(b[k * 8 + col]));
            CHECK_EQUAL(device_c.data()[row * 8 + col], static_cast<float>(sum));
        }
}

// Four 8x8 matrices of consecutive numbers; rows 48 bytes apart, as a padded tile has them.
template <bool transposed>
__global__ void load_four(std::uint32_t* out) {
    KVLOUPE_KERNEL(load_four);
    struct alignas(16) PaddedRow {
        std::uint16_t at[24];
    };
    KVLOUPE_SHARED(PaddedRow, tile, 32);
    for (unsigned i = 0; i < 8; ++i) tile[threadIdx.x].at[8 + i] = static_cast<std::uint16_t>(threadIdx.x * 8 + i);
    __syncwarp();
    std::uint32_t fragment[4];
    cuda::load_matrices<transposed>(fragment, tile[threadIdx.x].at + 8);
    for (unsigned matrix = 0; matrix < 4; ++matrix) out[threadIdx.x * 4 + matrix] = fragment[matrix];
}

void matrices(Check& check) {
    DeviceArray<std::uint32_t> straight(128), turned(128);
    LAUNCHED(launch(load_four<false>, 1, 32, 0, nullptr, straight.data()));
    LAUNCHED(launch(load_four<true>, 1, 32, 0, nullptr, turned.data()));
    const auto number = [](unsigned matrix, unsigned row, unsigned col) { return (matrix * 8 + row) * 8 + col; };
    for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned matrix = 0; matrix < 4; ++matrix) {
            const unsigned group = lane / 4, pair = lane % 4 * 2;
            CHECK_EQUAL(straight.data()[lane * 4 + matrix],
                        number(matrix, group, pair) | number(matrix, group, pair + 1) << 16);
            CHECK_EQUAL(turned.data()[lane * 4 + matrix],
                        number(matrix, pair, group) | number(matrix, pair + 1, group) << 16);
        }
}

struct alignas(16) Four {
    float at[4];
};

// Two groups in flight: `early` is what the destination of the second holds after waiting for all but one group.
__global__ void copy_groups(const Four* from, Four* out, Four* early) {
    KVLOUPE_KERNEL(copy_groups);
    KVLOUPE_SHARED(Four, tile, 3 * 32);
    Four* const mine = tile + threadIdx.x;
    cuda::copy_async(mine, from + threadIdx.x);
    cuda::copy_async_commit();
    cuda::copy_async(mine + 32, from + 32 + threadIdx.x);
    cuda::copy_async(mine + 64, nullptr, false);
    cuda::copy_async_commit();
    cuda::copy_async_wait<1>();
    out[threadIdx.x] = mine[0];
    early[threadIdx.x] = mine[32];
    cuda::copy_async_wait<0>();
    __syncthreads();
    const unsigned other = 31 - threadIdx.x;
    out[32 + other] = tile[32 + other];
    out[64 + other] = tile[64 + other];
}

void copies(Check& check) {
    std::vector<Four> values(64);
    for (unsigned i = 0; i < 64; ++i) values[i] = {{float(i), float(i + 100), float(i + 200), float(i + 300)}};
    DeviceArray<Four> from(values), out(96), early(32);
    LAUNCHED(launch(copy_groups, 1, 32, 0, nullptr, from.data(), out.data(), early.data()));
    for (unsigned i = 0; i < 96; ++i)
        for (unsigned j = 0; j < 4; ++j) CHECK_EQUAL(out.data()[i].at[j], i < 64 ? float(i + 100 * j) : 0.0f);
    for (unsigned i = 0; i < 32; ++i)
        CHECK_THAT(std::isnan(early.data()[i].at[0]) && std::isnan(early.data()[i].at[3]));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    return {
        {"a tensor-core product of f16 equals the matrix product, through the documented fragments", products<__half>},
        {"a tensor-core product of bf16 equals the matrix product, through the documented fragments", products<__nv_bfloat16>},
        {"ldmatrix hands out rows, and columns when transposed", matrices},
        {"an asynchronous copy arrives at its group's wait and not before", copies},
    };
}
