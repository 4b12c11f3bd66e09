// SPDX-License-Identifier: GPL-3.0-or-later
//
// Breakpoints: the window stops where all that is given holds, and says why.
#pragma once

#include "engine/serve/scenario.h"

#include <QDialog>

class QComboBox;
class QLineEdit;
class QListWidget;
class QSpinBox;

namespace kvloupe {

class BreakpointDialog : public QDialog {
    Q_OBJECT

public:
    explicit BreakpointDialog(std::vector<Breakpoint> breakpoints, QWidget* parent = nullptr);

    const std::vector<Breakpoint>& breakpoints() const { return m_breakpoints; }

private:
    void add();
    void remove();
    void fill();

    std::vector<Breakpoint> m_breakpoints;
    QListWidget* m_list;
    QComboBox* m_event;
    QLineEdit* m_request;
    QSpinBox* m_step;
    QSpinBox* m_block;
    QSpinBox* m_used;
};

}  // namespace kvloupe
