// SPDX-License-Identifier: GPL-3.0-or-later
//
// The GGUF forms of the architectures: a file written from a Hugging Face folder (gguf_twin.h) loads as the same model; keys
// that are missing or contradict each other are named.
#include "engine/model/gguf.h"
#include "engine/model/gguf_config.h"
#include "tests/model/gguf_twin.h"
#include "tests/model/loader_support.h"
#include "tests/support/claims.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/texts.h"

#include <cmath>
#include <functional>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::vector<float> row_of(const Tensor& tensor, std::uint64_t row) {
    std::vector<float> values(tensor.cols);
    dequantise_row(tensor.dtype, tensor.data + row * row_bytes(tensor.dtype, tensor.cols), values);
    return values;
}

// Row r of `a` is row place(r) of `b`.
bool same_rows(const Tensor& a, const Tensor& b, const std::function<std::uint64_t(std::uint64_t)>& place) {
    if (a.present() != b.present()) return false;
    if (!a.present()) return true;
    if (a.rows != b.rows || a.cols != b.cols) return false;
    for (std::uint64_t r = 0; r < a.rows; ++r)
        if (row_of(a, r) != row_of(b, place(r))) return false;
    return true;
}
bool equal_tensors(const Tensor& a, const Tensor& b) {
    return same_rows(a, b, [](std::uint64_t r) { return r; });
}

bool same_experts(const LayerWeights& a, const LayerWeights& b) {
    if (a.experts.size() != b.experts.size()) return false;
    for (std::size_t i = 0; i < a.experts.size(); ++i)
        if (!equal_tensors(a.experts[i].gate, b.experts[i].gate) || !equal_tensors(a.experts[i].up, b.experts[i].up) ||
            !equal_tensors(a.experts[i].down, b.experts[i].down))
            return false;
    return true;
}

void check_weights(Check& check, const Model& folder, const Model& gguf, bool adjacent) {
    const std::uint64_t width = folder.config.head_dim, half = width / 2;
    const auto place = [=](std::uint64_t r) {
        const std::uint64_t inside = r % width;
        return !adjacent ? r : r - inside + (inside < half ? 2 * inside : 2 * (inside - half) + 1);
    };
    CHECK_THAT(equal_tensors(folder.embedding, gguf.embedding) && equal_tensors(folder.output, gguf.output) &&
               equal_tensors(folder.output_norm, gguf.output_norm));
    CHECK_EQUAL(folder.layers.size(), gguf.layers.size());
    for (std::size_t i = 0; i < folder.layers.size(); ++i) {
        const LayerWeights& a = folder.layers[i];
        const LayerWeights& b = gguf.layers[i];
        CHECK_THAT(same_rows(a.query, b.query, place) && same_rows(a.key, b.key, place) && equal_tensors(a.value, b.value));
        CHECK_THAT(equal_tensors(a.query_bias, b.query_bias) && equal_tensors(a.key_bias, b.key_bias) && equal_tensors(a.value_bias, b.value_bias));
        CHECK_THAT(equal_tensors(a.query_norm, b.query_norm) && equal_tensors(a.key_norm, b.key_norm) && equal_tensors(a.attention_out, b.attention_out));
        CHECK_THAT(equal_tensors(a.attention_norm, b.attention_norm) && equal_tensors(a.ffn_norm, b.ffn_norm) &&
                   equal_tensors(a.post_attention_norm, b.post_attention_norm) && equal_tensors(a.post_ffn_norm, b.post_ffn_norm));
        CHECK_THAT(equal_tensors(a.gate, b.gate) && equal_tensors(a.up, b.up) && equal_tensors(a.down, b.down) && same_experts(a, b));
        CHECK_THAT(equal_tensors(a.router, b.router) && equal_tensors(a.router_bias, b.router_bias));
        const LatentWeights &x = a.latent, &y = b.latent;
        CHECK_THAT(equal_tensors(x.query_down, y.query_down) && equal_tensors(x.query_norm, y.query_norm) && equal_tensors(x.query_up, y.query_up) &&
                   equal_tensors(x.key_value_down, y.key_value_down) && equal_tensors(x.key_value_norm, y.key_value_norm));
        CHECK_THAT(equal_tensors(x.key_value_up, y.key_value_up) && equal_tensors(x.key_up_transposed, y.key_up_transposed) &&
                   equal_tensors(x.value_up, y.value_up));
    }
}

bool near(float a, float b) { return std::fabs(a - b) <= 1e-6f * std::fabs(b); }

void check_configs(Check& check, const ModelConfig& a, const ModelConfig& b) {
    CHECK_THAT(a.layers == b.layers && a.hidden == b.hidden && a.vocabulary == b.vocabulary && a.intermediate == b.intermediate);
    CHECK_THAT(a.query_heads == b.query_heads && a.kv_heads == b.kv_heads && a.head_dim == b.head_dim);
    CHECK_THAT(a.layer_shapes == b.layer_shapes);
    CHECK_THAT(a.latent == b.latent && a.rotary_dim == b.rotary_dim && a.rope_theta == b.rope_theta);
    CHECK_THAT(a.rotary_scaling.kind == b.rotary_scaling.kind && a.rotary_scaling.factor == b.rotary_scaling.factor &&
               a.rotary_scaling.original_context == b.rotary_scaling.original_context &&
               near(a.rotary_scaling.magnitude, b.rotary_scaling.magnitude));
    CHECK_THAT(a.rope_local_theta == b.rope_local_theta && near(a.attention_scale, b.attention_scale));
    CHECK_THAT(a.attention_soft_cap == b.attention_soft_cap && a.logit_soft_cap == b.logit_soft_cap);
    CHECK_THAT(a.embedding_scale == b.embedding_scale && a.activation == b.activation && a.post_norms == b.post_norms);
    CHECK_THAT(a.query_key_norm == b.query_key_norm && a.attention_bias == b.attention_bias &&
               a.tied_embeddings == b.tied_embeddings);
    const ExpertShape &x = a.experts, &y = b.experts;
    CHECK_THAT(x.count == y.count && x.used == y.used && x.shared == y.shared && x.intermediate == y.intermediate);
    CHECK_THAT(x.score == y.score && x.group_score == y.group_score && x.groups == y.groups && x.used_groups == y.used_groups);
    CHECK_THAT(x.normalised == y.normalised && x.corrected == y.corrected && x.weight_scale == y.weight_scale);
}

struct GgufFormsAreTheSameModelsCase {
    std::string name;
    std::string architecture;  // as the GGUF form tells
    bool latent_halves;
};
Cases<GgufFormsAreTheSameModelsCase> ggufFormsAreTheSameModels_cases() {
    Cases<GgufFormsAreTheSameModelsCase> cases;
    const auto row = [&](const char* name, const char* architecture, bool halves = false) {
        cases.add(std::string(name) + (halves ? ", in halves" : ""), {name, architecture, halves});
    };
    row("mistral", "llama");
    row("mixtral", "mixtral");
    row("llama-yarn", "llama");
    row("qwen2", "qwen2");
    row("qwen3", "qwen3");
    row("gemma2", "gemma2");
    row("gemma3", "gemma3");
    for (const bool halves : {false, true}) {
        row("deepseek-v2", "deepseek_v2", halves);
        row("deepseek-v2-dense", "deepseek_v2", halves);
        row("deepseek-v3", "deepseek_v3", halves);
    }
    return cases;
}
void ggufFormsAreTheSameModels(Check& check, const GgufFormsAreTheSameModelsCase& row) {
    const Loaded folder = load(fixtures + "tiny-family/" + row.name);
    CHECK_RESULT(folder);
    GgufTwin twin(**folder, row.latent_halves);
    const TemporaryFolder place;
    const std::string path = place.file(row.name + ".gguf");
    CHECK_THAT(write_bytes(path, twin.bytes()));
    const Loaded gguf = load(path);
    CHECK_RESULT(gguf);
    CHECK_EQUAL((*gguf)->config.architecture, row.architecture);
    CHECK_THAT((*gguf)->config.rotary_layout == (twin.adjacent_heads() || row.latent_halves || (*folder)->config.latent.present()
                                                     ? RotaryLayout::adjacent
                                                     : RotaryLayout::half_split));
    check_configs(check, (*folder)->config, (*gguf)->config);
    if (!check.good()) return;
    CHECK_EQUAL((*gguf)->config.parameters, (*folder)->config.parameters);
    check_weights(check, **folder, **gguf, twin.adjacent_heads());
}

// A file of keys alone, with one tensor for Llama 3's frequency factors.
Result<ModelConfig> llama_config(const std::vector<float>& factors) {
    GgufBytes file;
    file.header(1, 7).string("general.architecture", "llama").u32("llama.block_count", 2).u32("llama.embedding_length", 256);
    file.u32("llama.feed_forward_length", 64).u32("llama.context_length", 131072).u32("llama.attention.head_count", 2);
    file.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    file.tensor("rope_freqs.weight", {factors.size()}, 0, 0).pad();
    file.out.append(reinterpret_cast<const char*>(factors.data()), factors.size() * sizeof(float));
    const Result<GgufFile> parsed = parse_gguf(as_bytes(file.out), "llama.gguf");
    if (!parsed) return parsed.error();
    return config_from_gguf(*parsed);
}

// What a converter writes for Llama 3.1: divisors of the frequencies, 1 for short waves, 8 for long ones.
std::vector<float> llama3_factors(double factor, double low, double high, double context) {
    std::vector<float> factors;
    for (int i = 0; i < 64; ++i) {
        const double wave = 2 * 3.14159265358979323846 * std::pow(10000.0, i / 64.0);
        const double smooth = (context / wave - low) / (high - low);
        factors.push_back(static_cast<float>(wave < context / high  ? 1
                                             : wave > context / low ? factor
                                                                    : 1 / ((1 - smooth) / factor + smooth)));
    }
    return factors;
}

void llama3FactorsAreRecognised(Check& check) {
    for (const double factor : {8.0, 32.0}) {
        const Result<ModelConfig> config = llama_config(llama3_factors(factor, 1, 4, 8192));
        CHECK_RESULT(config);
        CHECK_THAT(config->rotary_scaling.kind == RotaryScaling::Kind::llama3 && config->rotary_scaling.original_context == 8192);
        CHECK_EQUAL(static_cast<double>(config->rotary_scaling.factor), factor);
    }
}

void otherFrequencyFactorsAreRefused(Check& check) {
    std::vector<float> bent = llama3_factors(8, 1, 4, 8192);
    bent[20] *= 1.5f;
    for (const std::vector<float>& factors :
         {bent, llama3_factors(8, 1, 4, 4096), std::vector<float>(64, 0.0f), std::vector<float>(63, 1.0f), std::vector<float>(64, NAN)}) {
        const Result<ModelConfig> config = llama_config(factors);
        CHECK_THAT(!config);
        CHECK_OR_SAY(contains(config.error().message(), "llama.gguf: "), config.error().message());
    }
    CHECK_THAT(contains(llama_config(bent).error().message(), "another rule than Llama 3's"));
}

// A twin with one key renamed, so that it is missing, or its value changed.
struct BrokenKeysAreNamedCase {
    std::string name, from, to;  // byte sequences of the same length
    std::vector<std::string> words;
};
std::string u32_bytes(std::uint32_t value) { return std::string(reinterpret_cast<const char*>(&value), 4); }
std::string u32_key(const std::string& key, std::uint32_t value) { return key + u32_bytes(4) + u32_bytes(value); }
Cases<BrokenKeysAreNamedCase> brokenKeysAreNamed_cases() {
    Cases<BrokenKeysAreNamedCase> cases;
    const auto missing = [&](const char* name, const std::string& key) {
        std::string other = key;
        other.back() = other.back() == '_' ? '-' : '_';
        cases.add("without " + key, {name, key, other, {"has no key '" + key + "'"}});
    };
    missing("deepseek-v2", "deepseek2.attention.kv_lora_rank");
    missing("deepseek-v2", "deepseek2.rope.dimension_count");
    missing("deepseek-v3", "deepseek2.expert_feed_forward_length");
    missing("mixtral", "llama.expert_used_count");
    const auto row = [&](const char* name, const std::string& key, std::uint32_t from, std::uint32_t to, std::vector<std::string> words) {
        cases.add(key + " = " + std::to_string(to), {name, u32_key(key, from), u32_key(key, to), std::move(words)});
    };
    row("deepseek-v2", "deepseek2.rope.dimension_count", 8, 24, {"'deepseek2.rope.dimension_count' is 24", "leaves nothing"});
    row("deepseek-v3", "deepseek2.expert_group_count", 4, 3, {"3 groups do not divide 8 experts"});
    row("deepseek-v3", "deepseek2.expert_gating_func", 2, 9, {"'deepseek2.expert_gating_func' is 9", "outside 1 to 2"});
    row("mixtral", "llama.expert_used_count", 2, 5, {"5 experts per token", "among 4"});
    row("qwen3", "qwen3.attention.value_length", 16, 8, {"'qwen3.attention.value_length' 8", "key length 16"});
    cases.add("scaling", {"llama-yarn", "\x04" + std::string(7, '\0') + "yarn", "\x04" + std::string(7, '\0') + "warp",
                          {"'llama.rope.scaling.type' is 'warp'", "not built yet"}});
    return cases;
}
void brokenKeysAreNamed(Check& check, const BrokenKeysAreNamedCase& row) {
    const Loaded folder = load(fixtures + "tiny-family/" + row.name);
    CHECK_RESULT(folder);
    std::string bytes = GgufTwin(**folder, false).bytes();
    CHECK_EQUAL(row.from.size(), row.to.size());
    const std::size_t at = bytes.find(row.from);
    CHECK_THAT(at != std::string::npos);
    bytes.replace(at, row.from.size(), row.to);
    const Result<GgufFile> file = parse_gguf(as_bytes(bytes), "broken.gguf");
    CHECK_RESULT(file);
    const Result<ModelConfig> config = config_from_gguf(*file);
    CHECK_THAT(!config);
    for (const std::string& word : row.words) CHECK_OR_SAY(contains(config.error().message(), word), config.error().message());
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(ggufFormsAreTheSameModels), ggufFormsAreTheSameModels_cases());
    claims.add(CLAIM(llama3FactorsAreRecognised));
    claims.add(CLAIM(otherFrequencyFactorsAreRefused));
    claims.add(CLAIM(brokenKeysAreNamed), brokenKeysAreNamed_cases());
    return claims.rows();
}
