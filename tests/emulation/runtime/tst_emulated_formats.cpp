// SPDX-License-Identifier: GPL-3.0-or-later
//
// Caches in every precision through the CUDA backend over an emulated card, against the scalar twins: written, read, attended, sealed,
// copied and swapped; and what an allocation of them takes.
#include "kernels/cuda/cache_layout.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/emulation/runtime/emulated_runtime.h"
#include "tests/support/backend_rows.h"
#include "tests/support/format_cases.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

Result<std::unique_ptr<Backend>> fresh_backend() {
    const std::string alive = emulation::set_up_runtime({});
    if (!alive.empty()) return Error{"the row before left behind " + alive, ""};
    return cuda::make_cuda_backend(0, {});
}

KvLayerShape layer(std::uint32_t heads, std::uint32_t dim, const KvFormat& keys, const KvFormat& values, std::uint32_t place) {
    return {heads, dim, dim, false, keys, values, place};
}

// Per layer, K and V apart, places shared by layers of different size, pages, scales: the bytes are those of the planes, each
// part rounded up to 256.
void bytes_of_a_mixed_cache(Check& check) {
    auto backend = fresh_backend();
    CHECK_THAT(bool(backend));
    KvFormat head_scales = KvFormat::of(DType::fp8_e4m3);
    head_scales.scale = KvScale::head;
    KvCacheShape shape;
    shape.blocks = 7;
    shape.block_size = 32;
    shape.residual_pages = 3;
    shape.layers = {layer(2, 64, KvFormat::of(DType::f16), KvFormat::of(DType::int8), 0), layer(3, 64, KvFormat::of(DType::kivi4), KvFormat::of(DType::kivi2), 1),
                    layer(4, 32, head_scales, KvFormat::of(DType::q5_1), 0), layer(1, 128, KvFormat::of(DType::fp8_e5m2), KvFormat::of(DType::f32), 2)};
    const auto up = [](std::uint64_t bytes) { return (bytes + 255) / 256 * 256; };
    const auto plane = [&](std::size_t i, bool values) {
        return values ? *shape.layers[i].value_plane(shape.block_size) : *shape.layers[i].key_plane(shape.block_size);
    };
    std::uint64_t want = 0, host = 0;
    for (const bool values : {false, true}) {
        const std::uint64_t shared = std::max(plane(0, values).block_bytes, plane(2, values).block_bytes);
        for (std::uint64_t block : {shared, plane(1, values).block_bytes, plane(3, values).block_bytes}) {
            want += up(7 * block);
            host += (block + 15) / 16 * 16;
        }
        want += up(3 * plane(1, values).residual_page_bytes);
    }
    want += up(4 * 4 + 4);  // scales: four heads of layer 2, one for the keys of layer 3
    auto cache = (*backend)->kv_cache(shape, Purpose::kv_cache);
    CHECK_THAT(bool(cache));
    CHECK_EQUAL((*cache)->bytes(), want);
    CHECK_EQUAL((*backend)->memory().kv_cache, want);
    auto blocks = (*backend)->host_blocks(**cache, 5);
    CHECK_THAT(bool(blocks));
    CHECK_EQUAL((*blocks)->bytes(), 5 * host);
    // Layers of one place share their blocks, and no byte is anybody else's.
    const auto layout = cuda::CacheLayout::of(shape);
    CHECK_THAT(bool(layout));
    CHECK_EQUAL(layout->keys(0).begin, layout->keys(2).begin);
    CHECK_EQUAL(layout->keys(0).block_stride, layout->keys(2).block_stride);
    CHECK_EQUAL(layout->block_parts().size(), std::size_t{6});  // K and V of three places; of two layouts in one the whole block
    CHECK_EQUAL(layout->page_parts().size(), std::size_t{2});
    CHECK_THAT(!layout->layer(0, nullptr).keys.in_rows || layout->keys(0).block_stride == plane(0, false).block_bytes);
    CHECK_EQUAL(layout->blocks_in(want - 1) < 7, true);
    CHECK_EQUAL(layout->blocks_in(want + (1 << 16)), 7u);
    CHECK_EQUAL(layout->blocks_in(100), 0u);
}

// What is sealed, copied and swapped of a cache whose layers differ reads as what was stored.
void mixed_layers_travel(Check& check) {
    auto backend = fresh_backend();
    CHECK_THAT(bool(backend));
    KvCacheShape shape;
    shape.blocks = 6;
    shape.block_size = 8;
    shape.layers = {layer(2, 64, KvFormat::of(DType::q8_0), KvFormat::of(DType::int4), 0), layer(1, 32, KvFormat::of(DType::f32), KvFormat::of(DType::bf16), 0),
                    layer(4, 16, KvFormat::of(DType::fp8_e5m2), KvFormat::of(DType::q4_1), 1)};
    auto cache = (*backend)->kv_cache(shape, Purpose::kv_cache);
    CHECK_THAT(bool(cache));
    auto host = (*backend)->host_blocks(**cache, 2);
    CHECK_THAT(bool(host));
    for (std::uint32_t block = 0; block < 6; ++block) (*backend)->poison_block(**cache, block);
    const auto read = [&](std::uint32_t of_layer, std::uint32_t block, std::uint32_t tokens) {
        const KvLayerShape& it = shape.layers[of_layer];
        std::vector<float> keys(std::size_t{tokens} * it.kv_heads * it.key_dim), values(keys.size());
        if (!(*backend)->read_block(**cache, of_layer, block, 0, tokens, keys, values)) return std::vector<float>{};
        keys.insert(keys.end(), values.begin(), values.end());
        return keys;
    };
    // A block belongs to one layer of a place at a time.
    for (std::uint32_t of_layer : {0u, 1u, 2u}) {
        const KvLayerShape& it = shape.layers[of_layer];
        const std::uint32_t block = 1 + of_layer;
        const std::size_t count = std::size_t{8} * it.kv_heads * it.key_dim;
        Batch batch;
        batch.block_tables = {block};
        batch.sequences = {{0, 8, 0, 0, 1}};
        for (std::uint32_t r = 0; r < 8; ++r) {
            batch.tokens.push_back(0);
            batch.positions.push_back(r);
            batch.slots.push_back(std::uint64_t{block} * 8 + r);
        }
        auto k = upload(**backend, random_floats(count, of_layer)), v = upload(**backend, random_floats(count, of_layer + 10));
        auto keys = upload(**backend, std::vector<float>(count)), values = upload(**backend, std::vector<float>(count));
        CHECK_THAT(bool((*backend)->begin_batch(batch)));
        (*backend)->store(*k, *v, 0, **cache, of_layer);
        (*backend)->load(**cache, of_layer, 0, 0, 2, 5, *keys, *values);
        const std::size_t width = std::size_t{it.kv_heads} * it.key_dim;
        const std::vector<float> loaded = download(**backend, *keys, 5 * width), stored = read(of_layer, block, 8);
        CHECK_EQUAL(stored.size(), 2 * count);
        for (std::size_t t = 0; t < 5; ++t)
            for (std::uint32_t head = 0; head < it.kv_heads; ++head)
                for (std::uint32_t i = 0; i < it.key_dim; ++i)
                    CHECK_EQUAL(loaded[t * width + head * it.key_dim + i], stored[(std::size_t{head} * 8 + t + 2) * it.key_dim + i]);
        (*backend)->copy_block(**cache, block, 5, 3);
        CHECK_THAT(read(of_layer, 5, 3) == read(of_layer, block, 3));
        (*backend)->swap_out(**cache, block, **host, 1, 8);
        (*backend)->poison_block(**cache, block);
        CHECK_THAT(std::isnan(read(of_layer, block, 1)[0]));
        (*backend)->swap_in(**cache, 4, **host, 1, 8);
        CHECK_THAT(read(of_layer, 4, 8) == stored);
    }
    CHECK_THAT(!(*backend)->read_block(**cache, 3, 0, 0, 1, {}, {}));
    CHECK_THAT(!(*backend)->read_block(**cache, 0, 0, 0, 1, {}, {}));  // no room
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    BackendSubject subject;
    subject.make = fresh_backend;
    std::vector<Row> rows{
        {"the bytes of a cache of different layers are those of its planes", bytes_of_a_mixed_cache},
        {"layers of different precisions are copied, swapped and read as they were stored", mixed_layers_travel},
    };
    append(rows, format_rows(subject));
    return rows;
}
