// SPDX-License-Identifier: GPL-3.0-or-later
//
// Pictures of the window with two recordings side by side: kvloupe_comparing_pictures FOLDER A.kvt B.kvt [STEP]
#include "gui/comparing.h"
#include "gui/environment.h"
#include "gui/main_window.h"
#include "views/difference_view.h"

#include <QApplication>
#include <QDir>
#include <QElapsedTimer>
#include <QEventLoop>
#include <QSettings>
#include <QTimer>

#include <iostream>

using namespace kvloupe;

namespace {

void pass(int milliseconds) {
    QEventLoop loop;
    QTimer::singleShot(milliseconds, &loop, &QEventLoop::quit);
    loop.exec();
}

bool until(const std::function<bool()>& condition, int milliseconds) {
    QElapsedTimer timer;
    timer.start();
    while (!condition() && timer.elapsed() < milliseconds) pass(20);
    return condition();
}

}  // namespace

int main(int argc, char** argv) {
    QApplication application(argc, argv);
    QCoreApplication::setOrganizationName(QStringLiteral("kvloupe-pictures"));
    QCoreApplication::setApplicationName(QStringLiteral("kvloupe-pictures"));
    if (argc < 4) {
        std::cerr << "Usage: kvloupe_comparing_pictures FOLDER A.kvt B.kvt [STEP]\n";
        return 2;
    }
    set_up_logging();
    const QDir folder(QString::fromLocal8Bit(argv[1]));
    folder.mkpath(QStringLiteral("."));
    QSettings().clear();
    MainWindow window;
    window.resize(1366, 768);
    window.show();
    window.controller()->openPath(QString::fromLocal8Bit(argv[2]));
    if (!until([&] { return window.controller()->hasFile(); }, 20000)) return 1;
    window.comparing()->open(QString::fromLocal8Bit(argv[3]));
    Cursor* cursor = window.controller()->cursor();
    if (!until([&] { return cursor->reference() != nullptr; }, 20000)) {
        std::cerr << window.notice().toStdString() << "\n";
        return 1;
    }
    cursor->setStep(argc > 4 ? QString::fromLocal8Bit(argv[4]).toInt() : cursor->stepCount() / 2);
    const auto take = [&](const QString& name) {
        pass(250);
        window.grab().save(folder.filePath(name + QStringLiteral(".png")));
        std::cout << name.toStdString() << std::endl;
    };
    const char* const tabs[] = {"step", "compare", "memory"};
    for (const Theme theme : {Theme::light, Theme::dark})
        for (const QSize& size : {QSize(1366, 768), QSize(1600, 900)}) {
            window.setTheme(theme);
            window.resize(size);
            for (int tab = 0; tab < 3; ++tab) {
                window.showTab(tab);
                if (tab == 1) {
                    window.showView(QStringLiteral("difference"));
                    for (View* view : window.views())
                        if (auto* table = qobject_cast<DifferenceView*>(view)) table->settle();
                }
                take(QStringLiteral("%1-%2-%3").arg(QLatin1String(tabs[tab]), nameOf(theme)).arg(size.width()));
            }
        }
    return 0;
}
