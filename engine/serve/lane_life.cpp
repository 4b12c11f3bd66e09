// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/lane_life.h"

namespace kvloupe {

LaneLife LaneLife::copy() const {
    LaneLife to;
    RequestCopies copies{{nullptr, nullptr}};
    for (const auto& request : m_requests) {
        to.m_requests.push_back(std::make_unique<Request>(*request));
        copies[request.get()] = to.m_requests.back().get();
    }
    const auto change = [&](Request*& request) { request = copies.at(request); };
    if (m_cache) to.m_cache = m_cache->clone();
    to.m_pages = m_pages;
    to.m_scheduler = m_scheduler->clone(to.m_cache.get(), copies);
    to.m_by_name = m_by_name;
    for (auto& [name, request] : to.m_by_name) change(request);
    to.m_coming = m_coming;
    for (auto& [arrival, request] : to.m_coming) change(request);
    to.m_ended_in_batch = m_ended_in_batch;
    for (Request*& request : to.m_ended_in_batch) change(request);
    to.m_beams = m_beams;
    for (auto& [id, group] : to.m_beams) {
        for (Beam& beam : group.live) {
            change(beam.sequence);
            for (BeamCandidate& candidate : beam.candidates) change(candidate.beam);
        }
    }
    to.m_actions = m_actions;
    to.m_scheduling = m_scheduling;
    to.m_next_rules = m_next_rules;
    to.m_chosen = m_chosen;
    to.m_step = m_step;
    to.m_failure = m_failure;
    to.m_failed_last = m_failed_last;
    return to;
}

std::uint64_t LaneLife::bytes() const {
    std::uint64_t bytes = m_cache ? m_cache->bytes() : 0;
    constexpr std::uint64_t in_maps = 200;  // of a request: its names, its entries in maps and queues
    for (const auto& request : m_requests)
        bytes += sizeof(Request) + in_maps + (request->tokens.size() + request->forced.size()) * sizeof(TokenId);
    return bytes + m_actions.size() * sizeof(ScenarioAction);
}

}  // namespace kvloupe
