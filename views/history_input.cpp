// SPDX-License-Identifier: GPL-3.0-or-later
//
// Pointer, wheel and keys of the block history.
#include "views/history_view.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr double fewest_blocks = 4;  // closest zoom
constexpr double per_notch = 0.8;

}  // namespace

void HistoryView::zoomBlocks(double factor, double pivot, double shift) {
    const double begin = m_blocksZoomed ? m_blockBegin : 0, end = m_blocksZoomed ? m_blockEnd : blockCount();
    const double whole = blockCount();
    const double height = std::clamp((end - begin) * factor, std::min(fewest_blocks, whole), whole);
    m_blockBegin = std::clamp(pivot - (pivot - begin) * height / (end - begin) + shift, 0.0, whole - height);
    m_blockEnd = m_blockBegin + height;
    m_blocksZoomed = height < whole;
}

void HistoryView::zoomAt(const QPointF& point, double steps, double blocks) {
    const HistoryFrame now = frame();
    if (steps != 1) m_steps.zoom(steps, now.axis.stepAt(point.x()), 0, cursor()->stepCount());
    if (blocks != 1) zoomBlocks(blocks, now.blockAt(point.y()), 0);
    shareSteps();
    explain();
    update();
}

void HistoryView::pan(double dx, double dy) {
    const HistoryFrame now = frame();
    if (dx != 0) m_steps.zoom(1, 0, dx / now.axis.perStep, cursor()->stepCount());
    if (dy != 0) zoomBlocks(1, 0, dy / now.perBlock);
    shareSteps();
    explain();
    update();
}

std::optional<std::uint32_t> HistoryView::blockUnder(const HistoryFrame& frame, double y) const {
    const double block = std::floor(frame.blockAt(y));
    if (y < frame.plot.top() || y > frame.plot.bottom() || block < 0 || block >= blockCount()) return {};
    return static_cast<std::uint32_t>(block);
}

Pick HistoryView::pickAt(const QPointF& point) const {
    Pick pick;
    const HistoryFrame now = frame();
    if (!index() || point.x() < now.plot.left() || point.x() > now.plot.right()) return pick;
    pick.lane = m_lane;
    for (const Glyph& glyph : m_glyphs)
        if (QLineF(glyph.centre, point).length() < 7 * unit()) {
            const Event& event = m_index->lane().events()[glyph.event];
            pick.event = glyph.event;
            if (event.sequence.valid()) pick.sequence = event.sequence;
            if (event.block.valid()) pick.block = event.kind == EventKind::copy_on_write ? BlockId(event.other) : event.block;
            return pick;
        }
    const auto block = blockUnder(now, point.y());
    if (!block || now.blockLevel > 0) return {};  // folded: many blocks, none of them is meant
    pick.block = BlockId(*block);
    const double step = std::floor(now.axis.stepAt(point.x()));
    if (step >= 0 && step < m_index->steps()) {
        const HistoryIndex::Code code = m_index->codeAt(*block, static_cast<std::uint32_t>(step));
        if (HistoryIndex::kindOf(code) == BlockKind::owned) pick.sequence = SequenceId(HistoryIndex::detailOf(code));
    }
    return pick;
}

void HistoryView::resizeEvent(QResizeEvent* event) {
    View::resizeEvent(event);
    explain();
}

void HistoryView::mousePressEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || isEmptyShown()) return;
    m_pressed = event->position();
    m_dragging = true;
    m_moved = false;
}

void HistoryView::mouseMoveEvent(QMouseEvent* event) {
    if (isEmptyShown()) return;
    if (!m_dragging || !(event->buttons() & Qt::LeftButton)) {
        cursor()->setHover(pickAt(event->position()));
        return;
    }
    const QPointF moved = event->position() - m_pressed;
    if (!m_moved && moved.manhattanLength() <= 4) return;  // a click with a trembling hand is no drag
    m_moved = true;
    m_pressed = event->position();
    pan(-moved.x(), -moved.y());
}

void HistoryView::mouseReleaseEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || !m_dragging) return;
    m_dragging = false;
    if (m_moved) {
        zoomChanged();
        return;
    }
    const HistoryFrame now = frame();
    if (event->position().x() >= now.plot.left() && event->position().x() <= now.plot.right())
        cursor()->setStep(static_cast<int>(std::floor(now.axis.stepAt(event->position().x()))));
}

void HistoryView::mouseDoubleClickEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || isEmptyShown()) return;
    const Pick pick = pickAt(event->position());
    if (!pick.empty()) cursor()->lock(pick);
}

// The wheel zooms both axes, with Ctrl the blocks, with Shift the steps; sideways it pans.
void HistoryView::wheelEvent(QWheelEvent* event) {
    if (isEmptyShown()) return;
    event->accept();
    const bool onlyBlocks = event->modifiers() & Qt::ControlModifier, onlySteps = event->modifiers() & Qt::ShiftModifier;
    // Some systems turn the wheel sideways while Shift is held.
    const int turned = onlySteps && event->angleDelta().y() == 0 ? event->angleDelta().x() : event->angleDelta().y();
    const double factor = std::pow(per_notch, turned / 120.0);
    if (turned != 0) zoomAt(event->position(), onlyBlocks ? 1 : factor, onlySteps ? 1 : factor);
    else pan(-event->angleDelta().x() / 120.0 * frame().plot.width() * 0.1, 0);
    zoomChanged();
}

void HistoryView::keyPressEvent(QKeyEvent* event) {
    const HistoryFrame now = frame();
    const bool shift = event->modifiers() & Qt::ShiftModifier, control = event->modifiers() & Qt::ControlModifier;
    const auto zoom = [&](double factor) {
        // About the cursor where it is in sight.
        const double x = now.axis.x(cursor()->step() + 0.5);
        const bool seen = x >= now.plot.left() && x <= now.plot.right();
        zoomAt(QPointF(seen ? x : now.plot.center().x(), now.plot.center().y()), control ? 1 : factor, shift ? 1 : factor);
        zoomChanged();
    };
    const auto shifted = [&](double dx, double dy) {
        pan(dx * now.plot.width(), dy * now.plot.height());
        zoomChanged();
    };
    const auto hoverRow = [&](int move) {
        const auto& from = cursor()->hover().block ? cursor()->hover().block : cursor()->locked().block;
        const int to = from ? static_cast<int>(from->value) + move : static_cast<int>(now.firstBlock) + 1;
        if (to < 1 || to >= static_cast<int>(blockCount())) return;
        if (to < now.firstBlock) pan(0, -now.plot.height() / 2);
        if (to + 1 > now.blockAt(now.plot.bottom())) pan(0, now.plot.height() / 2);
        Pick pick;
        pick.lane = m_lane;
        pick.block = BlockId(static_cast<std::uint32_t>(to));
        cursor()->setHover(pick);
    };
    switch (isEmptyShown() ? 0 : event->key()) {
    case Qt::Key_Left: shift ? shifted(-0.1, 0) : cursor()->setStep(cursor()->step() - 1); break;
    case Qt::Key_Right: shift ? shifted(0.1, 0) : cursor()->setStep(cursor()->step() + 1); break;
    case Qt::Key_Up: shift ? shifted(0, -0.1) : hoverRow(-1); break;
    case Qt::Key_Down: shift ? shifted(0, 0.1) : hoverRow(1); break;
    case Qt::Key_PageUp: shifted(0, -0.8); break;
    case Qt::Key_PageDown: shifted(0, 0.8); break;
    case Qt::Key_Plus:
    case Qt::Key_Equal: zoom(per_notch); break;
    case Qt::Key_Minus:
    case Qt::Key_Underscore: zoom(1 / per_notch); break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
        if (cursor()->hover().block) cursor()->lock(cursor()->hover());
        break;
    default: View::keyPressEvent(event); break;
    }
}

}  // namespace kvloupe
