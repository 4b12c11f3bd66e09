// SPDX-License-Identifier: GPL-3.0-or-later
//
// WaitingQueue: requests that have arrived and do not run, from the head. First come first served: who arrives goes to
// the tail, who was preempted to the head. By priority: ordered by (priority, arrival), whoever comes (CACHE_SEMANTICS
// 1.1, S5).
#pragma once

#include "engine/serve/request.h"

#include <algorithm>
#include <deque>

namespace kvloupe {

class WaitingQueue {
public:
    explicit WaitingQueue(bool by_priority) : m_by_priority(by_priority) {}

    // Lower comes first.
    static bool before(const Request* a, const Request* b) {
        return a->priority != b->priority ? a->priority < b->priority : a->order < b->order;
    }

    void arrive(Request& request) { insert(request, false); }
    void come_back(Request& request) { insert(request, true); }
    void remove(const Request& request) {
        if (const auto found = std::find(m_requests.begin(), m_requests.end(), &request); found != m_requests.end())
            m_requests.erase(found);
    }

    // Another order from now on: by priority who waits is ordered anew, else they stay as they stand.
    void set_by_priority(bool by_priority) {
        m_by_priority = by_priority;
        if (m_by_priority) std::stable_sort(m_requests.begin(), m_requests.end(), before);
    }

    // The copies wait in the places of those that they are copies of.
    void change_to(const RequestCopies& copies) {
        for (Request*& request : m_requests) request = copies.at(request);
    }

    bool empty() const { return m_requests.empty(); }
    const std::deque<Request*>& requests() const { return m_requests; }

private:
    void insert(Request& request, bool at_head) {
        if (m_by_priority) m_requests.insert(std::upper_bound(m_requests.begin(), m_requests.end(), &request, before), &request);
        else if (at_head) m_requests.push_front(&request);
        else m_requests.push_back(&request);
    }

    bool m_by_priority;
    std::deque<Request*> m_requests;
};

}  // namespace kvloupe
