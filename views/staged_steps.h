// SPDX-License-Identifier: GPL-3.0-or-later
//
// StagedSteps: which steps of a lane have stages, and the latest of them that decoded or computed prompts. Stages may come
// later than their step (a GPU's do), so this follows the list of staged steps, not the steps.
#pragma once

#include "engine/record/recording.h"

#include <QString>

#include <optional>
#include <vector>

namespace kvloupe {

// Index into LaneRecord::staged_steps() of the last one up to `step`; empty where there is none. O(log steps).
std::optional<std::size_t> stagedAtOrBefore(const LaneRecord& lane, int step);

// "stages are measured in one step of 4", by the distances of the newest staged steps up to `step`, because the cadence can be
// changed while the session runs; "" where they differ, where fewer than two are, and where `step` lies farther behind them.
QString cadenceText(const LaneRecord& lane, int step);

class StagedSteps {
public:
    // Reads the staged steps that are new since the last time; another lane starts anew.
    void advance(std::shared_ptr<const Recording> recording, LaneId lane);

    // The last step up to `step` with stages that only decoded; that computed prompt tokens (or recomputed a prefix).
    std::optional<int> decodeStep(int step) const { return last(step, &Entry::decode); }
    std::optional<int> prefillStep(int step) const { return last(step, &Entry::prefill); }

private:
    struct Entry {
        int decode = -1, prefill = -1;  // steps, up to and with this one
    };
    std::optional<int> last(int step, int Entry::*kind) const;

    std::shared_ptr<const Recording> m_recording;
    LaneId m_lane;
    std::vector<Entry> m_entries;       // one for each of LaneRecord::staged_steps()
};

}  // namespace kvloupe
