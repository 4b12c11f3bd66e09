// SPDX-License-Identifier: GPL-3.0-or-later
//
// Models that cannot be loaded: one sentence names the file, the key or tensor and the value.
#include "tests/model/loader_support.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/texts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

using namespace kvloupe;
using namespace kvloupe::test;
using nlohmann::json;

namespace {

// The safetensors file with a changed header; the data stays.
std::string with_header(const std::string& file, const std::function<void(json&)>& change) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    json header = json::parse(file.substr(8, length));
    change(header);
    std::string padded = header.dump();
    padded.resize((padded.size() + 7) / 8 * 8, ' ');
    const std::uint64_t size = padded.size();
    return std::string(reinterpret_cast<const char*>(&size), 8) + padded + file.substr(8 + length);
}

void rename_tensor(json& header, const std::string& from, const std::string& to) {
    header[to] = header.at(from);
    header.erase(from);
}

Cases<std::string> missingPartsAreNamed_cases() {
    Cases<std::string> cases;
    cases.add("configuration", "config.json");
    cases.add("tokenizer", "tokenizer.json");
    cases.add("weights", "model.safetensors");
    return cases;
}
void missingPartsAreNamed(Check& check, const std::string& part) {
    const TemporaryFolder folder;
    copy_folder(check, "tiny-gqa", folder.path());
    CHECK_THAT(load(folder.path()));
    CHECK_THAT(std::filesystem::remove(folder.file(part)));
    const Loaded loaded = load(folder.path());
    CHECK_THAT(!loaded);
    const std::string message = loaded.error().message();
    CHECK_OR_SAY(contains(message, folder.path() + " has no " + part), message);
    CHECK_OR_SAY(contains(message, "config.json, tokenizer.json and model.safetensors"), message);
}

struct WeightsInOtherFormsAreExplainedCase {
    std::string file, word;
};
Cases<WeightsInOtherFormsAreExplainedCase> weightsInOtherFormsAreExplained_cases() {
    Cases<WeightsInOtherFormsAreExplainedCase> cases;
    cases.add("no index", {"model.safetensors.index.json", "model.safetensors.index.json: "});
    cases.add("pickle", {"pytorch_model.bin", "pickle"});
    return cases;
}
void weightsInOtherFormsAreExplained(Check& check, const WeightsInOtherFormsAreExplainedCase& row) {
    const TemporaryFolder folder;
    copy_folder(check, "tiny-gqa", folder.path());
    std::filesystem::rename(folder.file("model.safetensors"), folder.file(row.file));
    const Loaded loaded = load(folder.path());
    CHECK_THAT(!loaded);
    CHECK_OR_SAY(contains(loaded.error().message(), row.word), loaded.error().message());
}

void pathsThatAreNoModelAreExplained(Check& check) {
    const TemporaryFolder folder;
    const auto message = [](const std::string& path) {
        const Loaded loaded = load(path);
        return loaded ? std::string("loaded") : loaded.error().message();
    };
    CHECK_THAT(contains(message(folder.file("absent.gguf")), "absent.gguf cannot be opened"));
    CHECK_THAT(write_bytes(folder.file("empty.gguf"), {}));
    CHECK_THAT(contains(message(folder.file("empty.gguf")), "empty"));
    CHECK_THAT(write_bytes(folder.file("note.txt"), "just a note"));
    CHECK_THAT(contains(message(folder.file("note.txt")), "begins with 'just'"));
    CHECK_THAT(contains(message(folder.path()), "has no config.json"));
    CHECK_THAT(contains(message(fixtures + "tiny-gqa/model.safetensors"), "the folder with config.json"));
}

// A folder's weights with one thing changed in the header; the message names the tensor and what is wrong with it.
struct WrongTensorsAreRefusedByNameCase {
    int change;
    std::vector<std::string> words;
};
Cases<WrongTensorsAreRefusedByNameCase> wrongTensorsAreRefusedByName_cases() {
    Cases<WrongTensorsAreRefusedByNameCase> cases;
    cases.add("missing", {0, {"has no tensor 'model.layers.1.mlp.up_proj.weight'"}});
    cases.add("left over", {1, {"'model.layers.2.self_attn.q_norm.weight'", "no place"}});
    cases.add("other shape",
              {2, {"'model.layers.0.self_attn.k_proj.weight'", "[32, 16]", "[16, 32]"}});
    cases.add("other dtype", {3, {"'model.norm.weight'", "'I32'", "not built yet", "BF16"}});
    cases.add("no head", {4, {"has no tensor 'lm_head.weight'"}});
    return cases;
}
void wrongTensorsAreRefusedByName(Check& check, const WrongTensorsAreRefusedByNameCase& row) {
    const TemporaryFolder folder;
    copy_folder(check, "tiny-gqa", folder.path());
    const std::string path = folder.file("model.safetensors");
    const std::string changed = with_header(read_file(path), [&row](json& header) {
        const char* const key = "model.layers.0.self_attn.k_proj.weight";
        switch (row.change) {
        case 0: rename_tensor(header, "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.other.weight"); break;
        case 1: {
            // An empty tensor at the end of the data: legal, but not of this model.
            std::uint64_t end = 0;
            for (const json& value : header)
                if (value.contains("data_offsets")) end = std::max(end, value["data_offsets"][1].get<std::uint64_t>());
            header["model.layers.2.self_attn.q_norm.weight"] = {
                {"dtype", "F32"}, {"shape", json::array({0})}, {"data_offsets", json::array({end, end})}};
            break;
        }
        case 2: header.at(key)["shape"] = json::array({32, 16}); break;
        case 3: header.at("model.norm.weight")["dtype"] = "I32"; break;
        default: rename_tensor(header, "lm_head.weight", "head.weight"); break;
        }
    });
    CHECK_THAT(write_bytes(path, changed));
    const Loaded loaded = load(folder.path());
    CHECK_THAT(!loaded);
    const std::string message = loaded.error().message();
    for (const std::string& word : row.words) CHECK_OR_SAY(contains(message, word), message);
    CHECK_OR_SAY(message.starts_with(path), message);
}

struct AConfigurationOfAnotherModelIsRefusedCase {
    std::string key;
    int value;
    std::string word;
};
Cases<AConfigurationOfAnotherModelIsRefusedCase> aConfigurationOfAnotherModelIsRefused_cases() {
    Cases<AConfigurationOfAnotherModelIsRefusedCase> cases;
    cases.add("more layers", {"num_hidden_layers", 3, "model.layers.2.input_layernorm.weight"});
    cases.add("fewer layers", {"num_hidden_layers", 1, "llama model of 1 layers"});
    cases.add("absurdly many layers", {"num_hidden_layers", 4000, "too few for the 4,000 layers"});
    cases.add("width", {"hidden_size", 64, "[288, 64]"});
    cases.add("vocabulary", {"vocab_size", 300, "[300, 32]"});
    cases.add("KV heads", {"num_key_value_heads", 1, "[8, 32]"});
    return cases;
}
void aConfigurationOfAnotherModelIsRefused(Check& check, const AConfigurationOfAnotherModelIsRefusedCase& row) {
    const TemporaryFolder folder;
    copy_folder(check, "tiny-gqa", folder.path());
    const std::string path = folder.file("config.json");
    json config = json::parse(read_file(path));
    config[row.key] = row.value;
    CHECK_THAT(write_bytes(path, config.dump()));
    const Loaded loaded = load(folder.path());
    CHECK_THAT(!loaded);
    CHECK_OR_SAY(contains(loaded.error().message(), row.word), loaded.error().message());
}

void truncatedWeightsAreRefused(Check& check) {
    const TemporaryFolder folder;
    copy_folder(check, "tiny-gqa", folder.path());
    const std::string path = folder.file("model.safetensors");
    const std::string whole = read_file(path);
    for (const std::size_t missing : {std::size_t{1}, std::size_t{100}, std::size_t{100000}, whole.size() - 9}) {
        CHECK_THAT(write_bytes(path, whole.substr(0, whole.size() - missing)));
        const Loaded loaded = load(folder.path());
        CHECK_THAT(!loaded);
        CHECK_THAT(contains(loaded.error().message(), "model.safetensors: "));
    }
    const std::string gguf = folder.file("cut.gguf");
    const std::string file = read_file(fixtures + "tiny-gqa/tiny-gqa.Q4_0.gguf");
    for (const std::size_t missing : {std::size_t{40}, std::size_t{1000}, file.size() - 4}) {
        CHECK_THAT(write_bytes(gguf, file.substr(0, file.size() - missing)));
        CHECK_THAT(!load(gguf));
    }
}

// A GGUF file with one byte sequence replaced by another of the same length.
struct UnbuiltGgufFilesAreRefusedByNameCase {
    std::string from, to;
    std::vector<std::string> words;
};
Cases<UnbuiltGgufFilesAreRefusedByNameCase> unbuiltGgufFilesAreRefusedByName_cases() {
    Cases<UnbuiltGgufFilesAreRefusedByNameCase> cases;
    cases.add("architecture",
              {std::string("\x05\0\0\0\0\0\0\0llama", 13), std::string("\x05\0\0\0\0\0\0\0bloom", 13),
               {"'bloom'", "not built yet", "llama, qwen2, qwen3, gemma2, gemma3 and deepseek2"}});
    cases.add("missing key",
              {"llama.block_count", "llama.block_Count", {"'llama.block_count'"}});
    cases.add("experts",
              {std::string("llama.rope.freq_base\x06\0\0\0\x00\x40\x1C\x46", 28),
               std::string("llama.expert_count__\x04\0\0\0\x08\0\0\0", 28), {}});
    cases.add("missing tensor",
              {"blk.1.attn_v.weight", "blk.1.attn_w.weight", {"'blk.1.attn_v.weight'"}});
    cases.add("tokenizer",
              {std::string("\x04\0\0\0\0\0\0\0gpt2", 12), std::string("\x04\0\0\0\0\0\0\0rwkv", 12), {"rwkv"}});
    return cases;
}
void unbuiltGgufFilesAreRefusedByName(Check& check, const UnbuiltGgufFilesAreRefusedByNameCase& row) {
    std::string bytes = read_file(fixtures + "tiny-gqa/tiny-gqa.Q8_0.gguf");
    CHECK_EQUAL(row.from.size(), row.to.size());
    const std::size_t at = bytes.find(row.from);
    CHECK_THAT(at != std::string::npos && at > 0);
    bytes.replace(at, row.from.size(), row.to);
    const TemporaryFolder folder;
    const std::string path = folder.file("changed.gguf");
    CHECK_THAT(write_bytes(path, bytes));
    const Loaded loaded = load(path);
    if (row.words.empty()) {  // an unknown key is no reason to refuse
        CHECK_RESULT(loaded);
        return;
    }
    CHECK_THAT(!loaded);
    const std::string message = loaded.error().message();
    CHECK_OR_SAY(contains(message, "changed.gguf"), message);
    for (const std::string& word : row.words) CHECK_OR_SAY(contains(message, word), message);
}

void aVocabularyIsNoModel(Check& check) {
    const std::string path = KVLOUPE_SHARED_DATA "/tokenizers/ggml-vocab-llama-spm.gguf";
    if (!file_exists(path)) SKIP_ROW("The public vocabularies are not here, so none was tried.");
    const Loaded loaded = load(path);
    CHECK_THAT(!loaded);
    CHECK_OR_SAY(contains(loaded.error().message(), "ggml-vocab-llama-spm.gguf"), loaded.error().message());
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(missingPartsAreNamed), missingPartsAreNamed_cases());
    claims.add(CLAIM(weightsInOtherFormsAreExplained), weightsInOtherFormsAreExplained_cases());
    claims.add(CLAIM(pathsThatAreNoModelAreExplained));
    claims.add(CLAIM(wrongTensorsAreRefusedByName), wrongTensorsAreRefusedByName_cases());
    claims.add(CLAIM(aConfigurationOfAnotherModelIsRefused), aConfigurationOfAnotherModelIsRefused_cases());
    claims.add(CLAIM(truncatedWeightsAreRefused));
    claims.add(CLAIM(unbuiltGgufFilesAreRefusedByName), unbuiltGgufFilesAreRefusedByName_cases());
    claims.add(CLAIM(aVocabularyIsNoModel));
    return claims.rows();
}
