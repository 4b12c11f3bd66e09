// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/reference.h"

#include "views/cursor.h"
#include "views/view.h"

#include <QCoreApplication>

namespace kvloupe {

namespace {

constexpr std::size_t tokens_at_once = 1u << 16;  // read within a frame; more are read by a job

}  // namespace

Reference::Reference(const Cursor* cursor, std::shared_ptr<const Recording> recording, LaneId lane, Alignment alignment, QString name)
    : m_cursor(cursor), m_recording(std::move(recording)), m_lane(lane), m_alignment(alignment), m_name(std::move(name)) {}

Reference::~Reference() { m_job.cancel(); }

bool Reference::isSameLane() const { return m_cursor->recording() == m_recording.get() && m_cursor->lane() == m_lane; }

QString Reference::label() const {
    const QString lane = QString::fromStdString(laneRecord().info().name);
    return m_name.isEmpty() ? tr("lane %1").arg(lane) : tr("lane %1 of %2").arg(lane, m_name);
}

QString Reference::shortLabel() const { return m_name.isEmpty() ? QString::fromStdString(laneRecord().info().name) : m_name; }

QString Reference::alignmentName(Alignment alignment) {
    switch (alignment) {
    case Alignment::step: return tr("step");
    case Alignment::token: return tr("token");
    case Alignment::time: return tr("time");
    }
    return {};
}

StepAlignment* Reference::map() const {
    const LaneRecord* focused = m_cursor->laneRecord();
    if (!focused) return nullptr;
    if (m_mapOf != focused) {
        m_job.cancel();
        m_map = std::make_unique<StepAlignment>(m_cursor->sharedRecording(), m_cursor->lane(), m_recording, m_lane);
        m_mapOf = focused;
    }
    return m_map.get();
}

bool Reference::readTokens() const {
    if (m_job.running()) return false;
    if (m_map->read_tokens(tokens_at_once)) return true;
    m_job.start(
        [map = m_map.get()](const BackgroundJob::Cancelled& cancelled) {
            while (!cancelled && !map->read_tokens(tokens_at_once)) {}
        },
        [self = const_cast<Reference*>(this)] { Q_EMIT self->aligned(); });
    return false;
}

void Reference::settle() {
    step();
    if (m_job.running()) m_job.finish();
}

int Reference::step() const { return m_cursor->step() < 0 ? -1 : stepFor(m_cursor->stepOf(m_cursor->lane())); }

int Reference::stepFor(int step) const {
    StepAlignment* map = this->map();
    if (!map || step < 0) return -1;
    Alignment by = m_alignment;
    const bool tokens = by == Alignment::token;
    if (tokens && !readTokens()) by = Alignment::step;
    if (tokens && by == Alignment::token) map->same_sequence(m_cursor->sequence());  // names that are new
    const auto found = map->map(by, static_cast<std::size_t>(step), m_cursor->sequence());
    return found ? static_cast<int>(*found) : -1;
}

const LaneState* Reference::state() const {
    const int step = this->step();
    if (step < 0) return nullptr;
    if (m_stateStep != step) {
        m_state = laneRecord().state_after(static_cast<std::size_t>(step));
        m_stateStep = step;
    }
    return &m_state;
}

SequenceId Reference::sequenceFor(SequenceId sequence) const {
    StepAlignment* map = this->map();
    return map && sequence.valid() ? map->same_sequence(sequence) : SequenceId();
}

std::vector<SequenceId> Reference::sameSequences() const {
    StepAlignment* map = this->map();
    return map ? map->same_sequences() : std::vector<SequenceId>();
}

ViewChoice differenceChoice(bool shown) {
    return {QLatin1String(difference_key), QCoreApplication::translate("kvloupe::difference", "Compared lane"),
            {QCoreApplication::translate("kvloupe::difference", "Not shown"),
             QCoreApplication::translate("kvloupe::difference", "Difference")},
            shown ? 1 : 0};
}

void goToParting(Cursor& cursor, const Parting& parting) {
    const Reference* reference = cursor.reference();
    if (!reference) return;
    cursor.setSequence(parting.sequence);
    cursor.setStep(static_cast<int>(parting.step_a));
    if (reference->step() != static_cast<int>(parting.step_b))
        cursor.alignBy(parting.kind == Parting::table ? Alignment::step : Alignment::token);
    Pick pick;
    pick.lane = cursor.lane();
    pick.sequence = parting.sequence;
    pick.position = parting.position;
    if (parting.block.valid()) pick.block = parting.block;
    cursor.lock(pick);
}

}  // namespace kvloupe
