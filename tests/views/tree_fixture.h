// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the tests of scheduler, prefix tree and genealogy share: the sharing demo, its lanes, and input as a user gives it.
#pragma once

#include <QObject>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "tests/support/demo_sharing.h"
#include "views/cursor.h"
#include "views/view.h"

#include <QApplication>
#include <QMouseEvent>
#include <QTest>
#include <QWheelEvent>

namespace kvloupe {

inline const std::shared_ptr<const Recording>& sharingDemo() {
    static const auto recording = demo_sharing_recording();
    return recording;
}

inline LaneId laneNamed(const Recording& recording, const char* name) {
    for (std::uint32_t lane = 0; lane < recording.lanes().size(); ++lane)
        if (recording.lanes()[lane]->info().name == name) return LaneId(lane);
    qFatal("no lane %s", name);
}

// Forwards and back, every kind of moment: sharing, copies, a full pool, preemption, the end.
inline std::vector<int> momentsOf(const Recording& recording) {
    const int last = static_cast<int>(recording.lanes()[0]->step_count()) - 1;
    return {0, 8, 9, 20, 21, 45, 96, 115, 150, last, 200, 120, 50, 21, 9, 4, 0};
}

inline void lanesAsRows(std::initializer_list<const char*> names) {
    QTest::addColumn<QString>("lane");
    for (const char* name : names) QTest::newRow(name) << QString::fromLatin1(name);
}

inline std::vector<QStringList> csvRows(const QString& csv) {
    std::vector<QStringList> rows;
    QStringList fields;
    QString field;
    bool quoted = false;
    for (qsizetype i = 0; i < csv.size(); ++i) {
        const QChar c = csv[i];
        if (c == QLatin1Char('"')) {
            if (quoted && i + 1 < csv.size() && csv[i + 1] == QLatin1Char('"')) field += csv[i++];
            else quoted = !quoted;
        } else if (quoted || (c != QLatin1Char(',') && c != QLatin1Char('\r') && c != QLatin1Char('\n'))) {
            field += c;
        } else if (c == QLatin1Char(',')) {
            fields << std::exchange(field, {});
        } else if (c == QLatin1Char('\n')) {
            fields << std::exchange(field, {});
            rows.push_back(std::exchange(fields, {}));
        }
    }
    return rows;
}

inline void wheelAt(View& view, const QPointF& point, int turns, Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
    QWheelEvent wheel(point, view.mapToGlobal(point), {}, QPoint(0, 120 * turns), Qt::NoButton, modifiers, Qt::NoScrollPhase, false);
    QCoreApplication::sendEvent(&view, &wheel);
}

inline void moveTo(View& view, const QPointF& point) {
    QMouseEvent event(QEvent::MouseMove, point, view.mapToGlobal(point), Qt::NoButton, Qt::NoButton, Qt::NoModifier);
    QCoreApplication::sendEvent(&view, &event);
}

inline void clickAt(View& view, const QPointF& point) { QTest::mouseClick(&view, Qt::LeftButton, {}, point.toPoint()); }

// Shows the view and gives it the focus as Tab does.
inline void showFor(View& view, const QSize& size) {
    view.resize(size);
    view.show();
    QVERIFY(QTest::qWaitForWindowExposed(&view));
    view.setFocus(Qt::TabFocusReason);
}

// Draws at every moment, in both themes and from tiny to large; a warning of Qt fails the test that calls it.
inline void paintsEverywhere(View& view, Cursor& cursor) {
    const QPalette before = QApplication::palette();
    for (const bool dark : {false, true}) {
        QPalette palette;
        const Palette& colours = dark ? Palette::darkTheme() : Palette::light();
        palette.setColor(QPalette::Window, colours.window);
        palette.setColor(QPalette::WindowText, colours.ink1);
        view.setPalette(palette);
        for (const QSize& size : {QSize(1, 1), QSize(60, 40), QSize(420, 300), QSize(1600, 900)}) {
            view.resize(size);
            for (const int step : {0, 20, 150, 239, 9}) {
                cursor.setStep(step);
                QVERIFY(!view.image().isNull());
                QVERIFY(!view.image(1.25).isNull());
            }
        }
    }
    view.setPalette(before);
}

}  // namespace kvloupe
