// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the roofline draws: the stages of a step summed by kind, and where their names stand.
#pragma once

#include "engine/record/recording.h"
#include "views/stage_bound.h"

#include <QPointF>
#include <QRectF>
#include <QSizeF>
#include <QString>

#include <functional>
#include <vector>

namespace kvloupe {

struct RooflinePoint {
    StageKind kind = StageKind::schedule;
    bool decode = true;                // filled; else prefill, hollow
    std::uint64_t calls = 0;
    StageWork work;                    // of all layers of the step
    StageBound bound;
};

// Stages of the step with FLOPs, bytes and time, by kind: only they have a place between FLOP per byte and FLOP/s.
// left out: names of kinds that ran without FLOPs.
std::vector<RooflinePoint> rooflinePoints(const LaneRecord& lane, int step, bool decode, const Ceilings& ceilings,
                                          QStringList* leftOut);

// Points that lie closer than `distance` to one another and share a name tag.
std::vector<std::vector<std::size_t>> rooflineClusters(const std::vector<QPointF>& places, double distance);

// A name beside its anchor, the box of the points it names.
struct RooflineTag {
    QRectF box;                        // empty: no room
    std::size_t variant = 0;           // which of the sizes that were offered it has
};

// Where tags can stand inside `area`: none overlaps another, an anchor or an obstacle. Those in front choose first. Each
// offers sizes, the fullest text first; what fits only further away gives way to a shorter text nearby.
std::vector<RooflineTag> placeTags(const std::vector<QRectF>& anchors, const std::vector<std::vector<QSizeF>>& sizes,
                                   const QRectF& area, const std::vector<QRectF>& obstacles);

}  // namespace kvloupe
