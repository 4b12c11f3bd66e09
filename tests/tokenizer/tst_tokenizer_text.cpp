// SPDX-License-Identifier: GPL-3.0-or-later
//
// Text there and back, for every tokenizer that is at hand.
#include <QFileInfo>
#include <QRegularExpression>
#include <QTest>

#include "engine/model/tokenizer.h"
#include "engine/model/utf8.h"
#include "tests/tokenizer/tokenizer_files.h"

#include <array>
#include <random>

using namespace kvloupe;

namespace {

std::string random_text(std::mt19937& random, bool valid) {
    static const std::vector<std::string> parts = {
        "a", "the", " the", "  ", "\n", "7", "'s", "!", "\xC3\xA9", "\xE4\xBD\xA0\xE5\xA5\xBD", "\xF0\x9F\x9A\x80", "e\xCC\x81",
        "<s>", "</s>", std::string("\0", 1), "\xE2\x80\x8D", "\xF0\x9F\x98\xB6\xE2\x80\x8D\xF0\x9F\x8C\xAB\xEF\xB8\x8F"};
    std::string text;
    for (unsigned n = random() % 20; n > 0; --n) {
        if (!valid && random() % 3 == 0) {
            text += static_cast<char>(random() % 256);
        } else {
            text += parts[random() % parts.size()];
        }
    }
    return text;
}

// Some vocabularies have no token for bytes that no text of theirs had (StarCoder: 0xFC); these are left out.
std::string encodable(const std::string& text, const Tokenizer& tokenizer) {
    std::array<bool, 256> known{};
    for (std::size_t id = 0; id < tokenizer.size(); ++id) {
        const std::string piece = tokenizer.piece(static_cast<TokenId>(id));
        if (piece.size() == 1) known[static_cast<unsigned char>(piece[0])] = true;
    }
    std::string out;
    for (const char c : text) {
        if (known[static_cast<unsigned char>(c)]) out += c;
    }
    return out;
}

}  // namespace

class TestTokenizerText : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void bytesComeBackAsTheyWere_data() { tokenizers(); }
    void bytesComeBackAsTheyWere() {
        QFETCH(QString, path);
        if (!QFileInfo::exists(path)) QSKIP("The file is not here.");
        const auto tokenizer = tokenizer_files::loaded(path);
        QVERIFY(tokenizer);
        const bool puts_a_space = tokenizer->vocabulary_text()->strips_leading_space;
        std::mt19937 random(11);
        for (int round = 0; round < 200; ++round) {
            const std::string text = random_text(random, round % 2 == 0);
            const std::vector<TokenId> ids = tokenizer->encode(text, false);
            std::string bytes;
            for (const TokenId id : ids) {
                QVERIFY(!tokenizer->is_control(id));
                bytes += tokenizer->piece(id);
            }
            // The space that the tokenizer put in front; byte-level ones do so only where there is none.
            if (puts_a_space && bytes != text && !bytes.empty()) {
                QCOMPARE(bytes.front(), ' ');
                bytes.erase(0, 1);
            }
            if (bytes != text) QCOMPARE(QByteArray::fromStdString(bytes), QByteArray::fromStdString(encodable(text, *tokenizer)));
        }
    }

    void streamShowsWhatDecodeShows_data() { tokenizers(); }
    void streamShowsWhatDecodeShows() {
        QFETCH(QString, path);
        if (!QFileInfo::exists(path)) QSKIP("The file is not here.");
        const auto tokenizer = tokenizer_files::loaded(path);
        QVERIFY(tokenizer);
        std::mt19937 random(13);
        for (int round = 0; round < 300; ++round) {
            std::vector<TokenId> ids(random() % 20);
            for (TokenId& id : ids) id = static_cast<TokenId>(random() % tokenizer->size());
            Utf8Stream stream;
            std::string streamed;
            for (const TokenId id : ids) {
                const std::string part = stream.feed(tokenizer->piece(id));
                QCOMPARE(to_valid_utf8(part), part);
                streamed += part;
            }
            streamed += stream.finish();
            std::string decoded = tokenizer->decode(ids);
            if (streamed != decoded) decoded.insert(0, " ");
            QCOMPARE(QByteArray::fromStdString(streamed), QByteArray::fromStdString(decoded));
        }
    }

    void labelsAreValidAndNeverEmpty_data() { tokenizers(); }
    void labelsAreValidAndNeverEmpty() {
        QFETCH(QString, path);
        if (!QFileInfo::exists(path)) QSKIP("The file is not here.");
        const auto tokenizer = tokenizer_files::loaded(path);
        QVERIFY(tokenizer);
        const auto text = tokenizer->vocabulary_text();
        QCOMPARE(text->shown.size(), tokenizer->size());
        QCOMPARE(text->pieces.size(), tokenizer->size());
        for (std::size_t id = 0; id < text->shown.size(); ++id) {
            QVERIFY(!text->shown[id].empty());
            QCOMPARE(to_valid_utf8(text->shown[id]), text->shown[id]);
            QCOMPARE(text->pieces[id].empty(), tokenizer->is_control(static_cast<TokenId>(id)));
        }
    }

    void aLongRunOfAnythingIsEncoded_data() { tokenizers(); }
    void aLongRunOfAnythingIsEncoded() {
        QFETCH(QString, path);
        if (!QFileInfo::exists(path)) QSKIP("The file is not here.");
        const auto tokenizer = tokenizer_files::loaded(path);
        QVERIFY(tokenizer);
        for (const std::string unit : {"a", " ", "\n", "=", "\xE4\xBD\xA0", "\xFF"}) {
            std::string text;
            while (text.size() < 300000) text += unit;
            const std::vector<TokenId> ids = tokenizer->encode(text, false);
            std::size_t bytes = 0;
            for (const TokenId id : ids) bytes += tokenizer->piece(id).size();
            const std::size_t expected = encodable(unit, *tokenizer) == unit ? text.size() : 0;
            QVERIFY(bytes == expected || bytes == expected + 1);
        }
    }

private:
    static void tokenizers() {
        QTest::addColumn<QString>("path");
        for (const char* const name : {"fixtures/tiny-bpe.json", "fixtures/tiny-spm.gguf"}) QTest::newRow(name) << tokenizer_files::own(name);
        QTest::newRow("bundled") << QStringLiteral(KVLOUPE_SOURCE_DIR "/resources/models/gqa");
        for (const char* const name : {"ggml-vocab-llama-spm.gguf", "ggml-vocab-starcoder.gguf", "smollm_hf_tokenizer.json"}) {
            QTest::newRow(name) << tokenizer_files::shared(name);
        }
    }
};

QTEST_GUILESS_MAIN(TestTokenizerText)
#include "tst_tokenizer_text.moc"
