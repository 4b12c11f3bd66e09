// SPDX-License-Identifier: GPL-3.0-or-later
//
// QualityChart: what depends on where in a text one looks, one line per lane over a few places: recall against the distance
// of a fact, or KL divergence against the position. Places stand at equal distances; a lane's marks stand a little beside
// the others', so that intervals are seen.
#pragma once

#include "engine/record/ids.h"
#include "engine/record/quality.h"
#include "views/nice_scale.h"

#include <QColor>
#include <QRectF>
#include <QString>
#include <QStringList>

#include <functional>
#include <optional>
#include <vector>

namespace kvloupe {

class Canvas;

class QualityChart {
public:
    enum class Kind { recallByDistance, divergenceByPosition };

    QualityChart() = default;
    explicit QualityChart(Kind kind) : m_kind(kind) {}

    void add(LaneId lane, const LaneQuality& quality);
    // Call after the last add().
    void finish();
    bool empty() const { return m_places.empty(); }
    std::size_t placeCount() const { return m_places.size(); }

    QString caption() const;
    QString axisTitle() const;
    // captionHeight: of the strip at the top for the caption, axisHeight: at the bottom for the places' names; lane in
    // focus: drawn last and wider.
    void paint(const Canvas& canvas, const QRectF& area, double captionHeight, double axisHeight,
               const std::function<QColor(LaneId)>& colourOf, std::optional<LaneId> focus) const;
    // Place under a horizontal position, of an area as given to paint(); none outside. unit: pixels of one at 100 %.
    std::optional<std::size_t> placeAt(double unit, const QRectF& area, double x) const;
    // One line per lane: its name and what it has there.
    QString tip(std::size_t place, const std::function<QString(LaneId)>& nameOf) const;

private:
    struct Line {
        LaneId lane;
        std::vector<QualityFigure> figures;  // (places); not measured: a gap
    };
    static QRectF plotOf(double unit, const QRectF& area, double captionHeight, double axisHeight);
    double xOf(const QRectF& plot, std::size_t place) const;
    QString placeName(std::size_t place) const;
    QString numberText(double value) const;
    void paintLine(const Canvas& canvas, const QRectF& plot, const Line& line, double shift, const QColor& colour,
                   bool strong) const;

    Kind m_kind = Kind::recallByDistance;
    std::vector<std::uint32_t> m_places;  // distances, or first positions of blocks; ascending
    std::vector<std::uint32_t> m_lasts;   // of blocks
    std::vector<Line> m_lines;
    NiceScale m_scale;
};

}  // namespace kvloupe
