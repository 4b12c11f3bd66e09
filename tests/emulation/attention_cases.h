// SPDX-License-Identifier: GPL-3.0-or-later
//
// Attention over random paged caches, for the kernels that read them: one batch in the memory of the emulated device
// and as the scalar twin takes it. What nobody may read would show: slots that no row of the batch sees are NaN,
// entries of block tables that no row needs lead to block 0 (all NaN) or far outside the pool.
#pragma once

#include "engine/backend.h"
#include "kernels/cpu/scalar.h"
#include "kernels/cuda/kernels.h"
#include "tests/emulation/coded_cache.h"
#include "tests/emulation/device_memory.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace kvloupe::test {

// A sequence of the batch: tokens in the cache before the step, rows in the step.
struct CaseSequence {
    std::uint32_t before = 0;
    std::uint32_t rows = 1;
};

struct NamedSpan {
    const char* name;
    KeySpan span;
};
inline constexpr NamedSpan attention_spans[] = {
    {"all keys", {}},
    {"window 1", {1, 0, 0, false}},
    {"window 5", {5, 0, 0, false}},
    {"window 16", {16, 0, 0, false}},
    {"window 300", {300, 0, 0, false}},
    {"window 4000", {4000, 0, 0, false}},
    {"the longest window by rank", {0xFFFFFFFF, 4, 0, true}},
    {"window 64, 4 sinks", {64, 4, 0, false}},
    {"window 7, 20 sinks", {7, 20, 0, false}},
    {"window 1, 1 sink", {1, 1, 0, false}},
    {"window 9, 300 sinks", {9, 300, 0, false}},
    {"window 64, 4 sinks by rank", {64, 4, 0, true}},
    {"window 17, 5 sinks by rank", {17, 5, 0, true}},
    {"window 9, 300 sinks by rank", {9, 300, 0, true}},
    {"window 33 by rank without sinks", {33, 0, 0, true}},
    {"chunks of 1", {0, 0, 1, false}},
    {"chunks of 4", {0, 0, 4, false}},
    {"chunks of 64", {0, 0, 64, false}},
    {"chunks of 300", {0, 0, 300, false}},
};

struct AttentionCase {
    DType keys = DType::f32;
    DType values = DType::f32;
    std::uint32_t head_dim = 64;
    std::uint32_t group = 1;      // query heads per KV head
    std::uint32_t kv_heads = 2;
    std::uint32_t block_size = 16;
    std::vector<CaseSequence> sequences = {{0, 1}};
    NamedSpan span = attention_spans[0];
    RotaryLayout layout = RotaryLayout::half_split;
    float query_factor = 1;
    unsigned seed = 1;
    // Codes in place of plain rows, where both are given; KIVI's blocks lie in f16 pages every other time.
    std::optional<KvFormat> key_format = {}, value_format = {};
    std::uint32_t rotary_key = 0;  // over a latent: width of the rotary key; head_dim is the latent's, and there is one KV head
    std::uint32_t value_dim = 0;   // 0: head_dim
    float soft_cap = 0;

    bool latent() const { return rotary_key > 0; }
    std::uint32_t query_width() const { return head_dim + rotary_key; }
    std::uint32_t value_width() const { return latent() ? rotary_key : value_dim > 0 ? value_dim : head_dim; }  // in the cache
    std::uint32_t out_width() const { return latent() ? head_dim : value_width(); }
    std::uint32_t query_heads() const { return group * kv_heads; }
    bool coded() const { return key_format.has_value() && value_format.has_value(); }
    std::string label() const {
        std::string text = (coded() ? text_of(*key_format) + " / " + text_of(*value_format)
                                    : std::string(name_of(keys)) + "/" + std::string(name_of(values))) + (latent() ? ", latent " : ", head ") +
                           std::to_string(head_dim) + (value_width() != head_dim ? " and " + std::to_string(value_width()) : "") +
                           (soft_cap != 0 ? ", capped" : "") + ", group " + std::to_string(group) + ", block " +
                           std::to_string(block_size) + ", " + span.name + (layout == RotaryLayout::adjacent ? " (adjacent)" : "") + ", rows";
        for (const CaseSequence& s : sequences) text += " " + std::to_string(s.before) + "+" + std::to_string(s.rows);
        return text;
    }
};

class AttentionData {
public:
    explicit AttentionData(const AttentionCase& c) : m_case(c) {
        make_batch();
        fill_cache();
        if (c.coded()) fill_codes();
        std::vector<double> frequencies;
        for (std::uint32_t i = 0; i < rotary_dim() / 2; ++i)
            frequencies.push_back(std::pow(static_cast<double>(theta), -2.0 * i / rotary_dim()));
        m_frequencies = std::make_unique<DeviceArray<double>>(frequencies);
        Uniform random(c.seed, 7);
        m_q = std::make_unique<DeviceArray<float>>(std::size_t{m_batch.rows()} * c.query_heads() * c.query_width());
        for (std::size_t i = 0; i < m_q->size(); ++i) m_q->data()[i] = random() * c.query_factor;
        m_tables = std::make_unique<DeviceArray<std::uint32_t>>(m_batch.block_tables);
        std::vector<cuda::SequenceRows> sequences;
        for (const Batch::Sequence& s : m_batch.sequences)
            sequences.push_back({s.first_row, s.rows, s.first_position, s.table_begin, s.table_size});
        m_sequences = std::make_unique<DeviceArray<cuda::SequenceRows>>(sequences);
    }

    const Batch& batch() const { return m_batch; }
    std::uint32_t rows() const { return m_batch.rows(); }
    std::size_t out_size() const { return std::size_t{m_batch.rows()} * m_case.query_heads() * m_case.out_width(); }

    // Without `out`. Everything it points to is this object's.
    cuda::AttentionArgs args() {
        cuda::AttentionArgs args;
        args.q = m_q->data();
        args.cache.keys = {m_keys->data(), m_case.keys};
        args.cache.values = {m_values->data(), m_case.values};
        args.cache.block_size = m_case.block_size;
        args.cache.kv_heads = m_case.kv_heads;
        args.cache.head_dim_k = m_case.head_dim;
        args.cache.head_dim_v = m_case.value_width();
        args.latent = m_case.latent();
        args.soft_cap = m_case.soft_cap;
        if (m_coded != nullptr) args.cache = m_coded->layer();
        if (m_pages != nullptr) args.table_pages = m_pages->data();
        args.block_tables = m_tables->data();
        args.sequences = m_sequences->data();
        args.query_heads = m_case.query_heads();
        args.scale = shape().scale;
        args.span = m_case.span.span;
        args.rotary = {m_frequencies->data(), rotary_dim(), m_case.layout};
        return args;
    }

    bool guards_hold() const { return m_coded == nullptr || m_coded->guards_hold(); }

    // Of all rows, by the scalar twin; of codes over what they expand to.
    std::vector<double> reference() {
        std::vector<double> out(out_size());
        cpu::scalar::attention(m_batch, m_q->data(), shape(), keys(), values(), out.data());
        return out;
    }
    std::vector<double> reference_weights(std::uint32_t sequence, std::uint32_t row, std::uint32_t head) {
        const cpu::scalar::CacheView rotary_keys = values();
        return cpu::scalar::attention_weights(m_batch, m_q->data(), shape(), keys(), {sequence, row, head}, &rotary_keys);
    }

private:
    static constexpr float theta = 100.0f;

    // Values of variance 1 between -sqrt 3 and sqrt 3; the same for the same seed everywhere.
    class Uniform {
    public:
        Uniform(unsigned seed, unsigned stream) : m_random(seed * 1000003u + stream) {}
        float operator()() { return (static_cast<float>(m_random() >> 8) * 0x1p-23f - 1) * 1.7320508f; }

    private:
        std::mt19937 m_random;
    };

    // Even, at most the head, with a part of it that is not turned where there is room.
    std::uint32_t rotary_dim() const {
        if (m_case.latent()) return m_case.rotary_key / 2 * 2;
        return m_case.head_dim >= 16 ? m_case.head_dim / 4 * 3 / 2 * 2 : m_case.head_dim / 2 * 2;
    }

    AttentionShape shape() const {
        AttentionShape shape;
        shape.query_heads = m_case.query_heads();
        shape.kv_heads = m_case.kv_heads;
        shape.head_dim = m_case.query_width();
        shape.value_dim = m_case.out_width();
        shape.latent = m_case.latent();
        shape.soft_cap = m_case.soft_cap;
        shape.scale = 1.0f / std::sqrt(static_cast<float>(m_case.head_dim));
        shape.span = m_case.span.span;
        shape.rotary = {theta, rotary_dim(), m_case.layout};
        return shape;
    }
    cpu::scalar::CacheView keys() {
        return {m_keys->data(), m_case.keys, m_case.block_size, m_case.kv_heads, m_case.head_dim};
    }
    cpu::scalar::CacheView values() {
        return {m_values->data(), m_case.values, m_case.block_size, m_case.kv_heads, m_case.value_width()};
    }

    // Shuffled tables over blocks 1 .. ; block 0 is nobody's.
    void make_batch() {
        std::uint32_t row = 0, blocks = 0;
        for (const CaseSequence& s : m_case.sequences) {
            const std::uint32_t size = (s.before + s.rows + m_case.block_size - 1) / m_case.block_size;
            m_batch.sequences.push_back({row, s.rows, s.before, blocks, size});
            for (std::uint32_t r = 0; r < s.rows; ++r) {
                m_batch.tokens.push_back(0);
                m_batch.positions.push_back(s.before + r);
            }
            row += s.rows;
            blocks += size;
        }
        m_blocks = blocks + 1;
        for (std::uint32_t b = 0; b < blocks; ++b) m_batch.block_tables.push_back(b + 1);
        std::mt19937 random(m_case.seed);
        for (std::uint32_t b = blocks; b > 1; --b)
            std::swap(m_batch.block_tables[b - 1], m_batch.block_tables[random() % b]);
    }

    // Random codes where plain rows were put, which become what the codes stand for: the twin reads those.
    void fill_codes() {
        CodedShape shape{*m_case.key_format, *m_case.value_format, m_case.kv_heads, m_case.head_dim, m_case.head_dim, m_case.block_size, m_blocks, m_blocks};
        const bool residual = shape.keys.keeps_residual() || shape.values.keeps_residual();
        if (!residual) shape.pages = 0;
        m_coded = std::make_unique<CodedCache>(shape);
        std::mt19937 random(m_case.seed * 31u + 5u);
        m_coded->random_fixed(random);
        std::vector<std::uint32_t> pages(m_batch.block_tables.size(), 0);
        for (std::uint32_t s = 0; s < m_case.sequences.size(); ++s) {
            const Batch::Sequence& rows = m_batch.sequences[s];
            std::mt19937 tokens(m_case.seed * 97u + s);  // whatever the block size
            for (std::uint32_t t = 0; t < rows.first_position + rows.rows; ++t) {
                const std::uint32_t entry = rows.table_begin + t / m_case.block_size, block = m_batch.block_tables[entry];
                const bool kept = seen_by_some_row(m_case.sequences[s], t);
                const bool whole_group = residual && block < m_blocks;  // its scales come with its first token
                std::mt19937 token(static_cast<unsigned>(tokens()));
                if (!kept && !whole_group) continue;
                const bool newest = t / m_case.block_size + 1 == rows.table_size;
                if (residual && (block % 2 == 0 || newest)) pages[entry] = m_blocks - block;
                for (const bool values : {false, true}) {
                    m_coded->random_token(values, block, pages[entry], t % m_case.block_size, token);
                    const KvBytes bytes = m_coded->bytes(values);
                    const cpu::scalar::CacheView twin = values ? this->values() : keys();
                    for (std::uint32_t head = 0; kept && head < m_case.kv_heads; ++head)
                        for (std::uint32_t i = 0; i < m_case.head_dim; ++i)
                            cpu::scalar::store_element(DType::f32, twin.data, twin.row(std::uint64_t{block} * m_case.block_size + t % m_case.block_size, head) + i,
                                                       static_cast<float>(kv_value(bytes, block, pages[entry], head, t % m_case.block_size, i)));
                }
            }
        }
        if (residual) m_pages = std::make_unique<DeviceArray<std::uint32_t>>(pages);
    }

    bool seen_by_some_row(const CaseSequence& sequence, std::uint32_t token) const {
        for (std::uint32_t r = 0; r < sequence.rows; ++r)
            if (m_case.span.span.seen(sequence.before + r).sees(token)) return true;
        return false;
    }

    // Rows depend on the seed, the sequence and the token, not on the block size.
    void fill_cache() {
        const std::size_t rows = std::size_t{m_blocks} * m_case.block_size * m_case.kv_heads;
        m_keys = std::make_unique<DeviceArray<std::byte>>(row_bytes(m_case.keys, rows * m_case.head_dim));
        m_values = std::make_unique<DeviceArray<std::byte>>(row_bytes(m_case.values, rows * m_case.value_width()));
        const cpu::scalar::CacheView key_rows = keys(), value_rows = values();
        for (std::uint32_t s = 0; s < m_case.sequences.size(); ++s) {
            const CaseSequence& sequence = m_case.sequences[s];
            std::uint32_t* table = m_batch.block_tables.data() + m_batch.sequences[s].table_begin;
            std::vector<bool> needed(m_batch.sequences[s].table_size, false);
            Uniform random(m_case.seed, 11 + s);
            for (std::uint32_t t = 0; t < sequence.before + sequence.rows; ++t) {
                const bool seen = seen_by_some_row(sequence, t);
                const std::uint64_t block = table[t / m_case.block_size];
                const std::uint64_t slot = block * m_case.block_size + t % m_case.block_size;
                if (seen) needed[t / m_case.block_size] = true;
                for (std::uint32_t head = 0; head < m_case.kv_heads; ++head)
                    for (std::uint32_t i = 0; i < std::max(key_rows.head_dim, value_rows.head_dim); ++i) {
                        const float key = random(), value = random();
                        if (!seen) continue;
                        if (i < key_rows.head_dim) cpu::scalar::store_element(key_rows.dtype, key_rows.data, key_rows.row(slot, head) + i, key);
                        if (i < value_rows.head_dim) cpu::scalar::store_element(value_rows.dtype, value_rows.data, value_rows.row(slot, head) + i, value);
                    }
            }
            static constexpr std::uint32_t lost[] = {0, 0xFFFFFFFF, 0x7FFFFFF0};
            for (std::uint32_t b = 0; b < needed.size(); ++b)
                if (!needed[b]) table[b] = lost[b % 3];
        }
    }

    AttentionCase m_case;
    Batch m_batch;
    std::uint32_t m_blocks = 0;
    std::unique_ptr<DeviceArray<float>> m_q;
    std::unique_ptr<DeviceArray<std::byte>> m_keys, m_values;
    std::unique_ptr<DeviceArray<double>> m_frequencies;
    std::unique_ptr<DeviceArray<std::uint32_t>> m_tables, m_pages;
    std::unique_ptr<CodedCache> m_coded;
    std::unique_ptr<DeviceArray<cuda::SequenceRows>> m_sequences;
};

// Largest |a - b| relative to the largest |b|; NaN where something is not finite.
template <class A, class B>
double largest_difference(const A& got, const B& want) {
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
        const double x = static_cast<double>(got[i]), y = static_cast<double>(want[i]);
        if (!std::isfinite(x) || !std::isfinite(y)) return NAN;
        largest = std::max(largest, std::abs(y));
        difference = std::max(difference, std::abs(x - y));
    }
    return difference / std::max(largest, 1e-30);
}

}  // namespace kvloupe::test
