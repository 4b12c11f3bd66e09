// SPDX-License-Identifier: GPL-3.0-or-later
//
// Preemption by swapping, static batches (K4 of CACHE_SEMANTICS section 2), and random work under all policies.
#include <QRegularExpression>
#include <QTest>

#include "tests/serve/scheduler_bench.h"

#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

class TestSchedulerPolicies : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void swappingKeepsWhatWasComputed() {
        SchedulerOptions given = budget(1000);
        given.preemption = PreemptionMode::swap;
        CacheManagerOptions cache = pool(5);
        cache.host_blocks = 3;
        Bench bench(given, cache);
        bench.add(31, 20);
        bench.add(31, 20);
        QCOMPARE(bench.step(), QByteArray("a31 b31"));
        QCOMPARE(bench.step(), QByteArray("a1 b1"));
        QCOMPARE(bench.step(), QByteArray("a1"));
        QCOMPARE(int(bench.request("b").status), int(RequestStatus::swapped));
        QCOMPARE(bench.request("b").computed, 32u);
        QCOMPARE(bench.cache->host_blocks_used(), 2u);
        QCOMPARE(bench.count(EventKind::swap_out), 2);
        bench.run_until("b");
        QCOMPARE(bench.step_text, QByteArray("b1"));       // goes on where it was
        QCOMPARE(bench.count(EventKind::swap_in), 2);
        QCOMPARE(bench.cache->host_blocks_used(), 0u);
        bench.run();
        QCOMPARE(bench.request("b").output_tokens(), 20u);
    }

    void withoutRoomOnTheHostAVictimIsComputedAgain() {
        SchedulerOptions given = budget(1000);
        given.preemption = PreemptionMode::swap;
        CacheManagerOptions cache = pool(5);
        cache.host_blocks = 1;
        Bench bench(given, cache);
        bench.add(31, 20);
        bench.add(31, 20);
        for (int i = 0; i < 3; ++i) bench.step();
        QCOMPARE(int(bench.request("b").status), int(RequestStatus::preempted));
        QCOMPARE(bench.cache->host_blocks_used(), 0u);
        bench.run_until("b");
        QCOMPARE(bench.step_text, QByteArray("b33"));
        QVERIFY(bench.schedule.sequences[0].prefill);
        bench.run();
    }

    void K4_aStaticBatchLastsUntilItsLongestMemberEnds() {
        const auto steps = [](Batching batching, int times) {
            SchedulerOptions given = budget(1000, 4);
            given.batching = batching;
            Bench bench(given, pool(100));
            for (int i = 0; i < times; ++i)
                for (const std::uint32_t output : {10u, 20u, 30u, 40u}) bench.add(1, output);
            bench.run();
            return QPair<int, std::uint64_t>(bench.steps, bench.computed);
        };
        QCOMPARE(steps(Batching::fixed, 1).first, 40);
        QCOMPARE(double(steps(Batching::fixed, 1).second) / (40 * 4), 0.625);  // of the batch's slots
        QCOMPARE(steps(Batching::fixed, 2).first, 80);
        QCOMPARE(steps(Batching::continuous, 2).first, 70);
        QVERIFY(steps(Batching::continuous, 2).second / 4 == 50);              // no schedule can be shorter
    }

    void preemptedMembersComeBackIntoTheirBatch() {
        SchedulerOptions given = budget(1000, 8);
        given.batching = Batching::fixed;
        Bench bench(given, pool(5));
        bench.add(31, 30);
        bench.add(31, 30);
        QCOMPARE(bench.step(), QByteArray("a31 b31"));
        bench.add(3, 2);
        bench.step();
        QCOMPARE(bench.causes(EventKind::refuse), QByteArray("c:batch_running"));
        bench.run();
        QVERIFY(bench.preemptions > 0);
        for (const char* name : {"a", "b", "c"}) QCOMPARE(bench.request(name).output_tokens(), bench.request(name).new_tokens());
        QVERIFY(bench.ended.indexOf("c") == 2);
    }

    // Whatever the policies: nobody is lost, everybody ends with all its tokens, the pool is empty at the end, and the
    // cache's invariants hold after every step.
    void randomWorkEndsUnderAllPolicies() {
        std::mt19937 random(3);
        int preempted = 0;
        for (int round = 0; round < 200; ++round) {
            SchedulerOptions given = budget(1 + random() % 40, 1 + random() % 6);
            given.long_prefill_token_threshold = random() % 2 ? random() % 20 : 0;
            given.chunked_prefill = random() % 4 != 0;
            given.batching = random() % 4 ? Batching::continuous : Batching::fixed;
            given.policy = random() % 2 ? SchedulingPolicy::fcfs : SchedulingPolicy::priority;
            given.victim = random() % 2 ? VictimRule::vllm : VictimRule::sglang;
            given.preemption = random() % 2 ? PreemptionMode::recompute : PreemptionMode::swap;
            given.reserve_full_prompt = random() % 2;
            CacheManagerOptions cache = pool(2 + random() % 30, 1 + random() % 8);
            cache.host_blocks = given.preemption == PreemptionMode::swap ? 1 + random() % 10 : 0;
            cache.prefix_caching = random() % 2;
            cache.watermark_blocks = cache.blocks > 4 ? random() % 3 : 0;
            cache.free_order = random() % 2 ? FreeOrder::vllm : FreeOrder::append;
            if (random() % 3 == 0) cache.groups[0].span = {1 + std::uint32_t(random() % 12), std::uint32_t(random() % 3), 0};
            Bench bench(given, cache);
            int runnable = 0;
            for (int i = 0; i < 25; ++i) {
                Request& request = bench.add(1 + random() % 30, 1 + random() % 20, int(random() % 5));
                if (bench.scheduler->rejection(request)) bench.scheduler->remove(request);
                else ++runnable;
            }
            bench.run();
            QVERIFY2(bench.problem.isEmpty(), (QByteArray::number(round) + ": " + bench.problem).constData());
            QCOMPARE(bench.ended.size(), runnable);
            for (const QByteArray& name : bench.ended)
                QCOMPARE(bench.request(name.constData()).output_tokens(), bench.request(name.constData()).new_tokens());
            QCOMPARE(bench.cache->used_blocks(), 0u);
            QCOMPARE(bench.cache->host_blocks_used(), 0u);
            preempted += bench.preemptions;
        }
        QVERIFY(preempted > 100);
    }
};

QTEST_GUILESS_MAIN(TestSchedulerPolicies)
#include "tst_scheduler_policies.moc"
