// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/tracks_view.h"

#include "views/canvas.h"
#include "views/csv_line.h"
#include "views/folded_edge.h"
#include "views/format.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

struct TrackSpan {
    double least = 0, greatest = 1;
};

// From 0 where all are on one side of it, so that heights can be compared.
TrackSpan spanOf(const std::vector<QueryTrack::Point>& points) {
    if (points.empty()) return {};
    const auto [least, greatest] = std::minmax_element(points.begin(), points.end(),
                                                         [](const auto& a, const auto& b) { return a.value < b.value; });
    TrackSpan span{std::min(0.0, least->value), std::max(0.0, greatest->value)};
    if (span.least == span.greatest) span.greatest = span.least + 1;
    return span;
}

auto firstFrom(const std::vector<QueryTrack::Point>& points, double step) {
    return std::partition_point(points.begin(), points.end(), [step](const QueryTrack::Point& each) { return each.step < step; });
}

QString trackNumber(double value) {
    return value == std::floor(value) && std::abs(value) < 1e15 ? QString::number(static_cast<qint64>(value))
                                                                : QString::number(value, 'g', 6);
}

}  // namespace

TracksView::TracksView(Cursor* cursor, QWidget* parent) : View(QStringLiteral("tracks"), tr("Pinned tracks"), cursor, parent) {
    connect(cursor, &Cursor::stepRangeChanged, this, &TracksView::followSteps);
    followSteps();
}

void TracksView::setTracks(QueryTracks* tracks) {
    m_tracks = tracks;
    connect(tracks, &QueryTracks::changed, this, [this] {
        refresh();
        update();
    });
    refresh();
}

void TracksView::setZoomState(const QVariant& state) {
    m_steps.setState(state);
    cursor()->setStepRange(m_steps.zoomed() ? std::optional(m_steps.of(cursor()->stepCount())) : std::nullopt);
    explain();
    update();
}

void TracksView::followSteps() {
    const auto& range = cursor()->stepRange();
    const QVariant wanted = range ? QVariant(QPointF(range->first, range->second)) : QVariant();
    if (wanted != m_steps.state()) restoreZoom(wanted);  // another view zoomed: that is no step of this one's own
}

void TracksView::refresh() {
    setSubtitle({});
    if (count() == 0) {
        setEmpty(tr("No track is pinned. Ask a question whose answer has a column “step” in the view Query, then pin a "
                    "column of numbers."));
        return;
    }
    if (cursor()->stepCount() == 0) {
        setEmpty(tr("No step has run yet."), cursor()->recording() ? tr("Step") : QString(), QStringLiteral("step"));
        return;
    }
    setEmpty({});
    explain();
}

void TracksView::explain() {
    if (isEmptyShown()) return;
    QString text = count() == 1 ? tr("1 track") : tr("%1 tracks").arg(count());
    if (m_steps.zoomed()) text += tr(" · zoomed, F shows all");
    setSubtitle(text);
}

TracksView::Frame TracksView::frameFor(const QRectF& area) const {
    Frame frame;
    const double scale = unit(), left = (area.width() > 520 * scale ? 92 : 68) * scale, ticks = StepAxis::height * scale;  // as the split's
    frame.plot = QRectF(area.left() + left, area.top() + 6 * scale, std::max(1.0, area.width() - left - 14 * scale),
                        std::max(1.0, area.height() - 8 * scale - ticks));
    frame.labels = QRectF(area.left() + 4 * scale, frame.plot.top(), left - 10 * scale, frame.plot.height());
    frame.band = frame.plot.height() / static_cast<double>(std::max<std::size_t>(1, count()));
    frame.axis = StepAxis::over(frame.plot, QRectF(frame.plot.left(), frame.plot.bottom(), frame.plot.width(), ticks),
                                m_steps.of(cursor()->stepCount()));
    return frame;
}

QRectF TracksView::bandIn(const Frame& frame, std::size_t track) const {
    return {frame.plot.left(), frame.plot.top() + static_cast<double>(track) * frame.band, frame.plot.width(), std::max(1.0,
            frame.band - 4 * unit())};
}

QRectF TracksView::bandOf(std::size_t track) const { return bandIn(frameFor(QRectF(rect())), track); }

QRectF TracksView::removeIn(const Frame& frame, std::size_t track) const {
    const QRectF band = bandIn(frame, track);
    return {band.right() - 16 * unit(), band.top(), 16 * unit(), std::min(16 * unit(), band.height())};
}

QRectF TracksView::removeButtonOf(std::size_t track) const { return removeIn(frameFor(QRectF(rect())), track); }

void TracksView::paintContent(QPainter& painter, const QRectF& area) {
    const Canvas canvas(painter, palette_(), font(), unit());
    const Frame frame = frameFor(area);
    for (std::size_t i = 0; i < count(); ++i) {
        paintLabel(canvas, frame, i);
        paintTrack(canvas, frame, i);
    }
    frame.axis.paintTicks(canvas, cursor()->step());
    if (frame.axis.perStep < 1) paintFoldedEdge(canvas, frame.plot.bottomLeft(), frame.plot.bottomRight());
    frame.axis.paintFuture(canvas, cursor()->step(), frame.plot);
    frame.axis.paintCursor(canvas, cursor()->step());
    if (painter.device() != this) return;
    for (std::size_t i = 0; i < count(); ++i)  // above the veil
        canvas.text(removeIn(frame, i), QStringLiteral("×"), {13, QFont::Normal, canvas.colours().ink2, false}, Qt::AlignCenter,
                Qt::ElideNone);
}

void TracksView::paintLabel(const Canvas& canvas, const Frame& frame, std::size_t index) const {
    const QueryTrack& track = m_tracks->tracks()[index];
    const QRectF band = bandIn(frame, index);
    const QRectF room(frame.labels.left(), band.top(), frame.labels.width(), band.height());
    const double line = canvas.u(14);
    canvas.text(QRectF(room.topLeft(), QSizeF(room.width(), line)), track.column, {11, QFont::DemiBold, canvas.colours().ink1, false},
                Qt::AlignRight | Qt::AlignVCenter, Qt::ElideMiddle);
    if (track.points.empty() || room.height() < 2 * line) return;
    const TrackSpan span = spanOf(track.points);
    const TextStyle small{10.5, QFont::Normal, canvas.colours().ink3, false};
    canvas.text(QRectF(room.left(), room.top() + line, room.width(), line), tr("to %1").arg(trackNumber(span.greatest)), small,
            Qt::AlignRight | Qt::AlignVCenter);
    if (room.height() < 3 * line) return;
    canvas.text(QRectF(room.left(), room.bottom() - line, room.width(), line), tr("from %1").arg(trackNumber(span.least)), small,
            Qt::AlignRight | Qt::AlignVCenter);
}

void TracksView::paintTrack(const Canvas& canvas, const Frame& frame, std::size_t index) const {
    const QueryTrack& track = m_tracks->tracks()[index];
    const QRectF band = bandIn(frame, index);
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    if (track.points.empty()) {
        const QString text = track.problem.isEmpty() ? tr("Ask a question to fill this track with the session as it is now.")
                : track.problem;
        canvas.text(band.adjusted(canvas.u(6), 0, -canvas.u(20), 0), text, {11, QFont::Normal, colours.ink2, false});
        return;
    }
    const TrackSpan span = spanOf(track.points);
    const auto y = [&](double value) { return band.bottom() - (value - span.least) / (span.greatest - span.least) * band.height(); };
    painter.setPen(QPen(colours.grid, 1));
    painter.drawLine(QPointF(band.left(), y(0)), QPointF(band.right(), y(0)));
    painter.save();
    painter.setRenderHint(QPainter::Antialiasing, false);
    painter.setPen(Qt::NoPen);
    QColor fill = colours.accent;
    fill.setAlphaF(0.35f);
    const double end = frame.axis.end + 1;
    for (auto point = firstFrom(track.points, std::floor(frame.axis.begin)); point != track.points.end() && point->step < end;) {
        // All rows of one step, and of all steps that fall on one pixel.
        const double left = std::max(band.left(), std::floor(frame.axis.x(point->step)));
        double least = point->value, greatest = point->value;
        double right = std::max(left + 1, std::floor(frame.axis.x(point->step + 1.0)));  // where the next one begins
        for (; point != track.points.end() && frame.axis.x(point->step) < left + 1; ++point) {
            least = std::min(least, point->value);
            greatest = std::max(greatest, point->value);
            right = std::max(left + 1, std::floor(frame.axis.x(point->step + 1.0)));
        }
        right = std::min(right, band.right());
        if (right <= left) continue;
        painter.fillRect(QRectF(QPointF(left, y(std::max(0.0, greatest))), QPointF(right, y(std::min(0.0, least)))), fill);
        painter.fillRect(QRectF(QPointF(left, y(greatest)), QPointF(right, std::max(y(least), y(greatest) + canvas.u(1.5)))),
                colours.accent);
    }
    painter.restore();
}

QString TracksView::tipAt(const QPointF& position) const {
    const Frame frame = frameFor(QRectF(rect()));
    const auto index = static_cast<std::size_t>(std::max(0.0, (position.y() - frame.plot.top()) / frame.band));
    if (index >= count() || position.y() > frame.plot.bottom()) return {};
    const QueryTrack& track = m_tracks->tracks()[index];
    if (removeIn(frame, index).contains(position)) return tr("Remove this track (Delete with the pointer over it)");
    QStringList lines{track.title.isEmpty() ? track.column : tr("%1: %2").arg(track.title, track.column)};
    if (position.x() < frame.plot.left()) return (lines << track.sql).join(QLatin1Char('\n'));
    const double step = std::floor(frame.axis.stepAt(position.x()));
    QStringList values;
    for (auto point = firstFrom(track.points, step); point != track.points.end() && point->step == step && values.size() < 8; ++point)
        values << trackNumber(point->value);
    if (step >= 0) lines << (values.isEmpty() ? tr("Step %1: no row").arg(step) : tr("Step %1: %2").arg(QString::number(step),
            values.join(QStringLiteral(", "))));
    return lines.join(QLatin1Char('\n'));
}

void TracksView::mousePressEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || isEmptyShown()) return;
    const Frame frame = frameFor(QRectF(rect()));
    for (std::size_t i = 0; i < count(); ++i)
        if (removeIn(frame, i).contains(event->position())) return m_tracks->remove(i);
    cursor()->setStep(static_cast<int>(std::floor(frame.axis.stepAt(event->position().x()))));
}

void TracksView::mouseMoveEvent(QMouseEvent* event) {
    if (event->buttons() & Qt::LeftButton && !isEmptyShown())
        cursor()->setStep(static_cast<int>(std::floor(frameFor(QRectF(rect())).axis.stepAt(event->position().x()))));
}

void TracksView::zoom(double factor, double pivot, double shift) {
    m_steps.zoom(factor, pivot, shift, cursor()->stepCount());
    setZoomState(m_steps.state());
    zoomChanged();
}

void TracksView::wheelEvent(QWheelEvent* event) {
    if (isEmptyShown()) return;
    const StepAxis axis = frameFor(QRectF(rect())).axis;
    zoom(std::pow(0.8, event->angleDelta().y() / 120.0), axis.stepAt(event->position().x()),
            -event->angleDelta().x() / 120.0 * (axis.end - axis.begin) * 0.1);
    event->accept();
}

void TracksView::keyPressEvent(QKeyEvent* event) {
    const auto [begin, end] = m_steps.of(cursor()->stepCount());
    const double pivot = cursor()->step() >= begin && cursor()->step() < end ? cursor()->step() + 0.5 : (begin + end) / 2;
    const bool shift = event->modifiers() & Qt::ShiftModifier;
    switch (isEmptyShown() ? 0 : event->key()) {
    case Qt::Key_Left: shift ? zoom(1, begin, (begin - end) * 0.1) : cursor()->setStep(cursor()->step() - 1); break;
    case Qt::Key_Right: shift ? zoom(1, begin, (end - begin) * 0.1) : cursor()->setStep(cursor()->step() + 1); break;
    case Qt::Key_Plus:
    case Qt::Key_Equal: zoom(0.8, pivot, 0); break;
    case Qt::Key_Minus: zoom(1.25, pivot, 0); break;
    case Qt::Key_Delete: {
        const QPointF pointer = mapFromGlobal(QPointF(QCursor::pos()));
        for (std::size_t i = 0; i < count(); ++i)
            if (const QRectF band = bandOf(i); pointer.y() >= band.top() && pointer.y() <= band.bottom()) return m_tracks->remove(i);
        m_tracks->remove(count() - 1);
        break;
    }
    default: View::keyPressEvent(event); break;
    }
}

QString TracksView::csv() const {
    QString text = csvLine({"track", "question", "step", "value"});
    if (!m_tracks) return text;
    for (const QueryTrack& track : m_tracks->tracks())
        for (const QueryTrack::Point& point : track.points)
            text += csvLine({track.column, track.sql, QString::number(point.step), QString::number(point.value, 'g', 12)});
    return text;
}

}  // namespace kvloupe
