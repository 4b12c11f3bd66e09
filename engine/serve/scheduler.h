// SPDX-License-Identifier: GPL-3.0-or-later
//
// Scheduler: who runs in a step and how many tokens each. Rules: CACHE_SEMANTICS 1.1 "Scheduler (one step)", first come
// first served; a request simply has tokens to do, there are no prefill and decode phases.
// Goals: knows no tensors; head-of-line blocking (the first that does not fit stops admission); nothing is ever
// preempted, because a request is admitted only when the pool can hold all that it may need beside all that those that
// run may need. Non-goals in this version: priorities, preemption, prefix hits.
// Rejected: admitting by the prompt alone (it needs preemption to be safe).
#pragma once

#include "engine/cache/reserving_cache.h"
#include "engine/record/result.h"
#include "engine/serve/request.h"
#include "engine/serve/scenario.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe {

struct ScheduledSequence {
    Request* request = nullptr;
    std::uint32_t first = 0;       // position of the first token to compute
    std::uint32_t count = 0;       // tokens to compute; without a cache: the whole prefix
    Cause cause = Cause::none;     // whole_prompt, token_budget, next_token or no_kv_cache
    bool admitted = false;         // in this step
    CacheChanges changes;          // blocks that it was given
};

struct Refusal {
    Request* request = nullptr;
    Cause cause = Cause::none;         // pool_too_full or batch_full
    std::uint32_t blocks_needed = 0;
    std::uint32_t blocks_available = 0;  // usable blocks that those that run cannot need
};

struct Schedule {
    std::vector<ScheduledSequence> sequences;  // in scheduling order
    std::optional<Refusal> refusal;            // of the head of the waiting queue
};

// Why a request can never run.
struct Rejection {
    Cause cause = Cause::none;      // exceeds_pool, exceeds_context or capacity
    std::uint32_t needed = 0;       // slots or tokens
    std::uint32_t there_are = 0;
    std::string sentence;
};

class Scheduler {
public:
    // cache: null for a lane without one. It is the only thing the scheduler changes besides its queues.
    Scheduler(const SchedulerOptions& options, ReservingCache* cache) : m_options(options), m_cache(cache) {}

    // Empty: it can run once there is room. context_length: of the model, in tokens.
    std::optional<Rejection> rejection(const Request& request, std::uint32_t context_length) const;

    void arrive(Request& request);

    // Running requests in order, then waiting ones from the head. Takes the blocks of what it schedules.
    // Errors: a defect (the pool did not hold what was reserved).
    Result<Schedule> schedule();

    // Takes a request out of its queue; its blocks are the caller's to release.
    void remove(Request& request);

    const std::vector<Request*>& running() const { return m_running; }
    const std::deque<Request*>& waiting() const { return m_waiting; }

private:
    std::uint32_t blocks_reserved_for(const Request& request) const;
    Result<void> take(Request& request, std::uint32_t& budget, bool admitted, Schedule& schedule);
    std::uint32_t tokens_for(const Request& request) const;

    SchedulerOptions m_options;
    ReservingCache* m_cache;
    std::vector<Request*> m_running;   // in order of admission
    std::deque<Request*> m_waiting;
    std::uint64_t m_reserved_blocks = 0;  // sum over m_running
};

}  // namespace kvloupe
