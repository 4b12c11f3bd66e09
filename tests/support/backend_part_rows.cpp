// SPDX-License-Identifier: GPL-3.0-or-later
//
// The operations that only some models need: parts of heads turned, norms of heads, biases, caps, gates, columns, products head
// by head, rows scattered, K and V stored and loaded as they are.
#include "kernels/cpu/scalar.h"
#include "tests/support/backend_rows.h"
#include "tests/support/kernel_data.h"

namespace kvloupe::test {

namespace {

namespace scalar = cpu::scalar;

constexpr float guard = 7.0f;

// Values, and behind them some that no operation may touch.
std::vector<float> guarded(std::vector<float> values) {
    values.resize(values.size() + 8, guard);
    return values;
}

bool intact(const std::vector<float>& got, std::size_t count) {
    if (got.size() != count + 8) return false;
    return std::all_of(got.begin() + static_cast<std::ptrdiff_t>(count), got.end(), [](float value) { return value == guard; });
}

std::vector<float> expanded(const StoredMatrix& vector) {
    std::vector<float> values(vector.cols);
    for (std::uint64_t i = 0; i < vector.cols; ++i) values[i] = static_cast<float>(scalar::element(vector.dtype, vector.data(), i));
    return values;
}

struct Turn {
    std::string name;
    std::uint32_t heads, width, first;
    RotaryShape rotary;
};

std::vector<Turn> turns() {
    RotaryScaling linear, llama3, yarn;
    linear.kind = RotaryScaling::Kind::linear;
    linear.factor = 4;
    llama3.kind = RotaryScaling::Kind::llama3;
    llama3.factor = 8;
    llama3.original_context = 64;
    yarn.kind = RotaryScaling::Kind::yarn;
    yarn.factor = 4;
    yarn.original_context = 64;
    yarn.magnitude = 1.25f;
    return {{"all of a head", 4, 64, 0, {10000, 64, RotaryLayout::half_split}},
            {"the first quarter", 3, 64, 0, {10000, 16, RotaryLayout::half_split}},
            {"the last 16 of 48", 5, 48, 32, {10000, 16, RotaryLayout::adjacent}},
            {"one key of 64", 1, 64, 0, {500000, 64, RotaryLayout::adjacent}},
            {"scaled linearly", 2, 32, 0, {10000, 32, RotaryLayout::half_split, linear}},
            {"scaled as Llama 3", 2, 32, 0, {500000, 32, RotaryLayout::half_split, llama3}},
            {"scaled by yarn, with its magnitude", 2, 48, 16, {10000, 32, RotaryLayout::adjacent, yarn}}};
}

void turn_row(const BackendSubject& subject, const Turn& turn, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    std::uint32_t blocks = 0;
    const Batch batch = make_batch({{0, 3}, {700, 1}, {90, 2}}, 16, 1, blocks);
    const std::size_t count = std::size_t{batch.rows()} * turn.heads * turn.width;
    std::vector<float> x = random_floats(count, 3);
    auto buffer = upload(*backend, guarded(x));
    CHECK_THAT(buffer != nullptr);
    CHECK_THAT(bool(backend->begin_batch(batch)));
    // Another way of turning in between must not change the first one's angles.
    auto other = upload(*backend, x);
    CHECK_THAT(bool(backend->begin_batch(batch)));
    backend->rotate(*other, turn.heads, turn.width, 0, {777, 8, RotaryLayout::adjacent});
    backend->rotate(*buffer, turn.heads, turn.width, turn.first, turn.rotary);
    scalar::rotate_part(x.data(), batch.positions, turn.heads, turn.width, turn.first, turn.rotary);
    const std::vector<float> got = download(*backend, *buffer, count + 8);
    CHECK_BELOW(relative_difference(got, x, count), 1e-6);
    CHECK_THAT(intact(got, count));
}

void head_norm_row(const BackendSubject& subject, DType type, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    for (auto [rows, heads, width] : {std::tuple{5u, 3u, 64u}, {1u, 8u, 128u}, {2u, 1u, 32u}}) {
        const StoredMatrix weight(type, 1, width, 5);
        std::vector<float> x = random_floats(std::size_t{rows} * heads * width, width, 3);
        auto buffer = upload(*backend, guarded(x));
        auto device = backend->weight(weight.tensor());
        CHECK_THAT(bool(device) && buffer);
        backend->rms_norm_heads(*buffer, **device, 1e-6f, rows, heads);
        std::vector<float> expected(x.size());
        scalar::rms_norm(x, expanded(weight), 1e-6f, expected.data());
        const std::vector<float> got = download(*backend, *buffer, x.size() + 8);
        CHECK_BELOW(relative_difference(got, expected, x.size()), 2e-6);
        CHECK_THAT(intact(got, x.size()));
    }
}

void bias_row(const BackendSubject& subject, DType type, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    const std::uint32_t rows = 7, width = 96;
    const StoredMatrix bias(type, 1, width, 9);
    std::vector<float> x = random_floats(std::size_t{rows} * width, 4);
    auto buffer = upload(*backend, guarded(x));
    auto device = backend->weight(bias.tensor());
    CHECK_THAT(bool(device) && buffer);
    backend->add_bias(*buffer, **device, rows);
    scalar::add_bias(x, expanded(bias));
    const std::vector<float> got = download(*backend, *buffer, x.size() + 8);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK_EQUAL(got[i], x[i]);
    CHECK_THAT(intact(got, x.size()));
}

// Sums, factors and caps of one value each.
void value_row(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    for (const std::size_t count : {1u, 33u, 5000u, 20001u}) {
        const std::vector<float> x = random_floats(count, 1, 40), y = random_floats(count, 2);
        auto scaled = upload(*backend, guarded(x)), capped = upload(*backend, guarded(x)), sum = upload(*backend, guarded(x));
        auto added = upload(*backend, y);
        CHECK_THAT(scaled && capped && sum && added);
        backend->scale(*scaled, 0.375f, count);
        backend->soft_cap(*capped, 30, count);
        backend->add(*added, *sum, count);
        std::vector<float> expected = x;
        scalar::soft_cap(expected, 30);
        const std::vector<float> got = download(*backend, *capped, count + 8), half = download(*backend, *scaled, count + 8),
                                 both = download(*backend, *sum, count + 8);
        for (std::size_t i = 0; i < count; ++i) {
            CHECK_THAT(std::abs(got[i] - expected[i]) <= 1e-6f * std::abs(expected[i]));
            CHECK_EQUAL(half[i], x[i] * 0.375f);
            CHECK_EQUAL(both[i], x[i] + y[i]);
        }
        CHECK_THAT(intact(got, count) && intact(half, count) && intact(both, count));
    }
    // Far from 0 a cap is reached and never passed; near 0 a value keeps its own precision; what is no number stays none.
    const std::vector<float> ends = {0, 1e-30f, -1e-4f, 7.4f, 7.6f, 1e30f, -1e30f, std::nanf("")};
    auto buffer = upload(*backend, ends);
    backend->soft_cap(*buffer, 30, ends.size());
    std::vector<float> expected = ends;
    scalar::soft_cap(expected, 30);
    const std::vector<float> got = download(*backend, *buffer, ends.size());
    for (std::size_t i = 0; i + 1 < ends.size(); ++i) CHECK_THAT(std::abs(got[i] - expected[i]) <= 1e-6f * std::abs(expected[i]));
    CHECK_THAT(std::isnan(got.back()));
}

void gate_row(const BackendSubject& subject, Activation activation, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    const std::uint32_t rows = 7, width = 150;
    std::vector<float> gate = random_floats(std::size_t{rows} * width, 1, 4), up = random_floats(gate.size(), 2);
    gate[0] = -200, gate[1] = 200, gate[2] = 0, gate[3] = -5, gate[4] = -1e30f;
    auto device_gate = upload(*backend, guarded(gate)), device_up = upload(*backend, up);
    CHECK_THAT(device_gate && device_up);
    backend->gate_multiply(activation, *device_gate, *device_up, rows, width);
    scalar::gate_multiply(activation, gate, up);
    const std::vector<float> got = download(*backend, *device_gate, gate.size() + 8);
    for (std::size_t i = 0; i < gate.size(); ++i) CHECK_THAT(std::abs(got[i] - gate[i]) <= 4e-6f * std::abs(gate[i]) + 1e-6f);
    CHECK_THAT(intact(got, gate.size()));
}

void columns_row(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    for (const Backend::Columns& c : {Backend::Columns{5, 3, 3, 8, 24, 16, 8, 0}, Backend::Columns{4, 6, 1, 16, 16, 0, 48, 32},
                                      Backend::Columns{3, 1, 1, 512, 576, 0, 512, 0}, Backend::Columns{2, 4, 4, 5, 7, 1, 9, 3}}) {
        const std::vector<float> in = random_floats(std::size_t{c.rows} * c.in_heads * c.in_width, 1);
        std::vector<float> out = random_floats(std::size_t{c.rows} * c.heads * c.out_width, 2);
        auto from = upload(*backend, in), to = upload(*backend, guarded(out));
        CHECK_THAT(from && to);
        backend->copy_columns(*from, c, *to);
        scalar::copy_columns(in.data(), c, out.data());
        CHECK_THAT(download(*backend, *to, out.size() + 8) == guarded(out));
    }
}

void heads_product_row(const BackendSubject& subject, DType type, std::uint32_t rows, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    for (auto [heads, out, in] : {std::tuple{4u, 32u, 64u}, {3u, 96u, 32u}, {1u, 40u, 64u}}) {
        const StoredMatrix weight(type, std::uint64_t{heads} * out, in, 11);
        const std::vector<float> x = random_floats(std::size_t{rows} * heads * in, 12);
        const std::size_t count = std::size_t{rows} * heads * out;
        auto device = backend->weight(weight.tensor());
        auto from = upload(*backend, x), to = upload(*backend, guarded(std::vector<float>(count)));
        CHECK_THAT(bool(device) && from && to);
        backend->matmul_heads(**device, *from, rows, heads, *to);
        std::vector<float> expected(count);
        scalar::matmul_heads(weight.packed(), x.data(), rows, heads, expected.data());
        const std::vector<float> got = download(*backend, *to, count + 8);
        CHECK_BELOW(relative_difference(got, expected, count), type == DType::f32 || rows <= 8 ? 1e-5 : type == DType::bf16 ? 1e-2 : 2e-3);
        CHECK_THAT(intact(got, count));
    }
}

void scatter_row(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    const std::uint32_t width = 72;
    const std::vector<std::uint32_t> rows = {4, 0, 2, 0};
    const std::vector<float> weights = {0.5f, 1, 0.25f, -2};
    const std::vector<float> in = random_floats(rows.size() * width, 1);
    std::vector<float> out = random_floats(std::size_t{5} * width, 2);
    auto from = upload(*backend, in), to = upload(*backend, guarded(out));
    CHECK_THAT(from && to);
    backend->scatter_add(*from, rows, weights, width, *to);
    scalar::scatter_add(in.data(), rows, weights, width, out.data());
    const std::vector<float> got = download(*backend, *to, out.size() + 8);
    CHECK_BELOW(relative_difference(got, out, out.size()), 1e-6);
    for (std::size_t i = 0; i < width; ++i) CHECK_EQUAL(got[width + i], out[width + i]);  // nobody's row
    CHECK_THAT(intact(got, out.size()));
}

// K and V of different widths go into the slots of their group and come back by position.
void store_row(const BackendSubject& subject, DType type, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    KvCacheShape shape;
    std::uint32_t blocks = 0;
    Batch batch = make_batch({{0, 21}, {0, 9}}, 4, 3, blocks);
    shape.blocks = 2 * blocks;
    shape.block_size = 4;
    const KvFormat format = KvFormat::of(type);
    shape.layers = {{2, 24, 40, false, format, format, 0}, {1, 64, 16, true, format, format, 1}};
    auto cache = backend->kv_cache(shape, Purpose::kv_cache);
    CHECK_THAT(bool(cache));
    for (std::uint32_t block = 0; block < shape.blocks; ++block) backend->poison_block(**cache, block);
    // A second group: the same tables, other blocks.
    const std::vector<std::uint32_t> tables = batch.block_tables;
    batch.block_tables.clear();
    for (Batch::Sequence& sequence : batch.sequences) {
        const std::uint32_t begin = sequence.table_begin;
        sequence.table_begin = static_cast<std::uint32_t>(batch.block_tables.size());
        for (std::uint32_t group = 0; group < 2; ++group)
            for (std::uint32_t i = 0; i < sequence.table_size; ++i) batch.block_tables.push_back(tables[begin + i] + group * blocks);
    }
    for (std::uint32_t row = 0; row < 30; ++row) batch.slots.push_back(batch.slots[row] + std::uint64_t{blocks} * shape.block_size);
    for (std::uint32_t layer = 0; layer < 2; ++layer) {
        const KvLayerShape& of = shape.layers[layer];
        const std::vector<float> k = random_floats(std::size_t{30} * of.kv_heads * of.key_dim, 10 + layer);
        const std::vector<float> v = random_floats(std::size_t{30} * of.kv_heads * of.value_dim, 20 + layer);
        auto k_buffer = upload(*backend, k), v_buffer = upload(*backend, v);
        auto keys = upload(*backend, guarded(std::vector<float>(std::size_t{5} * of.kv_heads * of.key_dim)));
        auto values = upload(*backend, guarded(std::vector<float>(std::size_t{5} * of.kv_heads * of.value_dim)));
        CHECK_THAT(k_buffer && v_buffer && keys && values);
        CHECK_THAT(bool(backend->begin_batch(batch)));
        backend->store(*k_buffer, *v_buffer, layer, **cache, layer);  // layer 1 through group 1
        backend->load(**cache, layer, layer, 1, 3, 5, *keys, *values);
        for (auto [buffer, from, width] : {std::tuple{keys.get(), &k, of.kv_heads * of.key_dim},
                                           std::tuple{values.get(), &v, of.kv_heads * of.value_dim}}) {
            const std::size_t count = std::size_t{5} * width;
            const std::vector<float> got = download(*backend, *buffer, count + 8);
            const std::size_t first = std::size_t{21 + 3} * width;  // position 3 of the second sequence
            for (std::size_t i = 0; i < count; ++i) {
                std::byte stored[4] = {};
                scalar::store_element(type, stored, 0, (*from)[first + i]);
                CHECK_EQUAL(got[i], static_cast<float>(scalar::element(type, stored, 0)));
            }
            CHECK_THAT(intact(got, count));
        }
    }
}

}  // namespace

std::vector<Row> part_rows(const BackendSubject& subject) {
    std::vector<Row> rows;
    const auto add = [&](const std::string& name, auto run) { rows.push_back({name, [=](Check& check) { run(check); }}); };
    for (const Turn& turn : turns())
        add("part of a head is turned as its twin: " + turn.name, [=](Check& c) { turn_row(subject, turn, c); });
    for (const DType type : float_types) {
        const std::string name(name_of(type));
        add("norms of heads by " + name + " factors equal their twin", [=](Check& c) { head_norm_row(subject, type, c); });
        add("a bias of " + name + " is added exactly", [=](Check& c) { bias_row(subject, type, c); });
        add("K and V in " + name + " are stored as they are and loaded by position, group by group",
            [=](Check& c) { store_row(subject, type, c); });
    }
    for (const DType type : all_types)
        for (const std::uint32_t count : {1u, 8u, 13u})
            add("a product head by head with " + std::string(name_of(type)) + " weights equals its twin: " + std::to_string(count) + " rows",
                [=](Check& c) { heads_product_row(subject, type, count, c); });
    add("factors, sums and caps of values equal their twins, at their ends too", [=](Check& c) { value_row(subject, c); });
    add("silu gates as its twin, at its ends too", [=](Check& c) { gate_row(subject, Activation::silu, c); });
    add("gelu gates as its twin, at its ends too", [=](Check& c) { gate_row(subject, Activation::gelu_tanh, c); });
    add("columns are copied, and nothing beside them", [=](Check& c) { columns_row(subject, c); });
    add("rows are scattered with their weights, some twice", [=](Check& c) { scatter_row(subject, c); });
    return rows;
}

}  // namespace kvloupe::test
