// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/scalar.h"
#include "tests/support/backend_rows.h"
#include "tests/support/kernel_data.h"

namespace kvloupe::test {

namespace {

struct Case {
    std::string name;
    std::vector<Piece> pieces;
    std::uint32_t query_heads = 4, kv_heads = 2, head_dim = 64, block_size = 16;
    DType k = DType::f16, v = DType::f16;
    KeySpan span = {};
    RotaryShape rotary = {};  // rotary_dim 0: nothing is turned
};

AttentionShape shape_of(const Case& c) {
    AttentionShape shape;
    shape.query_heads = c.query_heads;
    shape.kv_heads = c.kv_heads;
    shape.head_dim = c.head_dim;
    shape.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    shape.span = c.span;
    shape.rotary = c.rotary;
    return shape;
}

// One chunk of one sequence as a batch, so that what lies before the step is in the cache.
Batch filling(const Case& c, const Batch& batch, std::uint32_t s) {
    const Batch::Sequence& sequence = batch.sequences[s];
    Batch fill;
    fill.block_tables = batch.block_tables;
    fill.sequences = {{0, sequence.first_position, 0, sequence.table_begin, sequence.table_size}};
    for (std::uint32_t t = 0; t < sequence.first_position; ++t) {
        fill.tokens.push_back(0);
        fill.positions.push_back(t);
        fill.slots.push_back(std::uint64_t{batch.block_tables[sequence.table_begin + t / c.block_size]} * c.block_size + t % c.block_size);
    }
    return fill;
}

std::vector<float> activations(std::uint32_t rows, std::uint32_t heads, std::uint32_t head_dim, unsigned seed) {
    return random_floats(std::size_t{rows} * heads * head_dim, seed);
}

struct Outcome {
    std::vector<float> out, q, k;      // attended; q and k as rotary_store left them
    AttentionProbe probe;
    std::string problem;
};

// Layer 1 of 2: layer 0 stays NaN, so that a wrong layer shows.
Outcome attend(Backend& backend, const Case& c) {
    Outcome outcome;
    std::uint32_t blocks = 0;
    const Batch batch = make_batch(c.pieces, c.block_size, 5, blocks);
    auto cache = backend.kv_cache(KvCacheShape::uniform(2, blocks, c.block_size, c.kv_heads, c.head_dim, c.k, c.v), Purpose::kv_cache);
    if (!cache) return outcome.problem = cache.error().sentence, outcome;
    for (std::uint32_t block = 0; block < blocks; ++block) backend.poison_block(**cache, block);
    const AttentionShape shape = shape_of(c);
    for (std::uint32_t s = 0; s < batch.sequences.size(); ++s) {
        const std::uint32_t before = batch.sequences[s].first_position;
        if (before == 0) continue;
        auto q = upload(backend, activations(before, c.query_heads, c.head_dim, 1000 + s));
        auto k = upload(backend, activations(before, c.kv_heads, c.head_dim, 2000 + s));
        auto v = upload(backend, activations(before, c.kv_heads, c.head_dim, 3000 + s));
        if (auto begun = backend.begin_batch(filling(c, batch, s)); !begun) return outcome.problem = begun.error().sentence, outcome;
        backend.rotary_store(*q, *k, *v, shape, c.rotary, **cache, 1);
    }
    auto q = upload(backend, activations(batch.rows(), c.query_heads, c.head_dim, 1));
    auto k = upload(backend, activations(batch.rows(), c.kv_heads, c.head_dim, 2));
    auto v = upload(backend, activations(batch.rows(), c.kv_heads, c.head_dim, 3));
    const std::size_t count = std::size_t{batch.rows()} * c.query_heads * c.head_dim;
    auto out = upload(backend, std::vector<float>(count, std::nanf("")));
    if (auto begun = backend.begin_batch(batch); !begun) return outcome.problem = begun.error().sentence, outcome;
    backend.rotary_store(*q, *k, *v, shape, c.rotary, **cache, 1);
    outcome.probe.heads = {0, c.query_heads - 1};
    backend.attention(*q, shape, **cache, 1, *out, &outcome.probe);
    outcome.out = download(backend, *out, count);
    outcome.q = download(backend, *q, count);
    outcome.k = download(backend, *k, std::size_t{batch.rows()} * c.kv_heads * c.head_dim);
    if (auto done = backend.synchronise(); !done) outcome.problem = done.error().sentence;
    return outcome;
}

struct Reference {
    std::vector<double> out;
    std::vector<float> q, k;
    std::vector<std::vector<std::vector<double>>> probe;
};

Reference reference(const Case& c) {
    Reference result;
    std::uint32_t blocks = 0;
    const Batch batch = make_batch(c.pieces, c.block_size, 5, blocks);
    const std::uint64_t elements = std::uint64_t{blocks} * c.block_size * c.kv_heads * c.head_dim;
    std::vector<std::byte> key_bytes(row_bytes(c.k, elements), std::byte{0xFF}), value_bytes(row_bytes(c.v, elements), std::byte{0xFF});
    const cpu::scalar::CacheView keys{key_bytes.data(), c.k, c.block_size, c.kv_heads, c.head_dim};
    const cpu::scalar::CacheView values{value_bytes.data(), c.v, c.block_size, c.kv_heads, c.head_dim};
    const auto turn = [&](std::vector<float>& x, const std::vector<std::uint32_t>& positions, std::uint32_t heads) {
        if (c.rotary.rotary_dim > 0) cpu::scalar::rotate(x.data(), positions, heads, c.head_dim, c.rotary);
    };
    for (std::uint32_t s = 0; s < batch.sequences.size(); ++s) {
        const std::uint32_t before = batch.sequences[s].first_position;
        const Batch fill = filling(c, batch, s);
        std::vector<float> k = activations(before, c.kv_heads, c.head_dim, 2000 + s);
        turn(k, fill.positions, c.kv_heads);
        cpu::scalar::store(k.data(), fill.slots, keys);
        cpu::scalar::store(activations(before, c.kv_heads, c.head_dim, 3000 + s).data(), fill.slots, values);
    }
    result.q = activations(batch.rows(), c.query_heads, c.head_dim, 1);
    result.k = activations(batch.rows(), c.kv_heads, c.head_dim, 2);
    turn(result.q, batch.positions, c.query_heads);
    turn(result.k, batch.positions, c.kv_heads);
    cpu::scalar::store(result.k.data(), batch.slots, keys);
    cpu::scalar::store(activations(batch.rows(), c.kv_heads, c.head_dim, 3).data(), batch.slots, values);
    result.out.resize(result.q.size());
    const AttentionShape shape = shape_of(c);
    cpu::scalar::attention(batch, result.q.data(), shape, keys, values, result.out.data());
    for (const std::uint32_t head : {0u, c.query_heads - 1}) {
        auto& rows = result.probe.emplace_back();
        for (std::uint32_t s = 0; s < batch.sequences.size(); ++s)
            for (std::uint32_t r = 0; r < batch.sequences[s].rows; ++r)
                rows.push_back(cpu::scalar::attention_weights(batch, result.q.data(), shape, keys, {s, r, head}));
    }
    return result;
}

// Sums are f32. Where keys are turned on the device, a rounding to the cache's precision may go the other way; where several
// rows of a sequence are attended, queries and weights are rounded to the cache's precision for the tensor cores.
double tolerance(const Case& c) {
    const bool several = std::any_of(c.pieces.begin(), c.pieces.end(), [](const Piece& piece) { return piece.rows > 1; });
    const auto of = [&](DType type) { return type == DType::f32 ? 1e-5 : type == DType::f16 ? 2e-3 : 1.6e-2; };
    if (several || c.rotary.rotary_dim > 0) return std::max(of(c.k), of(c.v));
    return 1e-5;
}

void attention_row(const BackendSubject& subject, const Case& c, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    const Outcome got = attend(*backend, c);
    CHECK_EQUAL(got.problem, std::string());
    const Reference want = reference(c);
    CHECK_BELOW(relative_difference(got.q, want.q, want.q.size()), 2e-6);
    CHECK_BELOW(relative_difference(got.k, want.k, want.k.size()), 2e-6);
    CHECK_BELOW(relative_difference(got.out, want.out, want.out.size()), tolerance(c));
    CHECK_EQUAL(got.probe.weights.size(), std::size_t{2});
    for (std::size_t h = 0; h < 2; ++h) {
        CHECK_EQUAL(got.probe.weights[h].size(), want.probe[h].size());
        for (std::size_t r = 0; r < want.probe[h].size(); ++r) {
            CHECK_EQUAL(got.probe.weights[h][r].size(), want.probe[h][r].size());
            for (std::size_t t = 0; t < want.probe[h][r].size(); ++t) {
                CHECK_BELOW(std::abs(static_cast<double>(got.probe.weights[h][r][t]) - want.probe[h][r][t]), tolerance(c));
                if (want.probe[h][r][t] == 0.0) CHECK_EQUAL(got.probe.weights[h][r][t], 0.0f);
            }
        }
    }
    // And against the CPU's own kernels over the same inputs.
    auto cpu_backend = cpu::make_cpu_backend(2);
    CHECK_THAT(bool(cpu_backend));
    CHECK_BELOW(relative_difference(got.out, attend(**cpu_backend, c).out, want.out.size()), tolerance(c));
}

void block_size_row(const BackendSubject& subject, Case c, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    c.block_size = 16;
    const Outcome first = attend(*backend, c);
    CHECK_EQUAL(first.problem, std::string());
    for (const std::uint32_t size : {1u, 8u, 32u, 256u}) {
        c.block_size = size;
        const Outcome other = attend(*backend, c);
        CHECK_EQUAL(other.problem, std::string());
        CHECK_THAT(first.out == other.out);
    }
}

}  // namespace

std::vector<Row> attention_rows(const BackendSubject& subject) {
    std::vector<Row> rows;
    const auto add = [&](const Case& c) {
        rows.push_back({"attention equals the double reference: " + c.name, [=](Check& check) { attention_row(subject, c, check); }});
    };
    const std::uint32_t far = subject.large ? 5000 : 130;
    const std::vector<Piece> mixed{{0, 1}, {far, 1}, {0, 21}, {70, 9}, {63, 1}, {0, 65}};
    const RotaryShape half{10000, 64, RotaryLayout::half_split}, pairs{500000, 64, RotaryLayout::adjacent}, part{10000, 32, RotaryLayout::half_split};
    for (const DType k : float_types)
        for (const DType v : float_types) add({std::string(name_of(k)) + " keys, " + std::string(name_of(v)) + " values", {{0, 1}, {far, 1}}, 4, 2, 64, 16, k, v, {}, {}});
    for (const DType type : float_types) add({"decodes and prefills together in " + std::string(name_of(type)), mixed, 4, 2, 64, 16, type, type, {}, {}});
    add({"turned half by half", mixed, 4, 2, 64, 16, DType::f32, DType::f32, {}, half});
    add({"turned pair by pair", mixed, 4, 2, 64, 16, DType::f16, DType::f16, {}, pairs});
    add({"a part of the head is turned", mixed, 4, 2, 64, 16, DType::bf16, DType::bf16, {}, part});
    for (const std::uint32_t dim : {80u, 96u, 128u, 256u}) add({"heads of " + std::to_string(dim), {{far, 1}, {3, 1}, {5, 20}}, 2, 1, dim, 16, DType::f16, DType::f16, {}, {}});
    add({"one KV head for eight", {{far, 1}, {17, 1}, {0, 12}}, 8, 1, 64, 16, DType::f16, DType::f16, {}, {}});
    add({"as many KV heads as queries", {{far, 1}, {17, 1}, {0, 12}}, 3, 3, 64, 16, DType::f16, DType::f16, {}, {}});
    add({"three queries a KV head", {{far, 1}, {17, 1}, {0, 12}}, 9, 3, 64, 16, DType::f16, DType::f16, {}, {}});
    add({"a window of 20", mixed, 4, 2, 64, 16, DType::f16, DType::f16, {20, 0, 0, false}, {}});
    add({"a window of 20 and 4 sinks", mixed, 4, 2, 64, 16, DType::f16, DType::f16, {20, 4, 0, false}, half});
    add({"sinks read by rank", mixed, 4, 2, 64, 16, DType::f32, DType::f32, {20, 4, 0, true}, half});
    add({"chunks of 32", mixed, 4, 2, 64, 16, DType::f16, DType::f16, {0, 0, 32, false}, {}});
    for (const Piece piece : {Piece{14, 1}, Piece{15, 1}, Piece{16, 1}, Piece{63, 1}, Piece{64, 1}})
        add({std::to_string(piece.before + 1) + " tokens", {piece}, 4, 2, 64, 16, DType::f16, DType::f16, {}, {}});
    for (const DType type : float_types)
        rows.push_back({"attention is the same for every block size, bit for bit, in " + std::string(name_of(type)), [=](Check& check) {
                            block_size_row(subject, {"", {{0, 1}, {far, 1}, {0, 40}, {50, 9}}, 4, 2, 64, 16, type, type, {}, {}}, check);
                        }});
    return rows;
}

}  // namespace kvloupe::test
