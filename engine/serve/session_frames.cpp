// SPDX-License-Identifier: GPL-3.0-or-later
//
// Key frames of a session's engine: when they are made, and how it is put back to one.
#include "engine/serve/session_engine.h"

namespace kvloupe {

void SessionEngine::begin() {
    m_frames.clear();
    begin_lanes();
}

// One that cannot be made, because the device or main memory have no room for it, is none: then more is computed again.
void SessionEngine::note_step(std::chrono::nanoseconds work, const AskedSoFar& asked) noexcept {
    m_frames.note_step(work);
    if (!m_frames.due()) return;
    const auto start = std::chrono::steady_clock::now();
    std::unique_ptr<const EngineFrame> frame;
    try {
        if (auto made = make_frame(asked)) frame = std::make_unique<const EngineFrame>(std::move(*made));
        m_frames.keep(std::move(frame), std::chrono::steady_clock::now() - start);
    } catch (const std::exception&) {
        m_frames.clear();  // the run needs the memory more
    }
}

Result<EngineFrame> SessionEngine::make_frame(const AskedSoFar& asked) const {
    std::uint64_t bytes = m_comparison->bytes();
    for (const auto& lane : m_lanes) bytes += lane->frame_bytes();
    if (!m_frames.affords(bytes)) return Error{"A key frame of " + std::to_string(bytes) + " bytes is more than all of them may take", ""};
    EngineFrame frame{{}, *m_comparison, m_failure, m_writer->recording()->requests().size(), asked, bytes};
    for (const auto& lane : m_lanes) {
        auto made = lane->frame();
        if (!made) return made.error();
        frame.lanes.push_back(std::move(*made));
    }
    return frame;
}

AskedSoFar SessionEngine::go_back(const Recording& before, std::uint32_t step, const AskedSoFar& asked) {
    const EngineFrame* frame = m_frames.go_back(step, asked);
    begin_lanes();
    if (!frame) return {};
    if (restore(*frame, before)) return frame->asked;
    begin();  // the device failed: what can be done is done from the start
    return {};
}

// Tokens that branches take are not in a frame: they are learned from `before` (inherit_from).
Result<void> SessionEngine::restore(const EngineFrame& frame, const Recording& before) {
    std::vector<LaneMark> marks;
    for (const LaneFrame& lane : frame.lanes) marks.push_back(lane.mark);
    m_writer->begin_with(before, marks);
    for (std::size_t i = m_writer->recording()->requests().size(); i < frame.requests; ++i) m_writer->add_request(before.requests()[i]);
    for (std::uint32_t i = 0; i < m_lanes.size(); ++i)
        if (auto restored = m_lanes[i]->restore(frame.lanes[i], m_writer->lane(LaneId(i))); !restored) return restored;
    *m_comparison = frame.comparison;
    m_failure = frame.failure;
    return {};
}

}  // namespace kvloupe
