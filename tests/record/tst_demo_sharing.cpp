// SPDX-License-Identifier: GPL-3.0-or-later
//
// The synthetic recordings of sharing lanes must agree with themselves and with the rules: views are tested on them.
#include "engine/record/lane_state.h"
#include "engine/record/results.h"
#include "tests/support/claims.h"
#include "tests/support/demo_sharing.h"
#include "tests/support/stopwatch.h"
#include "tests/support/texts.h"

#include <map>
#include <set>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

const std::shared_ptr<const Recording>& whole() {
    static const auto recording = [] {
        DemoSharingOptions options;
        for (const char* name : {"pow2", "grow", "static"}) options.lanes.emplace_back(name);
        return demo_sharing_recording(options);
    }();
    return recording;
}

const LaneRecord& lane_named(const std::string& name) {
    for (const auto& lane : whole()->lanes())
        if (lane->info().name == name) return *lane;
    throw std::runtime_error(printed("no lane %s", name.c_str()));
}

std::set<std::pair<EventKind, Cause>> what_happened(const LaneRecord& lane) {
    std::set<std::pair<EventKind, Cause>> seen;
    for (std::size_t e = 0; e < lane.events().size(); ++e) seen.emplace(lane.events()[e].kind, lane.events()[e].cause);
    return seen;
}

// Empty if the invariants of CACHE_SEMANTICS 1.1 hold; else the first that does not.
std::string broken(const LaneState& state, std::uint32_t blocks) {
    std::map<std::uint32_t, std::uint32_t> entries;
    for (std::uint32_t id = 0; id < state.sequences().size(); ++id) {
        for (std::uint32_t group = 0; group < state.groups(); ++group) {
            std::set<std::uint32_t> own;
            for (const BlockId block : state.table(SequenceId(id), static_cast<std::uint8_t>(group))) {
                if (block == null_block_id) continue;
                ++entries[block.value];
                if (!own.insert(block.value).second) return "block " + std::to_string(block.value) + " twice in a table";
            }
        }
    }
    std::set<std::uint32_t> free;
    for (const BlockId block : state.free_order()) free.insert(block.value);
    std::uint32_t used = 0;
    for (std::uint32_t block = 1; block < blocks; ++block) {
        const BlockState& one = state.blocks()[block];
        if (one.owners != entries[block])
            return "block " + std::to_string(block) + ": " + std::to_string(one.owners) + " owners, " + std::to_string(entries[block]) + " entries";
        if ((one.owners == 0 && !one.held) != (free.count(block) > 0)) return "block " + std::to_string(block) + ": queue";
        if (one.hashed && one.owners == 0 && one.filled != state.block_size()) return "block " + std::to_string(block) + ": hole";
        if (state.owners_of(BlockId(block)).size() != one.owners) return "block " + std::to_string(block) + ": owners";
        used += one.owners > 0;
    }
    return used == state.used_blocks() ? std::string() : std::string("used blocks");
}

void sameOptionsGiveTheSameRecording(Check& check) {
    const auto first = demo_sharing_recording();
    const auto second = demo_sharing_recording();
    CHECK_EQUAL(events_csv(*first), events_csv(*second));
    CHECK_EQUAL(steps_csv(*first), steps_csv(*second));
}

Cases<std::string> invariantsHoldAfterEveryStep_cases() {
    Cases<std::string> cases;
    for (const char* name : {"paged", "swap", "windows", "radix", "max", "oracle", "pow2", "grow", "static"})
        cases.add(name, std::string(name));
    return cases;
}
void invariantsHoldAfterEveryStep(Check& check, const std::string& name) {
    const LaneRecord& lane = lane_named(name);
    CHECK_EQUAL(lane.step_count(), std::size_t{240});
    for (std::size_t step = 0; step < lane.step_count(); ++step) {
        const std::string wrong = broken(lane.state_after(step), lane.info().blocks);
        CHECK_OR_SAY(wrong.empty(), "step " + std::to_string(step) + ": " + wrong);
    }
}

void countersAgreeWithTheState(Check& check, const std::string& name) {
    const LaneRecord& lane = lane_named(name);
    const std::uint64_t size = lane.info().block_size;
    LaneState state(lane.info().blocks, lane.info().block_size);
    for (std::size_t s = 0; s < lane.step_count(); ++s) {
        const StepRecord& step = lane.step(s);
        std::uint64_t e = step.events.begin;
        const auto ends = [&](const Event& event) {
            return event.kind == EventKind::finish && event.cause == Cause::forced_tokens_used_up;
        };
        for (; e < step.events.end && !ends(lane.events()[e]); ++e) state.apply(lane.events()[e]);
        const std::string where = "step " + std::to_string(s);
        CHECK_OR_SAY(state.used_blocks() == step.used_blocks && state.cached_blocks() == step.cached_blocks, where);
        CHECK_OR_SAY(step.used_blocks + step.cached_blocks + step.free_blocks == lane.info().blocks - 1, where);
        CHECK_EQUAL(step.slots.token, state.token_slots());
        std::uint64_t filled = 0;
        for (const BlockState& block : state.blocks()) filled += block.owners > 0 ? block.filled : 0;
        CHECK_EQUAL(state.token_slots(), filled);
        const SlotCounts& slots = step.slots;
        CHECK_EQUAL(slots.token + slots.cached + slots.reserved + slots.internal + slots.external + slots.free,
                    (lane.info().blocks - 1) * size);
        CHECK_OR_SAY(slots.internal < lane.info().blocks * size, where);  // nothing below zero
        CHECK_EQUAL(step.host_blocks, state.host_blocks());
        for (; e < step.events.end; ++e) state.apply(lane.events()[e]);
    }
}

void lanesShowWhatTheyAreFor(Check& check) {
    using K = EventKind;
    using C = Cause;
    const std::map<std::string, std::vector<std::pair<K, C>>> expected = {
        {"paged",
         {{K::prefix_hit, C::prefix_shared}, {K::store, C::block_full}, {K::evict, C::block_needed},
          {K::fork, C::requested}, {K::fork, C::parallel_sampling}, {K::copy_on_write, C::shared_block_written},
          {K::preempt, C::last_running}, {K::resume, C::recomputed}, {K::refuse, C::prompt_too_long_now},
          {K::reject, C::exceeds_pool}, {K::prefill, C::token_budget}, {K::finish, C::sequence_cancelled}}},
        {"swap",
         {{K::preempt, C::last_running}, {K::swap_out, C::swapped_out}, {K::free, C::swapped_out},
          {K::swap_in, C::swapped_in}, {K::resume, C::swapped_in}, {K::refuse, C::pool_too_full}}},
        {"windows",
         {{K::null_block, C::out_of_window}, {K::free, C::out_of_window}, {K::prefix_hit, C::prefix_shared},
          {K::copy_on_write, C::shared_block_written}}},
        {"radix",
         {{K::evict, C::leaf_evicted}, {K::prefix_hit, C::prefix_shared}, {K::store, C::block_full}}},
        {"max", {{K::allocate, C::reservation}, {K::refuse, C::pool_too_full}, {K::refuse, C::action_refused}}},
        {"oracle", {{K::allocate, C::reservation}, {K::refuse, C::pool_too_full}}},
        {"pow2", {{K::allocate, C::reservation}}},
        {"grow",
         {{K::copy_on_write, C::grown_by_copy}, {K::allocate, C::grown_by_copy}, {K::free, C::grown_by_copy},
          {K::preempt, C::last_running}, {K::resume, C::recomputed}}},
        {"static", {{K::refuse, C::batch_running}, {K::free, C::batch_ended}, {K::prefix_hit, C::prefix_shared}}},
    };
    for (const auto& [name, list] : expected) {
        const auto seen = what_happened(lane_named(name));
        for (const auto& one : list)
            CHECK_OR_SAY(seen.count(one) > 0, (name + ": " + std::string(name_of(one.first)) + " with cause " +
                                           std::to_string(int(one.second))));
    }
    std::uint64_t hits = 0, waiting = 0;
    double external = 0, wasted_max = 0, wasted_oracle = 0;
    for (std::size_t s = 0; s < 240; ++s) {
        hits += lane_named("paged").step(s).hit_tokens;
        waiting += lane_named("paged").step(s).waiting > 0;
        const SlotCounts& max = lane_named("max").step(s).slots;
        const SlotCounts& oracle = lane_named("oracle").step(s).slots;
        external += double(oracle.external);
        wasted_max += double(max.reserved + max.internal + max.external);
        wasted_oracle += double(oracle.reserved + oracle.internal + oracle.external);
    }
    CHECK_THAT(hits > 200);
    CHECK_THAT(waiting > 20);
    CHECK_THAT(external > 0);
    CHECK_THAT(wasted_max > wasted_oracle);
    bool held = false, chained = false;
    const LaneState radix = lane_named("radix").state_after(239);
    for (const BlockState& block : radix.blocks()) held = held || block.held;
    CHECK_THAT(held);
    const LaneState paged = lane_named("paged").state_after(30);
    CHECK_THAT(paged.saved_blocks() > 0);
    for (const BlockState& block : paged.blocks()) chained = chained || block.parent_hash != 0;
    CHECK_THAT(chained);
}

void everySequenceEndsOrLives(Check& check) {
    for (const auto& lane : whole()->lanes()) {
        const LaneState last = lane->state_after(239);
        CHECK_THAT(lane->sequences().size() >= last.sequences().size());
        std::uint32_t finished = 0, running = 0, waiting = 0;
        for (const SequenceState& one : last.sequences()) {
            finished += one.status == SequenceStatus::finished;
            running += one.status == SequenceStatus::running;
            waiting += one.status == SequenceStatus::arrived || one.status == SequenceStatus::preempted ||
                       one.status == SequenceStatus::swapped;
        }
        CHECK_OR_SAY(finished > (lane->info().policy.kind == "contiguous" || lane->info().name == "static" ? 3u : 8u), lane->info().name);
        CHECK_THAT(running > 0);
        CHECK_EQUAL(waiting, lane->step(239).waiting);
    }
}

void millionBlocksAreMadeInSeconds(Check& check) {
    Stopwatch timer;
    const auto recording = demo_sharing_recording(DemoSharingOptions::large(500));
    const LaneRecord& lane = *recording->lanes().front();
    CHECK_EQUAL(lane.info().blocks, 1000000u);
    CHECK_EQUAL(lane.step_count(), std::size_t{500});
    CHECK_THAT(lane.sequences().size() > 500);
    check.note(printed("%d steps, %llu events in %lld ms, %llu MiB", 500, static_cast<unsigned long long>(lane.events().size()),
                       timer.milliseconds(), static_cast<unsigned long long>(recording->memory_bytes() >> 20)));
    timer.start();
    const LaneState state = lane.state_after(499);
    CHECK_THAT(state.used_blocks() > 1000);
    check.note(printed("state after the last step in %lld us", timer.nanoseconds() / 1000));
    timer.start();
    const LaneState copy = state;
    check.note(printed("copy in %lld us", timer.nanoseconds() / 1000));
    CHECK_THAT(copy.blocks().size() == 1000000);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(sameOptionsGiveTheSameRecording));
    claims.add(CLAIM(invariantsHoldAfterEveryStep), invariantsHoldAfterEveryStep_cases());
    claims.add(CLAIM(countersAgreeWithTheState), invariantsHoldAfterEveryStep_cases());
    claims.add(CLAIM(lanesShowWhatTheyAreFor));
    claims.add(CLAIM(everySequenceEndsOrLives));
    claims.add(CLAIM(millionBlocksAreMadeInSeconds));
    return claims.rows();
}
