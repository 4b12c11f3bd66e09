// SPDX-License-Identifier: GPL-3.0-or-later
//
// Products with few rows on the emulated device, against the scalar twin: every stored form, all pairs of shapes.
#include "engine/model/half.h"
#include "kernels/cpu/scalar.h"
#include "kernels/cuda/kernels.h"
#include "tests/emulation/all_pairs.h"
#include "tests/emulation/device_memory.h"
#include "tests/support/rows.h"

#include <cmath>
#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr DType super_types[] = {DType::q5_0, DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k};
constexpr DType types[] = {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1};

struct MatvecCase {
    DType dtype = DType::f16;
    std::uint32_t rows = 1;         // of the activations
    std::uint32_t matrix_rows = 1;
    std::uint32_t cols = 32;
    bool accumulate = false;
    std::size_t shift = 0;          // bytes by which weights and activations miss 256-byte alignment

    std::string label() const {
        return std::string(name_of(dtype)) + ", " + std::to_string(rows) + " x " + std::to_string(cols) + " times " +
               std::to_string(matrix_rows) + " rows" + (accumulate ? ", added" : "") + (shift > 0 ? ", unaligned" : "");
    }
};

std::vector<float> random_floats(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random() >> 8) * 0x1p-23f - 1;
    return values;
}

// Of types with fifth bits or super-blocks: a minimum that is about the middle of the codes.
std::vector<std::byte> random_super_matrix(DType dtype, std::uint64_t rows, std::uint64_t cols) {
    std::mt19937 random(9);
    std::vector<std::byte> bytes(rows * row_bytes(dtype, cols));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 255);
    for (std::uint64_t at = 0; at < bytes.size(); at += bytes_per_pack(dtype)) {
        std::byte* const pack = bytes.data() + at;
        const float scale = static_cast<float>(random() % 1000 + 1) * (elements_per_pack(dtype) == 32 ? 1e-4f : 1e-5f);
        cpu::scalar::store_element(DType::f16, dtype == DType::q6_k ? pack + 208 : pack, 0, random() % 2 == 0 ? scale : -scale);
        if (dtype == DType::q5_1) cpu::scalar::store_element(DType::f16, pack, 1, scale * -15.3f);
        if (dtype == DType::q4_k || dtype == DType::q5_k)
            cpu::scalar::store_element(DType::f16, pack, 1, scale * (dtype == DType::q4_k ? 7.3f : 15.3f));
    }
    return bytes;
}

// Random weights; every bit of a pack's integers is used.
std::vector<std::byte> random_matrix(DType dtype, std::uint64_t rows, std::uint64_t cols) {
    if (cpu::is_super(dtype)) return random_super_matrix(dtype, rows, cols);
    std::mt19937 random(7);
    std::vector<std::byte> bytes(rows * row_bytes(dtype, cols));
    if (elements_per_pack(dtype) == 1) {
        const std::vector<float> values = random_floats(rows * cols, 8);
        for (std::uint64_t i = 0; i < rows * cols; ++i) cpu::scalar::store_element(dtype, bytes.data(), i, values[i]);
        return bytes;
    }
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 255);
    for (std::uint64_t at = 0; at < bytes.size(); at += bytes_per_pack(dtype)) {
        const float scale = static_cast<float>(random() % 1000 + 1) * 1e-4f;
        cpu::scalar::store_element(DType::f16, bytes.data() + at, 0, random() % 2 == 0 ? scale : -scale);
        if (dtype == DType::q4_1) cpu::scalar::store_element(DType::f16, bytes.data() + at, 1, scale * -7.3f);
    }
    return bytes;
}

// The tolerance of an output is a share of the sum of its products' magnitudes: what f32 sums lose, and far below one product.
void equals_twin(Check& check, const MatvecCase& c) {
    const std::vector<std::byte> weights = random_matrix(c.dtype, c.matrix_rows, c.cols);
    const std::vector<float> in = random_floats(std::size_t{c.rows} * c.cols, 3);
    std::vector<float> before = random_floats(std::size_t{c.rows} * c.matrix_rows, 4);
    const cpu::PackedMatrix twin{weights.data(), c.dtype, c.matrix_rows, c.cols};

    DeviceArray<std::byte> device_weights(weights, c.shift);
    DeviceArray<float> device_in(in, c.shift == 0 ? 0 : 4), out(before.size());
    if (c.accumulate) out.set(before);
    const cuda::Matrix matrix{device_weights.data(), c.dtype, c.matrix_rows, c.cols};
    LAUNCHED(cuda::matvec(matrix, {device_in.data(), out.data(), c.rows, c.accumulate}, nullptr));

    const std::vector<float> got = out.host();
    for (std::uint32_t n = 0; n < c.rows; ++n)
        for (std::uint32_t r = 0; r < c.matrix_rows; ++r) {
            const std::size_t at = std::size_t{n} * c.matrix_rows + r;
            double want = c.accumulate ? static_cast<double>(before[at]) : 0.0, magnitude = std::abs(want) + 1e-30;
            for (std::uint32_t i = 0; i < c.cols; ++i) {
                const double product = cpu::scalar::element(c.dtype, twin.row(r), i) * static_cast<double>(in[std::size_t{n} * c.cols + i]);
                want += product;
                magnitude += std::abs(product);
            }
            CHECK_BELOW(std::abs(static_cast<double>(got[at]) - want), 1e-6 * magnitude + 1e-37);
        }
    CHECK_THAT(out.guards_hold() && device_in.guards_hold() && device_weights.guards_hold());
}

// One row at a time, and all at once.
void rows_do_not_matter(Check& check, DType dtype, std::uint32_t cols) {
    constexpr std::uint32_t matrix_rows = 11, most = cuda::max_matvec_rows;
    DeviceArray<std::byte> weights(random_matrix(dtype, matrix_rows, cols));
    DeviceArray<float> in(random_floats(std::size_t{most} * cols, 5));
    const cuda::Matrix matrix{weights.data(), dtype, matrix_rows, cols};
    DeviceArray<float> alone(most * matrix_rows);
    for (std::uint32_t n = 0; n < most; ++n)
        LAUNCHED(cuda::matvec(matrix, {in.data() + std::size_t{n} * cols, alone.data() + n * matrix_rows, 1, false}, nullptr));
    for (std::uint32_t rows = 2; rows <= most; ++rows) {
        DeviceArray<float> together(rows * matrix_rows);
        LAUNCHED(cuda::matvec(matrix, {in.data(), together.data(), rows, false}, nullptr));
        CHECK_THAT(std::memcmp(together.data(), alone.data(), together.bytes()) == 0);
    }
}

void refuses_what_it_cannot(Check& check) {
    DeviceArray<std::byte> weights(random_matrix(DType::f16, 4, 64));
    DeviceArray<float> in(64 * 9), out(4 * 9);
    const cuda::Matrix matrix{weights.data(), DType::f16, 4, 64};
    CHECK_EQUAL(cuda::matvec(matrix, {in.data(), out.data(), 9, false}, nullptr), cudaErrorInvalidValue);
    CHECK_EQUAL(cuda::matvec({weights.data(), DType::q8_0, 1, 40}, {in.data(), out.data(), 1, false}, nullptr), cudaErrorInvalidValue);
    CHECK_EQUAL(cuda::matvec(matrix, {in.data(), out.data(), 0, false}, nullptr), cudaSuccess);
    CHECK_EQUAL(cuda::matvec({weights.data(), DType::f16, 0, 64}, {in.data(), out.data(), 1, false}, nullptr), cudaSuccess);
    for (float value : out.host()) CHECK_THAT(std::isnan(value));  // nothing was launched
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> rows;
    const auto add = [&](const MatvecCase& c) {
        rows.push_back({"equals its twin: " + c.label(), [c](Check& check) { equals_twin(check, c); }});
    };
    // Widths: one pack, a part of a warp's turn, one turn and a pack, several turns, two and four warps to a row.
    const std::vector<std::uint32_t> counts = {1, 2, 3, 4, 5, 8}, heights = {1, 2, 3, 16, 37, 70},
                                     widths = {32, 96, 256, 288, 1024, 2080, 4096, 8480};
    const AllPairs shapes({6, counts.size(), heights.size(), widths.size(), 2});
    for (const auto& level : shapes.rows())
        add({types[level[0]], counts[level[1]], heights[level[2]], widths[level[3]], level[4] == 1, 0});
    // Rows of plain types that are not aligned to 16 bytes.
    const std::vector<std::uint32_t> odd = {1, 2, 7, 12, 33, 250, 257, 1023};
    const AllPairs odd_shapes({3, counts.size(), heights.size(), odd.size(), 2});
    for (const auto& level : odd_shapes.rows())
        add({types[level[0]], counts[level[1]], heights[level[2]], odd[level[3]], level[4] == 1, 0});
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) add({dtype, 2, 9, 64, false, 4});
    // Many rows: one warp to a row.
    for (DType dtype : types) add({dtype, 1, 4100, 64, false, 0});
    const std::vector<std::uint32_t> super_widths = {256, 512, 1024, 2304, 4096, 8448};
    const AllPairs super_shapes({std::size(super_types), counts.size(), heights.size(), super_widths.size(), 2});
    for (const auto& level : super_shapes.rows())
        add({super_types[level[0]], counts[level[1]], heights[level[2]], super_widths[level[3]], level[4] == 1, 0});
    for (DType dtype : {DType::q5_0, DType::q5_1})
        for (std::uint32_t width : {32u, 96u, 288u, 2080u}) add({dtype, 3, 16, width, false, 0});
    for (DType dtype : super_types)
        rows.push_back({"the number of rows changes no bit: " + std::string(name_of(dtype)) + ", 2304",
                        [dtype](Check& check) { rows_do_not_matter(check, dtype, 2304); }});
    for (DType dtype : types)
        for (std::uint32_t cols : {64u, 2304u, 250u})
            if (cols % elements_per_pack(dtype) == 0)
                rows.push_back({"the number of rows changes no bit: " + std::string(name_of(dtype)) + ", " + std::to_string(cols),
                                [dtype, cols](Check& check) { rows_do_not_matter(check, dtype, cols); }});
    rows.push_back({"what it cannot do is refused, and nothing is launched for nothing", refuses_what_it_cannot});
    return rows;
}
