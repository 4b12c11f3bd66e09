// SPDX-License-Identifier: GPL-3.0-or-later
//
// The weight types with fifth bits or scales in two levels: expanding and multiplying against the scalar twin, and the twin
// against the engine's own unpacking.
#include "engine/model/quants.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/scalar.h"
#include "tests/kernels/support.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;
using cpu::ThreadPool;

namespace {

Cases<DType> ofEveryType_cases() {
    Cases<DType> cases;
    for (DType type : super_types) cases.add(std::string(name_of(type)), type);
    return cases;
}

// Three roads to the same number: the engine's loop over a pack, the twin's formula for one element, the kernel.
void expandingGivesTheSameNumbersEverywhere(Check& check, DType type) {
    for (std::size_t shift : {0u, 1u, 2u}) {
        const StoredMatrix matrix(type, 1, 2048, 5, shift);
        std::vector<float> engine(2048), kernel(2048);
        dequantise_row(type, matrix.data(), engine);
        cpu::expand_row(type, matrix.data(), 2048, kernel.data());
        bool varied = false;
        for (std::size_t i = 0; i < 2048; ++i) {
            CHECK_EQUAL(kernel[i], static_cast<float>(cpu::scalar::element(type, matrix.data(), i)));
            CHECK_EQUAL(kernel[i], engine[i]);
            varied |= kernel[i] != kernel[0];
        }
        CHECK_THAT(varied);
    }
}

void everyInstructionSetExpandsTheSame(Check& check, DType type) {
    const StoredMatrix matrix(type, 1, 1024, 9, 1);
    std::vector<float> best(1024), other(1024);
    cpu::expand_row(type, matrix.data(), 1024, best.data());
    for (std::int64_t target : {std::int64_t(HWY_AVX3), std::int64_t(HWY_AVX2), std::int64_t(HWY_SSE4), std::int64_t(HWY_STATIC_TARGET)}) {
        if (target != HWY_STATIC_TARGET && (hwy::SupportedTargets() & target) == 0) continue;
        const UseTarget use(target);
        cpu::expand_row(type, matrix.data(), 1024, other.data());
        // Without a fused multiply-add the sum with the minimum is of a product that is exact all the same.
        CHECK_EQUAL(other, best);
    }
}

std::vector<float> product(const cpu::PackedMatrix& matrix, const std::vector<float>& in, std::uint32_t rows, unsigned threads) {
    ThreadPool pool(threads);
    std::vector<std::vector<float>> memory(pool.threads(), std::vector<float>(cpu::panel_floats(matrix.cols)));
    std::vector<float*> panels;
    for (auto& panel : memory) panels.push_back(panel.data());
    Guarded out(rows * matrix.rows);
    cpu::multiply(matrix, {in.data(), out.data(), rows, false}, pool, {panels, false});
    return out.intact() ? out.values() : std::vector<float>();
}

void productsEqualTheScalarTwin(Check& check, DType type) {
    struct Size {
        std::uint64_t rows, cols;
    };
    for (const Size& size : {Size{1, 256}, {7, 512}, {33, 2304}, {5, 17408}})
        for (std::uint32_t count : {1u, 2u, 3u, 4u, 7u, 8u, 17u}) {
            const StoredMatrix matrix(type, size.rows, size.cols, 7, 1);
            const std::vector<float> in = random_floats(count * size.cols, 8);
            std::vector<float> expected(count * size.rows);
            cpu::scalar::matmul(matrix.packed(), {in.data(), expected.data(), count, false});
            const std::vector<float> out = product(matrix.packed(), in, count, 1);
            CHECK_EQUAL(out.size(), expected.size());
            const double difference = relative_difference(out, expected, out.size());
            CHECK_BELOW(difference, 4e-7 * (2 + std::sqrt(static_cast<double>(size.cols))));
            CHECK_EQUAL(product(matrix.packed(), in, count, 3), out);
        }
}

void aRowIsTheSameAloneAndAmongOthers(Check& check, DType type) {
    const StoredMatrix matrix(type, 37, 512, 3, 1);
    const std::vector<float> in = random_floats(8 * 512, 4);
    const std::vector<float> together = product(matrix.packed(), in, 8, 2);
    for (std::size_t row = 0; row < 8; ++row) {
        const std::vector<float> one(in.begin() + std::ptrdiff_t(row * 512), in.begin() + std::ptrdiff_t(row * 512 + 512));
        const std::vector<float> alone = product(matrix.packed(), one, 1, 1);
        CHECK_THAT(std::equal(alone.begin(), alone.end(), together.begin() + std::ptrdiff_t(row * 37)));
    }
}

void whatIsNotFiniteComesThrough(Check& check, DType type) {
    const StoredMatrix matrix(type, 8, 256, 5);
    std::vector<float> in = random_floats(256, 6);
    in[17] = std::numeric_limits<float>::quiet_NaN();
    for (float value : product(matrix.packed(), in, 1, 2)) CHECK_THAT(std::isnan(value));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(expandingGivesTheSameNumbersEverywhere), ofEveryType_cases());
    claims.add(CLAIM(everyInstructionSetExpandsTheSame), ofEveryType_cases());
    claims.add(CLAIM(productsEqualTheScalarTwin), ofEveryType_cases());
    claims.add(CLAIM(aRowIsTheSameAloneAndAmongOthers), ofEveryType_cases());
    claims.add(CLAIM(whatIsNotFiniteComesThrough), ofEveryType_cases());
    return claims.rows();
}
