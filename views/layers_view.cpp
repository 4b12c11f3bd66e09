// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/layers_view.h"

#include "views/csv_line.h"
#include "views/format.h"
#include "views/stage_look.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QToolTip>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr double least_layer_row = 3, most_row = 26;   // pixels; lower rows are folded
constexpr double layers_per_notch = 0.8;
constexpr double closest_ns = 500;

}  // namespace

LayersView::LayersView(Cursor* cursor, QWidget* parent) : View(QStringLiteral("layers"), tr("Layers"), cursor, parent) {}

void LayersView::setCeilings(const Ceilings& ceilings) {
    m_ceilings = ceilings;  // tips only
}

void LayersView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    const int step = lane ? cursor()->stepOf(cursor()->lane()) : -1;
    m_profile = lane && step >= 0 ? readProfile(*lane, step) : std::nullopt;
    setSubtitle({});
    if (lane && !computes(lane->info())) return setEmpty(tr("An accounting lane has no layers."));
    if (!m_profile) {
        const bool canStep = lane && step < 0;
        return setEmpty(noStagesText(lane, step), canStep ? tr("Step") : QString(),
                        canStep ? QStringLiteral("step") : QString());
    }
    if (m_profile->layers.empty())
        return setEmpty(tr("Step %1 has no stages that belong to a layer: it computed no token.")
                            .arg(formatCount(static_cast<quint64>(m_profile->step))));
    if (isEmptyShown()) setEmpty({});
    QString text = otherStepText(*m_profile);
    if (text.isEmpty()) text = stepName(*m_profile);
    const auto marked = std::count_if(m_profile->layers.begin(), m_profile->layers.end(),
                                      [](const ProfiledLayer& layer) { return layer.outlier; });
    text += tr(" · median %1 %2").arg(originMark(Origin::derived), formatDuration(m_profile->medianLayerNs));
    if (marked > 0) text += marked == 1 ? tr(" · 1 stands out") : tr(" · %1 stand out").arg(marked);
    if (const QString stopped = stoppedText(*cursor()); !stopped.isEmpty()) text += QStringLiteral(" · ") + stopped;
    if (m_zoom.zoomed()) text += tr(" · zoomed, F shows all");
    setSubtitle(text);
}

ZoomRange::Range LayersView::wholeNs() const {
    double most = 1;
    if (m_profile)
        for (const ProfiledLayer& layer : m_profile->layers) most = std::max(most, static_cast<double>(layer.durationNs));
    return {0, most};
}

void LayersView::fit() {
    m_zoom.fit();
    refresh();
    update();
}

void LayersView::setZoomState(const QVariant& state) {
    m_zoom.setState(state);
    refresh();
    update();
}

void LayersView::zoom(double factor, double pivotNs, double shiftNs) {
    m_zoom.zoom(factor, pivotNs, shiftNs, wholeNs(), closest_ns);
    refresh();
    update();
}

LayersFrame LayersView::frameFor(const QRectF& area) const {
    LayersFrame frame;
    const double scale = unit();
    const double labels = 26 * scale, times = area.width() > 200 * scale ? 66 * scale : 0;
    const double axis = 18 * scale, top = area.top() + 2 * scale + axis;
    frame.rows = QRectF(area.left() + 8 * scale + labels + 6 * scale, top, 1, 1);
    frame.rows.setRight(std::max(frame.rows.left() + 8, area.right() - 10 * scale - times));
    frame.rows.setBottom(std::max(top + 4, area.bottom() - 4 * scale));
    frame.axis = QRectF(frame.rows.left(), area.top() + 2 * scale, frame.rows.width(), axis);
    const std::size_t count = m_profile ? m_profile->layers.size() : 1;
    if (frame.rows.height() < least_layer_row * scale * static_cast<double>(count)) {
        frame.rows.setBottom(std::max(top + 4, frame.rows.bottom() - 15 * scale));
        frame.perRow =
            static_cast<std::size_t>(std::ceil(least_layer_row * scale * static_cast<double>(count) / frame.rows.height()));
        frame.caption = QRectF(area.left() + 8 * scale, frame.rows.bottom(), area.width() - 16 * scale, 15 * scale);
    }
    const std::size_t rows = (count + frame.perRow - 1) / frame.perRow;
    frame.rowHeight =
        std::min(most_row * scale, frame.rows.height() / static_cast<double>(std::max<std::size_t>(rows, 1)));
    frame.rows.setHeight(frame.rowHeight * static_cast<double>(rows));
    frame.labels = QRectF(area.left() + 8 * scale, top, labels, frame.rows.height());
    if (times > 0) frame.times = QRectF(frame.rows.right() + 4 * scale, top, times, frame.rows.height());
    std::tie(frame.beginNs, frame.endNs) = m_zoom.of(wholeNs());
    return frame;
}

QRectF LayersView::rowRect(const LayersFrame& frame, std::size_t layer) const {
    const auto row = static_cast<double>(layer / frame.perRow);
    return {frame.rows.left(), frame.rows.top() + row * frame.rowHeight, frame.rows.width(), frame.rowHeight};
}

std::size_t LayersView::slowest(std::size_t first, std::size_t count) const {
    std::size_t found = first;
    for (std::size_t i = first; i < std::min(first + count, m_profile->layers.size()); ++i)
        if (m_profile->layers[i].durationNs > m_profile->layers[found].durationNs) found = i;
    return found;
}

std::optional<std::size_t> LayersView::layerUnder(const QPointF& point) const {
    if (!m_profile) return std::nullopt;
    const LayersFrame now = frame();
    if (point.y() < now.rows.top() || point.y() >= now.rows.bottom()) return std::nullopt;
    const auto row = static_cast<std::size_t>((point.y() - now.rows.top()) / now.rowHeight);
    if (row * now.perRow >= m_profile->layers.size()) return std::nullopt;
    return slowest(row * now.perRow, now.perRow);
}

std::optional<std::size_t> LayersView::placeOf(std::uint32_t layer) const {
    for (std::size_t i = 0; m_profile && i < m_profile->layers.size(); ++i)
        if (m_profile->layers[i].layer == layer) return i;
    return std::nullopt;
}

Pick LayersView::pickOf(std::size_t layer) const {
    Pick pick;
    pick.lane = cursor()->lane();
    pick.layer = m_profile->layers[layer].layer;
    return pick;
}

QString LayersView::tipAt(const QPointF& position) const {
    const auto place = layerUnder(position);
    if (!place) return {};
    const ProfiledLayer& layer = m_profile->layers[*place];
    const LayersFrame now = frame();
    const QString measured = originMark(Origin::measured), derived = originMark(Origin::derived);
    QStringList lines{tr("layer %1 %2 %3, median of the layers %4 %5")
                          .arg(layer.layer)
                          .arg(measured, formatDuration(static_cast<double>(layer.durationNs)), derived,
                               formatDuration(m_profile->medianLayerNs))};
    if (now.perRow > 1) lines << tr("the slowest of the %1 layers in this row").arg(now.perRow);
    const double from = m_profile->stages[layer.begin].beginNs, at = from + now.nsAt(position.x());
    const std::size_t under = m_profile->stageAt(at);
    const bool onBar = position.x() >= now.rows.left() && under >= layer.begin && under < layer.end;
    for (std::size_t i = layer.begin; i < layer.end && !onBar; ++i) {
        const StageRecord& stage = m_profile->stages[i].record;
        lines << tr("%1 %2 %3")
                     .arg(stageName(stage.kind), measured, formatDuration(static_cast<double>(stage.duration_ns)));
    }
    if (onBar)
        lines << stageName(m_profile->stages[under].record.kind) << stageTip(m_profile->stages[under].work(), m_ceilings);
    if (layer.outlier) lines << outlierText(layer) << outlierRule();
    return lines.join(QLatin1Char('\n'));
}

void LayersView::mousePressEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || isEmptyShown()) return;
    m_pressed = event->position();
    m_dragging = true;
    m_moved = false;
}

void LayersView::mouseMoveEvent(QMouseEvent* event) {
    if (isEmptyShown()) return;
    if (!m_dragging || !(event->buttons() & Qt::LeftButton)) {
        const auto place = layerUnder(event->position());
        return cursor()->setHover(place ? pickOf(*place) : Pick{});
    }
    const QPointF by = event->position() - m_pressed;
    if (!m_moved && by.manhattanLength() <= 4) return;
    m_moved = true;
    m_pressed = event->position();
    const LayersFrame now = frame();
    if (m_zoom.zoomed()) zoom(1, now.beginNs, -by.x() * (now.endNs - now.beginNs) / now.rows.width());
}

void LayersView::mouseReleaseEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || !m_dragging || isEmptyShown()) return;
    m_dragging = false;
    if (m_moved) return zoomChanged();
    if (const auto place = layerUnder(event->position())) cursor()->lock(pickOf(*place));
}

void LayersView::wheelEvent(QWheelEvent* event) {
    if (isEmptyShown()) return;
    event->accept();
    const LayersFrame now = frame();
    const QPoint turned = event->angleDelta();
    if (event->modifiers() & Qt::ShiftModifier || turned.y() == 0)
        zoom(1, now.beginNs, -(turned.y() != 0 ? turned.y() : turned.x()) / 120.0 * (now.endNs - now.beginNs) * 0.1);
    else
        zoom(std::pow(layers_per_notch, turned.y() / 120.0), std::clamp(now.nsAt(event->position().x()), now.beginNs, now.endNs),
             0);
    zoomChanged();
}

void LayersView::walk(int by) {
    const auto& shown = cursor()->hover().layer ? cursor()->hover().layer : cursor()->locked().layer;
    const auto from = shown ? placeOf(*shown) : std::nullopt;
    const int last = static_cast<int>(m_profile->layers.size()) - 1;
    const auto to = static_cast<std::size_t>(std::clamp(from     ? static_cast<int>(*from) + by
                                                        : by > 0 ? 0
                                                                 : last,
                                                        0, last));
    cursor()->setHover(pickOf(to));
    const QRectF row = rowRect(frame(), to);
    const QPointF place(frame().labels.center().x(), row.center().y());
    QToolTip::showText(mapToGlobal(place.toPoint()), tipAt(place), this);
}

void LayersView::keyPressEvent(QKeyEvent* event) {
    if (isEmptyShown() || !m_profile) return View::keyPressEvent(event);
    const LayersFrame now = frame();
    const double width = now.endNs - now.beginNs;
    const auto zoomed = [&](double factor, double share) {
        zoom(factor, factor < 1 && now.beginNs <= 0 ? 0 : (now.beginNs + now.endNs) / 2, share * width);
        zoomChanged();
    };
    switch (event->key()) {
    case Qt::Key_Up: walk(-1); break;
    case Qt::Key_Down: walk(1); break;
    case Qt::Key_Left: zoomed(1, -0.1); break;
    case Qt::Key_Right: zoomed(1, 0.1); break;
    case Qt::Key_Plus:
    case Qt::Key_Equal: zoomed(layers_per_notch, 0); break;
    case Qt::Key_Minus:
    case Qt::Key_Underscore: zoomed(1 / layers_per_notch, 0); break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
        if (cursor()->hover().layer) cursor()->lock(cursor()->hover());
        break;
    default: View::keyPressEvent(event); break;
    }
}

QString LayersView::csv() const {
    QString text = csvLine({"step", "layer", "stage", "time ns (measured)", "layer time ns (measured)",
                            "median layer ns (derived)", "outlier (derived)"});
    if (!m_profile) return text;
    for (const ProfiledLayer& layer : m_profile->layers)
        for (std::size_t i = layer.begin; i < layer.end; ++i)
            text += csvLine({QString::number(m_profile->step), QString::number(layer.layer),
                             stageName(m_profile->stages[i].record.kind),
                             QString::number(m_profile->stages[i].record.duration_ns), QString::number(layer.durationNs),
                             QString::number(m_profile->medianLayerNs, 'f', 0),
                             layer.outlier ? outlierText(layer) : QString()});
    return text;
}

}  // namespace kvloupe
