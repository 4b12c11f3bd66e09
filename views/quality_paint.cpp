// SPDX-License-Identifier: GPL-3.0-or-later
//
// How QualityView is laid out and drawn.
#include "views/quality_view.h"

#include "views/canvas.h"
#include "views/format.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

QString QualityView::linkText() const {
    if (!m_report || m_report->state == QualityReport::State::running) return {};
    return tr("Measure again…");
}

QString QualityView::footText() const {
    QStringList parts;
    const bool compared = std::any_of(m_report->lanes.begin(), m_report->lanes.end(),
                                      [](const LaneQuality& lane) { return lane.divergence.measured(); });
    if (compared) parts << tr("changes are against %1").arg(QString::fromStdString(m_report->reference));
    if (m_report->tokens > 0) parts << tr("%1 tokens a lane").arg(formatCount(m_report->tokens));
    if (m_report->questions > 0) parts << tr("%1 questions").arg(formatCount(m_report->questions));
    if (!m_report->measured_on.empty()) parts << QString::fromStdString(m_report->measured_on);
    if (!m_report->device.empty()) parts << QString::fromStdString(m_report->device);
    return parts.join(QStringLiteral(" · "));
}

QualityView::Frame QualityView::frameFor(const QRectF& area) const {
    Frame frame;
    const double line = QFontMetricsF(textFont(10.5)).height();
    const double width = area.width() - (this->width() - contentWidth());
    const double names = nameWidth(width);
    frame.head = 24 * unit();
    frame.parts = fitting(width, names);
    const bool charts =
        std::any_of(frame.parts.begin(), frame.parts.end(), [](const Part& part) { return part.chart != nullptr; });
    frame.axis = charts ? 2 * line + 8 * unit() : line + 6 * unit();
    const double foot = area.height() >= 170 * unit() ? 20 * unit() : 0;
    frame.foot = QRectF(area.left(), area.bottom() - foot, area.width(), foot);
    if (foot > 0 && !linkText().isEmpty()) {
        const double link = QFontMetricsF(textFont(11)).horizontalAdvance(linkText()) + 2;
        frame.link = QRectF(area.right() - link - 10 * unit(), frame.foot.top(), link, foot);
    }
    const double rows = std::max<double>(1, static_cast<double>(cursor()->recording()->lanes().size()));
    frame.row = std::clamp((area.height() - frame.head - frame.axis - foot) / rows, 18 * unit(), 40 * unit());
    frame.names = QRectF(area.left(), area.top() + frame.head, names, area.height() - frame.head - frame.axis - foot);
    for (Part& part : frame.parts)
        part.area = QRectF(area.left() + part.area.left(), area.top(), part.area.width(), area.height() - foot);
    return frame;
}

bool QualityView::overLink(const QPointF& position) const {
    return m_report && cursor()->recording() && !isEmptyShown() && !linkText().isEmpty() &&
           frameFor(QRectF(rect())).link.contains(position);
}

QRectF QualityView::rowOf(const Frame& frame, const QRectF& area, std::uint32_t lane) const {
    return QRectF(area.left(), area.top() + frame.head + lane * frame.row - offset(), area.width(), frame.row);
}

// A lane's row as far as there are figures: charts are no rows.
QRectF QualityView::bandOf(const Frame& frame, const QRectF& area, std::uint32_t lane) const {
    QRectF band = rowOf(frame, area, lane);
    for (const Part& part : frame.parts)
        if (part.chart) band.setRight(std::min(band.right(), part.area.left()));
    return band;
}

// Room for the number stands right of the marks, of shares left of them: theirs end at 100 %.
QRectF QualityView::plotOf(const Canvas& canvas, const Part& part) const {
    const double number = canvas.u(48), edge = canvas.u(10);
    return part.column == QualityColumn::recall ? part.area.adjusted(number + edge, 0, -edge, 0)
                                                : part.area.adjusted(edge, 0, -number - edge, 0);
}

void QualityView::paintNames(const Canvas& canvas, const Frame& frame, const QRectF& area) const {
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    for (std::uint32_t i = 0; i < cursor()->recording()->lanes().size(); ++i) {
        const QRectF row = rowOf(frame, area, i);
        const bool focus = cursor()->lane() == LaneId(i);
        const QRectF band = bandOf(frame, area, i);
        if (focus) {  // neighbours in one piece, so that no seam shows
            double left = row.left(), right = frame.names.right();
            const auto fill = [&] {
                painter.fillRect(QRectF(left, row.top(), right - left, row.height()), colours.selectedRow);
            };
            for (const Part& part : frame.parts) {
                if (part.chart) continue;
                if (part.area.left() > right + 0.5) {
                    fill();
                    left = part.area.left();
                }
                right = part.area.right();
            }
            fill();
        }
        if (cursor()->locked().lane == LaneId(i))
            canvas.outline(band.adjusted(1, 1, -1, -1), colours.ink1, 2);
        else if (cursor()->hover().lane == LaneId(i))
            canvas.outline(band.adjusted(1, 1, -1, -1), colours.ink1, 1);
        const double side = canvas.u(10);
        painter.fillRect(QRectF(row.left() + canvas.u(10), row.center().y() - side / 2, side, side),
                         colours.lane(*cursor()->recording(), LaneId(i)));
        const QRectF name(row.left() + canvas.u(26), row.top(), frame.names.width() - canvas.u(30), row.height());
        canvas.text(name, laneName(LaneId(i)), {12, focus ? QFont::DemiBold : QFont::Normal});
    }
}

// What stands in a lane's row instead of figures; over the lines of the columns.
void QualityView::paintStates(const Canvas& canvas, const Frame& frame, const QRectF& area) const {
    const Palette& colours = canvas.colours();
    if (frame.parts.empty() || frame.parts.front().chart) return;
    for (std::uint32_t i = 0; i < cursor()->recording()->lanes().size(); ++i) {
        const QString state = stateOf(i);
        if (state.isEmpty()) continue;
        const QRectF row = bandOf(frame, area, i);
        const bool failed = qualityOf(i) && !qualityOf(i)->failure.empty();
        const TextStyle style{11, QFont::Normal, failed ? colours.breakpoint : colours.ink3, false};
        const QRectF room(frame.names.right() + canvas.u(10), row.top(), row.right() - frame.names.right() - canvas.u(20),
                          row.height());
        paintWash(canvas, room, state, style, i);
        canvas.text(room, state, style);
    }
}

// Hides the lines behind a text.
void QualityView::paintWash(const Canvas& canvas, const QRectF& room, const QString& text, const TextStyle& style,
                            std::uint32_t lane) const {
    const Palette& colours = canvas.colours();
    const double height = canvas.lineHeight(style);
    canvas.painter().fillRect(QRectF(room.left() - 1, room.center().y() - height / 2,
                                     std::min(room.width(), canvas.width(text, style) + 2), height),
                              cursor()->lane() == LaneId(lane) ? colours.selectedRow : colours.panel);
}

void QualityView::paintFigure(const Canvas& canvas, const Part& part, const NiceScale& scale, const QRectF& row,
                              std::uint32_t lane) const {
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    const LaneQuality* quality = qualityOf(lane);
    if (!quality) return;
    const QualityFigure figure = qualityFigure(*quality, part.column);
    const QRectF plot = plotOf(canvas, part);
    if (!figure.measured()) {
        const bool against = part.column == QualityColumn::ratio || part.column == QualityColumn::divergence;
        if (!against || !isReference(lane)) return;
        const TextStyle pale{11, QFont::Normal, colours.ink3, false};
        const QRectF room(plot.left(), row.top(), part.area.right() - plot.left(), row.height());
        paintWash(canvas, room, tr("reference"), pale, lane);
        canvas.text(room, tr("reference"), pale);
        return;
    }
    const QColor colour = colours.lane(*cursor()->recording(), LaneId(lane));
    const auto x = [&](double value) { return plot.left() + plot.width() * scale.share(value); };
    const double y = row.center().y(), radius = canvas.u(4);
    painter.setPen(QPen(colour, canvas.u(1.8)));
    painter.drawLine(QPointF(x(figure.low), y), QPointF(x(figure.high), y));
    painter.setPen(Qt::NoPen);
    painter.setBrush(colour);
    painter.drawEllipse(QPointF(x(figure.value), y), radius, radius);
    const QString text = qualityNumber(part.column, figure.value);
    const double gap = canvas.u(6), low = std::min(x(figure.low), x(figure.value) - radius),
                 high = std::max(x(figure.high), x(figure.value) + radius);
    const TextStyle style{11, QFont::Normal, colours.ink1, false};
    const double width = canvas.width(text, style) + 1;
    const double left = part.column == QualityColumn::recall ? low - gap - width : high + gap;
    const QRectF room(left, row.top(), width, row.height());
    paintWash(canvas, room, text, style, lane);
    canvas.text(room, text, style);
}

void QualityView::paintColumn(const Canvas& canvas, const Frame& frame, const Part& part) const {
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    const QRectF plot = plotOf(canvas, part);
    std::vector<QualityFigure> figures;
    for (const LaneQuality& lane : m_report->lanes) figures.push_back(qualityFigure(lane, part.column));
    const TextStyle ticks{10.5, QFont::Normal, colours.ink3, false};
    const double tickWidth = canvas.width(qualityWidestTick(part.column), ticks) + canvas.u(12);
    const NiceScale scale = qualityScale(part.column, figures, std::max(2, static_cast<int>(plot.width() / tickWidth) + 1));

    const QString full = qualityCaption(part.column) + QStringLiteral(", ") + qualityHint(part.column);
    const TextStyle bold{11, QFont::DemiBold};
    const QRectF caption(part.area.left() + canvas.u(10), part.area.top(), part.area.width() - canvas.u(14), frame.head);
    canvas.text(caption, canvas.width(full, bold) <= caption.width() ? full : qualityCaption(part.column), bold);

    const double bottom = part.area.bottom() - frame.axis;
    const double rowsBottom = std::min(
        bottom, part.area.top() + frame.head + frame.row * static_cast<double>(cursor()->recording()->lanes().size()));
    double free = -1;
    for (const double tick : scale.ticks) {
        const double x = plot.left() + plot.width() * scale.share(tick);
        const bool same = part.column == QualityColumn::ratio && std::abs(tick - 1) < 1e-9;
        painter.setPen(QPen(same ? colours.ink3 : colours.grid, 1, same ? Qt::DashLine : Qt::SolidLine));
        painter.drawLine(QPointF(x, part.area.top() + frame.head), QPointF(x, rowsBottom));
        const QString text = qualityTick(part.column, tick, scale.step);
        const double width = canvas.width(text, ticks);
        const double left = std::min(x - width / 2, part.area.right() - width - 1);
        if (left < free) continue;
        canvas.text(QRectF(left, rowsBottom + canvas.u(2), width + 1, canvas.lineHeight(ticks)), text, ticks);
        free = left + width + canvas.u(6);
    }
    painter.save();
    painter.setClipRect(
        QRectF(part.area.left(), part.area.top() + frame.head, part.area.width(), bottom - part.area.top() - frame.head),
        Qt::IntersectClip);
    for (std::uint32_t i = 0; i < cursor()->recording()->lanes().size(); ++i)
        paintFigure(canvas, part, scale, rowOf(frame, QRectF(rect().x(), part.area.top(), part.area.width(), 0), i), i);
    painter.restore();
}

void QualityView::paintContent(QPainter& painter, const QRectF& area) {
    if (!m_report || !cursor()->recording()) return;
    const Canvas canvas(painter, palette_(), font(), unit());
    const Palette& colours = canvas.colours();
    const Frame frame = frameFor(area);
    painter.save();
    painter.setClipRect(QRectF(area.left(), area.top() + frame.head, area.width(), frame.names.height()), Qt::IntersectClip);
    paintNames(canvas, frame, area);
    painter.restore();
    std::optional<LaneId> focus = cursor()->shown().lane;
    if (!focus) focus = cursor()->lane();
    for (const Part& part : frame.parts) {
        if (!part.chart)
            paintColumn(canvas, frame, part);
        else
            part.chart->paint(
                canvas, part.area, frame.head, frame.axis,
                [&](LaneId lane) { return colours.lane(*cursor()->recording(), lane); }, focus);
    }
    painter.save();
    painter.setClipRect(QRectF(area.left(), area.top() + frame.head, area.width(), frame.names.height()), Qt::IntersectClip);
    paintStates(canvas, frame, area);
    painter.restore();
    if (frame.foot.height() <= 0) return;
    canvas.text(frame.foot.adjusted(canvas.u(10), 0, -canvas.u(20) - frame.link.width(), 0), footText(),
                {11, QFont::Normal, colours.ink2, false});
    canvas.text(frame.link, linkText(), {11, QFont::Normal, colours.accent, false}, Qt::AlignRight | Qt::AlignVCenter);
}

}  // namespace kvloupe
