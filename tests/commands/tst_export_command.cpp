// SPDX-License-Identifier: GPL-3.0-or-later
//
// kvloupe export: every view in every format, sequences, parts, traces and reports of recordings and of memory snapshots; what
// shows nothing is said in a sentence. No command changes what it reads.
#include "engine/record/kvt_reader.h"
#include "gui/commands.h"
#include "views/view_factory.h"

#include <nlohmann/json.hpp>

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QImage>
#include <QTemporaryDir>
#include <QTest>

#include <iostream>
#include <sstream>

using namespace kvloupe;

namespace {

const QString recordings = QStringLiteral(KVLOUPE_SOURCE_DIR "/tests/fixtures/recordings/");
const QString snapshots = QStringLiteral(KVLOUPE_SOURCE_DIR "/tests/fixtures/snapshots/");

struct Said {
    int status = -1;
    std::string err;
};

Said exported(const QStringList& words) {
    std::ostringstream err;
    std::streambuf* const before = std::cerr.rdbuf(err.rdbuf());
    std::vector<std::string> list;
    for (const QString& word : words) list.push_back(word.toStdString());
    const int status = export_command(list);
    std::cerr.rdbuf(before);
    return {status, err.str()};
}

QByteArray bytes_of(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

}  // namespace

class TestExportCommand : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() {
        QVERIFY(m_folder.isValid());
        m_small = recordings + QStringLiteral("small-1.kvt");
    }

    void everyViewIsWrittenOrSaysWhyNot_data() {
        QTest::addColumn<QString>("view");
        for (const ViewDescription& description : viewDescriptions()) QTest::newRow(description.id.toUtf8().constData()) << description.id;
    }
    void everyViewIsWrittenOrSaysWhyNot() {
        QFETCH(QString, view);
        const std::pair<const char*, const char*> formats[] = {{"png", "\x89PNG"}, {"svg", "<?xml"}, {"pdf", "%PDF"}, {"csv", ""}};
        int shown = 0;
        for (const auto& [suffix, begin] : formats) {
            const QString to = m_folder.filePath(view + QLatin1Char('.') + QLatin1String(suffix));
            const Said said = exported({m_small, "--view", view, "--step", "9", "--size", "500x320", "--to", to});
            if (said.status == exit_done) {
                ++shown;
                const QByteArray bytes = bytes_of(to);
                QVERIFY(bytes.size() > 20);
                QVERIFY(bytes.startsWith(begin));
            } else {
                QCOMPARE(said.status, exit_failed);
                QVERIFY2(said.err.find("nothing to show") != std::string::npos, said.err.c_str());
                QVERIFY(!QFile::exists(to));
            }
        }
        QVERIFY(shown == 4 || shown == 0);  // what has content has it in every format
        if (view == QLatin1String("pool") || view == QLatin1String("tokens") || view == QLatin1String("history")) QCOMPARE(shown, 4);
    }

    void scaleIsInPixels() {
        const QString to = m_folder.filePath("scaled.png");
        QCOMPARE(exported({m_small, "--view", "pool", "--size", "400x300", "--scale", "1.5", "--to", to}).status, exit_done);
        QCOMPARE(QImage(to).width(), 600);
    }

    void whatAViewIsComparedWithIsInThePicture() {
        const auto svg = [&](const QString& name, const QStringList& more) {
            const QString to = m_folder.filePath(name);
            const Said said = exported(QStringList{m_small, "--view", "pool", "--step", "5", "--to", to} + more);
            if (said.status != exit_done) qFatal("%s", said.err.c_str());
            return bytes_of(to);
        };
        const QString cut = recordings + QStringLiteral("cut-1.kvt");
        const QByteArray alone = svg("alone.svg", {}), same = svg("same.svg", {"--compare", m_small}), other = svg("other.svg", {"--compare", cut});
        QVERIFY(alone != other && same != other);
        QVERIFY(other.contains("cut-1.kvt"));
        QVERIFY(!alone.contains("cut-1.kvt"));
    }

    void noRecordingIsWrittenOver() {
        const QString mine = m_folder.filePath("mine.kvt"), named = m_folder.filePath("named.png");
        QVERIFY(QFile::copy(m_small, mine) && QFile::copy(m_small, named));
        const QByteArray before = bytes_of(mine);
        for (const QStringList& words : {QStringList{mine, "--trace", "--to", mine}, QStringList{mine, "--report", "--to", mine},
                                         QStringList{m_small, "--trace", "--to", mine}, QStringList{mine, "--view", "pool", "--to", named}}) {
            const Said said = exported(words);
            QCOMPARE(said.status, exit_failed);
            QVERIFY2(said.err.find("does not write over it") != std::string::npos, said.err.c_str());
        }
        QCOMPARE(bytes_of(mine), before);
        QCOMPARE(bytes_of(named), before);
        // A link stays one, and what is no file stays what it is.
        QFile real(m_folder.filePath("real.json"));
        QVERIFY(real.open(QIODevice::WriteOnly));
        real.close();
        const QString link = m_folder.filePath("link.json");
        QVERIFY(QFile::link(real.fileName(), link));
        QCOMPARE(exported({m_small, "--trace", "--to", link}).status, exit_done);
        QVERIFY(QFileInfo(link).isSymLink());
        QVERIFY(bytes_of(real.fileName()).size() > 1000);
        QCOMPARE(exported({m_small, "--trace", "--to", "/dev/null"}).status, exit_failed);
    }

    void stepsAreASequenceInOrder() {
        const QString folder = m_folder.filePath("frames");
        QCOMPARE(exported({m_small, "--view", "pool", "--steps", "8..11", "--size", "300x200", "--to", folder + "/"}).status, exit_done);
        QCOMPARE(QDir(folder).entryList(QDir::Files, QDir::Name),
                 (QStringList{"pool-08.png", "pool-09.png", "pool-10.png", "pool-11.png"}));
        QCOMPARE(exported({m_small, "--view", "pool", "--steps", "3..4", "--to", m_folder.filePath("film.svg")}).status, exit_done);
        QVERIFY(QFile::exists(m_folder.filePath("film-3.svg")) && QFile::exists(m_folder.filePath("film-4.svg")));
    }

    void aCutIsARecording() {
        const QString to = m_folder.filePath("cut.kvt");
        QCOMPARE(exported({m_small, "--cut", "4..9", "--to", to}).status, exit_done);
        const auto cut = open_kvt(to.toStdString());
        QVERIFY(cut);
        QCOMPARE(cut->recording->lanes()[0]->step_count(), std::size_t{6});
        QVERIFY(check_kvt(to.toStdString()).empty());
        QCOMPARE(exported({to, "--view", "pool", "--step", "0", "--to", m_folder.filePath("cut.png")}).status, exit_done);
        QVERIFY(exported({m_small, "--cut", "4..9", "--to", to}).err.find("of this name already") != std::string::npos);
    }

    void strippedSaysSo() {
        const QString to = m_folder.filePath("stripped.kvt");
        QCOMPARE(exported({m_small, "--strip", "--cut", "0..9", "--to", to}).status, exit_done);
        const auto stripped = open_kvt(to.toStdString());
        QVERIFY(stripped);
        QCOMPARE(stripped->meta.at("stripped"), std::string("1"));
        QVERIFY(stripped->recording->lanes()[0]->vocabulary().pieces.empty());
    }

    void traceAndReportAreWhole() {
        QCOMPARE(exported({m_small, "--trace", "--to", m_folder.filePath("trace.json")}).status, exit_done);
        const auto trace = nlohmann::json::parse(bytes_of(m_folder.filePath("trace.json")).toStdString());
        QVERIFY(trace["traceEvents"].size() > 50);
        QCOMPARE(exported({m_small, "--report", "--to", m_folder.filePath("report.html")}).status, exit_done);
        const QByteArray report = bytes_of(m_folder.filePath("report.html"));
        for (const char* part : {"<svg", "Block pool", "waste_percent", "Configuration", "Origin", "nothing to show here", "</html>"})
            QVERIFY2(report.contains(part), part);
        for (const char* outside : {"http://localhost", "src=\"", "<script", "<link"}) QVERIFY2(!report.contains(outside), outside);
    }

    void aMemorySnapshotHasItsViews() {
        const QString snapshot = snapshots + QStringLiteral("protocol4.pickle");
        for (const char* view : {"history", "split", "free-runs", "pool", "events"}) {
            const Said said = exported({snapshot, "--view", view, "--to", m_folder.filePath(QStringLiteral("snapshot-%1.png").arg(QLatin1String(view)))});
            QVERIFY2(said.status == exit_done, said.err.c_str());
        }
        QCOMPARE(exported({snapshot, "--results", "--to", m_folder.filePath("snapshot")}).status, exit_done);
        QVERIFY(bytes_of(m_folder.filePath("snapshot/events.csv")).contains("out of memory"));
        const Said code = exported({snapshots + QStringLiteral("code.pickle"), "--trace", "--to", m_folder.filePath("no.json")});
        QCOMPARE(code.status, exit_failed);
        QVERIFY(code.err.find("GLOBAL") != std::string::npos);
    }

    void wrongUsageIsTwo_data() {
        QTest::addColumn<QStringList>("words");
        QTest::newRow("nothing asked") << QStringList{"FILE", "--to", "x"};
        QTest::newRow("two things") << QStringList{"FILE", "--trace", "--report", "--to", "x"};
        QTest::newRow("no such view") << QStringList{"FILE", "--view", "poool", "--to", "x.png"};
        QTest::newRow("no such step") << QStringList{"FILE", "--view", "pool", "--step", "99", "--to", "x.png"};
        QTest::newRow("a cut behind the end") << QStringList{"FILE", "--cut", "4..99", "--to", "x.kvt"};
        QTest::newRow("a cut backwards") << QStringList{"FILE", "--cut", "9..4", "--to", "x.kvt"};
        QTest::newRow("a scale that is no number") << QStringList{"FILE", "--view", "pool", "--scale", "nan", "--to", "x.png"};
        QTest::newRow("nothing to align") << QStringList{"FILE", "--view", "pool", "--align", "token", "--to", "x.png"};
        QTest::newRow("no alignment") << QStringList{"FILE", "--view", "pool", "--compare", m_small, "--align", "byte", "--to", "x.png"};
        QTest::newRow("no such lane") << QStringList{"FILE", "--view", "pool", "--with", "nobody", "--to", "x.png"};
        QTest::newRow("no scale") << QStringList{"FILE", "--view", "pool", "--scale", "99", "--to", "x.png"};
    }
    void wrongUsageIsTwo() {
        QFETCH(QStringList, words);
        words[0] = m_small;
        const Said said = exported(words);
        QCOMPARE(said.status, exit_usage);
        QVERIFY(!said.err.empty());
    }

    void theRecordingIsAsItWas() { QCOMPARE(QDir(recordings).entryList(QDir::Files, QDir::Name), (QStringList{"cut-1.kvt", "small-1.kvt"})); }

private:
    QTemporaryDir m_folder;
    QString m_small;
};

QTEST_MAIN(TestExportCommand)
#include "tst_export_command.moc"
