// SPDX-License-Identifier: GPL-3.0-or-later
//
// The tables of the Compare and Profile tabs and the length sweep hold what was recorded; every picture exports.
#include <QTest>

#include "engine/record/figures.h"
#include "tests/support/demo_sharing.h"
#include "tests/views/compare_fixture.h"
#include "views/comparison_view.h"
#include "views/kv_bytes_view.h"
#include "views/logits_view.h"
#include "views/stages_view.h"
#include "views/step_time_view.h"
#include "views/sweep_view.h"
#include "views/table_picture.h"

#include <QAbstractItemModelTester>
#include <QFileInfo>
#include <QKeyEvent>
#include <QLabel>
#include <QRegularExpression>
#include <QSignalSpy>
#include <QSvgRenderer>
#include <QTableView>
#include <QTemporaryDir>

#include <set>

using namespace kvloupe;

class TestCompareTables : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral(".*"))); }

    void modelsKeepTheirPromisesWhileTheRecordingGrows() {
        DemoSession session(plainOptions());
        Cursor cursor;
        ComparisonModel comparison(&cursor);
        StagesModel stages;
        StagesProxy sorted;
        sorted.setSourceModel(&stages);
        sorted.sort(StagesModel::time, Qt::DescendingOrder);
        using Mode = QAbstractItemModelTester::FailureReportingMode;
        QAbstractItemModelTester first(&comparison, Mode::Fatal), second(&stages, Mode::Fatal), third(&sorted, Mode::Fatal);
        comparison.update(Palette::light(), QFont());
        cursor.setRecording(session.recording());
        for (int i = 0; i < 40; ++i) {
            session.step();
            cursor.advanced();
            comparison.update(Palette::light(), QFont());
            stages.setLook(Palette::light(), QFont());
            stages.show(cursor.sharedRecording(), LaneId(static_cast<std::uint32_t>(i % 4)), cursor.step(), i % 3 == 0);
            QCOMPARE(comparison.rowCount(), 4);
        }
        cursor.setRecording(nullptr);
        comparison.update(Palette::light(), QFont());
        QCOMPARE(comparison.rowCount(), 0);
        stages.show(nullptr, LaneId(0), -1, false);
        QCOMPARE(stages.rowCount(), 0);
    }

    void aNarrowTableLeavesColumnsOutAndSaysSo() {
        Cursor cursor;
        cursor.setRecording(demo_recording(plainOptions()));
        ComparisonView view(&cursor);
        view.resize(420, 240);
        view.show();
        QTableView* table = view.table();
        const auto shown = [table] {
            int width = 0, columns = 0;
            for (int c = 0; c < table->model()->columnCount(); ++c) {
                columns += !table->isColumnHidden(c);
                width += table->isColumnHidden(c) ? 0 : table->columnWidth(c);
            }
            return std::pair(columns, width);
        };
        QVERIFY(shown().first >= 3 && shown().first < ComparisonModel::columnCount_);
        QVERIFY(shown().second <= table->viewport()->width());
        QVERIFY(!table->isColumnHidden(ComparisonModel::lane) && !table->isColumnHidden(ComparisonModel::kvBytes));
        bool said = false;
        for (const QLabel* label : view.findChildren<QLabel*>()) said = said || label->text().contains(QStringLiteral("have no room"));
        QVERIFY(said);
        view.resize(2600, 240);
        QCOMPARE(shown().first, static_cast<int>(ComparisonModel::columnCount_));
    }

    void aStageIsBoundByTheCeilingItReaches() {
        Cursor cursor;
        cursor.setRecording(demo_recording(plainOptions()));
        StagesModel model;
        model.setLook(Palette::light(), QFont());
        model.show(cursor.sharedRecording(), LaneId(0), 20, false);
        int row = 0;  // a matrix product: bytes and FLOPs
        while (model.index(row, StagesModel::flops).data(StagesModel::sortRole).toDouble() == 0) ++row;
        const auto bound = [&] { return model.index(row, StagesModel::boundBy).data().toString(); };
        QCOMPARE(bound(), QStringLiteral("not measured yet"));
        const double moved = model.index(row, StagesModel::bandwidth).data(StagesModel::sortRole).toDouble();
        const double computed = model.index(row, StagesModel::rate).data(StagesModel::sortRole).toDouble();
        Ceilings ceilings;
        ceilings.read_bandwidth = moved;      // it reaches all of it
        ceilings.matrix_rate = computed * 2;  // and half of that
        model.setCeilings(ceilings);
        QCOMPARE(bound(), QStringLiteral("memory"));
        ceilings.read_bandwidth = moved * 1e6;
        model.setCeilings(ceilings);
        QCOMPARE(bound(), QStringLiteral("compute"));
        ceilings.matrix_rate = computed * 1e6;
        model.setCeilings(ceilings);
        QCOMPARE(bound(), QStringLiteral("latency"));
        QVERIFY(model.index(row, StagesModel::boundBy).data(Qt::ToolTipRole).toString().contains(QStringLiteral("less than 30 % of both")));
    }

    void comparisonShowsTheCursorsStep() {
        Cursor cursor;
        cursor.setRecording(demo_recording(plainOptions()));
        ComparisonModel model(&cursor);
        for (const int step : {0, 3, 120, 199}) {
            cursor.setStep(step);
            model.update(Palette::light(), QFont());
            for (int lane = 0; lane < 4; ++lane) {
                const LaneRecord& record = cursor.recording()->lane(LaneId(static_cast<std::uint32_t>(lane)));
                const StepRecord& counters = record.step(static_cast<std::size_t>(step));
                const auto plain = [&](int column) { return model.index(lane, column).data(csvRole).toString(); };
                QCOMPARE(plain(ComparisonModel::kvBytes).toULongLong(), static_cast<qulonglong>(counters.kv_bytes));
                QCOMPARE(plain(ComparisonModel::blocks).toUInt(), counters.used_blocks);
                QCOMPARE(plain(ComparisonModel::residual).toLongLong(),
                         plain(ComparisonModel::kvBytes).toLongLong() - plain(ComparisonModel::predicted).toLongLong());
                QCOMPARE(model.index(lane, ComparisonModel::kvBytes).data(originRole).toInt(), static_cast<int>(Origin::measured));
                QCOMPARE(model.index(lane, ComparisonModel::predicted).data(originRole).toInt(), static_cast<int>(Origin::predicted));
                QCOMPARE(model.index(lane, ComparisonModel::residual).data(originRole).toInt(), static_cast<int>(Origin::derived));
            }
            QCOMPARE(model.index(1, ComparisonModel::logits).data().toString(), QStringLiteral("first lane"));
            QCOMPARE(model.index(0, ComparisonModel::logits).data().toString(), QStringLiteral("other weights"));
        }
        // The prompt of request a is prefilled in two chunks, in steps that decode nothing.
        cursor.setStep(1);
        model.update(Palette::light(), QFont());
        const LaneRecord& gqa = cursor.recording()->lane(LaneId(1));
        QCOMPARE(model.index(1, ComparisonModel::prefill).data(csvRole).toString().toULongLong(),
                 static_cast<qulonglong>(gqa.step(0).duration_ns + gqa.step(1).duration_ns));
    }

    // What is kept up to date step by step equals what one pass over the recording up to the cursor gives.
    void requestColumnsAreThoseOfOnePass_data() {
        QTest::addColumn<bool>("sharing");
        QTest::newRow("lanes of several models") << false;
        QTest::newRow("hits, preemptions, forks and samples") << true;
    }
    void requestColumnsAreThoseOfOnePass() {
        QFETCH(const bool, sharing);
        Cursor cursor;
        cursor.setRecording(sharing ? demo_sharing_recording() : demo_recording(plainOptions()));
        ComparisonModel model(&cursor);
        double hits = 0;
        for (const int step : {199, 0, 3, 120}) {
            cursor.setStep(step);
            model.update(Palette::light(), QFont());
            for (std::uint32_t row = 0; row < cursor.recording()->lanes().size(); ++row) {
                const LaneRecord& lane = cursor.recording()->lane(LaneId(row));
                const auto last = static_cast<std::size_t>(cursor.stepOf(LaneId(row)));
                std::vector<double> first, gaps;
                const auto all = all_request_times(*cursor.recording(), lane, last);
                std::set<std::uint32_t> requests;  // one first token each
                for (std::uint32_t i = 0; i < all.size(); ++i) {
                    const RequestTimes& times = all[i];
                    const SequenceInfo& info = lane.sequences()[i];
                    if (times.time_to_first_token_ms && !info.parent.valid() && requests.insert(info.request.value).second)
                        first.push_back(*times.time_to_first_token_ms);
                    gaps.insert(gaps.end(), times.inter_token_ms.begin(), times.inter_token_ms.end());
                }
                std::uint64_t computed = 0, queried = 0, hit = 0, preemptions = 0;
                for (std::size_t s = 0; s <= last; ++s) {
                    computed += lane.step(s).computed_tokens;
                    queried += lane.step(s).queried_tokens;
                    hit += lane.step(s).hit_tokens;
                    for (std::uint64_t e = lane.step(s).events.begin; e < lane.step(s).events.end; ++e)
                        preemptions += lane.events()[e].kind == EventKind::preempt;
                }
                const auto cell = [&](int column) { return model.index(static_cast<int>(row), column); };
                const auto is = [&](int column, std::optional<double> value, Origin origin) {
                    const QString plain = cell(column).data(csvRole).toString();
                    if (!value) return plain.isEmpty();
                    return qAbs(plain.toDouble() - *value) <= 1e-6 * qAbs(*value) &&
                           cell(column).data(originRole).toInt() == static_cast<int>(origin);
                };
                QVERIFY(is(ComparisonModel::ttft, percentile(first, 50), Origin::measured));
                QVERIFY(is(ComparisonModel::itl, percentile(gaps, 50), Origin::measured));
                QVERIFY(is(ComparisonModel::computed, static_cast<double>(computed), Origin::measured));
                QVERIFY(is(ComparisonModel::preemptions, static_cast<double>(preemptions), Origin::measured));
                std::optional<double> rate;
                if (queried > 0) rate = static_cast<double>(hit) / static_cast<double>(queried);
                QVERIFY(is(ComparisonModel::hitRate, rate, Origin::derived));
                hits = std::max(hits, rate.value_or(0));
            }
        }
        QCOMPARE(hits > 0, sharing);
    }

    void stageSumsAreTheSameForwardsAndBackwards() {
        const auto recording = demo_recording(plainOptions());
        LaneProgress progress(recording.get(), LaneId(1));
        progress.advance();
        StagesModel model;
        model.setLook(Palette::light(), QFont());
        for (const int step : {10, 150, 60, 61, 0, 199}) {
            model.show(recording, LaneId(1), step, true);
            std::uint64_t ns = 0, bytes = 0, flops = 0, steps = 0;
            for (int s = 0; s <= step; ++s) {
                if (!progress.at(static_cast<std::size_t>(s)).decodes()) continue;
                ++steps;
                const LogRange range = progress.record().stages_of(static_cast<std::size_t>(s));
                for (std::uint64_t i = range.begin; i < range.end; ++i) {
                    const StageRecord& stage = progress.record().stages()[i];
                    if (stage.kind != StageKind::attention) continue;
                    ns += stage.duration_ns, bytes += stage.bytes, flops += stage.flops;
                }
            }
            QCOMPARE(model.sums(StageKind::attention).durationNs, ns);
            QCOMPARE(model.sums(StageKind::attention).bytes, bytes);
            QCOMPARE(model.sums(StageKind::attention).flops, flops);
            QCOMPARE(model.stepsSummed(), static_cast<std::size_t>(steps));
        }
    }

    void sumOfTheStagesStaysLastInEveryOrder() {
        StagesModel model;
        StagesProxy proxy;
        proxy.setSourceModel(&model);
        model.setLook(Palette::light(), QFont());
        model.show(demo_recording(plainOptions()), LaneId(1), 60, false);
        QCOMPARE(proxy.rowCount(), 15);
        for (int column = 0; column < proxy.columnCount(); ++column) {
            for (const Qt::SortOrder order : {Qt::AscendingOrder, Qt::DescendingOrder}) {
                proxy.sort(column, order);
                QVERIFY(proxy.index(14, 0).data(StagesModel::totalRole).toBool());
                for (int row = 1; row < 14; ++row) {
                    const double above = proxy.index(row - 1, column).data(StagesModel::sortRole).toDouble();
                    const double here = proxy.index(row, column).data(StagesModel::sortRole).toDouble();
                    QVERIFY(order == Qt::AscendingOrder ? above <= here : above >= here);
                }
            }
        }
    }

    void shareOfTheMeasuredBandwidthAppearsOnceItWasMeasured() {
        Cursor cursor;
        cursor.setRecording(demo_recording(plainOptions()));
        cursor.setLane(LaneId(1));
        cursor.setStep(60);
        const auto view = shown<StagesView>(cursor);
        QSignalSpy asked(view.get(), &View::emptyAction);
        StagesModel& model = *view->model();
        QCOMPARE(model.index(5, StagesModel::ofMemory).data().toString(), QStringLiteral("not measured yet"));
        QVERIFY(!model.index(5, StagesModel::ofMemory).data(originRole).isValid());
        Ceilings ceilings;
        ceilings.read_bandwidth = 20e9;
        view->setCeilings(ceilings);
        const StageSums& attention = model.sums(StageKind::attention);
        const double share = static_cast<double>(attention.bytes) / (static_cast<double>(attention.durationNs) * 1e-9) / 20e9;
        QCOMPARE(model.index(5, StagesModel::ofMemory).data(csvRole).toString().toDouble(), QString::number(share, 'g', 9).toDouble());
        QCOMPARE(asked.count(), 0);
    }

    void stepWithoutStagesSaysWhichOneHasThem() {
        DemoOptions options = plainOptions();
        options.stages_every = 10;
        Cursor cursor;
        cursor.setRecording(demo_recording(options));
        cursor.setStep(25);
        auto view = shown<StagesView>(cursor);
        QVERIFY(view->model()->rowCount() > 0);
        QVERIFY2(view->subtitle().contains(QStringLiteral("step 25 has no stages; showing step 20")), qPrintable(view->subtitle()));
        QVERIFY2(view->subtitle().contains(QStringLiteral("one step of 10")), qPrintable(view->subtitle()));
        const std::uint64_t at20 = view->model()->total().durationNs;
        cursor.setStep(20);
        view->catchUp();
        QCOMPARE(view->model()->total().durationNs, at20);
        QVERIFY(!view->subtitle().contains(QStringLiteral("has no stages")));
    }

    void sweepDrawsAndExportsItsResult() {
        Cursor cursor;
        SweepView view(&cursor);
        QSignalSpy cancelled(&view, &SweepView::cancelRequested), started(&view, &SweepView::startRequested);
        const SweepResult result{{10, 100, 500}, {4, 40, 0}, {8, 240}, 3};
        view.setResult(result);
        view.setProgress(0.5, QStringLiteral("uncached, 500 tokens"));
        QCOMPARE(SweepView::speedUp(result, 0), std::optional(2.0));
        QCOMPARE(SweepView::speedUp(result, 1), std::optional(6.0));
        QVERIFY(!SweepView::speedUp(result, 2));
        const auto rows = rowsOf(view.csv());
        QCOMPARE(rows.size(), 4);
        QCOMPARE(rows[2], (QStringList{"100", "40", "240", "6", "3"}));
        QCOMPARE(rows[3], (QStringList{"500", "0", "", "", "3"}));
        view.resize(500, 300);
        view.show();
        QKeyEvent space(QEvent::KeyPress, Qt::Key_Space, Qt::NoModifier), release(QEvent::KeyRelease, Qt::Key_Space, Qt::NoModifier);
        for (auto* button : view.findChildren<QWidget*>()) {
            if (QString::fromLatin1(button->metaObject()->className()) != QStringLiteral("QPushButton") || !button->isVisible()) continue;
            QCoreApplication::sendEvent(button, &space);
            QCoreApplication::sendEvent(button, &release);
        }
        QCOMPARE(cancelled.count(), 1);
        QCOMPARE(started.count(), 0);
    }

    void everyViewExportsPicturesAndNumbers_data() {
        QTest::addColumn<QString>("id");
        for (const char* id : {"kv-bytes", "step-time", "logits", "comparison", "stages", "sweep"}) QTest::newRow(id) << QString::fromLatin1(id);
    }

    void everyViewExportsPicturesAndNumbers() {
        QFETCH(QString, id);
        Cursor cursor;
        const auto view = make(id, cursor);
        QCOMPARE(view->id(), id);
        view->resize(420, 300);
        // Nothing open, nothing stepped, and all of it.
        for (const auto& recording : {std::shared_ptr<const Recording>(), demo_empty_recording(plainOptions()), demo_recording(plainOptions())}) {
            cursor.setRecording(recording);
            QTemporaryDir folder;
            for (const char* suffix : {"png", "svg", "pdf", "csv"}) {
                const QString path = folder.filePath(id + QLatin1Char('.') + QLatin1String(suffix));
                QCOMPARE(view->exportTo(path), QString());
                QVERIFY(QFileInfo(path).size() > 20);
            }
            QVERIFY(QSvgRenderer(folder.filePath(id + QStringLiteral(".svg"))).isValid());
        }
        if (id != QStringLiteral("sweep")) QVERIFY(rowsOf(view->csv()).size() > 3);
        const QStringList head = rowsOf(view->csv()).value(0);
        QVERIFY(head.size() > 3);
        for (const QString& field : head) QVERIFY(!field.isEmpty());
    }

private:
    static std::unique_ptr<View> make(const QString& id, Cursor& cursor) {
        if (id == QStringLiteral("kv-bytes")) return std::make_unique<KvBytesView>(&cursor);
        if (id == QStringLiteral("step-time")) return std::make_unique<StepTimeView>(&cursor);
        if (id == QStringLiteral("logits")) return std::make_unique<LogitsView>(&cursor);
        if (id == QStringLiteral("comparison")) return std::make_unique<ComparisonView>(&cursor);
        if (id == QStringLiteral("stages")) return std::make_unique<StagesView>(&cursor);
        return std::make_unique<SweepView>(&cursor);
    }
};

QTEST_MAIN(TestCompareTables)
#include "tst_compare_tables.moc"
