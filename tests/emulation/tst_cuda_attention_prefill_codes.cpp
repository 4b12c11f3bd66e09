// SPDX-License-Identifier: GPL-3.0-or-later
//
// Prefill attention over caches of every precision, on the emulated device, against the scalar twin over exactly expanded codes.
//
// Tolerances, relative to the largest output: on tensor cores q, the weights and what the codes expand to are rounded to f16, 2^-12 of
// each: 2e-3, as for an f16 cache (tst_cuda_attention_prefill). Elsewhere nothing is rounded but sums: 3e-6.
#include "tests/emulation/all_pairs.h"
#include "tests/emulation/attention_cases.h"
#include "tests/emulation/coded_cases.h"
#include "tests/emulation/device_memory.h"
#include "tests/support/rows.h"

#include <iterator>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

bool on_tensor_cores(const AttentionCase& c) {
    const auto narrow = [](const KvFormat& format) { return format.dtype != DType::f32 && format.dtype != DType::bf16; };
    return (c.head_dim == 64 || c.head_dim == 128 || c.head_dim == 256) && narrow(*c.key_format) && narrow(*c.value_format);
}

std::vector<float> attended(Check& check, const AttentionCase& c, AttentionData& data) {
    std::vector<cuda::PrefillTile> tiles;
    for (std::uint32_t s = 0; s < c.sequences.size(); ++s)
        for (std::uint32_t row = 0; row < c.sequences[s].rows; row += cuda::prefill_rows) tiles.push_back({s, row});
    const DeviceArray<cuda::PrefillTile> list(tiles);
    DeviceArray<float> out(data.out_size());
    cuda::AttentionArgs args = data.args();
    args.out = out.data();
    const cudaError_t error = cuda::attention_prefill({args, list.data(), static_cast<std::uint32_t>(tiles.size())}, nullptr);
    if (error != cudaSuccess) check.fail(std::string(cudaGetErrorString(error)) + ": " + emulation::last_failure(), __FILE__, __LINE__);
    if (!out.guards_hold() || !data.guards_hold()) check.fail("something was written beside the output or the cache", __FILE__, __LINE__);
    return out.host();
}

void equals_twin(Check& check, const AttentionCase& c) {
    AttentionData data(c);
    const std::vector<float> got = attended(check, c, data);
    if (!check.good()) return;
    CHECK_BELOW(largest_difference(got, data.reference()), on_tensor_cores(c) ? 2e-3 : 3e-6);
}

// A tile is expanded from where its rows lie: the same numbers whatever the blocks are.
void block_size_changes_no_bit(Check& check, AttentionCase c) {
    std::vector<float> first;
    for (std::uint32_t block_size : {16u, 1u, 8u, 256u}) {
        c.block_size = block_size;
        AttentionData data(c);
        const std::vector<float> got = attended(check, c, data);
        if (!check.good()) return;
        if (first.empty()) first = got;
        CHECK_THAT(got == first);
    }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> rows;
    const std::vector<FormatPair> formats = format_pairs();
    constexpr std::uint32_t head_dims[] = {64, 128, 256, 80, 32, 12}, groups[] = {1, 2, 3, 8}, block_sizes[] = {16, 1, 8, 32, 256};
    constexpr std::size_t spans[] = {0, 3, 7, 12, 17};  // of attention_spans
    const std::vector<std::vector<CaseSequence>> batches = {{{0, 15}}, {{0, 65}}, {{63, 2}}, {{100, 20}}, {{31, 33}, {0, 5}}};
    const AllPairs pairs({formats.size(), std::size(head_dims), std::size(groups), std::size(block_sizes), batches.size(), std::size(spans)});
    unsigned seed = 9000;
    for (const auto& level : pairs.rows()) {
        FormatPair pair = formats[level[0]];
        AttentionCase c;
        c.head_dim = head_dims[level[1]];
        c.group = groups[level[2]];
        c.kv_heads = c.group > 2 ? 1 : 2;
        c.block_size = block_sizes[level[3]];
        if (!fit(pair, c.kv_heads, c.head_dim, c.block_size)) c.head_dim = 64, c.kv_heads = 2, fit(pair, c.kv_heads, c.head_dim, c.block_size);
        c.key_format = pair.keys, c.value_format = pair.values;
        c.sequences = batches[level[4]];
        c.span = attention_spans[spans[level[5]]];
        c.layout = seed % 2 == 0 ? RotaryLayout::half_split : RotaryLayout::adjacent;
        c.seed = ++seed;
        rows.push_back({"equals its twin: " + c.label(), [c](Check& check) { equals_twin(check, c); }});
    }
    for (DType type : {DType::int8, DType::q4_0}) {
        AttentionCase c;
        c.key_format = c.value_format = KvFormat::of(type);
        c.group = 2;
        c.sequences = {{30, 70}};
        rows.push_back({"the block size changes no bit: " + c.label(), [c](Check& check) { block_size_changes_no_bit(check, c); }});
    }
    return rows;
}
