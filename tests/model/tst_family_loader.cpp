// SPDX-License-Identifier: GPL-3.0-or-later
//
// Folders of every architecture load: each tensor in its place, the derived ones with the numbers they stand for. The folders
// are tests/fixtures/tiny-family (make_tiny_family.py).
#include "engine/model/quants.h"
#include "tests/model/loader_support.h"
#include "tests/support/claims.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/texts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>

using namespace kvloupe;
using namespace kvloupe::test;
using nlohmann::json;

namespace {

const std::string family_folder = fixtures + "tiny-family/";

std::vector<float> values_of(const Tensor& tensor) {
    std::vector<float> values(tensor.rows * tensor.cols);
    for (std::uint64_t r = 0; r < tensor.rows; ++r)
        dequantise_row(tensor.dtype, tensor.data + r * row_bytes(tensor.dtype, tensor.cols),
                       std::span<float>(values).subspan(r * tensor.cols, tensor.cols));
    return values;
}

// What a folder's model must be made of. Counted by hand from make_tiny_family.py.
struct FoldersLoadWithTheirPartsCase {
    std::string name, architecture, variant;
    std::vector<std::uint32_t> windows;  // per layer
    std::uint32_t experts, shared;       // in the last layer
    bool biased, normed_heads, post_norms, ranked_queries;
    std::uint64_t parameters;
};
Cases<FoldersLoadWithTheirPartsCase> foldersLoadWithTheirParts_cases() {
    Cases<FoldersLoadWithTheirPartsCase> cases;
    constexpr std::uint64_t table = 288 * 32, norms = 2 * 32, feed = 3 * 40 * 32;
    constexpr std::uint64_t gqa8 = 2 * 32 * 32 + 2 * 16 * 32;    // 4 and 2 heads of 8
    constexpr std::uint64_t gqa16 = 2 * 64 * 32 + 2 * 32 * 32;   // of 16
    constexpr std::uint64_t gemma = 2 * 48 * 32 + 2 * 24 * 32;   // 2 and 1 heads of 24
    constexpr std::uint64_t key_value = 32 * 32 + 24 + 4 * 28 * 24 + 32 * 48;
    constexpr std::uint64_t full_query = 96 * 32, ranked_query = 20 * 32 + 20 + 96 * 20;
    const auto row = [&](const char* name, const char* architecture, const char* variant, std::vector<std::uint32_t> windows,
                         std::uint32_t experts, std::uint32_t shared, const char* parts, std::uint64_t parameters) {
        const std::string has = parts;
        cases.add(name, {name, architecture, variant, std::move(windows), experts, shared, contains(has, "bias"),
                         contains(has, "heads"), contains(has, "post"), contains(has, "rank"), parameters});
    };
    row("mistral", "mistral", "GQA", {8, 8}, 0, 0, "", table + 32 + 2 * (gqa8 + norms + feed));
    row("mistral-full", "mistral", "GQA", {0}, 0, 0, "", table + 32 + gqa8 + norms + feed);
    row("mixtral", "mixtral", "GQA", {0, 0}, 4, 0, "", table + 32 + 2 * (gqa8 + norms + 4 * 32 + 4 * 3 * 24 * 32));
    row("qwen2", "qwen2", "GQA", {0, 0}, 0, 0, "bias", table + 32 + 2 * (gqa8 + 64 + norms + feed));
    row("qwen2-window", "qwen2", "GQA", {0, 8, 8}, 0, 0, "bias", 2 * table + 32 + 3 * (gqa8 + 64 + norms + feed));
    row("qwen3", "qwen3", "GQA", {0, 0}, 0, 0, "heads", table + 32 + 2 * (gqa16 + 2 * 16 + norms + feed));
    row("llama3-rope", "llama", "GQA", {0, 0}, 0, 0, "", table + 32 + 2 * (gqa16 + norms + feed));
    row("llama-yarn", "llama", "GQA", {0, 0}, 0, 0, "", table + 32 + 2 * (gqa16 + norms + feed));
    row("gemma2", "gemma2", "MQA", {8, 0, 8}, 0, 0, "post", table + 32 + 3 * (gemma + 2 * norms + feed));
    row("gemma3", "gemma3", "MQA", {8, 8, 0, 8}, 0, 0, "heads post", table + 32 + 4 * (gemma + 2 * 24 + 2 * norms + feed));
    row("deepseek-v2", "deepseek_v2", "MLA", {0, 0}, 6, 2, "",
        table + 32 + 2 * (full_query + key_value + norms) + feed + 6 * 32 + (6 + 2) * 3 * 8 * 32);
    row("deepseek-v2-groups", "deepseek_v2", "MLA", {0, 0}, 8, 1, "rank",
        table + 32 + 2 * (ranked_query + key_value + norms) + feed + 8 * 32 + (8 + 1) * 3 * 8 * 32);
    row("deepseek-v2-dense", "deepseek_v2", "MLA", {0, 0}, 0, 0, "rank",
        table + 32 + 2 * (ranked_query + key_value + norms + feed));
    row("deepseek-v3", "deepseek_v3", "MLA", {0, 0}, 8, 1, "rank",
        table + 32 + 2 * (ranked_query + key_value + norms) + feed + 8 * 32 + 8 + (8 + 1) * 3 * 8 * 32);
    return cases;
}
void foldersLoadWithTheirParts(Check& check, const FoldersLoadWithTheirPartsCase& row) {
    const Loaded loaded = load(family_folder + row.name);
    CHECK_RESULT(loaded);
    const Model& model = **loaded;
    CHECK_EQUAL(model.config.architecture, row.architecture);
    CHECK_EQUAL(model.config.attention_variant(), row.variant);
    CHECK_EQUAL(model.layers.size(), row.windows.size());
    for (std::size_t i = 0; i < row.windows.size(); ++i) CHECK_EQUAL(model.config.layer_shapes[i].window, row.windows[i]);
    const LayerWeights& last = model.layers.back();
    CHECK_EQUAL(last.experts.size(), std::size_t{row.experts});
    CHECK_EQUAL(last.router.present(), row.experts > 0);
    CHECK_EQUAL(last.gate.present(), row.experts == 0 || row.shared > 0);
    if (row.shared > 0) CHECK_EQUAL(last.gate.rows, std::uint64_t{row.shared} * 8);
    CHECK_THAT(last.query_bias.present() == row.biased && last.key_bias.present() == row.biased &&
               last.value_bias.present() == row.biased);
    CHECK_THAT(last.query_norm.present() == row.normed_heads && last.key_norm.present() == row.normed_heads);
    CHECK_THAT(last.post_attention_norm.present() == row.post_norms && last.post_ffn_norm.present() == row.post_norms);
    CHECK_EQUAL(last.latent.query_down.present(), row.ranked_queries);
    CHECK_EQUAL(last.query.present(), !row.ranked_queries);
    const bool latent = row.variant == "MLA";
    CHECK_THAT(last.latent.key_value_up.present() == latent && last.latent.key_up_transposed.present() == latent &&
               last.latent.value_up.present() == latent && last.key.present() != latent);
    CHECK_EQUAL(last.router_bias.present(), row.name == "deepseek-v3");
    CHECK_EQUAL(model.config.parameters, row.parameters);
    CHECK_EQUAL(model.config.weight_bytes, row.parameters * sizeof(float));
}

Cases<std::string> latentHalvesHoldTheNumbersOfTheWhole_cases() {
    Cases<std::string> cases;
    for (const char* name : {"deepseek-v2", "deepseek-v3"}) cases.add(name, name);
    return cases;
}
void latentHalvesHoldTheNumbersOfTheWhole(Check& check, const std::string& name) {
    const Loaded loaded = load(family_folder + name);
    CHECK_RESULT(loaded);
    const ModelConfig& config = (*loaded)->config;
    const LatentWeights& weights = (*loaded)->layers[1].latent;
    const std::vector<float> both = values_of(weights.key_value_up);
    const std::vector<float> keys = values_of(weights.key_up_transposed), values = values_of(weights.value_up);
    const std::size_t nope = config.latent.nope_dim, value = config.latent.value_dim, rank = config.latent.kv_rank;
    CHECK_EQUAL(both.size(), keys.size() + values.size());
    CHECK_THAT(weights.key_up_transposed.cols == nope && weights.value_up.cols == rank);
    for (std::size_t head = 0; head < config.query_heads; ++head)
        for (std::size_t r = 0; r < rank; ++r) {
            for (std::size_t n = 0; n < nope; ++n)
                CHECK_EQUAL(keys[(head * rank + r) * nope + n], both[(head * (nope + value) + n) * rank + r]);
            for (std::size_t v = 0; v < value; ++v)
                CHECK_EQUAL(values[(head * value + v) * rank + r], both[(head * (nope + value) + nope + v) * rank + r]);
        }
}

// Gemma's files keep w, the norm multiplies by 1 + w; make_tiny_family.py draws w between -0.5 and 0.5.
void gemmaNormsAreAroundOne(Check& check) {
    const Loaded loaded = load(family_folder + "gemma3");
    CHECK_RESULT(loaded);
    const LayerWeights& layer = (*loaded)->layers[2];
    for (const Tensor* norm : {&layer.attention_norm, &layer.post_attention_norm, &layer.ffn_norm, &layer.post_ffn_norm,
                               &layer.query_norm, &layer.key_norm, &(*loaded)->output_norm}) {
        bool below = false, above = false;
        for (const float value : values_of(*norm)) {
            CHECK_THAT(value >= 0.5f && value <= 1.5f);
            below |= value < 1;
            above |= value > 1;
        }
        CHECK_OR_SAY(below && above, norm->name);
    }
}

void copy_all(const std::string& name, const std::string& to) {
    for (const auto& entry : std::filesystem::directory_iterator(family_folder + name)) {
        const std::string target = to + "/" + entry.path().filename().string();
        std::filesystem::copy_file(entry.path(), target);
        std::filesystem::permissions(target, std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
    }
}

// The index of a model in several files, changed.
struct BrokenIndexesAreExplainedCase {
    std::string tensor;  // its entry is changed
    json file;           // null: the file named there is removed instead
    std::vector<std::string> words;
};
Cases<BrokenIndexesAreExplainedCase> brokenIndexesAreExplained_cases() {
    Cases<BrokenIndexesAreExplainedCase> cases;
    const std::string key = "model.layers.1.self_attn.q_proj.weight";
    cases.add("a part is missing", {key, nullptr, {"has no 'model-0000", "lies as model.safetensors.index.json says"}});
    cases.add("a part outside", {key, "../model.safetensors", {key, "no file's name"}});
    cases.add("no name", {key, 3, {key, "the number 3", "no file's name"}});
    cases.add("an unknown part", {key, "other.safetensors", {"has no 'other.safetensors'", key}});
    return cases;
}
void brokenIndexesAreExplained(Check& check, const BrokenIndexesAreExplainedCase& row) {
    const TemporaryFolder folder;
    copy_all("qwen2-window", folder.path());
    CHECK_RESULT(load(folder.path()));
    const std::string path = folder.file("model.safetensors.index.json");
    json index = json::parse(read_file(path));
    json& entry = index.at("weight_map").at(row.tensor);
    if (row.file.is_null())
        CHECK_THAT(std::filesystem::remove(folder.file(entry.get<std::string>())));
    else
        entry = row.file;
    CHECK_THAT(write_bytes(path, index.dump()));
    const Loaded loaded = load(folder.path());
    CHECK_THAT(!loaded);
    const std::string message = loaded.error().message();
    for (const std::string& word : row.words) CHECK_OR_SAY(contains(message, word), message);
}

// One changed key of a folder's config.json, and what the loader then says.
struct OtherConfigurationsAreRefusedCase {
    std::string name, key;
    json value;
    std::vector<std::string> words;
};
Cases<OtherConfigurationsAreRefusedCase> otherConfigurationsAreRefused_cases() {
    Cases<OtherConfigurationsAreRefusedCase> cases;
    cases.add("packed weights", {"qwen3", "quantization_config", {{"quant_method", "fp8"}}, {"'fp8'", "not built yet"}});
    cases.add("another rank", {"deepseek-v2", "kv_lora_rank", 16, {"kv_a_proj_with_mqa.weight", "[24, 32]", "[32, 32]"}});
    cases.add("more experts", {"mixtral", "num_local_experts", 5, {"block_sparse_moe.gate.weight", "[5, 32]"}});
    cases.add("fewer experts", {"deepseek-v3", "n_group", 3, {"3 groups do not divide 8 experts"}});
    cases.add("biases that are not there", {"qwen3", "attention_bias", true, {"has no tensor", "q_proj.bias"}});
    cases.add("another family",
              {"gemma2", "model_type", "gemma3", {"'model_type' is 'gemma3'", "'Gemma2ForCausalLM' is of gemma2"}});
    return cases;
}
void otherConfigurationsAreRefused(Check& check, const OtherConfigurationsAreRefusedCase& row) {
    const TemporaryFolder folder;
    copy_all(row.name, folder.path());
    const std::string path = folder.file("config.json");
    json config = json::parse(read_file(path));
    config[row.key] = row.value;
    CHECK_THAT(write_bytes(path, config.dump()));
    const Loaded loaded = load(folder.path());
    CHECK_THAT(!loaded);
    const std::string message = loaded.error().message();
    for (const std::string& word : row.words) CHECK_OR_SAY(contains(message, word), message);
}

// The tensors of a model of text and images: its text part is the model, the rest is left out.
void theTextPartOfALargerModelLoads(Check& check) {
    const TemporaryFolder folder;
    copy_all("gemma3", folder.path());
    const std::string weights = folder.file("model.safetensors");
    std::string bytes = read_file(weights);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    json header = json::parse(bytes.substr(8, length)), renamed;
    std::uint64_t end = 0;
    for (const auto& [name, value] : header.items()) {
        renamed[name == "__metadata__" ? name : "language_model." + name] = value;
        if (value.contains("data_offsets")) end = std::max(end, value["data_offsets"][1].get<std::uint64_t>());
    }
    renamed["vision_tower.patch"] = {{"dtype", "F32"}, {"shape", json::array({0})}, {"data_offsets", json::array({end, end})}};
    std::string text = renamed.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::uint64_t size = text.size();
    CHECK_THAT(write_bytes(weights, std::string(reinterpret_cast<const char*>(&size), 8) + text + bytes.substr(8 + length)));
    const std::string path = folder.file("config.json");
    json inner = json::parse(read_file(path));
    const json outer = {{"architectures", json::array({"Gemma3ForConditionalGeneration"})}, {"model_type", "gemma3"},
                        {"text_config", inner}, {"vision_config", json::object()}, {"eos_token_id", json::array({1, 5})}};
    CHECK_THAT(write_bytes(path, outer.dump()));
    const Loaded loaded = load(folder.path());
    CHECK_RESULT(loaded);
    CHECK_EQUAL((*loaded)->config.layers, 4u);
    CHECK_EQUAL((*loaded)->config.layer_shapes[0].window, 8u);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(foldersLoadWithTheirParts), foldersLoadWithTheirParts_cases());
    claims.add(CLAIM(latentHalvesHoldTheNumbersOfTheWhole), latentHalvesHoldTheNumbersOfTheWhole_cases());
    claims.add(CLAIM(gemmaNormsAreAroundOne));
    claims.add(CLAIM(brokenIndexesAreExplained), brokenIndexesAreExplained_cases());
    claims.add(CLAIM(otherConfigurationsAreRefused), otherConfigurationsAreRefused_cases());
    claims.add(CLAIM(theTextPartOfALargerModelLoads));
    return claims.rows();
}
