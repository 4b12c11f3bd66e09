// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/cache_shape.h"

#include "engine/cache/block_table.h"

#include <algorithm>
#include <numeric>

namespace kvloupe {

namespace {

constexpr std::uint32_t usual_group = 32, usual_residual = 128;  // FORMATS 3.8

bool is_kivi(DType type) { return type == DType::kivi2 || type == DType::kivi4; }
bool has_choice(DType type) {
    return type == DType::fp8_e4m3 || type == DType::fp8_e5m2 || type == DType::int8 || type == DType::int4;
}

DType of_layer(const std::vector<DType>& types, std::uint32_t layer) { return types.size() == 1 ? types.front() : types[layer]; }

// "cache.dtype_v", or "cache.dtype" where K and V have the same.
std::string key_of(const CacheOptions& cache, KvPart part) {
    if (cache.key_dtypes == cache.value_dtypes) return "cache.dtype";
    return part == KvPart::keys ? "cache.dtype_k" : "cache.dtype_v";
}

// What the scenario says about the formats of a lane's planes, once for all of them.
class Formats {
public:
    Formats(const CacheOptions& cache, const std::vector<KvLayerShape>& layers) : m_cache(cache) {
        std::uint32_t common = 0;  // 0: no layer keeps groups
        for (std::uint32_t i = 0; i < layers.size(); ++i) {
            const DType key = of_layer(cache.key_dtypes, i), value = of_layer(cache.value_dtypes, i);
            m_choice = m_choice || has_choice(key) || has_choice(value);
            if (is_kivi(key)) common = std::gcd(common, cache.block_size);
            if (is_kivi(value)) common = std::gcd(common, layers[i].value_dim);
        }
        if (common == 0) return;
        m_group = cache.group.value_or(largest_divisor(common, usual_group));
        m_residual = cache.residual.value_or(blocks_for(usual_residual, cache.block_size) * cache.block_size);
    }

    KvFormat of(DType type) const {
        KvFormat format = KvFormat::of(type);
        // A scale is for the planes that leave a choice; where none does, the first one says why.
        if (m_cache.scale && (has_choice(type) || !m_choice)) format.scale = *m_cache.scale;
        if (is_kivi(type)) {
            format.group = m_group;
            format.residual = m_residual;
        }
        format.rotate = m_cache.rotate;
        return format;
    }
    bool keeps_residual() const { return m_group > 0; }
    std::uint32_t residual() const { return m_residual; }

    // What was chosen and is not the usual.
    void tell(std::vector<std::string>& notes) const {
        if (m_group == 0) return;
        if (!m_cache.group && m_group != usual_group)
            notes.push_back("Groups of " + std::to_string(m_group) + " instead of " + std::to_string(usual_group) +
                            " share a scale, because blocks of " + std::to_string(m_cache.block_size) + " tokens or the heads hold no more");
        if (!m_cache.residual && m_residual != usual_residual)
            notes.push_back("The newest " + std::to_string(m_residual) + " instead of " + std::to_string(usual_residual) +
                            " tokens stay in f16: whole blocks of " + std::to_string(m_cache.block_size));
    }

private:
    static std::uint32_t largest_divisor(std::uint32_t number, std::uint32_t most) {
        std::uint32_t divisor = std::min(number, most);
        while (number % divisor != 0) --divisor;
        return divisor;
    }

    const CacheOptions& m_cache;
    bool m_choice = false;
    std::uint32_t m_group = 0, m_residual = 0;
};

Result<void> check_lists(const ModelConfig& config, const CacheOptions& cache) {
    for (const KvPart part : {KvPart::keys, KvPart::values}) {
        const std::size_t given = (part == KvPart::keys ? cache.key_dtypes : cache.value_dtypes).size();
        if (given != 1 && given != config.layers)
            return Error{key_of(cache, part) + ": is a list of " + std::to_string(given) + " precisions, but the model has " +
                             std::to_string(config.layers) + " layers",
                         "Give one precision, or one for every layer."};
    }
    return {};
}

// "cache.dtype_k: The cache precision …", with the layer where layers differ.
Error format_error(const CacheOptions& cache, KvPart part, std::uint32_t layer, const Error& error) {
    const bool several = cache.key_dtypes.size() > 1 || cache.value_dtypes.size() > 1;
    return {key_of(cache, part) + (several ? ", layer " + std::to_string(layer) : std::string()) + ": " + error.sentence, error.hint};
}

Result<void> set_formats(const CacheOptions& cache, CacheShape& shape) {
    const Formats formats(cache, shape.layers);
    for (std::uint32_t i = 0; i < shape.layers.size(); ++i) {
        KvLayerShape& layer = shape.layers[i];
        layer.keys = formats.of(of_layer(cache.key_dtypes, i));
        layer.values = formats.of(of_layer(cache.value_dtypes, i));
        if (auto plane = layer.key_plane(cache.block_size); !plane) return format_error(cache, KvPart::keys, i, plane.error());
        if (auto plane = layer.value_plane(cache.block_size); !plane) return format_error(cache, KvPart::values, i, plane.error());
        const bool joint = layer.keys.scale == KvScale::joint || layer.values.scale == KvScale::joint;
        if (joint && (layer.keys.scale != layer.values.scale || layer.keys.dtype != layer.values.dtype))
            return Error{"cache.scale: one scale for K and V together needs one precision for both, not " +
                             std::string(name_of(layer.keys.dtype)) + " and " + std::string(name_of(layer.values.dtype)),
                         "Give K and V the same precision, or \"scale\": \"token_head\"."};
    }
    shape.keeps_residual = formats.keeps_residual();
    shape.residual = formats.residual();
    formats.tell(shape.notes);
    return {};
}

// Layers by what the manager is to keep of them, in the order of their first layers.
std::vector<CacheGroup> kinds_of(const std::vector<AttentionSpan>& spans) {
    std::vector<CacheGroup> kinds;
    for (std::uint32_t layer = 0; layer < spans.size(); ++layer) {
        auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const CacheGroup& each) { return each.span == spans[layer]; });
        if (kind == kinds.end()) kind = kinds.insert(kind, {spans[layer], {}});
        kind->layers.push_back(layer);
    }
    return kinds;
}

std::vector<CacheGroup> split(const std::vector<CacheGroup>& kinds) {
    std::size_t size = SIZE_MAX;
    for (const CacheGroup& kind : kinds) size = std::min(size, kind.layers.size());
    std::vector<CacheGroup> groups;
    for (const CacheGroup& kind : kinds) {
        const std::size_t parts = (kind.layers.size() + size - 1) / size;
        for (std::size_t part = 0; part < parts; ++part) {
            CacheGroup group{kind.span, {}};
            for (std::size_t i = part; i < kind.layers.size(); i += parts) group.layers.push_back(kind.layers[i]);
            groups.push_back(std::move(group));
        }
    }
    return groups;
}

// Who reads keys through blocks that are never given up sees its window all the same.
bool keeps_everything(const CacheOptions& cache) {
    return cache.kind == CacheKind::contiguous || (cache.prefix_caching && cache.prefix_index == PrefixIndexKind::radix);
}

void set_spans(const ModelConfig& config, const LaneOptions& lane, CacheShape& shape) {
    const CacheOptions& cache = lane.cache;
    std::vector<AttentionSpan> kept;
    bool hidden = false;
    for (std::uint32_t i = 0; i < config.layers; ++i) {
        AttentionSpan own;
        if (i < config.layer_shapes.size()) own = {config.layer_shapes[i].window, 0, config.layer_shapes[i].chunk};
        const AttentionSpan span = lane.kv_cache && cache.span ? *cache.span : own;
        shape.window_is_foreign = shape.window_is_foreign || !(span == own);
        hidden = hidden || !span.full();
        shape.spans.push_back({span.window, span.sinks, span.chunk, cache.positions_by_rank && span.window > 0});
        kept.push_back(lane.kv_cache && !keeps_everything(cache) ? span : AttentionSpan{});
    }
    if (lane.kv_cache && hidden && keeps_everything(cache))
        shape.notes.push_back(std::string("What the model's windows hide is kept all the same: ") +
                              (cache.kind == CacheKind::contiguous ? "a contiguous region gives up no blocks"
                                                                   : "a radix index needs all blocks of a prefix"));
    shape.cache_groups = split(kinds_of(kept));
    shape.groups.assign(config.layers, 0);
    for (std::uint32_t group = 0; group < shape.cache_groups.size(); ++group) {
        const std::vector<std::uint32_t>& layers = shape.cache_groups[group].layers;
        for (std::uint32_t place = 0; place < layers.size(); ++place) {
            shape.groups[layers[place]] = group;
            shape.layers[layers[place]].place = place;
        }
    }
}

// A page is quantised for all layers of its block's memory at once, so these must be laid out alike.
Result<void> check_places(const CacheShape& shape) {
    std::vector<const KvLayerShape*> first(shape.layers.size());
    for (const KvLayerShape& layer : shape.layers) {
        const KvLayerShape*& other = first[layer.place];
        if (!other) other = &layer;
        if (layer.keys == other->keys && layer.values == other->values && layer.kv_heads == other->kv_heads && layer.key_dim == other->key_dim)
            continue;
        return Error{"cache.dtype: layers with different windows share memory here, and one of them keeps its newest tokens in "
                     "f16, so they cannot have different precisions or widths",
                     "Give all layers the same precision, or none of them kivi2 or kivi4."};
    }
    return {};
}

}  // namespace

Result<CacheShape> CacheShape::of(const ModelConfig& config, const LaneOptions& lane) {
    const LatentShape& latent = config.latent;
    if (lane.latent_expanded && !latent.present())
        return Error{"mla: 'expanded' makes keys and values of latents, but the model '" + config.name + "' has none",
                     "Remove the key, or give the lane a model with multi-head latent attention."};
    if (lane.latent_absorbed && latent.late_rotation)
        return Error{"mla: 'absorbed' takes queries down to the latent, but keys that are turned after they are made from it do not "
                     "commute with that", "Remove the key: a converted model expands its latents."};
    if (lane.cache.positions_by_rank && latent.present())
        return Error{"cache.positions: 'rank' turns keys again where they are read, which latent attention cannot do",
                     "Remove the key, or choose a model without latents."};
    CacheShape shape;
    shape.block_size = lane.cache.block_size;
    for (std::uint32_t i = 0; i < config.layers; ++i) {
        const std::uint32_t heads = i < config.layer_shapes.size() ? config.layer_shapes[i].kv_heads : config.kv_heads;
        KvLayerShape layer{heads, config.head_dim, config.head_dim, false, KvFormat::of(DType::f32), KvFormat::of(DType::f32), 0};
        if (latent.present()) layer = {1, config.latent_width(i), latent.rotary_dim, true, layer.keys, layer.values, 0};
        shape.layers.push_back(layer);
    }
    set_spans(config, lane, shape);
    if (!lane.kv_cache) return shape;
    if (auto checked = check_lists(config, lane.cache); !checked) return checked.error();
    if (auto formats = set_formats(lane.cache, shape); !formats) return formats.error();
    if (!shape.keeps_residual) return shape;
    if (auto alike = check_places(shape); !alike) return alike.error();
    // Every sequence keeps less than the residual and the block after it; a step adds what it computes before it is quantised.
    const std::uint64_t of_sequence = shape.residual / shape.block_size + 2;
    const std::uint64_t pages =
        lane.scheduler.max_num_seqs * of_sequence + blocks_for(lane.scheduler.max_num_batched_tokens, shape.block_size);
    shape.most_pages = static_cast<std::uint32_t>(std::min<std::uint64_t>(pages * shape.cache_groups.size(), UINT32_MAX));
    return shape;
}

KvCacheShape CacheShape::pool(std::uint32_t blocks) const { return {blocks, block_size, layers, pages_of(blocks)}; }

std::uint32_t CacheShape::pages_of(std::uint32_t blocks) const {
    return !keeps_residual || blocks < 2 ? 0 : std::min(blocks - 1, most_pages);
}

std::uint64_t CacheShape::blocks_in(std::uint64_t bytes) const {
    const KvLayout bytes_of = layout(block_size);
    if (bytes_of.block_bytes == 0 || bytes <= bytes_of.fixed_bytes) return 0;
    bytes -= bytes_of.fixed_bytes;
    if (!keeps_residual) return bytes / bytes_of.block_bytes;
    // A page for every block but the null block, as long as there are fewer than can be needed.
    const std::uint64_t with_pages = (bytes + bytes_of.page_bytes) / (bytes_of.block_bytes + bytes_of.page_bytes);
    if (with_pages <= most_pages) return with_pages;
    return (bytes - most_pages * bytes_of.page_bytes) / bytes_of.block_bytes;
}

KvCacheShape CacheShape::scratch(std::uint32_t tokens) const { return {1, tokens, layers, 0}; }

KvLayout CacheShape::layout(std::uint32_t slots) const {
    std::vector<LayerInfo> infos(layers.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
        infos[i].kv_heads = layers[i].kv_heads;
        infos[i].key_dim = layers[i].key_dim;
        infos[i].value_dim = layers[i].value_dim;
        infos[i].keys = layers[i].keys;
        infos[i].values = layers[i].values;
        infos[i].group = groups[i];
        infos[i].place = layers[i].place;
    }
    return KvLayout::of(infos, slots);
}

std::vector<LayerInfo> CacheShape::layer_infos(const ModelConfig& config, bool kv_cache) const {
    std::vector<LayerInfo> infos;
    for (std::uint32_t i = 0; i < layers.size(); ++i) {
        const KvLayerShape& layer = layers[i];
        LayerInfo info;
        info.query_heads = config.query_heads;
        info.intermediate = config.intermediate;
        if (i < config.layer_shapes.size()) {
            const LayerShape& own = config.layer_shapes[i];
            info.query_heads = own.query_heads;
            info.experts = own.experts ? config.experts.count : 0;
            info.intermediate = own.experts ? config.experts.intermediate : own.intermediate;
        }
        info.kv_heads = layer.kv_heads;
        info.key_dim = layer.key_dim;
        info.value_dim = layer.value_dim;
        info.latent = layer.latent;
        info.keys = layer.keys;
        info.values = layer.values;
        info.window = spans[i].window;
        info.sinks = spans[i].sinks;
        info.chunk = spans[i].chunk;
        info.group = groups[i];
        info.place = layer.place;
        if (kv_cache) {
            info.key_bytes_per_token = layer.key_plane(block_size)->bytes_per_token();
            info.value_bytes_per_token = layer.value_plane(block_size)->bytes_per_token();
        }
        infos.push_back(info);
    }
    return infos;
}

}  // namespace kvloupe
