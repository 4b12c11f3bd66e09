// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/background_job.h"

#include "engine/record/reading_as.h"

#include <QMetaObject>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#ifdef __linux__
#include <sys/resource.h>
#include <unistd.h>
#endif

namespace kvloupe {

namespace {

// Of two threads that want one processor, the one that draws goes first.
void yieldToOthers() {
#ifdef __linux__
    constexpr int politeness = 10;  // of 19
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), politeness);
#endif
}

// Processors for jobs: all but one, and one at least.
class Places {
public:
    // False: cancelled while it waited.
    bool enter(const std::atomic<bool>& cancelled) {
        std::unique_lock lock(m_mutex);
        const std::uint64_t number = m_next++;
        m_waiting.push_back(number);
        m_wake.wait(lock, [&] { return cancelled || (m_free > 0 && m_waiting.front() == number); });
        std::erase(m_waiting, number);
        const bool entered = !cancelled;
        if (entered) --m_free;
        m_wake.notify_all();  // the next one is at the front now
        return entered;
    }
    void leave() {
        const std::lock_guard lock(m_mutex);
        ++m_free;
        m_wake.notify_all();
    }
    void wake() {
        const std::lock_guard lock(m_mutex);
        m_wake.notify_all();
    }

private:
    std::mutex m_mutex;
    std::condition_variable m_wake;
    std::deque<std::uint64_t> m_waiting;  // numbers, the first one is next
    std::uint64_t m_next = 0;
    int m_free = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) - 1);
};

Places& places() {
    static Places all;
    return all;
}

}  // namespace

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
        const ReadingAs ahead(Reading::ahead);
        yieldToOthers();
        if (places().enter(m_cancelled)) {
            work(m_cancelled);
            places().leave();
        }
        QMetaObject::invokeMethod(this, [this, id] { ended(id); }, Qt::QueuedConnection);
    });
}

void BackgroundJob::cancel() {
    m_cancelled = true;
    places().wake();
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
