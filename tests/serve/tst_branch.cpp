// SPDX-License-Identifier: GPL-3.0-or-later
//
// Branches: a lane that takes another one's tokens up to a step, and goes its own way from there.
#include "engine/record/results.h"
#include "engine/serve/branch.h"
#include "tests/serve/recorded.h"
#include "tests/serve/support.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

Scenario tiny(const std::string& rest) {
    Scenario wanted = scenario(R"({"version": 1, "device": "cpu", "seed": 5, )" + rest + "}");
    if (wanted.model == "bundled") wanted.model = fixtures + "tiny-gqa";
    return wanted;
}

std::unique_ptr<Session> ran(const Scenario& wanted) {
    auto made = Session::create(wanted, options());
    if (!made) throw std::runtime_error(made.error().message());
    if (auto end = (*made)->run_to_end(); !end) throw std::runtime_error(end.error().message());
    return std::move(*made);
}

const char* const requests = R"("requests": [{"id": "a", "prompt_tokens": [5, 6, 7, 8, 9, 10, 11], "max_new_tokens": 16, "temperature": 0.9},
  {"id": "b", "prompt_tokens": [5, 6, 7, 8, 19], "max_new_tokens": 12, "temperature": 1.2, "n": 2, "arrival_step": 2}],
  "actions": [{"at_step": 5, "do": "fork", "request": "a", "as": "c"}])";

std::string lanes(const std::string& branch) {
    return R"("lanes": [{"name": "old", "cache": {"block_size": 4, "blocks": 40}}, {"name": "new", "branch": {"of": "old", "at_step": 7)" + branch + "}], ";
}

// Output tokens of all sequences that the lane took in steps before `end`, by sequence and position.
std::map<std::pair<std::string, std::uint32_t>, TokenId> taken(const Recording& recording, LaneId id, std::size_t end) {
    std::map<std::pair<std::string, std::uint32_t>, TokenId> result;
    const LaneRecord& lane = recording.lane(id);
    for (std::size_t step = 0; step < std::min(end, lane.step_count()); ++step)
        for (std::uint64_t i = lane.step(step).tokens.begin; i < lane.step(step).tokens.end; ++i)
            if (lane.tokens()[i].source != TokenRecord::prompt)
                result[{sequence_name(recording, lane, lane.tokens()[i].sequence), lane.tokens()[i].position}] = lane.tokens()[i].token;
    return result;
}

const LaneId old_lane{0}, new_lane{1};

void equalSettingsNeverPart(Check& check) {
    const auto s = ran(tiny(lanes("}") + requests));
    const Recording& recording = *s->recording();
    const LaneRecord& old = recording.lane(old_lane);
    CHECK_EQUAL(recording.lane(new_lane).step_count(), old.step_count());
    CHECK_EQUAL(lane_difference(old, recording.lane(new_lane), old.step_count()), "");
    CHECK_THAT(old.step_count() > 12);
    const LaneBranch& branch = recording.lane(new_lane).info().branch;
    CHECK_EQUAL(branch.of, "old");
    CHECK_EQUAL(branch.at_step, 7u);
    CHECK_EQUAL(branch.how, "switches");
    CHECK_EQUAL(old.info().branch.of, "");
    CHECK_THAT(contains(describe_branch(recording.lane(new_lane)), "continues lane 'old' from step 7"));
    CHECK_EQUAL(describe_branch(old), "");
}

void aChosenTokenPartsAtItsStep(Check& check) {
    const auto base = ran(tiny(lanes("}") + requests));
    // What a took in step 7, and another token in its place.
    const auto before = taken(*base->recording(), old_lane, 7), after = taken(*base->recording(), old_lane, 8);
    std::uint32_t position = 0;
    for (const auto& [place, token] : after)
        if (place.first == "a" && !before.count(place)) position = place.second;
    CHECK_THAT(position > 7);
    const TokenId chosen = after.at({"a", position}) == 33 ? 34 : 33;
    for (const char* pool : {"", R"(, "cache": {"block_size": 8, "blocks": 30})"}) {
        const auto s = ran(tiny(lanes(R"(, "token": )" + std::to_string(chosen) + R"(, "request": "a"})" + pool) + requests));
        const Recording& recording = *s->recording();
        CHECK_THAT(taken(recording, old_lane, 8) == after);
        CHECK_THAT(taken(recording, new_lane, 7) == before);
        auto expected = after;
        expected[{"a", position}] = chosen;
        CHECK_THAT(taken(recording, new_lane, 8) == expected);
        CHECK_EQUAL(recording.lane(new_lane).info().branch.token, chosen);
        CHECK_EQUAL(recording.lane(new_lane).info().branch.how, *pool ? "from_start" : "switches");
        // Free afterwards: what it samples is no longer forced.
        const LaneRecord& lane = recording.lane(new_lane);
        int forced = 0, sampled = 0;
        for (std::size_t i = 0; i < lane.tokens().size(); ++i) {
            forced += lane.tokens()[i].source == TokenRecord::forced;
            sampled += lane.tokens()[i].source == TokenRecord::sampled && lane.tokens()[i].position > position;
        }
        CHECK_THAT(forced > int(before.size()) / 2 && sampled > 5);
    }
}

void aPolicySwitchesAtItsStep(Check& check) {
    const std::string work = R"("model": "none", "requests": [)" + request("a", 6, 5) + "," + request("b", 6, 5, R"(, "priority": 5)") + "," +
                             request("c", 6, 5, R"(, "priority": 1, "arrival_step": 1)") + "], ";
    const auto s = ran(tiny(work + R"("lanes": [{"name": "old", "cache": {"block_size": 4, "blocks": 30}, "scheduler": {"max_num_seqs": 1}},
        {"name": "new", "branch": {"of": "old", "at_step": 3}, "scheduler": {"policy": "priority"}},
        {"name": "late", "branch": {"of": "old", "at_step": 7}, "scheduler": {"policy": "priority"}},
        {"name": "back", "branch": {"of": "new", "at_step": 6}, "scheduler": {"policy": "fcfs", "max_num_seqs": 2}}])"));
    const Recording& recording = *s->recording();
    const auto admitted = [&](std::uint32_t lane) { return all(recording, EventKind::admit, LaneId{lane}); };
    CHECK_EQUAL(admitted(0), (std::vector<std::string>{"0: admit a", "5: admit b", "10: admit c"}));
    CHECK_EQUAL(admitted(1), (std::vector<std::string>{"0: admit a", "5: admit c", "10: admit b"}));
    CHECK_EQUAL(admitted(2), admitted(0));  // b runs by then
    CHECK_EQUAL(admitted(3), (std::vector<std::string>{"0: admit a", "5: admit c", "6: admit b"}));
    for (std::uint32_t lane = 1; lane < 4; ++lane) CHECK_EQUAL(recording.lane(LaneId{lane}).info().branch.how, "switches");
    CHECK_EQUAL(lane_difference(recording.lane(LaneId{0}), recording.lane(LaneId{1}), 3), "");
    // The head of the queue is another one from the very step on: that it is refused is an event.
    CHECK_EQUAL(lane_difference(recording.lane(LaneId{0}), recording.lane(LaneId{1}), 4), "old, step 3: how many events or tokens");
    CHECK_EQUAL(lane_difference(recording.lane(LaneId{1}), recording.lane(LaneId{3}), 6), "");
}

// Rules that hold something while they change; the cache's invariants are checked in every step.
void rulesChangeUnderLoad(Check& check) {
    std::string work;
    for (int i = 0; i < 8; ++i) work += (i ? "," : "") + request(std::string(1, char('a' + i)).c_str(), 5 + i % 3, 9 + i, (R"(, "arrival_step": )" + std::to_string(i) + R"(, "priority": )" + std::to_string(8 - i)).c_str());
    const std::string lanes = R"({"name": "static", "cache": {"block_size": 2, "blocks": 26}, "scheduler": {"batching": "static", "max_num_seqs": 3}},
        {"name": "freed", "branch": {"of": "static", "at_step": 9}, "scheduler": {"batching": "continuous"}},
        {"name": "lru", "cache": {"block_size": 2, "blocks": 18, "prefix_index": "radix"}, "scheduler": {"max_num_seqs": 4}},
        {"name": "fifo", "branch": {"of": "lru", "at_step": 11}, "cache": {"radix_eviction": "fifo", "watermark": 0.2}},
        {"name": "gathered", "branch": {"of": "lru", "at_step": 6}, "scheduler": {"batching": "static"}},
        {"name": "swapping", "branch": {"of": "lru", "at_step": 8}, "scheduler": {"preemption": "swap", "swap_blocks": 12, "victim": "sglang"}},
        {"name": "no longer", "branch": {"of": "swapping", "at_step": 16}, "scheduler": {"preemption": "recompute"}},
        {"name": "narrow", "branch": {"of": "lru", "at_step": 7}, "scheduler": {"max_num_seqs": 1, "max_num_batched_tokens": 8, "chunked_prefill": false}},
        {"name": "appended", "branch": {"of": "static", "at_step": 5}, "cache": {"free_order": "append"}})";
    const auto s = ran(tiny(R"("model": "none", "requests": [)" + work + R"(], "lanes": [)" + lanes + "]"));
    const Recording& recording = *s->recording();
    for (std::uint32_t i = 0; i < recording.lanes().size(); ++i) {
        const LaneRecord& lane = recording.lane(LaneId{i});
        CHECK_EQUAL(lane.failure(), "");
        CHECK_EQUAL(all(recording, EventKind::finish, LaneId{i}).size(), std::size_t(8));
        if (lane.info().branch.of.empty()) continue;
        CHECK_EQUAL(lane.info().branch.how, "switches");
        std::uint32_t parent = 0;
        while (recording.lane(LaneId{parent}).info().name != lane.info().branch.of) ++parent;
        CHECK_EQUAL(lane_difference(recording.lane(LaneId{parent}), lane, lane.info().branch.at_step), "");
    }
    CHECK_THAT(!all(recording, EventKind::swap_out, LaneId{5}).empty());
}

void anotherPrecisionHasTheParentsTokensUntilThen(Check& check) {
    const auto s = ran(tiny(lanes(R"(}, "cache": {"dtype": "int4"})") + requests));
    const Recording& recording = *s->recording();
    const auto before = taken(recording, old_lane, 7);
    CHECK_THAT(before.size() > 10);
    CHECK_THAT(taken(recording, new_lane, 7) == before);
    const LaneRecord& lane = recording.lane(new_lane);
    CHECK_EQUAL(lane.info().branch.how, "from_start");
    CHECK_EQUAL(lane.info().cache_dtype, "int4");
    CHECK_EQUAL(lane.info().blocks, 40u);
    // Same tokens, other numbers from the first step that reads the cache on.
    bool other_logits = false;
    for (std::size_t i = 0; i < lane.tokens().size() && !other_logits; ++i) {
        const TokenRecord token = lane.tokens()[i], same = recording.lane(old_lane).tokens()[i];
        for (std::uint32_t k = 0; k < token.alternative_count; ++k)
            other_logits = other_logits || lane.alternatives()[token.alternatives_begin + k].logit != recording.lane(old_lane).alternatives()[same.alternatives_begin + k].logit;
    }
    CHECK_THAT(other_logits);
    // The logits of both are compared while their tokens are the same.
    bool compared = false;
    for (std::size_t step = 0; step < lane.step_count(); ++step) compared = compared || lane.step(step).logit_difference > 0;
    CHECK_THAT(compared);
}

// With less room the branch is behind its parent: it still says what the parent said before the step.
void aSmallerPoolSaysWhatItsParentSaid(Check& check) {
    for (const char* pool : {R"("cache": {"block_size": 4, "blocks": 9})", R"("kv_cache": false)", R"("cache": {"kind": "contiguous", "max_model_len": 40, "blocks": 60})"}) {
        const auto s = ran(tiny(R"("lanes": [{"name": "old", "cache": {"block_size": 4, "blocks": 40}}, {"name": "new", "branch": {"of": "old", "at_step": 7}, )" +
                                std::string(pool) + R"(}], "requests": [{"id": "a", "prompt_tokens": [5, 6, 7, 8, 9, 10, 11], "max_new_tokens": 16, "temperature": 0.9},
                                {"id": "b", "prompt_tokens": [5, 6, 7, 8, 19], "max_new_tokens": 12, "temperature": 1.2, "arrival_step": 2}])"));
        const auto before = taken(*s->recording(), old_lane, 7), all_of_new = taken(*s->recording(), new_lane, 1000);
        CHECK_THAT(before.size() > 8);
        for (const auto& [place, token] : before) CHECK_EQUAL(all_of_new.at(place), token);
    }
}

void aBranchJoinsASessionThatHasRun(Check& check) {
    const Scenario wanted = tiny(R"("lanes": [{"name": "old", "cache": {"block_size": 4}}], )" + std::string(requests));
    auto first = Session::create(wanted, options());
    CHECK_RESULT(first);
    (*first)->step(11);
    (*first)->wait();
    CHECK_RESULT((*first)->submit(submitted("late", 9, 6)));
    (*first)->step(2);
    (*first)->wait();
    const auto before = (*first)->recording();
    for (const auto& [key, value] : {std::pair("scheduler.policy", "priority"), std::pair("cache.dtype", "int8"), std::pair("cache.block_size", "8")}) {
        const BranchOptions from{"old", 9, std::nullopt, ""};
        CHECK_RESULT(check_branch(*before, from));
        const auto more = add_branch((*first)->replayable_scenario(), {from, "", {{key, value}}});
        CHECK_RESULT(more);
        auto second = Session::create(*more, options());
        CHECK_RESULT(second);
        (*second)->replay(before);
        (*second)->wait();
        const auto now = (*second)->recording();
        CHECK_EQUAL((*second)->replay_report()->sentence(), "");
        CHECK_EQUAL(recorded_difference(*before, *now), "");
        CHECK_EQUAL(now->lane(old_lane).step_count(), std::size_t(13));
        CHECK_EQUAL(now->lane(new_lane).step_count(), std::size_t(13));
        CHECK_THAT(taken(*now, new_lane, 9) == taken(*before, old_lane, 9));
        CHECK_EQUAL(int(now->phase()), int(Phase::paused));
        CHECK_RESULT((*second)->run_to_end());
        CHECK_EQUAL(outputs(*now, new_lane, "late").size(), std::size_t(6));
    }
}

void summaryAndFileNameTheBranch(Check& check) {
    const auto s = ran(tiny(lanes(R"(, "token": 33, "request": "a"})") + requests));
    const TemporaryFolder folder;
    CHECK_RESULT(write_results(*s->recording(), folder.path(), {}));
    const std::string summary = read_file(folder.path() + "/summary.json");
    const std::size_t at = summary.find("\"branch\"");
    CHECK_THAT(at != std::string::npos && summary.find("\"branch\"", at + 1) == std::string::npos);
    for (const char* part : {"\"of\": \"old\"", "\"at_step\": 7", "\"how\": \"switches\"", "\"token\": 33", "\"request\": \"a\""})
        CHECK_EQUAL(contains(summary.substr(at, 200), part) ? "" : part, "");
}

void whatCannotBeChosenIsSaid(Check& check) {
    const auto s = ran(tiny(R"("model": "none", "requests": [)" + request("a", 6, 3) + "," + request("b", 6, 20) +
                            R"(], "lanes": [{"name": "old"}, {"name": "new", "branch": {"of": "old", "at_step": 9, "token": 3, "request": "a"}}])"));
    const Recording& recording = *s->recording();
    const LaneRecord& lane = recording.lane(new_lane);
    const std::uint64_t first = lane.step(9).events.begin;
    CHECK_EQUAL(int(lane.events()[first].kind), int(EventKind::refuse));
    CHECK_EQUAL(lane.strings()[lane.events()[first].detail.value], "The branch's token cannot be chosen: request: 'a' has ended");
    const auto refused = [&](const BranchOptions& from, const char* part) {
        const auto good = check_branch(recording, from);
        if (good || !contains(good.error().message(), part)) check.fail(std::string("no error says ") + part, __FILE__, __LINE__);
    };
    refused({"older", 1, std::nullopt, ""}, "no lane 'older'");
    refused({"old", 21, std::nullopt, ""}, "no step 21");
    refused({"old", 9, 3, "a"}, "'a' of lane 'old' is not live in step 9");
    refused({"old", 9, 3, "z"}, "no sequence 'z'");
    CHECK_RESULT(check_branch(recording, {"old", 20, std::nullopt, ""}));  // behind its last step
    CHECK_RESULT(check_branch(recording, {"old", 9, 3, "b"}));
    CHECK_RESULT(check_branch(recording, {"old", 0, 3, "b"}));
    const auto model = ran(tiny(lanes("}") + requests));
    const auto outside = check_branch(*model->recording(), {"old", 3, 288, "a"});
    CHECK_THAT(!outside && contains(outside.error().message(), "no token 288"));
    CHECK_THAT(!Session::create(tiny(lanes(R"(, "token": 288, "request": "a"})") + requests), options()));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    return {{"equal settings never part", equalSettingsNeverPart},
            {"a chosen token parts at its step", aChosenTokenPartsAtItsStep},
            {"a policy switches at its step", aPolicySwitchesAtItsStep},
            {"rules change under load", rulesChangeUnderLoad},
            {"another precision has the parent's tokens until then", anotherPrecisionHasTheParentsTokensUntilThen},
            {"a smaller pool says what its parent said", aSmallerPoolSaysWhatItsParentSaid},
            {"a branch joins a session that has run", aBranchJoinsASessionThatHasRun},
            {"summary and file name the branch", summaryAndFileNameTheBranch},
            {"what cannot be chosen is said", whatCannotBeChosenIsSaid}};
}
