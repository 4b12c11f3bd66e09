// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/hf_config.h"
#include "engine/model/mapped_file.h"
#include "tests/model/model_bytes.h"

#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QStringList>
#include <QTest>

#include <cmath>

using namespace kvloupe;

namespace {

QJsonObject llama() {
    return {{"architectures", QJsonArray{"LlamaForCausalLM"}}, {"model_type", "llama"}, {"hidden_size", 32},
            {"intermediate_size", 64}, {"num_hidden_layers", 2}, {"num_attention_heads", 4}, {"num_key_value_heads", 2},
            {"head_dim", 16}, {"vocab_size", 288}, {"max_position_embeddings", 256}, {"rms_norm_eps", 1e-5},
            {"rope_theta", 100000.0}, {"rope_scaling", QJsonValue::Null}, {"tie_word_embeddings", true},
            {"torch_dtype", "bfloat16"}, {"bos_token_id", 0}, {"eos_token_id", QJsonArray{1, 2}}, {"hidden_act", "silu"},
            {"attention_bias", false}, {"mlp_bias", false}, {"pretraining_tp", 1}};
}

Result<HfConfig> parse(const QJsonObject& config) {
    const std::string bytes = QJsonDocument(config).toJson(QJsonDocument::Compact).toStdString();
    return parse_hf_config(as_bytes(bytes), "config.json");
}

bool assumes(const HfConfig& config, const std::string& start) {
    for (const std::string& line : config.model.assumed)
        if (line.rfind(start, 0) == 0) return true;
    return false;
}

}  // namespace

class TestHfConfig : public QObject {
    Q_OBJECT

private slots:
    void everyKeyIsTaken() {
        const Result<HfConfig> config = parse(llama());
        QVERIFY2(config, config ? "" : config.error().message().c_str());
        const ModelConfig& model = config->model;
        QCOMPARE(model.architecture, std::string("llama"));
        QCOMPARE(model.hidden, 32u);
        QCOMPARE(model.intermediate, 64u);
        QCOMPARE(model.layers, 2u);
        QCOMPARE(model.query_heads, 4u);
        QCOMPARE(model.kv_heads, 2u);
        QCOMPARE(model.head_dim, 16u);  // not hidden / heads
        QCOMPARE(model.rotary_dim, 16u);
        QCOMPARE(model.vocabulary, 288u);
        QCOMPARE(model.context_length, 256u);
        QCOMPARE(model.rope_theta, 100000.0f);
        QCOMPARE(model.rms_epsilon, 1e-5f);
        QVERIFY(model.tied_embeddings);
        QVERIFY(model.rotary_layout == RotaryLayout::half_split);
        QVERIFY(model.assumed.empty());
        QCOMPARE(config->dtype, std::string("bfloat16"));
        QVERIFY(config->bos == TokenId{0});
        QVERIFY(config->end_tokens == (std::vector<TokenId>{1, 2}));
        QCOMPARE(model.attention_variant(), std::string("GQA"));
    }

    // transformers' LlamaConfig, except that a folder without any token ids has none.
    void missingKeysTakeTheDefaultsAndSaySo() {
        const Result<HfConfig> config = parse({{"model_type", "llama"}});
        QVERIFY2(config, config ? "" : config.error().message().c_str());
        const ModelConfig& model = config->model;
        QCOMPARE(model.hidden, 4096u);
        QCOMPARE(model.intermediate, 11008u);
        QCOMPARE(model.layers, 32u);
        QCOMPARE(model.query_heads, 32u);
        QCOMPARE(model.kv_heads, 32u);
        QCOMPARE(model.head_dim, 128u);
        QCOMPARE(model.vocabulary, 32000u);
        QCOMPARE(model.context_length, 2048u);
        QCOMPARE(model.rope_theta, 10000.0f);
        QCOMPARE(model.rms_epsilon, 1e-6f);
        QVERIFY(!model.tied_embeddings);
        QVERIFY(!config->bos && config->end_tokens.empty());
        for (const char* line :
             {"hidden_size = 4096 (not in config.json)", "intermediate_size = 11008", "num_hidden_layers = 32",
              "num_attention_heads = 32", "num_key_value_heads = 32", "head_dim = 128", "vocab_size = 32000",
              "max_position_embeddings = 2048", "rope_theta = 10000", "rms_norm_eps = 1e-06",
              "tie_word_embeddings = false"})
            QVERIFY2(assumes(*config, line), line);
    }

    void kvHeadsDefaultToTheQueryHeads() {
        QJsonObject config = llama();
        config.remove("num_key_value_heads");
        Result<HfConfig> parsed = parse(config);
        QVERIFY(parsed && parsed->model.kv_heads == 4 && assumes(*parsed, "num_key_value_heads = 4"));
        config["num_key_value_heads"] = QJsonValue::Null;
        parsed = parse(config);
        QVERIFY(parsed && parsed->model.kv_heads == 4);
    }

    void headSizeDefaultsToWidthOverHeads() {
        QJsonObject config = llama();
        config.remove("head_dim");
        const Result<HfConfig> parsed = parse(config);
        QVERIFY(parsed && parsed->model.head_dim == 8 && assumes(*parsed, "head_dim = 8"));
    }

    void plainRotaryFormsAreAccepted_data() {
        QTest::addColumn<QByteArray>("key");
        QTest::addColumn<QByteArray>("value");
        QTest::addColumn<float>("theta");
        QTest::newRow("null") << QByteArray("rope_scaling") << QByteArray("null") << 100000.0f;
        QTest::newRow("default") << QByteArray("rope_scaling") << QByteArray(R"({"rope_type":"default"})") << 100000.0f;
        QTest::newRow("old default") << QByteArray("rope_scaling") << QByteArray(R"({"type":"default"})") << 100000.0f;
        QTest::newRow("factor 1")
            << QByteArray("rope_scaling") << QByteArray(R"({"rope_type":"default","factor":1.0})") << 100000.0f;
        QTest::newRow("parameters") << QByteArray("rope_parameters")
                                    << QByteArray(R"({"rope_type":"default","rope_theta":500000.0})") << 500000.0f;
    }
    void plainRotaryFormsAreAccepted() {
        QFETCH(QByteArray, key);
        QFETCH(QByteArray, value);
        QFETCH(float, theta);
        QJsonObject config = llama();
        config[QString::fromUtf8(key)] = QJsonDocument::fromJson("[" + value + "]").array().at(0);
        const Result<HfConfig> parsed = parse(config);
        QVERIFY2(parsed, parsed ? "" : parsed.error().message().c_str());
        QCOMPARE(parsed->model.rope_theta, theta);
    }

    // One changed key; the error must hold its name and value, and say what is not built by name.
    void otherValuesAreRefusedByKeyAndValue_data() {
        QTest::addColumn<QByteArray>("key");
        QTest::addColumn<QByteArray>("value");
        QTest::addColumn<QStringList>("words");
        const auto row = [](const char* key, const char* value, const QStringList& words) {
            QTest::addRow("%s = %s", key, value) << QByteArray(key) << QByteArray(value) << words;
        };
        row("model_type", R"("qwen2")", {"'qwen2'", "not built yet", "Llama"});
        row("model_type", "3", {"'model_type'", "the number 3"});
        row("architectures", R"(["LlamaForSequenceClassification"])", {"'LlamaForSequenceClassification'", "not built yet"});
        row("architectures", "[]", {"'architectures'", "array of 0"});
        row("architectures", "[1]", {"'architectures'"});
        row("hidden_size", R"("32")", {"'hidden_size'", "the string '32'"});
        row("hidden_size", "32.5", {"'hidden_size'", "32.5"});
        row("hidden_size", "0", {"'hidden_size'", "the number 0", "1 to"});
        row("hidden_size", "-32", {"'hidden_size'", "-32"});
        row("hidden_size", "true", {"'hidden_size'", "true"});
        row("num_hidden_layers", "1000000", {"'num_hidden_layers'", "1000000", "4,096"});
        row("num_hidden_layers", "18446744073709551616", {"'num_hidden_layers'"});
        row("num_attention_heads", "[4]", {"'num_attention_heads'", "array"});
        row("num_attention_heads", "99999", {"'num_attention_heads'", "99999"});
        row("num_key_value_heads", "3", {"KV heads, 3", "query heads, 4"});
        row("num_key_value_heads", "0", {"'num_key_value_heads'", "0"});
        row("head_dim", "7", {"head size 7", "odd"});
        row("head_dim", "{}", {"'head_dim'", "object"});
        row("vocab_size", "9999999999", {"'vocab_size'", "9999999999"});
        row("max_position_embeddings", "-1", {"'max_position_embeddings'", "-1"});
        row("rms_norm_eps", R"("tiny")", {"'rms_norm_eps'", "'tiny'"});
        row("rms_norm_eps", "-1", {"'rms_norm_eps'", "-1"});
        row("rms_norm_eps", "2", {"epsilon 2"});
        row("rope_theta", "0", {"'rope_theta'", "0"});
        row("rope_theta", "1e300", {"'rope_theta'", "1e+300"});
        row("rope_scaling", R"({"rope_type":"llama3","factor":8.0})", {"'rope_scaling'", "'llama3'", "not built yet"});
        row("rope_scaling", R"({"type":"linear","factor":2.0})", {"'rope_scaling'", "'linear'", "not built yet"});
        row("rope_scaling", R"({"factor":2.0})", {"'rope_scaling'", "2", "not built yet"});
        row("rope_scaling", R"({"rope_type":1})", {"'rope_scaling'", "'rope_type'", "the number 1"});
        row("rope_scaling", "8", {"'rope_scaling'", "the number 8"});
        row("rope_parameters", R"({"rope_type":"yarn"})", {"'rope_parameters'", "'yarn'", "not built yet"});
        row("partial_rotary_factor", "0.5", {"'partial_rotary_factor'", "0.5", "built"});
        row("tie_word_embeddings", R"("yes")", {"'tie_word_embeddings'", "'yes'"});
        row("attention_bias", "true", {"'attention_bias'", "not built yet"});
        row("attention_bias", "1", {"'attention_bias'", "the number 1"});
        row("mlp_bias", "true", {"'mlp_bias'", "not built yet"});
        row("hidden_act", R"("gelu")", {"'hidden_act'", "'gelu'", "not built yet"});
        row("quantization_config", R"({"bits":4})", {"'quantization_config'", "not built yet"});
        row("bos_token_id", "288", {"'bos_token_id'", "288", "vocabulary"});
        row("bos_token_id", R"("<s>")", {"'bos_token_id'", "'<s>'"});
        row("eos_token_id", "[1,-2]", {"'eos_token_id'", "-2"});
        row("eos_token_id", "1.5", {"'eos_token_id'", "1.5"});
    }
    void otherValuesAreRefusedByKeyAndValue() {
        QFETCH(QByteArray, key);
        QFETCH(QByteArray, value);
        QFETCH(QStringList, words);
        // Spliced in as text: QJson would round large numbers.
        QJsonObject config = llama();
        config.remove(QString::fromUtf8(key));
        QByteArray bytes = QJsonDocument(config).toJson(QJsonDocument::Compact);
        bytes.insert(1, "\"" + key + "\":" + value + ",");
        const Result<HfConfig> parsed = parse_hf_config(as_bytes(bytes.toStdString()), "folder/config.json");
        QVERIFY(!parsed);
        const QString message = QString::fromStdString(parsed.error().message());
        QVERIFY2(message.startsWith("folder/config.json: "), qPrintable(message));
        QVERIFY2(!parsed.error().hint.empty(), qPrintable(message));
        for (const QString& word : words) QVERIFY2(message.contains(word), qPrintable(message));
    }

    void filesThatAreNoConfigurationAreRefused_data() {
        QTest::addColumn<QByteArray>("bytes");
        QTest::addColumn<QStringList>("words");
        QTest::newRow("empty") << QByteArray() << QStringList{"JSON"};
        QTest::newRow("a list") << QByteArray("[1]") << QStringList{"an array of 1", "not an object"};
        QTest::newRow("no architecture") << QByteArray("{}") << QStringList{"model_type", "architectures"};
        QTest::newRow("cut off") << QByteArray("{\"model_type\":\"lla") << QStringList{"JSON", "missing closing quote"};
        QTest::newRow("key twice") << QByteArray(R"({"model_type":"llama","model_type":"llama"})")
                                   << QStringList{"'model_type'", "twice"};
        QTest::newRow("deep") << QByteArray(R"({"a":)" + QByteArray(1000000, '[')) << QStringList{"64 levels"};
        QTest::newRow("bad UTF-8") << QByteArray("{\"a\":\"\xc3\x28\"}") << QStringList{"JSON"};
        QTest::newRow("no head size") << QByteArray(R"({"model_type":"llama","hidden_size":100,"num_attention_heads":3})")
                                      << QStringList{"'head_dim'", "'hidden_size' 100", "'num_attention_heads' 3"};
    }
    void filesThatAreNoConfigurationAreRefused() {
        QFETCH(QByteArray, bytes);
        QFETCH(QStringList, words);
        const Result<HfConfig> parsed = parse_hf_config(as_bytes(bytes.toStdString()), "config.json");
        QVERIFY(!parsed);
        const QString message = QString::fromStdString(parsed.error().message());
        QVERIFY2(message.startsWith("config.json: ") && message.size() < 400, qPrintable(message));
        for (const QString& word : words) QVERIFY2(message.contains(word), qPrintable(message));
    }

    void publicConfigurationsAreReadOrRefusedByName_data() {
        QTest::addColumn<QString>("refusal");  // empty: read
        QTest::addColumn<quint64>("kv_bytes"); // f16, per token; FORMATS 3.1
        QTest::newRow("llama-2-7b-hf") << "" << quint64{524288};
        QTest::newRow("llama-3.2-1b-instruct") << "" << quint64{32768};
        QTest::newRow("llama-3.1-8b-instruct") << "" << quint64{131072};
        QTest::newRow("llama-3.1-70b-instruct") << "llama3" << quint64{0};
        QTest::newRow("deepseek-ai--deepseek-v3") << "deepseek_v3" << quint64{0};
        QTest::newRow("deepseek-v2-lite") << "deepseek_v2" << quint64{0};
        QTest::newRow("gemma3_1b_it") << "gemma3" << quint64{0};
        QTest::newRow("mixtral-8x7b-v0.1") << "mixtral" << quint64{0};
        QTest::newRow("qwen2.5-7b-instruct") << "qwen2" << quint64{0};
        QTest::newRow("qwen3-4b") << "qwen3" << quint64{0};
    }
    void publicConfigurationsAreReadOrRefusedByName() {
        QFETCH(QString, refusal);
        QFETCH(quint64, kv_bytes);
        const QString path = QString(KVLOUPE_SHARED_DATA "/configs/%1.config.json").arg(QTest::currentDataTag());
        if (!QFile::exists(path)) QSKIP("The public configurations are not here, so none was read.");
        const auto mapped = MappedFile::open(path.toStdString());
        QVERIFY(mapped);
        const Result<HfConfig> parsed = parse_hf_config((*mapped)->bytes(), path.toStdString());
        if (refusal.isEmpty()) {
            QVERIFY2(parsed, parsed ? "" : parsed.error().message().c_str());
            QCOMPARE(quint64{parsed->model.kv_bytes_per_token(DType::f16)}, kv_bytes);
        } else {
            QVERIFY(!parsed);
            const QString message = QString::fromStdString(parsed.error().message());
            QVERIFY2(message.contains(refusal) && message.contains("not built yet"), qPrintable(message));
        }
    }
};

QTEST_GUILESS_MAIN(TestHfConfig)
#include "tst_hf_config.moc"
