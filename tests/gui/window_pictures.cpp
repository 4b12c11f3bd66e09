// SPDX-License-Identifier: GPL-3.0-or-later
//
// Takes pictures of the window in the states that are looked at before a release: kvloupe_window_pictures FOLDER [MODEL]
#include "gui/main_window.h"
#include "gui/branch_dialog.h"
#include "gui/convert_dialog.h"
#include "gui/environment.h"
#include "gui/picture_sequence_dialog.h"
#include "gui/quality_dialog.h"
#include "gui/recording_dialogs.h"
#include "gui/size_dialog.h"
#include "views/cursor.h"

#include <QApplication>
#include <QComboBox>
#include <QDir>
#include <QElapsedTimer>
#include <QEventLoop>
#include <QSettings>
#include <QSpinBox>
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

// Dialogs of branches, conversions and of quality over the window's session, in the window's type size.
void takeDialogs(MainWindow& window, const QDir& folder, const QString& suffix) {
    const auto take = [&](QDialog& dialog, const char* name) {
        dialog.show();
        pass(150);
        dialog.grab().save(folder.filePath(QStringLiteral("%1-%2.png").arg(QLatin1String(name), suffix)));
        std::cout << name << '-' << suffix.toStdString() << std::endl;
    };
    StepRangeDialog range(128, 20, 90, &window);
    take(range, "save-range");
    FlightDialog flight({}, &window);
    take(flight, "flight");
    PictureSequence sequence;
    sequence.view = QStringLiteral("pool");
    sequence.last = 90;
    sequence.folder = QStringLiteral("/home/user/pictures");
    PictureSequenceDialog pictures(sequence, 128, &window);
    take(pictures, "pictures");
    BranchDialog branch(window.controller()->recording(), {LaneId(1), SequenceId(0), 5},
                        [&](const BranchWish& wish) { return window.controller()->branched(wish); }, &window);
    take(branch, "branch");
    branch.findChild<QSpinBox*>(QStringLiteral("step"))->setValue(100000);
    take(branch, "branch-refused");
    for (const int to : {0, 1, 2}) {
        ConvertDialog dialog(window.convertSources(), 0, {}, &window);
        dialog.findChild<QComboBox*>(QStringLiteral("to"))->setCurrentIndex(to);
        if (to == 2) {
            dialog.findChild<QComboBox*>(QStringLiteral("widths"))->setCurrentIndex(1);
            dialog.findChild<QComboBox*>(QStringLiteral("by"))->setCurrentIndex(1);
        }
        take(dialog, to == 0 ? "convert-gqa" : to == 1 ? "convert-mqa" : "convert-mla");
    }
    ConvertDialog refused(window.convertSources(), window.convertSources().size() - 1, {}, &window);
    refused.findChild<QComboBox*>(QStringLiteral("to"))->setCurrentIndex(0);
    take(refused, "convert-refused");
    for (const bool stories : {true, false}) {
        QualityDialog dialog({QStringLiteral("MHA"), QStringLiteral("GQA"), QStringLiteral("MQA")}, stories, &window);
        take(dialog, stories ? "quality-stories" : "quality-prose");
        if (stories) continue;
        dialog.setFile(QStringLiteral("/absent.txt"));
        take(dialog, "quality-absent");
    }
}

}  // namespace

int main(int argc, char** argv) {
    QApplication application(argc, argv);
    QCoreApplication::setOrganizationName(QStringLiteral("kvloupe-pictures"));
    QCoreApplication::setApplicationName(QStringLiteral("kvloupe-pictures"));
    if (argc < 2) {
        std::cerr << "Usage: kvloupe_window_pictures FOLDER [MODEL]\n";
        return 2;
    }
    set_up_logging();
    const QDir folder(QString::fromLocal8Bit(argv[1]));
    folder.mkpath(QStringLiteral("."));
    QSettings().clear();

    MainWindow window;
    window.resize(1600, 1000);
    window.show();
    const auto take = [&](const char* name) {
        pass(150);
        window.grab().save(folder.filePath(QLatin1String(name) + QLatin1String(".png")));
        std::cout << name << std::endl;
    };
    const auto idle = [&] {
        return window.controller()->hasSession() && window.controller()->phase() != Phase::running &&
               window.controller()->cursor()->stepCount() > 0;
    };
    window.setTheme(Theme::light);
    take("empty-light");
    if (argc > 2)
        window.controller()->openPath(QString::fromLocal8Bit(argv[2]));
    else
        window.controller()->openBundled();
    if (!until(idle, 120000)) {
        std::cerr << window.notice().toStdString() << "\n";
        return 1;
    }
    take("first-step-light");
    window.controller()->run();
    pass(200);
    if (!until(idle, 120000)) return 1;
    Cursor* cursor = window.controller()->cursor();
    const char* const tabs[] = {"step", "compare", "memory", "profile"};
    for (const Theme theme : {Theme::light, Theme::dark}) {
        window.setTheme(theme);
        for (int tab = 0; tab < 4; ++tab) {
            window.showTab(tab);
            take(qPrintable(QStringLiteral("run-%1-%2").arg(QLatin1String(tabs[tab]), nameOf(theme))));
        }
    }
    const auto known = known_models();
    if (!known) {
        std::cerr << known.error().message() << "\n";
        return 1;
    }
    for (const Theme theme : {Theme::light, Theme::dark}) {
        window.setTheme(theme);
        for (const char* model : {"", "Gemma-3-12B", "DeepSeek-V2", "Lama-3-8B"}) {
            SizeDialog dialog(*known, QLatin1String(model), &window);
            dialog.show();
            pass(150);
            dialog.grab().save(folder.filePath(QStringLiteral("size-%1-%2.png").arg(QLatin1String(model), nameOf(theme))));
        }
    }
    for (const Theme theme : {Theme::light, Theme::dark})
        for (const double scale : {1.0, 1.25}) {
            window.setTheme(theme);
            window.setFontScale(scale);
            takeDialogs(window, folder, QStringLiteral("%1-%2").arg(nameOf(theme)).arg(int(100 * scale)));
        }
    window.setFontScale(1.0);
    window.setTheme(Theme::light);
    window.showTab(0);
    cursor->setStep(cursor->stepCount() / 2);
    Pick pick;
    pick.lane = cursor->lane();
    pick.sequence = SequenceId(0);
    pick.position = 20;
    pick.block = cursor->state() && !cursor->state()->sequences().empty() &&
                         cursor->state()->sequences()[0].table.size() > 1
                     ? std::optional(cursor->state()->sequences()[0].table[1])
                     : std::nullopt;
    cursor->lock(pick);
    take("locked-light");
    cursor->clear();
    window.resize(1366, 768);
    for (int tab = 0; tab < 4; ++tab) {
        window.showTab(tab);
        take(qPrintable(QStringLiteral("laptop-%1").arg(QLatin1String(tabs[tab]))));
    }
    window.setFontScale(1.5);
    window.resize(1920, 1080);
    window.setTheme(Theme::dark);
    for (int tab = 0; tab < 4; ++tab) {
        window.showTab(tab);
        take(qPrintable(QStringLiteral("projector-%1").arg(QLatin1String(tabs[tab]))));
    }
    return 0;
}
