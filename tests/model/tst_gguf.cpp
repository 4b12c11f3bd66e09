// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/gguf.h"
#include "engine/model/mapped_file.h"
#include "tests/model/model_bytes.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"
#include "tests/support/texts.h"

#include <functional>
#include <vector>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr std::uint64_t huge = std::uint64_t{1} << 62;

// Two tensors after three keys; the last byte of the file belongs to the last tensor.
std::string small_file() {
    GgufBytes file;
    file.header(2, 3).string("general.architecture", "llama").u32("llama.block_count", 1);
    file.key("tokenizer.ggml.tokens", 9).put<std::uint32_t>(8).put<std::uint64_t>(2).text("a").text("bc");
    file.tensor("token_embd.weight", {32, 2}, 8, 0).tensor("output_norm.weight", {3}, 0, 96).pad();
    return file.zeros(96 + 12).out;
}

// One hostile file, and words that its error must name.
struct Hostile {
    const char* name;
    std::function<void(GgufBytes&)> build;
    std::vector<std::string> words;
};

std::vector<Hostile> hostile_files() {
    using B = GgufBytes;
    return {
        {"nothing", [](B&) {}, {"GGUF header"}},
        {"another format", [](B& b) { b.out = "PK\3\4aaaaaaaaaaaaaaaaaaaaaaaaaaa"; }, {"'PK\\x03\\x04'", "'GGUF'"}},
        {"version 1", [](B& b) { b.header(0, 0, 1); }, {"version 1", "2 and 3"}},
        {"version 0", [](B& b) { b.header(0, 0, 0); }, {"version 0"}},
        {"version 4", [](B& b) { b.header(0, 0, 4); }, {"version 4"}},
        {"big-endian", [](B& b) { b.header(0, 0, 0x03000000); }, {"big-endian", "50331648"}},
        {"tensors beyond the file", [](B& b) { b.header(huge, 0); }, {"4,611,686,018,427,387,904 tensors"}},
        {"keys beyond the file", [](B& b) { b.header(0, huge); }, {"4,611,686,018,427,387,904 metadata keys"}},
        {"key length", [](B& b) { b.header(0, 1).put<std::uint64_t>(1 << 20).zeros(100); },
         {"metadata key 1 of 1", "1,048,576 bytes"}},
        {"key of 65,536 bytes", [](B& b) { b.header(0, 1).u32(std::string(65536, 'k'), 1); }, {"65,536", "65,535"}},
        {"empty key", [](B& b) { b.header(0, 1).u32("", 1); }, {"metadata key 1", "0 bytes"}},
        {"value type 13", [](B& b) { b.header(0, 1).key("a.b", 13).zeros(8); }, {"key 'a.b'", "value type 13"}},
        {"string length", [](B& b) { b.header(0, 1).key("a.b", 8).put(huge).zeros(8); },
         {"key 'a.b'", "4,611,686,018,427,387,904 bytes"}},
        {"bool of 2", [](B& b) { b.header(0, 1).key("a.b", 7).put<std::uint8_t>(2); }, {"key 'a.b'", "value 2"}},
        {"array element type", [](B& b) { b.header(0, 1).key("a.b", 9).put<std::uint32_t>(99).put(huge); },
         {"key 'a.b'", "value type 99"}},
        {"array count", [](B& b) { b.header(0, 1).key("a.b", 9).put<std::uint32_t>(0).put(huge); },
         {"key 'a.b'", "4,611,686,018,427,387,904 elements of type u8"}},
        {"array of strings count", [](B& b) { b.header(0, 1).key("a.b", 9).put<std::uint32_t>(8).put<std::uint64_t>(2).zeros(15); },
         {"key 'a.b'", "2 elements of type string"}},
        {"bool array", [](B& b) { b.header(0, 1).key("a.b", 9).put<std::uint32_t>(7).put<std::uint64_t>(1).put<char>(9); },
         {"key 'a.b'", "value 9"}},
        {"nested too deep",
         [](B& b) {
             b.header(0, 1).key("a.b", 9);
             for (int i = 0; i < 40; ++i) b.put<std::uint32_t>(9).put<std::uint64_t>(1);
         },
         {"key 'a.b'", "4 deep"}},
        {"key twice", [](B& b) { b.header(0, 2).u32("a.b", 1).u32("a.b", 2); }, {"key 'a.b'", "twice"}},
        {"alignment of 0", [](B& b) { b.header(0, 1).u32("general.alignment", 0); }, {"general.alignment", "is 0"}},
        {"alignment of 12", [](B& b) { b.header(0, 1).u32("general.alignment", 12); }, {"general.alignment", "is 12"}},
        {"alignment of 2^31", [](B& b) { b.header(0, 1).u32("general.alignment", 1u << 31); },
         {"general.alignment", "2,147,483,648"}},
        {"alignment as text", [](B& b) { b.header(0, 1).string("general.alignment", "32"); },
         {"general.alignment", "the string '32'"}},
        {"tensor name of 65 bytes", [](B& b) { b.header(1, 0).tensor(std::string(65, 'n'), {1}, 0, 0).pad().zeros(4); },
         {"tensor 1 of 1", "65 bytes"}},
        {"no dimensions", [](B& b) { b.header(1, 0).tensor("w", {}, 0, 0).pad().zeros(32); }, {"tensor 'w'", "0 dimensions"}},
        {"five dimensions", [](B& b) { b.header(1, 0).tensor("w", {1, 1, 1, 1, 1}, 0, 0).pad().zeros(4); },
         {"tensor 'w'", "5 dimensions"}},
        {"2^32 - 1 dimensions", [](B& b) { b.header(1, 0).text("w").put<std::uint32_t>(0xFFFFFFFF).zeros(64); },
         {"tensor 'w'", "4,294,967,295 dimensions"}},
        {"dimension of 0", [](B& b) { b.header(1, 0).tensor("w", {4, 0}, 0, 0).pad().zeros(4); },
         {"tensor 'w'", "dimension of 0"}},
        {"elements overflow", [](B& b) { b.header(1, 0).tensor("w", {huge, 8}, 0, 0).pad().zeros(4); },
         {"tensor 'w'", "elements"}},
        {"bytes overflow", [](B& b) { b.header(1, 0).tensor("w", {huge}, 0, 0).pad().zeros(4); }, {"tensor 'w'", "bytes"}},
        {"type 77", [](B& b) { b.header(1, 0).tensor("w", {4}, 77, 0).pad().zeros(16); }, {"tensor 'w'", "type 77"}},
        {"removed type 4", [](B& b) { b.header(1, 0).tensor("w", {32}, 4, 0).pad().zeros(64); }, {"tensor 'w'", "type 4"}},
        {"row of 31 in Q8_0", [](B& b) { b.header(1, 0).tensor("w", {31, 32}, 8, 0).pad().zeros(9999); },
         {"tensor 'w'", "31", "32", "Q8_0"}},
        {"offset between alignments", [](B& b) { b.header(1, 0).tensor("w", {4}, 0, 16).pad().zeros(64); },
         {"tensor 'w'", "offset 16", "32"}},
        {"offset beyond the file", [](B& b) { b.header(1, 0).tensor("w", {4}, 0, huge).pad().zeros(64); },
         {"tensor 'w'", "4,611,686,018,427,387,904", "beyond the end"}},
        {"offset that wraps", [](B& b) { b.header(1, 0).tensor("w", {4}, 0, ~std::uint64_t{31}).pad().zeros(64); },
         {"tensor 'w'", "beyond the end"}},
        {"one byte short", [](B& b) { b.header(1, 0).tensor("w", {4}, 0, 0).pad().zeros(15); },
         {"tensor 'w'", "16 bytes", "beyond the end"}},
        {"no data section", [](B& b) { b.header(1, 0).tensor("w", {4}, 0, 0); }, {"tensor 'w'", "beyond the end"}},
        {"overlap", [](B& b) { b.header(2, 0).tensor("v", {16}, 0, 0).tensor("w", {16}, 0, 32).pad().zeros(96); },
         {"'v'", "'w'", "overlap"}},
        {"same place", [](B& b) { b.header(2, 0).tensor("w", {4}, 0, 0).tensor("v", {1}, 0, 0).pad().zeros(96); },
         {"'v'", "'w'", "overlap"}},
        {"one inside another",
         [](B& b) {
             b.header(3, 0).tensor("a", {64}, 0, 0).tensor("b", {4}, 0, 32).tensor("c", {4}, 0, 256).pad().zeros(272);
         },
         {"'a'", "'b'", "overlap"}},
        {"tensor twice", [](B& b) { b.header(2, 0).tensor("w", {4}, 0, 0).tensor("w", {4}, 0, 32).pad().zeros(64); },
         {"tensor 'w'", "twice"}},
        {"name with control characters", [](B& b) { b.header(1, 0).tensor("w\x1b[2J\n", {4}, 77, 0).pad().zeros(64); },
         {"'w\\x1B[2J\\x0A'"}},
    };
}

void everyScalarTypeIsReadAndWidened(Check& check) {
    GgufBytes b;
    b.header(0, 12);
    b.key("u8", 0).put<std::uint8_t>(200).key("i8", 1).put<std::int8_t>(-100);
    b.key("u16", 2).put<std::uint16_t>(60000).key("i16", 3).put<std::int16_t>(-30000);
    b.key("u32", 4).put<std::uint32_t>(4000000000u).key("i32", 5).put<std::int32_t>(5);
    b.key("f32", 6).put(1.5f).key("bool", 7).put<std::uint8_t>(1).string("text", "words");
    b.key("u64", 10).put(~std::uint64_t{0}).key("i64", 11).put<std::int64_t>(-1).key("f64", 12).put(0.1);
    const Result<GgufFile> file = parse_gguf(as_bytes(b.out), "small.gguf");
    CHECK_RESULT(file);
    CHECK_EQUAL(file->unsigned_integer("u8").value_or(0), std::uint64_t{200});
    CHECK_EQUAL(file->number("i8").value_or(0), -100.0);
    CHECK_THAT(!file->unsigned_integer("i8"));
    CHECK_EQUAL(file->unsigned_integer("u16").value_or(0), std::uint64_t{60000});
    CHECK_EQUAL(file->number("i16").value_or(0), -30000.0);
    CHECK_EQUAL(file->unsigned_integer("u32").value_or(0), std::uint64_t{4000000000u});
    CHECK_EQUAL(file->unsigned_integer("i32").value_or(0), std::uint64_t{5});
    CHECK_EQUAL(file->number("f32").value_or(0), 1.5);
    CHECK_EQUAL(file->boolean("bool").value_or(false), true);
    CHECK_THAT(file->string("text") && *file->string("text") == "words");
    CHECK_EQUAL(file->unsigned_integer("u64").value_or(0), ~std::uint64_t{0});
    CHECK_THAT(!file->unsigned_integer("i64"));
    CHECK_EQUAL(file->number("f64").value_or(0), 0.1);
    CHECK_THAT(!file->string("u8") && !file->boolean("u8") && !file->array("u8") && !file->number("text"));
    CHECK_THAT(!file->string("absent") && !file->number("absent"));
}

void arraysAreReadAlsoNestedOnes(Check& check) {
    GgufBytes b;
    b.header(0, 3);
    b.key("strings", 9).put<std::uint32_t>(8).put<std::uint64_t>(2).text("one").text("");
    b.key("floats", 9).put<std::uint32_t>(6).put<std::uint64_t>(2).put(-1.5f).put(2.0f);
    b.key("nested", 9).put<std::uint32_t>(9).put<std::uint64_t>(2);
    b.put<std::uint32_t>(5).put<std::uint64_t>(1).put<std::int32_t>(-7).put<std::uint32_t>(0).put<std::uint64_t>(0);
    const Result<GgufFile> file = parse_gguf(as_bytes(b.out), "small.gguf");
    CHECK_RESULT(file);
    const GgufArray* const strings = file->array("strings");
    CHECK_THAT(strings && strings->strings.size() == 2 && strings->strings[0] == "one" && strings->strings[1].empty());
    const GgufArray* const floats = file->array("floats");
    CHECK_THAT(floats && floats->numbers == (std::vector<double>{-1.5, 2.0}));
    const GgufArray* const nested = file->array("nested");
    CHECK_THAT(nested && nested->arrays.size() == 2 && nested->arrays[0].numbers == std::vector<double>{-7.0});
    CHECK_EQUAL(nested->arrays[1].size(), std::size_t{0});
}

void tensorsAreFoundWhereTheyLie(Check& check) {
    const std::string bytes = small_file();
    const Result<GgufFile> file = parse_gguf(as_bytes(bytes), "small.gguf");
    CHECK_RESULT(file);
    CHECK_EQUAL(file->version, 3u);
    CHECK_EQUAL(file->tensors.size(), std::size_t{2});
    const GgufTensor* const embedding = file->tensor("token_embd.weight");
    CHECK_THAT(embedding);
    CHECK_EQUAL(embedding->dims, (std::vector<std::uint64_t>{32, 2}));
    CHECK_EQUAL(embedding->bytes, std::uint64_t{68});  // two rows of one Q8_0 block
    CHECK_EQUAL(row_count(*embedding), std::uint64_t{2});
    CHECK_EQUAL(file->data_offset % 32, std::uint64_t{0});
    CHECK_EQUAL(embedding->offset, file->data_offset);
    const GgufTensor* const norm = file->tensor("output_norm.weight");
    CHECK_THAT(norm && norm->offset == file->data_offset + 96 && norm->bytes == 12);
    CHECK_EQUAL(norm->offset + norm->bytes, std::uint64_t{bytes.size()});
    CHECK_THAT(!file->tensor("absent"));
}

void versionTwoReadsLikeThree(Check& check) {
    std::string bytes = small_file();
    bytes[4] = 2;
    const Result<GgufFile> file = parse_gguf(as_bytes(bytes), "small.gguf");
    CHECK_THAT(file && file->version == 2 && file->tensors.size() == 2);
}

void alignmentOfTheFileIsFollowed(Check& check) {
    GgufBytes b;
    b.header(2, 1).u32("general.alignment", 64).tensor("v", {1}, 0, 0).tensor("w", {1}, 0, 64).pad(64).zeros(68);
    const Result<GgufFile> file = parse_gguf(as_bytes(b.out), "small.gguf");
    CHECK_RESULT(file);
    CHECK_EQUAL(file->alignment, std::uint64_t{64});
    CHECK_EQUAL(file->data_offset % 64, std::uint64_t{0});
    CHECK_EQUAL(file->tensor("w")->offset, file->data_offset + 64);
}

void everyTruncationIsRefusedWithItsFileName(Check& check) {
    const std::string bytes = small_file();
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        // A copy, so that a read past the end is an error that AddressSanitizer sees.
        const std::vector<std::byte> cut(as_bytes(bytes).begin(), as_bytes(bytes).begin() + static_cast<long>(length));
        const Result<GgufFile> file = parse_gguf(cut, "cut.gguf");
        CHECK_OR_SAY(!file, printed("%zu of %zu bytes were accepted", length, bytes.size()));
        CHECK_THAT(file.error().sentence.rfind("cut.gguf: ", 0) == 0);
        CHECK_THAT(!file.error().hint.empty());
    }
}

// Whatever one byte becomes, the reader answers, and what it accepts lies within the file.
void everyFlippedByteIsAnswered(Check& check) {
    const std::string good = small_file();
    for (std::size_t at = 0; at < good.size(); ++at)
        for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
            std::string bytes = good;
            bytes[at] = static_cast<char>(value);
            const Result<GgufFile> file = parse_gguf(as_bytes(bytes), "flipped.gguf");
            if (!file) continue;
            for (const GgufTensor& tensor : file->tensors)
                CHECK_THAT(tensor.offset <= bytes.size() && tensor.bytes <= bytes.size() - tensor.offset);
        }
}

Cases<int> hostileFilesAreRefusedByName_cases() {
    Cases<int> cases;
    const std::vector<Hostile> files = hostile_files();
    for (std::size_t i = 0; i < files.size(); ++i) cases.add(files[i].name, static_cast<int>(i));
    return cases;
}
void hostileFilesAreRefusedByName(Check& check, int index) {
    const Hostile hostile = hostile_files()[static_cast<std::size_t>(index)];
    GgufBytes b;
    hostile.build(b);
    const Result<GgufFile> file = parse_gguf(as_bytes(b.out), "hostile.gguf");
    CHECK_THAT(!file);
    const std::string message = file.error().message();
    CHECK_OR_SAY(message.starts_with("hostile.gguf: "), message);
    CHECK_OR_SAY(!file.error().hint.empty(), message);
    for (const std::string& word : hostile.words) CHECK_OR_SAY(contains(message, word), message);
}

void typesAreNamedAlsoWhenTheyAreNotBuilt(Check& check) {
    CHECK_EQUAL(ggml_type_name(12), "Q4_K");
    CHECK_EQUAL(ggml_type_name(77), "type 77");
    CHECK_THAT(dtype_from_ggml(12) == DType::q4_k && dtype_from_ggml(6) == DType::q5_0 && dtype_from_ggml(7) == DType::q5_1);
    CHECK_THAT(dtype_from_ggml(13) == DType::q5_k && dtype_from_ggml(14) == DType::q6_k && !dtype_from_ggml(10));
    const std::pair<std::uint32_t, DType> built[] = {{0, DType::f32},  {1, DType::f16},  {30, DType::bf16},
                                                     {8, DType::q8_0}, {2, DType::q4_0}, {3, DType::q4_1}};
    for (const auto& entry : built) {
        CHECK_THAT(dtype_from_ggml(entry.first) == entry.second);
        CHECK_EQUAL(lower_case(ggml_type_name(entry.first)), name_of(entry.second));
    }
}

void storiesModelIsRead(Check& check) {
    const std::string path = KVLOUPE_SHARED_DATA "/models/stories260K.gguf";
    if (!file_exists(path)) SKIP_ROW("The public model stories260K.gguf is not here, so it was not read.");
    const auto mapped = MappedFile::open(path);
    CHECK_THAT(mapped);
    const Result<GgufFile> file = parse_gguf((*mapped)->bytes(), path);
    CHECK_RESULT(file);
    CHECK_EQUAL(file->tensors.size(), std::size_t{48});
    CHECK_EQUAL(file->unsigned_integer("llama.embedding_length").value_or(0), std::uint64_t{64});
    const GgufArray* const tokens = file->array("tokenizer.ggml.tokens");
    CHECK_THAT(tokens && tokens->strings.size() == 512 && tokens->strings[1] == "<s>");
    CHECK_EQUAL(file->tensor("blk.4.ffn_norm.weight")->offset - file->data_offset, std::uint64_t{1170944});
}

struct VocabularyFilesWithoutTensorsAreReadCase {
    std::string name;
    std::uint64_t tokens;
};
Cases<VocabularyFilesWithoutTensorsAreReadCase> vocabularyFilesWithoutTensorsAreRead_cases() {
    Cases<VocabularyFilesWithoutTensorsAreReadCase> cases;
    cases.add("gpt-2", {"ggml-vocab-gpt-2.gguf", std::uint64_t{50257}});
    cases.add("llama-spm", {"ggml-vocab-llama-spm.gguf", std::uint64_t{32000}});
    cases.add("phi-3", {"ggml-vocab-phi-3.gguf", std::uint64_t{32064}});
    cases.add("starcoder", {"ggml-vocab-starcoder.gguf", std::uint64_t{49152}});
    return cases;
}
void vocabularyFilesWithoutTensorsAreRead(Check& check, const VocabularyFilesWithoutTensorsAreReadCase& row) {
    const std::string path = KVLOUPE_SHARED_DATA "/tokenizers/" + row.name;
    if (!file_exists(path)) SKIP_ROW("The public vocabularies are not here, so none was read.");
    const auto mapped = MappedFile::open(path);
    CHECK_THAT(mapped);
    const Result<GgufFile> file = parse_gguf((*mapped)->bytes(), path);
    CHECK_RESULT(file);
    CHECK_THAT(file->tensors.empty());
    CHECK_EQUAL(std::uint64_t{file->array("tokenizer.ggml.tokens")->strings.size()}, row.tokens);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(everyScalarTypeIsReadAndWidened));
    claims.add(CLAIM(arraysAreReadAlsoNestedOnes));
    claims.add(CLAIM(tensorsAreFoundWhereTheyLie));
    claims.add(CLAIM(versionTwoReadsLikeThree));
    claims.add(CLAIM(alignmentOfTheFileIsFollowed));
    claims.add(CLAIM(everyTruncationIsRefusedWithItsFileName));
    claims.add(CLAIM(everyFlippedByteIsAnswered));
    claims.add(CLAIM(hostileFilesAreRefusedByName), hostileFilesAreRefusedByName_cases());
    claims.add(CLAIM(typesAreNamedAlsoWhenTheyAreNotBuilt));
    claims.add(CLAIM(storiesModelIsRead));
    claims.add(CLAIM(vocabularyFilesWithoutTensorsAreRead), vocabularyFilesWithoutTensorsAreRead_cases());
    return claims.rows();
}
