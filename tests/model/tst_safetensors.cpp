// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/mapped_file.h"
#include "engine/model/safetensors.h"
#include "tests/model/model_bytes.h"

#include <QDir>
#include <QFile>
#include <QStringList>
#include <QTest>

#include <cstring>
#include <vector>

using namespace kvloupe;

namespace {

const char* const two_tensors = R"({"b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]},)"
                                R"("a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                                R"("__metadata__":{"format":"pt"}})";

QString text_of(const Error& error) { return QString::fromStdString(error.message()); }

}  // namespace

class TestSafetensors : public QObject {
    Q_OBJECT

private slots:
    void tensorsComeInTheOrderOfTheData() {
        const std::string bytes = safetensors_bytes(two_tensors, 22);
        const Result<SafetensorsFile> file = parse_safetensors(as_bytes(bytes), "model.safetensors");
        QVERIFY2(file, file ? "" : file.error().message().c_str());
        QCOMPARE(file->tensors.size(), std::size_t{2});
        const std::uint64_t data = bytes.size() - 22;
        QCOMPARE(file->tensors[0].name, std::string("a"));
        QCOMPARE(file->tensors[0].offset, data);
        QCOMPARE(file->tensors[0].shape, (std::vector<std::uint64_t>{2, 2}));
        QCOMPARE(file->tensors[1].dtype, std::string("BF16"));
        QCOMPARE(file->tensors[1].offset, data + 16);
        QCOMPARE(file->tensors[1].bytes, std::uint64_t{6});
        QCOMPARE(file->metadata.at("format"), std::string("pt"));
        QVERIFY(file->tensor("b") == &file->tensors[1] && !file->tensor("c"));
    }

    void unusualButLegalFilesAreRead_data() {
        QTest::addColumn<QString>("header");
        QTest::addColumn<int>("data");
        QTest::addColumn<int>("tensors");
        QTest::newRow("no tensors") << "{}" << 0 << 0;
        QTest::newRow("padded with spaces") << "{}      " << 0 << 0;
        QTest::newRow("scalar") << R"({"s":{"dtype":"I64","shape":[],"data_offsets":[0,8]}})" << 8 << 1;
        QTest::newRow("empty tensor") << R"({"e":{"dtype":"F16","shape":[0,4],"data_offsets":[0,0]}})" << 0 << 1;
        QTest::newRow("empty before full")
            << R"({"f":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"e":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"
            << 2 << 2;
        QTest::newRow("four bits") << R"({"f":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})" << 2 << 1;
        QTest::newRow("more keys in a tensor")
            << R"({"f":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"comment":"x"}})" << 1 << 1;
    }
    void unusualButLegalFilesAreRead() {
        QFETCH(QString, header);
        QFETCH(int, data);
        QFETCH(int, tensors);
        const std::string bytes = safetensors_bytes(header.toStdString(), static_cast<std::size_t>(data));
        const Result<SafetensorsFile> file = parse_safetensors(as_bytes(bytes), "model.safetensors");
        QVERIFY2(file, file ? "" : file.error().message().c_str());
        QCOMPARE(static_cast<int>(file->tensors.size()), tensors);
    }

    // The widths of FORMATS 2.1: a tensor of 8 elements is accepted with exactly that many bytes.
    void everyDtypeHasItsWidth_data() {
        QTest::addColumn<int>("bits");
        const std::pair<int, QStringList> widths[] = {
            {8, {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}},
            {16, {"I16", "U16", "F16", "BF16"}},
            {32, {"I32", "U32", "F32"}},
            {64, {"I64", "U64", "F64", "C64"}},
            {4, {"F4"}},
            {6, {"F6_E2M3", "F6_E3M2"}}};
        for (const auto& width : widths)
            for (const QString& dtype : width.second) QTest::newRow(qPrintable(dtype)) << width.first;
    }
    void everyDtypeHasItsWidth() {
        QFETCH(int, bits);
        for (const int wrong : {0, 1}) {
            const QString header = QString(R"({"t":{"dtype":"%1","shape":[8],"data_offsets":[0,%2]}})")
                                       .arg(QTest::currentDataTag())
                                       .arg(bits + wrong);
            const std::string bytes = safetensors_bytes(header.toStdString(), static_cast<std::size_t>(bits + wrong));
            QCOMPARE(static_cast<bool>(parse_safetensors(as_bytes(bytes), "t")), wrong == 0);
        }
    }

    void everyTruncationIsRefusedWithItsFileName() {
        const std::string bytes = safetensors_bytes(two_tensors, 22);
        for (std::size_t length = 0; length < bytes.size(); ++length) {
            const std::vector<std::byte> cut(as_bytes(bytes).begin(), as_bytes(bytes).begin() + static_cast<long>(length));
            const Result<SafetensorsFile> file = parse_safetensors(cut, "cut.safetensors");
            QVERIFY2(!file, qPrintable(QString("%1 of %2 bytes were accepted").arg(length).arg(bytes.size())));
            QVERIFY(file.error().sentence.rfind("cut.safetensors: ", 0) == 0);
            QVERIFY(!file.error().hint.empty());
        }
    }

    void hostileHeadersAreRefusedByName_data() {
        QTest::addColumn<QByteArray>("header");
        QTest::addColumn<int>("data");
        QTest::addColumn<QStringList>("words");
        const auto row = [](const char* name, const QByteArray& header, int data, const QStringList& words) {
            QTest::newRow(name) << header << data << words;
        };
        row("not an object", "[]", 0, {"'{'"});
        row("space before the object", " {}", 0, {"'{'"});
        row("bad JSON", R"({"a":})", 0, {"JSON", "byte"});
        row("words after the object", "{} x", 0, {"JSON"});
        row("bad UTF-8", "{\"\xff\":{}}", 0, {"JSON"});
        row("duplicate tensor",
            R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
            {"'a'", "twice"});
        row("duplicate key in a tensor", R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
            {"'dtype'", "twice"});
        row("deep nesting", R"({"a":)" + QByteArray(100000, '[') + QByteArray(100000, ']') + "}", 0, {"64 levels"});
        row("tensor is a number", R"({"a":7})", 0, {"tensor 'a'", "the number 7"});
        row("no dtype", R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1, {"tensor 'a'", "'dtype'"});
        row("dtype is a number", R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", 1, {"tensor 'a'", "the number 1"});
        row("unknown dtype", R"({"a":{"dtype":"Q4_K","shape":[1],"data_offsets":[0,1]}})", 1, {"tensor 'a'", "'Q4_K'"});
        row("no shape", R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, {"tensor 'a'", "'shape'"});
        row("shape is text", R"({"a":{"dtype":"U8","shape":"1","data_offsets":[0,1]}})", 1, {"tensor 'a'", "'shape'"});
        row("negative shape", R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1, {"tensor 'a'", "-1"});
        row("fractional shape", R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", 1, {"tensor 'a'", "1.5"});
        row("shape beyond 64 bits", R"({"a":{"dtype":"U8","shape":[36893488147419103232],"data_offsets":[0,1]}})", 1,
            {"tensor 'a'", "'shape'"});
        row("product beyond 64 bits",
            R"({"a":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,1]}})", 1,
            {"tensor 'a'", "4,611,686,018,427,387,904"});
        row("no offsets", R"({"a":{"dtype":"U8","shape":[1]}})", 1, {"tensor 'a'", "'data_offsets'"});
        row("three offsets", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1, {"tensor 'a'", "3"});
        row("ends before it begins", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1, {"tensor 'a'", "[1, 0]"});
        row("hole at the start", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, {"tensor 'a'", "begin at 0"});
        row("hole",
            R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})", 3,
            {"tensor 'b'", "begin at 1"});
        row("overlap",
            R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3,
            {"tensor 'b'", "[1, 3]", "overlap"});
        row("bytes of another shape", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
            {"tensor 'a'", "8 bytes", "span 4"});
        row("half a byte", R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2, {"tensor 'a'", "12 bits"});
        row("data beyond the file", R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", 8, {"byte 9", "8 bytes"});
        row("data left over", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2, {"byte 1", "2 bytes"});
        row("metadata is a list", R"({"__metadata__":[]})", 0, {"__metadata__", "array"});
        row("metadata of numbers", R"({"__metadata__":{"n":1}})", 0, {"__metadata__", "'n'", "the number 1"});
    }
    void hostileHeadersAreRefusedByName() {
        QFETCH(QByteArray, header);
        QFETCH(int, data);
        QFETCH(QStringList, words);
        const std::string bytes = safetensors_bytes(header.toStdString(), static_cast<std::size_t>(data));
        const Result<SafetensorsFile> file = parse_safetensors(as_bytes(bytes), "hostile.safetensors");
        QVERIFY(!file);
        const QString message = text_of(file.error());
        QVERIFY2(message.startsWith("hostile.safetensors: ") && message.size() < 500, qPrintable(message));
        QVERIFY2(!file.error().hint.empty(), qPrintable(message));
        for (const QString& word : words) QVERIFY2(message.contains(word), qPrintable(message));
    }

    // FORMATS 2.1: the order in which the reference checks.
    void headerLengthsAreCheckedFirst() {
        const auto with_length = [](std::uint64_t length) {
            std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
            return bytes + "{}";
        };
        const std::string too_large = with_length(100'000'001);
        Result<SafetensorsFile> file = parse_safetensors(as_bytes(too_large), "t");
        QVERIFY(!file && text_of(file.error()).contains("100,000,001"));
        const std::string beyond = with_length(100'000'000);
        file = parse_safetensors(as_bytes(beyond), "t");
        QVERIFY(!file && text_of(file.error()).contains("only 10 bytes"));
        const std::string wrapping = with_length(~std::uint64_t{0});
        QVERIFY(!parse_safetensors(as_bytes(wrapping), "t"));
        const std::string empty = with_length(0);
        file = parse_safetensors(as_bytes(empty), "t");
        QVERIFY(!file && text_of(file.error()).contains("'{'"));
    }

    void publicFilesAreRead_data() {
        QTest::addColumn<int>("tensors");
        QTest::addColumn<QString>("dtype");
        QTest::newRow("burn_multi_layer") << 9 << "";
        QTest::newRow("djl_list") << 2 << "I8";
        QTest::newRow("tensor-1d-int32") << 1 << "I32";
        QTest::newRow("tensor-2d-float64") << 1 << "F64";
        QTest::newRow("tensor-3d-float32") << 1 << "F32";
        QTest::newRow("tensor-4d-float32") << 1 << "F32";
    }
    void publicFilesAreRead() {
        QFETCH(int, tensors);
        QFETCH(QString, dtype);
        const QString path = QString(KVLOUPE_SHARED_DATA "/safetensors/%1.safetensors").arg(QTest::currentDataTag());
        if (!QFile::exists(path)) QSKIP("The public safetensors files are not here, so none was read.");
        const auto mapped = MappedFile::open(path.toStdString());
        QVERIFY(mapped);
        const Result<SafetensorsFile> file = parse_safetensors((*mapped)->bytes(), path.toStdString());
        QVERIFY2(file, file ? "" : file.error().message().c_str());
        QCOMPARE(static_cast<int>(file->tensors.size()), tensors);
        for (const SafetensorsTensor& tensor : file->tensors)
            QVERIFY(dtype.isEmpty() || tensor.dtype == dtype.toStdString());
    }
};

QTEST_GUILESS_MAIN(TestSafetensors)
#include "tst_safetensors.moc"
