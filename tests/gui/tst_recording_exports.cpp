// SPDX-License-Identifier: GPL-3.0-or-later
//
// Menu File's exports of what is open: a picture sequence with cancel, a report, a trace; and memory snapshots in the window.
#include "gui/recording_exports.h"
#include "tests/gui/window_fixture.h"
#include "views/view.h"

#include <QAction>
#include <QDir>
#include <QFile>
#include <QImage>
#include <QMenu>
#include <QMenuBar>
#include <QTemporaryDir>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

const QString fixtures = QStringLiteral(KVLOUPE_SOURCE_DIR "/tests/fixtures/");

void openFile(MainWindow& window, const QString& path) {
    QSignalSpy changed(window.controller(), &SessionController::sessionChanged);
    window.controller()->openPath(path);
    if (!changed.wait(60000) || !window.controller()->hasFile()) throw std::runtime_error("it did not open: " + window.notice().toStdString());
}

QString end_of(MainWindow& window, const std::function<void()>& begin) {
    QSignalSpy ended(window.exports(), &RecordingExports::ended);
    begin();
    if (ended.isEmpty() && !ended.wait(60000)) throw std::runtime_error("the export did not end");
    return ended.first().first().toString();
}

QAction* entry(const MainWindow& window, const QString& text) {
    for (const QAction* menu : window.menuBar()->actions())
        for (QAction* action : menu->menu()->actions())
            if (action->text().remove(QLatin1Char('&')) == text) return action;
    return nullptr;
}

}  // namespace

class TestRecordingExports : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { keepSettingsIn(m_folder.path(), QStringLiteral("exports")); }
    void init() { startAfresh(); }

    void theMenuOffersThemOnceSomethingIsOpen() {
        MainWindow window;
        for (const char* text : {"Export picture sequence…", "Export report…", "Export trace…"}) {
            QVERIFY2(entry(window, QString::fromUtf8(text)), text);
            QVERIFY(!entry(window, QString::fromUtf8(text))->isEnabled());
        }
        openFile(window, fixtures + "recordings/small-1.kvt");
        for (const char* text : {"Export picture sequence…", "Export report…", "Export trace…"})
            QVERIFY(entry(window, QString::fromUtf8(text))->isEnabled());
    }

    void aSequenceIsWrittenAndCanBeCancelled() {
        MainWindow window;
        openFile(window, fixtures + "recordings/small-1.kvt");
        PictureSequence sequence;
        sequence.view = QStringLiteral("pool");
        sequence.first = 2;
        sequence.last = 12;
        sequence.size = QSize(320, 200);
        sequence.scale = 1;
        sequence.folder = m_folder.filePath("whole");
        const int before = window.controller()->cursor()->step();
        const QString whole = end_of(window, [&] { window.exports()->writePictures(sequence); });
        QVERIFY2(whole.contains(sequence.folder), qPrintable(whole));
        QCOMPARE(QDir(sequence.folder).entryList(QDir::Files).size(), 11);
        QVERIFY(QImage(sequence.folder + "/pool-02.png").width() == 320);
        QVERIFY(QImage(sequence.folder + "/pool-02.png") != QImage(sequence.folder + "/pool-12.png"));
        QCOMPARE(window.controller()->cursor()->step(), before);  // the window's own views did not move
        sequence.folder = m_folder.filePath("cancelled");
        const QString cancelled = end_of(window, [&] {
            window.exports()->writePictures(sequence);
            QTimer::singleShot(0, window.exports(), &RecordingExports::cancelPictures);
        });
        QVERIFY2(cancelled.startsWith(QLatin1String("Cancelled")), qPrintable(cancelled));
        QVERIFY(QDir(sequence.folder).entryList(QDir::Files).size() < 11);
    }

    void reportAndTraceAreWritten() {
        MainWindow window;
        openFile(window, fixtures + "recordings/small-1.kvt");
        const QString report = m_folder.filePath("report.html"), trace = m_folder.filePath("trace.json");
        QVERIFY(end_of(window, [&] { window.exports()->writeReport(report); }).contains(report));
        QVERIFY(end_of(window, [&] { window.exports()->writeTrace(trace); }).contains(trace));
        QVERIFY(QFile(report).size() > 10000 && QFile(trace).size() > 10000);
        QVERIFY(end_of(window, [&] { window.exports()->writeTrace(QStringLiteral("/nowhere/trace.json")); }).contains(QLatin1String("/nowhere")));
    }

    void aMemorySnapshotOpensInTheWindow() {
        MainWindow window;
        openFile(window, fixtures + "snapshots/protocol4.pickle");
        const auto recording = window.controller()->recording();
        QCOMPARE(recording->lanes()[0]->info().name, std::string("cuda:0"));
        for (View* view : window.views()) {
            if (view->id() != QLatin1String("history") && view->id() != QLatin1String("split") && view->id() != QLatin1String("free-runs")) continue;
            view->catchUp();
            QVERIFY2(view->emptyReason().isEmpty(), qPrintable(view->id() + ": " + view->emptyReason()));
        }
        QSignalSpy failed(window.controller(), &SessionController::failed);
        window.controller()->openPath(fixtures + "snapshots/code.pickle");
        QVERIFY(failed.wait(60000));
        QVERIFY(failed.first().first().toString().contains(QLatin1String("GLOBAL")));
        QVERIFY(window.controller()->recording() == recording);  // what was open stays
    }

private:
    QTemporaryDir m_folder;
};

QTEST_MAIN(TestRecordingExports)
#include "tst_recording_exports.moc"
