// SPDX-License-Identifier: GPL-3.0-or-later
//
// Key frames of a lane in a recording file: the last few that were asked for stay decoded, so that stepping back and forth costs
// the events alone.
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
    ~KvtFrames() override;
    KvtFrames(const KvtFrames&) = delete;
    KvtFrames& operator=(const KvtFrames&) = delete;

    // A frame that is damaged is passed over; the events since the one before say the same.
    LaneRecord::KeyFrame at_or_before(std::int64_t step) override;
    std::string damage() const override { return m_store->damage(); }

private:
    static constexpr std::size_t kept = 8;

    KvtFrames(std::shared_ptr<KvtStore> store, SqlStatement data, std::uint32_t blocks, std::uint32_t block_size)
        : m_store(std::move(store)), m_data(std::move(data)), m_blocks(blocks), m_block_size(block_size) {}
    std::shared_ptr<const LaneState> read(std::int64_t step);

    std::shared_ptr<KvtStore> m_store;
    SqlStatement m_data;
    std::uint32_t m_blocks, m_block_size;
    std::vector<std::int64_t> m_steps;           // ascending
    std::mutex m_mutex;
    std::list<LaneRecord::KeyFrame> m_recent;    // newest first
};

}  // namespace kvloupe
