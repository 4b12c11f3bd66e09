// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/recording.h"

#include "engine/record/lane_state.h"
#include "engine/record/reading_as.h"

#include <utility>

namespace kvloupe {

namespace {

// Who walks backwards applies at most so many events for a step.
constexpr std::uint64_t events_between_states = 4096;

}  // namespace

LaneRecord::LaneRecord(LaneInfo info, std::shared_ptr<const VocabularyText> vocabulary)
    : m_info(std::move(info)),
      m_vocabulary(vocabulary ? std::move(vocabulary) : std::make_shared<const VocabularyText>()) {}

LaneRecord::~LaneRecord() = default;

LaneRecord::KeyFrame LaneRecord::key_frame_before(std::int64_t step) const {
    if (m_frames) return m_frames->at_or_before(step);
    // Frames are ascending in step.
    std::size_t low = 0;
    std::size_t high = m_key_frames.size();
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        if (m_key_frames[middle].step <= step) low = middle + 1;
        else high = middle;
    }
    return low == 0 ? KeyFrame() : m_key_frames[low - 1];
}

LaneState LaneRecord::empty_state() const { return LaneState(m_info.kv_cache ? m_info.blocks : 0, m_info.block_size); }

LaneState LaneRecord::state_before(std::size_t step) const {
    if (step > 0) return state_after(step - 1);
    const KeyFrame frame = key_frame_before(-1);
    return frame.state ? *frame.state : empty_state();
}

// Reads the events that state_after(step) needs on another thread, while this one decodes the key frame before them. Nothing where
// either is at hand.
std::future<void> LaneRecord::read_beside(std::size_t step) const {
    const std::int64_t frame = m_frames && ReadingAs::here() == Reading::asked ? m_frames->to_be_read(static_cast<std::int64_t>(step))
                                                                             : StoredFrames::none_to_be_read;
    if (frame == StoredFrames::none_to_be_read || frame >= static_cast<std::int64_t>(step)) return {};
    const std::uint64_t begin = m_steps[static_cast<std::size_t>(frame + 1)].events.begin, end = m_steps[step].events.end;
    constexpr std::uint64_t chunk = decltype(m_events)::chunk_size;
    const auto next = [](std::uint64_t event) { return (event / chunk + 1) * chunk; };
    std::uint64_t missing = begin;
    while (missing < end && m_events.at_hand(missing)) missing = next(missing);
    if (missing >= end) return {};
    return std::async(std::launch::async, [this, missing, end, next] {
        const ReadingAs beside(Reading::beside);
        for (std::uint64_t event = missing; event < end; event = next(event)) (void)m_events[event];
    });
}

LaneState LaneRecord::state_after(std::size_t step) const {
    std::future<void> beside = read_beside(step);
    const KeyFrame frame = key_frame_before(static_cast<std::int64_t>(step));
    LaneState state = frame.state ? *frame.state : empty_state();
    if (beside.valid()) beside.get();
    const auto asked = static_cast<std::int64_t>(step);
    const bool walks = m_frames && m_frames->walks(asked);
    std::uint64_t applied = 0;
    for (auto next = static_cast<std::size_t>(frame.step + 1); next <= step; ++next) {
        state.begin_step(static_cast<std::uint32_t>(next));
        const LogRange events = m_steps[next].events;
        for (std::uint64_t event = events.begin; event < events.end; ++event) state.apply(m_events[event]);
        applied += events.size();
        if (walks && applied >= events_between_states && next < step) {
            m_frames->remember(static_cast<std::int64_t>(next), asked, state);
            applied = 0;
        }
    }
    if (m_frames && frame.step < asked) m_frames->remember(asked, asked, state);
    return state;
}

std::string LaneRecord::failure() const {
    const std::lock_guard lock(m_failure_mutex);
    return m_failure;
}

std::uint64_t LaneRecord::memory_bytes() const {
    return m_steps.bytes() + m_events.bytes() + m_tokens.bytes() + m_alternatives.bytes() + m_stages.bytes() + m_stage_ranges.bytes() +
           m_attention.bytes() + m_attention_weights.bytes() + m_sequences.bytes() + m_strings.bytes() +
           m_key_frames.bytes() + m_key_frame_bytes.load(std::memory_order_relaxed);
}

std::string Recording::reason() const {
    const std::lock_guard lock(m_reason_mutex);
    return m_reason;
}

std::optional<PauseFocus> Recording::pause_focus() const {
    const std::lock_guard lock(m_reason_mutex);
    return m_pause_focus;
}

std::vector<DeviceMemory> Recording::device_memory() const {
    const std::lock_guard lock(m_reason_mutex);
    return m_device_memory;
}

std::uint64_t Recording::memory_bytes() const {
    std::uint64_t bytes = m_requests.bytes();
    for (const auto& lane : m_lanes) bytes += lane->memory_bytes();
    return bytes;
}

LogRange LaneRecord::stages_of(std::size_t step) const {
    std::size_t begin = 0, end = m_stage_ranges.size();
    while (begin < end) {
        const std::size_t middle = begin + (end - begin) / 2;
        if (m_stage_ranges[middle].step < step) begin = middle + 1;
        else end = middle;
    }
    if (begin == m_stage_ranges.size() || m_stage_ranges[begin].step != step) return {};
    return m_stage_ranges[begin].range;
}

}  // namespace kvloupe
