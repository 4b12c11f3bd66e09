// SPDX-License-Identifier: GPL-3.0-or-later
//
// The CUDA backend on a real card, through the plugin as the program opens it, against the double reference and the CPU.
#include "kernels/make_backend.h"
#include "tests/support/backend_rows.h"
#include "tests/support/kernel_data.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

Result<std::unique_ptr<Backend>> card() { return make_backend({"cuda:0", 0}); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void ceilings(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    const Ceilings measured = backend->measure_ceilings({});
    check.note("read " + shown(measured.read_bandwidth / 1e9) + " GB/s, copy " + shown(measured.copy_bandwidth / 1e9) + " GB/s, matrix " +
               shown(measured.matrix_rate / 1e12) + " TFLOP/s");
    // The least that a card of compute capability 8.0 or above has, by far.
    CHECK_THAT(measured.read_bandwidth > 50e9 && measured.copy_bandwidth > 50e9 && measured.matrix_rate > 5e12);
    CHECK_THAT(backend->measure_ceilings({}) == measured);
}

void larger_than_the_card(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    KvCacheShape shape = KvCacheShape::uniform(32, 0, 16, 8, 128, DType::f16, DType::f16);
    const std::uint64_t of_block = std::uint64_t{2} * 32 * 16 * 8 * 128 * 2;
    shape.blocks = static_cast<std::uint32_t>(backend->info().memory_bytes / of_block + 1000);
    const auto refused = backend->kv_cache(shape, Purpose::kv_cache);
    CHECK_THAT(!refused && contains(refused.error().sentence, "the largest pool that fits has "));
    const std::string words = "the largest pool that fits has ";
    shape.blocks = static_cast<std::uint32_t>(std::stoul(refused.error().sentence.substr(refused.error().sentence.find(words) + words.size())));
    check.note(refused.error().sentence);
    const auto fits = backend->kv_cache(shape, Purpose::kv_cache);
    CHECK_THAT(bool(fits));
}

// What the driver says is taken, and what we account: the rest is the context, cuBLAS and rounding.
void residual(const BackendSubject& subject, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    const std::uint64_t before = backend->info().free_bytes;
    auto cache = backend->kv_cache(KvCacheShape::uniform(32, 1024, 16, 8, 128, DType::f16, DType::f16), Purpose::kv_cache);
    CHECK_THAT(bool(cache));
    const std::uint64_t taken = before - backend->info().free_bytes, counted = (*cache)->bytes();
    check.note("the driver says " + shown(taken) + " bytes for a pool of " + shown(counted));
    CHECK_THAT(taken >= counted && taken - counted <= (std::uint64_t{64} << 20));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    BackendSubject subject;
    subject.make = card;
    subject.absent = !card();
    subject.large = true;
    std::vector<Row> rows{
        {"ceilings are measured and kept", [=](Check& check) { ceilings(subject, check); }},
        {"a pool larger than the card is refused with one that fits", [=](Check& check) { larger_than_the_card(subject, check); }},
        {"a pool takes what is counted of the driver's memory", [=](Check& check) { residual(subject, check); }},
    };
    append(rows, operation_rows(subject));
    append(rows, part_rows(subject));
    append(rows, form_rows(subject));
    append(rows, attention_rows(subject));
    append(rows, cache_rows(subject));
    append(rows, format_rows(subject));
    append(rows, pass_rows(subject));
    return rows;
}
