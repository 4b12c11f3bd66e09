// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the recording says about a lane: model, device, pool and policies.
#include "engine/serve/lane.h"

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
    info.device = device_text(device.backend->info());
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

std::uint64_t Lane::bytes_per_token() const {
    if (!m_device) return m_setup.options.cache.bytes_per_token;
    const KvCacheShape& shape = m_cache_memory->shape();
    std::uint64_t bytes = 0;
    for (const KvLayerShape& layer : shape.layers)
        for (const auto& plane : {layer.key_plane(shape.block_size), layer.value_plane(shape.block_size)})
            bytes += plane->block_bytes;
    return bytes / shape.block_size;
}

std::uint64_t Lane::block_bytes() const {
    return m_device ? m_cache_memory->bytes() / m_setup.blocks : bytes_per_token() * m_setup.options.cache.block_size;
}

LaneInfo Lane::info() const {
    LaneInfo info;
    info.name = m_setup.options.name;
    info.model_name = m_setup.model_name;
    info.attention_variant = "none";
    if (m_device) describe_model(*m_device, info);
    info.kv_cache = m_setup.options.kv_cache;
    info.cache_dtype = "none";
    info.policy = scheduling_policy(m_setup.options.scheduler);
    if (!info.kv_cache) return info;
    describe_cache(m_setup.manager_options(), m_setup.options.cache.positions_by_rank, info.policy);
    info.block_size = m_setup.options.cache.block_size;
    info.blocks = m_setup.blocks;
    info.bytes_per_token = bytes_per_token();
    info.block_bytes = block_bytes();
    info.pool_bytes = m_device ? m_cache_memory->bytes() : info.block_bytes * info.blocks;
    if (!m_device) return info;
    const KvCacheShape& shape = m_cache_memory->shape();
    const KvLayerShape& layer = shape.layers.front();
    info.cache_dtype = name_of(layer.keys.dtype);
    if (layer.keys.dtype != layer.values.dtype) info.cache_dtype += "/" + std::string(name_of(layer.values.dtype));
    return info;
}

}  // namespace kvloupe
