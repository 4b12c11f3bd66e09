// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/step_marks.h"

#include <algorithm>
#include <limits>

namespace kvloupe {

namespace {

constexpr std::uint64_t counted_at_once = 50'000;  // events, less than a millisecond

void countOneMore(std::uint16_t& counter) {
    if (counter < std::numeric_limits<std::uint16_t>::max()) ++counter;
}

}  // namespace

std::vector<StepMarks::Counts> StepMarks::countFrom(const LaneRecord& lane, std::size_t known, std::size_t end,
                                                    const std::atomic<bool>& cancelled) {
    std::vector<Counts> counts;
    for (std::size_t step = known; step < end && !cancelled.load(std::memory_order_relaxed); ++step) {
        Counts& now = counts.emplace_back();
        const LogRange range = lane.step(step).events;
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
            switch (lane.events()[i].kind) {
            case EventKind::copy_on_write: countOneMore(now.copies); break;
            case EventKind::evict: countOneMore(now.evictions); break;
            case EventKind::preempt: countOneMore(now.preemptions); break;
            default: break;
            }
        }
    }
    return counts;
}

void StepMarks::follow(const std::shared_ptr<const Recording>& recording, LaneId lane, std::function<void()> changed) {
    if (recording != m_recording || lane != m_lane) {
        m_job.cancel();
        m_recording = recording;
        m_lane = lane;
        m_counts.clear();
        m_complete = m_tooMany = false;
    }
    if (!m_recording || lane.value >= m_recording->lanes().size() || m_job.running()) return;
    const LaneRecord& record = m_recording->lane(lane);
    const std::size_t known = m_counts.size(), end = record.step_count();
    m_complete = known == end;
    if (m_complete) return;
    const std::uint64_t seen = known > 0 ? record.step(known - 1).events.end : 0, all = record.step(end - 1).events.end;
    m_tooMany = all > m_most;
    if (m_tooMany) return;
    const auto append = [this, changed](const std::vector<Counts>& counted) {
        m_counts.insert(m_counts.end(), counted.begin(), counted.end());
        m_complete = m_counts.size() == m_recording->lane(m_lane).step_count();
        changed();
    };
    if (all - seen <= counted_at_once) {
        append(countFrom(record, known, end, std::atomic<bool>(false)));
        return;
    }
    auto counted = std::make_shared<std::vector<Counts>>();
    m_job.start([counted, recording, lane, known, end](const BackgroundJob::Cancelled& cancelled) {
        *counted = countFrom(recording->lane(lane), known, end, cancelled);
    }, [this, counted, append, recording, lane, changed] {
        append(*counted);
        follow(recording, lane, changed);  // what came meanwhile
    });
}

StepMarks::Sums StepMarks::sums(std::size_t first, std::size_t end) const {
    Sums sums;
    for (std::size_t step = first; step < std::min(end, m_counts.size()); ++step) {
        sums.copies += m_counts[step].copies;
        sums.evictions += m_counts[step].evictions;
        sums.preemptions += m_counts[step].preemptions;
    }
    return sums;
}

std::optional<std::size_t> StepMarks::next(std::size_t step, bool forwards) const {
    if (forwards) {
        for (std::size_t at = step + 1; at < m_counts.size(); ++at)
            if (m_counts[at].any()) return at;
    } else {
        for (std::size_t at = std::min(step, m_counts.size()); at-- > 0;)
            if (m_counts[at].any()) return at;
    }
    return {};
}

}  // namespace kvloupe
