// SPDX-License-Identifier: GPL-3.0-or-later
//
// A lane that continues another one: its rules until its step and from there on, and the tokens that it is given.
#include "engine/serve/lane.h"

namespace kvloupe {

// The rules of step 0. Needs the cache.
void Lane::begin_rules() {
    m_scheduling = m_setup.options.scheduler;
    m_next_rules = 0;
    m_chosen = false;
    m_inherited = nullptr;
    if (m_setup.rules.empty()) return;
    m_scheduling = m_setup.rules.front().scheduler;
    m_next_rules = 1;
    const LaneRules& first = m_setup.rules.front();
    if (m_cache) m_cache->set_rules(static_cast<std::uint32_t>(first.watermark * m_setup.blocks), first.free_order, first.radix_eviction);
}

// Those that hold from this step on.
void Lane::follow_rules() {
    for (; m_next_rules < m_setup.rules.size() && m_setup.rules[m_next_rules].from_step <= m_step; ++m_next_rules) {
        const LaneRules& next = m_setup.rules[m_next_rules];
        const bool batch_ends = m_scheduling.batching == Batching::fixed && next.scheduler.batching != Batching::fixed;
        m_scheduling = next.scheduler;
        m_scheduler->set_options(m_scheduling);
        if (m_cache) m_cache->set_rules(static_cast<std::uint32_t>(next.watermark * m_setup.blocks), next.free_order, next.radix_eviction);
        if (!batch_ends) continue;
        for (Request* request : m_ended_in_batch) release(*request, Cause::batch_ended);
        m_ended_in_batch.clear();
    }
}

// A choice that can never be made is said in the branch's first step of its own.
void Lane::check_choice() {
    const auto& branch = m_setup.options.branch;
    if (!branch || !branch->token || m_step != branch->at_step || !named(branch->request).empty()) return;
    Event event;
    event.kind = EventKind::refuse;
    event.cause = Cause::action_refused;
    event.detail = m_writer->intern("The branch's token cannot be chosen: " + unknown(branch->request));
    m_writer->event(event);
}

// The branch's token is the next one of the sequence: the first, from its step on, that is not its parent's.
bool Lane::choice_is_next(const Request& request) const {
    const auto& branch = m_setup.options.branch;
    return branch && branch->token && !m_chosen && m_step >= branch->at_step && request.name == branch->request &&
           (!m_inherited || m_inherited->at(request.name, request.size()) < 0);
}

// The token that is taken instead of sampling one, or -1.
TokenId Lane::given_token(const Request& request) const {
    if (m_inherited)
        if (const TokenId token = m_inherited->at(request.name, request.size()); token >= 0) return token;
    if (choice_is_next(request)) return *m_setup.options.branch->token;
    return request.is_forced() ? request.forced_token(request.output_tokens()) : -1;
}

}  // namespace kvloupe
