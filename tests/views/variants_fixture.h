// SPDX-License-Identifier: GPL-3.0-or-later
//
// Six lanes written by hand: MHA, GQA, MQA, MLA, GQA in eight bits and GQA uncached, with layers, parameters, counters and stages,
// and a report of their quality. Small numbers, so that a test can say what must be shown.
#pragma once

#include "engine/record/kv_layout.h"
#include "engine/record/quality.h"
#include "engine/record/writer.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe {

struct VariantLane {
    const char* name;
    const char* attention;
    std::uint32_t kv_heads;
    DType dtype;
    bool cached;
    std::uint64_t weights;
};

inline constexpr VariantLane variant_lanes[] = {
    {"MHA", "MHA", 8, DType::f16, true, 1},      {"GQA", "GQA", 2, DType::f16, true, 2},
    {"MQA", "MQA", 1, DType::f16, true, 3},      {"MLA", "MLA", 1, DType::f16, true, 4},
    {"GQA int8", "GQA", 2, DType::int8, true, 2}, {"GQA uncached", "GQA", 2, DType::f32, false, 2},
};

// 4 layers of 8 query heads of 32 values; blocks of 16.
inline LaneInfo variantInfo(const VariantLane& lane) {
    LaneInfo info;
    info.name = lane.name;
    info.model_name = std::string("bundled:") + lane.name;
    info.attention_variant = lane.attention;
    info.attention_form = "tiled";
    info.cache_dtype = lane.cached ? std::string(name_of(lane.dtype)) : "none";
    info.layers = 4;
    info.query_heads = 8;
    info.head_dim = 32;
    info.kv_cache = lane.cached;
    info.weights_id = lane.weights;
    const bool latent = info.attention_variant == "MLA";
    info.kv_heads = latent ? 8 : lane.kv_heads;
    if (latent) {
        info.latent_form = "absorbed";
        info.latent_rank = 64;
        info.latent_rotary_dim = 16;
        info.latent_key_dim = 48;
        info.latent_value_dim = 32;
    }
    LayerInfo layer;
    layer.query_heads = 8;
    layer.kv_heads = lane.kv_heads;
    layer.latent = latent;
    layer.key_dim = latent ? 64 : 32;
    layer.value_dim = latent ? 16 : 32;
    layer.keys = layer.values = KvFormat::of(lane.dtype);
    if (lane.cached) {
        const double scale = lane.dtype == DType::int8 ? 4 : 0;  // a float per token and head
        layer.key_bytes_per_token = lane.kv_heads * (layer.key_dim * (lane.dtype == DType::int8 ? 1.0 : 2.0) + scale);
        layer.value_bytes_per_token = lane.kv_heads * (layer.value_dim * (lane.dtype == DType::int8 ? 1.0 : 2.0) + scale);
    }
    for (std::uint32_t i = 0; i < info.layers; ++i) {
        layer.place = i;
        info.layer_infos.push_back(layer);
    }
    info.parameter_parts.embedding = 768 * 256;
    info.parameter_parts.attention = 4ull * 256 * (2 * 256 + 2 * 32 * (latent ? 3 : lane.kv_heads));
    info.parameter_parts.feed_forward = 4ull * 3 * 256 * 688;
    info.parameter_parts.norms = 9 * 256;
    info.parameters = info.parameter_parts.total();
    info.stored_parameters = {{DType::bf16, info.parameters}};
    info.weight_bytes = 2 * info.parameters;
    info.memory.weights = info.weight_bytes;
    if (!lane.cached) return info;
    info.policy.kind = "paged";
    info.block_size = 16;
    info.blocks = 12;
    const KvLayout layout = KvLayout::of(info.layer_infos, info.block_size);
    info.block_bytes = layout.block_bytes;
    info.bytes_per_token = layout.slot_bytes();
    info.pool_bytes = layout.pool_bytes(info.blocks, 0);
    info.memory.kv_cache = info.pool_bytes;
    return info;
}

// Bytes of attention in one layer for rows queries over keys keys, as a stage counts them: K and V as stored once, Q and O in f32.
inline std::uint64_t variantAttentionBytes(const LaneInfo& info, std::uint64_t queries, std::uint64_t keys) {
    const LayerInfo& layer = info.layer_infos.front();
    const bool latent = info.latent_rank > 0;
    const std::uint64_t stored = info.kv_cache ? static_cast<std::uint64_t>(std::llround(layer.bytes_per_token()))
                                               : std::uint64_t{4} * layer.kv_heads * (layer.key_dim + layer.value_dim);
    const std::uint64_t width = latent ? 64 + 16 + 64 : 32 + 32;
    return keys * stored + queries * 8 * width * 4;
}

// One request of `prompt` tokens, then one token a step. stray: bytes that one lane's pool holds and nothing explains.
inline std::shared_ptr<const Recording> variants(std::uint32_t steps = 30, std::uint64_t stray = 0, std::size_t lanes = 6) {
    constexpr std::uint32_t prompt = 20;
    RecordingWriter writer("variants", 1 << 20);
    writer.set_time(0);
    const auto vocabulary = std::make_shared<VocabularyText>();
    for (std::size_t i = 0; i < lanes; ++i) writer.add_lane(variantInfo(variant_lanes[i]), vocabulary);
    writer.lanes_complete();
    RequestInfo request;
    request.id = "a";
    request.prompt = std::vector<TokenId>(prompt, 1);
    request.max_new_tokens = steps;
    writer.add_request(request);
    for (std::uint32_t i = 0; i < lanes; ++i) writer.lane(LaneId(i)).add_sequence({RequestId(0), {}, 0});
    std::vector<std::uint32_t> held(lanes, 0);
    for (std::uint32_t step = 0; step < steps; ++step)
        for (std::uint32_t i = 0; i < lanes; ++i) {
            LaneWriter& lane = writer.lane(LaneId(i));
            const LaneInfo& info = lane.record().info();
            const std::uint32_t tokens = prompt + step, first = step == 0 || !info.kv_cache ? 0 : tokens - 1;
            lane.begin_step();
            Event event;
            event.sequence = SequenceId(0);
            if (step == 0) {
                event.kind = EventKind::arrive;
                event.tokens = prompt;
                lane.event(event);
                event.kind = EventKind::admit;
                lane.event(event);
            }
            for (; info.kv_cache && held[i] * 16 < tokens; ++held[i]) {
                event.kind = EventKind::allocate;
                event.block = BlockId(held[i] + 1);
                event.other = held[i];
                lane.event(event);
            }
            event = Event{};
            event.sequence = SequenceId(0);
            event.kind = tokens - first > 1 ? EventKind::prefill : EventKind::decode;
            event.tokens = tokens - first;
            event.other = first;
            lane.event(event);
            std::vector<StageRecord> stages;
            for (std::uint16_t layer = 0; layer < 4; ++layer) {
                StageRecord stage;
                stage.kind = StageKind::attention;
                stage.layer = layer;
                stage.calls = 1;
                stage.duration_ns = 1000;
                stage.bytes = variantAttentionBytes(info, tokens - first, tokens);
                stages.push_back(stage);
            }
            lane.stages(step, stages);
            StepRecord counters;
            counters.running = 1;
            counters.used_blocks = held[i];
            counters.kv_bytes = held[i] * info.block_bytes;
            counters.slots.token = info.kv_cache ? tokens : 0;
            counters.slots.reserved = std::uint64_t{held[i]} * 16 - counters.slots.token;
            counters.allocated_kv_bytes = info.kv_cache ? info.pool_bytes + (i == 1 ? stray : 0) : 0;
            counters.activation_bytes = counters.predicted_activation_bytes = 4096;
            lane.end_step(counters);
        }
    return writer.recording();
}

// Of the lanes above; numbers that differ in every place where they are shown.
inline std::shared_ptr<QualityReport> variantsQuality() {
    auto report = std::make_shared<QualityReport>();
    report->text = "512 stories";
    report->texts = 512;
    report->tokens = 52'000;
    report->questions = 400;
    report->unit = "texts";
    report->reference = "GQA";
    report->measured_on = "2026-11-30";
    report->device = "CPU, 2 threads";
    const double perplexities[] = {2.118, 2.134, 2.216, 2.125, 2.1343, 2.13401};
    const std::uint64_t right[] = {394, 388, 352, 391, 387, 388};
    for (std::size_t i = 0; i < 6; ++i) {
        LaneQuality lane;
        lane.lane = variant_lanes[i].name;
        lane.cache = i == 5 ? "none" : "f16";
        lane.weights_id = variant_lanes[i].weights;
        const double value = perplexities[i];
        lane.perplexity = {value, value - 0.021, value + 0.022, 52'000};
        const double shares[] = {1.0, 0.985, 0.97, 0.93};
        for (std::uint32_t d = 0; d < 4; ++d) {
            const auto of = std::uint64_t{50};
            const auto all = static_cast<double>(right[i]) / 400;
            for (const std::uint32_t facts : {2u, 4u})
                lane.recall.push_back({facts, 20u << d, wilson(static_cast<std::uint64_t>(std::llround(shares[d] * all * double(of))), of)});
        }
        lane.recall_total = {0, 0, wilson(right[i], 400)};
        for (std::uint32_t block = 0; block < 6; ++block)
            lane.blocks.push_back({block * 64 + (block == 0), block * 64 + 63, {value + 0.3 / (block + 1), value, value + 0.5, 8000}, {}});
        if (i != 1) {
            const double kl = i == 4 ? 8.1e-5 : i == 5 ? 3.2e-6 : 0.11 + 0.02 * double(i);
            lane.perplexity_ratio = {value / 2.134, value / 2.134 - 0.002, value / 2.134 + 0.002, 52'000};
            lane.divergence = {kl, kl * 0.94, kl * 1.07, 52'000};
            lane.divergence_p99 = kl * 9;
            lane.divergence_max = kl * 40;
            lane.agreement = {1 - kl, 1 - 1.1 * kl, 1 - 0.9 * kl, 52'000};
            lane.first_difference.assign(512, std::nullopt);
            for (std::uint32_t text = 0; text < 300; ++text) lane.first_difference[text] = 10 + text;
            for (std::uint32_t block = 0; block < 6; ++block) {
                const double here = kl * (0.7 + 0.1 * block);
                lane.blocks[block].divergence = {here, here * 0.9, here * 1.1, 8000};
            }
        }
        report->lanes.push_back(std::move(lane));
    }
    return report;
}

}  // namespace kvloupe
