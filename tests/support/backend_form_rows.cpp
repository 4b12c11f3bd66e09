// SPDX-License-Identifier: GPL-3.0-or-later
//
// Forms of attention beside the usual one: caps, values of another width than keys, latents, scores kept whole.
#include "kernels/cpu/scalar.h"
#include "tests/support/backend_rows.h"
#include "tests/support/kernel_data.h"

namespace kvloupe::test {

namespace {

namespace scalar = cpu::scalar;

struct Form {
    std::string name;
    std::uint32_t query_heads = 4, kv_heads = 2, key_dim = 64, value_dim = 64;
    std::uint32_t rotary_dim = 0;  // with a latent: of the other part of a key; then key_dim is the latent's width
    float soft_cap = 0;
    AttentionForm form = AttentionForm::tiled;
    KeySpan span = {};
    DType k = DType::f32, v = DType::f32;
    std::vector<Piece> pieces = {{0, 1}, {300, 1}, {0, 21}, {250, 9}};
    bool rotate = false;           // rows are stored turned by a Hadamard matrix: the result is the same (Q4)

    bool latent() const { return rotary_dim > 0; }
};

std::vector<Form> forms() {
    KeySpan window, sinks, rank, chunk;
    window.window = 40;
    sinks.window = 40;
    sinks.sinks = 3;
    rank = sinks;
    rank.rank = true;
    chunk.chunk = 64;
    std::vector<Form> plain = {{"capped", 4, 2, 64, 64, 0, 2.5f},
                               {"values narrower than keys", 4, 4, 48, 32},
                               {"values wider than keys, capped, in a window", 4, 2, 32, 64, 0, 1.5f, AttentionForm::tiled, window},
                               {"values of an odd width", 2, 1, 24, 20},
                               {"a latent", 4, 1, 64, 64, 16},
                               {"a latent, one head", 1, 1, 32, 32, 32},
                               {"a latent, 20 heads", 20, 1, 64, 64, 8},
                               {"a latent, capped, in a window with sinks", 6, 1, 64, 64, 16, 2, AttentionForm::tiled, sinks},
                               {"a latent, by rank", 3, 1, 64, 64, 16, 0, AttentionForm::tiled, rank},
                               {"a latent, in chunks", 4, 1, 64, 64, 16, 0, AttentionForm::tiled, chunk},
                               {"a latent in f16, its rotary key in bf16", 4, 1, 64, 64, 16, 0, AttentionForm::tiled, {}, DType::f16, DType::bf16},
                               {"a latent of 512 and 64", 16, 1, 512, 512, 64, 0, AttentionForm::tiled, {}, DType::f16, DType::f16, {{270, 1}, {0, 3}}}};
    std::vector<Form> all = plain;
    plain.insert(plain.begin(), {Form{"as usual"}, Form{"in a window with sinks", 4, 2, 64, 64, 0, 0, AttentionForm::tiled, sinks},
                                 Form{"in f16", 6, 2, 64, 64, 0, 0, AttentionForm::tiled, {}, DType::f16, DType::f16}});
    for (Form form : {Form{"rows turned"}, Form{"a latent, rows turned", 4, 1, 64, 64, 16}, Form{"a latent, by rank, rows turned", 3, 1, 64, 64, 16, 0, AttentionForm::tiled, rank}}) {
        form.rotate = true;
        plain.push_back(form);
        all.push_back(form);
    }
    for (Form form : plain) {
        form.name += ", scores kept whole";
        form.form = AttentionForm::materialised;
        all.push_back(form);
    }
    return all;
}

AttentionShape shape_of(const Form& f) {
    AttentionShape shape;
    shape.query_heads = f.query_heads;
    shape.kv_heads = f.kv_heads;
    shape.head_dim = f.key_dim + f.rotary_dim;
    shape.value_dim = f.value_dim;
    shape.latent = f.latent();
    shape.scale = 1.0f / std::sqrt(static_cast<float>(f.key_dim));
    shape.soft_cap = f.soft_cap;
    shape.form = f.form;
    shape.span = f.span;
    shape.rotary = {10000, f.latent() ? f.rotary_dim : f.key_dim, RotaryLayout::adjacent};
    return shape;
}

struct Attended {
    std::vector<float> out;
    std::vector<double> expected;
    double probe_difference = 0;
    std::string problem;
};

// Everything of the sequences is stored first, as random rows by sequence and position; then the batch attends.
Attended attend(Backend& backend, const Form& f, std::uint32_t block_size, bool compare) {
    Attended result;
    std::uint32_t blocks = 0;
    const Batch batch = make_batch(f.pieces, block_size, 5, blocks);
    const std::uint32_t second = f.latent() ? f.rotary_dim : f.value_dim;  // width of what lies beside the keys
    KvCacheShape shape;
    shape.blocks = blocks;
    shape.block_size = block_size;
    KvFormat k_format = KvFormat::of(f.k), v_format = KvFormat::of(f.v);
    k_format.rotate = v_format.rotate = f.rotate;
    for (std::uint32_t layer = 0; layer < 2; ++layer)
        shape.layers.push_back({f.kv_heads, f.key_dim, second, f.latent(), k_format, v_format, layer});
    auto cache = backend.kv_cache(shape, Purpose::kv_cache);
    if (!cache) return result.problem = cache.error().sentence, result;
    for (std::uint32_t block = 0; block < blocks; ++block) backend.poison_block(**cache, block);
    const std::uint64_t slots = std::uint64_t{blocks} * block_size;
    std::vector<std::byte> key_bytes(row_bytes(f.k, slots * f.kv_heads * f.key_dim)), value_bytes(row_bytes(f.v, slots * f.kv_heads * second));
    const scalar::CacheView keys{key_bytes.data(), f.k, block_size, f.kv_heads, f.key_dim};
    const scalar::CacheView values{value_bytes.data(), f.v, block_size, f.kv_heads, second};
    for (std::uint32_t s = 0; s < batch.sequences.size(); ++s) {
        const Batch::Sequence& sequence = batch.sequences[s];
        const std::uint32_t tokens = sequence.first_position + sequence.rows;
        Batch fill;
        fill.block_tables = batch.block_tables;
        fill.sequences = {{0, tokens, 0, sequence.table_begin, sequence.table_size}};
        fill.tokens.assign(tokens, 0);
        for (std::uint32_t t = 0; t < tokens; ++t) {
            fill.positions.push_back(t);
            fill.slots.push_back(std::uint64_t{batch.block_tables[sequence.table_begin + t / block_size]} * block_size + t % block_size);
        }
        const std::vector<float> k = random_floats(std::size_t{tokens} * f.kv_heads * f.key_dim, 100 + s);
        const std::vector<float> v = random_floats(std::size_t{tokens} * f.kv_heads * second, 200 + s);
        auto k_buffer = upload(backend, k), v_buffer = upload(backend, v);
        if (!k_buffer || !v_buffer || !backend.begin_batch(fill)) return result.problem = "no batch", result;
        backend.store(*k_buffer, *v_buffer, 0, **cache, 1);  // layer 0 stays NaN, so that a wrong layer shows
        scalar::store(k.data(), fill.slots, keys);
        scalar::store(v.data(), fill.slots, values);
    }
    const AttentionShape attention = shape_of(f);
    const std::size_t count = std::size_t{batch.rows()} * f.query_heads * f.value_dim;
    const std::vector<float> q = random_floats(std::size_t{batch.rows()} * f.query_heads * attention.head_dim, 77);
    auto q_buffer = upload(backend, q), out = upload(backend, std::vector<float>(count + 8, 7.0f));
    AttentionProbe probe;
    probe.heads = {0, f.query_heads - 1};
    if (!q_buffer || !out || !backend.begin_batch(batch)) return result.problem = "no batch", result;
    backend.attention(*q_buffer, attention, **cache, 1, *out, &probe);
    result.out = download(backend, *out, count + 8);
    for (std::size_t i = count; i < count + 8; ++i)
        if (result.out.size() != count + 8 || result.out[i] != 7.0f) return result.problem = "something behind the end was written", result;
    result.out.resize(count);
    if (!compare) return result;
    result.expected.resize(count);
    scalar::attention(batch, q.data(), attention, keys, values, result.expected.data());
    for (std::uint32_t s = 0; s < batch.sequences.size(); ++s)
        for (std::uint32_t r = 0; r < batch.sequences[s].rows; ++r)
            for (std::size_t h = 0; h < probe.heads.size(); ++h) {
                const auto want = scalar::attention_weights(batch, q.data(), attention, keys, {s, r, probe.heads[h]}, &values);
                const auto& got = probe.weights[h][batch.sequences[s].first_row + r];
                if (got.size() != want.size()) return result.problem = "a watched row has another length", result;
                for (std::size_t t = 0; t < want.size(); ++t)
                    result.probe_difference = std::max(result.probe_difference, std::abs(static_cast<double>(got[t]) - want[t]));
            }
    return result;
}

void form_row(const BackendSubject& subject, const Form& form, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    const Attended first = attend(*backend, form, 16, true);
    CHECK_EQUAL(first.problem, std::string());
    CHECK_BELOW(relative_difference(first.out, first.expected, first.expected.size()), 3e-6);
    CHECK_BELOW(first.probe_difference, 3e-6);
    for (const std::uint32_t block_size : {1u, 7u, 64u}) {
        const Attended other = attend(*backend, form, block_size, false);
        CHECK_EQUAL(other.problem, std::string());
        CHECK_THAT(other.out == first.out);
    }
}

}  // namespace

std::vector<Row> form_rows(const BackendSubject& subject) {
    std::vector<Row> rows;
    for (const Form& form : forms())
        rows.push_back({"attention equals its twin, whatever the block size: " + form.name, [=](Check& check) { form_row(subject, form, check); }});
    return rows;
}

}  // namespace kvloupe::test
