// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/event.h"
#include "engine/record/step.h"

#include <array>

namespace kvloupe {

namespace {

constexpr std::array<std::string_view, event_kind_count> event_names = {
    "arrive", "admit", "refuse", "reject", "prefix_hit", "allocate", "fork", "copy_on_write", "evict", "free",
    "preempt", "swap_out", "swap_in", "resume", "null_block", "store", "reset", "prefill", "decode", "finish"};

constexpr std::array<std::string_view, stage_kind_count> stage_names = {
    "schedule", "embed", "attention norm", "qkv", "rotary + cache write", "attention", "attention out", "ffn norm",
    "gate + up", "activation", "down", "output norm", "logits", "sample", "route",
    "latent"};

}  // namespace

std::string_view name_of(EventKind kind) { return event_names[static_cast<std::size_t>(kind)]; }

std::optional<EventKind> event_kind_from_name(std::string_view name) {
    for (std::size_t i = 0; i < event_names.size(); ++i)
        if (event_names[i] == name) return static_cast<EventKind>(i);
    return std::nullopt;
}

std::string_view name_of(StageKind kind) { return stage_names[static_cast<std::size_t>(kind)]; }

}  // namespace kvloupe
