// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the tab Profile says beyond one step: roofline, time per token and the stages beside a pinned step.
#include <QObject>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "tests/views/memory_fixture.h"
#include "tests/views/profile_fixture.h"
#include "views/roofline_view.h"
#include "views/staged_steps.h"
#include "views/stages_view.h"
#include "views/step_profile.h"
#include "views/table_picture.h"
#include "views/time_per_token_view.h"

#include <QHeaderView>
#include <QRegularExpression>
#include <QLabel>
#include <QSignalSpy>
#include <QTableView>

#include <algorithm>
#include <cmath>

using namespace kvloupe;

namespace {

// What a view would say at a point.
template <class T>
class Told : public T {
public:
    using T::T;
    using T::tipAt;
};

}  // namespace

class TestProfileCharts : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() {
        QTest::failOnWarning(QRegularExpression(QStringLiteral(".*")));
        m_cursor = std::make_unique<Cursor>();
    }
    void cleanup() { m_cursor.reset(); }

    void theRooflineHoldsBothPhasesUpToTheCursor() {
        m_cursor->setRecording(ProfileRecording::make());
        m_cursor->setStep(0);
        Told<RooflineView> view(m_cursor.get());
        view.setCeilings(profileCeilings());
        show(view, 600, 340);
        QVERIFY(!view.decodeStep() && view.prefillStep() == 0);
        QVERIFY(std::none_of(view.points().begin(), view.points().end(),
                             [](const RooflinePoint& point) { return point.decode; }));
        m_cursor->setStep(33);
        QVERIFY(view.decodeStep() == 33 && view.prefillStep() == 0);
        const RooflineFrame now = view.frame();
        for (const RooflinePoint& point : view.points()) {
            QVERIFY(now.plot.contains(now.place(point)));
            const QString tip = view.tipAt(now.place(point));
            QVERIFY2(tip.contains(QStringLiteral("FLOP per byte")) && tip.contains(QStringLiteral("of the matrix rate")),
                     qPrintable(tip));
        }
        const auto of = [&](StageKind kind, bool decode) {
            return *std::find_if(view.points().begin(), view.points().end(),
                                 [=](const RooflinePoint& p) { return p.kind == kind && p.decode == decode; });
        };
        QCOMPARE(of(StageKind::gate_up, true).bound.limit, StageLimit::memory);
        QCOMPARE(of(StageKind::gate_up, false).bound.limit, StageLimit::compute);
        QCOMPARE(of(StageKind::attention_norm, true).bound.limit, StageLimit::latency);
        wheel(view, now.plot.center(), 360);
        QVERIFY(view.frame().x.second - view.frame().x.first < now.x.second - now.x.first);
        m_cursor->zoomStack()->undo();
        QVERIFY(view.frame().x == now.x && view.frame().y == now.y);
    }

    void theRooflineAsksForWhatWasNotMeasured() {
        m_cursor->setRecording(ProfileRecording::make());
        Told<RooflineView> view(m_cursor.get());
        show(view, 600, 340);
        QSignalSpy asked(&view, &View::emptyAction);
        QTest::keyClick(&view, Qt::Key_Return);
        QCOMPARE(asked.count(), 1);
        QCOMPARE(asked.first().first().toString(), QStringLiteral("measure-ceilings"));
        view.setCeilings(profileCeilings());
        QTest::keyClick(&view, Qt::Key_Return);
        QCOMPARE(asked.count(), 1);
    }

    void timePerTokenFindsTheRateThatStepsWereMadeWith() {
        m_cursor->setRecording(ProfileRecording::make());
        m_cursor->setStep(63);
        TimePerTokenView view(m_cursor.get());
        view.setCeilings(profileCeilings());
        show(view, 600, 340);
        QCOMPARE(view.points().size(), std::size_t{63});
        const double bytes = static_cast<double>(m_cursor->laneRecord()->info().bytes_per_token);
        const double rate = bytes / view.fitted()->nsPerToken * 1e9;
        QVERIFY2(std::abs(rate / 88e9 - 1) < 0.03, qPrintable(QString::number(rate)));
        QVERIFY(view.fitted()->r2 > 0.99);
        const PlotOverlayData& marks = view.plot()->overlay();
        QString notes;
        for (const PlotNote& note : marks.notes) notes += note.text + QLatin1Char('\n');
        QVERIFY2(notes.contains(QStringLiteral("of context")) && notes.contains(QStringLiteral("GB/s")) &&
                     notes.contains(QStringLiteral("R²")),
                 qPrintable(notes));
        // The prediction reads at the ceiling: it ends below what was measured.
        const double share = view.predicted()->at(view.fitted()->most) / view.fitted()->at(view.fitted()->most) - 1;
        QVERIFY(share < 0 && share > -0.06);
        const double above = view.fitted()->at(view.fitted()->most) / view.predicted()->at(view.fitted()->most) - 1;
        QVERIFY2(notes.contains(QStringLiteral("fit against prediction +%1").arg(QString::number(above * 100, 'f', 1))),
                 qPrintable(notes));
        // Both ends of the lines are no measurement.
        QCOMPARE(marks.labels.size(), std::size_t{2});
        QCOMPARE(marks.labels[0].name, QStringLiteral("◐"));
        QVERIFY(marks.labels[0].detail.startsWith(QStringLiteral("fit ")));
        QCOMPARE(marks.labels[1].name, QStringLiteral("○"));
        m_cursor->setStep(20);
        QCOMPARE(view.points().size(), std::size_t{20});
        QCOMPARE(rowsOf(view.csv()).size(), 21);
    }

    void timePerTokenClaimsNothingOfAMachineThatDrifts() {
        ProfileOptions options;
        options.drift_ns = 200'000;  // attention adds 33.5 µs a step
        m_cursor->setRecording(ProfileRecording::make(options));
        m_cursor->setStep(63);
        TimePerTokenView view(m_cursor.get());
        view.setCeilings(profileCeilings());
        show(view, 600, 340);
        QVERIFY(view.fitted() && view.fitted()->r2 > 0.99);
        QVERIFY(view.doubt() == FitDoubt::aboveAttention);
        QVERIFY(!view.predicted());
        QString notes;
        for (const PlotNote& note : view.plot()->overlay().notes) notes += note.text + QLatin1Char('\n');
        QVERIFY2(notes.contains(QStringLiteral("no reliable slope: R²")) && notes.contains(QStringLiteral("attention by")) &&
                     notes.contains(QStringLiteral("median of the steps")),
                 qPrintable(notes));
        QVERIFY2(!notes.contains(QStringLiteral("GB/s")) && !notes.contains(QStringLiteral("keys and values")) &&
                     !notes.contains(QStringLiteral("fixed")),
                 qPrintable(notes));
        QVERIFY(view.plot()->overlay().labels.empty());
        QCOMPARE(rowsOf(view.csv()).last()[4], QString());
        // Without stages nobody can tell drift from keys and values: the line is claimed, by its own figures.
        options.stages_every = 1000;
        m_cursor->setRecording(ProfileRecording::make(options));
        m_cursor->setStep(63);
        QVERIFY(view.doubt() == FitDoubt::none && view.predicted());
    }

    void timePerTokenSaysWhyThereIsNoLine() {
        ProfileOptions options;
        m_cursor->setRecording(ProfileRecording::make(options));
        m_cursor->setStep(4);
        TimePerTokenView view(m_cursor.get());
        show(view, 500, 300);
        QVERIFY2(view.accessibleDescription().contains(QStringLiteral("4 decode steps")),
                 qPrintable(view.accessibleDescription()));
        options.kv_cache = false;
        m_cursor->setRecording(ProfileRecording::make(options));
        QVERIFY2(view.accessibleDescription().contains(QStringLiteral("keeps no KV cache")),
                 qPrintable(view.accessibleDescription()));
        options.kv_cache = true;
        options.attention_variant = "none";
        options.layers = 0;
        m_cursor->setRecording(ProfileRecording::make(options));
        QVERIFY2(view.accessibleDescription().contains(QStringLiteral("no model")),
                 qPrintable(view.accessibleDescription()));
    }

    void theCadenceIsThatOfTheNewestSteps() {
        RecordingWriter writer("cadence", 1 << 16);
        LaneWriter& lane = writer.add_lane({}, std::make_shared<VocabularyText>());
        writer.lanes_complete();
        StageRecord stage;
        stage.kind = StageKind::qkv;
        stage.layer = 0;
        stage.calls = 1;
        for (std::uint64_t i = 0; i < 60; ++i) {
            lane.begin_step();
            if (i < 20 || i % 10 == 0) lane.stages(i, std::vector{stage});
            lane.end_step({});
        }
        QVERIFY(cadenceText(lane.record(), 19).contains(QStringLiteral("every step")));
        QCOMPARE(cadenceText(lane.record(), 29), QString());  // none since step 20, though each one before had them
        QVERIFY2(cadenceText(lane.record(), 45).contains(QStringLiteral("one step of 10")),
                 qPrintable(cadenceText(lane.record(), 45)));
    }

    void newTokensMakeTheRateAndRecomputedOnesDoNot() {
        StepRecord step;
        step.duration_ns = 10'000'000;
        step.decode_tokens = 2;
        step.computed_tokens = 2;
        LaneInfo lane;
        lane.layers = 30;
        QCOMPARE(stepRateText(step, lane), QStringLiteral("10.0 ms, 200.0 tokens per second"));
        step.prefill_tokens = 125;
        step.computed_tokens = 127;
        QVERIFY(stepRateText(step, lane).endsWith(QStringLiteral("12,700 tokens per second")));
        lane.kv_cache = false;
        QCOMPARE(stepRateText(step, lane), QStringLiteral("127 tokens computed in 10.0 ms, 200.0 new per second"));
        lane.layers = 0;  // accounts for blocks: computes nothing
        QCOMPARE(stepRateText(step, lane), QStringLiteral("10.0 ms"));
    }

    void aShareAboveItsCeilingIsExplained() {
        m_cursor->setRecording(ProfileRecording::make());
        m_cursor->setStep(10);
        StagesView view(m_cursor.get());
        Ceilings low = profileCeilings();
        low.read_bandwidth = 20e9;  // stages reach 88
        view.setCeilings(low);
        show(view, 1600, 420);
        QVERIFY(view.model()->aboveCeiling());
        const auto* footer = view.findChild<QLabel*>(QStringLiteral("footer"));
        QVERIFY(footer && footer->isVisible() && footer->text().contains(QStringLiteral("above the ceiling")));
        view.setCeilings(profileCeilings());
        QVERIFY(!view.model()->aboveCeiling());
        QVERIFY(!footer->text().contains(QStringLiteral("above the ceiling")));
    }

    void aPinnedStepIsComparedWith() {
        m_cursor->setRecording(ProfileRecording::make());
        m_cursor->setStep(10);
        StagesView view(m_cursor.get());
        view.setCeilings(profileCeilings());
        show(view, 1600, 420);
        const auto* model = view.table()->model();
        const int columns = model->columnCount();
        view.table()->sortByColumn(StagesModel::time, Qt::DescendingOrder);
        const std::uint64_t before = view.model()->sums(StageKind::attention).durationNs;
        view.table()->setFocus();
        QTest::keyClick(view.table(), Qt::Key_P);
        QVERIFY(view.model()->pinned());
        QCOMPARE(model->columnCount(), columns + 2);
        m_cursor->setStep(50);
        const std::uint64_t now = view.model()->sums(StageKind::attention).durationNs;
        QVERIFY(now > before);
        QString change, share;
        for (int row = 0; row < model->rowCount(); ++row)
            if (model->index(row, 0).data().toString() == QStringLiteral("attention")) {
                change = model->index(row, StagesModel::timeChange).data(csvRole).toString();
                share = model->index(row, StagesModel::changeShare).data().toString();
            }
        QCOMPARE(change.toULongLong(), now - before);
        QVERIFY2(share.startsWith(QLatin1Char('+')), qPrintable(share));
        QVERIFY(view.subtitle().contains(QStringLiteral("Δ against step 10")));
        // Still sorted by time, though two columns came before others.
        for (int row = 1; row + 1 < model->rowCount(); ++row)
            QVERIFY(model->index(row - 1, StagesModel::time).data(StagesModel::sortRole).toDouble() >=
                    model->index(row, StagesModel::time).data(StagesModel::sortRole).toDouble());
        view.table()->sortByColumn(StagesModel::timeChange, Qt::DescendingOrder);
        QCOMPARE(model->index(0, 0).data().toString(), QStringLiteral("attention"));
        view.setSummed(true);  // a sum is no step: there is nothing to differ from
        QCOMPARE(model->columnCount(), columns);
        view.setSummed(false);
        view.setPinned(false);
        QCOMPARE(model->columnCount(), columns);
        view.setPinned(true);
        m_cursor->setRecording(ProfileRecording::make());
        QCOMPARE(model->columnCount(), columns);
    }

private:
    std::unique_ptr<Cursor> m_cursor;
};

QTEST_MAIN(TestProfileCharts)
#include "tst_profile_charts.moc"
