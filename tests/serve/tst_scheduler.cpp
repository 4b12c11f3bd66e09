// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles S1, S2, S7 and S10 of CACHE_SEMANTICS section 2, and the admission rule: a request runs only when the pool can
// hold its prompt + new tokens - 1 beside the same of all that run.
#include <QRegularExpression>
#include <QTest>

#include "engine/cache/auditor.h"
#include "engine/serve/scheduler.h"

#include <memory>
#include <random>

using namespace kvloupe;

namespace {

// Drives a scheduler as a lane does, with token 0 as every sampled token.
struct Bench {
    ReservingCache cache;
    Scheduler scheduler;
    std::vector<std::unique_ptr<Request>> requests;

    Bench(SchedulerOptions options, std::uint32_t blocks, std::uint32_t block_size)
        : cache(blocks, block_size), scheduler(options, &cache) {}

    Request& add(std::uint32_t prompt, std::uint32_t new_tokens) {
        auto request = std::make_unique<Request>();
        request->name = std::string(1, char('a' + requests.size()));
        request->sequence = SequenceId{std::uint32_t(requests.size())};
        request->tokens.assign(prompt, 0);
        request->prompt_tokens = prompt;
        request->max_new_tokens = new_tokens;
        requests.push_back(std::move(request));
        scheduler.arrive(*requests.back());
        return *requests.back();
    }
    // "a400 b1": who computed how many tokens.
    QByteArray step(Schedule* seen = nullptr) {
        auto schedule = scheduler.schedule();
        if (!schedule) return QByteArray::fromStdString(schedule.error().message());
        QByteArray line;
        for (const ScheduledSequence& scheduled : schedule->sequences) {
            Request& request = *scheduled.request;
            line += QByteArray::fromStdString(request.name) + QByteArray::number(scheduled.count) + ' ';
            request.computed = scheduled.first + scheduled.count;
            if (request.to_compute() > 0) continue;
            request.tokens.push_back(0);
            if (request.output_tokens() == request.new_tokens()) {
                if (!cache.apply(cache.plan_release(request.sequence))) return "release failed";
                scheduler.remove(request);
            }
        }
        if (const auto sound = audit(cache); !sound) return QByteArray::fromStdString(sound.error().message());
        if (seen) *seen = std::move(*schedule);
        return line.trimmed();
    }
};

SchedulerOptions options(std::uint32_t budget, std::uint32_t sequences = 256) {
    SchedulerOptions result;
    result.max_num_batched_tokens = budget;
    result.max_num_seqs = sequences;
    return result;
}

}  // namespace

class TestScheduler : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void longPromptsShareTheBudgetUnderTheirThreshold() {  // S1
        SchedulerOptions given = options(1024);
        given.long_prefill_token_threshold = 400;
        Bench bench(given, 1000, 16);
        for (int i = 0; i < 3; ++i) bench.add(800, 10);
        Schedule schedule;
        QCOMPARE(bench.step(&schedule), QByteArray("a400 b400 c224"));
        QCOMPARE(int(schedule.sequences[0].cause), int(Cause::token_budget));
        QCOMPARE(bench.step(&schedule), QByteArray("a400 b400 c224"));
        QCOMPARE(int(schedule.sequences[0].cause), int(Cause::whole_prompt));
        QCOMPARE(bench.step(&schedule), QByteArray("a1 b1 c352"));
        QCOMPARE(int(schedule.sequences[0].cause), int(Cause::next_token));
        QCOMPARE(schedule.sequences[2].first, 448u);
    }

    void shortPromptsDoNotOvertakeAHeadThatDoesNotFitTheBudget() {  // S2
        for (const bool chunked : {true, false}) {
            SchedulerOptions given = options(1024, 3);
            given.chunked_prefill = chunked;
            Bench bench(given, 1000, 16);
            for (const std::uint32_t prompt : {800u, 800u, 10u, 10u}) bench.add(prompt, 4);
            QCOMPARE(bench.step(), chunked ? QByteArray("a800 b224") : QByteArray("a800"));
        }
    }

    void shortPromptsDoNotOvertakeAHeadThatDoesNotFitThePool() {  // S7
        Bench bench(options(1000), 11, 16);
        bench.add(100, 20);  // 119 slots, 8 of 10 blocks
        Request& large = bench.add(60, 10);
        bench.add(5, 2);     // would fit
        Schedule schedule;
        QCOMPARE(bench.step(&schedule), QByteArray("a100"));
        QVERIFY(schedule.refusal);
        QCOMPARE(schedule.refusal->request, &large);
        QCOMPARE(int(schedule.refusal->cause), int(Cause::pool_too_full));
        QCOMPARE(schedule.refusal->blocks_needed, 5u);
        QCOMPARE(schedule.refusal->blocks_available, 2u);
        for (int i = 1; i < 20; ++i) QCOMPARE(bench.step(), QByteArray("a1"));
        QCOMPARE(bench.step(), QByteArray("b60 c5"));  // the first has ended
    }

    void aRequestLongerThanPoolOrContextIsRejected() {  // S10
        Bench bench(options(1000), 11, 16);
        Request request;
        request.name = "a";
        request.prompt_tokens = 100;
        request.tokens.assign(100, 0);
        request.max_new_tokens = 61;  // 160 slots: exactly the pool
        QVERIFY(!bench.scheduler.rejection(request, 1000));
        request.max_new_tokens = 62;
        auto rejection = bench.scheduler.rejection(request, 1000);
        QVERIFY(rejection);
        QCOMPARE(int(rejection->cause), int(Cause::exceeds_pool));
        QCOMPARE(rejection->needed, 161u);
        QCOMPARE(rejection->there_are, 160u);
        QVERIFY(rejection->sentence.find("161") != std::string::npos);
        rejection = bench.scheduler.rejection(request, 160);
        QCOMPARE(int(rejection->cause), int(Cause::exceeds_context));
        request.max_new_tokens = 4'000'000'000u;
        QVERIFY(bench.scheduler.rejection(request, 1000));
    }

    void aPromptThatNoStepCanTakeIsRejectedWithoutChunks() {
        SchedulerOptions given = options(64);
        given.chunked_prefill = false;
        Bench bench(given, 100, 16);
        Request request;
        request.prompt_tokens = 65;
        request.tokens.assign(65, 0);
        request.max_new_tokens = 1;
        const auto rejection = bench.scheduler.rejection(request, 1000);
        QVERIFY(rejection);
        QCOMPARE(int(rejection->cause), int(Cause::capacity));
    }

    void noMoreThanMaxNumSeqsRun() {
        Bench bench(options(1000, 2), 100, 16);
        for (int i = 0; i < 4; ++i) bench.add(3, 3);
        Schedule schedule;
        QCOMPARE(bench.step(&schedule), QByteArray("a3 b3"));
        QCOMPARE(int(schedule.refusal->cause), int(Cause::batch_full));
        QCOMPARE(bench.step(), QByteArray("a1 b1"));
        QCOMPARE(bench.step(), QByteArray("a1 b1"));
        QCOMPARE(bench.step(), QByteArray("c3 d3"));
    }

    void decodingComesBeforeThePromptsThatWait() {
        Bench bench(options(4), 100, 16);
        bench.add(3, 5);
        bench.add(6, 2);
        QCOMPARE(bench.step(), QByteArray("a3 b1"));
        QCOMPARE(bench.step(), QByteArray("a1 b3"));
        QCOMPARE(bench.step(), QByteArray("a1 b2"));
    }

    void aRequestThatEndsWithItsFirstTokenNeedsOnlyItsPrompt() {
        Bench bench(options(100), 2, 4);  // one usable block
        QCOMPARE(bench.add(4, 1).slots_needed(), std::uint64_t(4));
        QCOMPARE(bench.step(), QByteArray("a4"));
        QCOMPARE(bench.cache.pool().free_count(), 1u);
    }

    void withoutACacheTheWholePrefixIsComputedInEveryStep() {
        Scheduler scheduler(options(4), nullptr);
        Request request;
        request.tokens.assign(10, 0);
        request.prompt_tokens = 10;
        request.max_new_tokens = 5;
        QVERIFY(!scheduler.rejection(request, 14));
        QVERIFY(scheduler.rejection(request, 13));
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

    void randomWorkNeverRunsOutOfBlocksAndEndsInOrderOfAdmission() {
        std::mt19937 random(3);
        for (int round = 0; round < 20; ++round) {
            SchedulerOptions given = options(1 + random() % 40, 1 + random() % 6);
            given.long_prefill_token_threshold = random() % 2 ? random() % 20 : 0;
            Bench bench(given, 2 + random() % 30, 1 + random() % 8);
            int runnable = 0, steps = 0;
            for (int i = 0; i < 25; ++i) {
                Request& request = bench.add(1 + random() % 30, 1 + random() % 20);
                if (bench.scheduler.rejection(request, 10000)) bench.scheduler.remove(request);
                else ++runnable;
            }
            while (!bench.scheduler.running().empty() || !bench.scheduler.waiting().empty()) {
                QVERIFY(++steps < 25 * 60);
                const QByteArray line = bench.step();
                QVERIFY2(!line.isEmpty() && !line.contains("defect") && !line.contains("blocks"), line.constData());
            }
            for (const auto& request : bench.requests)
                if (request->computed > 0) {
                    QCOMPARE(request->output_tokens(), request->new_tokens());
                    --runnable;
                }
            QCOMPARE(runnable, 0);
            QCOMPARE(bench.cache.pool().used_count(), 0u);
        }
    }
};

QTEST_GUILESS_MAIN(TestScheduler)
#include "tst_scheduler.moc"
