// SPDX-License-Identifier: GPL-3.0-or-later
//
// By how much a configuration's layers turn, against what transformers computes from the same keys
// (make_rotary_frequencies.py).
#include "engine/model/hf_config.h"
#include "tests/model/model_bytes.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"

#include <nlohmann/json.hpp>

#include <cmath>

using namespace kvloupe;
using namespace kvloupe::test;
using nlohmann::json;

namespace {

json oracle() { return json::parse(read_file(KVLOUPE_SOURCE_DIR "/tests/fixtures/rotary-frequencies.json")); }

Cases<std::size_t> configurationsTurnAsTransformersDoes_cases() {
    Cases<std::size_t> cases;
    const json all = oracle();
    for (std::size_t i = 0; i < all.size(); ++i) cases.add(all[i]["name"].get<std::string>(), i);
    return cases;
}
void configurationsTurnAsTransformersDoes(Check& check, std::size_t index) {
    const json entry = oracle()[index];
    const std::string bytes = entry["config"].dump();
    const Result<HfConfig> config = parse_hf_config(as_bytes(bytes), "config.json");
    CHECK_RESULT(config);
    const RotaryShape shape = config->model.rotary(0);
    const std::vector<double> frequencies = rotary_frequencies(shape);
    const auto expected = entry["frequencies"].get<std::vector<double>>();
    CHECK_EQUAL(frequencies.size(), expected.size());
    CHECK_THAT(expected.size() >= 4);
    for (std::size_t i = 0; i < expected.size(); ++i)  // transformers computes in f32
        CHECK_BELOW(std::abs(frequencies[i] - expected[i]), 2e-6 * expected[i]);
    CHECK_BELOW(std::abs(static_cast<double>(shape.scaling.magnitude) - entry["magnitude"].get<double>()), 1e-6);
}

// Scaled shapes differ from plain ones by every field: tables are kept by them.
void shapesOfOtherScalingsDiffer(Check& check) {
    const RotaryShape plain{10000.0f, 64, RotaryLayout::half_split, {}};
    RotaryShape other = plain;
    CHECK_THAT(other == plain);
    other.scaling.kind = RotaryScaling::Kind::linear;
    CHECK_THAT(other != plain);
    other = plain;
    other.scaling.magnitude = 1.1f;
    CHECK_THAT(other != plain);
    other = plain;
    other.scaling.original_context = 4096;
    CHECK_THAT(other != plain);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(configurationsTurnAsTransformersDoes), configurationsTurnAsTransformersDoes_cases());
    claims.add(CLAIM(shapesOfOtherScalingsDiffer));
    return claims.rows();
}
