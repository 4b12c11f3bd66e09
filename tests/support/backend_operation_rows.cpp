// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/scalar.h"
#include "tests/support/backend_rows.h"
#include "tests/support/kernel_data.h"

#include <numeric>

namespace kvloupe::test {

namespace {

namespace scalar = cpu::scalar;

Batch rows_of_tokens(const std::vector<TokenId>& tokens) {
    Batch batch;
    batch.tokens = tokens;
    batch.sequences = {{0, static_cast<std::uint32_t>(tokens.size()), 0, 0, 1}};
    batch.block_tables = {0};
    for (std::uint32_t i = 0; i < tokens.size(); ++i) {
        batch.positions.push_back(i);
        batch.slots.push_back(0);
    }
    return batch;
}

void embed_row(const BackendSubject& subject, DType type, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    const StoredMatrix table(type, 40, 96, 3);
    auto weight = backend->weight(table.tensor());
    CHECK_THAT(bool(weight));
    CHECK_EQUAL((*weight)->bytes(), table.tensor().bytes());
    const std::vector<TokenId> tokens{0, 39, 7, 7, 12, 40, -1};
    auto out = backend->buffer(tokens.size() * 96 * sizeof(float), Purpose::activations);
    CHECK_THAT(bool(out));
    CHECK_THAT(bool(backend->begin_batch(rows_of_tokens(tokens))));
    backend->embed(**weight, **out);
    const std::vector<float> got = download(*backend, **out, tokens.size() * 96);
    CHECK_EQUAL(got.size(), tokens.size() * 96);
    std::vector<float> expected(5 * 96);
    scalar::embed(table.packed(), std::span(tokens).first(5), expected.data());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK_EQUAL(got[i], expected[i]);
    // Outside the vocabulary: NaN, never a read beyond the table.
    for (std::size_t i = expected.size(); i < got.size(); ++i) CHECK_THAT(std::isnan(got[i]));
}

void norm_row(const BackendSubject& subject, DType type, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    for (const std::uint32_t width : {32u, 96u, 576u, 4096u}) {
        const std::uint32_t rows = 5;
        const StoredMatrix weight(type, 1, width, 5);
        const std::vector<float> values = random_floats(std::size_t{rows} * width, width, 3);
        auto in = upload(*backend, values), out = upload(*backend, std::vector<float>(values.size() + 8, 7.0f));
        auto device = backend->weight(weight.tensor());
        CHECK_THAT(bool(device) && in && out);
        backend->rms_norm(*in, **device, 1e-5f, rows, *out);
        std::vector<float> factors(width), expected(values.size());
        for (std::uint32_t i = 0; i < width; ++i) factors[i] = static_cast<float>(scalar::element(type, weight.data(), i));
        scalar::rms_norm(values, factors, 1e-5f, expected.data());
        const std::vector<float> got = download(*backend, *out, values.size() + 8);
        CHECK_BELOW(relative_difference(got, expected, expected.size()), 2e-6);
        for (std::size_t i = values.size(); i < got.size(); ++i) CHECK_EQUAL(got[i], 7.0f);
    }
}

// What the number of rows makes of a product: few rows keep f32 activations, many are narrowed to the weights' type.
double tolerance(DType type, std::uint32_t rows) {
    if (type == DType::f32 || rows <= 8) return 1e-5;
    return type == DType::bf16 ? 1e-2 : 2e-3;
}

void product_row(const BackendSubject& subject, DType type, std::uint32_t rows, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    struct Size {
        std::uint64_t out, in;
    };
    std::vector<Size> sizes{{33, 64}, {128, 96}};
    if (subject.large) sizes = {{33, 64}, {4096, 4096}, {1024, 4096}, {320, 14336}};
    for (const Size size : sizes) {
        const StoredMatrix matrix(type, size.out, size.in, 11);
        const std::vector<float> values = random_floats(rows * size.in, 12), before = random_floats(rows * size.out, 13);
        auto weight = backend->weight(matrix.tensor());
        auto in = upload(*backend, values);
        CHECK_THAT(bool(weight) && in);
        for (const bool accumulate : {false, true}) {
            auto out = upload(*backend, before);
            CHECK_THAT(out != nullptr);
            backend->matmul(**weight, *in, rows, *out, accumulate);
            const std::vector<float> got = download(*backend, *out, before.size());
            CHECK_EQUAL(got.size(), before.size());
            std::vector<float> expected = before;
            if (size.out * size.in * rows <= (std::uint64_t{1} << 24)) {
                scalar::matmul(matrix.packed(), {values.data(), expected.data(), rows, accumulate, 0});
                CHECK_BELOW(relative_difference(got, expected, expected.size()), tolerance(type, rows));
            } else {  // the first row and the last alone: the reference takes its time
                for (const std::uint32_t row : {0u, rows - 1}) {
                    std::vector<float> one(before.begin() + static_cast<std::ptrdiff_t>(row * size.out),
                                           before.begin() + static_cast<std::ptrdiff_t>((row + 1) * size.out));
                    scalar::matmul(matrix.packed(), {values.data() + row * size.in, one.data(), 1, accumulate, 0});
                    CHECK_BELOW(relative_difference(got.data() + row * size.out, one.data(), one.size()), tolerance(type, rows));
                }
            }
        }
    }
}

void activation_row(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    const std::uint32_t rows = 7, width = 150;
    std::vector<float> gate = random_floats(std::size_t{rows} * width, 1, 4), up = random_floats(gate.size(), 2);
    gate[0] = -200, gate[1] = 200, gate[2] = 0;
    auto device_gate = upload(*backend, gate), device_up = upload(*backend, up);
    CHECK_THAT(device_gate && device_up);
    backend->gate_multiply(Activation::silu, *device_gate, *device_up, rows, width);
    scalar::gate_multiply(Activation::silu, gate, up);
    CHECK_BELOW(relative_difference(download(*backend, *device_gate, gate.size()), gate, gate.size()), 2e-6);
}

void gather_row(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    const std::uint32_t width = 72;
    const std::vector<float> values = random_floats(std::size_t{width} * 9, 3);
    auto in = upload(*backend, values);
    Batch batch = rows_of_tokens(std::vector<TokenId>(9, 0));
    batch.logit_rows = {8, 0, 3};
    auto out = backend->buffer(std::uint64_t{width} * 9 * sizeof(float), Purpose::activations);
    CHECK_THAT(in && bool(out));
    CHECK_THAT(bool(backend->begin_batch(batch)));
    // The batch's own rows, and rows that the device has not heard of.
    for (const std::vector<std::uint32_t>& rows : {batch.logit_rows, std::vector<std::uint32_t>{1, 1, 7, 2, 8}, batch.logit_rows}) {
        backend->gather_rows(*in, rows, width, **out);
        const std::vector<float> got = download(*backend, **out, rows.size() * width);
        std::vector<float> expected(rows.size() * width);
        scalar::gather_rows(values.data(), rows, width, expected.data());
        CHECK_THAT(got == expected);
    }
}

// From the definition: sorted by logit, ties to the lower id.
LogitSummary summary_of(std::span<const float> logits, TokenId asked) {
    LogitSummary summary;
    std::vector<TokenId> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const auto at = [&](TokenId token) { return logits[static_cast<std::size_t>(token)]; };
    std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return at(a) > at(b); });
    summary.maximum = at(order[0]);
    for (float logit : logits) summary.exponentials += std::exp(static_cast<double>(logit) - static_cast<double>(summary.maximum));
    summary.top_tokens = std::min<std::uint32_t>(LogitSummary::top_count, static_cast<std::uint32_t>(logits.size()));
    for (std::uint32_t i = 0; i < summary.top_tokens; ++i) summary.top[i] = order[i], summary.top_logits[i] = at(order[i]);
    if (asked >= 0) {
        summary.asked_logit = at(asked);
        summary.asked_rank = static_cast<std::uint32_t>(std::find(order.begin(), order.end(), asked) - order.begin());
    }
    return summary;
}

void summary_row(const BackendSubject& subject, std::uint32_t vocabulary, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    if (!backend->supports_summaries()) return check.skip("this backend hands out whole rows of logits");
    const std::uint32_t rows = 4;
    std::vector<float> logits = random_floats(std::size_t{rows} * vocabulary, vocabulary, 5);
    for (std::uint32_t i = 0; i < vocabulary; ++i) logits[vocabulary + i] = static_cast<float>(i % 3);  // ties all over
    for (std::uint32_t i = 0; i < vocabulary; ++i) logits[2 * vocabulary + i] = -50.0f;
    std::vector<TokenId> asked{static_cast<TokenId>(vocabulary - 1), static_cast<TokenId>(vocabulary / 2), -1, 0};
    auto buffer = upload(*backend, logits);
    CHECK_THAT(buffer != nullptr);
    std::vector<LogitSummary> got(rows);
    CHECK_THAT(bool(backend->summarise(*buffer, vocabulary, asked, got)));
    for (std::uint32_t row = 0; row < rows; ++row) {
        const LogitSummary want = summary_of(std::span(logits).subspan(std::size_t{row} * vocabulary, vocabulary), asked[row]);
        CHECK_THAT(got[row].finite);
        CHECK_EQUAL(got[row].maximum, want.maximum);
        CHECK_BELOW(std::abs(got[row].exponentials - want.exponentials) / want.exponentials, 1e-6);
        CHECK_EQUAL(got[row].top_tokens, want.top_tokens);
        for (std::uint32_t i = 0; i < want.top_tokens; ++i) {
            CHECK_EQUAL(got[row].top[i], want.top[i]);
            CHECK_EQUAL(got[row].top_logits[i], want.top_logits[i]);
        }
        if (asked[row] < 0) continue;
        CHECK_EQUAL(got[row].asked_logit, want.asked_logit);
        CHECK_EQUAL(got[row].asked_rank, want.asked_rank);
    }
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::nanf("")}) {
        std::vector<float> broken = logits;
        broken[2 * vocabulary + vocabulary / 3] = bad;
        buffer = upload(*backend, broken);
        CHECK_THAT(bool(backend->summarise(*buffer, vocabulary, asked, got)));
        CHECK_THAT(got[0].finite && got[1].finite && !got[2].finite && got[3].finite);
    }
    CHECK_THAT(!backend->summarise(*buffer, vocabulary, std::span(asked).first(2), got));
}

void read_row(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    auto buffer = upload(*backend, {1, 2, 3});
    CHECK_THAT(buffer != nullptr);
    CHECK_THAT(download(*backend, *buffer, 2) == (std::vector<float>{1, 2}));
    std::vector<float> too_many(buffer->bytes() / sizeof(float) + 1);
    const auto refused = backend->read(*buffer, too_many);
    CHECK_THAT(!refused && refused.error().sentence.find(std::to_string(buffer->bytes())) != std::string::npos);
    CHECK_THAT(bool(backend->synchronise()));
}

void batch_row(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    const Batch good = rows_of_tokens({1, 2, 3});
    CHECK_THAT(bool(backend->begin_batch(good)));
    const auto refused = [&](auto&& spoil) {
        Batch batch = good;
        spoil(batch);
        return !backend->begin_batch(batch);
    };
    CHECK_THAT(refused([](Batch& b) { b.positions.pop_back(); }));
    CHECK_THAT(refused([](Batch& b) { b.slots.pop_back(); }));
    CHECK_THAT(refused([](Batch& b) { b.sequences[0].rows = 2; }));
    CHECK_THAT(refused([](Batch& b) { b.sequences[0].first_row = 1; }));
    CHECK_THAT(refused([](Batch& b) { b.sequences[0].table_size = 2; }));
    CHECK_THAT(refused([](Batch& b) { b.logit_rows = {3}; }));
    CHECK_THAT(bool(backend->begin_batch(good)));  // and none of them stays
    CHECK_THAT(bool(backend->begin_batch(Batch{})));
    CHECK_THAT(bool(backend->synchronise()));
}

void weight_row(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    Tensor tensor;
    tensor.name = "blk.0.attn_q.weight";
    auto refused = backend->weight(tensor);
    CHECK_THAT(!refused && refused.error().sentence.find(tensor.name) != std::string::npos);
    const std::vector<std::byte> bytes(1024);
    tensor.data = bytes.data();
    tensor.dtype = DType::q8_0;
    tensor.rows = 1;
    tensor.cols = 33;
    refused = backend->weight(tensor);
    CHECK_THAT(!refused && refused.error().sentence.find("33") != std::string::npos);
}

}  // namespace

std::vector<Row> operation_rows(const BackendSubject& subject) {
    std::vector<Row> rows;
    const auto add = [&](const std::string& name, auto run) { rows.push_back({name, [=](Check& check) { run(check); }}); };
    for (const DType type : all_types) {
        const std::string name(name_of(type));
        add("embedding takes rows of " + name + " exactly", [=](Check& c) { embed_row(subject, type, c); });
        for (const std::uint32_t count : {1u, 3u, 8u, 9u, 70u})
            add("a product with " + name + " weights equals its twin: " + std::to_string(count) + " rows",
                [=](Check& c) { product_row(subject, type, count, c); });
    }
    for (const DType type : float_types)
        add("a norm with " + std::string(name_of(type)) + " factors equals its twin", [=](Check& c) { norm_row(subject, type, c); });
    for (const std::uint32_t vocabulary : {7u, 10u, 512u, subject.large ? 128256u : 3000u})
        add("logits are summarised as sorting them would: " + std::to_string(vocabulary) + " tokens",
            [=](Check& c) { summary_row(subject, vocabulary, c); });
    add("the activation equals its twin, at its ends too", [=](Check& c) { activation_row(subject, c); });
    add("rows are gathered, the batch's own and others", [=](Check& c) { gather_row(subject, c); });
    add("a buffer is read up to its end and not beyond", [=](Check& c) { read_row(subject, c); });
    add("a batch that contradicts itself is refused", [=](Check& c) { batch_row(subject, c); });
    add("a tensor that cannot be kept is refused by name", [=](Check& c) { weight_row(subject, c); });
    return rows;
}

}  // namespace kvloupe::test
