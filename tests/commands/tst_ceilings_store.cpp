// SPDX-License-Identifier: GPL-3.0-or-later
//
// What was measured on a device is found again, by device, and a damaged file costs nothing but what it held.
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include "engine/record/gpu_table.h"
#include "gui/ceilings_store.h"

using namespace kvloupe;

namespace {

Ceilings some(double scale) {
    Ceilings ceilings;
    ceilings.read_bandwidth = 3.25e12 * scale;
    ceilings.copy_bandwidth = 2.75e12 * scale;
    ceilings.matrix_rate = 8.5e14 * scale;
    ceilings.matrix_type = DType::f16;
    ceilings.measured_on = "2026-11-30";
    return ceilings;
}

void write(const QString& path, const QByteArray& content) {
    QFile file(path);
    if (!file.open(QIODevice::WriteOnly)) qFatal("cannot write %s", qPrintable(path));
    file.write(content);
}

}  // namespace

class TestCeilingsStore : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void entriesAreFoundByDeviceAndReplacedOneByOne() {
        QTemporaryDir folder;
        const std::string path = folder.filePath(QStringLiteral("new/folder/ceilings.json")).toStdString();
        const CeilingsStore store(path);
        QVERIFY(!store.find("a card"));
        QVERIFY(store.keep("a card", some(1)));
        QVERIFY(store.keep("another \"card\" é", some(2)));
        QVERIFY(CeilingsStore(path).find("a card")->best == some(1));
        QVERIFY(CeilingsStore(path).find("another \"card\" é")->best == some(2));
        QVERIFY(store.keep("a card", some(3)));
        QVERIFY(store.find("a card")->best == some(3));
        QVERIFY(store.find("another \"card\" é")->best == some(2));
    }

    void theBestOfEachNumberIsKeptWithTheDayOfTheLastImprovement() {
        QTemporaryDir folder;
        const CeilingsStore store(folder.filePath(QStringLiteral("ceilings.json")).toStdString());
        Ceilings first = some(1);  // what was not measured stays so
        first.matrix_rate = 0;
        QVERIFY(store.keep("a card", first));
        QVERIFY(store.find("a card")->best == first);
        QCOMPARE(store.find("a card")->measurements, 1u);
        Ceilings busy = some(0.5);
        busy.matrix_rate = 0;
        busy.measured_on = "2026-12-01";
        QVERIFY(store.keep("a card", busy));
        QVERIFY(store.find("a card")->best == first);
        QCOMPARE(store.find("a card")->measurements, 2u);
        Ceilings mixed = some(0.5);
        mixed.copy_bandwidth = 2 * first.copy_bandwidth;
        mixed.measured_on = "2026-12-02";
        QVERIFY(store.keep("a card", mixed));
        Ceilings best = mixed;
        best.read_bandwidth = first.read_bandwidth;
        QVERIFY(store.find("a card")->best == best);
        QCOMPARE(store.find("a card")->measurements, 3u);
        Ceilings other = some(0.25);  // rates of another type are another matter
        other.matrix_type = DType::bf16;
        QVERIFY(store.keep("a card", other));
        QCOMPARE(store.find("a card")->best.matrix_rate, other.matrix_rate);
        QCOMPARE(store.find("a card")->best.matrix_type, DType::bf16);
    }

    void anEntryOfAnOlderVersionIsOneMeasurement() {
        QTemporaryDir folder;
        const QString path = folder.filePath(QStringLiteral("ceilings.json"));
        write(path, R"({"devices": {"a card": {"read_bandwidth": 1e12, "measured_on": "2026-11-30"}}})");
        QCOMPARE(CeilingsStore(path.toStdString()).find("a card")->measurements, 1u);
    }

    void aProcessorIsKeptWithItsThreadsAndACardByItsName() {
        QCOMPARE(CeilingsStore::key_of("cpu", "Some CPU", "2 threads, AVX2"), std::string("Some CPU, 2 threads, AVX2"));
        QVERIFY(CeilingsStore::key_of("cpu", "Some CPU", "1 thread, AVX2") != CeilingsStore::key_of("cpu", "Some CPU", "2 threads, AVX2"));
        QCOMPARE(CeilingsStore::key_of("cuda:1", "Some card", "driver 1"), CeilingsStore::key_of("cuda:0", "Some card", "driver 2"));
    }

    void aDamagedFileIsAnEmptyStore_data() {
        QTest::addColumn<QByteArray>("content");
        QTest::newRow("empty") << QByteArray();
        QTest::newRow("no JSON") << QByteArray("{\"devices\": {");
        QTest::newRow("a list") << QByteArray("[1, 2]");
        QTest::newRow("devices is a number") << QByteArray(R"({"devices": 3})");
        QTest::newRow("a device is a number") << QByteArray(R"({"devices": {"a card": 3}})");
        QTest::newRow("rates are texts") << QByteArray(R"({"devices": {"a card": {"read_bandwidth": "fast", "measured_on": 4}}})");
        QTest::newRow("a rate is negative") << QByteArray(R"({"devices": {"a card": {"read_bandwidth": -1.0}}})");
        QTest::newRow("a rate is beyond reason") << QByteArray(R"({"devices": {"a card": {"read_bandwidth": 1e300}}})");
    }
    void aDamagedFileIsAnEmptyStore() {
        QFETCH(QByteArray, content);
        QTemporaryDir folder;
        const QString path = folder.filePath(QStringLiteral("ceilings.json"));
        write(path, content);
        const CeilingsStore store(path.toStdString());
        QVERIFY(!store.find("a card"));
        QVERIFY(store.keep("a card", some(1)));
        QVERIFY(store.find("a card")->best == some(1));
    }

    void aFolderThatCannotBeWrittenIsSaid() {
        QVERIFY(!CeilingsStore("/proc/nowhere/ceilings.json").keep("a card", some(1)));
        QVERIFY(CeilingsStore(std::string()).keep("a card", some(1)));  // keeps nothing
    }

    void cardsAreKnownByTheDriversNames() {
        QCOMPARE(find_card("NVIDIA H100 80GB HBM3"), find_gpu("H100 SXM"));
        QCOMPARE(find_card("NVIDIA H200"), find_gpu("H200 SXM"));
        QCOMPARE(find_card("NVIDIA A100-SXM4-80GB"), find_gpu("A100 SXM"));
        for (const char* other : {"NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA GH200 480GB", "NVIDIA A100-SXM4-40GB",
                                  "NVIDIA A100 80GB PCIe", "NVIDIA GeForce RTX 4090", ""})
            QVERIFY2(!find_card(other), other);
    }
};

QTEST_GUILESS_MAIN(TestCeilingsStore)
#include "tst_ceilings_store.moc"
