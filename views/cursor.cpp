// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/cursor.h"

#include "views/reference.h"

#include <algorithm>

namespace kvloupe {

bool Pick::empty() const { return *this == Pick{}; }

Cursor::Cursor(QObject* parent) : QObject(parent) {}

Cursor::~Cursor() = default;

void Cursor::setRecording(std::shared_ptr<const Recording> recording) {
    const bool compared = m_reference != nullptr;
    m_reference.reset();
    m_recording = std::move(recording);
    m_states.clear();
    m_zoomStack.clear();
    m_step = -1;
    m_stepCount = 0;
    m_following = true;
    m_hover = {};
    m_locked = {};
    m_lane = LaneId(0);
    m_sequence = m_recording ? SequenceId(0) : SequenceId();
    m_layer = 0;
    m_head = 0;
    m_stepRange.reset();
    if (m_recording) {
        m_states.resize(m_recording->lanes().size());
        for (const auto& lane : m_recording->lanes())
            m_stepCount = std::max(m_stepCount, static_cast<int>(lane->step_count()));
        m_step = m_stepCount - 1;
    }
    Q_EMIT recordingChanged();
    Q_EMIT stepRangeChanged();
    if (compared) Q_EMIT referenceChanged();
}

void Cursor::compareWith(std::shared_ptr<const Recording> recording, LaneId lane, Alignment alignment, const QString& name) {
    if (!m_recording || !recording || lane.value >= recording->lanes().size()) return;
    m_reference = std::make_unique<Reference>(this, std::move(recording), lane, alignment, name);
    connect(m_reference.get(), &Reference::aligned, this, &Cursor::referenceChanged);
    Q_EMIT referenceChanged();
}

void Cursor::alignBy(Alignment alignment) {
    if (m_reference && m_reference->alignment() != alignment)
        compareWith(m_reference->recording(), m_reference->lane(), alignment, m_reference->name());
}

void Cursor::stopComparing() {
    if (!m_reference) return;
    m_reference.reset();
    Q_EMIT referenceChanged();
}

void Cursor::setStepRange(const std::optional<std::pair<double, double>>& range) {
    if (range == m_stepRange) return;
    m_stepRange = range;
    Q_EMIT stepRangeChanged();
}

void Cursor::advanced() {
    if (!m_recording) return;
    int count = 0;
    for (const auto& lane : m_recording->lanes()) count = std::max(count, static_cast<int>(lane->step_count()));
    m_stepCount = count;
    if (m_following && count > 0) {
        m_step = count - 1;
        Q_EMIT stepChanged();
    } else {
        Q_EMIT grew();
    }
}

void Cursor::setStep(int step) {
    if (m_stepCount == 0) return;
    const int clamped = std::clamp(step, 0, m_stepCount - 1);
    m_following = clamped == m_stepCount - 1;
    if (clamped == m_step) return;
    m_step = clamped;
    Q_EMIT stepChanged();
}

void Cursor::setLane(LaneId lane) {
    if (!m_recording || lane.value >= m_recording->lanes().size() || lane == m_lane) return;
    // The same request stays in focus: sequences of different lanes are matched by their request.
    const LaneRecord& before = m_recording->lane(m_lane);
    const LaneRecord& after = m_recording->lane(lane);
    if (m_sequence.valid() && m_sequence.value < before.sequences().size()) {
        const RequestId request = before.sequences()[m_sequence.value].request;
        for (std::size_t i = 0; i < after.sequences().size(); ++i) {
            if (after.sequences()[i].request != request) continue;
            m_sequence = SequenceId(static_cast<std::uint32_t>(i));
            break;
        }
    }
    m_lane = lane;
    m_layer = std::min(m_layer, std::max(after.info().layers, 1u) - 1);
    m_head = std::min(m_head, std::max(after.info().query_heads, 1u) - 1);
    Q_EMIT focusChanged();
}

void Cursor::setSequence(SequenceId sequence) {
    if (sequence == m_sequence) return;
    m_sequence = sequence;
    Q_EMIT focusChanged();
}

void Cursor::setHead(std::uint32_t layer, std::uint32_t head) {
    if (layer == m_layer && head == m_head) return;
    m_layer = layer;
    m_head = head;
    Q_EMIT focusChanged();
}

const LaneRecord* Cursor::laneRecord() const {
    if (!m_recording || m_lane.value >= m_recording->lanes().size()) return nullptr;
    return m_recording->lanes()[m_lane.value].get();
}

int Cursor::stepOf(LaneId lane) const {
    if (!m_recording || lane.value >= m_recording->lanes().size() || m_step < 0) return -1;
    return std::min(m_step, static_cast<int>(m_recording->lane(lane).step_count()) - 1);
}

const LaneState* Cursor::state() const { return stateOf(m_lane); }

const LaneState* Cursor::stateOf(LaneId lane) const {
    const int step = stepOf(lane);
    if (step < 0) return nullptr;
    CachedState& cached = m_states[lane.value];
    if (cached.step != step) {
        cached.state = m_recording->lane(lane).state_after(static_cast<std::size_t>(step));
        cached.step = step;
    }
    return &cached.state;
}

void Cursor::setHover(const Pick& pick) {
    if (pick == m_hover) return;
    m_hover = pick;
    Q_EMIT hoverChanged();
}

void Cursor::lock(const Pick& pick) {
    if (pick.lane) setLane(*pick.lane);
    if (pick.sequence) setSequence(*pick.sequence);
    if (pick.layer || pick.head) setHead(pick.layer.value_or(m_layer), pick.head.value_or(m_head));
    if (pick == m_locked) return;
    m_locked = pick;
    Q_EMIT lockChanged();
}

void Cursor::clear() {
    const bool hovered = !m_hover.empty(), locked = !m_locked.empty();
    m_hover = {};
    m_locked = {};
    if (hovered) Q_EMIT hoverChanged();
    if (locked) Q_EMIT lockChanged();
}

void Cursor::setFontScale(double scale) {
    scale = std::clamp(scale, 0.5, 4.0);
    if (scale == m_fontScale) return;
    m_fontScale = scale;
    Q_EMIT fontScaleChanged();
}

}  // namespace kvloupe
