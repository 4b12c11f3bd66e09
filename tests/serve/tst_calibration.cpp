// SPDX-License-Identifier: GPL-3.0-or-later
//
// What is measured of a model before it is converted by sensitivity: losses and covariances against plain arithmetic in doubles.
#include "engine/model/converted_tensors.h"
#include "engine/model/low_rank.h"
#include "engine/serve/calibration.h"
#include "tests/serve/decoder_runs.h"
#include "tests/serve/reference_model.h"
#include "tests/support/claims.h"

#include <cmath>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

const std::string family = KVLOUPE_SOURCE_DIR "/tests/fixtures/tiny-family/";

std::shared_ptr<const Model> loaded(const std::string& name) {
    auto model = load_model(family + name);
    if (!model) throw std::runtime_error(model.error().message());
    return *model;
}

std::shared_ptr<Backend> cpu() {
    auto backend = make_backend(BackendOptions{"cpu", 2});
    if (!backend) throw std::runtime_error(backend.error().message());
    return std::shared_ptr<Backend>(std::move(*backend));
}

// Longer than a block, shorter than one, and of two tokens.
std::vector<std::vector<TokenId>> some_texts() {
    std::vector<std::vector<TokenId>> texts(3);
    for (std::size_t i = 0; i < texts.size(); ++i)
        for (std::uint32_t n = 0; n < std::vector<std::uint32_t>{70, 19, 2}[i]; ++n)
            texts[i].push_back(static_cast<TokenId>(2 + (n * 29 + 5 + 13 * i) % 200));
    return texts;
}

Cases<std::string> families() {
    Cases<std::string> cases;
    for (const char* name : {"mistral", "mixtral", "qwen2", "qwen3", "llama3-rope", "gemma2", "gemma3"}) cases.add(name, name);
    return cases;
}

double reference_loss(const Model& model) {
    double sum = 0;
    std::size_t count = 0;
    for (const std::vector<TokenId>& text : some_texts()) {
        const auto logits = ReferenceModel(model).logits(text);
        for (std::size_t i = 0; i + 1 < text.size(); ++i, ++count) {
            const double highest = *std::max_element(logits[i].begin(), logits[i].end());
            double all = 0;
            for (const double value : logits[i]) all += std::exp(value - highest);
            sum += std::log(all) + highest - logits[i][static_cast<std::size_t>(text[i + 1])];
        }
    }
    return sum / static_cast<double>(count);
}

void theLossIsThatOfAReferenceInDoubles(Check& check, const std::string& name) {
    const auto model = loaded(name);
    const auto calibration = calibrate(model, cpu(), some_texts());
    CHECK_RESULT(calibration);
    const auto loss = calibration->loss(model);
    CHECK_RESULT(loss);
    CHECK_BELOW(std::abs(*loss - reference_loss(*model)), 1e-4);
    // And of a model with latents, whose reference is the model of full width.
    const std::uint32_t rank = std::min(model->config.hidden, 2 * model->config.kv_heads * model->config.head_dim);
    const auto latents = convert_model(model, {ConvertOptions::Target::mla, 0, rank, 0, {}});
    CHECK_RESULT(latents);
    const auto same = calibration->loss(*latents);
    CHECK_RESULT(same);
    CHECK_BELOW(std::abs(*same - *loss), 1e-4);
}

// What the first layer's projections take: embeddings, normed. Deeper ones are at least covariances.
void theFirstCovarianceIsThatOfNormedEmbeddings(Check& check, const std::string& name) {
    const auto model = loaded(name);
    const auto calibration = calibrate(model, cpu(), some_texts());
    CHECK_RESULT(calibration);
    CHECK_EQUAL(calibration->covariances.size(), std::size_t{model->config.layers});
    const std::size_t hidden = model->config.hidden;
    const std::vector<float> table = elements_of(model->embedding), weight = elements_of(model->layers[0].attention_norm);
    std::vector<double> expected(hidden * hidden, 0.0);
    double count = 0;
    for (const std::vector<TokenId>& text : some_texts())
        for (const TokenId token : text) {
            std::vector<double> x(hidden);
            double squares = 0;
            for (std::size_t i = 0; i < hidden; ++i) {
                x[i] = static_cast<double>(table[static_cast<std::size_t>(token) * hidden + i]) *
                       static_cast<double>(model->config.embedding_scale);
                squares += x[i] * x[i];
            }
            const double root = std::sqrt(squares / static_cast<double>(hidden) + static_cast<double>(model->config.rms_epsilon));
            for (std::size_t i = 0; i < hidden; ++i) x[i] *= static_cast<double>(weight[i]) / root;
            for (std::size_t i = 0; i < hidden; ++i)
                for (std::size_t j = 0; j < hidden; ++j) expected[i * hidden + j] += x[i] * x[j];
            count += 1;
        }
    double largest = 0, gap = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        largest = std::max(largest, std::abs(expected[i] / count));
        gap = std::max(gap, std::abs(calibration->covariances[0][i] - expected[i] / count));
    }
    CHECK_BELOW(gap, 1e-5 * largest);
    for (const std::vector<double>& covariance : calibration->covariances) {
        double trace = 0;
        for (std::size_t i = 0; i < hidden; ++i) trace += covariance[i * (hidden + 1)];
        CHECK_THAT(std::isfinite(trace) && trace > 0);
        for (std::size_t i = 0; i < hidden; ++i)
            for (std::size_t j = 0; j < i; ++j) CHECK_THAT(covariance[i * hidden + j] == covariance[j * hidden + i]);
    }
}

// Eckart and Young, where inputs lie: a cut by what was measured loses less of the keys and values of this text than one without.
void aWeighedCutLosesLessOfTheTextsKeysAndValues(Check& check, const std::string& name) {
    const auto model = loaded(name);
    const auto calibration = calibrate(model, cpu(), some_texts());
    CHECK_RESULT(calibration);
    const std::uint32_t hidden = model->config.hidden;
    for (std::uint32_t layer = 0; layer < model->config.layers; ++layer) {
        std::vector<float> both = elements_of(model->layers[layer].key);
        const std::vector<float> values = elements_of(model->layers[layer].value);
        both.insert(both.end(), values.begin(), values.end());
        const auto rows = static_cast<std::uint32_t>(both.size() / hidden);
        const std::vector<double>& c = calibration->covariances[layer];
        // Trace of (W - up down) C (W - up down)^T.
        const auto lost = [&](const LowRank& factors, std::uint32_t width) {
            const std::vector<float> down = factors.down(width), up = factors.up(width);
            double sum = 0;
            for (std::uint32_t r = 0; r < rows; ++r) {
                std::vector<double> rest(hidden);
                for (std::uint32_t j = 0; j < hidden; ++j) {
                    rest[j] = static_cast<double>(both[r * hidden + j]);
                    for (std::uint32_t k = 0; k < width; ++k)
                        rest[j] -= static_cast<double>(up[r * width + k]) * static_cast<double>(down[k * hidden + j]);
                }
                for (std::uint32_t i = 0; i < hidden; ++i)
                    for (std::uint32_t j = 0; j < hidden; ++j) sum += rest[i] * c[i * hidden + j] * rest[j];
            }
            return sum;
        };
        const LowRank plain(both, rows, hidden), weighed(both, rows, hidden, c);
        const std::uint32_t width = plain.rank() / 3;
        CHECK_BELOW(lost(weighed, width), lost(plain, width));
    }
}

void whatCannotBeMeasuredIsRefused(Check& check) {
    const auto nothing = calibrate(loaded("qwen2"), cpu(), {{7}, {}});
    CHECK_THAT(!nothing);
    CHECK_OR_SAY(nothing.error().sentence.find("There is no text to measure") != std::string::npos, nothing.error().sentence);
    const auto latents = convert_model(loaded("qwen2"), {ConvertOptions::Target::mla, 0, 8, 0, {}});
    CHECK_RESULT(latents);
    const auto twice = calibrate(*latents, cpu(), some_texts());
    CHECK_THAT(!twice);
    CHECK_OR_SAY(twice.error().sentence.find("keeps latents already") != std::string::npos, twice.error().sentence);
}

void measuringCanBeCancelled(Check& check) {
    std::stop_source stop;
    LoadOptions run;
    run.stop = stop.get_token();
    run.progress = [&](double fraction, const std::string&) {
        if (fraction > 0) stop.request_stop();
    };
    const auto stopped = calibrate(loaded("qwen2"), cpu(), some_texts(), run);
    CHECK_THAT(!stopped);
    CHECK_EQUAL(stopped.error().sentence, "Measuring the model was cancelled");
    std::stop_source later;
    LoadOptions whole;
    whole.stop = later.get_token();
    const auto measured = calibrate(loaded("qwen2"), cpu(), some_texts(), whole);
    CHECK_RESULT(measured);
    later.request_stop();
    CHECK_THAT(!measured->loss(loaded("qwen2")));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(theLossIsThatOfAReferenceInDoubles), families());
    claims.add(CLAIM(theFirstCovarianceIsThatOfNormedEmbeddings), families());
    claims.add(CLAIM(aWeighedCutLosesLessOfTheTextsKeysAndValues), families());
    claims.add(CLAIM(whatCannotBeMeasuredIsRefused));
    claims.add(CLAIM(measuringCanBeCancelled));
    return claims.rows();
}
