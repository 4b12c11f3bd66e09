// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/hf_config.h"
#include "tests/model/model_bytes.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"
#include "tests/support/texts.h"

#include <nlohmann/json.hpp>

using namespace kvloupe;
using namespace kvloupe::test;
using nlohmann::json;

namespace {

json llama() {
    return {{"architectures", json::array({"LlamaForCausalLM"})}, {"model_type", "llama"}, {"hidden_size", 32},
            {"intermediate_size", 64}, {"num_hidden_layers", 2}, {"num_attention_heads", 4}, {"num_key_value_heads", 2},
            {"head_dim", 16}, {"vocab_size", 288}, {"max_position_embeddings", 256}, {"rms_norm_eps", 1e-5},
            {"rope_theta", 100000.0}, {"rope_scaling", nullptr}, {"tie_word_embeddings", true},
            {"torch_dtype", "bfloat16"}, {"bos_token_id", 0}, {"eos_token_id", json::array({1, 2})}, {"hidden_act", "silu"},
            {"attention_bias", false}, {"mlp_bias", false}, {"pretraining_tp", 1}};
}

Result<HfConfig> parse(const json& config) {
    const std::string bytes = config.dump();
    return parse_hf_config(as_bytes(bytes), "config.json");
}

bool assumes(const HfConfig& config, const std::string& start) {
    for (const std::string& line : config.model.assumed)
        if (line.rfind(start, 0) == 0) return true;
    return false;
}

void everyKeyIsTaken(Check& check) {
    const Result<HfConfig> config = parse(llama());
    CHECK_RESULT(config);
    const ModelConfig& model = config->model;
    CHECK_EQUAL(model.architecture, "llama");
    CHECK_EQUAL(model.hidden, 32u);
    CHECK_EQUAL(model.intermediate, 64u);
    CHECK_EQUAL(model.layers, 2u);
    CHECK_EQUAL(model.query_heads, 4u);
    CHECK_EQUAL(model.kv_heads, 2u);
    CHECK_EQUAL(model.head_dim, 16u);  // not hidden / heads
    CHECK_EQUAL(model.rotary_dim, 16u);
    CHECK_EQUAL(model.vocabulary, 288u);
    CHECK_EQUAL(model.context_length, 256u);
    CHECK_EQUAL(model.rope_theta, 100000.0f);
    CHECK_EQUAL(model.rms_epsilon, 1e-5f);
    CHECK_THAT(model.tied_embeddings);
    CHECK_THAT(model.rotary_layout == RotaryLayout::half_split);
    CHECK_THAT(model.assumed.empty());
    CHECK_EQUAL(config->dtype, "bfloat16");
    CHECK_THAT(config->bos == TokenId{0});
    CHECK_THAT(config->end_tokens == (std::vector<TokenId>{1, 2}));
    CHECK_EQUAL(model.attention_variant(), "GQA");
}

// transformers' LlamaConfig, except that a folder without any token ids has none.
void missingKeysTakeTheDefaultsAndSaySo(Check& check) {
    const Result<HfConfig> config = parse({{"model_type", "llama"}});
    CHECK_RESULT(config);
    const ModelConfig& model = config->model;
    CHECK_EQUAL(model.hidden, 4096u);
    CHECK_EQUAL(model.intermediate, 11008u);
    CHECK_EQUAL(model.layers, 32u);
    CHECK_EQUAL(model.query_heads, 32u);
    CHECK_EQUAL(model.kv_heads, 32u);
    CHECK_EQUAL(model.head_dim, 128u);
    CHECK_EQUAL(model.vocabulary, 32000u);
    CHECK_EQUAL(model.context_length, 2048u);
    CHECK_EQUAL(model.rope_theta, 10000.0f);
    CHECK_EQUAL(model.rms_epsilon, 1e-6f);
    CHECK_THAT(!model.tied_embeddings);
    CHECK_THAT(!config->bos && config->end_tokens.empty());
    for (const char* line :
         {"hidden_size = 4096 (not in config.json)", "intermediate_size = 11008", "num_hidden_layers = 32",
          "num_attention_heads = 32", "num_key_value_heads = 32", "head_dim = 128", "vocab_size = 32000",
          "max_position_embeddings = 2048", "rope_theta = 10000", "rms_norm_eps = 1e-06",
          "tie_word_embeddings = false"})
        CHECK_OR_SAY(assumes(*config, line), line);
}

void kvHeadsDefaultToTheQueryHeads(Check& check) {
    json config = llama();
    config.erase("num_key_value_heads");
    Result<HfConfig> parsed = parse(config);
    CHECK_THAT(parsed && parsed->model.kv_heads == 4 && assumes(*parsed, "num_key_value_heads = 4"));
    config["num_key_value_heads"] = nullptr;
    parsed = parse(config);
    CHECK_THAT(parsed && parsed->model.kv_heads == 4);
}

void headSizeDefaultsToWidthOverHeads(Check& check) {
    json config = llama();
    config.erase("head_dim");
    const Result<HfConfig> parsed = parse(config);
    CHECK_THAT(parsed && parsed->model.head_dim == 8 && assumes(*parsed, "head_dim = 8"));
}

struct PlainRotaryFormsAreAcceptedCase {
    std::string key, value;
    float theta;
};
Cases<PlainRotaryFormsAreAcceptedCase> plainRotaryFormsAreAccepted_cases() {
    Cases<PlainRotaryFormsAreAcceptedCase> cases;
    cases.add("null", {"rope_scaling", "null", 100000.0f});
    cases.add("default", {"rope_scaling", R"({"rope_type":"default"})", 100000.0f});
    cases.add("old default", {"rope_scaling", R"({"type":"default"})", 100000.0f});
    cases.add("factor 1", {"rope_scaling", R"({"rope_type":"default","factor":1.0})", 100000.0f});
    cases.add("linear by 1", {"rope_scaling", R"({"type":"linear","factor":1.0})", 100000.0f});
    cases.add("parameters",
              {"rope_parameters", R"({"rope_type":"default","rope_theta":500000.0})", 500000.0f});
    return cases;
}
void plainRotaryFormsAreAccepted(Check& check, const PlainRotaryFormsAreAcceptedCase& row) {
    json config = llama();
    config[row.key] = json::parse(row.value);
    const Result<HfConfig> parsed = parse(config);
    CHECK_RESULT(parsed);
    CHECK_EQUAL(parsed->model.rope_theta, row.theta);
    CHECK_THAT(parsed->model.rotary_scaling == RotaryScaling{});
}

// One changed key; the error must hold its name and value, and say what is not built by name.
struct OtherValuesAreRefusedByKeyAndValueCase {
    std::string key, value;
    std::vector<std::string> words;
};
Cases<OtherValuesAreRefusedByKeyAndValueCase> otherValuesAreRefusedByKeyAndValue_cases() {
    Cases<OtherValuesAreRefusedByKeyAndValueCase> cases;
    const auto row = [&](const char* key, const char* value, const std::vector<std::string>& words) {
        cases.add(printed("%s = %s", key, value), {std::string(key), std::string(value), words});
    };
    row("model_type", R"("phi3")", {"'phi3'", "not built yet", "llama, mistral, mixtral, qwen2", "deepseek_v2 and deepseek_v3"});
    row("model_type", R"("qwen2")", {"'model_type' is 'qwen2'", "'LlamaForCausalLM' is of llama"});
    row("model_type", "3", {"'model_type'", "the number 3"});
    row("architectures", R"(["LlamaForSequenceClassification"])", {"'LlamaForSequenceClassification'", "not built yet"});
    row("architectures", "[]", {"'architectures'", "array of 0"});
    row("architectures", "[1]", {"'architectures'"});
    row("hidden_size", R"("32")", {"'hidden_size'", "the string '32'"});
    row("hidden_size", "32.5", {"'hidden_size'", "32.5"});
    row("hidden_size", "0", {"'hidden_size'", "the number 0", "1 to"});
    row("hidden_size", "-32", {"'hidden_size'", "-32"});
    row("hidden_size", "true", {"'hidden_size'", "true"});
    row("num_hidden_layers", "1000000", {"'num_hidden_layers'", "1000000", "4,096"});
    row("num_hidden_layers", "18446744073709551616", {"'num_hidden_layers'"});
    row("num_attention_heads", "[4]", {"'num_attention_heads'", "array of 1", "2 layers"});
    row("num_attention_heads", R"([4,"4"])", {"'num_attention_heads'", "the string '4'"});
    row("num_key_value_heads", "[2,3]", {"KV heads, 3", "query heads, 4", "layer 1"});
    row("intermediate_size", "[64,0]", {"'intermediate_size'", "the number 0"});
    row("num_attention_heads", "99999", {"'num_attention_heads'", "99999"});
    row("num_key_value_heads", "3", {"KV heads, 3", "query heads, 4"});
    row("num_key_value_heads", "0", {"'num_key_value_heads'", "0"});
    row("head_dim", "7", {"head size 7", "odd"});
    row("head_dim", "{}", {"'head_dim'", "object"});
    row("vocab_size", "9999999999", {"'vocab_size'", "9999999999"});
    row("max_position_embeddings", "-1", {"'max_position_embeddings'", "-1"});
    row("rms_norm_eps", R"("tiny")", {"'rms_norm_eps'", "'tiny'"});
    row("rms_norm_eps", "-1", {"'rms_norm_eps'", "-1"});
    row("rms_norm_eps", "2", {"epsilon 2"});
    row("rope_theta", "0", {"'rope_theta'", "0"});
    row("rope_theta", "1e300", {"'rope_theta'", "1e+300"});
    row("rope_scaling", R"({"rope_type":"longrope","factor":8.0})", {"'rope_scaling'", "'longrope'", "not built yet"});
    row("rope_scaling", R"({"rope_type":"llama3"})", {"'rope_scaling'", "no 'factor'", "'llama3'"});
    row("rope_scaling", R"({"type":"linear","factor":-2.0})", {"'rope_scaling'", "'factor'", "-2"});
    row("rope_scaling", R"({"factor":2.0})", {"'rope_scaling'", "2", "no 'rope_type'"});
    row("rope_scaling", R"({"type":"yarn","factor":2.0,"beta_fast":1,"beta_slow":2})", {"beta_fast 1", "beta_slow 2"});
    row("rope_scaling", R"({"type":"yarn","factor":2.0,"truncate":false})", {"'truncate'", "not built yet"});
    row("rope_scaling", R"({"type":"llama3","factor":2.0,"low_freq_factor":4.0})", {"high frequency factor 4", "low one, 4"});
    row("rope_scaling", R"({"rope_type":1})", {"'rope_scaling'", "'rope_type'", "the number 1"});
    row("rope_scaling", "8", {"'rope_scaling'", "the number 8"});
    row("rope_parameters", R"({"rope_type":"dynamic"})", {"'rope_parameters'", "'dynamic'", "not built yet"});
    row("partial_rotary_factor", "0.5", {"'partial_rotary_factor'", "0.5", "built"});
    row("tie_word_embeddings", R"("yes")", {"'tie_word_embeddings'", "'yes'"});
    row("attention_bias", "1", {"'attention_bias'", "the number 1"});
    row("mlp_bias", "true", {"'mlp_bias'", "not built yet"});
    row("hidden_act", R"("gelu")", {"'hidden_act'", "'gelu'", "not built yet"});
    row("text_config", "3", {"'text_config'", "the number 3"});
    row("bos_token_id", "288", {"'bos_token_id'", "288", "vocabulary"});
    row("bos_token_id", R"("<s>")", {"'bos_token_id'", "'<s>'"});
    row("eos_token_id", "[1,-2]", {"'eos_token_id'", "-2"});
    row("eos_token_id", "1.5", {"'eos_token_id'", "1.5"});
    return cases;
}
void otherValuesAreRefusedByKeyAndValue(Check& check, const OtherValuesAreRefusedByKeyAndValueCase& row) {
    // Spliced in as text: a parsed number would be rounded where it is large.
    json config = llama();
    config.erase(row.key);
    std::string bytes = config.dump();
    bytes.insert(1, "\"" + row.key + "\":" + row.value + ",");
    const Result<HfConfig> parsed = parse_hf_config(as_bytes(bytes), "folder/config.json");
    CHECK_THAT(!parsed);
    const std::string message = parsed.error().message();
    CHECK_OR_SAY(message.starts_with("folder/config.json: "), message);
    CHECK_OR_SAY(!parsed.error().hint.empty(), message);
    for (const std::string& word : row.words) CHECK_OR_SAY(contains(message, word), message);
}

struct FilesThatAreNoConfigurationAreRefusedCase {
    std::string bytes;
    std::vector<std::string> words;
};
Cases<FilesThatAreNoConfigurationAreRefusedCase> filesThatAreNoConfigurationAreRefused_cases() {
    Cases<FilesThatAreNoConfigurationAreRefusedCase> cases;
    cases.add("empty", {std::string(), {"JSON"}});
    cases.add("a list", {"[1]", {"an array of 1", "not an object"}});
    cases.add("no architecture", {"{}", {"model_type", "architectures"}});
    cases.add("cut off", {"{\"model_type\":\"lla", {"JSON", "missing closing quote"}});
    cases.add("key twice",
              {R"({"model_type":"llama","model_type":"llama"})", {"'model_type'", "twice"}});
    cases.add("deep", {std::string(R"({"a":)" + std::string(1000000, '[')), {"64 levels"}});
    cases.add("bad UTF-8", {"{\"a\":\"\xc3\x28\"}", {"JSON"}});
    cases.add("no head size",
              {R"({"model_type":"llama","hidden_size":100,"num_attention_heads":3})",
               {"'head_dim'", "'hidden_size' 100", "'num_attention_heads' 3"}});
    return cases;
}
void filesThatAreNoConfigurationAreRefused(Check& check, const FilesThatAreNoConfigurationAreRefusedCase& row) {
    const Result<HfConfig> parsed = parse_hf_config(as_bytes(row.bytes), "config.json");
    CHECK_THAT(!parsed);
    const std::string message = parsed.error().message();
    CHECK_OR_SAY(message.starts_with("config.json: ") && message.size() < 400, message);
    for (const std::string& word : row.words) CHECK_OR_SAY(contains(message, word), message);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(everyKeyIsTaken));
    claims.add(CLAIM(missingKeysTakeTheDefaultsAndSaySo));
    claims.add(CLAIM(kvHeadsDefaultToTheQueryHeads));
    claims.add(CLAIM(headSizeDefaultsToWidthOverHeads));
    claims.add(CLAIM(plainRotaryFormsAreAccepted), plainRotaryFormsAreAccepted_cases());
    claims.add(CLAIM(otherValuesAreRefusedByKeyAndValue), otherValuesAreRefusedByKeyAndValue_cases());
    claims.add(CLAIM(filesThatAreNoConfigurationAreRefused), filesThatAreNoConfigurationAreRefused_cases());
    return claims.rows();
}
