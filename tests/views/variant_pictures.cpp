// SPDX-License-Identifier: GPL-3.0-or-later
//
// Renders quality, parameters and ledger of six lanes to PNG, for people to look at: light, dark, narrow, at 125 %, and empty.
// kvloupe_variant_pictures FOLDER [VIEW-ID…]
#include "tests/views/picture_look.h"
#include "tests/views/variants_fixture.h"
#include "views/ledger_view.h"
#include "views/parameters_view.h"
#include "views/quality_view.h"

#include <QApplication>
#include <QDir>
#include <QStyleFactory>
#include <QTableView>
#include <QTextStream>

#include <functional>

namespace {

using namespace kvloupe;

struct Look {
    const char* name;
    bool dark;
    double scale;
};

constexpr Look variant_looks[] = {{"light", false, 1}, {"dark", true, 1}, {"125", false, 1.25}, {"projector", false, 2}};

struct Picture {
    QString name;
    QSize size;
    std::function<std::unique_ptr<View>(Cursor*)> create;
};

std::unique_ptr<View> quality(Cursor* cursor, int show, std::shared_ptr<const QualityReport> report) {
    auto view = std::make_unique<QualityView>(cursor);
    view->setQuality(std::move(report));
    view->choose(QStringLiteral("show"), show);
    return view;
}

std::vector<Picture> pictures() {
    const auto report = variantsQuality();
    auto running = variantsQuality();
    running->state = QualityReport::State::running;
    running->texts = 64;
    running->lanes.resize(3);
    auto failed = variantsQuality();
    failed->lanes[3] = LaneQuality{};
    failed->lanes[3].lane = "MLA";
    failed->lanes[3].failure = "the logits of a step are not finite, first in layer 2";
    return {
        {"quality", {500, 290}, [=](Cursor* c) { return quality(c, 0, report); }},
        {"quality-small", {426, 206}, [=](Cursor* c) { return quality(c, 0, report); }},
        {"quality-wide", {1200, 330}, [=](Cursor* c) { return quality(c, 0, report); }},
        {"quality-reference", {500, 290}, [=](Cursor* c) { return quality(c, 2, report); }},
        {"quality-places", {560, 290}, [=](Cursor* c) { return quality(c, 3, report); }},
        {"quality-running", {500, 290}, [=](Cursor* c) { return quality(c, 0, running); }},
        {"quality-failed", {500, 290}, [=](Cursor* c) { return quality(c, 0, failed); }},
        {"quality-empty", {500, 290}, [](Cursor* c) { return quality(c, 0, nullptr); }},
        {"parameters", {1600, 230}, [](Cursor* c) { return std::make_unique<ParametersView>(c); }},
        {"parameters-1366", {1366, 190}, [](Cursor* c) { return std::make_unique<ParametersView>(c); }},
        {"parameters-narrow", {420, 300}, [](Cursor* c) { return std::make_unique<ParametersView>(c); }},
        {"ledger", {1600, 260},
         [](Cursor* c) {
             auto view = std::make_unique<LedgerView>(c);
             view->catchUp();
             view->table()->selectRow(4);
             return view;
         }},
        {"ledger-1366", {1366, 190}, [](Cursor* c) { return std::make_unique<LedgerView>(c); }},
        {"ledger-narrow", {700, 420},
         [](Cursor* c) {
             auto view = std::make_unique<LedgerView>(c);
             view->choose(QStringLiteral("lanes"), 1);
             view->catchUp();
             view->table()->selectRow(7);
             return view;
         }},
    };
}

}  // namespace

int main(int argc, char** argv) {
    QApplication app(argc, argv);
    QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
    QStringList arguments = QApplication::arguments().mid(1);
    if (arguments.isEmpty()) {
        QTextStream(stderr) << "kvloupe_variant_pictures FOLDER [VIEW-ID…]\n";
        return 2;
    }
    const QDir folder(arguments.takeFirst());
    folder.mkpath(QStringLiteral("."));
    for (const Look& look : variant_looks) {
        applyLook(look.dark, look.scale);
        Cursor cursor;
        cursor.setFontScale(look.scale);
        cursor.setRecording(variants());
        cursor.setLane(LaneId(1));
        cursor.setStep(24);
        for (const Picture& picture : pictures()) {
            if (!arguments.isEmpty() && !arguments.contains(picture.name)) continue;
            const auto view = picture.create(&cursor);
            view->resize(look.scale > 1.5 ? picture.size * 1.3 : picture.size * look.scale);
            view->show();
            QApplication::processEvents();
            const QString name = folder.filePath(picture.name + QLatin1Char('-') + QLatin1String(look.name));
            view->grab().save(name + QStringLiteral(".png"));
            view->exportTo(name + QStringLiteral("-export.svg"));
            if (look.scale == 1) view->exportTo(name + QStringLiteral("-export.png"));
        }
    }
    return 0;
}
