// SPDX-License-Identifier: GPL-3.0-or-later
//
// `kvloupe size` as scripts see it.
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

namespace {

struct Outcome {
    int status = -1;
    QByteArray out;
    QByteArray err;
};

const QString source = QStringLiteral(KVLOUPE_SOURCE_DIR);

}  // namespace

class TestSizeCommand : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { QVERIFY(m_folder.isValid()); }

    void theContractsKeysHoldTheirNumbers() {
        const QJsonObject document = json({"llama-3-70b", "--context", "8192", "--tp", "8", "--gpu", "h200", "--json"});
        QCOMPARE(document.value("kv_bytes_per_token").toInteger(), 327680);
        QCOMPARE(document.value("kv_bytes").toInteger(), 327680LL * 8192);
        QCOMPARE(document.value("kv_bytes_per_gpu").toInteger(), 40960LL * 8192);
        QCOMPARE(document.value("weight_bytes").toInteger(), 70553706496LL * 2);
        QVERIFY(document.value("sequences_that_fit").toInteger() > 0);
        QCOMPARE(document.value("assumed").toArray().size(), 0);
        QCOMPARE(document.value("factors").toArray().at(0).toObject().value("formula").toString(),
                 QString::fromUtf8("2 × 80 layers × 8 KV heads × 128 values × 2 B"));
        QVERIFY(document.value("per_layer").isNull());
    }

    void withoutAGpuNothingIsSaidToFit() {
        const QJsonObject document = json({"GPT-2", "--json"});
        QVERIFY(document.contains("sequences_that_fit") && document.value("sequences_that_fit").isNull());
        QCOMPARE(document.value("context").toInteger(), 1024);  // the model's, which is shorter than 4,096
    }

    void windowsCountAtTheContext() {
        const QJsonObject document = json({"Gemma-3-27B", "--context=131072", "--json"});
        QCOMPARE(document.value("kv_bytes_per_token").toInteger(), 507904);
        QCOMPARE(document.value("kv_bytes").toInteger(), 11173625856LL);
        const QJsonArray layers = document.value("per_layer").toArray();
        QCOMPARE(layers.size(), 62);
        QCOMPARE(layers.at(4).toObject().value("window").toInteger(), 1024);
        QVERIFY(layers.at(5).toObject().value("window").isNull());
    }

    void precisionsAreF16UnlessChosen() {
        QCOMPARE(json({"Llama-3-8B", "--json"}).value("kv_bytes_per_token").toInteger(), 131072);
        QCOMPARE(json({"Llama-3-8B", "--dtype", "q8_0", "--json"}).value("kv_bytes_per_token").toInteger(), 69632);
        QCOMPARE(json({"Llama-3-8B", "--dtype-k", "q8_0", "--json"}).value("kv_bytes_per_token").toInteger(),
                 69632 / 2 + 65536);
        QCOMPARE(json({"Llama-3-8B", "--dtype", "q4_0", "--dtype-v", "f16", "--json"})
                     .value("kv_bytes_per_token")
                     .toInteger(),
                 36864 / 2 + 65536);
        // A checkpoint in f32 changes nothing of that.
        QCOMPARE(json({"stories260K", "--json"}).value("kv_bytes_per_token").toInteger(), 640);
    }

    void filesFoldersAndConfigsAreRead_data() {
        QTest::addColumn<QString>("model");
        QTest::addColumn<QString>("kind");
        QTest::newRow("bundled") << QStringLiteral("bundled:mha") << QStringLiteral("Hugging Face folder");
        QTest::newRow("folder") << source + "/tests/fixtures/tiny-gqa" << QStringLiteral("Hugging Face folder");
        QTest::newRow("GGUF") << source + "/tests/fixtures/tiny-gqa/tiny-gqa.Q8_0.gguf" << QStringLiteral("GGUF file");
        QTest::newRow("config") << source + "/tests/fixtures/tiny-gqa/config.json" << QStringLiteral("config.json");
    }
    void filesFoldersAndConfigsAreRead() {
        QFETCH(QString, model);
        QFETCH(QString, kind);
        const QJsonObject document = json({model, "--json"});
        QCOMPARE(document.value("source").toString(), kind);
        QVERIFY(document.value("kv_bytes_per_token").toInteger() > 0);
        QVERIFY(document.value("weight_bytes").toInteger() > 0);
        QCOMPARE(document.value("parameters_counted").toBool(), kind != QLatin1String("config.json"));
    }

    void missingKeysAreListedAsAssumed() {
        const QString path = m_folder.filePath(QStringLiteral("shape.conf"));
        QFile file(path);
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write(R"({"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
            "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 4096})");
        file.close();
        const QJsonObject document = json({path, "--json"});
        QCOMPARE(document.value("kv_bytes_per_token").toInteger(), 2 * 4 * 64 * 2);
        QStringList assumed;
        for (const QJsonValue& each : document.value("assumed").toArray()) assumed << each.toString();
        QVERIFY2(assumed.join('\n').contains("num_key_value_heads = 4"), qPrintable(assumed.join('\n')));
    }

    void theSevenCasesArePrinted() {
        const Outcome outcome = kvloupe({"size", "--cases"});
        QCOMPARE(outcome.status, 0);
        const QList<QByteArray> lines = outcome.out.trimmed().split('\n');
        QCOMPARE(lines.size(), 8);
        const char* const gibibytes[] = {" 0.5 GiB", " 4 GiB", " 2.5 GiB", " 16 GiB", " 8 GiB", " 64 GiB", " 8 GiB"};
        for (int i = 0; i < 7; ++i) QVERIFY2(lines[i].contains(gibibytes[i]), lines[i].constData());
        QVERIFY(lines[7].contains("articles"));
        const QJsonDocument document = QJsonDocument::fromJson(kvloupe({"size", "--cases", "--json"}).out);
        QCOMPARE(document.array().size(), 7);
        QCOMPARE(document.array().at(5).toObject().value("kv_bytes").toInteger(), 64LL << 30);
    }

    void theTableIsListed() {
        const Outcome outcome = kvloupe({"size", "--models"});
        QCOMPARE(outcome.status, 0);
        QVERIFY(outcome.out.contains("\nDeepSeek-V2-Lite\n"));
        QVERIFY(outcome.out.contains("H100 SXM"));
    }

    void theTextNamesEveryFactor() {
        const Outcome outcome =
            kvloupe({"size", "Llama-3.1-8B", "--gpu", "H100 SXM", "--batch", "4", "--context", "8192"});
        QCOMPARE(outcome.status, 0);
        const QString out = QString::fromUtf8(outcome.out);
        for (const char* part : {"2 × 32 layers × 8 KV heads × 128 values × 2 B = 131,072 B",
                                 "4 sequences × 1,073,741,824 B = 4,294,967,296 B (4 GiB)", "8,030,261,248 parameters",
                                 "56 sequences of 8,192 tokens; the batch fits", "predicted"})
            QVERIFY2(out.contains(QString::fromUtf8(part)), qPrintable(out));
        QVERIFY(outcome.err.isEmpty());
    }

    void mistakesAreOneSentence_data() {
        QTest::addColumn<QStringList>("words");
        QTest::addColumn<int>("status");
        QTest::addColumn<QString>("named");
        const auto row = [](const char* name, const QStringList& words, int status, const char* named) {
            QTest::newRow(name) << words << status << QString::fromUtf8(named);
        };
        row("no model", {}, 2, "missing");
        row("two models", {"GPT-2", "OPT-13B"}, 2, "OPT-13B");
        row("unknown option", {"GPT-2", "--gpus", "2"}, 2, "--gpus");
        row("context 0", {"GPT-2", "--context", "0"}, 2, "--context 0");
        row("context in words", {"GPT-2", "--context", "4K"}, 2, "--context 4K");
        row("utilization 0", {"GPT-2", "--utilization", "0"}, 2, "--utilization 0");
        row("utilization above 1", {"GPT-2", "--utilization", "1.5"}, 2, "--utilization 1.5");
        row("utilization NaN", {"GPT-2", "--utilization", "nan"}, 2, "--utilization nan");
        row("unknown precision", {"GPT-2", "--dtype", "q4_k"}, 2, "q4_k");
        row("unknown weights", {"GPT-2", "--weights", "kivi2"}, 2, "kivi2");
        row("unknown model", {"Llama-3.1-9B"}, 1, "Llama-3.1-8B");
        row("unknown GPU", {"GPT-2", "--gpu", "H300"}, 1, "H100 SXM");
        row("more GPUs than heads", {"GPT-2", "--tp", "16"}, 1, "16 GPUs");
        row("heads that do not divide", {"GPT-2 XL", "--tp", "2"}, 1, "25 query heads");
        row("more stages than layers", {"GPT-2", "--pp", "13"}, 1, "13 stages");
        row("KV heads that do not divide", {"GPT-2", "--kv-heads", "5"}, 1, "5 KV heads");
        row("no such file", {"/nowhere/config.json"}, 1, "/nowhere/config.json");
        row("packs that do not divide", {"stories260K", "--kv-heads", "1", "--dtype", "q8_0"}, 1, "packs of 32");
        row("a scenario", {source + "/resources/scenarios/variants.json"}, 1, "scenario");
    }
    void mistakesAreOneSentence() {
        QFETCH(QStringList, words);
        QFETCH(int, status);
        QFETCH(QString, named);
        const Outcome outcome = kvloupe(QStringList{"size"} + words);
        QCOMPARE(outcome.status, status);
        QVERIFY2(QString::fromUtf8(outcome.err).contains(named), outcome.err.constData());
        QCOMPARE(outcome.err.trimmed().count('\n'), 0);
        QVERIFY(outcome.out.isEmpty());
    }

private:
    Outcome kvloupe(const QStringList& words) const {
        QProcess process;
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM", "XDG_STATE_HOME", "XDG_DATA_HOME"})
            environment.remove(QString::fromLatin1(name));
        environment.insert(QStringLiteral("HOME"), m_folder.path());
        process.setProcessEnvironment(environment);
        process.start(QStringLiteral(KVLOUPE_PROGRAM), words);
        Outcome outcome;
        if (!process.waitForFinished(60000)) return outcome;
        outcome.status = process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -2;
        outcome.out = process.readAllStandardOutput();
        outcome.err = process.readAllStandardError();
        return outcome;
    }

    // Empty where the command failed.
    QJsonObject json(const QStringList& words) const {
        const Outcome outcome = kvloupe(QStringList{"size"} + words);
        if (outcome.status != 0) qWarning("%s", outcome.err.constData());
        return QJsonDocument::fromJson(outcome.out).object();
    }

    QTemporaryDir m_folder;
};

QTEST_APPLESS_MAIN(TestSizeCommand)
#include "tst_size_command.moc"
