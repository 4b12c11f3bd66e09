// SPDX-License-Identifier: GPL-3.0-or-later
//
// Runs the rows of a test program as one data-driven Qt Test function: NAME [row:THE ROW'S NAME]. KVLOUPE_EVERY_NTH_ROW=3 leaves two
// of three out and says so.
#include "tests/support/rows.h"

#include <QRegularExpression>
#include <QTest>

#include <exception>
#include <string>

using namespace kvloupe::test;

class TestRows : public QObject {
    Q_OBJECT

    const std::vector<Row> m_rows = rows();

private Q_SLOTS:
    void initTestCase() {
        QTest::failOnWarning(QRegularExpression(QStringLiteral(".*")));
        QVERIFY2(!m_rows.empty(), "the program has no rows");
    }
    void row_data() {
        QTest::addColumn<qulonglong>("index");
        bool given = false;
        const int nth = qEnvironmentVariableIntValue("KVLOUPE_EVERY_NTH_ROW", &given);
        const std::size_t step = given && nth > 1 ? static_cast<std::size_t>(nth) : 1;
        if (step > 1) qInfo("Every %d. row of %zu", nth, m_rows.size());
        for (std::size_t i = 0; i < m_rows.size(); i += step) QTest::newRow(m_rows[i].name.c_str()) << qulonglong(i);
    }
    void row() {
        QFETCH(qulonglong, index);
        Check check;
        try {
            m_rows[index].run(check);
        } catch (const std::exception& problem) {
            check.fail(std::string("an exception: ") + problem.what(), __FILE__, __LINE__);
        }
        for (const std::string& note : check.notes()) qInfo("%s", note.c_str());
        if (!check.good()) QFAIL(check.failure().c_str());
        if (!check.skipped().empty()) QSKIP(check.skipped().c_str());
    }
};

QTEST_GUILESS_MAIN(TestRows)
#include "qt_rows_main.moc"
