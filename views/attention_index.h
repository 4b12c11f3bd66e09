// SPDX-License-Identifier: GPL-3.0-or-later
//
// AttentionIndex: where the attention rows of one sequence lie in a lane's log, by layer and head; read incrementally.
#pragma once

#include "engine/record/recording.h"

#include <vector>

namespace kvloupe {

class AttentionIndex {
public:
    // Brings the index to the newest published step of the lane.
    void update(const Recording& recording, LaneId lane, SequenceId sequence);
    void clear();

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

    const Recording* m_recording = nullptr;
    const LaneRecord* m_record = nullptr;
    LaneId m_lane;
    SequenceId m_sequence;
    std::uint64_t m_scanned = 0;
    std::uint32_t m_heads = 0;
    std::vector<std::vector<std::uint64_t>> m_rows;  // layer * heads + head -> log indices, ascending
};

}  // namespace kvloupe
