// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/hf_families.h"

namespace kvloupe {

namespace {

using FamilyKind = HfFamily::Kind;

constexpr std::array<HfFamily, 9> hf_families = {{
    {FamilyKind::llama, "llama", {"llama"}, {"LlamaForCausalLM"},
     32000, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6f, 1e4f, false},
    {FamilyKind::mistral, "mistral", {"mistral"}, {"MistralForCausalLM"},
     32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-6f, 1e4f, false},
    {FamilyKind::mixtral, "mixtral", {"mixtral"}, {"MixtralForCausalLM"},
     32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-5f, 1e6f, false},
    {FamilyKind::qwen2, "qwen2", {"qwen2"}, {"Qwen2ForCausalLM"},
     151936, 4096, 22016, 32, 32, 32, 0, 32768, 1e-6f, 1e4f, false},
    {FamilyKind::qwen3, "qwen3", {"qwen3"}, {"Qwen3ForCausalLM"},
     151936, 4096, 22016, 32, 32, 32, 128, 32768, 1e-6f, 1e4f, false},
    {FamilyKind::gemma2, "gemma2", {"gemma2"}, {"Gemma2ForCausalLM"},
     256000, 2304, 9216, 26, 8, 4, 256, 8192, 1e-6f, 1e4f, true},
    {FamilyKind::gemma3, "gemma3", {"gemma3", "gemma3_text"}, {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
     262208, 2304, 9216, 26, 8, 4, 256, 131072, 1e-6f, 1e6f, true},
    {FamilyKind::deepseek_v2, "deepseek_v2", {"deepseek_v2"}, {"DeepseekV2ForCausalLM"},
     32000, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6f, 1e4f, false},
    {FamilyKind::deepseek_v3, "deepseek_v3", {"deepseek_v3"}, {"DeepseekV3ForCausalLM"},
     129280, 7168, 18432, 61, 128, 0, 0, 4096, 1e-6f, 1e4f, false},
}};

const HfFamily* find(std::string_view name, std::array<std::string_view, 2> HfFamily::*names) {
    if (name.empty()) return nullptr;
    for (const HfFamily& family : hf_families)
        for (const std::string_view known : family.*names)
            if (known == name) return &family;
    return nullptr;
}

}  // namespace

const HfFamily* family_of_type(std::string_view model_type) { return find(model_type, &HfFamily::model_types); }
const HfFamily* family_of_class(std::string_view name) { return find(name, &HfFamily::classes); }

std::string known_architectures() {
    std::string text;
    for (std::size_t i = 0; i < hf_families.size(); ++i)
        text += (i == 0 ? "" : i + 1 == hf_families.size() ? " and " : ", ") + std::string(hf_families[i].architecture);
    return text;
}

}  // namespace kvloupe
