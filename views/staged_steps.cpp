// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/staged_steps.h"

#include "views/format.h"

#include <QCoreApplication>

#include <algorithm>

namespace kvloupe {

std::optional<std::size_t> stagedAtOrBefore(const LaneRecord& lane, int step) {
    if (step < 0) return std::nullopt;
    const auto& staged = lane.staged_steps();
    std::size_t begin = 0, end = staged.size();
    while (begin < end) {
        const std::size_t middle = begin + (end - begin) / 2;
        if (staged[middle].step <= static_cast<std::uint64_t>(step)) begin = middle + 1;
        else end = middle;
    }
    if (begin == 0) return std::nullopt;
    return begin - 1;
}

QString cadenceText(const LaneRecord& lane, int step) {
    constexpr std::size_t looked_at = 2;  // distances: few, so that a change of the cadence shows soon
    const auto last = stagedAtOrBefore(lane, step);
    if (!last || *last == 0) return {};
    const auto& staged = lane.staged_steps();
    const std::uint64_t least = staged[*last].step - staged[*last - 1].step;
    for (std::size_t i = *last; i > 0 && *last - i < looked_at; --i)
        if (staged[i].step - staged[i - 1].step != least) return {};
    // A device's stages come with the step after their own.
    if (static_cast<std::uint64_t>(step) > staged[*last].step + least + 1) return {};
    if (least <= 1) return QCoreApplication::translate("kvloupe::staged_steps", "stages are measured in every step");
    return QCoreApplication::translate("kvloupe::staged_steps", "stages are measured in one step of %1")
        .arg(formatCount(least));
}

void StagedSteps::advance(std::shared_ptr<const Recording> recording, LaneId lane) {
    if (recording != m_recording || lane != m_lane) {
        m_recording = std::move(recording);
        m_lane = lane;
        m_entries.clear();
    }
    if (!m_recording || lane.value >= m_recording->lanes().size()) return;
    const LaneRecord& record = m_recording->lane(lane);
    const std::size_t steps = record.step_count(), count = record.staged_steps().size();
    for (std::size_t i = m_entries.size(); i < count; ++i) {
        const std::uint64_t step = record.staged_steps()[i].step;
        if (step >= steps) break;  // its StepRecord is published last
        Entry entry = m_entries.empty() ? Entry{} : m_entries.back();
        const StepRecord& counters = record.step(step);
        if (counters.prefill_tokens > 0) entry.prefill = static_cast<int>(step);
        else if (counters.decode_tokens > 0) entry.decode = static_cast<int>(step);
        m_entries.push_back(entry);
    }
}

std::optional<int> StagedSteps::last(int step, int Entry::*kind) const {
    if (!m_recording || m_entries.empty()) return std::nullopt;
    const auto place = stagedAtOrBefore(m_recording->lane(m_lane), step);
    if (!place) return std::nullopt;
    const int found = m_entries[std::min(*place, m_entries.size() - 1)].*kind;
    return found >= 0 && found <= step ? std::optional(found) : std::nullopt;
}

}  // namespace kvloupe
