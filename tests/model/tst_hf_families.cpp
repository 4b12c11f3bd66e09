// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a config.json of each architecture says: public configurations against published figures, defaults, rules of windows
// and experts, and the sentences where keys are missing or contradict each other. No weights are needed.
#include "engine/model/hf_config.h"
#include "engine/model/mapped_file.h"
#include "tests/model/model_bytes.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"
#include "tests/support/texts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace kvloupe;
using namespace kvloupe::test;
using nlohmann::json;

namespace {

Result<HfConfig> parse(const json& config) {
    const std::string bytes = config.dump();
    return parse_hf_config(as_bytes(bytes), "config.json");
}

// f16 bytes that `tokens` tokens take in the cache.
std::uint64_t cache_bytes(const ModelConfig& config, std::uint64_t tokens) {
    std::uint64_t bytes = 0;
    for (const LayerShape& layer : config.layer_shapes) {
        const std::uint64_t kept = layer.window > 0 ? std::min<std::uint64_t>(tokens, layer.window) : tokens;
        const std::uint64_t values = config.latent.present() ? config.latent.kv_rank + config.latent.rotary_dim
                                                             : 2ull * layer.kv_heads * config.head_dim;
        bytes += 2 * kept * values;
    }
    return bytes;
}

std::size_t count_of(const ModelConfig& config, bool (*has)(const LayerShape&)) {
    return static_cast<std::size_t>(std::count_if(config.layer_shapes.begin(), config.layer_shapes.end(), has));
}
bool has_window(const LayerShape& layer) { return layer.window > 0; }
bool has_experts(const LayerShape& layer) { return layer.experts; }

// FORMATS 3.1, and the configurations themselves.
struct PublicConfigurationsHaveTheirShapeCase {
    std::string name, architecture, variant;
    std::size_t layers, windows, experts;  // of so many layers
    std::uint64_t tokens, bytes;           // in the cache, f16
};
Cases<PublicConfigurationsHaveTheirShapeCase> publicConfigurationsHaveTheirShape_cases() {
    Cases<PublicConfigurationsHaveTheirShapeCase> cases;
    const auto row = [&](const char* name, const char* architecture, const char* variant, std::size_t layers, std::size_t windows,
                         std::size_t experts, std::uint64_t tokens, std::uint64_t bytes) {
        cases.add(name, {name, architecture, variant, layers, windows, experts, tokens, bytes});
    };
    row("llama-2-7b-hf", "llama", "MHA", 32, 0, 0, 1, 524288);
    row("llama-3.2-1b-instruct", "llama", "GQA", 16, 0, 0, 1, 32768);
    row("llama-3.1-8b-instruct", "llama", "GQA", 32, 0, 0, 1, 131072);
    row("llama-3.1-70b-instruct", "llama", "GQA", 80, 0, 0, 1, 327680);
    row("deepseek-ai--deepseek-v3", "deepseek_v3", "MLA", 61, 0, 58, 1, 70272);
    row("deepseek-v2-lite", "deepseek_v2", "MLA", 27, 0, 26, 1, 31104);
    row("gemma3_1b_it", "gemma3", "MQA", 26, 22, 0, 32768, 145752064);
    row("mixtral-8x7b-v0.1", "mixtral", "GQA", 32, 0, 32, 1, 131072);
    row("qwen2.5-7b-instruct", "qwen2", "GQA", 28, 0, 0, 1, 57344);
    row("qwen3-4b", "qwen3", "GQA", 36, 0, 0, 1, 147456);
    return cases;
}
void publicConfigurationsHaveTheirShape(Check& check, const PublicConfigurationsHaveTheirShapeCase& row) {
    const std::string path = KVLOUPE_SHARED_DATA "/configs/" + row.name + ".config.json";
    if (!file_exists(path)) SKIP_ROW("The public configurations are not here, so none was read.");
    const auto mapped = MappedFile::open(path);
    CHECK_THAT(mapped);
    const Result<HfConfig> parsed = parse_hf_config((*mapped)->bytes(), path);
    CHECK_RESULT(parsed);
    const ModelConfig& model = parsed->model;
    CHECK_EQUAL(model.architecture, row.architecture);
    CHECK_EQUAL(model.attention_variant(), row.variant);
    CHECK_EQUAL(model.layer_shapes.size(), row.layers);
    CHECK_EQUAL(count_of(model, has_window), row.windows);
    CHECK_EQUAL(count_of(model, has_experts), row.experts);
    CHECK_EQUAL(cache_bytes(model, row.tokens), row.bytes);
}

// The parts that only one of the public configurations has, of excerpts of them.
void llama31IsScaled(Check& check) {
    const Result<HfConfig> parsed = parse({{"model_type", "llama"}, {"rope_theta", 500000.0}, {"rope_scaling", {
        {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 8192},
        {"rope_type", "llama3"}}}});
    CHECK_RESULT(parsed);
    const RotaryScaling& scaling = parsed->model.rotary_scaling;
    CHECK_THAT(scaling.kind == RotaryScaling::Kind::llama3);
    CHECK_THAT(scaling.factor == 8 && scaling.low_frequency_factor == 1 && scaling.high_frequency_factor == 4);
    CHECK_EQUAL(scaling.original_context, 8192u);
    CHECK_EQUAL(scaling.magnitude, 1.0f);
}

json deepseek_v3() {
    return {{"model_type", "deepseek_v3"}, {"hidden_size", 7168}, {"intermediate_size", 18432}, {"num_hidden_layers", 61},
            {"num_attention_heads", 128}, {"num_key_value_heads", 128}, {"kv_lora_rank", 512}, {"q_lora_rank", 1536},
            {"qk_nope_head_dim", 128}, {"qk_rope_head_dim", 64}, {"v_head_dim", 128}, {"n_routed_experts", 256},
            {"n_shared_experts", 1}, {"num_experts_per_tok", 8}, {"moe_intermediate_size", 2048}, {"first_k_dense_replace", 3},
            {"n_group", 8}, {"topk_group", 4}, {"topk_method", "noaux_tc"}, {"scoring_func", "sigmoid"},
            {"norm_topk_prob", true}, {"routed_scaling_factor", 2.5}, {"vocab_size", 129280}, {"max_position_embeddings", 163840},
            {"num_nextn_predict_layers", 1}, {"quantization_config", {{"quant_method", "fp8"}}},
            {"rope_scaling", {{"type", "yarn"}, {"factor", 40}, {"mscale", 1.0}, {"mscale_all_dim", 1.0}, {"beta_fast", 32},
                              {"beta_slow", 1}, {"original_max_position_embeddings", 4096}}}};
}

void deepSeekV3IsRead(Check& check) {
    const Result<HfConfig> parsed = parse(deepseek_v3());
    CHECK_RESULT(parsed);
    const ModelConfig& model = parsed->model;
    CHECK_THAT(model.latent == (LatentShape{1536, 512, 128, 64, 128}));
    CHECK_EQUAL(model.head_dim, 192u);
    CHECK_EQUAL(model.rotary_dim, 64u);
    CHECK_THAT(model.rotary_layout == RotaryLayout::adjacent);
    const ExpertShape& experts = model.experts;
    CHECK_THAT(experts.count == 256 && experts.used == 8 && experts.shared == 1 && experts.intermediate == 2048);
    CHECK_THAT(experts.score == ExpertShape::Score::sigmoid && experts.group_score == ExpertShape::GroupScore::best_two);
    CHECK_THAT(experts.groups == 8 && experts.used_groups == 4 && experts.normalised && experts.corrected);
    CHECK_EQUAL(experts.weight_scale, 2.5f);
    CHECK_EQUAL(model.intermediate, 18432u);
    CHECK_THAT(!model.layer_shapes[2].experts && model.layer_shapes[2].intermediate == 18432);
    CHECK_THAT(model.layer_shapes[3].experts && model.layer_shapes[3].intermediate == 0);
    // mscale_all_dim acts on the score, mscale / mscale_all_dim on cosines and sines.
    const double mscale = 0.1 * std::log(40.0) + 1;
    CHECK_BELOW(std::abs(static_cast<double>(model.attention_scale) - mscale * mscale / std::sqrt(192.0)), 1e-7);
    CHECK_EQUAL(model.rotary_scaling.magnitude, 1.0f);
    CHECK_EQUAL(parsed->extra_layers, 1u);
    CHECK_EQUAL(parsed->packed_by, "fp8");
}

// DeepSeek-V2 scales by mscale_all_dim 0.707 as well, has no correction and does not normalise.
void deepSeekV2IsRead(Check& check) {
    json config = deepseek_v3();
    config["model_type"] = "deepseek_v2";
    config["q_lora_rank"] = nullptr;
    config["topk_method"] = "group_limited_greedy";
    config["scoring_func"] = "softmax";
    config["norm_topk_prob"] = false;
    config["rope_scaling"]["mscale"] = config["rope_scaling"]["mscale_all_dim"] = 0.707;
    const Result<HfConfig> parsed = parse(config);
    CHECK_RESULT(parsed);
    const ModelConfig& model = parsed->model;
    CHECK_EQUAL(model.latent.query_rank, 0u);
    CHECK_THAT(model.experts.group_score == ExpertShape::GroupScore::best && !model.experts.corrected);
    CHECK_THAT(model.experts.score == ExpertShape::Score::softmax && !model.experts.normalised);
    const double mscale = 0.1 * 0.707 * std::log(40.0) + 1;
    CHECK_BELOW(std::abs(static_cast<double>(model.attention_scale) - mscale * mscale / std::sqrt(192.0)), 1e-7);
}

// Which layers have a window, as a string of L(ocal) and G(lobal), and its width.
struct WindowsFollowTheFamilysRuleCase {
    json config;
    std::string layers;
    std::uint32_t width;
};
Cases<WindowsFollowTheFamilysRuleCase> windowsFollowTheFamilysRule_cases() {
    Cases<WindowsFollowTheFamilysRuleCase> cases;
    const auto row = [&](const char* name, const char* type, json keys, const char* layers, std::uint32_t width) {
        json config = {{"model_type", type}, {"num_hidden_layers", std::string(layers).size()}};
        config.update(keys);
        cases.add(name, {config, layers, width});
    };
    row("Mistral 7B v0.1", "mistral", {{"sliding_window", 4096}}, "LLLL", 4096);
    row("Mistral v0.2, null", "mistral", {{"sliding_window", nullptr}}, "GGGG", 0);
    row("Mistral, absent", "mistral", json::object(), "GGGG", 0);
    row("Mixtral, null", "mixtral", {{"sliding_window", nullptr}}, "GG", 0);
    row("Qwen2, switched off", "qwen2", {{"sliding_window", 1024}, {"use_sliding_window", false}}, "GGGG", 0);
    row("Qwen2, absent", "qwen2", {{"sliding_window", 1024}}, "GGGG", 0);
    row("Qwen2, upper layers", "qwen2", {{"sliding_window", 1024}, {"use_sliding_window", true}, {"max_window_layers", 2}}, "GGLL", 1024);
    row("Qwen3, named layers", "qwen3",
        {{"sliding_window", 64}, {"use_sliding_window", true},
         {"layer_types", json::array({"sliding_attention", "full_attention", "sliding_attention"})}}, "LGL", 64);
    row("Gemma 2, default", "gemma2", json::object(), "LGLGL", 4096);
    row("Gemma 2, named layers", "gemma2", {{"sliding_window", 32}, {"layer_types", json::array({"full_attention", "sliding_attention"})}}, "GL", 32);
    row("Gemma 3, default", "gemma3_text", json::object(), "LLLLLGLLLLLGLL", 4096);
    row("Gemma 3, pattern", "gemma3_text", {{"sliding_window", 512}, {"sliding_window_pattern", 3}}, "LLGLLGL", 512);
    row("Gemma 3, older key", "gemma3", {{"sliding_window_attention_size", 512}, {"sliding_window_pattern", 2}}, "LGLG", 512);
    row("Llama has none", "llama", {{"sliding_window", 512}}, "GG", 0);
    return cases;
}
void windowsFollowTheFamilysRule(Check& check, const WindowsFollowTheFamilysRuleCase& row) {
    const Result<HfConfig> parsed = parse(row.config);
    CHECK_RESULT(parsed);
    std::string layers;
    for (const LayerShape& layer : parsed->model.layer_shapes) {
        layers += layer.window > 0 ? 'L' : 'G';
        if (layer.window > 0) CHECK_EQUAL(layer.window, row.width);
        CHECK_EQUAL(layer.local_rotary, layer.window > 0 && parsed->model.architecture == "gemma3");
    }
    CHECK_EQUAL(layers, row.layers);
}

// A sparse export, as of Gemma 3 4B: what it leaves out is the class's default, and said so (FORMATS 2.4).
void sparseGemma3ExportsTakeTheClassDefaults(Check& check) {
    const Result<HfConfig> parsed = parse({{"architectures", json::array({"Gemma3ForConditionalGeneration"})},
        {"model_type", "gemma3"}, {"eos_token_id", json::array({1, 106})},
        {"text_config", {{"hidden_size", 2560}, {"intermediate_size", 10240}, {"model_type", "gemma3_text"},
                         {"num_hidden_layers", 34}, {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                         {"sliding_window", 1024}}}});
    CHECK_RESULT(parsed);
    const ModelConfig& model = parsed->model;
    CHECK_THAT(model.query_heads == 8 && model.kv_heads == 4 && model.head_dim == 256 && model.hidden == 2560);
    CHECK_EQUAL(cache_bytes(model, 32768), std::uint64_t{792723456});  // FORMATS 3.1
    CHECK_THAT(model.rotary_scaling.kind == RotaryScaling::Kind::linear && model.rotary_scaling.factor == 8);
    CHECK_THAT(model.rope_theta == 1e6f && model.rope_local_theta == 1e4f);
    CHECK_THAT(model.rotary(0).theta == 1e4f && model.rotary(0).scaling == RotaryScaling{});
    CHECK_THAT(model.rotary(5).theta == 1e6f && model.rotary(5).scaling == model.rotary_scaling);
    CHECK_BELOW(std::abs(static_cast<double>(model.attention_scale) - 1.0 / 16), 1e-9);
    CHECK_BELOW(std::abs(static_cast<double>(model.embedding_scale) - std::sqrt(2560.0)), 1e-5);
    CHECK_THAT(model.tied_embeddings && model.post_norms && model.query_key_norm);
    CHECK_THAT(model.activation == Activation::gelu_tanh && model.logit_soft_cap == 0);
    CHECK_THAT(parsed->end_tokens == (std::vector<TokenId>{1, 106}));
    for (const char* line : {"num_attention_heads = 8 (not in config.json)", "num_key_value_heads = 4", "head_dim = 256",
                             "sliding_window_pattern = 6", "query_pre_attn_scalar = 256", "rope_local_base_freq = 10000"})
        CHECK_OR_SAY(std::any_of(model.assumed.begin(), model.assumed.end(),
                                 [line](const std::string& text) { return text.rfind(line, 0) == 0; }), line);
}

void gemma2IsCapped(Check& check) {
    Result<HfConfig> parsed = parse({{"model_type", "gemma2"}, {"query_pre_attn_scalar", 144}});
    CHECK_RESULT(parsed);
    CHECK_THAT(parsed->model.attention_soft_cap == 50 && parsed->model.logit_soft_cap == 30);
    CHECK_BELOW(std::abs(static_cast<double>(parsed->model.attention_scale) - 1.0 / 12), 1e-8);
    CHECK_THAT(!parsed->model.query_key_norm);
    parsed = parse({{"model_type", "gemma2"}, {"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", 12.5}});
    CHECK_THAT(parsed && parsed->model.attention_soft_cap == 0 && parsed->model.logit_soft_cap == 12.5f);
}

// Newer files keep the bases with the scaling, one object per kind of layer.
void rotaryParametersPerKindOfLayerAreRead(Check& check) {
    const Result<HfConfig> parsed = parse({{"model_type", "gemma3_text"}, {"rope_parameters", {
        {"full_attention", {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 5e5}}},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 2e4}}}}}});
    CHECK_RESULT(parsed);
    CHECK_THAT(parsed->model.rope_theta == 5e5f && parsed->model.rope_local_theta == 2e4f);
    CHECK_THAT(parsed->model.rotary_scaling.kind == RotaryScaling::Kind::linear && parsed->model.rotary_scaling.factor == 4);
}

void yarnMagnitudesAreThePapers(Check& check) {
    json config = {{"model_type", "qwen2"}, {"max_position_embeddings", 32768},
                   {"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}}}};
    Result<HfConfig> parsed = parse(config);
    CHECK_RESULT(parsed);
    CHECK_BELOW(std::abs(static_cast<double>(parsed->model.rotary_scaling.magnitude) - (0.1 * std::log(4.0) + 1)), 1e-7);
    CHECK_EQUAL(parsed->model.attention_scale, 0.0f);
    config["rope_scaling"]["attention_factor"] = 1.25;
    parsed = parse(config);
    CHECK_THAT(parsed && parsed->model.rotary_scaling.magnitude == 1.25f);
}

void headsMayDifferFromLayerToLayer(Check& check) {
    const Result<HfConfig> parsed = parse({{"model_type", "llama"}, {"num_hidden_layers", 3}, {"hidden_size", 64},
        {"head_dim", 16}, {"num_attention_heads", json::array({8, 8, 4})}, {"num_key_value_heads", json::array({8, 2, 1})},
        {"intermediate_size", json::array({32, 96, 64})}});
    CHECK_RESULT(parsed);
    const ModelConfig& model = parsed->model;
    CHECK_THAT(model.layer_shapes[1].kv_heads == 2 && model.layer_shapes[2].query_heads == 4 && model.layer_shapes[2].kv_heads == 1);
    CHECK_THAT(model.query_heads == 8 && model.kv_heads == 8 && model.intermediate == 96);
    CHECK_EQUAL(cache_bytes(model, 1), std::uint64_t{(8 + 2 + 1) * 16 * 2 * 2});
}

// Every architecture by its model_type alone: defaults stand for everything but what a model cannot be without.
Cases<std::string> everyArchitectureIsReadByNameAlone_cases() {
    Cases<std::string> cases;
    for (const char* name : {"llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma2", "gemma3"}) cases.add(name, name);
    return cases;
}
void everyArchitectureIsReadByNameAlone(Check& check, const std::string& name) {
    const Result<HfConfig> parsed = parse({{"model_type", name}});
    CHECK_RESULT(parsed);
    CHECK_EQUAL(parsed->model.architecture, name);
    CHECK_EQUAL(parsed->model.attention_bias, name == "qwen2");
    CHECK_EQUAL(parsed->model.query_key_norm, name == "qwen3" || name == "gemma3");
    CHECK_EQUAL(parsed->model.tied_embeddings, name == "gemma2" || name == "gemma3");
    CHECK_EQUAL(parsed->model.experts.present(), name == "mixtral");
    CHECK_THAT(parsed->model.assumed.size() > 5);
}

// DeepSeek-V3's configuration with keys changed (a null at "-" removes the key).
struct ContradictionsOfLatentModelsAreNamedCase {
    std::string key;
    json value;
    std::vector<std::string> words;
};
Cases<ContradictionsOfLatentModelsAreNamedCase> contradictionsOfLatentModelsAreNamed_cases() {
    Cases<ContradictionsOfLatentModelsAreNamedCase> cases;
    for (const char* key : {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "q_lora_rank"})
        cases.add(std::string("without ") + key, {key, "-", {std::string("has no '") + key + "'", "multi-head latent attention needs"}});
    const auto row = [&](const char* key, json value, std::vector<std::string> words) {
        cases.add(key + (" = " + value.dump()), {key, value, std::move(words)});
    };
    row("kv_lora_rank", 0, {"'kv_lora_rank'", "the number 0"});
    row("kv_lora_rank", nullptr, {"has no 'kv_lora_rank'"});
    row("qk_rope_head_dim", 63, {"rotary embedding of 63 values"});
    row("num_experts_per_tok", 300, {"300 experts per token cannot be chosen among 256"});
    row("num_experts_per_tok", 200, {"4 groups of 32 experts hold fewer than the 200"});
    row("n_group", 7, {"7 groups do not divide 256 experts"});
    row("n_group", 256, {"groups of one expert", "best two"});
    row("topk_group", 9, {"9 groups cannot be chosen among 8"});
    row("topk_method", "random", {"'topk_method' is 'random'", "not built yet"});
    row("topk_method", 3, {"'topk_method'", "the number 3"});
    row("scoring_func", "tanh", {"'scoring_func' is 'tanh'", "not built yet"});
    row("attention_bias", true, {"latent attention with a bias", "not built yet"});
    row("norm_topk_prob", 1, {"'norm_topk_prob'", "the number 1"});
    row("n_routed_experts", -4, {"'n_routed_experts'", "-4"});
    return cases;
}
void contradictionsOfLatentModelsAreNamed(Check& check, const ContradictionsOfLatentModelsAreNamedCase& row) {
    json config = deepseek_v3();
    if (row.value == "-") config.erase(row.key);
    else config[row.key] = row.value;
    const Result<HfConfig> parsed = parse(config);
    CHECK_THAT(!parsed);
    const std::string message = parsed.error().message();
    for (const std::string& word : row.words) CHECK_OR_SAY(contains(message, word), message);
}

// Dense throughout: every layer is before the first with experts, or there are none to choose.
void deepSeekModelsMayBeDense(Check& check) {
    json config = deepseek_v3();
    config["first_k_dense_replace"] = 61;
    Result<HfConfig> parsed = parse(config);
    CHECK_THAT(parsed && !parsed->model.experts.present() && count_of(parsed->model, has_experts) == 0);
    config = deepseek_v3();
    config["n_routed_experts"] = nullptr;
    parsed = parse(config);
    CHECK_THAT(parsed && !parsed->model.experts.present() && count_of(parsed->model, has_experts) == 0);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(publicConfigurationsHaveTheirShape), publicConfigurationsHaveTheirShape_cases());
    claims.add(CLAIM(llama31IsScaled));
    claims.add(CLAIM(deepSeekV3IsRead));
    claims.add(CLAIM(deepSeekV2IsRead));
    claims.add(CLAIM(windowsFollowTheFamilysRule), windowsFollowTheFamilysRule_cases());
    claims.add(CLAIM(sparseGemma3ExportsTakeTheClassDefaults));
    claims.add(CLAIM(gemma2IsCapped));
    claims.add(CLAIM(rotaryParametersPerKindOfLayerAreRead));
    claims.add(CLAIM(yarnMagnitudesAreThePapers));
    claims.add(CLAIM(headsMayDifferFromLayerToLayer));
    claims.add(CLAIM(everyArchitectureIsReadByNameAlone), everyArchitectureIsReadByNameAlone_cases());
    claims.add(CLAIM(contradictionsOfLatentModelsAreNamed), contradictionsOfLatentModelsAreNamed_cases());
    claims.add(CLAIM(deepSeekModelsMayBeDense));
    return claims.rows();
}
