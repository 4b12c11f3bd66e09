// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/analysis/kv_size.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace kvloupe {

namespace {

// Only KIVI's layout depends on the block: its groups must fit. Sizes count tokens, not blocks.
std::uint32_t block_size_of(const KvFormat& format) { return format.keeps_residual() ? format.group : 16; }

// KIVI's groups where those of its paper do not divide the heads: the largest that divide all of them, as a run takes them.
CachePrecision fitted(CachePrecision precision, const ModelConfig& config) {
    std::uint32_t common = precision.values.keeps_residual() ? precision.values.group : 0;
    if (common == 0) return precision;
    if (config.latent.present()) {
        if (config.latent.rotary_dim > 0) common = std::gcd(common, config.latent.rotary_dim);
    } else {
        common = std::gcd(common, config.head_dim);
    }
    precision.values.group = common;
    if (precision.keys.keeps_residual()) precision.keys.group = common;
    return precision;
}

bool same_plane(const KvPlane& a, const KvPlane& b) {
    return a.format == b.format && a.heads == b.heads && a.head_dim == b.head_dim;
}

}  // namespace

std::uint64_t plane_bytes(const KvPlane& plane, std::uint64_t tokens) {
    std::uint64_t quantised = tokens;
    if (plane.format.keeps_residual()) quantised = tokens - tokens % plane.format.residual;
    const std::uint64_t in_f16 = tokens - quantised;
    // A block of anything but KIVI is block_size equal tokens; KIVI's residual is a multiple of the block.
    return quantised / plane.block_size * plane.block_bytes +
           quantised % plane.block_size * (plane.block_bytes / plane.block_size) +
           in_f16 * plane.heads * plane.head_dim * 2;
}

std::uint64_t KvLayerSize::bytes_per_token() const {
    const auto rounded_up = [](const KvPlane& plane) {
        return (plane.block_bytes + plane.block_size - 1) / plane.block_size;
    };
    return rounded_up(keys) + rounded_up(values);
}

std::uint64_t KvLayerSize::bytes(std::uint64_t tokens) const {
    const std::uint64_t kept = tokens_kept(tokens);
    return plane_bytes(keys, kept) + plane_bytes(values, kept);
}

bool KvLayerSize::alike(const KvLayerSize& other) const {
    return latent == other.latent && window == other.window && same_plane(keys, other.keys) &&
           same_plane(values, other.values);
}

std::uint32_t kv_heads_per_gpu(std::uint32_t query_heads, std::uint32_t kv_heads, std::uint32_t gpus) {
    const std::uint32_t per_head = query_heads / kv_heads, per_gpu = query_heads / gpus;
    std::uint32_t most = 1;
    for (std::uint32_t first = 0; first + per_gpu <= query_heads; first += per_gpu)
        most = std::max(most, (first + per_gpu - 1) / per_head - first / per_head + 1);
    return most;
}

std::vector<std::uint32_t> pipeline_stages(std::uint32_t layers, std::uint32_t stages) {
    std::vector<std::uint32_t> counts(stages, layers / stages);
    for (std::uint32_t i = 0; i < layers % stages; ++i) ++counts[i];
    return counts;
}

Result<std::vector<KvLayerSize>> kv_layers(const ModelConfig& config, const CachePrecision& asked,
                                           std::uint32_t tensor_parallel) {
    const CachePrecision precision = fitted(asked, config);
    std::vector<KvLayerSize> layers;
    layers.reserve(config.layer_shapes.size());
    for (const LayerShape& shape : config.layer_shapes) {
        if (shape.query_heads % tensor_parallel != 0)
            return Error{std::to_string(shape.query_heads) + " query heads cannot be divided among " +
                             std::to_string(tensor_parallel) + " GPUs",
                         "Give a --tp that divides the query heads."};
        KvLayerSize layer;
        layer.latent = config.latent.present();
        layer.window = shape.window > 0 ? shape.window : shape.chunk;
        const std::uint32_t heads =
            layer.latent ? 1 : kv_heads_per_gpu(shape.query_heads, shape.kv_heads, tensor_parallel);
        const auto plane = [&](const KvFormat& format, KvPart part, std::uint32_t width) {
            return KvPlane::of(format, part, heads, width, block_size_of(format));
        };
        const Result<KvPlane> keys =
            plane(precision.keys, KvPart::keys,
                  layer.latent ? config.latent_width(static_cast<std::uint32_t>(layers.size())) : config.head_dim);
        if (!keys) return keys.error();
        const Result<KvPlane> values =
            plane(precision.values, KvPart::values, layer.latent ? config.latent.rotary_dim : config.head_dim);
        if (!values) return values.error();
        layer.keys = *keys;
        layer.values = *values;
        layers.push_back(layer);
    }
    return layers;
}

std::uint64_t kv_bytes_per_token(std::span<const KvLayerSize> layers) {
    std::uint64_t sum = 0;
    for (const KvLayerSize& layer : layers) sum += layer.bytes_per_token();
    return sum;
}

std::uint64_t kv_bytes(std::span<const KvLayerSize> layers, std::uint64_t tokens) {
    std::uint64_t sum = 0;
    for (const KvLayerSize& layer : layers) sum += layer.bytes(tokens);
    return sum;
}

std::uint64_t kv_fixed_bytes(std::span<const KvLayerSize> layers) {
    std::uint64_t sum = 0;
    for (const KvLayerSize& layer : layers) sum += layer.fixed_bytes();
    return sum;
}

}  // namespace kvloupe
