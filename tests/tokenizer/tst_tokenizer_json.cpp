// SPDX-License-Identifier: GPL-3.0-or-later
//
// tokenizer.json. Oracle: the ids that Hugging Face's tokenizers and transformers give (expected.json, written by
// make_expected.py), for variants of a tiny tokenizer, the bundled models and two public vocabularies.
#include <QFileInfo>
#include <QRegularExpression>
#include <QTest>

#include "engine/model/tokenizer.h"
#include "tests/tokenizer/tokenizer_files.h"

#include <nlohmann/json.hpp>

using namespace kvloupe;
using nlohmann::json;
using Ids = std::vector<TokenId>;

class TestTokenizerJson : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() {
        m_expected = json::parse(tokenizer_files::bytes_of(tokenizer_files::own("expected.json")).toStdString(), nullptr, false);
        m_tiny = json::parse(tokenizer_files::bytes_of(tokenizer_files::own("fixtures/tiny-bpe.json")).toStdString(), nullptr, false);
        QVERIFY(m_expected.is_object() && m_tiny.is_object());
        m_texts = m_expected["texts"].get<std::vector<std::string>>();
        QVERIFY(m_texts.size() > 20);
    }
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void everyStageEqualsTokenizers_data() {
        QTest::addColumn<int>("index");
        for (std::size_t i = 0; i < m_expected["tiny"].size(); ++i) {
            QTest::newRow(m_expected["tiny"][i]["name"].get<std::string>().c_str()) << static_cast<int>(i);
        }
    }
    void everyStageEqualsTokenizers() {
        QFETCH(int, index);
        const json& variant = m_expected["tiny"][static_cast<std::size_t>(index)];
        json data = m_tiny;
        for (const auto& [key, value] : variant["patch"].items()) {
            if (key == "model") {
                data["model"].update(value);
            } else {
                data[key] = value;
            }
        }
        const auto tokenizer = read(data.dump());
        QVERIFY(tokenizer);
        compare(*tokenizer, variant);
    }

    void aModelWithoutTypeIsByItsMergesBpe() {
        json data = m_tiny;
        data["model"].erase("type");
        const auto tokenizer = read(data.dump());
        QVERIFY(tokenizer);
        compare(*tokenizer, m_expected["tiny"][0]);
    }

    void bundledModelsEqualTokenizers_data() {
        QTest::addColumn<QString>("folder");
        for (const auto& [name, ids] : m_expected["bundled"].items()) {
            QTest::newRow(name.c_str()) << QStringLiteral(KVLOUPE_SOURCE_DIR "/resources/models/") + QString::fromStdString(name);
        }
    }
    void bundledModelsEqualTokenizers() {
        QFETCH(QString, folder);
        const auto tokenizer = tokenizer_files::loaded(folder);
        QVERIFY(tokenizer);
        compare(*tokenizer, m_expected["bundled"][QTest::currentDataTag()]);
        QVERIFY(tokenizer->adds_bos());
        QVERIFY(!tokenizer->end_tokens().empty());
        QCOMPARE(tokenizer->decode(tokenizer->encode_prompt("Anna has a red ball.")), std::string("Anna has a red ball."));
    }

    void publicVocabulariesEqualTransformers_data() {
        QTest::addColumn<QString>("file");
        for (const auto& [name, ids] : m_expected["shared"].items()) QTest::newRow(name.c_str()) << QString::fromStdString(name);
    }
    void publicVocabulariesEqualTransformers() {
        QFETCH(QString, file);
        if (!QFileInfo::exists(tokenizer_files::shared(file))) QSKIP("The vocabularies beside the project are not here.");
        const auto texts = tokenizer_files::shared_texts("ggml-vocab-gpt-2.gguf.inp");
        const json& expected = m_expected["shared"][file.toStdString()];
        QCOMPARE(texts.size(), std::size_t{46});
        QCOMPARE(expected.size(), texts.size());
        const auto tokenizer = tokenizer_files::loaded(tokenizer_files::shared(file));
        QVERIFY(tokenizer);
        for (std::size_t i = 0; i < texts.size(); ++i) {
            const Ids ids = tokenizer->encode(texts[i], false);
            QCOMPARE(ids, expected[i].get<Ids>());
            QCOMPARE(tokenizer->decode(ids), texts[i]);
        }
    }

    void configGivesBosAndEndTokens() {
        const auto tokenizer = read(m_tiny.dump(), TokenId{1}, {2, 0});
        QVERIFY(tokenizer);
        QCOMPARE(*tokenizer->bos(), 1);
        QVERIFY(!tokenizer->adds_bos());  // only a template puts it in front
        QCOMPARE(tokenizer->encode_prompt("the"), tokenizer->encode("the", false));
        QCOMPARE(Ids(tokenizer->end_tokens().begin(), tokenizer->end_tokens().end()), (Ids{2, 0}));
    }

private:
    static std::shared_ptr<const Tokenizer> read(const std::string& text, std::optional<TokenId> bos = std::nullopt,
                                                 std::vector<TokenId> end_tokens = {}) {
        auto tokenizer = tokenizer_from_json(std::as_bytes(std::span(text)), "tiny", bos, std::move(end_tokens));
        if (!tokenizer) {
            QTest::qFail(tokenizer.error().message().c_str(), __FILE__, __LINE__);
            return nullptr;
        }
        return *tokenizer;
    }

    void compare(const Tokenizer& tokenizer, const json& expected) const {
        for (std::size_t i = 0; i < m_texts.size(); ++i) {
            QCOMPARE(tokenizer.encode(m_texts[i], false), expected["plain"][i].get<Ids>());
            QCOMPARE(tokenizer.encode(m_texts[i], true), expected["special"][i].get<Ids>());
            // tokenizers puts a second BOS in front of a text that brings one; a prompt here has it once.
            Ids prompt = expected["prompt"][i].get<Ids>();
            if (tokenizer.adds_bos() && prompt.size() > 1 && prompt[1] == *tokenizer.bos()) prompt.erase(prompt.begin());
            QCOMPARE(tokenizer.encode_prompt(m_texts[i], true), prompt);
        }
    }

    json m_expected;
    json m_tiny;
    std::vector<std::string> m_texts;
};

QTEST_GUILESS_MAIN(TestTokenizerJson)
#include "tst_tokenizer_json.moc"
