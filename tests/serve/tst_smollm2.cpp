// SPDX-License-Identifier: GPL-3.0-or-later
//
// SmolLM2-135M-Instruct (Q4_1) with llama.cpp's own greedy tokens forced, for five prompts: the argmax is the same
// wherever its margin exceeds the largest logit difference. Three references: llama.cpp with the tokens as one batch, whose
// products BLAS computes (make_smollm2_batched.py): the differences stay small; llama.cpp token by token, where it rounds
// the activations of quantised products to 8 bits (make_smollm2_expected.py), which moves its own logits by about 1; and
// transformers in f32 on the unpacked weights (make_smollm2_exact.py).
#include <QJsonArray>
#include <QRegularExpression>
#include <QTest>

#include "tests/serve/support.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

const char* const expected_file = KVLOUPE_SOURCE_DIR "/tests/serve/smollm2_expected.json";
const std::string model_file = KVLOUPE_FETCHED_MODELS "/SmolLM2-135M-Instruct.Q4_1.gguf";

}  // namespace

class TestSmolLm2 : public QObject {
    Q_OBJECT

    // llama.cpp's greedy tokens forced for all prompts in one lane; logits by (lane, request, output).
    void force(DType cache, Logits& logits, std::vector<std::vector<TokenId>>& prompt_tokens) {
        const QJsonArray prompts = read_json(expected_file)["prompts"].toArray();
        QCOMPARE(prompts.size(), 5);
        Scenario wanted;
        wanted.model = model_file;
        wanted.device = "cpu";
        wanted.lanes.emplace_back();
        wanted.lanes.front().cache.dtype_k = wanted.lanes.front().cache.dtype_v = cache;
        for (int p = 0; p < prompts.size(); ++p) {
            RequestOptions request;
            request.id = std::string(1, char('a' + p));
            request.prompt = prompts[p].toObject()["text"].toString().toStdString();
            request.output_tokens.emplace();
            for (const QJsonValue& token : prompts[p].toObject()["greedy"].toArray()) request.output_tokens->push_back(token.toInt());
            QCOMPARE(request.output_tokens->size(), std::size_t(64));
            wanted.requests.push_back(std::move(request));
        }
        auto session = Session::create(wanted, options(&logits));
        VERIFY_RESULT(session);
        VERIFY_RESULT((*session)->run_to_end());
        QCOMPARE(logits.size(), std::size_t(5 * 64));
        for (int p = 0; p < 5; ++p) prompt_tokens.push_back((*session)->recording()->requests()[std::size_t(p)].prompt);
    }

    struct Step {
        TokenId ours, theirs;  // argmax
        double margin;         // of theirs over the second
    };
    // The argmax is the same wherever its margin exceeds the largest difference. Returns the 99.9th percentile.
    double compare(const char* what, std::vector<double>& differences, const std::vector<Step>& steps) {
        std::sort(differences.begin(), differences.end());
        const double largest = differences.back();
        const double percentile = differences[std::size_t(double(differences.size() - 1) * 0.999)];
        int sure = 0, same = 0, wrong = 0;
        for (const Step& step : steps) {
            same += step.ours == step.theirs;
            if (step.margin <= largest) continue;
            ++sure;
            wrong += step.ours != step.theirs;
        }
        qInfo("%zu logits against %s: median difference %.4f, 99.9th percentile %.3f, largest %.3f; "
              "argmax equal in %d of %zu steps, in %d of the %d whose margin exceeds the largest difference",
              differences.size(), what, differences[differences.size() / 2], percentile, largest, same, steps.size(), sure - wrong, sure);
        if (wrong > 0) QTest::qFail("an argmax differs although its margin exceeds the largest difference", __FILE__, __LINE__);
        if (sure <= 100) QTest::qFail("too few steps have a margin beyond the largest difference", __FILE__, __LINE__);
        return percentile;
    }

private Q_SLOTS:
    void init() {
        QTest::failOnWarning(QRegularExpression(".*"));
        if (!QFile::exists(QString::fromStdString(model_file)))
            QSKIP("SmolLM2-135M-Instruct.Q4_1.gguf is not there; tests/fetch-models.sh brings it");
    }

    // What transformers computes in f32 from the unpacked weights (make_smollm2_exact.py), and how far llama.cpp is from it.
    void logitsEqualExactArithmetic() {
        const QJsonObject exact = read_json(KVLOUPE_SOURCE_DIR "/tests/serve/smollm2_exact.json");
        const QJsonObject expected = read_json(expected_file);
        const int every = exact["sample_every"].toInt(), coarse = every / expected["sample_every"].toInt();
        Logits logits;
        std::vector<std::vector<TokenId>> prompt_tokens;
        force(DType::f32, logits, prompt_tokens);
        if (QTest::currentTestFailed()) return;
        double largest = 0;
        std::vector<double> theirs;
        for (int p = 0; p < 5; ++p) {
            for (int i = 0; i < 64; ++i) {
                const std::vector<float>& row = logits.at({0, std::uint32_t(p), std::uint32_t(i)});
                const QJsonArray sample = exact["logits"].toArray()[p].toArray()[i].toArray();
                const QJsonArray rounded = expected["prompts"].toArray()[p].toObject()["logits"].toArray()[i].toArray();
                QCOMPARE(sample.size(), 48);
                for (int s = 0; s < sample.size(); ++s) {
                    largest = std::max(largest, std::fabs(double(row[std::size_t(s) * std::size_t(every)]) - sample[s].toDouble()));
                    theirs.push_back(std::fabs(rounded[s * coarse].toDouble() - sample[s].toDouble()));
                }
            }
        }
        std::sort(theirs.begin(), theirs.end());
        qInfo("%zu logits against exact f32 arithmetic: largest difference %.5f; llama.cpp's 99.9th percentile %.3f, "
              "largest %.3f", theirs.size(), largest, theirs[std::size_t(double(theirs.size() - 1) * 0.999)], theirs.back());
        QVERIFY(largest < 2e-3);
    }

    void logitsFollowLlamaCpp() {
        const QJsonObject expected = read_json(KVLOUPE_SOURCE_DIR "/tests/serve/smollm2_batched.json");
        const auto every = std::size_t(expected["sample_every"].toInt());
        Logits logits;
        std::vector<std::vector<TokenId>> prompt_tokens;
        force(DType::f16, logits, prompt_tokens);  // f16, as llama.cpp's cache
        if (QTest::currentTestFailed()) return;
        std::vector<double> differences;
        std::vector<Step> steps;
        for (int p = 0; p < 5; ++p) {
            const auto of = [&](const char* key, int i) -> QJsonValue { return expected[key].toArray()[p].toArray()[i]; };
            for (int i = 0; i < 64; ++i) {
                const std::vector<float>& row = logits.at({0, std::uint32_t(p), std::uint32_t(i)});
                const QJsonArray sample = of("logits", i).toArray();
                QCOMPARE(std::size_t(sample.size()), (row.size() + every - 1) / every);
                for (int s = 0; s < sample.size(); ++s)
                    differences.push_back(std::fabs(double(row[std::size_t(s) * every]) - sample[s].toDouble()));
                const TokenId theirs = of("argmax", i).toInt();
                differences.push_back(std::fabs(double(row[std::size_t(theirs)]) - of("top", i).toDouble()));
                steps.push_back({TokenId(std::max_element(row.begin(), row.end()) - row.begin()), theirs, of("margin", i).toDouble()});
            }
        }
        QVERIFY(compare("llama.cpp, one batch through BLAS", differences, steps) < 0.5);
    }

    void logitsFollowLlamaCppsRoundedDecoding() {
        const QJsonObject expected = read_json(expected_file);
        const QJsonArray prompts = expected["prompts"].toArray();
        Logits logits;
        std::vector<std::vector<TokenId>> prompt_tokens;
        force(DType::f16, logits, prompt_tokens);  // f16, as llama.cpp's cache
        if (QTest::currentTestFailed()) return;
        const auto every = std::size_t(expected["sample_every"].toInt());
        std::vector<double> differences;
        std::vector<Step> steps;
        for (int p = 0; p < prompts.size(); ++p) {
            const QJsonObject prompt = prompts[p].toObject();
            const QJsonArray tokens = prompt["tokens"].toArray();
            const std::vector<TokenId>& ours = prompt_tokens[std::size_t(p)];
            QCOMPARE(ours.size(), std::size_t(tokens.size()));
            for (int i = 0; i < tokens.size(); ++i) QCOMPARE(ours[std::size_t(i)], tokens[i].toInt());
            for (int i = 0; i < 64; ++i) {
                const std::vector<float>& row = logits.at({0, std::uint32_t(p), std::uint32_t(i)});
                QCOMPARE(row.size(), std::size_t(expected["vocabulary"].toInt()));
                const QJsonArray sample = prompt["logits"].toArray()[i].toArray();
                QCOMPARE(std::size_t(sample.size()), (row.size() + every - 1) / every);
                for (int s = 0; s < sample.size(); ++s)
                    differences.push_back(std::fabs(double(row[std::size_t(s) * every]) - sample[s].toDouble()));
                const TokenId theirs = prompt["greedy"].toArray()[i].toInt();
                differences.push_back(std::fabs(double(row[std::size_t(theirs)]) - prompt["top"].toArray()[i].toDouble()));
                steps.push_back({TokenId(std::max_element(row.begin(), row.end()) - row.begin()), theirs,
                                 prompt["margin"].toArray()[i].toDouble()});
            }
        }
        compare("llama.cpp, token by token, activations rounded", differences, steps);
    }
};

QTEST_GUILESS_MAIN(TestSmolLm2)
#include "tst_smollm2.moc"
