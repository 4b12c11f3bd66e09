// SPDX-License-Identifier: GPL-3.0-or-later
//
// BackgroundJob: one piece of work of a view on a thread of its own. The work runs on an immutable prefix of the recording and
// on data that the view leaves alone until finished(); a result that comes after cancel() is dropped. Of all jobs so many run at a
// time that one processor stays free for drawing; the others wait in the order of their start.
#pragma once

#include <QObject>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

namespace kvloupe {

class BackgroundJob : public QObject {
    Q_OBJECT

public:
    // True once nobody wants the result; work looks at it every few milliseconds.
    using Cancelled = std::atomic<bool>;

    explicit BackgroundJob(QObject* parent = nullptr);
    ~BackgroundJob() override;  // cancels and waits

    bool running() const { return m_running; }
    // Not while running. `done` is called in this object's thread, unless the job was cancelled.
    void start(std::function<void(const Cancelled& cancelled)> work, std::function<void()> done);
    // Asks the work to end and waits for it; `done` is not called.
    void cancel();
    // Waits for the end of the work and calls `done` now.
    void finish();

private:
    void ended(int id);

    std::jthread m_thread;
    std::function<void()> m_done;
    Cancelled m_cancelled{false};
    int m_id = 0;
    bool m_running = false;
};

}  // namespace kvloupe
