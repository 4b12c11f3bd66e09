// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/engine_frame.h"

#include <algorithm>

namespace kvloupe {

std::uint32_t EngineFrame::first_step() const {
    std::uint32_t step = UINT32_MAX;
    for (const LaneFrame& lane : lanes) step = std::min(step, lane.life.m_step);
    return step;
}

std::uint32_t EngineFrame::end_step() const {
    std::uint32_t step = 0;
    for (const LaneFrame& lane : lanes) step = std::max(step, lane.life.m_step);
    return step;
}

void EngineFrames::forget_work() {
    m_steps = 0;
    m_work = {};
}

void EngineFrames::note_step(std::chrono::nanoseconds work) {
    ++m_steps;
    m_work += work;
}

bool EngineFrames::due() const {
    return m_policy.memory_bytes > 0 && m_steps >= m_policy.least_steps && m_work >= m_policy.least_work &&
           static_cast<double>(m_cost.count()) <= m_policy.most_share * static_cast<double>(m_work.count());
}

void EngineFrames::keep(std::unique_ptr<const EngineFrame> frame, std::chrono::nanoseconds cost) {
    forget_work();
    m_cost = cost;
    if (!frame) return;
    m_bytes += frame->bytes;
    m_frames.push_back(std::move(frame));
    while (m_bytes > m_policy.memory_bytes && m_frames.size() > 1) thin_out();
}

// The first, third, … go, so the newest of an even number stays and so do those that were kept before.
void EngineFrames::thin_out() {
    std::vector<std::unique_ptr<const EngineFrame>> kept;
    m_bytes = 0;
    for (std::size_t i = 1; i < m_frames.size(); i += 2) {
        m_bytes += m_frames[i]->bytes;
        kept.push_back(std::move(m_frames[i]));
    }
    m_frames = std::move(kept);
    m_policy.least_steps = std::min(m_policy.least_steps, UINT32_MAX / 2) * 2;
    m_policy.least_work *= 2;
}

const EngineFrame* EngineFrames::go_back(std::uint32_t step, const AskedSoFar& asked) {
    const auto later = std::find_if(m_frames.begin(), m_frames.end(), [&](const auto& frame) {
        return frame->end_step() > step + std::uint64_t{1} || frame->asked.submitted > asked.submitted ||
               frame->asked.actions > asked.actions;
    });
    for (auto frame = later; frame != m_frames.end(); ++frame) m_bytes -= (*frame)->bytes;
    m_frames.erase(later, m_frames.end());
    forget_work();
    return m_frames.empty() ? nullptr : m_frames.back().get();
}

void EngineFrames::clear() {
    m_frames.clear();
    m_bytes = 0;
    forget_work();
}

}  // namespace kvloupe
