// SPDX-License-Identifier: GPL-3.0-or-later
//
// Key frames of a lane in a recording file. The last few that were asked for stay decoded, and of the stretch behind the newest some
// states that were worked out, so that a neighbouring step costs a few thousand events at most.
#pragma once

#include "engine/record/kvt_store.h"
#include "engine/record/recording.h"

#include <list>
#include <mutex>
#include <vector>

namespace kvloupe {

class KvtFrames final : public LaneRecord::StoredFrames {
public:
    static Result<std::unique_ptr<KvtFrames>> of(std::shared_ptr<KvtStore> store, std::uint32_t lane, std::uint32_t blocks,
                                                 std::uint32_t block_size);

    // A frame that is damaged is passed over; the events since the one before say the same.
    LaneRecord::KeyFrame at_or_before(std::int64_t step) override;
    void remember(std::int64_t step, std::int64_t asked, const LaneState& state) override;
    bool walks(std::int64_t asked) const override;
    std::int64_t to_be_read(std::int64_t step) const override;
    std::string damage() const override { return m_data.store().damage(); }

private:
    static constexpr std::size_t kept = 6;
    static constexpr std::size_t most_between = 8;
    static constexpr std::int64_t near = 64;  // steps: as far as somebody walks at once

    KvtFrames(KvtStatement data, std::uint32_t blocks, std::uint32_t block_size)
        : m_data(std::move(data)), m_blocks(blocks), m_block_size(block_size) {}
    std::shared_ptr<const LaneState> read(std::int64_t step);
    // The later of the frame and of what is known behind it up to `step`. Under m_mutex.
    LaneRecord::KeyFrame best(const LaneRecord::KeyFrame& frame, std::int64_t step);

    KvtStatement m_data;
    std::uint32_t m_blocks, m_block_size;
    mutable std::mutex m_mutex;                  // not while a frame is read
    std::vector<std::int64_t> m_steps;           // ascending
    std::list<LaneRecord::KeyFrame> m_recent;    // newest first
    std::int64_t m_stretch = -2;                 // the frame that what follows was worked out from
    LaneRecord::KeyFrame m_last;                 // what was asked for last
    std::vector<LaneRecord::KeyFrame> m_between;
};

}  // namespace kvloupe
