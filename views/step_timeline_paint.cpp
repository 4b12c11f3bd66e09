// SPDX-License-Identifier: GPL-3.0-or-later
//
// Drawing of the step timeline.
#include "views/step_timeline_view.h"

#include "views/canvas.h"
#include "views/data_sheet.h"
#include "views/format.h"
#include "views/stage_look.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr double least_box = 3;          // pixels: narrower stages are folded
constexpr double least_slice = 1;        // of the strip, where no stage is picked out
constexpr double most_above = 1.6;       // bars end at so many times the ceiling; the number says how far beyond they go

QString microseconds(double ns) { return formatDuration(ns); }

QString gigabytes(double bytesPerSecond) {
    const double value = bytesPerSecond / 1e9;
    return value < 0.095 ? QString::number(value, 'g', 1) : QString::number(value, 'f', value < 9.95 ? 1 : 0);
}

}  // namespace

void StepTimelineView::paintContent(QPainter& painter, const QRectF& area) {
    const Canvas canvas(painter, palette_(), font(), unit());
    if (!m_profile) return;
    const StepTimelineFrame frame = frameFor(area);
    if (!frame.title.isEmpty()) paintTitle(canvas, frame);
    paintStrip(canvas, frame);
    if (!frame.ticks.isEmpty()) paintStripLabels(canvas, frame);
    if (!frame.heads.isEmpty()) paintHeads(canvas, frame);
    paintBoxes(canvas, frame);
    if (!frame.bars.isEmpty()) paintBars(canvas, frame);
}

void StepTimelineView::paintTitle(const Canvas& canvas, const StepTimelineFrame& frame) const {
    QRectF row = frame.title;
    const TextStyle bold{12, QFont::DemiBold, {}, false}, plain{12, QFont::Normal, {}, false};
    const TextStyle aside{11, QFont::Normal, canvas.colours().ink2, false};
    const StepRecord& record = m_profile->record;
    const QString time = stepRateText(record, cursor()->laneRecord()->info(), originMark(Origin::derived) + QLatin1Char(' '));
    const QString name = stepName(*m_profile), other = otherStepText(*m_profile);
    const double needed = canvas.width(name, bold) + canvas.width(time, plain) + canvas.u(30) +
                          (other.isEmpty() ? 0 : canvas.width(other, aside) + canvas.u(14));
    QRectF legend = row;
    legend.setLeft(row.left() + needed + canvas.u(20));
    if (legend.width() > 0) paintBytesLegend(canvas, legend);
    canvas.text(row, name, bold);
    row.setLeft(row.left() + canvas.width(name, bold) + canvas.u(16));
    canvas.originMark(QPointF(row.left(), row.center().y()), Origin::measured);
    row.setLeft(row.left() + canvas.u(8));
    canvas.text(row, time, plain);
    row.setLeft(row.left() + canvas.width(time, plain) + canvas.u(14));
    canvas.text(row, other, aside);
}

void StepTimelineView::paintBetween(const Canvas& canvas, const QRectF& box, bool named) const {
    if (box.width() < 1) return;
    canvas.painter().fillRect(box, canvas.colours().free);
    canvas.hatch(box, canvas.colours().hatch);
    if (!named) return;
    const TextStyle style{11, QFont::Normal, canvas.colours().ink2, false};
    const QString text = tr("between stages ◐ %1").arg(microseconds(m_profile->betweenNs()));
    if (canvas.width(text, style) + canvas.u(8) > box.width()) return;
    const QRectF words = box.adjusted(canvas.u(4), 0, 0, 0);
    canvas.painter().fillRect(QRectF(words.left() - canvas.u(2), words.center().y() - canvas.u(7),
                                     canvas.width(text, style) + canvas.u(4), canvas.u(14)),
                              canvas.colours().free);
    canvas.text(words, text, style);
}

void StepTimelineView::paintStrip(const Canvas& canvas, const StepTimelineFrame& frame) const {
    QPainter& painter = canvas.painter();
    painter.save();
    painter.setRenderHint(QPainter::Antialiasing, false);
    for (const Run& run : runs(0, frame.wholeNs, least_slice * frame.wholeNs / frame.strip.width())) {
        const double left = frame.stripX(m_profile->stages[run.begin].beginNs),
                     right = frame.stripX(m_profile->stages[run.end - 1].endNs());
        painter.fillRect(QRectF(QPointF(left, frame.strip.top()), QPointF(right, frame.strip.bottom())),
                         colourOf(run.kind, canvas.colours()));
    }
    painter.restore();
    painter.setPen(QPen(canvas.colours().panel, 1));
    for (const ProfiledLayer& layer : m_profile->layers) {
        const double x = frame.stripX(m_profile->stages[layer.begin].beginNs);
        if (frame.strip.width() / static_cast<double>(m_profile->layers.size()) > canvas.u(6))
            painter.drawLine(QPointF(x, frame.strip.top()), QPointF(x, frame.strip.bottom()));
        if (!layer.outlier) continue;
        const QRectF mark(QPointF(x, frame.strip.top()),
                          QPointF(frame.stripX(m_profile->stages[layer.end - 1].endNs()), frame.strip.bottom()));
        canvas.outline(mark.adjusted(0.5, 0.5, -0.5, -0.5), canvas.colours().focus, canvas.u(1.5));
        painter.setPen(QPen(canvas.colours().panel, 1));
    }
    paintBetween(canvas, QRectF(QPointF(frame.stripX(m_profile->stagesNs), frame.strip.top()), frame.strip.bottomRight()),
                 true);
    // Names where they have room: what is not in a layer, such as the logits.
    const TextStyle style{11, QFont::Normal, {}, false};
    for (const ProfiledStage& stage : m_profile->stages) {
        if (stage.record.layer != StageRecord::no_layer) continue;
        const QRectF box(QPointF(frame.stripX(stage.beginNs), frame.strip.top()),
                         QPointF(frame.stripX(stage.endNs()), frame.strip.bottom()));
        if (box.width() < canvas.u(40)) continue;
        const StageBound bound = bound_of(stage.work(), m_ceilings);
        TextStyle shown = style;
        shown.colour = inkOn(colourOf(stage.record.kind, canvas.colours()));
        const QString name = stageName(stage.record.kind),
                      time = name + QLatin1Char(' ') + microseconds(static_cast<double>(stage.record.duration_ns));
        QString text =
            stage.record.bytes > 0 ? time + QStringLiteral(", ") + formatBandwidth(bound.bytes_per_second) : time;
        for (const QString& shorter : {time, name})
            if (canvas.width(text, style) > box.width() - canvas.u(8)) text = shorter;
        if (canvas.width(text, style) <= box.width() - canvas.u(8)) canvas.text(box, text, shown, Qt::AlignCenter);
    }
    const QRectF window(QPointF(frame.stripX(frame.beginNs), frame.strip.top() - canvas.u(2)),
                        QPointF(frame.stripX(frame.endNs), frame.strip.bottom() + canvas.u(2)));
    canvas.outline(window, canvas.colours().ink1, canvas.u(1.8));
    if (frame.fan.isEmpty()) return;
    painter.setPen(QPen(canvas.colours().hatch, canvas.u(1), Qt::DashLine));
    painter.drawLine(window.bottomLeft(), QPointF(frame.boxes.left(), frame.fan.bottom()));
    painter.drawLine(window.bottomRight(), QPointF(frame.boxes.right(), frame.fan.bottom()));
}

void StepTimelineView::paintStripLabels(const Canvas& canvas, const StepTimelineFrame& frame) const {
    const TextStyle style{10.5, QFont::Normal, canvas.colours().ink3, false};
    const auto& layers = m_profile->layers;
    std::size_t every = 1;
    for (const std::size_t stride : {1, 2, 5, 10, 20, 50, 100}) {
        every = stride;
        if (frame.strip.width() * static_cast<double>(stride) / static_cast<double>(layers.size() + 1) > canvas.u(72))
            break;
    }
    double free = frame.ticks.left();
    const auto label = [&](double ns, const QString& text) {
        const double width = canvas.width(text, style);
        const double left = std::clamp(frame.stripX(ns), frame.ticks.left(), frame.ticks.right() - width);
        if (left < free) return;
        canvas.text(QRectF(left, frame.ticks.top() + canvas.u(2), width + 1, frame.ticks.height() - canvas.u(2)), text,
                    style, Qt::AlignLeft | Qt::AlignVCenter, Qt::ElideNone);
        free = left + width + canvas.u(10);
    };
    for (std::size_t i = 0; i < layers.size(); i += every)
        label(m_profile->stages[layers[i].begin].beginNs, tr("layer %1").arg(layers[i].layer));
    for (std::size_t i = layers.empty() ? 0 : layers.back().end; i < m_profile->stages.size(); ++i)
        label(m_profile->stages[i].beginNs, stageName(m_profile->stages[i].record.kind));
}

void StepTimelineView::paintHeads(const Canvas& canvas, const StepTimelineFrame& frame) const {
    const Palette& colours = canvas.colours();
    for (const ProfiledLayer& layer : m_profile->layers) {
        const double begin = m_profile->stages[layer.begin].beginNs, end = m_profile->stages[layer.end - 1].endNs();
        if (end <= frame.beginNs || begin >= frame.endNs) continue;
        const double left = std::max(frame.heads.left(), frame.x(begin)),
                     right = std::min(frame.heads.right(), frame.x(end));
        const QRectF box(left + 0.5, frame.heads.top(), right - left - 1, frame.heads.height() - canvas.u(2));
        if (box.width() < 2) continue;
        const bool locked = cursor()->locked().layer == layer.layer, hovered = cursor()->hover().layer == layer.layer;
        canvas.painter().fillRect(box, layer.outlier ? colours.focusWash : colours.head);
        if (layer.outlier) canvas.outline(box, colours.focus, canvas.u(1.3));
        if (locked || hovered) canvas.outline(box, colours.ink1, canvas.u(locked ? 2 : 1));
        const TextStyle bold{11.5, QFont::DemiBold, layer.outlier ? colours.focus : colours.ink1, false};
        const TextStyle plain{11.5, QFont::Normal, layer.outlier ? colours.focus : colours.ink2, false};
        QRectF row = box.adjusted(canvas.u(5), 0, -canvas.u(3), 0);
        const QString name = tr("layer %1").arg(layer.layer);
        QString time = microseconds(static_cast<double>(layer.durationNs));
        if (layer.outlier) time += QStringLiteral(", ") + outlierText(layer);
        if (canvas.width(name, bold) > row.width()) {
            const QString number = QString::number(layer.layer);
            if (canvas.width(number, plain) <= box.width())
                canvas.text(box, number, plain, Qt::AlignCenter, Qt::ElideNone);
            continue;
        }
        canvas.text(row, name, bold);
        row.setLeft(row.left() + canvas.width(name, bold) + canvas.u(8));
        if (row.width() > canvas.u(40)) canvas.text(row, time, plain);
    }
}

void StepTimelineView::paintBoxText(const Canvas& canvas, const QRectF& box, const Run& run) const {
    if (run.end - run.begin > 1 || box.width() < canvas.u(18)) return;
    const QColor ink = inkOn(colourOf(run.kind, canvas.colours()));
    const TextStyle bold{11, QFont::DemiBold, ink, false}, plain{11, QFont::Normal, ink, false};
    const QRectF room = box.adjusted(canvas.u(5), canvas.u(1), -canvas.u(2), -canvas.u(1));
    const bool two = room.height() >= canvas.u(27);
    QString name = stageName(run.kind);
    if (canvas.width(name, bold) > room.width()) name = shortStageName(run.kind);
    if (canvas.width(name, bold) <= room.width() + 1)
        canvas.text(two ? QRectF(room.left(), room.top(), room.width(), room.height() / 2) : room, name, bold,
                    Qt::AlignLeft | Qt::AlignVCenter, Qt::ElideNone);
    if (!two) return;
    const StageBound bound = bound_of(run.work, m_ceilings);
    const QString time = microseconds(static_cast<double>(run.work.duration_ns));
    QString text = run.work.bytes > 0 ? time + QStringLiteral(", ") + formatBandwidth(bound.bytes_per_second) : time;
    if (canvas.width(text, plain) > room.width()) text = time;
    if (canvas.width(text, plain) <= room.width() + 1)
        canvas.text(QRectF(room.left(), room.center().y(), room.width(), room.height() / 2), text, plain,
                    Qt::AlignLeft | Qt::AlignVCenter, Qt::ElideNone);
}

void StepTimelineView::paintBoxes(const Canvas& canvas, const StepTimelineFrame& frame) const {
    QPainter& painter = canvas.painter();
    painter.save();
    painter.setClipRect(frame.boxes.adjusted(-1, -1, 1, 1), Qt::IntersectClip);
    const double leastNs = least_box * (frame.endNs - frame.beginNs) / frame.boxes.width();
    for (const Run& run : runs(frame.beginNs, frame.endNs, leastNs)) {
        const double left = std::max(frame.x(m_profile->stages[run.begin].beginNs), frame.boxes.left());
        const double right = std::min(frame.x(m_profile->stages[run.end - 1].endNs()), frame.boxes.right());
        QRectF box(left, frame.boxes.top(), right - left, frame.boxes.height());
        painter.fillRect(box.adjusted(0, 0, box.width() > canvas.u(4) ? -1 : 0, 0), colourOf(run.kind, canvas.colours()));
        paintBoxText(canvas, box, run);
        const ProfiledLayer* layer = m_profile->layerOf(run.begin);
        if (layer && layer->outlier && run.end - run.begin == 1 && layer->reason == run.kind)
            canvas.outline(box.adjusted(1, 1, -2, -1), canvas.colours().focus, canvas.u(2));
        if (m_stage && *m_stage >= run.begin && *m_stage < run.end)
            canvas.outline(box.adjusted(0.5, 0.5, -1.5, -0.5), canvas.colours().ink1, canvas.u(1.5));
    }
    if (frame.endNs > m_profile->stagesNs) {
        const double left = std::max(frame.x(m_profile->stagesNs), frame.boxes.left());
        paintBetween(canvas,
                     QRectF(QPointF(left, frame.boxes.top()),
                            QPointF(std::min(frame.x(frame.wholeNs), frame.boxes.right()), frame.boxes.bottom())),
                     true);
    }
    painter.restore();
}

void StepTimelineView::paintBars(const Canvas& canvas, const StepTimelineFrame& frame) const {
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    const TextStyle small{10.5, QFont::Normal, colours.ink2, false};
    const auto shown = runs(frame.beginNs, frame.endNs, least_box * (frame.endNs - frame.beginNs) / frame.boxes.width());
    double most = 0;
    for (const Run& run : shown) most = std::max(most, bound_of(run.work, m_ceilings).bytes_per_second);
    const double ceiling = m_ceilings.read_bandwidth;
    const double top = ceiling > 0 ? ceiling * std::clamp(most / ceiling, 1.02, most_above) : std::max(most, 1.0);
    const double headroom = ceiling > 0 ? canvas.u(14) : canvas.u(4);  // the ceiling's name stands above its line
    const QRectF area = frame.bars.adjusted(0, headroom, 0, 0);
    painter.save();
    painter.setClipRect(frame.bars.adjusted(-1, 0, 1, 1), Qt::IntersectClip);
    for (const Run& run : shown) {
        const double rate = bound_of(run.work, m_ceilings).bytes_per_second;
        const double left = std::max(frame.x(m_profile->stages[run.begin].beginNs), area.left());
        const double right = std::min(frame.x(m_profile->stages[run.end - 1].endNs()), area.right());
        const double height = area.height() * std::min(1.0, rate / top);
        const QRectF bar(left, area.bottom() - height, right - left - (right - left > canvas.u(4) ? 1 : 0), height);
        painter.fillRect(bar, canvas.mix(colourOf(run.kind, colours), colours.panel, 0.55));
        const QString number = gigabytes(rate), named = number + QStringLiteral(" GB/s");
        const QString text = canvas.width(named, small) + canvas.u(8) < bar.width() ? named : number;
        if (rate <= 0 || canvas.width(text, small) + canvas.u(6) > bar.width()) continue;
        // In the bar, or above it where it is low.
        const double y =
            bar.height() >= canvas.u(14) ? bar.top() + canvas.u(1) : std::max(area.top(), bar.top() - canvas.u(13));
        canvas.text(QRectF(left + canvas.u(4), y, bar.width(), canvas.u(13)), text,
                    {10.5, QFont::Normal, colours.ink1, false}, Qt::AlignLeft | Qt::AlignVCenter, Qt::ElideNone);
    }
    painter.setPen(QPen(colours.line, 1));
    painter.drawLine(area.bottomLeft(), area.bottomRight());
    if (ceiling > 0) {
        const double y = area.bottom() - area.height() * ceiling / top;
        painter.setPen(QPen(colours.ink1, canvas.u(1.2), Qt::DashLine));
        painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
        const QString text = tr("measured read bandwidth %1").arg(formatBandwidth(ceiling));
        canvas.text(QRectF(area.left(), y - canvas.u(14), area.width(), canvas.u(13)), text,
                    {10.5, QFont::Normal, colours.ink1, false}, Qt::AlignRight | Qt::AlignVCenter);
    }
    painter.restore();
    if (frame.caption.isEmpty()) return;
    QString left = tr("GB/s of each stage ◐");
    if (ceiling <= 0 && computes(cursor()->laneRecord()->info()))
        left += tr(" · what memory reaches is not measured yet: “Measure ceilings” in Stages");
    if (m_profile->stepNs() < m_profile->stagesNs)
        left += tr(" · the stages add up to %1 more than the step")
                    .arg(microseconds(m_profile->stagesNs - m_profile->stepNs()));
    QString right;
    if (const std::size_t count = folded(frame)) right = tr("folded: %1 under 3 px").arg(formatCount(count));
    canvas.text(frame.caption, right, small, Qt::AlignRight | Qt::AlignVCenter);
    canvas.text(frame.caption.adjusted(0, 0, right.isEmpty() ? 0 : -canvas.width(right, small) - canvas.u(10), 0), left,
                small);
}

}  // namespace kvloupe
