// SPDX-License-Identifier: GPL-3.0-or-later
//
// Lanes over models whose layers see different windows: cache groups over one pool compute what a lane without a cache computes,
// and give up exactly the blocks that the rules name (CACHE_SEMANTICS W1 to W3).
#include "engine/record/ledger.h"
#include "engine/record/results.h"
#include "tests/serve/lane_models.h"
#include "tests/support/texts.h"

#include <nlohmann/json.hpp>

#include <set>

using namespace kvloupe;
using namespace kvloupe::test;
using nlohmann::json;

namespace {

// Three local layers to every global one, the last one global (as Gemma's, with an end).
const std::vector<std::uint32_t> pattern = {24, 24, 24, 0, 24, 24, 24, 0, 24};

void groupsComputeWhatALaneWithoutACacheComputes(Check& check) {
    Logits logits;
    auto s = session_of(generated_model(pattern),
                        R"("lanes": [{"name": "without", "kv_cache": false}, {"name": "groups", "cache": {"dtype": "f32", "block_size": 8, "blocks": 120}},
                                     {"name": "radix", "cache": {"dtype": "f32", "block_size": 4, "prefix_index": "radix"}}],
                           "requests": [)" + small_request("a", 60, 30) + "," + small_request("b", 17, 40, R"(, "arrival_step": 2)") + R"(],
                           "actions": [{"at_step": 12, "do": "fork", "request": "a", "as": "c"}])", options(&logits));
    CHECK_RESULT(s->run_to_end());
    const Recording& recording = *s->recording();
    CHECK_EQUAL(recording.lane(LaneId{1}).info().policy.groups.size(), std::size_t(5));  // 2 global, 7 local in 4 groups
    CHECK_EQUAL(recording.lane(LaneId{2}).info().policy.groups.size(), std::size_t(1));
    std::size_t compared = 0;
    for (const auto& [key, row] : logits) {
        const auto& [lane, request, output] = key;
        if (lane == 0) continue;
        const auto base = logits.find({0, request, output});
        CHECK_THAT(base != logits.end());
        CHECK_BELOW(largest_difference(row, base->second), 1e-4);
        ++compared;
    }
    CHECK_THAT(compared >= 2 * 70);
    CHECK_THAT(!all(recording, EventKind::null_block, LaneId{1}).empty());
    CHECK_THAT(all(recording, EventKind::null_block, LaneId{2}).empty());
}

void onePoolServesAllGroups(Check& check) {
    auto s = session_of(generated_model(pattern), R"("lanes": [{"cache": {"block_size": 8, "blocks": 90}}], "requests": [)" + small_request("a", 60, 20) + "]");
    CHECK_RESULT(s->run_to_end());
    const LaneRecord& lane = s->recording()->lane(lane0);
    const LaneInfo& info = lane.info();
    const std::uint64_t token = 2 * 2 * 32 * 2;  // bytes of a layer and token
    CHECK_EQUAL(info.bytes_per_token, 9 * token);
    CHECK_EQUAL(info.block_bytes, 2 * 8 * token);  // two places
    CHECK_EQUAL(info.pool_bytes, 90 * info.block_bytes);
    std::set<std::pair<std::uint32_t, std::uint32_t>> places;
    for (const LayerInfo& layer : info.layer_infos) CHECK_THAT(places.insert({layer.group, layer.place}).second && layer.place < 2);
    // No block stands in tables of two groups (W11).
    const LaneState state = lane.state_after(lane.step_count() - 3);
    std::set<std::uint32_t> seen;
    for (std::uint8_t group = 0; group < 5; ++group)
        for (const BlockId block : state.table(SequenceId(0), group))
            if (block != null_block_id) CHECK_THAT(seen.insert(block.value).second);
    CHECK_EQUAL(seen.size(), std::size_t(state.used_blocks()));
    const json summary = json::parse(summary_json(*s->recording()));
    const json& layout = summary.at("lanes").at(0).at("cache").at("layout");
    CHECK_EQUAL(layout.size(), std::size_t(5));
    CHECK_EQUAL(layout.at(0).at("window").get<int>(), 24);
    CHECK_EQUAL(layout.at(0).at("last_layer").get<int>(), 2);
    CHECK_THAT(layout.at(1).at("window").is_null());
}

// FORMATS 3.1: G n b + L min(n, W) b, and the ledger says to the byte what is taken beyond it.
void theLedgerExplainsWhatWindowsSave(Check& check) {
    auto s = session_of(generated_model(pattern), R"("lanes": [{"cache": {"block_size": 8}}], "requests": [)" + small_request("a", 60, 40) + "]");
    CHECK_RESULT(s->run_to_end());
    const LaneRecord& lane = s->recording()->lane(lane0);
    const std::uint64_t token = 2 * 2 * 32 * 2;
    for (std::size_t step = 0; step + 1 < lane.step_count(); ++step) {
        bool found = false;
        for (const LedgerEntry& entry : ledger(lane, step)) {
            CHECK_OR_SAY(entry.unexplained == 0, entry.what + ": " + entry.residual_why);
            if (entry.what != "KV by formula") continue;
            found = true;
            const std::uint64_t n = 60 + step;
            CHECK_EQUAL(*entry.predicted, 2 * n * token + 7 * std::min<std::uint64_t>(n, 24) * token);
            CHECK_THAT(entry.residual > 0 && contains(entry.residual_why, "places that a cache group leaves empty"));
        }
        CHECK_THAT(found);
    }
}

struct WindowCase {
    std::string cache;
    std::map<std::uint32_t, int> nulls;  // computed tokens: entries that point at the null block by then
};
Cases<WindowCase> aLaneGivesUpWhatItsWindowHasLeft_cases() {
    Cases<WindowCase> cases;
    cases.add("W1", {R"("block_size": 2, "window": 4)", {{4, 0}, {5, 1}, {6, 1}, {7, 2}, {11, 4}}});
    cases.add("W2", {R"("block_size": 2, "attention_chunk": 4)", {{4, 2}, {6, 2}, {12, 6}}});
    cases.add("W3", {R"("block_size": 4, "window": 8, "sinks": 16)", {{28, 1}, {36, 3}}});
    return cases;
}
void aLaneGivesUpWhatItsWindowHasLeft(Check& check, const WindowCase& row) {
    auto s = session_of(generated_model({0, 0}), R"("lanes": [{"cache": {"blocks": 40, )" + row.cache + R"(}}], "requests": [)" + small_request("a", 3, 40) + "]");
    CHECK_RESULT(s->run_to_end());
    const LaneRecord& lane = s->recording()->lane(lane0);
    CHECK_THAT(lane.info().window_is_foreign);
    int nulls = 0;
    std::size_t compared = 0;
    for (std::size_t step = 0; step < lane.step_count(); ++step)
        for (std::uint64_t e = lane.step(step).events.begin; e < lane.step(step).events.end; ++e) {
            const Event& event = lane.events()[e];
            nulls += event.kind == EventKind::null_block;
            if (event.kind != EventKind::decode) continue;
            const auto wanted = row.nulls.find(event.other);  // the position computed: so many tokens were before
            if (wanted == row.nulls.end()) continue;
            CHECK_EQUAL(nulls, wanted->second);
            ++compared;
        }
    CHECK_EQUAL(compared, row.nulls.size());
}

void swappedGroupsComeBackAsTheyWere(Check& check) {
    const auto run = [&](const std::string& more) {
        Logits logits;
        auto s = session_of(generated_model({0, 16, 16}), R"("lanes": [{"cache": {"dtype": "f32", "block_size": 4, )" + more + R"(}, "scheduler": {"preemption": "swap", "swap_blocks": 60}}],
            "requests": [)" + small_request("a", 30, 30) + "," + small_request("b", 25, 30) + "]", options(&logits));
        if (auto ran = s->run_to_end(); !ran) check.fail(ran.error().message(), __FILE__, __LINE__);
        bool host = false;
        const LaneRecord& lane = s->recording()->lane(lane0);
        for (const LedgerEntry& entry : ledger(lane, lane.step_count() / 2)) {
            if (entry.unexplained != 0) check.fail(entry.what + ": " + entry.residual_why, __FILE__, __LINE__);
            host = host || (entry.what == "host blocks" && *entry.measured == 60 * lane.info().block_bytes);
        }
        if (!host) check.fail("host blocks are not accounted for", __FILE__, __LINE__);
        return std::pair{logits, all(*s->recording(), EventKind::swap_in).size()};
    };
    const auto [roomy, none] = run(R"("blocks": 200)");
    const auto [tight, swaps] = run(R"("blocks": 42)");
    CHECK_EQUAL(none, std::size_t(0));
    CHECK_THAT(swaps > 0);
    CHECK_EQUAL(roomy.size(), tight.size());
    for (const auto& [key, row] : roomy) CHECK_BELOW(largest_difference(row, tight.at(key)), 1e-4);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(groupsComputeWhatALaneWithoutACacheComputes));
    claims.add(CLAIM(onePoolServesAllGroups));
    claims.add(CLAIM(theLedgerExplainsWhatWindowsSave));
    claims.add(CLAIM(aLaneGivesUpWhatItsWindowHasLeft), aLaneGivesUpWhatItsWindowHasLeft_cases());
    claims.add(CLAIM(swappedGroupsComeBackAsTheyWere));
    return claims.rows();
}
