// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/gpu/bench_attention.h"

#include "tests/support/kernel_data.h"

#include <memory>

namespace kvloupe::test {

namespace {

constexpr std::uint32_t query_heads = 32, kv_heads = 8, head_dim = 128, block_size = 16;

AttentionShape shape() {
    AttentionShape shape;
    shape.query_heads = query_heads;
    shape.kv_heads = kv_heads;
    shape.head_dim = head_dim;
    shape.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    return shape;
}

// Everything a measurement runs on; layers: of the cache, used in turn, so that none is in the device's own cache still.
class AttentionBench {
public:
    AttentionBench(Backend& backend, const std::vector<Piece>& pieces, std::uint32_t layers) : m_backend(backend), m_layers(layers) {
        m_batch = make_batch(pieces, block_size, 7, m_blocks);
    }

    // "" or what went wrong.
    std::string prepare() {
        auto cache = m_backend.kv_cache(KvCacheShape::uniform(m_layers, m_blocks, block_size, kv_heads, head_dim, DType::f16, DType::f16), Purpose::kv_cache);
        if (!cache) return cache.error().message();
        m_cache = std::move(*cache);
        const std::uint32_t rows = m_batch.rows();
        const auto buffer = [&](std::uint32_t heads, std::uint32_t count, unsigned seed) {
            return upload(m_backend, random_floats(std::size_t{count} * heads * head_dim, seed));
        };
        m_q = buffer(query_heads, rows, 1);
        m_out = buffer(query_heads, rows, 2);
        // The cache's contents: the same few thousand random rows again and again, to all slots of all layers.
        constexpr std::uint32_t chunk = 2048;
        auto q = buffer(1, chunk, 3), k = buffer(kv_heads, chunk, 4), v = buffer(kv_heads, chunk, 5);
        if (!m_q || !m_out || !q || !k || !v) return "no memory for the activations";
        AttentionShape store = shape();
        store.query_heads = 1;  // nobody turns these queries
        const std::uint64_t slots = std::uint64_t{m_blocks} * block_size;
        for (std::uint64_t first = 0; first < slots; first += chunk) {
            Batch fill;
            const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk, slots - first));
            fill.sequences = {{0, count, 0, 0, 1}};
            fill.block_tables = {0};
            for (std::uint32_t i = 0; i < count; ++i) {
                fill.tokens.push_back(0);
                fill.positions.push_back(i);
                fill.slots.push_back(first + i);
            }
            if (auto begun = m_backend.begin_batch(fill); !begun) return begun.error().message();
            for (std::uint32_t layer = 0; layer < m_layers; ++layer) m_backend.rotary_store(*q, *k, *v, store, {}, *m_cache, layer);
        }
        if (auto begun = m_backend.begin_batch(m_batch); !begun) return begun.error().message();
        if (auto done = m_backend.synchronise(); !done) return done.error().message();
        return {};
    }

    // Median seconds of one attention by the device's own clock; runs are queued back to back, without waits between.
    double seconds() {
        std::vector<double> all;
        for (int round = 0; round < 4; ++round) {
            const std::uint64_t set = m_backend.start_timing();
            for (std::uint32_t i = 0; i < 4 * m_layers; ++i) {
                m_backend.attention(*m_q, shape(), *m_cache, i % m_layers, *m_out, nullptr);
                m_backend.mark(StageKind::attention, static_cast<std::uint16_t>(i % m_layers));
            }
            const auto timings = m_backend.timings(set);
            for (std::size_t i = m_layers; round > 0 && i < timings.size(); ++i)  // the first round and lap warm up
                all.push_back(static_cast<double>(timings[i].duration_ns) * 1e-9);
        }
        return median(all);
    }

private:
    Backend& m_backend;
    std::uint32_t m_layers, m_blocks = 0;
    Batch m_batch;
    std::unique_ptr<KvCache> m_cache;
    std::unique_ptr<Buffer> m_q, m_out;
};

double measure(Backend& backend, const std::vector<Piece>& pieces, std::uint32_t layers, const std::string& what, BenchResults& results) {
    AttentionBench bench(backend, pieces, layers);
    if (const std::string problem = bench.prepare(); !problem.empty()) {
        results.row(what, "not measured: " + problem, "a measurement", false);
        return 0;
    }
    const double seconds = bench.seconds();
    if (auto done = backend.synchronise(); !done) {
        results.row(what, "not measured: " + done.error().message(), "a measurement", false);
        return 0;
    }
    return seconds;
}

void decode(Backend& backend, const Ceilings& ceilings, std::uint32_t sequences, std::uint32_t context, double asked, BenchResults& results) {
    const std::string what = "decode attention, 32/8 heads x 128, f16, batch " + std::to_string(sequences) + ", context " + std::to_string(context);
    const std::vector<Piece> pieces(sequences, Piece{context - 1, 1});
    // K and V once per KV head, queries and results, block tables.
    const double rows = static_cast<double>(sequences);
    const double bytes = rows * context * kv_heads * head_dim * 2 * 2 + rows * query_heads * head_dim * 4 * 2 +
                         rows * context / block_size * 4;
    const std::uint32_t layers = sequences * context > 200000 ? 2 : 8;  // 2 GiB and 1 GiB: far beyond any card's own cache
    const double seconds = measure(backend, pieces, layers, what, results);
    if (seconds <= 0) return;
    const double rate = bytes / seconds, share = rate / ceilings.copy_bandwidth;
    results.row(what, fixed(seconds * 1e6, 1) + " us, " + fixed(rate / 1e9, 0) + " GB/s, " + fixed(share * 100, 1) + " % of the copy bandwidth",
                ">= " + fixed(asked * 100, 0) + " %", share >= asked);
    results.figure("decode_us_" + std::to_string(sequences) + "_" + std::to_string(context), seconds * 1e6);
}

void prefill(Backend& backend, const Ceilings& ceilings, std::uint32_t tokens, BenchResults& results) {
    const std::string what = "prefill attention, 32/8 heads x 128, f16, " + std::to_string(tokens) + " tokens";
    const double seconds = measure(backend, {{0, tokens}}, 2, what, results);
    if (seconds <= 0) return;
    // Two products of 2 operations per (query, key) pair that the causal mask leaves, value and head.
    const double pairs = static_cast<double>(tokens) * (static_cast<double>(tokens) + 1) / 2;
    const double rate = 4.0 * pairs * query_heads * head_dim / seconds, share = rate / ceilings.matrix_rate;
    results.row(what, fixed(seconds * 1e6, 1) + " us, " + fixed(rate / 1e12, 1) + " TFLOP/s, " + fixed(share * 100, 1) + " % of the matrix rate",
                ">= 40 %", share >= 0.4);
    results.figure("prefill_us_" + std::to_string(tokens), seconds * 1e6);
}

}  // namespace

void bench_attention(Backend& backend, const Ceilings& ceilings, BenchResults& results) {
    decode(backend, ceilings, 32, 8192, 0.85, results);
    decode(backend, ceilings, 1, 32768, 0.70, results);
    prefill(backend, ceilings, 4096, results);
}

}  // namespace kvloupe::test
