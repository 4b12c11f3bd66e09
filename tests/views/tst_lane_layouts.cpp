// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the views of the Compare tab say of lanes that keep their cache in different ways (quantised, behind windows, as a latent),
// on sessions that really ran: layouts add up to the bytes of a token, predictions are the ledger's.
#include <QTest>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "engine/record/figures.h"
#include "engine/record/ledger.h"
#include "tests/serve/lane_models.h"
#include "tests/views/compare_fixture.h"
#include "views/attention_view.h"
#include "views/comparison_view.h"
#include "views/kv_bytes_view.h"
#include "views/lanes_view.h"
#include "views/logits_view.h"
#include "views/step_time_view.h"
#include "views/table_picture.h"

#include <QFile>
#include <QRegularExpression>
#include <QScrollBar>
#include <QTableView>

using namespace kvloupe;

namespace {

std::shared_ptr<const Recording> ran(const std::unique_ptr<Session>& session) {
    if (const auto done = session->run_to_end(); !done) throw std::runtime_error(done.error().message());
    return session->recording();
}

// The six-lane sample with shorter answers, over the bundled models.
std::shared_ptr<const Recording> sixLanes() {
    QFile file(QStringLiteral(KVLOUPE_SOURCE_DIR "/resources/scenarios/variants.json"));
    if (!file.open(QIODevice::ReadOnly)) throw std::runtime_error("the sample is not there");
    Scenario scenario = test::scenario(file.readAll().toStdString());
    scenario.device = "cpu";
    scenario.requests.front().max_new_tokens = 24;
    SessionOptions options = test::options();
    options.find_model = [](const std::string& model) {
        return load_model(KVLOUPE_SOURCE_DIR "/resources/models/" + model.substr(model.find(':') + 1));
    };
    options.default_attention = std::vector<AttentionWatch>{AttentionWatch{0, {}}};
    auto session = Session::create(scenario, std::move(options));
    if (!session) throw std::runtime_error(session.error().message());
    return ran(*session);
}

const std::vector<std::uint32_t> windows = {24, 24, 24, 0, 24, 24, 24, 0, 24};

std::shared_ptr<const Recording> windowed() {
    return ran(test::session_of(test::generated_model(windows),
                                R"("lanes": [{"name": "windows", "cache": {"block_size": 8}}], "requests": [)" +
                                    test::small_request("a", 60, 40) + "," +
                                    test::small_request("b", 17, 30, R"(, "arrival_step": 5)") + "]"));
}

// A view whose tip can be asked for.
template <class T>
struct Pointed : T {
    using T::T;
    using T::tipAt;
};

double sumOf(const StoredToken& token, StoredPiece::Kind kind) {
    double sum = 0;
    for (const StoredPiece& piece : token.pieces) sum += piece.kind == kind ? piece.bytes : 0;
    return sum;
}

}  // namespace

class TestLaneLayouts : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral(".*"))); }

    void initTestCase() { m_six = sixLanes(); }

    void aStoredTokenHasTheBytesOfItsLayout_data() {
        QTest::addColumn<QString>("cache");
        QTest::addColumn<double>("bytes");   // of a token of one layer: 2 KV heads of 32 values, K and V
        QTest::addColumn<double>("scales");  // of them
        QTest::newRow("f32") << R"("dtype": "f32")" << 512.0 << 0.0;
        QTest::newRow("f16") << R"("dtype": "f16")" << 256.0 << 0.0;
        QTest::newRow("fp8, a scale per head") << R"("dtype": "fp8_e4m3", "scale": "head")" << 128.0 << 0.0;
        QTest::newRow("fp8, a scale per token and head") << R"("dtype": "fp8_e4m3", "scale": "token_head")" << 144.0 << 16.0;
        QTest::newRow("int8") << R"("dtype": "int8")" << 144.0 << 16.0;
        QTest::newRow("int8, joint") << R"("dtype": "int8", "scale": "joint")" << 136.0 << 8.0;
        QTest::newRow("int4") << R"("dtype": "int4")" << 80.0 << 16.0;
        QTest::newRow("q8_0") << R"("dtype": "q8_0")" << 136.0 << 8.0;
        QTest::newRow("q4_1") << R"("dtype": "q4_1")" << 80.0 << 16.0;
        QTest::newRow("kivi2") << R"("dtype": "kivi2", "residual": 32)" << 64.0 << 32.0;
        QTest::newRow("K int8, V int4") << R"("dtype_k": "int8", "dtype_v": "int4")" << 112.0 << 16.0;
    }
    void aStoredTokenHasTheBytesOfItsLayout() {
        QFETCH(const QString, cache);
        QFETCH(const double, bytes);
        QFETCH(const double, scales);
        const auto session = test::session_of(test::generated_model({0, 0}), R"("lanes": [{"cache": {)" + cache.toStdString() + R"(}}],
            "requests": [)" + test::small_request("a", 8, 2) + "]");
        const LaneInfo& info = session->recording()->lane(LaneId(0)).info();
        double all = 0;
        for (std::uint32_t layer = 0; layer < info.layers; ++layer) {
            const StoredToken token = StoredToken::of(info, layer);
            QCOMPARE(token.bytes, info.layer_infos[layer].bytes_per_token());
            QCOMPARE(token.bytes, bytes);
            QCOMPARE(sumOf(token, StoredPiece::Kind::scales), scales);
            double pieces = 0;
            for (const StoredPiece& piece : token.pieces) pieces += piece.bytes;
            QCOMPARE(pieces, token.bytes);
            all += token.bytes;
        }
        QCOMPARE(all, static_cast<double>(info.bytes_per_token));
    }

    void theLatentIsOnePieceAndItsRotaryKeyAnother() {
        const LaneInfo& info = m_six->lane(LaneId(3)).info();
        QVERIFY(info.latent_rank > 0);
        const StoredToken token = StoredToken::of(info, 0);
        QCOMPARE(token.pieces.size(), std::size_t{2});
        QCOMPARE(sumOf(token, StoredPiece::Kind::latent), 2.0 * info.latent_rank);
        QCOMPARE(sumOf(token, StoredPiece::Kind::rotary), 2.0 * info.latent_rotary_dim);
        QVERIFY(StoredToken::of(m_six->lane(LaneId(5)).info(), 0).pieces.empty());  // no cache
        QCOMPARE(StoredToken::of(m_six->lane(LaneId(0)).info(), 0).pieces.size(), std::size_t{16});
    }

    void lanesExportTheBytesTheyDraw() {
        Cursor cursor;
        cursor.setRecording(m_six);
        const auto view = shown<LanesView>(cursor);
        const auto rows = rowsOf(view->csv());
        QCOMPARE(rows.size(), 7);
        QCOMPARE(rows[0].last(), QStringLiteral("bytes_of_a_token_in_it_derived"));
        for (int lane = 0; lane < 6; ++lane) {
            const LaneInfo& info = m_six->lane(LaneId(static_cast<std::uint32_t>(lane))).info();
            const QString expected = info.kv_cache ? QString::number(info.layer_infos[0].bytes_per_token(), 'g', 12) : QString();
            QCOMPARE(rows[lane + 1].last(), expected);
        }
        for (const int width : {250, 430, 900}) {
            view->resize(width, 280);
            QVERIFY(!view->image().isNull());
        }
    }

    void predictedBytesAreTheLedgersBehindWindows() {
        const auto recording = windowed();
        PredictedBytes predicted(recording.get(), LaneId(0));
        QVERIFY(PredictedBytes::windowed(predicted.record().info()));
        predicted.advance();
        QCOMPARE(predicted.steps(), predicted.record().step_count());
        bool flat = false;
        for (std::size_t step = 0; step < predicted.steps(); ++step) {
            for (const LedgerEntry& entry : ledger(predicted.record(), step)) {
                if (entry.what != "KV by formula") continue;
                QCOMPARE(predicted.at(step).bytes, *entry.predicted);
                QCOMPARE(predicted.residual(step), entry.residual);
            }
            flat = flat || predicted.at(step).bytes * 2 < predicted.at(step).tokens * predicted.record().info().bytes_per_token;
        }
        QVERIFY(flat);
    }

    void predictedBytesAreTheLedgersWithScales() {
        for (const std::uint32_t lane : {0u, 3u, 4u}) {  // f16, a latent, int8
            PredictedBytes predicted(m_six.get(), LaneId(lane));
            predicted.advance();
            for (std::size_t step = 0; step < predicted.steps(); ++step)
                for (const LedgerEntry& entry : ledger(predicted.record(), step))
                    if (entry.what == "token slots") QCOMPARE(predicted.at(step).bytes, *entry.predicted);
        }
    }

    void theCurveOfAWindowedLaneFlattens() {
        Cursor cursor;
        cursor.setRecording(windowed());
        const auto view = shown<KvBytesView>(cursor);
        const PredictedBytes& predicted = view->prediction(0);
        for (std::size_t step = 0; step < predicted.steps(); ++step)
            QCOMPARE(view->plot()->valueAt(view->predictedCurve(0), static_cast<double>(step)).value(),
                     static_cast<double>(predicted.at(step).bytes));
        view->setAgainstTokens(true);
        const LaneInfo& info = predicted.record().info();
        for (const double tokens : {0.0, 24.0}) {
            const auto bytes = static_cast<double>(predicted_sequence_bytes(info, static_cast<std::uint64_t>(tokens)));
            QCOMPARE(view->plot()->valueAt(view->predictedCurve(0), tokens).value(), bytes);
        }
        // Behind the window only the two global layers grow.
        const double right = view->plot()->xRange().second, end = view->plot()->valueAt(view->predictedCurve(0), right).value();
        const double atWindow = view->plot()->valueAt(view->predictedCurve(0), 24).value();
        QCOMPARE(end - atWindow, (right - 24) * 2 * info.layer_infos[3].bytes_per_token());
        QVERIFY(!view->image().isNull());
    }

    void memoryIsFullWhereTheFormulaReachesIt() {
        const auto session = test::session_of(test::generated_model(windows), R"("lanes": [{}], "requests": [)" +
                                                                                  test::small_request("a", 4, 2) + "]");
        LaneInfo info = session->recording()->lane(LaneId(0)).info();
        for (const std::uint64_t memory : {std::uint64_t{10'000}, std::uint64_t{1'000'000}, std::uint64_t{80'000'000'000}}) {
            const std::uint64_t tokens = PredictedBytes::tokensThatFill(info, memory);
            QVERIFY(predicted_sequence_bytes(info, tokens) <= memory && predicted_sequence_bytes(info, tokens + 1) > memory);
        }
        for (LayerInfo& layer : info.layer_infos) layer.window = 24;
        QCOMPARE(PredictedBytes::tokensThatFill(info, std::uint64_t{80'000'000'000}), std::uint64_t{0});
    }

    void comparisonShowsMeasuredQualityByTheLanesNames() {
        Cursor cursor;
        cursor.setRecording(m_six);
        ComparisonView view(&cursor);
        view.resize(2400, 260);
        view.catchUp();
        const QAbstractItemModel& model = *view.table()->model();
        const auto cell = [&](int row, int column, int role) { return model.index(row, column).data(role); };
        for (int row = 0; row < 6; ++row) {
            QVERIFY(!cell(row, ComparisonModel::perplexity, originRole).isValid());
            QVERIFY(cell(row, ComparisonModel::recall, Qt::ToolTipRole).toString().contains(QStringLiteral("Measure quality")));
        }
        auto report = std::make_shared<QualityReport>();
        report->text = "512 stories";
        LaneQuality gqa;
        gqa.lane = "GQA";
        gqa.perplexity = {9.018, 8.9, 9.14, 12'345};
        gqa.recall_total.right = {0.979, 0.962, 0.988, 512};
        report->lanes = {gqa};
        view.setQuality(report);
        view.catchUp();
        QCOMPARE(cell(1, ComparisonModel::perplexity, Qt::DisplayRole).toString(), QStringLiteral("9.02"));
        QCOMPARE(cell(1, ComparisonModel::perplexity, csvRole).toString(), QStringLiteral("9.018"));
        QCOMPARE(cell(1, ComparisonModel::perplexity, originRole).toInt(), static_cast<int>(Origin::measured));
        QVERIFY(cell(1, ComparisonModel::perplexity, Qt::ToolTipRole).toString().contains(QStringLiteral("8.90 to 9.14")));
        QCOMPARE(cell(1, ComparisonModel::recall, Qt::DisplayRole).toString(), QStringLiteral("97.9 %"));
        QVERIFY(!cell(0, ComparisonModel::perplexity, originRole).isValid());
        view.setQuality(nullptr);
        view.catchUp();
        QVERIFY(!cell(1, ComparisonModel::perplexity, originRole).isValid());
    }

    void theTipOfAResidualExplainsItToTheByte() {
        Cursor cursor;
        cursor.setRecording(windowed());
        ComparisonView view(&cursor);
        view.resize(1400, 200);
        for (const int step : {0, 20, 38}) {
            cursor.setStep(step);
            view.catchUp();
            const QModelIndex cell = view.table()->model()->index(0, ComparisonModel::residual);
            for (const LedgerEntry& entry : ledger(cursor.recording()->lane(LaneId(0)), static_cast<std::size_t>(step))) {
                if (entry.what != "KV by formula") continue;
                QCOMPARE(cell.data(csvRole).toLongLong(), static_cast<qlonglong>(entry.residual));
                QVERIFY(!entry.residual_why.empty());
                QVERIFY(cell.data(Qt::ToolTipRole).toString().endsWith(QString::fromStdString(entry.residual_why)));
            }
        }
    }

    void sixLanesNeedNoScrolling_data() {
        QTest::addColumn<double>("scale");
        for (const double scale : {1.0, 1.25}) QTest::addRow("%g", scale) << scale;
    }
    void sixLanesNeedNoScrolling() {
        QFETCH(const double, scale);
        Cursor cursor;
        cursor.setFontScale(scale);
        cursor.setRecording(m_six);
        ComparisonView view(&cursor);
        view.resize(1366, qRound(165 * scale));
        view.show();
        QCoreApplication::processEvents();
        QCOMPARE(view.table()->verticalScrollBar()->maximum(), 0);
        QVERIFY(!view.table()->isColumnHidden(ComparisonModel::perplexity) && !view.table()->isColumnHidden(ComparisonModel::recall));
        view.resize(1366, 600);
        QCoreApplication::processEvents();
        QCOMPARE(view.table()->rowHeight(5), qRound(29 * scale));
    }

    void logitsSayWhichPrecisionsTheyCompare() {
        Cursor cursor;
        cursor.setRecording(m_six);
        const auto view = shown<LogitsView>(cursor);
        QCOMPARE(view->comparisons().size(), std::size_t{2});
        QStringList words;
        for (const PlotLabel& label : view->plot()->overlay().labels) words << label.name << label.detail;
        QVERIFY2(words.contains(QStringLiteral("int8 against f16")), qPrintable(words.join(QLatin1Char('|'))));
        QVERIFY2(words.contains(QStringLiteral("f32 against f16")), qPrintable(words.join(QLatin1Char('|'))));
        QVERIFY(view->plot()->overlay().levels.empty());  // no two of them keep f32
        QVERIFY2(view->subtitle().contains(QStringLiteral("to GQA (f16)")), qPrintable(view->subtitle()));
    }

    void manyLanesShowTheTimesOfThePairAlone() {
        Cursor cursor;
        cursor.setRecording(m_six);
        const auto view = shown<StepTimeView>(cursor);
        QCOMPARE(view->pairs().size(), std::size_t{1});
        QCOMPARE(view->pairs()[0].cached, LaneId(1));
        QVERIFY(view->pairsAlone());
        for (std::size_t lane = 0; lane < 6; ++lane) QCOMPARE(view->timeCurve(lane) >= 0, lane == 1 || lane == 5);
        view->setPairsAlone(false);
        for (std::size_t lane = 0; lane < 6; ++lane) QVERIFY(view->timeCurve(lane) >= 0);
        QVERIFY(!view->image().isNull());
    }

    void anAxisEndsBelowTheFewStepsThatTowerAboveAllOthers() {
        std::vector<double> steady(100, 10.0), growing;
        for (int i = 0; i < 100; ++i) growing.push_back(100.0 + i);
        QVERIFY(!StepTimeView::endBelowOutliers({steady, growing}));
        QVERIFY(!StepTimeView::endBelowOutliers({{}, {5.0}}));
        steady[40] = 5'000;
        const auto end = StepTimeView::endBelowOutliers({steady, growing});
        QVERIFY(end && *end > growing.back() && *end < 5'000);
        for (double& value : growing) value = 5'000;  // as much as that is usual in another lane
        QVERIFY(!StepTimeView::endBelowOutliers({steady, growing}));
    }

    void anUncachedLaneIsComparedToTheOneThatDiffersInLittleElse() {
        RecordingWriter writer("forms", 1 << 20);
        LaneInfo info;
        info.weights_id = 7;
        info.device_id = "cpu";
        const auto add = [&](const char* name, const char* form, const char* dtype) {
            info.name = name;
            info.attention_form = form;
            info.cache_dtype = dtype;
            info.kv_cache = std::string_view(dtype) != "none";
            writer.add_lane(info, nullptr);
        };
        add("tiled int8", "tiled", "int8");
        add("tiled", "tiled", "f16");
        add("materialised", "materialised", "f16");
        add("tiled, uncached", "tiled", "none");
        add("materialised, uncached", "materialised", "none");
        writer.lanes_complete();
        const Recording& recording = *writer.recording();
        QCOMPARE(cachedTwin(recording, LaneId(3)), std::optional(LaneId(1)));
        QCOMPARE(cachedTwin(recording, LaneId(4)), std::optional(LaneId(2)));
        QVERIFY(!cachedTwin(recording, LaneId(0)));
    }

    void allHeadsOfALatentLaneReadIt() {
        Cursor cursor;
        cursor.setRecording(m_six);
        cursor.setStep(10);
        for (const std::uint32_t lane : {0u, 3u}) {
            cursor.setLane(LaneId(lane));
            Pointed<AttentionView> view(&cursor);
            view.resize(450, 480);
            view.show();
            QCoreApplication::processEvents();
            QString all;
            for (int x = 30; x < 440; x += 4) all += view.tipAt(QPointF(x, 34)) + QLatin1Char('\n');
            QVERIFY2(all.contains(QStringLiteral("query head 7")), qPrintable(all));
            QCOMPARE(all.contains(QStringLiteral("the latent that all heads share")), lane == 3);
            QCOMPARE(all.contains(QStringLiteral("KV head 7")), lane == 0);
        }
    }

private:
    std::shared_ptr<const Recording> m_six;
};

QTEST_MAIN(TestLaneLayouts)
#include "tst_lane_layouts.moc"
