// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a step is (contract, section 3), commands while running, waiting and rejected requests. Model: a tiny fixture, so
// that token ids alone matter.
#include <QRegularExpression>
#include <QTest>

#include "tests/serve/support.h"

#include <thread>

using namespace kvloupe;
using namespace kvloupe::test;

class TestSession : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void aStepIsWhatTheContractSays() {
        auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 10}}], "requests": [)" + request("a", 3, 3) + "]");
        QCOMPARE(int(s->recording()->phase()), int(Phase::paused));
        QCOMPARE(s->recording()->lane(lane0).step_count(), std::size_t(0));
        s->step();
        s->wait();
        const Recording& recording = *s->recording();
        const LaneRecord& lane = recording.lane(lane0);
        QCOMPARE(events(recording, lane0, 0), (QStringList{"arrive a", "admit a", "allocate a 1", "prefill a"}));
        // The first output token is sampled by the step that computes the last prompt token, and not yet written.
        QCOMPARE(lane.step(0).tokens.size(), std::uint64_t(4));
        QCOMPARE(lane.step(0).slots.token, std::uint64_t(3));
        QCOMPARE(lane.step(0).slots.reserved, std::uint64_t(1));
        QCOMPARE(int(recording.phase()), int(Phase::paused));
        VERIFY_RESULT(s->run_to_end());
        QCOMPARE(lane.step_count(), std::size_t(3));
        QCOMPARE(events(recording, lane0, 1), (QStringList{"store a 1", "decode a"}));  // its first block is full now
        QCOMPARE(events(recording, lane0, 2), (QStringList{"allocate a 2", "decode a", "finish a", "free a 2", "free a 1"}));
        // At the end of the forward pass, before release; the last output token is never written.
        QCOMPARE(lane.step(2).used_blocks, 2u);
        QCOMPARE(lane.step(2).slots.token, std::uint64_t(5));
        QCOMPARE(lane.step(2).slots.internal, std::uint64_t(3));
        QCOMPARE(lane.step(2).slots.reserved, std::uint64_t(0));
        QCOMPARE(int(recording.phase()), int(Phase::finished));
        QCOMPARE(times(recording, lane0, "a").finish_reason, std::string("length"));
    }

    void aRequestThatEndsWithItsFirstTokenNeverWritesIt() {
        auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 2}}], "requests": [)" + request("a", 4, 1) + "]");
        VERIFY_RESULT(s->run_to_end());
        const LaneRecord& lane = s->recording()->lane(lane0);
        QCOMPARE(lane.step_count(), std::size_t(1));
        QCOMPARE(lane.step(0).computed_tokens, std::uint64_t(4));
        QCOMPARE(outputs(*s->recording(), lane0, "a").size(), std::size_t(1));
    }

    void idleStepsCountAndTheLastStepEndsTheLastRequest() {
        auto s = session(R"("requests": [)" + request("late", 2, 2, ", \"arrival_step\": 6") + "," + request("early", 2, 2, ", \"arrival_step\": 1") + "]");
        VERIFY_RESULT(s->run_to_end());
        const Recording& recording = *s->recording();
        QCOMPARE(recording.lane(lane0).step_count(), std::size_t(8));
        for (const std::size_t idle : {0, 3, 4, 5}) QCOMPARE(events(recording, lane0, idle), QStringList{});
        QVERIFY(events(recording, lane0, 1).contains("arrive early"));
        QVERIFY(events(recording, lane0, 6).contains("arrive late"));
        QVERIFY(events(recording, lane0, 7).contains("finish late"));
        QCOMPARE(recording.lane(lane0).step(3).waiting, 0u);
    }

    void theYoungerGivesWayAndGoesOnWithTheSameTokens() {
        // 5 usable blocks of 4; each needs 2, then 3: in the third step the second gives its blocks up.
        const QByteArray requests = R"("requests": [)" + request("a", 6, 5) + R"(, {"id": "b", "prompt_tokens": [7, 8, 9, 10, 11, 12], "max_new_tokens": 5}])";
        auto undisturbed = session(requests);
        VERIFY_RESULT(undisturbed->run_to_end());
        auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 6}}], )" + requests);
        VERIFY_RESULT(s->run_to_end());
        const Recording& recording = *s->recording();
        const LaneRecord& lane = recording.lane(lane0);
        QCOMPARE(lane.step(2).waiting, 0u);
        QVERIFY(events(recording, lane0, 3).contains("preempt b"));
        QVERIFY(!events(recording, lane0, 3).contains("resume b"));
        QCOMPARE(lane.step(3).waiting, 1u);
        QVERIFY(events(recording, lane0, 4).contains("finish a"));
        QVERIFY(events(recording, lane0, 5).contains("resume b"));
        QCOMPARE(lane.step(5).preempted_queried_tokens, std::uint64_t(9));
        QCOMPARE(lane.step(5).queried_tokens, std::uint64_t(0));
        QCOMPARE(outputs(recording, lane0, "b"), outputs(*undisturbed->recording(), lane0, "b"));
    }

    void whatWaitsSaysOnceWhy() {
        auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 6}}], "requests": [)" + request("a", 14, 5) + R"(, {"id": "b", "prompt_tokens": [7, 8, 9, 10, 11, 12], "output_tokens": [1, 1, 1, 1, 1]}])");
        VERIFY_RESULT(s->run_to_end());
        QVERIFY(events(*s->recording(), lane0, 0).contains("refuse b"));
        QVERIFY(!events(*s->recording(), lane0, 1).contains("refuse b"));
        QCOMPARE(times(*s->recording(), lane0, "b").finish_reason, std::string("length"));
    }

    void whatCanNeverRunIsRejectedAndTheOthersRun_data() {
        QTest::addColumn<int>("prompt");
        QTest::addColumn<int>("output");
        QTest::addColumn<QString>("says");
        QTest::newRow("larger than the pool") << 30 << 12 << "41 slots";
        QTest::newRow("larger than the context") << 250 << 8 << "context";
    }
    void whatCanNeverRunIsRejectedAndTheOthersRun() {
        QFETCH(int, prompt);
        QFETCH(int, output);
        QFETCH(QString, says);
        auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 11}}], "requests": [)" + request("big", prompt, output) + "," + request("b", 3, 2) + "]");
        VERIFY_RESULT(s->run_to_end());
        const RequestTimes big = times(*s->recording(), lane0, "big");
        QCOMPARE(big.finish_reason, std::string("rejected"));
        QVERIFY2(QString::fromStdString(big.reason).contains(says), big.reason.c_str());
        QCOMPARE(times(*s->recording(), lane0, "b").finish_reason, std::string("length"));
    }

    void automaticBlocksHoldWhatTheRequestsCanUse() {
        auto s = session(R"("lanes": [{"cache": {"block_size": 4}}, {"name": "one at a time", "cache": {"block_size": 4}, "scheduler": {"max_num_seqs": 1}}],
                            "requests": [)" + request("a", 6, 5) + "," + request("b", 3, 2) + "]");
        QCOMPARE(s->recording()->lane(lane0).info().blocks, 1u + 3u + 1u);
        QCOMPARE(s->recording()->lane(LaneId{1}).info().blocks, 1u + 3u);
        VERIFY_RESULT(s->run_to_end());
        QCOMPARE(s->recording()->lane(lane0).step(0).waiting, 0u);
        QCOMPARE(s->recording()->lane(LaneId{1}).step(0).waiting, 1u);
    }

    void cancellingFreesTheBlocks() {
        auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 30}}], "requests": [)" + request("a", 6, 50) + "," + request("b", 6, 4) + "," +
                         request("never", 6, 4, ", \"arrival_step\": 40") + R"(], "actions": [{"at_step": 2, "do": "cancel", "request": "never"}])");
        s->step(2);
        s->wait();
        s->cancel("a");
        s->cancel("nobody");
        VERIFY_RESULT(s->run_to_end());
        const Recording& recording = *s->recording();
        QCOMPARE(events(recording, lane0, 2).mid(0, 1), (QStringList{"finish never"}));
        QCOMPARE(events(recording, lane0, 2).mid(1, 3), (QStringList{"finish a", "free a 2", "free a 1"}));
        QCOMPARE(times(recording, lane0, "a").finish_reason, std::string("cancelled"));
        QCOMPARE(times(recording, lane0, "never").finish_reason, std::string("cancelled"));
        QCOMPARE(times(recording, lane0, "b").finish_reason, std::string("length"));
        QCOMPARE(outputs(recording, lane0, "a").size(), std::size_t(2));
        QCOMPARE(recording.lane(lane0).step_count(), std::size_t(4));
    }

    void submittedRequestsArriveInTheNextStepOfAllLanes() {
        auto s = session(R"("lanes": [{"cache": {"blocks": 40}}, {"name": "uncached", "kv_cache": false}], "requests": [)" + request("a", 3, 4) + "]");
        s->step(2);
        s->wait();
        VERIFY_RESULT(s->submit(submitted("b", 5, 3)));
        QVERIFY(!s->submit(submitted("b", 5, 3)));                 // the id is taken
        QVERIFY(!s->submit(submitted("", 5, 3)));
        QVERIFY(!s->submit(submitted("c", 0, 3)));                 // no tokens
        RequestOptions outside = submitted("d", 1, 1);
        outside.prompt_tokens = std::vector<TokenId>{288};
        const auto refused = s->submit(outside);
        QVERIFY(!refused);
        QVERIFY(QString::fromStdString(refused.error().message()).contains("288"));
        VERIFY_RESULT(s->run_to_end());
        for (const std::uint32_t lane : {0u, 1u}) {
            QVERIFY(events(*s->recording(), LaneId{lane}, 2).contains("arrive b"));
            QCOMPARE(s->recording()->lane(LaneId{lane}).step_count(), std::size_t(5));
        }
        // After the end too: the session goes on.
        QCOMPARE(int(s->recording()->phase()), int(Phase::finished));
        VERIFY_RESULT(s->submit(submitted("e", 4, 2)));
        s->wait();
        QCOMPARE(int(s->recording()->phase()), int(Phase::paused));
        s->run();
        s->wait();
        QCOMPARE(int(s->recording()->phase()), int(Phase::finished));
        QCOMPARE(s->recording()->requests()[2].arrival_step, 5u);
        QCOMPARE(times(*s->recording(), LaneId{1}, "e").finish_reason, std::string("length"));
    }

    void lanesOfDifferentLengthMeetAgainAtASubmit() {
        auto s = session(R"("lanes": [{"name": "fast", "cache": {"blocks": 40}},
                                     {"name": "slow", "cache": {"blocks": 40}, "scheduler": {"max_num_batched_tokens": 2}}], "requests": [)" + request("a", 20, 2) + "]");
        VERIFY_RESULT(s->run_to_end());
        QCOMPARE(s->recording()->lane(lane0).step_count(), std::size_t(2));
        QCOMPARE(s->recording()->lane(LaneId{1}).step_count(), std::size_t(11));
        VERIFY_RESULT(s->submit(submitted("b", 1, 1)));
        VERIFY_RESULT(s->run_to_end());
        for (const std::uint32_t lane : {0u, 1u}) {
            QCOMPARE(s->recording()->lane(LaneId{lane}).step_count(), std::size_t(12));
            QVERIFY(events(*s->recording(), LaneId{lane}, 11).contains("finish b"));
        }
    }

    void resetStartsTheScenarioAgainInANewRecording() {
        auto s = session(R"("requests": [)" + request("a", 3, 4) + "]");
        VERIFY_RESULT(s->submit(submitted("b", 2, 2)));
        VERIFY_RESULT(s->run_to_end());
        const auto before = s->recording();
        const std::vector<TokenId> tokens = outputs(*before, lane0, "a");
        s->reset();
        s->wait();
        QCOMPARE(s->generation(), std::uint64_t(1));
        QVERIFY(s->recording() != before);
        QCOMPARE(s->recording()->lane(lane0).step_count(), std::size_t(0));
        QCOMPARE(before->lane(lane0).step_count(), std::size_t(6));  // who still reads it can; b waited for the only block
        VERIFY_RESULT(s->submit(submitted("b", 2, 2)));              // its id is free again
        VERIFY_RESULT(s->run_to_end());
        QCOMPARE(outputs(*s->recording(), lane0, "a"), tokens);
        QCOMPARE(s->recording()->requests().size(), std::size_t(2));
    }

    void pauseStopsARunAndRunGoesOn() {
        auto s = session(R"("requests": [)" + request("a", 3, 240) + "]");
        s->run();
        while (s->recording()->lane(lane0).step_count() < 3) std::this_thread::yield();
        s->pause();
        s->wait();
        const std::size_t reached = s->recording()->lane(lane0).step_count();
        QVERIFY(reached >= 3);
        if (reached < 240) QCOMPARE(int(s->recording()->phase()), int(Phase::paused));
        s->step(2);
        s->wait();
        QCOMPARE(s->recording()->lane(lane0).step_count(), std::min<std::size_t>(reached + 2, 240));
        s->run();
        s->wait();
        QCOMPARE(s->recording()->lane(lane0).step_count(), std::size_t(240));
        QCOMPARE(int(s->recording()->phase()), int(Phase::finished));
    }

    void anUncachedLaneStopsAtItsLimitAndCatchesUp() {
        Scenario wanted = scenario(R"({"version": 1, "device": "cpu", "lanes": [{"cache": {"blocks": 40}}, {"kv_cache": false}], "requests": [)" + request("a", 4, 30) + "]}");
        wanted.model = fixtures + "tiny-gqa";
        wanted.lanes[1].uncached_limit = 10;
        auto made = Session::create(wanted, options());
        VERIFY_RESULT(made);
        Session& s = **made;
        s.run();
        s.wait();
        const Recording& recording = *s.recording();
        QCOMPARE(recording.lane(lane0).step_count(), std::size_t(30));
        QCOMPARE(recording.lane(LaneId{1}).step_count(), std::size_t(6));
        QCOMPARE(int(recording.phase()), int(Phase::paused));
        QVERIFY2(QString::fromStdString(recording.reason()).contains("limit of 10"), recording.reason().c_str());
        s.continue_uncached(8);
        s.run();
        s.wait();
        QCOMPARE(recording.lane(LaneId{1}).step_count(), std::size_t(14));
        VERIFY_RESULT(s.run_to_end());
        QCOMPARE(recording.lane(LaneId{1}).step_count(), std::size_t(30));
        QVERIFY(!std::isnan(recording.lane(LaneId{1}).step(29).logit_difference));
        QCOMPARE(int(recording.phase()), int(Phase::finished));
    }

    void whatIsWrongWithASessionIsSaidBeforeItStarts_data() {
        QTest::addColumn<QByteArray>("rest");
        QTest::addColumn<QString>("says");
        QTest::newRow("token") << QByteArray(R"("requests": [{"id": "a", "prompt_tokens": [1, 288]}])") << "token 288";
        QTest::newRow("forced token") << QByteArray(R"("requests": [{"id": "a", "prompt_tokens": [1], "output_tokens": [300]}])") << "token 300";
        QTest::newRow("no tokens") << QByteArray(R"("requests": [{"id": "a", "prompt_tokens": []}])") << "has no tokens";
        QTest::newRow("layer") << QByteArray(R"("requests": [], "record": {"attention": [{"layer": 2}]})") << "no layer 2";
        QTest::newRow("head") << QByteArray(R"("requests": [], "record": {"attention": [{"layer": 0, "heads": [4]}]})") << "no query head 4";
        QTest::newRow("memory") << QByteArray(R"("requests": [], "lanes": [{"cache": {"blocks": 10000000, "block_size": 1048576}}])") << "10000000 blocks";
        QTest::newRow("model") << QByteArray(R"("requests": [], "lanes": [{"model": "/nonexistent/model.gguf"}])") << "/nonexistent/model.gguf";
        QTest::newRow("device") << QByteArray(R"("requests": [], "lanes": [{"device": "cuda:77"}])") << "cuda";
    }
    void whatIsWrongWithASessionIsSaidBeforeItStarts() {
        QFETCH(QByteArray, rest);
        QFETCH(QString, says);
        Scenario wanted = scenario("{\"version\": 1, \"device\": \"cpu\", " + rest + "}");
        wanted.model = fixtures + "tiny-gqa";
        const auto made = Session::create(wanted, options());
        QVERIFY(!made);
        QVERIFY2(QString::fromStdString(made.error().message()).contains(says), made.error().message().c_str());
    }

    void aSessionWithoutRequestsWaitsForThem() {
        auto s = session(R"("requests": [])");
        s->step();
        s->wait();
        QCOMPARE(int(s->recording()->phase()), int(Phase::finished));
        VERIFY_RESULT(s->submit(submitted("a", 100, 20)));
        VERIFY_RESULT(s->run_to_end());
        QCOMPARE(times(*s->recording(), lane0, "a").finish_reason, std::string("length"));
    }

    void aSessionMayBeDestroyedInTheMiddleOfARun() {
        for (int i = 0; i < 5; ++i) {
            auto s = session(R"("requests": [)" + request("a", 3, 240) + "]");
            s->run();
            while (s->recording()->lane(lane0).step_count() == 0) std::this_thread::yield();
        }
    }
};

QTEST_GUILESS_MAIN(TestSession)
#include "tst_session.moc"
