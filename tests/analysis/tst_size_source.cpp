// SPDX-License-Identifier: GPL-3.0-or-later
//
// Models as people name them: files, folders and names; what the shape says against what the tensors count.
#include "engine/analysis/size_report.h"
#include "engine/analysis/size_source.h"
#include "tests/analysis/known_models_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

const std::string source_folder = KVLOUPE_SOURCE_DIR;

Result<SizedModel> found(const std::string& model) {
    const auto table = installed_models();
    if (!table) return table.error();
    return find_sized_model(model, *table);
}

Cases<std::string> models_with_tensors() {
    Cases<std::string> cases;
    for (const std::string& bundled : names_in(source_folder + "/resources/models"))
        if (const std::string folder = source_folder + "/resources/models/" + bundled;
            file_exists(folder + "/config.json"))
            cases.add("bundled " + bundled, folder);
    const auto add = [&cases](const std::string& folder, const std::string& name) {
        const std::string path = folder + "/" + name;
        if (file_exists(path + "/model.safetensors") || file_exists(path + "/model.safetensors.index.json"))
            cases.add(name, path);
        for (const std::string& file : names_in(path, "", ".gguf")) cases.add(name + ", " + file, path + "/" + file);
    };
    const std::string fixtures = source_folder + "/tests/fixtures";
    for (const std::string& name : names_in(fixtures, "tiny-")) add(fixtures, name);
    for (const std::string& name : names_in(fixtures + "/tiny-family")) add(fixtures + "/tiny-family", name);
    return cases;
}
void theShapeCountsWhatTheTensorsHold(Check& check, const std::string& path) {
    const auto model = found(path);
    if (!succeeded(check, model, "find_sized_model", __FILE__, __LINE__)) return;
    CHECK_THAT(model->stored_parameters > 0);
    CHECK_EQUAL(count_parameters(model->config, model->form).sum(), model->stored_parameters);
    const auto report = size_report(*model, {});
    CHECK_THAT(report);
    CHECK_EQUAL(report->weight_bytes, model->stored_bytes);
    CHECK_EQUAL(report->weight_bytes_per_gpu(), model->stored_bytes);
    CHECK_THAT(report->weights_stored);
}

struct Config {
    const char* file;
    std::uint64_t per_token;
    std::uint64_t parameters;  // as the publisher counts the checkpoint's tensors
    DType dtype;
};
Cases<Config> public_configs() {
    Cases<Config> cases;
    const auto add = [&cases](const char* file, std::uint64_t per_token, std::uint64_t parameters,
                              DType dtype = DType::bf16) {
        cases.add(file, {file, per_token, parameters, dtype});
    };
    add("llama-2-7b-hf.config.json", 524288, 6738415616, DType::f16);
    add("llama-3.1-8b-instruct.config.json", 131072, 8030261248);
    add("llama-3.1-70b-instruct.config.json", 327680, 70553706496);
    add("llama-3.2-1b-instruct.config.json", 32768, 1235814400);
    add("mixtral-8x7b-v0.1.config.json", 131072, 46702792704);
    add("qwen2.5-7b-instruct.config.json", 57344, 7615616512);
    add("qwen3-4b.config.json", 147456, 4022468096);
    add("gemma3_1b_it.config.json", 26624, 999885952);
    add("deepseek-v2-lite.config.json", 31104, 15706484224);
    add("deepseek-ai--deepseek-v3.config.json", 70272, 671026419200);
    return cases;
}
void publicConfigsHaveTheirPublishedSizes(Check& check, const Config& row) {
    const std::string path = std::string(KVLOUPE_SHARED_DATA) + "/configs/" + row.file;
    if (!file_exists(path)) return check.skip("the public config " + path + " is not here");
    const auto model = found(path);
    if (!succeeded(check, model, "find_sized_model", __FILE__, __LINE__)) return;
    CHECK_EQUAL(model->source, "config.json");
    CHECK_EQUAL(static_cast<int>(model->weight_dtype), static_cast<int>(row.dtype));
    const auto report = size_report(*model, {});
    if (!succeeded(check, report, "size_report", __FILE__, __LINE__)) return;
    CHECK_EQUAL(report->kv_bytes_per_token, row.per_token);
    CHECK_EQUAL(report->parameters, row.parameters);
    CHECK_THAT(!report->parameters_counted);
}

void aConfigIsKnownByItsKeys(Check& check) {
    TemporaryFolder folder;
    const std::string text = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2,
        "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100,
        "max_position_embeddings": 256})";
    CHECK_THAT(write_bytes(folder.file("anything.txt"), text));
    const auto model = found(folder.file("anything.txt"));
    if (!succeeded(check, model, "find_sized_model", __FILE__, __LINE__)) return;
    CHECK_EQUAL(model->config.kv_heads, 2u);
    CHECK_EQUAL(model->config.name, "anything.txt");
    CHECK_OR_SAY(contains(model->config.assumed, "dtype = float16 (not in config.json)"),
                 "dtype is not among what was assumed");
    bool theta = false;
    for (const std::string& assumed : model->config.assumed) theta = theta || assumed.starts_with("rope_theta");
    CHECK_THAT(theta);
}

void packedWeightsAreCountedUnpackedAndSaidToBe(Check& check) {
    const std::string text =
        R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 4096,
        "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8"}})";
    const auto model = sized_model_from_config(std::as_bytes(std::span(text)), "config.json");
    if (!succeeded(check, model, "sized_model_from_config", __FILE__, __LINE__)) return;
    const auto unpacked = size_report(*model, {});
    CHECK_THAT(unpacked);
    CHECK_EQUAL(unpacked->weight_bytes, 2 * unpacked->parameters);
    CHECK_EQUAL(unpacked->notes.size(), std::size_t{1});
    CHECK_OR_SAY(contains(unpacked->notes[0], "'fp8'") && contains(unpacked->notes[0], "bf16"), unpacked->notes[0]);
    SizeRequest request;
    request.weights = DType::fp8_e4m3;
    const auto packed = size_report(*model, request);
    CHECK_THAT(packed);
    CHECK_EQUAL(packed->weight_bytes, unpacked->parameters);
}

void halfAFolderIsCountedByItsShape(Check& check) {
    TemporaryFolder folder;
    const std::string tiny = source_folder + "/tests/fixtures/tiny-gqa";
    CHECK_THAT(write_bytes(folder.file("config.json"), read_file(tiny + "/config.json")));
    CHECK_THAT(write_bytes(folder.file("model.safetensors.index.json"),
                           R"({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})"));
    CHECK_THAT(write_bytes(folder.file("model-1.safetensors"), read_file(tiny + "/model.safetensors")));
    const auto half = found(folder.path());
    if (!succeeded(check, half, "find_sized_model", __FILE__, __LINE__)) return;
    CHECK_EQUAL(half->stored_parameters, std::uint64_t{0});
    CHECK_EQUAL(half->notes.size(), std::size_t{1});
    CHECK_OR_SAY(contains(half->notes[0], "model-2.safetensors"), half->notes[0]);
    CHECK_THAT(write_bytes(folder.file("model-2.safetensors"), read_file(tiny + "/model.safetensors")));
    const auto whole = found(folder.path());
    if (!succeeded(check, whole, "find_sized_model", __FILE__, __LINE__)) return;
    CHECK_EQUAL(whole->stored_parameters, 2 * found(tiny)->stored_parameters);
}

struct Wrong {
    std::string model;
    const char* named;
};
Cases<Wrong> wrong_models() {
    Cases<Wrong> cases;
    cases.add("unknown name", {"Llama-3.1-9B", "Llama-3.1-8B"});
    cases.add("mistyped name", {"mixtrl", "Mixtral-8x7B"});
    cases.add("empty", {"", "empty"});
    cases.add("no such file", {"/nowhere/config.json", "no file or folder '/nowhere/config.json'"});
    cases.add("a folder without config", {source_folder + "/resources/pictures", "config.json"});
    cases.add("a picture", {source_folder + "/LICENSE", "neither a GGUF file nor a config.json"});
    cases.add("a scenario", {source_folder + "/resources/scenarios/variants.json", "is a scenario"});
    return cases;
}
void whatIsNoModelIsOneSentence(Check& check, const Wrong& row) {
    const auto model = found(row.model);
    CHECK_THAT(!model);
    CHECK_OR_SAY(contains(model.error().message(), row.named), model.error().message());
    CHECK_THAT(!contains(model.error().message(), '\n'));
}

void gpusAreFoundByTheirBeginning(Check& check) {
    for (const char* typed : {"H100 SXM", "h100", "h100-sxm", "H100_SXM"}) {
        const auto gpu = gpu_named(typed);
        if (!succeeded(check, gpu, typed, __FILE__, __LINE__)) return;
        CHECK_EQUAL(std::string((*gpu)->name), "H100 SXM");
    }
    for (const char* typed : {"H", "", "B200", "H100 PCIe"}) {
        const auto gpu = gpu_named(typed);
        CHECK_OR_SAY(!gpu, typed);
        CHECK_OR_SAY(contains(gpu.error().message(), "H200 SXM"), gpu.error().message());
    }
}

void everyCachePrecisionHasItsName(Check& check) {
    CHECK_EQUAL(cache_precision_names().size(), std::size_t{14});
    for (const std::string& name : cache_precision_names()) {
        const auto format = cache_precision_named(name);
        if (!succeeded(check, format, "cache_precision_named", __FILE__, __LINE__)) return;
        CHECK_EQUAL(std::string(name_of(format->dtype)), name);
    }
    for (const char* wrong : {"q4_k", "fp8", "F16", ""}) CHECK_OR_SAY(!cache_precision_named(wrong), wrong);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(theShapeCountsWhatTheTensorsHold), models_with_tensors());
    claims.add(CLAIM(publicConfigsHaveTheirPublishedSizes), public_configs());
    claims.add(CLAIM(aConfigIsKnownByItsKeys));
    claims.add(CLAIM(packedWeightsAreCountedUnpackedAndSaidToBe));
    claims.add(CLAIM(halfAFolderIsCountedByItsShape));
    claims.add(CLAIM(whatIsNoModelIsOneSentence), wrong_models());
    claims.add(CLAIM(gpusAreFoundByTheirBeginning));
    claims.add(CLAIM(everyCachePrecisionHasItsName));
    return claims.rows();
}
