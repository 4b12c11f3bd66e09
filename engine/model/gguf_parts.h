// SPDX-License-Identifier: GPL-3.0-or-later
//
// The parts of a configuration in GGUF metadata, each read by a function of its own. Keys: FORMATS 2.2 and the constants of the
// gguf package. All return false with the reader's error set.
#pragma once

#include "engine/model/gguf_config_reader.h"

#include <string_view>

namespace kvloupe {

struct GgufFamily {
    std::string_view name;          // general.architecture
    std::string_view architecture;  // as ModelConfig names it; of "llama" and "deepseek2" the file's other keys may say more
    RotaryLayout rotary_layout = RotaryLayout::half_split;
    bool is(std::string_view other) const { return name == other; }
    bool is_gemma() const { return is("gemma2") || is("gemma3"); }
};
// Nothing where no family has that name.
const GgufFamily* gguf_family(std::string_view name);
std::string known_gguf_architectures();

// gguf_latent.cpp: multi-head latent attention; sets head_dim, rotary_dim and the value width.
bool read_gguf_latent(GgufConfigReader& reader, ModelConfig& config);
// gguf_experts.cpp
bool read_gguf_experts(GgufConfigReader& reader, const GgufFamily& family, ModelConfig& config);
// gguf_rotary.cpp: base, width and scaling, Llama 3's frequency factors among them.
bool read_gguf_rotary(GgufConfigReader& reader, const GgufFamily& family, ModelConfig& config);
// gguf_gemma.cpp: scales, soft caps, windows.
bool read_gguf_gemma(GgufConfigReader& reader, const GgufFamily& family, ModelConfig& config);

}  // namespace kvloupe
