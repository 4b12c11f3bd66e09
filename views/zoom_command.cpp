// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/zoom_command.h"

#include "views/view.h"

namespace kvloupe {

namespace {

constexpr qint64 one_gesture_ms = 1000;

}  // namespace

ZoomCommand::ZoomCommand(View* view, QVariant before, QVariant after)
    : QUndoCommand(View::tr("zoom of %1").arg(view->title())), m_view(view), m_before(std::move(before)),
      m_after(std::move(after)) {
    m_age.start();
}

void ZoomCommand::undo() {
    if (m_view) m_view->restoreZoom(m_before);
}

void ZoomCommand::redo() {
    if (m_done) {  // pushing a command redoes it once; the view is there already
        m_done = false;
        return;
    }
    if (m_view) m_view->restoreZoom(m_after);
}

bool ZoomCommand::mergeWith(const QUndoCommand* other) {
    const auto* next = static_cast<const ZoomCommand*>(other);
    if (next->m_view != m_view || m_age.elapsed() > one_gesture_ms) return false;
    m_after = next->m_after;
    m_age.start();
    return true;
}

}  // namespace kvloupe
