// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rotary embedding and the cache write against their scalar twins, emulated: precision, head size, rotated dimensions, both
// layouts, block size, random slots, positions up to a million. The cache is NaN before, and stays so in every other slot.
#include "kernels/cpu/scalar.h"
#include "kernels/cuda/kernels.h"
#include "tests/emulation/device_memory.h"
#include "tests/emulation/random_values.h"
#include "tests/support/rows.h"

#include <cmath>
#include <limits>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

struct Case {
    DType dtype = DType::f16;
    std::uint32_t head_dim = 64, rotary_dim = 64, block_size = 16;
    std::uint32_t query_heads = 4, kv_heads = 2;
    RotaryLayout layout = RotaryLayout::half_split;
    std::size_t shift = 0;  // of q, k and v
    float spread = 1;
    float magnitude = 1;
};

struct Stored {
    Case shape;
    std::vector<std::uint32_t> positions = {0, 1, 977, 999999, 1000000};
    std::vector<std::uint64_t> slots;
    std::vector<float> q, k, v;                         // before
    DeviceArray<float> device_q, device_k, device_v;
    DeviceArray<std::byte> keys, values;                // (blocks, kv_heads, block_size, head_dim)
    DeviceArray<unsigned long long> overflowed{std::vector<unsigned long long>{5}};

    explicit Stored(const Case& it)
        : shape(it), q(random_floats(5ull * it.query_heads * it.head_dim, 1, it.spread)),
          k(random_floats(5ull * it.kv_heads * it.head_dim, 2, it.spread)),
          v(random_floats(5ull * it.kv_heads * it.head_dim, 3, it.spread)), device_q(q, it.shift), device_k(k, it.shift),
          device_v(v, it.shift), keys(bytes()), values(bytes()) {
        for (std::uint32_t i = 0; i < 5; ++i) slots.push_back(random_order(blocks() * shape.block_size, 11)[i]);
    }
    std::uint32_t blocks() const { return 4 + 8 / shape.block_size; }
    std::size_t bytes() const {
        return std::size_t{blocks()} * shape.kv_heads * shape.block_size * row_bytes(shape.dtype, shape.head_dim);
    }
    cudaError_t run() {
        std::vector<double> frequencies(shape.rotary_dim / 2);
        for (std::size_t i = 0; i < frequencies.size(); ++i)
            frequencies[i] = std::pow(10000.0, -2.0 * static_cast<double>(i) / shape.rotary_dim);
        const DeviceArray<double> device_frequencies(frequencies);
        const DeviceArray<std::uint32_t> device_positions(positions);
        const DeviceArray<std::uint64_t> device_slots(slots);
        cuda::RotaryStore args;
        args.q = device_q.data(), args.k = device_k.data(), args.v = device_v.data();
        args.positions = device_positions.data(), args.slots = device_slots.data(), args.overflowed = overflowed.data();
        args.rows = 5, args.query_heads = shape.query_heads;
        args.rotary = {device_frequencies.data(), shape.rotary_dim, shape.layout, shape.magnitude};
        args.cache = {{keys.data(), shape.dtype}, {values.data(), shape.dtype}, shape.block_size, shape.kv_heads,
                      shape.head_dim, shape.head_dim};
        return cuda::rotary_store(args, nullptr);
    }
    bool guards_hold() const {
        return device_q.guards_hold() && device_k.guards_hold() && device_v.guards_hold() && keys.guards_hold() &&
               values.guards_hold() && overflowed.guards_hold();
    }
};

// x (rows, heads, head_dim) as turned by the device, against the twin's.
void check_turned(Check& check, const Stored& it, const std::vector<float>& before, const DeviceArray<float>& after,
                  std::uint32_t heads) {
    std::vector<float> expected = before;
    cpu::scalar::rotate(expected.data(), it.positions, heads, it.shape.head_dim, {10000.0f, it.shape.rotary_dim, it.shape.layout});
    for (std::size_t i = 0; i < before.size(); ++i) {
        // Each result is a sum of two products, whose factors are right to f32 rounding.
        const std::size_t head = i / it.shape.head_dim * it.shape.head_dim, inside = i % it.shape.head_dim;
        const std::size_t half = it.shape.rotary_dim / 2;
        std::size_t partner = inside;
        if (inside < it.shape.rotary_dim)
            partner = it.shape.layout == RotaryLayout::adjacent ? (inside ^ 1u) : inside < half ? inside + half : inside - half;
        const float scale = std::fabs(before[i]) + std::fabs(before[head + partner]);
        CHECK_BELOW(std::fabs(after.data()[i] - expected[i]), 2.5e-7 * static_cast<double>(scale) + 1e-30);
        if (inside >= it.shape.rotary_dim) CHECK_EQUAL(after.data()[i], before[i]);
    }
}

// The cache holds x (rows, kv_heads, head_dim) in its slots, rounded once, and nothing else was written.
void check_stored(Check& check, const Stored& it, const std::vector<float>& x, const DeviceArray<std::byte>& cache) {
    std::vector<std::byte> expected(it.bytes(), std::byte{0xFF});
    cpu::scalar::store(x.data(), it.slots,
                       {expected.data(), it.shape.dtype, it.shape.block_size, it.shape.kv_heads, it.shape.head_dim});
    CHECK_THAT(cache.host() == expected);
}

void check_case(Check& check, const Case& shape) {
    Stored it(shape);
    LAUNCHED(it.run());
    check_turned(check, it, it.q, it.device_q, shape.query_heads);
    check_turned(check, it, it.k, it.device_k, shape.kv_heads);
    check_stored(check, it, it.device_k.host(), it.keys);
    check_stored(check, it, it.v, it.values);
    CHECK_EQUAL(*it.overflowed.data(), 5u);
    CHECK_THAT(it.device_v.host() == it.v);
    CHECK_THAT(it.guards_hold());
    if (!check.good())
        check.note("rotary_dim " + shown(shape.rotary_dim) + ", block_size " + shown(shape.block_size) + ", shift " + shown(shape.shift));
}

Row shapes(DType dtype, std::uint32_t head_dim, RotaryLayout layout) {
    const std::string name = "turned and stored as the twin does: " + std::string(name_of(dtype)) + ", head " +
                             std::to_string(head_dim) + (layout == RotaryLayout::adjacent ? ", adjacent pairs" : ", split halves");
    return {name, [=](Check& check) {
        Case shape;
        shape.dtype = dtype, shape.head_dim = head_dim, shape.layout = layout;
        const std::uint32_t whole = head_dim / 2 * 2, part = head_dim / 4 * 2;
        struct Sizes {
            std::uint32_t block_size, rotary_dim;
        };
        for (const Sizes& sizes : {Sizes{1, whole}, Sizes{8, part}, Sizes{16, whole}, Sizes{16, 0}, Sizes{32, part}, Sizes{256, whole}}) {
            shape.block_size = sizes.block_size, shape.rotary_dim = sizes.rotary_dim;
            check_case(check, shape);
            if (!check.good()) return;
        }
        shape.block_size = 16, shape.rotary_dim = whole;
        shape.shift = 4;
        check_case(check, shape);
        // More heads than a block takes, and a last block that is not full.
        shape.shift = 0, shape.query_heads = 27, shape.kv_heads = 9;
        check_case(check, shape);
    }};
}

void overflow(Check& check, DType dtype) {
    Case shape;
    shape.dtype = dtype, shape.rotary_dim = 0, shape.spread = dtype == DType::f16 ? 40000.0f : 1.0f;
    Stored it(shape);
    std::vector<float> v = it.v;
    v[7] = std::numeric_limits<float>::infinity(), v[8] = std::numeric_limits<float>::quiet_NaN();
    v[9] = std::numeric_limits<float>::max(), v[10] = -std::numeric_limits<float>::max();
    it.device_v.set(v);
    LAUNCHED(it.run());
    std::vector<std::byte> narrowed(v.size() * 4);
    const std::uint64_t expected = cpu::narrow_row(dtype, it.k.data(), it.k.size(), narrowed.data()) +
                                   cpu::narrow_row(dtype, v.data(), v.size(), narrowed.data());
    CHECK_THAT(dtype == DType::f32 ? expected == 0 : expected >= 2);
    CHECK_EQUAL(*it.overflowed.data(), 5 + expected);
}

// (1, 0) turns into the cosine and the sine themselves.
void angles(Check& check) {
    Case shape;
    shape.dtype = DType::f32, shape.head_dim = shape.rotary_dim = 256;
    Stored it(shape);
    it.positions = {3, 511, 65537, 700001, 1000000};
    std::vector<float> ones(it.q.size());
    for (std::size_t i = 0; i < ones.size(); ++i) ones[i] = i % 256 < 128 ? 1.0f : 0.0f;
    it.device_q.set(ones);
    LAUNCHED(it.run());
    for (std::size_t row = 0; row < 5; ++row)
        for (std::size_t i = 0; i < 128; ++i) {
            const double angle = it.positions[row] * std::pow(10000.0, -2.0 * static_cast<double>(i) / 256);
            const float* const head = it.device_q.data() + row * shape.query_heads * 256;
            // Half a unit of the last place is 6e-8; the f32 part of the angle alone would add 9e-8.
            CHECK_BELOW(std::fabs(static_cast<double>(head[i]) - std::cos(angle)), 7.5e-8);
            CHECK_BELOW(std::fabs(static_cast<double>(head[i + 128]) - std::sin(angle)), 7.5e-8);
        }
}

// yarn multiplies cosines and sines: every value that is turned becomes larger by as much, none of the others.
void magnitudes(Check& check) {
    Case shape;
    shape.dtype = DType::f32, shape.rotary_dim = 32;
    Stored plain(shape);
    shape.magnitude = 1.25f;
    Stored scaled(shape);
    LAUNCHED(plain.run());
    LAUNCHED(scaled.run());
    for (std::size_t i = 0; i < plain.q.size(); ++i) {
        const bool turned = i % shape.head_dim < shape.rotary_dim;
        const float expected = plain.device_q.data()[i] * (turned ? 1.25f : 1.0f);
        CHECK_BELOW(std::fabs(scaled.device_q.data()[i] - expected), 1e-6 * (1 + std::fabs(expected)));
        CHECK_THAT(!turned || scaled.device_q.data()[i] != plain.device_q.data()[i]);
    }
    CHECK_THAT(scaled.keys.host() != plain.keys.host() && scaled.values.host() == plain.values.host());
}

void refusals(Check& check) {
    Case shape;
    shape.rotary_dim = 66;
    CHECK_EQUAL(Stored(shape).run(), cudaErrorInvalidValue);
    shape.rotary_dim = 63;
    CHECK_EQUAL(Stored(shape).run(), cudaErrorInvalidValue);
    LAUNCHED(cuda::rotary_store({}, nullptr));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> all;
    for (DType dtype : float_types)
        for (std::uint32_t head_dim : {5u, 14u, 64u, 80u, 96u, 128u, 256u})
            for (RotaryLayout layout : {RotaryLayout::half_split, RotaryLayout::adjacent})
                all.push_back(shapes(dtype, head_dim, layout));
    for (DType dtype : float_types)
        all.push_back({"finite values that become infinite are counted, others are not: " + std::string(name_of(dtype)),
                       [dtype](Check& check) { overflow(check, dtype); }});
    all.push_back({"sine and cosine are right to f32 rounding up to position 1,000,000", angles});
    all.push_back({"a magnitude makes turned values larger and leaves the others", magnitudes});
    all.push_back({"more or an odd number of rotated dimensions than a head has is refused; no rows launch nothing", refusals});
    return all;
}
