// SPDX-License-Identifier: GPL-3.0-or-later
//
// The scenario reader takes what the contract (section 2) allows and refuses the rest by name.
#include <QDir>
#include <QJsonDocument>
#include <QJsonObject>
#include <QRegularExpression>
#include <QTemporaryDir>
#include <QTest>

#include "engine/serve/scenario.h"

using namespace kvloupe;

namespace {

Result<Scenario> parse(const QByteArray& json) {
    return parse_scenario(std::as_bytes(std::span(json.constData(), std::size_t(json.size()))), "folder/two facts.json");
}

// A scenario with `extra` among the top-level keys.
QByteArray with(const QByteArray& extra) {
    return R"({"version": 1, "requests": [{"prompt": "Hello"}])" + (extra.isEmpty() ? "" : ", " + extra) + "}";
}

}  // namespace

class TestScenario : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void theSmallestScenarioGetsTheContractsDefaults() {
        const auto scenario = parse(with(""));
        QVERIFY2(scenario, scenario ? "" : scenario.error().message().c_str());
        QCOMPARE(scenario->title, std::string("two facts"));
        QCOMPARE(scenario->model, std::string("bundled"));
        QCOMPARE(scenario->device, std::string("auto"));
        QCOMPARE(scenario->seed, std::uint64_t(0));
        QCOMPARE(scenario->lanes.size(), std::size_t(1));
        const LaneOptions& lane = scenario->lanes[0];
        QCOMPARE(lane.name, std::string("cached"));
        QVERIFY(lane.kv_cache);
        QCOMPARE(lane.cache.block_size, 16u);
        QVERIFY(!lane.cache.blocks);
        QCOMPARE(int(lane.cache.dtype_k), int(DType::f16));
        QCOMPARE(lane.scheduler.max_num_seqs, 256u);
        QCOMPARE(lane.scheduler.max_num_batched_tokens, 2048u);
        QVERIFY(lane.scheduler.chunked_prefill);
        QCOMPARE(lane.scheduler.long_prefill_token_threshold, 0u);
        QCOMPARE(scenario->requests[0].id, std::string("a"));
        QCOMPARE(scenario->requests[0].max_new_tokens, 64u);
        QCOMPARE(scenario->requests[0].temperature, 0.0f);
        QCOMPARE(scenario->record.memory_mib, 256u);
        QCOMPARE(scenario->record.stages_every, 1u);
        QVERIFY(!scenario->record.attention);
    }

    void everyKeyOfThisVersionIsRead() {
        const auto scenario = parse(R"({
            "_": "a comment", "version": 1, "model": "bundled:gqa", "device": "cpu", "seed": 18446744073709551615,
            "lanes": [
              {"name": "one", "_": ["any", {"thing": 1}], "cache": {"block_size": 7, "blocks": 30, "dtype": "f32", "dtype_v": "bf16",
               "kind": "paged", "prefix_caching": false, "free_order": "vllm", "watermark": 0, "positions": "absolute", "rotate": false},
               "scheduler": {"max_num_seqs": 3, "max_num_batched_tokens": 1024, "chunked_prefill": false,
                             "long_prefill_token_threshold": 400, "batching": "continuous", "policy": "fcfs",
                             "preemption": "recompute", "swap_blocks": 0, "reserve_full_prompt": true, "victim": "vllm"},
               "convert": {}, "attention": "tiled", "mla": "absorbed"},
              {"kv_cache": false, "model": "other.gguf", "device": "cuda:1"}],
            "requests": [{"prompt_tokens": [1, 2, 3], "output_tokens": [4], "arrival_step": 5, "n": 1, "priority": 0},
                         {"id": "a", "prompt": "x", "temperature": 0.5, "top_k": 40, "top_p": 0.9, "max_new_tokens": 7}],
            "actions": [{"at_step": 3, "do": "cancel", "request": "a"}],
            "breakpoints": [{"on": "allocate", "request": "a", "block": 3, "token": 4, "step": 5, "used_blocks": 6, "lane": "one"}],
            "record": {"attention": [{"layer": 2, "heads": [0, 1]}, {"layer": 3}], "blocks": true, "stages_every": 4, "memory_mib": 16}
        })");
        QVERIFY2(scenario, scenario ? "" : scenario.error().message().c_str());
        QCOMPARE(scenario->seed, UINT64_MAX);
        QCOMPARE(scenario->lanes[0].cache.block_size, 7u);
        QCOMPARE(*scenario->lanes[0].cache.blocks, 30u);
        QCOMPARE(int(scenario->lanes[0].cache.dtype_k), int(DType::f32));
        QCOMPARE(int(scenario->lanes[0].cache.dtype_v), int(DType::bf16));
        QVERIFY(!scenario->lanes[0].scheduler.chunked_prefill);
        QCOMPARE(scenario->lanes[0].scheduler.long_prefill_token_threshold, 400u);
        QCOMPARE(scenario->lanes[1].name, std::string("uncached"));
        QCOMPARE(scenario->lanes[1].model, std::string("other.gguf"));
        QCOMPARE(scenario->lanes[1].device, std::string("cuda:1"));
        QCOMPARE(scenario->requests[0].id, std::string("b"));  // "a" was taken
        QCOMPARE(*scenario->requests[0].prompt_tokens, (std::vector<TokenId>{1, 2, 3}));
        QCOMPARE(*scenario->requests[0].output_tokens, (std::vector<TokenId>{4}));
        QCOMPARE(scenario->requests[1].top_p, 0.9f);
        QCOMPARE(scenario->actions[0].what, std::string("cancel"));
        QCOMPARE(int(*scenario->breakpoints[0].on), int(EventKind::allocate));
        QCOMPARE(*scenario->breakpoints[0].used_blocks, 6u);
        QCOMPARE(scenario->record.attention->size(), std::size_t(2));
        QVERIFY(scenario->record.attention->at(1).heads.empty());
        QVERIFY(scenario->record.blocks);
    }

    void badScenariosAreRefusedByName_data() {
        QTest::addColumn<QByteArray>("json");
        QTest::addColumn<QString>("says");
        const auto row = [](const char* name, const QByteArray& json, const char* says) {
            QTest::newRow(name) << json << QString::fromUtf8(says);
        };
        const auto cache = [](const QByteArray& key) { return with(R"("lanes": [{"cache": {)" + key + "}}]"); };
        const auto scheduler = [](const QByteArray& key) { return with(R"("lanes": [{"scheduler": {)" + key + "}}]"); };
        const auto request = [](const QByteArray& keys) {
            return QByteArray(R"({"version": 1, "requests": [{)") + keys + "}]}";
        };
        row("no JSON", "not json", "two facts.json");
        row("cut off", R"({"version": 1, "requests": [)", "two facts.json");
        row("an array", "[]", "not an object");
        row("no version", R"({"requests": []})", "'version' is missing");
        row("version 2", R"({"version": 2, "requests": []})", "version: 2");
        row("version as text", R"({"version": "1", "requests": []})", "version: is the string '1'");
        row("no requests", R"({"version": 1})", "'requests' is missing");
        row("typo at the top", with(R"("device_": "cpu")"), "unknown key 'device_'. Did you mean 'device'?");
        row("typo in a lane", with(R"("lanes": [{"kvcache": true}])"), "lanes[0]: unknown key 'kvcache'. Did you mean 'kv_cache'?");
        row("typo in a cache", cache(R"("blocksize": 4)"), "lanes[0].cache: unknown key 'blocksize'. Did you mean 'block_size'?");
        row("unknown without a neighbour", with(R"("zzzzzzzzzz": 1)"), "unknown key 'zzzzzzzzzz'");
        row("duplicate key", R"({"version": 1, "version": 1, "requests": []})", "'version' appears twice");
        row("deep", with("\"_\": " + QByteArray(100000, '[') + QByteArray(100000, ']')), "deeper than");
        row("block size 0", cache(R"("block_size": 0)"), "lanes[0].cache.block_size: 0 is out of range");
        row("block size as text", cache(R"("block_size": "16")"), "block_size: is the string '16', not a whole number");
        row("block size 1.5", cache(R"("block_size": 1.5)"), "block_size: is the number 1.5");
        row("no blocks", cache(R"("blocks": 0)"), "blocks: 0 leaves no block to use");
        row("one block", cache(R"("blocks": 1)"), "blocks: 1 leaves no block to use");
        row("negative blocks", cache(R"("blocks": -5)"), "blocks: -5 is out of range");
        row("too many blocks", cache(R"("blocks": 4294967295)"), "blocks: 4294967295 is out of range");
        row("huge number", cache(R"("blocks": 1e300)"), "blocks: is the number 1e+300");
        row("dtype of a later version", cache(R"("dtype": "int8")"), "dtype: 'int8' is not built");
        row("dtype per layer", cache(R"("dtype": ["f16", "f32"])"), "dtype: a list");
        row("no dtype", cache(R"("dtype_k": "f17")"), "dtype_k: is the string 'f17'");
        row("prefix caching", cache(R"("prefix_caching": true)"), "prefix_caching: true is not built");
        row("contiguous", cache(R"("kind": "contiguous")"), "kind: \"contiguous\" is not built");
        row("prefix index", cache(R"("prefix_index": "hash")"), "prefix_index: \"hash\" is not built");
        row("hash bits", cache(R"("hash_bits": 256)"), "hash_bits: 256 is not built");
        row("watermark", cache(R"("watermark": 0.01)"), "watermark: 0.01 is not built");
        row("window", cache(R"("window": 64)"), "window: 64 is not built");
        row("sinks", cache(R"("sinks": 4)"), "sinks: 4 is not built");
        row("append", cache(R"("free_order": "append")"), "free_order: \"append\" is not built");
        row("static", scheduler(R"("batching": "static")"), "batching: \"static\" is not built");
        row("priority policy", scheduler(R"("policy": "priority")"), "policy: \"priority\" is not built");
        row("swap", scheduler(R"("preemption": "swap")"), "preemption: \"swap\" is not built");
        row("no budget", scheduler(R"("max_num_batched_tokens": 0)"), "max_num_batched_tokens: 0 is out of range");
        row("convert", with(R"("lanes": [{"convert": {"kv_heads": 1}}])"), "convert: {\"kv_heads\":1} is not built");
        row("materialised", with(R"("lanes": [{"attention": "materialised"}])"), "attention: \"materialised\" is not built");
        row("lane twice", with(R"("lanes": [{"name": "x"}, {"name": "x"}])"), "lanes[1].name: 'x' is used twice");
        row("cache of an uncached lane", with(R"("lanes": [{"kv_cache": false, "cache": {"blocks": 9}}])"), "lanes[0].cache");
        row("model none", with(R"("model": "none")"), "model: 'none'");
        row("model none of a lane", with(R"("lanes": [{"model": "none"}])"), "lanes[0].model: 'none'");
        row("device", with(R"("device": "gpu")"), "there is no device 'gpu'");
        row("seed", with(R"("seed": -1)"), "seed: -1 is out of range");
        row("no prompt", request(R"("id": "a")"), "requests[0]: has no prompt");
        row("two prompts", request(R"("prompt": "a", "prompt_tokens": [1])"), "requests[0]: has both");
        row("token below 0", request(R"("prompt_tokens": [1, -2])"), "prompt_tokens: entry 1 is the number -2");
        row("token as text", request(R"("prompt_tokens": ["a"])"), "prompt_tokens: entry 0 is the string 'a'");
        row("no forced tokens", request(R"("prompt": "a", "output_tokens": [])"), "output_tokens: is empty");
        row("no new tokens", request(R"("prompt": "a", "max_new_tokens": 0)"), "max_new_tokens: 0 is out of range");
        row("top_p 0", request(R"("prompt": "a", "top_p": 0)"), "top_p: 0");
        row("top_p 2", request(R"("prompt": "a", "top_p": 2)"), "top_p: 2 is out of range");
        row("cold", request(R"("prompt": "a", "temperature": -1)"), "temperature: -1 is out of range");
        row("n", request(R"("prompt": "a", "n": 2)"), "n: 2 is not built");
        row("beam", request(R"("prompt": "a", "beam_width": 4)"), "beam_width: 4 is not built");
        row("salt", request(R"("prompt": "a", "salt": "s")"), "salt: \"s\" is not built");
        row("id twice", R"({"version": 1, "requests": [{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}]})",
            "requests[1].id: 'a' is used twice");
        row("fork", with(R"("actions": [{"at_step": 1, "do": "fork", "request": "a", "as": "b"}])"), "'fork' is not built");
        row("no action", with(R"("actions": [{"at_step": 1, "do": "jump", "request": "a"}])"), "there is no action 'jump'");
        row("action on nobody", with(R"("actions": [{"at_step": 1, "do": "cancel", "request": "b"}])"), "there is no request 'b'");
        row("breakpoint typo", with(R"("breakpoints": [{"on": "alocate"}])"), "Did you mean 'allocate'?");
        row("breakpoint at nothing", with(R"("breakpoints": [{"lane": "cached"}])"), "breakpoints[0]: names nothing");
        row("breakpoint lane", with(R"("breakpoints": [{"step": 1, "lane": "x"}])"), "there is no lane 'x'");
        row("watch without a layer", with(R"("record": {"attention": [{"heads": [1]}]})"), "record.attention[0].layer: is missing");
        row("watch twice", with(R"("record": {"attention": [{"layer": 1}, {"layer": 1}]})"), "stands twice");
        row("no memory", with(R"("record": {"memory_mib": 0})"), "memory_mib: 0 is out of range");
    }
    void badScenariosAreRefusedByName() {
        QFETCH(QByteArray, json);
        QFETCH(QString, says);
        const auto scenario = parse(json);
        QVERIFY(!scenario);
        const QString message = QString::fromStdString(scenario.error().message());
        QVERIFY2(message.contains(says), qPrintable(message));
        QVERIFY2(message.contains("two facts.json"), qPrintable(message));
        QVERIFY2(message.size() < 600, qPrintable(message));
    }

    void commentsAreAllowedEverywhere() {
        QVERIFY(parse(R"({"_": 1, "version": 1, "lanes": [{"_": 2, "cache": {"_": 3}, "scheduler": {"_": 4}}],
            "requests": [{"_": 5, "prompt": "a"}], "actions": [{"_": 6, "at_step": 0, "do": "cancel", "request": "a"}],
            "breakpoints": [{"_": 7, "step": 1}], "record": {"_": 8, "attention": [{"_": 9, "layer": 0}]}})"));
    }

    void aMissingFileIsNamed() {
        const auto scenario = load_scenario("/nonexistent/folder/x.json");
        QVERIFY(!scenario);
        QVERIFY(QString::fromStdString(scenario.error().sentence).contains("/nonexistent/folder/x.json"));
        QTemporaryDir folder;
        QVERIFY(!load_scenario(folder.path().toStdString()));
    }

    void theSchemaKnowsTheKeysThatTheReaderKnows() {
        QFile file(QStringLiteral(KVLOUPE_SOURCE_DIR "/resources/scenario.schema.json"));
        QVERIFY(file.open(QIODevice::ReadOnly));
        QJsonParseError problem;
        const QJsonObject schema = QJsonDocument::fromJson(file.readAll(), &problem).object();
        QVERIFY2(!schema.isEmpty(), qPrintable(problem.errorString()));
        const QJsonObject definitions = schema.value("$defs").toObject();
        // For each object of a scenario: any key of the schema is known to the reader (it may refuse the value 12345,
        // but never as an unknown key), and a key that the schema lacks is unknown to it.
        struct Place { QString name, before, after; };
        const QList<Place> places = {
            {"lane", R"("lanes": [{)", "}]"},
            {"cache", R"("lanes": [{"cache": {)", "}}]"},
            {"scheduler", R"("lanes": [{"scheduler": {)", "}}]"},
            {"action", R"("actions": [{)", "}]"},
            {"breakpoint", R"("breakpoints": [{)", "}]"},
            {"record", R"("record": {)", "}"},
        };
        for (const Place& place : places) {
            const QStringList keys = definitions.value(place.name).toObject().value("properties").toObject().keys();
            QVERIFY2(keys.size() >= 3, qPrintable(place.name));
            for (const QString& key : keys) {
                const auto result = parse(with((place.before + '"' + key + "\": 12345" + place.after).toUtf8()));
                if (result) continue;
                const QString message = QString::fromStdString(result.error().message());
                QVERIFY2(!message.contains("unknown key"), qPrintable(message));
            }
        }
        QVERIFY(schema.value("properties").toObject().contains("requests"));
    }
};

QTEST_GUILESS_MAIN(TestScenario)
#include "tst_scenario.moc"
