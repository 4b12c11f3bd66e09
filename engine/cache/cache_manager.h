// SPDX-License-Identifier: GPL-3.0-or-later
//
// CacheManager: which sequence owns which blocks, under which rules. Knows no tensors and no requests.
//
// Plan -> check -> apply: plan functions only look, so that a refusal touches nothing; apply() is the one function that
// changes anything. It answers with events (engine/record/event.h) in the order in which things happened, the very
// records that LaneState replays: what the manager did and what the recording says cannot differ. The caller adds the
// times, moves the bytes that copy_on_write, swap_out and swap_in name, and hands the events to its writer.
//
// Two kinds: paged (block pool, block tables, prefix index; CACHE_SEMANTICS 1.1, 1.2, 1.4, 1.9) and contiguous (one run
// of blocks per sequence from a buddy allocator, to see what paging beat; FORMATS 3.2).
#pragma once

#include "engine/cache/cache_options.h"
#include "engine/record/event.h"
#include "engine/record/result.h"
#include "engine/record/step.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace kvloupe {

// Chained hash of a full block: equal hashes mean equal tokens from the start of the prompt.
using BlockHash = std::array<std::byte, 32>;

// What keeps equal tokens apart (CACHE_SEMANTICS 1.1 "Hashing"); empty: none.
struct ExtraKeys {
    std::string_view adapter;  // in every block
    std::string_view salt;     // in the first block only
};

// What the manager must know of a sequence. The views must hold during the call.
struct CacheSequence {
    SequenceId id;
    std::span<const TokenId> tokens;  // prompt and output so far
    std::uint32_t prompt_tokens = 0;
    std::uint64_t final_slots = 0;    // it will need at most: prompt + new tokens - 1
    ExtraKeys keys;
    std::int32_t priority = 0;        // of its radix tree nodes; lower is more important
};

// Longest cached prefix of a sequence, whole blocks, at most tokens - 1 (the last token's logits are needed).
struct PrefixMatch {
    std::uint32_t tokens = 0;
    std::vector<std::vector<BlockId>> blocks;  // (groups)(logical blocks); the null block where a window needs none
};

// Slots for more tokens of a sequence.
struct GrowRequest {
    const CacheSequence* sequence = nullptr;
    std::uint32_t computed = 0;         // tokens whose K/V lies in the cache, hits included
    std::uint32_t new_tokens = 0;       // to compute in this step: positions computed .. computed + new_tokens - 1
    std::uint32_t lookahead = 0;        // slots beyond them that get no hash (draft tokens)
    const PrefixMatch* match = nullptr; // admission: its hits, else null
    bool admission = false;             // the sequence holds nothing yet: gate and watermark apply
    bool others_scheduled = false;      // something is scheduled already: the watermark applies (CACHE_SEMANTICS 1.1)
    bool whole_prompt = true;           // reserve_full_prompt: admission needs room for all its tokens
};

// What a change would take. Valid until the next apply().
struct CachePlan {
    enum Kind : std::uint8_t { grow, fork, release, swap_out, swap_in, evict, reset };
    Kind kind = grow;
    Cause refused_because = Cause::none;  // none: it fits
    std::uint32_t needed_blocks = 0;      // taken from the free ones: new, copied to, hits that leave the free queue
    std::uint32_t free_blocks = 0;        // free, with what this plan itself gives back first, less the watermark
    std::uint64_t version = 0;

    CacheSequence sequence;
    GrowRequest request;                  // grow
    SequenceId parent;                    // fork
    std::uint32_t position = 0;           // fork
    std::uint32_t valid_tokens = 0;       // release
    Cause cause = Cause::none;            // release, swap
    BlockId block;                        // evict

    bool fits() const { return refused_because == Cause::none; }
};

// Told of what the prefix index learns and forgets, in batches (CACHE_SEMANTICS V15, V23, R10).
class CacheListener {
public:
    virtual ~CacheListener() = default;
    // parent: hash before the first, none at the root. tokens: hashes.size() * block_size.
    virtual void block_stored(std::span<const BlockHash> hashes, std::optional<BlockHash> parent,
                              std::span<const TokenId> tokens) = 0;
    virtual void block_removed(std::span<const BlockHash> hashes) = 0;
    virtual void all_blocks_cleared() = 0;
};

// A sequence that owns blocks, for count_slots().
struct SlotHolder {
    SequenceId sequence;
    std::uint32_t written = 0;      // tokens whose K/V lies in its slots
    std::uint64_t final_size = 0;   // slots it will have written when it ends: a prediction while it lives
};

class CacheManager {
public:
    // Errors: options that contradict each other, as a sentence that names the scenario's key.
    static Result<std::unique_ptr<CacheManager>> create(CacheManagerOptions options);
    virtual ~CacheManager() = default;

    const CacheManagerOptions& options() const { return m_options; }
    std::uint32_t block_size() const { return m_options.block_size; }
    std::uint32_t usable_blocks() const { return m_options.blocks - 1; }
    virtual std::uint32_t used_blocks() const = 0;    // with an owner
    virtual std::uint32_t cached_blocks() const = 0;  // nobody owns them, their content can be hit
    std::uint32_t free_blocks() const { return usable_blocks() - used_blocks() - cached_blocks(); }
    virtual std::uint32_t host_blocks_used() const { return 0; }

    // Longest sequence that the cache can hold alone: its final_slots may be at most that (windows make it longer than
    // the pool). new_tokens: the most tokens one step computes of it.
    virtual std::uint64_t most_slots(std::uint32_t prompt_tokens, std::uint32_t new_tokens) const = 0;

    // May split nodes of a radix tree; changes nothing else. No hits where prefix caching is off.
    virtual PrefixMatch match(const CacheSequence& sequence) = 0;

    virtual CachePlan plan_grow(const GrowRequest& request) const = 0;
    // The child shares the blocks of the parent's first `position` positions (those must lie in the cache).
    // Errors: contiguous caches cannot share; the parent owns nothing; position beyond what it has.
    virtual Result<CachePlan> plan_fork(const CacheSequence& child, SequenceId parent, std::uint32_t position) const = 0;
    // Gives up all blocks, the last one first. valid_tokens: K/V that was really computed; hashes of blocks beyond it
    // (given in the step that is being undone) are dropped. UINT32_MAX: all is valid.
    virtual CachePlan plan_release(const CacheSequence& sequence, Cause cause, std::uint32_t valid_tokens) const = 0;
    // To and from host memory; refused (pool_too_full) where there is no room. computed: tokens in the cache.
    virtual CachePlan plan_swap_out(const CacheSequence& sequence, std::uint32_t computed) const = 0;
    virtual CachePlan plan_swap_in(const CacheSequence& sequence) const = 0;
    // Forgets the hash of one block that nobody owns. Errors: it is owned or has none.
    virtual Result<CachePlan> plan_evict(BlockId block) const = 0;
    // Forgets all hashes. Errors: a block is in use (CACHE_SEMANTICS V15); nothing changes then.
    virtual Result<CachePlan> plan_reset() const = 0;

    // Errors, with nothing touched: the plan does not fit, or something was applied since it was made.
    virtual Result<std::vector<Event>> apply(const CachePlan& plan) = 0;

    // After the forward pass: the K/V of tokens 0 .. computed - 1 lies in the cache. The radix tree takes them in here.
    virtual std::vector<Event> note_computed(const CacheSequence& sequence, std::uint32_t computed) = 0;

    // Logical block index -> physical block; empty if the sequence owns nothing.
    virtual std::span<const BlockId> table(SequenceId sequence, std::uint32_t group = 0) const = 0;
    std::uint32_t group_count() const { return static_cast<std::uint32_t>(m_options.groups.size()); }
    // Table entries that point at the block.
    virtual std::uint32_t owners(BlockId block) const = 0;
    virtual std::optional<BlockHash> hash(BlockId block) const = 0;
    // From the head; for a contiguous cache in the order of addresses.
    virtual std::vector<BlockId> free_order(std::size_t limit = SIZE_MAX) const = 0;

    // Every slot by kind (contract, section 4); sums to (blocks - 1) * block_size. waiting_slots: what the head of the
    // waiting queue would reserve (contiguous: holes smaller than that are external), 0 if nobody waits.
    virtual SlotCounts count_slots(std::span<const SlotHolder> holders, std::uint64_t waiting_slots) const = 0;

    // The invariants of CACHE_SEMANTICS 1.1 (and 1.4's for a radix index). Error: the first that does not hold, with
    // block or sequence and values.
    virtual Result<void> audit() const = 0;

    // The same manager once more, to the last detail of its queues and indexes; nobody listens to it.
    virtual std::unique_ptr<CacheManager> clone() const = 0;
    virtual std::uint64_t bytes() const = 0;  // that a clone takes, about
    // Ids of the host blocks that hold something.
    virtual std::vector<std::uint32_t> taken_host_blocks() const { return {}; }

    // Other rules from now on; what is where stays there.
    virtual void set_rules(std::uint32_t watermark_blocks, FreeOrder free_order, RadixEviction radix_eviction) {
        m_options.watermark_blocks = watermark_blocks;
        m_options.free_order = free_order;
        m_options.radix_eviction = radix_eviction;
    }

    void set_listener(CacheListener* listener) { m_listener = listener; }

protected:
    explicit CacheManager(CacheManagerOptions options) : m_options(std::move(options)) {}
    CacheManager(const CacheManager& other) : m_options(other.m_options) {}

    CacheManagerOptions m_options;
    CacheListener* m_listener = nullptr;
};

}  // namespace kvloupe
