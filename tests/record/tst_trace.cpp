// SPDX-License-Identifier: GPL-3.0-or-later
//
// trace.json by the rules of FORMATS 2.6: it parses, slices nest per thread, async events pair, counters end held.
#include <QTest>

#include "engine/record/results.h"
#include "tests/support/demo_recording.h"
#include "tests/support/demo_sharing.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

// Both sides as text, so that a failure shows them.
#define COMPARE_JSON(actual, expected) QCOMPARE(dumped(actual), dumped(expected))

using namespace kvloupe;
using Json = nlohmann::json;

namespace {

QString dumped(const Json& json) { return QString::fromStdString(json.dump()); }

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
QString nesting_error(const Json& trace) {
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
                return QString("slice at %1 us of process %2 ends after its parent").arg(slice.first).arg(thread.first);
            open.push_back(slice);
        }
    }
    return {};
}

// "" if the b and e events of each id nest.
QString pairing_error(const Json& trace) {
    std::map<std::string, std::vector<std::string>> open;
    std::map<std::string, double> last;
    for (const Json& event : trace["traceEvents"]) {
        if (event["ph"] != "b" && event["ph"] != "e") continue;
        const std::string id = event["id"];
        if (last.count(id) && event["ts"].get<double>() < last[id]) return QString::fromStdString(id + " goes back in time");
        last[id] = event["ts"];
        if (event["ph"] == "b") {
            open[id].push_back(event["name"]);
        } else {
            if (open[id].empty() || open[id].back() != event["name"]) return QString::fromStdString(id + " does not pair");
            open[id].pop_back();
        }
    }
    for (const auto& [id, names] : open)
        if (!names.empty()) return QString::fromStdString(id + " stays open");
    return {};
}

std::map<std::string, int> count_names(const Json& trace, const char* phase) {
    std::map<std::string, int> names;
    for (const Json& event : trace["traceEvents"])
        if (event["ph"] == phase) ++names[event["name"]];
    return names;
}

}  // namespace

class TestTrace : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void parsesNestsAndPairs();
    void requestsPassThroughTheirPhases();
    void countersStartAndEndHeld();
    void stageSlicesCarryWhatWasMeasured();
    void limitIsKeptAndWhatIsMissingIsSaid_data();
    void limitIsKeptAndWhatIsMissingIsSaid();
    void fullTraceSaysNothingIsMissing();
    void sharingLanesShowPreemptionAndSwapping();
};

void TestTrace::parsesNestsAndPairs() {
    const Json trace = Json::parse(trace_json(*whole(), no_limit));
    COMPARE_JSON(trace["displayTimeUnit"], Json("ms"));
    for (const Json& event : trace["traceEvents"]) {
        QVERIFY(event.contains("ph") && event.contains("pid") && event.contains("name"));
        QVERIFY(event["ph"] == "M" || event["ts"].is_number());
    }
    QVERIFY2(nesting_error(trace).isEmpty(), qPrintable(nesting_error(trace)));
    QVERIFY2(pairing_error(trace).isEmpty(), qPrintable(pairing_error(trace)));
    // Two processes a lane, each with a name.
    std::set<std::string> processes;
    for (const Json& event : trace["traceEvents"])
        if (event["ph"] == "M" && event["name"] == "process_name") processes.insert(event["args"]["name"]);
    QVERIFY(processes.count("MHA engine") && processes.count("GQA uncached requests"));
    QCOMPARE(processes.size(), std::size_t{8});
}

void TestTrace::requestsPassThroughTheirPhases() {
    DemoOptions options;
    options.one_lane = true;
    options.attention = false;
    const Json trace = Json::parse(trace_json(*demo_recording(options), no_limit));
    std::map<std::string, std::vector<std::string>> phases;  // by id, in order
    for (const Json& event : trace["traceEvents"])
        if (event["ph"] == "b") phases[event["id"]].push_back(event["name"]);
    using Names = std::vector<std::string>;
    QCOMPARE(phases["0:0"], Names({"a", "queued", "prefill", "decode"}));
    QCOMPARE(phases["0:2"], Names({"c", "queued", "prefill", "decode"}));
    QCOMPARE(phases["0:3"], Names({"d", "queued"}));  // rejected
    QCOMPARE(phases["0:4"], Names({"e", "queued"}));  // still waits
}

void TestTrace::countersStartAndEndHeld() {
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
    QCOMPARE(points.size(), std::size_t{3});
    for (const auto& [name, list] : points) {
        QCOMPARE(list.front()["ts"].get<double>(), 0.0);
        QCOMPARE(list.back()["ts"].get<double>(), static_cast<double>(last.start_ns + last.duration_ns) / 1e3);
        for (std::size_t i = 1; i + 1 < list.size(); ++i) QVERIFY(list[i]["args"] != list[i - 1]["args"]);
    }
    const Json& end = points["kv_blocks"].back()["args"];
    COMPARE_JSON(end["used"], Json(last.used_blocks));
    COMPARE_JSON(end["free"], Json(last.free_blocks));
    COMPARE_JSON(end["cached"], Json(0));
    COMPARE_JSON(points["waiting"].back()["args"]["requests"], Json(1));
}

void TestTrace::stageSlicesCarryWhatWasMeasured() {
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
        COMPARE_JSON(event["args"]["bytes"], Json(stage.bytes));
        COMPARE_JSON(event["args"]["flops"], Json(stage.flops));
        QVERIFY(qAbs(event["dur"].get<double>() * 1e3 - static_cast<double>(stage.duration_ns)) < 0.5);
    }
    QCOMPARE(at, lane.stages().size());
}

void TestTrace::limitIsKeptAndWhatIsMissingIsSaid_data() {
    QTest::addColumn<quint64>("limit");
    QTest::addColumn<QString>("missing");
    QTest::newRow("stages are summed") << quint64{2500000} << "summed over the layers";
    QTest::newRow("no stages") << quint64{500000} << "the stages of steps";
    QTest::newRow("steps together") << quint64{60000} << "steps are drawn as one";
    QTest::newRow("hardly anything") << quint64{6000} << "sequences";
    QTest::newRow("nothing") << quint64{1200} << "whatever came after the limit";
}

void TestTrace::limitIsKeptAndWhatIsMissingIsSaid() {
    QFETCH(quint64, limit);
    QFETCH(QString, missing);
    const auto& recording = whole();
    const std::string text = trace_json(*recording, limit);
    QVERIFY2(text.size() <= limit, qPrintable(QString::number(text.size())));
    const Json trace = Json::parse(text);
    const QString said = QString::fromStdString(trace["otherData"]["left_out"].get<std::string>());
    QVERIFY2(said.contains(missing), qPrintable(said));
    COMPARE_JSON(trace["traceEvents"][0]["ph"], Json("i"));
    QVERIFY(trace["traceEvents"][0]["name"].get<std::string>().find("Left out: ") == 0);
    QVERIFY2(nesting_error(trace).isEmpty(), qPrintable(nesting_error(trace)));
    QVERIFY2(pairing_error(trace).isEmpty(), qPrintable(pairing_error(trace)));
    // Requests are kept as long as anything can be.
    if (limit >= 60000) QCOMPARE(count_names(trace, "b")["decode"], 13);
}

void TestTrace::fullTraceSaysNothingIsMissing() {
    const Json trace = Json::parse(trace_json(*whole(), no_limit));
    QVERIFY(!trace["otherData"].contains("left_out"));
    QCOMPARE(count_names(trace, "X")["step 0"], 4);
    QCOMPARE(count_names(trace, "i")["reject"], 4);
    QVERIFY(count_names(trace, "X")["attention L3"] > 0);
}

void TestTrace::sharingLanesShowPreemptionAndSwapping() {
    DemoSharingOptions options;
    options.lanes = {"paged", "swap"};
    const Json trace = Json::parse(trace_json(*demo_sharing_recording(options), no_limit));
    QVERIFY2(nesting_error(trace).isEmpty(), qPrintable(nesting_error(trace)));
    QVERIFY2(pairing_error(trace).isEmpty(), qPrintable(pairing_error(trace)));
    std::map<std::string, std::vector<std::string>> phases;  // by id, in order
    std::map<std::string, std::string> ids;                  // of the paged lane, by name
    for (const Json& event : trace["traceEvents"]) {
        if (event["ph"] != "b") continue;
        const std::string id = event["id"];
        if (phases[id].empty() && id.rfind("0:", 0) == 0) ids[event["name"]] = id;
        phases[id].push_back(event["name"]);
    }
    using Names = std::vector<std::string>;
    QCOMPARE(phases[ids["c"]], Names({"c", "prefill", "decode"}));  // a fork begins in the middle
    QCOMPARE(phases[ids["d.1"]], Names({"d.1", "prefill", "decode"}));
    bool recomputed = false, swapped = false;
    for (const auto& [id, names] : phases) {
        for (std::size_t i = 1; i + 1 < names.size(); ++i) {
            recomputed = recomputed || (names[i] == "preempted" && names[i + 1] == "prefill");
            swapped = swapped || (names[i] == "swapped out" && names[i + 1] == "decode");
        }
        const bool by_swapping = id.rfind("1:", 0) == 0;
        QVERIFY(by_swapping || std::find(names.begin(), names.end(), "swapped out") == names.end());
    }
    QVERIFY(recomputed && swapped);
    QVERIFY(count_names(trace, "i")["swap_out"] > 0);
}

QTEST_GUILESS_MAIN(TestTrace)
#include "tst_trace.moc"
