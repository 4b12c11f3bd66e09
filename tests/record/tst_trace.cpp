// SPDX-License-Identifier: GPL-3.0-or-later
//
// trace.json by the rules of FORMATS 2.6: it parses, slices nest per thread, async events pair, counters end held.
#include "engine/record/results.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"
#include "tests/support/demo_recording.h"
#include "tests/support/demo_sharing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

using namespace kvloupe;
using namespace kvloupe::test;
using Json = nlohmann::json;

namespace {

constexpr std::uint64_t no_limit = 1ull << 40;

const std::shared_ptr<const Recording>& whole() {
    static const auto recording = [] {
        DemoOptions options;
        options.attention = false;
        return demo_recording(options);
    }();
    return recording;
}

// "" if every X slice lies within the slice it begins in, per thread.
std::string nesting_error(const Json& trace) {
    std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> slices;
    for (const Json& event : trace["traceEvents"])
        if (event["ph"] == "X")
            slices[{event["pid"], event["tid"]}].push_back(
                {event["ts"].get<double>(), event["ts"].get<double>() + event["dur"].get<double>()});
    for (auto& [thread, list] : slices) {
        std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
            return a.first != b.first ? a.first < b.first : a.second > b.second;
        });
        std::vector<std::pair<double, double>> open;
        for (const auto& slice : list) {
            while (!open.empty() && open.back().second <= slice.first + 1e-4) open.pop_back();
            if (!open.empty() && slice.second > open.back().second + 1e-4)
                return "slice at " + std::to_string(slice.first) + " us of process " + std::to_string(thread.first) + " ends after its parent";
            open.push_back(slice);
        }
    }
    return {};
}

// "" if the b and e events of each id nest.
std::string pairing_error(const Json& trace) {
    std::map<std::string, std::vector<std::string>> open;
    std::map<std::string, double> last;
    for (const Json& event : trace["traceEvents"]) {
        if (event["ph"] != "b" && event["ph"] != "e") continue;
        const std::string id = event["id"];
        if (last.count(id) && event["ts"].get<double>() < last[id]) return id + " goes back in time";
        last[id] = event["ts"];
        if (event["ph"] == "b") {
            open[id].push_back(event["name"]);
        } else {
            if (open[id].empty() || open[id].back() != event["name"]) return id + " does not pair";
            open[id].pop_back();
        }
    }
    for (const auto& [id, names] : open)
        if (!names.empty()) return id + " stays open";
    return {};
}

// "" if every flow has a beginning and an end, in this order, and each lies in a slice of its thread.
std::string flow_error(const Json& trace) {
    std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> slices;
    std::map<std::string, std::vector<const Json*>> flows;
    for (const Json& event : trace["traceEvents"]) {
        if (event["ph"] == "X")
            slices[{event["pid"], event["tid"]}].push_back({event["ts"].get<double>(), event["ts"].get<double>() + event["dur"].get<double>()});
        if (event["ph"] == "s" || event["ph"] == "f") flows[event["cat"].get<std::string>() + event["id"].get<std::string>()].push_back(&event);
    }
    for (auto& [thread, list] : slices) {  // each with the latest end of all that begin no later
        std::sort(list.begin(), list.end());
        for (std::size_t i = 1; i < list.size(); ++i) list[i].second = std::max(list[i].second, list[i - 1].second);
    }
    for (const auto& [id, ends] : flows) {
        if (ends.size() != 2 || (*ends[0])["ph"] != "s" || (*ends[1])["ph"] != "f") return id + " does not begin and end once";
        if ((*ends[0])["ts"].get<double>() > (*ends[1])["ts"].get<double>()) return id + " goes back in time";
        if ((*ends[1])["bp"] != "e" || (*ends[0])["name"] != (*ends[1])["name"]) return id + " does not bind";
        for (const Json* end : ends) {
            const double at = (*end)["ts"];
            const auto& list = slices[{(*end)["pid"], (*end)["tid"]}];
            const auto after = std::upper_bound(list.begin(), list.end(), at, [](double t, const auto& slice) { return t < slice.first; });
            if (after == list.begin() || std::prev(after)->second <= at) return id + " has an end outside of all slices";
        }
    }
    return {};
}

std::map<std::string, int> count_names(const Json& trace, const char* phase) {
    std::map<std::string, int> names;
    for (const Json& event : trace["traceEvents"])
        if (event["ph"] == phase) ++names[event["name"]];
    return names;
}

void parsesNestsAndPairs(Check& check) {
    const Json trace = Json::parse(trace_json(*whole(), no_limit));
    CHECK_EQUAL(trace["displayTimeUnit"], Json("ms"));
    for (const Json& event : trace["traceEvents"]) {
        CHECK_THAT(event.contains("ph") && event.contains("pid") && event.contains("name"));
        CHECK_THAT(event["ph"] == "M" || event["ts"].is_number());
    }
    CHECK_OR_SAY(nesting_error(trace).empty(), nesting_error(trace));
    CHECK_OR_SAY(pairing_error(trace).empty(), pairing_error(trace));
    // Two processes a lane, each with a name.
    std::set<std::string> processes;
    for (const Json& event : trace["traceEvents"])
        if (event["ph"] == "M" && event["name"] == "process_name") processes.insert(event["args"]["name"]);
    CHECK_THAT(processes.count("MHA engine") && processes.count("GQA uncached requests"));
    CHECK_EQUAL(processes.size(), std::size_t{8});
}

void requestsPassThroughTheirPhases(Check& check) {
    DemoOptions options;
    options.one_lane = true;
    options.attention = false;
    const Json trace = Json::parse(trace_json(*demo_recording(options), no_limit));
    std::map<std::string, std::vector<std::string>> phases;  // by id, in order
    for (const Json& event : trace["traceEvents"])
        if (event["ph"] == "b") phases[event["id"]].push_back(event["name"]);
    using Names = std::vector<std::string>;
    CHECK_EQUAL(phases["0:0"], Names({"a", "queued", "prefill", "decode"}));
    CHECK_EQUAL(phases["0:2"], Names({"c", "queued", "prefill", "decode"}));
    CHECK_EQUAL(phases["0:3"], Names({"d", "queued"}));  // rejected
    CHECK_EQUAL(phases["0:4"], Names({"e", "queued"}));  // still waits
}

void countersStartAndEndHeld(Check& check) {
    DemoOptions options;
    options.one_lane = true;
    options.attention = false;
    const auto recording = demo_recording(options);
    const Json trace = Json::parse(trace_json(*recording, no_limit));
    const LaneRecord& lane = *recording->lanes().front();
    const StepRecord& last = lane.step(lane.step_count() - 1);
    std::map<std::string, std::vector<Json>> points;
    for (const Json& event : trace["traceEvents"])
        if (event["ph"] == "C") points[event["name"]].push_back(event);
    CHECK_EQUAL(points.size(), std::size_t{3});
    for (const auto& [name, list] : points) {
        CHECK_EQUAL(list.front()["ts"].get<double>(), 0.0);
        CHECK_EQUAL(list.back()["ts"].get<double>(), static_cast<double>(last.start_ns + last.duration_ns) / 1e3);
        for (std::size_t i = 1; i + 1 < list.size(); ++i) CHECK_THAT(list[i]["args"] != list[i - 1]["args"]);
    }
    const Json& end = points["kv_blocks"].back()["args"];
    CHECK_EQUAL(end["used"], Json(last.used_blocks));
    CHECK_EQUAL(end["free"], Json(last.free_blocks));
    CHECK_EQUAL(end["cached"], Json(0));
    CHECK_EQUAL(points["waiting"].back()["args"]["requests"], Json(1));
}

void stageSlicesCarryWhatWasMeasured(Check& check) {
    DemoOptions options;
    options.one_lane = true;
    options.steps = 3;
    const auto recording = demo_recording(options);
    const Json trace = Json::parse(trace_json(*recording, no_limit));
    const LaneRecord& lane = *recording->lanes().front();
    std::size_t at = 0;
    for (const Json& event : trace["traceEvents"]) {
        if (event["ph"] != "X" || !event["args"].contains("flops")) continue;
        const StageRecord& stage = lane.stages()[at++];
        CHECK_EQUAL(event["args"]["bytes"], Json(stage.bytes));
        CHECK_EQUAL(event["args"]["flops"], Json(stage.flops));
        CHECK_THAT(std::abs(event["dur"].get<double>() * 1e3 - static_cast<double>(stage.duration_ns)) < 0.5);
    }
    CHECK_EQUAL(at, lane.stages().size());
}

struct LimitIsKeptAndWhatIsMissingIsSaidCase {
    std::uint64_t limit;
    std::string missing;
};
Cases<LimitIsKeptAndWhatIsMissingIsSaidCase> limitIsKeptAndWhatIsMissingIsSaid_cases() {
    Cases<LimitIsKeptAndWhatIsMissingIsSaidCase> cases;
    cases.add("stages are summed", {std::uint64_t{2500000}, "summed over the layers"});
    cases.add("no stages", {std::uint64_t{500000}, "the stages of steps"});
    cases.add("steps together", {std::uint64_t{60000}, "steps are drawn as one"});
    cases.add("hardly anything", {std::uint64_t{6000}, "sequences"});
    cases.add("nothing", {std::uint64_t{1200}, "whatever came after the limit"});
    return cases;
}
void limitIsKeptAndWhatIsMissingIsSaid(Check& check, const LimitIsKeptAndWhatIsMissingIsSaidCase& row) {
    const auto& recording = whole();
    const std::string text = trace_json(*recording, row.limit);
    CHECK_OR_SAY(text.size() <= row.limit, std::to_string(text.size()));
    const Json trace = Json::parse(text);
    const std::string said = trace["otherData"]["left_out"].get<std::string>();
    CHECK_OR_SAY(contains(said, row.missing), said);
    CHECK_EQUAL(trace["traceEvents"][0]["ph"], Json("i"));
    CHECK_THAT(trace["traceEvents"][0]["name"].get<std::string>().find("Left out: ") == 0);
    CHECK_OR_SAY(nesting_error(trace).empty(), nesting_error(trace));
    CHECK_OR_SAY(pairing_error(trace).empty(), pairing_error(trace));
    CHECK_OR_SAY(flow_error(trace).empty(), flow_error(trace));
    // Requests are kept as long as anything can be.
    if (row.limit >= 60000) CHECK_EQUAL(count_names(trace, "b")["decode"], 13);
}

void fullTraceSaysNothingIsMissing(Check& check) {
    const Json trace = Json::parse(trace_json(*whole(), no_limit));
    CHECK_THAT(!trace["otherData"].contains("left_out"));
    CHECK_EQUAL(count_names(trace, "X")["step 0"], 4);
    CHECK_EQUAL(count_names(trace, "i")["reject"], 4);
    CHECK_THAT(count_names(trace, "X")["attention L3"] > 0);
}

void sharingLanesShowPreemptionAndSwapping(Check& check) {
    DemoSharingOptions options;
    options.lanes = {"paged", "swap"};
    const Json trace = Json::parse(trace_json(*demo_sharing_recording(options), no_limit));
    CHECK_OR_SAY(nesting_error(trace).empty(), nesting_error(trace));
    CHECK_OR_SAY(pairing_error(trace).empty(), pairing_error(trace));
    std::map<std::string, std::vector<std::string>> phases;  // by id, in order
    std::map<std::string, std::string> ids;                  // of the paged lane, by name
    for (const Json& event : trace["traceEvents"]) {
        if (event["ph"] != "b") continue;
        const std::string id = event["id"];
        if (phases[id].empty() && id.rfind("0:", 0) == 0) ids[event["name"]] = id;
        phases[id].push_back(event["name"]);
    }
    using Names = std::vector<std::string>;
    CHECK_EQUAL(phases[ids["c"]], Names({"c", "prefill", "decode"}));  // a fork begins in the middle
    CHECK_EQUAL(phases[ids["d.1"]], Names({"d.1", "prefill", "decode"}));
    bool recomputed = false, swapped = false;
    for (const auto& [id, names] : phases) {
        for (std::size_t i = 1; i + 1 < names.size(); ++i) {
            recomputed = recomputed || (names[i] == "preempted" && names[i + 1] == "prefill");
            swapped = swapped || (names[i] == "swapped out" && names[i + 1] == "decode");
        }
        const bool by_swapping = id.rfind("1:", 0) == 0;
        CHECK_THAT(by_swapping || std::find(names.begin(), names.end(), "swapped out") == names.end());
    }
    CHECK_THAT(recomputed && swapped);
    CHECK_THAT(count_names(trace, "i")["swap_out"] > 0);
}

void flowsLeadFromAdmissionToFirstTokenAndFromCopyToCopy(Check& check) {
    DemoSharingOptions options;
    options.lanes = {"paged", "grow"};
    const auto recording = demo_sharing_recording(options);
    const Json trace = Json::parse(trace_json(*recording, no_limit));
    CHECK_OR_SAY(flow_error(trace).empty(), flow_error(trace));
    CHECK_OR_SAY(nesting_error(trace).empty(), nesting_error(trace));
    std::size_t copies = 0, first_tokens = 0;
    for (const auto& lane : recording->lanes()) {
        std::vector<bool> admitted(lane->sequences().size()), given(lane->sequences().size());
        for (std::size_t e = 0; e < lane->events().size(); ++e) {
            const Event& event = lane->events()[e];
            copies += event.kind == EventKind::copy_on_write;
            if (event.kind == EventKind::admit) admitted[event.sequence.value] = true;
        }
        for (std::size_t t = 0; t < lane->tokens().size(); ++t) {
            const TokenRecord& token = lane->tokens()[t];
            if (token.source != TokenRecord::prompt) given[token.sequence.value] = true;
        }
        for (std::size_t i = 0; i < given.size(); ++i) first_tokens += admitted[i] && given[i];
    }
    CHECK_THAT(copies > 0 && first_tokens > 10);
    for (const char* end : {"s", "f"}) {
        CHECK_EQUAL(count_names(trace, end)["copy"], static_cast<int>(copies));
        CHECK_EQUAL(count_names(trace, end)["first token"], static_cast<int>(first_tokens));
    }
    CHECK_THAT(count_names(trace, "C")["hit_rate"] > 5);
}

void theHitRateEndsAsTheSummaryHasIt(Check& check) {
    DemoSharingOptions options;
    options.lanes = {"paged"};
    const auto recording = demo_sharing_recording(options);
    std::uint64_t hit = 0, queried = 0;
    for (std::size_t s = 0; s < recording->lanes()[0]->step_count(); ++s) {
        hit += recording->lanes()[0]->step(s).hit_tokens;
        queried += recording->lanes()[0]->step(s).queried_tokens;
    }
    double shown = -1;
    const Json trace = Json::parse(trace_json(*recording, no_limit));
    for (const Json& event : trace["traceEvents"])
        if (event["ph"] == "C" && event["name"] == "hit_rate") shown = event["args"]["percent"];
    CHECK_THAT(queried > 0 && std::abs(shown - 100.0 * static_cast<double>(hit) / static_cast<double>(queried)) < 0.001);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(parsesNestsAndPairs));
    claims.add(CLAIM(requestsPassThroughTheirPhases));
    claims.add(CLAIM(countersStartAndEndHeld));
    claims.add(CLAIM(stageSlicesCarryWhatWasMeasured));
    claims.add(CLAIM(limitIsKeptAndWhatIsMissingIsSaid), limitIsKeptAndWhatIsMissingIsSaid_cases());
    claims.add(CLAIM(fullTraceSaysNothingIsMissing));
    claims.add(CLAIM(sharingLanesShowPreemptionAndSwapping));
    claims.add(CLAIM(flowsLeadFromAdmissionToFirstTokenAndFromCopyToCopy));
    claims.add(CLAIM(theHitRateEndsAsTheSummaryHasIt));
    return claims.rows();
}
