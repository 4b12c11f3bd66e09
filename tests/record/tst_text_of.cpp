// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>

#include "engine/record/describe.h"

using namespace kvloupe;

class TestTextOf : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void textReplacesInvalidBytes_data();
    void textReplacesInvalidBytes();
    void textLeavesControlTokensAndTheAddedSpaceOut();
};

void TestTextOf::textReplacesInvalidBytes_data() {
    QTest::addColumn<QByteArray>("bytes");
    QTest::addColumn<QByteArray>("text");
    const QByteArray bad = "\xEF\xBF\xBD";
    QTest::newRow("plain") << QByteArray("caf\xC3\xA9") << QByteArray("caf\xC3\xA9");
    QTest::newRow("chinese") << QByteArray("\xE4\xBD\xA0\xE5\xA5\xBD") << QByteArray("\xE4\xBD\xA0\xE5\xA5\xBD");
    QTest::newRow("emoji") << QByteArray("\xF0\x9F\x98\x80") << QByteArray("\xF0\x9F\x98\x80");
    QTest::newRow("lone continuation") << QByteArray("a\x80z") << QByteArray("a" + bad + "z");
    QTest::newRow("cut character at the end") << QByteArray("a\xE4\xBD") << QByteArray("a" + bad);
    QTest::newRow("cut character, then text") << QByteArray("\xF0\x9Fx") << QByteArray(bad + "x");
    QTest::newRow("overlong") << QByteArray("\xC0\xAF") << QByteArray(bad + bad);
    QTest::newRow("surrogate") << QByteArray("\xED\xA0\x80") << QByteArray(bad + bad + bad);
    QTest::newRow("beyond Unicode") << QByteArray("\xF4\x90\x80\x80") << QByteArray(bad + bad + bad + bad);
    QTest::newRow("never a lead byte") << QByteArray("\xFF") << bad;
}

void TestTextOf::textReplacesInvalidBytes() {
    QFETCH(QByteArray, bytes);
    QFETCH(QByteArray, text);
    VocabularyText vocabulary;
    std::vector<TokenId> tokens;
    for (const char byte : bytes) {  // one token a byte: characters cross token borders
        tokens.push_back(static_cast<TokenId>(vocabulary.pieces.size()));
        vocabulary.pieces.emplace_back(1, byte);
    }
    QCOMPARE(QByteArray::fromStdString(text_of(vocabulary, tokens)), text);
}

void TestTextOf::textLeavesControlTokensAndTheAddedSpaceOut() {
    VocabularyText vocabulary;
    vocabulary.pieces = {"", " one", " two"};
    QCOMPARE(text_of(vocabulary, std::vector<TokenId>{0, 1, 2}), std::string(" one two"));
    vocabulary.strips_leading_space = true;
    QCOMPARE(text_of(vocabulary, std::vector<TokenId>{0, 1, 2}), std::string("one two"));
    QCOMPARE(text_of(vocabulary, std::vector<TokenId>{-1, 7, 2}), std::string("two"));
    QCOMPARE(text_of(vocabulary, {}), std::string());
}

QTEST_GUILESS_MAIN(TestTextOf)
#include "tst_text_of.moc"
