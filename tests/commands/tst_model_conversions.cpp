// SPDX-License-Identifier: GPL-3.0-or-later
//
// Conversions as commands and window make them: on which text a model is measured, what is made once, and what is refused.
#include "engine/model/generate_model.h"
#include "engine/serve/quality_run.h"
#include "gui/environment.h"
#include "gui/model_conversions.h"
#include "gui/quality_source.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"

#include <atomic>
#include <stdexcept>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

using Target = ConvertOptions::Target;
using Measure = ConvertOptions::Measure;

const std::string fixtures = KVLOUPE_SOURCE_DIR "/tests/fixtures/";

std::shared_ptr<const Model> found(const SessionOptions& options, const std::string& name) {
    auto model = options.find_model(name);
    if (!model) throw std::runtime_error(model.error().message());
    return *model;
}

// What commands use, but measured on two stories: what a conversion is shared by does not depend on how many.
SessionOptions on_two_stories() {
    SessionOptions options = session_options(2);
    options.convert_model = [conversions = std::make_shared<ModelConversions>(options.make_backend, 2)](
                                auto model, const ConvertOptions& convert, const LoadOptions& run) {
        return conversions->get(std::move(model), convert, run);
    };
    return options;
}

Scenario lanes_of(const std::string& model, const std::string& lanes) {
    const std::string text = R"({"version": 1, "device": "cpu", "model": ")" + model + R"(", "lanes": [)" + lanes +
                             R"(], "requests": [{"id": "a", "prompt": "One sunny day", "max_new_tokens": 4}]})";
    auto scenario = parse_scenario(std::as_bytes(std::span(text)), "test.json");
    if (!scenario) throw std::runtime_error(scenario.error().message());
    return *scenario;
}

void bundledModelsAreMeasuredOnTheLastStories(Check& check) {
    const SessionOptions options = session_options(2);
    const auto model = found(options, "bundled:mha");
    CHECK_THAT(is_bundled(*model));
    const auto source = calibration_source(*model);
    CHECK_RESULT(source);
    const auto all = default_quality_source(lanes_of("bundled:mha", R"({"name": "a"})"));
    CHECK_RESULT(all);
    CHECK_EQUAL(source->texts.size(), std::size_t{calibration_stories});
    CHECK_THAT(source->questions.empty());
    CHECK_EQUAL(source->texts.back(), all->texts.back());
    CHECK_EQUAL(source->texts.front(), all->texts[all->texts.size() - calibration_stories]);
    // A converted one is of the family as well.
    const auto converted = options.convert_model(model, {Target::gqa, 2, 0, 0, {}}, {});
    CHECK_RESULT(converted);
    CHECK_THAT(is_bundled(**converted));
}

void othersAreMeasuredOnProse(Check& check) {
    const auto model = load_model(fixtures + "tiny-gqa");
    CHECK_RESULT(model);
    CHECK_THAT(!is_bundled(**model));
    const auto source = calibration_source(**model);
    CHECK_RESULT(source);
    CHECK_EQUAL(source->name, "prose.txt");
}

// The same object as long as somebody holds it, whatever session asks; made anew afterwards, with the same numbers.
void aConversionIsMadeOnce(Check& check) {
    const SessionOptions options = on_two_stories();
    const auto model = found(options, "bundled:mha");
    const ConvertOptions latents{Target::mla, 0, 0, 100, Measure::sensitivity}, other{Target::mla, 0, 0, 100, Measure::energy};
    auto first = options.convert_model(model, latents, {});
    CHECK_RESULT(first);
    const auto again = options.convert_model(model, latents, {}), by_energy = options.convert_model(model, other, {});
    CHECK_THAT(again && by_energy);
    CHECK_THAT(*again == *first && *by_energy != *first);
    std::vector<std::uint32_t> widths;
    for (std::uint32_t layer = 0; layer < model->config.layers; ++layer) widths.push_back((*first)->config.latent_width(layer));
    const auto anew = on_two_stories().convert_model(model, latents, {});
    CHECK_RESULT(anew);
    CHECK_THAT(*anew != *first);
    for (std::uint32_t layer = 0; layer < widths.size(); ++layer) CHECK_EQUAL((*anew)->config.latent_width(layer), widths[layer]);
}

// Measured on the last stories, looked at on the first ones: where little room is left, weighing by what a text gives loses less.
void bySensitivityLosesLessThanByEnergy(Check& check) {
    const Scenario lanes = lanes_of("bundled:mha", R"({"name": "MHA"},
        {"name": "energy", "convert": {"to": "mla", "width": 24}},
        {"name": "sensitivity", "convert": {"to": "mla", "width": 24, "by": "sensitivity"}})");
    const auto source = default_quality_source(lanes);
    CHECK_RESULT(source);
    QualityOptions options;
    options.source = source->first(12, 1);
    const auto report = measure_quality(lanes, session_options(2), options);
    CHECK_RESULT(report);
    CHECK_BELOW(report->lanes[2].perplexity.value, report->lanes[1].perplexity.value);
    CHECK_BELOW(report->lanes[0].perplexity.value, report->lanes[2].perplexity.value);
}

void aSessionConvertsBySensitivity(Check& check) {
    SessionOptions options = on_two_stories();
    double largest = 0;
    bool measured = false;
    options.progress = [&](double fraction, const std::string& what) {
        largest = std::max(largest, fraction);
        measured = measured || what.starts_with("Measuring what layer");
    };
    const Scenario lanes = lanes_of("bundled:mha", R"({"name": "latents", "convert": {"to": "mla", "budget": 90, "by": "sensitivity"}})");
    const auto session = Session::create(lanes, options);
    CHECK_RESULT(session);
    CHECK_RESULT((*session)->run_to_end());
    const LaneInfo& info = (*session)->recording()->lane(LaneId{0}).info();
    CHECK_EQUAL(info.conversion, "to MLA of 90 values in all layers, by sensitivity");
    CHECK_EQUAL(info.bytes_per_token, std::uint64_t{90 * 2});
    CHECK_THAT(measured && largest > 0 && largest <= 1);
}

struct NotConverted {
    std::string model;
    ConvertOptions options;
    std::string sentence;
};

Cases<NotConverted> not_converted() {
    Cases<NotConverted> cases;
    cases.add("a width beyond the projection",
              {"bundled:mha", {Target::mla, 0, 200, 0, Measure::sensitivity}, "width: 200 is beyond the projection"});
    cases.add("latents already", {"bundled:mla", {Target::mla, 0, 20, 0, Measure::sensitivity}, "keeps latents already"});
    return cases;
}

void whatCannotBeConvertedIsRefusedBeforeItIsMeasured(Check& check, const NotConverted& given) {
    const SessionOptions options = session_options(2);
    LoadOptions run;
    std::atomic<int> told = 0;
    run.progress = [&](double, const std::string&) { ++told; };
    const auto converted = options.convert_model(found(options, given.model), given.options, run);
    CHECK_THAT(!converted);
    CHECK_OR_SAY(converted.error().sentence.find(given.sentence) != std::string::npos, converted.error().sentence);
    CHECK_EQUAL(told.load(), 0);
}

void aModelWithoutATokenizerIsNotMeasured(Check& check) {
    GenerateOptions shape;
    shape.shape.layers = 1;
    shape.shape.hidden = shape.shape.intermediate = shape.shape.vocabulary = shape.shape.context_length = 32;
    shape.shape.query_heads = shape.shape.kv_heads = 2;
    shape.shape.head_dim = 16;
    auto model = generate_model(shape);
    CHECK_RESULT(model);
    const auto bare = std::make_shared<Model>(**model);
    bare->tokenizer.reset();
    const auto converted = session_options(2).convert_model(bare, {Target::mla, 0, 8, 0, Measure::sensitivity}, {});
    CHECK_THAT(!converted);
    CHECK_OR_SAY(converted.error().sentence.find("has no tokenizer") != std::string::npos, converted.error().sentence);
}

void measuringForAConversionCanBeCancelled(Check& check) {
    const SessionOptions options = session_options(2);
    for (const std::string at : {"Measuring what the layers are given", "Measuring what layer 1 costs"}) {
        std::stop_source stop;
        LoadOptions run;
        run.stop = stop.get_token();
        run.progress = [&](double, const std::string& what) {
            if (what == at) stop.request_stop();
        };
        const auto converted =
            options.convert_model(found(options, "bundled:mha"), {Target::mla, 0, 0, 100, Measure::sensitivity}, run);
        CHECK_THAT(!converted);
        CHECK_OR_SAY(converted.error().sentence.find("cancelled") != std::string::npos, converted.error().sentence);
    }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(bundledModelsAreMeasuredOnTheLastStories));
    claims.add(CLAIM(othersAreMeasuredOnProse));
    claims.add(CLAIM(aConversionIsMadeOnce));
    claims.add(CLAIM(bySensitivityLosesLessThanByEnergy));
    claims.add(CLAIM(aSessionConvertsBySensitivity));
    claims.add(CLAIM(whatCannotBeConvertedIsRefusedBeforeItIsMeasured), not_converted());
    claims.add(CLAIM(aModelWithoutATokenizerIsNotMeasured));
    claims.add(CLAIM(measuringForAConversionCanBeCancelled));
    return claims.rows();
}
