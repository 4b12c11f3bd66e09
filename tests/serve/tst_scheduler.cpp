// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles S1, S2, S3 (without asynchronous steps) and S5 to S10 of CACHE_SEMANTICS section 2; victims by vLLM's and by
// SGLang's rule.
#include <QRegularExpression>
#include <QTest>

#include "tests/serve/scheduler_bench.h"

using namespace kvloupe;
using namespace kvloupe::test;

class TestScheduler : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void S1_longPromptsShareTheBudgetUnderTheirThreshold() {
        SchedulerOptions given = budget(1024);
        given.long_prefill_token_threshold = 400;
        Bench bench(given, pool(1000));
        for (int i = 0; i < 3; ++i) bench.add(800, 10);
        QCOMPARE(bench.step(), QByteArray("a400 b400 c224"));
        QCOMPARE(int(bench.schedule.sequences[0].cause), int(Cause::token_budget));
        QCOMPARE(bench.step(), QByteArray("a400 b400 c224"));
        QCOMPARE(int(bench.schedule.sequences[0].cause), int(Cause::whole_prompt));
        QCOMPARE(bench.step(), QByteArray("a1 b1 c352"));
        QCOMPARE(int(bench.schedule.sequences[0].cause), int(Cause::next_token));
        QCOMPARE(bench.schedule.sequences[2].first, 448u);
    }

    void S2_shortPromptsDoNotOvertakeAHeadThatDoesNotFitTheBudget() {
        for (const bool chunked : {true, false}) {
            SchedulerOptions given = budget(1024, 3);
            given.chunked_prefill = chunked;
            Bench bench(given, pool(1000));
            for (const std::uint32_t prompt : {800u, 800u, 10u, 10u}) bench.add(prompt, 4);
            QCOMPARE(bench.step(), chunked ? QByteArray("a800 b224") : QByteArray("a800"));
            if (!chunked) QCOMPARE(bench.causes(EventKind::refuse), QByteArray("b:budget_used"));
        }
    }

    void theLastThatRunsIsPreemptedForTheFirst() {  // S3, without the step in flight
        Bench bench(budget(100), pool(11));
        bench.add(80, 10);
        bench.add(80, 10);
        QCOMPARE(bench.step(), QByteArray("a80 b20"));
        QCOMPARE(bench.step(), QByteArray("a1"));
        QCOMPARE(bench.causes(EventKind::preempt), QByteArray("b:last_running"));
        QCOMPARE(int(bench.request("b").status), int(RequestStatus::preempted));
        QCOMPARE(bench.request("b").computed, 0u);
        QCOMPARE(bench.waiting(), QByteArray("b"));
        bench.run();
        QCOMPARE(bench.request("b").output_tokens(), 10u);
    }

    void S5_waitingFollowsPriorityThenArrival_data() {
        QTest::addColumn<QList<int>>("priorities");
        QTest::addColumn<QByteArray>("order");
        QTest::newRow("three") << QList<int>{2, 0, 1} << QByteArray("bca");
        QTest::newRow("four") << QList<int>{3, 1, 2, 0} << QByteArray("dbca");
        QTest::newRow("equal") << QList<int>{1, 1, 1} << QByteArray("abc");
        QTest::newRow("below zero") << QList<int>{0, -5, 5} << QByteArray("bac");
    }
    void S5_waitingFollowsPriorityThenArrival() {
        QFETCH(QList<int>, priorities);
        QFETCH(QByteArray, order);
        SchedulerOptions given = budget(1000);
        given.policy = SchedulingPolicy::priority;
        Bench bench(given, pool(100));
        for (const int priority : priorities) bench.add(4, 2, priority);
        QCOMPARE(bench.waiting(), order);
        bench.step();
        QByteArray ran;
        for (const Request* request : bench.scheduler->running()) ran += request->name.c_str();
        QCOMPARE(ran, order);
    }

    void theLeastImportantAndYoungestIsPreemptedAndUndone() {
        SchedulerOptions given = budget(100);
        given.policy = SchedulingPolicy::priority;
        Bench bench(given, pool(7));  // 6 blocks
        bench.add(31, 20, 5);
        QCOMPARE(bench.step(), QByteArray("a31"));
        bench.add(47, 20, 1);
        QCOMPARE(bench.step(), QByteArray("a1 b47"));   // 2 + 3 blocks
        QCOMPARE(bench.step(), QByteArray("a1 b1"));    // a takes the sixth
        // a, scheduled before b in this step and with a block of it, gives way: budget and blocks are undone.
        QCOMPARE(bench.step(), QByteArray("b1"));
        QCOMPARE(bench.causes(EventKind::preempt), QByteArray("a:priority"));
        QCOMPARE(bench.waiting(), QByteArray("a"));
        bench.run();
        QCOMPARE(bench.request("a").output_tokens(), 20u);
    }

    void S6_aStepThatPreemptedAdmitsNobody() {
        SchedulerOptions given = budget(100);
        given.reserve_full_prompt = false;
        Bench bench(given, pool(5));  // 4 blocks
        bench.add(31, 20);
        bench.add(31, 20);
        QCOMPARE(bench.step(), QByteArray("a31 b31"));
        bench.add(1, 2);                                // would fit, once b is gone
        QCOMPARE(bench.step(), QByteArray("a1 b1"));
        QCOMPARE(bench.causes(EventKind::refuse), QByteArray("c:pool_too_full"));
        QCOMPARE(bench.step(), QByteArray("a1"));
        QCOMPARE(bench.causes(EventKind::preempt), QByteArray("b:last_running"));
        QCOMPARE(bench.causes(EventKind::refuse), QByteArray("c:preempted_this_step"));
        QCOMPARE(bench.waiting(), QByteArray("bc"));    // the victim stands at the head
        bench.run();
        for (const char* name : {"a", "b", "c"}) QCOMPARE(bench.request(name).output_tokens(), bench.request(name).new_tokens());
    }

    void S7_shortPromptsDoNotOvertakeAHeadThatDoesNotFitThePool() {
        Bench bench(budget(1000), pool(11));
        bench.add(100, 20);  // 7 of 10 blocks
        bench.add(60, 10);   // 4
        bench.add(5, 2);     // would fit
        QCOMPARE(bench.step(), QByteArray("a100"));
        QCOMPARE(bench.causes(EventKind::refuse), QByteArray("b:pool_too_full"));
        QCOMPARE(bench.step(), QByteArray("a1"));
        QCOMPARE(bench.causes(EventKind::refuse), QByteArray(""));  // said once
        for (int i = 2; i < 20; ++i) QCOMPARE(bench.step(), QByteArray("a1"));
        QCOMPARE(bench.step(), QByteArray("b60 c5"));  // the first has ended
    }

    void S8_hitsAreCountedOnceAndApartAfterAPreemption() {
        SchedulerOptions given = budget(1000);
        CacheManagerOptions cache = pool(7);
        cache.prefix_caching = true;
        Bench bench(given, cache);
        std::vector<TokenId> tokens(48);
        for (int i = 0; i < 48; ++i) tokens[std::size_t(i)] = 100 + i;
        bench.add(tokens, 2);
        bench.run();
        bench.add(64, 20);                       // takes 4 of the 6 free blocks, so that the next must wait
        QCOMPARE(bench.step(), QByteArray("b64"));
        tokens.resize(47);                       // two full blocks of it can be hit
        tokens.push_back(7);
        bench.add(tokens, 4);
        for (int i = 0; i < 3; ++i) {
            bench.step();
            QCOMPARE(bench.schedule.queried_tokens, std::uint64_t(0));  // retried in every step, counted in none
        }
        bench.run_until("c");
        QCOMPARE(bench.schedule.queried_tokens, std::uint64_t(48));
        QVERIFY(bench.schedule.hit_tokens <= 32);
        bench.preempt("c");
        bench.step();
        bench.run_until("c");
        QCOMPARE(bench.schedule.queried_tokens, std::uint64_t(0));
        QVERIFY(bench.schedule.preempted_queried_tokens >= 48);
        QVERIFY(bench.schedule.preempted_hit_tokens >= 32);             // its own blocks
        bench.run();
        Bench uncached(given, pool(7));
        uncached.add(48, 2);
        uncached.step();
        QCOMPARE(uncached.schedule.queried_tokens, std::uint64_t(0));   // caching off: 0/0
    }

    void S9_resettingNeedsAllToBePreemptedAndKeepsTheirOrder() {
        CacheManagerOptions cache = pool(40);
        cache.prefix_caching = true;
        Bench bench(budget(1000), cache);
        for (int i = 0; i < 10; ++i) bench.add(20, 5);
        bench.step();
        QCOMPARE(bench.scheduler->running().size(), std::size_t(10));
        QVERIFY(!bench.cache->plan_reset());
        for (const char name : QByteArray("jihgfedcba")) bench.preempt(QByteArray(1, name).constData());
        QVERIFY(bench.cache->plan_reset());
        QCOMPARE(bench.waiting(), QByteArray("abcdefghij"));
        bench.run();
    }

    void S10_aRequestLongerThanPoolOrContextIsRejected() {
        Bench bench(budget(1000), pool(11), 1000);
        Request& request = bench.add(100, 61);  // 160 slots: exactly the pool
        QVERIFY(!bench.scheduler->rejection(request));
        request.max_new_tokens = 62;
        auto rejection = bench.scheduler->rejection(request);
        QVERIFY(rejection);
        QCOMPARE(int(rejection->cause), int(Cause::exceeds_pool));
        QCOMPARE(rejection->needed, 161u);
        QCOMPARE(rejection->there_are, 160u);
        QVERIFY(rejection->sentence.find("161") != std::string::npos);
        Scheduler small(budget(1000), bench.cache.get(), 160);
        rejection = small.rejection(request);
        QCOMPARE(int(rejection->cause), int(Cause::exceeds_context));
        request.max_new_tokens = 4'000'000'000u;
        QVERIFY(bench.scheduler->rejection(request));
        request.max_new_tokens = 2;
        request.width = 257;
        QCOMPARE(int(bench.scheduler->rejection(request)->cause), int(Cause::capacity));
    }

    void aPromptThatNoStepCanTakeIsRejectedWithoutChunks() {
        SchedulerOptions given = budget(64);
        given.chunked_prefill = false;
        Bench bench(given, pool(100));
        const auto rejection = bench.scheduler->rejection(bench.add(65, 1));
        QVERIFY(rejection);
        QCOMPARE(int(rejection->cause), int(Cause::capacity));
    }

    void noMoreThanMaxNumSeqsRun() {
        Bench bench(budget(1000, 2), pool(100));
        for (int i = 0; i < 4; ++i) bench.add(3, 3);
        QCOMPARE(bench.step(), QByteArray("a3 b3"));
        QCOMPARE(bench.causes(EventKind::refuse), QByteArray("c:batch_full"));
        QCOMPARE(bench.step(), QByteArray("a1 b1"));
        QCOMPARE(bench.step(), QByteArray("a1 b1"));
        QCOMPARE(bench.step(), QByteArray("c3 d3"));
    }

    void theGateKeepsAPromptOutThatDoesNotFitAsAWhole() {
        for (const bool gate : {true, false}) {
            SchedulerOptions given = budget(20);
            given.reserve_full_prompt = gate;
            Bench bench(given, pool(7));  // 6 blocks
            bench.add(16, 30);
            bench.add(90, 2);             // 6 blocks; its first piece would fit
            QCOMPARE(bench.step(), gate ? QByteArray("a16") : QByteArray("a16 b4"));
            QCOMPARE(bench.causes(EventKind::refuse), gate ? QByteArray("b:prompt_too_long_now") : QByteArray());
            bench.run();
            QCOMPARE(bench.preemptions > 0, !gate);
        }
    }

    void theWatermarkIsLeftFreeUnlessNothingElseRuns() {
        CacheManagerOptions cache = pool(11);
        cache.watermark_blocks = 4;
        Bench bench(budget(1000), cache);
        bench.add(64, 30);
        bench.add(48, 30);
        QCOMPARE(bench.step(), QByteArray("a64"));  // 6 free: 3 would leave fewer than 4
        QCOMPARE(bench.causes(EventKind::refuse), QByteArray("b:below_watermark"));
        Bench alone(budget(1000), cache);
        alone.add(112, 2);                          // 7 of 10
        QCOMPARE(alone.step(), QByteArray("a112"));
    }

    void sglangTakesTheShortestOutputThenTheLongestInput() {
        SchedulerOptions given = budget(1000);
        given.victim = VictimRule::sglang;
        Bench bench(given, pool(9));  // 8 blocks
        bench.add(30, 40);            // 2 blocks, oldest
        bench.step();
        bench.add(16, 40);
        bench.add(46, 40);            // as young, longer input
        QCOMPARE(bench.step(), QByteArray("a1 b16 c46"));  // 2 + 1 + 3
        QCOMPARE(bench.step(), QByteArray("a1 b1 c1"));    // 2 + 2 + 3
        QCOMPARE(bench.step(), QByteArray("a1 b1 c1"));    // 3 + 2 + 3
        QCOMPARE(bench.step(), QByteArray("a1 b1"));
        QCOMPARE(bench.causes(EventKind::preempt), QByteArray("c:shortest_output"));
        bench.run();
    }

    void decodingComesBeforeThePromptsThatWait() {
        Bench bench(budget(4), pool(100));
        bench.add(3, 5);
        bench.add(6, 2);
        QCOMPARE(bench.step(), QByteArray("a3 b1"));
        QCOMPARE(bench.step(), QByteArray("a1 b3"));
        QCOMPARE(bench.step(), QByteArray("a1 b2"));
    }

    void aRequestThatEndsWithItsFirstTokenNeedsOnlyItsPrompt() {
        CacheManagerOptions cache = pool(2, 4);  // one usable block
        Bench bench(budget(100), cache);
        QCOMPARE(bench.add(4, 1).slots_needed(), std::uint64_t(4));
        QCOMPARE(bench.step(), QByteArray("a4"));
        QCOMPARE(bench.cache->used_blocks(), 0u);
    }

    void withoutACacheTheWholePrefixIsComputedInEveryStep() {
        Scheduler scheduler(budget(4), nullptr, 14);
        Request request;
        request.tokens.assign(10, 0);
        request.prompt_tokens = 10;
        request.max_new_tokens = 5;
        QVERIFY(!scheduler.rejection(request));
        QVERIFY(Scheduler(budget(4), nullptr, 13).rejection(request));
        scheduler.arrive(request);
        for (std::uint32_t step = 0; step < 3; ++step) {
            const auto schedule = scheduler.schedule();
            QVERIFY(schedule);
            QCOMPARE(schedule->sequences[0].first, 0u);
            QCOMPARE(schedule->sequences[0].count, 10 + step);
            QCOMPARE(int(schedule->sequences[0].cause), int(step == 0 ? Cause::whole_prompt : Cause::no_kv_cache));
            request.computed = request.size();
            request.tokens.push_back(0);
        }
    }
};

QTEST_GUILESS_MAIN(TestScheduler)
#include "tst_scheduler.moc"
