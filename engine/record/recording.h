// SPDX-License-Identifier: GPL-3.0-or-later
//
// Recording: everything that happened in a session, as data. A live run and an opened file are the same to a reader.
// Goals: one writer (the session's worker), any number of readers without locks; a reader takes step_count() once and
// may then read everything up to it; nothing moves or changes afterwards. The order of publication is: logs first, the
// StepRecord that names their ranges last.
// Rejected: signals per step (they froze a window for seconds at 10,000 steps/s); a snapshot of the pool per step.
#pragma once

#include "engine/record/chunked_log.h"
#include "engine/record/device_memory.h"
#include "engine/record/dtype.h"
#include "engine/record/event.h"
#include "engine/record/lane_memory.h"
#include "engine/record/layer_info.h"
#include "engine/record/step.h"

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe {

class LaneState;

// Rules of a lane's cache and scheduler, by the names of the scenario (contract, section 2); "" where a rule does not
// apply. For display, exports and comparison; fixed when the lane is created.
struct CachePolicy {
    std::string kind;                  // "paged", "contiguous"; "" without a cache
    bool prefix_caching = false;
    std::string prefix_index;          // "hash", "radix"
    std::string free_order;            // "vllm", "append"
    std::string radix_eviction;        // "lru", …
    std::string reserve;               // contiguous: "max", "pow2", "oracle", "grow"
    std::uint32_t max_model_len = 0;   // contiguous; 0: not set
    std::uint32_t hash_bits = 256;
    bool compare_tokens = true;
    bool tag_extra_keys = true;
    std::uint32_t watermark_blocks = 0;
    std::uint32_t host_blocks = 0;     // room for swapped-out sequences
    std::string positions;             // "absolute", "rank"
    struct Group {                     // which keys a query sees; all 0: all before it
        std::uint32_t window = 0;      // tokens, the query's own included
        std::uint32_t sinks = 0;
        std::uint32_t chunk = 0;
        std::uint32_t layers = 0;
    };
    std::vector<Group> groups;         // KV cache groups over the one pool; one without differing layers
    std::string batching;              // "continuous", "static"
    std::string scheduling;            // "fcfs", "priority"
    std::string preemption;            // "recompute", "swap"
    std::string victim;                // "vllm", "sglang"
    std::uint32_t max_num_seqs = 0;
    std::uint32_t max_num_batched_tokens = 0;   // token budget of a step
    bool chunked_prefill = true;
    bool reserve_full_prompt = true;
};

// What a lane continues; `of` is "" where it continues none.
struct LaneBranch {
    std::string of;                // a lane before it
    std::uint32_t at_step = 0;     // its first own step: the tokens before it are those of `of`
    std::string how;               // "switches": under its parent's rules until then; "from_start": in a pool of its own from step 0
    TokenId token = -1;            // the chosen next token of `request`; -1: none
    std::string request;           // a sequence's name
};

// What a lane is; fixed when the lane is created.
struct LaneInfo {
    std::string name;
    std::string model_name;        // as in the scenario or file name
    std::string architecture;      // "llama"
    std::string device;            // "CPU, 2 threads"
    std::string device_id;         // "cpu", "cuda:0"; "" without a model
    std::string attention_variant; // "MHA", "GQA", "MQA", "MLA", or "none" for an accounting lane
    std::string attention_form;    // "tiled", "materialised"; "" for an accounting lane
    std::string latent_form;       // of multi-head latent attention: "absorbed", "expanded"; else ""
    std::string conversion;        // "to GQA with 2 KV heads, by mean-pooled heads"; "" where the model is as loaded
    std::string cache_dtype;       // "f16", "int8/int4" (K/V), "mixed" (by layer); "none" without a cache
    std::uint32_t layers = 0;
    std::uint32_t query_heads = 0;
    std::uint32_t kv_heads = 0;
    std::uint32_t head_dim = 0;
    std::uint32_t vocabulary = 0;
    std::uint32_t context_length = 0;
    std::uint64_t parameters = 0;
    std::uint64_t weight_bytes = 0;    // measured: bytes of the tensors as stored
    bool kv_cache = true;
    std::uint32_t block_size = 0;      // tokens per block; 0 without a cache
    std::uint32_t blocks = 0;          // physical blocks, the null block included; 0 without a cache
    std::uint64_t bytes_per_token = 0; // derived from the layouts, scales included, every layer counted as global
    std::uint64_t block_bytes = 0;     // measured: bytes of the pool's buffers, residual pages aside / blocks
    std::uint64_t pool_bytes = 0;      // measured: bytes of the pool's buffers
    std::uint64_t weights_id = 0;      // equal ids: same weights, logits may be compared
    CachePolicy policy;
    std::vector<LayerInfo> layer_infos;         // (layers); empty for an accounting lane
    ParameterParts parameter_parts;
    std::vector<StoredParameters> stored_parameters;  // by precision, in the order of DType
    std::uint64_t derived_weight_bytes = 0;     // tensors beside them that hold the same numbers cut in a second way
    std::uint32_t latent_rank = 0;              // multi-head latent attention: width of the latent; 0: none
    std::uint32_t latent_rotary_dim = 0;        // and of the rotary key beside it
    std::uint32_t latent_key_dim = 0;           // of a head's key once a latent is expanded, rotary part included
    std::uint32_t latent_value_dim = 0;         // and of its value
    bool window_is_foreign = false;             // the lane hides keys that the model was trained to see
    std::uint32_t residual_pages = 0;           // blocks that can be kept in f16 at a time (KIVI)
    LaneMemory memory;                          // measured
    std::vector<std::string> notes;             // sentences: what the program chose because nothing was given
    LaneBranch branch;
};

struct RequestInfo {
    std::string id;                    // as in the scenario: "a"
    std::vector<TokenId> prompt;       // with BOS where the tokenizer adds it
    std::uint32_t max_new_tokens = 0;
    std::uint32_t arrival_step = 0;
    float temperature = 0;
    std::uint32_t top_k = 0;           // 0: off
    float top_p = 1;
    std::uint64_t arrival_ns = 0;      // session clock, measured
    std::int32_t priority = 0;         // lower is more important
    std::string salt;                  // extra keys of the prefix cache
    std::string adapter;
    std::uint32_t n = 1;               // parallel samples
    std::uint32_t beam_width = 0;      // 0: no beam search
};

// A sequence of one lane: a request's own, a fork, a parallel sample or a beam.
struct SequenceInfo {
    RequestId request;
    SequenceId parent;                 // none unless forked
    std::uint32_t forked_at = 0;       // position
    std::uint32_t prompt_tokens = 0;   // its first tokens that are a prompt; 0: the request's prompt
    std::string name = {};             // "": the request's id; else a fork's name, or "a.0", "a.1" of `n` and beams
};

// Text of every token of the model's vocabulary, shared by the lanes that use it.
// For display: bytes that are no complete character on their own are given as "<0xE4>".
struct VocabularyText {
    std::vector<std::string> pieces;      // raw bytes of the token, "" for control tokens
    std::vector<std::string> shown;       // valid UTF-8 for a label, control tokens by name ("<s>")
    bool strips_leading_space = false;    // the tokenizer puts a space in front of a text; decoding takes it away
};

class LaneRecord {
public:
    explicit LaneRecord(LaneInfo info, std::shared_ptr<const VocabularyText> vocabulary);
    ~LaneRecord();

    const LaneInfo& info() const { return m_info; }
    const VocabularyText& vocabulary() const { return *m_vocabulary; }

    // Steps published so far; any thread.
    std::size_t step_count() const { return m_steps.size(); }
    const StepRecord& step(std::size_t index) const { return m_steps[index]; }

    // Logs; a reader stays below the ends that a published StepRecord names.
    const ChunkedLog<Event>& events() const { return m_events; }
    const ChunkedLog<TokenRecord>& tokens() const { return m_tokens; }
    const ChunkedLog<Alternative>& alternatives() const { return m_alternatives; }
    const ChunkedLog<StageRecord>& stages() const { return m_stages; }
    // Of one step: indices into stages(), empty where none were measured or (a GPU's, read one step late) not read yet.
    // Any thread; O(log steps).
    LogRange stages_of(std::size_t step) const;
    // A step whose stages were measured.
    struct StageRange {
        std::uint64_t step = 0;
        LogRange range;  // indices into stages()
    };
    // All of them, ascending steps.
    const ChunkedLog<StageRange, 8>& staged_steps() const { return m_stage_ranges; }
    const ChunkedLog<AttentionRow>& attention() const { return m_attention; }
    static constexpr std::size_t weights_shift = 16;
    const ChunkedLog<float, weights_shift>& attention_weights() const { return m_attention_weights; }
    const ChunkedLog<SequenceInfo, 8>& sequences() const { return m_sequences; }
    const ChunkedLog<std::string, 8>& strings() const { return m_strings; }

    // State of pool, tables and sequences after the step: nearest key frame + events since. Any thread.
    // step < step_count(). Cost is bounded by the key-frame distance, not by the length of the recording.
    LaneState state_after(std::size_t step) const;
    // What the step found. At step 0 an empty pool, or in a cut of a longer recording what its key frame says.
    LaneState state_before(std::size_t step) const;
    // The lane is a cut: step 0 found something that no event here tells of.
    bool begins_later() const { return m_frames && m_frames->at_or_before(-1).state; }

    // Why parts of a file's record could not be read, one sentence, or "" (any thread). What is missing is empty.
    std::string damage() const { return m_frames ? m_frames->damage() : std::string(); }

    // Attention rows that were asked for but did not fit the memory budget (measured, shown to the user).
    std::uint64_t dropped_attention_rows() const { return m_dropped_attention_rows.load(std::memory_order_relaxed); }

    // Why the lane stopped working, or "" (any thread).
    std::string failure() const;

    // Bytes held by the lane's logs and key frames (measured).
    std::uint64_t memory_bytes() const;

    struct KeyFrame {
        std::int64_t step = -1;  // state after this step; -1: before the first
        std::shared_ptr<const LaneState> state;
    };
    // Key frames of a file.
    class StoredFrames {
    public:
        virtual ~StoredFrames() = default;
        // The last one at or before `step`, or a state since then that is known already; without a state where there is none.
        virtual KeyFrame at_or_before(std::int64_t step) = 0;
        // The state after `step`, worked out from what at_or_before(asked) gave: those who walk step by step need not begin at the
        // frame each time. step == asked: what was asked for; else it lay on the way.
        virtual void remember(std::int64_t step, std::int64_t asked, const LaneState& state) = 0;
        // Whether a state on the way to `asked` is worth a copy: somebody walks there.
        virtual bool walks(std::int64_t asked) const = 0;
        // The frame that at_or_before(step) would have to read and decode first.
        static constexpr std::int64_t none_to_be_read = -2;
        virtual std::int64_t to_be_read(std::int64_t step) const = 0;
        virtual std::string damage() const = 0;
    };

private:
    friend class LaneWriter;
    friend class KvtReader;

    KeyFrame key_frame_before(std::int64_t step) const;
    std::future<void> read_beside(std::size_t step) const;
    LaneState empty_state() const;

    LaneInfo m_info;
    std::shared_ptr<const VocabularyText> m_vocabulary;
    ChunkedLog<StepRecord, 8> m_steps;
    ChunkedLog<Event> m_events;
    ChunkedLog<TokenRecord> m_tokens;
    ChunkedLog<Alternative> m_alternatives;
    ChunkedLog<StageRecord> m_stages;
    ChunkedLog<StageRange, 8> m_stage_ranges;  // ascending steps
    ChunkedLog<AttentionRow> m_attention;
    ChunkedLog<float, weights_shift> m_attention_weights;
    ChunkedLog<SequenceInfo, 8> m_sequences;
    ChunkedLog<std::string, 8> m_strings;
    ChunkedLog<KeyFrame, 6> m_key_frames;
    std::unique_ptr<StoredFrames> m_frames;  // of a file's record, whose m_key_frames is empty
    std::atomic<std::uint64_t> m_key_frame_bytes{0};
    std::atomic<std::uint64_t> m_dropped_attention_rows{0};
    mutable std::mutex m_failure_mutex;
    std::string m_failure;
};

enum class Phase : std::uint8_t { loading, paused, running, finished, failed };

// What the session paused for: the breakpoint's event, or only the lane where it asked for none.
struct PauseFocus {
    LaneId lane;
    std::optional<std::uint64_t> event;  // index into the lane's events
};

class Recording {
public:
    // Lanes; fixed before the first step.
    const std::vector<std::unique_ptr<LaneRecord>>& lanes() const { return m_lanes; }
    const LaneRecord& lane(LaneId id) const { return *m_lanes[id.value]; }

    const ChunkedLog<RequestInfo, 8>& requests() const { return m_requests; }

    // Read the phase first, then the sizes: what a finished session recorded is then complete.
    Phase phase() const { return m_phase.load(std::memory_order_acquire); }

    // Why the session paused or failed, one sentence, or "" (any thread).
    std::string reason() const;
    // The breakpoint's event that the reason speaks of; empty unless a breakpoint paused the session (any thread).
    std::optional<PauseFocus> pause_focus() const;

    // Memory of the devices that have their own, as of the last pause or end; empty where there is none (any thread).
    std::vector<DeviceMemory> device_memory() const;

    std::string title() const { return m_title; }
    std::uint64_t memory_budget_bytes() const { return m_memory_budget; }

    // Bytes held by all logs of all lanes (measured).
    std::uint64_t memory_bytes() const;

private:
    friend class RecordingWriter;
    friend class KvtReader;

    std::string m_title;
    std::uint64_t m_memory_budget = std::uint64_t{256} << 20;
    std::vector<std::unique_ptr<LaneRecord>> m_lanes;
    ChunkedLog<RequestInfo, 8> m_requests;
    std::atomic<Phase> m_phase{Phase::loading};
    mutable std::mutex m_reason_mutex;
    std::string m_reason;
    std::optional<PauseFocus> m_pause_focus;
    std::vector<DeviceMemory> m_device_memory;  // under m_reason_mutex
};

}  // namespace kvloupe
