// SPDX-License-Identifier: GPL-3.0-or-later
//
// Breakpoints: the window stops where all that is given holds, and says why.
#pragma once

#include <QDialog>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/serve/scenario.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QListWidget;
class QPushButton;
class QSpinBox;

namespace kvloupe {

class BreakpointDialog : public QDialog {
    Q_OBJECT

public:
    // lanes: by name, for those that shall stop in one lane only.
    explicit BreakpointDialog(std::vector<Breakpoint> breakpoints, const QStringList& lanes = {}, QWidget* parent = nullptr);

    // "on copy-on-write, request b": what a breakpoint waits for.
    static QString sentence(const Breakpoint& breakpoint);
    // The fields as this breakpoint, to be added with one click: for a block or request that was pointed at.
    void propose(const Breakpoint& breakpoint);
    // Ids of the session's requests: a breakpoint on another one would never be reached.
    void setRequests(const QStringList& requests);
    const std::vector<Breakpoint>& breakpoints() const { return m_breakpoints; }

private:
    void add();
    void remove();
    void fill();
    Breakpoint fields() const;
    void check();

    std::vector<Breakpoint> m_breakpoints;
    std::optional<QStringList> m_requests;
    QListWidget* m_list;
    QPushButton *m_add, *m_remove;
    QComboBox* m_event;
    QComboBox* m_lane;
    QLineEdit* m_request;
    QSpinBox* m_step;
    QSpinBox* m_block;
    QSpinBox* m_token;
    QSpinBox* m_used;
    QLabel* m_problem;
};

}  // namespace kvloupe
