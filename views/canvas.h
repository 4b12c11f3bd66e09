// SPDX-License-Identifier: GPL-3.0-or-later
//
// Canvas: a painter with the palette, the font scale and the few marks that all pictures share: text that is cut with an
// ellipsis, origin marks, hatches, event glyphs, owners' colours. Sizes are device-independent pixels at 100 %; u() scales them.
#pragma once

#include "engine/record/event.h"
#include "engine/record/step.h"
#include "views/palette.h"
#include "views/text_cache.h"

#include <QFont>
#include <QPainter>
#include <QPixmap>
#include <QRectF>
#include <QString>

#include <map>
#include <memory>
#include <tuple>

namespace kvloupe {

// How a text looks. An invalid colour means ink 1.
struct TextStyle {
    double size = 12;
    int weight = QFont::Normal;
    QColor colour{};
    bool mono = false;
};

class Canvas {
public:
    Canvas(QPainter& painter, const Palette& palette, const QFont& font, double scale);

    QPainter& painter() const { return m_painter; }
    const Palette& colours() const { return m_palette; }
    double u(double pixels) const { return pixels * m_scale; }

    const QFont& font(const TextStyle& style) const;  // valid as long as the canvas
    double width(const QString& text, const TextStyle& style = {}) const;
    double lineHeight(const TextStyle& style = {}) const;
    // One line, cut on the right (or where `elide` says) when it does not fit. Nothing is drawn in under 8 px.
    void text(const QRectF& area, const QString& text, const TextStyle& style = {},
              Qt::Alignment alignment = Qt::AlignLeft | Qt::AlignVCenter, Qt::TextElideMode elide = Qt::ElideRight) const;
    // Several lines, broken at words; returns the height used.
    double paragraph(const QRectF& area, const QString& text, const TextStyle& style = {}) const;
    // Right-aligned number with its origin mark in front; returns the width used.
    double number(const QRectF& area, Origin origin, const QString& number, const TextStyle& style = {}) const;
    // ● ◐ ○, drawn as shapes of the same size in every font.
    void originMark(const QPointF& centre, Origin origin) const;

    QColor mix(const QColor& over, const QColor& under, double share) const;  // share of `over`, opaque result
    QColor ownerFill(unsigned owner) const;     // 45 % over the panel
    QColor ownerPale(unsigned owner) const;     // 18 %: reused work
    QColor ownerBorder(unsigned owner) const;   // 85 %, the rest ink
    void ownerRect(const QRectF& area, unsigned owner, const QColor& fill) const;  // dots where hues repeat
    void swatch(const QRectF& area, unsigned owner) const;
    void hatch(const QRectF& area, const QColor& colour, double spacing = 5) const;
    void outline(const QRectF& area, const QColor& colour, double width, Qt::PenStyle style = Qt::SolidLine) const;
    // A curve from a to b that ends in an arrow head pointing along its last part.
    void arrow(const QPointF& a, const QPointF& b, const QColor& colour, double width) const;

    // fork Y, copy diamond, prefix hit triangle, eviction cross, preemption bars, prefill square, decode dot; others a ring.
    void glyph(EventKind kind, const QPointF& centre, double size, const QColor& colour) const;

private:
    const QPixmap& dotOf(const QColor& colour, double radius) const;

    mutable std::map<QRgb, QPixmap> m_dots;
    const TextCache::Face& face(const TextStyle& style) const;

    TextCache* m_cache = TextCache::here();
    mutable std::map<std::tuple<int, int, bool>, std::shared_ptr<const TextCache::Face>> m_faces;  // pixels, weight, mono
    QPainter& m_painter;
    const Palette& m_palette;
    QFont m_font;
    double m_scale;
};

}  // namespace kvloupe
