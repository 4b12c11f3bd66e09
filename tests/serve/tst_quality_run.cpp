// SPDX-License-Identifier: GPL-3.0-or-later
//
// Lanes measured on text: against a reference in doubles, against each other, and what is refused, stopped or fails.
#include "engine/serve/quality_run.h"
#include "tests/serve/reference_model.h"
#include "tests/serve/support.h"
#include "tests/support/texts.h"

#include <atomic>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr const char* words =
    "the tide turns twice a day and the boats turn with it so whoever lives on the quay learns to read the hour from the masts "
    "and the weather from the gulls which settle on the roofs before a storm and leave them when it has gone by ";

QualitySource source_of(std::initializer_list<std::pair<std::size_t, std::size_t>> parts) {
    QualitySource source;
    source.name = "a test's texts";
    source.hash = "1";
    for (const auto& [first, count] : parts) source.texts.push_back(std::string(words).substr(first, count));
    return source;
}

QualitySource some_texts() { return source_of({{0, 150}, {40, 170}, {10, 90}}); }

Scenario lanes_of(const std::string& lanes) {
    Scenario wanted = scenario(R"({"version": 1, "device": "cpu", "lanes": [)" + lanes + R"(], "requests": []})");
    wanted.model = fixtures + "tiny-gqa";
    return wanted;
}

Result<QualityReport> measured(const std::string& lanes, QualitySource source = some_texts(), std::uint64_t memory_bytes = 256ull << 20) {
    QualityOptions wanted;
    wanted.source = std::move(source);
    wanted.memory_bytes = memory_bytes;
    return measure_quality(lanes_of(lanes), options(), wanted);
}

std::string lane(const std::string& name, const std::string& cache) { return R"({"name": ")" + name + R"(", "cache": {)" + cache + "}}"; }

// What does not depend on the clock.
QualityReport without_times(QualityReport report) {
    report.measured_on.clear();
    for (LaneQuality& each : report.lanes) each.seconds = 0;
    return report;
}

struct LaneAgainstReferenceCase {
    std::string lanes;
    KeySpan span;
};
Cases<LaneAgainstReferenceCase> perplexityIsThatOfAReferenceInDoubles_cases() {
    Cases<LaneAgainstReferenceCase> cases;
    cases.add("cached", {lane("a", R"("dtype": "f32")"), {}});
    cases.add("uncached", {R"({"name": "a", "kv_cache": false})", {}});
    cases.add("in steps of few tokens", {R"({"name": "a", "cache": {"dtype": "f32", "block_size": 4}, "scheduler": {"max_num_seqs": 1}})", {}});
    cases.add("a window", {lane("a", R"("dtype": "f32", "window": 24, "block_size": 4)"), {24, 0, 0, false}});
    cases.add("a window and sinks", {lane("a", R"("dtype": "f32", "window": 24, "sinks": 4, "block_size": 4)"), {24, 4, 0, false}});
    return cases;
}
void perplexityIsThatOfAReferenceInDoubles(Check& check, const LaneAgainstReferenceCase& row) {
    const auto model = load_model(fixtures + "tiny-gqa");
    CHECK_RESULT(model);
    const QualitySource source = some_texts();
    double loss = 0;
    std::uint64_t count = 0;
    for (const std::string& text : source.texts) {
        const std::vector<TokenId> tokens = (*model)->tokenizer->encode_prompt(text);
        const auto logits = ReferenceModel(**model).logits(tokens, row.span);
        for (std::size_t i = 0; i + 1 < tokens.size(); ++i, ++count) {
            double sum = 0;
            for (const double value : logits[i]) sum += std::exp(value);
            loss += std::log(sum) - logits[i][std::size_t(tokens[i + 1])];
        }
    }
    const auto report = measured(row.lanes, source);
    CHECK_RESULT(report);
    CHECK_THAT(report->complete());
    const LaneQuality& ours = report->lanes[0];
    const double expected = std::exp(loss / double(count));
    check.note(printed("perplexity %.7f, in doubles %.7f, over %d tokens", ours.perplexity.value, expected, int(count)));
    CHECK_EQUAL(ours.perplexity.samples, count);
    CHECK_BELOW(std::fabs(ours.perplexity.value / expected - 1), 1e-6);
}

void aLaneLikeTheReferenceDiffersInNothing(Check& check) {
    const auto report = measured(lane("a", R"("dtype": "f32")") + "," + lane("b", R"("dtype": "f32", "block_size": 4)"));
    CHECK_RESULT(report);
    const LaneQuality& same = report->lanes[1];
    CHECK_EQUAL(same.divergence.value, 0.0);
    CHECK_EQUAL(same.divergence.high, 0.0);
    CHECK_EQUAL(same.divergence_max, 0.0);
    CHECK_EQUAL(same.agreement.value, 1.0);
    CHECK_EQUAL(same.perplexity_ratio.value, 1.0);
    CHECK_EQUAL(summary_of(same.first_difference).never, std::uint64_t(3));
    CHECK_THAT(report->lanes[0].perplexity == same.perplexity);
}

void aCoarserCacheLiesFurtherFromTheReference(Check& check) {
    const auto report = measured(lane("f32", R"("dtype": "f32")") + "," + lane("f16", R"("dtype": "f16")") + "," +
                                 lane("int8", R"("dtype": "int8")") + "," + lane("int4", R"("dtype": "int4")"));
    CHECK_RESULT(report);
    double before = 0;
    for (const char* name : {"f16", "int8", "int4"}) {
        const LaneQuality* found = report->find(name);
        CHECK_THAT(found && found->divergence.measured());
        check.note(printed("%s: %.3g", name, found->divergence.value));
        CHECK_THAT(found->divergence.value > before);
        before = found->divergence.value;
    }
}

// Fed as prompts, no block of these texts would be quantised before it is read.
void aCacheThatKeepsAResidualIsReadQuantised(Check& check) {
    const auto report = measured(lane("f32", R"("dtype": "f32")") + "," +
                                 lane("kivi", R"("dtype": "kivi2", "group": 8, "residual": 16, "block_size": 16)") + "," +
                                 lane("late", R"("dtype": "kivi2", "group": 8, "residual": 240, "block_size": 16)"));
    CHECK_RESULT(report);
    const LaneQuality *kivi = report->find("kivi"), *late = report->find("late");
    check.note(printed("KL %.3g with 16 newest tokens in f16, %.3g with 240", kivi->divergence.value, late->divergence.value));
    CHECK_THAT(kivi->failure.empty() && late->failure.empty());
    CHECK_THAT(kivi->divergence.value > 100 * late->divergence.value);
}

void theSameMeasurementGivesTheSameNumbers(Check& check) {
    const std::string lanes = lane("a", R"("dtype": "f16")") + "," + lane("b", R"("dtype": "int4")");
    const auto one = measured(lanes), two = measured(lanes);
    CHECK_RESULT(one);
    CHECK_RESULT(two);
    CHECK_THAT(without_times(*one) == without_times(*two));
}

void groupsOfTextsChangeNoNumber(Check& check) {
    const std::string lanes = lane("a", R"("dtype": "f32")") + "," + lane("b", R"("dtype": "int4")");
    const auto whole = measured(lanes), parts = measured(lanes, some_texts(), 1);
    CHECK_RESULT(whole);
    CHECK_RESULT(parts);
    for (std::size_t i = 0; i < 2; ++i) {
        CHECK_BELOW(std::fabs(whole->lanes[i].perplexity.value / parts->lanes[i].perplexity.value - 1), 1e-6);
        CHECK_THAT(whole->lanes[i].first_difference == parts->lanes[i].first_difference);
    }
}

void questionsAreJudgedByTheirAnswersTokens(Check& check) {
    QualitySource source = some_texts();
    source.questions = {{"the boats turn with the", "tide", 2, 20}, {"the boats turn with the", "hour", 4, 60}};
    const auto report = measured(lane("a", R"("dtype": "f32")") + "," + lane("b", R"("dtype": "f32")"), source);
    CHECK_RESULT(report);
    CHECK_EQUAL(report->questions, std::uint64_t(2));
    CHECK_EQUAL(report->lanes[0].recall.size(), std::size_t(2));
    CHECK_EQUAL(report->lanes[0].recall[1].distance, std::uint32_t(60));
    CHECK_EQUAL(report->lanes[0].recall_total.right.samples, std::uint64_t(2));
    // Questions are no part of perplexity.
    CHECK_EQUAL(report->lanes[0].perplexity.samples, report->tokens);
    CHECK_EQUAL(report->texts, std::uint64_t(3));
}

void aStoppedMeasurementKeepsWhatAllLanesHaveRead(Check& check) {
    std::stop_source stop;
    QualityOptions wanted;
    wanted.source = some_texts();
    wanted.memory_bytes = 1;  // a group for every text
    wanted.stop = stop.get_token();
    int partial = 0;
    wanted.partial = [&](const QualityReport& report) {
        if (report.state == QualityReport::State::running && ++partial == 1) stop.request_stop();
    };
    const auto report = measure_quality(lanes_of(lane("a", R"("dtype": "f32")") + "," + lane("b", R"("dtype": "int8")")), options(), wanted);
    CHECK_RESULT(report);
    CHECK_THAT(report->state == QualityReport::State::cancelled);
    CHECK_EQUAL(report->texts, std::uint64_t(1));
    CHECK_EQUAL(report->lanes[0].perplexity.samples, report->tokens);
    CHECK_EQUAL(report->lanes[1].perplexity.samples, report->tokens);
    CHECK_EQUAL(report->lanes[1].first_difference.size(), std::size_t(1));
}

void progressGoesUpToOne(Check& check) {
    QualityOptions wanted;
    wanted.source = source_of({{0, 220}, {3, 220}, {6, 210}});
    double last = 0;
    bool rises = true;
    int calls = 0;
    wanted.progress = [&](double fraction, const std::string& what) {
        rises = rises && fraction > last && fraction <= 1 && what.find("Lane 'a'") == 0;
        last = fraction;
        ++calls;
    };
    CHECK_RESULT(measure_quality(lanes_of(lane("a", R"("dtype": "f32")")), options(), wanted));
    CHECK_THAT(calls >= 2 && rises);
}

void aTextThatIsTooShortIsRefusedWithTheNumberItNeeds(Check& check) {
    const auto report = measured(lane("a", ""), source_of({{0, 60}}));
    CHECK_THAT(!report);
    check.note(report.error().message());
    CHECK_THAT(contains(report.error().message(), "256 are needed"));
}

void whatCannotBeMeasuredIsRefusedInOneSentence(Check& check) {
    QualityOptions wanted;
    wanted.source = some_texts();
    wanted.reference = "none such";
    const auto unknown = measure_quality(lanes_of(lane("a", "") + "," + lane("b", "")), options(), wanted);
    CHECK_THAT(!unknown && contains(unknown.error().message(), "'none such'") && contains(unknown.error().message(), "a, b"));
    wanted.reference.clear();
    const auto accounting = measure_quality(lanes_of(R"({"name": "a", "model": "none"})"), options(), wanted);
    CHECK_THAT(!accounting && contains(accounting.error().message(), "No lane has a model"));
    const auto packs = measure_quality(lanes_of(lane("a", R"("dtype": "q4_0", "rotate": true)")), options(), wanted);
    CHECK_THAT(!packs && contains(packs.error().message(), "Lane 'a'"));
}

void anotherReferenceTurnsTheComparisonRound(Check& check) {
    QualityOptions wanted;
    wanted.source = some_texts();
    wanted.reference = "b";
    const auto report = measure_quality(lanes_of(lane("a", R"("dtype": "int4")") + "," + lane("b", R"("dtype": "f32")")), options(), wanted);
    CHECK_RESULT(report);
    CHECK_EQUAL(report->reference, std::string("b"));
    CHECK_THAT(report->lanes[0].divergence.measured());
    CHECK_THAT(!report->lanes[1].divergence.measured());
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(perplexityIsThatOfAReferenceInDoubles), perplexityIsThatOfAReferenceInDoubles_cases());
    claims.add(CLAIM(aLaneLikeTheReferenceDiffersInNothing));
    claims.add(CLAIM(aCoarserCacheLiesFurtherFromTheReference));
    claims.add(CLAIM(aCacheThatKeepsAResidualIsReadQuantised));
    claims.add(CLAIM(theSameMeasurementGivesTheSameNumbers));
    claims.add(CLAIM(groupsOfTextsChangeNoNumber));
    claims.add(CLAIM(questionsAreJudgedByTheirAnswersTokens));
    claims.add(CLAIM(aStoppedMeasurementKeepsWhatAllLanesHaveRead));
    claims.add(CLAIM(progressGoesUpToOne));
    claims.add(CLAIM(aTextThatIsTooShortIsRefusedWithTheNumberItNeeds));
    claims.add(CLAIM(whatCannotBeMeasuredIsRefusedInOneSentence));
    claims.add(CLAIM(anotherReferenceTurnsTheComparisonRound));
    return claims.rows();
}
