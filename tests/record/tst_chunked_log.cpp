// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>

#include "engine/record/chunked_log.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace kvloupe;

class TestChunkedLog : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void keepsOrderAcrossChunksAndPages();
    void elementsNeverMove();
    void destroysWhatItHolds();
    void bytesCountWholeChunks();
    void readersSeeAPrefixWhileItGrows();
};

void TestChunkedLog::keepsOrderAcrossChunksAndPages() {
    // Chunks of two: a page of 1,024 chunks ends at 2,048 elements.
    ChunkedLog<std::uint32_t, 1> log;
    for (std::uint32_t i = 0; i < 5000; ++i) QCOMPARE(log.push_back(i * 3), std::size_t{i});
    QCOMPARE(log.size(), std::size_t{5000});
    for (std::uint32_t i = 0; i < 5000; ++i) QCOMPARE(log[i], i * 3);
}

void TestChunkedLog::elementsNeverMove() {
    ChunkedLog<std::string, 2> log;
    log.push_back("first");
    const std::string* const first = &log[0];
    const char* const text = log[0].data();
    for (int i = 0; i < 1000; ++i) log.push_back(std::string(100, 'x'));
    QCOMPARE(&log[0], first);
    QCOMPARE(log[0].data(), text);
    QCOMPARE(log[0], std::string("first"));
}

void TestChunkedLog::destroysWhatItHolds() {
    const auto shared = std::make_shared<int>(1);
    {
        ChunkedLog<std::shared_ptr<int>, 3> log;
        for (int i = 0; i < 21; ++i) log.push_back(shared);
        QCOMPARE(shared.use_count(), 22L);
    }
    QCOMPARE(shared.use_count(), 1L);
}

void TestChunkedLog::bytesCountWholeChunks() {
    ChunkedLog<std::uint64_t, 4> log;
    QCOMPARE(log.bytes(), std::size_t{0});
    log.push_back(1);
    QCOMPARE(log.bytes(), std::size_t{16 * 8});
    for (int i = 0; i < 16; ++i) log.push_back(2);
    QCOMPARE(log.bytes(), std::size_t{32 * 8});
}

// Run under ThreadSanitizer too: no lock, and yet a reader that stays below size() never races with the writer.
void TestChunkedLog::readersSeeAPrefixWhileItGrows() {
    constexpr std::uint64_t count = 200000;
    ChunkedLog<std::uint64_t, 6> log;
    std::atomic<bool> wrong{false};
    std::vector<std::thread> readers;
    for (int r = 0; r < 2; ++r) {
        readers.emplace_back([&] {
            std::size_t seen = 0;
            while (seen < count) {
                const std::size_t size = log.size();
                if (size < seen) wrong = true;
                for (; seen < size; ++seen)
                    if (log[seen] != seen * 7 + 1) wrong = true;
            }
        });
    }
    for (std::uint64_t i = 0; i < count; ++i) log.push_back(i * 7 + 1);
    for (std::thread& reader : readers) reader.join();
    QVERIFY(!wrong);
}

QTEST_GUILESS_MAIN(TestChunkedLog)
#include "tst_chunked_log.moc"
