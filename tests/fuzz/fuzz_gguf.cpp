// SPDX-License-Identifier: GPL-3.0-or-later
//
// Any bytes: either an error with a sentence, or a directory whose tensors lie in the file and share no byte; the same
// for the configuration and the weights made of it.
#include "engine/model/gguf.h"
#include "engine/model/gguf_config.h"
#include "engine/model/model_tensors.h"
#include "tests/fuzz/require.h"

#include <algorithm>
#include <cstdint>

using namespace kvloupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
    const Result<GgufFile> file = parse_gguf(bytes, "input");
    if (!file) {
        KVLOUPE_REQUIRE(file.error().sentence.size() > 7 && file.error().sentence.substr(0, 5) == "input");
        return 0;
    }
    std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
    std::vector<StoredTensor> tensors;
    for (const GgufTensor& tensor : file->tensors) {
        KVLOUPE_REQUIRE(tensor.offset <= size && tensor.bytes <= size - tensor.offset);
        extents.emplace_back(tensor.offset, tensor.offset + tensor.bytes);
        tensors.push_back({tensor.name, {tensor.dims.rbegin(), tensor.dims.rend()}, dtype_from_ggml(tensor.type),
                           ggml_type_name(tensor.type), bytes.data() + tensor.offset, tensor.offset});
    }
    std::sort(extents.begin(), extents.end());
    for (std::size_t i = 1; i < extents.size(); ++i) KVLOUPE_REQUIRE(extents[i - 1].second <= extents[i].first);
    for (const auto& entry : file->metadata) KVLOUPE_REQUIRE(!describe(entry.second).empty());

    const Result<ModelConfig> config = config_from_gguf(*file);
    if (!config) {
        KVLOUPE_REQUIRE(!config.error().sentence.empty());
        return 0;
    }
    Model model;
    model.config = *config;
    KVLOUPE_REQUIRE(config->layer_shapes.size() == config->layers);
    const Result<void> assigned = assign_tensors(model, tensors, gguf_names(), {"rope_freqs."}, "input");
    if (!assigned) return 0;
    // Every tensor lies whole in the file, or in what was made at load.
    const auto within = [](const Tensor& tensor, std::span<const std::byte> memory) {
        return tensor.data >= memory.data() && tensor.data + tensor.bytes() <= memory.data() + memory.size();
    };
    const auto require = [&](const Tensor& tensor, bool needed) {
        KVLOUPE_REQUIRE(tensor.present() || !needed);
        if (!tensor.present() || within(tensor, bytes)) return;
        KVLOUPE_REQUIRE(std::any_of(model.owned.begin(), model.owned.end(),
                                    [&](const std::vector<std::byte>& own) { return within(tensor, own); }));
    };
    const bool latent = config->latent.present();
    for (const LayerWeights& layer : model.layers) {
        for (const Tensor* tensor : {&layer.attention_norm, &layer.attention_out, &layer.ffn_norm}) require(*tensor, true);
        for (const Tensor* tensor : {&layer.key, &layer.value}) require(*tensor, !latent);
        for (const Tensor* tensor : {&layer.query, &layer.gate, &layer.up, &layer.down, &layer.query_bias, &layer.key_bias,
                                     &layer.value_bias, &layer.query_norm, &layer.key_norm, &layer.post_attention_norm,
                                     &layer.post_ffn_norm, &layer.router, &layer.router_bias, &layer.latent.query_down,
                                     &layer.latent.query_norm, &layer.latent.query_up})
            require(*tensor, false);
        for (const Tensor* tensor : {&layer.latent.key_value_down, &layer.latent.key_value_norm, &layer.latent.key_value_up,
                                     &layer.latent.key_up_transposed, &layer.latent.value_up})
            require(*tensor, latent);
        for (const FeedForwardWeights& expert : layer.experts)
            for (const Tensor* tensor : {&expert.gate, &expert.up, &expert.down}) require(*tensor, true);
    }
    return 0;
}
