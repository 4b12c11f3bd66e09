// SPDX-License-Identifier: GPL-3.0-or-later
//
// Times of single kernels beside the read bandwidth that the same threads reach in the same run.
//
//   kvloupe_kernel_bench [THREADS] [GROUP]     default: 2 threads; groups: small products smollm2 attention formats prefill
//
// With one thread the clock is that thread's processor time, so that what else runs on the machine counts for less.
// Every figure is the best of many calls: other programs can only make a call slower. Weights lie in a region of 512 MB
// that is walked through, each call taking the next ones, so that they come from memory and not from a cache.
#include "kernels/cpu/aligned_bytes.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/make_backend.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

using namespace kvloupe;

namespace {

AttentionShape attention_shape(std::uint32_t query_heads, std::uint32_t kv_heads, std::uint32_t head_dim, float scale) {
    AttentionShape shape;
    shape.query_heads = query_heads;
    shape.kv_heads = kv_heads;
    shape.head_dim = head_dim;
    shape.scale = scale;
    return shape;
}

constexpr std::uint64_t region_bytes = 512ull << 20;

struct Bench {
    Backend& backend;
    double bandwidth;  // bytes per second
    const std::byte* region;
    std::string filter;
    unsigned threads;
    bool wants(const char* group) const { return filter.empty() || filter == group; }
};

double seconds_now(bool processor_time) {
    timespec now{};
    clock_gettime(processor_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Best time in seconds of `passes` calls.
template <class F>
double best_of(const Bench& bench, int passes, F&& f) {
    double best = 1e30;
    for (int pass = 0; pass < passes; ++pass) {
        const double begin = seconds_now(bench.threads == 1);
        f(pass);
        best = std::min(best, seconds_now(bench.threads == 1) - begin);
    }
    return best;
}

void print(const Bench& bench, const std::string& what, double seconds, double bytes) {
    std::printf("%-46s %10.1f us %8.1f GB/s %5.0f %%\n", what.c_str(), seconds * 1e6, bytes / seconds * 1e-9,
                100 * bytes / seconds / bench.bandwidth);
}

std::unique_ptr<Buffer> buffer_of(Backend& backend, std::uint64_t floats) {
    auto buffer = backend.buffer(floats * sizeof(float), Purpose::activations);
    if (!buffer) std::exit(1);
    // A batch of one token "embeds" the buffer's content: backends are written through operations alone.
    const std::vector<float> values(floats, 0.01f);
    Tensor table;
    table.data = reinterpret_cast<const std::byte*>(values.data());
    table.rows = 1;
    table.cols = floats;
    auto weight = backend.weight(table);
    Batch batch;
    batch.tokens = {0};
    batch.positions = {0};
    batch.slots = {0};
    batch.block_tables = {0};
    batch.sequences = {{0, 1, 0, 0, 1}};
    if (!weight || !backend.begin_batch(batch)) std::exit(1);
    backend.embed(**weight, **buffer);
    return std::move(*buffer);
}

// Matrices of one shape, one behind the other through the region.
std::vector<std::unique_ptr<Weight>> matrices(const Bench& bench, DType type, std::uint64_t rows, std::uint64_t cols) {
    std::vector<std::unique_ptr<Weight>> all;
    Tensor tensor;
    tensor.dtype = type;
    tensor.rows = rows;
    tensor.cols = cols;
    for (std::uint64_t at = 0; at + tensor.bytes() <= region_bytes; at += tensor.bytes()) {
        tensor.data = bench.region + at;
        auto weight = bench.backend.weight(tensor);
        if (!weight) std::exit(1);
        all.push_back(std::move(*weight));
    }
    return all;
}

void products(const Bench& bench) {
    for (DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1,
                       DType::q4_k, DType::q5_k, DType::q6_k}) {
        const auto weights = matrices(bench, type, 4096, 4096);
        for (std::uint32_t rows : {1u, 4u, 8u}) {
            const auto in = buffer_of(bench.backend, rows * 4096), out = buffer_of(bench.backend, rows * 4096);
            const auto count = static_cast<int>(weights.size());
            const double seconds = best_of(bench, std::max(2 * count, 40), [&](int pass) {
                bench.backend.matmul(*weights[static_cast<std::size_t>(pass % count)], *in, rows, *out, false);
            });
            print(bench, std::string(name_of(type)) + " 4096x4096, rows " + std::to_string(rows), seconds,
                  static_cast<double>(weights[0]->bytes()));
        }
    }
}

// All products of a decode step of SmolLM2-135M: 30 layers of width 576, 9 query and 3 KV heads of 64, 1536 inside.
void smollm2_products(const Bench& bench) {
    for (DType type : {DType::q4_1, DType::q4_0, DType::q8_0, DType::f16}) {
        std::vector<std::unique_ptr<Weight>> weights;
        std::uint64_t at = 0, bytes = 0;
        const auto add = [&](std::uint64_t rows, std::uint64_t cols) {
            Tensor tensor;
            tensor.dtype = type;
            tensor.rows = rows;
            tensor.cols = cols;
            tensor.data = bench.region + at;
            at += tensor.bytes();
            bytes += tensor.bytes();
            weights.push_back(std::move(*bench.backend.weight(tensor)));
        };
        for (int layer = 0; layer < 30; ++layer) {
            for (std::uint64_t rows : {576, 192, 192, 576, 1536, 1536}) add(rows, 576);
            add(576, 1536);
        }
        add(49152, 576);
        for (std::uint32_t rows : {1u, 8u}) {
            const auto in = buffer_of(bench.backend, rows * 1536), out = buffer_of(bench.backend, std::uint64_t{rows} * 49152);
            const double seconds = best_of(bench, 40, [&](int) {
                for (const auto& weight : weights) bench.backend.matmul(*weight, *in, rows, *out, false);
            });
            print(bench, "SmolLM2-135M step, products in " + std::string(name_of(type)) + ", rows " + std::to_string(rows), seconds,
                  static_cast<double>(bytes));
        }
    }
}

struct Heads {
    std::uint32_t query, kv, dim, layers;
};

Batch batch_of(std::uint32_t before, std::uint32_t rows, std::uint32_t block_size) {
    Batch batch;
    const std::uint32_t size = (before + rows + block_size - 1) / block_size;
    batch.sequences = {{0, rows, before, 0, size}};
    for (std::uint32_t i = 0; i < size; ++i) batch.block_tables.push_back(i * 7 % size);  // scattered
    for (std::uint32_t r = 0; r < rows; ++r) {
        const std::uint32_t position = before + r;
        batch.tokens.push_back(0);
        batch.positions.push_back(position);
        batch.slots.push_back(std::uint64_t{batch.block_tables[position / block_size]} * block_size + position % block_size);
    }
    return batch;
}

void attention(const Bench& bench) {
    constexpr std::uint32_t tokens = 2048, block_size = 16;
    for (const Heads heads : {Heads{32, 8, 128, 24}, Heads{32, 32, 128, 8}, Heads{9, 3, 64, 30}, Heads{32, 1, 128, 32}})
        for (DType type : {DType::f16, DType::bf16, DType::f32}) {
            const std::uint32_t blocks = tokens / block_size;
            auto cache = bench.backend.kv_cache(KvCacheShape::uniform(heads.layers, blocks, block_size, heads.kv, heads.dim, type, type), Purpose::kv_cache);
            if (!cache) std::exit(1);
            const AttentionShape shape = attention_shape(heads.query, heads.kv, heads.dim, 1 / std::sqrt(static_cast<float>(heads.dim)));
            const auto q = buffer_of(bench.backend, std::uint64_t{tokens} * heads.query * heads.dim);
            const auto k = buffer_of(bench.backend, std::uint64_t{tokens} * heads.kv * heads.dim);
            const auto out = buffer_of(bench.backend, std::uint64_t{tokens} * heads.query * heads.dim);
            const std::string name = std::to_string(heads.query) + "/" + std::to_string(heads.kv) + " heads of " +
                                     std::to_string(heads.dim) + ", " + std::string(name_of(type));
            const Batch prefill = batch_of(0, tokens, block_size), decode = batch_of(tokens - 1, 1, block_size);
            if (!bench.backend.begin_batch(prefill)) std::exit(1);
            for (std::uint32_t layer = 0; layer < heads.layers; ++layer)
                bench.backend.rotary_store(*q, *k, *k, shape, {10000, heads.dim, RotaryLayout::half_split}, **cache, layer);
            if (type == DType::f16 && heads.layers >= 24 && heads.dim == 64) {
                const double prefill_seconds = best_of(bench, 2, [&](int) { bench.backend.attention(*q, shape, **cache, 0, *out, nullptr); });
                const double flops = 2.0 * tokens * (tokens + 1) * heads.query * heads.dim;
                std::printf("%-46s %10.1f us %8.1f GFLOP/s\n", ("prefill attention, " + name).c_str(), prefill_seconds * 1e6, flops / prefill_seconds * 1e-9);
            }
            if (!bench.backend.begin_batch(decode)) std::exit(1);
            const double seconds = best_of(bench, 400, [&](int pass) {
                bench.backend.attention(*q, shape, **cache, static_cast<std::uint32_t>(pass) % heads.layers, *out, nullptr);
            });
            print(bench, "decode attention, " + name, seconds, 2.0 * tokens * heads.kv * heads.dim * bytes_per_pack(type));
        }
}

// A cache of one precision, full: every token of every layer.
std::unique_ptr<KvCache> filled(const Bench& bench, const Heads& heads, const KvFormat& format, std::uint32_t tokens,
                                std::uint32_t block_size, Buffer& q, Buffer& k) {
    KvCacheShape shape = KvCacheShape::uniform(heads.layers, tokens / block_size, block_size, heads.kv, heads.dim, DType::f16, DType::f16);
    for (KvLayerShape& layer : shape.layers) layer.keys = layer.values = format;
    auto cache = bench.backend.kv_cache(shape, Purpose::kv_cache);
    if (!cache || !bench.backend.begin_batch(batch_of(0, tokens, block_size))) std::exit(1);
    const AttentionShape attention = attention_shape(heads.query, heads.kv, heads.dim, 1);
    for (std::uint32_t layer = 0; layer < heads.layers; ++layer)
        bench.backend.rotary_store(q, k, k, attention, {10000, heads.dim, RotaryLayout::half_split}, **cache, layer);
    return std::move(*cache);
}

// Decode attention at 2,048 tokens in every precision beside f16: calls take turns, so that both meet the same machine.
void formats(const Bench& bench) {
    constexpr std::uint32_t tokens = 2048, block_size = 16;
    for (const Heads heads : {Heads{32, 8, 128, 24}, Heads{9, 3, 64, 30}}) {
        const auto q = buffer_of(bench.backend, std::uint64_t{tokens} * heads.query * heads.dim);
        const auto k = buffer_of(bench.backend, std::uint64_t{tokens} * heads.kv * heads.dim);
        const auto out = buffer_of(bench.backend, std::uint64_t{heads.query} * heads.dim);
        const AttentionShape shape = attention_shape(heads.query, heads.kv, heads.dim, 1 / std::sqrt(static_cast<float>(heads.dim)));
        const auto plain = filled(bench, heads, KvFormat::of(DType::f16), tokens, block_size, *q, *k);
        const auto bytes_of = [&](const KvFormat& format) {
            return (KvPlane::of(format, KvPart::keys, heads.kv, heads.dim, block_size)->bytes_per_token() +
                    KvPlane::of(format, KvPart::values, heads.kv, heads.dim, block_size)->bytes_per_token()) * tokens;
        };
        std::vector<KvFormat> all;
        for (DType type : {DType::int8, DType::fp8_e4m3, DType::fp8_e5m2, DType::int4, DType::q8_0, DType::q5_0, DType::q4_0}) all.push_back(KvFormat::of(type));
        all.push_back(KvFormat::of(DType::int8));
        all.back().rotate = true;
        for (const KvFormat& format : all) {
            const auto cache = filled(bench, heads, format, tokens, block_size, *q, *k);
            if (!bench.backend.begin_batch(batch_of(tokens - 1, 1, block_size))) std::exit(1);
            double f16 = 1e30, own = 1e30;
            for (std::uint32_t pass = 0; pass < 400; ++pass)
                for (const bool first : {true, false}) {
                    const double seconds = best_of(bench, 1, [&](int) {
                        bench.backend.attention(*q, shape, first ? *plain : *cache, pass % heads.layers, *out, nullptr);
                    });
                    (first ? f16 : own) = std::min(first ? f16 : own, seconds);
                }
            const std::string name = std::to_string(heads.query) + "/" + std::to_string(heads.kv) + " of " + std::to_string(heads.dim) + ", " +
                                     std::string(name_of(format.dtype)) + (format.rotate ? ", rotated" : "");
            print(bench, "decode attention, " + name, own, bytes_of(format));
            std::printf("%46s %10.2f x f16's time, %.3f x its bytes\n", "", own / f16, bytes_of(format) / bytes_of(KvFormat::of(DType::f16)));
        }
    }
}

void prefill(const Bench& bench) {
    for (DType type : {DType::f32, DType::f16, DType::q8_0, DType::q4_1})
        for (auto [rows, cols] : {std::pair{4096u, 4096u}, {576u, 576u}, {192u, 576u}, {1536u, 576u}, {576u, 1536u}})
            for (std::uint32_t count : {16u, 64u, 512u}) {
                if (cols == 4096 && count == 64) continue;
                auto weights = matrices(bench, type, rows, cols);
                weights.resize(std::min<std::size_t>(weights.size(), 4));
                const auto in = buffer_of(bench.backend, std::uint64_t{count} * cols), out = buffer_of(bench.backend, std::uint64_t{count} * rows);
                const double seconds = best_of(bench, count > 100 ? 8 : 40, [&](int pass) {
                    bench.backend.matmul(*weights[static_cast<std::size_t>(pass) % weights.size()], *in, count, *out, false);
                });
                std::printf("%-46s %10.1f us %8.1f GFLOP/s\n",
                            ("prefill " + std::string(name_of(type)) + " " + std::to_string(rows) + "x" + std::to_string(cols) + ", rows " + std::to_string(count)).c_str(),
                            seconds * 1e6, 2.0 * rows * cols * count / seconds * 1e-9);
            }
}

void small_kernels(const Bench& bench) {
    cpu::ThreadPool pool(bench.threads);
    constexpr int calls = 200;
    const double fork = best_of(bench, 20, [&](int) {
        for (int i = 0; i < calls; ++i) pool.run(bench.threads, [](std::uint32_t, unsigned) {});
    }) / calls;
    std::printf("%-46s %10.2f us\n", "a parallel section of empty parts", fork * 1e6);
    Tensor norm;
    norm.data = bench.region;
    norm.rows = 1;
    norm.cols = 576;
    auto weight = bench.backend.weight(norm);
    const auto x = buffer_of(bench.backend, 1536), y = buffer_of(bench.backend, 1536);
    const double rms = best_of(bench, 20, [&](int) { for (int i = 0; i < calls; ++i) bench.backend.rms_norm(*x, **weight, 1e-5f, 1, *y); }) / calls;
    std::printf("%-46s %10.2f us\n", "rms_norm of 576", rms * 1e6);
    const double silu = best_of(bench, 20, [&](int) { for (int i = 0; i < calls; ++i) bench.backend.gate_multiply(Activation::silu, *y, *x, 1, 1536); }) / calls;
    std::printf("%-46s %10.2f us\n", "gate_multiply (silu) of 1536", silu * 1e6);
    auto cache = bench.backend.kv_cache(KvCacheShape::uniform(1, 2, 16, 3, 64, DType::f16, DType::f16), Purpose::kv_cache);
    if (!cache || !bench.backend.begin_batch(batch_of(9, 1, 16))) return;
    const AttentionShape nine = attention_shape(9, 3, 64, 0.125f);
    const double store = best_of(bench, 20, [&](int) {
        for (int i = 0; i < calls; ++i) bench.backend.rotary_store(*x, *y, *y, nine, {10000, 64, RotaryLayout::half_split}, **cache, 0);
    }) / calls;
    std::printf("%-46s %10.2f us\n", "rotary_store of 9/3 heads of 64", store * 1e6);
    const double attend = best_of(bench, 20, [&](int) { for (int i = 0; i < calls; ++i) bench.backend.attention(*x, nine, **cache, 0, *y, nullptr); }) / calls;
    std::printf("%-46s %10.2f us\n", "decode attention over 10 tokens", attend * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const unsigned threads = argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 2;
    auto backend = make_backend({"cpu", threads});
    if (!backend) {
        std::fprintf(stderr, "%s\n", backend.error().message().c_str());
        return 1;
    }
    std::atomic<std::uint64_t> counter{0};
    auto region = cpu::AlignedBytes::make(region_bytes, counter, "the weights of the benchmark");
    if (!region) {
        std::fprintf(stderr, "%s\n", region.error().message().c_str());
        return 1;
    }
    // Every 16-bit or 32-bit float that the bytes form is finite, smaller than 1 and no subnormal (those are slow).
    std::uint32_t random = 1;
    for (std::uint64_t i = 0; i < region_bytes; i += 4) {
        random = random * 1664525u + 1013904223u;
        const std::uint32_t word = ((random >> 3) & 0x39393939u) | 0x30003000u;
        std::memcpy(region->data() + i, &word, 4);
    }
    const DeviceInfo info = (*backend)->info();
    const Bench bench{**backend, (*backend)->measure_ceilings({}).read_bandwidth, region->data(), argc > 2 ? argv[2] : "", threads};
    std::printf("%s, %s\nread bandwidth %.1f GB/s (the best of several passes; shares below are of it)\n", info.name.c_str(),
                info.detail.c_str(), bench.bandwidth * 1e-9);
    if (bench.wants("small")) small_kernels(bench);
    if (bench.wants("products")) products(bench);
    if (bench.wants("smollm2")) smollm2_products(bench);
    if (bench.wants("attention")) attention(bench);
    if (bench.wants("formats")) formats(bench);
    if (bench.wants("prefill")) prefill(bench);
    return 0;
}
