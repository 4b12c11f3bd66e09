// SPDX-License-Identifier: GPL-3.0-or-later
//
// The sample scenarios, faults included: each runs as it is shipped, each fault stops at its breakpoint, and what its
// paragraph promises is what happens.
#include "engine/record/results.h"
#include "tests/serve/support.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <nlohmann/json.hpp>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

SessionOptions bundled() {
    SessionOptions made = options();
    made.find_model = [](const std::string& model) {
        const std::size_t colon = model.find(':');
        return load_model(KVLOUPE_SOURCE_DIR "/resources/models/" + (colon == std::string::npos ? "gqa" : model.substr(colon + 1)));
    };
    return made;
}

// A fault after its whole run.
struct Run {
    std::unique_ptr<Session> session;

    explicit Run(const std::string& name) {
        auto scenario = load_scenario(KVLOUPE_SOURCE_DIR "/resources/scenarios/faults/" + name + ".json");
        if (!scenario) throw std::runtime_error(scenario.error().message());
        auto made = Session::create(*scenario, bundled());
        if (!made) throw std::runtime_error(made.error().message());
        session = std::move(*made);
        if (auto ran = session->run_to_end(); !ran) throw std::runtime_error(ran.error().message());
    }

    std::shared_ptr<const Recording> recording() const { return session->recording(); }
    const LaneRecord& lane(const char* name) const {
        for (const auto& each : recording()->lanes())
            if (each->info().name == name) return *each;
        throw std::runtime_error(printed("no lane %s", name));
    }
    int count(const char* name, EventKind kind, const char* sequence = nullptr) const {
        const LaneRecord& of = lane(name);
        int found = 0;
        for (std::size_t i = 0; i < of.events().size(); ++i)
            found += of.events()[i].kind == kind &&
                     (!sequence || sequence_name(*recording(), of, of.events()[i].sequence) == sequence);
        return found;
    }
    std::uint64_t sum(const char* name, std::uint64_t StepRecord::*counter) const {
        const LaneRecord& of = lane(name);
        std::uint64_t total = 0;
        for (std::size_t i = 0; i < of.step_count(); ++i) total += of.step(i).*counter;
        return total;
    }
    double queue_ms(const char* name, const char* request) const {
        for (std::uint32_t i = 0; i < recording()->lanes().size(); ++i)
            if (recording()->lanes()[i]->info().name == name) return times(*recording(), LaneId{i}, request).queue_ms.value_or(-1);
        return -1;
    }
};

struct EverySampleHasAParagraphAndRunsCase {
    std::string path;
    bool fault;
};
Cases<EverySampleHasAParagraphAndRunsCase> everySampleHasAParagraphAndRuns_cases() {
    Cases<EverySampleHasAParagraphAndRunsCase> cases;
    for (const bool fault : {false, true}) {
        const std::string folder = std::string(KVLOUPE_SOURCE_DIR "/resources/scenarios/") + (fault ? "faults/" : "");
        for (const std::string& name : names_in(folder, "", ".json")) cases.add(name, {folder + name, fault});
    }
    return cases;
}
void everySampleHasAParagraphAndRuns(Check& check, const EverySampleHasAParagraphAndRunsCase& row) {
    auto read = load_scenario(row.path);
    CHECK_RESULT(read);
    CHECK_THAT(contains(read->comment, ": "));
    auto made = Session::create(*read, bundled());
    CHECK_RESULT(made);
    Session& session = **made;
    CHECK_EQUAL(!read->breakpoints.empty(), row.fault);
    if (!row.fault) {
        CHECK_RESULT(session.run_to_end());
        return;
    }
    session.run();
    session.wait();
    CHECK_EQUAL(int(session.recording()->phase()), int(Phase::paused));
    CHECK_OR_SAY(session.recording()->reason().starts_with("Breakpoint in step "), session.recording()->reason());
    const auto focus = session.recording()->pause_focus();
    CHECK_THAT(focus);
    if (read->breakpoints[0].on) {
        CHECK_THAT(focus->event);
        CHECK_EQUAL(int(session.recording()->lane(focus->lane).events()[*focus->event].kind), int(*read->breakpoints[0].on));
    }
    session.run();
    session.wait();
    CHECK_THAT(session.recording()->phase() != Phase::failed);
}

void aShortHashIsBelievedOnlyWithoutComparison(Check& check) {
    const Run run("short-hash");
    CHECK_EQUAL(run.count("256 bits", EventKind::prefix_hit), 0);
    CHECK_EQUAL(run.count("2 bits, compared", EventKind::prefix_hit), 0);
    CHECK_THAT(run.count("2 bits, believed", EventKind::prefix_hit, "b") > 0);
    const LaneRecord& lane = run.lane("2 bits, believed");
    for (std::size_t i = 0; i < lane.events().size(); ++i)
        if (lane.events()[i].kind == EventKind::prefix_hit) CHECK_EQUAL(int(lane.events()[i].cause), int(Cause::hash_collision));
    // b's first token is another one already: its logits are what shows by how much the lane was wrong.
    const auto summary = nlohmann::json::parse(summary_json(*run.recording()));
    const auto& differences = summary["comparison"]["max_abs_logit_difference"];
    CHECK_EQUAL(differences["2 bits, compared"].get<double>(), 0.0);
    CHECK_THAT(differences["2 bits, believed"].get<double>() > 1);
}

void noMoreBeamsRunThanAreKept(Check& check) {
    const Run run("beam-search");
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < run.lane("paged").step_count(); ++i) most = std::max(most, run.lane("paged").step(i).running);
    CHECK_EQUAL(most, 4u);
    CHECK_THAT(run.count("paged", EventKind::fork) > 3);  // beams were replaced
    CHECK_EQUAL(run.lane("paged").step(0).running, 1u);   // the others fork at the end of the prompt's step
}

void aSaltIsTakenForAnAdapterOnlyUntagged(Check& check) {
    const Run run("untagged-keys");
    CHECK_EQUAL(run.count("keys tagged", EventKind::prefix_hit), 0);
    CHECK_EQUAL(run.count("keys bare", EventKind::prefix_hit, "b"), 1);
}

void aPromptOfWholeBlocksHitsOneBlockLess(Check& check) {
    const Run run("block-border");
    CHECK_EQUAL(run.count("paged", EventKind::prefix_hit, "b"), 1);
    CHECK_EQUAL(run.count("paged", EventKind::prefix_hit, "c"), 2);
}

void theGateSparesPreemptions(Check& check) {
    const Run run("preemption-storm");
    CHECK_THAT(run.count("gate off", EventKind::preempt) > 2 * run.count("gate on", EventKind::preempt));
    CHECK_THAT(run.sum("gate off", &StepRecord::computed_tokens) > run.sum("gate on", &StepRecord::computed_tokens));
}

void onlyTheLeastFrequentlyUsedRuleKeepsTheHotPrefix(Check& check) {
    const Run run("flushed-prefix");
    const auto hits = [&](const char* lane) { return run.sum(lane, &StepRecord::hit_tokens); };
    CHECK_EQUAL(hits("hash, LRU"), std::uint64_t(32));
    CHECK_EQUAL(hits("radix, LRU"), std::uint64_t(32));
    CHECK_EQUAL(hits("radix, LFU"), std::uint64_t(96));
}

void oneLostBlockCostsAWindowItsWholePrefix(Check& check) {
    const Run run("window-cliff");
    CHECK_THAT(run.count("window 48", EventKind::prefix_hit, "b") > 0);
    CHECK_EQUAL(run.count("window 48", EventKind::prefix_hit, "c"), 0);
    CHECK_EQUAL(run.count("all keys", EventKind::prefix_hit, "b"), 0);
}

void shortRequestsPassTheHeadOfTheLineOnlyByPriority(Check& check) {
    const Run run("head-of-line");
    for (const char* request : {"c", "d"})
        CHECK_THAT(run.queue_ms("first come, first served", request) > run.queue_ms("by priority", request));
    CHECK_THAT(run.count("first come, first served", EventKind::refuse, "b") > 0);
}

void aStaticBatchTakesEightySteps(Check& check) {
    const Run run("static-batching");
    CHECK_EQUAL(run.lane("static").step_count(), std::size_t(80));
    CHECK_EQUAL(run.lane("continuous").step_count(), std::size_t(70));
}

void swappingComputesNothingTwice(Check& check) {
    const Run run("swap-or-recompute");
    CHECK_THAT(run.count("swap", EventKind::swap_in) > 0);
    CHECK_EQUAL(run.count("swap", EventKind::swap_in), run.count("swap", EventKind::swap_out));
    CHECK_THAT(run.sum("swap", &StepRecord::computed_tokens) < run.sum("recompute", &StepRecord::computed_tokens));
    for (const char* id : {"a", "b"})
        CHECK_THAT(outputs(*run.recording(), LaneId{0}, id) == outputs(*run.recording(), LaneId{1}, id));
}

void samplesShareTheirPrompt(Check& check) {
    const Run run("parallel-sampling");
    CHECK_EQUAL(run.count("paged", EventKind::copy_on_write), 3);
    CHECK_THAT(run.sum("paged", &StepRecord::computed_tokens) < run.sum("contiguous", &StepRecord::computed_tokens));
}

void theWriterThatComesFirstCopies(Check& check) {
    const Run run("copy-on-write");
    CHECK_EQUAL(run.count("paged", EventKind::copy_on_write, "a"), 1);
    CHECK_EQUAL(run.count("paged", EventKind::copy_on_write, "c"), 0);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(everySampleHasAParagraphAndRuns), everySampleHasAParagraphAndRuns_cases());
    claims.add(CLAIM(aShortHashIsBelievedOnlyWithoutComparison));
    claims.add(CLAIM(noMoreBeamsRunThanAreKept));
    claims.add(CLAIM(aSaltIsTakenForAnAdapterOnlyUntagged));
    claims.add(CLAIM(aPromptOfWholeBlocksHitsOneBlockLess));
    claims.add(CLAIM(theGateSparesPreemptions));
    claims.add(CLAIM(onlyTheLeastFrequentlyUsedRuleKeepsTheHotPrefix));
    claims.add(CLAIM(oneLostBlockCostsAWindowItsWholePrefix));
    claims.add(CLAIM(shortRequestsPassTheHeadOfTheLineOnlyByPriority));
    claims.add(CLAIM(aStaticBatchTakesEightySteps));
    claims.add(CLAIM(swappingComputesNothingTwice));
    claims.add(CLAIM(samplesShareTheirPrompt));
    claims.add(CLAIM(theWriterThatComesFirstCopies));
    return claims.rows();
}
