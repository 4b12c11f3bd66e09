// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_cache.h"
#include "kernels/cpu/scalar.h"
#include "tests/kernels/support.h"
#include "tests/support/claims.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr std::uint32_t query_heads = 6, kv_heads = 2, head_dim = 32;
constexpr std::size_t q_width = query_heads * head_dim, kv_width = kv_heads * head_dim;
constexpr std::uint32_t layer = 1;

struct Case {
    KeySpan span;
    std::vector<Piece> pieces = {{0, 1}, {300, 1}, {0, 21}, {250, 9}, {700, 3}, {60, 40}};
    std::uint32_t block_size = 16;
    unsigned threads = 2;
    DType dtype = DType::f32;
    RotaryLayout layout = RotaryLayout::half_split;
};

AttentionShape shape_of(const Case& c) {
    AttentionShape shape{query_heads, kv_heads, head_dim, 0, false, 1.0f / std::sqrt(float(head_dim))};
    shape.span = c.span;
    shape.rotary = {100.0f, 24, c.layout};
    return shape;
}

// Queries, keys and values of all tokens of a sequence, before rotation, whatever the block size.
std::vector<float> rows_of(std::uint32_t sequence, std::uint32_t tokens, std::size_t width, unsigned salt) {
    return random_floats(tokens * width, 100 * sequence + salt);
}

// A cache that holds what Case says and NaN everywhere else: in the null block, in slots behind the end, in keys that no
// row of the step sees. Blocks of nothing but such keys have left the block table.
struct Filled {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<KvCache> cache;
    Batch batch;
    std::vector<float> q;  // (rows, query_heads, head_dim), rotated
};

void spoil(cpu::CpuKvCache& cache, std::uint64_t slot) {
    for (std::uint32_t head = 0; head < kv_heads; ++head) {
        const std::uint64_t size = cache.shape().block_size;
        for (const cpu::CpuPlane* of : {&cache.keys(layer), &cache.values(layer)})
            std::memset(of->codes(slot / size, head, std::uint32_t(slot % size)), 0xFF, of->plane.code_bytes);
    }
}

Filled fill(const Case& c, unsigned seed) {
    Filled f;
    f.backend = cpu_backend(c.threads);
    std::uint32_t blocks = 0;
    f.batch = make_batch(c.pieces, c.block_size, seed, blocks);
    f.cache = std::move(*f.backend->kv_cache(KvCacheShape::uniform(2, blocks, c.block_size, kv_heads, head_dim, c.dtype, c.dtype), Purpose::kv_cache));
    auto& cache = static_cast<cpu::CpuKvCache&>(*f.cache);
    for (std::uint32_t b = 0; b < blocks; ++b) f.backend->poison_block(cache, b);
    const AttentionShape shape = shape_of(c);
    for (std::uint32_t s = 0; s < f.batch.sequences.size(); ++s) {
        const Batch::Sequence& sequence = f.batch.sequences[s];
        const std::uint32_t tokens = sequence.first_position + sequence.rows;
        Batch all;
        all.block_tables = f.batch.block_tables;
        all.sequences = {{0, tokens, 0, sequence.table_begin, sequence.table_size}};
        const auto slot = [&](std::uint32_t t) {
            return std::uint64_t{f.batch.block_tables[sequence.table_begin + t / c.block_size]} * c.block_size + t % c.block_size;
        };
        for (std::uint32_t t = 0; t < tokens; ++t) {
            all.tokens.push_back(0);
            all.positions.push_back(t);
            all.slots.push_back(slot(t));
        }
        auto q = upload(*f.backend, rows_of(s, tokens, q_width, 0));
        auto k = upload(*f.backend, rows_of(s, tokens, kv_width, 1)), v = upload(*f.backend, rows_of(s, tokens, kv_width, 2));
        if (!f.backend->begin_batch(all)) return f;
        f.backend->rotary_store(*q, *k, *v, shape, shape.rotary, cache, layer);
        const std::vector<float> rotated = download(*f.backend, *q, tokens * q_width);
        f.q.insert(f.q.end(), rotated.begin() + std::ptrdiff_t(sequence.first_position * q_width), rotated.end());
        std::vector<bool> needed(sequence.table_size, false);
        for (std::uint32_t t = 0; t < tokens; ++t) {
            bool seen = false;
            for (std::uint32_t r = 0; r < sequence.rows; ++r) seen = seen || (t <= sequence.first_position + r && c.span.seen(sequence.first_position + r).sees(t));
            if (seen) needed[t / c.block_size] = true;
            else spoil(cache, slot(t));
        }
        for (std::uint32_t b = 0; b < sequence.table_size; ++b)
            if (!needed[b]) f.batch.block_tables[sequence.table_begin + b] = 0;
    }
    return f;
}

struct Attended {
    std::vector<float> out;
    AttentionProbe probe;
};

Attended attend(const Filled& f, const AttentionShape& shape) {
    Attended result;
    auto q = upload(*f.backend, f.q), out = upload(*f.backend, std::vector<float>(f.q.size()));
    result.probe.heads = {0, 4};
    if (!f.backend->begin_batch(f.batch)) return result;
    f.backend->attention(*q, shape, *f.cache, layer, *out, &result.probe);
    result.out = download(*f.backend, *out, f.q.size());
    return result;
}

void turn(std::vector<double>& x, double position, const RotaryShape& rotary) {
    for (std::uint32_t i = 0; i < rotary.rotary_dim / 2; ++i) {
        const double angle = position / std::pow(double(rotary.theta), 2.0 * i / rotary.rotary_dim);
        const bool adjacent = rotary.layout == RotaryLayout::adjacent;
        double &a = x[adjacent ? 2 * i : i], &b = x[adjacent ? 2 * i + 1 : i + rotary.rotary_dim / 2];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = turned;
    }
}

// Attention from the definition, in double, over keys that were never stored: places are those in the cache where the
// span counts by rank.
std::vector<double> reference(const Case& c, const Batch& batch) {
    const AttentionShape shape = shape_of(c);
    std::vector<double> out;
    for (std::uint32_t s = 0; s < batch.sequences.size(); ++s) {
        const std::uint32_t first = batch.sequences[s].first_position, tokens = first + batch.sequences[s].rows;
        const auto q = rows_of(s, tokens, q_width, 0), k = rows_of(s, tokens, kv_width, 1), v = rows_of(s, tokens, kv_width, 2);
        for (std::uint32_t p = first; p < tokens; ++p) {
            std::vector<std::uint32_t> seen;
            for (std::uint32_t j = 0; j <= p; ++j) {
                const bool in_window = c.span.window == 0 || std::uint64_t{j} + c.span.window > p || j < c.span.sinks;
                if (in_window && (c.span.chunk == 0 || j / c.span.chunk == p / c.span.chunk)) seen.push_back(j);
            }
            for (std::uint32_t head = 0; head < query_heads; ++head) {
                const auto take = [&](const std::vector<float>& from, std::uint32_t token, std::uint32_t heads, std::uint32_t h) {
                    const auto begin = from.begin() + std::ptrdiff_t((std::size_t{token} * heads + h) * head_dim);
                    return std::vector<double>(begin, begin + head_dim);
                };
                const std::uint32_t kv = head / (query_heads / kv_heads);
                std::vector<double> query = take(q, p, query_heads, head), scores, sum(head_dim, 0.0);
                turn(query, c.span.rank ? double(seen.size() - 1) : double(p), shape.rotary);
                double total = 0;
                for (std::size_t rank = 0; rank < seen.size(); ++rank) {
                    std::vector<double> key = take(k, seen[rank], kv_heads, kv);
                    turn(key, c.span.rank ? double(rank) : double(seen[rank]), shape.rotary);
                    double score = 0;
                    for (std::uint32_t i = 0; i < head_dim; ++i) score += query[i] * key[i];
                    scores.push_back(std::exp(score * double(shape.scale)));
                    total += scores.back();
                }
                for (std::size_t rank = 0; rank < seen.size(); ++rank) {
                    const std::vector<double> value = take(v, seen[rank], kv_heads, kv);
                    for (std::uint32_t i = 0; i < head_dim; ++i) sum[i] += scores[rank] / total * value[i];
                }
                out.insert(out.end(), sum.begin(), sum.end());
            }
        }
    }
    return out;
}

const std::pair<const char*, KeySpan> spans[] = {
    {"all keys", {}},
    {"a window of 1", {1, 0, 0, false}},
    {"a window of 5", {5, 0, 0, false}},
    {"a window of 16", {16, 0, 0, false}},
    {"a window of 300", {300, 0, 0, false}},
    {"a window longer than any sequence", {4000, 0, 0, false}},
    {"the longest window", {0xFFFFFFFF, 4, 0, true}},
    {"a window of 64 with 4 sinks", {64, 4, 0, false}},
    {"a window of 7 with 20 sinks", {7, 20, 0, false}},
    {"a window of 1 with 1 sink", {1, 1, 0, false}},
    {"a window of 9 with sinks beyond a tile", {9, 300, 0, false}},
    {"a window of 64 with 4 sinks, by rank", {64, 4, 0, true}},
    {"a window of 17 with 5 sinks, by rank", {17, 5, 0, true}},
    {"a window of 9 with sinks beyond a tile, by rank", {9, 300, 0, true}},
    {"a window by rank without sinks", {33, 0, 0, true}},
    {"chunks of 1", {0, 0, 1, false}},
    {"chunks of 4", {0, 0, 4, false}},
    {"chunks of 64", {0, 0, 64, false}},
    {"chunks of 300", {0, 0, 300, false}},
};

Cases<int> span_rows() {
    Cases<int> cases;
    for (std::size_t i = 0; i < std::size(spans); ++i) cases.add(spans[i].first, int(i));
    return cases;
}

void equalsTheDefinition(Check& check, int span) {
    for (RotaryLayout layout : {RotaryLayout::half_split, RotaryLayout::adjacent}) {
        Case c{spans[span].second};
        c.layout = layout;
        const Filled filled = fill(c, 3);
        const Attended got = attend(filled, shape_of(c));
        const std::vector<double> want = reference(c, filled.batch);
        CHECK_EQUAL(got.out.size(), want.size());
        const double difference = relative_difference(got.out, want, want.size());
        CHECK_BELOW(difference, 5e-6);
    }
}

void equalsTheScalarTwinInEveryPrecision(Check& check, int span) {
    for (DType dtype : float_types) {
        Case c{spans[span].second};
        c.dtype = dtype;
        const Filled f = fill(c, 3);
        const AttentionShape shape = shape_of(c);
        const Attended got = attend(f, shape);
        const auto& cache = static_cast<const cpu::CpuKvCache&>(*f.cache);
        const cpu::scalar::CacheView keys{cache.keys(layer).blocks, dtype, c.block_size, kv_heads, head_dim};
        const cpu::scalar::CacheView values{cache.values(layer).blocks, dtype, c.block_size, kv_heads, head_dim};
        std::vector<double> want(got.out.size());
        cpu::scalar::attention(f.batch, f.q.data(), shape, keys, values, want.data());
        const double difference = relative_difference(got.out, want, want.size());
        CHECK_BELOW(difference, 3e-6);
        for (std::uint32_t s = 0; s < f.batch.sequences.size(); ++s)
            for (std::uint32_t r = 0; r < f.batch.sequences[s].rows; ++r)
                for (std::size_t h = 0; h < got.probe.heads.size(); ++h) {
                    const auto weights = cpu::scalar::attention_weights(f.batch, f.q.data(), shape, keys, {s, r, got.probe.heads[h]});
                    const std::vector<float>& probed = got.probe.weights[h][f.batch.sequences[s].first_row + r];
                    CHECK_EQUAL(probed.size(), weights.size());
                    for (std::size_t t = 0; t < weights.size(); ++t) {
                        CHECK_THAT(std::abs(double(probed[t]) - weights[t]) < 3e-6);
                        CHECK_EQUAL(probed[t] == 0.0f, weights[t] == 0.0);  // masked keys and no others
                    }
                }
    }
}

void blockSizeAndThreadsDoNotChangeABit(Check& check, int span) {
    for (DType dtype : {DType::f32, DType::f16}) {
        Attended first;
        for (std::uint32_t block_size : {1u, 7u, 16u, 256u, 1024u})
            for (unsigned threads : {1u, 2u, 3u}) {
                Case c{spans[span].second};
                c.block_size = block_size;
                c.threads = threads;
                c.dtype = dtype;
                const Attended got = attend(fill(c, block_size + threads), shape_of(c));
                CHECK_THAT(!got.out.empty());
                for (float value : got.out) CHECK_THAT(std::isfinite(value));
                if (first.out.empty()) first = got;
                CHECK_EQUAL(got.out, first.out);
                CHECK_EQUAL(got.probe.weights, first.probe.weights);
            }
    }
}

void aRowIsTheSameInPrefillAndInDecode(Check& check, int span) {
    Case whole{spans[span].second, {{0, 340}}};
    const Filled filled = fill(whole, 1);
    const Attended prefill = attend(filled, shape_of(whole));
    for (std::uint32_t p : {0u, 1u, 4u, 5u, 15u, 16u, 17u, 68u, 255u, 256u, 257u, 300u, 339u}) {
        Filled one = fill({spans[span].second, {{p, 1}}, 7}, 2);
        one.q.assign(filled.q.begin() + std::ptrdiff_t(p * q_width), filled.q.begin() + std::ptrdiff_t((p + 1) * q_width));
        const Attended decode = attend(one, shape_of(whole));
        CHECK_OR_SAY(std::equal(decode.out.begin(), decode.out.end(), prefill.out.begin() + std::ptrdiff_t(p * q_width)),
                     "at position " + std::to_string(p));
    }
}

void aWindowLongerThanTheSequenceIsNoWindow(Check& check) {
    const Case full{};
    const std::vector<float> want = attend(fill(full, 1), shape_of(full)).out;
    for (KeySpan span : {KeySpan{704, 0, 0, false}, KeySpan{704, 4, 0, true}, KeySpan{0, 0, 4000, false}}) {
        const Case c{span};
        CHECK_EQUAL(attend(fill(c, 1), shape_of(c)).out, want);
    }
}

// The oldest key of the first row of a step is masked for the next one: spoiling it spoils the first row alone.
struct WhatOnlyOneRowSeesTouchesNoOtherCase {
    int window, sinks, chunk;
};
Cases<WhatOnlyOneRowSeesTouchesNoOtherCase> whatOnlyOneRowSeesTouchesNoOther_cases() {
    Cases<WhatOnlyOneRowSeesTouchesNoOtherCase> cases;
    cases.add("window", {20, 0, 0});
    cases.add("window and sinks", {20, 4, 0});
    cases.add("chunks", {0, 0, 50});
    return cases;
}
void whatOnlyOneRowSeesTouchesNoOther(Check& check, const WhatOnlyOneRowSeesTouchesNoOtherCase& row) {
    const Case c{{std::uint32_t(row.window), std::uint32_t(row.sinks), std::uint32_t(row.chunk), row.sinks > 0}, {{299, 6}}};
    const Filled f = fill(c, 1);
    const SeenKeys seen = c.span.seen(299);
    spoil(static_cast<cpu::CpuKvCache&>(*f.cache), std::uint64_t{f.batch.block_tables[seen.begin / 16]} * 16 + seen.begin % 16);
    const Attended got = attend(f, shape_of(c));
    for (std::size_t i = 0; i < got.out.size(); ++i) CHECK_EQUAL(std::isfinite(got.out[i]), i >= q_width);
}

// Layers of one step with tables of their own: (groups, table_size) per sequence, (groups, rows) slots.
void aGroupReadsAndWritesThroughItsOwnTable(Check& check) {
    Case c{{16, 2, 0, false}, {{0, 30}, {0, 5}}, 4};
    auto backend = cpu_backend(2);
    std::uint32_t blocks = 0;
    Batch batch = make_batch(c.pieces, c.block_size, 5, blocks);
    const auto cache = std::move(*backend->kv_cache(KvCacheShape::uniform(2, 2 * blocks, c.block_size, kv_heads, head_dim, DType::f16, DType::f16), Purpose::kv_cache));
    for (std::uint32_t b = 0; b < 2 * blocks; ++b) backend->poison_block(*cache, b);
    const Batch one = batch;
    batch.block_tables.clear();
    for (Batch::Sequence& s : batch.sequences) {
        const auto begin = one.block_tables.begin() + std::ptrdiff_t(s.table_begin), end = begin + std::ptrdiff_t(s.table_size);
        s.table_begin = std::uint32_t(batch.block_tables.size());
        batch.block_tables.insert(batch.block_tables.end(), begin, end);
        for (auto block = begin; block != end; ++block) batch.block_tables.push_back(2 * blocks - *block);
    }
    for (std::size_t row = 0; row < one.slots.size(); ++row)
        batch.slots.push_back((2 * blocks - one.slots[row] / c.block_size) * c.block_size + one.slots[row] % c.block_size);
    const auto run = [&](const Batch& given, std::uint32_t group) {
        AttentionShape shape = shape_of(c);
        shape.group = group;
        const std::size_t rows = given.rows();
        auto q = upload(*backend, random_floats(rows * q_width, 1)), out = upload(*backend, std::vector<float>(rows * q_width));
        auto k = upload(*backend, random_floats(rows * kv_width, 2)), v = upload(*backend, random_floats(rows * kv_width, 3));
        if (!backend->begin_batch(given)) return std::vector<float>();
        backend->rotary_store(*q, *k, *v, shape, shape.rotary, *cache, layer);
        backend->attention(*q, shape, *cache, layer, *out, nullptr);
        return download(*backend, *out, rows * q_width);
    };
    const std::vector<float> second = run(batch, 1);  // first: the first group's blocks still hold NaN
    CHECK_THAT(std::isfinite(second.at(0)));
    CHECK_EQUAL(second, run(one, 0));
    CHECK_EQUAL(run(batch, 0), second);
    batch.slots.pop_back();
    CHECK_THAT(!backend->begin_batch(batch));
}

void everyInstructionSetMasksTheSame(Check& check) {
    for (std::int64_t target : {std::int64_t(HWY_AVX3), std::int64_t(HWY_AVX2), std::int64_t(HWY_SSE4), std::int64_t(HWY_STATIC_TARGET)}) {
        if (target != HWY_STATIC_TARGET && (hwy::SupportedTargets() & target) == 0) continue;
        const UseTarget use(target);
        for (const auto& [name, span] : spans) {
            const Case c{span};
            const Filled filled = fill(c, 3);
            const std::vector<double> want = reference(c, filled.batch);
            const double difference = relative_difference(attend(filled, shape_of(c)).out, want, want.size());
            CHECK_OR_SAY(difference < 5e-6, name);
        }
    }
}

void countsTheKeysThatAreSeen(Check& check) {
    const KeySpan sinks{64, 4, 0, true};
    CHECK_EQUAL(sinks.seen(10).count(), 11u);
    CHECK_EQUAL(sinks.dropped(67), 0u);
    CHECK_EQUAL(sinks.seen(67).count(), 68u);
    CHECK_EQUAL(sinks.dropped(68), 1u);
    CHECK_EQUAL(sinks.seen(5000).count(), 68u);
    CHECK_EQUAL(sinks.dropped(5000), 5000u - 67u);
    const KeySpan chunk{0, 0, 4, false};
    CHECK_EQUAL(chunk.seen(11).count(), 4u);
    CHECK_EQUAL(chunk.seen(12).count(), 1u);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(equalsTheDefinition), span_rows());
    claims.add(CLAIM(equalsTheScalarTwinInEveryPrecision), span_rows());
    claims.add(CLAIM(blockSizeAndThreadsDoNotChangeABit), span_rows());
    claims.add(CLAIM(aRowIsTheSameInPrefillAndInDecode), span_rows());
    claims.add(CLAIM(aWindowLongerThanTheSequenceIsNoWindow));
    claims.add(CLAIM(whatOnlyOneRowSeesTouchesNoOther), whatOnlyOneRowSeesTouchesNoOther_cases());
    claims.add(CLAIM(aGroupReadsAndWritesThroughItsOwnTable));
    claims.add(CLAIM(everyInstructionSetMasksTheSame));
    claims.add(CLAIM(countsTheKeysThatAreSeen));
    return claims.rows();
}
