// SPDX-License-Identifier: GPL-3.0-or-later
//
// Factors of low rank, and how layers share a budget of widths.
#include "engine/model/latent_widths.h"
#include "engine/model/low_rank.h"
#include "tests/support/claims.h"

#include <cmath>
#include <numeric>
#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::vector<float> random_matrix(std::uint32_t rows, std::uint32_t cols, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<float> values(std::size_t{rows} * cols);
    for (float& value : values) value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
    return values;
}

std::vector<double> product(const std::vector<float>& a, const std::vector<float>& b, std::uint32_t rows, std::uint32_t inner, std::uint32_t cols) {
    std::vector<double> result(std::size_t{rows} * cols, 0.0);
    for (std::uint32_t r = 0; r < rows; ++r)
        for (std::uint32_t i = 0; i < inner; ++i)
            for (std::uint32_t c = 0; c < cols; ++c)
                result[r * cols + c] += static_cast<double>(a[r * inner + i]) * static_cast<double>(b[i * cols + c]);
    return result;
}

// Sum of squares of (W - up down) L, row by row, where L is diagonal.
double error_of(const LowRank& factors, std::uint32_t width, const std::vector<float>& w, std::uint32_t rows, std::uint32_t cols,
                const std::vector<double>& scales = {}) {
    const std::vector<double> near = product(factors.up(width), factors.down(width), rows, width, cols);
    double sum = 0;
    for (std::size_t i = 0; i < near.size(); ++i) {
        const double scale = scales.empty() ? 1.0 : scales[i % cols];
        sum += std::pow((static_cast<double>(w[i]) - near[i]) * scale, 2);
    }
    return sum;
}

struct Size {
    std::uint32_t rows, cols;
};

Cases<Size> sizes() {
    Cases<Size> cases;
    cases.add("more rows than columns", {12, 7});
    cases.add("more columns than rows", {6, 15});
    cases.add("square", {9, 9});
    return cases;
}

void fullWidthIsTheMatrix(Check& check, Size size) {
    const std::vector<float> w = random_matrix(size.rows, size.cols, 3);
    const LowRank factors(w, size.rows, size.cols);
    CHECK_EQUAL(factors.rank(), std::min(size.rows, size.cols));
    CHECK_BELOW(error_of(factors, factors.rank(), w, size.rows, size.cols), 1e-10);
}

// Eckart and Young: the least error of a width is the sum of the squared singular values behind it.
void theErrorIsWhatTheSingularValuesSay(Check& check, Size size) {
    const std::vector<float> w = random_matrix(size.rows, size.cols, 4);
    const LowRank factors(w, size.rows, size.cols);
    const double all = std::accumulate(w.begin(), w.end(), 0.0, [](double sum, float v) { return sum + static_cast<double>(v) * static_cast<double>(v); });
    for (std::uint32_t width = 1; width < factors.rank(); ++width) {
        const double behind = std::accumulate(factors.squared().begin() + width, factors.squared().end(), 0.0);
        CHECK_BELOW(std::abs(error_of(factors, width, w, size.rows, size.cols) - behind), 1e-5);
        CHECK_BELOW(std::abs(factors.lost(width) - behind / all), 1e-6);
        CHECK_THAT(factors.squared()[width - 1] >= factors.squared()[width]);
    }
}

void inputsThatHardlyVaryHardlyCount(Check& check, Size size) {
    const std::vector<float> w = random_matrix(size.rows, size.cols, 5);
    std::vector<double> scales(size.cols), covariance(std::size_t{size.cols} * size.cols, 0.0);
    for (std::uint32_t c = 0; c < size.cols; ++c) {
        scales[c] = c % 3 == 0 ? 4.0 : 0.25;
        covariance[c * (size.cols + std::size_t{1})] = scales[c] * scales[c];
    }
    const LowRank plain(w, size.rows, size.cols), weighed(w, size.rows, size.cols, covariance);
    for (const std::uint32_t width : {1u, 2u, 3u}) {
        const double behind = std::accumulate(weighed.squared().begin() + width, weighed.squared().end(), 0.0);
        const double error = error_of(weighed, width, w, size.rows, size.cols, scales);
        CHECK_BELOW(std::abs(error - behind), 1e-3);
        CHECK_BELOW(error, error_of(plain, width, w, size.rows, size.cols, scales));
    }
}

// Inputs that never took some directions leave the product of full width exact all the same.
void fullWidthNeedsNoFullCovariance(Check& check, Size size) {
    const std::vector<float> w = random_matrix(size.rows, size.cols, 6);
    std::vector<double> covariance(std::size_t{size.cols} * size.cols, 0.0);
    covariance[0] = 1;
    const LowRank factors(w, size.rows, size.cols, covariance);
    CHECK_BELOW(error_of(factors, factors.rank(), w, size.rows, size.cols), 1e-8);
}

double kept(const std::vector<std::vector<double>>& squared, const std::vector<double>& weights, const std::vector<std::uint32_t>& widths) {
    double result = 0;
    for (std::size_t layer = 0; layer < squared.size(); ++layer) {
        const double sum = std::accumulate(squared[layer].begin(), squared[layer].end(), 0.0);
        for (std::uint32_t i = 0; i < widths[layer]; ++i) result += (weights.empty() ? 1.0 : weights[layer]) * squared[layer][i] / sum;
    }
    return result;
}

const std::vector<std::vector<double>> three_layers = {{9, 4, 1, 0.5, 0.1}, {100, 1, 0.5}, {3, 3, 2.5, 2}};

void noOtherWidthsKeepMore(Check& check, const std::vector<double>& weights) {
    for (std::uint64_t budget = 3; budget <= 12; ++budget) {
        const std::vector<std::uint32_t> widths = share_budget(three_layers, weights, budget);
        CHECK_EQUAL(std::accumulate(widths.begin(), widths.end(), std::uint64_t{0}), budget);
        double best = 0;
        for (std::uint32_t a = 1; a <= 5; ++a)
            for (std::uint32_t b = 1; b <= 3; ++b)
                for (std::uint32_t c = 1; c <= 4; ++c)
                    if (a + b + c == budget) best = std::max(best, kept(three_layers, weights, {a, b, c}));
        CHECK_THAT(widths[0] >= 1 && widths[0] <= 5 && widths[1] >= 1 && widths[1] <= 3 && widths[2] >= 1 && widths[2] <= 4);
        CHECK_BELOW(std::abs(kept(three_layers, weights, widths) - best), 1e-12);
    }
}

Cases<std::vector<double>> weights_of_layers() {
    Cases<std::vector<double>> cases;
    cases.add("layers count alike", {});
    cases.add("layers have weights", {0.1, 30, 1});
    return cases;
}

void aLayerOfZerosTakesNoMoreThanItMust(Check& check) {
    const std::vector<std::vector<double>> squared = {{0, 0, 0}, {5, 1, 0.1}};
    CHECK_THAT(share_budget(squared, {}, 4) == (std::vector<std::uint32_t>{1, 3}));
    CHECK_THAT(share_budget(squared, {}, 6) == (std::vector<std::uint32_t>{3, 3}));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(fullWidthIsTheMatrix), sizes());
    claims.add(CLAIM(theErrorIsWhatTheSingularValuesSay), sizes());
    claims.add(CLAIM(inputsThatHardlyVaryHardlyCount), sizes());
    claims.add(CLAIM(fullWidthNeedsNoFullCovariance), sizes());
    claims.add(CLAIM(noOtherWidthsKeepMore), weights_of_layers());
    claims.add(CLAIM(aLayerOfZerosTakesNoMoreThanItMust));
    return claims.rows();
}
