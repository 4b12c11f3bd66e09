// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the recording says about a lane: model, device, pool and policies.
#include "engine/serve/lane.h"
#include "engine/serve/parameter_count.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

// "CPU, 2 threads, AVX-512" or the card's name.
std::string device_text(const DeviceInfo& info) {
    if (info.id != "cpu") return info.name;
    return info.detail.empty() ? "CPU" : "CPU, " + info.detail;
}

void describe_model(const DeviceModel& device, LaneInfo& info) {
    const ModelConfig& config = device.model->config;
    info.architecture = config.architecture;
    const DeviceInfo backend = device.backend->info();
    info.device = device_text(backend);
    info.device_id = backend.id;
    info.attention_variant = config.attention_variant();
    info.layers = config.layers;
    info.query_heads = config.query_heads;
    info.kv_heads = config.kv_heads;
    info.head_dim = config.head_dim;
    info.vocabulary = config.vocabulary;
    info.context_length = config.context_length;
    info.parameters = config.parameters;
    info.weight_bytes = config.weight_bytes;
    info.weights_id = device.model->weights_id;
    info.latent_rank = config.latent.kv_rank;
    info.latent_rotary_dim = config.latent.rotary_dim;
    info.latent_key_dim = config.latent.nope_dim + config.latent.rotary_dim;
    info.latent_value_dim = config.latent.value_dim;
    ParameterCount count = ParameterCount::of(*device.model);
    info.parameter_parts = count.parts;
    info.stored_parameters = std::move(count.stored);
    info.derived_weight_bytes = count.derived_bytes;
}

// "f16", "int8/int4" (K/V); "mixed" where layers differ.
std::string dtype_text(const std::vector<LayerInfo>& layers) {
    for (const LayerInfo& layer : layers)
        if (layer.keys.dtype != layers.front().keys.dtype || layer.values.dtype != layers.front().values.dtype) return "mixed";
    std::string text(name_of(layers.front().keys.dtype));
    if (layers.front().keys.dtype != layers.front().values.dtype) text += "/" + std::string(name_of(layers.front().values.dtype));
    return text;
}

CachePolicy scheduling_policy(const SchedulerOptions& options) {
    CachePolicy policy;
    policy.batching = options.batching == Batching::fixed ? "static" : "continuous";
    policy.scheduling = options.policy == SchedulingPolicy::priority ? "priority" : "fcfs";
    policy.preemption = options.preemption == PreemptionMode::swap ? "swap" : "recompute";
    policy.victim = options.victim == VictimRule::sglang ? "sglang" : "vllm";
    policy.max_num_seqs = options.max_num_seqs;
    policy.max_num_batched_tokens = options.max_num_batched_tokens;
    policy.chunked_prefill = options.chunked_prefill;
    policy.reserve_full_prompt = options.reserve_full_prompt;
    return policy;
}

void describe_cache(const CacheManagerOptions& options, bool positions_by_rank, CachePolicy& policy) {
    const bool paged = options.kind == CacheKind::paged;
    policy.kind = paged ? "paged" : "contiguous";
    policy.prefix_caching = options.prefix_caching;
    policy.watermark_blocks = options.watermark_blocks;
    policy.host_blocks = options.host_blocks;
    policy.hash_bits = options.hash_bits;
    policy.compare_tokens = options.compare_tokens;
    policy.tag_extra_keys = options.tag_extra_keys;
    policy.positions = positions_by_rank ? "rank" : "absolute";
    for (const CacheGroup& group : options.groups)
        policy.groups.push_back({group.span.window, group.span.sinks, group.span.chunk, static_cast<std::uint32_t>(group.layers.size())});
    if (!paged) {
        static constexpr const char* reserves[] = {"max", "pow2", "oracle", "grow"};
        policy.reserve = reserves[static_cast<int>(options.reserve)];
        policy.max_model_len = options.max_model_len;
        return;
    }
    policy.free_order = options.free_order == FreeOrder::append ? "append" : "vllm";
    if (!options.prefix_caching) return;
    const bool radix = options.prefix_index == PrefixIndexKind::radix;
    policy.prefix_index = radix ? "radix" : "hash";
    static constexpr const char* evictions[] = {"lru", "lfu", "fifo", "priority"};
    if (radix) policy.radix_eviction = evictions[static_cast<int>(options.radix_eviction)];
}

}  // namespace

// Every layer counted as global; a group's scales are divided over its tokens.
std::uint64_t Lane::bytes_per_token() const {
    if (!m_device) return m_setup.options.cache.bytes_per_token;
    double bytes = 0;
    for (const KvLayerShape& layer : m_shape.layers)
        bytes += layer.key_plane(m_shape.block_size)->bytes_per_token() + layer.value_plane(m_shape.block_size)->bytes_per_token();
    return static_cast<std::uint64_t>(std::llround(bytes));
}

std::uint64_t Lane::block_bytes() const {
    if (!m_device) return bytes_per_token() * m_setup.options.cache.block_size;
    const std::uint64_t pages = m_cache_memory->shape().residual_pages * m_layout.page_bytes;
    return (m_cache_memory->bytes() - std::min(m_cache_memory->bytes(), pages)) / m_setup.blocks;
}

void Lane::describe_layers(LaneInfo& info) const {
    info.layer_infos = m_shape.layer_infos(m_device->model->config, m_setup.options.kv_cache);
    info.attention_form = m_setup.options.attention == AttentionForm::tiled ? "tiled" : "materialised";
    if (info.latent_rank > 0) info.latent_form = m_setup.options.latent_expanded ? "expanded" : "absorbed";
    if (m_setup.options.convert) info.conversion = m_setup.options.convert->text();
    info.window_is_foreign = m_shape.window_is_foreign;
    info.notes = m_shape.notes;
    info.memory = m_memory;
    // Where the device uses the file's mapping, its counter does not move.
    const std::uint64_t bytes = info.weight_bytes + info.derived_weight_bytes;
    info.memory.weights = m_setup.weights_allocated;
    info.memory.mapped_weights = bytes - std::min(bytes, m_setup.weights_allocated);
}

LaneInfo Lane::info() const {
    LaneInfo info;
    info.name = m_setup.options.name;
    info.model_name = m_setup.model_name;
    info.attention_variant = "none";
    if (const auto& branch = m_setup.options.branch)
        info.branch = {branch->of, branch->at_step, m_setup.rules.size() > 1 ? "switches" : "from_start", branch->token.value_or(-1), branch->request};
    if (m_device) {
        describe_model(*m_device, info);
        describe_layers(info);
    }
    info.kv_cache = m_setup.options.kv_cache;
    info.cache_dtype = "none";
    info.policy = scheduling_policy(m_setup.options.scheduler);
    if (!info.kv_cache) return info;
    describe_cache(m_setup.manager_options(m_shape), m_setup.options.cache.positions_by_rank, info.policy);
    info.block_size = m_setup.options.cache.block_size;
    info.blocks = m_setup.blocks;
    info.bytes_per_token = bytes_per_token();
    info.block_bytes = block_bytes();
    info.pool_bytes = m_device ? m_cache_memory->bytes() : info.block_bytes * info.blocks;
    if (!m_device) return info;
    info.cache_dtype = dtype_text(info.layer_infos);
    info.residual_pages = m_cache_memory->shape().residual_pages;
    return info;
}

}  // namespace kvloupe
