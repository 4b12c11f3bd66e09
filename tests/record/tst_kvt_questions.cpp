// SPDX-License-Identifier: GPL-3.0-or-later
//
// Questions to a recording: SQL that only reads, assertions on its numbers, what differs between two.
#include "engine/record/assertion.h"
#include "engine/record/kvt_query.h"
#include "engine/record/kvt_writer.h"
#include "engine/record/recording_diff.h"
#include "tests/support/claims.h"
#include "tests/support/demo_recording.h"
#include "tests/support/demo_sharing.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/texts.h"

#include <algorithm>
#include <cmath>
#include <thread>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::string recorded(const TemporaryFolder& folder, const std::shared_ptr<const Recording>& recording) {
    KvtOptions options;
    options.path = folder.file("run.kvt");
    if (!write_kvt(recording, options)) return {};
    return options.path;
}

// All cells as text, rows by lines; or the error.
std::string answer(const std::string& path, const std::string& sql, const QueryLimits& limits = {}) {
    auto query = KvtQuery::open(path);
    if (!query) return query.error().message();
    std::string text;
    const auto end = (*query)->run(
        sql, limits, [](std::vector<std::string>) {},
        [&](std::vector<SqlValue> row) {
            for (std::size_t i = 0; i < row.size(); ++i) {
                if (i) text += '|';
                if (const auto* integer = std::get_if<std::int64_t>(&row[i])) text += std::to_string(*integer);
                if (const auto* string = std::get_if<std::string>(&row[i])) text += *string;
            }
            text += '\n';
        });
    return end ? text : end.error().message();
}

void viewsAgreeWithTheRecording(Check& check) {
    const TemporaryFolder folder;
    const auto recording = demo_sharing_recording();
    const std::string path = recorded(folder, recording);
    for (std::uint32_t lane = 0; lane < recording->lanes().size(); ++lane) {
        const LaneRecord& record = *recording->lanes()[lane];
        std::size_t copies = 0, tokens = 0;
        for (std::size_t step = 0; step < record.step_count(); ++step) {
            const LogRange events = record.step(step).events;
            for (std::uint64_t i = events.begin; i < events.end; ++i) copies += record.events()[i].kind == EventKind::copy_on_write;
            tokens += record.step(step).tokens.size();
        }
        const std::string of_lane = " WHERE lane = " + std::to_string(lane);
        CHECK_EQUAL(answer(path, "SELECT count(*) FROM events" + of_lane + " AND kind = 'copy_on_write'"), std::to_string(copies) + "\n");
        CHECK_EQUAL(answer(path, "SELECT count(*) FROM tokens" + of_lane), std::to_string(tokens) + "\n");
        CHECK_EQUAL(answer(path, "SELECT max(step) + 1, sum(hit_tokens) > 0 FROM steps" + of_lane).substr(0, 4), "240|");
    }
    // The sentence is the program's own, and the join finds the request.
    const std::string first = answer(path, "SELECT request, step, describe(lane, event) FROM events WHERE kind = 'fork' ORDER BY lane, step LIMIT 1");
    CHECK_THAT(contains(first, "|20|") || contains(first, "|8|"));
    CHECK_THAT(contains(answer(path, "SELECT describe(0, -1) IS NULL, describe(99, 0) IS NULL"), "1|1"));
}

Cases<std::pair<std::string, std::string>> refused_queries() {
    Cases<std::pair<std::string, std::string>> cases;
    cases.add("insert", {"INSERT INTO meta VALUES ('a', 1)", "SELECT alone"});
    cases.add("delete", {"DELETE FROM steps", "SELECT alone"});
    cases.add("drop", {"DROP TABLE steps", "SELECT alone"});
    cases.add("attach", {"ATTACH '/tmp/other.db' AS other", "SELECT alone"});
    cases.add("pragma", {"PRAGMA writable_schema = ON", "SELECT alone"});
    cases.add("vacuum into", {"VACUUM INTO '/tmp/copy.db'", "SELECT alone"});
    cases.add("extension", {"SELECT load_extension('x')", "not authorized"});
    cases.add("two", {"SELECT 1; SELECT 2", "more than one statement"});
    cases.add("nothing", {"  -- a remark", "There is no query"});
    cases.add("no such table", {"SELECT * FROM blocks", "no such table: blocks"});
    cases.add("no SQL", {"which block was copied?", "not understood"});
    return cases;
}

void whatDoesMoreThanReadIsRefused(Check& check, const std::pair<std::string, std::string>& query) {
    const TemporaryFolder folder;
    const std::string path = recorded(folder, demo_recording());
    const std::string text = answer(path, query.first);
    CHECK_THAT(contains(text, query.second));
    CHECK_EQUAL(names_in(folder.path()), (std::vector<std::string>{"run.kvt"}));
}

constexpr const char* endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

void aQueryThatRunsForEverEnds(Check& check) {
    const TemporaryFolder folder;
    const std::string path = recorded(folder, demo_recording());
    QueryLimits limits;
    limits.time = std::chrono::milliseconds(50);
    CHECK_THAT(contains(answer(path, endless, limits), "was ended"));
    std::stop_source source;
    limits.time = std::chrono::hours(1);
    limits.stop = source.get_token();
    std::jthread other([&source] { source.request_stop(); });
    CHECK_THAT(contains(answer(path, endless, limits), "was stopped"));
    limits = {};
    limits.rows = 3;
    CHECK_EQUAL(answer(path, "SELECT step FROM steps WHERE lane = 0 ORDER BY step", limits), "0\n1\n2\n");
}

struct Assertion {
    std::string text;
    int holds = 0;         // lanes in which it does, of 4; -1: not understood
    std::string sentence;  // then
};

Cases<Assertion> assertions() {
    Cases<Assertion> cases;
    cases.add("a leaf", {"copies <= 3", 4, ""});
    cases.add("a path", {"cache.copies>=0", 4, ""});
    cases.add("one lane", {"GQA:steps == 200", 1, ""});
    cases.add("a column", {"max(step) == 199", 4, ""});
    cases.add("a percentile", {"p95(duration_us) < 0", 0, ""});
    cases.add("the mean lies between", {"mean(running) >= 0", 4, ""});
    cases.add("a sum", {"sum(step) == 19900", 4, ""});
    cases.add("a word", {"requests.a.finish_reason == length", 4, ""});
    cases.add("of the recording", {"model.layers == 4", 1, ""});
    cases.add("none", {"requests.d.ttft_ms == none", 4, ""});
    cases.add("no comparison", {"copies", -1, "no comparison"});
    cases.add("no such key", {"copys < 3", -1, "no key 'copys'"});
    cases.add("several", {"ttft_ms < 3", -1, "may be any of"});
    cases.add("no such lane", {"XYZ:copies < 3", -1, "There are MHA, GQA, MQA, GQA uncached"});
    cases.add("no such column", {"p95(duration) < 3", -1, "duration_us"});
    cases.add("no such function", {"p94(duration_us) < 3", -1, "none of p50"});
    cases.add("a word for a number", {"copies < few", -1, "not a number"});
    return cases;
}

void assertionsAreJudgedOnWhatWasRecorded(Check& check, const Assertion& given) {
    const Assertions judge(*demo_recording());
    const auto results = judge.judge(given.text);
    if (given.holds < 0) {
        CHECK_THAT(!results);
        if (!results) CHECK_THAT(contains(results.error().message(), given.sentence));
        return;
    }
    CHECK_THAT(results);
    if (!results) return;
    int holds = 0;
    for (const AssertionResult& result : *results) holds += result.holds;
    CHECK_EQUAL(holds, given.holds);
}

void equalRecordingsDoNotDiffer(Check& check) {
    CHECK_THAT(diff_recordings(*demo_recording(), *demo_recording()).same());
    CHECK_THAT(diff_recordings(*demo_sharing_recording(), *demo_sharing_recording()).same());
}

void whatDiffersIsNamedByWeight(Check& check) {
    DemoSharingOptions options;
    options.lanes = {"paged"};
    const auto a = demo_sharing_recording(options);
    options.blocks = 60;
    const auto b = demo_sharing_recording(options);
    const RecordingDiff diff = diff_recordings(*a, *b);
    CHECK_THAT(std::any_of(diff.configuration.begin(), diff.configuration.end(),
                           [](const DiffValue& value) { return value.name == "blocks" && value.a == "80" && value.b == "60"; }));
    CHECK_THAT(!diff.numbers.empty());
    double before = HUGE_VAL;
    for (const DiffValue& value : diff.numbers) {
        const double weight = value.percent ? std::abs(*value.percent) : HUGE_VAL;
        CHECK_THAT(weight <= before);
        before = weight;
    }
    // The step is the first whose tables are not the same.
    const auto table = std::find_if(diff.first.begin(), diff.first.end(), [](const Parting& f) { return f.kind == Parting::table; });
    CHECK_THAT(table != diff.first.end());
    if (table == diff.first.end()) return;
    const auto tables = [](const Recording& recording, std::size_t step) {
        std::vector<std::vector<BlockId>> all;
        const LaneState state = recording.lanes()[0]->state_after(step);
        for (std::uint32_t i = 0; i < state.sequences().size(); ++i) all.push_back(state.table(SequenceId(i)).to_vector());
        return all;
    };
    for (std::size_t step = 0; step < table->step_a; ++step) CHECK_THAT(tables(*a, step) == tables(*b, step));
    CHECK_THAT(tables(*a, table->step_a) != tables(*b, table->step_a));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(viewsAgreeWithTheRecording));
    claims.add(CLAIM(whatDoesMoreThanReadIsRefused), refused_queries());
    claims.add(CLAIM(aQueryThatRunsForEverEnds));
    claims.add(CLAIM(assertionsAreJudgedOnWhatWasRecorded), assertions());
    claims.add(CLAIM(equalRecordingsDoNotDiffer));
    claims.add(CLAIM(whatDiffersIsNamedByWeight));
    return claims.rows();
}
