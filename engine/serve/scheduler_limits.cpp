// SPDX-License-Identifier: GPL-3.0-or-later
//
// What can never run, and what a request that waits would reserve.
#include "engine/serve/scheduler.h"

#include <algorithm>

namespace kvloupe {

void Scheduler::set_options(const SchedulerOptions& options) {
    m_waiting.set_by_priority(options.policy == SchedulingPolicy::priority);
    if (options.batching != m_options.batching) {
        const bool together = options.batching == Batching::fixed;
        for (Request* request : m_running) request->in_batch = together;
        for (Request* request : m_waiting.requests()) request->in_batch = false;
        m_members = together ? static_cast<std::uint32_t>(m_running.size()) : 0;
    }
    m_options = options;
}

std::uint64_t Scheduler::slots_reserved_for(const Request* request) const {
    if (!request || !m_cache || m_cache->options().kind == CacheKind::paged) return 0;
    const CacheSequence view = request->view();
    GrowRequest grow;
    grow.sequence = &view;
    grow.new_tokens = std::min(tokens_for(*request, 0), m_options.max_num_batched_tokens);
    grow.admission = true;
    grow.whole_prompt = m_options.reserve_full_prompt;
    return std::uint64_t{m_cache->plan_grow(grow).needed_blocks} * m_cache->block_size();
}

std::unique_ptr<Scheduler> Scheduler::clone(CacheManager* cache, const RequestCopies& copies) const {
    auto copy = std::make_unique<Scheduler>(*this);
    copy->m_cache = cache;
    for (Request*& request : copy->m_running) request = copies.at(request);
    copy->m_waiting.change_to(copies);
    return copy;
}

std::optional<Rejection> Scheduler::rejection(const Request& request) const {
    const std::uint64_t slots = request.slots_needed();
    const auto counts = [&](Cause cause, std::uint64_t needed, std::uint64_t there_are, std::string sentence) {
        const auto cut = [](std::uint64_t n) { return static_cast<std::uint32_t>(std::min<std::uint64_t>(n, UINT32_MAX - 1)); };
        return Rejection{cause, cut(needed), cut(there_are), std::move(sentence)};
    };
    const std::string who = "request '" + request.name + "' needs " + std::to_string(slots) + " slots (" +
                            std::to_string(request.prompt_tokens) + " prompt + " + std::to_string(request.new_tokens()) +
                            " new tokens - 1)";
    if (m_context > 0 && slots > m_context)
        return counts(Cause::exceeds_context, slots, m_context,
                      who + ", but the context holds " + std::to_string(m_context) +
                          "; give it a shorter prompt or fewer new tokens");
    if (request.width > m_options.max_num_seqs)
        return counts(Cause::capacity, request.width, m_options.max_num_seqs,
                      "request '" + request.name + "' asks for " + std::to_string(request.width) + " sequences, but " +
                          std::to_string(m_options.max_num_seqs) + " may run; raise max_num_seqs");
    if (!m_cache) return std::nullopt;
    const std::uint32_t cap = m_options.long_prefill_token_threshold;
    const std::uint32_t piece = cap > 0 ? std::min(request.prompt_tokens, cap) : request.prompt_tokens;
    if (!m_options.chunked_prefill && piece > m_options.max_num_batched_tokens)
        return counts(Cause::capacity, piece, m_options.max_num_batched_tokens,
                      "request '" + request.name + "' has a prompt of " + std::to_string(request.prompt_tokens) +
                          " tokens, but a step takes " + std::to_string(m_options.max_num_batched_tokens) +
                          " and chunked prefill is off; raise max_num_batched_tokens or allow chunked prefill");
    const std::uint64_t most = m_cache->most_slots(request.prompt_tokens, std::min(piece, m_options.max_num_batched_tokens));
    if (m_cache->options().kind == CacheKind::contiguous && m_cache->options().reserve == Reserve::max && slots > most)
        return counts(Cause::exceeds_pool, slots, most,
                      "request '" + request.name + "' would reserve one region of " + std::to_string(m_cache->options().max_model_len) +
                          " slots (reserve max, max_model_len), but the pool's " +
                          std::to_string(std::uint64_t{m_cache->usable_blocks()} * m_cache->block_size()) +
                          " slots hold no region that takes its " + std::to_string(slots) +
                          "; give the lane more blocks, another max_model_len, or reserve oracle or pow2");
    if (slots > most)
        return counts(Cause::exceeds_pool, slots, most,
                      who + ", but the whole pool has " + std::to_string(most) +
                          "; give the lane more blocks, or the request a shorter prompt or fewer new tokens");
    return std::nullopt;
}

}  // namespace kvloupe
