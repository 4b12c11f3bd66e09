// SPDX-License-Identifier: GPL-3.0-or-later
#include <QRegularExpression>
#include <QTest>

#include "engine/model/byte_alphabet.h"
#include "engine/model/tokenizer.h"
#include "engine/model/utf8.h"

#include <random>

using namespace kvloupe;

class TestUtf8 : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void everyCodePointIsReadBack() {
        for (char32_t code = 0; code <= 0x10FFFF; ++code) {
            if (code >= 0xD800 && code <= 0xDFFF) continue;
            std::string text;
            append_utf8(text, code);
            const Utf8Char c = utf8_at(text, 0);
            if (!c.valid || c.code != code || c.length != text.size()) QFAIL("a code point is not read back");
            const char32_t after_a_letter[] = {U'x', code};  // alone, U+FEFF would be taken for a mark of byte order
            if (QString::fromUcs4(after_a_letter, 2).toUtf8() != "x" + QByteArray::fromStdString(text)) QFAIL("the bytes differ from Qt's");
        }
    }

    void invalidBytesBecomeReplacementsPerMaximalSubpart_data() {
        QTest::addColumn<QByteArray>("bytes");
        QTest::addColumn<int>("replacements");
        QTest::newRow("surrogate") << QByteArray("\xED\xA0\x80") << 3;
        QTest::newRow("overlong") << QByteArray("\xC0\xAF") << 2;
        QTest::newRow("beyond the last code point") << QByteArray("\xF4\x90\x80\x80") << 4;
        QTest::newRow("cut short") << QByteArray("\xE4\xBD") << 1;
        QTest::newRow("cut short, then a letter") << QByteArray("\xF0\x9F\x9A" "a") << 1;
        QTest::newRow("Unicode table 3-8") << QByteArray("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64") << 6;
    }
    void invalidBytesBecomeReplacementsPerMaximalSubpart() {
        QFETCH(QByteArray, bytes);
        QFETCH(int, replacements);
        const QString text = QString::fromStdString(to_valid_utf8(bytes.toStdString()));
        QCOMPARE(text.count(QChar(0xFFFD)), replacements);
    }

    void streamShowsOnlyWholeCharactersAndLosesNothing() {
        std::mt19937 random(7);
        const std::string alphabet[] = {"a", "\xC3\xA9", "\xE4\xBD\xA0", "\xF0\x9F\x9A\x80", "\xFF", "\xE4", "\xF0\x9F", "\x80"};
        for (int round = 0; round < 2000; ++round) {
            std::string bytes;
            for (unsigned n = random() % 12; n > 0; --n) bytes += alphabet[random() % 8];
            Utf8Stream stream;
            std::string shown;
            for (std::size_t at = 0; at < bytes.size();) {
                const std::size_t length = 1 + random() % 3;
                const std::string part = stream.feed(std::string_view(bytes).substr(at, length));
                QCOMPARE(to_valid_utf8(part), part);
                shown += part;
                at += length;
            }
            shown += stream.finish();
            QCOMPARE(QByteArray::fromStdString(shown), QByteArray::fromStdString(to_valid_utf8(bytes)));
        }
    }

    void streamHoldsBackHalfACharacter() {
        Utf8Stream stream;
        QCOMPARE(stream.feed("x\xE4\xBD"), std::string("x"));
        QCOMPARE(stream.feed("\xA0y"), std::string("\xE4\xBD\xA0y"));
        QCOMPARE(stream.feed("\xF0\x9F"), std::string());
        QCOMPARE(stream.finish(), std::string("\xEF\xBF\xBD"));
        QCOMPARE(stream.finish(), std::string());
    }

    void spacesAreThoseOfUnicode() {
        for (char32_t code = 0; code <= 0xFFFF; ++code) {
            // QChar::isSpace: Z* and U+0009 to U+000D and U+0085, which is White_Space.
            if (is_unicode_space(code) != QChar::isSpace(code)) QFAIL(qPrintable(QString::number(code, 16)));
        }
        QCOMPARE(leading_space_bytes("\xE3\x80\x80 \tx "), std::size_t{5});
        QCOMPARE(trailing_space_bytes(" x\xC2\xA0 "), std::size_t{3});
        QCOMPARE(trailing_space_bytes("\x80\x80"), std::size_t{0});
    }

    void byteAlphabetIsThatOfGpt2() {
        QCOMPARE(char_of_byte(' '), char32_t{0x120});
        QCOMPARE(char_of_byte('\n'), char32_t{0x10A});
        QCOMPARE(char_of_byte(0x7F), char32_t{0x121});
        QCOMPARE(char_of_byte(0xAD), char32_t{0x143});
        std::string all;
        for (int byte = 0; byte < 256; ++byte) {
            QCOMPARE(byte_of_char(char_of_byte(static_cast<unsigned char>(byte))), byte);
            all += static_cast<char>(byte);
        }
        QVERIFY(alphabet_to_bytes(bytes_to_alphabet(all)) == all);
        QVERIFY(!alphabet_to_bytes("a b"));
    }

    void byteNamesAreRead() {
        QCOMPARE(byte_name(0xE4), std::string("<0xE4>"));
        QCOMPARE(byte_of_name("<0xe4>"), 0xE4);
        for (const char* const other : {"<0xG4>", "<0x4>", "0xE4", "<0xE4> "}) QCOMPARE(byte_of_name(other), -1);
    }
};

QTEST_GUILESS_MAIN(TestUtf8)
#include "tst_utf8.moc"
