// SPDX-License-Identifier: GPL-3.0-or-later
//
// Forks, samples, beams and the other actions in a lane: who shares what, what is refused and why.
// Oracles S8, C5, N1, N2 of CACHE_SEMANTICS section 2.
#include "tests/serve/reference_model.h"
#include "tests/serve/support.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <cstring>
#include <set>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

const char* const small_lane = R"("lanes": [{"cache": {"block_size": 4, "blocks": 60}}], "requests": [)";

// Reasons of refused actions, in order.
std::vector<std::string> refusals(const Recording& recording) {
    std::vector<std::string> lines;
    const LaneRecord& lane = recording.lane(lane0);
    for (std::uint64_t i = 0; i < lane.events().size(); ++i) {
        const Event& event = lane.events()[i];
        if (event.kind == EventKind::refuse && event.cause == Cause::action_refused)
            lines.push_back(lane.strings()[event.detail.value]);
    }
    return lines;
}

std::vector<TokenId> forced(int count) {
    std::vector<TokenId> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(40 + i % 100);
    return tokens;
}

void aForkSharesAndTheParentWritesFirst(Check& check) {
    auto s = session(small_lane + request("a", 6, 6) + R"(], "actions": [{"at_step": 2, "do": "fork", "request": "a", "as": "c"}])");
    CHECK_RESULT(s->run_to_end());
    const Recording& recording = *s->recording();
    const LaneRecord& lane = recording.lane(lane0);
    CHECK_EQUAL(all(recording, EventKind::fork), (std::vector<std::string>{"2: fork c"}));
    CHECK_EQUAL(int(lane.state_after(1).sequences()[0].computed_tokens), 7);
    // 7 positions, 2 blocks shared; position 7 is written by the parent, who copies, and by the last owner in place.
    CHECK_EQUAL(all(recording, EventKind::copy_on_write), (std::vector<std::string>{"2: copy_on_write a 2"}));
    for (std::uint64_t i = 0; i < lane.events().size(); ++i) {
        const Event& event = lane.events()[i];
        if (event.kind != EventKind::copy_on_write) continue;
        CHECK_EQUAL(event.tokens, 3u);
        CHECK_THAT(event.duration_ns > 0);  // measured: bytes were really moved
        CHECK_EQUAL(int(event.cause), int(Cause::shared_block_written));
    }
    const SequenceInfo& child = lane.sequences()[1];
    CHECK_EQUAL(child.parent.value, 0u);
    CHECK_EQUAL(child.forked_at, 7u);
    CHECK_EQUAL(child.prompt_tokens, 7u);
    // It inherited the token that was not written yet, and what was left to say.
    CHECK_EQUAL(outputs(recording, lane0, "c"), (std::vector<TokenId>{41, 42, 43, 44, 45}));
    CHECK_EQUAL(outputs(recording, lane0, "a"), forced(6));
    CHECK_EQUAL(lane.state_after(lane.step_count() - 1).used_blocks(), 0u);
    CHECK_EQUAL(recording.requests().size(), std::size_t(1));
}

struct WhatCannotBeDoneIsRefusedWithASentenceCase {
    std::string action, says;
};
Cases<WhatCannotBeDoneIsRefusedWithASentenceCase> whatCannotBeDoneIsRefusedWithASentence_cases() {
    Cases<WhatCannotBeDoneIsRefusedWithASentenceCase> cases;
    const auto row = [&](const char* name, const char* action, const char* says) { cases.add(name, {std::string(action), says}); };
    row("beyond the sequence", R"("do": "fork", "request": "a", "position": 9)", "position: 9 lies beyond the 7 tokens");
    row("fork of one that ended", R"("do": "fork", "request": "short")", "request: 'short' has ended");
    row("fork of one to come", R"("do": "fork", "request": "late")", "request: 'late' does not run");
    row("fork of several", R"("do": "fork", "request": "n")", "request: 'n' has several sequences");
    std::string long_prompt = "1";
    for (int token = 0; token < 250; ++token) long_prompt += ",1";
    cases.add("fork too long", {R"("do": "fork", "request": "a", "prompt_tokens": [)" + long_prompt + "]", "slots"});
    row("cancel of one that ended", R"("do": "cancel", "request": "short")", "cancel cannot be done: request: 'short' has ended");
    row("preempt of one to come", R"("do": "preempt", "request": "late")", "request: 'late' does not run");
    row("evict a block in use", R"("do": "evict", "block": 1)", "evict cannot be done");
    row("evict a block without a hash", R"("do": "evict", "block": 50)", "evict cannot be done");
    row("reset while in use", R"("do": "reset_prefix_cache")", "reset_prefix_cache cannot be done");
    row("fork of a fork that failed", R"("do": "cancel", "request": "ghost")", "'ghost' does not exist");
    return cases;
}
void whatCannotBeDoneIsRefusedWithASentence(Check& check, const WhatCannotBeDoneIsRefusedWithASentenceCase& row) {
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 60}}], "requests": [)" + request("a", 6, 6) + "," + request("short", 2, 1) + "," +
                     request("late", 2, 2, R"(, "arrival_step": 5)") + "," + request("n", 5, 9, R"(, "n": 2)") +
                     R"(], "actions": [{"at_step": 2, )" + row.action + R"(}, {"at_step": 4, "do": "fork", "request": "a", "position": 30, "as": "ghost"}])");
    CHECK_RESULT(s->run_to_end());
    const std::vector<std::string> said = refusals(*s->recording());
    CHECK_OR_SAY(!said.empty() && contains(said[0], row.says), shown(said));
    CHECK_EQUAL(outputs(*s->recording(), lane0, "a"), forced(6));  // nothing else changed
    CHECK_EQUAL(all(*s->recording(), EventKind::fork).size(), 1);  // of n
}

void contiguousAndUncachedLanesSayWhatTheyCannotDo(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"kind": "contiguous", "blocks": 65}}], "requests": [)" + request("a", 6, 6) +
                     R"(], "actions": [{"at_step": 2, "do": "fork", "request": "a"}, {"at_step": 3, "do": "reset_prefix_cache"}])");
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(refusals(*s->recording()).size(), 2);
    auto u = session(R"("lanes": [{"kv_cache": false}], "requests": [)" + request("a", 6, 6) +
                     R"(], "actions": [{"at_step": 2, "do": "fork", "request": "a", "as": "c"}, {"at_step": 3, "do": "preempt", "request": "a"}, {"at_step": 3, "do": "reset_prefix_cache"}])");
    CHECK_RESULT(u->run_to_end());
    CHECK_EQUAL(refusals(*u->recording()).size(), 2);
    CHECK_EQUAL(outputs(*u->recording(), lane0, "c").back(), 45);  // a fork without blocks is a copy of the tokens
}

void evictAndResetForgetWhatCouldBeHit(Check& check) {
    const std::string requests = request("a", 9, 2) + "," + request("b", 9, 2, R"(, "arrival_step": 4)");
    const auto hits = [&](const char* action) {
        auto s = session(small_lane + requests + R"(], "actions": [{"at_step": 3, )" + action + "}]");
        if (auto ran = s->run_to_end(); !ran) throw std::runtime_error(ran.error().message());
        return std::pair(all(*s->recording(), EventKind::prefix_hit).size(), refusals(*s->recording()).size());
    };
    CHECK_EQUAL(hits(R"("do": "cancel", "request": "a")"), (std::pair<std::size_t, std::size_t>(2, 1)));
    CHECK_EQUAL(hits(R"("do": "evict", "block": 2)"), (std::pair<std::size_t, std::size_t>(1, 0)));
    CHECK_EQUAL(hits(R"("do": "evict", "block": 1)"), (std::pair<std::size_t, std::size_t>(0, 0)));  // the cliff: the rest is useless
    CHECK_EQUAL(hits(R"("do": "reset_prefix_cache")"), (std::pair<std::size_t, std::size_t>(0, 0)));
}

void N1_hitTokensAreCountedAtAdmission(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"block_size": 8, "blocks": 60}}], "requests": [)" + request("a", 16, 2) + "," + request("b", 16, 2, R"(, "arrival_step": 3)") + "]");
    CHECK_RESULT(s->run_to_end());
    const StepRecord& step = s->recording()->lane(lane0).step(3);
    CHECK_EQUAL(step.queried_tokens, std::uint64_t(16));
    CHECK_EQUAL(step.hit_tokens, std::uint64_t(8));       // the last block is computed again: its logits are needed
    CHECK_EQUAL(step.prefill_tokens, 8u);                 // and never a query of no tokens
}

void N2_aResumedSequenceAsksForNoBlockTwice(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"block_size": 8, "blocks": 20}}], "requests": [)" + request("a", 16, 6) +
                     R"(], "actions": [{"at_step": 2, "do": "preempt", "request": "a"}])");
    CHECK_RESULT(s->run_to_end());
    const LaneRecord& lane = s->recording()->lane(lane0);
    CHECK_EQUAL(lane.step(1).used_blocks, 3u);            // 17 tokens: one beyond two blocks
    CHECK_THAT(contains(events(*s->recording(), lane0, 3), "resume a"));
    for (std::size_t i = 3; i < lane.step_count(); ++i) CHECK_EQUAL(lane.step(i).used_blocks, 3u);
    CHECK_EQUAL(outputs(*s->recording(), lane0, "a"), forced(6));
}

void C5_swappedBlocksComeBackInTheirOrder(Check& check) {  // C5; that the content is equal, the equivalence test shows
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 20, "prefix_caching": false}, "scheduler": {"preemption": "swap", "swap_blocks": 8}}], "requests": [)" +
                     request("a", 10, 8) + R"(], "actions": [{"at_step": 2, "do": "preempt", "request": "a"}])");
    CHECK_RESULT(s->run_to_end());
    const Recording& recording = *s->recording();
    const LaneRecord& lane = recording.lane(lane0);
    CHECK_EQUAL(all(recording, EventKind::swap_out).size(), 3);
    CHECK_EQUAL(all(recording, EventKind::swap_in).size(), 3);
    CHECK_EQUAL(lane.step(2).host_blocks, 3u);
    CHECK_EQUAL(lane.step(2).used_blocks, 0u);
    CHECK_EQUAL(lane.step(3).host_blocks, 0u);
    CHECK_EQUAL(lane.step(3).computed_tokens, std::uint64_t(1));  // nothing is computed twice
    CHECK_EQUAL(lane.state_after(3).sequences()[0].table.size(), std::size_t(3));
    CHECK_EQUAL(outputs(recording, lane0, "a"), forced(8));
}

void samplesDifferByTheirOwnSeedsAndShareThePrompt(Check& check) {
    auto s = session(R"("seed": 4, "lanes": [{"cache": {"block_size": 4, "blocks": 60}}], "requests": [{"id": "a", "prompt_tokens": [5, 6, 7, 8, 9, 10], "n": 4, "temperature": 2, "max_new_tokens": 12}])");
    CHECK_RESULT(s->run_to_end());
    const Recording& recording = *s->recording();
    std::set<std::vector<TokenId>> texts;
    for (const char* name : {"a.0", "a.1", "a.2", "a.3"}) texts.insert(outputs(recording, lane0, name));
    CHECK_EQUAL(texts.size(), std::size_t(4));
    CHECK_EQUAL(recording.lane(lane0).step(0).used_blocks, 2u);
    CHECK_EQUAL(recording.lane(lane0).step(0).prefill_tokens, 6u);   // the prompt is computed once
    CHECK_EQUAL(all(recording, EventKind::copy_on_write).size(), 3); // the last owner writes in place
    auto again = session(R"("seed": 4, "lanes": [{"cache": {"block_size": 3, "blocks": 9}}], "requests": [{"id": "a", "prompt_tokens": [5, 6, 7, 8, 9, 10], "n": 4, "temperature": 2, "max_new_tokens": 12}])");
    CHECK_RESULT(again->run_to_end());
    for (const char* name : {"a.0", "a.1", "a.2", "a.3"}) CHECK_EQUAL(outputs(*again->recording(), lane0, name), outputs(recording, lane0, name));
    CHECK_THAT(!all(*again->recording(), EventKind::preempt).empty());
}

Cases<std::string> beamsAreTheBestContinuations_cases() {
    Cases<std::string> cases;
    cases.add("room", std::string(R"("block_size": 4, "blocks": 90)"));
    cases.add("blocks of 1", std::string(R"("block_size": 1, "blocks": 200)"));
    cases.add("too little room", std::string(R"("block_size": 4, "blocks": 6)"));
    cases.add("radix", std::string(R"("block_size": 2, "blocks": 60, "prefix_index": "radix")"));
    return cases;
}
void beamsAreTheBestContinuations(Check& check, const std::string& cache) {
    auto s = session(R"("lanes": [{"cache": {"dtype": "f32", )" + cache + R"(}}], "requests": [{"id": "a", "prompt_tokens": [5, 6, 7, 8, 9, 10, 11], "beam_width": 3, "max_new_tokens": 7}])");
    CHECK_RESULT(s->run_to_end());
    const Recording& recording = *s->recording();
    // The same search in plain loops, over a model without a cache.
    const auto model = load_model(fixtures + "tiny-gqa");
    CHECK_RESULT(model);
    const ReferenceModel reference(**model);
    using Beam = std::pair<double, std::vector<TokenId>>;
    std::vector<Beam> beams = {{0, {}}}, done;
    for (int step = 0; step < 7 && done.size() < 3; ++step) {
        std::vector<Beam> candidates;
        for (const Beam& beam : beams) {
            std::vector<TokenId> tokens = {5, 6, 7, 8, 9, 10, 11};
            tokens.insert(tokens.end(), beam.second.begin(), beam.second.end());
            const auto logits = reference.logits(tokens, {}).back();
            double sum = 0;
            for (const double logit : logits) sum += std::exp(logit);
            for (std::size_t token = 0; token < logits.size(); ++token) {
                Beam next = beam;
                next.first += logits[token] - std::log(sum);
                next.second.push_back(TokenId(token));
                candidates.push_back(std::move(next));
            }
        }
        std::sort(candidates.rbegin(), candidates.rend());
        beams.clear();
        const auto ends = (*model)->tokenizer->end_tokens();
        for (const Beam& candidate : candidates) {
            if (beams.size() == 3 || done.size() == 3) break;
            const bool end = std::find(ends.begin(), ends.end(), candidate.second.back()) != ends.end();
            (end || step == 6 ? done : beams).push_back(candidate);
        }
    }
    std::set<std::vector<TokenId>> expected, found;
    for (const Beam& beam : done) expected.insert(beam.second);
    const LaneRecord& lane = recording.lane(lane0);
    for (std::uint64_t i = 0; i < lane.events().size(); ++i) {
        const Event& event = lane.events()[i];
        if (event.kind == EventKind::finish && event.cause != Cause::beam_dropped)
            found.insert(outputs(recording, lane0, sequence_name(recording, lane, event.sequence)));
    }
    CHECK_EQUAL(found, expected);
    CHECK_EQUAL(lane.state_after(lane.step_count() - 1).used_blocks(), 0u);
    CHECK_THAT(!all(recording, EventKind::fork).empty());
}

void aCancelledBeamDoesNotHoldTheOthersUp(Check& check) {
    // Chunks of 3 tokens: beams are computed in different steps, so that some wait when one is cancelled.
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 30}, "scheduler": {"max_num_batched_tokens": 3, "batching": "static"}}], "requests": [{"id": "a", "prompt_tokens": [5, 6, 7, 8], "beam_width": 4, "max_new_tokens": 9}],
                        "actions": [{"at_step": 5, "do": "cancel", "request": "a.1"}, {"at_step": 6, "do": "preempt", "request": "a"}, {"at_step": 9, "do": "cancel", "request": "a.0"}])");
    CHECK_RESULT(s->run_to_end());
    const LaneRecord& lane = s->recording()->lane(lane0);
    CHECK_THAT(lane.step_count() < 100);
    CHECK_THAT(!all(*s->recording(), EventKind::preempt).empty());
    const LaneState end = lane.state_after(lane.step_count() - 1);
    CHECK_EQUAL(end.used_blocks(), 0u);
    for (const auto& sequence : end.sequences())
        CHECK_THAT(sequence.status == SequenceStatus::finished || sequence.status == SequenceStatus::cancelled);
}

// Beams that do not fit together take turns: one that only waits gives way. Without that the last one would compute and
// lose the same tokens for ever.
Cases<std::string> beamsThatDoNotFitTogetherTakeTurns_cases() {
    Cases<std::string> cases;
    cases.add("one request, one token a step",
              std::string(R"("lanes": [{"cache": {"blocks": 40, "block_size": 3, "prefix_index": "radix"}, "scheduler": {"max_num_batched_tokens": 1, "reserve_full_prompt": false}}], "requests": [{"id": "a", "prompt_tokens": [6, 6, 6], "max_new_tokens": 40, "beam_width": 3}])"));
    cases.add("beside another request",
              std::string(R"("lanes": [{"cache": {"blocks": 40, "block_size": 1, "prefix_caching": false}, "scheduler": {"max_num_batched_tokens": 5, "reserve_full_prompt": false}}], "requests": [{"id": "a", "prompt_tokens": [6, 6, 6, 80, 53, 49, 50, 39, 33, 40, 51, 32, 24, 21, 37, 32, 86, 98, 42, 24, 60, 96, 69], "max_new_tokens": 5, "beam_width": 2}, {"id": "b", "prompt_tokens": [5, 92, 66, 11, 10, 22, 51, 25, 77, 18], "max_new_tokens": 5, "arrival_step": 3}])"));
    return cases;
}
void beamsThatDoNotFitTogetherTakeTurns(Check& check, const std::string& rest) {
    auto s = session(rest);
    s->step(20000);
    s->wait();
    CHECK_EQUAL(int(s->recording()->phase()), int(Phase::finished));
    const LaneRecord& lane = s->recording()->lane(lane0);
    const LaneState end = lane.state_after(lane.step_count() - 1);
    for (const auto& sequence : end.sequences()) CHECK_EQUAL(int(sequence.status), int(SequenceStatus::finished));
}

void withoutACacheSamplesAndBeamsAreTheSame(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"dtype": "f32", "block_size": 4}}, {"kv_cache": false}], "requests": [{"id": "n", "prompt_tokens": [5, 6, 7], "n": 3, "temperature": 1.5, "max_new_tokens": 6},
                           {"id": "b", "prompt_tokens": [8, 9, 10, 11], "beam_width": 2, "max_new_tokens": 6}])");
    CHECK_RESULT(s->run_to_end());
    const Recording& recording = *s->recording();
    CHECK_EQUAL(recording.lane(LaneId{1}).sequences().size(), recording.lane(lane0).sequences().size());
    for (const char* name : {"n.0", "n.1", "n.2", "b.0", "b.1"})
        CHECK_EQUAL(outputs(recording, LaneId{1}, name), outputs(recording, lane0, name));
}

void valuesBeyondTheRangeAreCountedAndSaid(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"dtype": "f16"}}], "requests": [)" + request("a", 6, 6) + "]");
    CHECK_RESULT(s->run_to_end());
    for (std::size_t i = 0; i < 6; ++i) CHECK_EQUAL(s->recording()->lane(lane0).step(i).overflowed_values, std::uint64_t(0));
    // The same model with keys a million times as large.
    const auto loaded = load_model(fixtures + "tiny-gqa");
    CHECK_RESULT(loaded);
    auto loud = std::make_shared<Model>(**loaded);
    Tensor& value = loud->layers[1].value;
    std::vector<std::byte> bytes(value.bytes());
    for (std::size_t i = 0; i < bytes.size() / 4; ++i) {
        float number = 0;
        std::memcpy(&number, value.data + i * 4, 4);
        number *= 1e6f;
        std::memcpy(bytes.data() + i * 4, &number, 4);
    }
    CHECK_EQUAL(int(value.dtype), int(DType::f32));
    loud->owned.push_back(std::move(bytes));
    value.data = loud->owned.back().data();
    SessionOptions given = options();
    given.find_model = [&](const std::string&) -> Result<std::shared_ptr<const Model>> { return std::shared_ptr<const Model>(loud); };
    s = session(R"("lanes": [{"cache": {"dtype": "f16"}}], "requests": [)" + request("a", 6, 1) + "]", given);
    (void)s->run_to_end();  // its logits are not finite
    CHECK_THAT(s->recording()->lane(lane0).step(0).overflowed_values > 0);
    CHECK_THAT(!s->breakpoint_notes().empty() && s->breakpoint_notes()[0].find("beyond the range") != std::string::npos);
}

void theWindowForksPreemptsAndResets(Check& check) {
    auto s = session(small_lane + request("a", 6, 12) + "]");
    s->step(3);
    s->wait();
    ScenarioAction action;
    action.kind = ActionKind::fork;
    action.request = "a";
    CHECK_RESULT(s->act(action));
    s->step();
    s->wait();
    CHECK_EQUAL(all(*s->recording(), EventKind::fork), (std::vector<std::string>{"3: fork a-2"}));
    action = {};
    action.kind = ActionKind::preempt;
    action.request = "a-2";
    CHECK_RESULT(s->act(action));
    s->step();
    s->wait();
    CHECK_THAT(contains(events(*s->recording(), lane0, 4), "preempt a-2"));
    action.request = "nobody";
    CHECK_THAT(!s->act(action));
    action = {};
    action.kind = ActionKind::fork;
    action.request = "a";
    action.as = "a-2";
    CHECK_THAT(!s->act(action));                     // taken
    action.as = "x";
    action.prompt_tokens = std::vector<TokenId>{4000};
    CHECK_THAT(!s->act(action));                     // no such token
    action = {};
    action.kind = ActionKind::evict;
    action.block = 60;
    CHECK_THAT(!s->act(action));                     // no such block
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(outputs(*s->recording(), lane0, "a"), forced(12));
    CHECK_EQUAL(outputs(*s->recording(), lane0, "a-2").size(), std::size_t(10));
}

void breakpointsKnowChildrenAndTheFirstCopy(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 60}}], "breakpoints": [{"on": "copy_on_write"}, {"request": "c", "on": "finish"}], "requests": [)" + request("a", 6, 6) +
                     R"(], "actions": [{"at_step": 2, "do": "fork", "request": "a", "as": "c"}])");
    s->run();
    s->wait();
    CHECK_EQUAL(s->recording()->lane(lane0).step_count(), std::size_t(3));
    CHECK_OR_SAY(s->recording()->reason().find("another owner") != std::string::npos || s->recording()->reason().find("owner") != std::string::npos, s->recording()->reason());
    s->run();
    s->wait();
    CHECK_THAT(contains(events(*s->recording(), lane0, s->recording()->lane(lane0).step_count() - 1), "finish c"));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aForkSharesAndTheParentWritesFirst));
    claims.add(CLAIM(whatCannotBeDoneIsRefusedWithASentence), whatCannotBeDoneIsRefusedWithASentence_cases());
    claims.add(CLAIM(contiguousAndUncachedLanesSayWhatTheyCannotDo));
    claims.add(CLAIM(evictAndResetForgetWhatCouldBeHit));
    claims.add(CLAIM(N1_hitTokensAreCountedAtAdmission));
    claims.add(CLAIM(N2_aResumedSequenceAsksForNoBlockTwice));
    claims.add(CLAIM(C5_swappedBlocksComeBackInTheirOrder));
    claims.add(CLAIM(samplesDifferByTheirOwnSeedsAndShareThePrompt));
    claims.add(CLAIM(beamsAreTheBestContinuations), beamsAreTheBestContinuations_cases());
    claims.add(CLAIM(aCancelledBeamDoesNotHoldTheOthersUp));
    claims.add(CLAIM(beamsThatDoNotFitTogetherTakeTurns), beamsThatDoNotFitTogetherTakeTurns_cases());
    claims.add(CLAIM(withoutACacheSamplesAndBeamsAreTheSame));
    claims.add(CLAIM(valuesBeyondTheRangeAreCountedAndSaid));
    claims.add(CLAIM(theWindowForksPreemptsAndResets));
    claims.add(CLAIM(breakpointsKnowChildrenAndTheFirstCopy));
    return claims.rows();
}
