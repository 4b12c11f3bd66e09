// SPDX-License-Identifier: GPL-3.0-or-later
//
// A step that fails says why, ends the requests it cannot go on with, and leaves the session usable.
#include <QRegularExpression>
#include <QTest>

#include "tests/serve/failing_backend.h"
#include "tests/serve/support.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::unique_ptr<Session> failing(const QByteArray& rest, const std::shared_ptr<Sabotage>& sabotage) {
    SessionOptions given = options();
    given.make_backend = [sabotage](const std::string& device) -> Result<std::unique_ptr<Backend>> {
        auto real = make_backend(BackendOptions{device, 2});
        if (!real) return real.error();
        return std::unique_ptr<Backend>(std::make_unique<FailingBackend>(std::move(*real), sabotage));
    };
    return session(rest, std::move(given));
}

const char* const three_requests_head = R"("lanes": [{"cache": {"block_size": 4, "blocks": 40}}], "requests": [)";

}  // namespace

class TestSessionFailures : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void aBackendErrorEndsTheRequestsOfTheStep_data() {
        QTest::addColumn<QString>("where");
        QTest::addColumn<QString>("says");
        QTest::newRow("begin_batch") << "begin_batch" << "fell off the bus";
        QTest::newRow("read") << "read" << "answered with an error";
    }
    void aBackendErrorEndsTheRequestsOfTheStep() {
        QFETCH(QString, where);
        QFETCH(QString, says);
        auto sabotage = std::make_shared<Sabotage>();
        auto s = failing(three_requests_head + request("a", 3, 8) + "," + request("b", 5, 8) + "," + request("late", 2, 3, ", \"arrival_step\": 5") + "]", sabotage);
        (where == "read" ? sabotage->read : sabotage->begin_batch) = 3;
        s->run();
        s->wait();
        const Recording& recording = *s->recording();
        // The window stops and says why.
        QCOMPARE(int(recording.phase()), int(Phase::paused));
        QVERIFY2(QString::fromStdString(recording.reason()).contains(says), recording.reason().c_str());
        QVERIFY(recording.reason().find("Step 3 of lane 'cached'") != std::string::npos);
        QCOMPARE(recording.lane(lane0).step_count(), std::size_t(4));  // the failing step stands in the recording
        QVERIFY(!recording.lane(lane0).failure().empty());
        for (const char* id : {"a", "b"}) {
            QCOMPARE(times(recording, lane0, id).finish_reason, std::string("failed"));
            QVERIFY(QString::fromStdString(times(recording, lane0, id).reason).contains(says));
            QCOMPARE(outputs(recording, lane0, id).size(), std::size_t(3));
        }
        QCOMPARE(recording.lane(lane0).state_after(3).used_blocks(), 0u);
        // The session goes on with what can run.
        VERIFY_RESULT(s->submit(submitted("new", 4, 3)));
        VERIFY_RESULT(s->run_to_end());
        QCOMPARE(times(recording, lane0, "late").finish_reason, std::string("length"));
        QCOMPARE(times(recording, lane0, "new").finish_reason, std::string("length"));
        QVERIFY(recording.lane(lane0).failure().empty());
        s->reset();
        VERIFY_RESULT(s->run_to_end());
        QCOMPARE(times(*s->recording(), lane0, "a").finish_reason, std::string("length"));
    }

    void aLostDeviceTakesItsLaneDownAndNoOther() {
        const auto sabotage = std::make_shared<Sabotage>();
        SessionOptions given = options();
        given.make_backend = [sabotage](const std::string& device) -> Result<std::unique_ptr<Backend>> {
            auto real = make_backend(BackendOptions{"cpu", 2});
            if (!real || device == "cpu") return real;
            return std::unique_ptr<Backend>(std::make_unique<FailingBackend>(std::move(*real), sabotage));
        };
        auto s = session(R"("lanes": [{"name": "card", "device": "cuda:0", "cache": {"block_size": 4, "blocks": 40}},
                                      {"name": "host", "cache": {"block_size": 4, "blocks": 40}}],
                            "requests": [)" + request("a", 3, 8) + "," + request("late", 3, 4, ", \"arrival_step\": 6") + "]", std::move(given));
        s->step(3);
        s->wait();
        sabotage->lost = true;
        s->run();
        s->wait();
        const Recording& recording = *s->recording();
        QCOMPARE(int(recording.phase()), int(Phase::paused));
        const QString says = QString::fromStdString(recording.reason());
        QCOMPARE(says, QStringLiteral("Step 3 of lane 'card' failed: the device is lost. Choose another one."));
        QVERIFY(!s->run_to_end());  // it says so at the end too
        // All that was recorded is there, and the lane on the other device has done its work.
        QCOMPARE(outputs(recording, lane0, "a").size(), std::size_t(3));
        for (const char* id : {"a", "late"}) {
            QCOMPARE(times(recording, lane0, id).finish_reason, std::string("failed"));
            QCOMPARE(times(recording, LaneId{1}, id).finish_reason, std::string("length"));
        }
        QCOMPARE(recording.lane(lane0).state_after(recording.lane(lane0).step_count() - 1).used_blocks(), 0u);
        VERIFY_RESULT(s->submit(submitted("more", 3, 2)));
        QVERIFY(!s->run_to_end());
        QCOMPARE(times(recording, LaneId{1}, "more").finish_reason, std::string("length"));
    }

    void aRunWhoseRequestsFailedSaysSo() {
        auto sabotage = std::make_shared<Sabotage>();
        auto s = failing(three_requests_head + request("a", 3, 8) + "]", sabotage);
        sabotage->begin_batch = 2;
        const auto ran = s->run_to_end();
        QVERIFY(!ran);
        QVERIFY(QString::fromStdString(ran.error().message()).contains("fell off the bus"));
        QCOMPARE(int(s->recording()->phase()), int(Phase::failed));
    }

    void noMemoryForAStepFailsItAndNotTheProgram() {
        auto sabotage = std::make_shared<Sabotage>();
        auto s = failing(three_requests_head + request("a", 3, 2) + "]", sabotage);
        sabotage->buffers = 0;
        QVERIFY(!s->run_to_end());
        QVERIFY(times(*s->recording(), lane0, "a").reason.find("no memory") != std::string::npos);
        VERIFY_RESULT(s->submit(submitted("b", 3, 2)));
        VERIFY_RESULT(s->run_to_end());
        QCOMPARE(times(*s->recording(), lane0, "b").finish_reason, std::string("length"));
    }

    void notFiniteLogitsNameTheFirstLayer_data() {
        QTest::addColumn<bool>("cached");
        QTest::addColumn<int>("layer");
        for (const int layer : {0, 1}) {
            QTest::addRow("cached, layer %d", layer) << true << layer;
            QTest::addRow("uncached, layer %d", layer) << false << layer;
        }
    }
    void notFiniteLogitsNameTheFirstLayer() {
        QFETCH(bool, cached);
        QFETCH(int, layer);
        auto sabotage = std::make_shared<Sabotage>();
        sabotage->nan_layer = layer;
        sabotage->nan_row_token = 42;  // the third forced token of a, so the step that computes it
        const QByteArray lane = cached ? R"({"name": "x", "cache": {"blocks": 40}})" : R"({"name": "x", "kv_cache": false})";
        auto s = failing("\"lanes\": [" + lane + R"(], "requests": [)" + request("a", 2, 8) + "]", sabotage);
        s->run();
        s->wait();
        const Recording& recording = *s->recording();
        QCOMPARE(times(recording, lane0, "a").finish_reason, std::string("failed"));
        const QString says = QString::fromStdString(recording.reason());
        QVERIFY2(says.contains(QStringLiteral("layer %1, in its attention half").arg(layer)), qPrintable(says));
        QVERIFY2(says.contains("request 'a'"), qPrintable(says));
        QCOMPARE(outputs(recording, lane0, "a").size(), std::size_t(3));  // no token was sampled from that step
        QCOMPARE(recording.lane(lane0).step_count(), std::size_t(4));
        sabotage->nan_layer = -1;
        s->reset();
        VERIFY_RESULT(s->run_to_end());
        QCOMPARE(times(*s->recording(), lane0, "a").finish_reason, std::string("length"));
    }

    void requestsWithFiniteLogitsGoOn() {
        // Without a cache every sequence is a batch of its own, so that only the one with the token fails.
        auto sabotage = std::make_shared<Sabotage>();
        sabotage->nan_layer = 1;
        sabotage->nan_row_token = 99;
        auto s = failing(R"("lanes": [{"kv_cache": false}], "requests": [{"id": "bad", "prompt_tokens": [5, 99], "max_new_tokens": 3}, )" + request("good", 3, 4) + "]", sabotage);
        s->run();
        s->wait();
        QCOMPARE(int(s->recording()->phase()), int(Phase::paused));
        QCOMPARE(outputs(*s->recording(), lane0, "good").size(), std::size_t(0));
        s->run();
        s->wait();
        const Recording& recording = *s->recording();
        QCOMPARE(times(recording, lane0, "bad").finish_reason, std::string("failed"));
        QCOMPARE(times(recording, lane0, "good").finish_reason, std::string("length"));
        QCOMPARE(recording.lane(lane0).step_count(), std::size_t(5));  // the failed step was repeated for the good one
    }

    void aSourceThatFailsIsAnErrorOfCreate() {
        SessionOptions given = options();
        given.find_model = [](const std::string&) -> Result<std::shared_ptr<const Model>> { return Error{"no such model", "Look elsewhere."}; };
        const auto made = Session::create(scenario(R"({"version": 1, "requests": []})"), std::move(given));
        QVERIFY(!made);
        QCOMPARE(QString::fromStdString(made.error().message()), QStringLiteral("Lane 'cached': no such model. Look elsewhere."));
    }
};

QTEST_GUILESS_MAIN(TestSessionFailures)
#include "tst_session_failures.moc"
