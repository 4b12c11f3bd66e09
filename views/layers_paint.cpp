// SPDX-License-Identifier: GPL-3.0-or-later
//
// Drawing of the layers view.
#include "views/layers_view.h"

#include "views/canvas.h"
#include "views/folded_edge.h"
#include "views/format.h"
#include "views/stage_look.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

void LayersView::paintContent(QPainter& painter, const QRectF& area) {
    const Canvas canvas(painter, palette_(), font(), unit());
    if (!m_profile || m_profile->layers.empty()) return;
    const LayersFrame frame = frameFor(area);
    paintAxis(canvas, frame);
    const auto& layers = m_profile->layers;
    // A number stands at every layer that has room for it, and always at one that is marked.
    const double line = canvas.lineHeight({10.5, QFont::Normal, {}, false});
    std::size_t every = 1;
    for (const std::size_t stride : {1, 2, 5, 10, 20, 50, 100}) {
        every = stride;
        if (frame.rowHeight / static_cast<double>(frame.perRow) * static_cast<double>(stride) >= line) break;
    }
    std::vector<double> taken;  // heights of the marked layers' numbers
    for (std::size_t first = 0; first < layers.size(); first += frame.perRow) {
        const std::size_t at = slowest(first, frame.perRow);
        const QRectF row = rowRect(frame, first);
        paintRow(canvas, frame, at, row);
        if (layers[at].outlier || cursor()->locked().layer == layers[at].layer) taken.push_back(row.center().y());
    }
    const auto label = [&](std::size_t place, double y, bool marked) {
        const ProfiledLayer& layer = layers[place];
        const TextStyle style{marked ? 11.0 : 10.5, marked ? QFont::DemiBold : QFont::Normal,
                              layer.outlier ? canvas.colours().focus
                              : marked      ? canvas.colours().ink1
                                            : canvas.colours().ink3,
                              false};
        canvas.text(QRectF(frame.labels.left(), y - line / 2, frame.labels.width(), line), QString::number(layer.layer),
                    style, Qt::AlignRight | Qt::AlignVCenter, Qt::ElideNone);
        if (frame.times.isEmpty()) return;
        canvas.number(QRectF(frame.times.left(), y - line / 2, frame.times.width(), line), Origin::measured,
                      formatDuration(static_cast<double>(layer.durationNs)), style);
    };
    double lastMarked = -1e9;
    for (std::size_t first = 0; first < layers.size(); first += frame.perRow) {
        const std::size_t at = slowest(first, frame.perRow);
        const double y = rowRect(frame, first).center().y();
        const bool marked = layers[at].outlier || cursor()->locked().layer == layers[at].layer;
        const bool close =
            std::any_of(taken.begin(), taken.end(), [&](double other) { return std::abs(other - y) < line; });
        if (marked && y - lastMarked >= line * 0.9) {
            label(at, y, true);
            lastMarked = y;
        } else if (!marked && !close && first % every < frame.perRow) {
            label(at, y, false);
        }
    }
    if (frame.perRow <= 1) return;
    paintFoldedEdge(canvas, frame.rows.topRight(), frame.rows.bottomRight());
    canvas.text(frame.caption, tr("folded: the slowest of %1 layers per row").arg(frame.perRow),
                {10.5, QFont::Normal, canvas.colours().ink2, false}, Qt::AlignRight | Qt::AlignVCenter);
}

void LayersView::paintAxis(const Canvas& canvas, const LayersFrame& frame) const {
    const TextStyle style{10.5, QFont::Normal, canvas.colours().ink3, false};
    const double span = frame.endNs - frame.beginNs, wanted = std::max(2.0, frame.rows.width() / canvas.u(64));
    double stride = std::pow(10.0, std::floor(std::log10(std::max(1.0, span / wanted))));
    for (const double factor : {1.0, 2.0, 5.0, 10.0})
        if (span / (stride * factor) <= wanted) {
            stride *= factor;
            break;
        }
    QPainter& painter = canvas.painter();
    for (double at = std::ceil(frame.beginNs / stride) * stride; at <= frame.endNs; at += stride) {
        const double x = frame.x(at);
        painter.setPen(QPen(canvas.colours().grid, 1));
        painter.drawLine(QPointF(x, frame.rows.top()), QPointF(x, frame.rows.bottom()));
        QString text = stride < 1e6 ? QString::number(at / 1e3) + QStringLiteral(" µs") : formatDuration(at);
        if (at == 0 && stride >= 1e6) text = QStringLiteral("0");
        const double width = canvas.width(text, style);
        const double left =
            std::clamp(x - width / 2, frame.axis.left() - canvas.u(8), frame.axis.right() + canvas.u(30) - width);
        canvas.text(QRectF(left, frame.axis.top(), width + 1, frame.axis.height()), text, style,
                    Qt::AlignLeft | Qt::AlignVCenter, Qt::ElideNone);
    }
}

void LayersView::paintRow(const Canvas& canvas, const LayersFrame& frame, std::size_t place, const QRectF& row) const {
    QPainter& painter = canvas.painter();
    const ProfiledLayer& layer = m_profile->layers[place];
    const double from = m_profile->stages[layer.begin].beginNs;
    const double gap = row.height() >= canvas.u(5) ? 1 : 0;
    painter.save();
    painter.setRenderHint(QPainter::Antialiasing, false);
    painter.setClipRect(QRectF(frame.rows.left(), row.top(), frame.rows.width(), row.height()), Qt::IntersectClip);
    // Neighbours that fall on one pixel become one: a bar costs pixels, not stages.
    double drawn = frame.rows.left();
    for (std::size_t i = layer.begin; i < layer.end; ++i) {
        const ProfiledStage& stage = m_profile->stages[i];
        const double right = frame.x(stage.endNs() - from), left = std::max(drawn, frame.x(stage.beginNs - from));
        if (right - left < 0.5 && i + 1 < layer.end) continue;
        if (right <= frame.rows.left()) continue;
        const bool seam = right - left > canvas.u(3) && row.height() >= canvas.u(6) && i + 1 < layer.end;
        painter.fillRect(QRectF(drawn, row.top() + gap / 2, right - drawn - (seam ? 1 : 0), row.height() - gap),
                         colourOf(stage.record.kind, canvas.colours()));
        drawn = right;
    }
    painter.restore();
    const double end = std::min(frame.rows.right(), frame.x(static_cast<double>(layer.durationNs)));
    const QRectF bar(frame.rows.left(), row.top(), std::max(2.0, end - frame.rows.left()), row.height());
    if (layer.outlier && row.height() < canvas.u(6)) {  // an outline would hide it
        painter.fillRect(QRectF(bar.left() - canvas.u(6), row.top() - 1, canvas.u(5), row.height() + 2),
                         canvas.colours().focus);
    } else if (layer.outlier) {
        canvas.outline(bar.adjusted(-1, 0, 1, 0), canvas.colours().focus, canvas.u(1.8));
    }
    if (cursor()->locked().layer == layer.layer)
        canvas.outline(bar.adjusted(-1, 0, 1, 0), canvas.colours().ink1, canvas.u(2));
    else if (cursor()->hover().layer == layer.layer)
        canvas.outline(bar.adjusted(-1, 0, 1, 0), canvas.colours().ink1, canvas.u(1));
}

}  // namespace kvloupe
