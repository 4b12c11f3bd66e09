// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/frame_clock.h"

namespace kvloupe {

namespace {

constexpr int tick_ms = 16;
constexpr int idle_ticks_before_stop = 60;  // about a second: a command that was just given has begun by then
constexpr std::size_t gaps_kept = 1000;

}  // namespace

FrameClock::FrameClock(QObject* parent) : QObject(parent) {
    m_timer.setInterval(tick_ms);
    m_timer.setTimerType(Qt::PreciseTimer);
    connect(&m_timer, &QTimer::timeout, this, &FrameClock::tick);
}

void FrameClock::watch(std::shared_ptr<const Recording> recording) {
    m_recording = std::move(recording);
    m_steps = 0;
    m_phase = Phase::loading;
    if (m_recording)
        wake();
    else
        m_timer.stop();
}

void FrameClock::wake() {
    m_idleTicks = 0;
    if (!m_recording || m_timer.isActive()) return;
    m_sinceTick.invalidate();
    m_timer.start();
}

void FrameClock::tick() {
    if (!m_recording) return;
    // Phase first, then sizes: when the phase says finished, every step is already published.
    const Phase before = m_phase;
    const Phase now = m_recording->phase();
    std::size_t steps = 0;
    for (const auto& lane : m_recording->lanes()) steps += lane->step_count();

    if (before == Phase::running && now == Phase::running && m_sinceTick.isValid()) {
        if (m_gaps.size() == gaps_kept) m_gaps.erase(m_gaps.begin());
        m_gaps.push_back(static_cast<double>(m_sinceTick.nsecsElapsed()) / 1e6);
    }
    m_sinceTick.start();

    const bool grew = steps != m_steps;
    m_steps = steps;
    m_phase = now;
    if (grew || now == Phase::running || now == Phase::loading)
        m_idleTicks = 0;
    else if (++m_idleTicks >= idle_ticks_before_stop)
        m_timer.stop();

    if (grew) Q_EMIT advanced();
    if (now != before) Q_EMIT phaseChanged();
}

}  // namespace kvloupe
