// SPDX-License-Identifier: GPL-3.0-or-later
//
// How the programs that render views for people to look at dress the application: theme and type at a scale.
#pragma once

#include <QApplication>
#include <QFont>
#include <QPalette>

#include "views/palette.h"

namespace kvloupe {

// For widgets made from now on. scale: 1.25 for 125 %.
inline void applyLook(bool dark, double scale) {
    const Palette& colours = dark ? Palette::darkTheme() : Palette::light();
    QPalette palette;
    palette.setColor(QPalette::Window, colours.window);
    palette.setColor(QPalette::WindowText, colours.ink1);
    palette.setColor(QPalette::Base, colours.panel);
    palette.setColor(QPalette::Text, colours.ink1);
    palette.setColor(QPalette::Button, colours.head);
    palette.setColor(QPalette::ButtonText, colours.ink1);
    palette.setColor(QPalette::Highlight, colours.selectedRow);
    palette.setColor(QPalette::HighlightedText, colours.ink1);
    QApplication::setPalette(palette);
    QFont font = QApplication::font();
    font.setFamily(QStringLiteral("Inter"));
    font.setPixelSize(qRound(12 * scale));
    QApplication::setFont(font);
}

}  // namespace kvloupe
