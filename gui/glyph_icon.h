// SPDX-License-Identifier: GPL-3.0-or-later
//
// Icons drawn in the theme's ink at any size, so that light, dark and scaled screens need no files.
#pragma once

#include <QIcon>

class QWidget;

namespace kvloupe {

// names: rewind, step-back, step, run, pause, stop, open, export, copy, float, close, add, breakpoint, app
QIcon glyphIcon(const QString& name, const QWidget* themed);

}  // namespace kvloupe
