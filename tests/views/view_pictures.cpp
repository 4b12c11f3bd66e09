// SPDX-License-Identifier: GPL-3.0-or-later
//
// Renders every view to PNG so that a person can look at it: light, dark, small, and at 125 %.
// kvloupe_view_pictures FOLDER [VIEW-ID…] [--svg] [--small | --sharing[=LANE]] [--choose=KEY:INDEX] [@STEP]
#include "tests/support/demo_recording.h"
#include "tests/support/demo_sharing.h"
#include "tests/views/picture_look.h"
#include "tests/views/sharing_fixture.h"
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
    double size;  // of the view, relative to its place in a 1600 x 1000 window
};

constexpr Look looks[] = {
    {"light", false, 1, 1}, {"dark", true, 1, 1}, {"small", false, 1, 0.55}, {"125", false, 1.25, 1}};

QSize placeOf(const QString& id) {
    if (id == QLatin1String("lanes")) return {250, 170};
    if (id == QLatin1String("requests")) return {250, 370};
    if (id == QLatin1String("inspector")) return {250, 380};
    if (id == QLatin1String("tokens")) return {885, 230};
    if (id == QLatin1String("pool")) return {885, 430};
    if (id == QLatin1String("attention")) return {445, 470};
    if (id == QLatin1String("next-token")) return {445, 190};
    if (id == QLatin1String("timeline")) return {1340, 110};
    if (id == QLatin1String("events")) return {1340, 170};
    if (id == QLatin1String("schedule")) return {1035, 300};
    if (id == QLatin1String("prefix-tree")) return {560, 450};
    return {700, 380};
}

}  // namespace

int main(int argc, char** argv) {
    QApplication app(argc, argv);
    QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
    QStringList arguments = QApplication::arguments().mid(1);
    // --small: the recording of seven steps; --sharing: lanes that share, copy, evict and preempt.
    const bool small = arguments.removeAll(QStringLiteral("--small")) > 0;
    QString sharing, chosen;
    for (const QString& argument : QStringList(arguments))
        if (argument.startsWith(QLatin1String("--choose="))) {  // --choose=colour:2
            chosen = argument.section(QLatin1Char('='), 1);
            arguments.removeAll(argument);
        } else if (argument.startsWith(QLatin1String("--sharing"))) {
            sharing = argument.contains(QLatin1Char('=')) ? argument.section(QLatin1Char('='), 1) : QStringLiteral("paged");
            arguments.removeAll(argument);
        }
    const bool svg = arguments.removeAll(QStringLiteral("--svg")) > 0;
    const int step = arguments.size() > 1 && arguments.last().startsWith(QLatin1Char('@'))
                         ? arguments.takeLast().mid(1).toInt() : small ? 2 : sharing.isEmpty() ? 60 : 23;
    if (arguments.isEmpty()) {
        QTextStream(stderr) << "kvloupe_view_pictures FOLDER [VIEW-ID…] [--svg] [--small | --sharing[=LANE]] [@STEP]\n";
        return 2;
    }
    const QDir folder(arguments.takeFirst());
    folder.mkpath(QStringLiteral("."));
    const auto recording = small               ? SharingFixture().record()
                           : sharing.isEmpty() ? demo_recording()
                                               : demo_sharing_recording();
    std::uint32_t lane = small ? 0 : 1;
    for (std::uint32_t i = 0; !sharing.isEmpty() && i < recording->lanes().size(); ++i)
        if (QString::fromStdString(recording->lane(LaneId(i)).info().name) == sharing) lane = i;
    for (const Look& look : looks) {
        applyLook(look.dark, look.scale);
        Cursor cursor;
        cursor.setFontScale(look.scale);
        cursor.setRecording(recording);
        cursor.setLane(LaneId(lane));
        cursor.setStep(step);
        cursor.setHead(2, 5);
        for (const ViewDescription& description : viewDescriptions()) {
            if (!arguments.isEmpty() && !arguments.contains(description.id)) continue;
            const auto view = createView(description.id, &cursor);
            if (!chosen.isEmpty()) view->choose(chosen.section(QLatin1Char(':'), 0, 0), chosen.section(QLatin1Char(':'), 1).toInt());
            view->resize(placeOf(description.id) * look.scale * look.size);
            view->show();
            Pick pick;
            pick.lane = cursor.lane();
            pick.sequence = SequenceId(0);
            pick.position = small ? 9 : 37;
            if (cursor.state() && !cursor.state()->sequences()[0].table.empty())
                pick.block = cursor.state()->sequences()[0].table[2];
            cursor.lock(pick);
            QApplication::processEvents();
            const QString name = folder.filePath(description.id + QLatin1Char('-') + QLatin1String(look.name));
            // As on the screen, children included; the export beside it.
            view->grab().save(name + QStringLiteral(".png"));
            if (svg) view->exportTo(name + QStringLiteral(".svg"));
            view->exportTo(name + QStringLiteral("-export.png"));
            cursor.clear();
        }
    }
    return 0;
}
