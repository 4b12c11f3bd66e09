// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/scalar.h"

#include <cmath>
#include <numbers>

namespace kvloupe::cpu::scalar {

namespace {

double activated(Activation activation, double x) {
    if (activation == Activation::silu) return x / (1 + std::exp(-x));
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

}  // namespace

void rotate_part(float* x, std::span<const std::uint32_t> positions, std::uint32_t heads, std::uint32_t width,
                 std::uint32_t first, const RotaryShape& rotary) {
    const std::uint32_t half = rotary.rotary_dim / 2;
    const std::vector<double> frequencies = rotary_frequencies(rotary);
    const auto magnitude = static_cast<double>(rotary.scaling.magnitude);
    for (std::size_t row = 0; row < positions.size(); ++row)
        for (std::uint32_t head = 0; head < heads; ++head)
            for (std::uint32_t i = 0; i < half; ++i) {
                const double angle = positions[row] * frequencies[i];
                const double c = magnitude * std::cos(angle), s = magnitude * std::sin(angle);
                float* base = x + (row * heads + head) * width + first;
                float& a = rotary.layout == RotaryLayout::adjacent ? base[2 * i] : base[i];
                float& b = rotary.layout == RotaryLayout::adjacent ? base[2 * i + 1] : base[i + half];
                const double u = static_cast<double>(a), v = static_cast<double>(b);
                a = static_cast<float>(u * c - v * s);
                b = static_cast<float>(u * s + v * c);
            }
}

void rotate(float* x, std::span<const std::uint32_t> positions, std::uint32_t heads, std::uint32_t head_dim,
            const RotaryShape& rotary) {
    rotate_part(x, positions, heads, head_dim, 0, rotary);
}

void gate_multiply(Activation activation, std::span<float> gate, std::span<const float> up) {
    for (std::size_t i = 0; i < gate.size(); ++i)
        gate[i] = static_cast<float>(activated(activation, static_cast<double>(gate[i])) * static_cast<double>(up[i]));
}

void add_bias(std::span<float> x, std::span<const float> bias) {
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<float>(static_cast<double>(x[i]) + static_cast<double>(bias[i % bias.size()]));
}

void soft_cap(std::span<float> x, float cap) {
    const auto limit = static_cast<double>(cap);
    for (float& value : x) value = static_cast<float>(limit * std::tanh(static_cast<double>(value) / limit));
}

void copy_columns(const float* in, const Backend::Columns& c, float* out) {
    for (std::uint32_t row = 0; row < c.rows; ++row)
        for (std::uint32_t head = 0; head < c.heads; ++head)
            for (std::uint32_t i = 0; i < c.columns; ++i) {
                const std::uint64_t from = std::uint64_t{row} * c.in_heads + (c.in_heads == 1 ? 0 : head);
                const std::uint64_t to = std::uint64_t{row} * c.heads + head;
                out[to * c.out_width + c.out_first + i] = in[from * c.in_width + c.in_first + i];
            }
}

void matmul_heads(const PackedMatrix& weight, const float* in, std::uint32_t rows, std::uint32_t heads, float* out) {
    const std::uint64_t of_head = weight.rows / heads;
    for (std::uint32_t row = 0; row < rows; ++row)
        for (std::uint64_t r = 0; r < weight.rows; ++r) {
            const float* x = in + (std::uint64_t{row} * heads + r / of_head) * weight.cols;
            double sum = 0;
            for (std::uint64_t i = 0; i < weight.cols; ++i)
                sum += element(weight.dtype, weight.row(r), i) * static_cast<double>(x[i]);
            out[row * weight.rows + r] = static_cast<float>(sum);
        }
}

void scatter_add(const float* in, std::span<const std::uint32_t> rows, std::span<const float> weights, std::uint32_t width,
                 float* out) {
    for (std::size_t i = 0; i < rows.size(); ++i)
        for (std::uint32_t k = 0; k < width; ++k) {
            float& to = out[std::uint64_t{rows[i]} * width + k];
            to = static_cast<float>(static_cast<double>(to) + static_cast<double>(weights[i]) * static_cast<double>(in[i * width + k]));
        }
}

}  // namespace kvloupe::cpu::scalar
