// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the plots of the Compare tab draw and export is what the recording holds.
#include <QTest>

#include "tests/views/compare_fixture.h"
#include "engine/record/gpu_table.h"
#include "views/kv_bytes_view.h"
#include "views/logits_view.h"
#include "views/step_time_view.h"

#include <QRegularExpression>

#include <algorithm>
#include <cmath>
#include <set>

using namespace kvloupe;

class TestCompareViews : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral(".*"))); }

    void recomputedTokensAreTheSumOfTheLengths_data() {
        QTest::addColumn<int>("prompt");
        QTest::addColumn<int>("tokens");
        for (const auto& [prompt, tokens] : {std::pair{1, 1}, std::pair{1, 2}, std::pair{1, 300}, std::pair{37, 37},
                                            std::pair{37, 38}, std::pair{37, 97}, std::pair{16, 10}, std::pair{5, 0}})
            QTest::addRow("prompt %d, tokens %d", prompt, tokens) << prompt << tokens;
    }
    void recomputedTokensAreTheSumOfTheLengths() {
        QFETCH(int, prompt);
        QFETCH(int, tokens);
        std::uint64_t expected = static_cast<std::uint64_t>(std::min(prompt, tokens));
        for (int length = prompt + 1; length <= tokens; ++length) expected += static_cast<std::uint64_t>(length);
        QCOMPARE(naiveTokens(static_cast<std::uint64_t>(prompt), static_cast<std::uint64_t>(tokens)), expected);
        if (prompt == 1) QCOMPARE(expected, static_cast<std::uint64_t>(tokens) * (static_cast<std::uint64_t>(tokens) + 1) / 2);
    }

    void uncachedLaneComputesWhatIsPredicted() {
        const auto recording = demo_recording(plainOptions());
        LaneProgress uncached(recording.get(), LaneId(3));
        uncached.advance();
        QCOMPARE(uncached.steps(), recording->lane(LaneId(3)).step_count());
        for (std::size_t step = 0; step < uncached.steps(); ++step)
            QCOMPARE(uncached.at(step).computed, uncached.at(step).naive);
        QVERIFY(uncached.at(uncached.steps() - 1).computed > 10000);
    }

    void sequencesAreCountedOnceHoweverManyEventsTheyHave() {
        const auto recording = demo_recording(plainOptions());
        for (std::uint32_t lane = 0; lane < 4; ++lane) {
            LaneProgress progress(recording.get(), LaneId(lane));
            progress.advance();
            for (std::size_t step = 0; step < progress.steps(); ++step) {
                const LogRange range = progress.record().step(step).events;
                std::set<std::uint32_t> scheduled;
                for (std::uint64_t i = range.begin; i < range.end; ++i) {
                    const Event& event = progress.record().events()[i];
                    if (event.kind == EventKind::prefill || event.kind == EventKind::decode) scheduled.insert(event.sequence.value);
                }
                QCOMPARE(progress.at(step).sequences, static_cast<std::uint32_t>(scheduled.size()));
            }
        }
    }

    void sumsDoNotDependOnHowOftenTheyAreReadWhileGrowing() {
        DemoSession session(plainOptions());
        LaneProgress often(session.recording().get(), LaneId(1));
        while (session.step()) often.advance();
        LaneProgress once(session.recording().get(), LaneId(1));
        once.advance();
        often.advance();
        QCOMPARE(often.steps(), once.steps());
        std::uint64_t ns = 0;
        for (std::size_t step = 0; step < once.steps(); ++step) {
            ns += once.record().step(step).duration_ns;
            QCOMPARE(once.at(step).totalNs, ns);
            QCOMPARE(often.at(step).naive, once.at(step).naive);
            QCOMPARE(often.at(step).prompt, once.at(step).prompt);
            QCOMPARE(often.medianDecodeNsPerToken(step), once.medianDecodeNsPerToken(step));
        }
    }

    void medianIsTheMiddleOfTheSortedDecodeTimes() {
        const auto recording = demo_recording(plainOptions());
        LaneProgress lane(recording.get(), LaneId(3));
        lane.advance();
        std::vector<double> times;
        for (std::size_t step = 0; step < lane.steps(); ++step) {
            if (lane.at(step).decodes())
                times.push_back(static_cast<double>(lane.record().step(step).duration_ns) / lane.at(step).sequences);
            std::sort(times.begin(), times.end());
            QCOMPARE(lane.decodeSteps(step), times.size());
            QCOMPARE(lane.medianDecodeNsPerToken(step).has_value(), !times.empty());
            if (times.empty()) continue;
            const std::size_t middle = times.size() / 2;
            QCOMPARE(*lane.medianDecodeNsPerToken(step),
                     times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2);
        }
        QVERIFY(times.size() > 50);
    }

    void residualIsMeasuredMinusPredicted() {
        Cursor cursor;
        cursor.setRecording(demo_recording(plainOptions()));
        const auto view = shown<KvBytesView>(cursor);
        const auto rows = rowsOf(view->csv());
        qsizetype row = 1;
        for (std::uint32_t lane = 0; lane < 4; ++lane) {
            const LaneRecord& record = cursor.recording()->lane(LaneId(lane));
            for (std::size_t step = 0; step < record.step_count(); ++step, ++row) {
                const StepRecord& counters = record.step(step);
                const qint64 predicted = record.info().kv_cache
                                             ? static_cast<qint64>(record.info().bytes_per_token * counters.slots.token) : 0;
                QCOMPARE(rows[row][0].toULongLong(), static_cast<qulonglong>(step));
                QCOMPARE(rows[row][1], QString::fromStdString(record.info().name));
                QCOMPARE(rows[row][4].toLongLong(), static_cast<qint64>(counters.kv_bytes));
                QCOMPARE(rows[row][5].toLongLong(), predicted);
                QCOMPARE(rows[row][6].toLongLong(), static_cast<qint64>(counters.kv_bytes) - predicted);
                QCOMPARE(view->plot()->valueAt(view->measuredCurve(lane), static_cast<double>(step)),
                         std::optional(static_cast<double>(counters.kv_bytes)));
                QCOMPARE(view->plot()->valueAt(view->predictedCurve(lane), static_cast<double>(step)),
                         std::optional(static_cast<double>(predicted)));
            }
        }
        QCOMPARE(rows.size(), row);
    }

    void residualIsPrintedBehindTheLane() {
        Cursor cursor;
        cursor.setRecording(demo_recording(plainOptions()));
        const auto view = shown<KvBytesView>(cursor);
        for (const int step : {0, 60, 199}) {
            cursor.setStep(step);
            view->catchUp();
            const auto& labels = view->plot()->overlay().labels;
            QCOMPARE(labels.size(), std::size_t{4});
            const auto bytes = KvBytesView::bytesOf(view->prediction(0), static_cast<std::size_t>(step));
            QVERIFY(labels[0].detail.contains(formatBytesOf(bytes.residual)));
            QCOMPARE(*view->plot()->overlay().cursor, static_cast<double>(step));
        }
    }

    void gpuMemoryIsReachedWhereBytesPerTokenSay() {
        Cursor cursor;
        cursor.setRecording(demo_recording(plainOptions()));
        const auto view = shown<KvBytesView>(cursor);
        QCOMPARE(view->capacity(0), 0.0);
        for (int gpu = 0; gpu < static_cast<int>(gpu_table().size()); ++gpu) {
            view->setGpu(gpu);
            for (std::size_t lane = 0; lane < 3; ++lane) {
                const std::uint64_t perToken = cursor.recording()->lanes()[lane]->info().bytes_per_token;
                const auto tokens = static_cast<std::uint64_t>(view->capacity(lane));
                const std::uint64_t memory = gpu_table()[static_cast<std::size_t>(gpu)].memory_bytes;
                QVERIFY(tokens * perToken <= memory && (tokens + 1) * perToken > memory);
            }
            QCOMPARE(view->capacity(3), 0.0);
            QCOMPARE(view->plot()->overlay().levels.size(), std::size_t{1});
        }
    }

    void hiddenViewCatchesUpWhenShown() {
        DemoSession session(plainOptions());
        for (int i = 0; i < 10; ++i) session.step();
        Cursor cursor;
        cursor.setRecording(session.recording());
        const auto view = shown<KvBytesView>(cursor);
        QCOMPARE(view->plot()->pointCount(view->measuredCurve(0)), 10);
        for (int i = 0; i < 25; ++i) {
            session.step();
            cursor.advanced();
        }
        QCOMPARE(view->plot()->pointCount(view->measuredCurve(0)), 10);
        view->show();
        QCOMPARE(view->plot()->pointCount(view->measuredCurve(0)), 35);
    }

    void speedUpIsUncachedOverCachedDuration() {
        Cursor cursor;
        cursor.setRecording(demo_recording(plainOptions()));
        const auto view = shown<StepTimeView>(cursor);
        QCOMPARE(view->pairs().size(), std::size_t{1});
        QCOMPARE(view->pairs()[0].uncached, LaneId(3));
        QCOMPARE(view->pairs()[0].cached, LaneId(1));
        LaneProgress uncached(cursor.recording(), LaneId(3)), cached(cursor.recording(), LaneId(1));
        uncached.advance();
        cached.advance();
        int compared = 0;
        for (std::size_t step = 0; step < cached.steps(); ++step) {
            const auto ratio = StepTimeView::speedUp(uncached, cached, step);
            const double drawn = view->plot()->valueAt(view->speedUpCurve(0), static_cast<double>(step)).value();
            if (!ratio) {
                QVERIFY(std::isnan(drawn));
                continue;
            }
            QVERIFY(cached.at(step).decodes() && cached.at(step).sequences == uncached.at(step).sequences);
            QCOMPARE(drawn, static_cast<double>(uncached.record().step(step).duration_ns) /
                                static_cast<double>(cached.record().step(step).duration_ns));
            ++compared;
        }
        QVERIFY(compared > 20);
        QVERIFY(!StepTimeView::speedUp(uncached, cached, 0));  // the prompt is no decode step
    }

    void cumulatedTimeIsTheSumOfTheSteps() {
        Cursor cursor;
        cursor.setRecording(demo_recording(plainOptions()));
        const auto view = shown<StepTimeView>(cursor);
        view->setCumulated(true);
        for (std::uint32_t lane = 0; lane < 4; ++lane) {
            double sum = 0;
            const LaneRecord& record = cursor.recording()->lane(LaneId(lane));
            for (std::size_t step = 0; step < record.step_count(); ++step) {
                sum += static_cast<double>(record.step(step).duration_ns);
                QCOMPARE(view->plot()->valueAt(view->timeCurve(lane), static_cast<double>(step)).value(), sum);
            }
        }
    }

    void reusedTokensAreWhatACacheSaves() {
        Cursor cursor;
        cursor.setRecording(demo_recording(plainOptions()));
        const auto view = shown<StepTimeView>(cursor);
        view->setCumulated(true);
        // While only request a runs: behind a prompt of 37, T tokens are 37 + 38 + … + T without a cache and T with it.
        const double step = 3;
        const double computed = view->plot()->valueAt(view->reusedCurve(), step).value();
        QCOMPARE(computed, 39.0);  // 32 and 5 of the prompt, then two decodes
        QCOMPARE(view->plot()->valueAt(view->naiveCurve(), step).value(), 37.0 + 38.0 + 39.0);
    }

    void uncachedLaneThatStoppedEarlierKeepsItsOwnLength() {
        DemoOptions options = plainOptions();
        options.uncached_steps = 50;
        Cursor cursor;
        cursor.setRecording(demo_recording(options));
        const auto view = shown<StepTimeView>(cursor);
        QCOMPARE(view->plot()->pointCount(view->timeCurve(3)), 50);
        QCOMPARE(view->plot()->pointCount(view->timeCurve(1)), 200);
        QCOMPARE(view->plot()->pointCount(view->speedUpCurve(0)), 50);
        QVERIFY(!view->image().isNull());
    }

    void numbersOfALaneThatEndedSayOfWhichStepTheyAre() {
        DemoOptions options = plainOptions();
        options.uncached_steps = 50;
        Cursor cursor;
        cursor.setRecording(demo_recording(options));
        const auto times = shown<StepTimeView>(cursor);
        const auto logits = shown<LogitsView>(cursor);
        const auto said = [](const PlotPane& view) {
            const auto& labels = view.plot()->overlay().labels;
            return std::count_if(labels.begin(), labels.end(), [](const PlotLabel& l) { return l.detail.contains("at step 49"); });
        };
        for (const auto& [step, past] : {std::pair(120, true), std::pair(49, false), std::pair(20, false)}) {
            cursor.setStep(step);
            for (PlotPane* view : {static_cast<PlotPane*>(times.get()), static_cast<PlotPane*>(logits.get())}) view->catchUp();
            QVERIFY((said(*times) >= 2) == past && (said(*logits) > 0) == past);  // times and speed-up; now
        }
    }

    void largestDifferenceStopsWhereTokensDiffer() {
        const auto recording = diverging();
        LaneDifference comparison(recording.get(), LaneId(1), LaneId(0));
        comparison.advance();
        QCOMPARE(comparison.steps(), std::size_t{5});
        QCOMPARE(comparison.largest(0), 0.0f);
        QCOMPARE(comparison.largest(1), 2e-6f);
        // Step 2 gives the first other token, from logits of equal tokens; 0.5 in step 3 is of other texts.
        for (std::size_t step = 2; step < 5; ++step) QCOMPARE(comparison.largest(step), 5e-6f);
        QCOMPARE(comparison.differences().size(), std::size_t{3});
        QCOMPARE(comparison.differences()[0].step, 2u);
        QCOMPARE(comparison.differences()[0].own, 1);
        QCOMPARE(comparison.differences()[0].reference, 2);
        // The choice of step 2 answers the same text; what it leads to is another one.
        QCOMPARE(comparison.textsPartAt(), std::optional<std::uint32_t>(2));
        for (std::size_t i = 0; i < 3; ++i) QCOMPARE(comparison.differences()[i].sameText, i == 0);
    }

    // Two samples of one request that answer different texts, the same ones in both lanes.
    void aSampleIsComparedToTheSampleOfItsName() {
        RecordingWriter writer("samples", 1 << 20);
        for (const char* name : {"first", "second"}) {
            LaneInfo info;
            info.name = name;
            info.weights_id = 7;
            writer.add_lane(info, nullptr);
        }
        writer.lanes_complete();
        writer.add_request({});
        for (std::uint32_t lane = 0; lane < 2; ++lane) {
            LaneWriter& own = writer.lane(LaneId(lane));
            own.begin_step();
            for (std::uint32_t i = 0; i < 2; ++i) {
                own.add_sequence({RequestId(0), {}, 0, 1, i == 0 ? "a.0" : "a.1"});
                const auto chosen = static_cast<TokenId>(i);
                const Alternative alternatives[] = {{chosen, 0.6f, 2.0f}, {1 - chosen, 0.3f, 1.0f}};
                TokenRecord token;
                token.sequence = SequenceId(i);
                token.position = 1;
                token.source = TokenRecord::sampled;
                token.token = chosen;
                own.token(token, alternatives);
            }
            own.end_step({});
        }
        LaneDifference comparison(writer.recording().get(), LaneId(1), LaneId(0));
        comparison.advance();
        QVERIFY(comparison.differences().empty());
    }

    void differingChoiceIsMarkedWithBothTokens() {
        Cursor cursor;
        cursor.setRecording(diverging());
        const auto view = shown<LogitsView>(cursor);
        int triangles = 0;
        QString text;
        for (const PlotMarker& marker : view->plot()->overlay().markers) {
            if (marker.glyph != PlotMarker::Glyph::triangle) continue;
            ++triangles;
            if (!marker.text.isEmpty()) text = marker.text;
        }
        QCOMPARE(triangles, 1);  // what follows answers other texts
        QVERIFY2(text.contains(QStringLiteral("boat")) && text.contains(QStringLiteral("ship")), qPrintable(text));
        QVERIFY(view->plot()->overlay().footer.contains(QStringLiteral("other")));
        const auto rows = rowsOf(view->csv());
        QCOMPARE(rows.size(), 6);
        QCOMPARE(rows[3].last(), QStringLiteral("1"));
        QCOMPARE(rows[2].last(), QStringLiteral("0"));
        QVERIFY(!view->image().isNull());
    }

    void aLateDifferenceIsMarkedWhenTheViewIsFirstShown() {
        Cursor cursor;
        cursor.setRecording(diverging(60));
        const auto view = shown<LogitsView>(cursor);
        const auto& markers = view->plot()->overlay().markers;
        QVERIFY(std::any_of(markers.begin(), markers.end(), [](const PlotMarker& marker) {
            return marker.glyph == PlotMarker::Glyph::triangle && marker.x == 62 && marker.text.contains(QStringLiteral("boat"));
        }));
    }

    void lanesOfOtherWeightsHaveASentence() {
        DemoOptions options = plainOptions();
        options.one_lane = true;
        options.steps = 5;
        Cursor cursor;
        cursor.setRecording(demo_recording(options));
        const auto logits = shown<LogitsView>(cursor);
        QCOMPARE(rowsOf(logits->csv()).size(), 1);
        QVERIFY(logits->subtitle().isEmpty());
        const auto times = shown<StepTimeView>(cursor);
        QVERIFY(times->pairs().empty());
        QVERIFY(!times->plot()->overlay().footer.isEmpty());
    }

    void clickMovesTheCursorAndLocksTheLane() {
        Cursor cursor;
        cursor.setRecording(demo_recording(plainOptions()));
        const auto view = shown<KvBytesView>(cursor);
        Q_EMIT view->plot()->clicked(60.3, view->measuredCurve(2));
        QCOMPARE(cursor.step(), 60);
        QCOMPARE(cursor.lane(), LaneId(2));
        QCOMPARE(cursor.locked().lane, std::optional(LaneId(2)));
        Q_EMIT view->plot()->clicked(1e9, -1);
        QCOMPARE(cursor.step(), 199);
    }

    void zoomStaysUntilFit() {
        DemoSession session(plainOptions());
        for (int i = 0; i < 40; ++i) session.step();
        Cursor cursor;
        cursor.setRecording(session.recording());
        const auto view = shown<StepTimeView>(cursor);
        const auto whole = view->plot()->xRange();
        QTest::keyClick(view->plot(), Qt::Key_Plus);
        const auto zoomed = view->plot()->xRange();
        QVERIFY(zoomed.second - zoomed.first < whole.second - whole.first);
        for (int i = 0; i < 60; ++i) session.step();
        cursor.advanced();
        view->catchUp();
        QCOMPARE(view->plot()->xRange(), zoomed);
        QTest::keyClick(view->plot(), Qt::Key_F);
        QVERIFY(view->plot()->xRange().second >= 100);
        QVERIFY(view->plot()->isFitted());
    }


private:
    static QString formatBytesOf(std::int64_t residual) {
        return (residual > 0 ? QStringLiteral("+") : QString()) + QLocale(QLocale::English).toString(static_cast<qlonglong>(residual)) + QStringLiteral(" B");
    }
};

QTEST_MAIN(TestCompareViews)
#include "tst_compare_views.moc"
