// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/canvas.h"

#include <QPaintEngine>
#include <QPainterPath>

#include <algorithm>
#include <cmath>

namespace kvloupe {

Canvas::Canvas(QPainter& painter, const Palette& palette, const QFont& font, double scale)
    : m_painter(painter), m_palette(palette), m_font(font), m_scale(scale) {
    m_painter.setRenderHint(QPainter::Antialiasing);
}

const TextCache::Face& Canvas::face(const TextStyle& style) const {
    const int pixels = std::max(6, static_cast<int>(std::lround(style.size * m_scale)));
    const auto [known, added] = m_faces.try_emplace({pixels, style.weight, style.mono});
    if (added && m_cache)  // the cache keeps it
        known->second = {std::shared_ptr<void>(), m_cache->face(m_font, pixels, style.weight, style.mono)};
    else if (added)
        known->second = std::make_shared<const TextCache::Face>(TextCache::makeFace(m_font, pixels, style.weight, style.mono));
    return *known->second;
}

const QFont& Canvas::font(const TextStyle& style) const { return face(style).font; }

double Canvas::width(const QString& text, const TextStyle& style) const {
    const TextCache::Face& own = face(style);
    return m_cache ? m_cache->advance(&own, text) : own.metrics->horizontalAdvance(text);
}

double Canvas::lineHeight(const TextStyle& style) const { return face(style).metrics->height(); }

void Canvas::text(const QRectF& area, const QString& text, const TextStyle& style, Qt::Alignment alignment,
                  Qt::TextElideMode elide) const {
    if (area.width() < 4 || text.isEmpty()) return;
    const TextCache::Face& own = face(style);
    const QFontMetricsF& metrics = *own.metrics;
    m_painter.setFont(own.font);
    m_painter.setPen(style.colour.isValid() ? style.colour : m_palette.ink1);
    QString shown = text;
    const auto advanceOf = [&](const QString& of) { return m_cache ? m_cache->advance(&own, of) : metrics.horizontalAdvance(of); };
    double advance = advanceOf(text);
    if (advance > area.width() + 0.5) {
        if (elide == Qt::ElideNone && area.width() < 8) return;
        const Qt::TextElideMode mode = elide == Qt::ElideNone ? Qt::ElideRight : elide;
        shown = m_cache ? m_cache->elided(&own, text, mode, area.width()) : metrics.elidedText(text, mode, area.width());
        advance = advanceOf(shown);
    }
    if (shown.contains(QLatin1Char('\n'))) {  // drawn as a space
        m_painter.drawText(area, static_cast<int>(alignment) | Qt::TextSingleLine | Qt::TextDontClip, shown);
        return;
    }
    // At a point: laid out once, where a rectangle would have it laid out a second time.
    double x = area.left(), y = area.top();
    if (alignment & Qt::AlignRight) x = area.right() - advance;
    else if (alignment & Qt::AlignHCenter) x += (area.width() - advance) / 2;
    if (alignment & Qt::AlignBottom) y = area.bottom() - metrics.height();
    else if (alignment & Qt::AlignVCenter) y += (area.height() - metrics.height()) / 2;
    // On the screen as it was laid out last time; in a file, which may be scaled or searched, as text.
    if (m_cache && m_painter.paintEngine()->type() == QPaintEngine::Raster) m_cache->draw(m_painter, &own, QPointF(x, y), shown);
    else m_painter.drawText(QPointF(x, y + metrics.ascent()), shown);
}

double Canvas::paragraph(const QRectF& area, const QString& text, const TextStyle& style) const {
    m_painter.setFont(font(style));
    m_painter.setPen(style.colour.isValid() ? style.colour : m_palette.ink1);
    QRectF used;
    m_painter.drawText(area, Qt::AlignLeft | Qt::AlignTop | Qt::TextWordWrap, text, &used);
    return used.height();
}

double Canvas::number(const QRectF& area, Origin origin, const QString& number, const TextStyle& style) const {
    const double numberWidth = std::min(width(number, style), std::max(0.0, area.width() - u(12)));
    text(area, number, style, Qt::AlignRight | Qt::AlignVCenter);
    originMark(QPointF(area.right() - numberWidth - u(8), area.center().y()), origin);
    return numberWidth + u(12);
}

void Canvas::originMark(const QPointF& centre, Origin origin) const {
    const double radius = u(3.2);
    const QRectF box(centre.x() - radius, centre.y() - radius, 2 * radius, 2 * radius);
    m_painter.save();
    m_painter.setPen(QPen(m_palette.ink2, u(1.1)));
    m_painter.setBrush(origin == Origin::measured ? QBrush(m_palette.ink2) : QBrush(Qt::NoBrush));
    m_painter.drawEllipse(box);
    if (origin == Origin::derived) {
        m_painter.setBrush(m_palette.ink2);
        m_painter.drawPie(box, 90 * 16, 180 * 16);
    }
    m_painter.restore();
}

QColor Canvas::mix(const QColor& over, const QColor& under, double share) const {
    const auto part = [share](int a, int b) { return static_cast<int>(std::lround(a * share + b * (1 - share))); };
    return QColor(part(over.red(), under.red()), part(over.green(), under.green()), part(over.blue(), under.blue()));
}

QColor Canvas::ownerFill(unsigned owner) const { return mix(m_palette.owner(owner), m_palette.panel, 0.45); }
QColor Canvas::ownerPale(unsigned owner) const { return mix(m_palette.owner(owner), m_palette.panel, 0.18); }
QColor Canvas::ownerBorder(unsigned owner) const { return mix(m_palette.owner(owner), m_palette.ink1, 0.85); }

void Canvas::ownerRect(const QRectF& area, unsigned owner, const QColor& fill) const {
    m_painter.fillRect(area, fill);
    if (!Palette::repeats(owner)) return;
    // Dots that lie inside as a whole, so that nothing need be clipped.
    const double step = u(5), radius = u(0.9);
    const QColor colour = mix(m_palette.ink1, fill, 0.55);
    std::vector<QPointF> dots;
    bool odd = false;
    for (double y = area.top() + step / 2; y + radius <= area.bottom(); y += step, odd = !odd)
        for (double x = area.left() + (odd ? step : step / 2); x + radius <= area.right(); x += step) dots.emplace_back(x, y);
    if (m_painter.paintEngine()->type() != QPaintEngine::Raster) {  // a file that is scaled later
        m_painter.save();
        m_painter.setPen(Qt::NoPen);
        m_painter.setBrush(colour);
        for (const QPointF& dot : dots) m_painter.drawEllipse(dot, radius, radius);
        m_painter.restore();
        return;
    }
    const QPixmap& dot = dotOf(colour, radius);
    const double side = dot.width() / dot.devicePixelRatio();
    std::vector<QPainter::PixmapFragment> pieces;
    for (const QPointF& at : dots)
        pieces.push_back(QPainter::PixmapFragment::create(at, QRectF(0, 0, dot.width(), dot.height()), side / dot.width(), side / dot.height()));
    m_painter.drawPixmapFragments(pieces.data(), static_cast<int>(pieces.size()), dot);
}

// Painted once per colour and picture: some hundred small circles would take most of a picture's time.
const QPixmap& Canvas::dotOf(const QColor& colour, double radius) const {
    QPixmap& dot = m_dots[colour.rgba()];
    if (!dot.isNull()) return dot;
    const double ratio = m_painter.device()->devicePixelRatioF();
    const int side = static_cast<int>(std::ceil((2 * radius + 1) * ratio));
    dot = QPixmap(side, side);
    dot.setDevicePixelRatio(ratio);
    dot.fill(Qt::transparent);
    QPainter painter(&dot);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(Qt::NoPen);
    painter.setBrush(colour);
    painter.drawEllipse(QPointF(side / ratio / 2, side / ratio / 2), radius, radius);
    return dot;
}

void Canvas::swatch(const QRectF& area, unsigned owner) const { ownerRect(area, owner, m_palette.owner(owner)); }

void Canvas::hatch(const QRectF& area, const QColor& colour, double spacing) const {
    m_painter.save();
    m_painter.setClipRect(area, Qt::IntersectClip);
    m_painter.setPen(QPen(colour, u(1)));
    const double step = u(spacing);
    for (double x = area.left() - area.height(); x < area.right(); x += step)
        m_painter.drawLine(QPointF(x, area.bottom()), QPointF(x + area.height(), area.top()));
    m_painter.restore();
}

void Canvas::outline(const QRectF& area, const QColor& colour, double width, Qt::PenStyle style) const {
    m_painter.save();
    QPen pen(colour, u(width), style);
    pen.setJoinStyle(Qt::MiterJoin);
    m_painter.setPen(pen);
    m_painter.setBrush(Qt::NoBrush);
    m_painter.drawRoundedRect(area, u(2), u(2));
    m_painter.restore();
}

void Canvas::arrow(const QPointF& a, const QPointF& b, const QColor& colour, double width) const {
    m_painter.save();
    m_painter.setPen(QPen(colour, u(width)));
    m_painter.setBrush(Qt::NoBrush);
    QPainterPath path(a);
    const double reach = std::max(u(16), std::abs(b.x() - a.x()) * 0.45);
    const double head = u(3 + 2 * width);
    const QPointF neck(b.x(), b.y() - head);
    path.cubicTo(QPointF(a.x() + reach, a.y()), QPointF(b.x(), b.y() - std::max(u(14), reach * 0.35)), neck);
    m_painter.drawPath(path);
    m_painter.setPen(Qt::NoPen);
    m_painter.setBrush(colour);
    m_painter.drawPolygon(QPolygonF({b, QPointF(b.x() - head * 0.6, neck.y()), QPointF(b.x() + head * 0.6, neck.y())}));
    m_painter.restore();
}

void Canvas::glyph(EventKind kind, const QPointF& centre, double size, const QColor& colour) const {
    const double r = u(size) / 2;
    const auto at = [&](double x, double y) { return QPointF(centre.x() + x * r, centre.y() + y * r); };
    m_painter.save();
    m_painter.setPen(QPen(colour, std::max(1.0, r * 0.38), Qt::SolidLine, Qt::RoundCap));
    m_painter.setBrush(Qt::NoBrush);
    const auto solid = [&] {
        m_painter.setPen(Qt::NoPen);
        m_painter.setBrush(colour);
    };
    switch (kind) {
    case EventKind::fork:
        m_painter.drawLine(at(0, 0.9), at(0, 0));
        m_painter.drawLine(at(0, 0), at(-0.8, -0.9));
        m_painter.drawLine(at(0, 0), at(0.8, -0.9));
        break;
    case EventKind::copy_on_write:
        solid();
        m_painter.drawPolygon(QPolygonF({at(0, -1), at(1, 0), at(0, 1), at(-1, 0)}));
        break;
    case EventKind::prefix_hit:
        solid();
        m_painter.drawPolygon(QPolygonF({at(0, -0.9), at(0.95, 0.8), at(-0.95, 0.8)}));
        break;
    case EventKind::evict:
    case EventKind::reject:
        m_painter.drawLine(at(-0.75, -0.75), at(0.75, 0.75));
        m_painter.drawLine(at(-0.75, 0.75), at(0.75, -0.75));
        break;
    case EventKind::preempt:
    case EventKind::refuse:
        solid();
        m_painter.drawRect(QRectF(at(-0.75, -0.8), at(-0.2, 0.8)));
        m_painter.drawRect(QRectF(at(0.2, -0.8), at(0.75, 0.8)));
        break;
    case EventKind::prefill:
        solid();
        m_painter.drawRect(QRectF(at(-0.75, -0.75), at(0.75, 0.75)));
        break;
    case EventKind::decode:
        solid();
        m_painter.drawEllipse(centre, r * 0.55, r * 0.55);
        break;
    case EventKind::arrive:
    case EventKind::admit:
    case EventKind::resume:
        m_painter.drawLine(at(-0.3, -0.7), at(0.5, 0));
        m_painter.drawLine(at(0.5, 0), at(-0.3, 0.7));
        break;
    case EventKind::finish:
        m_painter.drawRect(QRectF(at(-0.7, -0.7), at(0.7, 0.7)));
        break;
    case EventKind::allocate:
        m_painter.drawLine(at(-0.8, 0), at(0.8, 0));
        m_painter.drawLine(at(0, -0.8), at(0, 0.8));
        break;
    case EventKind::free:
        m_painter.drawLine(at(-0.8, 0), at(0.8, 0));
        break;
    default:
        m_painter.drawEllipse(centre, r * 0.65, r * 0.65);
        break;
    }
    m_painter.restore();
}

}  // namespace kvloupe
