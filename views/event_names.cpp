// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/event_names.h"

#include <algorithm>
#include <array>

namespace kvloupe {

namespace {

// In the order of Cause.
constexpr std::array cause_names = {
    "none", "arrival_step_reached", "submitted", "fits_beside_running", "pool_too_full", "prompt_too_long_now",
    "below_watermark", "batch_full", "batch_running", "budget_used", "preempted_this_step", "action_refused",
    "exceeds_pool", "exceeds_context", "capacity", "first_slot_of_block", "reservation", "sequence_finished",
    "sequence_cancelled", "sequence_failed", "sequence_preempted", "batch_ended", "beam_dropped", "swapped_out",
    "swapped_in", "recomputed", "token_budget", "whole_prompt", "next_token", "end_of_sequence", "length_reached",
    "forced_tokens_used_up", "no_kv_cache", "out_of_window", "out_of_chunk", "block_needed", "duplicate_owner",
    "prefix_shared", "hash_collision", "keys_confused", "shared_block_written", "last_owner_writes", "grown_by_copy", "parallel_sampling",
    "beam_search", "block_full", "priority", "last_running", "shortest_output", "leaf_evicted", "requested",
};
static_assert(cause_names.size() == cause_count);

constexpr std::array<EventKind, event_kind_count> by_telling = {
    EventKind::copy_on_write, EventKind::fork,   EventKind::preempt, EventKind::prefix_hit, EventKind::evict,
    EventKind::swap_out,      EventKind::swap_in, EventKind::resume, EventKind::null_block, EventKind::refuse,
    EventKind::reject,        EventKind::reset,  EventKind::finish,  EventKind::admit,      EventKind::arrive,
    EventKind::allocate,      EventKind::free,   EventKind::store,   EventKind::prefill,    EventKind::decode};

}  // namespace

QString kindName(EventKind kind) {
    return QString::fromLatin1(name_of(kind).data(), static_cast<qsizetype>(name_of(kind).size()));
}

QString kindLabel(EventKind kind) {
    return kindName(kind).replace(QLatin1Char('_'), kind == EventKind::copy_on_write ? QLatin1Char('-') : QLatin1Char(' '));
}

QString causeName(Cause cause) { return QString::fromLatin1(cause_names[static_cast<std::size_t>(cause)]); }

QString causeLabel(Cause cause) { return causeName(cause).replace(QLatin1Char('_'), QLatin1Char(' ')); }

std::optional<Cause> causeFromName(const QString& name) {
    const std::string wanted = QString(name).toLower().replace(QLatin1Char('-'), QLatin1Char('_')).toStdString();
    const auto found = std::find(cause_names.begin(), cause_names.end(), wanted);
    if (found == cause_names.end()) return std::nullopt;
    return static_cast<Cause>(found - cause_names.begin());
}

const EventKind* kindsByTelling() { return by_telling.data(); }

}  // namespace kvloupe
