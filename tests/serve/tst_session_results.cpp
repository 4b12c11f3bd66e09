// SPDX-License-Identifier: GPL-3.0-or-later
//
// Results of real lanes under every policy: what the exports derive from events is what cache and scheduler counted.
#include "engine/record/recount.h"
#include "engine/record/results.h"
#include "tests/serve/support.h"
#include "tests/support/claims.h"

#include <nlohmann/json.hpp>

#include <set>

using namespace kvloupe;
using namespace kvloupe::test;
using Json = nlohmann::ordered_json;

namespace {

// 14 requests with two beginnings over a pool that is too small for them, samples, forks and a cancellation.
Scenario crowded(const std::string& cache, const std::string& scheduler) {
    std::string requests;
    for (int i = 0; i < 14; ++i) {
        std::string tokens = "[";
        for (int t = 0; t < 24; ++t) tokens += std::to_string(t < 16 ? 100 * (i % 2) + t : 500 + i) + (t < 23 ? "," : "]");
        requests += std::string(i ? "," : "") + R"({"id": "r)" + std::to_string(i) + R"(", "prompt_tokens": )" + tokens +
                    R"(, "max_new_tokens": )" + std::to_string(8 + i * 5 % 23) + R"(, "arrival_step": )" +
                    std::to_string(i * 2) + R"(, "priority": )" + std::to_string(i * 7 % 3) +
                    (i == 3 ? R"(, "n": 3)" : "") + "}";
    }
    return scenario(R"({"version": 1, "device": "cpu", "model": "none", "lanes": [{"cache": {)" + cache + R"(}, "scheduler": {)" +
                    scheduler + R"(}}], "requests": [)" + requests +
                    R"(], "actions": [{"at_step": 6, "do": "fork", "request": "r0", "as": "x", "position": 21},
                        {"at_step": 9, "do": "fork", "request": "r1", "as": "y"}, {"at_step": 12, "do": "cancel", "request": "r2"}]})");
}

// Slots that an owner will write and none has written, slot by slot.
std::uint64_t reserved_slots(const LaneState& state, const std::vector<std::uint64_t>& written) {
    const std::uint64_t size = state.block_size();
    std::map<std::uint64_t, int> slots;  // slot: 1 will be written, 2 is written
    for (const std::uint32_t id : state.holders()) {
        for (std::uint32_t group = 0; group < state.groups(); ++group) {
            const TableState& table = state.table(SequenceId(id), std::uint8_t(group));
            for (std::uint64_t position = 0; position < table.size() * size; ++position) {
                if (table[position / size] == null_block_id) continue;
                int& slot = slots[table[position / size].value * size + position % size];
                if (position < state.sequences()[id].computed_tokens) slot = 2;
                else if (position < written[id]) slot = std::max(slot, 1);
            }
        }
    }
    std::uint64_t reserved = 0;
    for (const auto& [slot, what] : slots) reserved += what == 1;
    return reserved;
}

bool ends(const Event& event) {
    return event.kind == EventKind::finish && event.cause != Cause::sequence_cancelled;
}

struct DerivedFiguresAreThoseOfTheEngineCase {
    std::string cache, scheduler;
};
Cases<DerivedFiguresAreThoseOfTheEngineCase> derivedFiguresAreThoseOfTheEngine_cases() {
    Cases<DerivedFiguresAreThoseOfTheEngineCase> cases;
    const auto row = [&](const char* name, const char* cache, const char* scheduler) {
        cases.add(name, {std::string(R"("block_size": 8, "blocks": 30)") + cache, std::string(R"("max_num_batched_tokens": 40)") + scheduler});
    };
    row("recompute", "", "");
    row("swap", "", R"(, "preemption": "swap", "swap_blocks": 12)");
    row("priority", "", R"(, "policy": "priority")");
    row("static", "", R"(, "batching": "static", "max_num_seqs": 6)");
    row("sglang's victims", "", R"(, "victim": "sglang", "reserve_full_prompt": false)");
    row("no prefix caching", R"(, "prefix_caching": false)", "");
    row("radix tree", R"(, "prefix_index": "radix")", "");
    row("window", R"(, "window": 12, "sinks": 4)", "");
    row("by maximum", R"(, "kind": "contiguous", "reserve": "max", "max_model_len": 64)", "");
    row("by power of two", R"(, "kind": "contiguous", "reserve": "pow2")", "");
    row("growing", R"(, "kind": "contiguous", "reserve": "grow")", "");
    return cases;
}
void derivedFiguresAreThoseOfTheEngine(Check& check, const DerivedFiguresAreThoseOfTheEngineCase& row) {
    auto made = Session::create(crowded(row.cache, row.scheduler), options());
    CHECK_RESULT(made);
    const auto ran = (*made)->run_to_end();
    CHECK_RESULT(ran);
    const Recording& recording = *(*made)->recording();
    const LaneRecord& lane = recording.lane(lane0);
    const std::size_t steps = lane.step_count();
    const Recount counted = recount(recording, lane, steps);
    const std::vector<std::uint64_t> written = written_in_the_end(recording, lane, steps);
    const Json blocks = Json::parse(blocks_json(recording))["lanes"][0]["steps"];
    LaneState state(lane.info().blocks, lane.info().block_size);
    for (std::size_t s = 0; s < steps; ++s) {
        const std::string where = "step " + std::to_string(s);
        const StepRecord& step = lane.step(s);
        state.begin_step(std::uint32_t(s));
        std::uint64_t e = step.events.begin;
        for (; e < step.events.end && !ends(lane.events()[e]); ++e) state.apply(lane.events()[e]);
        // A batch is released without anybody ending where its last members were preempted.
        CHECK_OR_SAY(state.used_blocks() == step.used_blocks && state.cached_blocks() == step.cached_blocks, where);
        CHECK_OR_SAY(state.token_slots() == step.slots.token && state.host_blocks() == step.host_blocks, where);
        // A region that grows has asked for what it needs now; the rest of its chunk is external, whoever writes it later.
        const std::uint64_t reserved = std::min(reserved_slots(state, written), step.slots.reserved + step.slots.internal);
        CHECK_OR_SAY(counted.slots[s].reserved == reserved, where);
        for (; e < step.events.end; ++e) state.apply(lane.events()[e]);
        std::set<std::string> running, waiting;
        for (std::uint32_t id = 0; id < state.sequences().size(); ++id) {
            const SequenceStatus status = state.sequences()[id].status;
            const std::string name = sequence_name(recording, lane, SequenceId(id));
            if (status == SequenceStatus::running) running.insert(name);
            if (status == SequenceStatus::arrived || status == SequenceStatus::preempted || status == SequenceStatus::swapped)
                waiting.insert(name);
        }
        const auto listed = [&](const char* key) { return blocks[s][key].get<std::set<std::string>>(); };
        CHECK_OR_SAY(listed("running") == running && listed("waiting") == waiting, where);
        CHECK_OR_SAY(blocks[s]["waiting"].size() == step.waiting, where);
    }
    const Json summary = Json::parse(summary_json(recording))["lanes"][0];
    // Regions cannot be shared, and what lies before the window is gone.
    const bool shares = lane.info().policy.kind == "paged" && lane.info().policy.groups[0].window == 0;
    const Json& r0 = summary["requests"][0];
    CHECK_EQUAL(r0["sequences"].size(), std::size_t(shares));
    if (shares) CHECK_EQUAL(r0["sequences"][0]["id"], "x");
    CHECK_EQUAL(summary["requests"][3]["sequences"].size(), std::size_t{3});
    CHECK_EQUAL(summary["requests"][2]["finish_reason"], "cancelled");
    for (const Json& request : summary["requests"])
        if (request["finish_reason"] == "length") CHECK_THAT(request["output_tokens"].size() >= 8);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(derivedFiguresAreThoseOfTheEngine), derivedFiguresAreThoseOfTheEngine_cases());
    return claims.rows();
}
