// SPDX-License-Identifier: GPL-3.0-or-later
//
// Branches in a session: whom they continue, and when they know enough to go on.
#include "engine/serve/branch.h"
#include "engine/serve/session_engine.h"

namespace kvloupe {

void SessionEngine::begin_branches() {
    m_branches.clear();
    for (std::size_t i = 0; i < m_lanes.size(); ++i) {
        const LaneOptions& lane = m_prepared.lanes[i].options;
        for (std::size_t parent = 0; lane.branch && parent < i; ++parent) {
            const LaneOptions& other = m_prepared.lanes[parent].options;
            if (other.name == lane.branch->of) m_branches.insert({i, {parent, switches_rules(other, lane), BranchTokens(lane.branch->at_step)}});
        }
    }
}

void SessionEngine::inherit_from(const Recording& before) {
    for (auto& [lane, branch] : m_branches)
        for (const auto& old : before.lanes())
            if (old->info().name == m_prepared.lanes[branch.parent].options.name) branch.tokens.learn(before, *old);
}

void SessionEngine::teach_branches(std::size_t parent) {
    for (auto& [lane, branch] : m_branches)
        if (branch.parent == parent) branch.tokens.learn(*m_writer->recording(), *m_writer->recording()->lanes()[parent]);
}

// A branch with a pool of its own may be ahead of its parent in what it computes, so it needs all tokens first; one that switches
// samples in the very steps of its parent, which stands before it.
bool SessionEngine::waits_for_parent(std::size_t lane) const {
    const auto found = m_branches.find(lane);
    if (found == m_branches.end() || found->second.switches || found->second.tokens.complete()) return false;
    return m_lanes[found->second.parent]->has_work();
}

}  // namespace kvloupe
