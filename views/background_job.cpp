// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/background_job.h"

#include <QMetaObject>

#include <utility>

namespace kvloupe {

BackgroundJob::BackgroundJob(QObject* parent) : QObject(parent) {}

BackgroundJob::~BackgroundJob() { cancel(); }

void BackgroundJob::start(std::function<void(const Cancelled&)> work, std::function<void()> done) {
    if (m_running) return;
    m_running = true;
    m_cancelled = false;
    m_done = std::move(done);
    const int id = ++m_id;
    // The object outlives the thread: its destructor joins before QObject's drops what is still queued.
    m_thread = std::jthread([this, id, work = std::move(work)] {
        work(m_cancelled);
        QMetaObject::invokeMethod(this, [this, id] { ended(id); }, Qt::QueuedConnection);
    });
}

void BackgroundJob::cancel() {
    m_cancelled = true;
    if (m_thread.joinable()) m_thread.join();
    m_running = false;
    m_done = nullptr;
    ++m_id;
}

void BackgroundJob::finish() {
    if (m_thread.joinable()) m_thread.join();
    ended(m_id);
}

void BackgroundJob::ended(int id) {
    if (id != m_id || !m_running) return;
    if (m_thread.joinable()) m_thread.join();
    m_running = false;
    if (const auto done = std::exchange(m_done, nullptr)) done();
}

}  // namespace kvloupe
