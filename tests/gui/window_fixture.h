// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the tests of the window share: settings of their own, warnings that fail, and the bundled models opened.
#pragma once

#include "gui/main_window.h"

#include <QCoreApplication>
#include <QRegularExpression>
#include <QSettings>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTest>

#include <stdexcept>

namespace kvloupe::test {

// Settings and data go to `folder`, under names that no user's program has.
inline void keepSettingsIn(const QString& folder, const QString& application) {
    QStandardPaths::setTestModeEnabled(true);
    QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, folder);
    QCoreApplication::setOrganizationName(QStringLiteral("kvloupe-test"));
    QCoreApplication::setApplicationName(application);
}

// Before each test: no settings, and every warning fails but the one that the offscreen platform says about every
// resizable window.
inline void startAfresh() {
    QTest::failOnWarning(QRegularExpression(QStringLiteral("^(?!This plugin does not support propagateSizeHints)")));
    QSettings().clear();
}

// Aborts the test function that calls it, by a throw that Qt Test reports, when nothing opens.
inline void openBundled(MainWindow& window) {
    QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
    window.controller()->openBundled();
    if (!changed.wait(240000) || !window.controller()->hasSession())
        throw std::runtime_error("the bundled models did not open: " + window.notice().toStdString());
}

}  // namespace kvloupe::test
