// SPDX-License-Identifier: GPL-3.0-or-later
//
// The files of a run against a small recording made by hand: every key of the contract, and numbers worked out on paper.
#include "engine/record/results.h"
#include "engine/record/writer.h"
#include "tests/support/claims.h"
#include "tests/support/demo_recording.h"

#include <nlohmann/json.hpp>

using namespace kvloupe;
using namespace kvloupe::test;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::uint64_t ms = 1000000;
constexpr std::uint32_t none = 0xFFFFFFFFu;

// Two lanes with the same weights over two requests. Lane 0 (4 blocks of 4 slots): a = 3 prompt + 4 new tokens, samples
// in steps 0, 1, 2 and ends with an end-of-sequence token, which leaves its block 2 with one token written of four; b is
// too long and rejected. Lane 1 keeps no cache and gives another third token.
struct Fixture {
    RecordingWriter writer{"by hand", 0};

    Fixture() {
        auto vocabulary = std::make_shared<VocabularyText>();
        vocabulary->pieces = {"", "Hello", ",", " \"world\"", "\n"};
        vocabulary->shown = {"<s>", "Hello", ",", " \"world\"", "\n"};
        LaneInfo info;
        info.name = "a, \"quoted\"\nlane";
        info.model_name = "tiny.gguf";
        info.architecture = "llama";
        info.device = "CPU, 1 thread";
        info.layers = 2;
        info.query_heads = 4;
        info.kv_heads = 2;
        info.head_dim = 8;
        info.parameters = 1234;
        info.weights_id = 77;
        info.blocks = 4;
        info.block_size = 4;
        info.bytes_per_token = 128;
        info.block_bytes = 512;
        writer.set_time(0);
        writer.add_lane(info, vocabulary);
        info.name = "uncached";
        info.kv_cache = false;
        info.blocks = info.block_size = 0;
        info.block_bytes = 0;
        writer.add_lane(info, vocabulary);
        writer.lanes_complete();
        RequestInfo request;
        request.id = "a";
        request.prompt = {0, 1, 2};
        request.max_new_tokens = 4;
        writer.add_request(request);
        request.id = "b";
        request.prompt.assign(40, 1);
        writer.add_request(request);
        for (std::uint32_t step = 0; step < 3; ++step)
            for (std::uint32_t lane = 0; lane < 2; ++lane) add_step(writer.lane(LaneId(lane)), lane, step);
        writer.set_phase(Phase::finished);
    }

    static Event make(EventKind kind, Cause cause, std::uint32_t sequence, std::uint32_t block, std::uint32_t other,
                      std::uint32_t tokens) {
        Event event;
        event.kind = kind;
        event.cause = cause;
        event.sequence = SequenceId(sequence);
        if (block != none) event.block = BlockId(block);
        event.other = other;
        event.tokens = tokens;
        return event;
    }

    // Step s of lane l starts at 20 s + 10 l ms; prefill takes 8 ms, decoding 4 ms.
    void add_step(LaneWriter& lane, std::uint32_t index, std::uint32_t step) {
        const bool cached = index == 0;
        const std::uint64_t start = (20 * step + 10 * index) * ms;
        writer.set_time(start);
        lane.begin_step();
        StepRecord counters;
        counters.running = 1;
        if (step == 0) {
            lane.add_sequence({RequestId(0), SequenceId::none(), 0});
            lane.add_sequence({RequestId(1), SequenceId::none(), 0});
            lane.event(make(EventKind::arrive, Cause::arrival_step_reached, 0, none, none, 3));
            lane.event(make(EventKind::arrive, Cause::arrival_step_reached, 1, none, none, 40));
            lane.event(make(EventKind::reject, Cause::exceeds_pool, 1, none, 12, 43));
            writer.set_time(start + ms);
            lane.event(make(EventKind::admit, Cause::fits_beside_running, 0, none, none, 3));
            counters.waiting = 1;
        }
        if (cached && step != 1) lane.event(make(EventKind::allocate, Cause::first_slot_of_block, 0, step == 0 ? 1 : 2,
                                                 step == 0 ? 0 : 1, 0));
        if (!cached && step > 0) lane.event(make(EventKind::prefill, Cause::no_kv_cache, 0, none, 0, 2 + step));
        if (step == 0) lane.event(make(EventKind::prefill, Cause::whole_prompt, 0, none, 0, 3));
        else lane.event(make(EventKind::decode, Cause::next_token, 0, none, 2 + step, 1));
        TokenRecord token;
        token.sequence = SequenceId(0);
        token.position = 3 + step;
        token.source = TokenRecord::sampled;
        token.token = step == 0 ? 3 : !cached ? 1 : step == 1 ? 4 : 0;
        lane.token(token);
        writer.set_time(start + (step == 0 ? 8 : 4) * ms);
        counters.prefill_tokens = step == 0 ? 3 : cached ? 0 : 2 + step;
        counters.decode_tokens = step == 0 ? 0 : 1;
        counters.computed_tokens = counters.prefill_tokens + counters.decode_tokens;
        if (cached) {
            counters.used_blocks = step < 2 ? 1 : 2;
            counters.free_blocks = 3 - counters.used_blocks;
            counters.kv_bytes = counters.used_blocks * 512;
            counters.slots.token = 3 + step;
            counters.slots.reserved = std::min<std::uint64_t>(counters.used_blocks * 4, 6) - counters.slots.token;
            counters.slots.internal = counters.used_blocks * 4 - counters.slots.token - counters.slots.reserved;
            counters.slots.free = counters.free_blocks * std::uint64_t{4};
        } else {
            counters.logit_difference = step == 0 ? 0.25f : step == 1 ? 0.5f : 9.0f;
        }
        if (step == 2) {
            lane.event(make(EventKind::finish, Cause::end_of_sequence, 0, none, none, 3));
            for (std::uint32_t block = cached ? 2 : 0; block > 0; --block)
                lane.event(make(EventKind::free, Cause::sequence_finished, 0, block, 0, 0));
        }
        lane.end_step(counters);
    }

    const Recording& recording() const { return *writer.recording(); }
};

// Rows of fields by RFC 4180, from the standard alone.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
    std::vector<std::vector<std::string>> rows(1, {""});
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (quoted) {
            if (text[i] != '"') rows.back().back() += text[i];
            else if (i + 1 < text.size() && text[i + 1] == '"') rows.back().back() += text[i++];
            else quoted = false;
        } else if (text[i] == '"') {
            quoted = true;
        } else if (text[i] == ',') {
            rows.back().emplace_back();
        } else if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') {
            ++i;
            rows.push_back({""});
        } else {
            rows.back().back() += text[i];
        }
    }
    if (rows.back().size() == 1 && rows.back().front().empty()) rows.pop_back();
    return rows;
}

std::vector<std::string> keys(const Json& object) {
    std::vector<std::string> list;
    for (const auto& item : object.items()) list.push_back(item.key());
    return list;
}

using Keys = std::vector<std::string>;

void summaryHasEveryKeyOfTheContract(Check& check) {
    const Fixture fixture;
    const Json summary = Json::parse(summary_json(fixture.recording()));
    CHECK_EQUAL(keys(summary), Keys({"version", "model", "device", "lanes", "comparison", "origins"}));
    CHECK_EQUAL(summary["version"], Json(1));
    CHECK_EQUAL(keys(summary["model"]),
                Keys({"name", "architecture", "layers", "query_heads", "kv_heads", "head_dim", "parameters"}));
    CHECK_EQUAL(summary["model"]["name"], Json("tiny.gguf"));
    CHECK_EQUAL(summary["model"]["parameters"], Json(1234));
    CHECK_EQUAL(summary["device"], Json("CPU, 1 thread"));
    const Json& lane = summary["lanes"][0];
    // Model and device are named only where they differ from the session's.
    CHECK_EQUAL(keys(lane), Keys({"name", "steps", "requests", "kv", "cache", "time", "computed_tokens",
                               "dropped_attention_rows"}));
    CHECK_EQUAL(keys(lane["requests"][0]), Keys({"id", "prompt_tokens", "output_tokens", "text", "finish_reason", "reason",
                                              "queue_ms", "ttft_ms", "itl_ms", "sequences"}));
    CHECK_EQUAL(keys(lane["requests"][0]["itl_ms"]), Keys({"p50", "p95"}));
    CHECK_EQUAL(keys(lane["kv"]), Keys({"bytes_per_token", "block_bytes", "peak_used_blocks", "peak_used_bytes",
                                     "waste_percent", "slots"}));
    CHECK_EQUAL(keys(lane["kv"]["slots"]), Keys({"token", "cached", "reserved", "internal", "external", "free"}));
    CHECK_EQUAL(keys(lane["cache"]), Keys({"queried_tokens", "hit_tokens", "preempted_queried_tokens",
                                        "preempted_hit_tokens", "copies", "copied_bytes", "evictions", "preemptions", "overflowed_values",
                                        "dtype", "layout", "residual_pages", "window_is_foreign", "notes"}));
    CHECK_EQUAL(summary["origins"]["preempted_hit_tokens"], Json("measured"));
    CHECK_EQUAL(keys(lane["time"]), Keys({"prefill_ms", "decode_ms", "decode_tokens_per_s"}));
    CHECK_EQUAL(keys(summary["comparison"]), Keys({"max_abs_logit_difference"}));
    DemoOptions options;
    options.attention = false;
    options.steps = 20;
    const Json demo = Json::parse(summary_json(*demo_recording(options)));
    CHECK_THAT(!demo["lanes"][0].contains("model"));
    CHECK_EQUAL(demo["lanes"][1]["model"]["kv_heads"], Json(2));
    CHECK_THAT(!demo["lanes"][1].contains("device"));
}

void summaryOfAFinishedRequest(Check& check) {
    const Fixture fixture;
    const Json lane = Json::parse(summary_json(fixture.recording()))["lanes"][0];
    CHECK_EQUAL(lane["steps"], Json(3));
    const Json& a = lane["requests"][0];
    CHECK_EQUAL(a["id"], Json("a"));
    CHECK_EQUAL(a["prompt_tokens"], Json({0, 1, 2}));
    CHECK_EQUAL(a["output_tokens"], Json({3, 4, 0}));
    CHECK_EQUAL(a["text"], Json(" \"world\"\n"));
    CHECK_EQUAL(a["finish_reason"], Json("stop"));
    CHECK_THAT(a["reason"].is_null());
    CHECK_EQUAL(a["queue_ms"], Json(1.0));
    CHECK_EQUAL(a["ttft_ms"], Json(8.0));
    // Ends of steps: 8, 24, 44 ms.
    CHECK_EQUAL(a["itl_ms"]["p50"], Json(18.0));
    CHECK_THAT(std::abs(a["itl_ms"]["p95"].get<double>() - 19.8) < 1e-9);
    CHECK_EQUAL(a["sequences"], Json::array());
    CHECK_EQUAL(lane["time"]["prefill_ms"], Json(8.0));
    CHECK_EQUAL(lane["time"]["decode_ms"], Json(8.0));
    CHECK_EQUAL(lane["time"]["decode_tokens_per_s"], Json(250.0));
    CHECK_EQUAL(lane["computed_tokens"], Json(5));
}

void rejectedRequestHasReasonAndNoTimes(Check& check) {
    const Fixture fixture;
    const Json b = Json::parse(summary_json(fixture.recording()))["lanes"][0]["requests"][1];
    CHECK_EQUAL(b["finish_reason"], Json("rejected"));
    CHECK_EQUAL(b["reason"], Json("b was rejected because its prompt and new tokens need 43 slots and the pool has 12"));
    CHECK_EQUAL(b["output_tokens"], Json::array());
    CHECK_EQUAL(b["text"], Json(""));
    for (const char* key : {"queue_ms", "ttft_ms"}) CHECK_THAT(b[key].is_null());
    CHECK_THAT(b["itl_ms"]["p50"].is_null() && b["itl_ms"]["p95"].is_null());
}

// Recounted: a writes 5 slots in all, so block 1 is full in the end and block 2 has one token and three never written.
// Step 0: 3 tokens, 1 reserved; step 1: 4 tokens; step 2: 5 tokens, 3 internal. A request waits in step 0 only.
void cacheNumbersAreThoseOfTheRecording(Check& check) {
    const Fixture fixture;
    const Json kv = Json::parse(summary_json(fixture.recording()))["lanes"][0]["kv"];
    CHECK_EQUAL(kv["bytes_per_token"], Json(128));
    CHECK_EQUAL(kv["block_bytes"], Json(512));
    CHECK_EQUAL(kv["peak_used_blocks"], Json(2));
    CHECK_EQUAL(kv["peak_used_bytes"], Json(1024));
    CHECK_EQUAL(kv["waste_percent"], Json(25.0));
    const auto share = [&](const char* kind) { return kv["slots"][kind].get<double>() * 12 * 3; };
    CHECK_THAT(std::abs(share("token") - 12) < 1e-9);
    CHECK_THAT(std::abs(share("reserved") - 1) < 1e-9);
    CHECK_THAT(std::abs(share("internal") - 3) < 1e-9);
    CHECK_THAT(std::abs(share("free") - 20) < 1e-9);
    CHECK_EQUAL(kv["slots"]["external"], Json(0.0));
}

void laneWithoutCacheHasNullsNotZeros(Check& check) {
    const Fixture fixture;
    const Json lane = Json::parse(summary_json(fixture.recording()))["lanes"][1];
    for (const char* key : {"bytes_per_token", "block_bytes", "waste_percent"}) CHECK_THAT(lane["kv"][key].is_null());
    for (const auto& item : lane["kv"]["slots"].items()) CHECK_THAT(item.value().is_null());
    CHECK_EQUAL(lane["kv"]["peak_used_blocks"], Json(0));
    CHECK_EQUAL(lane["kv"]["peak_used_bytes"], Json(0));
    CHECK_EQUAL(lane["computed_tokens"], Json(12));
    // Recomputing the prefix for the second and third token is time of decoding.
    CHECK_EQUAL(lane["time"]["prefill_ms"], Json(8.0));
    CHECK_EQUAL(lane["time"]["decode_tokens_per_s"], Json(250.0));
}

void logitDifferenceStopsWhereTokensDiffer(Check& check) {
    const Fixture fixture;
    const Json differences =
        Json::parse(summary_json(fixture.recording()))["comparison"]["max_abs_logit_difference"];
    CHECK_THAT(differences["a, \"quoted\"\nlane"].is_null());  // the first lane with these weights
    CHECK_EQUAL(differences["uncached"], Json(0.5));           // of the step that first gave another token; 9.0 came later
}

void requestThatNeverArrivedIsListed(Check& check) {
    Fixture fixture;
    RequestInfo request;
    request.id = "later";
    request.prompt = {1};
    fixture.writer.add_request(request);
    const Json later = Json::parse(summary_json(fixture.recording()))["lanes"][0]["requests"][2];
    CHECK_EQUAL(later["id"], Json("later"));
    CHECK_THAT(later["finish_reason"].is_null());
    CHECK_EQUAL(later["output_tokens"], Json::array());
}

void failedLaneFailsItsRequests(Check& check) {
    RecordingWriter writer("t", 0);
    LaneWriter& lane = writer.add_lane({}, nullptr);
    RequestInfo request;
    request.id = "a";
    writer.add_request(request);
    lane.begin_step();
    lane.add_sequence({RequestId(0), SequenceId::none(), 0});
    lane.event(Fixture::make(EventKind::arrive, Cause::arrival_step_reached, 0, none, none, 1));
    lane.fail_step({}, "The logits of layer 1 are not finite.");
    const Json a = Json::parse(summary_json(*writer.recording()))["lanes"][0]["requests"][0];
    CHECK_EQUAL(a["finish_reason"], Json("failed"));
    CHECK_EQUAL(a["reason"], Json("The logits of layer 1 are not finite."));
}

void stepsCsvHoldsTheRecountedSlots(Check& check) {
    const Fixture fixture;
    const auto rows = parse_csv(steps_csv(fixture.recording()));
    CHECK_EQUAL(rows.size(), std::size_t{1 + 6});
    const std::string csv = steps_csv(fixture.recording());
    CHECK_EQUAL(csv.substr(0, csv.find("\r\n")),
                "step,lane,time_us,duration_us,running,waiting,prefill_tokens,decode_tokens,used_blocks,"
                        "cached_blocks,free_blocks,kv_bytes,token_slots,reserved_slots,internal_slots,external_slots,"
                        "hit_tokens,queried_tokens");
    const std::string name = "a, \"quoted\"\nlane";
    CHECK_EQUAL(rows[1], Keys({"0", name, "0.000", "8000.000", "1", "1", "3", "0", "1", "0", "2", "512", "3", "1", "0",
                            "0", "0", "0"}));
    CHECK_EQUAL(rows[2], Keys({"0", "uncached", "10000.000", "8000.000", "1", "1", "3", "0", "0", "0", "0", "0", "0", "0",
                            "0", "0", "0", "0"}));
    CHECK_EQUAL(rows[5], Keys({"2", name, "40000.000", "4000.000", "1", "0", "0", "1", "2", "0", "1", "1024", "5", "0",
                            "3", "0", "0", "0"}));
}

void eventsCsvQuotesByRfc4180(Check& check) {
    const Fixture fixture;
    const std::string csv = events_csv(fixture.recording());
    const auto rows = parse_csv(csv);
    CHECK_EQUAL(rows[0], Keys({"step", "time_us", "lane", "kind", "request", "sequence", "block", "other_block", "tokens",
                            "bytes", "cause"}));
    CHECK_EQUAL(rows[1], Keys({"0", "0.000", "a, \"quoted\"\nlane", "arrive", "a", "a", "", "", "3", "0",
                            "a arrived with a prompt of 3 tokens because step 0, its arrival step, was reached"}));
    CHECK_THAT(csv.find("\"a, \"\"quoted\"\"\nlane\"") != std::string::npos);
    bool allocated = false;
    for (const auto& row : rows) {
        if (row[3] != "allocate" || row[6] != "2") continue;
        allocated = true;
        CHECK_EQUAL(row[9], "512");
        CHECK_EQUAL(row[8], std::string());
        CHECK_EQUAL(row[10], "a opened block 2 because position 4 begins logical block 1");
    }
    CHECK_THAT(allocated);
    CHECK_THAT(csv.substr(csv.size() - 2) == "\r\n");
}

void everyCsvRowHasEveryColumn(Check& check) {
    DemoOptions options;
    options.attention = false;
    const auto recording = demo_recording(options);
    for (const std::string& csv : {steps_csv(*recording), events_csv(*recording)}) {
        const auto rows = parse_csv(csv);
        CHECK_THAT(rows.size() > 800);
        for (const auto& row : rows) CHECK_EQUAL(row.size(), rows.front().size());
    }
}

void blocksJsonFollowsTheContract(Check& check) {
    const Fixture fixture;
    const Json blocks = Json::parse(blocks_json(fixture.recording()));
    CHECK_EQUAL(keys(blocks), Keys({"lanes"}));
    CHECK_EQUAL(blocks["lanes"][0]["name"], Json("a, \"quoted\"\nlane"));
    const Json& steps = blocks["lanes"][0]["steps"];
    CHECK_EQUAL(steps.size(), std::size_t{3});
    CHECK_EQUAL(keys(steps[0]), Keys({"step", "free_order", "tables", "ref_counts", "hashed", "waiting", "running"}));
    CHECK_EQUAL(steps[1]["free_order"], Json({2, 3}));
    CHECK_EQUAL(steps[1]["tables"], Json({{"a", {1}}}));
    CHECK_EQUAL(steps[1]["ref_counts"], Json({{"1", 1}}));
    CHECK_EQUAL(steps[1]["running"], Json::array({"a"}));
    CHECK_EQUAL(steps[1]["waiting"], Json::array());
    CHECK_EQUAL(steps[2]["free_order"], Json({3, 2, 1}));  // freed last first, to the tail
    CHECK_EQUAL(steps[2]["tables"], Json::object());
    CHECK_EQUAL(steps[2]["running"], Json::array());
    CHECK_EQUAL(blocks["lanes"][1]["steps"][0]["free_order"], Json::array());
    DemoOptions options;
    options.attention = false;
    options.steps = 40;
    const Json demo = Json::parse(blocks_json(*demo_recording(options)));
    CHECK_EQUAL(demo["lanes"][1]["steps"][15]["waiting"], Json::array({"c"}));
    CHECK_EQUAL(demo["lanes"][1]["steps"][15]["running"], Json::array({"a", "b"}));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(summaryHasEveryKeyOfTheContract));
    claims.add(CLAIM(summaryOfAFinishedRequest));
    claims.add(CLAIM(rejectedRequestHasReasonAndNoTimes));
    claims.add(CLAIM(cacheNumbersAreThoseOfTheRecording));
    claims.add(CLAIM(laneWithoutCacheHasNullsNotZeros));
    claims.add(CLAIM(logitDifferenceStopsWhereTokensDiffer));
    claims.add(CLAIM(requestThatNeverArrivedIsListed));
    claims.add(CLAIM(failedLaneFailsItsRequests));
    claims.add(CLAIM(stepsCsvHoldsTheRecountedSlots));
    claims.add(CLAIM(eventsCsvQuotesByRfc4180));
    claims.add(CLAIM(everyCsvRowHasEveryColumn));
    claims.add(CLAIM(blocksJsonFollowsTheContract));
    return claims.rows();
}
