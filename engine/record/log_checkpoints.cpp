// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/log_checkpoints.h"

#include <chrono>

namespace kvloupe {

LogCheckpoints::LogCheckpoints(SqlDatabase& writer, const std::string& vfs, Pages pages) : m_writer(&writer), m_limits(pages) {
    auto own = SqlDatabase::open_beside(writer.path(), vfs);
    if (!own || !writer.count_log_pages(m_pages)) return;
    m_own = std::move(*own);
    m_thread = std::jthread([this](std::stop_token stop) { run(stop); });
}

LogCheckpoints::~LogCheckpoints() {
    if (m_thread.joinable()) {
        m_thread.request_stop();
        m_thread.join();
    }
    if (m_own.handle()) m_writer->leave_log_pages();
}

Result<void> LogCheckpoints::committed() {
    if (!m_own.handle()) return {};
    const int pages = m_pages.load();
    if (pages >= m_limits.often) m_wake.notify_one();
    if (pages < m_waited) m_waited = 0;  // the log has begun anew
    if (pages < m_limits.longest || pages - m_waited < m_limits.often) return {};
    m_waited = pages;
    const std::lock_guard lock(m_mutex);
    return m_writer->execute("PRAGMA wal_checkpoint(RESTART)");
}

// What fails here fails again where it matters: when the writer takes the log over, or when it has no room for more.
void LogCheckpoints::run(std::stop_token stop) {
    for (;;) {
        {
            std::unique_lock lock(m_wake_mutex);
            const auto enough = [this] {
                const int pages = m_pages.load();
                if (pages < m_tried) m_tried = 0;
                return pages - m_tried >= m_limits.often;
            };
            if (!m_wake.wait_for(lock, stop, std::chrono::milliseconds(50), enough)) {
                if (stop.stop_requested()) return;
                continue;
            }
            if (stop.stop_requested()) return;
        }
        const std::lock_guard lock(m_mutex);
        m_tried = m_pages.load();
        m_own.take_log_over();
    }
}

}  // namespace kvloupe
