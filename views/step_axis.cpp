// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/step_axis.h"

#include "views/format.h"

#include <QCoreApplication>
#include <QPointF>

#include <algorithm>
#include <cmath>

namespace kvloupe {

std::pair<double, double> StepRange::of(int stepCount) const {
    if (m_zoomed) return {m_begin, m_end};
    return {0.0, std::max(fewest_steps, static_cast<double>(stepCount))};
}

void StepRange::zoom(double factor, double pivot, double shift, int stepCount) {
    const auto [begin, end] = of(stepCount);
    const double whole = std::max(fewest_steps, static_cast<double>(stepCount));
    const double width = std::clamp((end - begin) * factor, least_width, whole);
    m_begin = std::clamp(pivot - (pivot - begin) * width / (end - begin) + shift, 0.0, whole - width);
    m_end = m_begin + width;
    m_zoomed = width < whole;
}

QVariant StepRange::state() const { return m_zoomed ? QVariant(QPointF(m_begin, m_end)) : QVariant(); }

void StepRange::setState(const QVariant& state) {
    m_zoomed = state.isValid();
    if (!m_zoomed) return;
    m_begin = state.toPointF().x();
    m_end = std::max(m_begin + 1e-3, state.toPointF().y());
}

QString StepAxis::axisTitle() { return QCoreApplication::translate("kvloupe::StepAxis", "step"); }

StepAxis StepAxis::over(const QRectF& plot, const QRectF& ticks, const std::pair<double, double>& range) {
    StepAxis axis;
    axis.plot = plot;
    axis.ticks = ticks;
    axis.begin = range.first;
    axis.end = range.second;
    axis.perStep = std::max(1.0, plot.width()) / std::max(1e-6, range.second - range.first);
    return axis;
}

double StepAxis::stepsPerTick(double steps, double most) {
    const double wanted = std::max(2.0, most);
    const double step = std::pow(10.0, std::floor(std::log10(std::max(1.0, steps / wanted))));
    for (const double factor : {1.0, 2.0, 5.0, 10.0})
        if (steps / (step * factor) <= wanted) return std::max(1.0, step * factor);
    return std::max(1.0, step);
}

void StepAxis::paintTicks(const Canvas& canvas, int cursor) const {
    const TextStyle label{10.5, QFont::Normal, canvas.colours().ink3, false}, flag{11, QFont::Bold, {}, false};
    const double flagHalf = cursor < 0 ? 0 : canvas.width(formatCount(static_cast<quint64>(cursor)), flag) / 2 + canvas.u(8);
    const double step = stepsPerTick(end - begin, plot.width() / canvas.u(80));
    QPainter& painter = canvas.painter();
    const TextStyle title{10.5, QFont::Normal, canvas.colours().ink2, false};
    canvas.text(QRectF(ticks.left() - canvas.u(42), ticks.top() + canvas.u(3), canvas.u(32), canvas.u(14)), axisTitle(), title,
                Qt::AlignRight | Qt::AlignVCenter, Qt::ElideNone);
    painter.setPen(QPen(canvas.colours().line, 1));
    painter.drawLine(ticks.topLeft(), ticks.topRight());
    for (double at = std::ceil(begin / step) * step; at < end; at += step) {
        const double centre = x(at + 0.5);
        painter.setPen(QPen(canvas.colours().ink3, 1));
        painter.drawLine(QPointF(centre, ticks.top()), QPointF(centre, ticks.top() + canvas.u(3)));
        const QString text = formatCount(static_cast<quint64>(at));
        if (cursor >= 0 && std::abs(centre - x(cursor + 0.5)) < flagHalf + canvas.width(text, label) / 2) continue;
        canvas.text(QRectF(centre - canvas.u(30), ticks.top() + canvas.u(3), canvas.u(60), canvas.u(14)), text, label,
                    Qt::AlignHCenter | Qt::AlignVCenter, Qt::ElideNone);
    }
}

void StepAxis::paintFuture(const Canvas& canvas, int step, const QRectF& area) const {
    const double now = std::max(x(step + 1), area.left());
    if (now >= area.right()) return;
    QColor veil = canvas.colours().panel;
    veil.setAlphaF(0.6f);
    canvas.painter().fillRect(QRectF(QPointF(now, area.top()), area.bottomRight()), veil);
}

void StepAxis::paintCursor(const Canvas& canvas, int step) const {
    if (step < 0) return;
    const double centre = x(step + 0.5);
    if (centre < plot.left() - 1 || centre > plot.right() + 1) return;
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    painter.setPen(QPen(colours.ink1, canvas.u(1.5)));
    painter.drawLine(QPointF(centre, plot.top()), QPointF(centre, ticks.top()));
    const TextStyle style{11, QFont::Bold, colours.stepFlagText, false};
    const QString text = formatCount(static_cast<quint64>(step));
    const double width = canvas.width(text, style) + canvas.u(12);
    const double left = std::clamp(centre - width / 2, plot.left() - canvas.u(6),
                                   std::max(plot.left() - canvas.u(6), plot.right() + canvas.u(6) - width));
    const QRectF flag(left, ticks.top() + canvas.u(1), width, canvas.u(16));
    painter.setPen(Qt::NoPen);
    painter.setBrush(colours.ink1);
    painter.drawRoundedRect(flag, canvas.u(3), canvas.u(3));
    canvas.text(flag, text, style, Qt::AlignCenter, Qt::ElideNone);
}

}  // namespace kvloupe
