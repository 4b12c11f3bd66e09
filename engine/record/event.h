// SPDX-License-Identifier: GPL-3.0-or-later
//
// Events: flat records of at most 32 bytes of what happened to requests, sequences and blocks, each with its cause.
// What can be derived (step, lane, request, bytes) is not stored: a step knows the range of its events.
#pragma once

#include "engine/record/ids.h"

#include <optional>
#include <string_view>

namespace kvloupe {

// Kinds and their names in events.csv are fixed by the contract (section 4).
enum class EventKind : std::uint8_t {
    arrive,         // sequence; tokens = prompt tokens
    admit,          // sequence; tokens = prompt tokens
    refuse,         // sequence; tokens = blocks needed, other = blocks available: it waits
    reject,         // sequence; tokens = slots needed, other = slots there are: it can never run
    prefix_hit,     // one per block: sequence, block; tokens = hit tokens in it; other = logical index, none: the next
    allocate,       // sequence, block; other = logical index
    fork,           // sequence (child), other = parent sequence; tokens = position
    copy_on_write,  // sequence, block = source, other = destination; tokens = slots moved
    evict,          // block lost its hash
    free,           // sequence, block; other = owners left; flag front: it went to the head of the free queue
    preempt,        // sequence; tokens = computed tokens given up
    swap_out,       // sequence, block
    swap_in,        // sequence, block
    resume,         // sequence
    null_block,     // sequence, block; other = logical index that now points at the null block
    store,          // block registered under its hash
    reset,          // the prefix cache was cleared
    prefill,        // sequence; tokens = prompt tokens computed in this step, other = first position
    decode,         // sequence; tokens = 1, other = position computed
    finish,         // sequence; tokens = output tokens
};
inline constexpr int event_kind_count = static_cast<int>(EventKind::finish) + 1;

std::string_view name_of(EventKind kind);
std::optional<EventKind> event_kind_from_name(std::string_view name);

// Why it happened; with the fields of the event it becomes a sentence (describe.h).
enum class Cause : std::uint8_t {
    none,
    arrival_step_reached,    // arrive
    submitted,               // arrive, while running
    fits_beside_running,     // admit
    pool_too_full,           // refuse: prompt + new tokens - 1 does not fit beside what runs
    batch_full,              // refuse: max_num_seqs are running
    exceeds_pool,            // reject
    exceeds_context,         // reject
    first_slot_of_block,     // allocate: the sequence's next token opens a new block
    sequence_finished,       // free
    sequence_cancelled,      // free, finish
    sequence_failed,         // free, finish
    token_budget,            // prefill: chunk limited by the token budget
    whole_prompt,            // prefill: the rest of the prompt
    next_token,              // decode
    end_of_sequence,         // finish: end-of-sequence token sampled
    length_reached,          // finish: max_new_tokens
    forced_tokens_used_up,   // finish: output_tokens used up
    no_kv_cache,             // prefill: an uncached lane recomputes the whole prefix
    out_of_window, block_needed, duplicate_owner, prefix_shared, priority, requested, capacity,  // the cache manager's
};

struct Event {
    static constexpr std::uint8_t flag_front = 1;  // free: put at the head of the free queue (else the tail)

    std::uint32_t offset_ns = 0;  // since the start of its step
    EventKind kind = EventKind::arrive;
    Cause cause = Cause::none;
    std::uint8_t flags = 0;
    std::uint8_t reserved = 0;
    SequenceId sequence;
    BlockId block;
    std::uint32_t other = 0xFFFFFFFFu;   // see EventKind; none if all ones
    std::uint32_t tokens = 0;            // see EventKind
    std::uint32_t duration_ns = 0;       // measured, 0 if it has no duration
    StringId detail;                     // interned text (a reason), or none
};
static_assert(sizeof(Event) <= 32);

}  // namespace kvloupe
