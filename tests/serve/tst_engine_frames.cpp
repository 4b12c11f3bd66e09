// SPDX-License-Identifier: GPL-3.0-or-later
//
// A session that is put back to a key frame of its engine goes on as if it had never stopped: the oracle is an undisturbed run.
#include "engine/serve/engine_frame.h"
#include "tests/serve/failing_backend.h"
#include "tests/serve/lane_models.h"
#include "tests/serve/recorded.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// A frame after every fifth step, whatever it costs; logits are told in full.
SessionOptions framed(std::uint32_t steps, Logits* tapped = nullptr) {
    SessionOptions made = options(tapped);
    made.find_model = [](const std::string& model) -> Result<std::shared_ptr<const Model>> {
        if (model == "generated") return generated_model({0, 0});
        if (model == "windows") return generated_model({0, 16});
        if (model == "latents") return load_model(fixtures + "tiny-family/deepseek-v2-dense");
        return load_model(model == "bundled" ? fixtures + "tiny-gqa" : model);
    };
    made.frames.least_steps = steps;
    made.frames.least_work = {};
    made.frames.most_share = 1e9;
    return made;
}

// Counters, attention rows and tables of all groups, which recorded_difference() leaves out.
std::string further_difference(const LaneRecord& a, const LaneRecord& b) {
    if (a.step_count() != b.step_count()) return a.info().name + ": how many steps";
    for (std::size_t step = 0; step < a.step_count(); ++step) {
        const std::string where = a.info().name + ", step " + std::to_string(step) + ": ";
        const StepRecord x = a.step(step), y = b.step(step);
        const auto counters = [](const StepRecord& s) {
            return std::vector<std::uint64_t>{s.step.value, s.prefill_tokens, s.decode_tokens, s.context_tokens, s.kv_bytes, s.slots.token, s.slots.cached,
                                              s.slots.reserved, s.slots.internal, s.slots.external, s.slots.free, s.residual_pages, s.allocated_kv_bytes,
                                              s.host_blocks, s.hit_tokens, s.queried_tokens, s.preempted_hit_tokens, s.preempted_queried_tokens,
                                              s.overflowed_values, std::bit_cast<std::uint32_t>(s.logit_difference), s.events.begin, s.events.end,
                                              s.tokens.begin, s.tokens.end, s.attention.begin, s.attention.end};
        };
        const std::vector<std::uint64_t> old = counters(x), now = counters(y);
        for (std::size_t i = 0; i < old.size(); ++i)
            if (old[i] != now[i]) return where + "counter " + std::to_string(i) + " is " + std::to_string(now[i]) + ", not " + std::to_string(old[i]);
        for (std::uint64_t i = x.attention.begin; i < x.attention.end; ++i) {
            const AttentionRow r = a.attention()[i], s = b.attention()[i];
            if (r.sequence != s.sequence || r.layer != s.layer || r.head != s.head || r.position != s.position || r.key_count != s.key_count)
                return where + "attention row " + std::to_string(i);
            for (std::uint64_t k = 0; k < r.key_count; ++k)
                if (a.attention_weights()[r.weights_begin + k] != b.attention_weights()[s.weights_begin + k]) return where + "weights of row " + std::to_string(i);
        }
        if (a.stages_of(step).size() != b.stages_of(step).size()) return where + "how many stages";
        if (step > 0 && y.start_ns < b.step(step - 1).start_ns + b.step(step - 1).duration_ns) return where + "the clock went back";
    }
    const LaneState after = a.state_after(a.step_count() - 1), again = b.state_after(b.step_count() - 1);
    for (std::uint32_t i = 0; i < after.sequences().size(); ++i)
        for (std::uint8_t group = 0; group < after.groups(); ++group) {
            const TableState &s = after.table(SequenceId(i), group), &t = again.table(SequenceId(i), group);
            if (!std::equal(s.begin(), s.end(), t.begin(), t.end())) return a.info().name + ": a block table of group " + std::to_string(group);
        }
    return a.failure() == b.failure() ? "" : a.info().name + ": its failure";
}

std::string whole_difference(const Recording& a, const Recording& b) {
    if (const std::string told = recorded_difference(a, b); !told.empty()) return told;
    for (std::size_t i = 0; i < a.lanes().size(); ++i)
        if (const std::string told = further_difference(*a.lanes()[i], *b.lanes()[i]); !told.empty()) return told;
    if (a.requests().size() != b.requests().size()) return "how many requests";
    for (std::size_t i = 0; i < a.requests().size(); ++i)
        if (a.requests()[i].id != b.requests()[i].id || a.requests()[i].arrival_step != b.requests()[i].arrival_step) return "a request";
    return {};
}

std::size_t longest(const Recording& recording) {
    std::size_t most = 0;
    for (const auto& lane : recording.lanes()) most = std::max(most, lane->step_count());
    return most;
}

struct FrameCase {
    std::string name;
    std::string rest;
    std::vector<EventKind> happens;  // in the first lane
};

const char* const sampled = R"("prompt_tokens": [5, 6, 7, 8, 9, 11, 12], "temperature": 0.9, "top_k": 30, "top_p": 0.9)";

std::string crowd(int count, int output, const char* more = "") {
    std::string list = R"("requests": [)";
    for (int i = 0; i < count; ++i) {
        const std::string own = R"(, "arrival_step": )" + std::to_string(i * 2) + more;
        list += (i ? "," : "") + small_request(("r" + std::to_string(i)).c_str(), 9 + i % 3 * 4, output + i % 4, own.c_str());
    }
    return list + "]";
}

std::vector<FrameCase> frame_cases() {
    using K = EventKind;
    const auto one = [](const std::string& cache, const std::string& scheduler = "") {
        return R"("lanes": [{"cache": {)" + cache + "}" + (scheduler.empty() ? "" : R"(, "scheduler": {)" + scheduler + "}") + "}], ";
    };
    const std::string samples = R"("requests": [{"id": "a", "n": 3, "max_new_tokens": 26, )" + std::string(sampled) + R"(}, {"id": "b", "max_new_tokens": 12, "arrival_step": 4, )" +
                                sampled + R"(}], "actions": [{"at_step": 6, "do": "fork", "request": "b", "as": "c"}, {"at_step": 9, "do": "cancel", "request": "a.1"},
                                {"at_step": 11, "do": "preempt", "request": "b"}])";
    const std::string none = R"("model": "none", )";
    return {
        {"forks copy on write and samples are drawn", R"("seed": 5, )" + one(R"("block_size": 4, "blocks": 60)") + samples, {K::copy_on_write, K::fork, K::preempt}},
        {"hashed prefixes are hit and evicted", R"("model": "generated", )" + one(R"("block_size": 4, "blocks": 18)") + crowd(8, 11), {K::prefix_hit, K::evict}},
        {"a radix tree is hit and evicted", R"("model": "generated", )" + one(R"("block_size": 4, "blocks": 18, "prefix_index": "radix", "radix_eviction": "lfu")") + crowd(8, 11),
         {K::prefix_hit, K::evict}},
        {"short hashes collide", one(R"("block_size": 4, "blocks": 30, "hash_bits": 4, "compare_tokens": false)") + crowd(6, 14), {K::prefix_hit}},
        {"the pool is too small: computed again", one(R"("block_size": 4, "blocks": 12, "prefix_caching": false)") + crowd(5, 16), {K::preempt, K::resume}},
        {"the pool is too small: swapped out", one(R"("block_size": 4, "blocks": 12, "prefix_caching": false)", R"("preemption": "swap", "swap_blocks": 16)") + crowd(5, 16),
         {K::swap_out, K::swap_in}},
        {"by priority, chunk by chunk", one(R"("block_size": 4, "blocks": 14, "watermark": 0.1)", R"("policy": "priority", "max_num_batched_tokens": 6)") + crowd(6, 12, R"(, "priority": 2)"),
         {K::preempt, K::refuse}},
        {"beams", one(R"("block_size": 4, "blocks": 60)", R"("max_num_seqs": 5, "max_num_batched_tokens": 3)") +
                      R"("requests": [{"id": "a", "prompt_tokens": [5, 6, 7, 8], "max_new_tokens": 18, "beam_width": 3}, {"id": "b", "prompt_tokens": [9, 8, 7], "max_new_tokens": 12, "beam_width": 2, "arrival_step": 3}])",
         {K::fork, K::copy_on_write}},
        {"contiguous, growing", one(R"("kind": "contiguous", "reserve": "grow", "block_size": 4, "blocks": 40)") + crowd(4, 14), {K::copy_on_write}},
        {"contiguous, powers of two", one(R"("kind": "contiguous", "reserve": "pow2", "block_size": 4, "blocks": 30)") + crowd(4, 14), {K::refuse}},
        {"static batches", one(R"("block_size": 4, "blocks": 60)", R"("batching": "static", "max_num_seqs": 3)") + crowd(6, 9), {K::free}},
        {"the newest tokens in f16", R"("model": "generated", )" + one(R"("dtype": "kivi4", "residual": 16, "group": 16, "block_size": 16, "blocks": 40)") + crowd(3, 40),
         {K::allocate}},
        {"windows have tables of their own", R"("model": "windows", )" + one(R"("block_size": 4, "blocks": 60)") + crowd(4, 22), {K::null_block}},
        {"latents", R"("model": "latents", )" + one(R"("block_size": 4, "blocks": 40)") + crowd(3, 22), {K::prefill}},
        {"scales per head, beside others", R"("lanes": [{"cache": {"block_size": 4, "blocks": 60, "dtype": "fp8_e4m3"}}, {"name": "int8", "cache": {"block_size": 8, "dtype": "int8", "blocks": 40}},
            {"name": "uncached", "kv_cache": false}, {"name": "swaps", "cache": {"block_size": 4, "blocks": 9}, "scheduler": {"preemption": "swap", "swap_blocks": 8}}], )" + samples,
         {K::fork}},
        {"sums alone, in several lanes", none + R"("lanes": [{"cache": {"block_size": 4, "blocks": 16}}, {"name": "radix", "cache": {"block_size": 2, "blocks": 30, "prefix_index": "radix"}},
            {"name": "runs", "cache": {"kind": "contiguous", "block_size": 4, "blocks": 40, "reserve": "oracle"}}], )" + crowd(9, 13), {K::preempt}},
        {"branches", none + R"("lanes": [{"name": "static", "cache": {"block_size": 2, "blocks": 30}, "scheduler": {"batching": "static", "max_num_seqs": 3}},
            {"name": "freed", "branch": {"of": "static", "at_step": 9}, "scheduler": {"batching": "continuous"}},
            {"name": "swapping", "branch": {"of": "freed", "at_step": 12}, "scheduler": {"preemption": "swap", "swap_blocks": 12}},
            {"name": "fewer", "branch": {"of": "static", "at_step": 7}, "cache": {"blocks": 20}}], )" + crowd(6, 9), {K::free}},
        {"a branch waits for its parent's tokens", R"("seed": 5, "lanes": [{"name": "old", "cache": {"block_size": 4, "blocks": 60}},
            {"name": "new", "branch": {"of": "old", "at_step": 13}, "cache": {"dtype": "int8"}},
            {"name": "chosen", "branch": {"of": "old", "at_step": 8, "token": 60, "request": "a.0"}, "scheduler": {"policy": "priority"}}], )" + samples, {K::fork}},
    };
}

void aRestartFromAFrameGoesOnAsIfNothingHadBeen(Check& check, const FrameCase& row) {
    Logits expected, told;
    const bool sums = row.rest.starts_with(R"("model": "none")");
    const std::string watched = sums ? "" : R"("record": {"attention": [{"layer": 0, "heads": [0]}]}, )";
    const Scenario wanted = scenario(R"({"version": 1, "device": "cpu", )" + watched + row.rest + "}");
    SessionOptions plain = framed(5, &expected);
    plain.frames.memory_bytes = 0;
    auto undisturbed = Session::create(wanted, plain);
    CHECK_RESULT(undisturbed);
    CHECK_RESULT((*undisturbed)->run_to_end());
    const Recording& a = *(*undisturbed)->recording();
    for (const EventKind kind : row.happens) CHECK_OR_SAY(!all(a, kind).empty(), "no " + std::string(name_of(kind)));
    auto made = Session::create(wanted, framed(5, &told));
    CHECK_RESULT(made);
    Session& s = **made;
    CHECK_RESULT(s.run_to_end());
    const std::size_t most = longest(a);
    CHECK_THAT(most >= 20);
    for (const std::size_t step : {most - 1, most * 2 / 3, most / 2, std::size_t(9), std::size_t(4), std::size_t(2), most - 4}) {
        told.clear();
        CHECK_RESULT(s.restart(static_cast<std::uint32_t>(step)));
        s.wait();
        const auto report = s.replay_report();
        CHECK_EQUAL(report->sentence(), "");
        CHECK_THAT(report->computed_from <= step + 1);
        // Lanes in lock-step have a frame at every fifth step; where one waits for another it is their own.
        if (a.lanes().size() == 1) CHECK_EQUAL(report->computed_from, std::uint64_t(step + 1) / 5 * 5);
        for (std::size_t i = 0; i < a.lanes().size(); ++i) CHECK_EQUAL(s.recording()->lanes()[i]->step_count(), std::min(a.lanes()[i]->step_count(), step + 1));
        CHECK_EQUAL(recorded_difference(a, *s.recording()), "");
        CHECK_RESULT(s.run_to_end());
        CHECK_EQUAL(whole_difference(a, *s.recording()), "");
        for (const auto& [key, logits] : told) CHECK_THAT(expected.at(key) == logits);
    }
}

const char* const two_lanes = R"("model": "none", "lanes": [{"cache": {"block_size": 4, "blocks": 30}}, {"name": "radix", "cache": {"block_size": 4, "blocks": 40, "prefix_index": "radix"},
    "scheduler": {"max_num_seqs": 1}}], "requests": [{"id": "a", "prompt_tokens": [5, 6, 7, 8, 9], "max_new_tokens": 20}, {"id": "b", "prompt_tokens": [5, 6, 7, 8, 9], "max_new_tokens": 12}])";

std::unique_ptr<Session> two(std::uint32_t steps_between_frames) {
    auto made = Session::create(scenario(std::string(R"({"version": 1, )") + two_lanes + "}"), framed(steps_between_frames));
    if (!made) throw std::runtime_error(made.error().message());
    return std::move(*made);
}

void stepped(Session& s, std::uint32_t count) {
    s.step(count);
    s.wait();
}

void interfere(Check& check, Session& s) {
    stepped(s, 10);
    ScenarioAction fork;
    fork.kind = ActionKind::fork;
    fork.request = "a";
    fork.as = "c";
    CHECK_RESULT(s.act(fork));
    CHECK_RESULT(s.submit(submitted("late", 9, 6)));
    stepped(s, 12);  // the first lane has ended by then, the second goes on
    ScenarioAction forget;
    forget.kind = ActionKind::reset_prefix_cache;
    CHECK_RESULT(s.act(forget));
    stepped(s, 4);
    CHECK_RESULT(s.submit(submitted("last", 9, 8)));
    CHECK_RESULT(s.run_to_end());
}

void whatWasAskedForIsAskedForAgain(Check& check, std::uint32_t between) {
    const auto undisturbed = two(1000);
    interfere(check, *undisturbed);
    const Recording& a = *undisturbed->recording();
    CHECK_THAT(a.lane(lane0).step_count() > 30 && longest(a) > 40);
    // From back to front: what was asked for later than a step is forgotten with it.
    for (const std::uint32_t step : {39u, 30u, 26u, 23u}) {
        const auto s = two(between);
        interfere(check, *s);
        CHECK_RESULT(s->restart(step));
        s->wait();
        CHECK_EQUAL(s->replay_report()->sentence(), "");
        CHECK_THAT(s->replay_report()->computed_from > 0);
        CHECK_EQUAL(s->replayable_scenario().requests.size(), std::size_t(step >= 26 ? 4 : 3));
        CHECK_EQUAL(s->replayable_scenario().actions.size(), std::size_t(step >= 22 ? 2 : 1));
        CHECK_EQUAL(recorded_difference(a, *s->recording()), "");
        CHECK_RESULT(s->run_to_end());
        if (step >= 26) CHECK_EQUAL(whole_difference(a, *s->recording()), "");
    }
}

void whatCameLaterIsForgotten(Check& check) {
    auto undisturbed = two(5);
    CHECK_RESULT(undisturbed->run_to_end());
    const auto s = two(5);
    interfere(check, *s);
    CHECK_RESULT(s->restart(9));  // the frame after step 9 holds nothing of what was asked for behind it
    s->wait();
    CHECK_EQUAL(s->replay_report()->computed_from, std::uint64_t(10));
    CHECK_EQUAL(s->replayable_scenario().requests.size(), std::size_t(2));
    CHECK_EQUAL(s->replayable_scenario().actions.size(), std::size_t(0));
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(whole_difference(*undisturbed->recording(), *s->recording()), "");
    // Another future; frames of the old one are gone.
    CHECK_RESULT(s->restart(12));
    s->wait();
    CHECK_RESULT(s->submit(submitted("late", 7, 9)));
    CHECK_RESULT(s->run_to_end());
    const auto other = s->recording();
    CHECK_RESULT(s->restart(17));
    s->wait();
    CHECK_EQUAL(s->replay_report()->sentence(), "");
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(whole_difference(*other, *s->recording()), "");
    s->reset();
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(whole_difference(*undisturbed->recording(), *s->recording()), "");
}

// Steps of which are computed again while there is no room for a copy of the pool: all.
class WithoutHostBlocks final : public WrappingBackend {
public:
    using WrappingBackend::WrappingBackend;
    Result<std::unique_ptr<HostBlocks>> host_blocks(const KvCache&, std::uint32_t) override { return Error{"there is no room", "Make some."}; }
};

// A step of broken logits ends what runs; the lane works again when the next request comes.
void aFailureComesBackWithItsStep(Check& check) {
    SessionOptions given = framed(1);
    auto sabotage = std::make_shared<Sabotage>();
    sabotage->nan_layer = 1;
    sabotage->nan_row_token = 52;  // the 13th forced token of a
    given.make_backend = [sabotage](const std::string& device) -> Result<std::unique_ptr<Backend>> {
        auto real = make_backend(BackendOptions{device, 2});
        if (!real) return real.error();
        return std::unique_ptr<Backend>(std::make_unique<FailingBackend>(std::move(*real), sabotage));
    };
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 60}}], "requests": [)" + request("a", 2, 30) + "," +
                         request("b", 6, 9, R"(, "arrival_step": 20)") + "]", given);
    stepped(*s, 14);
    const std::string failure = s->recording()->lane(lane0).failure();
    CHECK_OR_SAY(contains(failure, "Step 13"), failure);
    const auto ended = s->run_to_end();
    CHECK_THAT(!ended && s->recording()->lane(lane0).failure().empty());
    const auto before = s->recording();
    for (const std::uint32_t step : {22u, 13u}) {
        CHECK_RESULT(s->restart(step));
        s->wait();
        CHECK_EQUAL(s->replay_report()->computed_from, std::uint64_t(step + 1));
        CHECK_EQUAL(s->recording()->lane(lane0).failure(), step == 13 ? failure : "");
        const auto again = s->run_to_end();
        CHECK_THAT(!again && again.error().sentence == ended.error().sentence);
        CHECK_EQUAL(whole_difference(*before, *s->recording()), "");
    }
}

// Values before they are stored are known from the frame's next step on.
void aBlockThatIsLookedAtHoldsTheSame(Check& check) {
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 60, "dtype": "int8"}}], "requests": [)" + request("a", 6, 30) + "]", framed(5));
    const auto looked = [&] {
        s->ask_block({lane0, 1, BlockId(3)});
        s->wait();
        return s->block_values();
    };
    looked();
    stepped(*s, 17);
    const auto then = looked();
    CHECK_THAT(then->problem.empty() && then->keys.before_known() && then->before_since == std::uint64_t(0));
    CHECK_RESULT(s->run_to_end());
    CHECK_RESULT(s->restart(16));
    s->wait();
    CHECK_EQUAL(s->replay_report()->computed_from, std::uint64_t(15));
    const auto now = looked();
    CHECK_EQUAL(now->problem, "");
    CHECK_THAT(now->keys.stored == then->keys.stored && now->values.stored == then->values.stored);
    CHECK_THAT(!now->keys.before_known() && now->before_since == std::uint64_t(15));
}

void withoutRoomItIsComputedFromTheStart(Check& check, SessionOptions given) {
    auto s = session(R"("lanes": [{"cache": {"block_size": 4, "blocks": 60}}], "requests": [)" + request("a", 6, 30) + "]", std::move(given));
    CHECK_RESULT(s->run_to_end());
    const auto before = s->recording();
    CHECK_RESULT(s->restart(20));
    s->wait();
    CHECK_EQUAL(s->replay_report()->computed_from, std::uint64_t(0));
    CHECK_EQUAL(s->replay_report()->steps, std::uint64_t(21));
    CHECK_EQUAL(s->replay_report()->sentence(), "");
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(whole_difference(*before, *s->recording()), "");
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    SessionOptions broken = framed(5), small = framed(5);
    broken.make_backend = [](const std::string& device) -> Result<std::unique_ptr<Backend>> {
        auto real = make_backend(BackendOptions{device, 2});
        if (!real) return real.error();
        return std::unique_ptr<Backend>(std::make_unique<WithoutHostBlocks>(std::move(*real)));
    };
    small.frames.memory_bytes = 100;
    std::vector<Row> rows = {{"what was asked for is asked for again: a frame in every step", [](Check& check) { whatWasAskedForIsAskedForAgain(check, 1); }},
                             {"what was asked for is asked for again: a frame in every 8th", [](Check& check) { whatWasAskedForIsAskedForAgain(check, 8); }},
                             {"what was asked for is asked for again: one frame before", [](Check& check) { whatWasAskedForIsAskedForAgain(check, 20); }},
                             {"what came later is forgotten", whatCameLaterIsForgotten},
                             {"a failure comes back with its step", aFailureComesBackWithItsStep},
                             {"a block that is looked at holds the same", aBlockThatIsLookedAtHoldsTheSame},
                             {"without room on the device it is computed from the start", [broken](Check& check) { withoutRoomItIsComputedFromTheStart(check, broken); }},
                             {"without room in the budget it is computed from the start", [small](Check& check) { withoutRoomItIsComputedFromTheStart(check, small); }}};
    for (const FrameCase& row : frame_cases())
        rows.push_back({"a restart from a frame goes on as if nothing had been: " + row.name, [row](Check& check) { aRestartFromAFrameGoesOnAsIfNothingHadBeen(check, row); }});
    return rows;
}
