// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/schedule_view.h"

#include "views/format.h"
#include "views/picking.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr double widest_row = 22;   // pixels at 100 %
constexpr double fewest_rows = 4;   // closest zoom

}  // namespace

ScheduleView::ScheduleView(Cursor* cursor, QWidget* parent)
    : View(QStringLiteral("schedule"), tr("Scheduler"), cursor, parent) {
    connect(cursor, &Cursor::stepRangeChanged, this, &ScheduleView::followSteps);
    followSteps();
}

// The views on the axis of steps show the same part of it.
void ScheduleView::shareSteps() {
    if (m_range.zoomed()) cursor()->setStepRange(range());
    else cursor()->setStepRange(std::nullopt);
}

void ScheduleView::followSteps() {
    const auto& shared = cursor()->stepRange();
    const QVariant wanted = shared ? QVariant(QPointF(shared->first, shared->second)) : QVariant();
    if (wanted == m_range.state()) return;
    m_range.setState(wanted);
    restoreZoom(zoomState());  // another view zoomed: that is no step of this one's own
}

void ScheduleView::fit() {
    m_range.fit();
    shareSteps();
    m_rowsZoomed = false;
    explain();
    update();
}

// Steps in sight as x and width, rows as y and height; a width or height of 0 is all of them.
QVariant ScheduleView::zoomState() const {
    if (!m_range.zoomed() && !m_rowsZoomed) return {};
    const auto [begin, end] = range();
    return QRectF(m_range.zoomed() ? begin : 0, m_rowsZoomed ? m_firstRow : 0, m_range.zoomed() ? end - begin : 0,
                  m_rowsZoomed ? m_shownRows : 0);
}

void ScheduleView::setZoomState(const QVariant& state) {
    const QRectF zoom = state.toRectF();
    m_range.setState(state.isValid() && zoom.width() > 0 ? QVariant(QPointF(zoom.left(), zoom.right())) : QVariant());
    m_rowsZoomed = state.isValid() && zoom.height() > 0;
    m_firstRow = zoom.top();
    m_shownRows = std::max(1.0, zoom.height());
    shareSteps();
    explain();
    update();
}

void ScheduleView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    setSubtitle({});
    if (!lane) {
        setEmpty(tr("Open a model or a scenario to see what its scheduler does with each request."));
        return;
    }
    const bool all = m_log.follow(cursor()->sharedRecording(), cursor()->lane(), [this] {
        refresh();
        update();
    });
    const Ordered ordered{cursor()->recording(), cursor()->lane(), data().steps()};
    if (ordered != m_ordered) {
        m_ordered = ordered;
        m_order.clear();
        m_rowOf.assign(data().rows().size(), 0);
        for (std::uint32_t s = 0; s < data().rows().size(); ++s) {
            if (!data().rows()[s].seen) continue;
            m_rowOf[s] = static_cast<std::uint32_t>(m_order.size());
            m_order.emplace_back(s);
        }
    }
    if (!all && data().steps() == 0) {
        setEmpty(tr("What the scheduler did in %1 steps is being read.").arg(formatCount(lane->step_count())));
        return;
    }
    if (m_current >= static_cast<int>(m_order.size())) m_current = -1;
    if (data().steps() == 0) {
        setEmpty(tr("No step has run yet: nothing was scheduled."), tr("Step"), QStringLiteral("step"));
        return;
    }
    if (m_order.empty()) {
        setEmpty(tr("No request has arrived yet."));
        return;
    }
    setEmpty({});
    explain();
}

void ScheduleView::explain() {
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane || m_order.empty()) return;
    const CachePolicy& policy = lane->info().policy;
    const Layout layout = layoutFor(QRectF(rect()));
    QStringList parts{tr("lane %1").arg(QString::fromStdString(lane->info().name)),
                      m_order.size() == 1 ? tr("1 sequence") : tr("%1 sequences").arg(formatCount(m_order.size()))};
    if (!policy.batching.empty()) parts << tr("%1 batching").arg(QString::fromStdString(policy.batching));
    if (!policy.scheduling.empty()) parts << QString::fromStdString(policy.scheduling);
    if (m_log.reading()) parts << tr("reading events");
    if (layout.folded()) parts << tr("folded: %1 sequences per line").arg(formatCount(static_cast<quint64>(std::ceil(1 / layout.pitch))));
    if (layout.axis.perStep < 1)
        parts << tr("folded: %1 steps per pixel").arg(formatCount(static_cast<quint64>(std::ceil(1 / layout.axis.perStep))));
    if (m_range.zoomed() || m_rowsZoomed) parts << tr("zoomed, F shows all");
    setSubtitle(parts.join(QStringLiteral(" · ")));
}

ScheduleView::Layout ScheduleView::layoutFor(const QRectF& area) const {
    Layout layout;
    const double scale = unit();
    const bool wide = area.width() > 520 * scale;
    layout.labels = (wide ? 92 : 44) * scale;
    layout.legend = area.height() > 150 * scale && area.width() > 300 * scale ? 18 * scale : 4 * scale;
    const double left = area.left() + layout.labels, width = std::max(20.0, area.width() - layout.labels - 14 * scale);
    const double ticks = area.bottom() - (StepAxis::height + 2) * scale;
    double bottom = ticks;
    const double room = area.height() / scale;
    const int bands = room > 220 ? 3 : room > 150 ? 1 : 0;
    const double gap = (wide ? 8 : 15) * scale;  // narrow: the names stand between the bands
    double height = std::clamp(room * 0.075, 18.0, 44.0) * scale;
    if (bands > 0) {  // what the rows do not need goes to the bands
        const double spare = bottom - area.top() - layout.legend - static_cast<double>(m_order.size() + 1) * widest_row * scale;
        height = std::clamp(spare / bands - gap, height, 72 * scale);
    }
    bottom -= bands * (height + gap);
    for (int i = 0; i < bands; ++i)
        layout.bands.emplace_back(static_cast<Band>(i),
                                  QRectF(left, bottom + gap + i * (height + gap), width, i + 1 < bands ? height : height - 2 * scale));
    const double top = area.top() + layout.legend;
    layout.rows = QRectF(left, top, width, std::max(4.0, bottom - top - 2 * scale));
    layout.axis = StepAxis::over(QRectF(left, top, width, ticks - top), QRectF(left, ticks, width, StepAxis::height * scale), range());
    const double count = std::max<double>(1, static_cast<double>(m_order.size()));
    if (m_rowsZoomed) {
        layout.shown = std::min(m_shownRows, count);
        layout.first = std::clamp(m_firstRow, 0.0, count - layout.shown);
    } else {
        layout.shown = count;
    }
    layout.pitch = std::min(widest_row * scale, layout.rows.height() / layout.shown);
    return layout;
}

double ScheduleView::xOfStep(double step) const { return layoutFor(QRectF(rect())).axis.x(step); }

QRectF ScheduleView::rowRect(SequenceId sequence) const {
    const Layout layout = layoutFor(QRectF(rect()));
    if (sequence.value >= m_rowOf.size() || m_order.empty()) return {};
    const double top = layout.rows.top() + (m_rowOf[sequence.value] - layout.first) * layout.pitch;
    const QRectF row(layout.rows.left(), top, layout.rows.width(), layout.pitch);
    return row.top() > layout.rows.top() - 0.5 && row.bottom() < layout.rows.bottom() + 0.5 ? row : QRectF();
}

std::optional<SequenceId> ScheduleView::sequenceAt(const Layout& layout, const QPointF& point) const {
    if (point.y() < layout.rows.top() || point.y() >= layout.rows.bottom() || point.x() > layout.rows.right()) return {};
    const auto row = static_cast<std::size_t>(layout.first + (point.y() - layout.rows.top()) / layout.pitch);
    return row < m_order.size() ? std::optional(m_order[row]) : std::nullopt;
}

const ScheduleData::Mark* ScheduleView::markAt(const Layout& layout, SequenceId sequence, const QPointF& point) const {
    const ScheduleData::Mark* nearest = nullptr;
    double distance = std::max(5.0 * unit(), layout.axis.perStep / 2);
    for (const ScheduleData::Mark& mark : data().rows()[sequence.value].marks) {
        const double away = std::abs(layout.axis.x(mark.step + 0.5) - point.x());
        if (away <= distance) {
            distance = away;
            nearest = &mark;
        }
    }
    return nearest;
}

Pick ScheduleView::pickAt(const QPointF& point) const {
    const Layout layout = layoutFor(QRectF(rect()));
    const auto sequence = isEmptyShown() ? std::nullopt : sequenceAt(layout, point);
    if (!sequence) return {};
    Pick pick = pickSequence(*cursor(), *sequence);
    if (point.x() < layout.rows.left() || layout.folded()) return pick;
    if (const ScheduleData::Mark* mark = markAt(layout, *sequence, point)) {
        pick.event = mark->event;
        const Event& event = cursor()->laneRecord()->events()[mark->event];
        if (event.block.valid()) pick.block = event.kind == EventKind::copy_on_write ? BlockId(event.other) : event.block;
    }
    return pick;
}

void ScheduleView::resizeEvent(QResizeEvent* event) {
    View::resizeEvent(event);
    if (!isEmptyShown()) explain();
}

void ScheduleView::mouseMoveEvent(QMouseEvent* event) {
    if (isEmptyShown()) return;
    const Layout layout = layoutFor(QRectF(rect()));
    if ((event->buttons() & Qt::LeftButton) && event->position().y() >= layout.rows.bottom())
        cursor()->setStep(static_cast<int>(std::floor(layout.axis.stepAt(event->position().x()))));
    m_current = -1;
    cursor()->setHover(pickAt(event->position()));
    update();
}

void ScheduleView::choose(const Pick& pick) {
    if (!pick.empty()) cursor()->lock(pick);
}

void ScheduleView::mousePressEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || isEmptyShown()) return;
    const Layout layout = layoutFor(QRectF(rect()));
    if (event->position().y() < layout.rows.bottom())
        choose(pickAt(event->position()));
    else if (event->position().x() >= layout.rows.left())
        cursor()->setStep(static_cast<int>(std::floor(layout.axis.stepAt(event->position().x()))));
}

void ScheduleView::mouseDoubleClickEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || isEmptyShown()) return;
    const Layout layout = layoutFor(QRectF(rect()));
    if (event->position().x() >= layout.rows.left())
        cursor()->setStep(static_cast<int>(std::floor(layout.axis.stepAt(event->position().x()))));
}

void ScheduleView::wheelEvent(QWheelEvent* event) {
    if (isEmptyShown()) return;
    const Layout layout = layoutFor(QRectF(rect()));
    const double turns = event->angleDelta().y() / 120.0, sideways = event->angleDelta().x() / 120.0;
    const double count = static_cast<double>(m_order.size());
    const bool overNames = event->position().x() < layout.rows.left();
    if (event->modifiers() & Qt::ControlModifier) {
        const double pivot = layout.first + (event->position().y() - layout.rows.top()) / layout.pitch;
        const double whole = std::max(count, fewest_rows);
        const double shown = std::clamp(layout.shown * std::pow(0.8, turns), fewest_rows, whole);
        m_firstRow = std::clamp(pivot - (pivot - layout.first) * shown / layout.shown, 0.0, std::max(0.0, count - shown));
        m_shownRows = shown;
        m_rowsZoomed = shown < count;
    } else if (m_rowsZoomed && (overNames || (event->modifiers() & Qt::ShiftModifier))) {
        m_firstRow = std::clamp(layout.first - (turns + sideways) * std::max(1.0, layout.shown * 0.1), 0.0, count - layout.shown);
    } else {
        m_range.zoom(std::pow(0.8, turns), layout.axis.stepAt(event->position().x()),
                     -sideways * (layout.axis.end - layout.axis.begin) * 0.1, cursor()->stepCount());
    }
    event->accept();
    zoomChanged();
    shareSteps();
    explain();
    update();
}

void ScheduleView::showRow(int row) {
    m_current = std::clamp(row, 0, static_cast<int>(m_order.size()) - 1);
    if (m_rowsZoomed) {
        const double first = std::clamp(m_firstRow, m_current + 1 - m_shownRows, static_cast<double>(m_current));
        if (first != m_firstRow) {
            m_firstRow = first;
            zoomChanged();
        }
    }
    cursor()->setHover(pickSequence(*cursor(), m_order[static_cast<std::size_t>(m_current)]));
    update();
}

void ScheduleView::keyPressEvent(QKeyEvent* event) {
    if (isEmptyShown()) {
        View::keyPressEvent(event);
        return;
    }
    const int page = std::max(1, static_cast<int>(layoutFor(QRectF(rect())).shown) - 1);
    const int from = m_current >= 0 ? m_current
                     : cursor()->sequence().valid() && cursor()->sequence().value < m_rowOf.size() && !cursor()->locked().empty()
                         ? static_cast<int>(m_rowOf[cursor()->sequence().value]) : -1;
    switch (event->key()) {
    case Qt::Key_Up: showRow(from < 0 ? static_cast<int>(m_order.size()) - 1 : from - 1); break;
    case Qt::Key_Down: showRow(from + 1); break;
    case Qt::Key_PageUp: showRow(from - page); break;
    case Qt::Key_PageDown: showRow(from + page); break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
        if (m_current >= 0) choose(pickSequence(*cursor(), m_order[static_cast<std::size_t>(m_current)]));
        break;
    case Qt::Key_Left: cursor()->setStep(cursor()->step() - 1); break;
    case Qt::Key_Right: cursor()->setStep(cursor()->step() + 1); break;
    case Qt::Key_Home: cursor()->setStep(0); break;
    case Qt::Key_End: cursor()->setStep(cursor()->stepCount() - 1); break;
    case Qt::Key_Plus:
    case Qt::Key_Equal:
    case Qt::Key_Minus:
        m_range.zoom(event->key() == Qt::Key_Minus ? 1.25 : 0.8, cursor()->step() + 0.5, 0, cursor()->stepCount());
        zoomChanged();
        shareSteps();
        explain();
        update();
        break;
    default: View::keyPressEvent(event); break;
    }
}

}  // namespace kvloupe
