// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/event_filter.h"
#include "views/format.h"

#include <QRegularExpression>
#include <QTest>

using namespace kvloupe;

class TestFormat : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral(".*"))); }
    void bytesAreExactUpToSevenDigits_data();
    void bytesAreExactUpToSevenDigits();
    void durationsKeepThreeDigits_data();
    void durationsKeepThreeDigits();
    void csvFieldsAreQuotedWhereNeeded();
    void everyOriginHasItsMark();
    void filterKeysNarrow();
    void unknownFilterKeyIsNamed();
};

void TestFormat::bytesAreExactUpToSevenDigits_data() {
    QTest::addColumn<quint64>("bytes");
    QTest::addColumn<QString>("text");
    QTest::newRow("zero") << quint64(0) << QStringLiteral("0 B");
    QTest::newRow("separators") << quint64(491520) << QStringLiteral("491,520 B");
    QTest::newRow("seven digits") << quint64(9999999) << QStringLiteral("9,999,999 B");
    QTest::newRow("eight digits") << quint64(10485760) << QStringLiteral("10.00 MiB");
    QTest::newRow("gib") << quint64(1610612736) << QStringLiteral("1.50 GiB");
}

void TestFormat::bytesAreExactUpToSevenDigits() {
    QFETCH(quint64, bytes);
    QFETCH(QString, text);
    QCOMPARE(formatBytes(bytes), text);
}

void TestFormat::durationsKeepThreeDigits_data() {
    QTest::addColumn<double>("nanoseconds");
    QTest::addColumn<QString>("text");
    QTest::newRow("below a microsecond") << 400.0 << QStringLiteral("0.4 µs");
    QTest::newRow("microseconds") << 2900.0 << QStringLiteral("2.9 µs");
    QTest::newRow("hundreds") << 412300.0 << QStringLiteral("412 µs");
    QTest::newRow("milliseconds") << 4.61e6 << QStringLiteral("4.61 ms");
    QTest::newRow("seconds") << 2.5e9 << QStringLiteral("2.50 s");
    QTest::newRow("nothing") << std::nan("") << QString();
}

void TestFormat::durationsKeepThreeDigits() {
    QFETCH(double, nanoseconds);
    QFETCH(QString, text);
    QCOMPARE(formatDuration(nanoseconds), text);
}

void TestFormat::csvFieldsAreQuotedWhereNeeded() {
    QCOMPARE(csvField(QStringLiteral("plain")), QStringLiteral("plain"));
    QCOMPARE(csvField(QStringLiteral("a,b")), QStringLiteral("\"a,b\""));
    QCOMPARE(csvField(QStringLiteral("say \"x\"")), QStringLiteral("\"say \"\"x\"\"\""));
    QCOMPARE(csvField(QStringLiteral("two\nlines")), QStringLiteral("\"two\nlines\""));
}

void TestFormat::everyOriginHasItsMark() {
    QCOMPARE(originMark(Origin::measured), QStringLiteral("●"));
    QCOMPARE(originMark(Origin::derived), QStringLiteral("◐"));
    QCOMPARE(originMark(Origin::predicted), QStringLiteral("○"));
}

void TestFormat::filterKeysNarrow() {
    const EventFilter filter = EventFilter::parse(QStringLiteral("seq:3 step:206-210 kind:allocate kind:copy-on-write block:12 owners"));
    QVERIFY(filter.error.isEmpty());
    QCOMPARE(filter.sequence, QStringLiteral("3"));
    QVERIFY(filter.firstStep == 206u && filter.lastStep == 210u);
    QVERIFY(filter.block == 12u);
    QCOMPARE(filter.kinds.count(), std::size_t{2});
    QVERIFY(filter.kinds.test(static_cast<std::size_t>(EventKind::copy_on_write)));
    QCOMPARE(filter.words, QStringList{QStringLiteral("owners")});
}

void TestFormat::unknownFilterKeyIsNamed() {
    QVERIFY(EventFilter::parse(QStringLiteral("sequence:3")).error.contains(QStringLiteral("sequence")));
    QVERIFY(EventFilter::parse(QStringLiteral("step:x")).error.contains(QStringLiteral("“x”")));
    QVERIFY(EventFilter::parse(QStringLiteral("step:")).error.isEmpty());  // still being typed
}

QTEST_GUILESS_MAIN(TestFormat)
#include "tst_format.moc"
