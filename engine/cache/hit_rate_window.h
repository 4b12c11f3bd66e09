// SPDX-License-Identifier: GPL-3.0-or-later
//
// HitRateWindow: hit tokens / queried tokens over the last requests, as vLLM logs it (CACHE_SEMANTICS 1.1 "Hit rule", V21).
// Requests come in batches (those admitted in one step); the oldest batches leave while the others still make up more than
// the window. A batch larger than the window stays alone.
#pragma once

#include <cstdint>
#include <deque>

namespace kvloupe {

class HitRateWindow {
public:
    explicit HitRateWindow(std::uint64_t requests = 1000) : m_most(requests) {}

    // An empty batch is ignored.
    void add(std::uint64_t requests, std::uint64_t queried_tokens, std::uint64_t hit_tokens) {
        if (requests == 0) return;
        m_batches.push_back({requests, queried_tokens, hit_tokens});
        m_requests += requests;
        m_queried += queried_tokens;
        m_hits += hit_tokens;
        while (m_batches.size() > 1 && m_requests > m_most) {
            const Batch& oldest = m_batches.front();
            m_requests -= oldest.requests;
            m_queried -= oldest.queried;
            m_hits -= oldest.hits;
            m_batches.pop_front();
        }
    }

    std::uint64_t requests() const { return m_requests; }
    std::uint64_t queried_tokens() const { return m_queried; }
    std::uint64_t hit_tokens() const { return m_hits; }
    // 0 while nothing was queried.
    double rate() const { return m_queried == 0 ? 0 : static_cast<double>(m_hits) / static_cast<double>(m_queried); }

private:
    struct Batch {
        std::uint64_t requests = 0, queried = 0, hits = 0;
    };
    std::uint64_t m_most;
    std::deque<Batch> m_batches;
    std::uint64_t m_requests = 0, m_queried = 0, m_hits = 0;
};

}  // namespace kvloupe
