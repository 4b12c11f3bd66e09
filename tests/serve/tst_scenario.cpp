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
               "kind": "paged", "prefix_caching": true, "prefix_index": "hash", "free_order": "append", "watermark": 0.25,
               "window": 64, "sinks": 4, "positions": "rank", "hash_bits": 12, "compare_tokens": false, "tag_extra_keys": false,
               "max_model_len": 99, "memory_share": 0.5, "rotate": false},
               "scheduler": {"max_num_seqs": 3, "max_num_batched_tokens": 1024, "chunked_prefill": false,
                             "long_prefill_token_threshold": 400, "batching": "static", "policy": "priority",
                             "preemption": "swap", "swap_blocks": 8, "reserve_full_prompt": false, "victim": "sglang"},
               "convert": {}, "attention": "tiled", "mla": "absorbed"},
              {"kv_cache": false, "model": "other.gguf", "device": "cuda:1"},
              {"name": "tree", "cache": {"prefix_index": "radix", "radix_eviction": "lfu"}},
              {"name": "runs", "model": "none", "cache": {"kind": "contiguous", "reserve": "grow", "bytes_per_token": 1000}},
              {"name": "chunks", "cache": {"attention_chunk": 32}}],
            "requests": [{"prompt_tokens": [1, 2, 3], "output_tokens": [4], "arrival_step": 5, "n": 3, "priority": -2, "salt": "s", "adapter": "x"},
                         {"id": "a", "prompt": "x", "temperature": 0.5, "top_k": 40, "top_p": 0.9, "max_new_tokens": 7}],
            "actions": [{"at_step": 3, "do": "cancel", "request": "a"}, {"at_step": 4, "do": "preempt", "request": "b.2"},
                        {"at_step": 4, "do": "evict", "block": 9}, {"at_step": 5, "do": "reset_prefix_cache"},
                        {"at_step": 6, "do": "fork", "request": "a", "as": "c", "position": 3, "prompt_tokens": [7],
                         "output_tokens": [8, 9], "max_new_tokens": 2},
                        {"at_step": 7, "do": "fork", "request": "c", "prompt": "and"}],
            "breakpoints": [{"on": "allocate", "request": "a", "block": 3, "token": 4, "step": 5, "used_blocks": 6, "lane": "one"}],
            "record": {"attention": [{"layer": 2, "heads": [0, 1]}, {"layer": 3}], "blocks": true, "stages_every": 4, "memory_mib": 16}
        })");
        QVERIFY2(scenario, scenario ? "" : scenario.error().message().c_str());
        QCOMPARE(scenario->seed, UINT64_MAX);
        QCOMPARE(scenario->lanes[0].cache.block_size, 7u);
        QCOMPARE(*scenario->lanes[0].cache.blocks, 30u);
        QCOMPARE(scenario->lanes[0].cache.memory_share, 0.5);
        QCOMPARE(scenario->lanes[1].cache.memory_share, 0.9);
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
        const CacheOptions& cache = scenario->lanes[0].cache;
        QVERIFY(cache.prefix_caching && !cache.compare_tokens && !cache.tag_extra_keys && cache.positions_by_rank);
        QCOMPARE(int(cache.free_order), int(FreeOrder::append));
        QCOMPARE(cache.watermark, 0.25);
        QCOMPARE(cache.hash_bits, 12u);
        QCOMPARE(cache.max_model_len, 99u);
        QVERIFY(cache.span && *cache.span == (AttentionSpan{64, 4, 0}));
        const SchedulerOptions& scheduler = scenario->lanes[0].scheduler;
        QCOMPARE(int(scheduler.batching), int(Batching::fixed));
        QCOMPARE(int(scheduler.policy), int(SchedulingPolicy::priority));
        QCOMPARE(int(scheduler.preemption), int(PreemptionMode::swap));
        QCOMPARE(scheduler.swap_blocks, 8u);
        QVERIFY(!scheduler.reserve_full_prompt);
        QCOMPARE(int(scheduler.victim), int(VictimRule::sglang));
        QCOMPARE(int(scenario->lanes[2].cache.prefix_index), int(PrefixIndexKind::radix));
        QCOMPARE(int(scenario->lanes[2].cache.radix_eviction), int(RadixEviction::lfu));
        QVERIFY(is_accounting(*scenario, scenario->lanes[3]) && !is_accounting(*scenario, scenario->lanes[2]));
        QCOMPARE(int(scenario->lanes[3].cache.kind), int(CacheKind::contiguous));
        QCOMPARE(int(scenario->lanes[3].cache.reserve), int(Reserve::grow));
        QVERIFY(!scenario->lanes[3].cache.prefix_caching);
        QCOMPARE(scenario->lanes[3].cache.bytes_per_token, 1000u);
        QVERIFY(scenario->lanes[4].cache.span && *scenario->lanes[4].cache.span == (AttentionSpan{0, 0, 32}));
        QCOMPARE(scenario->requests[0].n, 3u);
        QCOMPARE(scenario->requests[0].priority, -2);
        QCOMPARE(scenario->requests[0].salt + scenario->requests[0].adapter, std::string("sx"));
        QCOMPARE(int(scenario->actions[0].kind), int(ActionKind::cancel));
        QCOMPARE(*scenario->actions[2].block, 9u);
        const ScenarioAction& fork = scenario->actions[4];
        QCOMPARE(fork.as, std::string("c"));
        QCOMPARE(*fork.position, 3u);
        QCOMPARE(*fork.prompt_tokens, (std::vector<TokenId>{7}));
        QCOMPARE(*fork.output_tokens, (std::vector<TokenId>{8, 9}));
        QCOMPARE(*fork.max_new_tokens, 2u);
        QCOMPARE(scenario->actions[5].as, std::string("c-2"));  // a fork without a name
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
        const auto action = [](const QByteArray& keys) { return with("\"actions\": [{\"at_step\": 1, " + keys + "}]"); };
        row("contiguous with prefix caching", cache(R"("kind": "contiguous", "prefix_caching": true)"), "cache.prefix_caching: a contiguous region");
        row("kind", cache(R"("kind": "pagd")"), "kind: is the string 'pagd', which is none of its values. Did you mean 'paged'?");
        row("contiguous with an index", cache(R"("kind": "contiguous", "prefix_index": "hash")"), "cache.prefix_index: means nothing");
        row("contiguous with a window", cache(R"("kind": "contiguous", "window": 4)"), "cache.window: means nothing");
        row("contiguous with a watermark", cache(R"("kind": "contiguous", "watermark": 0.1)"), "cache.watermark: means nothing");
        row("contiguous with swapping", with(R"("lanes": [{"cache": {"kind": "contiguous"}, "scheduler": {"preemption": "swap", "swap_blocks": 4}}])"), "lanes[0].scheduler.preemption");
        row("reserve when paged", cache(R"("reserve": "max")"), "cache.reserve: means nothing");
        row("eviction without a tree", cache(R"("radix_eviction": "lru")"), "cache.radix_eviction: means nothing");
        row("radix without caching", cache(R"("prefix_index": "radix", "prefix_caching": false)"), "cache.prefix_index: a radix index needs");
        row("radix with a chunk", cache(R"("prefix_index": "radix", "attention_chunk": 8)"), "cache.prefix_index: a radix index needs all blocks of a prefix, but an attention chunk");
        row("radix with a window", cache(R"("prefix_index": "radix", "window": 8)"), "cache.prefix_index: a radix index needs all blocks of a prefix, but a window");
        row("radix with short hashes", cache(R"("prefix_index": "radix", "hash_bits": 8)"), "cache.hash_bits: means nothing");
        row("no hash bits", cache(R"("hash_bits": 0)"), "hash_bits: 0 is out of range");
        row("watermark 1", cache(R"("watermark": 1)"), "cache.watermark: 1 or more");
        row("watermark above 1", cache(R"("watermark": 1.5)"), "watermark: 1.5 is out of range");
        row("window 0", cache(R"("window": 0)"), "window: 0 is out of range");
        row("sinks without a window", cache(R"("sinks": 4)"), "cache.sinks: 4 sinks without a window");
        row("window and chunk", cache(R"("window": 4, "attention_chunk": 4)"), "cache.attention_chunk: a chunk and a window");
        row("rank without a window", cache(R"("positions": "rank")"), "cache.positions: 'rank'");
        row("free order", cache(R"("free_order": 7)"), "free_order: is the number 7, which is none of its values. Give vllm or append.");
        row("bytes per token of a model", cache(R"("bytes_per_token": 8)"), "lanes[0].cache.bytes_per_token");
        row("memory share 0", cache(R"("memory_share": 0)"), "cache.memory_share: 0 leaves the pool no memory");
        row("memory share above 1", cache(R"("memory_share": 1.5)"), "memory_share: 1.5 is out of range");
        row("batching", scheduler(R"("batching": "dynamic")"), "batching: is the string 'dynamic'");
        row("swap without host blocks", scheduler(R"("preemption": "swap")"), "scheduler.swap_blocks: is 0");
        row("victim", scheduler(R"("victim": "oldest")"), "victim: is the string 'oldest'");
        row("accounting without a cache", with(R"("model": "none", "lanes": [{"kv_cache": false}])"), "lanes[0].kv_cache: is false, but a lane without a model");
        row("accounting reserves a context", with(R"("model": "none", "lanes": [{"cache": {"kind": "contiguous"}}])"), "lanes[0].cache.max_model_len: is missing");
        row("beams without a model", R"({"version": 1, "model": "none", "requests": [{"prompt_tokens": [1], "beam_width": 2}]})", "requests[0].beam_width: beam search needs a model");
        row("contiguous beams", R"({"version": 1, "lanes": [{"cache": {"kind": "contiguous"}}], "requests": [{"prompt": "a", "beam_width": 2}]})", "requests[0].beam_width: beams share");
        row("no budget", scheduler(R"("max_num_batched_tokens": 0)"), "max_num_batched_tokens: 0 is out of range");
        row("convert", with(R"("lanes": [{"convert": {"kv_heads": 1}}])"), "convert: {\"kv_heads\":1} is not built");
        row("materialised", with(R"("lanes": [{"attention": "materialised"}])"), "attention: \"materialised\" is not built");
        row("lane twice", with(R"("lanes": [{"name": "x"}, {"name": "x"}])"), "lanes[1].name: 'x' is used twice");
        row("cache of an uncached lane", with(R"("lanes": [{"kv_cache": false, "cache": {"blocks": 9}}])"), "lanes[0].cache");
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
        row("n", request(R"("prompt": "a", "n": 0)"), "n: 0 is out of range");
        row("n and beams", request(R"("prompt": "a", "n": 2, "beam_width": 4)"), "requests[0].beam_width: beam search and parallel");
        row("forced beams", request(R"("prompt": "a", "output_tokens": [1], "beam_width": 4)"), "requests[0].beam_width: beam search chooses");
        row("hot beams", request(R"("prompt": "a", "temperature": 1, "beam_width": 4)"), "requests[0].beam_width: beam search takes");
        row("salt", request(R"("prompt": "a", "salt": 5)"), "salt: is the number 5, not a text");
        row("priority", request(R"("prompt": "a", "priority": 1e10)"), "priority: 10000000000");
        row("child's name", R"({"version": 1, "requests": [{"id": "a", "n": 2, "prompt": "x"}, {"id": "a.1", "prompt": "y"}]})", "requests[0].id: its child 'a.1'");
        row("id twice", R"({"version": 1, "requests": [{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}]})",
            "requests[1].id: 'a' is used twice");
        row("fork's name twice", with(R"("actions": [{"at_step": 1, "do": "fork", "request": "a", "as": "b"}, {"at_step": 2, "do": "fork", "request": "a", "as": "b"}])"), "actions[1].as: 'b' is used twice");
        row("fork called as a request", action(R"("do": "fork", "request": "a", "as": "a")"), "actions[0].as: 'a' is used twice");
        row("fork at 0", action(R"("do": "fork", "request": "a", "position": 0)"), "actions[0].position: 0 shares nothing");
        row("fork with two prompts", action(R"("do": "fork", "request": "a", "prompt": "x", "prompt_tokens": [1])"), "actions[0].prompt: stands beside");
        row("fork of nobody", action(R"("do": "fork")"), "actions[0].request: is missing");
        row("cancel with a position", action(R"("do": "cancel", "request": "a", "position": 3)"), "actions[0].position: means nothing for cancel");
        row("evict nothing", action(R"("do": "evict")"), "actions[0].block: is missing");
        row("evict the null block", action(R"("do": "evict", "block": 0)"), "actions[0].block: 0 is the null block");
        row("evict beyond the pool", with(R"("lanes": [{"cache": {"blocks": 9}}], "actions": [{"at_step": 1, "do": "evict", "block": 9}])"), "actions[0].block: 9 is no block of lane 'cached'");
        row("reset with a request", action(R"("do": "reset_prefix_cache", "request": "a")"), "actions[0].request: means nothing for reset_prefix_cache");
        row("no action", action(R"("do": "jump", "request": "a")"), "do: is the string 'jump', which is none of its values");
        row("preempt nobody", action(R"("do": "preempt", "request": "b")"), "actions[0].request: there is no request 'b'");
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
