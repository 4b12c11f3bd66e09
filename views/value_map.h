// SPDX-License-Identifier: GPL-3.0-or-later
//
// ValueMap: numbers of either sign as a picture, tokens downwards and channels to the right, 0 in the panel's colour. Colours
// follow the square root of |x| / limit, so that small values are seen beside large ones. Where there are fewer pixels than
// channels or tokens, the largest magnitude of those that share a pixel is drawn. Not a number: not known, hatched.
#pragma once

#include <QRectF>
#include <QString>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

class QColor;

namespace kvloupe {

class Canvas;
struct Palette;

// share: -1 … 1 of the limit, clamped.
QColor divergingColour(const Palette& palette, double share);
// "−3.21 … 0 … 3.21", drawn as a ramp with its ends labelled.
void paintValueScale(const Canvas& canvas, const QRectF& area, double limit);

class ValueMap {
public:
    using Value = std::function<double(std::uint32_t token, std::uint32_t channel)>;

    QRectF area;                // of all cells
    std::uint32_t tokens = 0, channels = 0;
    double limit = 1;           // magnitude of the full colour

    double cellWidth() const { return channels == 0 ? 0 : area.width() / channels; }
    double cellHeight() const { return tokens == 0 ? 0 : area.height() / tokens; }
    bool folded() const { return cellWidth() < 1 || cellHeight() < 1; }
    std::optional<std::pair<std::uint32_t, std::uint32_t>> cellAt(const QPointF& point) const;  // token, channel
    QRectF cell(std::uint32_t token, std::uint32_t channel) const;
    QRectF row(std::uint32_t token) const;

    void paint(const Canvas& canvas, const Value& value) const;
    // A small mark on the cells that `marked` names.
    void mark(const Canvas& canvas, const std::function<bool(std::uint32_t token, std::uint32_t channel)>& marked) const;
};

}  // namespace kvloupe
