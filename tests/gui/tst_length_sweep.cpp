// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/length_sweep.h"

#include <QTest>

#include <atomic>

using namespace kvloupe;

class TestLengthSweep : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void lengthsAreSpreadWithoutRepetition_data() {
        QTest::addColumn<int>("least");
        QTest::addColumn<int>("most");
        QTest::addColumn<int>("count");
        QTest::addColumn<QList<int>>("expected");
        QTest::newRow("11 from 10 to 110") << 10 << 110 << 11
                                           << QList<int>{10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110};
        QTest::newRow("narrow range") << 1 << 3 << 11 << QList<int>{1, 2, 3};
        QTest::newRow("one") << 10 << 500 << 1 << QList<int>{500};
        QTest::newRow("same ends") << 7 << 7 << 5 << QList<int>{7};
    }

    void lengthsAreSpreadWithoutRepetition() {
        QFETCH(int, least);
        QFETCH(int, most);
        QFETCH(int, count);
        QFETCH(QList<int>, expected);
        const std::vector<int> lengths = sweepLengths(least, most, count);
        QCOMPARE(QList<int>(lengths.begin(), lengths.end()), expected);
    }

    void timesGrowWithTheLengthAndTheCacheSavesWork() {
        SweepOptions options;
        options.model = "bundled:mqa";
        options.lengths = {4, 20, 40};
        options.repeats = 2;
        double last = 0;
        const auto result = runLengthSweep(options, {}, [&last](double fraction, const std::string&) {
            QVERIFY(fraction >= 0 && fraction <= 1);
            last = fraction;
        });
        QVERIFY2(static_cast<bool>(result), result ? "" : result.error().message().c_str());
        QCOMPARE(static_cast<int>(result->lengths.size()), 3);
        for (std::size_t i = 1; i < 3; ++i) {
            QVERIFY(result->cached_ms[i] > result->cached_ms[i - 1]);
            QVERIFY(result->uncached_ms[i] > result->uncached_ms[i - 1]);
        }
        QCOMPARE(result->repeats, 2);
        QVERIFY(last > 0.5);
    }

    void lengthsBeyondTheContextAreCut() {
        QCOMPARE(lengthsWithin({8, 100, 496, 1000, 2000}, 496), (std::vector<int>{8, 100, 496}));
        QCOMPARE(lengthsWithin({8, 100}, 496), (std::vector<int>{8, 100}));
    }

    void aCancelledSweepSaysSo() {
        SweepOptions options;
        options.model = "bundled:gqa";
        options.lengths = {100};
        std::stop_source source;
        const auto result =
            runLengthSweep(options, source.get_token(), [&source](double, const std::string&) { source.request_stop(); });
        QVERIFY(!result);
        QVERIFY(QString::fromStdString(result.error().message()).contains(QLatin1String("cancelled")));
    }
};

QTEST_GUILESS_MAIN(TestLengthSweep)
#include "tst_length_sweep.moc"
