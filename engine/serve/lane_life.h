// SPDX-License-Identifier: GPL-3.0-or-later
//
// LaneLife: what a lane is at the end of a step, without the bytes of its pool: all that its later steps depend on. It can be copied,
// so that a lane can be put back (engine_frame.h).
#pragma once

#include "engine/cache/cache_manager.h"
#include "engine/serve/beam_search.h"
#include "engine/serve/residual_pages.h"
#include "engine/serve/scenario.h"
#include "engine/serve/scheduler.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe {

struct LaneLife {
    // Shares nothing with the original. Between steps, of a lane that has begun.
    LaneLife copy() const;
    std::uint64_t bytes() const;  // that a copy takes, about

    std::unique_ptr<CacheManager> m_cache;       // null without a cache
    ResidualPages m_pages;                       // empty unless a layer keeps a residual
    std::unique_ptr<Scheduler> m_scheduler;
    std::vector<std::unique_ptr<Request>> m_requests;
    std::map<std::string, Request*> m_by_name;   // sequences by their own names
    std::map<std::pair<std::uint32_t, std::uint32_t>, Request*> m_coming;  // by arrival step, then order
    std::vector<Request*> m_ended_in_batch;      // static batching: ended, their blocks stay
    std::map<RequestId, BeamGroup> m_beams;
    std::vector<ScenarioAction> m_actions;       // by step; taken from the end
    SchedulerOptions m_scheduling;               // of the step in progress
    std::size_t m_next_rules = 0;                // of the lane's rules
    bool m_chosen = false;                       // the branch's token was taken
    std::uint32_t m_step = 0;                    // the next one
    std::string m_failure;                       // of the last step
    bool m_failed_last = false;
};

}  // namespace kvloupe
