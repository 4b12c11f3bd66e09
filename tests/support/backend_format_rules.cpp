// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/backend_rows.h"
#include "tests/support/format_cases.h"

namespace kvloupe::test {

namespace {

// One head of `dim` in a cache of one layer: rows go in, rows come out.
class RowCache {
public:
    RowCache(Backend& backend, const KvFormat& format, std::uint32_t dim) : m_backend(backend), m_dim(dim) {
        KvCacheShape shape = KvCacheShape::uniform(1, 2, 16, 1, dim, DType::f16, DType::f16);
        shape.layers[0].keys = shape.layers[0].values = format;
        auto cache = backend.kv_cache(shape, Purpose::kv_cache);
        if (cache) m_cache = std::move(*cache);
    }
    KvCache* cache() { return m_cache.get(); }
    // Keys and values alike; what the keys come back as.
    std::vector<float> through(const std::vector<float>& rows) {
        const auto count = static_cast<std::uint32_t>(rows.size() / m_dim);
        Batch batch;
        batch.block_tables = {1};
        batch.sequences = {{0, count, 0, 0, 1}};
        for (std::uint32_t r = 0; r < count; ++r) {
            batch.tokens.push_back(0);
            batch.positions.push_back(r);
            batch.slots.push_back(16 + r);
        }
        auto q = upload(m_backend, rows), k = upload(m_backend, rows), v = upload(m_backend, rows);
        if (!m_backend.begin_batch(batch)) return {};
        AttentionShape shape;
        shape.query_heads = shape.kv_heads = 1;
        shape.head_dim = m_dim;
        m_backend.rotary_store(*q, *k, *v, shape, {}, *m_cache, 0);
        std::vector<float> keys(rows.size()), values(rows.size());
        if (!m_backend.read_block(*m_cache, 0, 1, 0, count, keys, values) || keys != values) return {};
        return keys;
    }

private:
    Backend& m_backend;
    std::uint32_t m_dim;
    std::unique_ptr<KvCache> m_cache;
};

// CACHE_SEMANTICS, Q1.
void q1_row(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    RowCache cache(*backend, KvFormat::of(DType::int8), 32);
    CHECK_THAT(cache.cache() != nullptr);
    std::vector<float> rows(32 * 4);
    const float scale = 0.25f;
    for (int i = 0; i < 32; ++i) rows[static_cast<std::size_t>(i)] = scale * static_cast<float>(i == 0 ? 127 : i - 16);  // codes themselves
    for (std::size_t i = 0; i < 32; ++i) rows[64 + i] = i == 0 ? -127.0f : static_cast<float>(i) - 15.5f;         // scale 1: ties
    const std::vector<float> spread = random_floats(32, 9, 3);
    std::copy(spread.begin(), spread.end(), rows.begin() + 96);
    const std::vector<float> got = cache.through(rows);
    CHECK_EQUAL(got.size(), rows.size());
    for (std::size_t i = 0; i < 32; ++i) CHECK_EQUAL(got[i], rows[i]);
    for (std::size_t i = 32; i < 64; ++i) CHECK_EQUAL(got[i], 0.0f);  // a row of zeros has the scale 1e-6, not 0
    for (std::size_t i = 65; i < 96; ++i) CHECK_EQUAL(got[i], rows[i] < 0 ? rows[i] - 0.5f : rows[i] + 0.5f);
    float largest = 0;
    for (std::size_t i = 96; i < 128; ++i) largest = std::max(largest, std::fabs(rows[i]));
    for (std::size_t i = 96; i < 128; ++i) CHECK_BELOW(std::fabs(got[i] - rows[i]), largest / 127 / 2 * 1.00001);
}

// Q3: what lies beyond the largest number becomes it and is counted.
void q3_row(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    for (const auto& [type, largest] : {std::pair{DType::fp8_e4m3, 448.0f}, std::pair{DType::fp8_e5m2, 57344.0f}}) {
        RowCache cache(*backend, KvFormat::of(type), 8);
        CHECK_THAT(cache.cache() != nullptr);
        const std::vector<float> got = cache.through({largest, -largest, largest * 1.01f, -largest * 3, 1e30f, largest * 0.99f, 0.0f, 1.0f});
        const std::vector<float> want = {largest, -largest, largest, -largest, largest, largest, 0.0f, 1.0f};
        CHECK_THAT(got == want);
        CHECK_THAT(bool(backend->synchronise()));
        CHECK_EQUAL(cache.cache()->overflowed_values(), 2u * 3u);  // keys and values
    }
}

// What is not finite shows, whatever the codes are.
void not_finite_row(const BackendSubject& subject, const KvFormat& format, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    RowCache cache(*backend, format, 32);
    CHECK_THAT(cache.cache() != nullptr);
    std::vector<float> row(32, 1.0f);
    row[7] = std::nanf("");
    const std::size_t count = 32;
    Batch batch;
    batch.tokens = {0};
    batch.positions = {0};
    batch.slots = {16};
    batch.block_tables = {1};
    batch.sequences = {{0, 1, 0, 0, 1}};
    auto q = upload(*backend, std::vector<float>(count, 1.0f)), k = upload(*backend, row), v = upload(*backend, std::vector<float>(count, 1.0f));
    auto out = upload(*backend, std::vector<float>(count));
    CHECK_THAT(bool(backend->begin_batch(batch)));
    AttentionShape shape;
    shape.query_heads = shape.kv_heads = 1;
    shape.head_dim = 32;
    shape.scale = 1;
    backend->rotary_store(*q, *k, *v, shape, {}, *cache.cache(), 0);
    backend->attention(*q, shape, *cache.cache(), 0, *out, nullptr);
    const std::vector<float> got = download(*backend, *out, count);
    CHECK_EQUAL(got.size(), count);
    for (const float value : got) CHECK_THAT(std::isnan(value));
}

// Layers that share a place take the memory of the larger one, and each its own blocks of it.
void place_row(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    KvCacheShape shape = KvCacheShape::uniform(3, 4, 8, 2, 32, DType::f16, DType::f16);
    shape.layers[1].kv_heads = 1;
    shape.layers[1].key_dim = shape.layers[1].value_dim = 64;
    shape.layers[1].keys = shape.layers[1].values = KvFormat::of(DType::int8);
    shape.layers[1].place = 0;
    shape.layers[2].place = 1;
    auto cache = backend->kv_cache(shape, Purpose::kv_cache);
    CHECK_THAT(bool(cache));
    const std::uint64_t one = 4 * 8 * 2 * 32 * 2 * 2;  // blocks, tokens, heads, values, bytes, K and V: the f16 layers are the larger ones
    CHECK_THAT((*cache)->bytes() >= 2 * one);
    CHECK_THAT((*cache)->bytes() < 3 * one);
    CHECK_EQUAL(backend->memory().kv_cache, (*cache)->bytes());
    // Group 0 (layers 0 and 2) owns block 1, group 1 (layer 1) block 2.
    std::vector<std::vector<float>> stored;
    for (std::uint32_t layer = 0; layer < 3; ++layer) {
        const std::uint64_t block = layer == 1 ? 2 : 1;
        Batch batch;
        batch.block_tables = {static_cast<std::uint32_t>(block)};
        batch.sequences = {{0, 8, 0, 0, 1}};
        for (std::uint32_t t = 0; t < 8; ++t) {
            batch.tokens.push_back(0);
            batch.positions.push_back(t);
            batch.slots.push_back(block * 8 + t);
        }
        stored.push_back(random_floats(8 * 64, 50 + layer));
        auto k = upload(*backend, stored.back()), v = upload(*backend, stored.back()), q = upload(*backend, stored.back());
        CHECK_THAT(bool(backend->begin_batch(batch)));
        AttentionShape attention;
        attention.query_heads = attention.kv_heads = shape.layers[layer].kv_heads;
        attention.head_dim = shape.layers[layer].key_dim;
        backend->rotary_store(*q, *k, *v, attention, {}, **cache, layer);
    }
    for (std::uint32_t layer = 0; layer < 3; ++layer) {
        std::vector<float> keys(8 * 64), values(8 * 64);
        CHECK_THAT(bool(backend->read_block(**cache, layer, layer == 1 ? 2 : 1, 0, 8, keys, values)));
        CHECK_THAT(keys == values);
        const std::uint32_t heads = shape.layers[layer].kv_heads, dim = shape.layers[layer].key_dim;
        for (std::uint32_t head = 0; head < heads; ++head)
            for (std::uint32_t t = 0; t < 8; ++t)
                CHECK_BELOW(relative_difference(keys.data() + (head * 8 + t) * dim, stored[layer].data() + (t * heads + head) * dim, dim), 5e-3);
    }
}

// Rows of their own widths, stored as they are and handed out again: latents of 64 values beside rotary keys of 32, one head.
void store_row(const BackendSubject& subject, const KvFormat& format, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    constexpr std::uint32_t key_dim = 64, value_dim = 32, block_size = 16, tokens = 37;
    KvCacheShape shape;
    shape.blocks = 5;
    shape.block_size = block_size;
    for (std::uint32_t layer = 0; layer < 2; ++layer) shape.layers.push_back({1, key_dim, value_dim, true, format, format, layer});
    if (format.keeps_residual()) shape.residual_pages = 5;
    auto cache = backend->kv_cache(shape, Purpose::kv_cache);
    CHECK_THAT(bool(cache));
    Batch batch;
    batch.block_tables = {3, 1, 4};
    batch.sequences = {{0, tokens, 0, 0, 3}};
    for (std::uint32_t t = 0; t < tokens; ++t) {
        batch.tokens.push_back(0);
        batch.positions.push_back(t);
        batch.slots.push_back(std::uint64_t{batch.block_tables[t / block_size]} * block_size + t % block_size);
        if (format.keeps_residual()) batch.slot_pages.push_back(batch.block_tables[t / block_size]);
    }
    if (format.keeps_residual()) batch.table_pages = batch.block_tables;
    const std::vector<float> k = random_floats(tokens * key_dim, 1), v = random_floats(tokens * value_dim, 2);
    auto k_buffer = upload(*backend, k), v_buffer = upload(*backend, v);
    CHECK_THAT(bool(backend->begin_batch(batch)));
    backend->store(*k_buffer, *v_buffer, 0, **cache, 1);
    constexpr std::uint32_t first = 9, count = 25;
    auto keys = upload(*backend, std::vector<float>(count * key_dim)), values = upload(*backend, std::vector<float>(count * value_dim));
    CHECK_THAT(bool(backend->begin_batch(batch)));
    backend->load(**cache, 1, 0, 0, first, count, *keys, *values);
    const std::vector<float> got_k = download(*backend, *keys, count * key_dim), got_v = download(*backend, *values, count * value_dim);
    // fp8's scale per head is that of the first batch, the whole of k and v.
    const auto head_scale = [&](const std::vector<float>& x) {
        float largest = 0;
        for (const float value : x) largest = std::max(largest, std::fabs(value));
        return format.scale != KvScale::head ? 1.0f : largest / (format.dtype == DType::fp8_e4m3 ? 448.0f : 57344.0f);
    };
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::span<const float> k_row(k.data() + (first + i) * key_dim, key_dim), v_row(v.data() + (first + i) * value_dim, value_dim);
        const auto want = format.keeps_residual()
                              ? cpu::scalar::RowPair{cpu::scalar::unsealed(format, k_row), cpu::scalar::unsealed(format, v_row)}
                              : cpu::scalar::kept({format, key_dim, k_row, head_scale(k)}, {format, value_dim, v_row, head_scale(v)});
        // A turned row may differ by the rounding of one of its codes.
        const double tolerance = format.rotate ? 2e-2 : 3e-7;
        CHECK_BELOW(relative_difference(got_k.data() + i * key_dim, want.k.data(), key_dim), tolerance);
        CHECK_BELOW(relative_difference(got_v.data() + i * value_dim, want.v.data(), value_dim), tolerance);
    }
}

// Out, overwritten, in again elsewhere; copies of a part leave the other slots alone.
void move_row(const BackendSubject& subject, const KvFormat& format, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    FormatCase c{format, format, 32, 16, {{48, 1}}};
    FilledCache filled(*backend, c);
    CHECK_EQUAL(filled.problem(), std::string());
    KvCache& cache = filled.cache();
    const std::uint32_t from = filled.batch().block_tables[0], to = filled.batch().block_tables[2];
    CHECK_EQUAL(filled.page_of(from), 0u);
    auto host = backend->host_blocks(cache, 2);
    CHECK_THAT(bool(host));
    std::uint64_t block_bytes = 0;
    for (const KvLayerShape& layer : cache.shape().layers) block_bytes += layer.key_plane(16)->block_bytes + layer.value_plane(16)->block_bytes;
    CHECK_THAT((*host)->bytes() >= 2 * block_bytes);
    const auto read = [&](std::uint32_t block, std::uint32_t tokens) {
        std::vector<float> keys(std::size_t{tokens} * 2 * 32), values(keys.size());
        if (!backend->read_block(cache, 1, block, 0, tokens, keys, values)) keys.clear();
        keys.insert(keys.end(), values.begin(), values.end());
        return keys;
    };
    const std::vector<float> whole = read(from, 16), part = read(from, 5);
    CHECK_THAT(std::none_of(whole.begin(), whole.end(), [](float v) { return std::isnan(v); }));
    backend->poison_block(cache, to);
    backend->copy_block(cache, from, to, 5);
    CHECK_THAT(read(to, 5) == part);
    const std::vector<float> longer = read(to, 6);
    CHECK_THAT(std::isnan(longer.back()));  // V of the slot behind them
    backend->copy_block(cache, from, to, 16);
    CHECK_THAT(read(to, 16) == whole);
    backend->swap_out(cache, from, **host, 1, 16);
    backend->swap_out(cache, from, **host, 0, 5);
    for (const std::uint32_t block : {from, to}) backend->poison_block(cache, block);
    const std::vector<float> poisoned = read(from, 16);
    for (const float value : poisoned) CHECK_THAT(std::isnan(value));
    backend->swap_in(cache, to, **host, 1, 16);
    CHECK_THAT(read(to, 16) == whole);
    CHECK_THAT(bool(backend->synchronise()));
    auto copies = backend->host_blocks(cache, 1);
    CHECK_THAT(bool(copies) && (*copies)->contents(0).size() >= block_bytes && (*copies)->contents(0).size() == (*host)->contents(1).size());
    std::ranges::copy((*host)->contents(1), (*copies)->contents(0).begin());
    backend->poison_block(cache, to);
    backend->swap_in(cache, to, **copies, 0, 16);
    CHECK_THAT(read(to, 16) == whole);
    backend->poison_block(cache, to);
    backend->swap_in(cache, to, **host, 0, 5);
    CHECK_THAT(read(to, 5) == part);
    CHECK_THAT(std::isnan(read(to, 6).back()));
}

void page_row(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    const KvFormat format = in_groups(DType::kivi4, 16);
    FilledCache filled(*backend, {format, format, 32, 16, {{20, 1}}});
    CHECK_EQUAL(filled.problem(), std::string());
    const std::uint32_t block = filled.batch().block_tables[0], page = filled.page_of(block);
    CHECK_THAT(page > 0);  // the only full block is the last full one: still in f16
    const auto read = [&](std::uint32_t of_page, std::uint32_t tokens) {
        std::vector<float> keys(std::size_t{tokens} * 2 * 32), values(keys.size());
        if (!backend->read_block(filled.cache(), 1, block, of_page, tokens, keys, values)) keys.clear();
        keys.insert(keys.end(), values.begin(), values.end());
        return keys;
    };
    std::uint32_t other = 1;
    while (other == page || other == filled.page_of(filled.batch().block_tables[1])) ++other;
    const std::vector<float> whole = read(page, 16);
    // To main memory, and back into another one.
    std::vector<std::byte> saved(backend->page_bytes(filled.cache())), nothing(saved.size());
    CHECK_EQUAL(saved.size(), std::size_t{2} * 2 * 16 * 2 * 32 * 2);  // layers, K and V, tokens, heads, values in f16
    CHECK_THAT(bool(backend->save_page(filled.cache(), page - 1, saved)));
    CHECK_THAT(std::isnan(read(other, 16).back()));
    CHECK_THAT(bool(backend->save_page(filled.cache(), other - 1, nothing)));
    CHECK_THAT(bool(backend->restore_page(filled.cache(), other - 1, saved)));
    CHECK_THAT(read(other, 16) == whole);
    CHECK_THAT(bool(backend->restore_page(filled.cache(), other - 1, nothing)));
    backend->copy_page(filled.cache(), page - 1, other - 1, 7);
    CHECK_THAT(read(other, 7) == read(page, 7));
    CHECK_THAT(std::isnan(read(other, 8).back()));
    backend->seal_block(filled.cache(), block, page - 1);
    for (const float value : read(page, 16)) CHECK_THAT(std::isnan(value));
    const std::vector<float> sealed = read(0, 16);
    CHECK_BELOW(relative_difference(sealed, whole, whole.size()), 0.1);
    CHECK_THAT(sealed != whole);
}

// Layers of two groups share a place: each seals its own block from its own page, and the other's stays as it is.
void shared_pages_row(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    const KvFormat format = in_groups(DType::kivi4, 16);
    KvCacheShape shape = KvCacheShape::uniform(2, 3, 16, 1, 32, DType::f16, DType::f16);
    shape.residual_pages = 2;
    for (KvLayerShape& layer : shape.layers) {
        layer.keys = layer.values = format;
        layer.place = 0;
    }
    auto cache = backend->kv_cache(shape, Purpose::kv_cache);
    CHECK_THAT(bool(cache));
    std::vector<std::vector<float>> stored;
    for (std::uint32_t layer = 0; layer < 2; ++layer) {
        Batch batch;
        batch.block_tables = {layer + 1};
        batch.sequences = {{0, 16, 0, 0, 1}};
        batch.table_pages = {2 - layer};
        for (std::uint32_t t = 0; t < 16; ++t) {
            batch.tokens.push_back(0);
            batch.positions.push_back(t);
            batch.slots.push_back((layer + 1) * 16 + t);
            batch.slot_pages.push_back(2 - layer);
        }
        stored.push_back(random_floats(16 * 32, 60 + layer));
        auto k = upload(*backend, stored.back()), v = upload(*backend, stored.back()), q = upload(*backend, stored.back());
        CHECK_THAT(bool(backend->begin_batch(batch)));
        AttentionShape attention;
        attention.query_heads = attention.kv_heads = 1;
        attention.head_dim = 32;
        backend->rotary_store(*q, *k, *v, attention, {}, **cache, layer);
    }
    for (std::uint32_t layer = 0; layer < 2; ++layer) backend->seal_block(**cache, layer + 1, 1 - layer);
    for (std::uint32_t layer = 0; layer < 2; ++layer) {
        std::vector<float> keys(16 * 32), values(16 * 32);
        CHECK_THAT(bool(backend->read_block(**cache, layer, layer + 1, 0, 16, keys, values)));
        const auto want_keys = cpu::scalar::sealed(format, KvPart::keys, stored[layer], 32);
        const auto want_values = cpu::scalar::sealed(format, KvPart::values, stored[layer], 32);
        CHECK_BELOW(relative_difference(keys, want_keys, keys.size()), 3e-7);
        CHECK_BELOW(relative_difference(values, want_values, values.size()), 3e-7);
    }
    shape.layers[1].keys = in_groups(DType::kivi2, 16);
    CHECK_THAT(!backend->kv_cache(shape, Purpose::kv_cache));
}

}  // namespace

std::vector<Row> format_rule_rows(const BackendSubject& subject) {
    std::vector<Row> rows;
    for (const KvFormat& format : {KvFormat::of(DType::int8), KvFormat::of(DType::int4), with_scale(DType::int8, KvScale::joint),
                                   with_scale(DType::int4, KvScale::joint), KvFormat::of(DType::fp8_e4m3), KvFormat::of(DType::fp8_e5m2)})
        rows.push_back({"a value that is not finite shows in what reads it: " + text_of(format),
                        [=](Check& check) { not_finite_row(subject, format, check); }});
    for (const KvFormat& format : all_formats()) {
        rows.push_back({"a block moves with its scales, whole and in part: " + text_of(format),
                        [=](Check& check) { move_row(subject, format, check); }});
        rows.push_back({"rows of unlike widths are stored and handed out: " + text_of(format),
                        [=](Check& check) { store_row(subject, format, check); }});
    }
    rows.push_back({"pages are copied, and spent once they are sealed", [=](Check& check) { page_row(subject, check); }});
    rows.push_back({"layers that share a place share its pages", [=](Check& check) { shared_pages_row(subject, check); }});
    rows.push_back({"int8 rounds as Q1 says", [=](Check& check) { q1_row(subject, check); }});
    rows.push_back({"fp8 saturates and counts as Q3 says", [=](Check& check) { q3_row(subject, check); }});
    rows.push_back({"layers that share a place share memory and nothing else", [=](Check& check) { place_row(subject, check); }});
    return rows;
}

}  // namespace kvloupe::test
