// SPDX-License-Identifier: GPL-3.0-or-later
//
// The CUDA kernels that only some models need against their scalar twins, emulated: shapes that 16-byte accesses fit and shapes that
// they do not, addresses beside aligned ones, rows that meet. Guards are checked after.
#include "engine/backend.h"
#include "kernels/cpu/scalar.h"
#include "kernels/cuda/kernels.h"
#include "tests/emulation/device_memory.h"
#include "tests/emulation/random_values.h"
#include "tests/support/rows.h"

#include <cmath>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr std::size_t shifts[] = {0, 4};  // bytes beside an aligned address

std::vector<float> floats_of(DType type, const std::vector<std::byte>& bytes, std::uint32_t cols) {
    std::vector<float> values(cols);
    for (std::uint32_t i = 0; i < cols; ++i) values[i] = static_cast<float>(cpu::scalar::element(type, bytes.data(), i));
    return values;
}

void turns_parts(Check& check, RotaryLayout layout) {
    const std::vector<std::uint32_t> positions = {0, 7, 1000003, 40};
    const DeviceArray<std::uint32_t> device_positions(positions);
    struct Shape {
        std::uint32_t heads, width, first, turned;
    };
    for (const Shape& shape : {Shape{20, 48, 32, 16}, {1, 64, 0, 64}, {3, 10, 2, 6}, {9, 24, 8, 2}, {2, 17, 1, 16}})
        for (const std::size_t shift : shifts) {
            RotaryShape rotary{10000, shape.turned, layout};
            rotary.scaling.magnitude = 1.25f;
            const std::vector<double> frequencies = rotary_frequencies(rotary);
            const DeviceArray<double> device_frequencies(frequencies);
            std::vector<float> x = random_floats(positions.size() * shape.heads * shape.width, shape.width);
            DeviceArray<float> device_x(x, shift);
            cuda::TurnPart turn{device_x.data(), device_positions.data(), 4, shape.heads, shape.width, shape.first, {}};
            turn.rotary = {device_frequencies.data(), shape.turned, layout, 1.25f};
            LAUNCHED(cuda::turn_part(turn, nullptr));
            cpu::scalar::rotate_part(x.data(), positions, shape.heads, shape.width, shape.first, rotary);
            for (std::size_t i = 0; i < x.size(); ++i) CHECK_BELOW(std::fabs(device_x.data()[i] - x[i]), 2e-6);
            CHECK_THAT(device_x.guards_hold());
        }
    DeviceArray<float> x(std::vector<float>(8, 1.0f));
    const cuda::TurnPart beyond{x.data(), device_positions.data(), 1, 1, 8, 4, {nullptr, 6, layout, 1}};
    CHECK_THAT(cuda::turn_part(beyond, nullptr) == cudaErrorInvalidValue);
}

void normalises_heads(Check& check, DType type) {
    for (const std::uint32_t width : {32u, 64u, 96u, 128u, 256u})
        for (const std::size_t shift : shifts) {
            const std::uint32_t rows = 7;
            const std::vector<float> x = random_floats(std::size_t{rows} * width, width, 3);
            const std::vector<std::byte> bytes = random_matrix(type, 1, width, 5);
            const DeviceArray<std::byte> weight(bytes);
            DeviceArray<float> device_x(x, shift);
            LAUNCHED(cuda::rms_norm_heads(device_x.data(), {weight.data(), type, 1, width}, 1e-6f, rows, nullptr));
            std::vector<float> expected(x.size());
            cpu::scalar::rms_norm(x, floats_of(type, bytes, width), 1e-6f, expected.data());
            for (std::size_t i = 0; i < x.size(); ++i)
                CHECK_BELOW(std::fabs(device_x.data()[i] - expected[i]), 1e-6 * std::fabs(expected[i]) + 1e-9);
            CHECK_THAT(device_x.guards_hold());
        }
}

void adds_biases(Check& check, DType type) {
    for (const std::uint32_t width : {1u, 31u, 128u, 300u}) {
        if (width % elements_per_pack(type) != 0) continue;
        std::vector<float> x = random_floats(std::size_t{5} * width, width);
        const std::vector<std::byte> bytes = random_matrix(type, 1, width, 9);
        const DeviceArray<std::byte> bias(bytes);
        DeviceArray<float> device_x(x);
        LAUNCHED(cuda::add_bias(device_x.data(), {bias.data(), type, 1, width}, 5, nullptr));
        cpu::scalar::add_bias(x, floats_of(type, bytes, width));
        CHECK_THAT(device_x.host() == x);
        CHECK_THAT(device_x.guards_hold());
    }
}

void changes_values(Check& check) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{6}, std::size_t{128}, std::size_t{2052}})
        for (const std::size_t shift : shifts) {
            const std::vector<float> x = random_floats(count, 3, 40), y = random_floats(count, 4);
            DeviceArray<float> scaled(x, shift), capped(x, shift), sums(x, shift);
            const DeviceArray<float> added(y);
            LAUNCHED(cuda::scale(scaled.data(), 0.3f, count, nullptr));
            LAUNCHED(cuda::soft_cap(capped.data(), 30, count, nullptr));
            LAUNCHED(cuda::add(added.data(), sums.data(), count, nullptr));
            std::vector<float> expected = x;
            cpu::scalar::soft_cap(expected, 30);
            for (std::size_t i = 0; i < count; ++i) {
                CHECK_EQUAL(scaled.data()[i], x[i] * 0.3f);
                CHECK_EQUAL(sums.data()[i], x[i] + y[i]);
                CHECK_BELOW(std::fabs(capped.data()[i] - expected[i]), 1e-6 * std::fabs(expected[i]));
            }
            CHECK_THAT(scaled.guards_hold() && capped.guards_hold() && sums.guards_hold());
        }
}

void copies_columns(Check& check) {
    for (const Backend::Columns& c : {Backend::Columns{3, 5, 5, 16, 24, 8, 20, 4}, Backend::Columns{2, 130, 1, 8, 8, 0, 24, 16},
                                      Backend::Columns{3, 2, 2, 7, 9, 1, 11, 3}, Backend::Columns{1, 1, 1, 512, 576, 64, 512, 0}})
        for (const std::size_t shift : shifts) {
            const std::vector<float> in = random_floats(std::size_t{c.rows} * c.in_heads * c.in_width, 1);
            std::vector<float> out = random_floats(std::size_t{c.rows} * c.heads * c.out_width, 2);
            const DeviceArray<float> from(in, shift);
            DeviceArray<float> to(out, shift);
            LAUNCHED(cuda::copy_columns({from.data(), to.data(), c.rows, c.heads, c.in_heads, c.columns, c.in_width, c.in_first, c.out_width,
                                         c.out_first}, nullptr));
            cpu::scalar::copy_columns(in.data(), c, out.data());
            CHECK_THAT(to.host() == out);
            CHECK_THAT(to.guards_hold());
        }
    CHECK_THAT(cuda::copy_columns({nullptr, nullptr, 1, 3, 2, 1, 1, 0, 1, 0}, nullptr) == cudaErrorInvalidValue);
}

// Equal rows are added in order, so that the bits are the same every time.
void scatters_rows(Check& check) {
    for (const std::uint32_t width : {1u, 130u}) {
        const std::vector<std::uint32_t> rows = {2, 0, 2, 3, 0, 2};
        const std::vector<float> weights = {1, 0.25f, -3, 0.5f, 2, 1e-3f}, in = random_floats(rows.size() * width, 5);
        const std::vector<float> before = random_floats(std::size_t{5} * width, 6);
        std::vector<float> expected = before, first;
        cpu::scalar::scatter_add(in.data(), rows, weights, width, expected.data());
        const DeviceArray<std::uint32_t> device_rows(rows);
        const DeviceArray<float> device_weights(weights), device_in(in);
        for (int time = 0; time < 3; ++time) {
            DeviceArray<float> out(before);
            LAUNCHED(cuda::scatter_add({device_in.data(), device_rows.data(), device_weights.data(), out.data(), 6, width}, nullptr));
            for (std::size_t i = 0; i < before.size(); ++i) CHECK_BELOW(std::fabs(out.data()[i] - expected[i]), 2e-6);
            for (std::size_t i = 0; i < width; ++i) CHECK_EQUAL(out.data()[width + i], before[width + i]);
            if (time == 0) first = out.host();
            CHECK_THAT(out.host() == first);
            CHECK_THAT(out.guards_hold());
        }
    }
}

// Heads whose rows a warp's four fit and heads whose rows they do not, more columns than a warp takes at a time.
void multiplies_heads(Check& check, DType type) {
    struct Shape {
        std::uint32_t heads, out, in;
    };
    for (const Shape& shape : {Shape{5, 8, 64}, {3, 7, 32}, {2, 1, 32}, {2, 12, 512}})
        for (const std::uint32_t rows : {1u, 3u, 8u}) {
            const std::vector<std::byte> bytes = random_matrix(type, std::uint64_t{shape.heads} * shape.out, shape.in, shape.out);
            const std::vector<float> in = random_floats(std::size_t{rows} * shape.heads * shape.in, rows);
            const DeviceArray<std::byte> weight(bytes);
            const DeviceArray<float> device_in(in);
            DeviceArray<float> out(std::size_t{rows} * shape.heads * shape.out);
            LAUNCHED(cuda::matvec({weight.data(), type, shape.heads * shape.out, shape.in}, {device_in.data(), out.data(), rows, false, shape.heads},
                                  nullptr));
            std::vector<float> expected(out.size());
            cpu::scalar::matmul_heads({bytes.data(), type, std::uint64_t{shape.heads} * shape.out, shape.in}, in.data(), rows, shape.heads,
                                      expected.data());
            double largest = 0;
            for (const float value : expected) largest = std::max(largest, static_cast<double>(std::fabs(value)));
            for (std::size_t i = 0; i < expected.size(); ++i) CHECK_BELOW(std::fabs(out.data()[i] - expected[i]), 2e-6 * largest);
            CHECK_THAT(out.guards_hold());
        }
}

void refuses_and_does_nothing(Check& check) {
    LAUNCHED(cuda::turn_part({}, nullptr));
    LAUNCHED(cuda::rms_norm_heads(nullptr, {nullptr, DType::f32, 1, 8}, 1, 0, nullptr));
    LAUNCHED(cuda::add_bias(nullptr, {nullptr, DType::f32, 1, 8}, 0, nullptr));
    LAUNCHED(cuda::scale(nullptr, 1, 0, nullptr));
    LAUNCHED(cuda::soft_cap(nullptr, 1, 0, nullptr));
    LAUNCHED(cuda::add(nullptr, nullptr, 0, nullptr));
    LAUNCHED(cuda::copy_columns({nullptr, nullptr, 0, 1, 1, 1, 1, 0, 1, 0}, nullptr));
    LAUNCHED(cuda::scatter_add({}, nullptr));
    CHECK_THAT(cuda::matvec({nullptr, DType::f32, 7, 8}, {nullptr, nullptr, 1, false, 2}, nullptr) == cudaErrorInvalidValue);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> all;
    const auto add = [&](const std::string& name, auto run) { all.push_back({name, run}); };
    for (const RotaryLayout layout : {RotaryLayout::half_split, RotaryLayout::adjacent})
        add(std::string("parts of heads are turned as their twin: ") + (layout == RotaryLayout::adjacent ? "adjacent" : "half split"),
            [=](Check& check) { turns_parts(check, layout); });
    for (const DType type : float_types) {
        const std::string name(name_of(type));
        add("norms of heads by " + name + " equal their twin", [=](Check& check) { normalises_heads(check, type); });
        add("a bias of " + name + " is added exactly", [=](Check& check) { adds_biases(check, type); });
    }
    for (const DType type : all_types)
        add("products head by head with " + std::string(name_of(type)) + " equal their twin", [=](Check& check) { multiplies_heads(check, type); });
    add("factors and sums are exact, caps equal their twin", changes_values);
    add("columns are copied, and nothing beside them", copies_columns);
    add("scattered rows that meet are added in order", scatters_rows);
    add("nothing to do launches nothing, and what cannot be is refused", refuses_and_does_nothing);
    return all;
}
