// SPDX-License-Identifier: GPL-3.0-or-later
//
// What tests of kernels and backends share: random matrices in every stored form, buffers of a backend with known values,
// batches over random block tables, comparison.
#pragma once

#include "engine/backend.h"
#include "engine/model/half.h"
#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace kvloupe::test {

inline constexpr DType all_types[] = {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1};
inline constexpr DType super_types[] = {DType::q5_0, DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k};
inline constexpr DType float_types[] = {DType::f32, DType::f16, DType::bf16};

inline std::vector<float> random_floats(std::size_t count, unsigned seed, float spread = 1) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random);
    return values;
}

// A matrix whose bytes start `shift` bytes behind an aligned address.
struct StoredMatrix {
    std::vector<std::byte> bytes;
    std::size_t begin = 0;
    DType dtype;
    std::uint64_t rows, cols;

    StoredMatrix(DType type, std::uint64_t r, std::uint64_t c, unsigned seed, std::size_t shift = 0)
        : dtype(type), rows(r), cols(c) {
        const std::size_t size = r * row_bytes(type, c);
        bytes.resize(size + 128);
        begin = 64 - reinterpret_cast<std::uintptr_t>(bytes.data()) % 64 + shift;
        std::mt19937 random(seed);
        std::normal_distribution<float> normal(0, 1);
        std::byte* to = bytes.data() + begin;
        const auto put_half = [&](float value) {
            const std::uint16_t bits = f32_to_f16(value);
            std::memcpy(to, &bits, 2);
            to += 2;
        };
        for (std::uint64_t pack = 0; cpu::is_super(type) && pack < r * c / elements_per_pack(type); ++pack) {
            // Random bits but for the scales: one behind the others in q6_k, a minimum behind the scale in three types.
            std::byte* const first = to;
            for (std::uint32_t i = 0; i < bytes_per_pack(type); ++i) *to++ = static_cast<std::byte>(random() & 255);
            std::byte* const last = to;
            const float scale = normal(random) / (elements_per_pack(type) == 32 ? 16 : 512);
            to = type == DType::q6_k ? last - 2 : first;
            put_half(scale);
            if (type == DType::q5_1) put_half(normal(random));
            if (type == DType::q4_k || type == DType::q5_k) put_half(normal(random) / 64);
            to = last;
        }
        for (std::uint64_t pack = 0; !cpu::is_super(type) && pack < r * c / elements_per_pack(type); ++pack) {
            const float value = normal(random);
            const std::uint16_t bf16 = f32_to_bf16(value);
            if (type == DType::f32) std::memcpy(to, &value, 4), to += 4;
            if (type == DType::f16) put_half(value);
            if (type == DType::bf16) std::memcpy(to, &bf16, 2), to += 2;
            if (elements_per_pack(type) == 1) continue;
            put_half(value / 8);
            if (type == DType::q4_1) put_half(normal(random));
            for (int i = 0; i < (type == DType::q8_0 ? 32 : 16); ++i) *to++ = static_cast<std::byte>(random() & 255);
        }
    }
    const std::byte* data() const { return bytes.data() + begin; }
    cpu::PackedMatrix packed() const { return {data(), dtype, rows, cols}; }
    Tensor tensor(const std::string& name = "weight") const {
        Tensor t;
        t.name = name;
        t.data = data();
        t.dtype = dtype;
        t.rows = rows;
        t.cols = cols;
        return t;
    }
};

// A backend's buffer: NaN first, then `values`.
//
// Backend buffers are written through the backend alone; a table with one row and embed() does it.
inline std::unique_ptr<Buffer> upload(Backend& backend, const std::vector<float>& values) {
    auto buffer = backend.buffer(values.size() * sizeof(float) + 64, Purpose::activations);
    if (!buffer) return nullptr;
    Tensor table;
    table.name = "values";
    table.data = reinterpret_cast<const std::byte*>(values.data());
    table.rows = 1;
    table.cols = values.size();
    auto weight = backend.weight(table);
    Batch batch;
    batch.tokens = {0};
    batch.positions = {0};
    batch.slots = {0};
    batch.block_tables = {0};
    batch.sequences = {{0, 1, 0, 0, 1}};
    if (!weight || !backend.begin_batch(batch)) return nullptr;
    backend.embed(**weight, **buffer);
    return std::move(*buffer);
}

inline std::vector<float> download(Backend& backend, const Buffer& buffer, std::size_t count) {
    std::vector<float> values(count);
    if (!backend.read(buffer, values)) values.clear();
    return values;
}

// Sequences of (tokens before the step, rows in the step) over shuffled block tables; block 0 is nobody's.
struct Piece {
    std::uint32_t before, rows;
};
inline Batch make_batch(const std::vector<Piece>& pieces, std::uint32_t block_size, unsigned seed, std::uint32_t& blocks) {
    Batch batch;
    std::uint32_t row = 0;
    for (const Piece& piece : pieces) {
        const std::uint32_t size = (piece.before + piece.rows + block_size - 1) / block_size;
        batch.sequences.push_back({row, piece.rows, piece.before, static_cast<std::uint32_t>(batch.block_tables.size()), size});
        for (std::uint32_t i = 0; i < size; ++i) batch.block_tables.push_back(static_cast<std::uint32_t>(batch.block_tables.size()) + 1);
        row += piece.rows;
    }
    blocks = static_cast<std::uint32_t>(batch.block_tables.size()) + 1;
    std::shuffle(batch.block_tables.begin(), batch.block_tables.end(), std::mt19937(seed));
    for (const Batch::Sequence& s : batch.sequences)
        for (std::uint32_t r = 0; r < s.rows; ++r) {
            const std::uint32_t position = s.first_position + r;
            batch.tokens.push_back(0);
            batch.positions.push_back(position);
            batch.slots.push_back(std::uint64_t{batch.block_tables[s.table_begin + position / block_size]} * block_size +
                                  position % block_size);
        }
    return batch;
}

// Largest |a - b| relative to the largest |b|; NaN where they differ in being finite.
template <class A, class B>
double relative_difference(const A& a, const B& b, std::size_t count) {
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
        if (!std::isfinite(x) || !std::isfinite(y)) return std::numeric_limits<double>::quiet_NaN();
        largest = std::max(largest, std::abs(y));
        difference = std::max(difference, std::abs(x - y));
    }
    return difference / std::max(largest, 1e-30);
}

}  // namespace kvloupe::test
