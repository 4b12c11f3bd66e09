// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles S1, S2, S3 (without asynchronous steps) and S5 to S10 of CACHE_SEMANTICS section 2; victims by vLLM's and by
// SGLang's rule.
#include "tests/serve/scheduler_bench.h"
#include "tests/support/claims.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

void S1_longPromptsShareTheBudgetUnderTheirThreshold(Check& check) {
    SchedulerOptions given = budget(1024);
    given.long_prefill_token_threshold = 400;
    Bench bench(given, pool(1000));
    for (int i = 0; i < 3; ++i) bench.add(800, 10);
    CHECK_EQUAL(bench.step(), "a400 b400 c224");
    CHECK_EQUAL(int(bench.schedule.sequences[0].cause), int(Cause::token_budget));
    CHECK_EQUAL(bench.step(), "a400 b400 c224");
    CHECK_EQUAL(int(bench.schedule.sequences[0].cause), int(Cause::whole_prompt));
    CHECK_EQUAL(bench.step(), "a1 b1 c352");
    CHECK_EQUAL(int(bench.schedule.sequences[0].cause), int(Cause::next_token));
    CHECK_EQUAL(bench.schedule.sequences[2].first, 448u);
}

void S2_shortPromptsDoNotOvertakeAHeadThatDoesNotFitTheBudget(Check& check) {
    for (const bool chunked : {true, false}) {
        SchedulerOptions given = budget(1024, 3);
        given.chunked_prefill = chunked;
        Bench bench(given, pool(1000));
        for (const std::uint32_t prompt : {800u, 800u, 10u, 10u}) bench.add(prompt, 4);
        CHECK_EQUAL(bench.step(), chunked ? std::string("a800 b224") : std::string("a800"));
        if (!chunked) CHECK_EQUAL(bench.causes(EventKind::refuse), "b:budget_used");
    }
}

void theLastThatRunsIsPreemptedForTheFirst(Check& check) {  // S3, without the step in flight
    Bench bench(budget(100), pool(11));
    bench.add(80, 10);
    bench.add(80, 10);
    CHECK_EQUAL(bench.step(), "a80 b20");
    CHECK_EQUAL(bench.step(), "a1");
    CHECK_EQUAL(bench.causes(EventKind::preempt), "b:last_running");
    CHECK_EQUAL(int(bench.request("b").status), int(RequestStatus::preempted));
    CHECK_EQUAL(bench.request("b").computed, 0u);
    CHECK_EQUAL(bench.waiting(), "b");
    bench.run();
    CHECK_EQUAL(bench.request("b").output_tokens(), 10u);
}

struct S5_waitingFollowsPriorityThenArrivalCase {
    std::vector<int> priorities;
    std::string order;
};
Cases<S5_waitingFollowsPriorityThenArrivalCase> S5_waitingFollowsPriorityThenArrival_cases() {
    Cases<S5_waitingFollowsPriorityThenArrivalCase> cases;
    cases.add("three", {std::vector<int>{2, 0, 1}, "bca"});
    cases.add("four", {std::vector<int>{3, 1, 2, 0}, "dbca"});
    cases.add("equal", {std::vector<int>{1, 1, 1}, "abc"});
    cases.add("below zero", {std::vector<int>{0, -5, 5}, "bac"});
    return cases;
}
void S5_waitingFollowsPriorityThenArrival(Check& check, const S5_waitingFollowsPriorityThenArrivalCase& row) {
    SchedulerOptions given = budget(1000);
    given.policy = SchedulingPolicy::priority;
    Bench bench(given, pool(100));
    for (const int priority : row.priorities) bench.add(4, 2, priority);
    CHECK_EQUAL(bench.waiting(), row.order);
    bench.step();
    std::string ran;
    for (const Request* request : bench.scheduler->running()) ran += request->name.c_str();
    CHECK_EQUAL(ran, row.order);
}

void theLeastImportantAndYoungestIsPreemptedAndUndone(Check& check) {
    SchedulerOptions given = budget(100);
    given.policy = SchedulingPolicy::priority;
    Bench bench(given, pool(7));  // 6 blocks
    bench.add(31, 20, 5);
    CHECK_EQUAL(bench.step(), "a31");
    bench.add(47, 20, 1);
    CHECK_EQUAL(bench.step(), "a1 b47");   // 2 + 3 blocks
    CHECK_EQUAL(bench.step(), "a1 b1");    // a takes the sixth
    // a, scheduled before b in this step and with a block of it, gives way: budget and blocks are undone.
    CHECK_EQUAL(bench.step(), "b1");
    CHECK_EQUAL(bench.causes(EventKind::preempt), "a:priority");
    CHECK_EQUAL(bench.waiting(), "a");
    bench.run();
    CHECK_EQUAL(bench.request("a").output_tokens(), 20u);
}

void S6_aStepThatPreemptedAdmitsNobody(Check& check) {
    SchedulerOptions given = budget(100);
    given.reserve_full_prompt = false;
    Bench bench(given, pool(5));  // 4 blocks
    bench.add(31, 20);
    bench.add(31, 20);
    CHECK_EQUAL(bench.step(), "a31 b31");
    bench.add(1, 2);                                // would fit, once b is gone
    CHECK_EQUAL(bench.step(), "a1 b1");
    CHECK_EQUAL(bench.causes(EventKind::refuse), "c:pool_too_full");
    CHECK_EQUAL(bench.step(), "a1");
    CHECK_EQUAL(bench.causes(EventKind::preempt), "b:last_running");
    CHECK_EQUAL(bench.causes(EventKind::refuse), "c:preempted_this_step");
    CHECK_EQUAL(bench.waiting(), "bc");    // the victim stands at the head
    bench.run();
    for (const char* name : {"a", "b", "c"}) CHECK_EQUAL(bench.request(name).output_tokens(), bench.request(name).new_tokens());
}

void S7_shortPromptsDoNotOvertakeAHeadThatDoesNotFitThePool(Check& check) {
    Bench bench(budget(1000), pool(11));
    bench.add(100, 20);  // 7 of 10 blocks
    bench.add(60, 10);   // 4
    bench.add(5, 2);     // would fit
    CHECK_EQUAL(bench.step(), "a100");
    CHECK_EQUAL(bench.causes(EventKind::refuse), "b:pool_too_full");
    CHECK_EQUAL(bench.step(), "a1");
    CHECK_EQUAL(bench.causes(EventKind::refuse), "");  // said once
    for (int i = 2; i < 20; ++i) CHECK_EQUAL(bench.step(), "a1");
    CHECK_EQUAL(bench.step(), "b60 c5");  // the first has ended
}

void S8_hitsAreCountedOnceAndApartAfterAPreemption(Check& check) {
    SchedulerOptions given = budget(1000);
    CacheManagerOptions cache = pool(7);
    cache.prefix_caching = true;
    Bench bench(given, cache);
    std::vector<TokenId> tokens(48);
    for (int i = 0; i < 48; ++i) tokens[std::size_t(i)] = 100 + i;
    bench.add(tokens, 2);
    bench.run();
    bench.add(64, 20);                       // takes 4 of the 6 free blocks, so that the next must wait
    CHECK_EQUAL(bench.step(), "b64");
    tokens.resize(47);                       // two full blocks of it can be hit
    tokens.push_back(7);
    bench.add(tokens, 4);
    for (int i = 0; i < 3; ++i) {
        bench.step();
        CHECK_EQUAL(bench.schedule.queried_tokens, std::uint64_t(0));  // retried in every step, counted in none
    }
    bench.run_until("c");
    CHECK_EQUAL(bench.schedule.queried_tokens, std::uint64_t(48));
    CHECK_THAT(bench.schedule.hit_tokens <= 32);
    bench.preempt("c");
    bench.step();
    bench.run_until("c");
    CHECK_EQUAL(bench.schedule.queried_tokens, std::uint64_t(0));
    CHECK_THAT(bench.schedule.preempted_queried_tokens >= 48);
    CHECK_THAT(bench.schedule.preempted_hit_tokens >= 32);             // its own blocks
    bench.run();
    Bench uncached(given, pool(7));
    uncached.add(48, 2);
    uncached.step();
    CHECK_EQUAL(uncached.schedule.queried_tokens, std::uint64_t(0));   // caching off: 0/0
}

void S9_resettingNeedsAllToBePreemptedAndKeepsTheirOrder(Check& check) {
    CacheManagerOptions cache = pool(40);
    cache.prefix_caching = true;
    Bench bench(budget(1000), cache);
    for (int i = 0; i < 10; ++i) bench.add(20, 5);
    bench.step();
    CHECK_EQUAL(bench.scheduler->running().size(), std::size_t(10));
    CHECK_THAT(!bench.cache->plan_reset());
    for (const char name : std::string("jihgfedcba")) bench.preempt(std::string(1, name).data());
    CHECK_THAT(bench.cache->plan_reset());
    CHECK_EQUAL(bench.waiting(), "abcdefghij");
    bench.run();
}

void S10_aRequestLongerThanPoolOrContextIsRejected(Check& check) {
    Bench bench(budget(1000), pool(11), 1000);
    Request& request = bench.add(100, 61);  // 160 slots: exactly the pool
    CHECK_THAT(!bench.scheduler->rejection(request));
    request.max_new_tokens = 62;
    auto rejection = bench.scheduler->rejection(request);
    CHECK_THAT(rejection);
    CHECK_EQUAL(int(rejection->cause), int(Cause::exceeds_pool));
    CHECK_EQUAL(rejection->needed, 161u);
    CHECK_EQUAL(rejection->there_are, 160u);
    CHECK_THAT(rejection->sentence.find("161") != std::string::npos);
    Scheduler small(budget(1000), bench.cache.get(), 160);
    rejection = small.rejection(request);
    CHECK_EQUAL(int(rejection->cause), int(Cause::exceeds_context));
    request.max_new_tokens = 4'000'000'000u;
    CHECK_THAT(bench.scheduler->rejection(request));
    request.max_new_tokens = 2;
    request.width = 257;
    CHECK_EQUAL(int(bench.scheduler->rejection(request)->cause), int(Cause::capacity));
}

void aPromptThatNoStepCanTakeIsRejectedWithoutChunks(Check& check) {
    SchedulerOptions given = budget(64);
    given.chunked_prefill = false;
    Bench bench(given, pool(100));
    const auto rejection = bench.scheduler->rejection(bench.add(65, 1));
    CHECK_THAT(rejection);
    CHECK_EQUAL(int(rejection->cause), int(Cause::capacity));
}

void noMoreThanMaxNumSeqsRun(Check& check) {
    Bench bench(budget(1000, 2), pool(100));
    for (int i = 0; i < 4; ++i) bench.add(3, 3);
    CHECK_EQUAL(bench.step(), "a3 b3");
    CHECK_EQUAL(bench.causes(EventKind::refuse), "c:batch_full");
    CHECK_EQUAL(bench.step(), "a1 b1");
    CHECK_EQUAL(bench.step(), "a1 b1");
    CHECK_EQUAL(bench.step(), "c3 d3");
}

void theGateKeepsAPromptOutThatDoesNotFitAsAWhole(Check& check) {
    for (const bool gate : {true, false}) {
        SchedulerOptions given = budget(20);
        given.reserve_full_prompt = gate;
        Bench bench(given, pool(7));  // 6 blocks
        bench.add(16, 30);
        bench.add(90, 2);             // 6 blocks; its first piece would fit
        CHECK_EQUAL(bench.step(), gate ? std::string("a16") : std::string("a16 b4"));
        CHECK_EQUAL(bench.causes(EventKind::refuse), gate ? std::string("b:prompt_too_long_now") : std::string());
        bench.run();
        CHECK_EQUAL(bench.preemptions > 0, !gate);
    }
}

void theWatermarkIsLeftFreeUnlessNothingElseRuns(Check& check) {
    CacheManagerOptions cache = pool(11);
    cache.watermark_blocks = 4;
    Bench bench(budget(1000), cache);
    bench.add(64, 30);
    bench.add(48, 30);
    CHECK_EQUAL(bench.step(), "a64");  // 6 free: 3 would leave fewer than 4
    CHECK_EQUAL(bench.causes(EventKind::refuse), "b:below_watermark");
    Bench alone(budget(1000), cache);
    alone.add(112, 2);                          // 7 of 10
    CHECK_EQUAL(alone.step(), "a112");
}

void sglangTakesTheShortestOutputThenTheLongestInput(Check& check) {
    SchedulerOptions given = budget(1000);
    given.victim = VictimRule::sglang;
    Bench bench(given, pool(9));  // 8 blocks
    bench.add(30, 40);            // 2 blocks, oldest
    bench.step();
    bench.add(16, 40);
    bench.add(46, 40);            // as young, longer input
    CHECK_EQUAL(bench.step(), "a1 b16 c46");  // 2 + 1 + 3
    CHECK_EQUAL(bench.step(), "a1 b1 c1");    // 2 + 2 + 3
    CHECK_EQUAL(bench.step(), "a1 b1 c1");    // 3 + 2 + 3
    CHECK_EQUAL(bench.step(), "a1 b1");
    CHECK_EQUAL(bench.causes(EventKind::preempt), "c:shortest_output");
    bench.run();
}

void decodingComesBeforeThePromptsThatWait(Check& check) {
    Bench bench(budget(4), pool(100));
    bench.add(3, 5);
    bench.add(6, 2);
    CHECK_EQUAL(bench.step(), "a3 b1");
    CHECK_EQUAL(bench.step(), "a1 b3");
    CHECK_EQUAL(bench.step(), "a1 b2");
}

void aRequestThatEndsWithItsFirstTokenNeedsOnlyItsPrompt(Check& check) {
    CacheManagerOptions cache = pool(2, 4);  // one usable block
    Bench bench(budget(100), cache);
    CHECK_EQUAL(bench.add(4, 1).slots_needed(), std::uint64_t(4));
    CHECK_EQUAL(bench.step(), "a4");
    CHECK_EQUAL(bench.cache->used_blocks(), 0u);
}

void withoutACacheTheWholePrefixIsComputedInEveryStep(Check& check) {
    Scheduler scheduler(budget(4), nullptr, 14);
    Request request;
    request.tokens.assign(10, 0);
    request.prompt_tokens = 10;
    request.max_new_tokens = 5;
    CHECK_THAT(!scheduler.rejection(request));
    CHECK_THAT(Scheduler(budget(4), nullptr, 13).rejection(request));
    scheduler.arrive(request);
    for (std::uint32_t step = 0; step < 3; ++step) {
        const auto schedule = scheduler.schedule();
        CHECK_THAT(schedule);
        CHECK_EQUAL(schedule->sequences[0].first, 0u);
        CHECK_EQUAL(schedule->sequences[0].count, 10 + step);
        CHECK_EQUAL(int(schedule->sequences[0].cause), int(step == 0 ? Cause::whole_prompt : Cause::no_kv_cache));
        request.computed = request.size();
        request.tokens.push_back(0);
    }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(S1_longPromptsShareTheBudgetUnderTheirThreshold));
    claims.add(CLAIM(S2_shortPromptsDoNotOvertakeAHeadThatDoesNotFitTheBudget));
    claims.add(CLAIM(theLastThatRunsIsPreemptedForTheFirst));
    claims.add(CLAIM(S5_waitingFollowsPriorityThenArrival), S5_waitingFollowsPriorityThenArrival_cases());
    claims.add(CLAIM(theLeastImportantAndYoungestIsPreemptedAndUndone));
    claims.add(CLAIM(S6_aStepThatPreemptedAdmitsNobody));
    claims.add(CLAIM(S7_shortPromptsDoNotOvertakeAHeadThatDoesNotFitThePool));
    claims.add(CLAIM(S8_hitsAreCountedOnceAndApartAfterAPreemption));
    claims.add(CLAIM(S9_resettingNeedsAllToBePreemptedAndKeepsTheirOrder));
    claims.add(CLAIM(S10_aRequestLongerThanPoolOrContextIsRejected));
    claims.add(CLAIM(aPromptThatNoStepCanTakeIsRejectedWithoutChunks));
    claims.add(CLAIM(noMoreThanMaxNumSeqsRun));
    claims.add(CLAIM(theGateKeepsAPromptOutThatDoesNotFitAsAWhole));
    claims.add(CLAIM(theWatermarkIsLeftFreeUnlessNothingElseRuns));
    claims.add(CLAIM(sglangTakesTheShortestOutputThenTheLongestInput));
    claims.add(CLAIM(decodingComesBeforeThePromptsThatWait));
    claims.add(CLAIM(aRequestThatEndsWithItsFirstTokenNeedsOnlyItsPrompt));
    claims.add(CLAIM(withoutACacheTheWholePrefixIsComputedInEveryStep));
    return claims.rows();
}
