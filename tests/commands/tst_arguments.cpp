// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/arguments.h"

#include <QTest>

using namespace kvloupe;

class TestArguments : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void wordsFlagsAndOptionsAreTakenApart() {
        const auto parsed = Arguments::parse({"model.gguf", "--json", "--text", "--not an option", "--file=x"}, spec());
        QVERIFY(parsed);
        QCOMPARE(parsed->words(), (std::vector<std::string>{"model.gguf"}));
        QVERIFY(parsed->has("--json"));
        QVERIFY(!parsed->has("--special"));
        QCOMPARE(*parsed->value("--text"), std::string("--not an option"));
        QCOMPARE(*parsed->value("--file"), std::string("x"));
    }

    void whatFollowsTwoDashesIsAWord() {
        const auto parsed = Arguments::parse({"--", "--json"}, spec());
        QVERIFY(parsed);
        QCOMPARE(parsed->words(), (std::vector<std::string>{"--json"}));
    }

    void wrongUsageIsNamed_data() {
        QTest::addColumn<QStringList>("words");
        QTest::addColumn<QString>("named");
        QTest::newRow("unknown option") << QStringList{"m", "--jsno"} << "'--jsno'";
        QTest::newRow("value missing") << QStringList{"m", "--text"} << "'--text' needs a value";
        QTest::newRow("flag with a value") << QStringList{"m", "--json=1"} << "'--json' takes no value";
        QTest::newRow("twice") << QStringList{"m", "--text", "a", "--text", "b"} << "twice";
        QTest::newRow("too few") << QStringList{} << "missing";
        QTest::newRow("too many") << QStringList{"m", "n"} << "'n'";
    }

    void wrongUsageIsNamed() {
        QFETCH(QStringList, words);
        QFETCH(QString, named);
        std::vector<std::string> list;
        for (const QString& word : words) list.push_back(word.toStdString());
        const auto parsed = Arguments::parse(list, spec());
        QVERIFY(!parsed);
        const QString message = QString::fromStdString(parsed.error().message());
        QVERIFY2(message.contains(named), qPrintable(message));
        QVERIFY2(message.contains(QLatin1String("Usage: ")), qPrintable(message));
    }

    void numbersAreBounded_data() {
        QTest::addColumn<QString>("text");
        QTest::addColumn<bool>("good");
        for (const char* good : {"1", "8", "64"}) QTest::newRow(good) << QString::fromLatin1(good) << true;
        for (const char* bad : {"0", "65", "-1", "4x", "", "99999999999999999999"})
            QTest::newRow(*bad ? bad : "empty") << QString::fromLatin1(bad) << false;
    }

    void numbersAreBounded() {
        QFETCH(QString, text);
        QFETCH(bool, good);
        const auto parsed = Arguments::parse({"m", "--text", text.toStdString()}, spec());
        QVERIFY(parsed);
        const auto number = parsed->number("--text", 3, 1, 64);
        QCOMPARE(static_cast<bool>(number), good);
        if (good) QCOMPARE(*number, text.toUInt());
        QCOMPARE(*parsed->number("--file", 3, 1, 64), 3u);
    }

private:
    static ArgumentSpec spec() {
        return {{"--json", "--special"}, {"--text", "--file"}, 1, 1, "kvloupe tokenize MODEL (--text T | --file F)"};
    }
};

QTEST_GUILESS_MAIN(TestArguments)
#include "tst_arguments.moc"
