// SPDX-License-Identifier: GPL-3.0-or-later
//
// Lanes that attend in different ways compute the same: scores as a whole or by tiles, with and without a cache; latents absorbed
// or expanded, with and without a cache, over several cache groups and in other precisions.
#include "engine/model/convert_model.h"
#include "engine/record/attention_ledger.h"
#include "engine/record/ledger.h"
#include "tests/serve/lane_models.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// Logits of all lanes equal the first one's; the ledger leaves nothing unexplained.
void lanesAgree(Check& check, const Session& session, const Logits& logits, double most) {
    std::size_t compared = 0;
    for (const auto& [key, row] : logits) {
        const auto& [lane, request, output] = key;
        if (lane == 0) continue;
        const auto first = logits.find({0, request, output});
        CHECK_THAT(first != logits.end());
        const double difference = largest_difference(row, first->second);
        CHECK_OR_SAY(difference < most, session.recording()->lane(LaneId{lane}).info().name + ": " + shown(difference));
        ++compared;
    }
    CHECK_THAT(compared > 0);
    for (const auto& lane : session.recording()->lanes())
        for (std::size_t step = 0; step < lane->step_count(); ++step)
            for (const LedgerEntry& entry : ledger(*lane, step))
                CHECK_OR_SAY(entry.unexplained == 0, lane->info().name + ", step " + std::to_string(step) + ", " + entry.what + ": " + entry.predicted_how +
                                                         "; " + entry.residual_why);
    // What attention's stages count is what the layout and the paper's formula account for, in every form.
    for (const auto& lane : session.recording()->lanes())
        for (std::size_t step = 0; step < lane->step_count(); ++step) {
            std::size_t counted = 0;
            for (const LedgerEntry& entry : attention_ledger(*lane, step)) {
                counted += entry.measured.has_value();
                CHECK_OR_SAY(entry.unexplained == 0, lane->info().name + ", step " + std::to_string(step) + ", " + entry.what + ": " + entry.residual_why);
            }
            CHECK_EQUAL(counted, std::size_t(lane->step(step).computed_tokens > 0 ? 1 : 0));
        }
}

void theFourCombinationsOfTheClassicComparisonAgree(Check& check) {
    Logits logits;
    auto s = session_of(generated_model({0, 16, 0}), R"("lanes": [
        {"name": "tiled", "cache": {"dtype": "f32"}}, {"name": "materialised", "attention": "materialised", "cache": {"dtype": "f32", "block_size": 4}},
        {"name": "tiled uncached", "kv_cache": false}, {"name": "materialised uncached", "attention": "materialised", "kv_cache": false}],
        "requests": [)" + small_request("a", 40, 20) + "," + small_request("b", 9, 30, R"(, "arrival_step": 4)") + "]", options(&logits));
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(s->recording()->lane(LaneId{0}).info().attention_form, "tiled");
    CHECK_EQUAL(s->recording()->lane(LaneId{1}).info().attention_form, "materialised");
    lanesAgree(check, *s, logits, 1e-4);
}

Cases<std::string> latentsMayBeAbsorbedOrExpanded_cases() {
    Cases<std::string> cases;
    for (const char* name : {"deepseek-v2-dense", "deepseek-v2", "deepseek-v3"}) cases.add(name, name);
    return cases;
}
void latentsMayBeAbsorbedOrExpanded(Check& check, const std::string& name) {
    const std::string folder = fixtures + "tiny-family/" + name;
    SKIP_WITHOUT(folder + "/config.json");
    Logits logits;
    SessionOptions given = options(&logits);
    Scenario wanted = scenario(R"({"version": 1, "device": "cpu", "lanes": [
        {"name": "absorbed", "cache": {"dtype": "f32"}}, {"name": "expanded", "mla": "expanded", "cache": {"dtype": "f32", "block_size": 8}},
        {"name": "absorbed uncached", "kv_cache": false}, {"name": "expanded uncached", "mla": "expanded", "kv_cache": false}],
        "requests": [)" + small_request("a", 30, 12) + "," + small_request("b", 9, 14, R"(, "arrival_step": 4)") + "]}");
    wanted.model = folder;
    auto made = Session::create(wanted, std::move(given));
    CHECK_RESULT(made);
    CHECK_RESULT((*made)->run_to_end());
    const LaneInfo& info = (*made)->recording()->lane(LaneId{1}).info();
    CHECK_EQUAL(info.attention_variant, "MLA");
    CHECK_EQUAL(info.latent_form, "expanded");
    CHECK_EQUAL(info.bytes_per_token, info.layers * std::uint64_t(info.latent_rank + info.latent_rotary_dim) * 4);
    CHECK_EQUAL(info.parameter_parts.total(), info.parameters);
    lanesAgree(check, **made, logits, 1e-4);
}

SessionOptions converting(Logits* logits = nullptr) {
    SessionOptions given = options(logits);
    given.convert_model = [](std::shared_ptr<const Model> model, const ConvertOptions& convert, const LoadOptions& run) {
        return convert_model(std::move(model), convert, run);
    };
    return given;
}

// Full width, so that all of them compute what the model does; windows make several cache groups.
void convertedLanesStepBesideTheOthers(Check& check) {
    Logits logits;
    auto s = session_of(generated_model({0, 16, 0}), R"("lanes": [
        {"name": "heads", "cache": {"dtype": "f32"}}, {"name": "latents", "convert": {"to": "mla", "width": 64}, "cache": {"dtype": "f32", "block_size": 4}},
        {"name": "latents by budget", "convert": {"to": "mla", "budget": 192}, "mla": "expanded", "cache": {"dtype": "f32"}},
        {"name": "latents uncached", "convert": {"to": "mla", "width": 64}, "kv_cache": false}],
        "requests": [)" + small_request("a", 40, 20) + "," + small_request("b", 9, 30, R"(, "arrival_step": 4)") + "]", converting(&logits));
    CHECK_RESULT(s->run_to_end());
    const LaneInfo& info = s->recording()->lane(LaneId{1}).info();
    CHECK_EQUAL(info.attention_variant, "MLA");
    CHECK_EQUAL(info.latent_form, "expanded");
    CHECK_EQUAL(info.conversion, "to MLA of width 64, by energy");
    CHECK_EQUAL(info.bytes_per_token, 3 * 64 * 4u);
    CHECK_EQUAL(info.parameter_parts.total(), info.parameters);
    lanesAgree(check, *s, logits, 1e-4);
}

// 36 of 128 values: a cache that is 72 % smaller.
void aNarrowLatentIsASmallCache(Check& check) {
    auto s = session_of(generated_model({0, 0}), R"("lanes": [{"name": "heads"}, {"name": "narrow", "convert": {"to": "mla", "width": 36}},
        {"name": "int8", "convert": {"to": "mla", "width": 32}, "cache": {"dtype": "int8"}}, {"name": "one head", "convert": {"to": "mqa"}}],
        "requests": [)" + small_request("a", 40, 20) + "]", converting());
    CHECK_RESULT(s->run_to_end());
    const auto bytes = [&](std::uint32_t lane) { return s->recording()->lane(LaneId{lane}).info().bytes_per_token; };
    CHECK_EQUAL(bytes(0), 2 * 128 * 2u);
    CHECK_EQUAL(bytes(1), 2 * 36 * 2u);
    CHECK_EQUAL(bytes(2), 2 * (32 + 4u));
    CHECK_EQUAL(bytes(3), bytes(0) / 2);
    for (std::uint32_t lane = 0; lane < 4; ++lane)
        for (std::size_t step = 0; step < s->recording()->lane(LaneId{lane}).step_count(); ++step)
            for (const LedgerEntry& entry : ledger(s->recording()->lane(LaneId{lane}), step))
                CHECK_OR_SAY(entry.unexplained == 0, "lane " + std::to_string(lane) + ", " + entry.what + ": " + entry.residual_why);
}

void latentsThatAreTurnedLateAreNotAbsorbed(Check& check) {
    const auto made = make_session(generated_model({0}), R"("lanes": [{"name": "x", "mla": "absorbed", "convert": {"to": "mla", "width": 8}}], "requests": [)" +
                                                             small_request("a", 5, 3) + "]", converting());
    CHECK_THAT(!made);
    CHECK_OR_SAY(made.error().sentence.starts_with("Lane 'x': mla: 'absorbed'"), made.error().sentence);
}

void aConversionThatCannotBeNamesItsLane(Check& check) {
    const auto made = make_session(generated_model({0}), R"("lanes": [{"name": "x", "convert": {"to": "mla", "width": 65}}], "requests": [)" +
                                                             small_request("a", 5, 3) + "]", converting());
    CHECK_THAT(!made);
    CHECK_OR_SAY(made.error().sentence.starts_with("Lane 'x': convert: width: 65 is beyond the projection"), made.error().sentence);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(theFourCombinationsOfTheClassicComparisonAgree));
    claims.add(CLAIM(latentsMayBeAbsorbedOrExpanded), latentsMayBeAbsorbedOrExpanded_cases());
    claims.add(CLAIM(convertedLanesStepBesideTheOthers));
    claims.add(CLAIM(aNarrowLatentIsASmallCache));
    claims.add(CLAIM(latentsThatAreTurnedLateAreNotAbsorbed));
    claims.add(CLAIM(aConversionThatCannotBeNamesItsLane));
    return claims.rows();
}
