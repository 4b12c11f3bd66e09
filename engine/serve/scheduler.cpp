// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/scheduler.h"

#include "engine/cache/block_table.h"

#include <algorithm>
#include <iterator>

namespace kvloupe {

namespace {

static_assert(cause_count <= 64);  // Request::refusals keeps one bit each

constexpr std::uint32_t not_blocks = 0xFFFFFFFFu;  // of a refusal that has nothing to do with blocks

void append(std::vector<Event>& events, std::vector<Event>&& more) {
    events.insert(events.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

// Before the budget: what is to do, capped by the threshold. Without a cache a prompt cannot be cut, and there is no
// budget: every step recomputes the whole prefix.
std::uint32_t Scheduler::tokens_for(const Request& request, std::uint32_t computed) const {
    if (!m_cache) return request.size();
    const std::uint32_t cap = m_options.long_prefill_token_threshold;
    const std::uint32_t left = request.size() - computed;
    return cap > 0 ? std::min(left, cap) : left;
}

std::uint32_t Scheduler::width() const {
    std::uint32_t sum = 0;
    for (const Request* request : m_running) sum += request->width;
    return sum;
}

void Scheduler::arrive(Request& request) {
    request.status = RequestStatus::waiting;
    request.order = m_arrived++;
    m_waiting.arrive(request);
}

void Scheduler::wait_beside(Request& child, const Request& parent) {
    child.status = RequestStatus::preempted;
    child.ran_before = true;
    child.order = parent.order;
    child.in_batch = parent.in_batch;
    if (child.in_batch) ++m_members;
    m_waiting.come_back(child);
}

void Scheduler::join(Request& child, const Request& parent) {
    child.status = RequestStatus::running;
    child.order = parent.order;
    child.in_batch = parent.in_batch;
    if (child.in_batch) ++m_members;
    m_running.push_back(&child);
}

void Scheduler::remove(Request& request) {
    if (const auto found = std::find(m_running.begin(), m_running.end(), &request); found != m_running.end())
        m_running.erase(found);
    else m_waiting.remove(request);
    if (request.in_batch) --m_members;
    request.in_batch = false;
    request.status = RequestStatus::ended;
}

Result<void> Scheduler::preempt(Request& victim, const Request* needed_by, Cause cause, std::vector<Event>& events) {
    m_preempted = true;
    Event event;
    event.kind = EventKind::preempt;
    event.cause = cause;
    event.sequence = victim.sequence;
    if (needed_by) event.other = needed_by->sequence.value;
    const CacheSequence view = victim.view();
    const bool swaps = m_options.preemption == PreemptionMode::swap && victim.computed > 0;
    CachePlan plan;
    if (swaps) plan = m_cache->plan_swap_out(view, victim.computed);
    const bool swapped = swaps && plan.fits();  // no room on the host: it is computed again
    if (!swapped) {
        plan = m_cache->plan_release(view, Cause::sequence_preempted, victim.computed);
        event.tokens = victim.computed;
    }
    events.push_back(event);
    auto changes = m_cache->apply(plan);
    if (!changes) return changes.error();
    append(events, std::move(*changes));
    if (!swapped) victim.computed = 0;
    victim.status = swapped ? RequestStatus::swapped : RequestStatus::preempted;
    victim.ran_before = true;
    m_running.erase(std::find(m_running.begin(), m_running.end(), &victim));
    m_waiting.come_back(victim);
    return {};
}

// vLLM: the last that runs, by priority the least important and youngest. SGLang: the shortest output, then the longest
// input; ties go to the one that runs last.
Request* Scheduler::victim_of(Cause& cause) const {
    if (m_options.victim == VictimRule::sglang) {
        cause = Cause::shortest_output;
        return *std::min_element(m_running.rbegin(), m_running.rend(), [](const Request* a, const Request* b) {
            return a->output_tokens() != b->output_tokens() ? a->output_tokens() < b->output_tokens()
                                                            : a->prompt_tokens > b->prompt_tokens;
        });
    }
    if (m_options.policy == SchedulingPolicy::priority) {
        cause = Cause::priority;
        return *std::max_element(m_running.begin(), m_running.end(), WaitingQueue::before);
    }
    cause = Cause::last_running;
    return m_running.back();
}

void Scheduler::undo(const Request& victim, std::uint32_t& budget, Schedule& schedule) const {
    const auto found = std::find_if(schedule.sequences.begin(), schedule.sequences.end(),
                                    [&](const ScheduledSequence& scheduled) { return scheduled.request == &victim; });
    if (found == schedule.sequences.end()) return;
    budget += found->count;
    schedule.sequences.erase(found);
}

void Scheduler::add(Request& request, std::uint32_t first, std::uint32_t count, Schedule& schedule) const {
    ScheduledSequence scheduled{&request, first, count, Cause::next_token, false};
    const std::uint32_t end = first + count;
    // The newest output token alone is decoding; anything before it is prompt, or computed again.
    scheduled.prefill = end <= request.prompt_tokens || first + 1 < request.size();
    if (!m_cache && request.size() > request.prompt_tokens) {
        scheduled.prefill = false;
        scheduled.cause = Cause::no_kv_cache;
    } else if (scheduled.prefill) {
        scheduled.cause = end == request.size() ? Cause::whole_prompt : Cause::token_budget;
    }
    schedule.sequences.push_back(scheduled);
}

// Takes the blocks of a running request's next tokens, from others if it must. False: it was itself preempted.
Result<bool> Scheduler::make_room(Request& request, std::uint32_t count, std::uint32_t& budget, Schedule& schedule) {
    if (!m_cache) return true;
    const CacheSequence view = request.view();
    GrowRequest grow;
    grow.sequence = &view;
    grow.computed = request.computed;
    grow.new_tokens = count;
    grow.others_scheduled = !schedule.sequences.empty();
    for (;;) {
        const CachePlan plan = m_cache->plan_grow(grow);
        if (plan.fits()) {
            auto changes = m_cache->apply(plan);
            if (!changes) return changes.error();
            append(schedule.events, std::move(*changes));
            return true;
        }
        Cause cause = Cause::none;
        Request* chosen = victim_of(cause);
        // Before it gives way itself: a beam that only waits for the others needs nothing now, and the others may need
        // what it holds.
        if (chosen == &request) {
            const auto parked = std::find_if(m_running.rbegin(), m_running.rend(), [](const Request* r) { return r->parked; });
            if (parked != m_running.rend()) {
                chosen = *parked;
                cause = Cause::block_needed;
            }
        }
        Request& victim = *chosen;
        undo(victim, budget, schedule);
        if (auto done = preempt(victim, &request, cause, schedule.events); !done) return done.error();
        if (&victim == &request) return false;
    }
}

Result<void> Scheduler::run_running(std::uint32_t& budget, Schedule& schedule) {
    for (std::size_t i = 0; i < m_running.size() && budget > 0;) {
        Request& request = *m_running[i];
        if (request.to_compute() == 0 && m_cache) {
            ++i;
            continue;
        }
        std::uint32_t count = tokens_for(request, request.computed);
        if (m_cache) count = std::min(count, budget);
        const std::uint32_t had = request.computed;
        auto room = make_room(request, count, budget, schedule);
        if (!room) return room.error();
        if (!*room) {
            // With nobody else to take from, the same wall twice is no question of time.
            if (m_running.empty() && request.alone_at == had) schedule.stuck = &request;
            request.alone_at = m_running.empty() ? had : Request::not_alone;
            break;  // nobody behind it is more important
        }
        if (m_cache) budget -= count;
        add(request, m_cache ? request.computed : 0, count, schedule);
        // Victims before it have left the list.
        i = static_cast<std::size_t>(std::find(m_running.begin(), m_running.end(), &request) - m_running.begin()) + 1;
    }
    return {};
}

void Scheduler::refuse(Request& request, Cause cause, std::uint32_t needed, std::uint32_t available, Schedule& schedule) const {
    const std::uint64_t bit = std::uint64_t{1} << static_cast<unsigned>(cause);
    if (request.refusals & bit) return;
    request.refusals |= bit;
    Event event;
    event.kind = EventKind::refuse;
    event.cause = cause;
    event.sequence = request.sequence;
    event.tokens = needed;
    event.other = available;
    schedule.events.push_back(event);
}

// The head of the queue if it may join; a parked beam has nothing to compute. Static batching: only preempted members of
// the batch, unless one is formed.
Request* Scheduler::next_waiting(bool forming, Schedule& schedule) const {
    const bool closed = m_options.batching == Batching::fixed && !forming;
    Request* head = nullptr;
    for (Request* request : m_waiting.requests()) {
        if (request->parked) continue;
        if (!closed || request->in_batch) return request;
        if (!head) head = request;
    }
    if (head) refuse(*head, Cause::batch_running, 0, not_blocks, schedule);
    return nullptr;
}

// Blocks that were swapped out come back, and room for the tokens of this step.
Result<bool> Scheduler::swap_in(Request& request, std::uint32_t& count, Schedule& schedule) {
    const CacheSequence view = request.view();
    const CachePlan plan = m_cache->plan_swap_in(view);
    const std::uint32_t size = m_cache->block_size();
    const std::uint32_t more = m_cache->group_count() * (blocks_for(std::uint64_t{request.computed} + count, size) -
                                                         blocks_for(request.computed, size));
    if (!plan.fits() || std::uint64_t{plan.needed_blocks} + more > plan.free_blocks) {
        refuse(request, Cause::pool_too_full, plan.needed_blocks + more, plan.free_blocks, schedule);
        return false;
    }
    auto changes = m_cache->apply(plan);
    if (!changes) return changes.error();
    append(schedule.events, std::move(*changes));
    GrowRequest grow;
    grow.sequence = &view;
    grow.computed = request.computed;
    grow.new_tokens = count;
    const CachePlan tokens = m_cache->plan_grow(grow);
    if (!tokens.fits()) {  // a window may need more than was counted; it is back and goes on with the next step
        count = 0;
        return true;
    }
    changes = m_cache->apply(tokens);
    if (!changes) return changes.error();
    append(schedule.events, std::move(*changes));
    return true;
}

// False: it has to wait. taken: tokens of the budget.
Result<bool> Scheduler::admit(Request& request, std::uint32_t budget, Schedule& schedule, std::uint32_t& taken) {
    if (full(request.width)) {
        refuse(request, Cause::batch_full, 0, not_blocks, schedule);
        return false;
    }
    const CacheSequence view = request.view();
    const bool swapped = request.status == RequestStatus::swapped;
    PrefixMatch match;
    if (m_cache && !swapped) match = m_cache->match(view);
    const std::uint32_t computed = swapped ? request.computed : match.tokens;
    std::uint32_t count = tokens_for(request, computed);
    if (m_cache && count > budget) {
        // What was preempted may have grown beyond any step; it is cut all the same, or it could never come back.
        const bool beyond_any_step = request.ran_before && count > m_options.max_num_batched_tokens &&
                                     budget == m_options.max_num_batched_tokens;
        if (!m_options.chunked_prefill && !beyond_any_step) {
            refuse(request, Cause::budget_used, 0, not_blocks, schedule);
            return false;
        }
        count = budget;
    }
    Event event;
    event.sequence = request.sequence;
    event.kind = request.ran_before ? EventKind::resume : EventKind::admit;
    event.cause = swapped ? Cause::swapped_in : request.ran_before ? Cause::recomputed : Cause::fits_beside_running;
    event.tokens = request.ran_before ? computed : request.prompt_tokens;
    const std::size_t place = schedule.events.size();
    if (swapped) {
        auto back = swap_in(request, count, schedule);
        if (!back || !*back) return back;
    } else if (m_cache) {
        GrowRequest grow;
        grow.sequence = &view;
        grow.computed = computed;
        grow.new_tokens = count;
        grow.match = &match;
        grow.admission = true;
        grow.others_scheduled = !schedule.sequences.empty();
        grow.whole_prompt = m_options.reserve_full_prompt;
        const CachePlan plan = m_cache->plan_grow(grow);
        if (!plan.fits()) {
            refuse(request, plan.refused_because, plan.needed_blocks, plan.free_blocks, schedule);
            return false;
        }
        auto changes = m_cache->apply(plan);
        if (!changes) return changes.error();
        append(schedule.events, std::move(*changes));
        if (m_cache->options().prefix_caching) {
            (request.ran_before ? schedule.preempted_queried_tokens : schedule.queried_tokens) += request.size();
            (request.ran_before ? schedule.preempted_hit_tokens : schedule.hit_tokens) += computed;
        }
    }
    schedule.events.insert(schedule.events.begin() + static_cast<std::ptrdiff_t>(place), event);
    m_waiting.remove(request);
    m_running.push_back(&request);
    request.status = RequestStatus::running;
    request.computed = m_cache ? computed : request.computed;
    request.refusals = 0;
    if (m_options.batching == Batching::fixed && !request.in_batch) {
        request.in_batch = true;
        ++m_members;
    }
    if (count > 0) add(request, m_cache ? computed : 0, count, schedule);
    taken = m_cache ? count : 0;
    return true;
}

Result<void> Scheduler::admit_waiting(std::uint32_t& budget, Schedule& schedule) {
    const bool forming = m_members == 0;
    while (!m_waiting.empty() && budget > 0) {
        Request* next = next_waiting(forming, schedule);
        if (!next) break;
        std::uint32_t taken = 0;
        auto admitted = admit(*next, budget, schedule, taken);
        if (!admitted) return admitted.error();
        if (!*admitted) break;
        budget -= taken;
    }
    return {};
}

Result<Schedule> Scheduler::schedule() {
    Schedule schedule;
    std::uint32_t budget = m_options.max_num_batched_tokens;
    if (auto done = run_running(budget, schedule); !done) return done.error();
    if (!m_preempted) {
        if (auto done = admit_waiting(budget, schedule); !done) return done.error();
    } else {
        for (Request* request : m_waiting.requests()) {
            if (request->status != RequestStatus::waiting) continue;
            refuse(*request, Cause::preempted_this_step, 0, not_blocks, schedule);
            break;
        }
    }
    if (schedule.sequences.empty() && !m_preempted) {
        if (auto done = unpark(schedule); !done) return done.error();
    }
    m_preempted = false;
    return schedule;
}

// Beams that wait for one another may hold the blocks that the last of them needs.
Result<void> Scheduler::unpark(Schedule& schedule) {
    if (!m_cache || m_running.empty() || !std::all_of(m_running.begin(), m_running.end(), [](const Request* r) { return r->parked; }))
        return {};
    for (const Request* request : m_waiting.requests())
        if (!request->parked) return preempt(*m_running.back(), request, Cause::last_running, schedule.events);
    return {};
}

}  // namespace kvloupe
