// SPDX-License-Identifier: GPL-3.0-or-later
//
// Light, dark or the system's choice, and the font scale: applied to the whole application.
#pragma once

#include <QString>

class QApplication;

namespace kvloupe {

enum class Theme { system, light, dark };

Theme themeFromName(const QString& name);
QString nameOf(Theme theme);

// Fusion style with the product's palette and a style sheet for docks, tabs and tool buttons. fontScale: 1.0 = the
// system font's size.
void applyTheme(QApplication& application, Theme theme, double fontScale);

}  // namespace kvloupe
