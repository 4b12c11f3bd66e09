// SPDX-License-Identifier: GPL-3.0-or-later
//
// A decoder over one sequence, cut into pieces as a test likes, without lane or scheduler.
#pragma once

#include "engine/serve/decoder.h"
#include "kernels/make_backend.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvloupe::test {

using DecodedRows = std::vector<std::vector<float>>;  // logits (positions)(vocabulary)

inline std::shared_ptr<DeviceModel> on_the_cpu(std::shared_ptr<const Model> model, unsigned threads = 2) {
    auto backend = make_backend(BackendOptions{"cpu", threads});
    if (!backend) throw std::runtime_error(backend.error().message());
    auto device = DeviceModel::create(std::move(model), std::shared_ptr<Backend>(std::move(*backend)));
    if (!device) throw std::runtime_error(device.error().message());
    return *device;
}

// What attention of the model reads, in one format.
inline KvCacheShape cache_of(const ModelConfig& config, std::uint32_t blocks, std::uint32_t block_size, const KvFormat& format) {
    KvCacheShape shape;
    shape.blocks = blocks;
    shape.block_size = block_size;
    for (std::uint32_t layer = 0; layer < config.layers; ++layer)
        shape.layers.push_back(cache_layer(config, layer, format, format));
    return shape;
}

// Sequences that grow together over blocks in a shuffled order; unused ones hold NaN.
class DecoderRun {
public:
    DecoderRun(std::shared_ptr<DeviceModel> device, DecoderOptions options, std::vector<std::vector<TokenId>> sequences,
               std::uint32_t block_size = 4, DType precision = DType::f32)
        : m_device(device), m_decoder(std::move(device), std::move(options)), m_sequences(std::move(sequences)),
          m_block_size(block_size), m_done(m_sequences.size(), 0), m_logits(m_sequences.size()) {
        std::size_t longest = 0;
        for (const auto& tokens : m_sequences) longest = std::max(longest, tokens.size());
        m_table_size = static_cast<std::uint32_t>((longest + block_size - 1) / block_size);
        const auto blocks = 1 + m_table_size * static_cast<std::uint32_t>(m_sequences.size());
        for (std::uint32_t block = 1; block < blocks; ++block) m_tables.push_back(block);
        std::shuffle(m_tables.begin(), m_tables.end(), std::mt19937(7));
        auto cache = m_device->backend->kv_cache(cache_of(m_device->model->config, blocks, block_size, KvFormat::of(precision)), Purpose::kv_cache);
        if (!cache) throw std::runtime_error(cache.error().message());
        m_cache = std::move(*cache);
        for (std::uint32_t block = 0; block < blocks; ++block) m_device->backend->poison_block(*m_cache, block);
    }

    // The next counts[i] tokens of sequence i, in one batch; all logits are kept. Throws where the decoder fails.
    ForwardResult step(const std::vector<std::uint32_t>& counts, const ForwardOptions& options = {}) {
        Batch batch;
        for (std::uint32_t s = 0; s < m_sequences.size(); ++s) {
            if (counts[s] == 0) continue;
            Batch::Sequence sequence;
            sequence.first_row = batch.rows();
            sequence.rows = counts[s];
            sequence.first_position = m_done[s];
            sequence.table_begin = static_cast<std::uint32_t>(batch.block_tables.size());
            sequence.table_size = m_table_size;
            const auto table = m_tables.begin() + static_cast<std::ptrdiff_t>(std::size_t{s} * m_table_size);
            batch.block_tables.insert(batch.block_tables.end(), table, table + m_table_size);
            batch.sequences.push_back(sequence);
            for (std::uint32_t row = 0; row < counts[s]; ++row) {
                const std::uint32_t position = m_done[s] + row;
                batch.logit_rows.push_back(batch.rows());
                batch.tokens.push_back(m_sequences[s][position]);
                batch.positions.push_back(position);
                batch.slots.push_back(std::uint64_t{table[position / m_block_size]} * m_block_size + position % m_block_size);
            }
        }
        if (auto made = m_decoder.reserve(batch.rows(), batch.rows()); !made) throw std::runtime_error(made.error().message());
        auto result = m_decoder.forward(batch, *m_cache, options);
        if (!result) throw std::runtime_error(result.error().message());
        const std::size_t vocabulary = m_device->model->config.vocabulary;
        std::size_t row = 0;
        for (std::uint32_t s = 0; s < m_sequences.size(); ++s) {
            for (std::uint32_t i = 0; i < counts[s]; ++i, ++row) {
                const auto logits = result->logits.subspan(row * vocabulary, vocabulary);
                m_logits[s].emplace_back(logits.begin(), logits.end());
            }
            m_done[s] += counts[s];
        }
        return std::move(*result);
    }
    // All tokens of every sequence, `piece` of each at a time.
    const DecodedRows& run(std::uint32_t piece, std::size_t sequence = 0) {
        for (;;) {
            std::vector<std::uint32_t> counts;
            std::uint32_t rows = 0;
            for (std::size_t s = 0; s < m_sequences.size(); ++s) {
                counts.push_back(std::min(piece, static_cast<std::uint32_t>(m_sequences[s].size()) - m_done[s]));
                rows += counts.back();
            }
            if (rows == 0) return m_logits[sequence];
            step(counts);
        }
    }
    const DecodedRows& logits(std::size_t sequence) const { return m_logits[sequence]; }
    const KvCache& cache() const { return *m_cache; }
    Decoder& decoder() { return m_decoder; }

private:
    std::shared_ptr<DeviceModel> m_device;
    Decoder m_decoder;
    std::vector<std::vector<TokenId>> m_sequences;
    std::uint32_t m_block_size;
    std::uint32_t m_table_size = 0;
    std::vector<std::uint32_t> m_tables;  // (sequences, m_table_size)
    std::unique_ptr<KvCache> m_cache;
    std::vector<std::uint32_t> m_done;    // tokens of each sequence
    std::vector<DecodedRows> m_logits;
};

// Largest |a - b| over all positions; infinite where the shapes differ or one is no number.
template <class A, class B>
double largest_gap(const std::vector<A>& a, const std::vector<B>& b) {
    if (a.size() != b.size() || a.empty()) return INFINITY;
    double gap = 0;
    for (std::size_t row = 0; row < a.size(); ++row) {
        if (a[row].size() != b[row].size()) return INFINITY;
        for (std::size_t i = 0; i < a[row].size(); ++i) {
            const double difference = std::abs(static_cast<double>(a[row][i]) - static_cast<double>(b[row][i]));
            if (!(difference <= gap)) gap = std::isnan(difference) ? INFINITY : difference;
        }
    }
    return gap;
}

}  // namespace kvloupe::test
