// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/quants.h"
#include "tests/model/loader_support.h"

#include <QDir>
#include <QJsonDocument>
#include <QJsonObject>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace kvloupe;

namespace {

std::vector<float> row(const Tensor& tensor, std::uint64_t index) {
    std::vector<float> values(tensor.cols);
    dequantise_row(tensor.dtype, tensor.data + index * row_bytes(tensor.dtype, tensor.cols), values);
    return values;
}

std::vector<const Tensor*> all_tensors(const Model& model) {
    std::vector<const Tensor*> out = {&model.embedding, &model.output_norm, &model.output};
    for (const LayerWeights& l : model.layers)
        out.insert(out.end(), {&l.attention_norm, &l.query, &l.key, &l.value, &l.attention_out, &l.ffn_norm, &l.gate,
                               &l.up, &l.down});
    return out;
}

}  // namespace

class TestModelLoader : public QObject {
    Q_OBJECT

private slots:
    void foldersLoadWithTheirShape_data() {
        QTest::addColumn<QString>("variant");
        QTest::addColumn<int>("kv_heads");
        QTest::addColumn<int>("head_dim");
        QTest::addColumn<bool>("tied");
        QTest::addColumn<QString>("dtype");
        QTest::newRow("tiny-mha") << "MHA" << 4 << 8 << false << "f32";
        QTest::newRow("tiny-gqa") << "GQA" << 2 << 8 << false << "f32";
        QTest::newRow("tiny-mqa") << "MQA" << 1 << 8 << true << "f16";
        QTest::newRow("tiny-mha-tied") << "MHA" << 4 << 8 << true << "bf16";
        QTest::newRow("tiny-wide-heads") << "GQA" << 2 << 16 << true << "f32";
    }
    void foldersLoadWithTheirShape() {
        QFETCH(QString, variant);
        QFETCH(int, kv_heads);
        QFETCH(int, head_dim);
        QFETCH(bool, tied);
        QFETCH(QString, dtype);
        const Loaded loaded = load(fixtures + QTest::currentDataTag());
        QVERIFY2(loaded, loaded ? "" : loaded.error().message().c_str());
        const Model& model = **loaded;
        QCOMPARE(model.config.name, std::string(QTest::currentDataTag()));
        QCOMPARE(QString::fromStdString(model.config.attention_variant()), variant);
        QCOMPARE(static_cast<int>(model.config.head_dim), head_dim);
        QCOMPARE(model.config.tied_embeddings, tied);
        QVERIFY(model.config.rotary_layout == RotaryLayout::half_split);
        QCOMPARE(model.layers.size(), std::size_t{2});
        QCOMPARE(model.embedding.rows, std::uint64_t{288});
        QCOMPARE(static_cast<int>(model.layers[1].key.rows), kv_heads * head_dim);
        QCOMPARE(static_cast<int>(model.layers[1].attention_out.cols), 4 * head_dim);
        QCOMPARE(QString::fromUtf8(name_of(model.layers[0].gate.dtype).data()), dtype);
        QCOMPARE(model.output.data == model.embedding.data, tied);
        QVERIFY(model.tokenizer && model.tokenizer->size() == 288);
        // Counted by hand from the shape: hidden 32, intermediate 64, 4 query heads.
        const std::uint64_t projections = 2u * 32 * 4 * static_cast<unsigned>(head_dim) +
                                          2u * 32 * static_cast<unsigned>(kv_heads * head_dim);
        const std::uint64_t parameters = 2 * (projections + 3 * 64 * 32 + 2 * 32) + 32 + (tied ? 1u : 2u) * 288 * 32;
        QCOMPARE(model.config.parameters, parameters);
        QCOMPARE(model.config.weight_bytes, parameters * bytes_per_pack(model.embedding.dtype));
    }

    void weightsAreViewsIntoTheMappedFile_data() {
        QTest::addColumn<QString>("path");
        QTest::newRow("folder") << "tiny-gqa";
        QTest::newRow("GGUF") << "tiny-gqa/tiny-gqa.Q4_1.gguf";
    }
    void weightsAreViewsIntoTheMappedFile() {
        QFETCH(QString, path);
        const Loaded loaded = load(fixtures + path);
        QVERIFY2(loaded, loaded ? "" : loaded.error().message().c_str());
        const Model& model = **loaded;
        QCOMPARE(model.files.size(), std::size_t{1});
        QVERIFY(model.owned.empty());
        const auto bytes = model.files[0]->bytes();
        for (const Tensor* tensor : all_tensors(model)) {
            QVERIFY(tensor->data >= bytes.data());
            QVERIFY(tensor->data + tensor->bytes() <= bytes.data() + bytes.size());
        }
    }

    void ggufFilesHoldTheFoldersWeights_data() {
        QTest::addColumn<QString>("folder");
        QTest::addColumn<QString>("type");
        QTest::addColumn<double>("step");  // error allowed, as a share of the largest magnitude of a row
        QTest::newRow("F32") << "tiny-gqa" << "F32" << 0.0;
        QTest::newRow("F16") << "tiny-gqa" << "F16" << 0x1p-11;
        QTest::newRow("BF16") << "tiny-gqa" << "BF16" << 0x1p-8;
        QTest::newRow("Q8_0") << "tiny-gqa" << "Q8_0" << 0.5 / 127 + 0x1p-10;
        QTest::newRow("Q4_0") << "tiny-gqa" << "Q4_0" << 1.0 / 8 + 0x1p-10;
        QTest::newRow("Q4_1") << "tiny-gqa" << "Q4_1" << 1.0 / 15 + 0x1p-9;
        QTest::newRow("head size not width / heads") << "tiny-wide-heads" << "BF16" << 0x1p-8;
    }
    void ggufFilesHoldTheFoldersWeights() {
        QFETCH(QString, folder);
        QFETCH(QString, type);
        QFETCH(double, step);
        const Loaded plain = load(fixtures + folder);
        const Loaded packed = load(QString("%1%2/%2.%3.gguf").arg(fixtures, folder, type));
        QVERIFY2(plain, plain ? "" : plain.error().message().c_str());
        QVERIFY2(packed, packed ? "" : packed.error().message().c_str());
        const ModelConfig& a = (*plain)->config;
        const ModelConfig& b = (*packed)->config;
        QCOMPARE(b.name, folder.toStdString());
        QVERIFY(a.layers == b.layers && a.hidden == b.hidden && a.intermediate == b.intermediate);
        QVERIFY(a.query_heads == b.query_heads && a.kv_heads == b.kv_heads && a.head_dim == b.head_dim);
        QVERIFY(a.vocabulary == b.vocabulary && a.context_length == b.context_length && a.parameters == b.parameters);
        QVERIFY(a.rope_theta == b.rope_theta && a.rotary_dim == b.rotary_dim && a.tied_embeddings == b.tied_embeddings);
        QVERIFY(b.rotary_layout == RotaryLayout::adjacent);
        QCOMPARE(QString::fromUtf8(name_of((*packed)->layers[0].gate.dtype).data()), type.toLower());
        const std::vector<const Tensor*> plain_tensors = all_tensors(**plain);
        const std::vector<const Tensor*> packed_tensors = all_tensors(**packed);
        QCOMPARE(plain_tensors.size(), packed_tensors.size());
        const LayerWeights& first = (*plain)->layers[0];
        QVERIFY(plain_tensors[4] == &first.query);
        for (std::size_t t = 0; t < plain_tensors.size(); ++t) {
            const Tensor& from = *plain_tensors[t];
            const Tensor& to = *packed_tensors[t];
            QVERIFY(from.rows == to.rows && from.cols == to.cols);
            const bool rotated = from.name.find("q_proj") != std::string::npos || from.name.find("k_proj") != std::string::npos;
            for (std::uint64_t r = 0; r < from.rows; ++r) {
                // Row i of the half-split order is row 2i of the adjacent one, row i + d/2 is row 2i + 1.
                const std::uint64_t d = a.head_dim, in_head = r % d;
                const std::uint64_t target =
                    rotated ? r - in_head + (in_head < d / 2 ? 2 * in_head : 2 * (in_head - d / 2) + 1) : r;
                const std::vector<float> x = row(from, r), y = row(to, target);
                float largest = 0;
                for (const float value : x) largest = std::max(largest, std::fabs(value));
                for (std::size_t c = 0; c < x.size(); ++c)
                    QVERIFY2(std::fabs(x[c] - y[c]) <= step * largest, from.name.c_str());
            }
        }
    }

    void bothFormsTokeniseThePromptAlike() {
        const Loaded folder = load(fixtures + "tiny-gqa");
        const Loaded gguf = load(fixtures + "tiny-gqa/tiny-gqa.F32.gguf");
        QVERIFY(folder && gguf);
        const QJsonObject expected =
            QJsonDocument::fromJson(read_all(fixtures + "tiny-gqa/expected.json")).object();
        const std::string prompt = expected["prompt"].toString().toStdString();
        std::vector<TokenId> tokens;
        for (const QVariant& token : expected["tokens"].toVariant().toList()) tokens.push_back(token.toInt());
        QVERIFY(tokens.size() > 8);
        QCOMPARE((*folder)->tokenizer->encode_prompt(prompt), tokens);
        QCOMPARE((*gguf)->tokenizer->encode_prompt(prompt), tokens);
    }

    void equalFilesHaveEqualWeightsIds() {
        const Loaded first = load(fixtures + "tiny-gqa");
        const Loaded again = load(fixtures + "tiny-mha/../tiny-gqa");
        const Loaded other = load(fixtures + "tiny-mha");
        QVERIFY(first && again && other);
        QCOMPARE((*first)->weights_id, (*again)->weights_id);
        QVERIFY((*first)->weights_id != (*other)->weights_id && (*first)->weights_id != 0);
    }

    void progressRisesToOne() {
        std::vector<double> fractions;
        LoadOptions options;
        options.progress = [&](double fraction, const std::string& what) {
            fractions.push_back(fraction);
            QVERIFY(!what.empty());
        };
        QVERIFY(load(fixtures + "tiny-gqa", options));
        QVERIFY(fractions.size() >= 4 && fractions.front() == 0.0 && fractions.back() == 1.0);
        QVERIFY(std::is_sorted(fractions.begin(), fractions.end()));
    }

    void cancellingStopsAtEveryPart() {
        int parts = 0;
        LoadOptions count;
        count.progress = [&](double, const std::string&) { ++parts; };
        QVERIFY(load(fixtures + "tiny-gqa", count));
        // After the last two reports, the last of the weights and the end, there is nothing left to stop.
        for (int stop_at = 0; stop_at < parts - 2; ++stop_at) {
            std::stop_source source;
            LoadOptions options;
            options.stop = source.get_token();
            int at = 0;
            options.progress = [&](double, const std::string&) {
                if (at++ == stop_at) source.request_stop();
            };
            const Loaded loaded = load(fixtures + "tiny-gqa", options);
            QVERIFY(!loaded);
            QCOMPARE(loaded.error().sentence, std::string("Loading was cancelled"));
        }
        std::stop_source before;
        before.request_stop();
        LoadOptions options;
        options.stop = before.get_token();
        QVERIFY(!load(fixtures + "tiny-gqa", options));
    }

    void storiesModelLoads() {
        const QString path = KVLOUPE_SHARED_DATA "/models/stories260K.gguf";
        if (!QFile::exists(path)) QSKIP("The public model stories260K.gguf is not here, so it was not loaded.");
        const Loaded loaded = load(path);
        QVERIFY2(loaded, loaded ? "" : loaded.error().message().c_str());
        const ModelConfig& config = (*loaded)->config;
        QCOMPARE(config.name, std::string("stories260K"));
        QVERIFY(config.layers == 5 && config.hidden == 64 && config.query_heads == 8 && config.kv_heads == 4);
        QVERIFY(config.head_dim == 8 && config.vocabulary == 512 && config.context_length == 2048);
        QVERIFY(config.rotary_layout == RotaryLayout::adjacent && !config.tied_embeddings);
        QCOMPARE(config.kv_bytes_per_token(DType::f16), std::uint64_t{640});  // FORMATS 3.1
        QCOMPARE((*loaded)->tokenizer->size(), std::size_t{512});
        bool theta_assumed = false;
        for (const std::string& line : config.assumed) theta_assumed |= line.rfind("llama.rope.freq_base = 10000", 0) == 0;
        QVERIFY(theta_assumed);
    }

    void smolLm2Loads() {
        const QDir folder(KVLOUPE_FETCHED_MODELS);
        const QStringList files = folder.entryList({"SmolLM2-135M-Instruct*.gguf"});
        if (files.isEmpty()) QSKIP("SmolLM2 was not fetched (tests/fetch-models.sh), so it was not loaded.");
        const Loaded loaded = load(folder.filePath(files.first()));
        QVERIFY2(loaded, loaded ? "" : loaded.error().message().c_str());
        const ModelConfig& config = (*loaded)->config;
        QVERIFY(config.layers == 30 && config.query_heads == 9 && config.kv_heads == 3 && config.head_dim == 64);
        QVERIFY(config.tied_embeddings && config.rope_theta == 100000.0f);
        QCOMPARE(config.kv_bytes_per_token(DType::f16), std::uint64_t{23040});  // CACHE_SEMANTICS 0
        QVERIFY((*loaded)->layers[3].up.dtype == DType::q4_1 && (*loaded)->embedding.dtype == DType::q8_0);
        QCOMPARE(config.parameters, std::uint64_t{134515008});
    }
};

QTEST_GUILESS_MAIN(TestModelLoader)
#include "tst_model_loader.moc"
