// SPDX-License-Identifier: GPL-3.0-or-later
//
// Length sweep in the window (gui/sweep_run.h measures): beside the session, with progress and cancel.
#pragma once

#include "gui/sweep_run.h"

#include <QList>
#include <QObject>

#include <functional>
#include <stop_token>
#include <thread>

namespace kvloupe {

class SessionController;
class SweepView;
class View;

class LengthSweep : public QObject {
    Q_OBJECT

public:
    explicit LengthSweep(QObject* parent = nullptr);
    ~LengthSweep() override;

    void attach(const QList<View*>& views, SessionController* controller);
    void start();
    void cancel();
    // New tokens of the first and the last bar.
    void setRange(int least, int most);
    int least() const { return m_least; }
    int most() const { return m_most; }

private:
    void startThread(std::function<void(std::stop_token)> work);

    SessionController* m_controller = nullptr;
    SweepView* m_view = nullptr;
    std::jthread m_thread;
    bool m_busy = false;
    int m_least = 10;
    int m_most = 500;
};

}  // namespace kvloupe
