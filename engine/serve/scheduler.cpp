// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/scheduler.h"

#include <algorithm>

namespace kvloupe {

std::uint32_t Scheduler::blocks_reserved_for(const Request& request) const {
    return m_cache ? blocks_for(request.slots_needed(), m_cache->block_size()) : 0;
}

// Before the budget: what is to do, capped by the threshold. Without a cache a prompt cannot be cut, and there is no
// budget: every step recomputes the whole prefix.
std::uint32_t Scheduler::tokens_for(const Request& request) const {
    if (!m_cache) return request.size();
    const std::uint32_t cap = m_options.long_prefill_token_threshold;
    return cap > 0 ? std::min(request.to_compute(), cap) : request.to_compute();
}

std::optional<Rejection> Scheduler::rejection(const Request& request, std::uint32_t context_length) const {
    const std::uint64_t slots = request.slots_needed();
    const auto counts = [&](Cause cause, std::uint64_t needed, std::uint64_t there_are, std::string sentence) {
        const auto cut = [](std::uint64_t n) { return static_cast<std::uint32_t>(std::min<std::uint64_t>(n, UINT32_MAX - 1)); };
        return Rejection{cause, cut(needed), cut(there_are), std::move(sentence)};
    };
    const std::string who = "request '" + request.name + "' needs " + std::to_string(slots) + " slots (" +
                            std::to_string(request.prompt_tokens) + " prompt + " + std::to_string(request.new_tokens()) +
                            " new tokens - 1)";
    if (slots > context_length)
        return counts(Cause::exceeds_context, slots, context_length,
                      who + ", but the model's context holds " + std::to_string(context_length) +
                          "; give it a shorter prompt or fewer new tokens");
    if (!m_cache) return std::nullopt;
    const std::uint64_t pool = std::uint64_t{m_cache->pool().usable()} * m_cache->block_size();
    if (slots > pool)
        return counts(Cause::exceeds_pool, slots, pool,
                      who + ", but the whole pool has " + std::to_string(pool) +
                          "; give the lane more blocks, or the request a shorter prompt or fewer new tokens");
    const std::uint32_t cap = m_options.long_prefill_token_threshold;
    const std::uint32_t piece = cap > 0 ? std::min(request.prompt_tokens, cap) : request.prompt_tokens;
    if (!m_options.chunked_prefill && piece > m_options.max_num_batched_tokens)
        return counts(Cause::capacity, piece, m_options.max_num_batched_tokens,
                      "request '" + request.name + "' has a prompt of " + std::to_string(request.prompt_tokens) +
                          " tokens, but a step takes " + std::to_string(m_options.max_num_batched_tokens) +
                          " and chunked prefill is off; raise max_num_batched_tokens or allow chunked prefill");
    return std::nullopt;
}

void Scheduler::arrive(Request& request) {
    request.status = RequestStatus::waiting;
    m_waiting.push_back(&request);
}

Result<void> Scheduler::take(Request& request, std::uint32_t& budget, bool admitted, Schedule& schedule) {
    ScheduledSequence scheduled;
    scheduled.request = &request;
    scheduled.admitted = admitted;
    scheduled.count = tokens_for(request);
    scheduled.first = m_cache ? request.computed : 0;
    if (m_cache) {
        scheduled.count = std::min(scheduled.count, budget);
        budget -= scheduled.count;
        auto changes = m_cache->apply(m_cache->plan_grow(request.sequence, scheduled.first + scheduled.count));
        if (!changes) return changes.error();
        scheduled.changes = std::move(*changes);
    }
    const std::uint32_t end = scheduled.first + scheduled.count;
    if (request.size() == request.prompt_tokens)
        scheduled.cause = end == request.prompt_tokens ? Cause::whole_prompt : Cause::token_budget;
    else
        scheduled.cause = m_cache ? Cause::next_token : Cause::no_kv_cache;
    schedule.sequences.push_back(std::move(scheduled));
    return {};
}

Result<Schedule> Scheduler::schedule() {
    Schedule schedule;
    std::uint32_t budget = m_options.max_num_batched_tokens;
    for (Request* request : m_running) {
        if (budget == 0) break;
        if (request->to_compute() == 0) continue;
        if (auto taken = take(*request, budget, false, schedule); !taken) return taken.error();
    }
    while (!m_waiting.empty() && budget > 0) {
        Request& request = *m_waiting.front();
        const std::uint32_t needed = blocks_reserved_for(request);
        const std::uint64_t usable = m_cache ? m_cache->pool().usable() : 0;
        const auto available = static_cast<std::uint32_t>(usable - std::min<std::uint64_t>(usable, m_reserved_blocks));
        if (m_running.size() >= m_options.max_num_seqs) {
            schedule.refusal = Refusal{&request, Cause::batch_full, needed, available};
            break;
        }
        if (m_cache && !m_options.chunked_prefill && tokens_for(request) > budget) break;
        if (needed > available) {
            schedule.refusal = Refusal{&request, Cause::pool_too_full, needed, available};
            break;
        }
        m_waiting.pop_front();
        m_running.push_back(&request);
        m_reserved_blocks += needed;
        request.status = RequestStatus::running;
        if (auto taken = take(request, budget, true, schedule); !taken) return taken.error();
    }
    return schedule;
}

void Scheduler::remove(Request& request) {
    if (const auto found = std::find(m_running.begin(), m_running.end(), &request); found != m_running.end()) {
        m_running.erase(found);
        m_reserved_blocks -= blocks_reserved_for(request);
    } else {
        const auto queued = std::find(m_waiting.begin(), m_waiting.end(), &request);
        if (queued != m_waiting.end()) m_waiting.erase(queued);
    }
    request.status = RequestStatus::ended;
}

}  // namespace kvloupe
