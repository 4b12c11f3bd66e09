// SPDX-License-Identifier: GPL-3.0-or-later
//
// Runs of decode attention over the cases of attention_cases.h, held against the scalar twin.
//
// Tolerance 3e-6 of the largest output for every precision: queries and weights stay f32 on tensor cores too (they are cut
// into parts of the cache's type, or of f16 beside codes), so that only sums round.
#pragma once

#include "tests/emulation/attention_cases.h"
#include "tests/emulation/device_memory.h"
#include "tests/support/rows.h"

#include <string>
#include <vector>

namespace kvloupe::test {

inline constexpr double decode_tolerance = 3e-6;

// Runs the kernel for the sequences of `list`; what it wrote, with all other rows still NaN.
struct Decoded {
    std::vector<float> out;
    std::string failure;
};

inline Decoded decode(AttentionData& data, const AttentionCase& c, const std::vector<std::uint32_t>& list,
               std::uint32_t splits) {
    DeviceArray<float> out(data.out_size());
    DeviceArray<std::uint32_t> sequences(list);
    const auto count = std::uint32_t(list.size());
    DeviceArray<std::byte> scratch(cuda::decode_scratch_bytes(count, c.query_heads(), c.out_width(), splits));
    cuda::DecodeAttention work;
    work.args = data.args();
    work.args.out = out.data();
    work.list = sequences.data();
    work.count = count;
    work.splits = splits;
    work.scratch = scratch.data();
    Decoded result;
    const cudaError_t error = cuda::attention_decode(work, nullptr);
    if (error != cudaSuccess) result.failure = std::string(cudaGetErrorString(error)) + ": " + emulation::last_failure();
    if (!out.guards_hold()) result.failure += " Something was written beside the output.";
    if (!data.guards_hold()) result.failure += " Something was written beside the cache.";
    if (!scratch.guards_hold()) result.failure += " Something was written beside the scratch.";
    result.out = out.host();
    return result;
}

// The rows of the listed sequences equal the twin's, the others were left alone.
inline void check_decoded(Check& check, const AttentionCase& c, AttentionData& data, const std::vector<std::uint32_t>& list,
                   const Decoded& got) {
    CHECK_EQUAL(got.failure, std::string());
    const std::vector<double> want = data.reference();
    const std::size_t width = std::size_t{c.query_heads()} * c.out_width();
    std::vector<bool> listed(data.rows(), false);
    for (std::uint32_t s : list) listed[data.batch().sequences[s].first_row] = true;
    std::vector<float> got_rows;
    std::vector<double> want_rows;
    for (std::size_t i = 0; i < want.size(); ++i) {
        if (!listed[i / width]) CHECK_THAT(std::isnan(got.out[i]));
        if (!listed[i / width]) continue;
        got_rows.push_back(got.out[i]);
        want_rows.push_back(want[i]);
    }
    CHECK_BELOW(largest_difference(got_rows, want_rows), decode_tolerance);
}

inline void run_case(Check& check, const AttentionCase& c, std::uint32_t splits) {
    AttentionData data(c);
    std::vector<std::uint32_t> list;  // the last one first; sequences of several rows are not for this kernel
    for (std::size_t s = c.sequences.size(); s-- > 0;)
        if (c.sequences[s].rows == 1) list.push_back(std::uint32_t(s));
    check_decoded(check, c, data, list, decode(data, c, list, splits));
}

}  // namespace kvloupe::test
