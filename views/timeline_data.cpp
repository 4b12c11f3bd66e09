// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/timeline_data.h"

#include <algorithm>
#include <numeric>

namespace kvloupe {

void TimelineData::extend(SequenceId sequence, std::uint32_t step, bool waiting) {
    Life& life = m_lives[sequence.value];
    if (life.span < m_spans.size()) {
        Span& last = m_spans[life.span];
        if (last.waiting == waiting && last.end >= step) {
            last.end = step + 1;
            return;
        }
    }
    life.span = m_spans.size();
    m_spans.push_back({sequence, step, step + 1, waiting});
}

void TimelineData::update(const Recording& recording, LaneId laneId, const std::atomic<bool>& cancelled) {
    if (&recording != m_recording || laneId != m_lane) {
        *this = TimelineData();
        m_recording = &recording;
        m_lane = laneId;
    }
    const LaneRecord& lane = recording.lane(laneId);
    const auto steps = static_cast<std::uint32_t>(lane.step_count());
    for (; m_steps < steps && !cancelled.load(std::memory_order_relaxed); ++m_steps) {
        const LogRange range = lane.step(m_steps).events;
        std::uint32_t prefill = 0;
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
            const Event& event = lane.events()[i];
            if (event.sequence.valid()) {
                if (event.sequence.value >= m_lives.size()) m_lives.resize(std::size_t{event.sequence.value} + 1);
                Life& life = m_lives[event.sequence.value];
                if (!life.seen) life.first = m_steps;
                life.seen = true;
                life.last = m_steps;
            }
            switch (event.kind) {
            case EventKind::prefill:
                m_prefills.push_back({m_steps, event.sequence, event.tokens});
                prefill += event.tokens;
                if (event.cause == Cause::no_kv_cache) extend(event.sequence, m_steps, false);
                break;
            case EventKind::decode: extend(event.sequence, m_steps, false); break;
            case EventKind::arrive:
            case EventKind::preempt: m_lives[event.sequence.value].waits = true; break;
            case EventKind::admit:
            case EventKind::resume:
            case EventKind::reject:
            case EventKind::finish:
                if (event.sequence.valid()) m_lives[event.sequence.value].waits = false;
                break;
            default: break;
            }
            switch (event.kind) {
            case EventKind::arrive:
            case EventKind::reject:
            case EventKind::finish:
            case EventKind::fork:
            case EventKind::copy_on_write:
            case EventKind::prefix_hit:
            case EventKind::evict:
            case EventKind::preempt:
                m_marks.push_back({m_steps, event.kind, i});
                m_marked.set(static_cast<std::size_t>(event.kind));
                break;
            default: break;
            }
        }
        m_mostPrefill = std::max(m_mostPrefill, prefill);
        for (std::size_t s = 0; s < m_lives.size(); ++s) {
            if (!m_lives[s].waits) continue;
            m_lives[s].last = m_steps;
            extend(SequenceId(static_cast<std::uint32_t>(s)), m_steps, true);
        }
    }
}

int TimelineData::weight(EventKind kind) {
    switch (kind) {
    case EventKind::copy_on_write: return 5;
    case EventKind::preempt: return 4;
    case EventKind::reject: return 3;
    case EventKind::evict: return 2;
    case EventKind::fork: return 1;
    default: return 0;
    }
}

std::uint32_t TimelineData::firstStep(SequenceId sequence) const {
    return sequence.value < m_lives.size() ? m_lives[sequence.value].first : 0;
}

std::vector<std::uint32_t> TimelineData::packRows(std::uint32_t& rowCount) const {
    std::vector<std::uint32_t> rows(m_lives.size(), 0), order(m_lives.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
        return m_lives[a].first != m_lives[b].first ? m_lives[a].first < m_lives[b].first : a < b;
    });
    std::vector<std::uint32_t> freeFrom;  // per row: first step at which it is free
    for (const std::uint32_t sequence : order) {
        const Life& life = m_lives[sequence];
        if (!life.seen) continue;
        auto row = std::find_if(freeFrom.begin(), freeFrom.end(), [&life](std::uint32_t from) { return from <= life.first; });
        if (row == freeFrom.end()) row = freeFrom.insert(freeFrom.end(), 0);
        *row = life.last + 2;
        rows[sequence] = static_cast<std::uint32_t>(row - freeFrom.begin());
    }
    rowCount = static_cast<std::uint32_t>(freeFrom.size());
    return rows;
}

}  // namespace kvloupe
