// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rules as pure functions: oracles V21 (hit-rate window) and C4 (v0 admission) of CACHE_SEMANTICS section 2; host pool.
#include <QRegularExpression>
#include <QTest>

#include "engine/cache/hit_rate_window.h"
#include "engine/cache/host_pool.h"
#include "engine/cache/v0_admission.h"

using namespace kvloupe;

Q_DECLARE_METATYPE(kvloupe::V0Admission)

class TestCacheRules : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void V21_theHitRateCoversTheLastRequests() {
        HitRateWindow window(5);
        QCOMPARE(window.rate(), 0.0);
        window.add(1, 20, 9);
        QCOMPARE(window.rate(), 0.45);
        window.add(4, 80, 16);
        QCOMPARE(window.rate(), 0.25);
        window.add(0, 0, 0);
        QCOMPARE(window.rate(), 0.25);
        window.add(1, 10, 2);
        QCOMPARE(window.queried_tokens(), std::uint64_t(90));
        QCOMPARE(window.hit_tokens(), std::uint64_t(18));
        QCOMPARE(window.rate(), 0.2);
    }

    void V21_aBatchLargerThanTheWindowStaysAlone() {
        HitRateWindow window(5);
        window.add(3, 100, 100);
        window.add(11, 20, 10);
        QCOMPARE(window.rate(), 0.5);
        QCOMPARE(window.requests(), std::uint64_t(11));
        window.add(1, 10, 0);
        QCOMPARE(window.rate(), 0.0);
    }

    void C4_v0AdmitsByThreeInequalities_data() {
        QTest::addColumn<int>("blocks");
        QTest::addColumn<int>("free");
        QTest::addColumn<int>("needed");
        QTest::addColumn<int>("watermark");
        QTest::addColumn<V0Admission>("answer");
        QTest::newRow("total - required < watermark") << 100 << 100 << 100 << 1 << V0Admission::never;
        QTest::newRow("larger than the pool") << 100 << 100 << 101 << 0 << V0Admission::never;
        QTest::newRow("free - required >= watermark") << 100 << 51 << 50 << 1 << V0Admission::ok;
        QTest::newRow("fits an empty pool exactly") << 100 << 100 << 99 << 1 << V0Admission::ok;
        QTest::newRow("one block too few") << 100 << 50 << 50 << 1 << V0Admission::later;
        QTest::newRow("more than is free") << 100 << 10 << 50 << 1 << V0Admission::later;
    }
    void C4_v0AdmitsByThreeInequalities() {
        QFETCH(int, blocks);
        QFETCH(int, free);
        QFETCH(int, needed);
        QFETCH(int, watermark);
        QFETCH(V0Admission, answer);
        QCOMPARE(v0_admission(std::uint64_t(blocks), std::uint64_t(free), std::uint64_t(needed), std::uint64_t(watermark)), answer);
    }

    void hostBlocksAreReused() {
        HostPool pool(3);
        QCOMPARE(pool.free(), 3u);
        QCOMPARE(pool.take(), 0u);
        QCOMPARE(pool.take(), 1u);
        QCOMPARE(pool.used(), 2u);
        pool.give_back(0);
        QCOMPARE(pool.free(), 2u);
        QCOMPARE(pool.take(), 0u);
        QCOMPARE(pool.take(), 2u);
        QCOMPARE(pool.free(), 0u);
    }
};

QTEST_GUILESS_MAIN(TestCacheRules)
#include "tst_cache_rules.moc"
