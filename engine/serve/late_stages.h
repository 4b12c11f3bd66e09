// SPDX-License-Identifier: GPL-3.0-or-later
//
// Stages of a measured step: from the backend's timings and the pass's costs, at once or while the next pass runs.
#pragma once

#include "engine/backend.h"
#include "engine/record/writer.h"
#include "engine/serve/stage_costs.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvloupe {

// A forward pass whose stages were timed: the backend's set, and what its stages had to move and compute.
struct MeasuredPass {
    std::uint64_t set = 0;
    StageCosts costs;
};

// Adds a pass's timings to `stages`: one record per kind and layer, in the order of execution. Every pass marks the same
// stages in the same order; a step of several passes adds them up. A stage may be marked in several parts (experts).
void add_stages(std::vector<StageRecord>& stages, std::span<const StageTiming> timings, const StageCosts& costs);

// LateStages: the stages of one step that the device still measures. One object per backend, for all lanes on it: the
// backend keeps its newest two sets only, so whatever pass comes next, of any lane, reads what is outstanding after its
// own operations were issued. That is early enough for the set to be there and late enough for the device to have work.
class LateStages {
public:
    explicit LateStages(Backend& backend) : m_backend(backend) {}

    struct Step {
        LaneWriter* writer = nullptr;        // outlives the reading: read() comes before the recording is replaced
        std::uint64_t step = 0;
        StageRecord schedule;                // the lane's own stages, before and after the device's
        std::optional<StageRecord> sample;
    };
    // Reads what is outstanding, then keeps this.
    void expect(MeasuredPass pass, const Step& step);
    // Records what is outstanding with the step it belongs to. Waits for the device to have measured it. A device that
    // was lost gives no timings: then there is no record.
    void read();

private:
    struct Outstanding {
        MeasuredPass pass;
        Step step;
    };

    Backend& m_backend;
    std::optional<Outstanding> m_outstanding;
};

}  // namespace kvloupe
