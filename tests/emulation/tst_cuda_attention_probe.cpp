// SPDX-License-Identifier: GPL-3.0-or-later
//
// Softmax weights of watched heads against the scalar twin, on the emulated device.
#include "kernels/cuda/kernels.h"
#include "tests/emulation/all_pairs.h"
#include "tests/emulation/attention_cases.h"
#include "tests/emulation/coded_cases.h"
#include "tests/emulation/device_memory.h"
#include "tests/support/rows.h"

#include <iterator>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr double tolerance = 3e-6;

void weights_equal_the_twins(Check& check, const AttentionCase& c, std::uint32_t head) {
    AttentionData data(c);
    std::vector<std::uint32_t> row_sequence;
    std::vector<std::uint64_t> offsets;
    std::uint64_t size = 5;  // rows need not lie side by side
    for (std::uint32_t s = 0; s < data.batch().sequences.size(); ++s)
        for (std::uint32_t r = 0; r < data.batch().sequences[s].rows; ++r) {
            row_sequence.push_back(s);
            offsets.push_back(size);
            size += data.batch().sequences[s].first_position + r + 1 + 3;
        }
    DeviceArray<float> weights(size);
    DeviceArray<std::uint32_t> positions(data.batch().positions), sequences(row_sequence);
    DeviceArray<std::uint64_t> begins(offsets);
    cuda::AttentionProbeArgs probe;
    probe.args = data.args();
    probe.positions = positions.data();
    probe.row_sequence = sequences.data();
    probe.offsets = begins.data();
    probe.rows = data.rows();
    probe.head = head;
    probe.weights = weights.data();
    LAUNCHED(cuda::attention_probe(probe, nullptr));
    CHECK_THAT(weights.guards_hold());
    const std::vector<float> all = weights.host();
    std::vector<bool> written(size, false);
    for (std::uint32_t row = 0; row < data.rows(); ++row) {
        const Batch::Sequence& sequence = data.batch().sequences[row_sequence[row]];
        const std::uint32_t position = data.batch().positions[row];
        const std::vector<double> want = data.reference_weights(row_sequence[row], row - sequence.first_row, head);
        CHECK_EQUAL(want.size(), std::size_t{position} + 1);
        const std::vector<float> got(all.begin() + std::ptrdiff_t(offsets[row]),
                                     all.begin() + std::ptrdiff_t(offsets[row] + want.size()));
        CHECK_BELOW(largest_difference(got, want), tolerance);
        for (std::uint32_t t = 0; t <= position; ++t) {
            if (!c.span.span.seen(position).sees(t)) CHECK_EQUAL(got[t], 0.0f);
            written[offsets[row] + t] = true;
        }
    }
    for (std::uint64_t i = 0; i < size; ++i)
        if (!written[i]) CHECK_THAT(std::isnan(all[i]));
}

void what_cannot_be_is_refused(Check& check) {
    AttentionData data(AttentionCase{});
    cuda::AttentionProbeArgs probe;
    probe.args = data.args();
    LAUNCHED(cuda::attention_probe(probe, nullptr));  // no rows: nothing is launched
    probe.rows = 1;
    probe.head = 2;
    CHECK_THAT(cuda::attention_probe(probe, nullptr) == cudaErrorInvalidValue);
    probe.head = 0;
    probe.args.cache.head_dim_k = 257;
    CHECK_THAT(cuda::attention_probe(probe, nullptr) == cudaErrorInvalidValue);
    probe.args.cache.head_dim_k = 64;
    probe.args.cache.keys.dtype = DType::q4_0;
    CHECK_THAT(cuda::attention_probe(probe, nullptr) == cudaErrorInvalidValue);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    constexpr DType types[] = {DType::f32, DType::f16, DType::bf16};
    constexpr std::uint32_t head_dims[] = {64, 80, 96, 128, 256, 12, 1}, groups[] = {1, 4, 3, 20};
    constexpr std::uint32_t block_sizes[] = {1, 8, 16, 32, 256};
    std::vector<Row> rows;
    const AllPairs pairs({std::size(attention_spans), std::size(head_dims), std::size(types), std::size(groups),
                          std::size(block_sizes), 6, 2});
    unsigned seed = 100;
    for (const std::vector<std::size_t>& level : pairs.rows()) {
        AttentionCase c;
        c.span = attention_spans[level[0]];
        c.head_dim = head_dims[level[1]];
        c.keys = c.values = types[level[2]];
        c.group = groups[level[3]];
        c.kv_heads = c.group > 4 ? 1 : 2;
        c.block_size = block_sizes[level[4]];
        const std::uint32_t border = c.block_size == 1 ? 16 : c.block_size;
        const std::uint32_t contexts[] = {1, border - 1, border, border + 1, 33, 500};
        c.sequences = {{contexts[level[5]] - 1, 1}, {3, 4}};
        c.layout = level[6] == 0 ? RotaryLayout::half_split : RotaryLayout::adjacent;
        c.seed = ++seed;
        const std::uint32_t head = seed % c.query_heads();
        rows.push_back({"head " + std::to_string(head) + ": " + c.label(),
                        [c, head](Check& check) { weights_equal_the_twins(check, c, head); }});
    }
    for (FormatPair pair : format_pairs())
        for (std::uint32_t block_size : {8u, 32u}) {
            AttentionCase c;
            c.head_dim = 64;
            c.group = 3;
            c.block_size = block_size;
            c.sequences = {{70, 1}, {3, 4}};
            c.span = attention_spans[seed % 2 == 0 ? 12 : 0];
            c.seed = ++seed;
            fit(pair, c.kv_heads, c.head_dim, block_size);
            c.key_format = pair.keys, c.value_format = pair.values;
            rows.push_back({"head 4: " + c.label(), [c](Check& check) { weights_equal_the_twins(check, c, 4); }});
        }
    rows.push_back({"what the kernel cannot do is refused", what_cannot_be_is_refused});
    return rows;
}
