// SPDX-License-Identifier: GPL-3.0-or-later
//
// The inspector's account of one event.
#include "views/inspector_view.h"

#include "engine/record/describe.h"
#include "views/event_names.h"
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
    head(kindLabel(event.kind),
         event.sequence.valid() ? std::optional<unsigned>(event.sequence.value) : std::nullopt);
    say(QString::fromStdString(describe_event(*cursor()->recording(), lane, index)));
    add(tr("Step"), QString::number(lane.step(low).step.value));
    add(tr("Since its start"), formatDuration(event.offset_ns), Origin::measured);
    if (event.sequence.valid()) add(tr("Sequence"), sequenceLabel(*cursor()->recording(), lane, event.sequence));
    if (event.cause != Cause::none) add(tr("Cause"), causeLabel(event.cause));
    const bool copy = event.kind == EventKind::copy_on_write;
    if (event.block.valid()) add(copy ? tr("Source block") : tr("Block"), QString::number(event.block.value));
    if (copy) add(tr("Destination block"), QString::number(event.other));
    if (event.kind == EventKind::swap_out || event.kind == EventKind::swap_in) add(tr("Host block"), QString::number(event.other));
    if (event.kind == EventKind::free && event.other != Event{}.other) add(tr("Owners left"), QString::number(event.other), Origin::measured);
    if (event.kind == EventKind::fork) add(tr("Parent"), sequenceLabel(*cursor()->recording(), lane, SequenceId(event.other)));
    if (event.kind == EventKind::preempt && event.other != Event{}.other)
        add(tr("For sequence"), sequenceLabel(*cursor()->recording(), lane, SequenceId(event.other)));
    if (event.kind == EventKind::store)
        add(tr("Hash"), formatHash((std::uint64_t{event.other} << 32) | event.tokens) + QStringLiteral("…"), Origin::measured);
    if (event.tokens > 0 && event.kind != EventKind::refuse && event.kind != EventKind::reject && event.kind != EventKind::store)
        add(copy || event.kind == EventKind::swap_out || event.kind == EventKind::swap_in ? tr("Slots") : event.kind == EventKind::fork ? tr("At position") : tr("Tokens"), formatCount(event.tokens), Origin::measured);
    add(tr("Bytes"), formatBytes(event_bytes(lane, event)), Origin::derived);
    if (event.duration_ns > 0) add(tr("Duration"), formatDuration(event.duration_ns), Origin::measured);
    if (event.block.valid() && low == static_cast<std::size_t>(cursor()->stepOf(cursor()->lane())))
        describeBlock(copy ? BlockId(event.other) : event.block);
}

}  // namespace kvloupe
