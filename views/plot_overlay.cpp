// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot_overlay.h"

#include "views/plot_axis.h"

#include <QFontMetricsF>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace kvloupe {

namespace {

constexpr double label_gap = 8;   // between axis rect and label

QColor mixed(const QColor& a, const QColor& b, double share) {
    const auto mix = [share](int from, int to) { return qRound(from + (to - from) * share); };
    return QColor(mix(a.red(), b.red()), mix(a.green(), b.green()), mix(a.blue(), b.blue()));
}

QFont bold(QFont font) {
    font.setWeight(QFont::DemiBold);
    return font;
}

// Text on a wash of the panel's colour, so that a curve below does not cross it.
void textOnPanel(QCPPainter& painter, const QPointF& baseline, const QString& text, const QColor& panel) {
    const QFontMetricsF metrics(painter.font());
    QColor wash = panel;
    wash.setAlpha(215);
    painter.fillRect(QRectF(baseline.x() - 2, baseline.y() - metrics.ascent(), metrics.horizontalAdvance(text) + 4,
                            metrics.height()), wash);
    painter.drawText(baseline, text);
}

}  // namespace

PlotOverlay::PlotOverlay(QCustomPlot* plot) : QCPAbstractItem(plot) {
    setClipToAxisRect(false);
    setSelectable(false);
}

QRect PlotOverlay::clipRect() const { return mParentPlot->viewport(); }

QColor PlotOverlay::textColour(const QColor& colour) const { return mixed(colour, palette->ink1, 0.35); }

int PlotOverlay::wantedRightMargin() const {
    const QFontMetricsF name(bold(small)), detail(small);
    double widest = 0;
    for (const PlotLabel& label : data.labels)
        widest = std::max(widest, name.horizontalAdvance(label.name) +
                                      (label.detail.isEmpty() ? 0 : 6 + detail.horizontalAdvance(label.detail)));
    return widest > 0 ? static_cast<int>(std::ceil(widest + label_gap + 6)) : 12;
}

double PlotOverlay::xPixel(double x) const { return panels.back().rect->axis(QCPAxis::atBottom)->coordToPixel(x); }

double PlotOverlay::yPixel(std::size_t panel, double y) const {
    const QCPAxis* axis = panels[panel].rect->axis(QCPAxis::atLeft);
    if (axis->scaleType() == QCPAxis::stLogarithmic && !(y > 0)) return panels[panel].rect->bottom();
    return axis->coordToPixel(y);
}

void PlotOverlay::draw(QCPPainter* painter) {
    if (!palette || panels.empty()) return;
    painter->setRenderHint(QPainter::Antialiasing);
    drawFade(*painter);
    for (std::size_t i = 0; i < panels.size(); ++i) {
        const QRectF rect(panels[i].rect->rect());
        flowHead(painter, i, rect.left(), rect.left() + mParentPlot->viewport().width() - leftMargin - 6, rect.top());
        drawLevels(*painter, i);
    }
    drawTicks(*painter);
    drawCursor(*painter);
    for (std::size_t i = 0; i < panels.size(); ++i) {
        drawLevelTexts(*painter, i);
        drawMarkers(*painter, i);
        drawLabels(*painter, i);
    }
    drawFooter(*painter);
}

void PlotOverlay::drawFade(QCPPainter& painter) const {
    if (!data.cursor) return;
    QColor wash = palette->panel;
    wash.setAlphaF(0.6f);  // what lies below stays at 40 %
    for (const Panel& panel : panels) {
        const QRectF rect(panel.rect->rect());
        const double left = std::max(rect.left(), xPixel(*data.cursor));
        if (left < rect.right()) painter.fillRect(QRectF(left, rect.top(), rect.right() - left + 1, rect.height()), wash);
    }
}

void PlotOverlay::drawLevels(QCPPainter& painter, std::size_t panel) const {
    const QRectF rect(panels[panel].rect->rect());
    for (const PlotLevel& level : data.levels) {
        if (level.panel != static_cast<int>(panel)) continue;
        const double y = yPixel(panel, level.value);
        if (y < rect.top() - 1 || y > rect.bottom() + 1) continue;
        painter.setPen(QPen(level.colour, 1.2, Qt::DashLine));
        painter.drawLine(QLineF(rect.left(), y, rect.right(), y));
    }
}

// A line between two points of a curve of the panel passes through the box.
bool PlotOverlay::touchesCurve(std::size_t panel, const QRectF& box) const {
    const QCPAxisRect* rect = panels[panel].rect;
    const double from = rect->axis(QCPAxis::atBottom)->pixelToCoord(box.left());
    const double to = rect->axis(QCPAxis::atBottom)->pixelToCoord(box.right());
    for (int i = 0; i < mParentPlot->graphCount(); ++i) {
        const QCPGraph* graph = mParentPlot->graph(i);
        if (!graph->visible() || graph->keyAxis()->axisRect() != rect) continue;
        double least = 1e9, greatest = -1e9;
        const auto end = graph->data()->findEnd(to, true);
        for (auto it = graph->data()->findBegin(from, true); it != end; ++it) {
            if (std::isnan(it->value)) continue;
            const double y = yPixel(panel, it->value);
            least = std::min(least, y);
            greatest = std::max(greatest, y);
        }
        if (least <= box.bottom() && greatest >= box.top()) return true;
    }
    return false;
}

// At the left above its line; where a curve passes there, below it, or further right.
void PlotOverlay::drawLevelTexts(QCPPainter& painter, std::size_t panel) const {
    const QRectF rect(panels[panel].rect->rect());
    const QFontMetricsF metrics(small);
    painter.setFont(small);
    painter.setPen(palette->ink2);
    std::vector<QRectF> taken;
    for (const PlotLevel& level : data.levels) {
        if (level.panel != static_cast<int>(panel)) continue;
        const double y = yPixel(panel, level.value);
        if (y < rect.top() - 1 || y > rect.bottom() + 1) continue;
        const QString text = metrics.elidedText(level.text, Qt::ElideRight, rect.width() - 12);
        const double width = metrics.horizontalAdvance(text) + 4;
        const auto boxAt = [&](double x, bool below) {
            return QRectF(x, below ? y + 2 : y - 3 - metrics.height(), width, metrics.height());
        };
        const auto inside = [&](const QRectF& box) {
            return box.top() >= rect.top() - 2 && box.bottom() <= rect.bottom() + 2 &&
                   std::none_of(taken.begin(), taken.end(), [&](const QRectF& other) { return other.intersects(box); });
        };
        std::optional<QRectF> chosen, possible;
        for (double x = rect.left() + 4; x + width <= rect.right() && !chosen; x += std::max(20.0, rect.width() / 12))
            for (const bool below : {false, true}) {
                const QRectF box = boxAt(x, below);
                if (!inside(box)) continue;
                if (!possible) possible = box;
                if (!chosen && !touchesCurve(panel, box)) chosen = box;
            }
        if (!chosen) chosen = possible;
        if (!chosen) continue;
        taken.push_back(*chosen);
        textOnPanel(painter, QPointF(chosen->left() + 2, chosen->top() + metrics.ascent()), text, palette->panel);
    }
}

void PlotOverlay::drawMarkers(QCPPainter& painter, std::size_t panel) const {
    const QRectF rect(panels[panel].rect->rect());
    painter.setFont(small);
    constexpr int most_lines = 4;  // of words beside markers that stand close
    std::vector<QRectF> taken;
    for (const PlotMarker& marker : data.markers) {
        if (marker.panel != static_cast<int>(panel)) continue;
        const double x = xPixel(marker.x);
        if (x < rect.left() - 1 || x > rect.right() + 1) continue;
        const bool triangle = marker.glyph == PlotMarker::Glyph::triangle;
        const double y = triangle ? rect.top() + 4 : yPixel(panel, marker.y);
        if (y < rect.top() - 4 || y > rect.bottom() + 4) continue;
        const double r = 3.5;
        painter.setPen(QPen(marker.colour, 1.4));
        painter.setBrush(marker.glyph == PlotMarker::Glyph::ring ? QBrush(palette->panel) : QBrush(marker.colour));
        switch (marker.glyph) {
        case PlotMarker::Glyph::dot:
            painter.setPen(QPen(palette->panel, 1));
            painter.drawEllipse(QPointF(x, y), r, r);
            break;
        case PlotMarker::Glyph::ring: painter.drawEllipse(QPointF(x, y), r, r); break;
        case PlotMarker::Glyph::square: painter.drawRect(QRectF(x - 3, y - 3, 6, 6)); break;
        case PlotMarker::Glyph::triangle: {
            const QPointF points[3] = {{x - 5, y - 4}, {x + 5, y - 4}, {x, y + 5}};
            painter.drawPolygon(points, 3);
            painter.setPen(QPen(marker.colour, 1, Qt::DotLine));
            painter.drawLine(QLineF(x, y + 6, x, std::min(rect.bottom(), y + 26)));
            break;
        }
        }
        if (marker.text.isEmpty()) continue;
        const double width = QFontMetricsF(small).horizontalAdvance(marker.text);
        const double height = QFontMetricsF(small).ascent();
        double left = x + 8;
        if (left + width > rect.right()) left = x - 8 - width;
        if (left < rect.left()) continue;
        const double line = QFontMetricsF(small).height();
        double down = 0;
        const auto box = [&] { return QRectF(left - 2, y + down - line / 2, width + 4, line - 1); };
        const auto isFree = [&] {
            return std::none_of(taken.begin(), taken.end(), [&](const QRectF& other) { return other.intersects(box()); });
        };
        while (!isFree() && down < most_lines * line) down += line;
        if (!isFree()) continue;
        taken.push_back(box());
        painter.setPen(triangle ? textColour(marker.colour) : palette->ink1);
        textOnPanel(painter, QPointF(left, y + down + height / 2 - 1), marker.text, palette->panel);
    }
}

int PlotOverlay::headLines(std::size_t panel, double width) const {
    return flowHead(nullptr, panel, 0, std::max(60.0, width), 0);
}

int PlotOverlay::flowHead(QCPPainter* painter, std::size_t panel, double left, double right, double bottom) const {
    struct Part {
        QString text;
        const PlotNote* note;
        double width;
    };
    const QFontMetricsF metrics(small), strong(bold(small));
    const auto sampleWidth = [](const PlotNote* note) {
        if (!note || note->sample == PlotNote::Sample::none) return 0.0;
        return note->sample == PlotNote::Sample::square ? 12.0 : 28.0;
    };
    std::vector<Part> parts;
    if (!panels[panel].caption.isEmpty())
        parts.push_back({panels[panel].caption, nullptr, strong.horizontalAdvance(panels[panel].caption)});
    for (const PlotNote& note : data.notes)
        if (note.panel == static_cast<int>(panel))
            parts.push_back({note.text, &note, sampleWidth(&note) + metrics.horizontalAdvance(note.text)});
    if (parts.empty()) return 0;
    constexpr double gap = 16;
    int lines = 1;
    double x = left;
    std::vector<std::pair<double, int>> places;  // x, line
    for (const Part& part : parts) {
        if (x > left && x + part.width > right) {
            ++lines;
            x = left;
        }
        places.emplace_back(x, lines - 1);
        x += part.width + gap;
    }
    if (!painter) return lines;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const PlotNote* note = parts[i].note;
        double at = places[i].first;
        const double baseline = bottom - 5 - (lines - 1 - places[i].second) * (metrics.height() + 1) - metrics.descent();
        const double middle = baseline - metrics.ascent() * 0.36;
        if (note && note->sample == PlotNote::Sample::square) {
            painter->fillRect(QRectF(at, middle - 3, 6, 6), note->colour);
        } else if (note && note->sample == PlotNote::Sample::fill) {
            painter->fillRect(QRectF(at, middle - 4, 22, 8), note->colour);
        } else if (note && note->sample != PlotNote::Sample::none) {
            const bool solid = note->sample == PlotNote::Sample::solid;
            painter->setPen(QPen(note->colour, 1.6, solid ? Qt::SolidLine : Qt::DashLine));
            painter->drawLine(QLineF(at, middle, at + 22, middle));
        }
        at += sampleWidth(note);
        painter->setFont(note ? small : bold(small));
        painter->setPen(note ? palette->ink2 : palette->ink1);
        const QFontMetricsF& own = note ? metrics : strong;
        painter->drawText(QPointF(at, baseline), own.elidedText(parts[i].text, Qt::ElideRight, right - at));
    }
    return lines;
}

void PlotOverlay::drawLabels(QCPPainter& painter, std::size_t panel) const {
    const QRectF rect(panels[panel].rect->rect());
    struct Placed {
        const PlotLabel* label;
        double wanted, y;
    };
    std::vector<Placed> placed;
    for (const PlotLabel& label : data.labels) {
        if (label.panel != static_cast<int>(panel)) continue;
        const double y = std::clamp(yPixel(panel, label.y), rect.top(), rect.bottom());
        placed.push_back({&label, y, y});
    }
    if (placed.empty()) return;
    // Downwards at least a line apart, then upwards from the bottom, so that none leaves the panel.
    const double height = QFontMetricsF(small).height();
    std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) { return a.wanted < b.wanted; });
    for (std::size_t i = 1; i < placed.size(); ++i) placed[i].y = std::max(placed[i].y, placed[i - 1].y + height);
    double limit = rect.bottom();
    for (std::size_t i = placed.size(); i-- > 0;) {
        placed[i].y = std::min(placed[i].y, limit);
        limit = placed[i].y - height;
    }
    const double left = rect.right() + label_gap;
    const double right = mParentPlot->viewport().right() - 3;
    for (const Placed& place : placed) {
        const QColor colour = textColour(place.label->colour);
        if (std::abs(place.y - place.wanted) > 2 && !place.label->name.isEmpty()) {
            painter.setPen(QPen(place.label->colour, 1));
            painter.drawLine(QLineF(rect.right() + 1, place.wanted, left - 2, place.y));
        }
        const double baseline = place.y + QFontMetricsF(small).ascent() / 2 - 1;
        const QFont strong = bold(small);
        const QString name = QFontMetricsF(strong).elidedText(place.label->name, Qt::ElideRight, right - left);
        painter.setFont(strong);
        painter.setPen(colour);
        painter.drawText(QPointF(left, baseline), name);
        const double next = name.isEmpty() ? left : left + QFontMetricsF(strong).horizontalAdvance(name) + 6;
        const QString detail = QFontMetricsF(small).elidedText(place.label->detail, Qt::ElideRight, right - next);
        if (detail.isEmpty() || detail == QStringLiteral("…")) continue;
        painter.setFont(small);
        painter.setPen(palette->ink1);
        painter.drawText(QPointF(next, baseline), detail);
    }
}

void PlotOverlay::drawCursor(QCPPainter& painter) const {
    // Panel by panel, so that no line crosses the words above one.
    const auto line = [&](double x, double above, double below) {
        for (std::size_t i = 0; i < panels.size(); ++i) {
            const QRectF rect(panels[i].rect->rect());
            painter.drawLine(QLineF(x, rect.top() - above, x, rect.bottom() + (i + 1 == panels.size() ? below : 0)));
        }
    };
    const QRectF bottom(panels.back().rect->rect());
    if (data.hover) {
        const double x = xPixel(*data.hover);
        painter.setPen(QPen(palette->ink3, 1, Qt::DotLine));
        if (x >= bottom.left() - 1 && x <= bottom.right() + 1) line(x, 0, 0);
    }
    const QRectF flag = flagRect();
    if (flag.isEmpty()) return;
    painter.setPen(QPen(palette->ink1, 1.4));
    line(xPixel(*data.cursor), 2, 4);
    painter.setPen(Qt::NoPen);
    painter.setBrush(palette->ink1);
    painter.drawRoundedRect(flag, 4, 4);
    painter.setFont(bold(small));
    painter.setPen(palette->stepFlagText);
    painter.drawText(flag, Qt::AlignCenter, data.cursorText);
}

QRectF PlotOverlay::flagRect() const {
    if (!data.cursor) return {};
    const QRectF bottom(panels.back().rect->rect());
    const double x = xPixel(*data.cursor);
    if (x < bottom.left() - 1 || x > bottom.right() + 1) return {};
    const QFontMetricsF metrics(bold(small));
    const double width = metrics.horizontalAdvance(data.cursorText) + 12;
    QRectF flag(x - width / 2, bottom.bottom() + 4, width, metrics.height() + 1);
    flag.moveLeft(std::clamp(flag.left(), 0.0, std::max(0.0, mParentPlot->viewport().width() - width)));
    return flag;
}

// The horizontal axis' numbers are drawn here, so that those under the cursor's flag can stay away.
void PlotOverlay::drawTicks(QCPPainter& painter) const {
    const QCPAxis* axis = panels.back().rect->axis(QCPAxis::atBottom);
    const QRectF flag = flagRect().adjusted(-6, 0, 6, 0);
    const QVector<double> ticks = axis->tickVector();
    auto* ticker = dynamic_cast<PlotTicker*>(axis->ticker().data());
    if (!ticker) return;
    painter.setFont(axis->tickLabelFont());
    painter.setPen(palette->ink3);
    const QFontMetricsF metrics(axis->tickLabelFont());
    const double baseline = panels.back().rect->bottom() + tickGap + metrics.ascent();
    double end = -1e9;
    for (const double tick : ticks) {
        const QString text = ticker->label(tick);
        const double x = axis->coordToPixel(tick), width = metrics.horizontalAdvance(text);
        if (x < panels.back().rect->left() - 1 || x > panels.back().rect->right() + 1) continue;
        if (x - width / 2 < end + 6) continue;
        if (!flag.isEmpty() && x + width / 2 > flag.left() && x - width / 2 < flag.right()) continue;
        end = x + width / 2;
        painter.drawText(QPointF(x - width / 2, baseline), text);
    }
}

void PlotOverlay::drawFooter(QCPPainter& painter) const {
    const QRectF rect(panels.back().rect->rect());
    const QRectF view(mParentPlot->viewport());
    const QFontMetricsF metrics(small);
    painter.setFont(small);
    painter.setPen(palette->ink2);
    const double baseline = view.bottom() - metrics.descent() - 2;
    const double titleWidth = metrics.horizontalAdvance(xTitle);
    double titleLeft = rect.center().x() - titleWidth / 2;
    if (!data.footer.isEmpty()) {
        titleLeft = rect.left();
        const double room = view.right() - 8 - (rect.left() + titleWidth + 16);
        const QString footer = metrics.elidedText(data.footer, Qt::ElideRight, std::max(0.0, room));
        painter.drawText(QPointF(view.right() - 8 - metrics.horizontalAdvance(footer), baseline), footer);
    }
    painter.drawText(QPointF(titleLeft, baseline), xTitle);
}

}  // namespace kvloupe
