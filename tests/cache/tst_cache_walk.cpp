// SPDX-License-Identifier: GPL-3.0-or-later
//
// 100,000 random operations on paged caches of all kinds against a naive model (cache_walk.h).
#include <QRegularExpression>
#include <QTest>

#include "tests/cache/cache_walk.h"

#include <random>

using namespace kvloupe;

class TestCacheWalk : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void aRandomWalkAgreesWithTheNaiveModel() {
        constexpr std::uint64_t all = 100'000, each = 250;
        CacheWalk::Tally tally;
        for (std::uint32_t seed = 0; tally.operations < all; ++seed) {
            std::mt19937 random(seed);
            const std::string failure = CacheWalk::run({[&] { return std::uint8_t(random()); }, [] { return false; }}, each, &tally);
            QVERIFY2(failure.empty(), qPrintable(QStringLiteral("seed %1, %2").arg(seed).arg(QString::fromStdString(failure))));
        }
        QCOMPARE(tally.operations, all);
        for (const EventKind kind : {EventKind::prefix_hit, EventKind::allocate, EventKind::fork, EventKind::copy_on_write,
                                     EventKind::evict, EventKind::free, EventKind::swap_out, EventKind::swap_in,
                                     EventKind::null_block, EventKind::store, EventKind::reset})
            QVERIFY2(tally.kinds[kind] >= 50, qPrintable(QString::fromStdString(std::string(name_of(kind)))));
        for (const Cause cause : {Cause::pool_too_full, Cause::prompt_too_long_now, Cause::below_watermark, Cause::block_needed,
                                  Cause::out_of_window, Cause::out_of_chunk, Cause::last_owner_writes, Cause::sequence_preempted,
                                  Cause::requested})
            QVERIFY2(tally.causes[cause] >= 50, qPrintable(QString::number(int(cause))));
    }
};

QTEST_GUILESS_MAIN(TestCacheWalk)
#include "tst_cache_walk.moc"
