// SPDX-License-Identifier: GPL-3.0-or-later
//
// The mark of a folded axis: a zig-zag along its edge.
#pragma once

#include "views/canvas.h"

#include <cmath>

namespace kvloupe {

inline void paintFoldedEdge(const Canvas& canvas, const QPointF& from, const QPointF& to) {
    const double tooth = canvas.u(4), length = std::hypot(to.x() - from.x(), to.y() - from.y());
    if (length < tooth) return;
    const QPointF along = (to - from) / length, aside(along.y(), -along.x());
    QPolygonF line;
    for (int i = 0; i * tooth <= length; ++i) line << from + along * (i * tooth) + aside * (i % 2 ? -tooth / 2 : 0);
    canvas.painter().setPen(QPen(canvas.colours().ink3, canvas.u(1)));
    canvas.painter().setBrush(Qt::NoBrush);
    canvas.painter().drawPolyline(line);
}

}  // namespace kvloupe
