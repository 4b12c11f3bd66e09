// SPDX-License-Identifier: GPL-3.0-or-later
//
// Takes pictures of what blocks hold, in lanes of a scenario that runs: cache values, latent, window; light, dark, at 125 % and in a
// small window. kvloupe_value_pictures FOLDER SCENARIO STEPS [--position=N] [LANE…]
#include "gui/environment.h"
#include "gui/main_window.h"
#include "gui/tab_page.h"
#include "views/view.h"

#include <QApplication>
#include <QDir>
#include <QElapsedTimer>
#include <QEventLoop>
#include <QSettings>
#include <QTimer>

#include <functional>
#include <iostream>
#include <optional>

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

struct Look {
    const char* name;
    Theme theme;
    double scale;
    QSize size;
};

}  // namespace

int main(int argc, char** argv) {
    QApplication application(argc, argv);
    QCoreApplication::setOrganizationName(QStringLiteral("kvloupe-pictures"));
    QCoreApplication::setApplicationName(QStringLiteral("kvloupe-pictures"));
    if (argc < 4) {
        std::cerr << "kvloupe_value_pictures FOLDER SCENARIO STEPS [--position=N] [LANE…]\n";
        return 2;
    }
    set_up_logging();
    QSettings().clear();
    const QDir folder(QString::fromLocal8Bit(argv[1]));
    folder.mkpath(QStringLiteral("."));
    MainWindow window;
    window.resize(1600, 1000);
    window.show();
    SessionController* controller = window.controller();
    controller->openPath(QString::fromLocal8Bit(argv[2]));
    const auto idle = [&] { return controller->hasSession() && controller->phase() != Phase::running && controller->cursor()->stepCount() > 0; };
    if (!until(idle, 120000)) {
        std::cerr << window.notice().toStdString() << "\n";
        return 1;
    }
    window.showView(QStringLiteral("cache-values"));
    Cursor* cursor = controller->cursor();
    QStringList wanted = QApplication::arguments().mid(4);
    std::optional<std::uint32_t> position;  // of the token whose block is locked
    if (!wanted.isEmpty() && wanted.first().startsWith(QLatin1String("--position="))) position = wanted.takeFirst().section(QLatin1Char('='), 1).toUInt();
    const auto lanes = cursor->recording()->lanes().size();
    // Every lane is looked at once and then started over, so that what all values were before is known.
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        cursor->setLane(LaneId(lane));
        pass(60);
    }
    controller->reset();
    if (!until(idle, 60000)) return 1;
    const int steps = QString::fromLocal8Bit(argv[3]).toInt();
    controller->step(static_cast<unsigned>(steps));
    if (!until([&] { return idle() && (cursor->stepCount() > steps || controller->phase() == Phase::finished); }, 300000)) return 1;
    const Look looks[] = {{"light", Theme::light, 1, {1600, 1000}},
                          {"dark", Theme::dark, 1, {1600, 1000}},
                          {"125", Theme::light, 1.25, {1600, 1000}},
                          {"laptop", Theme::light, 1, {1366, 768}}};
    for (const Look& look : looks) {
        window.setTheme(look.theme);
        window.setFontScale(look.scale);
        window.resize(look.size);
        for (std::uint32_t lane = 0; lane < lanes; ++lane) {
            const QString name = QString::fromStdString(cursor->recording()->lane(LaneId(lane)).info().name);
            if (!wanted.isEmpty() && !wanted.contains(name)) continue;
            cursor->setLane(LaneId(lane));
            cursor->setHead(1, cursor->head());
            if (position) {
                Pick pick;
                pick.lane = LaneId(lane);
                pick.sequence = SequenceId(0);
                pick.position = position;
                cursor->lock(pick);
            }
            for (const char* id : {"cache-values", "latent", "window"}) {
                window.showView(QLatin1String(id));
                pass(200);
                const QString file = QStringLiteral("%1-%2-%3").arg(QLatin1String(id), QString(name).replace(QLatin1Char(' '), QLatin1Char('_')), QLatin1String(look.name));
                if (qstrcmp(look.name, "laptop") == 0) window.grab().save(folder.filePath(file + QStringLiteral(".png")));
                for (View* view : window.page(2)->views())
                    if (view->id() == QLatin1String(id)) view->grab().save(folder.filePath(file + QStringLiteral("-view.png")));
                std::cout << file.toStdString() << std::endl;
            }
        }
    }
    return 0;
}
