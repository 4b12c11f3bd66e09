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
    refuse,         // sequence; tokens = blocks needed, other = blocks available: it waits; or an action was refused (detail)
    reject,         // sequence; tokens = slots needed, other = slots there are: it can never run
    prefix_hit,     // one per block: sequence, block; tokens = hit tokens in it; other = logical index, none: the next
    allocate,       // sequence, block; other = logical index
    fork,           // sequence (child), other = parent sequence; tokens = position: the child shares the blocks of the
                    // parent's first `tokens` positions, in all groups
    copy_on_write,  // sequence, block = source, other = destination; tokens = slots moved; duration measured
    evict,          // block lost its hash; sequence: whose need took it, none otherwise; flag released: the radix tree
                    // held the block, which now goes to the free queue (flag front: to its head)
    free,           // sequence, block; other = owners left; flag front: it went to the head of the free queue; flag held:
                    // with no owner left the radix tree keeps it, it is in no free queue
    preempt,        // sequence; tokens = computed tokens given up; other = sequence that needed the blocks, none by action
    swap_out,       // sequence, block; other = host block; tokens = slots copied; duration measured
    swap_in,        // sequence, block (newly taken, next logical index); other = host block; tokens = slots copied
    resume,         // sequence; tokens = computed tokens it starts with (hits, or what was swapped in)
    null_block,     // sequence, block; other = logical index that now points at the null block
    store,          // sequence, block registered under its hash; other, tokens = bits 63-32 and 31-0 of the hash shown
                    // (its first 8 bytes, big-endian)
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
    fits_beside_running,     // admit: its blocks fit (a lane without a cache: there is room in the batch)
    pool_too_full,           // refuse: too few blocks are free for the tokens of this step
    prompt_too_long_now,     // refuse: the whole prompt does not fit (reserve_full_prompt)
    below_watermark,         // refuse: admission would leave fewer free blocks than the watermark
    batch_full,              // refuse: max_num_seqs are running
    batch_running,           // refuse: static batching, the batch has not ended
    budget_used,             // refuse: chunked prefill is off and the prompt exceeds what is left of the token budget
    preempted_this_step,     // refuse: a step that preempted admits nobody
    action_refused,          // refuse: an action cannot be done; detail says why
    exceeds_pool,            // reject
    exceeds_context,         // reject
    capacity,                // reject: exceeds what a step can take
    first_slot_of_block,     // allocate: the sequence's next token opens a new block
    reservation,             // allocate: a contiguous region was reserved when it was admitted
    sequence_finished,       // free
    sequence_cancelled,      // free, finish
    sequence_failed,         // free, finish
    sequence_preempted,      // free, evict: what the step gave to a sequence that it then preempted
    batch_ended,             // free: static batching holds blocks until the whole batch has ended
    beam_dropped,            // free, finish: better continuations took its place in the beam
    swapped_out,             // free, swap_out
    swapped_in,              // swap_in, resume
    recomputed,              // resume: its tokens are computed again, as far as they are not found in the cache
    token_budget,            // prefill: chunk limited by the token budget
    whole_prompt,            // prefill: the rest of the prompt
    next_token,              // decode
    end_of_sequence,         // finish: end-of-sequence token sampled
    length_reached,          // finish: max_new_tokens
    forced_tokens_used_up,   // finish: output_tokens used up
    no_kv_cache,             // prefill: an uncached lane recomputes the whole prefix
    out_of_window,           // null_block, free: wholly before the window, or inside sinks and window
    out_of_chunk,            // null_block, free: wholly before the attention chunk
    block_needed,            // evict: the block at the head of the free queue was taken; preempt: `other` needed a block
    duplicate_owner,         // prefix_hit, free: the radix tree had the same tokens; its block replaces the sequence's
    prefix_shared,           // prefix_hit
    hash_collision,          // prefix_hit: a wrong one, another prefix has the same shortened hash
    keys_confused,           // prefix_hit: a wrong one, other extra keys have the same untagged hash
    shared_block_written,    // copy_on_write: it appends to a block that has another owner
    last_owner_writes,       // evict: it appends in place to a hashed block that nobody else owns
    grown_by_copy,           // copy_on_write, allocate, free: a contiguous region grew by moving to a larger one
    parallel_sampling,       // fork: `n` continuations of one prompt
    beam_search,             // fork
    block_full,              // store
    priority,                // preempt: the least important of those that run
    last_running,            // preempt: the last one admitted
    shortest_output,         // preempt: the fewest output tokens (SGLang)
    leaf_evicted,            // evict: a leaf of the radix tree went
    requested,               // by an action: fork, preempt, evict, reset, free
};
inline constexpr int cause_count = static_cast<int>(Cause::requested) + 1;

std::string_view name_of(Cause cause);  // as it is spelt above

struct Event {
    static constexpr std::uint8_t flag_front = 1;     // free, evict: put at the head of the free queue (else the tail)
    static constexpr std::uint8_t flag_held = 2;      // free: kept by the radix tree
    static constexpr std::uint8_t flag_released = 4;  // evict: leaves the radix tree for the free queue

    std::uint32_t offset_ns = 0;  // since the start of its step
    EventKind kind = EventKind::arrive;
    Cause cause = Cause::none;
    std::uint8_t flags = 0;
    std::uint8_t group = 0;              // KV cache group of the block
    SequenceId sequence;
    BlockId block;
    std::uint32_t other = 0xFFFFFFFFu;   // see EventKind; none if all ones
    std::uint32_t tokens = 0;            // see EventKind
    std::uint32_t duration_ns = 0;       // measured, 0 if it has no duration
    StringId detail;                     // interned text (a reason), or none
};
static_assert(sizeof(Event) <= 32);

}  // namespace kvloupe
