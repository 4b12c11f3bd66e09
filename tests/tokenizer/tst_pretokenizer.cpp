// SPDX-License-Identifier: GPL-3.0-or-later
#include <QRegularExpression>
#include <QTest>

#include "engine/model/pretokenizer.h"

using namespace kvloupe;

namespace {

QByteArrayList pieces(const Pretokenizer& pretokenizer, std::string_view text) {
    std::string store;
    QByteArrayList out;
    for (const std::string_view piece : pretokenizer.split(text, store)) out << QByteArray(piece.data(), static_cast<qsizetype>(piece.size()));
    return out;
}

QByteArrayList pieces_of(std::string_view name, std::string_view text) {
    const Result<NamedPretokenizer> named = pretokenizer_named(name);
    return named ? pieces(named->pretokenizer, text) : QByteArrayList{QByteArray::fromStdString(named.error().sentence)};
}

}  // namespace

class TestPretokenizer : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void namesCutAsTheirModelsDo_data() {
        QTest::addColumn<QByteArray>("name");
        QTest::addColumn<QByteArrayList>("expected");
        // The text: It's 12345 x  y!?\n\n z
        const auto row = [](const char* name, const QByteArrayList& expected) { QTest::newRow(name) << QByteArray(name) << expected; };
        row("gpt-2", {"It", "'s", " 12345", " x", " ", " y", "!?", "\n\n", " z"});
        row("llama-bpe", {"It", "'s", " ", "123", "45", " x", " ", " y", "!?\n\n", " z"});
        row("qwen2", {"It", "'s", " ", "1", "2", "3", "4", "5", " x", " ", " y", "!?\n\n", " z"});
        row("smollm", {"It", "'s", " ", "1", "2", "3", "4", "5", " x", " ", " y", "!?", "\n\n", " z"});
        row("default", {"It", "'", "s", " ", "123", "45", " x", " ", " y", "!?", "\n\n", " z"});
        row("falcon", {"It", "'", "s", " ", "123", "45", " x", " ", " y", "!?", "\n\n", " z"});
        row("deepseek-v3", {"It", "'s", " ", "123", "45", " x", " ", " y", "!?\n\n", " z"});
    }
    void namesCutAsTheirModelsDo() {
        QFETCH(QByteArray, name);
        QFETCH(QByteArrayList, expected);
        QCOMPARE(pieces_of(name.toStdString(), "It's 12345 x  y!?\n\n z"), expected);
    }

    void unknownNameIsRefusedByName() {
        const Result<NamedPretokenizer> named = pretokenizer_named("megatok-7");
        QVERIFY(!named);
        QVERIFY(named.error().message().find("'megatok-7'") != std::string::npos);
        QVERIFY(named.error().hint.find("smollm") != std::string::npos);
    }

    void bytesThatAreNoTextArePiecesOfTheirOwn() {
        QCOMPARE(pieces_of("gpt-2", "ab\xFF\xFE cd\xE4"), (QByteArrayList{"ab", "\xFF\xFE", " cd", "\xE4"}));
        QCOMPARE(pieces_of("gpt-2", ""), QByteArrayList());
    }

    void aSpaceIsPutOnlyBeforeRealPieces() {
        PretokenizerStep step;
        step.prefix_space = true;
        QCOMPARE(pieces(Pretokenizer({step}), "a\xFF" "b"), (QByteArrayList{" a", "\xFF", "b"}));
        QCOMPARE(pieces(Pretokenizer({step}), " a"), QByteArrayList{" a"});
        QVERIFY(Pretokenizer({step}).adds_prefix_space());
        QVERIFY(!Pretokenizer().adds_prefix_space());
    }

    void whatPcre2ReadsDifferentlyIsTranslated_data() {
        QTest::addColumn<QByteArray>("pattern");
        QTest::addColumn<QByteArray>("text");
        QTest::addColumn<int>("count");
        QTest::newRow("U+180E is no space") << QByteArray("\\s") << QByteArray("a\xE1\xA0\x8E" "b") << 0;
        QTest::newRow("U+0085 is a space") << QByteArray("[\\s]") << QByteArray("a\xC2\x85" "b") << 1;
        QTest::newRow("marks belong to words") << QByteArray("\\w+") << QByteArray("e\xCC\x81" "e") << 1;
        QTest::newRow("a script without its extensions") << QByteArray("\\p{Han}") << QByteArray("\xE3\x80\x81\xE4\xBD\xA0") << 1;
        QTest::newRow("lines") << QByteArray("^a") << QByteArray("a\na") << 2;
        QTest::newRow("code point") << QByteArray("\\u4f60") << QByteArray("\xE4\xBD\xA0") << 1;
        QTest::newRow("empty matches end") << QByteArray("b*") << QByteArray("abc") << 3;
    }
    void whatPcre2ReadsDifferentlyIsTranslated() {
        QFETCH(QByteArray, pattern);
        QFETCH(QByteArray, text);
        QFETCH(int, count);
        const Result<TextRegex> regex = TextRegex::compile(pattern.toStdString());
        QVERIFY2(regex, regex ? "" : regex.error().sentence.c_str());
        QCOMPARE(static_cast<int>(regex->matches(text.toStdString()).size()), count);
    }

    void whatCannotBeTranslatedIsRefusedByName_data() {
        QTest::addColumn<QByteArray>("pattern");
        QTest::addColumn<QByteArray>("named");
        QTest::newRow("hexadecimal digit") << QByteArray("\\h") << QByteArray("'\\h'");
        QTest::newRow("word boundary") << QByteArray("a\\b") << QByteArray("'\\b'");
        QTest::newRow("verb") << QByteArray("(*LIMIT_MATCH=1)a") << QByteArray("'(*'");
        QTest::newRow("recursion") << QByteArray("a(?R)?") << QByteArray("'(?R)'");
        QTest::newRow("repeated repetition") << QByteArray("a{1,3}+") << QByteArray("'{...}+'");
        QTest::newRow("class in a class") << QByteArray("[a[b]]") << QByteArray("a class inside a class");
        QTest::newRow("intersection") << QByteArray("[a-z&&b]") << QByteArray("'&&'");
        QTest::newRow("open class") << QByteArray("[a") << QByteArray("'['");
        QTest::newRow("open group") << QByteArray("(a") << QByteArray("parenthes");
        QTest::newRow("unknown property") << QByteArray("\\p{Klingon}") << QByteArray("property");
        QTest::newRow("end") << QByteArray("a\\") << QByteArray("at its end");
        QTest::newRow("nested") << QByteArray(200, '(') + QByteArray(200, ')') << QByteArray("nest");
        QTest::newRow("long") << QByteArray(20000, 'a') << QByteArray("20,000 bytes");
    }
    void whatCannotBeTranslatedIsRefusedByName() {
        QFETCH(QByteArray, pattern);
        QFETCH(QByteArray, named);
        const Result<TextRegex> regex = TextRegex::compile(pattern.toStdString());
        QVERIFY(!regex);
        QVERIFY2(regex.error().sentence.find(named.toStdString()) != std::string::npos, regex.error().sentence.c_str());
    }

    // Without a limit this pattern needs 2^40 steps.
    void endlessBacktrackingStops() {
        const Result<TextRegex> regex = TextRegex::compile("(a+)+b");
        QVERIFY(bool(regex));
        QVERIFY(regex->matches(std::string(40, 'a')).empty());
        QCOMPARE(regex->matches("aab").size(), std::size_t{1});
    }
};

QTEST_GUILESS_MAIN(TestPretokenizer)
#include "tst_pretokenizer.moc"
