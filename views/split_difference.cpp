// SPDX-License-Identifier: GPL-3.0-or-later
//
// The memory split compared with another lane's: diverging areas around zero.
#include "views/split_view.h"

#include "views/canvas.h"
#include "views/csv_line.h"
#include "views/format.h"
#include "views/reference.h"
#include "views/slot_colours.h"

#include <QPainterPath>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

QString signedPoints(double share) {
    const QString number = QString::number(std::abs(share) * 100, 'f', 1);
    return (share < 0 ? QStringLiteral("−") : share > 0 ? QStringLiteral("+") : QString()) + number;
}

// Half the axis, a share whose half is easily read, too; at most the whole pool.
double roundReach(double largest) {
    double reach = 0.01;
    for (const double step : {0.02, 0.04, 0.1, 0.2, 0.3, 0.5, 1.0})
        if (largest > reach) reach = step;
    return reach;
}

}  // namespace

std::vector<ViewChoice> SplitView::choices() const {
    return cursor()->reference() ? std::vector<ViewChoice>{differenceChoice(m_showDifference)} : std::vector<ViewChoice>{};
}

void SplitView::setChoice(const QString&, int index) { m_showDifference = index == 1; }

const SlotSeries* SplitView::thereSeries() const {
    const Reference* reference = cursor()->reference();
    if (!series() || !reference || !m_showDifference || reference->isSameLane()) return nullptr;
    const SlotHistory& history = reference->recording() == cursor()->sharedRecording() ? m_history : m_thereHistory;
    if (!history.holds(reference->recording().get())) return nullptr;
    const SlotSeries& there = history.lane(reference->lane());
    return reference->laneRecord().info().kv_cache && there.steps() > 0 && there.pool() > 0 ? &there : nullptr;
}

std::optional<SlotShares> SplitView::differenceOf(std::size_t first, std::size_t last) const {
    const SlotSeries *here = series(), *there = thereSeries();
    if (!here || !there || last <= first || last > here->steps()) return std::nullopt;
    const Reference& reference = *cursor()->reference();
    const int begin = reference.stepFor(static_cast<int>(first));
    const int end = last == first + 1 ? begin : reference.stepFor(static_cast<int>(last - 1));
    if (begin < 0 || end < begin || static_cast<std::size_t>(end) >= there->steps()) return std::nullopt;
    // By number nothing stands beside what comes after the other lane's end.
    if (reference.alignment() == Alignment::step && first >= there->steps()) return std::nullopt;
    return slotDifference(*here, {first, last}, *there, {static_cast<std::size_t>(begin), static_cast<std::size_t>(end) + 1});
}

std::vector<SplitView::DifferenceColumn> SplitView::differenceColumns(const Frame& frame) const {
    std::vector<DifferenceColumn> columns;
    const double begin = std::max(0.0, frame.axis.begin), end = std::min(frame.axis.end, static_cast<double>(series()->steps()));
    const double stride = std::max(1.0, frame.axis.perStep) / frame.axis.perStep;
    for (double at = frame.axis.perStep < 1 ? begin : std::floor(begin); at < end; at += stride) {
        const auto first = static_cast<std::size_t>(at);
        const std::size_t last = std::clamp<std::size_t>(static_cast<std::size_t>(at + stride), first + 1, series()->steps());
        const auto shares = differenceOf(first, last);
        if (!shares) continue;
        const double left = std::max(frame.plot.left(), frame.axis.x(at));
        columns.push_back({left, std::min(frame.plot.right(), frame.axis.x(std::min(at + stride, end))), *shares});
    }
    return columns;
}

void SplitView::paintDifference(const Canvas& canvas, const Frame& frame) const {
    const std::vector<DifferenceColumn> columns = differenceColumns(frame);
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    double largest = 0;
    for (const DifferenceColumn& column : columns) {
        double above = 0;
        for (const double share : column.shares) above += std::max(share, 0.0);
        largest = std::max(largest, above);
    }
    const double reach = roundReach(largest), zero = frame.plot.center().y(), half = frame.plot.height() / 2;
    for (int i = -2; i <= 2; ++i) {
        const double y = zero - half * i / 2;
        painter.setPen(QPen(i == 0 ? colours.ink2 : colours.grid, 1));
        painter.drawLine(QPointF(frame.plot.left(), y), QPointF(frame.plot.right(), y));
        const QString sign = i < 0 ? QStringLiteral("−") : i > 0 ? QStringLiteral("+") : QString();
        if (i % 2 == 0 || frame.plot.height() > canvas.u(90))
            canvas.text(QRectF(frame.labels.left(), y - canvas.u(7), frame.labels.width(), canvas.u(14)),
                        QStringLiteral("%1%2 %").arg(sign).arg(50 * std::abs(i) * reach),
                        {10.5, QFont::Normal, colours.ink3, false}, Qt::AlignRight | Qt::AlignVCenter, Qt::ElideNone);
    }
    painter.setRenderHint(QPainter::Antialiasing, false);
    for (const DifferenceColumn& column : columns) {
        double above = 0, below = 0;
        for (std::size_t kind = 0; kind < column.shares.size(); ++kind) {
            const double share = column.shares[kind];
            double& from = share > 0 ? above : below;
            const double next = from + share;
            const double a = zero - half * std::max(from, next) / reach, b = zero - half * std::min(from, next) / reach;
            from = next;
            if (b - a < 0.3) continue;
            const QRectF box(column.left, a, std::max(1.0, column.right - column.left), b - a);
            const auto slotKind = static_cast<SlotKind>(kind);
            painter.fillRect(box, slotKind == SlotKind::free ? colours.freeBorder : slotColour(colours, slotKind));
            if (slotKind == SlotKind::cached && box.width() > canvas.u(4)) canvas.hatch(box, colours.hatch);
        }
    }
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(QPen(colours.ink2, 1));
    painter.drawLine(QPointF(frame.plot.left(), zero), QPointF(frame.plot.right(), zero));
    const TextStyle style{10.5, QFont::Normal, colours.ink2, false};
    const QRectF room = frame.plot.adjusted(canvas.u(6), canvas.u(2), -canvas.u(6), -canvas.u(2));
    if (room.height() < canvas.u(60)) return;
    canvas.text(QRectF(room.left(), room.top(), room.width(), canvas.u(14)), tr("more here"), style);
    canvas.text(QRectF(room.left(), room.bottom() - canvas.u(14), room.width(), canvas.u(14)),
                tr("more in %1").arg(cursor()->reference()->label()), style);
}

QStringList SplitView::describeDifference(std::size_t step) const {
    const Reference& reference = *cursor()->reference();
    const auto difference = differenceOf(step, step + 1);
    if (!difference) return {tr("Step %1: nothing stands beside it in %2.").arg(formatCount(step), reference.label())};
    const auto beside = static_cast<std::size_t>(reference.stepFor(static_cast<int>(step)));
    const SlotShares here = slotShares(*series(), {step, step + 1}), there = slotShares(*thereSeries(), {beside, beside + 1});
    QStringList lines{tr("Step %1 here, step %2 in %3").arg(formatCount(step), formatCount(beside), reference.label())};
    for (std::size_t i = 0; i < here.size(); ++i)
        lines << tr("%1: %2 %3 here, %4 there, %5 points")
                     .arg(slotName(static_cast<SlotKind>(i)), originMark(Origin::derived), formatPercent(here[i]), formatPercent(there[i]),
                          signedPoints((*difference)[i]));
    return lines;
}

QString SplitView::differenceCsv() const {
    QStringList head{"step", "reference step"};
    for (const char* kind : {"token", "reserved", "internal", "external", "cached", "free"})
        for (const char* whose : {"%1 share (derived)", "%1 share of the reference (derived)"})
            head << QString::fromLatin1(whose).arg(QLatin1String(kind));
    QString text = csvLine(head);
    auto* self = const_cast<SplitView*>(this);
    for (SlotHistory* history : {&self->m_history, &self->m_thereHistory}) history->settle();
    for (std::size_t step = 0; step < series()->steps(); ++step) {
        if (!differenceOf(step, step + 1)) continue;
        const auto beside = static_cast<std::size_t>(cursor()->reference()->stepFor(static_cast<int>(step)));
        const SlotShares here = slotShares(*series(), {step, step + 1}), there = slotShares(*thereSeries(), {beside, beside + 1});
        QStringList fields{QString::number(step), QString::number(beside)};
        for (std::size_t i = 0; i < here.size(); ++i) fields << QString::number(here[i], 'g', 9) << QString::number(there[i], 'g', 9);
        text += csvLine(fields);
    }
    return text;
}

}  // namespace kvloupe
