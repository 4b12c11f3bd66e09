// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracles W1, W2, W3 and W6 of CACHE_SEMANTICS section 2 as arithmetic, and the bound of 1.9 against a count by hand.
#include <QRegularExpression>
#include <QTest>

#include "engine/cache/attention_span.h"

using namespace kvloupe;

Q_DECLARE_METATYPE(kvloupe::AttentionSpan)

namespace {

bool sees(const AttentionSpan& span, std::uint32_t query, std::uint32_t key) {
    if (key > query) return false;
    if (span.window > 0) return key < span.sinks || query - key < span.window;
    if (span.chunk > 0) return key / span.chunk == query / span.chunk;
    return true;
}

}  // namespace

class TestAttentionSpan : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void W1_W2_W3_unseenBlocks_data() {
        QTest::addColumn<AttentionSpan>("span");
        QTest::addColumn<int>("blockSize");
        QTest::addColumn<int>("computed");
        QTest::addColumn<int>("begin");
        QTest::addColumn<int>("end");
        const auto row = [](const char* name, AttentionSpan span, int size, int computed, int begin, int end) {
            QTest::addRow("%s computed %d", name, computed) << span << size << computed << begin << end;
        };
        for (const auto& [computed, nulls] : {std::pair{4, 0}, {5, 1}, {6, 1}, {7, 2}, {11, 4}})
            row("W1", {4, 0, 0}, 2, computed, 0, nulls);
        for (const auto& [computed, nulls] : {std::pair{0, 0}, {4, 2}, {6, 2}, {12, 6}}) row("W2", {0, 0, 4}, 2, computed, 0, nulls);
        row("W3", {8, 16, 0}, 4, 28, 4, 5);
        row("W3", {8, 16, 0}, 4, 36, 4, 7);
        row("W3 full attention", {}, 4, 36, 0, 0);
        row("sinks end inside a block", {8, 5, 0}, 4, 36, 2, 7);
        row("sinks beyond the window", {8, 40, 0}, 4, 36, 0, 0);
    }
    void W1_W2_W3_unseenBlocks() {
        QFETCH(AttentionSpan, span);
        QFETCH(int, blockSize);
        QFETCH(int, computed);
        QFETCH(int, begin);
        QFETCH(int, end);
        const BlockRange range = unseen_blocks(span, std::uint32_t(computed), std::uint32_t(blockSize));
        QCOMPARE(int(range.size()), end - begin);
        if (end > begin) QCOMPARE(int(range.begin), begin);
    }

    void W6_admissionCap_data() {
        QTest::addColumn<AttentionSpan>("span");
        QTest::addColumn<int>("inFlight");
        QTest::addColumn<int>("blocks");
        QTest::newRow("window, 1024 in flight") << AttentionSpan{1024, 0, 0} << 1024 << 129;
        QTest::newRow("window, 2048 in flight") << AttentionSpan{1024, 0, 0} << 2048 << 193;
        QTest::newRow("chunk, 1024 in flight") << AttentionSpan{0, 0, 1024} << 1024 << 128;
        QTest::newRow("chunk, 2048 in flight") << AttentionSpan{0, 0, 1024} << 2048 << 192;
        QTest::newRow("4 sinks, window 64, decoding (1.9)") << AttentionSpan{64, 4, 0} << 0 << 6;
    }
    void W6_admissionCap() {
        QFETCH(AttentionSpan, span);
        QFETCH(int, inFlight);
        QFETCH(int, blocks);
        QCOMPARE(int(most_blocks(span, 1u << 30, std::uint32_t(inFlight), 16)), blocks);
        QCOMPARE(int(most_blocks(span, 32, std::uint32_t(inFlight), 16)), 2);  // never more than it has
    }

    // Every kept block is seen by a later query, no unseen one is; and the cap is never passed.
    void blocksAreUnseenExactlyWhenNoLaterQuerySeesThem() {
        for (const AttentionSpan span : {AttentionSpan{1, 0, 0}, AttentionSpan{5, 0, 0}, AttentionSpan{8, 3, 0}, AttentionSpan{6, 9, 0},
                                         AttentionSpan{0, 0, 1}, AttentionSpan{0, 0, 6}, AttentionSpan{0, 0, 7}, AttentionSpan{}})
            for (std::uint32_t size : {1u, 2u, 3u, 4u, 7u})
                for (std::uint32_t computed = 0; computed < 60; ++computed) {
                    const BlockRange range = unseen_blocks(span, computed, size);
                    std::uint32_t kept = 0;
                    for (std::uint32_t block = 0; block < blocks_for(computed + 1, size); ++block) {
                        bool seen = false;
                        for (std::uint32_t query = computed; query < computed + 70; ++query)
                            for (std::uint32_t key = block * size; key < (block + 1) * size; ++key)
                                seen = seen || sees(span, query, key);
                        QCOMPARE(range.contains(block), !seen);
                        kept += seen;
                    }
                    QVERIFY(kept <= most_blocks(span, computed + 1, 1, size));
                    QVERIFY(kept <= most_blocks(span, 1000, 1, size));
                }
    }
};

QTEST_GUILESS_MAIN(TestAttentionSpan)
#include "tst_attention_span.moc"
