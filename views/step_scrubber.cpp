// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/step_scrubber.h"

#include "views/canvas.h"
#include "views/format.h"

#include <QHelpEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QSignalBlocker>
#include <QToolTip>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr double glyphs_from = 10;   // pixels per step from which marks are drawn by their signs
constexpr double row_height = 3;     // of folded marks

}  // namespace

StepScrubber::StepScrubber(Cursor* cursor, QWidget* parent, std::uint64_t mostMarked)
    : QAbstractSlider(parent), m_cursor(cursor), m_marks(mostMarked) {
    setOrientation(Qt::Horizontal);
    setObjectName(QStringLiteral("scrubber"));
    setAccessibleName(tr("Steps of the recording"));
    setFocusPolicy(Qt::TabFocus);
    setMouseTracking(true);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    connect(this, &QAbstractSlider::valueChanged, cursor, &Cursor::setStep);
    connect(cursor, &Cursor::stepChanged, this, &StepScrubber::refresh);
    connect(cursor, &Cursor::grew, this, &StepScrubber::refresh);
    connect(cursor, &Cursor::recordingChanged, this, &StepScrubber::refresh);
    connect(cursor, &Cursor::focusChanged, this, &StepScrubber::followMarks);
    connect(cursor, &Cursor::fontScaleChanged, this, [this] {
        updateGeometry();
        update();
    });
    refresh();
}

QSize StepScrubber::sizeHint() const { return {400, static_cast<int>(std::lround(22 * unit()))}; }

void StepScrubber::refresh() {
    {
        const QSignalBlocker quiet(this);
        const int steps = m_cursor->stepCount();
        setEnabled(steps > 0);
        setRange(0, std::max(steps - 1, 0));
        setPageStep(std::max(10, steps / 20));
        setValue(std::max(m_cursor->step(), 0));
    }
    followMarks();
    update();
}

void StepScrubber::followMarks() {
    m_marks.follow(m_cursor->sharedRecording(), m_cursor->lane(), [this] { update(); });
    update();
}

QRectF StepScrubber::groove() const {
    const double side = 12 * unit();
    return {side, height() - 8 * unit(), std::max(1.0, width() - 2 * side), 4 * unit()};
}

double StepScrubber::perStep() const { return groove().width() / (maximum() + 1.0); }

double StepScrubber::xOfStep(double step) const { return groove().left() + (step + 0.5) * perStep(); }

int StepScrubber::stepAt(double x) const {
    return std::clamp(static_cast<int>(std::floor((x - groove().left()) / perStep())), 0, maximum());
}

bool StepScrubber::jump(bool forwards) {
    if (m_cursor->step() < 0) return false;
    const auto step = m_marks.next(static_cast<std::size_t>(m_cursor->step()), forwards);
    if (step) m_cursor->setStep(static_cast<int>(*step));
    return step.has_value();
}

// Which kinds a pixel of the groove has, over all steps that fall on it.
const std::vector<StepScrubber::Pixel>& StepScrubber::folded() {
    const auto width = static_cast<std::size_t>(groove().width());
    const auto& counts = m_marks.counts();
    if (m_folded.size() == width && m_foldedSteps == counts.size() && m_foldedRange == maximum()) return m_folded;
    m_folded.assign(width, {});
    m_foldedSteps = counts.size();
    m_foldedRange = maximum();
    const double each = perStep();
    for (std::size_t step = 0; step < counts.size() && width > 0; ++step) {
        if (!counts[step].any()) continue;
        Pixel& pixel = m_folded[std::min(width - 1, static_cast<std::size_t>((static_cast<double>(step) + 0.5) * each))];
        pixel.copies = pixel.copies || counts[step].copies > 0;
        pixel.evictions = pixel.evictions || counts[step].evictions > 0;
        pixel.preemptions = pixel.preemptions || counts[step].preemptions > 0;
    }
    return m_folded;
}

QString StepScrubber::whyNoMarks() const {
    return m_marks.tooMany() ? tr("Steps have no marks here: more than %1 events.").arg(formatCount(m_marks.most())) : QString();
}

void StepScrubber::paintMarks(QPainter& painter, const Canvas& canvas) {
    const QRectF bar = groove();
    if (const QString without = whyNoMarks(); !without.isEmpty()) {
        const QRectF above(bar.left(), 0, bar.width(), bar.top() - canvas.u(1));
        canvas.text(above, without, {10.5, QFont::Normal, canvas.colours().ink3, false});
        return;
    }
    if (perStep() >= glyphs_from * unit()) {
        const auto& counts = m_marks.counts();
        for (std::size_t step = 0; step < counts.size(); ++step) {
            std::vector<EventKind> kinds;
            if (counts[step].copies > 0) kinds.push_back(EventKind::copy_on_write);
            if (counts[step].evictions > 0) kinds.push_back(EventKind::evict);
            if (counts[step].preemptions > 0) kinds.push_back(EventKind::preempt);
            const double pitch = std::min(9 * unit(), perStep() / std::max<double>(1, static_cast<double>(kinds.size())));
            double x = xOfStep(static_cast<double>(step)) - pitch * (static_cast<double>(kinds.size()) - 1) / 2;
            for (const EventKind kind : kinds) {
                canvas.glyph(kind, {x, bar.top() / 2}, canvas.u(7), canvas.colours().ink1);
                x += pitch;
            }
        }
        return;
    }
    painter.setRenderHint(QPainter::Antialiasing, false);
    const double row = row_height * unit(), top = canvas.u(2);
    const auto& pixels = folded();
    for (std::size_t i = 0; i < pixels.size(); ++i) {
        const double x = bar.left() + static_cast<double>(i);
        const auto tick = [&](bool there, int number) {
            if (there) painter.fillRect(QRectF(x, top + number * (row + 1), 1, row), canvas.colours().ink2);
        };
        tick(pixels[i].copies, 0);
        tick(pixels[i].evictions, 1);
        tick(pixels[i].preemptions, 2);
    }
    painter.setRenderHint(QPainter::Antialiasing, true);
}

void StepScrubber::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const Canvas canvas(painter, Palette::of(this), font(), unit());
    const Palette& colours = canvas.colours();
    const QRectF bar = groove();
    painter.setPen(Qt::NoPen);
    painter.setBrush(colours.line);
    painter.drawRoundedRect(bar, bar.height() / 2, bar.height() / 2);
    if (m_cursor->step() < 0) return;
    paintMarks(painter, canvas);
    const double x = xOfStep(m_cursor->step());
    painter.setPen(Qt::NoPen);
    painter.setBrush(colours.ink3);
    painter.drawRoundedRect(QRectF(bar.topLeft(), QPointF(x, bar.bottom())), bar.height() / 2, bar.height() / 2);
    painter.setPen(QPen(colours.ink1, canvas.u(1.5)));
    painter.drawLine(QPointF(x, canvas.u(1)), QPointF(x, bar.bottom()));
    painter.setPen(QPen(hasFocus() ? colours.accent : colours.panel, canvas.u(1.5)));
    painter.setBrush(colours.ink1);
    painter.drawEllipse(QPointF(x, bar.center().y()), canvas.u(5), canvas.u(5));
}

QString StepScrubber::tipFor(double x) const {
    if (m_cursor->step() < 0) return tr("No step is recorded yet.");
    const int step = stepAt(x);
    // All steps that share the pixel below the pointer.
    const double left = std::floor(x - groove().left());
    const int first = perStep() >= 1 ? step : std::clamp(static_cast<int>(std::ceil(left / perStep() - 0.5)), 0, maximum());
    const int end = perStep() >= 1 ? step + 1 : std::clamp(static_cast<int>(std::ceil((left + 1) / perStep() - 0.5)), first + 1,
            maximum() + 1);
    const auto number = [](auto value) { return formatCount(static_cast<quint64>(value)); };
    QString text = end - first > 1 ? tr("Steps %1 to %2 of %3").arg(number(first), number(end - 1), number(maximum()))
                                   : tr("Step %1 of %2").arg(number(step), number(maximum()));
    if (const QString without = whyNoMarks(); !without.isEmpty()) return text + QLatin1Char('\n') + without;
    const StepMarks::Sums sums = m_marks.sums(static_cast<std::size_t>(first), static_cast<std::size_t>(end));
    QStringList parts;
    if (sums.copies > 0) parts << (sums.copies == 1 ? tr("1 copy") : tr("%1 copies").arg(number(sums.copies)));
    if (sums.evictions > 0) parts << (sums.evictions == 1 ? tr("1 eviction") : tr("%1 evictions").arg(number(sums.evictions)));
    if (sums.preemptions > 0) parts << (sums.preemptions == 1 ? tr("1 preemption") : tr("%1 preemptions").arg(number(sums.preemptions)));
    if (parts.isEmpty() && !m_marks.complete()) parts << tr("marks are being counted");
    if (parts.isEmpty()) parts << tr("no copy, eviction or preemption");
    const LaneRecord* lane = m_cursor->laneRecord();
    if (lane) parts << tr("lane %1").arg(QString::fromStdString(lane->info().name));
    return text + QLatin1Char('\n') + parts.join(QStringLiteral(" · "));
}

bool StepScrubber::event(QEvent* event) {
    if (event->type() == QEvent::ToolTip) {
        const auto* help = static_cast<QHelpEvent*>(event);
        QToolTip::showText(help->globalPos(), tipFor(help->pos().x()), this);
        return true;
    }
    if (event->type() == QEvent::ShortcutOverride) {
        // With the focus the keys are the slider's: → at the last step asks for no new one.
        const auto* key = static_cast<QKeyEvent*>(event);
        for (const int own : {Qt::Key_Left, Qt::Key_Right, Qt::Key_Home, Qt::Key_End, Qt::Key_PageUp, Qt::Key_PageDown})
            if (key->key() == own && !(key->modifiers() & ~Qt::KeypadModifier)) {
                event->accept();
                return true;
            }
    }
    if (event->type() == QEvent::FocusIn || event->type() == QEvent::FocusOut) update();
    return QAbstractSlider::event(event);
}

// Down is later, as in a list.
void StepScrubber::keyPressEvent(QKeyEvent* event) {
    if (event->key() == Qt::Key_PageDown) setValue(value() + pageStep());
    else if (event->key() == Qt::Key_PageUp) setValue(value() - pageStep());
    else QAbstractSlider::keyPressEvent(event);
}

void StepScrubber::mousePressEvent(QMouseEvent* event) {
    if (event->button() == Qt::LeftButton && m_cursor->step() >= 0) {
        setSliderDown(true);
        setValue(stepAt(event->position().x()));
    }
}

void StepScrubber::mouseMoveEvent(QMouseEvent* event) {
    if (!isSliderDown()) return;
    setValue(stepAt(event->position().x()));
    QToolTip::showText(event->globalPosition().toPoint(), tipFor(xOfStep(value())), this);
}

void StepScrubber::mouseReleaseEvent(QMouseEvent* event) {
    if (event->button() == Qt::LeftButton) setSliderDown(false);
}

// One notch is one step.
void StepScrubber::wheelEvent(QWheelEvent* event) {
    m_wheel += event->angleDelta().y() != 0 ? event->angleDelta().y() : -event->angleDelta().x();
    const int notches = m_wheel / 120;
    m_wheel -= notches * 120;
    if (notches != 0) setValue(value() - notches);
    event->accept();
}

}  // namespace kvloupe
