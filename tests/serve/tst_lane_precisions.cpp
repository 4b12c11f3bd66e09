// SPDX-License-Identifier: GPL-3.0-or-later
//
// Lanes in every precision of a cache: they compute nearly what f32 computes, hold what their layout says, and the ledger explains
// every byte; KIVI's newest tokens stay in f16 pages until the rule quantises them.
#include "engine/cache/kivi_residual.h"
#include "engine/record/ledger.h"
#include "engine/record/results.h"
#include "tests/serve/lane_models.h"
#include "tests/serve/wrapping_backend.h"
#include "tests/support/texts.h"

#include <nlohmann/json.hpp>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

struct PrecisionCase {
    std::string cache;
    double most;  // largest difference of a logit to f32
    double bytes; // per token of one layer: 2 KV heads of 32 values, K and V
};
Cases<PrecisionCase> everyPrecisionRunsAndIsAccountedFor_cases() {
    Cases<PrecisionCase> cases;
    const auto row = [&](const std::string& cache, double most, double of_row) { cases.add(cache, {cache, most, of_row * 4}); };
    row(R"("dtype": "f32")", 1e-4, 128);
    row(R"("dtype": "f16")", 0.02, 64);
    row(R"("dtype": "bf16")", 0.1, 64);
    row(R"("dtype": "fp8_e4m3")", 1, 32);
    row(R"("dtype": "fp8_e5m2", "scale": "head")", 2, 32);
    row(R"("dtype": "fp8_e4m3", "scale": "token_head")", 1, 36);
    row(R"("dtype": "int8")", 0.1, 36);
    row(R"("dtype": "int8", "scale": "joint")", 0.2, 34);
    row(R"("dtype": "int8", "rotate": true)", 0.1, 36);
    row(R"("dtype": "int4")", 2, 20);
    row(R"("dtype": "kivi4")", 2, 24);
    row(R"("dtype": "kivi2", "residual": 16)", 8, 16);
    row(R"("dtype": "q8_0")", 0.1, 34);
    row(R"("dtype": "q5_1")", 1, 24);
    row(R"("dtype": "q5_0")", 1, 22);
    row(R"("dtype": "q4_1")", 2, 20);
    row(R"("dtype": "q4_0")", 2, 18);
    row(R"("dtype_k": ["int8", "q8_0", "f16"], "dtype_v": "int8")", 0.2, 0);
    return cases;
}
void everyPrecisionRunsAndIsAccountedFor(Check& check, const PrecisionCase& row) {
    Logits logits;
    auto s = session_of(generated_model({0, 0, 0}), R"("lanes": [{"name": "f32", "cache": {"dtype": "f32"}}, {"name": "x", "cache": {)" + row.cache + R"(}}],
        "requests": [)" + small_request("a", 70, 60) + "," + small_request("b", 33, 20, R"(, "arrival_step": 3)") + "]", options(&logits));
    CHECK_RESULT(s->run_to_end());
    double largest = 0;
    for (const auto& [key, values] : logits)
        if (std::get<0>(key) == 1) largest = std::max(largest, largest_difference(values, logits.at({0, std::get<1>(key), std::get<2>(key)})));
    check.note("largest difference " + shown(largest));
    CHECK_BELOW(largest, row.most);
    CHECK_THAT(largest > 0 || contains(row.cache, "f32"));
    const LaneRecord& lane = s->recording()->lane(LaneId{1});
    if (row.bytes > 0)
        for (const LayerInfo& layer : lane.info().layer_infos) CHECK_EQUAL(layer.bytes_per_token(), row.bytes);
    else CHECK_EQUAL(lane.info().cache_dtype, "mixed");
    CHECK_EQUAL(lane.info().memory.kv_rounding, std::uint64_t(0));  // the CPU's buffers are as large as they were asked for
    // The results' peak is no less than any step's bytes, f16 parts included, and nothing of these values is cut.
    const auto summary = nlohmann::json::parse(summary_json(*s->recording()));
    for (std::size_t step = 0; step < lane.step_count(); ++step) {
        CHECK_THAT(summary["lanes"][1]["kv"]["peak_used_bytes"].get<std::uint64_t>() >= lane.step(step).kv_bytes);
        // A scale per head is the first step's: later values may lie beyond it.
        if (!contains(row.cache, R"("scale": "head")")) CHECK_EQUAL(lane.step(step).overflowed_values, std::uint64_t(0));
        const auto entries = ledger(lane, step);
        CHECK_THAT(entries.size() >= 7);
        for (const LedgerEntry& entry : entries) {
            CHECK_THAT(entry.predicted && entry.measured);
            CHECK_OR_SAY(entry.unexplained == 0, "step " + std::to_string(step) + ", " + entry.what + ": " + entry.predicted_how + "; " + entry.residual_why);
        }
    }
}

// A backend that keeps memory for itself whenever a cache is made.
class LeakingBackend final : public WrappingBackend {
public:
    LeakingBackend(std::unique_ptr<Backend> real, std::uint64_t bytes, Purpose purpose)
        : WrappingBackend(std::move(real)), m_bytes(bytes), m_purpose(purpose) {}

    Result<std::unique_ptr<KvCache>> kv_cache(const KvCacheShape& shape, Purpose purpose) override {
        if (m_purpose == Purpose::kv_cache) leak();
        return m_real->kv_cache(shape, purpose);
    }
    Result<std::unique_ptr<Buffer>> buffer(std::uint64_t bytes, Purpose purpose) override {
        if (m_purpose == Purpose::activations && m_lost.empty()) leak();
        return m_real->buffer(bytes, purpose);
    }

private:
    void leak() {
        if (auto lost = m_real->buffer(m_bytes, m_purpose)) m_lost.push_back(std::move(*lost));
    }
    std::uint64_t m_bytes;
    Purpose m_purpose;
    std::vector<std::unique_ptr<Buffer>> m_lost;
};

struct LeakCase {
    std::string entry;
    Purpose purpose;
};
Cases<LeakCase> aPlantedLeakShowsInTheResidual_cases() {
    Cases<LeakCase> cases;
    cases.add("of the pool", {"pool", Purpose::kv_cache});
    cases.add("of the buffers", {"activations", Purpose::activations});
    return cases;
}
void aPlantedLeakShowsInTheResidual(Check& check, const LeakCase& row) {
    for (const std::uint64_t bytes : {std::uint64_t(0), std::uint64_t(12'345)}) {
        SessionOptions given = options();
        given.make_backend = [&](const std::string& device) -> Result<std::unique_ptr<Backend>> {
            auto real = make_backend(BackendOptions{device, 2});
            if (!real || bytes == 0) return real;
            return std::unique_ptr<Backend>(std::make_unique<LeakingBackend>(std::move(*real), bytes, row.purpose));
        };
        auto s = session(R"("lanes": [{"cache": {"blocks": 20}}], "requests": [)" + request("a", 20, 5) + "]", std::move(given));
        CHECK_RESULT(s->run_to_end());
        bool found = false;
        for (const LedgerEntry& entry : ledger(s->recording()->lane(lane0), 2)) {
            if (entry.what != row.entry) {
                CHECK_EQUAL(entry.unexplained, std::int64_t(0));
                continue;
            }
            found = true;
            CHECK_EQUAL(entry.unexplained, std::int64_t(bytes));
            CHECK_EQUAL(contains(entry.residual_why, "12,345 bytes that nothing explains"), bytes > 0);
        }
        CHECK_THAT(found);
    }
}

void kivisPagesFollowItsRule(Check& check) {
    Logits logits;
    auto s = session_of(generated_model({0, 0}), R"("lanes": [{"name": "f16", "cache": {"dtype": "f16"}},
        {"name": "kivi", "cache": {"dtype": "kivi4", "residual": 64, "blocks": 40}}], "requests": [)" + small_request("a", 30, 120) + "]", options(&logits));
    CHECK_RESULT(s->run_to_end());
    const LaneRecord& lane = s->recording()->lane(LaneId{1});
    CHECK_EQUAL(lane.info().notes.size(), std::size_t(1));
    const KiviResidual rule{64, 16, ResidualRule::kivi};
    for (std::uint32_t step = 0; step < lane.step_count(); ++step) {
        CHECK_EQUAL(lane.step(step).residual_pages, rule.pages(30 + step, 30));
        const std::uint64_t page = 16 * 2 * 2 * 2 * 32 * 2;  // tokens, layers, planes, heads, values, bytes
        CHECK_EQUAL(lane.step(step).kv_bytes, lane.step(step).used_blocks * lane.info().block_bytes + lane.step(step).residual_pages * page);
    }
    // While nothing is quantised it is an f16 cache.
    for (std::uint32_t output = 0; output < 34; ++output) CHECK_BELOW(largest_difference(logits.at({1, 0, output}), logits.at({0, 0, output})), 1e-5);
    CHECK_THAT(largest_difference(logits.at({1, 0, 36}), logits.at({0, 0, 36})) > 0);
}

void pagesAreSharedCopiedAndGivenBack(Check& check) {
    Logits logits;
    auto s = session_of(generated_model({0, 24}), R"("lanes": [{"name": "f16", "cache": {"dtype": "f16", "block_size": 8, "blocks": 160}},
        {"name": "kivi", "cache": {"dtype": "kivi4", "block_size": 8, "residual": 256, "blocks": 160}}],
        "requests": [)" + small_request("a", 37, 40) + "," + small_request("b", 37, 20, R"(, "arrival_step": 60)") + R"(],
        "actions": [{"at_step": 5, "do": "fork", "request": "a", "as": "c"}, {"at_step": 6, "do": "fork", "request": "a", "as": "d", "position": 20},
                    {"at_step": 9, "do": "preempt", "request": "c"}])", options(&logits));
    CHECK_RESULT(s->run_to_end());
    const LaneRecord& lane = s->recording()->lane(LaneId{1});
    CHECK_THAT(!all(*s->recording(), EventKind::copy_on_write, LaneId{1}).empty());
    // Nothing of "a" reached 256 tokens: what it computes is what an f16 cache computes, whoever shared or copied its pages.
    for (std::uint32_t output = 0; output < 40; ++output) CHECK_BELOW(largest_difference(logits.at({1, 0, output}), logits.at({0, 0, output})), 1e-5);
    // "b" hits what "a" left, which was quantised when nobody owned it any more.
    CHECK_THAT(!all(*s->recording(), EventKind::prefix_hit, LaneId{1}).empty());
    CHECK_THAT(largest_difference(logits.at({1, 1, 0}), logits.at({0, 1, 0})) > 1e-6);
    // At the end only "b" lives; all it holds has a page but the four blocks that it hit in the group that sees all.
    const StepRecord& last = lane.step(lane.step_count() - 1);
    CHECK_EQUAL(last.residual_pages + 4, last.used_blocks);
}

void aForkInsideAQuantisedBlockIsRefused(Check& check) {
    auto s = session_of(generated_model({0}), R"("lanes": [{"cache": {"dtype": "kivi4", "block_size": 16, "residual": 32, "blocks": 40}}], "requests": [)" +
        small_request("a", 70, 10) + R"(], "actions": [{"at_step": 3, "do": "fork", "request": "a", "as": "b", "position": 20},
                                                         {"at_step": 3, "do": "fork", "request": "a", "as": "c", "position": 32},
                                                         {"at_step": 3, "do": "fork", "request": "a", "as": "d"}])");
    CHECK_RESULT(s->run_to_end());
    const LaneRecord& lane = s->recording()->lane(lane0);
    CHECK_EQUAL(lane.sequences().size(), std::size_t(3));
    bool told = false;
    for (std::uint64_t e = 0; e < lane.events().size(); ++e)
        if (lane.events()[e].kind == EventKind::refuse)
            told = told || contains(lane.strings()[lane.events()[e].detail.value], "position: 20 lies inside a block that is quantised already");
    CHECK_THAT(told);
}

void swappingAResidualIsRefused(Check& check) {
    const auto made = make_session(generated_model({0}), R"("lanes": [{"name": "x", "cache": {"dtype": "kivi2"}, "scheduler": {"preemption": "swap", "swap_blocks": 4}}],
                                                            "requests": [)" + small_request("a", 5, 3) + "]");
    CHECK_THAT(!made);
    CHECK_OR_SAY(made.error().sentence.starts_with("Lane 'x': scheduler.preemption: 'swap'"), made.error().sentence);
}

void aFormatThatDoesNotFitIsRefusedByLaneAndKey(Check& check) {
    const auto made = make_session(generated_model({0, 0}), R"("lanes": [{"name": "x", "cache": {"dtype_v": ["f16", "f16", "f16"]}}], "requests": [)" + small_request("a", 5, 3) + "]");
    CHECK_THAT(!made);
    CHECK_OR_SAY(made.error().sentence == "Lane 'x': cache.dtype_v: is a list of 3 precisions, but the model has 2 layers", made.error().sentence);
}

void aLaneGetsItsConvertedModel(Check& check) {
    const std::string rest = R"("lanes": [{"name": "own"}, {"name": "one head", "convert": {"to": "mqa"}}, {"name": "again", "convert": {"to": "mqa"}}],
                                "requests": [)" + small_request("a", 5, 3) + "]";
    const auto without = make_session(generated_model({0}), rest);
    CHECK_THAT(!without);
    CHECK_OR_SAY(without.error().sentence.starts_with("Lane 'one head': convert: "), without.error().sentence);
    SessionOptions given = options();
    int conversions = 0;
    given.convert_model = [&](std::shared_ptr<const Model>, const ConvertOptions& convert, const LoadOptions&) -> Result<std::shared_ptr<const Model>> {
        ++conversions;
        if (convert.to != ConvertOptions::Target::mqa) return Error{"not that one", ""};
        return generated_model({0}, 1);
    };
    auto s = session_of(generated_model({0}), rest, std::move(given));
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(conversions, 1);
    CHECK_EQUAL(s->recording()->lane(LaneId{1}).info().kv_heads, 1u);
    CHECK_EQUAL(s->recording()->lane(LaneId{1}).info().conversion, "to MQA");
    CHECK_EQUAL(s->recording()->lane(LaneId{0}).info().conversion, "");
}

void parametersAreCountedByPart(Check& check) {
    auto s = session_of(generated_model({0, 0}), R"("requests": [)" + small_request("a", 5, 3) + "]");
    const LaneInfo& info = s->recording()->lane(lane0).info();
    CHECK_THAT(info.parameter_parts == (ParameterParts{96 * 64, 2 * (2 * 128 * 64 + 2 * 64 * 64), 2 * 3 * 64 * 64, 5 * 64, 96 * 64}));
    CHECK_EQUAL(info.parameter_parts.total(), info.parameters);
    CHECK_EQUAL(info.stored_parameters.size(), std::size_t(1));
    CHECK_EQUAL(info.memory.mapped_weights, info.weight_bytes);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(everyPrecisionRunsAndIsAccountedFor), everyPrecisionRunsAndIsAccountedFor_cases());
    claims.add(CLAIM(aPlantedLeakShowsInTheResidual), aPlantedLeakShowsInTheResidual_cases());
    claims.add(CLAIM(kivisPagesFollowItsRule));
    claims.add(CLAIM(pagesAreSharedCopiedAndGivenBack));
    claims.add(CLAIM(aForkInsideAQuantisedBlockIsRefused));
    claims.add(CLAIM(swappingAResidualIsRefused));
    claims.add(CLAIM(aFormatThatDoesNotFitIsRefusedByLaneAndKey));
    claims.add(CLAIM(aLaneGetsItsConvertedModel));
    claims.add(CLAIM(parametersAreCountedByPart));
    return claims.rows();
}
