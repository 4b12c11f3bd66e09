// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/event.h"
#include "engine/record/step.h"

#include <array>

namespace kvloupe {

namespace {

constexpr std::array<std::string_view, event_kind_count> event_names = {
    "arrive", "admit", "refuse", "reject", "prefix_hit", "allocate", "fork", "copy_on_write", "evict", "free",
    "preempt", "swap_out", "swap_in", "resume", "null_block", "store", "reset", "prefill", "decode", "finish"};

constexpr std::array<std::string_view, cause_count> cause_names = {
    "none", "arrival_step_reached", "submitted", "fits_beside_running", "pool_too_full", "prompt_too_long_now",
    "below_watermark", "batch_full", "batch_running", "budget_used", "preempted_this_step", "action_refused",
    "exceeds_pool", "exceeds_context", "capacity", "first_slot_of_block", "reservation", "sequence_finished",
    "sequence_cancelled", "sequence_failed", "sequence_preempted", "batch_ended", "beam_dropped", "swapped_out",
    "swapped_in", "recomputed", "token_budget", "whole_prompt", "next_token", "end_of_sequence", "length_reached",
    "forced_tokens_used_up", "no_kv_cache", "out_of_window", "out_of_chunk", "block_needed", "duplicate_owner",
    "prefix_shared", "hash_collision", "keys_confused", "shared_block_written", "last_owner_writes", "grown_by_copy",
    "parallel_sampling", "beam_search", "block_full", "priority", "last_running", "shortest_output", "leaf_evicted",
    "requested"};

constexpr std::array<std::string_view, stage_kind_count> stage_names = {
    "schedule", "embed", "attention norm", "qkv", "rotary + cache write", "attention", "attention out", "ffn norm",
    "gate + up", "activation", "down", "output norm", "logits", "sample", "route",
    "latent"};

}  // namespace

std::string_view name_of(EventKind kind) { return event_names[static_cast<std::size_t>(kind)]; }

std::string_view name_of(Cause cause) { return cause_names[static_cast<std::size_t>(cause)]; }

std::optional<EventKind> event_kind_from_name(std::string_view name) {
    for (std::size_t i = 0; i < event_names.size(); ++i)
        if (event_names[i] == name) return static_cast<EventKind>(i);
    return std::nullopt;
}

std::string_view name_of(StageKind kind) { return stage_names[static_cast<std::size_t>(kind)]; }

}  // namespace kvloupe
