// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/quality_chart.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/quality_column.h"

#include <QCoreApplication>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

QString chartText(const char* text) { return QCoreApplication::translate("QualityChart", text); }

constexpr double scale_width = 46;  // of the numbers beside the plot

}  // namespace

void QualityChart::add(LaneId lane, const LaneQuality& quality) {
    std::vector<std::uint32_t> places, lasts;
    std::vector<QualityFigure> figures;
    if (m_kind == Kind::recallByDistance) {
        for (const RecallFigure& figure : recall_by_distance(quality)) {
            places.push_back(figure.distance);
            lasts.push_back(figure.distance);
            figures.push_back(figure.right);
        }
    } else {
        for (const QualityBlock& block : quality.blocks) {
            if (!block.divergence.measured()) continue;
            places.push_back(block.first);
            lasts.push_back(block.last);
            figures.push_back(block.divergence);
        }
    }
    if (places.empty()) return;
    // Lanes of one measurement have the same places; those of a lane that stopped early are fewer.
    for (std::size_t i = 0; i < places.size(); ++i) {
        const auto at = std::lower_bound(m_places.begin(), m_places.end(), places[i]);
        const auto index = at - m_places.begin();
        if (at != m_places.end() && *at == places[i]) continue;
        m_places.insert(at, places[i]);
        m_lasts.insert(m_lasts.begin() + index, lasts[i]);
        for (Line& line : m_lines) line.figures.insert(line.figures.begin() + index, QualityFigure{});
    }
    Line line;
    line.lane = lane;
    line.figures.resize(m_places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
        const auto at = std::lower_bound(m_places.begin(), m_places.end(), places[i]);
        line.figures[static_cast<std::size_t>(at - m_places.begin())] = figures[i];
    }
    m_lines.push_back(std::move(line));
}

void QualityChart::finish() {
    std::vector<QualityFigure> all;
    for (const Line& line : m_lines) all.insert(all.end(), line.figures.begin(), line.figures.end());
    m_scale = qualityScale(m_kind == Kind::recallByDistance ? QualityColumn::recall : QualityColumn::divergence, all, 5);
}

QString QualityChart::caption() const {
    return m_kind == Kind::recallByDistance ? chartText("recall by distance") : chartText("KL divergence by position");
}

QString QualityChart::axisTitle() const {
    return m_kind == Kind::recallByDistance ? chartText("distance in tokens") : chartText("position in the text");
}

QRectF QualityChart::plotOf(double unit, const QRectF& area, double captionHeight, double axisHeight) {
    return area.adjusted(scale_width * unit, captionHeight + 4 * unit, -12 * unit, -axisHeight - 4 * unit);
}

double QualityChart::xOf(const QRectF& plot, std::size_t place) const {
    return plot.left() + plot.width() * (static_cast<double>(place) + 0.5) / static_cast<double>(m_places.size());
}

QString QualityChart::placeName(std::size_t place) const { return formatCount(m_places[place]); }

QString QualityChart::numberText(double value) const {
    return qualityNumber(m_kind == Kind::recallByDistance ? QualityColumn::recall : QualityColumn::divergence, value);
}

void QualityChart::paintLine(const Canvas& canvas, const QRectF& plot, const Line& line, double shift, const QColor& colour,
                             bool strong) const {
    QPainter& painter = canvas.painter();
    const auto y = [&](double value) { return plot.bottom() - plot.height() * m_scale.share(value); };
    painter.setPen(QPen(colour, canvas.u(strong ? 2.2 : 1.4)));
    painter.setBrush(Qt::NoBrush);
    QPolygonF path;
    const auto draw = [&] {
        if (path.size() > 1) painter.drawPolyline(path);
        path.clear();
    };
    for (std::size_t i = 0; i < line.figures.size(); ++i) {
        const QualityFigure& figure = line.figures[i];
        if (!figure.measured()) {
            draw();
            continue;
        }
        path << QPointF(xOf(plot, i) + shift, y(figure.value));
    }
    draw();
    for (std::size_t i = 0; i < line.figures.size(); ++i) {
        const QualityFigure& figure = line.figures[i];
        if (!figure.measured()) continue;
        const double x = xOf(plot, i) + shift;
        painter.setPen(QPen(colour, canvas.u(1)));
        painter.drawLine(QPointF(x, y(figure.low)), QPointF(x, y(figure.high)));
        painter.setPen(Qt::NoPen);
        painter.setBrush(colour);
        const double radius = canvas.u(strong ? 3.2 : 2.4);
        painter.drawEllipse(QPointF(x, y(figure.value)), radius, radius);
    }
}

void QualityChart::paint(const Canvas& canvas, const QRectF& area, double captionHeight, double axisHeight,
                         const std::function<QColor(LaneId)>& colourOf, std::optional<LaneId> focus) const {
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    const QRectF plot = plotOf(canvas.u(1), area, captionHeight, axisHeight);
    canvas.text(QRectF(plot.left(), area.top(), area.right() - plot.left(), captionHeight), caption(),
                {11, QFont::DemiBold});
    if (plot.height() < canvas.u(24) || m_places.empty()) return;
    const TextStyle ticks{10.5, QFont::Normal, colours.ink3, false};
    for (const double tick : m_scale.ticks) {
        const double y = plot.bottom() - plot.height() * m_scale.share(tick);
        painter.setPen(QPen(colours.grid, 1));
        painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y));
        const QString text = qualityTick(
            m_kind == Kind::recallByDistance ? QualityColumn::recall : QualityColumn::divergence, tick, m_scale.step);
        canvas.text(QRectF(area.left(), y - canvas.u(8), plot.left() - area.left() - canvas.u(5), canvas.u(16)), text, ticks,
                    Qt::AlignRight | Qt::AlignVCenter);
    }
    // Names of places as far as they have room, and the axis' title where there is a second line.
    const double line = canvas.lineHeight(ticks);
    double free = plot.left() - canvas.u(4);
    for (std::size_t i = 0; i < m_places.size(); ++i) {
        const double width = canvas.width(placeName(i), ticks), x = xOf(plot, i);
        if (x - width / 2 < free) continue;
        canvas.text(QRectF(x - width / 2, plot.bottom() + canvas.u(3), width + 1, line), placeName(i), ticks);
        free = x + width / 2 + canvas.u(6);
    }
    canvas.text(QRectF(plot.left(), plot.bottom() + canvas.u(3) + line, plot.width(), line), axisTitle(), ticks,
                Qt::AlignHCenter | Qt::AlignVCenter);
    const double pitch = std::min(canvas.u(5), plot.width() / static_cast<double>(m_places.size() * (m_lines.size() + 1)));
    const auto shift = [&](std::size_t i) {
        return (static_cast<double>(i) - (static_cast<double>(m_lines.size()) - 1) / 2) * pitch;
    };
    for (const bool strong : {false, true})
        for (std::size_t i = 0; i < m_lines.size(); ++i)
            if ((focus == m_lines[i].lane) == strong)
                paintLine(canvas, plot, m_lines[i], shift(i), colourOf(m_lines[i].lane), strong);
}

std::optional<std::size_t> QualityChart::placeAt(double unit, const QRectF& area, double x) const {
    const QRectF plot = plotOf(unit, area, 0, 0);
    if (m_places.empty() || x < plot.left() || x >= plot.right()) return std::nullopt;
    const double place = (x - plot.left()) / plot.width() * static_cast<double>(m_places.size());
    return std::min(m_places.size() - 1, static_cast<std::size_t>(place));
}

QString QualityChart::tip(std::size_t place, const std::function<QString(LaneId)>& nameOf) const {
    QStringList lines;
    if (m_kind == Kind::recallByDistance)
        lines << chartText("%1 tokens between fact and answer").arg(formatCount(m_places[place]));
    else
        lines << chartText("positions %1 to %2").arg(formatCount(m_places[place]), formatCount(m_lasts[place]));
    for (const Line& line : m_lines) {
        const QualityFigure& figure = line.figures[place];
        if (!figure.measured()) continue;
        lines << chartText("%1: ● %2 (95 %: %3 to %4), %5")
                     .arg(nameOf(line.lane), numberText(figure.value), numberText(figure.low), numberText(figure.high),
                          (m_kind == Kind::recallByDistance ? chartText("%1 questions") : chartText("%1 predictions"))
                              .arg(formatCount(figure.samples)));
    }
    return lines.join(QLatin1Char('\n'));
}

}  // namespace kvloupe
