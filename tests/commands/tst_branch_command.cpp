// SPDX-License-Identifier: GPL-3.0-or-later
//
// `kvloupe branch` as scripts see it: a recording goes on with another future beside it, and what cannot be is said.
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

namespace {

struct CommandOutcome {
    int status = -1;
    QString out, err;
};

}  // namespace

class TestBranchCommand : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() {
        QVERIFY(m_folder.isValid());
        // Six requests, one at a time: who is next is the policy's choice.
        QStringList requests;
        for (int i = 0; i < 6; ++i)
            requests << QStringLiteral("{'id': '%1', 'prompt_tokens': [1, 2, 3, 4, 5, %2], 'max_new_tokens': 4, 'priority': %3}").arg(QChar('a' + i)).arg(i + 10).arg(6 - i);
        QString text = QStringLiteral("{'version': 1, 'model': 'none', 'lanes': [{'name': 'old', 'cache': {'block_size': 4, 'blocks': 12}, "
                                      "'scheduler': {'max_num_seqs': 1}}], 'requests': [%1]}").arg(requests.join(QLatin1Char(',')));
        QFile scenario(path("queue.json"));
        QVERIFY(scenario.open(QIODevice::WriteOnly));
        scenario.write(text.replace(QLatin1Char('\''), QLatin1Char('"')).toUtf8());
        scenario.close();
        const CommandOutcome ran = run({"run", path("queue.json"), "--record", path("queue.kvt")});
        QVERIFY2(ran.status == 0, qPrintable(ran.err));
    }

    void anotherPolicyGoesItsOwnWay() {
        const CommandOutcome made = run({"branch", path("queue.kvt"), "--step", "6", "--set", "scheduler.policy=priority", "--name", "by priority", "--record",
                                         path("branched.kvt"), "--export", path("results")});
        QVERIFY2(made.status == 0, qPrintable(made.err));
        QVERIFY2(made.out.contains("are those that were recorded") && made.out.contains("continues lane 'old' from step 6 on, under its rules until then"),
                 qPrintable(made.out));
        QVERIFY2(made.out.contains("first other block table, step 8"), qPrintable(made.out));  // b runs in steps 4 to 7, then f instead of c
        QFile file(path("results/summary.json"));
        QVERIFY(file.open(QIODevice::ReadOnly));
        const QJsonArray lanes = QJsonDocument::fromJson(file.readAll()).object().value("lanes").toArray();
        QCOMPARE(lanes.size(), 2);
        QVERIFY(!lanes[0].toObject().contains("branch"));
        const QJsonObject branch = lanes[1].toObject().value("branch").toObject();
        QCOMPARE(branch.value("of").toString(), "old");
        QCOMPARE(branch.value("at_step").toInt(), 6);
        QCOMPARE(branch.value("how").toString(), "switches");
        QCOMPARE(lanes[1].toObject().value("steps").toInt(), lanes[0].toObject().value("steps").toInt());
        // A branch's file can be branched again, from the branch.
        const CommandOutcome again = run({"branch", path("branched.kvt"), "--step", "9", "--lane", "by priority", "--set", "cache.block_size=2", "--steps", "3",
                                          "--record", path("again.kvt")});
        QVERIFY2(again.status == 0 && again.out.contains("in a pool of its own"), qPrintable(again.out + again.err));
        const CommandOutcome steps = run({"query", path("again.kvt"), "SELECT count(*) AS n FROM steps", "--csv"});
        QCOMPARE(steps.out.simplified(), "n 36");  // three lanes, 9 + 3 steps
    }

    void whatCannotBeIsSaid_data() {
        QTest::addColumn<QStringList>("words");
        QTest::addColumn<int>("status");
        QTest::addColumn<QString>("part");
        const QStringList to{"--record", path("none.kvt")};
        const auto row = [&](const char* name, const QStringList& words, int status, const char* part) { QTest::newRow(name) << words + to << status << part; };
        row("no step", {path("queue.kvt")}, 2, "--step is missing");
        row("a token alone", {path("queue.kvt"), "--step", "3", "--token", "4"}, 2, "--token and --request");
        row("no setting", {path("queue.kvt"), "--step", "3", "--set", "policy"}, 2, "'--set policy'");
        QTest::newRow("nothing kept") << QStringList{path("queue.kvt"), "--step", "3"} << 2 << "--record OUT.kvt";
        row("no file", {path("absent.kvt"), "--step", "3"}, 1, "absent.kvt");
        row("no lane", {path("queue.kvt"), "--step", "3", "--lane", "new"}, 1, "no lane 'new'");
        row("no such step", {path("queue.kvt"), "--step", "300"}, 1, "no step 300");
        row("no such key", {path("queue.kvt"), "--step", "3", "--set", "cache.dtyp=int8"}, 1, "'dtyp'");
        row("no such value", {path("queue.kvt"), "--step", "3", "--set", "scheduler.policy=lifo"}, 1, "scheduler.policy");
        row("not live", {path("queue.kvt"), "--step", "20", "--request", "a", "--token", "4"}, 1, "not live in step 20");
        row("no sequence", {path("queue.kvt"), "--step", "3", "--request", "z", "--token", "4"}, 1, "'z'");
        row("name taken", {path("queue.kvt"), "--step", "3", "--name", "old"}, 1, "'old' is used twice");
        row("output taken", {path("queue.kvt"), "--step", "3", "--record", path("queue.kvt")}, 2, "given twice");
    }

    void whatCannotBeIsSaid() {
        QFETCH(QStringList, words);
        QFETCH(int, status);
        QFETCH(QString, part);
        const CommandOutcome outcome = run(QStringList{"branch"} + words);
        QCOMPARE(outcome.status, status);
        QVERIFY2(outcome.err.contains(part), qPrintable(outcome.err));
        QVERIFY(outcome.out.isEmpty());
        QVERIFY(!QFile::exists(path("none.kvt")));
    }

private:
    QString path(const QString& name) const { return m_folder.filePath(name); }

    CommandOutcome run(const QStringList& words) const {
        QProcess process;
        process.start(QStringLiteral(KVLOUPE_PROGRAM), words);
        CommandOutcome outcome;
        if (!process.waitForFinished(60000) || process.exitStatus() != QProcess::NormalExit) return outcome;
        outcome.status = process.exitCode();
        outcome.out = QString::fromUtf8(process.readAllStandardOutput());
        outcome.err = QString::fromUtf8(process.readAllStandardError());
        return outcome;
    }

    QTemporaryDir m_folder;
};

QTEST_GUILESS_MAIN(TestBranchCommand)
#include "tst_branch_command.moc"
