// SPDX-License-Identifier: GPL-3.0-or-later
//
// The CPU's backend by the rows that every backend is held against, with one thread and with several.
#include "tests/kernels/support.h"
#include "tests/support/backend_rows.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

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
        for (std::size_t i = 0; i < count; ++i) CHECK_THAT(std::abs(static_cast<double>(row[i]) - expected[i] / sum) <= 3e-6 * expected[i] / sum);
        if (count > 2) CHECK_EQUAL(row[1], 0.0f);
    }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> rows;
    for (const unsigned threads : {1u, 3u}) {
        for (auto make : {operation_rows, part_rows, form_rows}) {
            for (Row& row : make(on_cpu(threads))) {
                row.name += threads == 1 ? ", one thread" : ", three threads";
                rows.push_back(std::move(row));
            }
        }
    }
    rows.push_back({"softmax of a row is its definition", softmaxOfARowIsItsDefinition});
    return rows;
}
