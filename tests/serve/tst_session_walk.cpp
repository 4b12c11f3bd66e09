// SPDX-License-Identifier: GPL-3.0-or-later
//
// Random scenarios under random policies with random actions, over a tiny model with NaN in every slot that nobody wrote,
// audited after every step (the cache's invariants, and that a replay of the events gives the cache's state): every
// sequence ends, with the tokens it had to end with, and the pool is empty then.
#include "tests/serve/support.h"
#include "tests/support/claims.h"

#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

class Dice {
public:
    explicit Dice(unsigned seed) : m_random(seed) {}
    std::uint32_t up_to(std::uint32_t most) { return std::uint32_t(m_random() % (most + 1)); }
    std::uint32_t between(std::uint32_t least, std::uint32_t most) { return least + up_to(most - least); }
    bool one_in(std::uint32_t n) { return up_to(n - 1) == 0; }
    // Few different beginnings, so that prefixes are shared.
    std::vector<TokenId> text(std::uint32_t length) {
        std::vector<TokenId> tokens;
        const std::uint32_t start = up_to(1);
        for (std::uint32_t i = 0; i < length; ++i) tokens.push_back(TokenId(20 + start * 50 + (one_in(40) ? up_to(9) : i % 13)));
        return tokens;
    }

private:
    std::mt19937 m_random;
};

LaneOptions random_lane(Dice& dice) {
    LaneOptions lane;
    CacheOptions& cache = lane.cache;
    SchedulerOptions& scheduler = lane.scheduler;
    cache.block_size = dice.one_in(4) ? 1 : dice.between(2, 9);
    cache.blocks = dice.between(160 / cache.block_size + 3, 500 / cache.block_size + 5);
    cache.key_dtypes = cache.value_dtypes = {DType::f32};
    if (dice.one_in(5)) {
        cache.kind = CacheKind::contiguous;
        cache.prefix_caching = false;
        cache.reserve = Reserve(dice.up_to(3));
        cache.max_model_len = 100;
        cache.blocks = 520 / cache.block_size + 2;
    } else {
        cache.prefix_caching = !dice.one_in(4);
        cache.free_order = FreeOrder(dice.up_to(1));
        cache.watermark = dice.one_in(3) ? 0.05 : 0;
        if (cache.prefix_caching && dice.one_in(3)) {
            cache.prefix_index = PrefixIndexKind::radix;
            cache.radix_eviction = RadixEviction(dice.up_to(3));
        } else if (dice.one_in(3)) {
            cache.span = dice.one_in(3) ? AttentionSpan{0, 0, dice.between(1, 30)} : AttentionSpan{dice.between(1, 30), dice.up_to(6), 0};
            cache.positions_by_rank = cache.span->window > 0 && dice.one_in(2);
        }
    }
    scheduler.batching = dice.one_in(4) ? Batching::fixed : Batching::continuous;
    scheduler.max_num_seqs = dice.between(4, 12);
    scheduler.max_num_batched_tokens = dice.between(8, 90);
    scheduler.chunked_prefill = !dice.one_in(4);
    scheduler.long_prefill_token_threshold = dice.one_in(3) ? dice.between(1, 20) : 0;
    scheduler.policy = SchedulingPolicy(dice.up_to(1));
    scheduler.victim = VictimRule(dice.up_to(1));
    scheduler.reserve_full_prompt = dice.one_in(2);
    if (cache.kind == CacheKind::paged && dice.one_in(3)) {
        scheduler.preemption = PreemptionMode::swap;
        scheduler.swap_blocks = dice.between(1, 60);
    }
    return lane;
}

Scenario random_scenario(unsigned seed) {
    Dice dice(seed);
    Scenario scenario;
    scenario.device = "cpu";
    scenario.model = dice.one_in(3) ? "none" : fixtures + "tiny-gqa";
    scenario.seed = seed;
    scenario.lanes = {random_lane(dice)};
    const bool beams = scenario.model != "none" && scenario.lanes[0].cache.kind == CacheKind::paged;
    for (std::uint32_t i = 0; i < 12; ++i) {
        RequestOptions request;
        request.id = std::string(1, char('a' + i));
        request.prompt_tokens = dice.text(dice.between(1, 60));
        request.max_new_tokens = dice.between(1, 25);
        if (!dice.one_in(3)) request.output_tokens = dice.text(request.max_new_tokens);
        request.arrival_step = dice.up_to(25);
        request.temperature = dice.one_in(2) ? 1.0f : 0.0f;
        request.priority = int(dice.up_to(4)) - 2;
        if (dice.one_in(5)) request.salt = "s";
        if (dice.one_in(4)) request.n = dice.between(2, 4);
        else if (beams && !request.output_tokens && request.temperature == 0 && dice.one_in(2)) request.beam_width = dice.between(2, 4);
        scenario.requests.push_back(request);
    }
    for (std::uint32_t i = 0; i < 25; ++i) {
        ScenarioAction action;
        action.at_step = dice.between(1, 50);
        action.kind = ActionKind(dice.up_to(4));
        action.request = scenario.requests[dice.up_to(11)].id;
        if (action.kind == ActionKind::cancel && !dice.one_in(4)) action.kind = ActionKind::fork;
        if (action.kind == ActionKind::evict) action.block = dice.between(1, *scenario.lanes[0].cache.blocks - 1);
        if (action.kind == ActionKind::fork) {
            action.as = "f" + std::to_string(i);
            if (i > 4 && dice.one_in(4)) action.request = "f" + std::to_string(dice.up_to(i - 1));
            if (dice.one_in(2)) action.position = dice.between(1, 50);
            if (dice.one_in(3)) action.prompt_tokens = dice.text(dice.between(1, 9));
            if (dice.one_in(3)) action.output_tokens = dice.text(dice.between(1, 9));
            if (dice.one_in(3)) action.max_new_tokens = dice.between(1, 9);
        }
        scenario.actions.push_back(std::move(action));
    }
    return scenario;
}

void whateverIsAskedEverySequenceEnds(Check& check) {
    std::map<EventKind, int> seen;
    for (unsigned seed = 1; seed <= 150; ++seed) {
        const Scenario wanted = random_scenario(seed);
        auto made = Session::create(wanted, options());
        CHECK_OR_SAY(made, made ? "" : (std::to_string(seed) + ": " + made.error().message()));
        const auto ran = (*made)->run_to_end();
        CHECK_OR_SAY(ran, ran ? "" : (std::to_string(seed) + ": " + ran.error().message()));
        const Recording& recording = *(*made)->recording();
        const LaneRecord& lane = recording.lane(lane0);
        CHECK_OR_SAY(lane.failure().empty(), lane.failure());
        CHECK_OR_SAY(lane.step_count() < 5000, std::to_string(seed));
        const LaneState end = lane.state_after(lane.step_count() - 1);
        CHECK_EQUAL(end.used_blocks(), 0u);
        for (std::size_t i = 0; i < end.sequences().size(); ++i) {
            const SequenceStatus status = end.sequences()[i].status;
            CHECK_OR_SAY(status == SequenceStatus::finished || status == SequenceStatus::rejected || status == SequenceStatus::cancelled, (std::to_string(seed) + ": " + sequence_name(recording, lane, SequenceId(std::uint32_t(i)))));
        }
        for (std::size_t i = 0; i < lane.step_count(); ++i) {
            const StepRecord& step = lane.step(i);
            CHECK_EQUAL(step.used_blocks + step.cached_blocks + step.free_blocks, lane.info().blocks - 1);
            const SlotCounts& slots = step.slots;
            CHECK_EQUAL(slots.token + slots.cached + slots.reserved + slots.internal + slots.external + slots.free,
                        std::uint64_t(lane.info().blocks - 1) * lane.info().block_size);
            CHECK_THAT(step.host_blocks <= lane.info().policy.host_blocks);
        }
        for (std::uint64_t i = 0; i < lane.events().size(); ++i) ++seen[lane.events()[i].kind];
        for (const RequestOptions& request : wanted.requests)
            if (request.output_tokens && request.n == 1 && times(recording, lane0, request.id).finish_reason == "length")
                CHECK_EQUAL(outputs(recording, lane0, request.id), *request.output_tokens);
    }
    // Nothing was spared.
    for (const EventKind kind : {EventKind::fork, EventKind::copy_on_write, EventKind::preempt, EventKind::resume, EventKind::swap_out,
                                 EventKind::swap_in, EventKind::prefix_hit, EventKind::evict, EventKind::null_block, EventKind::reset})
        CHECK_OR_SAY(seen[kind] > 0, std::string(name_of(kind)));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(whateverIsAskedEverySequenceEnds));
    return claims.rows();
}
