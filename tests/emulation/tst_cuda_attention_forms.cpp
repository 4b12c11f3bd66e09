// SPDX-License-Identifier: GPL-3.0-or-later
//
// The other forms of attention against the scalar twin, emulated: over latents (tensor cores and the general kernels), with capped
// scores, with values of another width than keys, with whole scores; each as decode, as prefill and watched.
#include "kernels/cuda/kernels.h"
#include "tests/emulation/all_pairs.h"
#include "tests/emulation/attention_cases.h"
#include "tests/emulation/decode_runs.h"
#include "tests/support/rows.h"

#include <iterator>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

AttentionCase latent_case(DType type, std::uint32_t heads) {
    AttentionCase c;
    c.keys = c.values = type;
    c.head_dim = 512;
    c.rotary_key = 64;
    c.kv_heads = 1;
    c.group = heads;
    return c;
}

// Every pair of what a block of the tensor kernel meets.
std::vector<std::pair<AttentionCase, std::uint32_t>> latent_cases() {
    const std::uint32_t groups[] = {1, 8, 16, 20, 40}, blocks[] = {1, 16, 7, 64}, splits[] = {1, 2, 5};
    const std::uint32_t contexts[][2] = {{0, 31}, {32, 63}, {64, 100}, {200, 1}, {333, 64}};
    const AllPairs pairs({std::size(attention_spans), std::size(groups), std::size(blocks), std::size(splits), std::size(contexts), 2, 2});
    std::vector<std::pair<AttentionCase, std::uint32_t>> cases;
    unsigned seed = 1;
    for (const auto& level : pairs.rows()) {
        AttentionCase c = latent_case(level[5] == 0 ? DType::f16 : DType::bf16, groups[level[1]]);
        c.span = attention_spans[level[0]];
        c.block_size = blocks[level[2]];
        c.layout = level[6] == 0 ? RotaryLayout::half_split : RotaryLayout::adjacent;
        c.sequences = {{contexts[level[4]][0], 1}, {contexts[level[4]][1], 1}};
        c.seed = seed++;
        cases.push_back({c, splits[level[3]]});
    }
    return cases;
}

// Queries far from 1, whose parts must keep their bits.
void large_and_small_queries(Check& check) {
    for (const DType type : {DType::f16, DType::bf16})
        for (const float factor : {1e-4f, 3e3f}) {
            AttentionCase c = latent_case(type, 16);
            c.sequences = {{77, 1}};
            c.query_factor = factor;
            run_case(check, c, 2);
        }
}

// What the tensor kernel leaves to the general one.
void general_latents(Check& check) {
    struct Sizes {
        std::uint32_t rank, rotary, heads;
        DType keys, values;
        float cap;
    };
    for (const Sizes& s : {Sizes{512, 64, 6, DType::f32, DType::f32, 0}, {512, 64, 5, DType::f16, DType::bf16, 0}, {64, 16, 9, DType::f16, DType::f16, 0},
                           {30, 7, 3, DType::bf16, DType::f32, 0}, {512, 64, 16, DType::f16, DType::f16, 3}})
        for (const std::size_t span : {0u, 7u, 11u}) {
            AttentionCase c = latent_case(s.keys, s.heads);
            c.values = s.values, c.head_dim = s.rank, c.rotary_key = s.rotary, c.soft_cap = s.cap;
            c.span = attention_spans[span];
            c.sequences = {{90, 1}, {5, 1}};
            run_case(check, c, 3);
        }
}

void capped_and_uneven(Check& check, const AttentionCase& c) {
    run_case(check, c, 1);
    run_case(check, c, 3);
}

enum class Whole : bool { no, yes };

// All rows of all sequences: the tiled kernel for prompts, or whole scores, sequence by sequence in two pieces.
void prompts(Check& check, const AttentionCase& c, Whole whole) {
    AttentionData data(c);
    DeviceArray<float> out(data.out_size());
    cuda::AttentionArgs args = data.args();
    args.out = out.data();
    if (whole == Whole::yes) {
        for (std::uint32_t s = 0; s < c.sequences.size(); ++s) {
            const CaseSequence& sequence = c.sequences[s];
            for (std::uint32_t first = 0; first < sequence.rows; first += 40) {
                const std::uint32_t rows = std::min(40u, sequence.rows - first), keys = sequence.before + first + rows;
                DeviceArray<float> scores(std::size_t{c.query_heads()} * rows * keys);
                LAUNCHED(cuda::attention_materialised({args, s, first, rows, keys, scores.data()}, nullptr));
                CHECK_THAT(scores.guards_hold());
                // What is left there are the weights: they add up to 1.
                for (std::size_t row = 0; row < std::size_t{c.query_heads()} * rows; ++row) {
                    double sum = 0;
                    for (std::uint32_t key = 0; key < keys; ++key) sum += static_cast<double>(scores.data()[row * keys + key]);
                    CHECK_BELOW(std::fabs(sum - 1), 1e-5);
                }
            }
        }
    } else {
        std::vector<cuda::PrefillTile> tiles;
        for (std::uint32_t s = 0; s < c.sequences.size(); ++s)
            for (std::uint32_t first = 0; first < c.sequences[s].rows; first += cuda::prefill_rows) tiles.push_back({s, first});
        const DeviceArray<cuda::PrefillTile> device_tiles(tiles);
        LAUNCHED(cuda::attention_prefill({args, device_tiles.data(), std::uint32_t(tiles.size())}, nullptr));
    }
    CHECK_THAT(out.guards_hold());
    CHECK_BELOW(largest_difference(out.host(), data.reference()), 3e-6);
}

// Bit for bit, whatever the blocks of the cache.
void blocks_do_not_matter(Check& check) {
    for (const DType type : {DType::f16, DType::bf16}) {
        std::vector<float> first;
        for (const std::uint32_t block : {16u, 1u, 33u}) {
            AttentionCase c = latent_case(type, 16);
            c.sequences = {{150, 1}};
            c.block_size = block;
            AttentionData data(c);
            const Decoded got = decode(data, c, {0}, 3);
            CHECK_EQUAL(got.failure, std::string());
            if (first.empty()) first = got.out;
            CHECK_THAT(got.out == first);
        }
    }
}

void refusals(Check& check) {
    AttentionData data(AttentionCase{});
    cuda::MaterialisedAttention whole;
    LAUNCHED(cuda::attention_materialised(whole, nullptr));  // no rows: nothing is launched
    whole.args = data.args();
    whole.rows = 2;
    whole.keys = 1;
    CHECK_THAT(cuda::attention_materialised(whole, nullptr) == cudaErrorInvalidValue);
    cuda::DecodeAttention decode;
    decode.args = data.args();
    decode.args.latent = true;  // with two KV heads
    decode.count = 1;
    CHECK_THAT(cuda::attention_decode(decode, nullptr) == cudaErrorInvalidValue);
    cuda::PrefillAttention prefill;
    prefill.args = data.args();
    prefill.args.latent = true;
    prefill.args.cache.kv_heads = 1;
    prefill.args.cache.head_dim_k = 513;
    prefill.count = 1;
    CHECK_THAT(cuda::attention_prefill(prefill, nullptr) == cudaErrorInvalidValue);
}

std::vector<AttentionCase> form_cases() {
    std::vector<AttentionCase> cases;
    const auto add = [&](DType keys, DType values, std::uint32_t head, std::uint32_t value, std::uint32_t group, float cap, std::size_t span) {
        AttentionCase c;
        c.keys = keys, c.values = values, c.head_dim = head, c.value_dim = value, c.group = group, c.soft_cap = cap;
        c.span = attention_spans[span];
        cases.push_back(c);
    };
    add(DType::f16, DType::f16, 256, 0, 2, 50, 0);
    add(DType::bf16, DType::bf16, 128, 0, 4, 2, 7);
    add(DType::f32, DType::f32, 64, 0, 3, 1.5f, 11);
    add(DType::f32, DType::f32, 192, 128, 1, 0, 0);
    add(DType::f16, DType::f16, 48, 64, 2, 0, 4);
    add(DType::f32, DType::f32, 24, 20, 2, 2, 16);
    add(DType::f16, DType::bf16, 13, 9, 2, 0, 7);
    return cases;
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> all;
    const auto add = [&](const std::string& name, auto run) { all.push_back({name, run}); };
    for (const auto& [c, splits] : latent_cases())
        add("decode over latents on tensor cores: " + c.label() + ", splits " + std::to_string(splits),
            [c = c, splits = splits](Check& check) { run_case(check, c, splits); });
    add("large and small queries over latents keep their bits", large_and_small_queries);
    add("latents of other sizes and precisions, and capped ones, are attended to as well", general_latents);
    add("decode over latents does not depend on the block size", blocks_do_not_matter);
    for (const AttentionCase& c : form_cases()) {
        AttentionCase decodes = c, prompt = c;
        decodes.sequences = {{130, 1}, {0, 1}, {37, 1}};
        prompt.sequences = {{0, 70}, {45, 3}, {90, 1}};
        add("decode: " + decodes.label(), [=](Check& check) { capped_and_uneven(check, decodes); });
        add("prompts: " + prompt.label(), [=](Check& check) { prompts(check, prompt, Whole::no); });
        add("whole scores: " + prompt.label(), [=](Check& check) { prompts(check, prompt, Whole::yes); });
    }
    for (const std::size_t span : {0u, 7u, 11u, 17u})
        for (const DType type : {DType::f16, DType::f32}) {
            AttentionCase c = latent_case(type, 3);
            c.head_dim = type == DType::f16 ? 512 : 96, c.rotary_key = type == DType::f16 ? 64 : 10;
            c.span = attention_spans[span];
            c.sequences = {{0, 35}, {41, 2}};
            add("prompts over latents: " + c.label(), [=](Check& check) { prompts(check, c, Whole::no); });
            add("whole scores over latents: " + c.label(), [=](Check& check) { prompts(check, c, Whole::yes); });
        }
    add("what cannot be is refused", refusals);
    return all;
}
