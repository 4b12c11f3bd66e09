// SPDX-License-Identifier: GPL-3.0-or-later
//
// What happened in a session happens again: restart from a step, and the scenario of a session that was interfered with.
#include "engine/serve/scenario_json.h"
#include "tests/serve/recorded.h"
#include "tests/serve/support.h"
#include "tests/support/texts.h"

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

// Run to its end, put back to the middle, and run to its end again.
void aRestartComputesTheSame(Check& check, const Scenario& scenario, SessionOptions given) {
    auto made = Session::create(scenario, std::move(given));
    CHECK_RESULT(made);
    Session& s = **made;
    CHECK_RESULT(s.run_to_end());
    const auto before = s.recording();
    std::size_t most = 0;
    for (const auto& lane : before->lanes()) most = std::max(most, lane->step_count());
    const std::size_t middle = most / 2;
    CHECK_RESULT(s.restart(static_cast<std::uint32_t>(middle)));
    CHECK_EQUAL(s.generation(), std::uint64_t(1));
    CHECK_THAT(s.recording() != before);
    s.wait();
    const auto report = s.replay_report();
    CHECK_THAT(report.has_value());
    CHECK_EQUAL(report->sentence(), "");
    CHECK_THAT(report->same() && !report->unfinished && report->steps > 0);
    for (std::size_t i = 0; i < before->lanes().size(); ++i)
        CHECK_EQUAL(s.recording()->lanes()[i]->step_count(), std::min(before->lanes()[i]->step_count(), middle + 1));
    CHECK_EQUAL(recorded_difference(*before, *s.recording()), "");
    CHECK_EQUAL(int(s.recording()->phase()), int(Phase::paused));
    CHECK_RESULT(s.run_to_end());
    for (std::size_t i = 0; i < before->lanes().size(); ++i)
        CHECK_EQUAL(s.recording()->lanes()[i]->step_count(), before->lanes()[i]->step_count());
    CHECK_EQUAL(recorded_difference(*before, *s.recording()), "");
}

void faultsComeBack(Check& check, const std::string& name) {
    const auto scenario = load_scenario(KVLOUPE_SOURCE_DIR "/resources/scenarios/faults/" + name + ".json");
    CHECK_RESULT(scenario);
    aRestartComputesTheSame(check, *scenario, bundled());
}

const char* const sampled = R"({"version": 1, "device": "cpu", "seed": 7, "lanes": [{"cache": {"block_size": 4, "blocks": 24}},
  {"name": "uncached", "kv_cache": false}, {"name": "int8", "cache": {"block_size": 8, "dtype": "int8", "blocks": 40}}],
  "requests": [{"id": "a", "prompt_tokens": [5, 6, 7, 8, 9], "max_new_tokens": 14, "temperature": 0.9, "top_k": 30, "top_p": 0.9},
               {"id": "b", "prompt_tokens": [5, 6, 7, 8, 9, 11, 12], "max_new_tokens": 9, "temperature": 1.5, "n": 3, "arrival_step": 2}],
  "actions": [{"at_step": 4, "do": "fork", "request": "a", "as": "c"}, {"at_step": 6, "do": "cancel", "request": "b.1"}]})";

Scenario tiny(const std::string& json) {
    Scenario wanted = scenario(json);
    if (wanted.model == "bundled") wanted.model = fixtures + "tiny-gqa";
    return wanted;
}

void samplingComesBack(Check& check) { aRestartComputesTheSame(check, tiny(sampled), options()); }

// What a user does at a table.
void interfere(Check& check, Session& s) {
    const auto step = [&](std::uint32_t count) {
        s.step(count);
        s.wait();
    };
    ScenarioAction action;
    step(3);
    action.kind = ActionKind::fork;
    action.request = "a";
    CHECK_RESULT(s.act(action));  // a-2
    step(2);
    CHECK_RESULT(s.submit(submitted("late", 9, 6)));
    RequestOptions generated;
    generated.id = "free";
    generated.prompt_tokens = std::vector<TokenId>(5, 60);
    generated.max_new_tokens = 7;
    CHECK_RESULT(s.submit(generated));
    step(2);
    action = {};
    action.kind = ActionKind::preempt;
    action.request = "a";
    CHECK_RESULT(s.act(action));
    s.cancel("a-2");
    s.cancel("nobody");
    step(2);
    action = {};
    action.kind = ActionKind::evict;
    action.block = 1;
    const bool refused = s.recording()->lane(LaneId{1}).info().blocks == 0;  // a lane without blocks
    CHECK_EQUAL(static_cast<bool>(s.act(action)), !refused);  // the cache refuses while the block is owned: an event
    CHECK_RESULT(s.submit(submitted("later", 4, 5)));
    CHECK_RESULT(s.run_to_end());
    action = {};
    action.kind = ActionKind::reset_prefix_cache;
    CHECK_RESULT(s.act(action));
    CHECK_RESULT(s.submit(submitted("last", 9, 3)));  // it would have hit what is forgotten
    CHECK_RESULT(s.run_to_end());
}

const char* const lanes_and_a = R"("lanes": [{"cache": {"block_size": 4}}, {"name": "uncached", "kv_cache": false}],
  "requests": [{"id": "a", "prompt_tokens": [5, 6, 7, 8, 9], "max_new_tokens": 20, "temperature": 0.8}]})";
const char* const sums_and_a = R"("model": "none", "lanes": [{"cache": {"block_size": 4, "blocks": 30}}, {"name": "radix", "cache": {"block_size": 4, "prefix_index": "radix"}}],
  "requests": [{"id": "a", "prompt_tokens": [5, 6, 7, 8, 9], "max_new_tokens": 20}]})";

void theScenarioOfWhatHappenedHappensAgain(Check& check, const char* rest) {
    auto first = Session::create(tiny(std::string(R"({"version": 1, "device": "cpu", "seed": 3, )") + rest), options());
    CHECK_RESULT(first);
    interfere(check, **first);
    const Scenario happened = (*first)->replayable_scenario();
    CHECK_EQUAL(happened.requests.size(), std::size_t(5));
    CHECK_EQUAL(happened.actions.size(), std::size_t(happened.model == "none" ? 5 : 4));
    const std::string json = scenario_json(happened);
    const auto read = parse_scenario(std::as_bytes(std::span(json)), happened.title + ".json");
    CHECK_RESULT(read);
    CHECK_THAT(*read == happened);
    auto second = Session::create(*read, options());
    CHECK_RESULT(second);
    CHECK_RESULT((*second)->run_to_end());
    CHECK_EQUAL(recorded_difference(*(*first)->recording(), *(*second)->recording()), "");
    CHECK_EQUAL((*second)->recording()->lane(lane0).step_count(), (*first)->recording()->lane(lane0).step_count());
    // And against the old one, as a file is gone on with.
    auto third = Session::create(*read, options());
    CHECK_RESULT(third);
    (*third)->replay((*first)->recording(), 7);
    (*third)->wait();
    CHECK_EQUAL((*third)->recording()->lane(lane0).step_count(), std::size_t(8));
    CHECK_THAT((*third)->replay_report()->same());
    CHECK_EQUAL((*third)->replay_report()->steps, std::uint64_t(16));
    CHECK_EQUAL(int((*third)->recording()->phase()), int(Phase::paused));
}

void whatCameLaterIsForgotten(Check& check) {
    auto s = Session::create(tiny(std::string(R"({"version": 1, "device": "cpu", "seed": 3, )") + sums_and_a), options());
    CHECK_RESULT(s);
    interfere(check, **s);
    const auto before = (*s)->recording();
    CHECK_RESULT((*s)->restart(6));
    (*s)->wait();
    CHECK_EQUAL(recorded_difference(*before, *(*s)->recording()), "");
    const Scenario kept = (*s)->replayable_scenario();
    CHECK_EQUAL(kept.requests.size(), std::size_t(3));  // a, late, free: the others came in steps 9 and later
    CHECK_EQUAL(kept.actions.size(), std::size_t(1));
    CHECK_RESULT((*s)->submit(submitted("later", 4, 5)));  // its name is free again
    CHECK_THAT(!(*s)->submit(submitted("late", 4, 5)));
    CHECK_RESULT((*s)->run_to_end());
    CHECK_EQUAL(outputs(*(*s)->recording(), lane0, "last").size(), std::size_t(0));
    CHECK_EQUAL(outputs(*(*s)->recording(), lane0, "later").size(), std::size_t(5));
    // It can be put back as often as one likes, forwards no further than it is.
    CHECK_RESULT((*s)->restart(2));
    (*s)->wait();
    CHECK_EQUAL((*s)->recording()->lane(lane0).step_count(), std::size_t(3));
    const auto refused = (*s)->restart(3);
    CHECK_THAT(!refused && contains(refused.error().message(), "no step 3") && contains(refused.error().message(), "last one is 2"));
    (*s)->reset();
    (*s)->wait();
    CHECK_THAT(!(*s)->restart(0));
    CHECK_EQUAL((*s)->replayable_scenario().requests.size(), std::size_t(1));
    CHECK_EQUAL((*s)->replayable_scenario().actions.size(), std::size_t(0));
}

void noBreakpointStopsAReplay(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 60}}], "breakpoints": [{"step": 2}, {"on": "finish"}], "requests": [)" +
                     request("a", 6, 9) + "]");
    CHECK_RESULT(s->run_to_end());
    CHECK_RESULT(s->restart(8));
    s->wait();
    CHECK_EQUAL(s->recording()->lane(lane0).step_count(), std::size_t(9));
    CHECK_THAT(s->replay_report()->same());
}

void aLaneAtItsLimitComesBackToWhereItStood(Check& check) {
    Scenario wanted = tiny(std::string(R"({"version": 1, "device": "cpu", )") + lanes_and_a);
    wanted.lanes[1].uncached_limit = 10;
    auto s = Session::create(wanted, options());
    CHECK_RESULT(s);
    (*s)->run();
    (*s)->wait();
    const auto before = (*s)->recording();
    CHECK_EQUAL(before->lane(lane0).step_count(), std::size_t(20));
    const std::size_t limited = before->lane(LaneId{1}).step_count();
    CHECK_THAT(limited < 10);
    // Asked for now: both lanes do it in the step that the longer one comes to next, and the end of the run is none.
    CHECK_RESULT((*s)->restart(14));
    (*s)->wait();
    CHECK_EQUAL((*s)->recording()->lane(LaneId{1}).step_count(), limited);
    ScenarioAction action;
    action.kind = ActionKind::fork;
    action.request = "a";
    action.as = "c";
    CHECK_RESULT((*s)->act(action));
    CHECK_RESULT((*s)->run_to_end());
    CHECK_EQUAL(all(*(*s)->recording(), EventKind::fork, lane0), (std::vector<std::string>{"15: fork c"}));
    CHECK_EQUAL(all(*(*s)->recording(), EventKind::fork, LaneId{1}), (std::vector<std::string>{"15: fork c"}));
    auto again = Session::create((*s)->replayable_scenario(), options());
    CHECK_RESULT(again);
    CHECK_RESULT((*again)->run_to_end());
    CHECK_EQUAL(recorded_difference(*(*s)->recording(), *(*again)->recording()), "");
}

void aDifferenceIsTold(Check& check) {
    const auto before = [&](const Scenario& wanted) {
        auto s = Session::create(wanted, options());
        if (!s || !(*s)->run_to_end()) throw std::runtime_error("it does not run");
        return (*s)->recording();
    };
    const auto told = [&](const Scenario& wanted, std::shared_ptr<const Recording> old) {
        auto s = Session::create(wanted, options());
        if (!s) throw std::runtime_error(s.error().message());
        (*s)->replay(std::move(old));
        (*s)->wait();
        return *(*s)->replay_report();
    };
    Scenario wanted = tiny(sampled);
    const auto old = before(wanted);
    CHECK_EQUAL(told(wanted, old).sentence(), "");
    CHECK_THAT(told(wanted, old).logits > 500);
    wanted.seed = 8;
    ReplayReport report = told(wanted, old);
    CHECK_THAT(report.tokens_differ && !report.same());
    CHECK_OR_SAY(contains(report.sentence(), "differs from what was recorded") && contains(report.sentence(), "step 0") &&
                     contains(report.sentence(), "sequence a, position 5") && contains(report.sentence(), "was recorded, now it is"),
                 report.sentence());
    // Forced tokens: only the numbers differ.
    Scenario forced_tokens = tiny(R"({"version": 1, "device": "cpu", "lanes": [{"cache": {"block_size": 4, "blocks": 60}}], "requests": [)" + request("a", 6, 9) + "]}");
    const auto f16 = before(forced_tokens);
    forced_tokens.lanes[0].cache.key_dtypes = forced_tokens.lanes[0].cache.value_dtypes = {DType::f32};
    report = told(forced_tokens, f16);
    CHECK_THAT(!report.tokens_differ && report.largest_logit_difference > 0 && report.largest_logit_difference < 1);
    CHECK_OR_SAY(contains(report.sentence(), "same tokens and blocks, but not the same logits") && contains(report.sentence(), "the logit of"), report.sentence());
    // Another order of the free queue: only the blocks differ, as far as they are recorded.
    Scenario sums = tiny(R"({"version": 1, "model": "none", "lanes": [{"cache": {"block_size": 4, "blocks": 60}}], "requests": [)" + request("a", 6, 9) + "," +
                         request("b", 6, 9, ", \"arrival_step\": 12") + "]}");
    const auto vllm = before(sums);
    sums.lanes[0].cache.free_order = FreeOrder::append;
    report = told(sums, vllm);
    CHECK_OR_SAY(report.tokens_differ && contains(report.sentence(), "the event free was recorded"), report.sentence());
}

void aReplayCanBePaused(Check& check) {
    auto s = Session::create(tiny(R"({"version": 1, "model": "none", "lanes": [{"cache": {"block_size": 16, "blocks": 4000}}], "requests": [
        {"id": "a", "prompt_tokens": [1], "max_new_tokens": 50000}]})"), options());
    CHECK_RESULT(s);
    (*s)->step(3000);
    (*s)->wait();
    CHECK_RESULT((*s)->restart(2999));
    (*s)->pause();
    (*s)->wait();
    const auto report = (*s)->replay_report();
    CHECK_THAT(report.has_value());
    // What lay before a key frame of the engine is copied, not computed.
    const std::size_t reached = report->computed_from + std::size_t{report->steps};
    CHECK_EQUAL((*s)->recording()->lane(lane0).step_count(), reached);
    CHECK_EQUAL(report->unfinished, reached < 3000);
    CHECK_EQUAL(int((*s)->recording()->phase()), int(Phase::paused));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> rows = {{"sampling comes back", samplingComesBack},
                             {"what came later is forgotten", whatCameLaterIsForgotten},
                             {"no breakpoint stops a replay", noBreakpointStopsAReplay},
                             {"a lane at its limit comes back to where it stood", aLaneAtItsLimitComesBackToWhereItStood},
                             {"a difference is told", aDifferenceIsTold},
                             {"a replay can be paused", aReplayCanBePaused},
                             {"the scenario of what happened happens again: a model", [](Check& check) { theScenarioOfWhatHappenedHappensAgain(check, lanes_and_a); }},
                             {"the scenario of what happened happens again: accounting", [](Check& check) { theScenarioOfWhatHappenedHappensAgain(check, sums_and_a); }}};
    for (const char* name : {"copy-on-write", "beam-search", "preemption-storm", "swap-or-recompute", "static-batching"})
        rows.push_back({std::string("faults come back: ") + name, [name](Check& check) { faultsComeBack(check, name); }});
    return rows;
}
