// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/roofline_points.h"

#include "views/stage_look.h"

#include <QLineF>

#include <algorithm>
#include <array>

namespace kvloupe {

std::vector<RooflinePoint> rooflinePoints(const LaneRecord& lane, int step, bool decode, const Ceilings& ceilings,
                                          QStringList* leftOut) {
    std::array<RooflinePoint, stage_kind_count> sums;
    const LogRange range = lane.stages_of(static_cast<std::size_t>(step));
    for (std::uint64_t i = range.begin; i < range.end; ++i) {
        const StageRecord& stage = lane.stages()[i];
        RooflinePoint& sum = sums[static_cast<std::size_t>(stage.kind)];
        sum.calls += stage.calls;
        sum.work.duration_ns += stage.duration_ns;
        sum.work.bytes += stage.bytes;
        sum.work.flops += stage.flops;
    }
    std::vector<RooflinePoint> points;
    for (int kind = 0; kind < stage_kind_count; ++kind) {
        RooflinePoint& sum = sums[static_cast<std::size_t>(kind)];
        if (sum.calls == 0) continue;
        sum.kind = static_cast<StageKind>(kind);
        sum.decode = decode;
        sum.bound = bound_of(sum.work, ceilings);
        if (sum.bound.flops_per_second > 0 && sum.bound.flops_per_byte > 0) points.push_back(sum);
        else if (leftOut) leftOut->append(stageName(sum.kind));
    }
    return points;
}

std::vector<std::vector<std::size_t>> rooflineClusters(const std::vector<QPointF>& places, double distance) {
    std::vector<std::size_t> group(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) group[i] = i;
    for (std::size_t i = 0; i < places.size(); ++i)
        for (std::size_t k = 0; k < i; ++k) {
            if (QLineF(places[i], places[k]).length() >= distance || group[i] == group[k]) continue;
            const std::size_t from = std::max(group[i], group[k]), to = std::min(group[i], group[k]);
            std::replace(group.begin(), group.end(), from, to);
        }
    std::vector<std::vector<std::size_t>> clusters(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) clusters[group[i]].push_back(i);
    clusters.erase(std::remove_if(clusters.begin(), clusters.end(), [](const auto& cluster) { return cluster.empty(); }),
                   clusters.end());
    return clusters;
}

namespace {

// Right of it, left, below, above, then the corners.
QRectF freePlace(const QRectF& anchor, const QSizeF& size, double gap, const QRectF& area,
                 const std::vector<QRectF>& taken) {
    const double right = anchor.right() + gap, left = anchor.left() - gap - size.width();
    const double below = anchor.bottom() + gap, above = anchor.top() - gap - size.height();
    const double middleX = anchor.center().x() - size.width() / 2, middleY = anchor.center().y() - size.height() / 2;
    const QPointF corners[] = {{right, middleY}, {left, middleY}, {middleX, below}, {middleX, above},
                               {right, below}, {right, above}, {left, below}, {left, above}};
    for (const QPointF& corner : corners) {
        const QRectF tag(corner, size);
        if (!area.contains(tag)) continue;
        if (std::none_of(taken.begin(), taken.end(), [&](const QRectF& other) { return other.intersects(tag); }))
            return tag;
    }
    return {};
}

}  // namespace

std::vector<RooflineTag> placeTags(const std::vector<QRectF>& anchors, const std::vector<std::vector<QSizeF>>& sizes,
                                   const QRectF& area, const std::vector<QRectF>& obstacles) {
    std::vector<QRectF> taken = obstacles;
    taken.insert(taken.end(), anchors.begin(), anchors.end());
    std::vector<RooflineTag> tags(anchors.size());
    for (std::size_t i = 0; i < anchors.size(); ++i) {
        for (const std::vector<double>& gaps : {std::vector<double>{2, 10}, std::vector<double>{22, 36}})
            for (std::size_t variant = 0; variant < sizes[i].size() && tags[i].box.isEmpty(); ++variant)
                for (const double gap : gaps)
                    if (tags[i].box.isEmpty())
                        tags[i] = {freePlace(anchors[i], sizes[i][variant], gap, area, taken), variant};
        if (!tags[i].box.isEmpty()) taken.push_back(tags[i].box);
    }
    return tags;
}

}  // namespace kvloupe
