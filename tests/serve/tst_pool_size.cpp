// SPDX-License-Identifier: GPL-3.0-or-later
//
// "blocks": "auto" on a device with memory of its own fills the chosen share of it, and what does not fit is said with
// its sizes.
#include <QRegularExpression>
#include <QTest>

#include "engine/record/results.h"
#include "engine/serve/pool_size.h"
#include "tests/serve/support.h"
#include "tests/serve/wrapping_backend.h"

#include <utility>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr std::uint64_t mib = 1 << 20;

// A card of 64 MiB whose driver counts what is allocated on it, and what others hold.
class CardBackend final : public WrappingBackend {
public:
    CardBackend(std::unique_ptr<Backend> real, std::uint64_t others, std::shared_ptr<std::uint64_t> weights)
        : WrappingBackend(std::move(real)), m_others(others), m_weights(std::move(weights)) {}

    DeviceInfo info() const override {
        const std::uint64_t used = m_others + memory().weights + memory().kv_cache + memory().activations;
        return {"cuda:0", "A card", "", 64 * mib, 64 * mib - used, true};
    }
    MemoryCounters memory() const override {
        MemoryCounters counters = m_real->memory();
        counters.weights = *m_weights;
        return counters;
    }
    Result<std::unique_ptr<Weight>> weight(const Tensor& tensor) override {
        *m_weights += tensor.bytes();  // a card holds a copy
        return m_real->weight(tensor);
    }

private:
    std::uint64_t m_others;
    std::shared_ptr<std::uint64_t> m_weights;
};

Result<std::unique_ptr<Session>> on_card(const QByteArray& lanes, std::uint64_t others = 0) {
    Scenario wanted = scenario(R"({"version": 1, "lanes": [)" + lanes + R"(], "requests": [)" + request("a", 5, 3) + "]}");
    wanted.model = fixtures + "tiny-gqa";
    SessionOptions given = options();
    given.make_backend = [others, weights = std::make_shared<std::uint64_t>(0)](const std::string&) -> Result<std::unique_ptr<Backend>> {
        auto real = make_backend(BackendOptions{"cpu", 2});
        if (!real) return real.error();
        return std::unique_ptr<Backend>(std::make_unique<CardBackend>(std::move(*real), others, weights));
    };
    return Session::create(wanted, std::move(given));
}

const char* const lane_text = R"({"name": "%1", "cache": {"block_size": 16%2}, "scheduler": {"max_num_batched_tokens": 64, "max_num_seqs": 4}})";
QByteArray lane(const char* name, const char* cache = "") { return QByteArray(lane_text).replace("%1", name).replace("%2", cache); }

std::uint64_t pool(const Session& session, std::size_t index) { return session.recording()->lanes()[index]->info().pool_bytes; }

}  // namespace

class TestPoolSize : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void autoFillsTheShareOfTheCard_data() {
        QTest::addColumn<QByteArray>("more");
        QTest::addColumn<double>("share");
        QTest::addColumn<int>("others");
        QTest::newRow("nine tenths where nothing is said") << QByteArray() << 0.9 << 0;
        QTest::newRow("half") << QByteArray(R"(, "memory_share": 0.5)") << 0.5 << 0;
        QTest::newRow("beside others") << QByteArray(R"(, "memory_share": 0.5)") << 0.5 << 10;
        QTest::newRow("all of it") << QByteArray(R"(, "blocks": "auto", "memory_share": 1)") << 1.0 << 3;
    }
    void autoFillsTheShareOfTheCard() {
        QFETCH(QByteArray, more);
        QFETCH(double, share);
        QFETCH(int, others);
        auto made = on_card(lane("x", more.constData()), std::uint64_t(others) * mib);
        VERIFY_RESULT(made);
        const LaneInfo& info = (*made)->recording()->lane(lane0).info();
        const auto memory = (*made)->recording()->device_memory();
        QCOMPARE(memory.size(), std::size_t(1));
        // Weights are loaded, activations are to come: after a step of the whole budget the share is used up to a block.
        LaneSetup setup;
        setup.options = (*made)->scenario().lanes[0];
        auto backend = make_backend(BackendOptions{"cpu", 1});
        auto device = DeviceModel::create((*made)->model(lane0), std::shared_ptr<Backend>(std::move(*backend)));
        setup.device = *device;
        const std::uint64_t reserve = activation_bytes(setup, {});
        const double used = double(memory[0].used_bytes() + reserve);
        QVERIFY2(used <= share * double(64 * mib), qPrintable(QString::number(used)));
        QVERIFY2(used + double(info.block_bytes) + 4096 > share * double(64 * mib), qPrintable(QString::number(used)));
    }

    void lanesOfOneCardShareFairly() {
        auto alone = on_card(lane("x"));
        auto pair = on_card(lane("x") + "," + lane("y"));
        VERIFY_RESULT(alone);
        VERIFY_RESULT(pair);
        QCOMPARE(pool(**pair, 0), pool(**pair, 1));
        QVERIFY(pool(**pair, 0) < pool(**alone, 0) / 2);  // their activations count twice
        QVERIFY(pool(**pair, 0) > pool(**alone, 0) / 2 - 2 * mib);
        // A pool of a given size is not shared out a second time.
        auto given = on_card(lane("x") + "," + lane("y", R"(, "blocks": 1000)"));
        VERIFY_RESULT(given);
        QVERIFY(pool(**given, 0) + pool(**given, 1) <= std::uint64_t(0.9 * 64 * mib));
        QVERIFY(pool(**given, 0) > pool(**pair, 0));
    }

    void noRoomIsSaidWithItsSizes() {
        const auto made = on_card(lane("x"), 60 * mib);
        QVERIFY(!made);
        const QString says = QString::fromStdString(made.error().message());
        QVERIFY2(says.startsWith("Lane 'x': 58 MiB of the 64 MiB of cuda:0") && says.contains("61 MiB are in use"), qPrintable(says));
    }

    void aPoolThatIsTooLargeIsToldWhatFits() {
        const auto made = on_card(lane("x") .replace("\"block_size\": 16", "\"block_size\": 16, \"blocks\": 100000"));
        QVERIFY(!made);
        const QString says = QString::fromStdString(made.error().message());
        const auto match = QRegularExpression("asks for 100000 blocks, (\\d+) MiB, but (\\d+) MiB are free on cuda:0. Give it at most (\\d+) blocks").match(says);
        QVERIFY2(match.hasMatch(), qPrintable(says));
        // As many do fit, and one more does not.
        const QByteArray most = match.captured(3).toUtf8();
        const QByteArray more = QByteArray::number(most.toInt() + 1);
        VERIFY_RESULT(on_card(lane("x", (", \"blocks\": " + most).constData())));
        QVERIFY(!on_card(lane("x", (", \"blocks\": " + more).constData())));
    }

    void memoryIsGivenUpOnceAndOnlyForWhatIsKnownToBeGood() {
        int released = 0;
        std::uint64_t loaded = 0;  // bytes of weights on the card by then
        const auto create = [&](const QByteArray& rest, bool card) {
            Scenario wanted = scenario(R"({"version": 1, "lanes": [{"name": "x", "cache": {"blocks": 10}}, {"name": "y", "kv_cache": false}], )" + rest + "}");
            wanted.model = fixtures + "tiny-gqa";
            SessionOptions given = options();
            const auto weights = std::make_shared<std::uint64_t>(0);
            if (card) given.make_backend = [weights](const std::string&) -> Result<std::unique_ptr<Backend>> {
                auto real = make_backend(BackendOptions{"cpu", 2});
                if (!real) return real.error();
                return std::unique_ptr<Backend>(std::make_unique<CardBackend>(std::move(*real), 0, weights));
            };
            given.release_memory = [&released, &loaded, weights] {
                ++released;
                loaded += *weights;
            };
            return Session::create(wanted, std::move(given));
        };
        QVERIFY(!create(R"("requests": [{"id": "a", "prompt_tokens": [999999]}])", true));
        QCOMPARE(released, 0);
        VERIFY_RESULT(create("\"requests\": [" + request("a", 5, 3) + "]", true));
        QCOMPARE(released, 1);
        QCOMPARE(loaded, std::uint64_t(0));
        VERIFY_RESULT(create("\"requests\": [" + request("a", 5, 3) + "]", false));  // a CPU's memory is everybody's
        QCOMPARE(released, 1);
    }

    void theSummarySaysWhatTheDriverSaysBesideWhatIsAccounted() {
        auto made = on_card(lane("x"), 7 * mib);
        VERIFY_RESULT(made);
        VERIFY_RESULT((*made)->run_to_end());
        const std::string text = summary_json(*(*made)->recording());
        const QJsonObject json = QJsonDocument::fromJson(QByteArray::fromStdString(text)).object();
        const QJsonObject card = json["memory"].toObject()["cuda:0"].toObject();
        QCOMPARE(card["total_bytes"].toDouble(), double(64 * mib));
        QCOMPARE(card["residual_bytes"].toDouble(), double(7 * mib));
        QCOMPARE(card["used_bytes"].toDouble(), card["weight_bytes"].toDouble() + card["kv_cache_bytes"].toDouble() +
                                                    card["activation_bytes"].toDouble() + double(7 * mib));
        QVERIFY(card["activation_bytes"].toDouble() > 0 && card["weight_bytes"].toDouble() > 0);
        QCOMPARE(card["kv_cache_bytes"].toDouble(), double(pool(**made, 0)));
        QCOMPARE(json["origins"].toObject()["residual_bytes"].toString(), QStringLiteral("derived"));
        // A CPU has no memory of its own to speak of.
        auto plain = session(R"("requests": [)" + request("a", 5, 3) + "]");
        QVERIFY(!QJsonDocument::fromJson(QByteArray::fromStdString(summary_json(*plain->recording()))).object().contains("memory"));
    }
};

QTEST_GUILESS_MAIN(TestPoolSize)
#include "tst_pool_size.moc"
