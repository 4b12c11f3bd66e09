// SPDX-License-Identifier: GPL-3.0-or-later
//
// Scheduler: who runs in a step and how many tokens each. Rules: CACHE_SEMANTICS 1.1 "Scheduler (one step)"; a request
// simply has tokens to do, there are no prefill and decode phases.
//
// Running requests come first, in order; while a block is missing for one of them, another is preempted, and what this
// step had given to it is undone. Then those that wait, from the head, unless the step preempted somebody; the first
// that does not fit stops admission (head-of-line blocking).
// Static batching: who is admitted together stays together; nobody joins until all members have ended.
// Goals: knows no tensors and no recording; a step with 256 running requests takes some 10 microseconds.
// Rejected: admitting by all that a request may ever need (nothing would be preempted, and the pool would stay half empty).
#pragma once

#include "engine/cache/cache_manager.h"
#include "engine/record/result.h"
#include "engine/serve/request.h"
#include "engine/serve/scenario.h"
#include "engine/serve/waiting_queue.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe {

struct ScheduledSequence {
    Request* request = nullptr;
    std::uint32_t first = 0;       // position of the first token to compute
    std::uint32_t count = 0;       // tokens to compute; without a cache: the whole prefix
    Cause cause = Cause::none;     // whole_prompt, token_budget, next_token or no_kv_cache
    bool prefill = false;          // prompt tokens, or tokens that are computed again after a preemption
};

struct Schedule {
    std::vector<ScheduledSequence> sequences;  // in scheduling order
    std::vector<Event> events;                 // what happened, in order; without times
    std::uint64_t hit_tokens = 0;              // of those that were admitted; "preempted": that run again, counted apart
    std::uint64_t queried_tokens = 0;
    std::uint64_t preempted_hit_tokens = 0;
    std::uint64_t preempted_queried_tokens = 0;
    Request* stuck = nullptr;                  // alone, it gave way to itself at the same token twice: it cannot go on
};

// Why a request can never run.
struct Rejection {
    Cause cause = Cause::none;      // exceeds_pool, exceeds_context or capacity
    std::uint32_t needed = 0;       // slots, tokens or sequences
    std::uint32_t there_are = 0;
    std::string sentence;
};

class Scheduler {
public:
    // cache: null for a lane without one. It is the only thing the scheduler changes besides its queues.
    // context_length: in tokens; 0: no limit.
    Scheduler(const SchedulerOptions& options, CacheManager* cache, std::uint32_t context_length)
        : m_options(options), m_cache(cache), m_context(context_length),
          m_waiting(options.policy == SchedulingPolicy::priority) {}

    // The same queues of copied requests over a copy of the cache.
    std::unique_ptr<Scheduler> clone(CacheManager* cache, const RequestCopies& copies) const;

    // Empty: it can run once there is room.
    std::optional<Rejection> rejection(const Request& request) const;

    void arrive(Request& request);
    // A sequence that was forked from a running one runs at once, behind the others.
    void join(Request& child, const Request& parent);
    // One that was forked from a preempted sequence waits as if it had been preempted with it.
    void wait_beside(Request& child, const Request& parent);
    // Fewer sequences than `more` can still run beside those that do.
    bool full(std::uint32_t more = 1) const { return width() + more > m_options.max_num_seqs; }

    // Other rules from now on. Static batching takes those that run into its batch.
    void set_options(const SchedulerOptions& options);

    // Takes the blocks of what it schedules. Errors: a defect (a plan that fits could not be applied).
    Result<Schedule> schedule();

    // Stops a running request and puts it back to the waiting ones. needed_by: whose need it was, or null.
    Result<void> preempt(Request& victim, const Request* needed_by, Cause cause, std::vector<Event>& events);

    // Takes a request out of its queue; its blocks are the caller's to release.
    void remove(Request& request);

    const std::vector<Request*>& running() const { return m_running; }
    const std::deque<Request*>& waiting() const { return m_waiting.requests(); }

    // Slots that the waiting request would be given at once (contiguous regions); 0 for null.
    std::uint64_t slots_reserved_for(const Request* request) const;

private:
    std::uint32_t width() const;
    std::uint32_t tokens_for(const Request& request, std::uint32_t computed) const;
    Request* victim_of(Cause& cause) const;
    Result<void> run_running(std::uint32_t& budget, Schedule& schedule);
    Result<bool> make_room(Request& request, std::uint32_t count, std::uint32_t& budget, Schedule& schedule);
    void undo(const Request& victim, std::uint32_t& budget, Schedule& schedule) const;
    Result<void> admit_waiting(std::uint32_t& budget, Schedule& schedule);
    Request* next_waiting(bool forming, Schedule& schedule) const;
    Result<void> unpark(Schedule& schedule);
    Result<bool> admit(Request& request, std::uint32_t budget, Schedule& schedule, std::uint32_t& taken);
    Result<bool> swap_in(Request& request, std::uint32_t& count, Schedule& schedule);
    void refuse(Request& request, Cause cause, std::uint32_t needed, std::uint32_t available, Schedule& schedule) const;
    void add(Request& request, std::uint32_t first, std::uint32_t count, Schedule& schedule) const;

    SchedulerOptions m_options;
    CacheManager* m_cache;
    std::uint32_t m_context;
    std::vector<Request*> m_running;      // in order of admission
    WaitingQueue m_waiting;
    std::uint64_t m_arrived = 0;
    std::uint32_t m_members = 0;          // static batching: of the batch, running or preempted
    bool m_preempted = false;             // somebody, since the last step
};

}  // namespace kvloupe
