// SPDX-License-Identifier: GPL-3.0-or-later
//
// A recording in the window at 1600 x 900: how long until its first picture, and from a change of the cursor to the end of painting,
// for random steps and for neighbours. kvloupe_seek_bench FILE.kvt [SEEKS]; kvloupe_kvt_bench --make FILE.kvt MILLIONS makes such a
// file. Runs without a display (QT_QPA_PLATFORM=offscreen is set where it is not given). Settings are its own.
#include "gui/main_window.h"

#include <QApplication>
#include <QElapsedTimer>
#include <QSettings>
#include <QStandardPaths>
#include <QTemporaryDir>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <vector>

namespace {

using namespace kvloupe;

double milliseconds(const QElapsedTimer& timer) { return static_cast<double>(timer.nsecsElapsed()) / 1e6; }

// All that the change led to in this thread: refreshed, laid out and painted.
void settleWindow() {
    QCoreApplication::sendPostedEvents();
    QCoreApplication::processEvents(QEventLoop::ExcludeUserInputEvents);
}

void printTimes(const char* what, std::vector<double>& times, double processor) {
    std::sort(times.begin(), times.end());
    const auto share = [&times](double p) { return times[static_cast<std::size_t>(p * static_cast<double>(times.size() - 1))]; };
    std::printf("%-10s %zu: median %.1f ms, 95th percentile %.1f ms, largest %.1f ms; processor %.1f ms each\n", what, times.size(), share(0.5),
                share(0.95), times.back(), processor / static_cast<double>(times.size()));
}

void measure(const char* what, MainWindow& window, int count, const std::function<int()>& next) {
    Cursor* cursor = window.controller()->cursor();
    std::vector<double> times;
    const std::clock_t begin = std::clock();
    for (int i = 0; i < count; ++i) {
        const int step = next();
        QElapsedTimer timer;
        timer.start();
        cursor->setStep(step);
        settleWindow();
        times.push_back(milliseconds(timer));
    }
    printTimes(what, times, static_cast<double>(std::clock() - begin) * 1e3 / CLOCKS_PER_SEC);
}

}  // namespace

int main(int argc, char** argv) {
    if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
    QApplication application(argc, argv);
    if (argc < 2) {
        std::fprintf(stderr, "kvloupe_seek_bench FILE.kvt [SEEKS]\n");
        return 2;
    }
    const QTemporaryDir home;
    QStandardPaths::setTestModeEnabled(true);
    QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, home.path());
    QCoreApplication::setOrganizationName(QStringLiteral("kvloupe-bench"));
    const int seeks = argc > 2 ? std::max(10, std::atoi(argv[2])) : 200;

    MainWindow window;
    window.resize(1600, 900);
    window.show();
    settleWindow();
    QElapsedTimer opening;
    opening.start();
    SessionController* controller = window.controller();
    bool failed = false;
    QObject::connect(controller, &SessionController::failed, &window, [&failed](const QString& sentence) {
        std::fprintf(stderr, "%s\n", qPrintable(sentence));
        failed = true;
    });
    controller->openPath(QString::fromLocal8Bit(argv[1]));
    while (!controller->hasFile() && !failed) QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
    if (failed) return 1;
    settleWindow();
    std::printf("first      picture after %.0f ms, %d steps\n", milliseconds(opening), controller->cursor()->stepCount());

    // What is read in the background for pictures of the whole run goes on beside the seeks.
    std::uint64_t random = 1;
    const int steps = controller->cursor()->stepCount();
    const auto anywhere = [&random, steps] {
        random = random * 6364136223846793005u + 1442695040888963407u;
        return static_cast<int>((random >> 33) % static_cast<std::uint64_t>(steps));
    };
    measure("seek", window, seeks, anywhere);
    int at = steps - 1;
    measure("backwards", window, seeks, [&at] { return std::max(0, --at); });
    at = steps / 2;
    measure("forwards", window, seeks, [&at, steps] { return std::min(steps - 1, ++at); });
    return 0;
}
