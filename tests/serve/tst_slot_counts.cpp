// SPDX-License-Identifier: GPL-3.0-or-later
//
// The contract's definition of waste (section 4): every slot is exactly one kind.
#include <QRegularExpression>
#include <QTest>

#include "engine/serve/slot_counts.h"

using namespace kvloupe;

class TestSlotCounts : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void heldSlotsAreTokenReservedOrInternal_data() {
        QTest::addColumn<int>("written");
        QTest::addColumn<int>("finalSize");
        QTest::addColumn<int>("token");
        QTest::addColumn<int>("reserved");
        QTest::addColumn<int>("internal");
        // One sequence that holds 2 blocks of 16.
        QTest::newRow("will fill more than it holds") << 20 << 100 << 20 << 12 << 0;
        QTest::newRow("will end inside its last block") << 20 << 25 << 20 << 5 << 7;
        QTest::newRow("has ended") << 20 << 20 << 20 << 0 << 12;
        QTest::newRow("is full") << 32 << 32 << 32 << 0 << 0;
        QTest::newRow("took its blocks and failed") << 0 << 0 << 0 << 0 << 32;
    }
    void heldSlotsAreTokenReservedOrInternal() {
        QFETCH(int, written);
        QFETCH(int, finalSize);
        ReservingCache cache(11, 16);
        QVERIFY(cache.apply(cache.plan_grow(SequenceId{0}, 20)));
        const SlotHolder holder{SequenceId{0}, std::uint32_t(written), std::uint64_t(finalSize)};
        const SlotCounts counts = count_slots(cache, std::span(&holder, 1));
        QTEST(int(counts.token), "token");
        QTEST(int(counts.reserved), "reserved");
        QTEST(int(counts.internal), "internal");
        QCOMPARE(counts.cached + counts.external, std::uint64_t(0));
        QCOMPARE(counts.free, std::uint64_t(8 * 16));
        QCOMPARE(counts.token + counts.reserved + counts.internal + counts.free, std::uint64_t(10 * 16));
    }
};

QTEST_GUILESS_MAIN(TestSlotCounts)
#include "tst_slot_counts.moc"
