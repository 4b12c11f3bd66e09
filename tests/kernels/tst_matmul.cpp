// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/scalar.h"
#include "tests/kernels/support.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;
using cpu::PackedMatrix;
using cpu::ProductRows;
using cpu::ThreadPool;

namespace {

static std::vector<float> product(const PackedMatrix& matrix, const std::vector<float>& in, std::uint32_t rows,
                                  unsigned threads, bool blas = true) {
    cpu::prepare_blas();
    ThreadPool pool(threads);
    std::vector<std::vector<float>> memory(pool.threads(), std::vector<float>(cpu::panel_floats(matrix.cols)));
    std::vector<float*> panels;
    for (auto& panel : memory) panels.push_back(panel.data());
    Guarded out(rows * matrix.rows);
    cpu::multiply(matrix, {in.data(), out.data(), rows, false}, pool, {panels, blas});
    return out.intact() ? out.values() : std::vector<float>();
}

// Error of a sum of n products of about unit size, in units of the largest result.
static double tolerance(std::uint64_t cols) { return 4e-7 * (2 + std::sqrt(static_cast<double>(cols))); }

struct EveryStoredFormEqualsTheScalarTwinCase {
    int type, rows, cols, count, shift;
};
Cases<EveryStoredFormEqualsTheScalarTwinCase> everyStoredFormEqualsTheScalarTwin_cases() {
    Cases<EveryStoredFormEqualsTheScalarTwinCase> cases;
    for (DType type : all_types)
        for (auto [rows, cols] : {std::pair{1, 32}, {3, 64}, {7, 96}, {33, 576}, {9, 2208}, {5, 34816}, {70, 160}})
            for (int count : {1, 2, 3, 4, 7, 8, 9, 17})
                for (int shift : {0, 1})
                    cases.add(printed("%s %dx%d, %d rows, shifted %d", name_of(type).data(), rows, cols, count, shift), {int(type), rows, cols, count, shift});
    for (DType type : float_types)
        for (int cols : {1, 5, 17, 31, 33, 100})
            for (int count : {1, 2, 4, 11})
                cases.add(printed("%s 6x%d, %d rows", name_of(type).data(), cols, count), {int(type), 6, cols, count, 1});
    return cases;
}
void everyStoredFormEqualsTheScalarTwin(Check& check, const EveryStoredFormEqualsTheScalarTwinCase& row) {
    const StoredMatrix matrix(DType(row.type), std::uint64_t(row.rows), std::uint64_t(row.cols), 7, std::size_t(row.shift));
    const std::vector<float> in = random_floats(std::size_t(row.count * row.cols), 8);
    std::vector<float> expected(std::size_t(row.count * row.rows));
    cpu::scalar::matmul(matrix.packed(), {in.data(), expected.data(), std::uint32_t(row.count), false});
    const std::vector<float> out = product(matrix.packed(), in, std::uint32_t(row.count), 1);
    CHECK_EQUAL(out.size(), expected.size());
    const double difference = relative_difference(out, expected, out.size());
    CHECK_BELOW(difference, tolerance(matrix.cols));
    if (std::uint32_t(row.count) > cpu::matvec_rows_limit) {  // BLAS on one machine, our own kernels on another
        const std::vector<float> own = product(matrix.packed(), in, std::uint32_t(row.count), 2, false);
        CHECK_THAT(relative_difference(own, expected, own.size()) < tolerance(matrix.cols));
    }
    for (unsigned threads : {2u, 3u}) CHECK_EQUAL(product(matrix.packed(), in, std::uint32_t(row.count), threads), out);
}

// A row's result is the same alone and among others, as long as the packed weights are used.
void aRowDoesNotDependOnItsNeighbours(Check& check) {
    for (DType type : all_types) {
        const StoredMatrix matrix(type, 37, 320, 3, 1);
        const std::vector<float> in = random_floats(8 * 320, 4);
        const std::vector<float> together = product(matrix.packed(), in, 8, 2);
        for (std::size_t row = 0; row < 8; ++row) {
            const std::vector<float> one(in.begin() + std::ptrdiff_t(row * 320), in.begin() + std::ptrdiff_t(row * 320 + 320));
            const std::vector<float> alone = product(matrix.packed(), one, 1, 1);
            CHECK_OR_SAY(std::equal(alone.begin(), alone.end(), together.begin() + std::ptrdiff_t(row * 37)), std::string(name_of(type)));
        }
    }
}

void accumulatesOntoWhatIsThere(Check& check) {
    for (DType type : all_types)
        for (std::uint32_t count : {1u, 3u, 20u}) {
            const StoredMatrix matrix(type, 21, 64, 5);
            const std::vector<float> in = random_floats(count * 64, 6);
            const std::vector<float> before = random_floats(count * 21, 9);
            std::vector<float> out = before, expected = before;
            ThreadPool pool(2);
            std::vector<float> a(cpu::panel_floats(64)), b(cpu::panel_floats(64));
            float* const panels[] = {a.data(), b.data()};
            cpu::multiply(matrix.packed(), {in.data(), out.data(), count, true}, pool, {panels, true});
            if (count > cpu::matvec_rows_limit) {
                std::vector<float> own = before;
                cpu::multiply(matrix.packed(), {in.data(), own.data(), count, true}, pool, {panels, false});
                CHECK_THAT(relative_difference(own, out, own.size()) < tolerance(64));
            }
            cpu::scalar::matmul(matrix.packed(), {in.data(), expected.data(), count, true});
            CHECK_THAT(relative_difference(out, expected, out.size()) < tolerance(64));
        }
}

void everyInstructionSetComputesTheSame(Check& check) {
    for (std::int64_t target : {std::int64_t(HWY_AVX3), std::int64_t(HWY_AVX2), std::int64_t(HWY_SSE4), std::int64_t(HWY_STATIC_TARGET)}) {
        if (target != HWY_STATIC_TARGET && (hwy::SupportedTargets() & target) == 0) continue;
        const UseTarget use(target);
        for (DType type : all_types)
            for (std::uint32_t count : {1u, 2u, 5u, 12u}) {
                const StoredMatrix matrix(type, 19, 224, 11, 1);
                const std::vector<float> in = random_floats(count * 224, 12);
                std::vector<float> expected(count * 19);
                cpu::scalar::matmul(matrix.packed(), {in.data(), expected.data(), count, false});
                CHECK_THAT(relative_difference(product(matrix.packed(), in, count, 1), expected, expected.size()) < tolerance(224));
            }
    }
}

// The engine finds a broken step by its logits: what is not finite must come through.
void whatIsNotFiniteComesThrough(Check& check) {
    for (DType type : all_types)
        for (std::uint32_t count : {1u, 9u}) {
            const StoredMatrix matrix(type, 8, 64, 5);
            for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
                std::vector<float> in = random_floats(count * 64, 6);
                in[17] = bad;
                const std::vector<float> out = product(matrix.packed(), in, count, 2);
                for (std::size_t r = 0; r < 8; ++r) CHECK_THAT(!std::isfinite(out[r]));
                for (std::size_t r = 8; r < out.size(); ++r) CHECK_THAT(std::isfinite(out[r]));
            }
        }
}

// Several threads in sgemm at once, over shapes of real models, against sums in double.
void concurrentProductsOfManyRowsAreRight(Check& check) {
    for (auto [rows, cols, count] : {std::tuple{576u, 576u, 64u}, {192u, 576u, 33u}, {300u, 1536u, 100u}, {49u, 64u, 200u}}) {
        const StoredMatrix matrix(DType::f16, rows, cols, 21);
        const std::vector<float> in = random_floats(std::size_t{count} * cols, 22);
        std::vector<float> expected(std::size_t{count} * rows);
        cpu::scalar::matmul(matrix.packed(), {in.data(), expected.data(), count, false});
        for (unsigned threads : {1u, 2u, 4u}) {
            const double difference = relative_difference(product(matrix.packed(), in, count, threads), expected, expected.size());
            CHECK_BELOW(difference, tolerance(cols));
        }
    }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(everyStoredFormEqualsTheScalarTwin), everyStoredFormEqualsTheScalarTwin_cases());
    claims.add(CLAIM(aRowDoesNotDependOnItsNeighbours));
    claims.add(CLAIM(accumulatesOntoWhatIsThere));
    claims.add(CLAIM(everyInstructionSetComputesTheSame));
    claims.add(CLAIM(whatIsNotFiniteComesThrough));
    claims.add(CLAIM(concurrentProductsOfManyRowsAreRight));
    return claims.rows();
}
