// SPDX-License-Identifier: GPL-3.0-or-later
//
// Renders scheduler, prefix tree and genealogy of the sharing demo to PNG, so that a person can look at them: light, dark,
// small, large, at 125 %, on several lanes and steps. kvloupe_tree_pictures FOLDER [VIEW-ID…]
#include "tests/support/demo_sharing.h"
#include "tests/views/picture_look.h"
#include "views/view.h"
#include "views/view_factory.h"

#include <QApplication>
#include <QDir>
#include <QStyleFactory>
#include <QTextStream>

namespace {

using namespace kvloupe;

struct Look {
    const char* name;
    bool dark;
    double scale;
    QSize size;
};

const Look looks[] = {{"light", false, 1, {1035, 330}},
                      {"dark", true, 1, {700, 460}},
                      {"small", false, 1, {420, 300}},
                      {"125", false, 1.25, {900, 500}},
                      {"large", false, 1, {1600, 900}}};

struct Moment {
    const char* lane;
    int step;
    bool locks;  // the block that a holds third
};

const Moment moments[] = {{"paged", 24, true}, {"paged", 120, false}, {"paged", 206, false}, {"swap", 200, false},
                          {"windows", 60, false}, {"radix", 150, true}, {"oracle", 100, false}};

}  // namespace

int main(int argc, char** argv) {
    QApplication app(argc, argv);
    QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
    QStringList ids = QApplication::arguments().mid(1);
    if (ids.isEmpty()) {
        QTextStream(stderr) << "kvloupe_tree_pictures FOLDER [VIEW-ID…]\n";
        return 2;
    }
    const QDir folder(ids.takeFirst());
    folder.mkpath(QStringLiteral("."));
    if (ids.isEmpty()) ids = QStringList{QStringLiteral("schedule"), QStringLiteral("prefix-tree"), QStringLiteral("genealogy")};
    const auto recording = demo_sharing_recording();
    for (const Look& look : looks) {
        applyLook(look.dark, look.scale);
        for (const Moment& moment : moments) {
            Cursor cursor;
            cursor.setFontScale(look.scale);
            cursor.setRecording(recording);
            for (std::uint32_t lane = 0; lane < recording->lanes().size(); ++lane)
                if (recording->lanes()[lane]->info().name == moment.lane) cursor.setLane(LaneId(lane));
            cursor.setStep(moment.step);
            for (const QString& id : ids) {
                const auto view = createView(id, &cursor);
                view->resize(look.size);
                view->show();
                if (moment.locks && cursor.state()->sequences()[0].table.size() > 2) {
                    Pick pick;
                    pick.lane = cursor.lane();
                    pick.sequence = SequenceId(0);
                    pick.block = cursor.state()->sequences()[0].table[2];
                    cursor.lock(pick);
                }
                QApplication::processEvents();
                const QString name = QStringLiteral("%1-%2-%3-%4.png").arg(id, QLatin1String(look.name), QLatin1String(moment.lane)).arg(moment.step);
                view->grab().save(folder.filePath(name));
                QTextStream(stdout) << name << ": " << view->subtitle() << '\n';
                cursor.clear();
            }
        }
    }
    return 0;
}
