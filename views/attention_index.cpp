// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/attention_index.h"

#include <unordered_set>

namespace kvloupe {

namespace {

constexpr std::uint64_t rows_looked_back = 1 << 16;

}  // namespace

AttentionPlaces::AttentionPlaces(const Recording& recording, LaneId lane, SequenceId sequence)
    : m_scan(recording, lane, sequence), m_heads(recording.lane(lane).info().query_heads) {
    m_rows.resize(std::size_t{recording.lane(lane).info().layers} * m_heads);
}

void AttentionPlaces::read(const Recording& recording, LaneId laneId, std::uint64_t records, const std::atomic<bool>& cancelled) {
    const LaneRecord& lane = recording.lane(laneId);
    m_scan.read(lane, {records}, cancelled, [&](const StepRecord& step) {
        for (std::uint64_t i = step.attention.begin; i < step.attention.end; ++i) {
            const AttentionRow& row = lane.attention()[i];
            const std::size_t place = std::size_t{row.layer} * m_heads + row.head;
            if (row.sequence == m_scan.sequence() && place < m_rows.size()) m_rows[place].push_back(i);
        }
        return step.attention.size();
    });
}

void AttentionIndex::clear() {
    m_recording.reset();
    m_record = nullptr;
    m_places.follow(nullptr, {}, {});
}

void AttentionIndex::update(const std::shared_ptr<const Recording>& recording, LaneId lane, SequenceId sequence,
                            std::function<void()> ready) {
    if (recording != m_recording || lane != m_lane || sequence != m_sequence) {
        m_recording = recording;
        m_record = &recording->lane(lane);
        m_lane = lane;
        m_sequence = sequence;
        m_places.begin(AttentionPlaces(*recording, lane, sequence), recording, lane);
    }
    m_places.follow(recording, lane, std::move(ready));
}

std::uint64_t AttentionIndex::endOf(std::size_t step) const { return m_record ? m_record->step(step).attention.end : 0; }

std::vector<const AttentionRow*> AttentionIndex::rows(std::uint32_t layer, std::uint32_t head, std::size_t step) const {
    std::vector<const AttentionRow*> rows;
    const std::size_t place = std::size_t{layer} * m_places->heads() + head;
    if (place >= m_places->rows().size()) return rows;
    const std::uint64_t end = endOf(step);
    for (const std::uint64_t index : m_places->rows()[place]) {
        if (index >= end) break;
        const AttentionRow& row = m_record->attention()[index];
        if (row.position >= rows.size()) rows.resize(std::size_t{row.position} + 1, nullptr);
        rows[row.position] = &row;
    }
    return rows;
}

bool AttentionIndex::recorded(std::uint32_t layer, std::uint32_t head, std::size_t step) const {
    const auto& all = m_places->rows();
    const std::size_t place = std::size_t{layer} * m_places->heads() + head;
    return place < all.size() && !all[place].empty() && all[place].front() < endOf(step);
}

bool AttentionIndex::layerRecorded(std::uint32_t layer, std::size_t step) const {
    for (std::uint32_t head = 0; head < m_places->heads(); ++head)
        if (recorded(layer, head, step)) return true;
    return false;
}

bool AttentionIndex::anything(std::size_t step) const {
    const std::uint64_t end = endOf(step);
    for (const auto& rows : m_places->rows())
        if (!rows.empty() && rows.front() < end) return true;
    return false;
}

float AttentionIndex::weight(const AttentionRow& row, std::uint32_t key) const {
    return key < row.key_count ? m_record->attention_weights()[row.weights_begin + key] : 0.0f;
}

NewestRows newestRows(const LaneRecord& lane, std::size_t step, std::uint32_t layer, std::span<const std::uint32_t> sequences) {
    NewestRows found;
    std::unordered_set<std::uint32_t> missing(sequences.begin(), sequences.end());
    std::uint64_t looked = 0;
    for (std::size_t at = std::min(step + 1, lane.step_count()); at-- > 0 && !missing.empty() && looked < rows_looked_back; ++looked) {
        std::vector<std::uint32_t> here;
        const LogRange range = lane.step(at).attention;
        looked += range.size();
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
            const AttentionRow& row = lane.attention()[i];
            if (row.layer != layer || !missing.count(row.sequence.value)) continue;
            const AttentionRow*& newest = found[{row.sequence.value, row.head}];
            if (!newest || newest->position <= row.position) newest = &row;
            here.push_back(row.sequence.value);
        }
        for (const std::uint32_t sequence : here) missing.erase(sequence);
    }
    return found;
}

}  // namespace kvloupe
