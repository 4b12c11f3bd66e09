// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/backend_rows.h"
#include "tests/support/format_cases.h"

namespace kvloupe::test {

namespace {

constexpr std::uint32_t head_sizes[] = {16, 64, 80, 96, 128, 256};

bool by_itself(const BackendSubject& subject) { return subject.device == "cpu"; }

// A decode within one tile, one across tiles, a prompt and a chunk of one; few tokens where a card is interpreted.
std::vector<Piece> pieces_for(const BackendSubject& subject) {
    if (by_itself(subject)) return {{0, 1}, {300, 1}, {0, 21}, {250, 9}};
    return subject.large ? std::vector<Piece>{{0, 1}, {5000, 1}, {0, 65}, {70, 9}} : std::vector<Piece>{{0, 1}, {70, 1}, {0, 9}, {33, 5}};
}

std::string text_of_case(const FormatCase& c) {
    std::string text = text_of(c.keys);
    if (c.keys != c.values) text += " keys, " + text_of(c.values) + " values";
    return text;
}

// What a read hands out against what the twin keeps. A row that is turned is summed in another order than the twin's, so
// now and then a value lies on the other side of a rounding: few rows may.
void compare_blocks(Backend& backend, FilledCache& filled, const FormatCase& c, Check& check) {
    std::size_t rows = 0, apart = 0;
    for (std::uint32_t block = 1; block < filled.blocks(); ++block) {
        const std::uint32_t tokens = filled.tokens_in(block);
        const std::size_t of_head = std::size_t{tokens} * c.head_dim;
        std::vector<float> keys(of_head * c.kv_heads), values(of_head * c.kv_heads);
        CHECK_THAT(bool(backend.read_block(filled.cache(), 1, block, filled.page_of(block), tokens, keys, values)));
        for (const KvPart part : {KvPart::keys, KvPart::values})
            for (std::uint32_t head = 0; head < c.kv_heads; ++head) {
                const std::vector<float> want = filled.kept(part, block, head);
                const float* got = (part == KvPart::keys ? keys : values).data() + head * of_head;
                const KvFormat& format = part == KvPart::keys ? c.keys : c.values;
                for (std::uint32_t t = 0; t < tokens; ++t, ++rows) {
                    const double off = relative_difference(got + t * c.head_dim, want.data() + t * c.head_dim, c.head_dim);
                    if (!format.rotate) CHECK_BELOW(off, 3e-7);
                    if (is_float(format.dtype)) CHECK_BELOW(off, 1e-3);  // steps of f16 are so fine that many roundings differ
                    else apart += !(off < 2e-6);
                }
            }
    }
    CHECK_THAT(rows > 0);
    CHECK_THAT(apart * 200 <= rows);
}

void format_row(const BackendSubject& subject, FormatCase c, const std::vector<std::uint32_t>& sizes, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    c.pieces = pieces_for(subject);
    std::vector<float> first;
    for (const std::uint32_t size : sizes) {
        c.block_size = size;
        FilledCache filled(*backend, c);
        CHECK_EQUAL(filled.problem(), std::string());
        compare_blocks(*backend, filled, c, check);
        if (!check.good()) return;
        const std::vector<float> got = filled.attend();
        const std::vector<double> want = filled.expected();
        CHECK_EQUAL(got.size(), want.size());
        const bool turned = c.keys.rotate || c.values.rotate;
        // On a card several rows of a sequence meet on tensor cores, which take 16-bit numbers.
        CHECK_BELOW(relative_difference(got, want, want.size()), !by_itself(subject) ? 2e-3 : turned ? 1e-3 : 1e-5);
        // What a group of tokens shares, or a block keeps in f16, follows the blocks; nothing else does.
        if (c.keys.keeps_residual() || c.values.keeps_residual()) continue;
        if (first.empty()) first = got;
        CHECK_THAT(got == first);
    }
}

// Nothing is read of a block that holds masked keys alone: the tables name the null block there, which is NaN.
void window_row(const BackendSubject& subject, FormatCase c, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    c.pieces = {{90, 1}, {70, 3}};
    c.span.window = 20;
    FilledCache filled(*backend, c);
    CHECK_EQUAL(filled.problem(), std::string());
    Batch batch = filled.batch();
    for (const Batch::Sequence& sequence : batch.sequences)
        for (std::uint32_t block = 0; block < (sequence.first_position - 19) / c.block_size; ++block) batch.block_tables[sequence.table_begin + block] = 0;
    const std::vector<float> want = filled.attend();
    const std::size_t count = want.size();
    auto q = upload(*backend, random_floats(count, 1)), out = upload(*backend, std::vector<float>(count));
    CHECK_THAT(bool(backend->begin_batch(batch)));
    backend->attention(*q, filled.shape(), filled.cache(), 1, *out, nullptr);
    const std::vector<float> got = download(*backend, *out, count);
    CHECK_THAT(std::all_of(got.begin(), got.end(), [](float v) { return std::isfinite(v); }));
    CHECK_THAT(got == want);
    CHECK_BELOW(relative_difference(got, filled.expected(), count), by_itself(subject) ? 1e-5 : 2e-3);
}

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

}  // namespace

std::vector<Row> format_rows(const BackendSubject& subject) {
    std::vector<Row> rows;
    const std::vector<std::uint32_t> all_sizes = by_itself(subject) || subject.large ? std::vector<std::uint32_t>{16, 1, 8, 32} : std::vector<std::uint32_t>{16, 8};
    const auto add = [&](const FormatCase& c, const std::vector<std::uint32_t>& sizes) {
        rows.push_back({"what is stored reads back as its twin says and attends as the double reference: " + text_of_case(c) + ", heads of " + std::to_string(c.head_dim),
                        [=](Check& check) { format_row(subject, c, sizes, check); }});
    };
    for (const KvFormat& format : unpaged_formats())
        for (const std::uint32_t dim : head_sizes) add({format, format, dim, 16, {}}, all_sizes);
    const KvFormat int8 = KvFormat::of(DType::int8), q4_0 = KvFormat::of(DType::q4_0), f16 = KvFormat::of(DType::f16);
    for (const KvFormat& format : {int8, with_scale(DType::int4, KvScale::joint), KvFormat::of(DType::int4), q4_0, with_scale(DType::fp8_e4m3, KvScale::head), f16})
        for (const std::uint32_t dim : {16u, 64u, 128u}) add({rotated(format), rotated(format), dim, 16, {}}, all_sizes);
    add({KvFormat::of(DType::int4), f16, 64, 16, {}}, all_sizes);
    add({f16, q4_0, 64, 16, {}}, all_sizes);
    add({rotated(q4_0), int8, 64, 16, {}}, all_sizes);
    add({int8, rotated(f16), 64, 16, {}}, all_sizes);
    for (const DType type : {DType::kivi2, DType::kivi4})
        for (const std::uint32_t group : {8u, 16u, 32u})
            for (const std::uint32_t dim : head_sizes) {
                if (dim % group != 0) continue;
                std::vector<std::uint32_t> sizes;
                for (const std::uint32_t size : {8u, 16u, 32u})
                    if (size % group == 0) sizes.push_back(size);
                KvFormat format = in_groups(type, group);
                add({format, format, dim, 16, {}}, sizes);
                if (dim == 64) add({rotated(format), rotated(format), dim, 16, {}}, sizes);
            }
    add({in_groups(DType::kivi2, 16), int8, 64, 16, {}}, {16, 32});
    add({q4_0, in_groups(DType::kivi4, 32), 64, 16, {}}, {32});
    for (const KvFormat& format : {f16, int8, KvFormat::of(DType::int4), with_scale(DType::int8, KvScale::joint), q4_0, KvFormat::of(DType::fp8_e4m3), in_groups(DType::kivi2, 16)}) {
        const FormatCase c{format, format, 64, 16, {}};
        rows.push_back({"a block of masked keys alone is not read: " + text_of(format), [=](Check& check) { window_row(subject, c, check); }});
    }
    for (const KvFormat& format : {int8, KvFormat::of(DType::int4), with_scale(DType::int8, KvScale::joint), with_scale(DType::int4, KvScale::joint), KvFormat::of(DType::fp8_e4m3), KvFormat::of(DType::fp8_e5m2)})
        rows.push_back({"a value that is not finite shows in what reads it: " + text_of(format), [=](Check& check) { not_finite_row(subject, format, check); }});
    rows.push_back({"int8 rounds as Q1 says", [=](Check& check) { q1_row(subject, check); }});
    rows.push_back({"fp8 saturates and counts as Q3 says", [=](Check& check) { q3_row(subject, check); }});
    rows.push_back({"layers that share a place share memory and nothing else", [=](Check& check) { place_row(subject, check); }});
    return rows;
}

}  // namespace kvloupe::test
