// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rows handed out in f32 against the exact values of what is stored (kv_values.h), and Hadamard rotation against its definition,
// emulated: every precision, K and V, pages, block sizes, head sizes that packs do not divide.
#include "kernels/cuda/kernels.h"
#include "tests/emulation/coded_cases.h"
#include "tests/emulation/random_values.h"
#include "tests/support/rows.h"

#include <bit>
#include <cmath>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// By the definition: the sign of element (i, j) is the parity of the bits that i and j share.
std::vector<double> turned(const std::vector<double>& x) {
    std::vector<double> out(x.size(), 0.0);
    for (std::size_t i = 0; i < x.size(); ++i) {
        for (std::size_t j = 0; j < x.size(); ++j) out[i] += std::popcount(i & j) % 2 == 0 ? x[j] : -x[j];
        out[i] /= std::sqrt(static_cast<double>(x.size()));
    }
    return out;
}

void reads(Check& check, const FormatPair& formats, std::uint32_t kv_heads, std::uint32_t head_dim, std::uint32_t block_size) {
    constexpr std::uint32_t blocks = 4;
    CodedCache cache({formats.keys, formats.values, kv_heads, head_dim, head_dim, block_size, blocks, blocks});
    std::mt19937 random(block_size * 7 + head_dim);
    cache.random_fixed(random);
    const std::vector<std::uint32_t> table{2, 1, 3};
    const bool residual = formats.keys.keeps_residual() || formats.values.keeps_residual();
    const std::vector<std::uint32_t> pages = residual ? std::vector<std::uint32_t>{0, 3, 1} : std::vector<std::uint32_t>{0, 0, 0};
    for (std::size_t entry = 0; entry < table.size(); ++entry)
        for (std::uint32_t offset = 0; offset < block_size; ++offset)
            for (const bool values : {false, true}) cache.random_token(values, table[entry], pages[entry], offset, random);
    const DeviceArray<std::uint32_t> device_table(table), device_pages(pages);
    const std::uint32_t first = block_size / 2, count = 3 * block_size - first;
    for (const bool values : {false, true}) {
        DeviceArray<float> out(std::size_t{count} * kv_heads * head_dim);
        cuda::ReadRows args;
        args.cache = cache.layer();
        args.values = values;
        args.table = device_table.data();
        args.table_pages = residual ? device_pages.data() : nullptr;
        args.first = first;
        args.count = count;
        args.out = out.data();
        args.head_stride = head_dim;
        args.token_stride = std::uint64_t{kv_heads} * head_dim;
        LAUNCHED(cuda::read_rows(args, nullptr));
        CHECK_THAT(out.guards_hold() && cache.guards_hold());
        const KvBytes bytes = cache.bytes(values);
        for (std::uint32_t i = 0; i < count; ++i)
            for (std::uint32_t head = 0; head < kv_heads; ++head) {
                const std::uint32_t entry = (first + i) / block_size, offset = (first + i) % block_size;
                std::vector<double> want;
                for (std::uint32_t e = 0; e < head_dim; ++e) want.push_back(kv_value(bytes, table[entry], pages[entry], head, offset, e));
                const bool rotate = (values ? formats.values : formats.keys).rotate;
                if (rotate) want = turned(want);
                for (std::uint32_t e = 0; e < head_dim; ++e)
                    CHECK_BELOW(std::fabs(out.data()[(std::size_t{i} * kv_heads + head) * head_dim + e] - want[e]), rotate ? 2e-6 : 5e-7);
            }
    }
}

struct TurnCase {
    std::uint32_t width = 64;
    bool sinks = false, in_place = false;
};

void turns(Check& check, const TurnCase& c) {
    constexpr std::uint32_t rows = 3, heads = 5;
    const std::vector<float> x = random_floats(std::size_t{rows} * heads * c.width, c.width);
    DeviceArray<float> from(x), to(x.size());
    const std::vector<std::uint32_t> at{2, 40, 41};
    const DeviceArray<std::uint32_t> positions(at);
    const std::uint32_t rotary_dim = c.width / 2;
    std::vector<double> frequencies;
    for (std::uint32_t i = 0; i < rotary_dim / 2; ++i) frequencies.push_back(std::pow(100.0, -2.0 * i / rotary_dim));
    const DeviceArray<double> device_frequencies(frequencies);
    cuda::TurnRows args;
    args.from = from.data();
    args.to = c.in_place ? from.data() : to.data();
    args.rows = rows, args.heads = heads, args.width = args.stride = c.width;
    if (c.sinks) {
        args.positions = positions.data();
        args.span = {16, 4, 0, true};
        args.rotary = {device_frequencies.data(), rotary_dim, RotaryLayout::half_split};
    }
    LAUNCHED(cuda::turn_rows(args, nullptr));
    CHECK_THAT(from.guards_hold() && to.guards_hold());
    for (std::uint32_t row = 0; row < rows; ++row)
        for (std::uint32_t head = 0; head < heads; ++head) {
            std::vector<double> want;
            const float* const own = x.data() + (std::size_t{row} * heads + head) * c.width;
            for (std::uint32_t i = 0; i < c.width; ++i) want.push_back(static_cast<double>(own[i]));
            // Sinks are read by rank: the query turns back by the tokens between them and the window.
            const double dropped = c.sinks ? args.span.dropped(at[row]) : 0;
            for (std::uint32_t i = 0; i < rotary_dim / 2 && c.sinks; ++i) {
                const double a = static_cast<double>(own[i]), b = static_cast<double>(own[i + rotary_dim / 2]), angle = dropped * frequencies[i];
                want[i] = a * std::cos(angle) + b * std::sin(angle);
                want[i + rotary_dim / 2] = b * std::cos(angle) - a * std::sin(angle);
            }
            want = turned(want);
            for (std::uint32_t i = 0; i < c.width; ++i)
                CHECK_BELOW(std::fabs(args.to[(std::size_t{row} * heads + head) * c.width + i] - want[i]), 3e-6);
        }
    if (!c.in_place) CHECK_THAT(from.host() == x);
}

// A latent's queries are turned part by part: what lies beside the part stays as it was; without a matrix the part is copied.
void turns_parts_of_rows(Check& check) {
    const std::uint32_t rows = 2, heads = 3, stride = 80, first = 64, width = 16;
    const std::vector<float> x = random_floats(std::size_t{rows} * heads * stride, 4);
    const DeviceArray<float> from(x);
    for (const bool hadamard : {true, false}) {
        DeviceArray<float> to(std::vector<float>(x.size(), 7.0f));
        cuda::TurnRows turn;
        turn.from = from.data(), turn.to = to.data();
        turn.rows = rows, turn.heads = heads, turn.width = width, turn.stride = stride, turn.first = first, turn.hadamard = hadamard;
        LAUNCHED(cuda::turn_rows(turn, nullptr));
        CHECK_THAT(to.guards_hold());
        for (std::uint32_t row = 0; row < rows * heads; ++row) {
            const float* const own = x.data() + std::size_t{row} * stride;
            std::vector<double> want(own + first, own + stride);
            if (hadamard) want = turned(want);
            for (std::uint32_t i = 0; i < stride; ++i) {
                const float got = to.data()[std::size_t{row} * stride + i];
                if (i < first) CHECK_EQUAL(got, 7.0f);
                else CHECK_BELOW(std::fabs(got - want[i - first]), hadamard ? 3e-6 : 1e-30);
            }
        }
    }
}

void refusals(Check& check) {
    cuda::TurnRows turn;
    turn.width = turn.stride = 96;
    CHECK_EQUAL(cuda::turn_rows(turn, nullptr), cudaErrorInvalidValue);
    turn.width = turn.stride = 2048;
    CHECK_EQUAL(cuda::turn_rows(turn, nullptr), cudaErrorInvalidValue);
    turn.width = 64;
    turn.first = 1985;  // beyond the row
    CHECK_EQUAL(cuda::turn_rows(turn, nullptr), cudaErrorInvalidValue);
    turn.first = 1984;
    LAUNCHED(cuda::turn_rows(turn, nullptr));  // no rows: nothing is launched
    CodedCache cache({KvFormat::of(DType::int8), KvFormat::of(DType::int8)});
    cuda::ReadRows read;
    read.cache = cache.layer();
    LAUNCHED(cuda::read_rows(read, nullptr));
    read.cache.keys.heads_per_row = 0;
    CHECK_EQUAL(cuda::read_rows(read, nullptr), cudaErrorInvalidValue);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> rows;
    struct Sizes {
        std::uint32_t kv_heads, head_dim, block_size;
    };
    for (const Sizes& sizes : {Sizes{2, 64, 16}, Sizes{3, 128, 8}, Sizes{4, 16, 32}, Sizes{8, 12, 1}, Sizes{1, 80, 4}, Sizes{1, 512, 2}})
        for (FormatPair pair : format_pairs())
            for (const bool rotate : {false, true}) {
                if (!fit(pair, sizes.kv_heads, sizes.head_dim, sizes.block_size) || (rotate && !std::has_single_bit(sizes.head_dim))) continue;
                pair.keys.rotate = rotate;
                pair.values.rotate = rotate && sizes.block_size != 8;
                const FormatPair formats = pair;
                rows.push_back({"rows are expanded exactly: " + text_of(pair.keys) + " / " + text_of(pair.values) + ", " + std::to_string(sizes.kv_heads) +
                                    " heads of " + std::to_string(sizes.head_dim) + ", blocks of " + std::to_string(sizes.block_size),
                                [=](Check& check) { reads(check, formats, sizes.kv_heads, sizes.head_dim, sizes.block_size); }});
            }
    for (std::uint32_t width : {1u, 2u, 8u, 32u, 64u, 128u, 256u, 1024u})
        rows.push_back({"rows are turned as a Hadamard matrix turns them: " + std::to_string(width), [=](Check& check) {
            turns(check, {width, false, false});
            turns(check, {width, false, true});
            if (width >= 4) turns(check, {width, true, false});
        }});
    rows.push_back({"a part of a row is turned or copied, and nothing beside it", turns_parts_of_rows});
    rows.push_back({"widths that are no power of two are refused; no rows launch nothing", refusals});
    return rows;
}
