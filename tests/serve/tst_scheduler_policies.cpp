// SPDX-License-Identifier: GPL-3.0-or-later
//
// Preemption by swapping, static batches (K4 of CACHE_SEMANTICS section 2), and random work under all policies.
#include "tests/serve/scheduler_bench.h"
#include "tests/support/claims.h"

#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

void swappingKeepsWhatWasComputed(Check& check) {
    SchedulerOptions given = budget(1000);
    given.preemption = PreemptionMode::swap;
    CacheManagerOptions cache = pool(5);
    cache.host_blocks = 3;
    Bench bench(given, cache);
    bench.add(31, 20);
    bench.add(31, 20);
    CHECK_EQUAL(bench.step(), "a31 b31");
    CHECK_EQUAL(bench.step(), "a1 b1");
    CHECK_EQUAL(bench.step(), "a1");
    CHECK_EQUAL(int(bench.request("b").status), int(RequestStatus::swapped));
    CHECK_EQUAL(bench.request("b").computed, 32u);
    CHECK_EQUAL(bench.cache->host_blocks_used(), 2u);
    CHECK_EQUAL(bench.count(EventKind::swap_out), 2);
    bench.run_until("b");
    CHECK_EQUAL(bench.step_text, "b1");       // goes on where it was
    CHECK_EQUAL(bench.count(EventKind::swap_in), 2);
    CHECK_EQUAL(bench.cache->host_blocks_used(), 0u);
    bench.run();
    CHECK_EQUAL(bench.request("b").output_tokens(), 20u);
}

void withoutRoomOnTheHostAVictimIsComputedAgain(Check& check) {
    SchedulerOptions given = budget(1000);
    given.preemption = PreemptionMode::swap;
    CacheManagerOptions cache = pool(5);
    cache.host_blocks = 1;
    Bench bench(given, cache);
    bench.add(31, 20);
    bench.add(31, 20);
    for (int i = 0; i < 3; ++i) bench.step();
    CHECK_EQUAL(int(bench.request("b").status), int(RequestStatus::preempted));
    CHECK_EQUAL(bench.cache->host_blocks_used(), 0u);
    bench.run_until("b");
    CHECK_EQUAL(bench.step_text, "b33");
    CHECK_THAT(bench.schedule.sequences[0].prefill);
    bench.run();
}

void K4_aStaticBatchLastsUntilItsLongestMemberEnds(Check& check) {
    const auto steps = [](Batching batching, int times) {
        SchedulerOptions given = budget(1000, 4);
        given.batching = batching;
        Bench bench(given, pool(100));
        for (int i = 0; i < times; ++i)
            for (const std::uint32_t output : {10u, 20u, 30u, 40u}) bench.add(1, output);
        bench.run();
        return std::pair<int, std::uint64_t>(bench.steps, bench.computed);
    };
    CHECK_EQUAL(steps(Batching::fixed, 1).first, 40);
    CHECK_EQUAL(double(steps(Batching::fixed, 1).second) / (40 * 4), 0.625);  // of the batch's slots
    CHECK_EQUAL(steps(Batching::fixed, 2).first, 80);
    CHECK_EQUAL(steps(Batching::continuous, 2).first, 70);
    CHECK_THAT(steps(Batching::continuous, 2).second / 4 == 50);              // no schedule can be shorter
}

void preemptedMembersComeBackIntoTheirBatch(Check& check) {
    SchedulerOptions given = budget(1000, 8);
    given.batching = Batching::fixed;
    Bench bench(given, pool(5));
    bench.add(31, 30);
    bench.add(31, 30);
    CHECK_EQUAL(bench.step(), "a31 b31");
    bench.add(3, 2);
    bench.step();
    CHECK_EQUAL(bench.causes(EventKind::refuse), "c:batch_running");
    bench.run();
    CHECK_THAT(bench.preemptions > 0);
    for (const char* name : {"a", "b", "c"}) CHECK_EQUAL(bench.request(name).output_tokens(), bench.request(name).new_tokens());
    CHECK_THAT(bench.ended.size() > 2 && bench.ended[2] == "c");
}

// Whatever the policies: nobody is lost, everybody ends with all its tokens, the pool is empty at the end, and the
// cache's invariants hold after every step.
void randomWorkEndsUnderAllPolicies(Check& check) {
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
        CHECK_OR_SAY(bench.problem.empty(), (std::to_string(round) + ": " + bench.problem));
        CHECK_EQUAL(bench.ended.size(), runnable);
        for (const std::string& name : bench.ended)
            CHECK_EQUAL(bench.request(name.data()).output_tokens(), bench.request(name.data()).new_tokens());
        CHECK_EQUAL(bench.cache->used_blocks(), 0u);
        CHECK_EQUAL(bench.cache->host_blocks_used(), 0u);
        preempted += bench.preemptions;
    }
    CHECK_THAT(preempted > 100);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(swappingKeepsWhatWasComputed));
    claims.add(CLAIM(withoutRoomOnTheHostAVictimIsComputedAgain));
    claims.add(CLAIM(K4_aStaticBatchLastsUntilItsLongestMemberEnds));
    claims.add(CLAIM(preemptedMembersComeBackIntoTheirBatch));
    claims.add(CLAIM(randomWorkEndsUnderAllPolicies));
    return claims.rows();
}
