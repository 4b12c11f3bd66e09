// SPDX-License-Identifier: GPL-3.0-or-later
//
// SlotSeries: the slots of one lane's pool by kind of waste over its steps, with sums that make any mean O(1).
// While a sequence lives, its reserved slots are a prediction; what is recounted (engine/record/recount.h) knows how many
// it wrote in the end, as the exports do.
// SlotHistory: the series of all lanes of a recording, kept up to date; long recordings are recounted by a job.
#pragma once

#include "views/background_job.h"

#include "engine/record/recording.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe {

// Kinds in the order in which they are stacked.
enum class SlotKind : std::uint8_t { token, reserved, internal, external, cached, free };
inline constexpr int slot_kind_count = 6;
using SlotSums = std::array<std::uint64_t, slot_kind_count>;
SlotSums sumsOf(const SlotCounts& slots);

class SlotSeries {
public:
    explicit SlotSeries(const LaneRecord* lane) : m_lane(lane) {}

    // Reads recorded steps up to `steps`.
    void advance(std::size_t steps);
    // Replaces the first slots.size() steps.
    void recounted(const std::vector<SlotCounts>& slots);

    std::size_t steps() const { return m_slots.size(); }
    std::size_t recountedSteps() const { return m_recounted; }
    const SlotCounts& at(std::size_t step) const { return m_slots[step]; }
    // Sum over steps begin .. end - 1; end <= steps().
    SlotSums sum(std::size_t begin, std::size_t end) const;
    // Wasted ÷ (wasted + token), mean over the steps up to and including `step` in which a request waited, over all of
    // them if none did (contract, section 4). None where nothing was held.
    std::optional<double> wastedSoFar(std::size_t step) const;
    std::uint32_t peakRunning(std::size_t step) const { return m_past[step + 1].peakRunning; }  // up to and including
    std::uint32_t rejected(std::size_t step) const { return m_past[step + 1].rejected; }        // requests, likewise
    std::uint64_t pool() const;                                                                  // slots

private:
    struct Past {  // of the steps before
        SlotSums sums{};
        double wasted = 0, wastedWaiting = 0;
        std::uint32_t held = 0, heldWaiting = 0;  // steps with a share; those in which one waited too
        std::uint32_t waiting = 0;                // steps in which a request waited
        std::uint32_t peakRunning = 0, rejected = 0;
    };
    void accumulate(std::size_t from);

    const LaneRecord* m_lane;
    std::vector<SlotCounts> m_slots;
    std::vector<std::uint32_t> m_rejections;  // in each step
    std::vector<Past> m_past{Past{}};         // (steps + 1)
    std::size_t m_recounted = 0;
};

class SlotHistory : public QObject {
    Q_OBJECT

public:
    explicit SlotHistory(QObject* parent = nullptr);

    // Reads what was recorded since the last call; recounts when nothing runs. Another recording starts over.
    void update(const std::shared_ptr<const Recording>& recording);
    // Whether update() has seen this recording.
    bool holds(const Recording* recording) const { return recording && m_recording.get() == recording; }
    const SlotSeries& lane(LaneId id) const { return m_series[id.value]; }  // of the recording held
    bool computing() const { return m_job.running(); }
    void settle();  // waits for the job

Q_SIGNALS:
    void recounted();

private:
    std::shared_ptr<const Recording> m_recording;
    std::vector<SlotSeries> m_series;
    BackgroundJob m_job;
};

}  // namespace kvloupe
