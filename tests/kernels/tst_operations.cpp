// SPDX-License-Identifier: GPL-3.0-or-later
//
// The CPU's backend by the rows that every backend is held against: with one thread and with several, and the newer kernels
// with every instruction set that this processor has.
#include "kernels/cpu/scalar.h"
#include "tests/kernels/support.h"
#include "tests/support/backend_rows.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

struct InstructionSet {
    const char* name;
    std::int64_t target;
};
constexpr InstructionSet sets[] = {{"AVX3", HWY_AVX3}, {"AVX2", HWY_AVX2}, {"SSE4", HWY_SSE4}, {"the least", HWY_STATIC_TARGET}};

BackendSubject on_cpu(unsigned threads) {
    BackendSubject subject;
    subject.make = [threads] { return cpu::make_cpu_backend(threads); };
    subject.device = "cpu";
    return subject;
}

// -infinity is what a masked score is.
void softmaxOfARowIsItsDefinition(Check& check) {
    for (const std::size_t count : {1u, 3u, 16u, 17u, 1000u}) {
        std::vector<float> row = random_floats(count, 5, 6);
        if (count > 2) row[1] = -std::numeric_limits<float>::infinity();
        std::vector<double> expected(row.begin(), row.end());
        const double top = *std::max_element(expected.begin(), expected.end());
        double sum = 0;
        for (double& value : expected) sum += value = std::exp(value - top);
        cpu::softmax_row(row.data(), count);
        for (std::size_t i = 0; i < count; ++i) CHECK_THAT(std::abs(static_cast<double>(row[i]) - expected[i] / sum) <= 1e-5 * expected[i] / sum);
        if (count > 2) CHECK_EQUAL(row[1], 0.0f);
    }
}

void valuesOfARowAreCappedGatedAndAdded(Check& check) {
    for (const std::size_t count : {1u, 15u, 16u, 33u, 700u}) {
        const std::vector<float> x = random_floats(count, 1, 3), y = random_floats(count, 2);
        std::vector<float> capped = x, gated = x, sum = y, want_capped = x, want_gated = x;
        cpu::soft_cap_row(capped.data(), 2.5f, count);
        cpu::scalar::soft_cap(want_capped, 2.5f);
        cpu::gelu_multiply_row(gated.data(), y.data(), count);
        cpu::scalar::gate_multiply(Activation::gelu_tanh, want_gated, y);
        cpu::add_scaled_row(x.data(), 0.5f, count, sum.data());
        for (std::size_t i = 0; i < count; ++i) {
            CHECK_THAT(std::abs(capped[i] - want_capped[i]) <= 1e-6f * std::abs(want_capped[i]));
            CHECK_THAT(std::abs(gated[i] - want_gated[i]) <= 4e-6f * std::abs(want_gated[i]) + 1e-6f);
            CHECK_THAT(std::abs(sum[i] - (y[i] + 0.5f * x[i])) <= 1e-6f * (std::abs(y[i]) + std::abs(x[i])));
        }
    }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> rows;
    for (const unsigned threads : {1u, 3u})
        for (auto make : {operation_rows, part_rows, form_rows})
            for (Row& row : make(on_cpu(threads))) {
                row.name += threads == 1 ? ", one thread" : ", three threads";
                rows.push_back(std::move(row));
            }
    for (const InstructionSet& set : sets) {
        if (set.target != HWY_STATIC_TARGET && (hwy::SupportedTargets() & set.target) == 0) continue;
        std::vector<Row> with = form_rows(on_cpu(2));
        with.push_back({"softmax of a row is its definition", softmaxOfARowIsItsDefinition});
        with.push_back({"values of a row are capped, gated and added as their twins say", valuesOfARowAreCappedGatedAndAdded});
        for (Row& row : with)
            rows.push_back({row.name + ", with " + set.name, [run = std::move(row.run), target = set.target](Check& check) {
                                const UseTarget use(target);
                                run(check);
                            }});
    }
    return rows;
}
