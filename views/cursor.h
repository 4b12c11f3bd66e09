// SPDX-License-Identifier: GPL-3.0-or-later
//
// Cursor: the step and, within it, the selection that all views show. One cursor, one lock (design/NOTES rule 5).
#pragma once

#include <QUndoStack>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/record/lane_state.h"
#include "engine/record/recording.h"
#include "engine/record/step_alignment.h"

#include <QString>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace kvloupe {

class Reference;

// What the pointer is over or what was clicked; fields that do not apply are absent.
struct Pick {
    std::optional<LaneId> lane;
    std::optional<SequenceId> sequence;
    std::optional<std::uint32_t> position;  // token of the sequence; its slot and block follow
    std::optional<BlockId> block;
    std::optional<std::uint32_t> layer;
    std::optional<std::uint32_t> head;      // query head
    std::optional<std::uint64_t> event;     // index into the lane's events

    bool empty() const;
    bool operator==(const Pick&) const = default;
};

class Cursor : public QObject {
    Q_OBJECT

public:
    explicit Cursor(QObject* parent = nullptr);
    ~Cursor() override;

    // The recording shown; null when nothing is open. Resets step and selection.
    void setRecording(std::shared_ptr<const Recording> recording);
    const Recording* recording() const { return m_recording.get(); }
    std::shared_ptr<const Recording> sharedRecording() const { return m_recording; }

    // Called by the frame clock: steps were appended. Follows when the cursor stands at the end.
    void advanced();

    // Step shown, or -1 while no lane has recorded one. Lanes that recorded fewer steps show their last one.
    int step() const { return m_step; }
    int stepCount() const { return m_stepCount; }  // of the longest lane, as of the last advanced()
    bool following() const { return m_following; }
    void setStep(int step);   // clamps; following resumes at the last step

    // Lane in focus (index into Recording::lanes()), and the sequence in focus of that lane.
    LaneId lane() const { return m_lane; }
    void setLane(LaneId lane);
    SequenceId sequence() const { return m_sequence; }
    void setSequence(SequenceId sequence);
    // Layer and head in focus for attention.
    std::uint32_t layer() const { return m_layer; }
    std::uint32_t head() const { return m_head; }
    void setHead(std::uint32_t layer, std::uint32_t head);

    const LaneRecord* laneRecord() const;          // null without recording
    // The lane's step index for the cursor: min(step, its step count - 1), or -1.
    int stepOf(LaneId lane) const;
    // State of the focused lane after the cursor's step; cached. Null without a step.
    const LaneState* state() const;
    const LaneState* stateOf(LaneId lane) const;

    // Hover previews, click locks, Esc clears.
    const Pick& hover() const { return m_hover; }
    const Pick& locked() const { return m_locked; }
    // The lock where there is one, else the hover.
    const Pick& shown() const { return m_locked.empty() ? m_hover : m_locked; }
    void setHover(const Pick& pick);
    void lock(const Pick& pick);   // also moves lane, sequence, layer and head in focus where the pick has them
    void clear();                  // Esc

    // What the lane in focus is compared with; null where nothing is. It ends with the recording that is shown. The reference's
    // step follows the cursor's (reference.h). name: of the other recording, "" for a lane of this one.
    const Reference* reference() const { return m_reference.get(); }
    Reference* reference() { return m_reference.get(); }
    void compareWith(std::shared_ptr<const Recording> recording, LaneId lane, Alignment alignment, const QString& name = {});
    void alignBy(Alignment alignment);
    void stopComparing();

    // Steps in sight in the views that stand on one axis of steps (the tab Memory): [first, second); none: all of them.
    const std::optional<std::pair<double, double>>& stepRange() const { return m_stepRange; }
    void setStepRange(const std::optional<std::pair<double, double>>& range);

    // Zooms and filters of all views, one stack; emptied with another recording.
    QUndoStack* zoomStack() { return &m_zoomStack; }

    // Font scale for a projector, 1.0 = the system's.
    double fontScale() const { return m_fontScale; }
    void setFontScale(double scale);

Q_SIGNALS:
    void recordingChanged();
    void stepChanged();      // the cursor moved, or what it stands on grew
    void grew();             // steps were appended although the cursor stayed
    void focusChanged();     // lane, sequence, layer or head
    void hoverChanged();
    void lockChanged();
    void fontScaleChanged();
    void stepRangeChanged();
    void referenceChanged();  // another one, none, or aligned otherwise

private:
    struct CachedState {
        int step = -1;
        LaneState state;
    };
    std::shared_ptr<const Recording> m_recording;
    int m_step = -1;
    int m_stepCount = 0;
    bool m_following = true;
    LaneId m_lane{0};
    SequenceId m_sequence;
    std::uint32_t m_layer = 0;
    std::uint32_t m_head = 0;
    Pick m_hover, m_locked;
    double m_fontScale = 1.0;
    std::optional<std::pair<double, double>> m_stepRange;
    QUndoStack m_zoomStack;
    std::unique_ptr<Reference> m_reference;
    mutable std::vector<CachedState> m_states;
};

}  // namespace kvloupe
