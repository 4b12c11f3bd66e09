// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/attention_index.h"

namespace kvloupe {

void AttentionIndex::clear() { *this = AttentionIndex(); }

void AttentionIndex::update(const Recording& recording, LaneId lane, SequenceId sequence) {
    if (&recording != m_recording || lane != m_lane || sequence != m_sequence) {
        clear();
        m_recording = &recording;
        m_record = &recording.lane(lane);
        m_lane = lane;
        m_sequence = sequence;
        m_heads = m_record->info().query_heads;
        m_rows.resize(std::size_t{m_record->info().layers} * m_heads);
    }
    const std::size_t steps = m_record->step_count();
    if (steps == 0) return;
    const std::uint64_t end = m_record->step(steps - 1).attention.end;
    for (; m_scanned < end; ++m_scanned) {
        const AttentionRow& row = m_record->attention()[m_scanned];
        const std::size_t place = std::size_t{row.layer} * m_heads + row.head;
        if (row.sequence == sequence && place < m_rows.size()) m_rows[place].push_back(m_scanned);
    }
}

std::uint64_t AttentionIndex::endOf(std::size_t step) const { return m_record ? m_record->step(step).attention.end : 0; }

std::vector<const AttentionRow*> AttentionIndex::rows(std::uint32_t layer, std::uint32_t head, std::size_t step) const {
    std::vector<const AttentionRow*> rows;
    const std::size_t place = std::size_t{layer} * m_heads + head;
    if (place >= m_rows.size()) return rows;
    const std::uint64_t end = endOf(step);
    for (const std::uint64_t index : m_rows[place]) {
        if (index >= end) break;
        const AttentionRow& row = m_record->attention()[index];
        if (row.position >= rows.size()) rows.resize(std::size_t{row.position} + 1, nullptr);
        rows[row.position] = &row;
    }
    return rows;
}

bool AttentionIndex::recorded(std::uint32_t layer, std::uint32_t head, std::size_t step) const {
    const std::size_t place = std::size_t{layer} * m_heads + head;
    return place < m_rows.size() && !m_rows[place].empty() && m_rows[place].front() < endOf(step);
}

bool AttentionIndex::layerRecorded(std::uint32_t layer, std::size_t step) const {
    for (std::uint32_t head = 0; head < m_heads; ++head)
        if (recorded(layer, head, step)) return true;
    return false;
}

bool AttentionIndex::anything(std::size_t step) const {
    const std::uint64_t end = endOf(step);
    for (const auto& rows : m_rows)
        if (!rows.empty() && rows.front() < end) return true;
    return false;
}

float AttentionIndex::weight(const AttentionRow& row, std::uint32_t key) const {
    return key < row.key_count ? m_record->attention_weights()[row.weights_begin + key] : 0.0f;
}

}  // namespace kvloupe
