// SPDX-License-Identifier: GPL-3.0-or-later
//
// The program as scripts see it: exit status, stdout, stderr and the files it leaves.
#include <QDir>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <cmath>

namespace {

struct Outcome {
    int status = -1;
    QByteArray out;
    QByteArray err;
};

Outcome kvloupe(const QStringList& words, const QString& home) {
    QProcess process;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"})
        environment.remove(QString::fromLatin1(name));
    environment.insert(QStringLiteral("HOME"), home);
    environment.remove(QStringLiteral("XDG_STATE_HOME"));
    environment.remove(QStringLiteral("XDG_DATA_HOME"));
    process.setProcessEnvironment(environment);
    process.start(QStringLiteral(KVLOUPE_PROGRAM), words);
    Outcome outcome;
    if (!process.waitForFinished(300000)) return outcome;
    outcome.status = process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -2;
    outcome.out = process.readAllStandardOutput();
    outcome.err = process.readAllStandardError();
    return outcome;
}

const QString resources = QStringLiteral(KVLOUPE_SOURCE_DIR "/resources");

}  // namespace

class TestCommands : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { QVERIFY(m_folder.isValid()); }

    void wrongUsageIsTwoWithASentence_data() {
        QTest::addColumn<QStringList>("words");
        QTest::addColumn<QString>("named");
        QTest::newRow("unknown option") << QStringList{"--frobnicate"} << "--frobnicate";
        QTest::newRow("two files") << QStringList{"a.gguf", "b.gguf"} << "b.gguf";
        QTest::newRow("run without scenario") << QStringList{"run"} << "missing";
        QTest::newRow("pictures without folder") << QStringList{"run", "x.json", "--pictures"} << "--export";
        QTest::newRow("flight recorder without file") << QStringList{"run", "x.json", "--flight-recorder", "5"} << "--record";
        QTest::newRow("flight recorder without minutes") << QStringList{"run", "x.json", "--record", "x.kvt", "--flight-recorder", "0"} << "--flight-recorder";
        QTest::newRow("tokenize without text") << QStringList{"tokenize", "bundled"} << "--text";
        QTest::newRow("quality of nothing") << QStringList{"quality"} << "missing";
        QTest::newRow("quality of no texts") << QStringList{"quality", "bundled", "--texts", "0"} << "--texts";
        QTest::newRow("precisions of a scenario") << QStringList{"quality", "x.json", "--dtype", "f16"} << "--dtype";
        QTest::newRow("one recording to compare") << QStringList{"diff", "a.kvt"} << "--with";
        QTest::newRow("no question") << QStringList{"query", "a.kvt"} << "missing";
        QTest::newRow("nothing to export") << QStringList{"export", "a.kvt", "--to", "x.png"} << "--view";
        QTest::newRow("assertion that nobody understands") << QStringList{"check", "a.kvt", "--assert"} << "--assert";
    }

    void wrongUsageIsTwoWithASentence() {
        QFETCH(QStringList, words);
        QFETCH(QString, named);
        const Outcome outcome = kvloupe(words, m_folder.path());
        QCOMPARE(outcome.status, 2);
        QVERIFY2(outcome.err.contains(named.toUtf8()), outcome.err.constData());
        QVERIFY(outcome.out.isEmpty());
    }

    void everyCommandSaysHowItIsUsed() {
        const Outcome all = kvloupe({"--help"}, m_folder.path());
        QCOMPARE(all.status, 0);
        for (const char* command : {"run", "tokenize", "devices", "size", "bench", "quality", "export", "query", "check", "diff"}) {
            const Outcome one = kvloupe({QString::fromLatin1(command), "--help"}, m_folder.path());
            QCOMPARE(one.status, 0);
            QVERIFY2(one.out.startsWith(QByteArray("kvloupe ") + command + ' '), one.out.constData());
            QVERIFY(all.out.contains(one.out));
            QVERIFY(one.err.isEmpty());
        }
    }

    void failureIsOneWithASentence_data() {
        QTest::addColumn<QStringList>("words");
        QTest::addColumn<QString>("named");
        QTest::newRow("no display") << QStringList{} << "no display";
        QTest::newRow("no such scenario") << QStringList{"run", "/nowhere/x.json"} << "/nowhere/x.json";
        QTest::newRow("no such model") << QStringList{"tokenize", "/nowhere/m.gguf", "--text", "x"} << "/nowhere/m.gguf";
        QTest::newRow("no such reference") << QStringList{"quality", "bundled:mqa", "--reference", "x"} << "'x'";
        QTest::newRow("a text too short to measure") << QStringList{"quality", "bundled:mqa", "--text", resources + "/models/gqa/generation_config.json"} << "256 are needed";
        QTest::newRow("no such bundled model") << QStringList{"tokenize", "bundled:mla2", "--text", "x"} << "mla2";
    }

    void failureIsOneWithASentence() {
        QFETCH(QStringList, words);
        QFETCH(QString, named);
        const Outcome outcome = kvloupe(words, m_folder.path());
        QCOMPARE(outcome.status, 1);
        QVERIFY2(outcome.err.contains(named.toUtf8()), outcome.err.constData());
        QCOMPARE(outcome.err.trimmed().count('\n'), 0);
        QVERIFY(outcome.out.isEmpty());
    }

    void tokenizePrintsOneJsonDocument() {
        const Outcome outcome =
            kvloupe({"tokenize", "bundled", "--text", QString::fromUtf8("Mia went to the park. 你好"), "--json"},
                    m_folder.path());
        QCOMPARE(outcome.status, 0);
        const QJsonObject document = QJsonDocument::fromJson(outcome.out).object();
        QVERIFY(document.value("ids").toArray().size() > 5);
        QCOMPARE(document.value("ids").toArray().size(), document.value("pieces").toArray().size());
        QVERIFY(outcome.err.isEmpty());
    }

    void qualityPrintsOneDocumentWithIntervalsAndKeepsIt() {
        const QString home = m_folder.filePath(QStringLiteral("quality"));
        const Outcome outcome = kvloupe({QStringLiteral("quality"), QStringLiteral("bundled:mqa"), QStringLiteral("--dtype"), QStringLiteral("f32,f16"),
                                         QStringLiteral("--texts"), QStringLiteral("4"), QStringLiteral("--questions"), QStringLiteral("8"), QStringLiteral("--json")}, home);
        QCOMPARE(outcome.status, 0);
        const QJsonObject report = QJsonDocument::fromJson(outcome.out).object();
        QCOMPARE(report.value(QStringLiteral("text")).toString(), QStringLiteral("4 stories"));
        QCOMPARE(report.value(QStringLiteral("questions")).toInt(), 8);
        QCOMPARE(report.value(QStringLiteral("reference")).toString(), QStringLiteral("f32"));
        const QJsonArray lanes = report.value(QStringLiteral("lanes")).toArray();
        QCOMPARE(lanes.size(), 2);
        QVERIFY(lanes.at(0).toObject().value(QStringLiteral("divergence")).isNull());
        for (const QJsonValue& lane : lanes) {
            const QJsonObject perplexity = lane.toObject().value(QStringLiteral("perplexity")).toObject();
            const double value = perplexity.value(QStringLiteral("value")).toDouble();
            QVERIFY(value > 1 && value < 10);
            QVERIFY(perplexity.value(QStringLiteral("low")).toDouble() < value && value < perplexity.value(QStringLiteral("high")).toDouble());
        }
        QVERIFY(QFile::exists(home + QStringLiteral("/.local/share/kvloupe/quality.json")));
    }

    void devicesNameTheProcessorAndSayWhyThereIsNoGpu() {
        const Outcome outcome = kvloupe({"devices", "--json"}, m_folder.path());
        QCOMPARE(outcome.status, 0);
        const QJsonArray devices = QJsonDocument::fromJson(outcome.out).array();
        QVERIFY(!devices.isEmpty());
        QCOMPARE(devices.first().toObject().value("id").toString(), QStringLiteral("cpu"));
        QVERIFY(devices.first().toObject().value("available").toBool());
        for (const QJsonValue& device : devices)
            QVERIFY(!device.toObject().value("detail").toString().isEmpty());
    }

    void benchMeasuresTheCeilingsAndDevicesKeepsThem() {
        const QString home = m_folder.filePath(QStringLiteral("bench-home"));
        const auto cpu = [&home] {
            return QJsonDocument::fromJson(kvloupe({"devices", "--json"}, home).out).array().first().toObject();
        };
        QVERIFY(!cpu().contains("ceilings"));
        const Outcome outcome = kvloupe({"bench", "bundled", "--prompt", "16", "--new", "4", "--json"}, home);
        QVERIFY2(outcome.status == 0, outcome.err.constData());
        const QJsonObject figures = QJsonDocument::fromJson(outcome.out).array().first().toObject();
        const QJsonObject kept = cpu().value("ceilings").toObject();
        for (const char* key : {"read_bandwidth_bytes_per_s", "copy_bandwidth_bytes_per_s", "matrix_flop_per_s"}) {
            QVERIFY2(figures.value(QLatin1String(key)).toDouble() > 0, key);
            QCOMPARE(kept.value(QLatin1String(key)), figures.value(QLatin1String(key)));
        }
        QCOMPARE(kept.value("matrix_type").toString(), QStringLiteral("f32"));
        for (const char* phase : {"decode", "prefill"}) {
            const QJsonArray stages = figures.value(QLatin1String(phase)).toObject().value("stages").toArray();
            QVERIFY(stages.size() > 10);
            for (const QJsonValue& value : stages) {
                const QJsonObject stage = value.toObject();
                const double seconds = stage.value("us").toDouble() * 1e-6;
                const double memory = stage.value("bytes").toDouble() / seconds / figures.value("read_bandwidth_bytes_per_s").toDouble();
                const double compute = stage.value("flops").toDouble() / seconds / figures.value("matrix_flop_per_s").toDouble();
                const double share = stage.value("share_of_ceiling").toDouble();
                QVERIFY(std::abs(share - std::max(memory, compute)) <= 1e-6 * (1 + share));
                const QString bound = stage.value("bound").toString();
                QCOMPARE(bound, share < 0.3 ? QStringLiteral("latency") : memory >= compute ? QStringLiteral("memory") : QStringLiteral("compute"));
            }
        }
        const Outcome text = kvloupe({"devices"}, home);
        QVERIFY2(text.out.contains("measured " + kept.value("measured_on").toString().toUtf8() + ": read "), text.out.constData());
    }

    void sampleScenariosRunAndLeaveTheirFiles_data() {
        QTest::addColumn<QString>("path");
        const QDir folder(resources + QStringLiteral("/scenarios"));
        for (const QString& name : folder.entryList({"*.json"})) QTest::newRow(qPrintable(name)) << folder.filePath(name);
    }

    void sampleScenariosRunAndLeaveTheirFiles() {
        QFETCH(QString, path);
        const QString folder = m_folder.filePath(QFileInfo(path).completeBaseName());
        const Outcome outcome = kvloupe({"run", path, "--export", folder}, m_folder.path());
        QVERIFY2(outcome.status == 0, outcome.err.constData());
        for (const char* name : {"summary.json", "steps.csv", "events.csv", "trace.json"})
            QVERIFY2(QFileInfo(QDir(folder).filePath(name)).size() > 0, name);
        QFile file(QDir(folder).filePath("summary.json"));
        QVERIFY(file.open(QIODevice::ReadOnly));
        const QJsonObject summary = QJsonDocument::fromJson(file.readAll()).object();
        QCOMPARE(summary.value("version").toInt(), 1);
        const QJsonArray lanes = summary.value("lanes").toArray();
        QVERIFY(!lanes.isEmpty());
        for (const QJsonValue& lane : lanes) {
            for (const QJsonValue& request : lane.toObject().value("requests").toArray()) {
                const QString reason = request.toObject().value("finish_reason").toString();
                QVERIFY2(reason == "length" || reason == "stop" || reason == "rejected", qPrintable(reason));
            }
        }
    }

    void picturesOfEveryViewArePaintedWithoutADisplay() {
        const QString folder = m_folder.filePath("pictures");
        const Outcome outcome = kvloupe(
            {"run", resources + "/scenarios/full-pool.json", "--export", folder, "--pictures"}, m_folder.path());
        QVERIFY2(outcome.status == 0, outcome.err.constData());
        for (const char* id : {"lanes", "requests", "inspector", "tokens", "pool", "attention", "next-token", "timeline",
                               "kv-bytes", "step-time", "logits", "comparison", "stages"}) {
            for (const char* suffix : {".png", ".svg"})
                QVERIFY2(QFileInfo(QDir(folder).filePath(QLatin1String(id) + QLatin1String(suffix))).size() > 500, id);
        }
    }

    void resultsInAReadOnlyFolderAreRefused() {
        const Outcome outcome =
            kvloupe({"run", resources + "/scenarios/block-size.json", "--export", "/proc/kvloupe"}, m_folder.path());
        QCOMPARE(outcome.status, 1);
        QVERIFY2(outcome.err.contains("/proc/kvloupe"), outcome.err.constData());
    }

    void aHomeThatCannotBeWrittenCostsNothing() {
        const Outcome outcome = kvloupe({"devices"}, QStringLiteral("/proc/nowhere"));
        QCOMPARE(outcome.status, 0);
    }

    void aRequestThatCannotFitAloneFailsTheRunOnlyWhenNothingCanRun() {
        QFile file(m_folder.filePath("never.json"));
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write(R"({"version":1,"lanes":[{"name":"x","cache":{"blocks":3}}],
                       "requests":[{"id":"a","prompt_tokens":[5,6,7],"max_new_tokens":100}]})");
        file.close();
        const Outcome outcome = kvloupe({"run", file.fileName()}, m_folder.path());
        QCOMPARE(outcome.status, 1);
        QVERIFY2(outcome.err.contains("No request could run"), outcome.err.constData());
        QVERIFY2(outcome.out.contains("rejected"), outcome.out.constData());
    }

    void theFlightRecorderKeepsWhatLedToABreakpoint() {
        const auto run = [&](const QString& name, const QByteArray& rest) {
            QFile file(m_folder.filePath(name + ".json"));
            if (!file.open(QIODevice::WriteOnly)) qFatal("the scenario cannot be written");
            file.write("{\"version\": 1, \"model\": \"none\", \"lanes\": [{\"name\": \"x\", \"cache\": {\"block_size\": 4, \"blocks\": 40}}], "
                       "\"requests\": [{\"id\": \"a\", \"prompt_tokens\": [5, 6, 7], \"max_new_tokens\": 30}], " + rest + "}");
            file.close();
            return kvloupe({"run", file.fileName(), "--flight-recorder", "5", "--record", m_folder.filePath(name + ".kvt")}, m_folder.path());
        };
        const auto steps = [&](const QString& name) {
            return kvloupe({"query", m_folder.filePath(name + ".kvt"), "SELECT count(*) AS n FROM steps", "--csv"}, m_folder.path()).out;
        };
        const Outcome hit = run("hit", R"("breakpoints": [{"step": 12}, {"step": 20}])");
        QCOMPARE(hit.status, 0);
        QVERIFY2(hit.out.contains("steps 0 to 12 are in"), hit.out.constData());  // the first that held; all is younger than five minutes
        QCOMPARE(steps("hit"), QByteArray("n\r\n13\r\n"));
        const Outcome none = run("none", R"("breakpoints": [{"on": "preempt"}])");
        QCOMPARE(none.status, 0);
        QVERIFY2(none.out.contains("no breakpoint held"), none.out.constData());
        QVERIFY(!QFile::exists(m_folder.filePath("none.kvt")));
        const Outcome again = run("hit", R"("breakpoints": [{"step": 12}])");  // said before the run
        QCOMPARE(again.status, 1);
        QVERIFY2(again.err.contains("already") && again.out.isEmpty(), again.err.constData());
    }

    void anInterruptedRunClosesItsRecording() {
        const QString scenario = m_folder.filePath("endless.json"), record = m_folder.filePath("endless.kvt");
        QFile file(scenario);
        if (!file.open(QIODevice::WriteOnly)) qFatal("the scenario cannot be written");
        file.write(R"({"version": 1, "model": "none", "lanes": [{"name": "a", "cache": {"blocks": 40000, "block_size": 64}}],
                       "requests": [{"id": "a", "prompt_tokens": [1, 2], "max_new_tokens": 2000000}]})");
        file.close();
        QProcess process;
        process.start(QStringLiteral(KVLOUPE_PROGRAM), {"run", scenario, "--record", record});
        QTRY_VERIFY_WITH_TIMEOUT(QFile::exists(record), 60000);
        process.terminate();
        QVERIFY(process.waitForFinished(300000));
        QCOMPARE(process.exitStatus(), QProcess::NormalExit);
        QCOMPARE(process.exitCode(), 1);
        QVERIFY(process.readAllStandardError().contains("Interrupted"));
        QVERIFY(!QFile::exists(record + "-wal"));
        const Outcome outcome = kvloupe({"query", record, "SELECT value FROM meta WHERE key = 'complete'", "--csv"}, m_folder.path());
        QCOMPARE(outcome.out.trimmed().split('\n').last().trimmed(), QByteArray("1"));
    }

    void outputThatCannotBeWrittenIsAFailure() {
        if (!QFile::exists("/dev/full")) QSKIP("there is no /dev/full here");
        QProcess process;
        process.setStandardOutputFile("/dev/full");
        process.start(QStringLiteral(KVLOUPE_PROGRAM), {"query", QStringLiteral(KVLOUPE_SOURCE_DIR "/tests/fixtures/recordings/small-1.kvt"), "SELECT * FROM events"});
        QVERIFY(process.waitForFinished(300000));
        QCOMPARE(process.exitCode(), 1);
        QVERIFY(process.readAllStandardError().contains("could not be written"));
    }

    void aTableMovesNoCursor() {
        const QString recording = QStringLiteral(KVLOUPE_SOURCE_DIR "/tests/fixtures/recordings/small-1.kvt");
        const QString sql = QStringLiteral("SELECT char(27) || '[2J' || char(155) || 'a' || char(10) || 'b' AS t");
        const QByteArray table = kvloupe({"query", recording, sql}, m_folder.path()).out;
        QCOMPARE(table.split('\n').value(1).trimmed(), QByteArray("\\x1b[2J\\x9ba\u23CE" "b"));
        const QByteArray json = kvloupe({"query", recording, sql, "--json"}, m_folder.path()).out;
        QVERIFY(json.contains("\\u001b[2J"));
    }

    void questionsMayBeginWithAComment() {
        const QString recording = QStringLiteral(KVLOUPE_SOURCE_DIR "/tests/fixtures/recordings/small-1.kvt");
        QCOMPARE(kvloupe({"query", recording, "-- how many\nSELECT 3 AS n", "--csv"}, m_folder.path()).out, QByteArray("n\r\n3\r\n"));
        QCOMPARE(kvloupe({"query", recording, "SELECT 1 AS n WHERE 0", "--json"}, m_folder.path()).out.trimmed(), QByteArray("[]"));
        QCOMPARE(kvloupe({"query", recording, "SELECT 1 AS n UNION SELECT 2", "--json"}, m_folder.path()).out.trimmed(), QByteArray(R"([{"n":1},{"n":2}])"));
    }

    void exportNamesItsViewsAndMakesOneThingAtATime() {
        const QString recording = QStringLiteral(KVLOUPE_SOURCE_DIR "/tests/fixtures/recordings/small-1.kvt"), to = m_folder.filePath("x.svg");
        const Outcome views = kvloupe({"export", recording, "--view", "?"}, m_folder.path());
        QCOMPARE(views.status, 0);
        QVERIFY(views.out.split('\n').contains("pool"));
        const Outcome two = kvloupe({"export", recording, "--trace", "--report", "--to", to}, m_folder.path());
        QCOMPARE(two.status, 2);
        QVERIFY2(two.err.contains("--trace and --report are two"), two.err.constData());
        const Outcome step = kvloupe({"export", recording, "--cut", "0..1", "--step", "1", "--to", to}, m_folder.path());
        QCOMPARE(step.status, 2);
        QVERIFY2(step.err.contains("--step belongs to --view"), step.err.constData());
        const Outcome large = kvloupe({"export", recording, "--view", "pool", "--size", "20000x20000", "--to", m_folder.filePath("x.png")}, m_folder.path());
        QCOMPARE(large.status, 2);
        QVERIFY2(large.err.contains("100 million pixels"), large.err.constData());
    }

    void columnsOfOneNameAreAllInTheJson() {
        const Outcome outcome = kvloupe({"query", QStringLiteral(KVLOUPE_SOURCE_DIR "/tests/fixtures/recordings/small-1.kvt"), "SELECT 1 a, 2 a, 3 b", "--json"},
                                        m_folder.path());
        QCOMPARE(outcome.out.trimmed(), QByteArray(R"([{"a":1,"a:2":2,"b":3}])"));
    }

    void whatCannotBeDoneIsSaid() {
        const auto run = [&](const QByteArray& rest) {
            QFile file(m_folder.filePath("said.json"));
            if (!file.open(QIODevice::WriteOnly)) qFatal("the scenario cannot be written");
            file.write("{\"version\": 1, \"model\": \"bundled:gqa\", " + rest + "}");
            file.close();
            return kvloupe({"run", file.fileName()}, m_folder.path());
        };
        const Outcome fork = run(R"("requests": [{"id": "a", "prompt_tokens": [5, 6, 7], "max_new_tokens": 6}],
                                    "actions": [{"at_step": 2, "do": "fork", "request": "a", "as": "b", "position": 500}])");
        QCOMPARE(fork.status, 0);
        QVERIFY2(fork.out.contains("step 2: The action fork cannot be done") && fork.out.contains("500"), fork.out.constData());
        const Outcome nobody = run(R"("requests": [])");
        QCOMPARE(nobody.status, 1);
        QVERIFY2(nobody.err.contains("requests"), nobody.err.constData());
    }

private:
    QTemporaryDir m_folder;
};

QTEST_GUILESS_MAIN(TestCommands)
#include "tst_commands.moc"
