// SPDX-License-Identifier: GPL-3.0-or-later
//
// A session computes what the model computes: golden tokens and logits, whatever the block size, the chunks, the batch,
// with a cache and without.
#include <QDir>
#include <QJsonArray>
#include <QRegularExpression>
#include <QTest>

#include "tests/serve/support.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::vector<TokenId> tokens_of(const QJsonValue& list) {
    std::vector<TokenId> tokens;
    for (const QJsonValue& value : list.toArray()) tokens.push_back(value.toInt());
    return tokens;
}

QByteArray json_list(const std::vector<TokenId>& tokens) {
    QByteArray text = "[";
    for (const TokenId token : tokens) text += QByteArray::number(token) + ',';
    if (!tokens.empty()) text.chop(1);
    return text + ']';
}

// Runs a scenario over stories260K to its end.
struct Run {
    Logits logits;
    std::shared_ptr<const Recording> recording;
    Error error;
    explicit Run(const QByteArray& rest, const std::string& model = stories) {
        Scenario given = scenario("{\"version\": 1, \"device\": \"cpu\", " + rest + "}");
        given.model = model;
        auto session = Session::create(given, options(&logits));
        if (!session) {
            error = session.error();
            return;
        }
        if (auto ran = (*session)->run_to_end(); !ran) error = ran.error();
        recording = (*session)->recording();
    }
};

#define VERIFY_RUN(run) QVERIFY2((run).error.sentence.empty(), (run).error.message().c_str())

const QByteArray two_requests =
    R"("requests": [{"id": "a", "prompt": "Once upon a time there was a little girl who", "max_new_tokens": 40},
                    {"id": "b", "prompt": "Tom and", "max_new_tokens": 30, "arrival_step": 3}])";

}  // namespace

class TestSessionNumbers : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void theGoldenTokensAndLogitsComeOut_data() {
        QTest::addColumn<QByteArray>("lane");
        QTest::newRow("cached, f32") << QByteArray(R"({"cache": {"dtype": "f32"}})");
        QTest::newRow("cached, f32, blocks of 5") << QByteArray(R"({"cache": {"dtype": "f32", "block_size": 5}})");
        QTest::newRow("uncached") << QByteArray(R"({"kv_cache": false})");
    }
    void theGoldenTokensAndLogitsComeOut() {
        SKIP_WITHOUT(stories);
        QFETCH(QByteArray, lane);
        const QJsonObject golden = read_json(KVLOUPE_SHARED_DATA "/models/stories260K_golden.json");
        const Run run("\"lanes\": [" + lane + R"(], "requests": [{"id": "a", "prompt_tokens": [1], "max_new_tokens": 200}])");
        VERIFY_RUN(run);
        QCOMPARE(outputs(*run.recording, LaneId{0}, "a"), tokens_of(golden["greedy_from_bos_200"]));
        const QJsonObject expected = golden["logits_first8"].toObject();
        QCOMPARE(expected.size(), 4);
        for (const QString& key : expected.keys()) {
            const std::vector<float>& logits = run.logits.at({0, 0, key.mid(3).toUInt()});
            const QJsonObject at = expected[key].toObject();
            const auto best = std::max_element(logits.begin(), logits.end());
            QCOMPARE(int(best - logits.begin()), at["argmax"].toInt());
            QVERIFY(std::fabs(double(*best) - at["max"].toDouble()) < 1e-3);
            const QJsonArray values = at["v"].toArray();
            for (int i = 0; i < values.size(); ++i)
                QVERIFY(std::fabs(double(logits[std::size_t(i)]) - values[i].toDouble()) < 1e-3);
        }
    }

    void tinyModelsEqualTransformers_data() {
        QTest::addColumn<QString>("name");
        const QDir folder(QString::fromStdString(fixtures));
        for (const QString& name : folder.entryList({"tiny-*"}, QDir::Dirs)) {
            QTest::newRow(qPrintable(name)) << name;
            for (const QString& file : QDir(folder.filePath(name)).entryList({"*.gguf"}, QDir::Files))
                QTest::newRow(qPrintable(file)) << name + '/' + file;
        }
    }
    void tinyModelsEqualTransformers() {
        QFETCH(QString, name);
        const std::string model = fixtures + name.toStdString();
        // A folder, or a GGUF file name/name.TYPE.gguf, whose weights transformers used unpacked.
        const QString type = name.endsWith(".gguf") ? name.section('.', -2, -2) + '.' : QString();
        const QJsonObject expected = read_json((QString::fromStdString(fixtures) + name.section('/', 0, 0) + "/expected." + type + "json").toStdString());
        const std::vector<TokenId> tokens = tokens_of(expected["tokens"]);
        // The first token is the prompt, the others are forced: output index i answers position i.
        const QByteArray forced = json_list({tokens.begin() + 1, tokens.end()}).chopped(1) + ",0]";
        const Run run(R"("lanes": [{"name": "f32", "cache": {"dtype": "f32", "block_size": 4}},
                                  {"name": "one block", "cache": {"dtype": "f32", "block_size": 256}}, {"kv_cache": false}],
                        "requests": [{"id": "a", "prompt_tokens": )" + json_list({tokens[0]}) + R"(, "output_tokens": )" + forced +
                      R"(}, {"id": "g", "prompt_tokens": )" + json_list(tokens) + R"(, "max_new_tokens": )" +
                      QByteArray::number(expected["greedy"].toArray().size()) + "}]", model);
        VERIFY_RUN(run);
        const QJsonArray positions = expected["positions"].toArray();
        QVERIFY(positions.size() > 0);
        double largest = 0;
        for (std::uint32_t lane = 0; lane < 3; ++lane) {
            for (int i = 0; i < positions.size(); ++i) {
                const QJsonArray row = expected["logits"].toArray()[i].toArray();
                std::vector<float> wanted;
                for (const QJsonValue& value : row) wanted.push_back(float(value.toDouble()));
                largest = std::max(largest, largest_difference(run.logits.at({lane, 0, std::uint32_t(positions[i].toInt())}), wanted));
            }
            QCOMPARE(outputs(*run.recording, LaneId{lane}, "g"), tokens_of(expected["greedy"]));
        }
        qInfo("largest logit difference to transformers: %.3g", largest);
        QVERIFY(largest < 1e-4);
    }

    void cachedAndUncachedAgree() {
        SKIP_WITHOUT(stories);
        const Run run(R"("lanes": [{"name": "cached", "cache": {"dtype": "f32"}}, {"name": "uncached", "kv_cache": false}], )" + two_requests);
        VERIFY_RUN(run);
        double largest = 0;
        std::size_t compared = 0;
        for (const auto& entry : run.logits) {
            if (std::get<0>(entry.first) != 0) continue;
            const auto other = run.logits.find({1, std::get<1>(entry.first), std::get<2>(entry.first)});
            QVERIFY(other != run.logits.end());
            largest = std::max(largest, largest_difference(entry.second, other->second));
            ++compared;
        }
        QCOMPARE(compared, std::size_t(70));
        qInfo("largest logit difference cached - uncached: %.3g", largest);
        QVERIFY(largest < 1e-4);
        // The recording says the same, and the first lane has nobody to be compared with.
        double recorded = 0;
        const LaneRecord& uncached = run.recording->lane(LaneId{1});
        for (std::size_t i = 0; i < uncached.step_count(); ++i) {
            QVERIFY(!std::isnan(uncached.step(i).logit_difference));
            recorded = std::max(recorded, double(uncached.step(i).logit_difference));
            QVERIFY(std::isnan(run.recording->lane(LaneId{0}).step(i).logit_difference));
        }
        QCOMPARE(recorded, largest);
    }

    void blockSizesGiveTheSameBits_data() {
        QTest::addColumn<QByteArray>("dtype");
        for (const char* dtype : {"f32", "f16", "bf16"}) QTest::newRow(dtype) << QByteArray(dtype);
    }
    void blockSizesGiveTheSameBits() {
        SKIP_WITHOUT(stories);
        QFETCH(QByteArray, dtype);
        QByteArray lanes;
        for (const char* size : {"100", "1", "7", "16", "256"})  // 100: one block as long as the sequence
            lanes += QByteArray(lanes.isEmpty() ? "" : ", ") + "{\"name\": \"" + size + "\", \"cache\": {\"dtype\": \"" + dtype +
                     "\", \"block_size\": " + size + "}}";
        const Run run("\"lanes\": [" + lanes + "], " + two_requests);
        VERIFY_RUN(run);
        for (const auto& entry : run.logits)
            QCOMPARE(entry.second, run.logits.at({0, std::get<1>(entry.first), std::get<2>(entry.first)}));
        QCOMPARE(run.logits.size(), std::size_t(5 * 70));
    }

    void chunkedPrefillEqualsWholePrefill() {
        SKIP_WITHOUT(stories);
        const Run run(R"("lanes": [{"name": "whole", "cache": {"dtype": "f32"}},
            {"name": "chunks of 5", "cache": {"dtype": "f32"}, "scheduler": {"max_num_batched_tokens": 5}},
            {"name": "chunks of 1", "cache": {"dtype": "f32"}, "scheduler": {"long_prefill_token_threshold": 1}},
            {"name": "uncached in pieces", "kv_cache": false, "scheduler": {"max_num_batched_tokens": 3}}], )" + two_requests);
        VERIFY_RUN(run);
        double largest = 0;
        for (const auto& entry : run.logits)
            largest = std::max(largest, largest_difference(entry.second, run.logits.at({0, std::get<1>(entry.first), std::get<2>(entry.first)})));
        qInfo("largest logit difference chunked - whole: %.3g", largest);
        QVERIFY(largest < 1e-4);
        QVERIFY(run.recording->lane(LaneId{2}).step_count() > run.recording->lane(LaneId{0}).step_count() + 5);
    }

    void aBatchGivesWhatEachRequestGivesAlone() {
        SKIP_WITHOUT(stories);
        const QByteArray one = R"({"id": "a", "prompt": "Once upon", "max_new_tokens": 25, "temperature": 0.8, "top_k": 50})";
        const QByteArray two = R"({"id": "b", "prompt": "Lily had a big red ball and", "max_new_tokens": 25, "temperature": 1.1, "top_p": 0.9})";
        const QByteArray three = R"({"id": "c", "prompt": "The dog", "max_new_tokens": 30, "arrival_step": 4})";
        const QByteArray lanes = R"("seed": 5, "lanes": [{"cache": {"dtype": "f32"}}], "requests": [)";
        const Run all(lanes + one + "," + two + "," + three + "]");
        VERIFY_RUN(all);
        for (const auto& request : {std::pair{"a", one}, std::pair{"b", two}, std::pair{"c", three}}) {
            const Run alone(lanes + request.second + "]");
            VERIFY_RUN(alone);
            QCOMPARE(outputs(*all.recording, LaneId{0}, request.first), outputs(*alone.recording, LaneId{0}, request.first));
        }
        const Run reordered(lanes + three + "," + two + "," + one + "]");
        QCOMPARE(outputs(*all.recording, LaneId{0}, "b"), outputs(*reordered.recording, LaneId{0}, "b"));
    }

    void K1_keyHeadsThatAreCopiesGiveTheSameLogits() {
        const auto gqa = load_model(fixtures + "tiny-gqa");
        VERIFY_RESULT(gqa);
        const Model& few = **gqa;
        // Every query head gets a KV head of its own, a copy of the one it shared.
        auto many = std::make_shared<Model>(few);
        many->config.kv_heads = few.config.query_heads;
        many->weights_id = 4711;
        const std::uint32_t shared_by = few.config.query_heads / few.config.kv_heads;
        for (LayerWeights& layer : many->layers)
            for (Tensor* tensor : {&layer.key, &layer.value}) {
                const std::uint64_t head_bytes = tensor->bytes() / few.config.kv_heads;
                std::vector<std::byte> bytes;
                for (std::uint32_t head = 0; head < few.config.query_heads; ++head) {
                    const std::byte* from = tensor->data + head / shared_by * head_bytes;
                    bytes.insert(bytes.end(), from, from + head_bytes);
                }
                tensor->rows *= shared_by;
                many->owned.push_back(std::move(bytes));
                tensor->data = many->owned.back().data();
            }
        Logits logits;
        SessionOptions given = options(&logits);
        given.find_model = [&](const std::string& name) -> Result<std::shared_ptr<const Model>> {
            return name == "many" ? std::shared_ptr<const Model>(many) : *gqa;
        };
        auto s = Session::create(scenario(R"({"version": 1, "device": "cpu", "model": "few", "lanes": [{"name": "few", "cache": {"dtype": "f32"}}, {"name": "many", "model": "many", "cache": {"dtype": "f32"}}],
                                              "requests": [{"id": "a", "prompt_tokens": [5, 6, 7, 8, 9, 10, 11], "max_new_tokens": 30}]})"), given);
        VERIFY_RESULT(s);
        VERIFY_RESULT((*s)->run_to_end());
        std::size_t compared = 0;
        for (const auto& [key, values] : logits)
            if (std::get<0>(key) == 0) {
                QVERIFY(largest_difference(values, logits.at({1, 0, std::get<2>(key)})) <= 1e-5);
                ++compared;
            }
        QVERIFY(compared > 0);
        const Recording& recording = *(*s)->recording();
        QCOMPARE(recording.lane(LaneId{0}).info().bytes_per_token * shared_by, recording.lane(LaneId{1}).info().bytes_per_token);
    }

    void countersFollowTheWork() {
        SKIP_WITHOUT(stories);
        const Run run(R"("lanes": [{"name": "cached"}, {"name": "uncached", "kv_cache": false}],
                        "requests": [{"id": "a", "prompt_tokens": [1, 403, 407], "max_new_tokens": 10}])");
        VERIFY_RUN(run);
        const LaneRecord& cached = run.recording->lane(LaneId{0});
        const LaneRecord& uncached = run.recording->lane(LaneId{1});
        QCOMPARE(cached.step_count(), std::size_t(10));
        QCOMPARE(uncached.step_count(), std::size_t(10));
        std::uint64_t with = 0, without = 0;
        for (std::size_t i = 0; i < 10; ++i) {
            with += cached.step(i).computed_tokens;
            without += uncached.step(i).computed_tokens;
            QCOMPARE(cached.step(i).hit_tokens, std::uint64_t(0));
            QCOMPARE(cached.step(i).used_blocks, 1u);
            QCOMPARE(cached.step(i).kv_bytes, cached.info().block_bytes);
            QCOMPARE(uncached.step(i).kv_bytes, std::uint64_t(0));
            QCOMPARE(cached.step(i).context_tokens, std::uint32_t(3 + i));
        }
        QCOMPARE(with, std::uint64_t(12));               // prompt + new - 1
        QCOMPARE(without, std::uint64_t(12 * 13 / 2 - 3));  // 3 + 4 + … + 12
        QCOMPARE(cached.step(0).prefill_tokens, 3u);
        QCOMPARE(cached.step(5).decode_tokens, 1u);
        // 5 layers, 4 KV heads of 8, f16: the formula, and what the allocator says.
        QCOMPARE(cached.info().bytes_per_token, std::uint64_t(2 * 5 * 4 * 8 * 2));
        QVERIFY(cached.info().block_bytes >= cached.info().bytes_per_token * 16);
    }
};

QTEST_GUILESS_MAIN(TestSessionNumbers)
#include "tst_session_numbers.moc"
