// SPDX-License-Identifier: GPL-3.0-or-later
//
// Summaries of logits on the emulated device, against a plain sort and sums in double.
#include "kernels/cuda/kernels.h"
#include "tests/emulation/device_memory.h"
#include "tests/support/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Numbers {
    const char* name;
    float (*at)(std::mt19937& random, std::uint32_t token);
};
const Numbers kinds[] = {
    {"random", [](std::mt19937& r, std::uint32_t) { return static_cast<float>(r() >> 8) * 0x1p-19f - 16; }},
    {"few different", [](std::mt19937& r, std::uint32_t) { return static_cast<float>(r() % 3) - 1; }},
    {"zeros of both signs", [](std::mt19937& r, std::uint32_t) { return r() % 2 == 0 ? 0.0f : -0.0f; }},
    {"falling", [](std::mt19937&, std::uint32_t token) { return -0.01f * static_cast<float>(token); }},
    {"rising", [](std::mt19937&, std::uint32_t token) { return 0.01f * static_cast<float>(token); }},
    {"far apart", [](std::mt19937& r, std::uint32_t) { return (static_cast<float>(r() >> 8) * 0x1p-23f - 1) * 3e38f; }},
    {"tiny", [](std::mt19937& r, std::uint32_t) { return static_cast<float>(r() >> 8) * 0x1p-149f - 0x1p-130f; }},
};

std::vector<float> logits_of(const Numbers& kind, std::uint32_t rows, std::uint32_t vocabulary) {
    std::mt19937 random(vocabulary + rows);
    std::vector<float> logits(std::size_t{rows} * vocabulary);
    for (std::uint32_t row = 0; row < rows; ++row)
        for (std::uint32_t token = 0; token < vocabulary; ++token)
            logits[std::size_t{row} * vocabulary + token] = kind.at(random, token);
    return logits;
}

struct Summaries {
    DeviceArray<float> logits;
    DeviceArray<std::int32_t> asked;
    DeviceArray<std::byte> scratch;
    DeviceArray<cuda::DeviceLogitSummary> out;
    std::uint32_t vocabulary;

    Summaries(const std::vector<float>& values, const std::vector<std::int32_t>& asked_tokens)
        : logits(values), asked(asked_tokens),
          scratch(cuda::summary_scratch_bytes(static_cast<std::uint32_t>(asked_tokens.size()),
                                              static_cast<std::uint32_t>(values.size() / asked_tokens.size()))),
          out(asked_tokens.size()), vocabulary(static_cast<std::uint32_t>(values.size() / asked_tokens.size())) {}
    cudaError_t run() {
        return cuda::summarise({logits.data(), static_cast<std::uint32_t>(asked.size()), vocabulary, asked.data(), scratch.data(),
                                out.data()}, nullptr);
    }
    bool guards_hold() const { return logits.guards_hold() && asked.guards_hold() && scratch.guards_hold() && out.guards_hold(); }
};

void row_equals_sort(Check& check, const cuda::DeviceLogitSummary& got, const float* logits, std::uint32_t vocabulary,
                     std::int32_t asked) {
    std::vector<std::uint32_t> order(vocabulary);
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return logits[a] > logits[b]; });
    CHECK_EQUAL(got.finite, 1u);
    CHECK_EQUAL(got.maximum, logits[order[0]]);
    double exponentials = 0;
    for (std::uint32_t i = 0; i < vocabulary; ++i)
        exponentials += std::exp(static_cast<double>(logits[i]) - static_cast<double>(logits[order[0]]));
    CHECK_BELOW(std::abs(got.exponentials / exponentials - 1), 1e-11);
    CHECK_EQUAL(got.top_tokens, vocabulary < 10 ? vocabulary : 10u);
    for (std::uint32_t place = 0; place < got.top_tokens; ++place) {
        CHECK_EQUAL(got.top[place], static_cast<std::int32_t>(order[place]));
        CHECK_EQUAL(got.top_logits[place], logits[order[place]]);
    }
    if (asked < 0) return;
    const auto rank = std::find(order.begin(), order.end(), static_cast<std::uint32_t>(asked)) - order.begin();
    CHECK_EQUAL(got.asked_rank, static_cast<std::uint32_t>(rank));
    CHECK_EQUAL(got.asked_logit, logits[asked]);
}

void equals_sort(Check& check, const Numbers& kind, std::uint32_t rows, std::uint32_t vocabulary) {
    const std::vector<float> logits = logits_of(kind, rows, vocabulary);
    std::vector<std::int32_t> asked;
    const auto last = static_cast<std::int32_t>(vocabulary - 1);
    for (std::uint32_t row = 0; row < rows; ++row) asked.push_back(std::vector<std::int32_t>{last / 2, last, 0, -1}[row % 4]);
    Summaries summaries(logits, asked);
    LAUNCHED(summaries.run());
    const std::vector<cuda::DeviceLogitSummary> first = summaries.out.host();
    for (std::uint32_t row = 0; row < rows; ++row) {
        row_equals_sort(check, first[row], logits.data() + std::size_t{row} * vocabulary, vocabulary, asked[row]);
        if (!check.good()) return;
    }
    CHECK_THAT(summaries.guards_hold());
    Summaries again(logits, asked);
    LAUNCHED(again.run());
    const std::vector<cuda::DeviceLogitSummary> second = again.out.host();
    for (std::uint32_t row = 0; row < rows; ++row) CHECK_EQUAL(second[row].exponentials, first[row].exponentials);
}

// Only the row that holds it is told apart, and no token of a summary lies outside the vocabulary.
void not_finite(Check& check, float value, std::uint32_t vocabulary, std::uint32_t token) {
    std::vector<float> logits = logits_of(kinds[0], 3, vocabulary);
    logits[vocabulary + token] = value;
    const std::vector<std::int32_t> asked = {0, static_cast<std::int32_t>(token), -1};
    Summaries summaries(logits, asked);
    LAUNCHED(summaries.run());
    const std::vector<cuda::DeviceLogitSummary> got = summaries.out.host();
    row_equals_sort(check, got[0], logits.data(), vocabulary, 0);
    row_equals_sort(check, got[2], logits.data() + 2 * std::size_t{vocabulary}, vocabulary, -1);
    if (!check.good()) return;
    CHECK_EQUAL(got[1].finite, 0u);
    CHECK_THAT(got[1].top_tokens <= 10);
    for (std::uint32_t place = 0; place < got[1].top_tokens; ++place)
        CHECK_THAT(got[1].top[place] >= 0 && static_cast<std::uint32_t>(got[1].top[place]) < vocabulary);
    CHECK_THAT(summaries.guards_hold());
}

void nothing_finite(Check& check) {
    for (float value : {infinity, -infinity, std::nanf("")}) {
        Summaries summaries(std::vector<float>(3000, value), {5});
        LAUNCHED(summaries.run());
        const std::vector<cuda::DeviceLogitSummary> got = summaries.out.host();
        CHECK_EQUAL(got[0].finite, 0u);
        CHECK_EQUAL(got[0].top_tokens, 0u);
    }
}

void asked_outside(Check& check) {
    Summaries summaries(logits_of(kinds[0], 2, 100), {100, std::numeric_limits<std::int32_t>::min()});
    LAUNCHED(summaries.run());
    for (const cuda::DeviceLogitSummary& summary : summaries.out.host()) {
        CHECK_EQUAL(summary.finite, 1u);
        CHECK_EQUAL(summary.asked_rank, 0u);
        CHECK_EQUAL(summary.asked_logit, 0.0f);
    }
}

void nothing_to_do(Check& check) {
    CHECK_EQUAL(cuda::summarise({nullptr, 0, 100, nullptr, nullptr, nullptr}, nullptr), cudaSuccess);
    CHECK_EQUAL(cuda::summary_scratch_bytes(0, 100), 0u);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> rows;
    const auto add = [&](const Numbers& kind, std::uint32_t count, std::uint32_t vocabulary) {
        rows.push_back({std::string("equals a sort: ") + kind.name + ", " + std::to_string(count) + " rows of " + std::to_string(vocabulary),
                        [kind, count, vocabulary](Check& check) { equals_sort(check, kind, count, vocabulary); }});
    };
    for (const Numbers& kind : kinds)
        for (std::uint32_t vocabulary : {1u, 9u, 10u, 11u, 257u, 2048u, 2049u, 5000u}) add(kind, 4, vocabulary);
    for (std::uint32_t vocabulary : {2u, 255u, 256u, 2047u, 4096u, 32000u}) add(kinds[1], 5, vocabulary);
    add(kinds[0], 2, 128256);
    add(kinds[1], 1, 262144);
    for (float value : {infinity, -infinity, std::nanf("")})
        for (std::uint32_t vocabulary : {1u, 7u, 5000u})
            for (std::uint32_t token : {0u, vocabulary - 1})
                rows.push_back({"a logit that is not finite clears its row's mark alone: " + shown(value) + " at " + std::to_string(token) +
                                    " of " + std::to_string(vocabulary),
                                [value, vocabulary, token](Check& check) { not_finite(check, value, vocabulary, token); }});
    rows.push_back({"rows without a finite logit have no best tokens", nothing_finite});
    rows.push_back({"a token outside the vocabulary has no rank", asked_outside});
    rows.push_back({"no rows need no scratch and no launch", nothing_to_do});
    return rows;
}
