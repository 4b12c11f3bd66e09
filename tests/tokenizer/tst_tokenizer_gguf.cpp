// SPDX-License-Identifier: GPL-3.0-or-later
//
// Tokenizers of GGUF files. Oracles: llama.cpp's 46 texts with ids for four vocabularies (without BOS, special text is
// plain text), transformers' ids for SmolLM2, and ids worked out by hand for a tiny vocabulary (make_fixtures.py).
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QRegularExpression>
#include <QTest>

#include "engine/model/gguf.h"
#include "engine/model/tokenizer.h"
#include "tests/tokenizer/tokenizer_files.h"

using namespace kvloupe;
using Ids = std::vector<TokenId>;

class TestTokenizerGguf : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void vocabulariesGiveAll46Ids_data() {
        QTest::addColumn<QString>("kind");
        QTest::newRow("gpt-2") << "byte-level BPE (gpt-2)";
        QTest::newRow("llama-spm") << "SentencePiece (llama)";
        QTest::newRow("phi-3") << "SentencePiece (llama)";
        QTest::newRow("starcoder") << "byte-level BPE (starcoder)";
    }
    void vocabulariesGiveAll46Ids() {
        const QString file = QStringLiteral("ggml-vocab-%1.gguf").arg(QString::fromUtf8(QTest::currentDataTag()));
        if (!QFileInfo::exists(tokenizer_files::shared(file))) QSKIP("The vocabularies beside the project are not here.");
        const auto texts = tokenizer_files::shared_texts(file + ".inp");
        const auto ids = tokenizer_files::shared_ids(file + ".out");
        QCOMPARE(texts.size(), std::size_t{46});
        QCOMPARE(ids.size(), std::size_t{46});
        const auto tokenizer = tokenizer_files::loaded(tokenizer_files::shared(file));
        QVERIFY(tokenizer);
        QFETCH(QString, kind);
        QCOMPARE(QString::fromStdString(tokenizer->kind()), kind);
        for (std::size_t i = 0; i < texts.size(); ++i) {
            QCOMPARE(tokenizer->encode(texts[i], false), ids[i]);
            QCOMPARE(tokenizer->decode(ids[i]), texts[i]);
        }
    }

    void smolLm2EqualsTransformers() {
        const QString model = QStringLiteral(KVLOUPE_FETCHED_MODELS "/SmolLM2-135M-Instruct.Q4_1.gguf");
        const auto texts = tokenizer_files::shared_texts("ggml-vocab-gpt-2.gguf.inp");
        if (!QFileInfo::exists(model)) QSKIP("SmolLM2 is not here; tests/fetch-models.sh brings it.");
        if (texts.empty()) QSKIP("The texts beside the project are not here.");
        const QJsonArray rows = QJsonDocument::fromJson(tokenizer_files::bytes_of(tokenizer_files::own("expected.json")))
                                    .object()["shared"].toObject()["smollm_hf_tokenizer.json"].toArray();
        QCOMPARE(static_cast<std::size_t>(rows.size()), texts.size());
        const auto tokenizer = tokenizer_files::loaded(model);
        QVERIFY(tokenizer);
        for (std::size_t i = 0; i < texts.size(); ++i) {
            Ids expected;
            for (const QJsonValue id : rows[static_cast<qsizetype>(i)].toArray()) expected.push_back(id.toInt());
            QCOMPARE(tokenizer->encode(texts[i], false), expected);
        }
        QVERIFY(!tokenizer->adds_bos());
        QCOMPARE(tokenizer->encode("<|im_start|>user", true).front(), 1);
        QCOMPARE(tokenizer->shown(tokenizer->end_tokens().front()), std::string("<|im_end|>"));
    }

    // Ids 3 + byte; "▁h" 259, "el" 260, "▁hel" 261, "lo" 262, "▁hello" 263, "aa" 264, "aaaa" 265, "▁▁" 266, "▁" 267,
    // e h l o a é 你 s 268 to 275, "<tool>" 276 (user-defined), "<|im_end|>" 277 (control).
    void tinyVocabularyFollowsTheScores_data() {
        QTest::addColumn<QByteArray>("text");
        QTest::addColumn<bool>("special");
        QTest::addColumn<Ids>("ids");
        const auto row = [](const char* name, const char* text, bool special, const Ids& ids) {
            QTest::newRow(name) << QByteArray(text) << special << ids;
        };
        row("nothing", "", false, {});
        row("a space is put in front", "hello", false, {263});
        row("also before a space", " ", false, {266});
        row("leftmost on ties", "aaaaa", false, {267, 265, 272});
        row("bytes for what is no token", "hix\xE4\xBD\xA0\xF0\x9F\x9A\x80", false,
            {259, 3 + 'i', 3 + 'x', 274, 3 + 0xF0, 3 + 0x9F, 3 + 0x9A, 3 + 0x80});
        row("bytes for what is no UTF-8", "\xFFlo\xE4", false, {267, 3 + 0xFF, 262, 3 + 0xE4});
        row("special text is plain", "<s>", false, {267, 3 + '<', 275, 3 + '>'});
        row("special text counts", "<s>hello</s>lo", true, {1, 263, 2, 267, 262});
        row("byte names are plain", "<0x41>", false, {267, 3 + '<', 3 + '0', 3 + 'x', 3 + '4', 3 + '1', 3 + '>'});
        row("user-defined always counts", "lo<tool>hello", false, {267, 262, 276, 263});
    }
    void tinyVocabularyFollowsTheScores() {
        QFETCH(QByteArray, text);
        QFETCH(bool, special);
        QFETCH(Ids, ids);
        const auto tokenizer = tokenizer_files::loaded(tokenizer_files::own("fixtures/tiny-spm.gguf"));
        QVERIFY(tokenizer);
        QCOMPARE(tokenizer->encode(text.toStdString(), special), ids);
    }

    void promptGetsTheTokenizersBosOnce() {
        const auto tokenizer = tokenizer_files::loaded(tokenizer_files::own("fixtures/tiny-spm.gguf"));
        QVERIFY(tokenizer);
        QVERIFY(tokenizer->adds_bos());
        QCOMPARE(tokenizer->encode_prompt("hello"), (Ids{1, 263}));
        QCOMPARE(tokenizer->encode_prompt(""), Ids{1});
        QCOMPARE(tokenizer->encode_prompt("<s>hello", true), (Ids{1, 263}));
        QCOMPARE(tokenizer->encode_prompt("<s>", false), (Ids{1, 267, 3 + '<', 275, 3 + '>'}));
        QCOMPARE(Ids(tokenizer->end_tokens().begin(), tokenizer->end_tokens().end()), (Ids{2, 277}));
    }

    void tokensAreShownAndJoined() {
        const auto tokenizer = tokenizer_files::loaded(tokenizer_files::own("fixtures/tiny-spm.gguf"));
        QVERIFY(tokenizer);
        QCOMPARE(tokenizer->piece(263), std::string(" hello"));
        QCOMPARE(tokenizer->piece(3 + 0xE4), std::string("\xE4"));
        QCOMPARE(tokenizer->piece(2), std::string());
        QCOMPARE(tokenizer->piece(99999), std::string());
        QCOMPARE(tokenizer->shown(3 + 0xE4), std::string("<0xE4>"));
        QCOMPARE(tokenizer->shown(3 + 'x'), std::string("x"));
        QCOMPARE(tokenizer->shown(2), std::string("</s>"));
        QCOMPARE(tokenizer->decode(Ids{1, 263, 263, 2}), std::string("hello hello"));
        QCOMPARE(tokenizer->decode(Ids{1, 263, 2}, true), std::string("<s>hello</s>"));
        QCOMPARE(tokenizer->decode(Ids{3 + 0xE4, 3 + 0xBD, 3 + 0xA0, 3 + 0xE4}), std::string("\xE4\xBD\xA0\xEF\xBF\xBD"));
        const auto text = tokenizer->vocabulary_text();
        QCOMPARE(text->pieces.size(), tokenizer->size());
        QCOMPARE(text->shown[263], std::string(" hello"));
        QVERIFY(text->strips_leading_space);
    }

    // Phi-3's end tokens swallow the space behind them (llama.cpp knows it by the model's name).
    void phi3TokensTakeTheSpaceAfterThem() {
        if (!QFileInfo::exists(tokenizer_files::shared("ggml-vocab-phi-3.gguf"))) QSKIP("The vocabularies beside the project are not here.");
        const auto tokenizer = tokenizer_files::loaded(tokenizer_files::shared("ggml-vocab-phi-3.gguf"));
        QVERIFY(tokenizer);
        QCOMPARE(tokenizer->encode("<|user|>\n  hi", true), tokenizer->encode("<|user|>hi", true));
        QVERIFY(tokenizer->encode("<s> hi", true) != tokenizer->encode("<s>hi", true));
    }
};

QTEST_GUILESS_MAIN(TestTokenizerGguf)
#include "tst_tokenizer_gguf.moc"
