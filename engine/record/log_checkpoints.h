// SPDX-License-Identifier: GPL-3.0-or-later
//
// Takes a database's log (WAL) over into the database itself while the log goes on being written: on a thread and a connection of its
// own, so that the writer never waits for the disk. A log that grew long all the same is taken over by the writer at last.
#pragma once

#include "engine/record/sql_database.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace kvloupe {

class LogCheckpoints {
public:
    struct Pages {    // of the log, 8 KiB each in a recording
        int often;    // so many more, and they are taken over
        int longest;  // then the writer stops and helps
    };

    // Follows the log of `writer`, which was opened with open_to_append() and is used by the calling thread alone; it outlives this
    // object and is not moved. Where its file system has no memory that two connections share, nothing is started: the writer's
    // connection takes its log over itself.
    LogCheckpoints(SqlDatabase& writer, const std::string& vfs, Pages pages = {2048, 16'384});
    ~LogCheckpoints();  // waits for what is under way
    LogCheckpoints(const LogCheckpoints&) = delete;
    LogCheckpoints& operator=(const LogCheckpoints&) = delete;

    // After each transaction of the writer, in its thread. Error: the log had to be taken over and could not.
    Result<void> committed();

private:
    void run(std::stop_token stop);

    SqlDatabase* m_writer;
    SqlDatabase m_own;
    const Pages m_limits;
    std::atomic<int> m_pages{0};  // of the log, as of the newest commit
    std::atomic<int> m_tried{0};  // how many there were when the thread last took some over: a reader may be in the way of all of them
    int m_waited = 0;             // and when the writer last did; its own
    std::mutex m_mutex;           // held while the log is taken over
    std::mutex m_wake_mutex;
    std::condition_variable_any m_wake;
    std::jthread m_thread;  // last: it uses the others
};

}  // namespace kvloupe
