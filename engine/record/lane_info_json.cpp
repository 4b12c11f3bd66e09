// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/lane_info_json.h"

#include <nlohmann/json.hpp>

namespace kvloupe {

// Precisions and scales by their names, so that a file does not depend on the order of an enum.
static void to_json(nlohmann::json& json, DType type) { json = std::string(name_of(type)); }
static void from_json(const nlohmann::json& json, DType& type) {
    const auto found = dtype_from_name(json.get<std::string>());
    if (!found) throw nlohmann::json::other_error::create(501, "unknown precision '" + json.get<std::string>() + "'", &json);
    type = *found;
}
static void to_json(nlohmann::json& json, KvScale scale) { json = std::string(name_of(scale)); }
static void from_json(const nlohmann::json& json, KvScale& scale) {
    for (const KvScale one : {KvScale::none, KvScale::tensor, KvScale::head, KvScale::token_head, KvScale::joint, KvScale::pack,
                              KvScale::channel})
        if (name_of(one) == json.get<std::string>()) {
            scale = one;
            return;
        }
    throw nlohmann::json::other_error::create(501, "unknown scale '" + json.get<std::string>() + "'", &json);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(KvFormat, dtype, scale, group, residual, rotate)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LayerInfo, query_heads, kv_heads, key_dim, value_dim, latent, keys, values, window, sinks,
                                                chunk, group, place, key_bytes_per_token, value_bytes_per_token, experts, intermediate)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ParameterParts, embedding, attention, feed_forward, norms, output)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(StoredParameters, dtype, count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LaneMemory, weights, mapped_weights, kv_cache, kv_rounding, host_blocks, host_rounding)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DeviceMemory, id, name, total_bytes, free_bytes, weight_bytes, kv_cache_bytes,
                                                activation_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(CachePolicy::Group, window, sinks, chunk, layers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(CachePolicy, kind, prefix_caching, prefix_index, free_order, radix_eviction, reserve,
                                                max_model_len, hash_bits, compare_tokens, tag_extra_keys, watermark_blocks, host_blocks,
                                                positions, groups, batching, scheduling, preemption, victim, max_num_seqs,
                                                max_num_batched_tokens, chunked_prefill, reserve_full_prompt)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LaneBranch, of, at_step, how, token, request)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LaneInfo, name, model_name, architecture, device, device_id, attention_variant,
                                                attention_form, latent_form, conversion, cache_dtype, layers, query_heads, kv_heads,
                                                head_dim, vocabulary, context_length, parameters, weight_bytes, kv_cache, block_size,
                                                blocks, bytes_per_token, block_bytes, pool_bytes, weights_id, policy, layer_infos,
                                                parameter_parts, stored_parameters, derived_weight_bytes, latent_rank,
                                                latent_rotary_dim, latent_key_dim, latent_value_dim, window_is_foreign, residual_pages, memory, notes, branch)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RequestInfo, id, prompt, max_new_tokens, arrival_step, temperature, top_k, top_p,
                                                arrival_ns, priority, salt, adapter, n, beam_width)

namespace {

template <class T>
std::string dump(const T& value) {
    return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <class T>
Result<T> parse(std::string_view text, const char* what) {
    try {
        return nlohmann::json::parse(text).get<T>();
    } catch (const nlohmann::json::exception&) {
        return Error{std::string("The recording's description of ") + what + " cannot be read", "Open a backup of the file, or record the run again"};
    }
}

}  // namespace

std::string json_of(const LaneInfo& info) { return dump(info); }
Result<LaneInfo> lane_info_of(std::string_view json) { return parse<LaneInfo>(json, "a lane"); }

std::string json_of(const RequestInfo& info) { return dump(info); }
Result<RequestInfo> request_info_of(std::string_view json) { return parse<RequestInfo>(json, "a request"); }

std::string json_of(const std::vector<DeviceMemory>& memory) { return dump(memory); }
Result<std::vector<DeviceMemory>> device_memory_of(std::string_view json) { return parse<std::vector<DeviceMemory>>(json, "a device's memory"); }

}  // namespace kvloupe
