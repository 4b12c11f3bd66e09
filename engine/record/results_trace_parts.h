// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the parts of trace.json share (results_trace.cpp).
#pragma once

#include "engine/record/recording.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace kvloupe {

// Events one after the other, up to a number of bytes.
class TraceText {
public:
    explicit TraceText(std::uint64_t limit) : m_limit(limit) {}

    // One event from its fields ("\"ph\":\"X\",…"); false once the limit is reached.
    bool add(const std::string& fields) {
        if (m_events.size() + fields.size() + 4 > m_limit) {
            m_full = true;
            return false;
        }
        if (!m_events.empty()) m_events += ",\n";
        m_events += '{';
        m_events += fields;
        m_events += '}';
        return true;
    }
    bool full() const { return m_full; }
    std::size_t size() const { return m_events.size(); }
    std::string take() { return std::move(m_events); }

private:
    std::uint64_t m_limit;
    std::string m_events;
    bool m_full = false;
};

// As a JSON string, quotes included; bytes that are no text become U+FFFD.
std::string trace_string(const std::string& text);

// The fields ph, ts, pid, tid.
std::string trace_head(const char* phase, std::uint64_t ns, std::size_t process, int thread);

// One end of a flow: "s" begins, "f" ends it in the slice that is open on the thread then. The name is also its category.
struct TraceFlow {
    const char* phase;
    const char* name;
    std::string id;
    std::uint64_t ns;
    std::size_t process;
    int thread;
};
std::string flow_fields(const TraceFlow& flow);

// The async tracks of a lane's sequences with their phases, and with `flows` what leads from admission to first token on the
// engine's track. Returns the number of sequences that did not fit.
std::size_t add_trace_requests(TraceText& trace, const Recording& recording, std::size_t lane, bool flows);

}  // namespace kvloupe
