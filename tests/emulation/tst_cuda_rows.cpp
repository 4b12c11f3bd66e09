// SPDX-License-Identifier: GPL-3.0-or-later
//
// The CUDA kernels over rows against their scalar twins, emulated: every stored form, widths with and without 16-byte rows,
// unaligned addresses. Outputs are NaN before, guards are checked after.
#include "kernels/cpu/scalar.h"
#include "kernels/cuda/kernels.h"
#include "tests/emulation/device_memory.h"
#include "tests/emulation/random_values.h"
#include "tests/support/rows.h"

#include <bit>
#include <cmath>
#include <limits>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

bool same_bits(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

std::vector<std::uint32_t> widths_of(DType type) {
    if (elements_per_pack(type) == 256) return {256, 512, 1280};
    if (elements_per_pack(type) > 1) return {32, 64, 96, 576, 1056};
    return {1, 7, 8, 24, 100, 576, 1031, 2056};
}

void embeds(Check& check, DType type) {
    for (std::uint32_t cols : widths_of(type)) {
        const std::uint32_t rows = 11;
        const std::vector<std::byte> bytes = random_matrix(type, rows, cols, 1 + cols);
        // The same, and one element beside an aligned address.
        for (std::size_t shift : {std::size_t{0}, std::size_t{bytes_per_pack(type) > 4 ? 2 : bytes_per_pack(type)}}) {
            const DeviceArray<std::byte> table(bytes, shift);
            const std::vector<TokenId> tokens = {3, 0, 10, 10, 11, -1, 2, 2147483647};
            const DeviceArray<std::int32_t> device_tokens(tokens);
            DeviceArray<float> out(tokens.size() * cols);
            LAUNCHED(cuda::embed({table.data(), type, rows, cols}, device_tokens.data(), 8, out.data(), nullptr));
            for (std::size_t i = 0; i < tokens.size(); ++i) {
                std::vector<float> expected(cols, std::numeric_limits<float>::quiet_NaN());
                const bool known = tokens[i] >= 0 && tokens[i] < 11;
                if (known) cpu::scalar::embed(packed(type, bytes, rows, cols), {&tokens[i], 1}, expected.data());
                for (std::uint32_t j = 0; j < cols; ++j) {
                    const float actual = out.data()[i * cols + j];
                    CHECK_THAT(known ? same_bits(actual, expected[j]) : std::isnan(actual));
                }
            }
            CHECK_THAT(out.guards_hold());
        }
    }
}

void normalises(Check& check, DType type) {
    for (std::uint32_t cols : widths_of(type))
        for (std::size_t shift : {std::size_t{0}, std::size_t{4}}) {
            const std::uint32_t rows = 3;
            const std::vector<float> in = random_floats(std::size_t{rows} * cols, cols, 3);
            const std::vector<std::byte> bytes = random_matrix(type, 1, cols, 5);
            const DeviceArray<float> device_in(in, shift);
            const DeviceArray<std::byte> weight(bytes);
            DeviceArray<float> out(in.size(), shift);
            LAUNCHED(cuda::rms_norm(device_in.data(), {weight.data(), type, 1, cols}, 1e-5f, rows, out.data(), nullptr));
            std::vector<float> factors(cols), expected(in.size());
            for (std::uint32_t i = 0; i < cols; ++i)
                factors[i] = static_cast<float>(cpu::scalar::element(type, bytes.data(), i));
            cpu::scalar::rms_norm(in, factors, 1e-5f, expected.data());
            for (std::size_t i = 0; i < in.size(); ++i)
                CHECK_BELOW(std::fabs(out.data()[i] - expected[i]), 1e-6 * std::fabs(expected[i]) + 1e-9);
            CHECK_THAT(out.guards_hold());
        }
}

void normalises_in_place(Check& check) {
    const std::vector<float> in = random_floats(2 * 1000, 3), ones(1000, 1);
    DeviceArray<float> out(in);
    const DeviceArray<float> weight(ones);
    LAUNCHED(cuda::rms_norm(out.data(), {reinterpret_cast<const std::byte*>(weight.data()), DType::f32, 1, 1000}, 0.5f, 2,
                            out.data(), nullptr));
    std::vector<float> expected(in.size());
    cpu::scalar::rms_norm(in, ones, 0.5f, expected.data());
    for (std::size_t i = 0; i < in.size(); ++i)
        CHECK_BELOW(std::fabs(out.data()[i] - expected[i]), 1e-6 * std::fabs(expected[i]) + 1e-9);
}

void multiplies_gates(Check& check, Activation activation) {
    // Far below 0 gelu's exponent has a hundredth of its own precision left, where the gate itself is next to nothing.
    const bool silu = activation == Activation::silu;
    const double relative = silu ? 1e-6 : 4e-6, absolute = silu ? 1e-30 : 1e-6;
    for (std::size_t count : {1u, 3u, 4u, 255u, 1024u, 5001u})
        for (std::size_t shift : {std::size_t{0}, std::size_t{4}}) {
            std::vector<float> gate = random_floats(count, 7, 20);
            const std::vector<float> up = random_floats(count, 8);
            gate[0] = -200;  // exp(200) is infinite in f32: the product goes to 0
            DeviceArray<float> device_gate(gate, shift);
            const DeviceArray<float> device_up(up, shift);
            LAUNCHED(cuda::gate_multiply(activation, device_gate.data(), device_up.data(), count, nullptr));
            cpu::scalar::gate_multiply(activation, gate, up);
            for (std::size_t i = 0; i < count; ++i)
                CHECK_BELOW(std::fabs(device_gate.data()[i] - gate[i]), relative * std::fabs(gate[i]) + absolute);
            CHECK_THAT(device_gate.guards_hold());
        }
}

void gathers(Check& check) {
    const std::vector<std::uint32_t> rows = {4, 0, 4, 8, 1};
    const DeviceArray<std::uint32_t> device_rows(rows);
    for (std::uint32_t width : {1u, 5u, 64u, 516u, 1030u}) {
        const std::vector<float> in = random_floats(std::size_t{9} * width, width);
        const DeviceArray<float> device_in(in);
        DeviceArray<float> out(rows.size() * width);
        LAUNCHED(cuda::gather_rows(device_in.data(), device_rows.data(), 5, width, out.data(), nullptr));
        std::vector<float> expected(out.size());
        cpu::scalar::gather_rows(in.data(), rows, width, expected.data());
        CHECK_THAT(out.host() == expected);
        CHECK_THAT(out.guards_hold());
    }
}

void narrows(Check& check, DType type) {
    std::vector<float> values = random_floats(3000, 9, 1000);
    const float infinity = std::numeric_limits<float>::infinity();
    // The last finite half and what rounds to it, ties, what overflows, subnormals, and beyond all of them.
    for (float value : {65504.0f, 65519.0f, 65520.0f, 1e20f, 3.4e38f, infinity, 0x1p-24f, 0x1p-25f, 0x1.8p-24f, 1e-30f, 0.0f,
                        1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 1.0f + 0x1p-8f, 1.0f + 0x3p-8f})
        values.push_back(value), values.push_back(-value);
    values.push_back(std::numeric_limits<float>::quiet_NaN());
    for (std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{16}, values.size() - 1, values.size()})
        for (std::size_t shift : {std::size_t{0}, std::size_t{4}}) {
            const std::vector<float> in(values.end() - static_cast<std::ptrdiff_t>(count), values.end());
            const DeviceArray<float> device_in(in, shift);
            DeviceArray<std::uint16_t> out(count);
            LAUNCHED(cuda::narrow(device_in.data(), type, count, out.data(), nullptr));
            for (std::size_t i = 0; i < count; ++i) {
                const std::uint16_t expected = type == DType::f16 ? f32_to_f16(in[i]) : f32_to_bf16(in[i]);
                const float back = type == DType::f16 ? f16_to_f32(out.data()[i]) : bf16_to_f32(out.data()[i]);
                if (std::isnan(in[i])) CHECK_THAT(std::isnan(back));
                else CHECK_EQUAL(out.data()[i], expected);
            }
            CHECK_THAT(out.guards_hold());
        }
}

void expands(Check& check, DType type) {
    for (std::uint32_t cols : widths_of(type)) {
        const std::uint32_t rows = 9, first = 3, count = 4;
        const std::vector<std::byte> bytes = random_matrix(type, rows, cols, 77 + cols);
        const DeviceArray<std::byte> matrix(bytes);
        DeviceArray<std::uint16_t> out(std::size_t{count} * cols);
        LAUNCHED(cuda::expand({matrix.data(), type, rows, cols}, first, count, out.data(), nullptr));
        const cpu::PackedMatrix twin = packed(type, bytes, rows, cols);
        for (std::uint32_t row = 0; row < count; ++row)
            for (std::uint32_t i = 0; i < cols; ++i)
                CHECK_EQUAL(out.data()[row * cols + i],
                            f32_to_f16(static_cast<float>(cpu::scalar::element(type, twin.row(first + row), i))));
        CHECK_THAT(out.guards_hold());
        CHECK_EQUAL(cuda::expand({matrix.data(), type, rows, cols}, 8, 2, out.data(), nullptr), cudaErrorInvalidValue);
    }
}

void nothing(Check& check) {
    LAUNCHED(cuda::embed({nullptr, DType::f16, 4, 64}, nullptr, 0, nullptr, nullptr));
    LAUNCHED(cuda::rms_norm(nullptr, {nullptr, DType::f32, 1, 64}, 1e-5f, 0, nullptr, nullptr));
    LAUNCHED(cuda::gate_multiply(Activation::silu, nullptr, nullptr, 0, nullptr));
    LAUNCHED(cuda::gather_rows(nullptr, nullptr, 0, 64, nullptr, nullptr));
    LAUNCHED(cuda::narrow(nullptr, DType::f16, 0, nullptr, nullptr));
    LAUNCHED(cuda::expand({nullptr, DType::q8_0, 4, 64}, 4, 0, nullptr, nullptr));
    CHECK_EQUAL(cuda::narrow(nullptr, DType::q8_0, 0, nullptr, nullptr), cudaErrorInvalidValue);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> all;
    const auto each = [&all](const char* claim, std::initializer_list<DType> types, void (*run)(Check&, DType)) {
        for (DType type : types)
            all.push_back({std::string(claim) + ": " + std::string(name_of(type)), [run, type](Check& check) { run(check, type); }});
    };
    const std::initializer_list<DType> types = {DType::f32,  DType::f16,  DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1,
                                                DType::q5_0, DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k};
    each("embedding gives the table's rows bit for bit, and NaN for a token outside it", types, embeds);
    each("norms equal their twin, with weights of every form", types, normalises);
    all.push_back({"a norm may be written over what it reads", normalises_in_place});
    all.push_back({"silu gates are multiplied as their twin does, far from 0 too", [](Check& check) { multiplies_gates(check, Activation::silu); }});
    all.push_back({"gelu gates are multiplied as their twin does, far from 0 too", [](Check& check) { multiplies_gates(check, Activation::gelu_tanh); }});
    all.push_back({"rows are gathered in the order asked for, some twice", gathers});
    each("narrowing rounds as the engine does, bit for bit", {DType::f16, DType::bf16}, narrows);
    each("expanding rows of a matrix gives f16 as the engine rounds it", types, expands);
    all.push_back({"counts of 0 launch nothing, a type that cannot be is refused", nothing});
    return all;
}
