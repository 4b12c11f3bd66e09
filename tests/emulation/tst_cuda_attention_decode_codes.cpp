// SPDX-License-Identifier: GPL-3.0-or-later
//
// Decode attention over caches of every precision against the scalar twin over exactly expanded codes (kv_values.h), on the
// emulated device: tensor cores for int8, fp8 and int4, f32 arithmetic for the rest.
#include "kernels/cuda/codes.h"
#include "kernels/cuda/kernels.h"
#include "tests/emulation/all_pairs.h"
#include "tests/emulation/coded_cases.h"
#include "tests/emulation/decode_runs.h"

#include <iterator>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr std::uint32_t head_dims[] = {64, 128, 256, 32, 12};
constexpr std::uint32_t groups[] = {1, 4, 8, 3, 20};
constexpr std::uint32_t block_sizes[] = {16, 1, 8, 32, 256};
constexpr std::uint32_t split_counts[] = {1, 2, 8};
constexpr std::uint32_t contexts[] = {1, 15, 16, 17, 33, 64, 65, 300};
constexpr std::size_t spans[] = {0, 3, 5, 7, 11, 13, 17};  // of attention_spans

void add_pairs(std::vector<Row>& rows) {
    const std::vector<FormatPair> formats = format_pairs();
    const AllPairs pairs({formats.size(), std::size(spans), std::size(head_dims), std::size(groups), std::size(block_sizes),
                          std::size(split_counts), std::size(contexts)});
    unsigned seed = 5000;
    for (const std::vector<std::size_t>& level : pairs.rows()) {
        FormatPair pair = formats[level[0]];
        AttentionCase c;
        c.span = attention_spans[spans[level[1]]];
        c.head_dim = head_dims[level[2]];
        c.group = groups[level[3]];
        c.kv_heads = c.group > 4 ? 1 : 2;
        c.block_size = block_sizes[level[4]];
        if (!fit(pair, c.kv_heads, c.head_dim, c.block_size)) c.head_dim = 64, c.kv_heads = 2, fit(pair, c.kv_heads, c.head_dim, c.block_size);
        c.key_format = pair.keys, c.value_format = pair.values;
        c.sequences = {{contexts[level[6]] - 1, 1}, {3, 2}, {seed % 40, 1}};
        c.layout = seed % 2 == 0 ? RotaryLayout::half_split : RotaryLayout::adjacent;
        c.seed = ++seed;
        const std::uint32_t splits = split_counts[level[5]];
        rows.push_back({c.label() + ", splits " + std::to_string(splits), [c, splits](Check& check) { run_case(check, c, splits); }});
    }
}

AttentionCase long_case(const KvFormat& format) {
    AttentionCase c;
    FormatPair pair{format, format};
    fit(pair, c.kv_heads, 128, c.block_size);
    c.key_format = pair.keys, c.value_format = pair.values;
    c.head_dim = 128;
    c.group = 4;
    c.sequences = {{332, 1}};
    return c;
}

void same_bits_for_every_block_size(Check& check, const KvFormat& format, std::uint32_t splits) {
    std::vector<float> first;
    for (std::uint32_t block_size : {16u, 1u, 8u, 256u}) {
        AttentionCase c = long_case(format);
        c.block_size = block_size;
        AttentionData data(c);
        const Decoded got = decode(data, c, {0}, splits);
        CHECK_EQUAL(got.failure, std::string());
        if (first.empty()) first = got.out;
        CHECK_THAT(got.out == first);
    }
}

// Scores far apart, and queries far from 1.
void extreme_queries(Check& check, const KvFormat& format, float factor) {
    AttentionCase c = long_case(format);
    c.query_factor = factor;
    AttentionData data(c);
    check_decoded(check, c, data, {0}, decode(data, c, {0}, 1));
}

// All words of one code, and of two in turn, expanded to pairs of f16.
template <class Codes>
void expand_exactly(Check& check, unsigned codes, double (*value)(unsigned)) {
    constexpr unsigned in_word = Codes::in_word, bits = 32 / in_word;
    for (unsigned code = 0; code < codes; ++code) {
        const unsigned other = codes - 1 - code;
        std::uint32_t word = 0, turned = 0;
        for (unsigned i = 0; i < in_word; ++i) {
            word |= (i % 3 == 0 ? code : other) << bits * i;
            turned |= (i % 3 == 0 ? other : code) << bits * i;
        }
        std::uint32_t pairs[in_word / 2], side[2];
        Codes::expand(word, pairs);
        const auto same = [](std::uint16_t bits_of_pair, double expected) {
            const auto got = static_cast<double>(f16_to_f32(bits_of_pair));
            return got == expected || (std::isnan(got) && std::isnan(expected));
        };
        for (unsigned p = 0; p < in_word / 2; ++p) {
            const unsigned first = Codes::first(p), second = first + Codes::distance;
            CHECK_THAT(same(static_cast<std::uint16_t>(pairs[p]), value(first % 3 == 0 ? code : other)));
            CHECK_THAT(same(static_cast<std::uint16_t>(pairs[p] >> 16), value(second % 3 == 0 ? code : other)));
        }
        Codes::side_by_side(word, turned, side);
        for (unsigned h = 0; h < 2; ++h) {
            Codes::expand(side[h], pairs);
            for (unsigned p = 0; p < in_word / 2; ++p) {
                const unsigned element = h * (in_word / 2) + p;
                CHECK_THAT(same(static_cast<std::uint16_t>(pairs[p]), value(element % 3 == 0 ? code : other)));
                CHECK_THAT(same(static_cast<std::uint16_t>(pairs[p] >> 16), value(element % 3 == 0 ? other : code)));
            }
        }
    }
}

void refusals(Check& check) {
    const AttentionCase c = long_case(KvFormat::of(DType::int8));
    AttentionData data(c);
    DeviceArray<float> out(data.out_size());
    DeviceArray<std::uint32_t> list(std::vector<std::uint32_t>{0});
    cuda::DecodeAttention work;
    work.args = data.args();
    work.args.out = out.data();
    work.list = list.data();
    work.count = 1;
    cuda::DecodeAttention nothing = work, packs = work;
    nothing.args.cache.keys.heads_per_row = 0;
    packs.args.cache.values.dtype = DType::q6_k;
    CHECK_THAT(cuda::attention_decode(nothing, nullptr) == cudaErrorInvalidValue);
    CHECK_THAT(cuda::attention_decode(packs, nullptr) == cudaErrorInvalidValue);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> rows;
    rows.push_back({"every code becomes its f16: int8", [](Check& check) {
        expand_exactly<cuda::ByteCodes<DType::int8>>(check, 256, [](unsigned code) { return double(static_cast<std::int8_t>(code)); });
    }});
    rows.push_back({"every code becomes its f16: fp8_e4m3", [](Check& check) {
        expand_exactly<cuda::ByteCodes<DType::fp8_e4m3>>(check, 256, [](unsigned code) { return fp8_of(DType::fp8_e4m3, code); });
    }});
    rows.push_back({"every code becomes its f16: fp8_e5m2", [](Check& check) {
        expand_exactly<cuda::ByteCodes<DType::fp8_e5m2>>(check, 256, [](unsigned code) { return fp8_of(DType::fp8_e5m2, code); });
    }});
    rows.push_back({"every code becomes its f16 around 0: int4", [](Check& check) {
        expand_exactly<cuda::NibbleCodes>(check, 16, [](unsigned code) { return double(code) - 8; });
    }});
    for (DType type : {DType::int8, DType::int4, DType::fp8_e4m3, DType::q5_1}) {
        KvFormat format = KvFormat::of(type);
        if (type == DType::fp8_e4m3) format.scale = KvScale::token_head;
        const std::string name(name_of(type));
        for (std::uint32_t splits : {1u, 8u})
            rows.push_back({"the same bits for every block size: " + name + ", splits " + std::to_string(splits),
                            [=](Check& check) { same_bits_for_every_block_size(check, format, splits); }});
        for (float factor : {1e-20f, 1e-4f, 30.0f})
            rows.push_back({"queries times " + shown(factor) + ": " + name, [=](Check& check) { extreme_queries(check, format, factor); }});
    }
    rows.push_back({"what is described in part, and precisions without a kernel, are refused", refusals});
    add_pairs(rows);
    return rows;
}
