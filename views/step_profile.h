// SPDX-License-Identifier: GPL-3.0-or-later
//
// StepProfile: the stages of one step of one lane, laid end to end, and the layers they make up.
// A stage records how long it took, not when it began: so the stages stand in the order in which they ran, and the time of
// the step that none of them accounts for stands behind the last one, not in invented gaps.
#pragma once

#include "engine/record/recording.h"
#include "views/stage_bound.h"

#include <QString>

#include <optional>
#include <vector>

namespace kvloupe {

class Cursor;

struct ProfiledStage {
    StageRecord record;
    double beginNs = 0;               // since the first stage began, derived: the sum of those before it
    double endNs() const { return beginNs + static_cast<double>(record.duration_ns); }
    StageWork work() const { return {record.duration_ns, record.bytes, record.flops}; }
};

// All stages of one layer, which follow one another.
struct ProfiledLayer {
    std::uint16_t layer = 0;
    std::size_t begin = 0, end = 0;   // indices into StepProfile::stages
    std::uint64_t durationNs = 0;     // measured, sum
    bool outlier = false;             // see markOutliers()
    double aboveNs = 0;               // over the median layer (derived); set for outliers
    std::optional<StageKind> reason;  // of an outlier: the stage that exceeds its own median over the layers most
};

struct StepProfile {
    int asked = -1;                   // step of the lane that was asked for
    int step = -1;                    // the nearest up to it that has stages
    StepRecord record;                // of `step`
    std::vector<ProfiledStage> stages;
    std::vector<ProfiledLayer> layers;
    double stagesNs = 0;              // sum over the stages
    double medianLayerNs = 0;

    double stepNs() const { return static_cast<double>(record.duration_ns); }
    // Of the step, accounted for by no stage (derived); 0 where the stages add up to more than the step, as those of a
    // device may that works ahead of the step's clock.
    double betweenNs() const { return stepNs() > stagesNs ? stepNs() - stagesNs : 0; }
    double wholeNs() const { return stagesNs + betweenNs(); }
    bool decodes() const { return record.prefill_tokens == 0 && record.decode_tokens > 0; }
    // First stage that ends after `ns`; stages.size() behind the last one.
    std::size_t stageAt(double ns) const;
    // The layer that holds that stage, or null.
    const ProfiledLayer* layerOf(std::size_t stage) const;
};

// The nearest step up to `step` that has stages; empty where there is none. Cost: O(log steps + stages of the step).
std::optional<StepProfile> readProfile(const LaneRecord& lane, int step);

// Robust, so that one slow layer does not hide itself: a layer is an outlier when it takes more than the median over the
// layers + 3 times their median absolute deviation, and at least 5 % more than the median. Fewer than 4 layers have none.
void markOutliers(StepProfile& profile);
QString outlierRule();   // the same in words

// "10 µs above the median layer: attention"
QString outlierText(const ProfiledLayer& layer);
// "Decode step 1,024", "Prefill step 3", "Step 7" (both, or nothing computed)
QString stepName(const StepProfile& profile);
// "29.1 ms, 34.4 tokens per second". New tokens count: those decoded and prompt tokens; a lane without a cache computes the
// prefix again, which makes no token: "127 tokens computed in 29.1 ms". The time alone where nothing is computed.
// rateMark: put before the rate, which is derived where the time is measured.
QString stepRateText(const StepRecord& step, const LaneInfo& lane, const QString& rateMark = {});
// False for a lane that accounts for blocks and has no model: rates and ceilings do not apply to it.
bool computes(const LaneInfo& lane);
// "step 40 has no stages; showing step 36", or "" where the step asked for has them.
QString otherStepText(const StepProfile& profile);
// "stopped at step 84": the lane in focus recorded its last step before the cursor's; "" where it did not.
QString stoppedText(const Cursor& cursor);
// Why nothing can be shown at that step, one sentence.
QString noStagesText(const LaneRecord* lane, int step);

}  // namespace kvloupe
