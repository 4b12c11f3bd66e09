// SPDX-License-Identifier: GPL-3.0-or-later
//
// Converted models as Hugging Face folders: loaded again they give the same logits, bit for bit.
#include "engine/model/convert_model.h"
#include "engine/model/generate_model.h"
#include "engine/model/save_model.h"
#include "tests/serve/decoder_runs.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

#include <fstream>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

namespace fs = std::filesystem;

const std::string family = KVLOUPE_SOURCE_DIR "/tests/fixtures/tiny-family/";
const ConvertOptions one_head{ConvertOptions::Target::mqa, 1, 0, 0, {}};

std::shared_ptr<const Model> converted(const std::string& name, const ConvertOptions& options = one_head) {
    auto model = load_model(family + name);
    if (!model) throw std::runtime_error(model.error().message());
    auto result = convert_model(*model, options);
    if (!result) throw std::runtime_error(result.error().message());
    return *result;
}

DecodedRows logits_of(std::shared_ptr<const Model> model) {
    std::vector<TokenId> tokens;
    for (std::uint32_t i = 0; i < 20; ++i) tokens.push_back(static_cast<TokenId>(2 + (i * 29 + 5) % 200));
    DecoderRun run(on_the_cpu(std::move(model)), {}, {tokens});
    return run.run(20);
}

Cases<std::string> families() {
    Cases<std::string> cases;
    for (const char* name : {"mistral", "mixtral", "qwen2", "qwen3", "llama3-rope"}) cases.add(name, name);
    return cases;
}

void aSavedModelComesBackAsItWas(Check& check, const std::string& name) {
    const TemporaryFolder folder;
    const auto model = converted(name);
    CHECK_RESULT(save_huggingface_folder(*model, folder.file("saved")));
    const auto again = load_model(folder.file("saved"));
    CHECK_RESULT(again);
    CHECK_EQUAL((*again)->config.kv_heads, 1u);
    CHECK_EQUAL((*again)->config.parameters, model->config.parameters);
    CHECK_EQUAL((*again)->config.weight_bytes, model->config.weight_bytes);
    CHECK_THAT(logits_of(*again) == logits_of(model));
    CHECK_THAT(!fs::exists(folder.file("saved.part")));
}

struct SavedLatents {
    std::string family;
    ConvertOptions options;
};

Cases<SavedLatents> latents() {
    Cases<SavedLatents> cases;
    const ConvertOptions width{ConvertOptions::Target::mla, 0, 6, 0, {}}, budget{ConvertOptions::Target::mla, 0, 0, 21, {}};
    for (const char* name : {"mistral", "mixtral", "qwen2", "qwen3", "llama3-rope", "gemma2", "gemma3"}) {
        cases.add(std::string(name) + ", one width", {name, width});
        cases.add(std::string(name) + ", widths of layers", {name, budget});
    }
    return cases;
}

void savedLatentsComeBackAsTheyWere(Check& check, const SavedLatents& given) {
    const TemporaryFolder folder;
    const auto model = converted(given.family, given.options);
    CHECK_RESULT(save_huggingface_folder(*model, folder.file("saved")));
    const auto again = load_model(folder.file("saved"));
    CHECK_RESULT(again);
    CHECK_THAT((*again)->config.latent == model->config.latent);
    CHECK_THAT((*again)->config.layer_shapes == model->config.layer_shapes);
    CHECK_EQUAL((*again)->config.architecture, model->config.architecture);
    CHECK_EQUAL((*again)->config.parameters, model->config.parameters);
    CHECK_EQUAL((*again)->config.weight_bytes, model->config.weight_bytes);
    CHECK_THAT(logits_of(*again) == logits_of(model));
    CHECK_RESULT(save_huggingface_folder(**again, folder.file("copy")));  // as any model of a folder
    const auto copied = load_model(folder.file("copy"));
    CHECK_RESULT(copied);
    CHECK_THAT(logits_of(*copied) == logits_of(model));
}

// transformers must not take it for what it was, and fill projections that are not there with random numbers.
void savedLatentsNameNoFamilyOfOthers(Check& check) {
    const TemporaryFolder folder;
    CHECK_RESULT(save_huggingface_folder(*converted("qwen2", {ConvertOptions::Target::mla, 0, 8, 0, {}}), folder.file("saved")));
    const std::string config = read_file(folder.file("saved") + "/config.json");
    CHECK_THAT(config.find(R"("model_type": "kvloupe_latent")") != std::string::npos);
    CHECK_THAT(config.find(R"("KvloupeLatentForCausalLM")") != std::string::npos);
    CHECK_THAT(config.find("Qwen2ForCausalLM") == std::string::npos);
}

struct BrokenLatents {
    std::string from, to, sentence;  // in config.json
};

Cases<BrokenLatents> broken_latents() {
    Cases<BrokenLatents> cases;
    cases.add("no description", {"\"kvloupe_latent\": {", "\"other\": {", "has no object 'kvloupe_latent'"});
    cases.add("no widths", {"\"widths\"", "\"lengths\"", "has no 'widths'"});
    cases.add("another family", {"\"model_type\": \"qwen2\"", "\"model_type\": \"qwen9\"", "the architecture 'qwen9' is not built yet"});
    cases.add("a family with latents of its own", {"\"model_type\": \"qwen2\"", "\"model_type\": \"deepseek_v3\"", "multi-head latent attention"});
    cases.add("a width beyond the projection", {"\"widths\": [\n      8", "\"widths\": [\n      800", "key 'widths' is the number 800, outside 1 to"});
    cases.add("another width than the tensors'", {"\"widths\": [\n      8", "\"widths\": [\n      9", "kv_latent_down.weight"});
    return cases;
}

void aBrokenDescriptionOfLatentsIsRefused(Check& check, const BrokenLatents& broken) {
    const TemporaryFolder folder;
    CHECK_RESULT(save_huggingface_folder(*converted("qwen2", {ConvertOptions::Target::mla, 0, 8, 0, {}}), folder.file("saved")));
    std::string config = read_file(folder.file("saved") + "/config.json");
    const std::size_t at = config.find(broken.from);
    CHECK_OR_SAY(at != std::string::npos, config);
    config.replace(at, broken.from.size(), broken.to);
    std::ofstream(folder.file("saved") + "/config.json") << config;
    const auto loaded = load_model(folder.file("saved"));
    CHECK_THAT(!loaded);
    CHECK_OR_SAY(loaded.error().sentence.find(broken.sentence) != std::string::npos, loaded.error().sentence);
}

void anEmptyFolderIsFilledAndAFullOneRefused(Check& check) {
    const TemporaryFolder folder;
    const auto model = converted("qwen2");
    fs::create_directory(folder.file("empty"));
    CHECK_RESULT(save_huggingface_folder(*model, folder.file("empty/")));
    CHECK_RESULT(load_model(folder.file("empty")));
    const auto twice = save_huggingface_folder(*model, folder.file("empty"));
    CHECK_THAT(!twice);
    CHECK_OR_SAY(twice.error().sentence.ends_with("/empty is not empty"), twice.error().sentence);
    std::ofstream(folder.file("file")) << "x";
    const auto over = save_huggingface_folder(*model, folder.file("file"));
    CHECK_THAT(!over && fs::is_regular_file(folder.file("file")));
}

void nothingIsLeftOfAFolderThatWasNotFinished(Check& check) {
    const TemporaryFolder folder;
    std::stop_source stop;
    LoadOptions run;
    run.stop = stop.get_token();
    run.progress = [&](double, const std::string&) { stop.request_stop(); };
    const auto saved = save_huggingface_folder(*converted("qwen2"), folder.file("saved"), run);
    CHECK_THAT(!saved);
    CHECK_EQUAL(saved.error().sentence, "Saving was cancelled");
    CHECK_THAT(fs::is_empty(folder.path()));
    const auto nowhere = save_huggingface_folder(*converted("qwen2"), folder.file("no/such/place"));
    CHECK_THAT(!nowhere && fs::is_empty(folder.path()));
}

void whatCameFromNoFolderIsNotSaved(Check& check) {
    const TemporaryFolder folder;
    GenerateOptions options;
    options.shape.layers = 1;
    options.shape.hidden = options.shape.intermediate = options.shape.vocabulary = options.shape.context_length = 32;
    options.shape.query_heads = options.shape.kv_heads = 2;
    options.shape.head_dim = 16;
    const auto model = generate_model(options);
    CHECK_RESULT(model);
    const auto generated = save_huggingface_folder(**model, folder.file("saved"));
    CHECK_THAT(!generated);
    CHECK_OR_SAY(generated.error().sentence.find("does not come from a Hugging Face folder") != std::string::npos, generated.error().sentence);
    CHECK_THAT(fs::is_empty(folder.path()));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aSavedModelComesBackAsItWas), families());
    claims.add(CLAIM(savedLatentsComeBackAsTheyWere), latents());
    claims.add(CLAIM(savedLatentsNameNoFamilyOfOthers));
    claims.add(CLAIM(aBrokenDescriptionOfLatentsIsRefused), broken_latents());
    claims.add(CLAIM(anEmptyFolderIsFilledAndAFullOneRefused));
    claims.add(CLAIM(nothingIsLeftOfAFolderThatWasNotFinished));
    claims.add(CLAIM(whatCameFromNoFolderIsNotSaved));
    return claims.rows();
}
