// SPDX-License-Identifier: GPL-3.0-or-later
//
// Reference: what the lane in focus is compared with, another lane of the same recording or of another one, and which of its steps
// stands beside the cursor's. The cursor owns it; moving the cursor moves both.
#pragma once

#include <QObject>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/record/lane_state.h"
#include "engine/record/recording_diff.h"
#include "engine/record/step_alignment.h"
#include "views/background_job.h"

#include <QString>

#include <memory>
#include <optional>
#include <vector>

namespace kvloupe {

class Cursor;
struct ViewChoice;

class Reference : public QObject {
    Q_OBJECT

public:
    // name: of the other recording ("other.kvt"); "" for a lane of the recording that the cursor shows.
    Reference(const Cursor* cursor, std::shared_ptr<const Recording> recording, LaneId lane, Alignment alignment, QString name);
    ~Reference() override;

    const std::shared_ptr<const Recording>& recording() const { return m_recording; }
    LaneId lane() const { return m_lane; }
    const LaneRecord& laneRecord() const { return m_recording->lane(m_lane); }
    Alignment alignment() const { return m_alignment; }
    const QString& name() const { return m_name; }
    bool isSameLane() const;         // the lane in focus is the reference itself
    QString label() const;           // "lane B of other.kvt"
    QString shortLabel() const;      // "other.kvt", or the lane's name
    static QString alignmentName(Alignment alignment);

    // The reference's step beside the cursor's, or beside another one of the lane in focus; -1: none.
    int step() const;
    int stepFor(int step) const;
    // State after step(); cached. Null without a step.
    const LaneState* state() const;
    // Its sequence of the same name.
    SequenceId sequenceFor(SequenceId sequence) const;
    std::vector<SequenceId> sameSequences() const;  // for every sequence of the lane in focus
    // Tokens are still being read: until then steps stand beside those of the same number.
    bool computing() const { return m_job.running(); }
    void settle();  // waits for that

Q_SIGNALS:
    void aligned();  // the tokens are read

private:
    StepAlignment* map() const;  // for the lane in focus; null without one
    bool readTokens() const;

    const Cursor* m_cursor;
    std::shared_ptr<const Recording> m_recording;
    LaneId m_lane;
    Alignment m_alignment;
    QString m_name;
    mutable std::unique_ptr<StepAlignment> m_map;
    mutable const LaneRecord* m_mapOf = nullptr;  // the lane in focus that it is for
    mutable int m_stateStep = -1;
    mutable LaneState m_state;
    mutable BackgroundJob m_job;
};

// What a view that can draw the difference to the reference lets its user choose.
ViewChoice differenceChoice(bool shown);
inline constexpr const char* difference_key = "difference";

// Both cursors to where two lanes part; what parted is locked. The alignment changes where the present one does not put the
// other lane's step there.
void goToParting(Cursor& cursor, const Parting& parting);

}  // namespace kvloupe
