// SPDX-License-Identifier: GPL-3.0-or-later
//
// Renders the tab Profile to PNG, for people to look at: each view alone and all of them as the tab lays them out; light,
// dark, at 125 %, narrow, in a small window. kvloupe_profile_pictures FOLDER [VIEW-ID…] [--layers=N] [--drift=NS] [--bare] [--device=NAME]
// --bare: ceilings not measured.
#include "tests/views/picture_look.h"
#include "tests/views/profile_fixture.h"
#include "views/stages_view.h"
#include "views/view.h"
#include "views/view_factory.h"

#include <QApplication>
#include <QDir>
#include <QPainter>
#include <QStyleFactory>
#include <QTextStream>

namespace {

using namespace kvloupe;

struct Look {
    const char* name;
    bool dark;
    double scale;
    double width, height;   // of a view, relative to its place in a 1600 x 1000 window
};

constexpr Look looks[] = {{"light", false, 1, 1, 1},
                          {"dark", true, 1, 1, 1},
                          {"125", false, 1.25, 1.25, 1.25},
                          {"narrow", false, 1, 0.5, 0.8},
                          {"window125", false, 1.25, 0.86, 0.77},
                          {"small", false, 1, 0.3, 0.4}};

// As in the default layout.
QRect placeOf(const QString& id) {
    if (id == QLatin1String("step-timeline")) return {0, 0, 1600, 210};
    if (id == QLatin1String("layers")) return {0, 216, 530, 285};
    if (id == QLatin1String("roofline")) return {535, 216, 530, 285};
    if (id == QLatin1String("time-per-token")) return {1070, 216, 530, 285};
    return {0, 507, 1600, 310};
}

}  // namespace

int main(int argc, char** argv) {
    QApplication app(argc, argv);
    QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
    QStringList arguments = QApplication::arguments().mid(1);
    ProfileOptions options;
    bool bare = false;
    for (const QString& argument : QStringList(arguments)) {
        if (!argument.startsWith(QLatin1String("--"))) continue;
        const QString value = argument.section(QLatin1Char('='), 1);
        if (argument.startsWith(QLatin1String("--layers="))) options.layers = static_cast<std::uint16_t>(value.toInt());
        if (argument.startsWith(QLatin1String("--device="))) options.device = value.toStdString();
        if (argument.startsWith(QLatin1String("--drift="))) options.drift_ns = value.toULongLong();
        bare = bare || argument == QLatin1String("--bare");
        arguments.removeAll(argument);
    }
    if (arguments.isEmpty()) {
        QTextStream(stderr) << "kvloupe_profile_pictures FOLDER [VIEW-ID…] [--layers=N] [--drift=NS] [--bare] [--device=NAME]\n";
        return 2;
    }
    const QDir folder(arguments.takeFirst());
    folder.mkpath(QStringLiteral("."));
    const auto recording = ProfileRecording::make(options);
    for (const Look& look : looks) {
        applyLook(look.dark, look.scale);
        Cursor cursor;
        cursor.setFontScale(look.scale);
        cursor.setRecording(recording);
        cursor.setStep(40);
        QImage tab(qRound(1600 * look.width), qRound(817 * look.height), QImage::Format_ARGB32_Premultiplied);
        tab.fill(look.dark ? Palette::darkTheme().window : Palette::light().window);
        QPainter painter(&tab);
        for (const ViewDescription& description : viewDescriptions()) {
            if (description.tab != QLatin1String("Profile") || description.id == QLatin1String("sweep")) continue;
            if (!arguments.isEmpty() && !arguments.contains(description.id)) continue;
            const auto view = createView(description.id, &cursor);
            if (auto* held = dynamic_cast<CeilingsView*>(view.get()); held && !bare) held->setCeilings(profileCeilings());
            const QRect place = placeOf(description.id);
            view->resize(qRound(place.width() * look.width), qRound(place.height() * look.height));
            view->show();
            QApplication::processEvents();
            const QString name = folder.filePath(description.id + QLatin1Char('-') + QLatin1String(look.name));
            const QPixmap shown = view->grab();
            shown.save(name + QStringLiteral(".png"));
            painter.drawPixmap(QPointF(place.x() * look.width, place.y() * look.height), shown);
            view->exportTo(name + QStringLiteral("-export.png"));
            view->exportTo(name + QStringLiteral("-export.svg"));
            if (auto* stages = qobject_cast<StagesView*>(view.get())) {
                stages->setPinned(true);
                cursor.setStep(56);
                QApplication::processEvents();
                view->grab().save(name + QStringLiteral("-pinned.png"));
                cursor.setStep(40);
            }
        }
        painter.end();
        if (arguments.isEmpty())
            tab.save(folder.filePath(QStringLiteral("tab-") + QLatin1String(look.name) + QStringLiteral(".png")));
    }
    return 0;
}
