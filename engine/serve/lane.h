// SPDX-License-Identifier: GPL-3.0-or-later
//
// Lane: one engine configuration at work. A step is what the contract (section 3) says it is; what happens goes to the
// lane's writer. Not for several threads: the session's worker owns it.
//
// A lane without a model (accounting) does the same without arithmetic: tokens are forced, no K/V is moved.
#pragma once

#include "engine/cache/cache_manager.h"
#include "engine/record/block_values.h"
#include "engine/record/writer.h"
#include "engine/serve/beam_search.h"
#include "engine/serve/branch.h"
#include "engine/serve/branch_tokens.h"
#include "engine/serve/cache_shape.h"
#include "engine/serve/decoder.h"
#include "engine/serve/device_model.h"
#include "engine/serve/lane_frame.h"
#include "engine/serve/logit_comparison.h"
#include "engine/serve/logit_row.h"
#include "engine/serve/position_tap.h"
#include "engine/serve/sampler.h"

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace kvloupe {

struct LaneSetup {
    LaneOptions options;
    std::shared_ptr<DeviceModel> device;  // null: an accounting lane
    std::string model_name;               // as in the scenario, or the file's name
    std::uint32_t blocks = 0;             // physical blocks; 0 without a cache
    std::uint32_t context_length = 0;     // in tokens; 0: no limit
    std::uint64_t seed = 0;               // the scenario's
    bool poison = false;                  // fresh blocks and the null block are filled with NaN; debug builds always do
    bool audit = false;                   // check the cache's invariants after every step; debug builds always do
    std::vector<ScenarioAction> actions;
    std::vector<LaneRules> rules;         // ascending steps from 0; empty: those of the options, always
    std::uint64_t weights_allocated = 0;  // measured: by the allocator's counter when the model was put on the device

    // How the lane keeps its layers; of an accounting lane one group and no layers. Errors: CacheShape::of.
    Result<CacheShape> cache_shape() const;
    CacheManagerOptions manager_options(const CacheShape& shape) const;
    DecoderOptions decoder_options(const CacheShape& shape) const;
};

// What a step may use beyond the lane's own.
struct StepContext {
    LaneId lane;
    std::stop_token stop;                          // the step is given up, unpublished
    std::span<const AttentionWatch> watch;
    bool measure_stages = true;
    LateStages* late = nullptr;                    // of the lane's backend; null: stages are read at once
    LogitComparison* comparison = nullptr;         // may be null
    LogitTap logit_tap;                            // may be empty
    PositionTap* positions = nullptr;              // asks for logits inside prompts too; may be null
    const BranchTokens* inherited = nullptr;       // of a branch: what it takes from its parent
};

class Lane : private LaneLife {
public:
    // Takes the pool's memory. Errors: the backend's; policies that contradict each other.
    static Result<std::unique_ptr<Lane>> create(LaneSetup setup);

    // What the recording says about the lane.
    LaneInfo info() const;
    const LaneSetup& setup() const { return m_setup; }

    // Starts from nothing: no requests, an empty pool, step 0 of `writer`, which outlives the lane's use of it.
    void begin(LaneWriter& writer);
    void add_request(Request request);
    // At its step, behind the actions of that step that are known already.
    void act(const ScenarioAction& action);

    // Requests that have not ended, those to come included.
    bool has_work() const { return !m_coming.empty() || !m_scheduler->running().empty() || !m_scheduler->waiting().empty(); }
    std::uint32_t next_step() const { return m_step; }
    // Tokens of the longest running sequence.
    std::uint32_t longest() const;

    enum class Outcome : std::uint8_t {
        stepped,
        failed,   // published too; the requests that could not go on have ended as failed, the lane can go on
        stopped,  // given up because of the stop token: nothing was published
    };
    Outcome step(const StepContext& context);
    // Publishes steps in which nothing but actions happens until next_step() is `step`; only while nothing runs or waits.
    void idle_until(std::uint32_t step);
    // What a block holds of a layer now; between steps. From the next step on the lane also keeps what values were before they
    // were stored. Never fails: what cannot be told is a sentence in it.
    BlockValues block_values(const BlockQuestion& question);
    // Why the last step failed.
    const std::string& failure() const { return m_failure; }

    // What it is now with its pool's bytes, between steps. Errors: the device's; a device without memory for it.
    Result<LaneFrame> frame() const;
    std::uint64_t frame_bytes() const;  // that a frame takes, about
    // Goes on as it was then; the steps before are in the writer. Errors: the device's; the cache's invariants where they are checked.
    Result<void> restore(const LaneFrame& frame, LaneWriter& writer);

    // The cache's invariants (CACHE_SEMANTICS 1.1); a lane without a cache always passes.
    Result<void> audit_cache() const;
    const CacheManager* cache() const { return m_cache.get(); }
    // Whether a layer keeps its newest tokens in f16 until they are quantised (KIVI).
    bool has_residual() const { return m_shape.keeps_residual; }

private:
    Lane(LaneSetup setup, CacheShape shape);

    // lane_frame.cpp
    std::vector<std::uint32_t> filled_blocks() const;

    // lane.cpp
    Result<Schedule> schedule();
    void end_stuck_request(const Schedule& schedule);
    void close_step(const Schedule& schedule);
    void count_slots();
    void note_stages(const StepContext& context);

    Result<void> take_memory();
    void note_memory(const MemoryCounters& before);

    // lane_info.cpp
    std::uint64_t bytes_per_token() const;
    std::uint64_t block_bytes() const;
    void describe_layers(LaneInfo& info) const;

    // lane_events.cpp: what happened goes to the recording, and its bytes are moved
    void record(EventKind kind, Cause cause, const Request& request, Event event = {});
    void write(std::span<Event> events);
    void move_bytes(Event& event);

    // lane_pages.cpp: blocks that are kept in f16 until they are quantised (KIVI)
    void move_pages(const Event& event);
    void settle_pages(const Event& event);
    Result<void> take_pages(const ScheduledSequence& scheduled);
    void seal(const Request& request, std::uint32_t before, std::uint32_t computed);
    void seal_block(BlockId block);
    void add_pages(Batch& batch) const;
    bool forks_inside_sealed(const Request& parent, std::uint32_t position) const;

    // lane_sequences.cpp: sequences come and go
    void arrive();
    void arrive(Request& request);
    void note_tokens(const Request& request, std::uint32_t first);
    Result<Request*> fork(Request child, Request& parent, std::uint32_t position, Cause cause);
    void end_request(Request& request, Cause cause, const std::string& detail = {});
    void release(Request& request, Cause cause);
    void release_batch();

    // lane_branch.cpp
    void begin_rules();
    void follow_rules();
    void check_choice();
    bool choice_is_next(const Request& request) const;
    TokenId given_token(const Request& request) const;

    // lane_actions.cpp
    void act();
    void act_on(const ScenarioAction& action);
    void cancel_now(Request& request);
    void preempt_now(const ScenarioAction& action);
    void fork_now(const ScenarioAction& action);
    void change_cache_now(const ScenarioAction& action);
    void refuse_action(const ScenarioAction& action, const Request* request, const std::string& why);
    Result<Request> continuation(const ScenarioAction& action, const Request& parent, std::uint32_t position) const;
    std::vector<Request*> named(const std::string& name) const;
    std::string unknown(const std::string& name) const;

    // lane_forward.cpp
    enum class Forward : std::uint8_t { done, failed, stopped };
    Forward forward(const Schedule& schedule, const StepContext& context);
    void forward_accounting(const Schedule& schedule);
    Forward forward_cached(const Schedule& schedule, const StepContext& context);
    Forward forward_uncached(const Schedule& schedule, const StepContext& context);
    ForwardOptions forward_options(const StepContext& context, const std::vector<TokenId>* summarise) const;
    LogitRow logit_row(const ForwardResult& result, std::size_t row) const;
    Result<void> prepare_buffers(const Schedule& schedule, bool all_positions);
    Result<void> reserve(std::uint32_t rows, std::uint32_t logit_rows);
    Result<ForwardResult> run(const Batch& batch, const ForwardOptions& options);
    void note_computed(const ScheduledSequence& scheduled);
    void note_measured(std::optional<MeasuredPass> pass, bool late);
    void note_attention(const Batch& batch, std::span<const ScheduledSequence> sequences, const ForwardResult& result);
    Forward fail(std::span<Request* const> requests, const std::string& reason);
    Forward fail_all(const Schedule& schedule, const Error& error);
    Forward finish_forward(const Schedule& schedule, const StepContext& context,
                           const std::vector<LogitRow>& logits, const std::string& bad_place);

    // lane_values.cpp: what blocks hold, and what it was before it was stored
    std::string why_unreadable(const BlockQuestion& question) const;
    void keep_shadow(std::uint32_t layer, BlockValues& told);
    void drop_shadow();
    void shadow_event(const Event& event);
    Result<void> read_part(std::uint32_t layer, BlockId block, std::uint32_t tokens, BlockPart& keys, BlockPart& values) const;
    Result<void> read_before(std::uint32_t layer, BlockId block, BlockPart& keys, BlockPart& values) const;
    void compare_layers(BlockValues& told) const;
    void expand_latents(BlockValues& told);

    // lane_sampling.cpp
    bool summary_is_enough(const Request& request, const StepContext& context) const;
    void spread(Request& request, const LogitRow& logits, const StepContext& context);
    void sample(Request& request, const LogitRow& logits, const StepContext& context);
    void append_token(Request& request, const SampledToken& sampled, bool forced);
    void end_if_done(Request& request);
    bool is_end(TokenId token) const;
    // lane_beams.cpp
    void propose(Request& beam, std::span<const float> logits);
    void choose_beams();
    void apply_choice(BeamGroup& group, const BeamChoice& choice);

    LaneSetup m_setup;
    CacheShape m_shape;
    KvLayout m_layout;                         // of m_shape
    std::shared_ptr<DeviceModel> m_device;
    std::unique_ptr<KvCache> m_cache_memory;   // the pool; without a cache: scratch for one sequence, grown on demand
    std::unique_ptr<HostBlocks> m_host_memory; // of swapped-out sequences; may be null
    LaneMemory m_memory;                       // measured: what create() took
    std::uint64_t m_activation_bytes = 0;      // measured: what its buffers took since
    std::uint64_t m_kv_bytes = 0;              // measured: the pool, and what was added to it since
    std::uint32_t m_reserved_rows = 0, m_reserved_logit_rows = 0;  // what the decoder's buffers have room for
    std::uint32_t m_expanded_sequences = 0, m_expanded_tokens = 0; // and its expanded latents
    Decoder m_decoder;
    Sampler m_sampler;
    std::unique_ptr<ShadowCache> m_shadow;                // once somebody has looked at a block; may be null
    std::string m_shadow_problem;                         // why there is none although somebody has
    std::unique_ptr<LatentExpansion> m_shown_expansion;   // of blocks that were looked at; may be null

    LaneWriter* m_writer = nullptr;  // since begin()

    // Of the step in progress.
    const BranchTokens* m_inherited = nullptr;   // may be null
    StepRecord m_counters;
    StageRecord m_schedule_stage;
    std::vector<StageRecord> m_stages;           // of its passes, read at once
    std::optional<MeasuredPass> m_measured;      // its pass, to be read while the next one runs
    struct Ending {
        Request* request;
        Cause cause;
        std::string detail;
    };
    std::vector<Ending> m_endings;
    std::uint64_t m_sample_ns = 0;
    std::uint32_t m_sampled = 0;
    std::uint32_t m_summarised = 0;   // of them: from a summary
    bool m_preempted_by_action = false;
};

}  // namespace kvloupe
