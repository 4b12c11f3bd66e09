// SPDX-License-Identifier: GPL-3.0-or-later
//
// How sequences come into a lane and leave it.
#include "engine/serve/lane.h"

#include <algorithm>

namespace kvloupe {

void Lane::add_request(Request request) {
    const auto order = static_cast<std::uint32_t>(m_requests.size());
    m_requests.push_back(std::make_unique<Request>(std::move(request)));
    Request* added = m_requests.back().get();
    m_by_name[added->name] = added;
    m_coming[{added->arrival_step, order}] = added;
}

// Tokens first, first + 1, … as the recording keeps them.
void Lane::note_tokens(const Request& request, std::uint32_t first) {
    for (std::uint32_t position = first; position < request.size(); ++position) {
        TokenRecord token;
        token.sequence = request.sequence;
        token.position = position;
        token.token = request.tokens[position];
        token.source = position < request.prompt_tokens ? TokenRecord::prompt
                       : request.is_forced()            ? TokenRecord::forced
                                                        : TokenRecord::sampled;
        m_writer->token(token);
    }
}

void Lane::arrive() {
    while (!m_coming.empty() && m_coming.begin()->first.first <= m_step) {
        Request& request = *m_coming.begin()->second;
        m_coming.erase(m_coming.begin());
        const std::uint32_t samples = request.beam ? 1 : request.width;
        if (request.width > 1) {  // its sequences are id.0, id.1, …
            m_by_name.erase(request.name);
            request.name = request.family + ".0";
            request.child = true;
            m_by_name[request.name] = &request;
            request.sampling.seed = Sampler::request_seed(m_setup.seed, request.name);
        }
        // Nothing can be shared in a contiguous cache: samples are requests of their own there.
        const bool apart = samples > 1 && m_cache && m_cache->options().kind == CacheKind::contiguous;
        if (apart) request.width = 1;
        arrive(request);
        for (std::uint32_t i = 1; apart && i < samples; ++i) {
            Request copy = request;
            copy.name = request.family + "." + std::to_string(i);
            copy.sampling.seed = Sampler::request_seed(m_setup.seed, copy.name);
            if (copy.generated_from >= 0) copy.generated_from += static_cast<TokenId>(i * copy.max_new_tokens);
            copy.status = RequestStatus::coming;
            m_requests.push_back(std::make_unique<Request>(std::move(copy)));
            Request& added = *m_requests.back();
            m_by_name[added.name] = &added;
            arrive(added);
        }
    }
}

void Lane::arrive(Request& request) {
    SequenceInfo info{request.id, SequenceId::none(), 0};
    if (request.name != request.family) info.name = request.name;
    request.sequence = m_writer->add_sequence(info);
    Event event;
    event.tokens = request.prompt_tokens;
    record(EventKind::arrive, request.submitted ? Cause::submitted : Cause::arrival_step_reached, request, event);
    note_tokens(request, 0);
    const auto rejected = m_scheduler->rejection(request);
    if (!rejected) {
        m_scheduler->arrive(request);
        return;
    }
    event = {};
    event.tokens = rejected->needed;
    event.other = rejected->there_are;
    event.detail = m_writer->intern(rejected->sentence);
    record(EventKind::reject, rejected->cause, request, event);
    request.status = RequestStatus::ended;
}

// The child shares the blocks of the parent's first `position` positions, all of which the parent has computed.
Result<Request*> Lane::fork(Request child, Request& parent, std::uint32_t position, Cause cause) {
    const bool shares = parent.status == RequestStatus::running;
    child.sequence = SequenceId(static_cast<std::uint32_t>(m_writer->record().sequences().size()));
    child.computed = shares ? position : 0;
    child.width = 1;
    child.child = true;
    child.in_batch = child.ending = child.parked = false;
    child.refusals = 0;
    child.alone_at = Request::not_alone;
    std::vector<Event> events;
    if (shares && m_cache) {
        auto plan = m_cache->plan_fork(child.view(), parent.sequence, position);
        if (!plan) return plan.error();
        auto changes = m_cache->apply(*plan);
        if (!changes) return changes.error();
        events = std::move(*changes);
    } else {
        // Without a cache a fork is a copy of the tokens; from a preempted parent there is nothing to share: it waits.
        Event event;
        event.kind = shares ? EventKind::fork : EventKind::arrive;
        event.cause = cause;
        event.sequence = child.sequence;
        if (shares) event.other = parent.sequence.value;
        event.tokens = shares ? child.computed : child.prompt_tokens;
        events.push_back(event);
    }
    for (Event& event : events)
        if (event.kind == EventKind::fork) event.cause = cause;
    m_requests.push_back(std::make_unique<Request>(std::move(child)));
    Request& added = *m_requests.back();
    m_by_name[added.name] = &added;
    m_writer->add_sequence({added.id, parent.sequence, position, added.prompt_tokens, added.name});
    write(events);
    note_tokens(added, 0);
    if (shares) {
        m_scheduler->join(added, parent);
    } else {  // the parent was preempted: there is nothing to share
        m_scheduler->wait_beside(added, parent);
    }
    return &added;
}

void Lane::release(Request& request, Cause cause) {
    if (!m_cache) return;
    auto changes = m_cache->apply(m_cache->plan_release(request.view(), cause, request.computed));
    if (changes) write(*changes);
}

void Lane::end_request(Request& request, Cause cause, const std::string& detail) {
    Event event;
    event.tokens = request.output_tokens();
    if (!detail.empty()) event.detail = m_writer->intern(detail);
    record(EventKind::finish, cause, request, event);
    const bool early = cause == Cause::sequence_cancelled || cause == Cause::sequence_failed || cause == Cause::beam_dropped;
    const bool stays = !early && m_cache && m_scheduling.batching == Batching::fixed;
    if (stays) m_ended_in_batch.push_back(&request);
    else release(request, early ? cause : Cause::sequence_finished);
    m_scheduler->remove(request);
    if (!request.beam) return;
    // A beam that failed or was cancelled no longer holds the others up.
    const auto group = m_beams.find(request.id);
    if (group == m_beams.end()) return;
    std::erase_if(group->second.live, [&](const Beam& beam) { return beam.sequence == &request; });
    if (group->second.live.empty()) m_beams.erase(group);
}

// Static batching: blocks stay until the batch has ended. A batch whose members were all preempted gives up the blocks of
// those that ended, or it could never go on.
void Lane::release_batch() {
    if (!m_scheduler->running().empty()) return;
    for (Request* request : m_ended_in_batch) release(*request, Cause::batch_ended);
    m_ended_in_batch.clear();
}

}  // namespace kvloupe
