// SPDX-License-Identifier: GPL-3.0-or-later
//
// Renders the pictures of the Compare and Profile tabs to PNG, for people to look at: light, dark, narrow, at 125 %, and
// with their switches turned. kvloupe_compare_pictures FOLDER [VIEW-ID…]
#include "tests/support/demo_recording.h"
#include "tests/views/picture_look.h"
#include "views/comparison_view.h"
#include "views/kv_bytes_view.h"
#include "views/lanes_view.h"
#include "views/logits_view.h"
#include "views/stages_view.h"
#include "views/step_time_view.h"
#include "views/sweep_view.h"

#include <QApplication>
#include <QDir>
#include <QStyleFactory>
#include <QTextStream>

#include <functional>

namespace {

using namespace kvloupe;

struct Look {
    const char* name;
    bool dark;
    double scale;
    bool narrow;
};

constexpr Look looks[] = {
    {"light", false, 1, false}, {"dark", true, 1, false}, {"narrow", false, 1, true}, {"125", false, 1.25, false}};

struct Picture {
    QString name;
    QSize size;
    std::function<std::unique_ptr<View>(Cursor*)> create;
};

std::vector<Picture> pictures() {
    return {
        {"lanes", {430, 240}, [](Cursor* c) { return std::make_unique<LanesView>(c); }},
        {"kv-bytes", {545, 290}, [](Cursor* c) { return std::make_unique<KvBytesView>(c); }},
        {"kv-bytes-tokens", {545, 290},
         [](Cursor* c) {
             auto view = std::make_unique<KvBytesView>(c);
             view->setAgainstTokens(true);
             return view;
         }},
        {"kv-bytes-gpu", {545, 290},
         [](Cursor* c) {
             auto view = std::make_unique<KvBytesView>(c);
             view->setGpu(2);
             return view;
         }},
        {"step-time-low", {450, 210}, [](Cursor* c) { return std::make_unique<StepTimeView>(c); }},
        {"step-time", {540, 330}, [](Cursor* c) { return std::make_unique<StepTimeView>(c); }},
        {"step-time-cumulated", {540, 330},
         [](Cursor* c) {
             auto view = std::make_unique<StepTimeView>(c);
             view->setCumulated(true);
             return view;
         }},
        {"logits", {1090, 260}, [](Cursor* c) { return std::make_unique<LogitsView>(c); }},
        {"comparison-low", {1366, 132}, [](Cursor* c) { return std::make_unique<ComparisonView>(c); }},
        {"comparison", {1600, 200}, [](Cursor* c) { return std::make_unique<ComparisonView>(c); }},
        {"stages", {1600, 420}, [](Cursor* c) { return std::make_unique<StagesView>(c); }},
        {"stages-sum", {1200, 420},
         [](Cursor* c) {
             auto view = std::make_unique<StagesView>(c);
             Ceilings ceilings;
             ceilings.read_bandwidth = 24e9;
             ceilings.matrix_rate = 90e9;
             view->setCeilings(ceilings);
             view->setSummed(true);
             return view;
         }},
        {"sweep-empty", {545, 300}, [](Cursor* c) { return std::make_unique<SweepView>(c); }},
        {"sweep", {545, 300},
         [](Cursor* c) {
             auto view = std::make_unique<SweepView>(c);
             view->setResult({{10, 20, 50, 100, 200, 300, 400, 500},
                              {4, 8, 21, 43, 88, 134, 183, 234},
                              {7, 19, 84, 290, 1060, 2310, 4030, 6260},
                              3});
             view->setProgress(0.4, "uncached, 400 tokens, run 2 of 3");
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
        QTextStream(stderr) << "kvloupe_compare_pictures FOLDER [VIEW-ID…]\n";
        return 2;
    }
    const QDir folder(arguments.takeFirst());
    folder.mkpath(QStringLiteral("."));
    DemoOptions options;
    options.uncached_steps = 150;
    options.attention = false;
    const auto recording = demo_recording(options);
    for (const Look& look : looks) {
        applyLook(look.dark, look.scale);
        Cursor cursor;
        cursor.setFontScale(look.scale);
        cursor.setRecording(recording);
        cursor.setLane(LaneId(1));
        cursor.setStep(120);
        for (const Picture& picture : pictures()) {
            if (!arguments.isEmpty() && !arguments.contains(picture.name)) continue;
            const auto view = picture.create(&cursor);
            view->resize(look.narrow ? QSize(420, picture.size.height()) : picture.size * look.scale);
            view->show();
            QApplication::processEvents();
            const QString name = folder.filePath(picture.name + QLatin1Char('-') + QLatin1String(look.name));
            // As on the screen, switches included; the exports beside it.
            view->grab().save(name + QStringLiteral(".png"));
            view->exportTo(name + QStringLiteral("-export.png"));
            view->exportTo(name + QStringLiteral("-export.svg"));
        }
    }
    return 0;
}
