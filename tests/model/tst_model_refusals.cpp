// SPDX-License-Identifier: GPL-3.0-or-later
//
// Models that cannot be loaded: one sentence names the file, the key or tensor and the value.
#include "tests/model/loader_support.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QStringList>
#include <QTemporaryDir>

#include <algorithm>
#include <cstring>
#include <functional>

using namespace kvloupe;

namespace {

// The safetensors file with a changed header; the data stays.
QByteArray with_header(const QByteArray& file, const std::function<void(QJsonObject&)>& change) {
    quint64 length = 0;
    std::memcpy(&length, file.constData(), 8);
    QJsonObject header = QJsonDocument::fromJson(file.mid(8, static_cast<int>(length))).object();
    change(header);
    const QByteArray json = QJsonDocument(header).toJson(QJsonDocument::Compact);
    const QByteArray padded = json + QByteArray((8 - json.size() % 8) % 8, ' ');
    const quint64 size = static_cast<quint64>(padded.size());
    return QByteArray(reinterpret_cast<const char*>(&size), 8) + padded + file.mid(8 + static_cast<int>(length));
}

void rename_tensor(QJsonObject& header, const QString& from, const QString& to) {
    const QJsonValue entry = header.take(from);
    header[to] = entry;
}

}  // namespace

class TestModelRefusals : public QObject {
    Q_OBJECT

private slots:
    void missingPartsAreNamed_data() {
        QTest::addColumn<QString>("part");
        QTest::newRow("configuration") << "config.json";
        QTest::newRow("tokenizer") << "tokenizer.json";
        QTest::newRow("weights") << "model.safetensors";
    }
    void missingPartsAreNamed() {
        QFETCH(QString, part);
        QTemporaryDir folder;
        copy_folder("tiny-gqa", folder.path());
        QVERIFY(load(folder.path()));
        QVERIFY(QFile::remove(folder.filePath(part)));
        const Loaded loaded = load(folder.path());
        QVERIFY(!loaded);
        const QString message = QString::fromStdString(loaded.error().message());
        QVERIFY2(message.contains(folder.path() + " has no " + part), qPrintable(message));
        QVERIFY2(message.contains("config.json, tokenizer.json and model.safetensors"), qPrintable(message));
    }

    void weightsInOtherFormsAreExplained_data() {
        QTest::addColumn<QString>("file");
        QTest::addColumn<QString>("word");
        QTest::newRow("parts") << "model.safetensors.index.json" << "several files";
        QTest::newRow("pickle") << "pytorch_model.bin" << "pickle";
    }
    void weightsInOtherFormsAreExplained() {
        QFETCH(QString, file);
        QFETCH(QString, word);
        QTemporaryDir folder;
        copy_folder("tiny-gqa", folder.path());
        QVERIFY(QFile::rename(folder.filePath("model.safetensors"), folder.filePath(file)));
        const Loaded loaded = load(folder.path());
        QVERIFY(!loaded);
        QVERIFY2(QString::fromStdString(loaded.error().message()).contains(word), loaded.error().message().c_str());
    }

    void pathsThatAreNoModelAreExplained() {
        QTemporaryDir folder;
        const auto message = [](const QString& path) {
            const Loaded loaded = load(path);
            return loaded ? QString("loaded") : QString::fromStdString(loaded.error().message());
        };
        QVERIFY(message(folder.filePath("absent.gguf")).contains("absent.gguf cannot be opened"));
        write_all(folder.filePath("empty.gguf"), {});
        QVERIFY(message(folder.filePath("empty.gguf")).contains("empty"));
        write_all(folder.filePath("note.txt"), "just a note");
        QVERIFY(message(folder.filePath("note.txt")).contains("begins with 'just'"));
        QVERIFY(message(folder.path()).contains("has no config.json"));
        QVERIFY(message(fixtures + "tiny-gqa/model.safetensors").contains("the folder with config.json"));
    }

    // A folder's weights with one thing changed in the header; the message names the tensor and what is wrong with it.
    void wrongTensorsAreRefusedByName_data() {
        QTest::addColumn<int>("change");
        QTest::addColumn<QStringList>("words");
        QTest::newRow("missing") << 0 << QStringList{"has no tensor 'model.layers.1.mlp.up_proj.weight'"};
        QTest::newRow("left over") << 1 << QStringList{"'model.layers.2.self_attn.q_norm.weight'", "no place"};
        QTest::newRow("other shape")
            << 2 << QStringList{"'model.layers.0.self_attn.k_proj.weight'", "[32, 16]", "[16, 32]"};
        QTest::newRow("other dtype") << 3 << QStringList{"'model.norm.weight'", "'I32'", "not built yet", "BF16"};
        QTest::newRow("no head") << 4 << QStringList{"has no tensor 'lm_head.weight'"};
    }
    void wrongTensorsAreRefusedByName() {
        QFETCH(int, change);
        QFETCH(QStringList, words);
        QTemporaryDir folder;
        copy_folder("tiny-gqa", folder.path());
        const QString path = folder.filePath("model.safetensors");
        write_all(path, with_header(read_all(path), [change](QJsonObject& header) {
            const QString key = "model.layers.0.self_attn.k_proj.weight";
            QJsonObject entry;
            switch (change) {
            case 0: rename_tensor(header, "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.other.weight"); break;
            case 1: {
                // An empty tensor at the end of the data: legal, but not of this model.
                double end = 0;
                for (const auto& value : header)
                    end = std::max(end, value.toObject()["data_offsets"].toArray().at(1).toDouble());
                header["model.layers.2.self_attn.q_norm.weight"] =
                    QJsonObject{{"dtype", "F32"}, {"shape", QJsonArray{0}}, {"data_offsets", QJsonArray{end, end}}};
                break;
            }
            case 2:
                entry = header[key].toObject();
                entry["shape"] = QJsonArray{32, 16};
                header[key] = entry;
                break;
            case 3:
                entry = header["model.norm.weight"].toObject();
                entry["dtype"] = "I32";
                header["model.norm.weight"] = entry;
                break;
            default: rename_tensor(header, "lm_head.weight", "head.weight"); break;
            }
        }));
        const Loaded loaded = load(folder.path());
        QVERIFY(!loaded);
        const QString message = QString::fromStdString(loaded.error().message());
        for (const QString& word : words) QVERIFY2(message.contains(word), qPrintable(message));
        QVERIFY2(message.startsWith(path), qPrintable(message));
    }

    void aConfigurationOfAnotherModelIsRefused_data() {
        QTest::addColumn<QString>("key");
        QTest::addColumn<int>("value");
        QTest::addColumn<QString>("word");
        QTest::newRow("more layers") << "num_hidden_layers" << 3 << "model.layers.2.input_layernorm.weight";
        QTest::newRow("fewer layers") << "num_hidden_layers" << 1 << "Llama model of 1 layers";
        QTest::newRow("absurdly many layers") << "num_hidden_layers" << 4000 << "too few for the 4,000 layers";
        QTest::newRow("width") << "hidden_size" << 64 << "[288, 64]";
        QTest::newRow("vocabulary") << "vocab_size" << 300 << "[300, 32]";
        QTest::newRow("KV heads") << "num_key_value_heads" << 1 << "[8, 32]";
    }
    void aConfigurationOfAnotherModelIsRefused() {
        QFETCH(QString, key);
        QFETCH(int, value);
        QFETCH(QString, word);
        QTemporaryDir folder;
        copy_folder("tiny-gqa", folder.path());
        const QString path = folder.filePath("config.json");
        QJsonObject config = QJsonDocument::fromJson(read_all(path)).object();
        config[key] = value;
        write_all(path, QJsonDocument(config).toJson());
        const Loaded loaded = load(folder.path());
        QVERIFY(!loaded);
        QVERIFY2(QString::fromStdString(loaded.error().message()).contains(word), loaded.error().message().c_str());
    }

    void truncatedWeightsAreRefused() {
        QTemporaryDir folder;
        copy_folder("tiny-gqa", folder.path());
        const QString path = folder.filePath("model.safetensors");
        const QByteArray whole = read_all(path);
        for (const int missing : {1, 100, 100000, static_cast<int>(whole.size()) - 9}) {
            write_all(path, whole.left(whole.size() - missing));
            const Loaded loaded = load(folder.path());
            QVERIFY(!loaded);
            QVERIFY(QString::fromStdString(loaded.error().message()).contains("model.safetensors: "));
        }
        const QString gguf = folder.filePath("cut.gguf");
        const QByteArray file = read_all(fixtures + "tiny-gqa/tiny-gqa.Q4_0.gguf");
        for (const int missing : {40, 1000, static_cast<int>(file.size()) - 4}) {
            write_all(gguf, file.left(file.size() - missing));
            QVERIFY(!load(gguf));
        }
    }

    // A GGUF file with one byte sequence replaced by another of the same length.
    void unbuiltGgufFilesAreRefusedByName_data() {
        QTest::addColumn<QByteArray>("from");
        QTest::addColumn<QByteArray>("to");
        QTest::addColumn<QStringList>("words");
        QTest::newRow("architecture") << QByteArray("\x05\0\0\0\0\0\0\0llama", 13) << QByteArray("\x05\0\0\0\0\0\0\0qwen2", 13)
                                      << QStringList{"'qwen2'", "not built yet"};
        QTest::newRow("missing key") << QByteArray("llama.block_count") << QByteArray("llama.block_Count")
                                     << QStringList{"'llama.block_count'"};
        QTest::newRow("experts")
            << QByteArray("llama.rope.freq_base\x06\0\0\0\x00\x40\x1C\x46", 28)
            << QByteArray("llama.expert_count__\x04\0\0\0\x08\0\0\0", 28) << QStringList{};
        QTest::newRow("missing tensor") << QByteArray("blk.1.attn_v.weight") << QByteArray("blk.1.attn_w.weight")
                                        << QStringList{"'blk.1.attn_v.weight'"};
        QTest::newRow("tokenizer") << QByteArray("\x04\0\0\0\0\0\0\0gpt2", 12) << QByteArray("\x04\0\0\0\0\0\0\0rwkv", 12)
                                   << QStringList{"rwkv"};
    }
    void unbuiltGgufFilesAreRefusedByName() {
        QFETCH(QByteArray, from);
        QFETCH(QByteArray, to);
        QFETCH(QStringList, words);
        QByteArray bytes = read_all(fixtures + "tiny-gqa/tiny-gqa.Q8_0.gguf");
        QCOMPARE(from.size(), to.size());
        const auto at = bytes.indexOf(from);
        QVERIFY(at > 0);
        bytes.replace(at, from.size(), to);
        QTemporaryDir folder;
        const QString path = folder.filePath("changed.gguf");
        write_all(path, bytes);
        const Loaded loaded = load(path);
        if (words.isEmpty()) {  // an unknown key is no reason to refuse
            QVERIFY2(loaded, loaded ? "" : loaded.error().message().c_str());
            return;
        }
        QVERIFY(!loaded);
        const QString message = QString::fromStdString(loaded.error().message());
        QVERIFY2(message.contains("changed.gguf"), qPrintable(message));
        for (const QString& word : words) QVERIFY2(message.contains(word), qPrintable(message));
    }

    void aVocabularyIsNoModel() {
        const QString path = KVLOUPE_SHARED_DATA "/tokenizers/ggml-vocab-llama-spm.gguf";
        if (!QFile::exists(path)) QSKIP("The public vocabularies are not here, so none was tried.");
        const Loaded loaded = load(path);
        QVERIFY(!loaded);
        QVERIFY2(QString::fromStdString(loaded.error().message()).contains("ggml-vocab-llama-spm.gguf"),
                 loaded.error().message().c_str());
    }
};

QTEST_GUILESS_MAIN(TestModelRefusals)
#include "tst_model_refusals.moc"
