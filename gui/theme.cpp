// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/theme.h"

#include "views/palette.h"

#include <QApplication>
#include <QFont>
#include <QPalette>
#include <QProxyStyle>
#include <QStyleFactory>

namespace kvloupe {

namespace {

// The system's own choice, taken once before any palette of ours is set.
bool systemIsDark() {
    static const bool dark = QApplication::palette().color(QPalette::Window).lightness() < 128;
    return dark;
}

double systemPointSize() {
    static const double size = QApplication::font().pointSizeF();
    return size > 0 ? size : 9.0;
}

constexpr int tip_delay_ms = 150;  // design/NOTES, states: tips come after 150 ms

// Fusion with early tips.
class WindowStyle : public QProxyStyle {
public:
    WindowStyle() : QProxyStyle(QStyleFactory::create(QStringLiteral("Fusion"))) {}

    int styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget, QStyleHintReturn* data) const override {
        return hint == SH_ToolTip_WakeUpDelay ? tip_delay_ms : QProxyStyle::styleHint(hint, option, widget, data);
    }
};

QString styleSheet(const Palette& colours) {
    return QStringLiteral(
               "QMainWindow, QDialog { background: %1; }"
               "QToolBar { background: %1; border: 0; border-bottom: 1px solid %3; spacing: 4px; padding: 4px 8px; }"
               "QStatusBar { background: %1; border-top: 1px solid %3; }"
               "QStatusBar::item { border: 0; }"
               "QToolButton { padding: 4px 9px; border: 1px solid %3; border-radius: 4px; background: %2; color: %4; }"
               "QToolButton:hover { border-color: %5; }"
               "QToolButton:checked, QToolButton:pressed { background: %6; border-color: %5; }"
               "QToolButton:focus { border-color: %5; }"
               "QToolButton:disabled { color: %7; background: transparent; }"
               "QToolButton#dockButton { padding: 1px; border: 1px solid transparent; background: transparent; }"
               "QToolButton#dockButton:hover, QToolButton#dockButton:focus { border-color: %3; }"
               "QToolButton#dockChoice { padding: 0 6px; border: 1px solid %3; border-radius: 4px; background: %2; color: %9; }"
               "QToolButton#dockChoice::menu-indicator { image: none; }"
               "QToolButton#dockChoice:hover, QToolButton#dockChoice:focus { border-color: %5; }"
               "QTableView, QTreeView, QListView { background: %2; border: 0; gridline-color: %8; "
               "selection-background-color: %6; selection-color: %4; }"
               "QHeaderView::section { background: %2; color: %9; border: 0; border-bottom: 1px solid %3; "
               "padding: 3px 6px; }"
               "QMainWindow::separator { background: %1; width: 6px; height: 6px; }"
               "QToolTip { background: %2; color: %4; border: 1px solid %3; padding: 3px; }")
        .arg(colours.window.name(), colours.panel.name(), colours.line.name(), colours.ink1.name(),
             colours.accent.name(), colours.selectedRow.name(), colours.ink3.name(), colours.grid.name(),
             colours.ink2.name());
}

}  // namespace

Theme themeFromName(const QString& name) {
    if (name == QLatin1String("light")) return Theme::light;
    if (name == QLatin1String("dark")) return Theme::dark;
    return Theme::system;
}

QString nameOf(Theme theme) {
    switch (theme) {
    case Theme::light: return QStringLiteral("light");
    case Theme::dark: return QStringLiteral("dark");
    case Theme::system: break;
    }
    return QStringLiteral("system");
}

void applyTheme(QApplication& application, Theme theme, double fontScale) {
    const bool dark = theme == Theme::dark || (theme == Theme::system && systemIsDark());
    const double points = systemPointSize();
    const Palette& colours = dark ? Palette::darkTheme() : Palette::light();

    QPalette palette;
    palette.setColor(QPalette::Window, colours.window);
    palette.setColor(QPalette::WindowText, colours.ink1);
    palette.setColor(QPalette::Base, colours.panel);
    palette.setColor(QPalette::AlternateBase, colours.head);
    palette.setColor(QPalette::Text, colours.ink1);
    palette.setColor(QPalette::Button, colours.panel);
    palette.setColor(QPalette::ButtonText, colours.ink1);
    palette.setColor(QPalette::ToolTipBase, colours.panel);
    palette.setColor(QPalette::ToolTipText, colours.ink1);
    palette.setColor(QPalette::PlaceholderText, colours.ink3);
    palette.setColor(QPalette::Highlight, colours.accent);
    palette.setColor(QPalette::HighlightedText, colours.panel);
    palette.setColor(QPalette::Link, colours.accent);
    palette.setColor(QPalette::Light, colours.panel);
    palette.setColor(QPalette::Mid, colours.line);
    palette.setColor(QPalette::Dark, colours.line.darker(120));
    for (const QPalette::ColorRole role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
        palette.setColor(QPalette::Disabled, role, colours.ink3);

    QApplication::setStyle(new WindowStyle);
    QFont font = QApplication::font();
    font.setPointSizeF(points * fontScale);
    QApplication::setFont(font);
    QApplication::setPalette(palette);
    application.setStyleSheet(styleSheet(colours));
}

}  // namespace kvloupe
