// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/glyph_icon.h"

#include "views/palette.h"

#include <QIconEngine>
#include <QPainter>
#include <QPainterPath>
#include <QPointer>
#include <QWidget>

namespace kvloupe {

namespace {

// Draws in a square of 16 units.
void drawGlyph(QPainter& painter, const QString& name, const QColor& ink, const Palette& colours) {
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(Qt::NoPen);
    painter.setBrush(ink);
    const auto triangle = [&painter](double x, double width, bool left) {
        QPainterPath path;
        path.moveTo(left ? x + width : x, 3);
        path.lineTo(left ? x : x + width, 8);
        path.lineTo(left ? x + width : x, 13);
        path.closeSubpath();
        painter.drawPath(path);
    };
    const QPen line(ink, 1.4, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin);
    if (name == QLatin1String("rewind")) {
        painter.drawRect(QRectF(2, 3, 2, 10));
        triangle(5, 9, true);
    } else if (name == QLatin1String("step-back")) {
        triangle(3, 9, true);
    } else if (name == QLatin1String("step")) {
        triangle(4, 9, false);
    } else if (name == QLatin1String("run")) {
        triangle(1, 7, false);
        triangle(8, 7, false);
    } else if (name == QLatin1String("pause")) {
        painter.drawRect(QRectF(4, 3, 3, 10));
        painter.drawRect(QRectF(9, 3, 3, 10));
    } else if (name == QLatin1String("stop")) {
        painter.drawRect(QRectF(4, 4, 8, 8));
    } else if (name == QLatin1String("breakpoint")) {
        painter.setBrush(colours.breakpoint);
        painter.drawEllipse(QRectF(4, 4, 8, 8));
    } else if (name == QLatin1String("fork")) {
        painter.setPen(QPen(ink, 1.8, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
        painter.drawLine(QPointF(8, 13.5), QPointF(8, 8));
        painter.drawLine(QPointF(8, 8), QPointF(3.5, 2.5));
        painter.drawLine(QPointF(8, 8), QPointF(12.5, 2.5));
    } else if (name == QLatin1String("add")) {
        painter.setPen(line);
        painter.drawLine(QPointF(8, 3), QPointF(8, 13));
        painter.drawLine(QPointF(3, 8), QPointF(13, 8));
    } else if (name == QLatin1String("export")) {
        painter.setPen(line);
        painter.drawLine(QPointF(8, 2.5), QPointF(8, 10));
        painter.drawPolyline(QPolygonF({{5, 7.2}, {8, 10}, {11, 7.2}}));
        painter.drawLine(QPointF(3, 13), QPointF(13, 13));
    } else if (name == QLatin1String("copy")) {
        painter.setPen(line);
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(QRectF(3, 3, 7, 7));
        painter.drawPolyline(QPolygonF({{12.5, 6}, {12.5, 12.5}, {6, 12.5}}));
    } else if (name == QLatin1String("float")) {
        painter.setPen(line);
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(QRectF(6, 3, 7, 7));
        painter.drawPolyline(QPolygonF({{6, 6}, {3, 6}, {3, 13}, {10, 13}, {10, 10}}));
    } else if (name == QLatin1String("close")) {
        painter.setPen(line);
        painter.drawLine(QPointF(4, 4), QPointF(12, 12));
        painter.drawLine(QPointF(12, 4), QPointF(4, 12));
    } else if (name == QLatin1String("open")) {
        painter.setPen(line);
        painter.setBrush(Qt::NoBrush);
        painter.drawPolyline(QPolygonF({{2, 13}, {2, 4}, {6, 4}, {7.5, 5.5}, {13, 5.5}, {13, 7.5}}));
        painter.drawPolygon(QPolygonF({{2, 13}, {4.5, 7.5}, {15, 7.5}, {12.5, 13}}));
    } else if (name == QLatin1String("app")) {
        // Three blocks under a loupe.
        for (int i = 0; i < 3; ++i) {
            painter.setBrush(colours.owners[static_cast<std::size_t>(i)]);
            painter.drawRect(QRectF(1 + 4.6 * i, 5, 4, 6));
        }
        painter.setBrush(Qt::NoBrush);
        painter.setPen(QPen(ink, 1.3));
        painter.drawEllipse(QRectF(4, 2.5, 8.5, 8.5));
        painter.setPen(QPen(ink, 2, Qt::SolidLine, Qt::RoundCap));
        painter.drawLine(QPointF(11.5, 10.2), QPointF(14.2, 13.6));
    }
}

class GlyphEngine : public QIconEngine {
public:
    GlyphEngine(QString name, const QWidget* themed) : m_name(std::move(name)), m_themed(themed) {}

    void paint(QPainter* painter, const QRect& rect, QIcon::Mode mode, QIcon::State) override {
        const Palette& colours = m_themed ? Palette::of(m_themed) : Palette::light();
        painter->save();
        painter->translate(rect.topLeft());
        painter->scale(rect.width() / 16.0, rect.height() / 16.0);
        drawGlyph(*painter, m_name, mode == QIcon::Disabled ? colours.ink3 : colours.ink1, colours);
        painter->restore();
    }

    QPixmap pixmap(const QSize& size, QIcon::Mode mode, QIcon::State state) override {
        QPixmap pixmap(size);
        pixmap.fill(Qt::transparent);
        QPainter painter(&pixmap);
        paint(&painter, QRect(QPoint(0, 0), size), mode, state);
        return pixmap;
    }

    QIconEngine* clone() const override { return new GlyphEngine(m_name, m_themed); }

private:
    QString m_name;
    QPointer<const QWidget> m_themed;
};

}  // namespace

QIcon glyphIcon(const QString& name, const QWidget* themed) { return QIcon(new GlyphEngine(name, themed)); }

}  // namespace kvloupe
