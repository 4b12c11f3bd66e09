// SPDX-License-Identifier: GPL-3.0-or-later
//
// The sample scenarios, faults included: each runs as it is shipped, each fault stops at its breakpoint, and what its
// paragraph promises is what happens.
#include <QDir>
#include <QRegularExpression>
#include <QTest>

#include "engine/record/results.h"
#include "tests/serve/support.h"

#include <nlohmann/json.hpp>

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

// A fault after its whole run.
struct Run {
    std::unique_ptr<Session> session;

    explicit Run(const QString& name) {
        auto scenario = load_scenario(KVLOUPE_SOURCE_DIR "/resources/scenarios/faults/" + name.toStdString() + ".json");
        if (!scenario) qFatal("%s", scenario.error().message().c_str());
        auto made = Session::create(*scenario, bundled());
        if (!made) qFatal("%s", made.error().message().c_str());
        session = std::move(*made);
        if (auto ran = session->run_to_end(); !ran) qFatal("%s", ran.error().message().c_str());
    }

    std::shared_ptr<const Recording> recording() const { return session->recording(); }
    const LaneRecord& lane(const char* name) const {
        for (const auto& each : recording()->lanes())
            if (each->info().name == name) return *each;
        qFatal("no lane %s", name);
        return *recording()->lanes()[0];
    }
    int count(const char* name, EventKind kind, const char* sequence = nullptr) const {
        const LaneRecord& of = lane(name);
        int found = 0;
        for (std::size_t i = 0; i < of.events().size(); ++i)
            found += of.events()[i].kind == kind &&
                     (!sequence || sequence_name(*recording(), of, of.events()[i].sequence) == sequence);
        return found;
    }
    std::uint64_t sum(const char* name, std::uint64_t StepRecord::*counter) const {
        const LaneRecord& of = lane(name);
        std::uint64_t total = 0;
        for (std::size_t i = 0; i < of.step_count(); ++i) total += of.step(i).*counter;
        return total;
    }
    double queue_ms(const char* name, const char* request) const {
        for (std::uint32_t i = 0; i < recording()->lanes().size(); ++i)
            if (recording()->lanes()[i]->info().name == name) return times(*recording(), LaneId{i}, request).queue_ms.value_or(-1);
        return -1;
    }
};

}  // namespace

class TestFaultScenarios : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void everySampleHasAParagraphAndRuns_data() {
        QTest::addColumn<QString>("path");
        QTest::addColumn<bool>("fault");
        for (const bool fault : {false, true}) {
            const QDir folder(QStringLiteral(KVLOUPE_SOURCE_DIR "/resources/scenarios") + (fault ? "/faults" : ""));
            for (const QString& name : folder.entryList({"*.json"}, QDir::Files))
                QTest::newRow(qPrintable(name)) << folder.filePath(name) << fault;
        }
    }
    void everySampleHasAParagraphAndRuns() {
        QFETCH(const QString, path);
        QFETCH(const bool, fault);
        auto read = load_scenario(path.toStdString());
        VERIFY_RESULT(read);
        QVERIFY(QString::fromStdString(read->comment).contains(": "));
        auto made = Session::create(*read, bundled());
        VERIFY_RESULT(made);
        Session& session = **made;
        QCOMPARE(!read->breakpoints.empty(), fault);
        if (!fault) {
            VERIFY_RESULT(session.run_to_end());
            return;
        }
        session.run();
        session.wait();
        QCOMPARE(int(session.recording()->phase()), int(Phase::paused));
        QVERIFY2(QString::fromStdString(session.recording()->reason()).startsWith("Breakpoint in step "), session.recording()->reason().c_str());
        const auto focus = session.recording()->pause_focus();
        QVERIFY(focus);
        if (read->breakpoints[0].on) {
            QVERIFY(focus->event);
            QCOMPARE(int(session.recording()->lane(focus->lane).events()[*focus->event].kind), int(*read->breakpoints[0].on));
        }
        session.run();
        session.wait();
        QVERIFY(session.recording()->phase() != Phase::failed);
    }

    void aShortHashIsBelievedOnlyWithoutComparison() {
        const Run run("short-hash");
        QCOMPARE(run.count("256 bits", EventKind::prefix_hit), 0);
        QCOMPARE(run.count("2 bits, compared", EventKind::prefix_hit), 0);
        QVERIFY(run.count("2 bits, believed", EventKind::prefix_hit, "b") > 0);
        const LaneRecord& lane = run.lane("2 bits, believed");
        for (std::size_t i = 0; i < lane.events().size(); ++i)
            if (lane.events()[i].kind == EventKind::prefix_hit) QCOMPARE(int(lane.events()[i].cause), int(Cause::hash_collision));
        // b's first token is another one already: its logits are what shows by how much the lane was wrong.
        const auto summary = nlohmann::json::parse(summary_json(*run.recording()));
        const auto& differences = summary["comparison"]["max_abs_logit_difference"];
        QCOMPARE(differences["2 bits, compared"].get<double>(), 0.0);
        QVERIFY(differences["2 bits, believed"].get<double>() > 1);
    }

    void noMoreBeamsRunThanAreKept() {
        const Run run("beam-search");
        std::uint32_t most = 0;
        for (std::size_t i = 0; i < run.lane("paged").step_count(); ++i) most = std::max(most, run.lane("paged").step(i).running);
        QCOMPARE(most, 4u);
        QVERIFY(run.count("paged", EventKind::fork) > 3);  // beams were replaced
        QCOMPARE(run.lane("paged").step(0).running, 1u);   // the others fork at the end of the prompt's step
    }

    void aSaltIsTakenForAnAdapterOnlyUntagged() {
        const Run run("untagged-keys");
        QCOMPARE(run.count("keys tagged", EventKind::prefix_hit), 0);
        QCOMPARE(run.count("keys bare", EventKind::prefix_hit, "b"), 1);
    }

    void aPromptOfWholeBlocksHitsOneBlockLess() {
        const Run run("block-border");
        QCOMPARE(run.count("paged", EventKind::prefix_hit, "b"), 1);
        QCOMPARE(run.count("paged", EventKind::prefix_hit, "c"), 2);
    }

    void theGateSparesPreemptions() {
        const Run run("preemption-storm");
        QVERIFY(run.count("gate off", EventKind::preempt) > 2 * run.count("gate on", EventKind::preempt));
        QVERIFY(run.sum("gate off", &StepRecord::computed_tokens) > run.sum("gate on", &StepRecord::computed_tokens));
    }

    void onlyTheLeastFrequentlyUsedRuleKeepsTheHotPrefix() {
        const Run run("flushed-prefix");
        const auto hits = [&](const char* lane) { return run.sum(lane, &StepRecord::hit_tokens); };
        QCOMPARE(hits("hash, LRU"), std::uint64_t(32));
        QCOMPARE(hits("radix, LRU"), std::uint64_t(32));
        QCOMPARE(hits("radix, LFU"), std::uint64_t(96));
    }

    void oneLostBlockCostsAWindowItsWholePrefix() {
        const Run run("window-cliff");
        QVERIFY(run.count("window 48", EventKind::prefix_hit, "b") > 0);
        QCOMPARE(run.count("window 48", EventKind::prefix_hit, "c"), 0);
        QCOMPARE(run.count("all keys", EventKind::prefix_hit, "b"), 0);
    }

    void shortRequestsPassTheHeadOfTheLineOnlyByPriority() {
        const Run run("head-of-line");
        for (const char* request : {"c", "d"})
            QVERIFY(run.queue_ms("first come, first served", request) > run.queue_ms("by priority", request));
        QVERIFY(run.count("first come, first served", EventKind::refuse, "b") > 0);
    }

    void aStaticBatchTakesEightySteps() {
        const Run run("static-batching");
        QCOMPARE(run.lane("static").step_count(), std::size_t(80));
        QCOMPARE(run.lane("continuous").step_count(), std::size_t(70));
    }

    void swappingComputesNothingTwice() {
        const Run run("swap-or-recompute");
        QVERIFY(run.count("swap", EventKind::swap_in) > 0);
        QCOMPARE(run.count("swap", EventKind::swap_in), run.count("swap", EventKind::swap_out));
        QVERIFY(run.sum("swap", &StepRecord::computed_tokens) < run.sum("recompute", &StepRecord::computed_tokens));
        for (const char* id : {"a", "b"})
            QVERIFY(outputs(*run.recording(), LaneId{0}, id) == outputs(*run.recording(), LaneId{1}, id));
    }

    void samplesShareTheirPrompt() {
        const Run run("parallel-sampling");
        QCOMPARE(run.count("paged", EventKind::copy_on_write), 3);
        QVERIFY(run.sum("paged", &StepRecord::computed_tokens) < run.sum("contiguous", &StepRecord::computed_tokens));
    }

    void theWriterThatComesFirstCopies() {
        const Run run("copy-on-write");
        QCOMPARE(run.count("paged", EventKind::copy_on_write, "a"), 1);
        QCOMPARE(run.count("paged", EventKind::copy_on_write, "c"), 0);
    }
};

QTEST_GUILESS_MAIN(TestFaultScenarios)
#include "tst_fault_scenarios.moc"
