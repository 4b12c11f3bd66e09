// SPDX-License-Identifier: GPL-3.0-or-later
//
// The arrows of the layering, the size of files and the licence line, read from the sources themselves.
#include <QDir>
#include <QDirIterator>
#include <QFile>
#include <QMap>
#include <QRegularExpression>
#include <QTest>

namespace {

struct Source {
    QString path;  // from the repository's root
    QStringList lines;
    QStringList includes;  // as written, without quotes and brackets
};

QList<Source> sources(const QStringList& folders, const QStringList& suffixes) {
    static const QRegularExpression include(QStringLiteral("^\\s*#\\s*include\\s*[<\"]([^>\"]+)[>\"]"));
    const QDir root(QStringLiteral(KVLOUPE_SOURCE_DIR));
    QList<Source> found;
    for (const QString& folder : folders) {
        QDirIterator walk(root.filePath(folder), suffixes, QDir::Files, QDirIterator::Subdirectories);
        while (walk.hasNext()) {
            QFile file(walk.next());
            if (!file.open(QIODevice::ReadOnly)) continue;
            Source source;
            source.path = root.relativeFilePath(file.fileName());
            if (source.path.startsWith(QLatin1String("tests/models/"))) continue;
            source.lines = QString::fromUtf8(file.readAll()).split(QLatin1Char('\n'));
            for (const QString& line : source.lines) {
                const auto match = include.match(line);
                if (match.hasMatch()) source.includes << match.captured(1);
            }
            found << source;
        }
    }
    return found;
}

const QStringList cppFiles{QStringLiteral("*.h"), QStringLiteral("*.cpp"), QStringLiteral("*.cu"),
                           QStringLiteral("*.cuh")};

bool isQt(const QString& include) {
    static const QRegularExpression qt(QStringLiteral("^(Q[A-Z]|q[a-z]*\\.h$|qcustomplot|Qt[A-Z])"));
    return qt.match(include).hasMatch();
}

}  // namespace

class TestLayers : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void thereAreSourcesToCheck() {
        for (const char* folder : {"engine", "kernels", "views", "gui"})
            QVERIFY2(!sources({QString::fromLatin1(folder)}, cppFiles).isEmpty(), folder);
    }

    void arrowsHold_data() {
        QTest::addColumn<QString>("folder");
        QTest::addColumn<QStringList>("forbidden");  // prefixes of includes
        QTest::addColumn<bool>("qtAllowed");
        const QString engine = QStringLiteral("engine/");
        QTest::newRow("record stands alone")
            << "engine/record" << QStringList{"engine/model", "engine/cache", "engine/serve", "engine/analysis",
                                              "engine/backend.h", "kernels/", "views/", "gui/", "cuda"} << false;
        QTest::newRow("model sees record only")
            << "engine/model" << QStringList{"engine/cache", "engine/serve", "engine/analysis", "engine/backend.h",
                                             "kernels/", "views/", "gui/", "cuda"} << false;
        QTest::newRow("cache sees record only")
            << "engine/cache" << QStringList{"engine/serve", "engine/analysis", "engine/backend.h", "kernels/",
                                             "views/", "gui/", "cuda"} << false;
        QTest::newRow("serve never sees kernels")
            << "engine/serve" << QStringList{"kernels/", "views/", "gui/", "cuda"} << false;
        QTest::newRow("analysis is pure")
            << "engine/analysis" << QStringList{"engine/cache", "engine/serve", "engine/backend.h", "kernels/",
                                                "views/", "gui/", "cuda"} << false;
        QTest::newRow("kernels see the engine's interfaces")
            << "kernels" << QStringList{"engine/serve", "engine/cache", "views/", "gui/"} << false;
        QTest::newRow("cpu kernels see no cuda") << "kernels/cpu" << QStringList{"cuda", "kernels/cuda"} << false;
        QTest::newRow("views read records only")
            << "views" << QStringList{"engine/model", "engine/cache", "engine/serve", "engine/analysis",
                                      "engine/backend.h", "kernels/", "gui/", "cuda"} << true;
        QTest::newRow("nothing includes gui") << "engine" << QStringList{"gui/", "views/"} << false;
    }

    void arrowsHold() {
        QFETCH(QString, folder);
        QFETCH(QStringList, forbidden);
        QFETCH(bool, qtAllowed);
        for (const Source& source : sources({folder}, cppFiles)) {
            for (const QString& include : source.includes) {
                for (const QString& prefix : forbidden)
                    QVERIFY2(!include.startsWith(prefix), qPrintable(source.path + " includes " + include));
                if (!qtAllowed) QVERIFY2(!isQt(include), qPrintable(source.path + " includes Qt: " + include));
            }
        }
    }

    void noPictureIncludesAnother() {
        // What the factory makes is a picture; other *_view files are bases that pictures share.
        static const QRegularExpression name(QStringLiteral("^views/([a-z_]+_view)\\.(h|cpp)$"));
        QStringList pictures;
        for (const Source& source : sources({QStringLiteral("views")}, cppFiles)) {
            if (source.path != QLatin1String("views/view_factory.cpp")) continue;
            for (const QString& include : source.includes)
                if (const auto match = name.match(include); match.hasMatch()) pictures << match.captured(1);
        }
        QVERIFY(pictures.size() >= 13);
        for (const Source& source : sources({QStringLiteral("views")}, cppFiles)) {
            const auto own = name.match(source.path);
            if (!own.hasMatch() || !pictures.contains(own.captured(1))) continue;
            for (const QString& include : source.includes) {
                const auto other = name.match(include);
                if (other.hasMatch() && pictures.contains(other.captured(1)))
                    QVERIFY2(other.captured(1) == own.captured(1), qPrintable(source.path + " includes " + include));
            }
        }
    }

    void filesStayUnder400Lines() {
        QStringList suffixes = cppFiles;
        suffixes << "*.py" << "*.sh" << "CMakeLists.txt" << "*.cmake";
        for (const Source& source :
             sources({"engine", "kernels", "views", "gui", "tests", "resources"}, suffixes))
            QVERIFY2(source.lines.size() <= 401,
                     qPrintable(QStringLiteral("%1 has %2 lines").arg(source.path).arg(source.lines.size() - 1)));
    }

    // All share one namespace and one program: two classes of one name would be one to the linker.
    void everyClassNameIsDeclaredInOneHeader() {
        static const QRegularExpression declaration(QStringLiteral("^(?:struct|class) (\\w+)(?: final)?\\s*(?::[^:].*)?\\{"));
        QMap<QString, QString> headers;
        for (const Source& source : sources({"engine", "kernels", "views", "gui"}, {QStringLiteral("*.h")}))
            for (const QString& line : source.lines) {
                const auto match = declaration.match(line);
                if (!match.hasMatch()) continue;
                const QString name = match.captured(1), other = headers.value(name);
                QVERIFY2(other.isEmpty() || other == source.path,
                         qPrintable(QStringLiteral("%1 stands in %2 and in %3").arg(name, other, source.path)));
                headers.insert(name, source.path);
            }
        QVERIFY(headers.size() > 100);
    }

    void everySourceNamesItsLicence() {
        QStringList suffixes = cppFiles;
        suffixes << "*.py" << "*.sh" << "CMakeLists.txt" << "*.cmake";
        for (const Source& source :
             sources({"engine", "kernels", "views", "gui", "tests", "resources"}, suffixes))
            QVERIFY2(source.lines.mid(0, 3).join(QLatin1Char('\n')).contains(
                         QLatin1String("SPDX-License-Identifier: GPL-3.0-or-later")),
                     qPrintable(source.path));
    }

    void topLevelHoldsNothingElse() {
        const QStringList allowed{"CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "build",
                                  "engine", "gui", "kernels", "resources", "tests", "views",
                                  "CMakeUserPresets.json"};
        for (const QString& entry :
             QDir(QStringLiteral(KVLOUPE_SOURCE_DIR)).entryList(QDir::AllEntries | QDir::NoDotAndDotDot))
            QVERIFY2(allowed.contains(entry), qPrintable(entry));
    }
};

QTEST_GUILESS_MAIN(TestLayers)
#include "tst_layers.moc"
