// SPDX-License-Identifier: GPL-3.0-or-later
//
// Scenario: what to run, as the contract (section 2) fixes it. Keys that are not built yet are refused by name.
#pragma once

#include "engine/backend.h"
#include "engine/cache/cache_options.h"
#include "engine/model/convert_options.h"
#include "engine/record/kv_format.h"
#include "engine/record/event.h"
#include "engine/record/result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

struct CacheOptions {
    std::uint32_t block_size = 16;
    std::optional<std::uint32_t> blocks;  // absent: auto
    double memory_share = 0.9;            // of a GPU's memory that auto fills, 0 < share <= 1
    // Of K and V: one precision for all layers, or one for every layer.
    std::vector<DType> key_dtypes = {DType::f16};
    std::vector<DType> value_dtypes = {DType::f16};
    std::optional<KvScale> scale;           // where a precision leaves a choice; absent: its own (kv_format.h)
    std::optional<std::uint32_t> group;     // KIVI; absent: chosen (cache_shape.h)
    std::optional<std::uint32_t> residual;  // KIVI, in tokens
    bool rotate = false;                    // rows are turned by a Hadamard matrix before they are stored
    std::uint32_t bytes_per_token = 0;    // accounting lanes; 0: not given
    CacheKind kind = CacheKind::paged;
    bool prefix_caching = true;           // false where the kind is contiguous
    PrefixIndexKind prefix_index = PrefixIndexKind::hash;
    FreeOrder free_order = FreeOrder::vllm;
    double watermark = 0;                 // share of the blocks that admission leaves untouched, 0 <= watermark < 1
    std::optional<AttentionSpan> span;    // of all layers; absent: the model's own
    Reserve reserve = Reserve::max;
    std::uint32_t max_model_len = 0;      // 0: the model's context
    std::uint32_t hash_bits = 256;
    bool compare_tokens = true;
    bool tag_extra_keys = true;
    RadixEviction radix_eviction = RadixEviction::lru;
    bool positions_by_rank = false;       // positions of keys count within the cache (StreamingLLM)

    bool operator==(const CacheOptions&) const = default;
};

enum class Batching : std::uint8_t { continuous, fixed /* "static" */ };
enum class SchedulingPolicy : std::uint8_t { fcfs, priority };
enum class PreemptionMode : std::uint8_t { recompute, swap };
enum class VictimRule : std::uint8_t { vllm, sglang };

struct SchedulerOptions {
    std::uint32_t max_num_seqs = 256;
    std::uint32_t max_num_batched_tokens = 2048;
    bool chunked_prefill = true;
    std::uint32_t long_prefill_token_threshold = 0;
    Batching batching = Batching::continuous;
    SchedulingPolicy policy = SchedulingPolicy::fcfs;
    PreemptionMode preemption = PreemptionMode::recompute;
    std::uint32_t swap_blocks = 0;        // of host memory
    bool reserve_full_prompt = true;
    VictimRule victim = VictimRule::vllm;

    bool operator==(const SchedulerOptions&) const = default;
};

// A lane that continues from a step of another one (engine/serve/branch.h).
struct BranchOptions {
    std::string of;                // a lane before it
    std::uint32_t at_step = 0;     // the first step that is its own; until then its tokens are those of `of`
    std::optional<TokenId> token;  // the next token of `request`, from that step on
    std::string request;           // the sequence's name; with a token

    bool operator==(const BranchOptions&) const = default;
};

struct LaneOptions {
    std::string name = "cached";
    bool kv_cache = true;
    CacheOptions cache;
    SchedulerOptions scheduler;
    std::string model;    // empty: the scenario's
    std::string device;   // empty: the scenario's
    AttentionForm attention = AttentionForm::tiled;
    bool latent_expanded = false;      // multi-head latent attention makes keys and values of the latents ("mla": "expanded")
    bool latent_absorbed = false;      // the same with "absorbed": said, not only left to the default
    std::optional<ConvertOptions> convert;  // what the lane's model becomes first
    std::uint32_t uncached_limit = 0;  // window: an uncached lane pauses at this many tokens; 0: no limit
    std::optional<BranchOptions> branch;

    bool operator==(const LaneOptions&) const = default;
};

struct RequestOptions {
    std::string id;
    std::optional<std::string> prompt;                 // exactly one of the two
    std::optional<std::vector<TokenId>> prompt_tokens;
    std::uint32_t max_new_tokens = 64;
    std::optional<std::vector<TokenId>> output_tokens; // forced; the request ends when they are used up
    std::uint32_t arrival_step = 0;
    float temperature = 0;                             // 0: greedy
    std::uint32_t top_k = 0;                           // 0: off
    float top_p = 1;
    std::int32_t priority = 0;                         // lower is more important
    std::string salt, adapter;                         // extra keys of the prefix cache
    std::uint32_t n = 1;                               // parallel samples; more than 1: its sequences are id.0, id.1, …
    std::uint32_t beam_width = 0;                      // 0: no beam search; its sequences are id.0, id.1, …
    bool submitted = false;                            // while the session ran: its arrival says so

    bool operator==(const RequestOptions&) const = default;
};

enum class ActionKind : std::uint8_t { fork, cancel, preempt, evict, reset_prefix_cache };

std::string_view name_of(ActionKind kind);

struct ScenarioAction {
    std::uint32_t at_step = 0;
    ActionKind kind = ActionKind::cancel;
    std::string request;                               // a request, a fork or a child; not for evict and reset
    std::optional<std::uint32_t> block;                // evict
    // fork; what is absent is inherited from the parent
    std::string as;                                    // the new sequence's name
    std::optional<std::uint32_t> position;             // absent: the end
    std::optional<std::string> prompt;                 // appended; at most one of the two
    std::optional<std::vector<TokenId>> prompt_tokens;
    std::optional<std::vector<TokenId>> output_tokens;
    std::optional<std::uint32_t> max_new_tokens;

    bool operator==(const ScenarioAction&) const = default;
};

struct Breakpoint {
    std::optional<EventKind> on;
    std::optional<std::string> request;
    std::optional<std::uint32_t> block;
    std::optional<TokenId> token;
    std::optional<std::uint32_t> step;
    std::optional<std::uint32_t> used_blocks;
    std::optional<std::string> lane;

    bool operator==(const Breakpoint&) const = default;
};

struct AttentionWatch {
    std::uint32_t layer = 0;
    std::vector<std::uint32_t> heads;  // empty: all

    bool operator==(const AttentionWatch&) const = default;
};

struct RecordOptions {
    std::optional<std::vector<AttentionWatch>> attention;  // absent: the program's default (run: none)
    bool blocks = false;
    std::uint32_t stages_every = 1;
    std::uint32_t memory_mib = 256;

    bool operator==(const RecordOptions&) const = default;
};

struct Scenario {
    std::string comment;               // its "_", if that is a text: what to look at
    std::string title;                 // file name without folder and suffix
    std::string model = "bundled";     // bundled | bundled:NAME | path | none
    std::string device = "auto";
    std::uint64_t seed = 0;
    std::vector<LaneOptions> lanes;    // at least one after parsing
    std::vector<RequestOptions> requests;
    std::vector<ScenarioAction> actions;
    std::vector<Breakpoint> breakpoints;
    RecordOptions record;

    bool operator==(const Scenario&) const = default;
};

// True for a lane without a model: no device, no arithmetic, forced tokens.
bool is_accounting(const Scenario& scenario, const LaneOptions& lane);

// Strict: an unknown key, a wrong type, a duplicate key or id, a value out of range is an error that names it; a key of
// the contract that this version does not build is refused by name with that reason.
Result<Scenario> parse_scenario(std::span<const std::byte> json, const std::string& file_name);
Result<Scenario> load_scenario(const std::string& path);

}  // namespace kvloupe
