// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/roofline_view.h"

#include "views/csv_line.h"
#include "views/data_sheet.h"
#include "views/format.h"
#include "views/stage_look.h"
#include "views/step_profile.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QToolTip>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr double zoom_per_notch = 0.85;
constexpr double closest = 0.3;   // decades

}  // namespace

QPointF RooflineFrame::place(const RooflinePoint& point) const {
    return {toX(std::log10(point.bound.flops_per_byte)), toY(std::log10(point.bound.flops_per_second))};
}

RooflineView::RooflineView(Cursor* cursor, QWidget* parent)
    : View(QStringLiteral("roofline"), tr("Roofline"), cursor, parent) {}

void RooflineView::setCeilings(const Ceilings& ceilings) {
    m_ceilings = ceilings;
    if (cursor()->recording()) refresh();
    update();
}

const GpuEntry* RooflineView::dataSheet() const {
    const LaneRecord* lane = cursor()->laneRecord();
    return lane ? find_card(lane->info().device) : nullptr;
}

void RooflineView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    const int step = lane ? cursor()->stepOf(cursor()->lane()) : -1;
    m_points.clear();
    m_leftOut.clear();
    m_decodeStep.reset();
    m_prefillStep.reset();
    setSubtitle({});
    if (lane && step >= 0) {
        m_staged.advance(cursor()->sharedRecording(), cursor()->lane());
        m_decodeStep = m_staged.decodeStep(step);
        m_prefillStep = m_staged.prefillStep(step);
    }
    if (m_decodeStep) m_points = rooflinePoints(*lane, *m_decodeStep, true, m_ceilings, &m_leftOut);
    if (m_prefillStep) {
        const auto more = rooflinePoints(*lane, *m_prefillStep, false, m_ceilings, &m_leftOut);
        m_points.insert(m_points.end(), more.begin(), more.end());
    }
    m_leftOut.removeDuplicates();
    if (m_hovered && *m_hovered >= m_points.size()) m_hovered.reset();
    if (lane && !computes(lane->info()))
        return setEmpty(tr("Lane %1 has no model: a roofline does not apply, because it does no arithmetic.")
                            .arg(QString::fromStdString(lane->info().name)));
    if (m_points.empty()) {
        const bool canStep = lane && step < 0;
        const bool staged = lane && stagedAtOrBefore(*lane, step).has_value();
        return setEmpty(staged ? tr("No stage up to step %1 counted FLOPs: nothing to hold against a roofline.")
                                     .arg(formatCount(static_cast<quint64>(step)))
                               : noStagesText(lane, step),
                        canStep ? tr("Step") : QString(), canStep ? QStringLiteral("step") : QString());
    }
    if (isEmptyShown()) setEmpty({});
    measureAxes();
    const QString name = QString::fromStdString(lane->info().name);
    QString text = m_ceilings.measured()
                       ? tr("%1 · ceilings measured on %2").arg(name, QString::fromStdString(lane->info().device))
                       : name;
    const int shown = std::max(m_decodeStep.value_or(-1), m_prefillStep.value_or(-1));
    if (shown < step)
        text += tr(" · step %1 has no stages; showing step %2")
                    .arg(formatCount(static_cast<quint64>(step)), formatCount(static_cast<quint64>(shown)));
    if (m_zoomX.zoomed() || m_zoomY.zoomed()) text += tr(" · zoomed, F shows all");
    setSubtitle(text);
}

// Whole decades around points and ceilings, so that the picture stands still from step to step.
void RooflineView::measureAxes() {
    double left = 1e300, right = 0, low = 1e300, high = 0;
    for (const RooflinePoint& point : m_points) {
        left = std::min(left, point.bound.flops_per_byte);
        right = std::max(right, point.bound.flops_per_byte);
        low = std::min(low, point.bound.flops_per_second);
        high = std::max(high, point.bound.flops_per_second);
    }
    for (const Line& line : lines()) {
        high = std::max(high, line.roof);
        if (line.slope > 0 && line.roof > 0) right = std::max(right, line.roof / line.slope * 2);
    }
    double roof = 0;
    for (const Line& line : lines()) roof = std::max(roof, line.roof);
    m_topRoof = roof > 0 ? std::log10(roof) : 0;
    m_wholeX = {std::floor(std::log10(left / 1.3)), std::ceil(std::log10(right * 1.3))};
    m_wholeY = {std::floor(std::log10(low / 1.3)), std::ceil(std::log10(high * 1.6) * 2) / 2};
    if (m_wholeX.second - m_wholeX.first < 2) m_wholeX.second = m_wholeX.first + 2;
    if (m_wholeY.second - m_wholeY.first < 2) m_wholeY.second = m_wholeY.first + 2;
}

// The name of the highest roof stands above it.
ZoomRange::Range RooflineView::wholeY(double plotHeight) const {
    const double free = std::min(0.5, 19 * unit() / plotHeight);
    return {m_wholeY.first, std::max(m_wholeY.second, m_wholeY.first + (m_topRoof - m_wholeY.first) / (1 - free))};
}

std::vector<RooflineView::Line> RooflineView::lines() const {
    std::vector<Line> all;
    if (const GpuEntry* entry = dataSheet()) {
        const QString name = QString::fromUtf8(entry->name.data(), static_cast<qsizetype>(entry->name.size()));
        all.push_back({entry->bandwidth, entry->bf16_flops, tr("data sheet %1").arg(formatBandwidth(entry->bandwidth)),
                       tr("data sheet %1, bf16 %2").arg(name, formatFlopRate(entry->bf16_flops)), false});
    }
    if (!m_ceilings.measured()) return all;
    // In words: the mark of a measurement would look like a point on the line.
    const std::string_view type = name_of(m_ceilings.matrix_type);
    all.push_back({m_ceilings.read_bandwidth, m_ceilings.matrix_rate,
                   tr("read, measured: %1").arg(formatBandwidth(m_ceilings.read_bandwidth)),
                   tr("matrix %1, measured: %2")
                       .arg(QString::fromUtf8(type.data(), static_cast<qsizetype>(type.size())),
                            formatFlopRate(m_ceilings.matrix_rate)),
                   true});
    return all;
}

RooflineFrame RooflineView::frameFor(const QRectF& area) const {
    RooflineFrame frame;
    const double scale = unit();
    const double left = area.left() + 52 * scale, top = area.top() + 20 * scale;
    const bool named = area.height() > 150 * scale;
    frame.plot = QRectF(QPointF(left, top), QPointF(std::max(left + 10, area.right() - 12 * scale),
                                                    std::max(top + 10, area.bottom() - (named ? 34 : 20) * scale)));
    frame.left = QRectF(area.left() + 4 * scale, top, left - area.left() - 9 * scale, frame.plot.height());
    frame.below = QRectF(left, frame.plot.bottom() + 2 * scale, frame.plot.width(),
                         area.bottom() - frame.plot.bottom() - 3 * scale);
    frame.x = m_zoomX.of(m_wholeX);
    frame.y = m_zoomY.of(wholeY(frame.plot.height()));
    return frame;
}

void RooflineView::fit() {
    m_zoomX.fit();
    m_zoomY.fit();
    refresh();
    update();
}

QVariant RooflineView::zoomState() const {
    if (!m_zoomX.zoomed() && !m_zoomY.zoomed()) return {};
    return QVariantList{m_zoomX.state(), m_zoomY.state()};
}

void RooflineView::setZoomState(const QVariant& state) {
    const QVariantList parts = state.toList();
    m_zoomX.setState(parts.value(0));
    m_zoomY.setState(parts.value(1));
    refresh();
    update();
}

void RooflineView::zoom(double factorX, double factorY, const QPointF& pivot, const QPointF& shift) {
    const RooflineFrame now = frame();
    const double perX = (now.x.second - now.x.first) / now.plot.width(),
                 perY = (now.y.second - now.y.first) / now.plot.height();
    m_zoomX.zoom(factorX, now.x.first + (pivot.x() - now.plot.left()) * perX, shift.x() * perX, m_wholeX, closest);
    m_zoomY.zoom(factorY, now.y.first + (now.plot.bottom() - pivot.y()) * perY, -shift.y() * perY,
                 wholeY(now.plot.height()), closest);
    refresh();
    update();
}

std::optional<std::size_t> RooflineView::pointUnder(const QPointF& position) const {
    const RooflineFrame now = frame();
    std::optional<std::size_t> found;
    double least = 10 * unit();
    for (std::size_t i = 0; i < m_points.size(); ++i) {
        const double distance = QLineF(now.place(m_points[i]), position).length();
        if (distance >= least) continue;
        least = distance;
        found = i;
    }
    return found;
}

QString RooflineView::tipOf(std::size_t at) const {
    const RooflinePoint& point = m_points[at];
    const int step = point.decode ? *m_decodeStep : *m_prefillStep;
    return tr("%1, %2 step %3, %4 calls")
               .arg(stageName(point.kind), point.decode ? tr("decode") : tr("prefill"),
                    formatCount(static_cast<quint64>(step)), formatCount(point.calls)) +
           QLatin1Char('\n') + stageTip(point.work, m_ceilings);
}

QString RooflineView::tipAt(const QPointF& position) const {
    const auto point = pointUnder(position);
    if (point) return tipOf(*point);
    if (frame().plot.contains(position)) {
        QStringList text;
        if (m_ceilings.measured()) text << ceilingsText(m_ceilings);
        if (dataSheet()) text << dataSheetText(dataSheet());
        if (!m_leftOut.isEmpty())
            text << tr("without FLOPs, so without a place here: %1").arg(m_leftOut.join(QStringLiteral(", ")));
        return text.join(QLatin1Char('\n'));
    }
    return {};
}

void RooflineView::mousePressEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || isEmptyShown()) return;
    m_pressed = event->position();
    m_dragging = true;
    m_moved = false;
}

void RooflineView::mouseMoveEvent(QMouseEvent* event) {
    if (isEmptyShown()) return;
    if (!m_dragging || !(event->buttons() & Qt::LeftButton)) {
        setCursor(!m_link.isEmpty() && m_link.contains(event->position()) ? Qt::PointingHandCursor : Qt::ArrowCursor);
        const auto point = pointUnder(event->position());
        if (point == m_hovered) return;
        m_hovered = point;
        return update();
    }
    const QPointF by = event->position() - m_pressed;
    if (!m_moved && by.manhattanLength() <= 4) return;
    m_moved = true;
    m_pressed = event->position();
    if (m_zoomX.zoomed() || m_zoomY.zoomed()) zoom(1, 1, event->position(), -by);
}

void RooflineView::mouseReleaseEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || !m_dragging || isEmptyShown()) return;
    m_dragging = false;
    if (m_moved) return zoomChanged();
    if (!m_link.isEmpty() && m_link.contains(event->position())) Q_EMIT emptyAction(QStringLiteral("measure-ceilings"));
}

void RooflineView::leaveEvent(QEvent* event) {
    m_hovered.reset();
    View::leaveEvent(event);
    update();
}

// With Ctrl only FLOP/s, with Shift only FLOP per byte.
void RooflineView::wheelEvent(QWheelEvent* event) {
    if (isEmptyShown()) return;
    event->accept();
    const int turned = event->angleDelta().y() != 0 ? event->angleDelta().y() : event->angleDelta().x();
    const double factor = std::pow(zoom_per_notch, turned / 120.0);
    zoom(event->modifiers() & Qt::ControlModifier ? 1 : factor, event->modifiers() & Qt::ShiftModifier ? 1 : factor,
         event->position(), {});
    zoomChanged();
}

void RooflineView::walk(int by) {
    if (m_points.empty()) return;
    const auto count = static_cast<int>(m_points.size());
    const int to = m_hovered ? (static_cast<int>(*m_hovered) + by + count) % count : 0;
    m_hovered = static_cast<std::size_t>(to);
    update();
    QToolTip::showText(mapToGlobal(frame().place(m_points[*m_hovered]).toPoint()), tipOf(*m_hovered), this);
}

void RooflineView::keyPressEvent(QKeyEvent* event) {
    if (isEmptyShown()) return View::keyPressEvent(event);
    const QRectF plot = frame().plot;
    const bool shift = event->modifiers() & Qt::ShiftModifier;
    const auto moved = [&](double factor, double x, double y) {
        zoom(factor, factor, m_hovered ? frame().place(m_points[*m_hovered]) : plot.center(),
             {x * plot.width(), y * plot.height()});
        zoomChanged();
    };
    switch (event->key()) {
    case Qt::Key_Left: shift ? moved(1, -0.1, 0) : walk(-1); break;
    case Qt::Key_Right: shift ? moved(1, 0.1, 0) : walk(1); break;
    case Qt::Key_Up: shift ? moved(1, 0, -0.1) : walk(-1); break;
    case Qt::Key_Down: shift ? moved(1, 0, 0.1) : walk(1); break;
    case Qt::Key_Plus:
    case Qt::Key_Equal: moved(zoom_per_notch, 0, 0); break;
    case Qt::Key_Minus:
    case Qt::Key_Underscore: moved(1 / zoom_per_notch, 0, 0); break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
        if (!m_ceilings.measured()) Q_EMIT emptyAction(QStringLiteral("measure-ceilings"));
        break;
    default: View::keyPressEvent(event); break;
    }
}

QString RooflineView::csv() const {
    QString text =
        csvLine({"step", "phase", "stage", "calls", "time ns (measured)", "bytes moved (derived)", "FLOPs (derived)",
                 "FLOP per byte (derived)", "FLOP per second (derived)", "bytes per second (derived)",
                 "share of the read bandwidth (derived)", "share of the matrix rate (derived)", "bound by (derived)"});
    const auto number = [](double value, bool exists) { return exists ? QString::number(value, 'g', 9) : QString(); };
    for (const RooflinePoint& point : m_points)
        text += csvLine({QString::number(point.decode ? *m_decodeStep : *m_prefillStep),
                         point.decode ? QStringLiteral("decode") : QStringLiteral("prefill"), stageName(point.kind),
                         QString::number(point.calls), QString::number(point.work.duration_ns),
                         QString::number(point.work.bytes), QString::number(point.work.flops),
                         number(point.bound.flops_per_byte, true), number(point.bound.flops_per_second, true),
                         number(point.bound.bytes_per_second, true),
                         number(point.bound.of_memory, m_ceilings.read_bandwidth > 0),
                         number(point.bound.of_compute, m_ceilings.matrix_rate > 0), limitName(point.bound.limit)});
    return text;
}

}  // namespace kvloupe
