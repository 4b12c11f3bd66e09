// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/decoder_buffers.h"

#include <algorithm>

namespace kvloupe {

std::vector<DecoderBuffers::Part> DecoderBuffers::row_parts(const ModelConfig& config, const DecoderOptions& options) {
    std::uint64_t query_heads = 0, kv_heads = 0, intermediate = 0;
    for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
        const LayerShape shape = layer_shape(config, layer);
        query_heads = std::max<std::uint64_t>(query_heads, shape.query_heads);
        kv_heads = std::max<std::uint64_t>(kv_heads, shape.kv_heads);
        if (!shape.experts) intermediate = std::max<std::uint64_t>(intermediate, shape.intermediate);
    }
    const ExpertShape& experts = config.experts;
    if (experts.present())
        intermediate = std::max<std::uint64_t>(intermediate, std::uint64_t{experts.intermediate} * std::max(1u, experts.shared));
    using B = DecoderBuffers;
    const std::uint64_t hidden = config.hidden;
    std::vector<Part> parts = {{&B::hidden, hidden}, {&B::normed, hidden}, {&B::gate, intermediate}, {&B::up, intermediate}};
    if (config.post_norms) parts.push_back({&B::projected, hidden});
    if (experts.present())
        parts.insert(parts.end(), {{&B::router, experts.count}, {&B::expert_in, hidden}, {&B::expert_out, hidden}});
    const LatentShape& latent = config.latent;
    if (!latent.present()) {
        const std::uint64_t q = query_heads * config.head_dim, kv = kv_heads * config.head_dim;
        parts.insert(parts.end(), {{&B::q, q}, {&B::k, kv}, {&B::v, kv}, {&B::attended, q}});
        return parts;
    }
    parts.insert(parts.end(), {{&B::q, query_heads * (latent.nope_dim + latent.rotary_dim)},
                               {&B::latent, latent.kv_rank},
                               {&B::rotary_key, latent.rotary_dim},
                               {&B::head_values, query_heads * latent.value_dim}});
    if (!latent.late_rotation)
        parts.insert(parts.end(), {{&B::key_value_low, latent.kv_rank + latent.rotary_dim}, {&B::latent_low, latent.kv_rank}});
    if (latent.query_rank > 0)
        parts.insert(parts.end(), {{&B::query_low, latent.query_rank}, {&B::query_low_normed, latent.query_rank}});
    if (options.form_of(latent) == MlaForm::absorbed)
        parts.insert(parts.end(), {{&B::query_nope, query_heads * latent.nope_dim},
                                   {&B::query_absorbed, query_heads * latent.kv_rank},
                                   {&B::query_latent, query_heads * (latent.kv_rank + latent.rotary_dim)},
                                   {&B::attended, query_heads * latent.kv_rank}});
    return parts;
}

std::vector<DecoderBuffers::Part> DecoderBuffers::logit_parts(const ModelConfig& config) {
    using B = DecoderBuffers;
    return {{&B::gathered, config.hidden}, {&B::gathered_normed, config.hidden}, {&B::logits, config.vocabulary}};
}

std::uint64_t DecoderBuffers::bytes_of(const std::vector<Part>& parts, std::uint64_t rows) {
    std::uint64_t bytes = 0;
    for (const Part& part : parts) bytes += rows * part.width * sizeof(float);
    return bytes;
}

Result<void> DecoderBuffers::make(Backend& backend, const std::vector<Part>& parts, std::uint64_t rows) {
    for (const Part& part : parts) (this->*part.slot).reset();
    for (const Part& part : parts) {
        auto buffer = backend.buffer(rows * part.width * sizeof(float), Purpose::activations);
        if (!buffer) return buffer.error();
        this->*part.slot = std::move(*buffer);
    }
    return {};
}

}  // namespace kvloupe
