// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/config_limits.h"
#include "engine/model/gguf_parts.h"
#include "engine/model/message.h"

namespace kvloupe {

// Files with key_length_mla say by key_length and value_length what the cache holds; older ones mean the heads by them.
bool read_gguf_latent(GgufConfigReader& reader, ModelConfig& config) {
    LatentShape& latent = config.latent;
    const bool newer = reader.has("attention.key_length_mla");
    const std::string keys = newer ? "attention.key_length_mla" : "attention.key_length";
    const std::string values = newer ? "attention.value_length_mla" : "attention.value_length";
    if (!reader.need_count("attention.kv_lora_rank", ConfigLimits::width, latent.kv_rank) ||
        !reader.read_optional_count("attention.q_lora_rank", ConfigLimits::width, latent.query_rank) ||
        !reader.need_count("rope.dimension_count", ConfigLimits::width, latent.rotary_dim) ||
        !reader.need_count(keys, ConfigLimits::width, config.head_dim) ||
        !reader.need_count(values, ConfigLimits::width, latent.value_dim))
        return false;
    if (latent.rotary_dim >= config.head_dim)
        return reader.fail("key " + in_quotes(reader.full("rope.dimension_count")) + " is " + grouped(latent.rotary_dim) +
                           ", which leaves nothing of " + in_quotes(reader.full(keys)) + " " + grouped(config.head_dim));
    latent.nope_dim = config.head_dim - latent.rotary_dim;
    return true;
}

}  // namespace kvloupe
