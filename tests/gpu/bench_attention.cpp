// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/gpu/bench_attention.h"

#include "tests/support/kernel_data.h"

#include <memory>

namespace kvloupe::test {

namespace {

constexpr std::uint32_t query_heads = 32, kv_heads = 8, head_dim = 128, block_size = 16;

// What is attended to: a layer of the cache, and how.
struct Attended {
    AttentionShape shape;
    KvLayerShape layer;
};

Attended heads_in(DType dtype) {
    Attended of;
    of.shape.query_heads = query_heads;
    of.shape.kv_heads = kv_heads;
    of.shape.head_dim = head_dim;
    of.shape.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    of.layer = {kv_heads, head_dim, head_dim, false, KvFormat::of(dtype), KvFormat::of(dtype), 0};
    return of;
}

// Absorbed latents as DeepSeek has them: 512 and a rotary key of 64, of which heads have 128 + 64.
constexpr std::uint32_t latent_rank = 512, latent_rotary = 64;

Attended latents_of(std::uint32_t heads) {
    Attended of;
    of.shape.query_heads = heads;
    of.shape.kv_heads = 1;
    of.shape.head_dim = latent_rank + latent_rotary;
    of.shape.value_dim = latent_rank;
    of.shape.latent = true;
    of.shape.scale = 1.0f / std::sqrt(192.0f);
    of.layer = {1, latent_rank, latent_rotary, true, KvFormat::of(DType::f16), KvFormat::of(DType::f16), 0};
    return of;
}

// Everything a measurement runs on; layers: of the cache, used in turn, so that none is in the device's own cache still.
class AttentionBench {
public:
    AttentionBench(Backend& backend, const std::vector<Piece>& pieces, std::uint32_t layers, const Attended& of)
        : m_backend(backend), m_layers(layers), m_of(of) {
        m_batch = make_batch(pieces, block_size, 7, m_blocks);
    }

    // "" or what went wrong.
    std::string prepare() {
        KvCacheShape cache_shape;
        cache_shape.blocks = m_blocks;
        cache_shape.block_size = block_size;
        for (std::uint32_t i = 0; i < m_layers; ++i) cache_shape.layers.push_back(m_of.layer), cache_shape.layers.back().place = i;
        auto cache = m_backend.kv_cache(cache_shape, Purpose::kv_cache);
        if (!cache) return cache.error().message();
        m_cache = std::move(*cache);
        const std::uint32_t rows = m_batch.rows();
        const auto buffer = [&](std::uint32_t width, std::uint32_t count, unsigned seed) {
            return upload(m_backend, random_floats(std::size_t{count} * width, seed));
        };
        m_q = buffer(m_of.shape.query_heads * m_of.shape.head_dim, rows, 1);
        m_out = buffer(m_of.shape.query_heads * value_dim_of(m_of.shape), rows, 2);
        // The cache's contents: the same few thousand random rows again and again, to all slots of all layers.
        constexpr std::uint32_t chunk = 2048;
        auto k = buffer(m_of.layer.kv_heads * m_of.layer.key_dim, chunk, 4), v = buffer(m_of.layer.kv_heads * m_of.layer.value_dim, chunk, 5);
        if (!m_q || !m_out || !k || !v) return "no memory for the activations";
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
            for (std::uint32_t layer = 0; layer < m_layers; ++layer) m_backend.store(*k, *v, 0, *m_cache, layer);
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
                m_backend.attention(*m_q, m_of.shape, *m_cache, i % m_layers, *m_out, nullptr);
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
    Attended m_of;
    Batch m_batch;
    std::unique_ptr<KvCache> m_cache;
    std::unique_ptr<Buffer> m_q, m_out;
};

double measure(Backend& backend, const std::vector<Piece>& pieces, std::uint32_t layers, const Attended& of, const std::string& what,
               BenchResults& results) {
    AttentionBench bench(backend, pieces, layers, of);
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

struct DecodeBench {
    std::uint32_t sequences = 0, context = 0;
    DType dtype = DType::f16;
    double asked = 0;  // share of the copy bandwidth; 0: printed as measured

    std::string text() const {
        return "decode attention, 32/8 heads x 128, " + std::string(name_of(dtype)) + ", batch " + std::to_string(sequences) + ", context " + std::to_string(context);
    }
    // Codes and scales of K and V once per KV head, queries and results, block tables.
    double bytes() const {
        const double rows = static_cast<double>(sequences);
        double of_token = 0;
        for (const KvPart part : {KvPart::keys, KvPart::values}) {
            const auto plane = KvPlane::of(KvFormat::of(dtype), part, kv_heads, head_dim, block_size);
            if (plane) of_token += plane->bytes_per_token();
        }
        return rows * context * of_token + rows * query_heads * head_dim * 4 * 2 + rows * context / block_size * 4;
    }
};

// Seconds, or 0. of_f16: what the same took in f16; 0: this is f16.
double decode(Backend& backend, const Ceilings& ceilings, const DecodeBench& bench, double of_f16, BenchResults& results) {
    const std::string what = bench.text();
    const std::vector<Piece> pieces(bench.sequences, Piece{bench.context - 1, 1});
    // In f16 2 GiB and 1 GiB: far beyond any card's own cache, and so are their codes.
    const std::uint32_t layers = bench.sequences * bench.context > 200000 ? 2 : 8;
    const double seconds = measure(backend, pieces, layers, heads_in(bench.dtype), what, results);
    if (seconds <= 0) return 0;
    const double rate = bench.bytes() / seconds, share = rate / ceilings.copy_bandwidth, gain = of_f16 / seconds;
    std::string measured = fixed(seconds * 1e6, 1) + " us, " + fixed(rate / 1e9, 0) + " GB/s of its own bytes, " + fixed(share * 100, 1) + " % of the copy bandwidth";
    std::string reach = bench.asked > 0 ? ">= " + fixed(bench.asked * 100, 0) + " %" : "";
    bool holds = share >= bench.asked;
    if (of_f16 > 0) {
        measured += ", " + fixed(gain, 2) + " x f16's speed";
        if (bench.asked > 0) reach += ", >= 1.6 x", holds = holds && gain >= 1.6;
    }
    results.row(what, measured, reach, holds);
    const std::string suffix = bench.dtype == DType::f16 ? "" : "_" + std::string(name_of(bench.dtype));
    results.figure("decode_us_" + std::to_string(bench.sequences) + "_" + std::to_string(bench.context) + suffix, seconds * 1e6);
    return seconds;
}

// f16, then codes beside it.
void decode_all(Backend& backend, const Ceilings& ceilings, DecodeBench bench, BenchResults& results) {
    const double of_f16 = decode(backend, ceilings, bench, 0, results);
    for (const DType dtype : {DType::fp8_e4m3, DType::int8, DType::int4, DType::q8_0}) {
        bench.dtype = dtype;
        bench.asked = dtype == DType::fp8_e4m3 || dtype == DType::int8 ? 0.75 : 0;
        decode(backend, ceilings, bench, of_f16, results);
    }
}

// Absorbed decode over latents. asked: share of the copy bandwidth; 0: printed as measured.
void latents(Backend& backend, const Ceilings& ceilings, std::uint32_t heads, double asked, BenchResults& results) {
    const std::uint32_t sequences = 32, context = 8192;
    const std::string what = "absorbed latent decode, " + std::to_string(heads) + " heads, 512 and 64, f16, batch " + std::to_string(sequences) +
                             ", context " + std::to_string(context);
    const double seconds = measure(backend, std::vector<Piece>(sequences, Piece{context - 1, 1}), 4, latents_of(heads), what, results);
    if (seconds <= 0) return;
    // Latents and rotary keys once for all heads, queries and results, block tables.
    const double rows = sequences, keys = rows * context;
    const double bytes = keys * 2 * (latent_rank + latent_rotary) + rows * heads * 4 * (2 * latent_rank + latent_rotary) + keys / block_size * 4;
    const double rate = bytes / seconds, share = rate / ceilings.copy_bandwidth;
    results.row(what, fixed(seconds * 1e6, 1) + " us, " + fixed(rate / 1e9, 0) + " GB/s, " + fixed(share * 100, 1) + " % of the copy bandwidth",
                asked > 0 ? ">= " + fixed(asked * 100, 0) + " %" : "", share >= asked);
    results.figure("latent_decode_us_" + std::to_string(heads), seconds * 1e6);
}

void prefill(Backend& backend, const Ceilings& ceilings, std::uint32_t tokens, BenchResults& results) {
    const std::string what = "prefill attention, 32/8 heads x 128, f16, " + std::to_string(tokens) + " tokens";
    const double seconds = measure(backend, {{0, tokens}}, 2, heads_in(DType::f16), what, results);
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
    decode_all(backend, ceilings, {32, 8192, DType::f16, 0.85}, results);
    decode_all(backend, ceilings, {1, 32768, DType::f16, 0.70}, results);
    latents(backend, ceilings, 16, 0.70, results);
    latents(backend, ceilings, 128, 0, results);
    prefill(backend, ceilings, 4096, results);
}

}  // namespace kvloupe::test
