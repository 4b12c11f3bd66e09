// SPDX-License-Identifier: GPL-3.0-or-later
//
// Any bytes: either an error with a sentence, or a configuration that keeps the relations the engine counts on.
#include "engine/model/hf_config.h"
#include "tests/fuzz/require.h"

#include <cstdint>

using namespace kvloupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Result<HfConfig> config = parse_hf_config({reinterpret_cast<const std::byte*>(data), size}, "input");
    if (!config) {
        KVLOUPE_REQUIRE(config.error().sentence.size() > 7 && config.error().sentence.substr(0, 5) == "input");
        return 0;
    }
    const ModelConfig& model = config->model;
    KVLOUPE_REQUIRE(model.layers > 0 && model.hidden > 0 && model.intermediate > 0 && model.vocabulary > 0);
    KVLOUPE_REQUIRE(model.kv_heads > 0 && model.query_heads % model.kv_heads == 0);
    KVLOUPE_REQUIRE(model.head_dim > 0 && model.rotary_dim > 0 && model.rotary_dim % 2 == 0 && model.rotary_dim <= model.head_dim);
    KVLOUPE_REQUIRE(model.latent.present() || model.head_dim % 2 == 0);
    KVLOUPE_REQUIRE(model.layer_shapes.size() == model.layers);
    bool experts = false;
    for (const LayerShape& layer : model.layer_shapes) {
        KVLOUPE_REQUIRE(layer.query_heads > 0 && layer.kv_heads > 0 && layer.query_heads % layer.kv_heads == 0);
        KVLOUPE_REQUIRE(layer.experts || (layer.intermediate > 0 && layer.intermediate <= model.intermediate));
        experts = experts || layer.experts;
    }
    KVLOUPE_REQUIRE(!experts || (model.experts.used > 0 && model.experts.used <= model.experts.count &&
                                 model.experts.count % model.experts.groups == 0));
    for (const std::uint32_t layer : {0u, model.layers - 1})
        for (const double frequency : rotary_frequencies(model.rotary(layer))) KVLOUPE_REQUIRE(frequency >= 0);
    KVLOUPE_REQUIRE(model.rope_theta > 0);
    for (const TokenId token : config->end_tokens)
        KVLOUPE_REQUIRE(token >= 0 && static_cast<std::uint32_t>(token) < model.vocabulary);
    return 0;
}
