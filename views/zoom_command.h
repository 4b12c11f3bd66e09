// SPDX-License-Identifier: GPL-3.0-or-later
//
// ZoomCommand: one zoom or filter of one view on the cursor's stack, which all views share. Turns of a wheel within a
// second count as one.
#pragma once

#include <QElapsedTimer>
#include <QPointer>
#include <QUndoCommand>
#include <QVariant>

namespace kvloupe {

class View;

class ZoomCommand : public QUndoCommand {
public:
    // The view already shows `after`; an invalid QVariant is the whole range, or no filter.
    ZoomCommand(View* view, QVariant before, QVariant after);

    void undo() override;
    void redo() override;
    int id() const override { return 1; }
    bool mergeWith(const QUndoCommand* other) override;

private:
    QPointer<View> m_view;
    QVariant m_before, m_after;
    QElapsedTimer m_age;
    bool m_done = true;
};

}  // namespace kvloupe
