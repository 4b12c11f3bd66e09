// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a session records on request: breakpoints, attention rows, stages; and that it can be read while it is written.
#include <QRegularExpression>
#include <QTest>

#include "tests/serve/support.h"

#include <atomic>
#include <thread>

using namespace kvloupe;
using namespace kvloupe::test;

class TestSessionRecording : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void breakpointsStopTheWindowAndAreNotedByARun_data() {
        QTest::addColumn<QByteArray>("breakpoint");
        QTest::addColumn<int>("stopsAfterSteps");
        QTest::addColumn<QString>("says");
        QTest::newRow("step") << QByteArray(R"({"step": 2})") << 3 << "step 2";
        QTest::newRow("event") << QByteArray(R"({"on": "finish"})") << 4 << "b ended";
        QTest::newRow("event of a request") << QByteArray(R"({"on": "finish", "request": "a"})") << 9 << "a ended";
        QTest::newRow("block") << QByteArray(R"({"block": 3, "on": "allocate"})") << 1 << "block 3";
        QTest::newRow("block given back") << QByteArray(R"({"block": 3, "on": "free"})") << 4 << "block 3";
        QTest::newRow("token") << QByteArray(R"({"token": 45, "request": "a"})") << 6 << "token 45";
        QTest::newRow("used blocks") << QByteArray(R"({"used_blocks": 4})") << 3 << "4 blocks are in use";
        QTest::newRow("lane") << QByteArray(R"({"step": 1, "lane": "cached"})") << 2 << "'cached'";
    }
    void breakpointsStopTheWindowAndAreNotedByARun() {
        QFETCH(QByteArray, breakpoint);
        QFETCH(int, stopsAfterSteps);
        QFETCH(QString, says);
        const QByteArray rest = R"("lanes": [{"cache": {"block_size": 4, "blocks": 20}}], "breakpoints": [)" + breakpoint +
                                R"(], "requests": [)" + request("a", 5, 9) + "," + request("b", 3, 4) + "]";
        auto s = session(rest);
        s->run();
        s->wait();
        QCOMPARE(int(s->recording()->lane(lane0).step_count()), stopsAfterSteps);
        if (stopsAfterSteps < 9) {
            QCOMPARE(int(s->recording()->phase()), int(Phase::paused));
            QVERIFY2(QString::fromStdString(s->recording()->reason()).contains(says), s->recording()->reason().c_str());
        }
        s->reset();
        VERIFY_RESULT(s->run_to_end());
        QCOMPARE(s->recording()->lane(lane0).step_count(), std::size_t(9));
        QVERIFY(!s->breakpoint_notes().empty());  // a later step may hold it again
        QVERIFY2(QString::fromStdString(s->breakpoint_notes()[0]).contains(says), s->breakpoint_notes()[0].c_str());
        s->set_breakpoints({});
        s->reset();
        s->run();
        s->wait();
        QCOMPARE(int(s->recording()->phase()), int(Phase::finished));
        QVERIFY(s->breakpoint_notes().empty());
    }

    void watchedHeadsGiveARowPerPosition() {
        SessionOptions given = options();
        given.default_attention = std::vector<AttentionWatch>{{1, {2}}, {77, {}}};  // what the model lacks is left out
        auto s = session(R"("lanes": [{"cache": {"block_size": 4, "dtype": "f32"}}, {"name": "uncached", "kv_cache": false}], "requests": [)" + request("a", 5, 4) + "]", std::move(given));
        VERIFY_RESULT(s->run_to_end());
        for (const std::uint32_t id : {0u, 1u}) {
            const LaneRecord& lane = s->recording()->lane(LaneId{id});
            QCOMPARE(lane.attention().size(), std::size_t(8));
            for (std::uint32_t i = 0; i < 8; ++i) {
                const AttentionRow& row = lane.attention()[i];
                QCOMPARE(row.position, i);
                QCOMPARE(row.key_count, i + 1);
                QCOMPARE(int(row.layer), 1);
                QCOMPARE(int(row.head), 2);
                double sum = 0;
                for (std::uint32_t k = 0; k < row.key_count; ++k) {
                    const float weight = lane.attention_weights()[row.weights_begin + k];
                    QVERIFY(weight >= 0);
                    sum += double(weight);
                    const AttentionRow& first = s->recording()->lane(lane0).attention()[i];
                    QVERIFY(std::fabs(weight - s->recording()->lane(lane0).attention_weights()[first.weights_begin + k]) < 1e-5f);
                }
                QVERIFY(std::fabs(sum - 1) < 1e-5);
            }
        }
        s->set_watch({{0, {}}});
        QCOMPARE(s->watch().size(), std::size_t(1));
        s->reset();
        VERIFY_RESULT(s->run_to_end());
        QCOMPARE(s->recording()->lane(lane0).attention().size(), std::size_t(8 * 4));
    }

    void stagesAreMeasuredEveryNthStep() {
        auto s = session(R"("record": {"stages_every": 3}, "requests": [)" + request("a", 5, 7) + "]");
        VERIFY_RESULT(s->run_to_end());
        const LaneRecord& lane = s->recording()->lane(lane0);
        for (std::size_t i = 0; i < 7; ++i) QCOMPARE(lane.stages_of(i).size() > 0, i % 3 == 0);
        // 2 layers of 9 stages each, and schedule, embed, output norm, logits, sample.
        QCOMPARE(lane.stages_of(3).size(), std::uint64_t(23));
        std::uint64_t flops = 0;
        for (std::uint64_t i = lane.stages_of(3).begin; i < lane.stages_of(3).end; ++i) {
            const StageRecord& stage = lane.stages()[i];
            QCOMPARE(stage.calls, 1u);
            if (stage.kind == StageKind::down) QCOMPARE(stage.flops, std::uint64_t(2 * 32 * 64));
            if (stage.kind == StageKind::attention) QCOMPARE(stage.flops, std::uint64_t(4 * 8 * 32));  // 8 keys, 4 heads of 8
            flops += stage.flops;
        }
        QVERIFY(flops > 2 * 288 * 32);
    }

    void howOftenStagesAreMeasuredCanBeChangedWhileItRuns() {
        auto s = session(R"("requests": [)" + request("a", 5, 30) + "]");
        QCOMPARE(s->stages_every(), 1u);
        const auto measured = [&s](std::size_t step) { return s->recording()->lane(lane0).stages_of(step).size() > 0; };
        const auto steps = [&s](std::uint32_t every, std::uint32_t count) {
            s->set_stages_every(every);
            s->step(count);
            s->wait();
        };
        steps(1, 3);
        steps(0, 5);
        steps(5, 12);
        QCOMPARE(s->stages_every(), 5u);
        for (std::size_t step = 0; step < 20; ++step)
            QCOMPARE(measured(step), step < 3 || (step >= 8 && step % 5 == 0));
        s->reset();  // as it was set, not as the scenario says
        s->step(6);
        s->wait();
        for (std::size_t step = 0; step < 6; ++step) QCOMPARE(measured(step), step % 5 == 0);
    }

    // Under ThreadSanitizer this is the test that a reader needs no lock.
    void aReaderSeesOnlyWholeStepsWhileTheWorkerRuns() {
        auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 200}}, {"name": "uncached", "kv_cache": false}], "requests": [)" +
                         request("a", 5, 120) + "," + request("b", 30, 60, ", \"arrival_step\": 5") + "]");
        std::atomic<bool> done{false};
        std::atomic<int> bad{0};
        std::thread reader([&] {
            std::uint64_t seen = 0;
            while (!done) {
                const auto recording = s->recording();
                const Phase phase = recording->phase();
                for (const auto& lane : recording->lanes()) {
                    const std::size_t count = lane->step_count();
                    if (count == 0) continue;
                    const StepRecord& step = lane->step(count - 1);
                    const LaneState state = lane->state_after(count - 1);
                    std::uint64_t slots = step.slots.token + step.slots.cached + step.slots.reserved + step.slots.internal + step.slots.external + step.slots.free;
                    if (lane->info().kv_cache && slots != 199 * 4) ++bad;
                    for (std::uint64_t i = step.events.begin; i < step.events.end; ++i)
                        seen += describe_cause(*recording, *lane, lane->events()[i]).size();
                    for (std::uint64_t i = step.tokens.begin; i < step.tokens.end; ++i) seen += lane->tokens()[i].rank;
                    seen += state.used_blocks();
                }
                seen += recording->reason().size() + std::size_t(phase) + recording->memory_bytes();
            }
            if (seen == 0) ++bad;
        });
        s->run();
        s->step(3);
        for (int i = 0; i < 5; ++i) {
            const QByteArray id = "s" + QByteArray::number(i);
            VERIFY_RESULT(s->submit(submitted(id.constData(), 3 + i, 10)));
            s->set_watch({{0, {0}}});
        }
        s->cancel("s3");
        s->wait();
        s->reset();
        s->run();
        s->wait();
        done = true;
        reader.join();
        QCOMPARE(int(bad), 0);
        QCOMPARE(s->recording()->lane(lane0).step_count(), std::size_t(120));
    }
};

QTEST_GUILESS_MAIN(TestSessionRecording)
#include "tst_session_recording.moc"
