// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/kvt_frames.h"

#include "engine/record/compressed.h"
#include "engine/record/lane_state_code.h"

#include <algorithm>

namespace kvloupe {

namespace {

constexpr std::size_t max_frame_bytes = std::size_t{1} << 30;

}  // namespace

Result<std::unique_ptr<KvtFrames>> KvtFrames::of(std::shared_ptr<KvtStore> store, std::uint32_t lane, std::uint32_t blocks,
                                                 std::uint32_t block_size) {
    const auto lock = store->lock();
    const std::string where = " FROM key_frames WHERE lane = " + std::to_string(lane);
    auto steps = store->database().prepare("SELECT step" + where + " ORDER BY step");
    auto data = store->database().prepare("SELECT data" + where + " AND step = ?");
    if (!steps) return steps.error();
    if (!data) return data.error();
    std::unique_ptr<KvtFrames> frames(new KvtFrames(store, std::move(*data), blocks, block_size));
    for (;;) {
        const auto row = steps->step();
        if (!row) return row.error();
        if (!*row) return frames;
        frames->m_steps.push_back(steps->integer(0));
    }
}

KvtFrames::~KvtFrames() {
    const auto lock = m_store->lock();
    m_data = SqlStatement();
}

std::shared_ptr<const LaneState> KvtFrames::read(std::int64_t step) {
    std::string frame;
    {
        const auto lock = m_store->lock();
        m_data.bind(1, step);
        const auto row = m_data.step();
        if (row && *row) frame = std::string(m_data.bytes(0));
        m_data.reset();
    }
    const auto bytes = decompressed(frame, max_frame_bytes);
    if (bytes) {
        auto state = LaneStateCode::decode(*bytes, m_blocks, m_block_size);
        if (state) return std::make_shared<const LaneState>(std::move(*state));
    }
    m_store->set_damage(m_store->path() + ": the key frame at step " + std::to_string(step) +
                        " is damaged; the one before it is used. Open a backup of the file");
    return nullptr;
}

LaneRecord::KeyFrame KvtFrames::at_or_before(std::int64_t step) {
    const std::lock_guard lock(m_mutex);
    auto next = std::upper_bound(m_steps.begin(), m_steps.end(), step);
    while (next != m_steps.begin()) {
        const std::int64_t at = *--next;
        const auto recent = std::find_if(m_recent.begin(), m_recent.end(), [&](const LaneRecord::KeyFrame& frame) { return frame.step == at; });
        if (recent != m_recent.end()) {
            m_recent.splice(m_recent.begin(), m_recent, recent);
            return m_recent.front();
        }
        if (auto state = read(at)) {
            m_recent.push_front({at, std::move(state)});
            if (m_recent.size() > kept) m_recent.pop_back();
            return m_recent.front();
        }
        next = m_steps.erase(next);
    }
    return {};
}

}  // namespace kvloupe
