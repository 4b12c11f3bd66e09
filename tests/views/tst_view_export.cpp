// SPDX-License-Identifier: GPL-3.0-or-later
#include <QObject>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "tests/support/demo_recording.h"
#include "views/view.h"
#include "views/view_factory.h"

#include <QFile>
#include <QPainter>
#include <QRegularExpression>
#include <QSet>
#include <QTemporaryDir>
#include <QTest>

#include <cstdlib>

using namespace kvloupe;

namespace {

// Fields of each record of an RFC 4180 text; an empty list where the text is malformed.
QList<QStringList> parseCsv(const QString& text) {
    QList<QStringList> records;
    QStringList record;
    QString field;
    bool quoted = false;
    for (qsizetype i = 0; i < text.size(); ++i) {
        const QChar c = text[i];
        if (quoted) {
            if (c != QLatin1Char('"')) field += c;
            else if (i + 1 < text.size() && text[i + 1] == QLatin1Char('"')) field += text[++i];
            else quoted = false;
        } else if (c == QLatin1Char('"')) {
            if (!field.isEmpty()) return {};
            quoted = true;
        } else if (c == QLatin1Char(',')) {
            record << std::exchange(field, {});
        } else if (c == QLatin1Char('\n')) {
            record << std::exchange(field, {});
            records << std::exchange(record, {});
        } else if (c != QLatin1Char('\r')) {
            field += c;
        }
    }
    return quoted || !field.isEmpty() || !record.isEmpty() ? QList<QStringList>{} : records;
}

}  // namespace

class TestViewExport : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral(".*"))); }
    void everyViewExports_data();
    void everyViewExports();
    void emptyRecordingGivesASentence_data() { everyViewExports_data(); }
    void emptyRecordingGivesASentence();
    void idsAreUniqueAndKnown();
    void unknownSuffixIsRefusedByName();
    void readOnlyFolderIsASentence();
    void hiddenViewCatchesUpForAnExport();
    void aLatePictureIsMarkedAsStale();

private:
    std::shared_ptr<const Recording> m_recording;
};

void TestViewExport::initTestCase() {
    DemoOptions options;
    options.steps = 60;
    m_recording = demo_recording(options);
}

void TestViewExport::everyViewExports_data() {
    QTest::addColumn<QString>("id");
    for (const ViewDescription& view : viewDescriptions()) QTest::newRow(qPrintable(view.id)) << view.id;
}

void TestViewExport::everyViewExports() {
    QFETCH(QString, id);
    Cursor cursor;
    cursor.setRecording(m_recording);
    cursor.setLane(LaneId(1));
    const auto view = createView(id, &cursor);
    QVERIFY(view);
    QCOMPARE(view->id(), id);
    view->resize(640, 360);
    QTemporaryDir folder;
    const struct { const char* suffix; const char* magic; } kinds[] = {{"png", "\x89PNG"}, {"svg", "<?xml"}, {"pdf", "%PDF"}, {"csv", ""}};
    for (const auto& kind : kinds) {
        const QString path = folder.filePath(id + QLatin1Char('.') + QLatin1String(kind.suffix));
        QCOMPARE(view->exportTo(path), QString());
        QFile file(path);
        QVERIFY(file.open(QIODevice::ReadOnly));
        const QByteArray bytes = file.readAll();
        QVERIFY2(bytes.size() > 20, kind.suffix);
        QVERIFY2(bytes.startsWith(kind.magic), kind.suffix);
    }
    const QList<QStringList> records = parseCsv(view->csv());
    QVERIFY2(!records.isEmpty(), "no RFC 4180 text");
    for (const QString& head : records.first()) QVERIFY(!head.isEmpty());
    for (const QStringList& record : records) QCOMPARE(record.size(), records.first().size());
    const QImage image = view->image(2);
    QCOMPARE(image.devicePixelRatio(), 2.0);
    QSet<QRgb> colours;
    for (int y = 60; y < image.height(); y += 3)
        for (int x = 0; x < image.width(); x += 3) colours.insert(image.pixel(x, y));
    QVERIFY2(colours.size() > 2, "nothing was drawn");
}

void TestViewExport::emptyRecordingGivesASentence() {
    QFETCH(QString, id);
    Cursor cursor;
    const auto view = createView(id, &cursor);
    view->resize(400, 240);
    view->show();
    QVERIFY(!view->csv().isEmpty());
    QVERIFY(!view->image().isNull());
    cursor.setRecording(demo_empty_recording());
    QVERIFY(!view->image().isNull());
    QVERIFY(!parseCsv(view->csv()).isEmpty());
    cursor.setRecording(nullptr);
    QVERIFY(!view->image().isNull());
}

void TestViewExport::idsAreUniqueAndKnown() {
    QSet<QString> seen;
    Cursor cursor;
    for (const ViewDescription& view : viewDescriptions()) {
        QVERIFY(!seen.contains(view.id));
        seen.insert(view.id);
        QVERIFY(!view.title.isEmpty());
        QCOMPARE(createView(view.id, &cursor)->title(), view.title);
    }
    for (const char* id : {"lanes", "requests", "inspector", "tokens", "pool", "attention", "next-token", "timeline", "events"})
        QVERIFY2(seen.contains(QLatin1String(id)), id);
    QVERIFY(!createView(QStringLiteral("nothing"), &cursor));
}

void TestViewExport::unknownSuffixIsRefusedByName() {
    Cursor cursor;
    const auto view = createView(QStringLiteral("pool"), &cursor);
    QTemporaryDir folder;
    const QString error = view->exportTo(folder.filePath(QStringLiteral("pool.gif")));
    QVERIFY(error.contains(QStringLiteral("gif")) && error.contains(QStringLiteral(".png")));
    QVERIFY(!QFile::exists(folder.filePath(QStringLiteral("pool.gif"))));
}

void TestViewExport::readOnlyFolderIsASentence() {
    Cursor cursor;
    const auto view = createView(QStringLiteral("pool"), &cursor);
    const QString error = view->exportTo(QStringLiteral("/nowhere/at/all/pool.csv"));
    QVERIFY(error.contains(QStringLiteral("/nowhere/at/all/pool.csv")));
}

void TestViewExport::hiddenViewCatchesUpForAnExport() {
    Cursor cursor;
    cursor.setRecording(m_recording);
    const auto view = createView(QStringLiteral("tokens"), &cursor);
    view->catchUp();
    const QString before = view->csv();
    cursor.setStep(3);
    QCOMPARE(view->csv(), before);  // hidden: nothing was computed
    view->catchUp();
    QVERIFY(view->csv() != before);
}

// While the recording grows, a view that waits for its next refresh shows an earlier step, and says so.
void TestViewExport::aLatePictureIsMarkedAsStale() {
    class Slow : public View {
    public:
        explicit Slow(Cursor* cursor) : View(QStringLiteral("slow"), QStringLiteral("Slow"), cursor) {}
        QString csv() const override { return {}; }
        void paintContent(QPainter& painter, const QRectF& area) override { painter.fillRect(area, Qt::black); }

    protected:
        void refresh() override { setSubtitle(QStringLiteral("now")); }
        int refreshInterval() const override { return 400; }
    };
    DemoOptions options;
    options.steps = 20;
    DemoSession session(options);
    session.step();
    session.set_phase(Phase::running);
    Cursor cursor;
    cursor.setRecording(session.recording());
    Slow view(&cursor);
    view.resize(100, 100);
    view.show();
    QVERIFY(!view.isStale());
    session.step();
    cursor.advanced();
    QVERIFY(view.isStale());
    QCOMPARE(view.headText(), QStringLiteral("computing step 1"));
    const QColor faded = view.grab().toImage().pixelColor(50, 50);
    const int panel = Palette::of(&view).panel.red();
    QVERIFY2(std::abs(faded.red() - qRound(panel * 0.4)) <= 2, qPrintable(QString::number(faded.red())));  // 60 % of black
    QTRY_VERIFY_WITH_TIMEOUT(!view.isStale(), 5000);
    QCOMPARE(view.headText(), QStringLiteral("now"));
}

QTEST_MAIN(TestViewExport)
#include "tst_view_export.moc"
