// SPDX-License-Identifier: GPL-3.0-or-later
//
// Beam search in a lane: beams fork, go on and are dropped as engine/serve/beam_search.h chooses.
#include "engine/serve/lane.h"

#include <algorithm>
#include <set>
#include <utility>

namespace kvloupe {

void Lane::propose(Request& request, std::span<const float> logits) {
    BeamGroup& group = m_beams[request.id];
    if (group.live.empty() && group.named == 0) {  // the request's prompt has just been computed
        group.width = request.width;
        group.named = 1;
        group.live.push_back({&request, 0, false, {}});
    }
    for (Beam& beam : group.live) {
        if (beam.sequence != &request) continue;
        beam.candidates = beam_candidates(logits, request, beam.score, group.width);
        beam.proposed = request.parked = true;
    }
    ++m_sampled;
}

// A step may compute only some of a request's beams; the choice is made once all have proposed.
void Lane::choose_beams() {
    for (auto entry = m_beams.begin(); entry != m_beams.end();) {
        BeamGroup& group = entry->second;
        if (group.all_proposed())
            apply_choice(group, kvloupe::choose_beams(group, [this](TokenId token) { return is_end(token); }));
        entry = group.live.empty() ? m_beams.erase(entry) : std::next(entry);
    }
}

void Lane::apply_choice(BeamGroup& group, const BeamChoice& choice) {
    std::vector<Request*> before;
    for (const Beam& beam : group.live) before.push_back(beam.sequence);
    // All forks first: a child shares what its parent has computed, before anyone appends.
    std::set<Request*> continued;
    std::vector<std::pair<Request*, const BeamCandidate*>> steps;
    const auto place = [&](const BeamCandidate& candidate) {
        Request& parent = *candidate.beam;
        parent.width = 1;
        if (continued.insert(&parent).second) return steps.push_back({&parent, &candidate});
        Request child = parent;
        child.name = parent.family + "." + std::to_string(group.named++);
        if (auto forked = fork(std::move(child), parent, parent.computed, Cause::beam_search)) steps.push_back({*forked, &candidate});
    };
    for (const BeamCandidate& candidate : choice.kept) place(candidate);
    for (const BeamCandidate& candidate : choice.finished) place(candidate);
    std::vector<Beam> live;
    for (const auto& [sequence, candidate] : steps) {
        sequence->parked = false;
        append_token(*sequence, candidate->sampled, false);
        const std::size_t endings = m_endings.size();
        end_if_done(*sequence);
        if (m_endings.size() > endings) ++group.finished;
        else live.push_back({sequence, candidate->score, false, {}});
    }
    for (Request* beam : before)
        if (!continued.count(beam)) m_endings.push_back({beam, Cause::beam_dropped, {}});
    group.live = std::move(live);
}

}  // namespace kvloupe
