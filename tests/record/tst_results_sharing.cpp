// SPDX-License-Identifier: GPL-3.0-or-later
//
// The files of a run whose lanes fork, copy, evict, preempt and swap, against the records themselves.
#include "engine/record/describe.h"
#include "engine/record/lane_state.h"
#include "engine/record/results.h"
#include "tests/support/claims.h"
#include "tests/support/demo_sharing.h"
#include "tests/support/stopwatch.h"
#include "tests/support/texts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

using namespace kvloupe;
using namespace kvloupe::test;
using Json = nlohmann::ordered_json;

namespace {

const std::shared_ptr<const Recording>& whole() {
    static const auto recording = demo_sharing_recording();
    return recording;
}

std::size_t lane_index(const std::string& name) {
    for (std::size_t i = 0; i < whole()->lanes().size(); ++i)
        if (whole()->lanes()[i]->info().name == name) return i;
    throw std::runtime_error(printed("no lane %s", name.c_str()));
}

const Json& summary() {
    static const Json json = Json::parse(summary_json(*whole()));
    return json;
}

Json request_of(const std::string& lane, const std::string& id) {
    for (const Json& request : summary()["lanes"][lane_index(lane)]["requests"])
        if (request["id"] == id) return request;
    return {};
}

std::vector<std::string> names_of(const Json& sequences) {
    std::vector<std::string> names;
    for (const Json& one : sequences) names.push_back(one["id"]);
    return names;
}

// Fields of one CSV row; a quoted field may hold commas.
std::vector<std::string> fields_of(const std::string& row) {
    std::vector<std::string> fields(1);
    bool quoted = false;
    for (const char c : row) {
        if (c == '"') quoted = !quoted;
        else if (c == ',' && !quoted) fields.emplace_back();
        else fields.back() += c;
    }
    return fields;
}

struct Queue {
    RecordingWriter writer{"queue", 0};
    LaneWriter* lane = nullptr;

    explicit Queue(const char* scheduling, std::vector<std::int32_t> priorities) {
        LaneInfo info;
        info.blocks = 4;
        info.block_size = 4;
        info.policy.scheduling = scheduling;
        lane = &writer.add_lane(info, nullptr);
        writer.lanes_complete();
        for (std::uint32_t i = 0; i < priorities.size(); ++i) {
            RequestInfo request;
            request.id = std::string(1, static_cast<char>('a' + i));
            request.priority = priorities[i];
            writer.add_request(request);
            lane->add_sequence({RequestId(i), SequenceId::none(), 0});
        }
        lane->add_sequence({RequestId(0), SequenceId(0), 2, 2, "fork"});
        lane->begin_step();
    }
    Queue& event(EventKind kind, std::uint32_t sequence, std::uint32_t other = Event{}.other) {
        Event event;
        event.kind = kind;
        event.sequence = SequenceId(sequence);
        event.other = other;
        lane->event(event);
        return *this;
    }
    std::string order(const char* key) {
        lane->end_step({});
        return Json::parse(blocks_json(*writer.recording()))["lanes"][0]["steps"].back()[key].dump();
    }
};

void childrenStandInTheirRequest(Check& check) {
    const Json a = request_of("paged", "a");
    CHECK_EQUAL(names_of(a["sequences"]), std::vector<std::string>({"c"}));
    CHECK_EQUAL(a["output_tokens"].size(), std::size_t{60});
    const Json& c = a["sequences"][0];
    CHECK_EQUAL(c["parent"], Json("a"));
    CHECK_EQUAL(c["forked_at"], Json(85));
    CHECK_EQUAL(c["prompt_tokens"].size(), std::size_t{90});
    CHECK_EQUAL(c["output_tokens"].size(), std::size_t{30});
    CHECK_EQUAL(c["finish_reason"], Json("length"));
    CHECK_THAT(c["queue_ms"].is_null());
    // A fork counts from the start of its step, samples from their request's arrival.
    CHECK_THAT(c["ttft_ms"].get<double>() > 0 && c["ttft_ms"].get<double>() < a["ttft_ms"].get<double>());
    CHECK_THAT(c["itl_ms"]["p50"].get<double>() > 0);
    const Json d = request_of("paged", "d");
    CHECK_EQUAL(names_of(d["sequences"]), std::vector<std::string>({"d.0", "d.1", "d.2"}));
    CHECK_THAT(d["sequences"][0]["parent"].is_null());
    CHECK_EQUAL(d["sequences"][2]["parent"], Json("d.0"));
    CHECK_EQUAL(d["sequences"][2]["forked_at"], Json(73));
    CHECK_EQUAL(d["output_tokens"], d["sequences"][0]["output_tokens"]);
    CHECK_EQUAL(d["sequences"][2]["ttft_ms"], d["sequences"][0]["ttft_ms"]);
    CHECK_THAT(d["queue_ms"].is_number());
    CHECK_THAT(d["sequences"][0]["output_tokens"] != d["sequences"][1]["output_tokens"]);
    // Where nothing can be shared, the samples stand side by side all the same.
    CHECK_EQUAL(names_of(request_of("max", "d")["sequences"]), std::vector<std::string>({"d.0", "d.1", "d.2"}));
    CHECK_THAT(request_of("max", "a")["sequences"].empty());
    CHECK_EQUAL(request_of("paged", "h")["finish_reason"], Json("rejected"));
    std::size_t requests = 0;
    for (const Json& lane : summary()["lanes"]) requests += lane["requests"].size() == whole()->requests().size();
    CHECK_EQUAL(requests, whole()->lanes().size());
}

void cacheFiguresAreThoseOfTheEvents(Check& check) {
    for (std::size_t i = 0; i < whole()->lanes().size(); ++i) {
        const LaneRecord& lane = *whole()->lanes()[i];
        std::uint64_t copies = 0, slots = 0, evictions = 0, preemptions = 0, hit = 0;
        for (std::size_t e = 0; e < lane.events().size(); ++e) {
            const Event& event = lane.events()[e];
            copies += event.kind == EventKind::copy_on_write;
            slots += event.kind == EventKind::copy_on_write ? event.tokens : 0;
            evictions += event.kind == EventKind::evict;
            preemptions += event.kind == EventKind::preempt;
        }
        for (std::size_t s = 0; s < lane.step_count(); ++s) hit += lane.step(s).hit_tokens;
        const Json& cache = summary()["lanes"][i]["cache"];
        CHECK_EQUAL(cache["copies"], Json(copies));
        CHECK_EQUAL(cache["copied_bytes"], Json(slots * lane.info().bytes_per_token));
        CHECK_EQUAL(cache["evictions"], Json(evictions));
        CHECK_EQUAL(cache["preemptions"], Json(preemptions));
        CHECK_EQUAL(cache["hit_tokens"], Json(hit));
        double sum = 0;
        for (const Json& share : summary()["lanes"][i]["kv"]["slots"]) sum += share.get<double>();
        CHECK_THAT(std::abs(sum - 1.0) < 1e-9);
    }
    // To keep regions is what paging beat: the order of the figure.
    const auto waste = [](const char* lane) { return summary()["lanes"][lane_index(lane)]["kv"]["waste_percent"].get<double>(); };
    CHECK_THAT(waste("paged") < waste("oracle"));
    CHECK_THAT(waste("oracle") < waste("max"));
}

void eventsNameRequestAndSequence(Check& check) {
    const std::string csv = events_csv(*whole());
    std::set<std::string> seen;
    std::size_t stores = 0;
    for (std::size_t at = csv.find("\r\n") + 2; at < csv.size();) {
        const std::size_t end = csv.find("\r\n", at);
        const std::vector<std::string> row = fields_of(csv.substr(at, end - at));
        at = end + 2;
        CHECK_EQUAL(row.size(), std::size_t{11});
        if (row[2] == "paged" && row[3] == "store") {
            ++stores;
            CHECK_THAT(!row[6].empty() && row[7].empty() && row[8].empty());
        }
        if (row[5] == "c") CHECK_EQUAL(row[4], "a");
        if (row[5] == "d.1") CHECK_EQUAL(row[4], "d");
        if (row[2] == "swap" && row[3] == "swap_out") {
            CHECK_THAT(!row[6].empty() && !row[7].empty());
            CHECK_EQUAL(std::stoull(row[9]), std::stoull(row[8]) * 2048);
        }
        if (row[2] == "paged" && row[3] == "copy_on_write") {
            CHECK_OR_SAY(row[10].find("because it writes position ") != std::string::npos, row[10]);
            seen.insert(row[5]);
        }
    }
    // c writes into a block that a filled further; of d's samples the last owner writes in place.
    CHECK_THAT(seen == std::set<std::string>({"c", "d.0", "d.1"}));
    const LaneRecord& lane = *whole()->lanes()[lane_index("paged")];
    std::size_t expected = 0;
    for (std::size_t e = 0; e < lane.events().size(); ++e) expected += lane.events()[e].kind == EventKind::store;
    CHECK_EQUAL(stores, expected);
}

void blocksAgreeWithTheStateAtEveryStep(Check& check) {
    const Json blocks = Json::parse(blocks_json(*whole()));
    for (std::size_t i = 0; i < whole()->lanes().size(); ++i) {
        const LaneRecord& lane = *whole()->lanes()[i];
        for (std::size_t s = 0; s < lane.step_count(); s += 7) {
            const Json& step = blocks["lanes"][i]["steps"][s];
            const LaneState state = lane.state_after(s);
            std::set<std::string> running, waiting, in_running, in_waiting;
            std::uint32_t tables = 0;
            for (std::uint32_t id = 0; id < state.sequences().size(); ++id) {
                const SequenceState& one = state.sequences()[id];
                const std::string name = sequence_name(*whole(), lane, SequenceId(id));
                if (one.status == SequenceStatus::running) running.insert(name);
                if (one.status == SequenceStatus::arrived || one.status == SequenceStatus::preempted ||
                    one.status == SequenceStatus::swapped)
                    waiting.insert(name);
                if (one.table.empty()) continue;
                ++tables;
                CHECK_EQUAL(step["tables"][name].size(), one.table.size());
            }
            for (const Json& name : step["running"]) in_running.insert(name);
            for (const Json& name : step["waiting"]) in_waiting.insert(name);
            CHECK_THAT(in_running == running && in_waiting == waiting);
            CHECK_EQUAL(step["waiting"].size(), std::size_t{lane.step(s).waiting});
            CHECK_EQUAL(step["tables"].size(), std::size_t{tables});
            CHECK_EQUAL(step["ref_counts"].size(), std::size_t{state.used_blocks()});
            for (const auto& [block, count] : step["ref_counts"].items())
                CHECK_EQUAL(count.get<std::uint32_t>(), state.blocks()[std::stoul(block)].owners);
            for (const Json& block : step["hashed"]) CHECK_THAT(state.blocks()[block.get<std::size_t>()].hashed);
        }
    }
}

void groupsHaveTablesOfTheirOwn(Check& check) {
    const Json blocks = Json::parse(blocks_json(*whole()));
    const Json& step = blocks["lanes"][lane_index("windows")]["steps"][70];
    CHECK_EQUAL(step["group_tables"].size(), std::size_t{2});
    CHECK_EQUAL(step["group_tables"][0], step["tables"]);
    bool nulls = false;
    for (const Json& table : step["group_tables"][1])
        for (const Json& block : table) nulls = nulls || block == 0;
    CHECK_THAT(nulls);  // what lies before the window
    CHECK_THAT(!blocks["lanes"][lane_index("paged")]["steps"][70].contains("group_tables"));
}

void contiguousFreeBlocksStandByAddress(Check& check) {
    const Json blocks = Json::parse(blocks_json(*whole()));
    for (const Json& step : blocks["lanes"][lane_index("oracle")]["steps"]) {
        const auto order = step["free_order"].get<std::vector<std::uint32_t>>();
        CHECK_THAT(std::is_sorted(order.begin(), order.end()));
    }
}

void thePreemptedGoToTheHeadOfTheQueue(Check& check) {
    Queue queue("fcfs", {0, 0, 0, 0});
    for (std::uint32_t i = 0; i < 4; ++i) queue.event(EventKind::arrive, i);
    for (std::uint32_t i = 0; i < 3; ++i) queue.event(EventKind::admit, i);
    queue.event(EventKind::fork, 4, 0);
    queue.event(EventKind::preempt, 4).event(EventKind::preempt, 2);
    CHECK_EQUAL(queue.order("waiting"), std::string(R"(["c","fork","d"])"));
    queue.lane->begin_step();
    queue.event(EventKind::resume, 2);
    CHECK_EQUAL(queue.order("running"), std::string(R"(["a","b","c"])"));
}

void byPriorityWhoeverComesStandsByPriorityAndArrival(Check& check) {
    Queue queue("priority", {2, 0, 1, 0});
    for (std::uint32_t i = 0; i < 4; ++i) queue.event(EventKind::arrive, i);
    CHECK_EQUAL(queue.order("waiting"), std::string(R"(["b","d","c","a"])"));
    queue.lane->begin_step();
    for (const std::uint32_t i : {1u, 3u, 2u, 0u}) queue.event(EventKind::admit, i);
    queue.event(EventKind::fork, 4, 0);
    for (const std::uint32_t i : {0u, 4u, 3u}) queue.event(EventKind::preempt, i);
    CHECK_EQUAL(queue.order("waiting"), std::string(R"(["d","a","fork"])"));
}

void droppedBeamsAreNotListed(Check& check) {
    Queue queue("fcfs", {0});
    for (const char* name : {"a.1", "a.2"}) queue.lane->add_sequence({RequestId(0), SequenceId(0), 2, 2, name});
    queue.event(EventKind::arrive, 0).event(EventKind::admit, 0);
    for (const std::uint32_t id : {1u, 2u, 3u}) queue.event(EventKind::fork, id, 0);
    for (const auto& [id, cause] : {std::pair{0u, Cause::beam_dropped}, {1u, Cause::end_of_sequence}, {2u, Cause::beam_dropped}}) {
        Event end;
        end.kind = EventKind::finish;
        end.cause = cause;
        end.sequence = SequenceId(id);
        queue.lane->event(end);
    }
    queue.lane->end_step({});
    const Json json = Json::parse(summary_json(*queue.writer.recording()));
    const Json& request = json["lanes"][0]["requests"][0];
    CHECK_EQUAL(names_of(request["sequences"]), std::vector<std::string>({"fork", "a.2"}));
    CHECK_THAT(request["queue_ms"].is_number());  // its first sequence queued, though it was dropped
}

void thousandsOfSequencesAreNotQuadratic(Check& check) {
    DemoSharingOptions options = DemoSharingOptions::large(1500, 100000);
    options.every = 1;
    options.arrivals = 4;
    options.prompt = 64;
    options.new_tokens = 20;
    const auto recording = demo_sharing_recording(options);
    CHECK_THAT(recording->lanes().front()->sequences().size() > 5000);
    Stopwatch timer;
    const std::size_t bytes = summary_json(*recording).size() + events_csv(*recording).size() + steps_csv(*recording).size() +
                              trace_json(*recording, 200000000).size();
    check.note(printed("%zu sequences, %zu bytes in %lld ms", recording->lanes().front()->sequences().size(), bytes,
                       timer.milliseconds()));
    CHECK_THAT(timer.milliseconds() < 60000);  // far above what it takes
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(childrenStandInTheirRequest));
    claims.add(CLAIM(cacheFiguresAreThoseOfTheEvents));
    claims.add(CLAIM(eventsNameRequestAndSequence));
    claims.add(CLAIM(blocksAgreeWithTheStateAtEveryStep));
    claims.add(CLAIM(groupsHaveTablesOfTheirOwn));
    claims.add(CLAIM(contiguousFreeBlocksStandByAddress));
    claims.add(CLAIM(thePreemptedGoToTheHeadOfTheQueue));
    claims.add(CLAIM(byPriorityWhoeverComesStandsByPriorityAndArrival));
    claims.add(CLAIM(droppedBeamsAreNotListed));
    claims.add(CLAIM(thousandsOfSequencesAreNotQuadratic));
    return claims.rows();
}
