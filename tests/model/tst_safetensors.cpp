// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/mapped_file.h"
#include "engine/model/safetensors.h"
#include "tests/model/model_bytes.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"
#include "tests/support/texts.h"

#include <cstring>
#include <vector>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

const char* const two_tensors = R"({"b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]},)"
                                R"("a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                                R"("__metadata__":{"format":"pt"}})";

std::string text_of(const Error& error) { return error.message(); }

void tensorsComeInTheOrderOfTheData(Check& check) {
    const std::string bytes = safetensors_bytes(two_tensors, 22);
    const Result<SafetensorsFile> file = parse_safetensors(as_bytes(bytes), "model.safetensors");
    CHECK_RESULT(file);
    CHECK_EQUAL(file->tensors.size(), std::size_t{2});
    const std::uint64_t data = bytes.size() - 22;
    CHECK_EQUAL(file->tensors[0].name, "a");
    CHECK_EQUAL(file->tensors[0].offset, data);
    CHECK_EQUAL(file->tensors[0].shape, (std::vector<std::uint64_t>{2, 2}));
    CHECK_EQUAL(file->tensors[1].dtype, "BF16");
    CHECK_EQUAL(file->tensors[1].offset, data + 16);
    CHECK_EQUAL(file->tensors[1].bytes, std::uint64_t{6});
    CHECK_EQUAL(file->metadata.at("format"), "pt");
    CHECK_THAT(file->tensor("b") == &file->tensors[1] && !file->tensor("c"));
}

struct UnusualButLegalFilesAreReadCase {
    std::string header;
    int data, tensors;
};
Cases<UnusualButLegalFilesAreReadCase> unusualButLegalFilesAreRead_cases() {
    Cases<UnusualButLegalFilesAreReadCase> cases;
    cases.add("no tensors", {"{}", 0, 0});
    cases.add("padded with spaces", {"{}      ", 0, 0});
    cases.add("scalar", {R"({"s":{"dtype":"I64","shape":[],"data_offsets":[0,8]}})", 8, 1});
    cases.add("empty tensor", {R"({"e":{"dtype":"F16","shape":[0,4],"data_offsets":[0,0]}})", 0, 1});
    cases.add("empty before full",
              {R"({"f":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"e":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 2, 2});
    cases.add("four bits", {R"({"f":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})", 2, 1});
    cases.add("more keys in a tensor",
              {R"({"f":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"comment":"x"}})", 1, 1});
    return cases;
}
void unusualButLegalFilesAreRead(Check& check, const UnusualButLegalFilesAreReadCase& row) {
    const std::string bytes = safetensors_bytes(row.header, static_cast<std::size_t>(row.data));
    const Result<SafetensorsFile> file = parse_safetensors(as_bytes(bytes), "model.safetensors");
    CHECK_RESULT(file);
    CHECK_EQUAL(static_cast<int>(file->tensors.size()), row.tensors);
}

// The widths of FORMATS 2.1: a tensor of 8 elements is accepted with exactly that many bytes.
struct EveryDtypeHasItsWidthCase {
    std::string name;
    int bits;
};
Cases<EveryDtypeHasItsWidthCase> everyDtypeHasItsWidth_cases() {
    Cases<EveryDtypeHasItsWidthCase> cases;
    const std::pair<int, std::vector<std::string>> widths[] = {
        {8, {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}},
        {16, {"I16", "U16", "F16", "BF16"}},
        {32, {"I32", "U32", "F32"}},
        {64, {"I64", "U64", "F64", "C64"}},
        {4, {"F4"}},
        {6, {"F6_E2M3", "F6_E3M2"}}};
    for (const auto& width : widths)
        for (const std::string& dtype : width.second) cases.add(dtype, {dtype, width.first});
    return cases;
}
void everyDtypeHasItsWidth(Check& check, const EveryDtypeHasItsWidthCase& row) {
    for (const int wrong : {0, 1}) {
        const std::string header = printed(R"({"t":{"dtype":"%s","shape":[8],"data_offsets":[0,%d]}})", row.name.c_str(),
                                           row.bits + wrong);
        const std::string bytes = safetensors_bytes(header, static_cast<std::size_t>(row.bits + wrong));
        CHECK_EQUAL(static_cast<bool>(parse_safetensors(as_bytes(bytes), "t")), wrong == 0);
    }
}

void everyTruncationIsRefusedWithItsFileName(Check& check) {
    const std::string bytes = safetensors_bytes(two_tensors, 22);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        const std::vector<std::byte> cut(as_bytes(bytes).begin(), as_bytes(bytes).begin() + static_cast<long>(length));
        const Result<SafetensorsFile> file = parse_safetensors(cut, "cut.safetensors");
        CHECK_OR_SAY(!file, printed("%zu of %zu bytes were accepted", length, bytes.size()));
        CHECK_THAT(file.error().sentence.rfind("cut.safetensors: ", 0) == 0);
        CHECK_THAT(!file.error().hint.empty());
    }
}

struct HostileHeadersAreRefusedByNameCase {
    std::string header;
    int data;
    std::vector<std::string> words;
};
Cases<HostileHeadersAreRefusedByNameCase> hostileHeadersAreRefusedByName_cases() {
    Cases<HostileHeadersAreRefusedByNameCase> cases;
    const auto row = [&](const char* name, const std::string& header, int data, const std::vector<std::string>& words) {
        cases.add(name, {header, data, words});
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
    row("deep nesting", R"({"a":)" + std::string(100000, '[') + std::string(100000, ']') + "}", 0, {"64 levels"});
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
    return cases;
}
void hostileHeadersAreRefusedByName(Check& check, const HostileHeadersAreRefusedByNameCase& row) {
    const std::string bytes = safetensors_bytes(row.header, static_cast<std::size_t>(row.data));
    const Result<SafetensorsFile> file = parse_safetensors(as_bytes(bytes), "hostile.safetensors");
    CHECK_THAT(!file);
    const std::string message = text_of(file.error());
    CHECK_OR_SAY(message.starts_with("hostile.safetensors: ") && message.size() < 500, message);
    CHECK_OR_SAY(!file.error().hint.empty(), message);
    for (const std::string& word : row.words) CHECK_OR_SAY(contains(message, word), message);
}

// FORMATS 2.1: the order in which the reference checks.
void headerLengthsAreCheckedFirst(Check& check) {
    const auto with_length = [](std::uint64_t length) {
        std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
        return bytes + "{}";
    };
    const std::string too_large = with_length(100'000'001);
    Result<SafetensorsFile> file = parse_safetensors(as_bytes(too_large), "t");
    CHECK_THAT(!file && contains(text_of(file.error()), "100,000,001"));
    const std::string beyond = with_length(100'000'000);
    file = parse_safetensors(as_bytes(beyond), "t");
    CHECK_THAT(!file && contains(text_of(file.error()), "only 10 bytes"));
    const std::string wrapping = with_length(~std::uint64_t{0});
    CHECK_THAT(!parse_safetensors(as_bytes(wrapping), "t"));
    const std::string empty = with_length(0);
    file = parse_safetensors(as_bytes(empty), "t");
    CHECK_THAT(!file && contains(text_of(file.error()), "'{'"));
}

struct PublicFilesAreReadCase {
    std::string name;
    int tensors;
    std::string dtype;
};
Cases<PublicFilesAreReadCase> publicFilesAreRead_cases() {
    Cases<PublicFilesAreReadCase> cases;
    cases.add("burn_multi_layer", {"burn_multi_layer", 9, ""});
    cases.add("djl_list", {"djl_list", 2, "I8"});
    cases.add("tensor-1d-int32", {"tensor-1d-int32", 1, "I32"});
    cases.add("tensor-2d-float64", {"tensor-2d-float64", 1, "F64"});
    cases.add("tensor-3d-float32", {"tensor-3d-float32", 1, "F32"});
    cases.add("tensor-4d-float32", {"tensor-4d-float32", 1, "F32"});
    return cases;
}
void publicFilesAreRead(Check& check, const PublicFilesAreReadCase& row) {
    const std::string path = KVLOUPE_SHARED_DATA "/safetensors/" + row.name + ".safetensors";
    if (!file_exists(path)) SKIP_ROW("The public safetensors files are not here, so none was read.");
    const auto mapped = MappedFile::open(path);
    CHECK_THAT(mapped);
    const Result<SafetensorsFile> file = parse_safetensors((*mapped)->bytes(), path);
    CHECK_RESULT(file);
    CHECK_EQUAL(static_cast<int>(file->tensors.size()), row.tensors);
    for (const SafetensorsTensor& tensor : file->tensors)
        CHECK_THAT(row.dtype.empty() || tensor.dtype == row.dtype);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(tensorsComeInTheOrderOfTheData));
    claims.add(CLAIM(unusualButLegalFilesAreRead), unusualButLegalFilesAreRead_cases());
    claims.add(CLAIM(everyDtypeHasItsWidth), everyDtypeHasItsWidth_cases());
    claims.add(CLAIM(everyTruncationIsRefusedWithItsFileName));
    claims.add(CLAIM(hostileHeadersAreRefusedByName), hostileHeadersAreRefusedByName_cases());
    claims.add(CLAIM(headerLengthsAreCheckedFirst));
    claims.add(CLAIM(publicFilesAreRead), publicFilesAreRead_cases());
    return claims.rows();
}
