// SPDX-License-Identifier: GPL-3.0-or-later
//
// The table of known models: every row of FORMATS 3.1, Gemma 3 at four lengths, published numbers of parameters.
#include "engine/analysis/kv_size.h"
#include "tests/analysis/known_models_file.h"

#include <cmath>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

struct Published {
    const char* name;
    std::uint64_t bytes;
};
Cases<Published> bytes_per_token() {
    Cases<Published> cases;
    const auto add = [&cases](const char* name, std::uint64_t bytes) { cases.add(name, {name, bytes}); };
    add("OPT-13B", 819200);
    add("OPT-66B", 2359296);
    add("OPT-175B", 4718592);
    add("GPT-2 small", 36864);
    add("GPT-2 XL", 307200);
    add("Llama-2-7B", 524288);
    add("Llama-2-13B", 819200);
    add("Llama-2-70B", 327680);
    add("Llama-3-70B", 327680);
    add("Llama-3.1-70B", 327680);
    add("Llama-3-8B", 131072);
    add("Llama-3.1-8B", 131072);
    add("Mistral-7B", 131072);
    add("Mixtral-8x7B", 131072);
    add("Llama-3.1-405B", 516096);
    add("Llama-3.2-1B", 32768);
    add("Llama-3.2-3B", 114688);
    add("CodeLlama-34B", 196608);
    add("Yi-34B", 245760);
    add("Mistral-Nemo", 163840);
    add("Qwen2.5-0.5B", 12288);
    add("Qwen2-1.5B", 28672);
    add("Qwen2.5-3B", 36864);
    add("Qwen2.5-7B", 57344);
    add("Qwen3-1.7B", 114688);
    add("Qwen3-4B", 147456);
    add("Qwen3-8B", 147456);
    add("Qwen3-14B", 163840);
    add("Qwen3-30B-A3B", 98304);
    add("Gemma-3-1B", 26624);
    add("Gemma-3-4B", 139264);
    add("Gemma-3-12B", 393216);
    add("Gemma-3-27B", 507904);
    add("DeepSeek-V2", 69120);
    add("DeepSeek-V2-Lite", 31104);
    add("DeepSeek-V3", 70272);
    add("DeepSeek-R1", 70272);
    add("DeepSeek-V3.2", 70272);
    add("SmolLM2-135M", 23040);
    add("stories260K", 640);
    return cases;
}
void bytesPerTokenEqualThePublished(Check& check, const Published& row) {
    const auto model = known_model(check, row.name);
    if (!model) return;
    const auto layers = kv_layers(model->config, {});
    CHECK_THAT(layers);
    CHECK_EQUAL(kv_bytes_per_token(*layers), row.bytes);
}

struct Lengths {
    const char* name;
    std::uint64_t at_1k, at_8k, at_32k, at_128k;
};
Cases<Lengths> gemmas() {
    Cases<Lengths> cases;
    // At 1,024 tokens only the 1B model's windows (512) are full: 4 x 1,024 + 22 x 512 tokens of 1,024 B.
    cases.add("1B", {"Gemma-3-1B", (4 * 1024 + 22 * 512) * 1024, 45088768, 145752064, 548405248});
    cases.add("4B", {"Gemma-3-4B", 1024 * 139264, 289406976, 792723456, 2805989376});
    cases.add("12B", {"Gemma-3-12B", 1024 * 393216, 872415232, 2483027968, 8925478912});
    cases.add("27B", {"Gemma-3-27B", 1024 * 507904, 1107296256, 3120562176, 11173625856});
    return cases;
}
void gemma3KeepsWindowsInItsLocalLayers(Check& check, const Lengths& row) {
    const auto model = known_model(check, row.name);
    if (!model) return;
    const auto layers = kv_layers(model->config, {});
    CHECK_THAT(layers);
    CHECK_EQUAL(kv_bytes(*layers, 1024), row.at_1k);
    CHECK_EQUAL(kv_bytes(*layers, 8192), row.at_8k);
    CHECK_EQUAL(kv_bytes(*layers, 32768), row.at_32k);
    CHECK_EQUAL(kv_bytes(*layers, 131072), row.at_128k);
}

struct Size {
    const char* name;
    double billions;  // as published, rounded to its last digit here
    double last_digit;
};
Cases<Size> sizes() {
    Cases<Size> cases;
    const auto add = [&cases](const char* name, double billions, double last_digit) {
        cases.add(name, {name, billions, last_digit});
    };
    add("OPT-13B", 12.85, 0.01);
    add("OPT-66B", 66, 1);
    add("OPT-175B", 175, 1);
    add("GPT-2", 0.124, 0.001);
    add("GPT-2 XL", 1.558, 0.001);
    add("Llama-2-7B", 6.74, 0.01);
    add("Llama-2-13B", 13.02, 0.01);
    add("Llama-2-70B", 68.98, 0.01);
    add("Llama-3.1-8B", 8.03, 0.01);
    add("Llama-3-70B", 70.55, 0.01);
    add("Llama-3.1-405B", 405.85, 0.01);
    add("Llama-3.2-1B", 1.24, 0.01);
    add("Llama-3.2-3B", 3.21, 0.01);
    add("CodeLlama-34B", 33.7, 0.1);
    add("Yi-34B", 34.4, 0.1);
    add("Mistral-7B", 7.25, 0.01);
    add("Mistral-7B-v0.1", 7.24, 0.01);
    add("Mistral-Nemo", 12.2, 0.1);
    add("Mixtral-8x7B", 46.7, 0.1);
    add("Qwen2.5-0.5B", 0.49, 0.01);
    add("Qwen2-1.5B", 1.54, 0.01);
    add("Qwen2.5-3B", 3.09, 0.01);
    add("Qwen2.5-7B", 7.62, 0.01);
    add("Qwen3-1.7B", 1.7, 0.1);
    add("Qwen3-4B", 4.02, 0.01);
    add("Qwen3-8B", 8.19, 0.01);
    add("Qwen3-14B", 14.8, 0.1);
    add("Qwen3-30B-A3B", 30.5, 0.1);
    add("Gemma-3-1B", 1.0, 0.01);
    add("DeepSeek-V2", 236, 1);
    add("DeepSeek-V2-Lite", 15.7, 0.1);
    add("DeepSeek-V3", 671, 1);
    add("SmolLM2-135M", 0.135, 0.001);
    return cases;
}
void parametersEqualThePublished(Check& check, const Size& row) {
    const auto model = known_model(check, row.name);
    if (!model) return;
    const double counted = static_cast<double>(count_parameters(model->config, model->form).sum()) / 1e9;
    CHECK_EQUAL(std::llround(counted / row.last_digit), std::llround(row.billions / row.last_digit));
}

void namesAreFoundHoweverTheyAreTyped(Check& check) {
    const auto table = installed_models();
    CHECK_THAT(table);
    for (const char* typed : {"llama-3.1-8b", "Llama 3.1 8B", "LLAMA_3.1_8B", "meta-llama/Llama-3.1-8B-Instruct"}) {
        const KnownModel* const found = table->find(typed);
        CHECK_OR_SAY(found != nullptr, typed);
        CHECK_EQUAL(found->names.front(), std::string("Llama-3.1-8B"));
    }
    CHECK_THAT(table->find("Llama-3.1-9B") == nullptr);
    CHECK_THAT(table->find("") == nullptr);
}

struct Broken {
    const char* text;
    const char* named;
};
Cases<Broken> broken_tables() {
    Cases<Broken> cases;
    cases.add("not JSON", {"{", "table.json"});
    cases.add("no list", {"{}", "models"});
    cases.add("entry is no object", {R"({"models": [3]})", "entry"});
    cases.add("no name", {R"({"models": [{"layers": 1}]})", "names"});
    cases.add("no layers", {R"({"models": [{"names": ["a"], "family": "llama"}]})", "layers"});
    const char* const wrong_heads =
        R"({"models": [{"names": ["a"], "family": "llama", "layers": 1, "hidden": 8, "query_heads": 4,
        "kv_heads": 3, "intermediate": 8, "vocabulary": 8, "context": 8}]})";
    cases.add("heads that do not divide", {wrong_heads, "3 KV heads"});
    const char* const unknown_key =
        R"({"models": [{"names": ["a"], "family": "llama", "layers": 1, "hidden": 8, "query_heads": 4,
        "intermediate": 8, "vocabulary": 8, "context": 8, "heads": 4}]})";
    cases.add("unknown key", {unknown_key, "'heads'"});
    const char* const twice =
        R"({"models": [{"names": ["a-b", "AB"], "family": "llama", "layers": 1, "hidden": 8, "query_heads": 4,
        "intermediate": 8, "vocabulary": 8, "context": 8}]})";
    cases.add("a name twice", {twice, "AB"});
    const char* const half_latent =
        R"({"models": [{"names": ["a"], "family": "llama", "layers": 1, "hidden": 8, "query_heads": 4,
        "intermediate": 8, "vocabulary": 8, "context": 8, "latent": {"kv_rank": 4}}]})";
    cases.add("half a latent", {half_latent, "nope_dim"});
    return cases;
}
void aBrokenTableIsOneSentence(Check& check, const Broken& row) {
    const std::string text = row.text;
    const auto table = KnownModels::parse(std::as_bytes(std::span(text)), "table.json");
    CHECK_THAT(!table);
    CHECK_OR_SAY(table.error().message().find(row.named) != std::string::npos, table.error().message());
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(bytesPerTokenEqualThePublished), bytes_per_token());
    claims.add(CLAIM(gemma3KeepsWindowsInItsLocalLayers), gemmas());
    claims.add(CLAIM(parametersEqualThePublished), sizes());
    claims.add(CLAIM(namesAreFoundHoweverTheyAreTyped));
    claims.add(CLAIM(aBrokenTableIsOneSentence), broken_tables());
    return claims.rows();
}
