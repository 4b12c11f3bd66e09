// SPDX-License-Identifier: GPL-3.0-or-later
//
// What one scheduling step costs while 256 requests decode, and one whole step of an accounting lane (scheduling,
// recording, counting of slots). CPU time of the one thread.
//
//   kvloupe_scheduler_bench
#include "engine/serve/scheduler.h"
#include "engine/serve/session.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

using namespace kvloupe;

namespace {

double now_us() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}

void print(const char* what, std::vector<double> times, double at_most) {
    std::sort(times.begin(), times.end());
    std::printf("%-62s median %7.1f us, 99th percentile %7.1f us", what, times[times.size() / 2], times[times.size() * 99 / 100]);
    if (at_most > 0) std::printf(" (at most %.0f us)", at_most);
    std::printf("\n");
}

void schedule_256(const char* what, const CacheManagerOptions& pool, const SchedulerOptions& options) {
    auto made = CacheManager::create(pool);
    if (!made) std::exit(1);
    CacheManager& cache = **made;
    Scheduler scheduler(options, &cache, 0);
    std::vector<std::unique_ptr<Request>> requests;
    for (std::uint32_t i = 0; i < 256; ++i) {
        auto request = std::make_unique<Request>();
        request->sequence = SequenceId{i};
        for (std::uint32_t t = 0; t < 200 + i; ++t) request->tokens.push_back(static_cast<TokenId>(i * 10000 + t));
        request->prompt_tokens = request->size();
        request->max_new_tokens = 100000;
        scheduler.arrive(*request);
        requests.push_back(std::move(request));
    }
    std::vector<double> times;
    for (int step = 0; step < 2200; ++step) {
        const double begin = now_us();
        auto schedule = scheduler.schedule();
        const double end = now_us();
        if (!schedule || (step > 100 && schedule->sequences.size() != 256)) std::exit(1);
        if (step >= 200) times.push_back(end - begin);  // all prompts are computed by then
        for (const ScheduledSequence& scheduled : schedule->sequences) {
            Request& request = *scheduled.request;
            request.computed += scheduled.count;
            if (request.to_compute() == 0) request.tokens.push_back(static_cast<TokenId>(step));
        }
    }
    print(what, std::move(times), 50);
}

}  // namespace

int main() {
    CacheManagerOptions pool;
    pool.blocks = 60000;
    SchedulerOptions options;
    options.max_num_batched_tokens = 8192;
    schedule_256("schedule(), 256 decoding, no prefix caching", pool, options);
    pool.prefix_caching = true;
    schedule_256("schedule(), 256 decoding, prefix caching (16 blocks hashed a step)", pool, options);
    options.policy = SchedulingPolicy::priority;
    schedule_256("schedule(), 256 decoding, priorities", pool, options);

    Scenario scenario;
    scenario.model = "none";
    LaneOptions lane;
    lane.cache.blocks = 60000;
    lane.scheduler.max_num_batched_tokens = 8192;
    scenario.lanes = {lane};
    for (int i = 0; i < 256; ++i) {
        RequestOptions request;
        request.id = "r" + std::to_string(i);
        request.prompt_tokens = std::vector<TokenId>(200, i);
        request.max_new_tokens = 2000;
        scenario.requests.push_back(std::move(request));
    }
    auto session = Session::create(scenario, {});
    if (!session || !(*session)->run_to_end()) return 1;
    const auto recording = (*session)->recording();
    const LaneRecord& record = recording->lane(LaneId{0});
    std::vector<double> whole;
    for (std::size_t i = 100; i < record.step_count(); ++i) whole.push_back(static_cast<double>(record.step(i).duration_ns) / 1e3);
    print("a whole step of an accounting lane, 256 decoding (wall clock)", std::move(whole), 0);
    return 0;
}
