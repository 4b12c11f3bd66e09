// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/generate_model.h"
#include "engine/model/quants.h"

#include <QTest>

#include <cmath>
#include <cstring>
#include <set>

using namespace kvloupe;

namespace {

GenerateOptions small(DType type) {
    GenerateOptions options;
    options.shape.layers = 3;
    options.shape.hidden = 64;
    options.shape.query_heads = 8;
    options.shape.kv_heads = 2;
    options.shape.head_dim = 8;
    options.shape.intermediate = 96;
    options.shape.vocabulary = 50;
    options.shape.context_length = 128;
    options.matrices = type;
    options.seed = 7;
    return options;
}

constexpr std::uint64_t layer_matrices = 64 * 64 * 2 + 16 * 64 * 2 + 96 * 64 * 3;
constexpr std::uint64_t norms = 64 * (2 * 3 + 1);

}  // namespace

class TestGenerateModel : public QObject {
    Q_OBJECT

private slots:
    void shapesAndCountsFollowTheOptions_data() {
        QTest::addColumn<int>("type");
        for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1})
            QTest::newRow(std::string(name_of(type)).c_str()) << static_cast<int>(type);
    }
    void shapesAndCountsFollowTheOptions() {
        QFETCH(int, type);
        const DType dtype = static_cast<DType>(type);
        const auto model = generate_model(small(dtype));
        QVERIFY2(model, model ? "" : model.error().message().c_str());
        const Model& m = **model;
        QCOMPARE(m.layers.size(), std::size_t{3});
        QVERIFY(m.layers[2].key.rows == 16 && m.layers[2].key.cols == 64 && m.layers[2].key.dtype == dtype);
        QVERIFY(m.layers[0].down.rows == 64 && m.layers[0].down.cols == 96);
        QVERIFY(m.layers[1].ffn_norm.rows == 1 && m.layers[1].ffn_norm.cols == 64);
        QVERIFY(m.layers[1].ffn_norm.dtype == DType::f32);
        const std::uint64_t matrices = 3 * layer_matrices + 2 * 50 * 64;
        QCOMPARE(m.config.parameters, matrices + norms);
        QCOMPARE(m.config.weight_bytes, row_bytes(dtype, matrices) + 4 * norms);
        std::uint64_t owned = 0;
        for (const auto& bytes : m.owned) owned += bytes.size();
        QCOMPARE(owned, m.config.weight_bytes);
        QCOMPARE(m.config.rotary_dim, 8u);
        QVERIFY(m.output.data != m.embedding.data);
    }

    void weightsHaveTheVarianceOfOneOverColumns() {
        const auto model = generate_model(small(DType::f32));
        QVERIFY(model);
        const Tensor& gate = (*model)->layers[1].gate;
        std::vector<float> row(64);
        double sum = 0, squares = 0;
        std::set<float> different;
        for (std::uint64_t r = 0; r < gate.rows; ++r) {
            dequantise_row(gate.dtype, gate.data + r * row_bytes(gate.dtype, gate.cols), row);
            for (const float value : row) {
                sum += value;
                squares += static_cast<double>(value) * value;
                different.insert(value);
            }
        }
        const double count = 96.0 * 64.0;
        QVERIFY(std::fabs(sum / count) < 0.01);
        QVERIFY(std::fabs(squares / count * 64 - 1) < 0.05);
        QVERIFY(different.size() > 6000);
    }

    void theSeedDecidesTheBytes() {
        GenerateOptions options = small(DType::q4_1);
        const auto first = generate_model(options);
        const auto again = generate_model(options);
        options.seed = 8;
        const auto other = generate_model(options);
        QVERIFY(first && again && other);
        QVERIFY((*first)->owned == (*again)->owned);
        QVERIFY((*first)->owned != (*other)->owned);
        QCOMPARE((*first)->weights_id, (*again)->weights_id);
        QVERIFY((*first)->weights_id != (*other)->weights_id);
    }

    void tiedModelsShareTheEmbedding() {
        GenerateOptions options = small(DType::f16);
        options.shape.tied_embeddings = true;
        const auto model = generate_model(options);
        QVERIFY(model && (*model)->output.data == (*model)->embedding.data);
        QCOMPARE((*model)->config.parameters, 3 * layer_matrices + 50 * 64 + norms);
    }

    void impossibleShapesAreRefusedByValue_data() {
        QTest::addColumn<int>("which");
        QTest::addColumn<QString>("words");
        QTest::newRow("no layers") << 0 << "layers";
        QTest::newRow("KV heads") << 1 << "KV heads, 3";
        QTest::newRow("odd head") << 2 << "head size 7";
        QTest::newRow("rows of 40 in q8_0") << 3 << "intermediate";
    }
    void impossibleShapesAreRefusedByValue() {
        QFETCH(int, which);
        QFETCH(QString, words);
        GenerateOptions options = small(which == 3 ? DType::q8_0 : DType::f16);
        if (which == 0) options.shape.layers = 0;
        if (which == 1) options.shape.kv_heads = 3;
        if (which == 2) options.shape.head_dim = 7;
        if (which == 3) options.shape.intermediate = 40;
        const auto model = generate_model(options);
        QVERIFY(!model);
        QVERIFY2(QString::fromStdString(model.error().message()).contains(words), model.error().message().c_str());
    }
};

QTEST_GUILESS_MAIN(TestGenerateModel)
#include "tst_generate_model.moc"
