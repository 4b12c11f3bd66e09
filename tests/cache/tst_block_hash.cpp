// SPDX-License-Identifier: GPL-3.0-or-later
//
// The digests of CACHE_SEMANTICS 1.1 "Hashing", extra keys byte by byte, and shortened chains.
#include <QCryptographicHash>
#include <QRegularExpression>
#include <QTest>

#include "engine/cache/block_hash.h"

using namespace kvloupe;

namespace {

QByteArray hex(const BlockHash& hash) { return QByteArray(reinterpret_cast<const char*>(hash.data()), qsizetype(hash.size())).toHex(); }
QByteArray root() { return QByteArray(reinterpret_cast<const char*>(root_hash().data()), 32); }
QByteArray sha256(const QByteArray& message) { return QCryptographicHash::hash(message, QCryptographicHash::Sha256).toHex(); }

}  // namespace

class TestBlockHash : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void rootAndFirstBlocksAreTheKnownDigests() {
        QCOMPARE(hex(root_hash()), QByteArray("4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e"));
        const std::vector<TokenId> tokens{1, 2, 3, 4, 5, 6, 7, 8};
        const std::span<const TokenId> all(tokens);
        const BlockHash first = hash_block(root_hash(), all.first(4), {});
        QCOMPARE(hex(first), QByteArray("c9d58ba695280d69b243e1e0df813136ca9196b286fb1a021e0b2e028ef071cb"));
        QCOMPARE(hex(hash_block(first, all.last(4), {})), QByteArray("24125b23e68883b5c2141db2959d48433fe6bde2f26bd914efad121d154ab2d6"));
        HashChain chain;
        chain.extend({4}, tokens, {}, 2);
        QCOMPARE(hex(chain.hash(1)), QByteArray("24125b23e68883b5c2141db2959d48433fe6bde2f26bd914efad121d154ab2d6"));
        QCOMPARE(first_bytes(first), 0xc9d58ba695280d69ull);
    }

    void integersTakeTheShortestForm_data() {
        QTest::addColumn<int>("token");
        QTest::addColumn<QByteArray>("cbor");
        QTest::newRow("0") << 0 << QByteArray("00");
        QTest::newRow("23") << 23 << QByteArray("17");
        QTest::newRow("24") << 24 << QByteArray("1818");
        QTest::newRow("255") << 255 << QByteArray("18ff");
        QTest::newRow("256") << 256 << QByteArray("190100");
        QTest::newRow("65535") << 65535 << QByteArray("19ffff");
        QTest::newRow("65536") << 65536 << QByteArray("1a00010000");
        QTest::newRow("largest") << 2147483647 << QByteArray("1a7fffffff");
        QTest::newRow("-1") << -1 << QByteArray("20");
        QTest::newRow("smallest") << int(-2147483648LL) << QByteArray("3a7fffffff");
    }
    void integersTakeTheShortestForm() {
        QFETCH(int, token);
        QFETCH(QByteArray, cbor);
        const std::vector<TokenId> tokens{token};
        const QByteArray message = QByteArray::fromHex("835820") + root() + QByteArray::fromHex("81" + cbor + "f6");
        QCOMPARE(hex(hash_block(root_hash(), tokens, {})), sha256(message));
    }

    void longBlocksGoThroughTheBuffer() {
        const std::vector<TokenId> tokens(256, 70000);
        QByteArray message = QByteArray::fromHex("835820") + root() + QByteArray::fromHex("990100");
        for (int i = 0; i < 256; ++i) message += QByteArray::fromHex("1a00011170");
        QCOMPARE(hex(hash_block(root_hash(), tokens, {})), sha256(message + QByteArray::fromHex("f6")));
    }

    void extraKeysAreTaggedPairs_data() {
        QTest::addColumn<QByteArray>("adapter");
        QTest::addColumn<QByteArray>("salt");
        QTest::addColumn<QByteArray>("cbor");
        QTest::newRow("none") << QByteArray() << QByteArray() << QByteArray("f6");
        QTest::newRow("adapter") << QByteArray("x") << QByteArray() << "8182" + QByteArray("67") + QByteArray("adapter").toHex() + "6178";
        QTest::newRow("salt") << QByteArray() << QByteArray("x") << "8182" + QByteArray("64") + QByteArray("salt").toHex() + "6178";
        QTest::newRow("both") << QByteArray("x") << QByteArray("yy")
                              << "8282" + QByteArray("67") + QByteArray("adapter").toHex() + "6178" + "82" + "64" +
                                     QByteArray("salt").toHex() + "627979";
    }
    void extraKeysAreTaggedPairs() {
        QFETCH(QByteArray, adapter);
        QFETCH(QByteArray, salt);
        QFETCH(QByteArray, cbor);
        const std::vector<TokenId> tokens{1, 2};
        const QByteArray message = QByteArray::fromHex("835820") + root() + QByteArray::fromHex("820102" + cbor);
        const ExtraKeys keys{std::string_view(adapter.data(), std::size_t(adapter.size())),
                             std::string_view(salt.data(), std::size_t(salt.size()))};
        QCOMPARE(hex(hash_block(root_hash(), tokens, keys)), sha256(message));
        // In a chain the salt stands in the first block only, yet the second differs too.
        HashChain chain, plain;
        chain.extend({1}, tokens, keys, 2);
        plain.extend({1}, tokens, {}, 2);
        QCOMPARE(hex(chain.hash(1)), hex(hash_block(chain.hash(0), std::span(tokens).last(1), {keys.adapter, {}})));
        QCOMPARE(chain.hash(1) == plain.hash(1), cbor == "f6");
    }

    void shortHashesCollideAndExactOnesDoNot() {
        HashChain::Rules rules{1, 2, true, true};
        int collisions = 0;
        HashChain first;
        first.extend(rules, std::vector<TokenId>{0, 7}, {}, 2);
        for (TokenId token = 1; token < 40; ++token) {
            HashChain other;
            other.extend(rules, std::vector<TokenId>{token, 7}, {}, 2);
            QVERIFY(other.exact(0) != first.exact(0) && other.exact(1) != first.exact(1));
            if (other.hash(0) != first.hash(0)) continue;
            ++collisions;
            QVERIFY(other.hash(1) == first.hash(1));  // the collision lasts
        }
        QVERIFY(collisions > 0);
        QCOMPARE(hex(first.hash(0)).mid(2), QByteArray(62, '0'));
    }

    void shorteningKeepsTheFirstBits() {
        BlockHash ones;
        ones.fill(std::byte{0xFF});
        QCOMPARE(hex(shortened(ones, 256)), QByteArray(64, 'f'));
        QCOMPARE(hex(shortened(ones, 12)), "fff" + QByteArray(61, '0'));
        QCOMPARE(hex(shortened(ones, 1)), "8" + QByteArray(63, '0'));
        QCOMPARE(hex(shortened(ones, 255)), QByteArray(63, 'f') + "e");
    }

    void aChainIsExtendedAndCut() {
        std::vector<TokenId> tokens(64);
        for (int i = 0; i < 64; ++i) tokens[std::size_t(i)] = i * 977;
        HashChain once, often;
        once.extend({4}, tokens, {}, 16);
        for (std::uint32_t count : {3u, 2u, 9u}) often.extend({4}, tokens, {}, count);
        QCOMPARE(often.size(), 9u);
        often.shorten(5);
        QCOMPARE(often.size(), 5u);
        often.extend({4}, tokens, {}, 16);
        for (std::uint32_t block = 0; block < 16; ++block) QVERIFY(once.hash(block) == often.hash(block));
    }
};

QTEST_GUILESS_MAIN(TestBlockHash)
#include "tst_block_hash.moc"
