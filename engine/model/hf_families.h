// SPDX-License-Identifier: GPL-3.0-or-later
//
// The architectures of Hugging Face configurations that are read, with the values that their keys have where a file leaves them
// out: those of the configuration classes of transformers 4.57 (FORMATS 2.4).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvloupe {

struct HfFamily {
    enum class Kind : std::uint8_t { llama, mistral, mixtral, qwen2, qwen3, gemma2, gemma3, deepseek_v2, deepseek_v3 };
    Kind kind;
    std::string_view architecture;                // as ModelConfig names it
    std::array<std::string_view, 2> model_types;  // of config.json
    std::array<std::string_view, 2> classes;      // "architectures" of config.json
    std::uint32_t vocabulary, hidden, intermediate, layers, query_heads;
    std::uint32_t kv_heads;                       // 0: as many as query heads
    std::uint32_t head_dim;                       // 0: hidden / query heads
    std::uint32_t context_length;
    float rms_epsilon, rope_theta;
    bool tied_embeddings;

    bool is_gemma() const { return kind == Kind::gemma2 || kind == Kind::gemma3; }
    bool is_deepseek() const { return kind == Kind::deepseek_v2 || kind == Kind::deepseek_v3; }
};

// Nothing where no family has that model_type or class.
const HfFamily* family_of_type(std::string_view model_type);
const HfFamily* family_of_class(std::string_view name);
// "llama, mistral, … and deepseek_v3".
std::string known_architectures();

}  // namespace kvloupe
