// SPDX-License-Identifier: GPL-3.0-or-later
//
// Decode attention of kernels/cuda against the scalar twin, on the emulated device: f32, f16 and bf16. Codes:
// tst_cuda_attention_decode_codes.
#include "kernels/cuda/kernels.h"
#include "tests/emulation/all_pairs.h"
#include "tests/emulation/decode_runs.h"

#include <iterator>
#include <memory>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

struct Types {
    DType keys, values;
};
constexpr Types types[] = {{DType::f16, DType::f16},   {DType::bf16, DType::bf16}, {DType::f32, DType::f32},
                           {DType::f16, DType::f32},   {DType::bf16, DType::f16},  {DType::f32, DType::bf16}};
constexpr std::uint32_t head_dims[] = {64, 80, 96, 128, 256, 12, 1};
constexpr std::uint32_t groups[] = {1, 2, 4, 8, 3, 20};
constexpr std::uint32_t block_sizes[] = {1, 8, 16, 32, 256};
constexpr std::uint32_t split_counts[] = {1, 2, 8};
// Contexts, in tokens: 1; borders of blocks and of the kernels' tiles; long.
std::uint32_t context_of(std::size_t level, std::uint32_t block_size) {
    const std::uint32_t border = block_size == 1 ? 16 : block_size;
    const std::uint32_t contexts[] = {1, border - 1, border, border + 1, 63, 64, 65, 700 - border / 3};
    return contexts[level];
}
constexpr std::size_t context_levels = 8;

void add_pairs(std::vector<Row>& rows) {
    const AllPairs pairs({std::size(attention_spans), std::size(head_dims), std::size(types), std::size(groups),
                          std::size(block_sizes), std::size(split_counts), context_levels, 2});
    unsigned seed = 0;
    for (const std::vector<std::size_t>& level : pairs.rows()) {
        AttentionCase c;
        c.span = attention_spans[level[0]];
        c.head_dim = head_dims[level[1]];
        c.keys = types[level[2]].keys;
        c.values = types[level[2]].values;
        c.group = groups[level[3]];
        c.kv_heads = c.group > 4 ? 1 : 2;
        c.block_size = block_sizes[level[4]];
        const std::uint32_t splits = split_counts[level[5]];
        // Beside the sequence at hand one that prefill computes and a short one.
        c.sequences = {{context_of(level[6], c.block_size) - 1, 1}, {3, 2}, {seed % 40, 1}};
        c.layout = level[7] == 0 ? RotaryLayout::half_split : RotaryLayout::adjacent;
        c.seed = ++seed;
        rows.push_back({c.label() + ", splits " + std::to_string(splits),
                        [c, splits](Check& check) { run_case(check, c, splits); }});
    }
}

// Every span with every type over contexts that it does not see whole, which pairs alone need not bring together.
void add_long_contexts(std::vector<Row>& rows) {
    unsigned seed = 1000;
    for (DType type : {DType::f32, DType::f16, DType::bf16})
        for (const NamedSpan& span : attention_spans) {
            AttentionCase c;
            c.keys = c.values = type;
            c.span = span;
            c.head_dim = head_dims[seed % 5];
            c.group = groups[seed % 4];
            c.block_size = block_sizes[seed / 2 % 5];
            c.layout = seed % 2 == 0 ? RotaryLayout::half_split : RotaryLayout::adjacent;
            c.sequences = {{600 + seed % 130, 1}};
            c.seed = ++seed;
            const std::uint32_t splits = 1 + seed % 5;
            rows.push_back({c.label() + ", splits " + std::to_string(splits),
                            [c, splits](Check& check) { run_case(check, c, splits); }});
        }
}

// --- claims of their own ---

AttentionCase plain_case(DType type, std::uint32_t tokens) {
    AttentionCase c;
    c.keys = c.values = type;
    c.head_dim = 128;
    c.group = 4;
    c.sequences = {{tokens - 1, 1}};
    return c;
}

void same_bits_for_every_block_size(Check& check, DType type, const NamedSpan& span, std::uint32_t splits) {
    std::vector<float> first;
    for (std::uint32_t block_size : block_sizes) {
        AttentionCase c = plain_case(type, 333);
        c.block_size = block_size;
        c.span = span;
        AttentionData data(c);
        const Decoded got = decode(data, c, {0}, splits);
        CHECK_EQUAL(got.failure, std::string());
        if (first.empty()) first = got.out;
        CHECK_THAT(got.out == first);
    }
}

void same_for_every_split_count(Check& check, DType type, std::uint32_t tokens) {
    const AttentionCase c = plain_case(type, tokens);
    AttentionData data(c);
    const Decoded whole = decode(data, c, {0}, 1);
    CHECK_EQUAL(whole.failure, std::string());
    for (std::uint32_t splits : {2u, 3u, 8u, 40u}) {
        const Decoded got = decode(data, c, {0}, splits);
        CHECK_EQUAL(got.failure, std::string());
        CHECK_BELOW(largest_difference(got.out, whole.out), 1e-6);
    }
}

void splits_fill_the_device(Check& check) {
    const std::uint32_t processors = 132;
    // One sequence of 8 KV heads: 264 blocks.
    CHECK_EQUAL(cuda::decode_splits(1, 8, 32768, processors), 33u);
    CHECK_EQUAL(cuda::decode_splits(32, 8, 8192, processors), 1u);
    CHECK_EQUAL(cuda::decode_splits(33, 8, 8192, processors), 1u);
    CHECK_EQUAL(cuda::decode_splits(1, 8, 1, processors), 1u);
    CHECK_EQUAL(cuda::decode_splits(1, 8, 600, processors), 3u);
    CHECK_EQUAL(cuda::decode_splits(0, 8, 600, processors), 1u);
    CHECK_EQUAL(cuda::decode_splits(1, 8, 0, processors), 1u);
    for (std::uint32_t count = 1; count < 300; ++count) {
        const std::uint32_t blocks = count * 8 * cuda::decode_splits(count, 8, 1 << 20, processors);
        CHECK_THAT(blocks * 3 >= processors * 4);  // at least 1.3 a multiprocessor
        if (count * 8 < 2 * processors) CHECK_THAT(blocks <= 3 * processors);
    }
}

void what_cannot_be_is_refused(Check& check) {
    AttentionCase c = plain_case(DType::f32, 5);
    AttentionData data(c);
    DeviceArray<float> out(data.out_size());
    DeviceArray<std::uint32_t> list(std::vector<std::uint32_t>{0});
    cuda::DecodeAttention work;
    work.args = data.args();
    work.args.out = out.data();
    work.list = list.data();
    LAUNCHED(cuda::attention_decode(work, nullptr));  // count 0: nothing is launched
    CHECK_THAT(std::isnan(out.host()[0]));
    work.count = 1;
    cuda::DecodeAttention wide = work, odd = work, packed = work;
    wide.args.cache.head_dim_k = 257;
    odd.args.query_heads = 7;
    packed.args.cache.keys.dtype = DType::q8_0;
    CHECK_THAT(cuda::attention_decode(wide, nullptr) == cudaErrorInvalidValue);
    CHECK_THAT(cuda::attention_decode(odd, nullptr) == cudaErrorInvalidValue);
    CHECK_THAT(cuda::attention_decode(packed, nullptr) == cudaErrorInvalidValue);
}

// Scores far apart, and queries far from 1: what is left of a part must not get lost.
void extreme_queries(Check& check, DType type, float factor) {
    AttentionCase c = plain_case(type, 200);
    c.query_factor = factor;
    AttentionData data(c);
    check_decoded(check, c, data, {0}, decode(data, c, {0}, 1));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> rows;
    for (DType type : {DType::f32, DType::f16, DType::bf16}) {
        const std::string name(name_of(type));
        for (const NamedSpan& span : {attention_spans[0], attention_spans[11]})
            for (std::uint32_t splits : {1u, 8u})
                rows.push_back({"the same bits for every block size: " + name + ", " + span.name + ", splits " +
                                    std::to_string(splits),
                                [=](Check& check) { same_bits_for_every_block_size(check, type, span, splits); }});
        for (std::uint32_t tokens : {1u, 64u, 65u, 700u})
            rows.push_back({"the same for every split count: " + name + ", context " + std::to_string(tokens),
                            [=](Check& check) { same_for_every_split_count(check, type, tokens); }});
        for (float factor : {1e-20f, 1e-4f, 30.0f})
            rows.push_back({"queries times " + shown(factor) + ": " + name,
                            [=](Check& check) { extreme_queries(check, type, factor); }});
    }
    rows.push_back({"splits fill the device and no more", splits_fill_the_device});
    rows.push_back({"what the kernels cannot do is refused", what_cannot_be_is_refused});
    add_long_contexts(rows);
    add_pairs(rows);
    return rows;
}
