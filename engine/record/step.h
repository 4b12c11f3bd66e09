// SPDX-License-Identifier: GPL-3.0-or-later
//
// What one step of one lane recorded: counters, the ranges of its events, tokens, stages and attention rows.
#pragma once

#include "engine/record/ids.h"

#include <cstdint>
#include <limits>
#include <string_view>

namespace kvloupe {

// Every number carries its origin (DESIGN section 4).
enum class Origin : std::uint8_t {
    measured,   // a clock, a counter, a byte count of a real buffer
    derived,    // a formula over measured values
    predicted,  // a model of what would be
};

// Half-open range of indices into one of the lane's logs.
struct LogRange {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t size() const { return end - begin; }
};

// Slots of the pool by kind of waste (contract, section 4). They sum to (blocks - 1) * block_size.
struct SlotCounts {
    std::uint64_t token = 0;
    std::uint64_t cached = 0;
    std::uint64_t reserved = 0;
    std::uint64_t internal = 0;
    std::uint64_t external = 0;
    std::uint64_t free = 0;
};

struct StepRecord {
    StepId step;
    std::uint64_t start_ns = 0;       // since the session's clock started (measured, steady clock)
    std::uint64_t duration_ns = 0;    // measured: scheduling to release
    std::uint32_t running = 0;        // requests that were scheduled to run after admission
    std::uint32_t waiting = 0;        // requests that had arrived and wait at the end of the step
    std::uint32_t prefill_tokens = 0; // prompt tokens computed (uncached lanes: recomputed tokens count as prefill)
    std::uint32_t decode_tokens = 0;  // tokens computed for decoding sequences
    std::uint32_t context_tokens = 0; // sum over scheduled sequences of the tokens they hold after the step
    std::uint32_t used_blocks = 0;    // at the end of the step's forward pass, before release
    std::uint32_t cached_blocks = 0;
    std::uint32_t free_blocks = 0;
    std::uint64_t kv_bytes = 0;       // measured: bytes of the pool's blocks in use, from the allocator's counter
    SlotCounts slots;                 // at the same moment as used_blocks
    std::uint32_t residual_pages = 0; // blocks that are kept in f16, at the same moment (KIVI)
    std::uint64_t allocated_kv_bytes = 0;    // measured: what the lane holds by the allocator's counter for KV caches
    std::uint64_t activation_bytes = 0;      // measured: and by its counter for activations
    std::uint64_t predicted_activation_bytes = 0;  // from the shapes of the buffers, for as many rows as they were made for
    std::uint32_t host_blocks = 0;    // blocks of host memory that hold swapped-out sequences, at the end of the step
    std::uint64_t hit_tokens = 0;     // of requests admitted in this step (hit rate: hit / queried)
    std::uint64_t queried_tokens = 0;
    std::uint64_t preempted_hit_tokens = 0;      // the same for those that run again after a preemption, counted apart
    std::uint64_t preempted_queried_tokens = 0;  // (CACHE_SEMANTICS 1.1 "Hit rule")
    std::uint64_t computed_tokens = 0;  // prefill + decode tokens really pushed through the model
    std::uint64_t overflowed_values = 0;  // measured: finite keys and values beyond the cache's precision: they became
                                          // infinite or, in fp8, its largest number
    float logit_difference = std::numeric_limits<float>::quiet_NaN();  // largest absolute difference to the first lane
                                        // with the same weights in this step; NaN where there is none
    LogRange events, tokens, attention;  // stages: LaneRecord::stages_of()
};

enum class StageKind : std::uint8_t {
    schedule, embed, attention_norm, qkv, rotary_store, attention, attention_out, ffn_norm, gate_up, activation, down,
    output_norm, logits, sample,
    route,   // the router and the choice of experts
    latent,  // MLA: projections down to the latent, its norms, absorption or expansion
};
inline constexpr int stage_kind_count = static_cast<int>(StageKind::latent) + 1;
std::string_view name_of(StageKind kind);

// One stage of one layer in one step.
struct StageRecord {
    static constexpr std::uint16_t no_layer = 0xFFFF;
    StageKind kind = StageKind::schedule;
    std::uint16_t layer = no_layer;
    std::uint32_t calls = 0;
    std::uint64_t duration_ns = 0;  // measured
    std::uint64_t bytes = 0;        // derived from shapes: read + written by the stage
    std::uint64_t flops = 0;        // derived from shapes
};

// One token of a sequence: part of the prompt, forced or sampled.
struct TokenRecord {
    enum Source : std::uint8_t { prompt, sampled, forced };
    SequenceId sequence;
    std::uint32_t position = 0;     // in the sequence, from 0
    TokenId token = 0;
    Source source = prompt;
    std::uint8_t alternative_count = 0;   // entries in LaneRecord::alternatives(), most probable first (at most 10)
    std::uint32_t rank = 0;               // of the token among all by logit, 0 = most probable; prompt: 0
    float probability = std::numeric_limits<float>::quiet_NaN();  // softmax of the raw logits, temperature 1; NaN for prompt tokens
    std::uint64_t alternatives_begin = 0;
};

struct Alternative {
    TokenId token = 0;
    float probability = 0;  // softmax of the raw logits at temperature 1
    float logit = 0;
};

// One row of one head's attention: softmax weights of the query at `position` over keys 0 .. key_count - 1.
struct AttentionRow {
    SequenceId sequence;
    std::uint16_t layer = 0;
    std::uint16_t head = 0;          // query head
    std::uint32_t position = 0;      // of the query
    std::uint32_t key_count = 0;
    std::uint64_t weights_begin = 0; // index into LaneRecord::attention_weights()
};

}  // namespace kvloupe
