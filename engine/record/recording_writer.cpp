// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/writer.h"

#include <algorithm>
#include <utility>

namespace kvloupe {

RecordingWriter::RecordingWriter(std::string title, std::uint64_t memory_budget_bytes)
    : m_recording(std::make_shared<Recording>()), m_start(std::chrono::steady_clock::now()) {
    m_recording->m_title = std::move(title);
    m_recording->m_memory_budget = memory_budget_bytes;
}

LaneWriter& RecordingWriter::add_lane(LaneInfo info, std::shared_ptr<const VocabularyText> vocabulary) {
    m_recording->m_lanes.push_back(std::make_unique<LaneRecord>(std::move(info), std::move(vocabulary)));
    m_lanes.push_back(
        std::make_unique<LaneWriter>(*m_recording->m_lanes.back(), m_start, m_recording->m_memory_budget));
    m_lanes.back()->m_set_time_ns = m_set_time_ns.get();
    return *m_lanes.back();
}

void RecordingWriter::lanes_complete() {
    const std::uint64_t share = m_recording->m_memory_budget / std::max<std::size_t>(m_lanes.size(), 1);
    for (auto& lane : m_lanes) lane->m_attention_budget = share;
}

void RecordingWriter::begin_with(const Recording& before, std::span<const LaneMark> marks) {
    std::uint64_t passed = 0;
    for (std::size_t i = 0; i < m_lanes.size(); ++i) {
        m_lanes[i]->begin_with(*before.m_lanes[i], marks[i]);
        const StepRecord& last = m_lanes[i]->m_step;
        passed = std::max(passed, last.start_ns + last.duration_ns);
    }
    m_start = std::chrono::steady_clock::now() - std::chrono::nanoseconds(passed);
    for (auto& lane : m_lanes) lane->m_session_start = m_start;
}

RequestId RecordingWriter::add_request(RequestInfo info) {
    return RequestId(static_cast<std::uint32_t>(m_recording->m_requests.push_back(std::move(info))));
}

void RecordingWriter::set_phase(Phase phase, std::string reason, std::optional<PauseFocus> focus) {
    {
        const std::lock_guard lock(m_recording->m_reason_mutex);
        m_recording->m_reason = std::move(reason);
        m_recording->m_pause_focus = focus;
    }
    m_recording->m_phase.store(phase, std::memory_order_release);
}

void RecordingWriter::set_device_memory(std::vector<DeviceMemory> memory) {
    const std::lock_guard lock(m_recording->m_reason_mutex);
    m_recording->m_device_memory = std::move(memory);
}

void RecordingWriter::set_time(std::uint64_t nanoseconds) {
    if (!m_set_time_ns) m_set_time_ns = std::make_unique<std::uint64_t>(0);
    *m_set_time_ns = nanoseconds;
    for (auto& lane : m_lanes) lane->m_set_time_ns = m_set_time_ns.get();
}

std::uint64_t RecordingWriter::elapsed_ns() const {
    if (m_set_time_ns) return *m_set_time_ns;
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - m_start).count());
}

}  // namespace kvloupe
