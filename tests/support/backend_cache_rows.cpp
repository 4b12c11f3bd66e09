// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/backend_rows.h"
#include "tests/support/kernel_data.h"

namespace kvloupe::test {

namespace {

constexpr std::uint32_t kv_heads = 2, head_dim = 32, block_size = 8, layers = 3;

AttentionShape shape() {
    AttentionShape shape;
    shape.query_heads = shape.kv_heads = kv_heads;
    shape.head_dim = head_dim;
    shape.scale = 0.2f;
    return shape;
}

// Row r of one sequence at position r, in consecutive slots of `block`.
Batch in_block(std::uint32_t block, std::uint32_t rows, std::uint32_t first) {
    Batch batch;
    batch.block_tables = {block};
    batch.sequences = {{0, rows, first, 0, 1}};
    for (std::uint32_t r = 0; r < rows; ++r) {
        batch.tokens.push_back(0);
        batch.positions.push_back(first + r);
        batch.slots.push_back(std::uint64_t{block} * block_size + first + r);
    }
    return batch;
}

class Pool {
public:
    Pool(Backend& backend, DType k, DType v) : m_backend(backend) {
        auto cache = backend.kv_cache(KvCacheShape::uniform(layers, 6, block_size, kv_heads, head_dim, k, v), Purpose::kv_cache);
        if (cache) m_cache = std::move(*cache);
    }
    KvCache* cache() { return m_cache.get(); }
    // Random keys and values in all slots of a block, all layers.
    void fill(std::uint32_t block, unsigned seed) {
        for (std::uint32_t layer = 0; layer < layers; ++layer) {
            const std::size_t count = std::size_t{block_size} * kv_heads * head_dim;
            auto q = upload(m_backend, random_floats(count, 1));
            auto k = upload(m_backend, random_floats(count, seed + 10 * layer));
            auto v = upload(m_backend, random_floats(count, seed + 10 * layer + 5));
            if (m_backend.begin_batch(in_block(block, block_size, 0))) m_backend.rotary_store(*q, *k, *v, shape(), {}, *m_cache, layer);
        }
    }
    // What a query at position tokens - 1 sees in a block, of all layers: a digest of its first `tokens` slots.
    std::vector<float> look(std::uint32_t block, std::uint32_t tokens) {
        std::vector<float> all;
        for (std::uint32_t layer = 0; layer < layers; ++layer) {
            const std::size_t count = std::size_t{kv_heads} * head_dim;
            auto q = upload(m_backend, random_floats(count, 77)), out = upload(m_backend, std::vector<float>(count));
            if (!m_backend.begin_batch(in_block(block, 1, tokens - 1))) return {};
            m_backend.attention(*q, shape(), *m_cache, layer, *out, nullptr);
            const std::vector<float> seen = download(m_backend, *out, count);
            all.insert(all.end(), seen.begin(), seen.end());
        }
        return all;
    }

private:
    Backend& m_backend;
    std::unique_ptr<KvCache> m_cache;
};

bool all_nan(const std::vector<float>& values) {
    return !values.empty() && std::all_of(values.begin(), values.end(), [](float v) { return std::isnan(v); });
}

void copy_row(const BackendSubject& subject, DType k, DType v, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    Pool pool(*backend, k, v);
    CHECK_THAT(pool.cache() != nullptr);
    for (std::uint32_t block = 0; block < 6; ++block) backend->poison_block(*pool.cache(), block);
    pool.fill(2, 100);
    const std::vector<float> whole = pool.look(2, block_size), part = pool.look(2, 5);
    CHECK_THAT(all_nan(pool.look(3, 1)));
    backend->copy_block(*pool.cache(), 2, 4, block_size);
    CHECK_THAT(pool.look(4, block_size) == whole);
    backend->copy_block(*pool.cache(), 2, 3, 5);  // slots 5.. stay what they were
    CHECK_THAT(pool.look(3, 5) == part);
    CHECK_THAT(all_nan(pool.look(3, 6)));
    backend->copy_block(*pool.cache(), 2, 2, block_size);
    backend->copy_block(*pool.cache(), 2, 5, 0);
    CHECK_THAT(pool.look(2, block_size) == whole);
    CHECK_THAT(all_nan(pool.look(5, 1)));
    backend->poison_block(*pool.cache(), 4);
    CHECK_THAT(all_nan(pool.look(4, 1)));
    CHECK_THAT(pool.look(2, block_size) == whole && pool.look(3, 5) == part);  // its neighbours live on
}

void swap_row(const BackendSubject& subject, DType k, DType v, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    Pool pool(*backend, k, v);
    CHECK_THAT(pool.cache() != nullptr);
    auto host = backend->host_blocks(*pool.cache(), 3);
    CHECK_THAT(bool(host));
    CHECK_EQUAL((*host)->count(), 3u);
    CHECK_EQUAL(backend->memory().host_blocks, (*host)->bytes());
    CHECK_THAT((*host)->bytes() >= std::uint64_t{3} * layers * kv_heads * block_size * (row_bytes(k, head_dim) + row_bytes(v, head_dim)));
    pool.fill(1, 200);
    pool.fill(2, 300);
    const std::vector<float> first = pool.look(1, block_size), second = pool.look(2, 3);
    backend->swap_out(*pool.cache(), 1, **host, 2, block_size);
    backend->swap_out(*pool.cache(), 2, **host, 0, 3);
    for (std::uint32_t block = 0; block < 6; ++block) backend->poison_block(*pool.cache(), block);
    backend->swap_in(*pool.cache(), 5, **host, 2, block_size);
    backend->swap_in(*pool.cache(), 3, **host, 0, 3);
    CHECK_THAT(pool.look(5, block_size) == first);
    CHECK_THAT(pool.look(3, 3) == second);
    CHECK_THAT(all_nan(pool.look(3, 4)));
    host->reset();
    CHECK_EQUAL(backend->memory().host_blocks, 0u);
}

void overflow_row(const BackendSubject& subject, DType type, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    Pool pool(*backend, type, type), other(*backend, type, type);
    CHECK_THAT(pool.cache() && other.cache());
    const std::size_t count = std::size_t{2} * kv_heads * head_dim;
    std::vector<float> keys(count, 1.0f), values(count, 2.0f);
    keys[0] = 1e6f, keys[40] = -65520.0f, keys[41] = 65519.0f, values[7] = std::numeric_limits<float>::max(), values[8] = std::numeric_limits<float>::infinity();
    values[9] = std::nanf("");
    auto q = upload(*backend, values), k = upload(*backend, keys), v = upload(*backend, values);
    CHECK_THAT(bool(backend->begin_batch(in_block(1, 2, 0))));
    backend->rotary_store(*q, *k, *v, shape(), {}, *pool.cache(), 0);
    CHECK_THAT(bool(backend->synchronise()));
    const std::uint64_t expected = type == DType::f16 ? 3 : type == DType::bf16 ? 1 : 0;
    CHECK_EQUAL(pool.cache()->overflowed_values(), expected);
    backend->rotary_store(*q, *k, *v, shape(), {}, *pool.cache(), 1);
    CHECK_THAT(bool(backend->synchronise()));
    CHECK_EQUAL(pool.cache()->overflowed_values(), 2 * expected);
    CHECK_EQUAL(other.cache()->overflowed_values(), 0u);
    Pool again(*backend, type, type);  // may get a counter that was used before
    CHECK_EQUAL(again.cache()->overflowed_values(), 0u);
}

void shape_row(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    const KvCacheShape good = KvCacheShape::uniform(2, 4, 16, 2, 32, DType::f16, DType::bf16);
    const auto refused = [&](auto&& spoil) {
        KvCacheShape wrong = good;
        spoil(wrong);
        const auto made = backend->kv_cache(wrong, Purpose::kv_cache);
        return !made && !made.error().sentence.empty() && !made.error().hint.empty();
    };
    CHECK_THAT(refused([](KvCacheShape& s) { s.layers.clear(); }));
    CHECK_THAT(refused([](KvCacheShape& s) { s.blocks = 0; }));
    CHECK_THAT(refused([](KvCacheShape& s) { s.block_size = 0; }));
    CHECK_THAT(refused([](KvCacheShape& s) { s.layers[1].kv_heads = 0; }));
    CHECK_THAT(refused([](KvCacheShape& s) { s.layers[0].key_dim = 0; }));
    CHECK_THAT(refused([](KvCacheShape& s) { s.layers[0].keys = KvFormat::of(DType::q4_k); }));
    CHECK_THAT(refused([](KvCacheShape& s) { s.blocks = s.block_size = s.layers[0].kv_heads = s.layers[0].key_dim = 0xFFFFFFFF; }));
    CHECK_THAT(refused([](KvCacheShape& s) { s.blocks = s.block_size = 0xFFFFFFFF; }));
    CHECK_EQUAL(backend->memory().kv_cache, 0u);
}

void memory_row(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    const MemoryCounters before = backend->memory();
    CHECK_EQUAL(before.weights, 0u);
    CHECK_EQUAL(before.kv_cache, 0u);
    const StoredMatrix matrix(DType::q4_0, 64, 96, 1);
    auto weight = backend->weight(matrix.tensor());
    auto buffer = backend->buffer(1000, Purpose::activations);
    auto cache = backend->kv_cache(KvCacheShape::uniform(2, 5, 16, 2, 32, DType::f16, DType::f32), Purpose::kv_cache);
    auto scratch = backend->kv_cache(KvCacheShape::uniform(1, 5, 16, 2, 32, DType::f16, DType::f16), Purpose::activations);
    CHECK_THAT(bool(weight) && bool(buffer) && bool(cache) && bool(scratch));
    CHECK_EQUAL(backend->memory().weights, (*weight)->bytes());
    CHECK_EQUAL(backend->memory().kv_cache, (*cache)->bytes());
    CHECK_THAT(backend->memory().activations >= before.activations + 1000 + (*scratch)->bytes());
    CHECK_THAT((*cache)->bytes() >= std::uint64_t{2} * 5 * 16 * 2 * 32 * (2 + 4));
    weight->reset();
    buffer->reset();
    cache->reset();
    scratch->reset();
    CHECK_EQUAL(backend->memory().weights, 0u);
    CHECK_EQUAL(backend->memory().kv_cache, 0u);
    const DeviceInfo info = backend->info();
    CHECK_EQUAL(info.id, subject.device);
    CHECK_THAT(!info.name.empty() && info.memory_bytes > 0 && info.free_bytes > 0 && info.free_bytes <= info.memory_bytes);
}

}  // namespace

std::vector<Row> cache_rows(const BackendSubject& subject) {
    std::vector<Row> rows;
    const auto add = [&](const std::string& name, auto run) { rows.push_back({name, [=](Check& check) { run(check); }}); };
    for (const auto& pair : {std::pair{DType::f16, DType::f16}, {DType::f32, DType::bf16}, {DType::bf16, DType::f32}}) {
        const DType k = pair.first, v = pair.second;
        const std::string types = std::string(name_of(k)) + " keys, " + std::string(name_of(v)) + " values";
        add("a block is copied, whole and in part: " + types, [=](Check& c) { copy_row(subject, k, v, c); });
        add("a block comes back from main memory as it went: " + types, [=](Check& c) { swap_row(subject, k, v, c); });
    }
    for (const DType type : float_types)
        add("values beyond the range of " + std::string(name_of(type)) + " are counted, cache by cache",
            [=](Check& c) { overflow_row(subject, type, c); });
    add("a cache that cannot be is refused with its numbers", [=](Check& c) { shape_row(subject, c); });
    add("memory is counted as it is taken and given back", [=](Check& c) { memory_row(subject, c); });
    return rows;
}

}  // namespace kvloupe::test
