// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTemporaryDir>
#include <QTest>

#include "engine/record/file_output.h"
#include "engine/record/results.h"
#include "engine/record/writer.h"

#include <QDir>
#include <QFile>

#include <csignal>
#include <sys/resource.h>
#include <unistd.h>

using namespace kvloupe;

namespace {

QByteArray content(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray("unreadable");
}

QStringList entries(const QString& folder) {
    return QDir(folder).entryList(QDir::Files | QDir::Dirs | QDir::NoDotAndDotDot | QDir::Hidden, QDir::Name);
}

// Writes fail beyond so many bytes a file, as on a full disk.
class FileSizeLimit {
public:
    explicit FileSizeLimit(rlim_t bytes) {
        m_handler = std::signal(SIGXFSZ, SIG_IGN);
        ::getrlimit(RLIMIT_FSIZE, &m_before);
        rlimit limit = m_before;
        limit.rlim_cur = bytes;
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~FileSizeLimit() {
        ::setrlimit(RLIMIT_FSIZE, &m_before);
        std::signal(SIGXFSZ, m_handler);
    }
    FileSizeLimit(const FileSizeLimit&) = delete;
    FileSizeLimit& operator=(const FileSizeLimit&) = delete;

private:
    rlimit m_before{};
    void (*m_handler)(int) = nullptr;
};

}  // namespace

class TestFileOutput : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void filesAppearOnlyWhenPutInPlace();
    void failedWriteKeepsTheOldFile();
    void fullDiskLeavesNothingHalfWritten();
    void errorsNameFileReasonAndRemedy_data();
    void errorsNameFileReasonAndRemedy();
    void readOnlyFolderIsSaid();
    void resultsAreAllOrNothing();
};

void TestFileOutput::filesAppearOnlyWhenPutInPlace() {
    QTemporaryDir folder;
    {
        FileOutput output(folder.path().toStdString());
        QVERIFY(output.write("a.txt", "one"));
        QVERIFY(!QFile::exists(folder.filePath("a.txt")));
        QVERIFY(output.put_in_place());
        QCOMPARE(content(folder.filePath("a.txt")), QByteArray("one"));
        QVERIFY(output.write("b.txt", "two"));
    }  // given up
    QCOMPARE(entries(folder.path()), QStringList({"a.txt"}));
    QVERIFY(write_file(folder.filePath("a.txt").toStdString(), "three"));
    QCOMPARE(content(folder.filePath("a.txt")), QByteArray("three"));
}

void TestFileOutput::failedWriteKeepsTheOldFile() {
    QTemporaryDir folder;
    const std::string path = folder.filePath("a.txt").toStdString();
    QVERIFY(write_file(path, "old"));
    {
        const FileSizeLimit limit(1000);
        QVERIFY(!write_file(path, std::string(5000, 'x')));
    }
    QCOMPARE(content(folder.filePath("a.txt")), QByteArray("old"));
    QCOMPARE(entries(folder.path()), QStringList({"a.txt"}));
}

void TestFileOutput::fullDiskLeavesNothingHalfWritten() {
    QTemporaryDir folder;
    const FileSizeLimit limit(1000);
    const auto written = write_file(folder.filePath("big.json").toStdString(), std::string(5000, 'x'));
    QVERIFY(!written);
    const QString message = QString::fromStdString(written.error().message());
    QVERIFY2(message.contains("big.json cannot be written: File too large"), qPrintable(message));
    QVERIFY(entries(folder.path()).isEmpty());
}

void TestFileOutput::errorsNameFileReasonAndRemedy_data() {
    QTest::addColumn<QString>("path");
    QTest::addColumn<QString>("reason");
    QTest::newRow("no such folder") << "/nowhere/at/all.json" << "No such file or directory";
    QTest::newRow("a folder has the name") << "FOLDER" << "Is a directory";
    QTest::newRow("long name") << "FOLDER/" + QString(300, 'n') << "File name too long";
    QTest::newRow("proc") << "/proc/kvloupe.json" << "";
}

void TestFileOutput::errorsNameFileReasonAndRemedy() {
    QFETCH(QString, path);
    QFETCH(QString, reason);
    QTemporaryDir folder;
    path.replace("FOLDER", folder.path());
    const auto written = write_file(path.toStdString(), "text");
    QVERIFY(!written);
    const QString message = QString::fromStdString(written.error().message());
    QVERIFY2(message.contains(path + " cannot be written: ") && message.contains(reason), qPrintable(message));
    QVERIFY(!written.error().hint.empty());
}

void TestFileOutput::readOnlyFolderIsSaid() {
    if (::geteuid() == 0) QSKIP("root may write to read-only folders");
    QTemporaryDir folder;
    QVERIFY(QFile::setPermissions(folder.path(), QFile::ReadOwner | QFile::ExeOwner));
    const auto written = write_file(folder.filePath("a.txt").toStdString(), "text");
    QFile::setPermissions(folder.path(), QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
    QVERIFY(!written);
    QVERIFY(written.error().message().find("Permission denied") != std::string::npos);
}

void TestFileOutput::resultsAreAllOrNothing() {
    RecordingWriter writer("t", 0);
    LaneInfo info;
    info.name = std::string(3000, 'n');  // makes summary.json longer than the limit
    writer.add_lane(info, nullptr);
    writer.lanes_complete();
    QTemporaryDir folder;
    const std::string results = folder.filePath("new/results").toStdString();
    {
        const FileSizeLimit limit(2000);
        const auto written = write_results(*writer.recording(), results, {});
        QVERIFY(!written);
        QVERIFY(written.error().message().find("summary.json") != std::string::npos);
    }
    QVERIFY(entries(folder.filePath("new/results")).isEmpty());
    QVERIFY(write_results(*writer.recording(), results, {}));
    QCOMPARE(entries(folder.filePath("new/results")),
             QStringList({"events.csv", "steps.csv", "summary.json", "trace.json"}));
    ResultOptions options;
    options.blocks = true;
    QVERIFY(write_results(*writer.recording(), results, options));
    QVERIFY(QFile::exists(folder.filePath("new/results/blocks.json")));
    // A file where the folder should be.
    const auto blocked = write_results(*writer.recording(), results + "/steps.csv", {});
    QVERIFY(!blocked);
    QVERIFY2(blocked.error().message().find("steps.csv cannot be written") != std::string::npos,
             blocked.error().message().c_str());
}

QTEST_GUILESS_MAIN(TestFileOutput)
#include "tst_file_output.moc"
