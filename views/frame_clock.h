// SPDX-License-Identifier: GPL-3.0-or-later
//
// FrameClock: the window pulls. A 16 ms timer, idle when nothing runs, reads the phase first, then the sizes, and emits
// one advanced() for the whole delta. Finished and failed are states, not messages.
#pragma once

#include "engine/record/recording.h"

#include <QElapsedTimer>
#include <QObject>
#include <QTimer>

#include <memory>
#include <vector>

namespace kvloupe {

class FrameClock : public QObject {
    Q_OBJECT

public:
    explicit FrameClock(QObject* parent = nullptr);

    void watch(std::shared_ptr<const Recording> recording);
    // A command was given: poll until the phase says nothing runs and nothing new came for a while.
    void wake();

    Phase phase() const { return m_phase; }
    // Gaps between frames while running, milliseconds: the newest at most 1,000 (measured).
    const std::vector<double>& frameGaps() const { return m_gaps; }

Q_SIGNALS:
    void advanced();      // at least one lane has more steps than at the last tick
    void phaseChanged();

private:
    void tick();

    QTimer m_timer;
    QElapsedTimer m_sinceTick;
    std::shared_ptr<const Recording> m_recording;
    std::size_t m_steps = 0;
    int m_idleTicks = 0;
    Phase m_phase = Phase::loading;
    std::vector<double> m_gaps;
};

}  // namespace kvloupe
