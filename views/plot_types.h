// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a Plot is told: panels, curves and the marks laid over them.
#pragma once

#include <QColor>
#include <QString>

#include <optional>
#include <vector>

namespace kvloupe {

// How an axis writes its numbers.
enum class PlotNumbers { count, bytes, duration, factor, power };

struct PlotPanel {
    QString caption;                 // above the panel, left
    PlotNumbers numbers = PlotNumbers::count;  // duration: values are nanoseconds
    bool logarithmic = false;
    int stretch = 1;                 // share of the height
};

struct PlotCurve {
    enum class Shape { line, stairs, dots, squares, bars };
    int panel = 0;
    QColor colour;
    Shape shape = Shape::line;
    bool dashed = false;             // predicted
    double barOffset = 0;            // bars: shift along x, in units of x
    bool fits = true;                // counts when the panel's range is fitted
};

// At the right edge, at the height of `y`; labels that would overlap are moved apart.
struct PlotLabel {
    int panel = 0;
    double y = 0;
    QString name;                    // bold
    QString detail;                  // regular, behind the name
    QColor colour;
};

// Horizontal line across a panel.
struct PlotLevel {
    int panel = 0;
    double value = 0;
    QString text;
    QColor colour;
};

struct PlotMarker {
    enum class Glyph { dot, ring, square, triangle };
    int panel = 0;
    double x = 0, y = 0;             // triangle: y is ignored, it stands at the panel's top
    Glyph glyph = Glyph::dot;
    QString text;                    // beside it
    QColor colour;
};

// Words inside the panel, at its top left; several stand below each other.
struct PlotNote {
    enum class Sample { none, solid, dashed, square, fill };
    int panel = 0;
    QString text;
    Sample sample = Sample::none;    // a legend for textures and shapes
    QColor colour;
};

struct PlotOverlayData {
    std::optional<double> cursor;    // vertical line; what lies right of it fades
    QString cursorText;              // on its flag below the axis
    std::optional<double> hover;
    std::vector<PlotLabel> labels;
    std::vector<PlotLevel> levels;
    std::vector<PlotMarker> markers;
    std::vector<PlotNote> notes;
    QString footer;                  // right, below the horizontal axis
};

}  // namespace kvloupe
