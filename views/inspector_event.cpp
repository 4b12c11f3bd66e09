// SPDX-License-Identifier: GPL-3.0-or-later
//
// The inspector's account of one event.
#include "views/inspector_view.h"

#include "engine/record/describe.h"
#include "views/format.h"
#include "views/picking.h"

namespace kvloupe {

void InspectorView::describeEvent(std::uint64_t index) {
    const LaneRecord& lane = *cursor()->laneRecord();
    const std::size_t steps = lane.step_count();
    if (steps == 0 || index >= lane.step(steps - 1).events.end) return;
    // The step whose range holds the event.
    std::size_t low = 0, high = steps - 1;
    while (low < high) {
        const std::size_t middle = (low + high) / 2;
        if (lane.step(middle).events.end <= index)
            low = middle + 1;
        else
            high = middle;
    }
    const Event& event = lane.events()[index];
    QString name = QString::fromLatin1(name_of(event.kind).data(), static_cast<qsizetype>(name_of(event.kind).size()));
    head(name.replace(QLatin1Char('_'), QLatin1Char(' ')),
         event.sequence.valid() ? std::optional<unsigned>(event.sequence.value) : std::nullopt);
    say(QString::fromStdString(describe_cause(*cursor()->recording(), lane, event)));
    add(tr("Step"), QString::number(lane.step(low).step.value));
    add(tr("Since its start"), formatDuration(event.offset_ns), Origin::measured);
    if (event.sequence.valid()) add(tr("Sequence"), sequenceLabel(*cursor()->recording(), lane, event.sequence));
    if (event.block.valid()) add(tr("Block"), QString::number(event.block.value));
    if (event.tokens > 0 && event.kind != EventKind::refuse) add(tr("Tokens"), formatCount(event.tokens), Origin::measured);
    add(tr("Bytes"), formatBytes(event_bytes(lane, event)), Origin::derived);
    if (event.duration_ns > 0) add(tr("Duration"), formatDuration(event.duration_ns), Origin::measured);
    if (event.block.valid() && low == static_cast<std::size_t>(cursor()->stepOf(cursor()->lane()))) describeBlock(event.block);
}

}  // namespace kvloupe
