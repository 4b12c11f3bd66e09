// SPDX-License-Identifier: GPL-3.0-or-later
//
// A session computes what the model computes: golden tokens and logits, whatever the block size, the chunks, the batch,
// with a cache and without.
#include "tests/serve/support.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <nlohmann/json.hpp>

#include <filesystem>

using namespace kvloupe;
using namespace kvloupe::test;
using nlohmann::json;

namespace {

std::vector<TokenId> tokens_of(const json& list) { return list.get<std::vector<TokenId>>(); }

std::string json_list(const std::vector<TokenId>& tokens) {
    return json(tokens).dump();
}

// Runs a scenario over stories260K to its end.
struct Run {
    Logits logits;
    std::shared_ptr<const Recording> recording;
    Error error;
    explicit Run(const std::string& rest, const std::string& model = stories) {
        Scenario given = scenario("{\"version\": 1, \"device\": \"cpu\", " + rest + "}");
        given.model = model;
        auto session = Session::create(given, options(&logits));
        if (!session) {
            error = session.error();
            return;
        }
        if (auto ran = (*session)->run_to_end(); !ran) error = ran.error();
        recording = (*session)->recording();
    }
};

#define VERIFY_RUN(run) CHECK_OR_SAY((run).error.sentence.empty(), (run).error.message())

const std::string two_requests =
    R"("requests": [{"id": "a", "prompt": "Once upon a time there was a little girl who", "max_new_tokens": 40},
                    {"id": "b", "prompt": "Tom and", "max_new_tokens": 30, "arrival_step": 3}])";

Cases<std::string> theGoldenTokensAndLogitsComeOut_cases() {
    Cases<std::string> cases;
    cases.add("cached, f32", std::string(R"({"cache": {"dtype": "f32"}})"));
    cases.add("cached, f32, blocks of 5", std::string(R"({"cache": {"dtype": "f32", "block_size": 5}})"));
    cases.add("uncached", std::string(R"({"kv_cache": false})"));
    return cases;
}
void theGoldenTokensAndLogitsComeOut(Check& check, const std::string& lane) {
    SKIP_WITHOUT(stories);
    const json golden = json::parse(read_file(KVLOUPE_SHARED_DATA "/models/stories260K_golden.json"));
    const Run run("\"lanes\": [" + lane + R"(], "requests": [{"id": "a", "prompt_tokens": [1], "max_new_tokens": 200}])");
    VERIFY_RUN(run);
    CHECK_EQUAL(outputs(*run.recording, LaneId{0}, "a"), tokens_of(golden["greedy_from_bos_200"]));
    const json& expected = golden.at("logits_first8");
    CHECK_EQUAL(expected.size(), 4);
    for (const auto& [key, at] : expected.items()) {
        const std::vector<float>& logits = run.logits.at({0, 0, std::uint32_t(std::stoul(key.substr(3)))});
        const auto best = std::max_element(logits.begin(), logits.end());
        CHECK_EQUAL(int(best - logits.begin()), at["argmax"].get<int>());
        CHECK_THAT(std::fabs(double(*best) - at["max"].get<double>()) < 1e-3);
        const auto values = at["v"].get<std::vector<double>>();
        for (std::size_t i = 0; i < values.size(); ++i) CHECK_THAT(std::fabs(double(logits[i]) - values[i]) < 1e-3);
    }
}

Cases<std::string> tinyModelsEqualTransformers_cases() {
    Cases<std::string> cases;
    for (const std::string& name : names_in(fixtures, "tiny-")) {
        if (name == "tiny-family") continue;  // the other architectures: tst_architectures
        cases.add(name, name);
        for (const std::string& file : names_in(fixtures + name, "", ".gguf")) cases.add(file, name + '/' + file);
    }
    return cases;
}
void tinyModelsEqualTransformers(Check& check, const std::string& name) {
    const std::string model = fixtures + name;
    // A folder, or a GGUF file name/name.TYPE.gguf, whose weights transformers used unpacked.
    const std::filesystem::path path(name);
    const std::string type = path.extension() == ".gguf" ? path.stem().extension().string().substr(1) + '.' : "";
    const json expected =
        json::parse(read_file(fixtures + name.substr(0, name.find('/')) + "/expected." + type + "json"));
    const std::vector<TokenId> tokens = tokens_of(expected["tokens"]);
    // The first token is the prompt, the others are forced: output index i answers position i.
    std::vector<TokenId> forced(tokens.begin() + 1, tokens.end());
    forced.push_back(0);
    const Run run(R"("lanes": [{"name": "f32", "cache": {"dtype": "f32", "block_size": 4}},
                              {"name": "one block", "cache": {"dtype": "f32", "block_size": 256}}, {"kv_cache": false}],
                    "requests": [{"id": "a", "prompt_tokens": )" + json_list({tokens[0]}) + R"(, "output_tokens": )" +
                  json_list(forced) + R"(}, {"id": "g", "prompt_tokens": )" + json_list(tokens) + R"(, "max_new_tokens": )" +
                  std::to_string(expected["greedy"].size()) + "}]", model);
    VERIFY_RUN(run);
    const auto positions = expected["positions"].get<std::vector<std::uint32_t>>();
    CHECK_THAT(positions.size() > 0);
    double largest = 0;
    for (std::uint32_t lane = 0; lane < 3; ++lane) {
        for (std::size_t i = 0; i < positions.size(); ++i) {
            const auto wanted = expected["logits"][i].get<std::vector<float>>();
            largest = std::max(largest, largest_difference(run.logits.at({lane, 0, positions[i]}), wanted));
        }
        CHECK_EQUAL(outputs(*run.recording, LaneId{lane}, "g"), tokens_of(expected["greedy"]));
    }
    check.note(printed("largest logit difference to transformers: %.3g", largest));
    CHECK_THAT(largest < 1e-4);
}

void cachedAndUncachedAgree(Check& check) {
    SKIP_WITHOUT(stories);
    const Run run(R"("lanes": [{"name": "cached", "cache": {"dtype": "f32"}}, {"name": "uncached", "kv_cache": false}], )" + two_requests);
    VERIFY_RUN(run);
    double largest = 0;
    std::size_t compared = 0;
    for (const auto& entry : run.logits) {
        if (std::get<0>(entry.first) != 0) continue;
        const auto other = run.logits.find({1, std::get<1>(entry.first), std::get<2>(entry.first)});
        CHECK_THAT(other != run.logits.end());
        largest = std::max(largest, largest_difference(entry.second, other->second));
        ++compared;
    }
    CHECK_EQUAL(compared, std::size_t(70));
    check.note(printed("largest logit difference cached - uncached: %.3g", largest));
    CHECK_THAT(largest < 1e-4);
    // The recording says the same, and the first lane has nobody to be compared with.
    double recorded = 0;
    const LaneRecord& uncached = run.recording->lane(LaneId{1});
    for (std::size_t i = 0; i < uncached.step_count(); ++i) {
        CHECK_THAT(!std::isnan(uncached.step(i).logit_difference));
        recorded = std::max(recorded, double(uncached.step(i).logit_difference));
        CHECK_THAT(std::isnan(run.recording->lane(LaneId{0}).step(i).logit_difference));
    }
    CHECK_EQUAL(recorded, largest);
}

Cases<std::string> blockSizesGiveTheSameBits_cases() {
    Cases<std::string> cases;
    for (const char* dtype : {"f32", "f16", "bf16"}) cases.add(dtype, std::string(dtype));
    return cases;
}
void blockSizesGiveTheSameBits(Check& check, const std::string& dtype) {
    SKIP_WITHOUT(stories);
    std::string lanes;
    for (const char* size : {"100", "1", "7", "16", "256"})  // 100: one block as long as the sequence
        lanes += std::string(lanes.empty() ? "" : ", ") + "{\"name\": \"" + size + "\", \"cache\": {\"dtype\": \"" + dtype +
                 "\", \"block_size\": " + size + "}}";
    const Run run("\"lanes\": [" + lanes + "], " + two_requests);
    VERIFY_RUN(run);
    for (const auto& entry : run.logits)
        CHECK_EQUAL(entry.second, run.logits.at({0, std::get<1>(entry.first), std::get<2>(entry.first)}));
    CHECK_EQUAL(run.logits.size(), std::size_t(5 * 70));
}

void chunkedPrefillEqualsWholePrefill(Check& check) {
    SKIP_WITHOUT(stories);
    const Run run(R"("lanes": [{"name": "whole", "cache": {"dtype": "f32"}},
        {"name": "chunks of 5", "cache": {"dtype": "f32"}, "scheduler": {"max_num_batched_tokens": 5}},
        {"name": "chunks of 1", "cache": {"dtype": "f32"}, "scheduler": {"long_prefill_token_threshold": 1}},
        {"name": "uncached in pieces", "kv_cache": false, "scheduler": {"max_num_batched_tokens": 3}}], )" + two_requests);
    VERIFY_RUN(run);
    double largest = 0;
    for (const auto& entry : run.logits)
        largest = std::max(largest, largest_difference(entry.second, run.logits.at({0, std::get<1>(entry.first), std::get<2>(entry.first)})));
    check.note(printed("largest logit difference chunked - whole: %.3g", largest));
    CHECK_THAT(largest < 1e-4);
    CHECK_THAT(run.recording->lane(LaneId{2}).step_count() > run.recording->lane(LaneId{0}).step_count() + 5);
}

void aBatchGivesWhatEachRequestGivesAlone(Check& check) {
    SKIP_WITHOUT(stories);
    const std::string one = R"({"id": "a", "prompt": "Once upon", "max_new_tokens": 25, "temperature": 0.8, "top_k": 50})";
    const std::string two = R"({"id": "b", "prompt": "Lily had a big red ball and", "max_new_tokens": 25, "temperature": 1.1, "top_p": 0.9})";
    const std::string three = R"({"id": "c", "prompt": "The dog", "max_new_tokens": 30, "arrival_step": 4})";
    const std::string lanes = R"("seed": 5, "lanes": [{"cache": {"dtype": "f32"}}], "requests": [)";
    const Run all(lanes + one + "," + two + "," + three + "]");
    VERIFY_RUN(all);
    for (const auto& request : {std::pair{"a", one}, std::pair{"b", two}, std::pair{"c", three}}) {
        const Run alone(lanes + request.second + "]");
        VERIFY_RUN(alone);
        CHECK_EQUAL(outputs(*all.recording, LaneId{0}, request.first), outputs(*alone.recording, LaneId{0}, request.first));
    }
    const Run reordered(lanes + three + "," + two + "," + one + "]");
    CHECK_EQUAL(outputs(*all.recording, LaneId{0}, "b"), outputs(*reordered.recording, LaneId{0}, "b"));
}

void K1_keyHeadsThatAreCopiesGiveTheSameLogits(Check& check) {
    const auto gqa = load_model(fixtures + "tiny-gqa");
    CHECK_RESULT(gqa);
    const Model& few = **gqa;
    // Every query head gets a KV head of its own, a copy of the one it shared.
    auto many = std::make_shared<Model>(few);
    many->config.kv_heads = few.config.query_heads;
    for (LayerShape& layer : many->config.layer_shapes) layer.kv_heads = few.config.query_heads;
    many->weights_id = 4711;
    const std::uint32_t shared_by = few.config.query_heads / few.config.kv_heads;
    for (LayerWeights& layer : many->layers)
        for (Tensor* tensor : {&layer.key, &layer.value}) {
            const std::uint64_t head_bytes = tensor->bytes() / few.config.kv_heads;
            std::vector<std::byte> bytes;
            for (std::uint32_t head = 0; head < few.config.query_heads; ++head) {
                const std::byte* from = tensor->data + head / shared_by * head_bytes;
                bytes.insert(bytes.end(), from, from + head_bytes);
            }
            tensor->rows *= shared_by;
            many->owned.push_back(std::move(bytes));
            tensor->data = many->owned.back().data();
        }
    Logits logits;
    SessionOptions given = options(&logits);
    given.find_model = [&](const std::string& name) -> Result<std::shared_ptr<const Model>> {
        return name == "many" ? std::shared_ptr<const Model>(many) : *gqa;
    };
    auto s = Session::create(scenario(R"({"version": 1, "device": "cpu", "model": "few", "lanes": [{"name": "few", "cache": {"dtype": "f32"}}, {"name": "many", "model": "many", "cache": {"dtype": "f32"}}],
                                          "requests": [{"id": "a", "prompt_tokens": [5, 6, 7, 8, 9, 10, 11], "max_new_tokens": 30}]})"), given);
    CHECK_RESULT(s);
    CHECK_RESULT((*s)->run_to_end());
    std::size_t compared = 0;
    for (const auto& [key, values] : logits)
        if (std::get<0>(key) == 0) {
            CHECK_THAT(largest_difference(values, logits.at({1, 0, std::get<2>(key)})) <= 1e-5);
            ++compared;
        }
    CHECK_THAT(compared > 0);
    const Recording& recording = *(*s)->recording();
    CHECK_EQUAL(recording.lane(LaneId{0}).info().bytes_per_token * shared_by, recording.lane(LaneId{1}).info().bytes_per_token);
}

void countersFollowTheWork(Check& check) {
    SKIP_WITHOUT(stories);
    const Run run(R"("lanes": [{"name": "cached"}, {"name": "uncached", "kv_cache": false}],
                    "requests": [{"id": "a", "prompt_tokens": [1, 403, 407], "max_new_tokens": 10}])");
    VERIFY_RUN(run);
    const LaneRecord& cached = run.recording->lane(LaneId{0});
    const LaneRecord& uncached = run.recording->lane(LaneId{1});
    CHECK_EQUAL(cached.step_count(), std::size_t(10));
    CHECK_EQUAL(uncached.step_count(), std::size_t(10));
    std::uint64_t with = 0, without = 0;
    for (std::size_t i = 0; i < 10; ++i) {
        with += cached.step(i).computed_tokens;
        without += uncached.step(i).computed_tokens;
        CHECK_EQUAL(cached.step(i).hit_tokens, std::uint64_t(0));
        CHECK_EQUAL(cached.step(i).used_blocks, 1u);
        CHECK_EQUAL(cached.step(i).kv_bytes, cached.info().block_bytes);
        CHECK_EQUAL(uncached.step(i).kv_bytes, std::uint64_t(0));
        CHECK_EQUAL(cached.step(i).context_tokens, std::uint32_t(3 + i));
    }
    CHECK_EQUAL(with, std::uint64_t(12));               // prompt + new - 1
    CHECK_EQUAL(without, std::uint64_t(12 * 13 / 2 - 3));  // 3 + 4 + … + 12
    CHECK_EQUAL(cached.step(0).prefill_tokens, 3u);
    CHECK_EQUAL(cached.step(5).decode_tokens, 1u);
    // 5 layers, 4 KV heads of 8, f16: the formula, and what the allocator says.
    CHECK_EQUAL(cached.info().bytes_per_token, std::uint64_t(2 * 5 * 4 * 8 * 2));
    CHECK_THAT(cached.info().block_bytes >= cached.info().bytes_per_token * 16);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(theGoldenTokensAndLogitsComeOut), theGoldenTokensAndLogitsComeOut_cases());
    claims.add(CLAIM(tinyModelsEqualTransformers), tinyModelsEqualTransformers_cases());
    claims.add(CLAIM(cachedAndUncachedAgree));
    claims.add(CLAIM(blockSizesGiveTheSameBits), blockSizesGiveTheSameBits_cases());
    claims.add(CLAIM(chunkedPrefillEqualsWholePrefill));
    claims.add(CLAIM(aBatchGivesWhatEachRequestGivesAlone));
    claims.add(CLAIM(K1_keyHeadsThatAreCopiesGiveTheSameLogits));
    claims.add(CLAIM(countersFollowTheWork));
    return claims.rows();
}
