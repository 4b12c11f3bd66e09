// SPDX-License-Identifier: GPL-3.0-or-later
//
// AttentionIndex: where the attention rows of one sequence lie in a lane's log, by layer and head; read incrementally, from the
// part of the log in which the sequence lives.
#pragma once

#include "engine/record/recording.h"
#include "views/growing_data.h"
#include "views/sequence_scan.h"

#include <map>
#include <span>
#include <vector>

namespace kvloupe {

// Indices of a sequence's rows, ascending, by layer * query heads + head.
class AttentionPlaces {
public:
    AttentionPlaces() = default;
    AttentionPlaces(const Recording& recording, LaneId lane, SequenceId sequence);
    void update(const Recording& recording, LaneId lane, const std::atomic<bool>& cancelled) {
        read(recording, lane, UINT64_MAX, cancelled);
    }
    void readSome(const Recording& recording, LaneId lane, std::uint64_t records) { read(recording, lane, records, false); }

    std::size_t steps() const { return m_scan.steps(); }
    std::uint64_t looked() const { return m_scan.looked(); }
    std::uint32_t heads() const { return m_heads; }
    const std::vector<std::vector<std::uint64_t>>& rows() const { return m_rows; }

private:
    void read(const Recording& recording, LaneId lane, std::uint64_t records, const std::atomic<bool>& cancelled);

    SequenceScan m_scan;
    std::uint32_t m_heads = 0;
    std::vector<std::vector<std::uint64_t>> m_rows;
};

class AttentionIndex {
public:
    // Brings the index to the newest published step of the lane. ready: called when a job has read what was too much to be read
    // at once.
    void update(const std::shared_ptr<const Recording>& recording, LaneId lane, SequenceId sequence, std::function<void()> ready = {});
    void clear();
    void settle() { m_places.settle(); }
    bool reading(std::size_t step) const { return m_record && m_places->steps() <= step; }  // there may be more rows up to the step
    std::uint64_t looked() const { return m_places->looked(); }                             // records looked at for this sequence

    // Rows of a head recorded up to and including the step, by query position; null where none was recorded. Empty when
    // the head has no row at all. Recomputed rows (a lane without a cache) replace earlier ones.
    std::vector<const AttentionRow*> rows(std::uint32_t layer, std::uint32_t head, std::size_t step) const;
    bool recorded(std::uint32_t layer, std::uint32_t head, std::size_t step) const;
    bool layerRecorded(std::uint32_t layer, std::size_t step) const;
    bool anything(std::size_t step) const;

    // Softmax weights of a row, key_count of them.
    float weight(const AttentionRow& row, std::uint32_t key) const;

private:
    std::uint64_t endOf(std::size_t step) const;

    std::shared_ptr<const Recording> m_recording;
    const LaneRecord* m_record = nullptr;
    LaneId m_lane;
    SequenceId m_sequence;
    GrowingData<AttentionPlaces, SequenceScan::read_at_once> m_places;
};

// Rows of a layer's newest queries, by sequence and query head.
using NewestRows = std::map<std::pair<std::uint32_t, std::uint32_t>, const AttentionRow*>;
// Of the steps up to and including `step`, backwards until each sequence has been found or so many rows were looked at that what
// is older is not the present any more.
NewestRows newestRows(const LaneRecord& lane, std::size_t step, std::uint32_t layer, std::span<const std::uint32_t> sequences);

}  // namespace kvloupe
