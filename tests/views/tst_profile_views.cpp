// SPDX-License-Identifier: GPL-3.0-or-later
//
// The views of the tab Profile show one step's stages, follow the cursor, mark what stands out and say what is missing.
#include <QObject>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "tests/views/memory_fixture.h"
#include "tests/views/profile_fixture.h"
#include "views/layers_view.h"
#include "views/stages_model.h"
#include "views/step_timeline_view.h"
#include "views/view_factory.h"

#include <QElapsedTimer>
#include <QPainter>
#include <QPushButton>
#include <QRegularExpression>
#include <QTableView>

#include <cmath>

using namespace kvloupe;

namespace {

constexpr const char* ids[] = {"step-timeline", "layers", "roofline", "time-per-token", "stages"};

std::unique_ptr<View> made(const QString& id, Cursor& cursor, bool held = true) {
    auto view = createView(id, &cursor);
    if (auto* ceilings = dynamic_cast<CeilingsView*>(view.get()); ceilings && held)
        ceilings->setCeilings(profileCeilings());
    view->resize(id == QLatin1String("step-timeline") ? QSize(1200, 220) : QSize(520, 300));
    return view;
}

bool holdsColour(const QImage& image, const QRectF& area, const QColor& colour) {
    for (int y = qRound(area.top()); y < area.bottom(); ++y)
        for (int x = qRound(area.left()); x < area.right(); ++x)
            if (image.rect().contains(x, y) && QColor(image.pixel(x, y)).rgb() == colour.rgb()) return true;
    return false;
}

// What a view would say at a point.
template <class T>
class Told : public T {
public:
    using T::T;
    using T::tipAt;
};

}  // namespace

class TestProfileViews : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() {
        // A tip that the keyboard asked for is raised; the platform of the tests has no windows to raise.
        QTest::failOnWarning(QRegularExpression(QStringLiteral("^(?!This plugin does not support raise)")));
        m_cursor = std::make_unique<Cursor>();
    }
    void cleanup() { m_cursor.reset(); }

    void whatIsMissingIsSaid_data() {
        QTest::addColumn<QString>("id");
        for (const char* id : ids) QTest::newRow(id) << QString::fromLatin1(id);
    }

    void whatIsMissingIsSaid() {
        QFETCH(QString, id);
        DemoOptions none = plainOptions();
        none.stages_every = 0;
        none.steps = 6;
        for (const auto& recording :
             {std::shared_ptr<const Recording>(), demo_empty_recording(plainOptions()), demo_recording(none)}) {
            m_cursor->setRecording(recording);
            const auto view = made(id, *m_cursor);
            view->show();
            QVERIFY(view->accessibleDescription().size() > 20);
            QVERIFY(!view->image().isNull());
            view->fit();
            QTest::keyClick(view.get(), Qt::Key_Plus);  // nothing to zoom, nothing to fall over
            QTest::keyClick(view.get(), Qt::Key_Right);
        }
    }

    void everyViewExportsAndSurvivesEverySize_data() { whatIsMissingIsSaid_data(); }

    void everyViewExportsAndSurvivesEverySize() {
        QFETCH(QString, id);
        m_cursor->setRecording(ProfileRecording::make());
        m_cursor->setStep(40);
        for (const double scale : {1.0, 1.25})
            for (const bool held : {true, false}) {
                m_cursor->setFontScale(scale);
                const auto view = made(id, *m_cursor, held);
                view->catchUp();
                QVERIFY(rowsOf(view->csv()).size() > 10);
                for (const QSize& size :
                     {QSize(1600, 260), QSize(420, 240), QSize(160, 90), QSize(40, 20), QSize(1200, 900)}) {
                    view->resize(size);
                    view->show();
                    QCoreApplication::processEvents();
                    QVERIFY(!view->grab().isNull());
                    QVERIFY(!view->image(scale).isNull());
                }
            }
    }

    void everyViewOfStagesNamesTheStepThatItShowsInstead_data() {
        QTest::addColumn<QString>("id");
        for (const char* id : ids)
            if (QLatin1String(id) != QLatin1String("time-per-token")) QTest::newRow(id) << QString::fromLatin1(id);
    }

    void everyViewOfStagesNamesTheStepThatItShowsInstead() {
        QFETCH(QString, id);
        ProfileOptions options;
        options.stages_every = 12;
        m_cursor->setRecording(ProfileRecording::make(options));
        m_cursor->setStep(40);
        const auto view = made(id, *m_cursor);
        view->catchUp();
        QVERIFY2(view->subtitle().contains(QStringLiteral("step 40 has no stages; showing step 36")),
                 qPrintable(view->subtitle()));
        // A double click goes to that step.
        if (id == QLatin1String("step-timeline")) QTest::mouseDClick(view.get(), Qt::LeftButton, {}, view->rect().center());
        auto* table = view->findChild<QTableView*>();
        if (table) Q_EMIT table->doubleClicked(table->model()->index(0, 0));
        if (table || id == QLatin1String("step-timeline")) QCOMPARE(m_cursor->step(), 36);
        m_cursor->setStep(36);
        view->show();
        view->catchUp();
        QVERIFY2(!view->subtitle().contains(QStringLiteral("no stages")), qPrintable(view->subtitle()));
    }

    void anAccountingLaneIsAskedForNoArithmetic() {
        RecordingWriter writer("accounts", 1 << 16);
        LaneInfo info;
        info.name = "blocks";
        info.attention_variant = "none";
        LaneWriter& lane = writer.add_lane(info, std::make_shared<VocabularyText>());
        writer.lanes_complete();
        writer.set_phase(Phase::finished);
        lane.begin_step();
        StageRecord stage;
        stage.kind = StageKind::schedule;
        stage.calls = 1;
        stage.duration_ns = 900;
        lane.stages(0, std::vector{stage});
        StepRecord record;
        record.decode_tokens = record.computed_tokens = 4;
        lane.end_step(record);
        m_cursor->setRecording(writer.recording());
        m_cursor->setStep(0);
        const auto layers = made(QStringLiteral("layers"), *m_cursor), roofline = made(QStringLiteral("roofline"), *m_cursor);
        layers->show();
        layers->catchUp();
        QVERIFY2(layers->accessibleDescription().contains(QStringLiteral("An accounting lane has no layers.")),
                 qPrintable(layers->accessibleDescription()));
        roofline->show();
        roofline->catchUp();
        QVERIFY2(roofline->accessibleDescription().contains(QStringLiteral("does not apply")),
                 qPrintable(roofline->accessibleDescription()));
        for (const bool held : {true, false}) {
            const auto stages = made(QStringLiteral("stages"), *m_cursor, held);
            stages->show();
            stages->catchUp();
            QVERIFY2(stages->csv().contains(QStringLiteral("schedule")), qPrintable(stages->csv()));
            const auto* model = stages->findChild<StagesModel*>();
            QVERIFY(model && model->rowCount() == 2);
            QCOMPARE(model->index(0, StagesModel::boundBy).data().toString(), QStringLiteral("does not apply: no arithmetic"));
            QCOMPARE(model->index(0, StagesModel::ofMemory).data().toString(), QStringLiteral("does not apply"));
            for (const auto* button : stages->findChildren<QPushButton*>())
                QVERIFY(!button->isVisible() || button->text() != QStringLiteral("Measure ceilings"));
        }
    }

    void aLaneThatStoppedBeforeTheCursorSaysWhere() {
        RecordingWriter writer("two", 1 << 16);
        LaneInfo info;
        info.layers = 1;
        StageRecord stage;
        stage.kind = StageKind::qkv;
        stage.layer = 0;
        stage.calls = 1;
        stage.duration_ns = 900;
        for (const char* name : {"short", "long"}) {
            info.name = name;
            writer.add_lane(info, std::make_shared<VocabularyText>());
        }
        writer.lanes_complete();
        writer.set_phase(Phase::finished);
        StepRecord record;
        record.decode_tokens = record.computed_tokens = 1;
        for (std::uint64_t i = 0; i < 9; ++i)
            for (const std::uint32_t which : {0u, 1u}) {
                if (which == 0 && i > 4) continue;
                LaneWriter& lane = writer.lane(LaneId(which));
                lane.begin_step();
                lane.stages(i, std::vector{stage});
                lane.end_step(record);
            }
        m_cursor->setRecording(writer.recording());
        m_cursor->setStep(8);
        for (const char* id : {"step-timeline", "layers", "stages"}) {
            m_cursor->setLane(LaneId(0));
            const auto view = made(QString::fromLatin1(id), *m_cursor);
            view->show();
            view->catchUp();
            QVERIFY2(view->subtitle().contains(QStringLiteral("stopped at step 4")), qPrintable(view->subtitle()));
            m_cursor->setLane(LaneId(1));
            view->catchUp();
            QVERIFY2(!view->subtitle().contains(QStringLiteral("stopped")), qPrintable(view->subtitle()));
        }
    }

    void theTimelineBeginsAtWhatStandsOut() {
        m_cursor->setRecording(ProfileRecording::make());
        m_cursor->setStep(40);
        Told<StepTimelineView> view(m_cursor.get());
        show(view, 1400, 240);
        QVERIFY2(view.subtitle().contains(QStringLiteral("layers 16–18")), qPrintable(view.subtitle()));
        const StepTimelineFrame now = view.frame();
        const ProfiledLayer& slow = view.profile()->layers[17];
        QVERIFY(now.beginNs < view.profile()->stages[slow.begin].beginNs &&
                now.endNs > view.profile()->stages[slow.end - 1].endNs());
        QVERIFY(holdsColour(view.grab().toImage(), now.heads, Palette::light().focus));
        const double middle = now.x(view.profile()->stages[slow.begin].beginNs + 1000);
        QVERIFY(
            view.tipAt({middle, now.heads.center().y()}).contains(QStringLiteral("above the median layer: attention")));
        ProfileOptions even;
        even.slow_layer = -1;
        m_cursor->setRecording(ProfileRecording::make(even));
        view.catchUp();
        QVERIFY(!holdsColour(view.grab().toImage(), view.frame().heads, Palette::light().focus));
    }

    void whatIsTooNarrowIsFoldedAndCounted() {
        ProfileOptions options;
        options.layers = 80;
        m_cursor->setRecording(ProfileRecording::make(options));
        m_cursor->setStep(40);
        Told<StepTimelineView> view(m_cursor.get());
        show(view, 1400, 240);
        view.fit();
        const StepTimelineFrame whole = view.frame();
        QCOMPARE(whole.beginNs, 0.0);
        QCOMPARE(whole.endNs, whole.wholeNs);
        std::size_t narrow = 0;
        for (const ProfiledStage& stage : view.profile()->stages)
            narrow += whole.x(stage.endNs()) - whole.x(stage.beginNs) < 3;
        QVERIFY(narrow > 300);
        QCOMPARE(view.folded(whole), narrow);
        view.fit();  // again: around what stands out
        QVERIFY(view.folded(view.frame()) < 40);
    }

    void timeThatNoStageAccountsForIsShownAsSuch() {
        ProfileOptions options;
        options.layers = 3;
        options.between_ns = 300'000;
        m_cursor->setRecording(ProfileRecording::make(options));
        m_cursor->setStep(40);
        Told<StepTimelineView> view(m_cursor.get());
        show(view, 1400, 240);
        const StepTimelineFrame now = view.frame();
        const QString tip = view.tipAt({now.x(now.wholeNs - 100'000), now.boxes.center().y()});
        QVERIFY2(tip.contains(QStringLiteral("300 µs")) && tip.contains(QStringLiteral("not measured")), qPrintable(tip));
        QCOMPARE(rowsOf(view.csv()).last()[4], QStringLiteral("300000"));
    }

    void zoomsOfTheTimelineCanBeUndone() {
        m_cursor->setRecording(ProfileRecording::make());
        m_cursor->setStep(40);
        Told<StepTimelineView> view(m_cursor.get());
        show(view, 1400, 240);
        const StepTimelineFrame before = view.frame();
        const QPointF at(before.boxes.left() + 500, before.boxes.center().y());
        const double under = before.nsAt(at.x());
        wheel(view, at, 240);
        const StepTimelineFrame zoomed = view.frame();
        QVERIFY(zoomed.endNs - zoomed.beginNs < 0.7 * (before.endNs - before.beginNs));
        QVERIFY(std::abs(zoomed.nsAt(at.x()) - under) < 1e-3 * under);
        // Layers, not microseconds, stay in sight: the next step shows the same part of the same stage.
        const ProfiledStage stage = view.profile()->stages[view.profile()->stageAt(zoomed.beginNs)];
        m_cursor->setStep(60);
        const StepTimelineFrame later = view.frame();
        QVERIFY(later.beginNs > zoomed.beginNs);
        const ProfiledStage& same = view.profile()->stages[view.profile()->stageAt(later.beginNs)];
        QVERIFY(same.record.layer == stage.record.layer && same.record.kind == stage.record.kind);
        m_cursor->setStep(40);
        m_cursor->zoomStack()->undo();
        QCOMPARE(view.frame().beginNs, before.beginNs);
        m_cursor->zoomStack()->redo();
        QVERIFY(std::abs(view.frame().endNs - zoomed.endNs) < 1);
        QTest::keyClick(&view, Qt::Key_F);
        QCOMPARE(view.frame().endNs, view.frame().wholeNs);
        m_cursor->zoomStack()->undo();
        QVERIFY(view.frame().endNs < view.frame().wholeNs);
    }

    void theStripMovesTheWindowAndKeysWalkTheStages() {
        m_cursor->setRecording(ProfileRecording::make());
        m_cursor->setStep(40);
        Told<StepTimelineView> view(m_cursor.get());
        show(view, 1400, 240);
        const QPoint start(qRound(view.frame().stripX(100'000)), qRound(view.frame().strip.center().y()));
        QTest::mouseClick(&view, Qt::LeftButton, {}, start);
        QVERIFY(view.frame().beginNs < 100'000 && view.frame().endNs > 100'000);
        const double width = view.frame().endNs - view.frame().beginNs;
        QTest::keyClick(&view, Qt::Key_PageDown);
        QVERIFY(view.frame().beginNs > 0.7 * width);
        for (int i = 0; i < 4; ++i) QTest::keyClick(&view, Qt::Key_Right);
        QVERIFY(m_cursor->hover().layer.has_value());
        QTest::keyClick(&view, Qt::Key_Return);
        QVERIFY(m_cursor->locked().layer == m_cursor->hover().layer);
        QTest::keyClick(&view, Qt::Key_Escape);
        QVERIFY(m_cursor->locked().empty());
    }

    void layersAlignAndTheSlowOneIsMarked() {
        m_cursor->setRecording(ProfileRecording::make());
        m_cursor->setStep(40);
        Told<LayersView> view(m_cursor.get());
        show(view, 520, 330);
        const LayersFrame now = view.frame();
        for (std::size_t i = 1; i < 30; ++i)
            QVERIFY(view.rowRect(now, i).top() >= view.rowRect(now, i - 1).bottom() - 1e-6);
        const QImage image = view.grab().toImage();
        QVERIFY(holdsColour(image, view.rowRect(now, 17), Palette::light().focus));
        QVERIFY(!holdsColour(image, view.rowRect(now, 4), Palette::light().focus));
        const QString tip = view.tipAt(view.rowRect(now, 17).center());
        QVERIFY2(tip.contains(QStringLiteral("3 × their median absolute deviation")), qPrintable(tip));
        QTest::mouseClick(&view, Qt::LeftButton, {}, view.rowRect(now, 9).center().toPoint());
        QVERIFY(m_cursor->locked().layer == 9u);
        QTest::keyClick(&view, Qt::Key_Escape);
        for (int i = 0; i < 3; ++i) QTest::keyClick(&view, Qt::Key_Down);
        QVERIFY(m_cursor->hover().layer == 2u);
        wheel(view, view.rowRect(now, 9).center(), 240);
        QVERIFY(view.frame().endNs < now.endNs && view.zoomState().isValid());
        m_cursor->zoomStack()->undo();
        QCOMPARE(view.frame().endNs, now.endNs);
    }

    void lowRowsFoldToTheSlowestLayer() {
        ProfileOptions options;
        options.layers = 80;
        m_cursor->setRecording(ProfileRecording::make(options));
        m_cursor->setStep(40);
        Told<LayersView> view(m_cursor.get());
        show(view, 400, 120);
        const LayersFrame now = view.frame();
        QVERIFY(now.perRow > 1 && now.rowHeight >= 3);
        const auto marked = [&](std::size_t layer) {  // beside the row: an outline would hide it
            return holdsColour(view.grab().toImage(), view.rowRect(now, layer).adjusted(-8, 0, 0, 0),
                               Palette::light().focus);
        };
        QVERIFY(marked(17) && !marked(40));
        QTest::mouseClick(&view, Qt::LeftButton, {}, view.rowRect(now, 17).center().toPoint());
        QVERIFY(m_cursor->locked().layer == 17u);
    }

    // Prints what refreshing and drawing cost; asserts nothing, because machines differ.
    void costOfARefresh() {
        ProfileOptions options;
        options.layers = 80;
        options.steps = 100'000;
        options.stride = 1;
        options.stages_every = 1000;
        m_cursor->setRecording(ProfileRecording::make(options));
        for (const char* id : ids) {
            const auto view = made(QString::fromLatin1(id), *m_cursor);
            m_cursor->setStep(99'998);
            QElapsedTimer timer;
            timer.start();
            view->show();
            view->catchUp();
            const double first = static_cast<double>(timer.nsecsElapsed()) / 1e6;
            constexpr int repeats = 10;
            timer.restart();
            for (int i = 0; i < repeats; ++i) m_cursor->setStep(99'000 + i);
            const double refreshed = static_cast<double>(timer.nsecsElapsed()) / 1e6 / repeats;
            QImage image(view->size(), QImage::Format_ARGB32_Premultiplied);
            timer.restart();
            for (int i = 0; i < repeats; ++i) {
                QPainter painter(&image);
                view->paintContent(painter, view->rect());
            }
            const double painted = static_cast<double>(timer.nsecsElapsed()) / 1e6 / repeats;
            qInfo("%s: first %.2f ms, refresh %.2f ms, paint %.2f ms", id, first, refreshed, painted);
        }
    }

private:
    std::unique_ptr<Cursor> m_cursor;
};

QTEST_MAIN(TestProfileViews)
#include "tst_profile_views.moc"
