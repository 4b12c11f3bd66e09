// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/quants.h"
#include "tests/model/loader_support.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"
#include "tests/support/texts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace kvloupe;
using namespace kvloupe::test;
using nlohmann::json;

namespace {

std::vector<float> row(const Tensor& tensor, std::uint64_t index) {
    std::vector<float> values(tensor.cols);
    dequantise_row(tensor.dtype, tensor.data + index * row_bytes(tensor.dtype, tensor.cols), values);
    return values;
}

std::vector<const Tensor*> all_tensors(const Model& model) {
    std::vector<const Tensor*> out = {&model.embedding, &model.output_norm, &model.output};
    for (const LayerWeights& l : model.layers)
        out.insert(out.end(), {&l.attention_norm, &l.query, &l.key, &l.value, &l.attention_out, &l.ffn_norm, &l.gate,
                               &l.up, &l.down});
    return out;
}

struct FoldersLoadWithTheirShapeCase {
    std::string name, variant;
    int kv_heads, head_dim;
    bool tied;
    std::string dtype;
};
Cases<FoldersLoadWithTheirShapeCase> foldersLoadWithTheirShape_cases() {
    Cases<FoldersLoadWithTheirShapeCase> cases;
    cases.add("tiny-mha", {"tiny-mha", "MHA", 4, 8, false, "f32"});
    cases.add("tiny-gqa", {"tiny-gqa", "GQA", 2, 8, false, "f32"});
    cases.add("tiny-mqa", {"tiny-mqa", "MQA", 1, 8, true, "f16"});
    cases.add("tiny-mha-tied", {"tiny-mha-tied", "MHA", 4, 8, true, "bf16"});
    cases.add("tiny-wide-heads", {"tiny-wide-heads", "GQA", 2, 16, true, "f32"});
    return cases;
}
void foldersLoadWithTheirShape(Check& check, const FoldersLoadWithTheirShapeCase& row) {
    const Loaded loaded = load(fixtures + row.name);
    CHECK_RESULT(loaded);
    const Model& model = **loaded;
    CHECK_EQUAL(model.config.name, row.name);
    CHECK_EQUAL(model.config.attention_variant(), row.variant);
    CHECK_EQUAL(static_cast<int>(model.config.head_dim), row.head_dim);
    CHECK_EQUAL(model.config.tied_embeddings, row.tied);
    CHECK_THAT(model.config.rotary_layout == RotaryLayout::half_split);
    CHECK_EQUAL(model.layers.size(), std::size_t{2});
    CHECK_EQUAL(model.embedding.rows, std::uint64_t{288});
    CHECK_EQUAL(static_cast<int>(model.layers[1].key.rows), row.kv_heads * row.head_dim);
    CHECK_EQUAL(static_cast<int>(model.layers[1].attention_out.cols), 4 * row.head_dim);
    CHECK_EQUAL(name_of(model.layers[0].gate.dtype), row.dtype);
    CHECK_EQUAL(model.output.data == model.embedding.data, row.tied);
    CHECK_THAT(model.tokenizer && model.tokenizer->size() == 288);
    // Counted by hand from the shape: hidden 32, intermediate 64, 4 query heads.
    const std::uint64_t projections = 2u * 32 * 4 * static_cast<unsigned>(row.head_dim) +
                                      2u * 32 * static_cast<unsigned>(row.kv_heads * row.head_dim);
    const std::uint64_t parameters = 2 * (projections + 3 * 64 * 32 + 2 * 32) + 32 + (row.tied ? 1u : 2u) * 288 * 32;
    CHECK_EQUAL(model.config.parameters, parameters);
    CHECK_EQUAL(model.config.weight_bytes, parameters * bytes_per_pack(model.embedding.dtype));
}

Cases<std::string> weightsAreViewsIntoTheMappedFile_cases() {
    Cases<std::string> cases;
    cases.add("folder", "tiny-gqa");
    cases.add("GGUF", "tiny-gqa/tiny-gqa.Q4_1.gguf");
    return cases;
}
void weightsAreViewsIntoTheMappedFile(Check& check, const std::string& path) {
    const Loaded loaded = load(fixtures + path);
    CHECK_RESULT(loaded);
    const Model& model = **loaded;
    CHECK_EQUAL(model.files.size(), std::size_t{1});
    CHECK_THAT(model.owned.empty());
    const auto bytes = model.files[0]->bytes();
    for (const Tensor* tensor : all_tensors(model)) {
        CHECK_THAT(tensor->data >= bytes.data());
        CHECK_THAT(tensor->data + tensor->bytes() <= bytes.data() + bytes.size());
    }
}

struct GgufFilesHoldTheFoldersWeightsCase {
    std::string folder, type;
    double step;  // error allowed, as a share of the largest magnitude of a row
};
Cases<GgufFilesHoldTheFoldersWeightsCase> ggufFilesHoldTheFoldersWeights_cases() {
    Cases<GgufFilesHoldTheFoldersWeightsCase> cases;
    cases.add("F32", {"tiny-gqa", "F32", 0.0});
    cases.add("F16", {"tiny-gqa", "F16", 0x1p-11});
    cases.add("BF16", {"tiny-gqa", "BF16", 0x1p-8});
    cases.add("Q8_0", {"tiny-gqa", "Q8_0", 0.5 / 127 + 0x1p-10});
    cases.add("Q4_0", {"tiny-gqa", "Q4_0", 1.0 / 8 + 0x1p-10});
    cases.add("Q4_1", {"tiny-gqa", "Q4_1", 1.0 / 15 + 0x1p-9});
    cases.add("head size not width / heads", {"tiny-wide-heads", "BF16", 0x1p-8});
    return cases;
}
void ggufFilesHoldTheFoldersWeights(Check& check, const GgufFilesHoldTheFoldersWeightsCase& given) {
    const Loaded plain = load(fixtures + given.folder);
    const Loaded packed = load(fixtures + given.folder + "/" + given.folder + "." + given.type + ".gguf");
    CHECK_RESULT(plain);
    CHECK_RESULT(packed);
    const ModelConfig& a = (*plain)->config;
    const ModelConfig& b = (*packed)->config;
    CHECK_EQUAL(b.name, given.folder);
    CHECK_THAT(a.layers == b.layers && a.hidden == b.hidden && a.intermediate == b.intermediate);
    CHECK_THAT(a.query_heads == b.query_heads && a.kv_heads == b.kv_heads && a.head_dim == b.head_dim);
    CHECK_THAT(a.vocabulary == b.vocabulary && a.context_length == b.context_length && a.parameters == b.parameters);
    CHECK_THAT(a.rope_theta == b.rope_theta && a.rotary_dim == b.rotary_dim && a.tied_embeddings == b.tied_embeddings);
    CHECK_THAT(b.rotary_layout == RotaryLayout::adjacent);
    CHECK_EQUAL(name_of((*packed)->layers[0].gate.dtype), lower_case(given.type));
    const std::vector<const Tensor*> plain_tensors = all_tensors(**plain);
    const std::vector<const Tensor*> packed_tensors = all_tensors(**packed);
    CHECK_EQUAL(plain_tensors.size(), packed_tensors.size());
    const LayerWeights& first = (*plain)->layers[0];
    CHECK_THAT(plain_tensors[4] == &first.query);
    for (std::size_t t = 0; t < plain_tensors.size(); ++t) {
        const Tensor& from = *plain_tensors[t];
        const Tensor& to = *packed_tensors[t];
        CHECK_THAT(from.rows == to.rows && from.cols == to.cols);
        const bool rotated = from.name.find("q_proj") != std::string::npos || from.name.find("k_proj") != std::string::npos;
        for (std::uint64_t r = 0; r < from.rows; ++r) {
            // Row i of the half-split order is row 2i of the adjacent one, row i + d/2 is row 2i + 1.
            const std::uint64_t d = a.head_dim, in_head = r % d;
            const std::uint64_t target =
                rotated ? r - in_head + (in_head < d / 2 ? 2 * in_head : 2 * (in_head - d / 2) + 1) : r;
            const std::vector<float> x = row(from, r), y = row(to, target);
            float largest = 0;
            for (const float value : x) largest = std::max(largest, std::fabs(value));
            for (std::size_t c = 0; c < x.size(); ++c)
                CHECK_OR_SAY(std::fabs(x[c] - y[c]) <= given.step * largest, from.name);
        }
    }
}

void bothFormsTokeniseThePromptAlike(Check& check) {
    const Loaded folder = load(fixtures + "tiny-gqa");
    const Loaded gguf = load(fixtures + "tiny-gqa/tiny-gqa.F32.gguf");
    CHECK_THAT(folder && gguf);
    const json expected = json::parse(read_file(fixtures + "tiny-gqa/expected.json"));
    const std::string prompt = expected["prompt"];
    const auto tokens = expected["tokens"].get<std::vector<TokenId>>();
    CHECK_THAT(tokens.size() > 8);
    CHECK_EQUAL((*folder)->tokenizer->encode_prompt(prompt), tokens);
    CHECK_EQUAL((*gguf)->tokenizer->encode_prompt(prompt), tokens);
}

void equalFilesHaveEqualWeightsIds(Check& check) {
    const Loaded first = load(fixtures + "tiny-gqa");
    const Loaded again = load(fixtures + "tiny-mha/../tiny-gqa");
    const Loaded other = load(fixtures + "tiny-mha");
    CHECK_THAT(first && again && other);
    CHECK_EQUAL((*first)->weights_id, (*again)->weights_id);
    CHECK_THAT((*first)->weights_id != (*other)->weights_id && (*first)->weights_id != 0);
}

void progressRisesToOne(Check& check) {
    std::vector<double> fractions;
    LoadOptions options;
    options.progress = [&](double fraction, const std::string& what) {
        fractions.push_back(fraction);
        CHECK_THAT(!what.empty());
    };
    CHECK_THAT(load(fixtures + "tiny-gqa", options));
    CHECK_THAT(fractions.size() >= 4 && fractions.front() == 0.0 && fractions.back() == 1.0);
    CHECK_THAT(std::is_sorted(fractions.begin(), fractions.end()));
}

void cancellingStopsAtEveryPart(Check& check) {
    int parts = 0;
    LoadOptions count;
    count.progress = [&](double, const std::string&) { ++parts; };
    CHECK_THAT(load(fixtures + "tiny-gqa", count));
    // After the last two reports, the last of the weights and the end, there is nothing left to stop.
    for (int stop_at = 0; stop_at < parts - 2; ++stop_at) {
        std::stop_source source;
        LoadOptions options;
        options.stop = source.get_token();
        int at = 0;
        options.progress = [&](double, const std::string&) {
            if (at++ == stop_at) source.request_stop();
        };
        const Loaded loaded = load(fixtures + "tiny-gqa", options);
        CHECK_THAT(!loaded);
        CHECK_EQUAL(loaded.error().sentence, "Loading was cancelled");
    }
    std::stop_source before;
    before.request_stop();
    LoadOptions options;
    options.stop = before.get_token();
    CHECK_THAT(!load(fixtures + "tiny-gqa", options));
}

void storiesModelLoads(Check& check) {
    const std::string path = KVLOUPE_SHARED_DATA "/models/stories260K.gguf";
    if (!file_exists(path)) SKIP_ROW("The public model stories260K.gguf is not here, so it was not loaded.");
    const Loaded loaded = load(path);
    CHECK_RESULT(loaded);
    const ModelConfig& config = (*loaded)->config;
    CHECK_EQUAL(config.name, "stories260K");
    CHECK_THAT(config.layers == 5 && config.hidden == 64 && config.query_heads == 8 && config.kv_heads == 4);
    CHECK_THAT(config.head_dim == 8 && config.vocabulary == 512 && config.context_length == 2048);
    CHECK_THAT(config.rotary_layout == RotaryLayout::adjacent && !config.tied_embeddings);
    CHECK_EQUAL((*loaded)->tokenizer->size(), std::size_t{512});
    bool theta_assumed = false;
    for (const std::string& line : config.assumed) theta_assumed |= line.rfind("llama.rope.freq_base = 10000", 0) == 0;
    CHECK_THAT(theta_assumed);
}

void smolLm2Loads(Check& check) {
    const std::vector<std::string> files = names_in(KVLOUPE_FETCHED_MODELS, "SmolLM2-135M-Instruct", ".gguf");
    if (files.empty()) SKIP_ROW("SmolLM2 was not fetched (tests/fetch-models.sh), so it was not loaded.");
    const Loaded loaded = load(KVLOUPE_FETCHED_MODELS "/" + files.front());
    CHECK_RESULT(loaded);
    const ModelConfig& config = (*loaded)->config;
    CHECK_THAT(config.layers == 30 && config.query_heads == 9 && config.kv_heads == 3 && config.head_dim == 64);
    CHECK_THAT(config.tied_embeddings && config.rope_theta == 100000.0f);
    CHECK_THAT((*loaded)->layers[3].up.dtype == DType::q4_1 && (*loaded)->embedding.dtype == DType::q8_0);
    CHECK_EQUAL(config.parameters, std::uint64_t{134515008});
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(foldersLoadWithTheirShape), foldersLoadWithTheirShape_cases());
    claims.add(CLAIM(weightsAreViewsIntoTheMappedFile), weightsAreViewsIntoTheMappedFile_cases());
    claims.add(CLAIM(ggufFilesHoldTheFoldersWeights), ggufFilesHoldTheFoldersWeights_cases());
    claims.add(CLAIM(bothFormsTokeniseThePromptAlike));
    claims.add(CLAIM(equalFilesHaveEqualWeightsIds));
    claims.add(CLAIM(progressRisesToOne));
    claims.add(CLAIM(cancellingStopsAtEveryPart));
    claims.add(CLAIM(storiesModelLoads));
    claims.add(CLAIM(smolLm2Loads));
    return claims.rows();
}
