// SPDX-License-Identifier: GPL-3.0-or-later
//
// Contiguous reservations: the PagedAttention paper's Fig. 3 and the 7.00 of Fig. 13 (FORMATS 3.2), growing by copy, and
// what the slots count as. Every change is replayed by LaneState.
#include "engine/cache/contiguous_cache.h"
#include "engine/record/lane_state.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

CacheManagerOptions options(Reserve reserve, std::uint32_t blocks, std::uint32_t block_size, std::uint32_t max_model_len = 0) {
    CacheManagerOptions result;
    result.kind = CacheKind::contiguous;
    result.reserve = reserve;
    result.blocks = blocks;
    result.block_size = block_size;
    result.max_model_len = max_model_len;
    return result;
}

std::string text(const SlotCounts& slots) {
    std::string line;
    for (const std::uint64_t count : {slots.token, slots.cached, slots.reserved, slots.internal, slots.external, slots.free})
        line += std::to_string(count) + ' ';
    return trimmed(line);
}

std::string text(std::span<const BlockId> blocks) {
    std::string line;
    for (const BlockId id : blocks) line += std::to_string(id.value) + ' ';
    return trimmed(line);
}

std::string text(const TableState& table) {
    std::vector<BlockId> blocks;
    for (const BlockId id : table) blocks.push_back(id);
    return text(std::span<const BlockId>(blocks));
}

std::string text(const std::vector<Event>& events) {
    std::string lines;
    for (const Event& event : events)
        lines += std::string(name_of(event.kind)) + ' ' + std::to_string(event.block.value) + ' ' +
                 std::to_string(event.other) + ' ' + std::to_string(event.tokens) + '\n';
    return trimmed(lines);
}

// A cache, the recording's view of it, and sequences by their lengths.
struct Scene {
    Scene(Check& found, const CacheManagerOptions& given) : check(found), cache(given), state(given.blocks, given.block_size) {
        const auto made = CacheManager::create(given);
        if (!made) throw std::runtime_error(made.error().sentence);
    }

    struct Length {
        std::uint32_t prompt = 0;
        std::uint32_t output = 1;
        std::uint32_t tokens() const { return prompt + output - 1; }
    };
    CacheSequence sequence(std::uint32_t id, Length length) {
        known.assign(std::max<std::size_t>(known.size(), length.prompt), 0);
        CacheSequence result;
        result.id = SequenceId(id);
        result.tokens = std::span(known).first(length.prompt);
        result.prompt_tokens = length.prompt;
        result.final_slots = length.tokens();
        return result;
    }
    CachePlan plan(std::uint32_t id, Length length, std::uint32_t computed, std::uint32_t new_tokens) {
        request = {};
        planned = sequence(id, length);
        request.sequence = &planned;
        request.computed = computed;
        request.new_tokens = new_tokens;
        request.admission = cache.table(SequenceId(id)).empty();
        return cache.plan_grow(request);
    }
    std::vector<Event> apply(const CachePlan& plan) {
        auto events = cache.apply(plan);
        if (!events) {
            check.fail(events.error().sentence, __FILE__, __LINE__);
            return {};
        }
        state.apply(*events);
        verify();
        return *events;
    }
    std::vector<Event> grow(std::uint32_t id, Length length, std::uint32_t computed, std::uint32_t new_tokens) {
        return apply(plan(id, length, computed, new_tokens));
    }
    std::vector<Event> release(std::uint32_t id) {
        return apply(cache.plan_release(sequence(id, {}), Cause::sequence_finished, UINT32_MAX));
    }
    // The audit passes, the replay has the same tables, and every slot is counted once.
    void verify() {
        const auto sound = cache.audit();
        CHECK_RESULT(sound);
        for (std::uint32_t id = 0; id < state.sequences().size(); ++id)
            CHECK_EQUAL(text(state.sequences()[id].table), text(cache.table(SequenceId(id))));
        CHECK_EQUAL(state.used_blocks(), cache.used_blocks());
        CHECK_EQUAL(state.free_order().size(), cache.free_order().size());
        const SlotCounts slots = cache.count_slots({}, 7);
        CHECK_EQUAL(slots.token + slots.cached + slots.reserved + slots.internal + slots.external + slots.free,
                    std::uint64_t{cache.usable_blocks()} * cache.block_size());
    }

    Check& check;
    ContiguousCache cache;
    LaneState state;
    std::vector<TokenId> known;
    CacheSequence planned;
    GrowRequest request;
};

// One output token more than the figure counts is forced: the last one is never written.
struct Figure3Case {
    int maxModelLength, prompt, output;
    std::string slots;  // token cached reserved internal external free
};
Cases<Figure3Case> figure3_cases() {
    Cases<Figure3Case> cases;
    cases.add("A: 7 + 1 written, 2 reserved, 2,038 never used", {2048, 7, 4, "8 0 2 2038 0 0"});
    cases.add("B: 3 + 1 written, 1 reserved, 507 never used", {512, 3, 3, "4 0 1 507 0 0"});
    return cases;
}
void figure3(Check& check, const Figure3Case& row) {
    const auto length = static_cast<std::uint32_t>(row.maxModelLength);
    Scene scene(check, options(Reserve::max, length / 16 + 1, 16, length));
    const Scene::Length request{static_cast<std::uint32_t>(row.prompt), static_cast<std::uint32_t>(row.output)};
    scene.grow(0, request, 0, request.prompt);
    CHECK_THAT(scene.grow(0, request, request.prompt, 1).empty());  // its slots were reserved
    const SlotHolder holder{SequenceId(0), request.prompt + 1, request.tokens()};
    CHECK_EQUAL(text(scene.cache.count_slots(std::span(&holder, 1), 0)), row.slots);
}

void figure13_thePoolOf15728SlotsHolds7ReservationsOf2048(Check& check) {
    Scene scene(check, options(Reserve::max, 984, 16, 2048));
    for (std::uint32_t id = 0; id < 7; ++id) scene.grow(id, {100, 100}, 0, 100);
    const CachePlan eighth = scene.plan(7, {100, 100}, 0, 100);
    CHECK_EQUAL(eighth.refused_because, Cause::pool_too_full);
    CHECK_EQUAL(eighth.needed_blocks, 128u);
    CHECK_EQUAL(eighth.free_blocks, 64u);  // the longest hole; 87 blocks are free
    CHECK_EQUAL(scene.cache.free_blocks(), 87u);
    const SlotCounts slots = scene.cache.count_slots({}, std::uint64_t{eighth.needed_blocks} * 16);
    CHECK_EQUAL(slots.external, std::uint64_t{87 * 16});
    CHECK_EQUAL(slots.free, std::uint64_t{0});
    CHECK_EQUAL(scene.cache.most_slots(100, 2048), std::uint64_t{2048});
}

struct ReservationsAreAsLongAsTheirRuleSaysCase {
    int reserve, maxModelLength, output, requested;
};
Cases<ReservationsAreAsLongAsTheirRuleSaysCase> reservationsAreAsLongAsTheirRuleSays_cases() {
    Cases<ReservationsAreAsLongAsTheirRuleSaysCase> cases;
    // A prompt of 10 tokens, of which the first step computes 6.
    cases.add("max", {int(Reserve::max), 300, 25, 300});
    cases.add("pow2: 25 as 32", {int(Reserve::pow2), 0, 25, 42});
    cases.add("pow2: 32 stays", {int(Reserve::pow2), 0, 32, 42});
    cases.add("pow2: 33 as 64", {int(Reserve::pow2), 0, 33, 74});
    cases.add("pow2: 1 stays", {int(Reserve::pow2), 0, 1, 11});
    cases.add("pow2: not beyond the context", {int(Reserve::pow2), 60, 33, 60});
    cases.add("oracle", {int(Reserve::oracle), 0, 25, 34});
    cases.add("grow", {int(Reserve::grow), 0, 25, 6});
    return cases;
}
void reservationsAreAsLongAsTheirRuleSays(Check& check, const ReservationsAreAsLongAsTheirRuleSaysCase& row) {
    Scene scene(check, options(Reserve(row.reserve), 1025, 1, static_cast<std::uint32_t>(row.maxModelLength)));
    const Scene::Length length{10, static_cast<std::uint32_t>(row.output)};
    scene.grow(0, length, 0, 6);
    CHECK_EQUAL(scene.cache.requested_slots(scene.sequence(0, length), 6), static_cast<std::uint64_t>(row.requested));
    const SlotHolder holder{SequenceId(0), 6, length.tokens()};
    const SlotCounts slots = scene.cache.count_slots(std::span(&holder, 1), 0);
    CHECK_EQUAL(slots.token, std::uint64_t{6});
    CHECK_EQUAL(slots.token + slots.reserved + slots.internal, static_cast<std::uint64_t>(row.requested));
    CHECK_EQUAL(slots.reserved, std::min<std::uint64_t>(static_cast<std::uint64_t>(row.requested), length.tokens()) - 6);
    CHECK_EQUAL(slots.external, BuddyAllocator::chunk_blocks(static_cast<std::uint64_t>(row.requested)) - static_cast<std::uint64_t>(row.requested));
}

void holesTooShortForTheHeadOfTheQueueAreExternal(Check& check) {
    Scene scene(check, options(Reserve::oracle, 17, 4));
    for (std::uint32_t id = 0; id < 4; ++id) scene.grow(id, {13, 4}, 0, 13);  // 16 slots, 4 blocks each
    scene.release(1);
    scene.release(3);
    CHECK_EQUAL(scene.cache.free_blocks(), 8u);
    CHECK_EQUAL(scene.cache.count_slots({}, 0).free, std::uint64_t{32});
    CHECK_EQUAL(scene.cache.count_slots({}, 16).free, std::uint64_t{32});
    CHECK_EQUAL(scene.cache.count_slots({}, 17).free, std::uint64_t{0});
    CHECK_EQUAL(scene.cache.count_slots({}, 17).external, std::uint64_t{32});
    CHECK_THAT(scene.plan(5, {13, 4}, 0, 13).fits());
    CHECK_THAT(!scene.plan(5, {13, 5}, 0, 13).fits());
    CHECK_EQUAL(text(scene.cache.free_order()), "5 6 7 8 13 14 15 16");
}

void growingCopiesIntoANewRunInEveryStep(Check& check) {
    Scene scene(check, options(Reserve::grow, 17, 2));
    const Scene::Length length{3, 10};
    CHECK_EQUAL(text(scene.grow(0, length, 0, 3)), "allocate 1 0 0\nallocate 2 1 0");
    // 3 tokens and one slot more: there is room in the chunk, but concatenating takes a new run.
    CHECK_EQUAL(text(scene.grow(0, length, 3, 1)), "copy_on_write 1 3 2\ncopy_on_write 2 4 1\nfree 2 0 0\nfree 1 0 0");
    CHECK_EQUAL(text(scene.cache.table(SequenceId(0))), "3 4");
    // A fifth slot needs three blocks, a chunk of four.
    const auto events = scene.grow(0, length, 4, 1);
    CHECK_EQUAL(text(events), "copy_on_write 3 5 2\ncopy_on_write 4 6 2\nallocate 7 2 0\nallocate 8 3 0\nfree 4 0 0\nfree 3 0 0");
    for (const Event& event : events) CHECK_EQUAL(event.cause, Cause::grown_by_copy);
    // Blocks without tokens are not copied.
    CHECK_EQUAL(text(scene.grow(0, length, 5, 1)),
                "copy_on_write 5 1 2\ncopy_on_write 6 2 2\ncopy_on_write 7 3 1\nallocate 4 3 0\n"
                           "free 8 0 0\nfree 7 0 0\nfree 6 0 0\nfree 5 0 0");
    const SlotHolder holder{SequenceId(0), 6, length.tokens()};
    CHECK_EQUAL(text(scene.cache.count_slots(std::span(&holder, 1), 0)), "6 0 0 0 2 24");
    CHECK_EQUAL(text(scene.release(0)), "free 4 0 0\nfree 3 0 0\nfree 2 0 0\nfree 1 0 0");
    CHECK_EQUAL(scene.cache.used_blocks(), 0u);
}

struct ALoneSequenceGrowsAsFarAsMostSlotsSaysCase {
    int blocks, blockSize;
};
Cases<ALoneSequenceGrowsAsFarAsMostSlotsSaysCase> aLoneSequenceGrowsAsFarAsMostSlotsSays_cases() {
    Cases<ALoneSequenceGrowsAsFarAsMostSlotsSaysCase> cases;
    for (const int blocks : {2, 3, 4, 8, 9, 13, 25, 64, 97, 100})
        for (const int blockSize : {1, 3, 16}) cases.add(printed("%d x %d", blocks, blockSize), {blocks, blockSize});
    return cases;
}
void aLoneSequenceGrowsAsFarAsMostSlotsSays(Check& check, const ALoneSequenceGrowsAsFarAsMostSlotsSaysCase& row) {
    for (const std::uint32_t prompt : {1u, 2u, 7u, 40u, 200u})
        for (const std::uint32_t step : {3u, 8u, 64u, 2048u}) {
            Scene scene(check, options(Reserve::grow, static_cast<std::uint32_t>(row.blocks), static_cast<std::uint32_t>(row.blockSize)));
            std::uint32_t computed = 0;
            while (true) {
                const std::uint32_t more = computed < prompt ? std::min(step, prompt - computed) : 1;
                scene.plan(0, {prompt, 10000}, computed, more);  // fills in the request
                scene.request.whole_prompt = false;
                const CachePlan chunked = scene.cache.plan_grow(scene.request);
                if (!chunked.fits()) break;
                CHECK_THAT(scene.cache.apply(chunked));
                computed += more;
            }
            CHECK_EQUAL(scene.cache.most_slots(prompt, step), std::uint64_t{computed});
        }
}

struct TheLongestSequenceIsTheLongestThatCanBeReservedCase {
    int reserve, maxModelLength, most;
};
Cases<TheLongestSequenceIsTheLongestThatCanBeReservedCase> theLongestSequenceIsTheLongestThatCanBeReserved_cases() {
    Cases<TheLongestSequenceIsTheLongestThatCanBeReservedCase> cases;
    // 24 blocks of 4 slots: the longest run has 64. A prompt of 10.
    cases.add("max fits", {int(Reserve::max), 60, 60});
    cases.add("max never fits", {int(Reserve::max), 65, 0});
    cases.add("oracle", {int(Reserve::oracle), 0, 64});
    cases.add("pow2: 10 + 32 reserved for 32 new tokens", {int(Reserve::pow2), 0, 41});
    cases.add("pow2 within a context that fits", {int(Reserve::pow2), 60, 60});
    return cases;
}
void theLongestSequenceIsTheLongestThatCanBeReserved(Check& check, const TheLongestSequenceIsTheLongestThatCanBeReservedCase& row) {
    Scene scene(check, options(Reserve(row.reserve), 25, 4, static_cast<std::uint32_t>(row.maxModelLength)));
    CHECK_EQUAL(scene.cache.most_slots(10, 2048), static_cast<std::uint64_t>(row.most));
    for (std::uint32_t output = 1; output <= 80; ++output) {
        const Scene::Length length{10, output};
        if (row.maxModelLength > 0 && length.tokens() > static_cast<std::uint32_t>(row.maxModelLength)) break;
        CHECK_EQUAL(scene.plan(0, length, 0, 10).fits(), length.tokens() <= static_cast<std::uint32_t>(row.most));
    }
}

void aRefusalTouchesNothing(Check& check) {
    Scene scene(check, options(Reserve::oracle, 9, 4));
    scene.grow(0, {16, 1}, 0, 16);  // 4 of 8 blocks
    const CachePlan plan = scene.plan(1, {17, 1}, 0, 17);
    CHECK_EQUAL(plan.refused_because, Cause::pool_too_full);
    CHECK_THAT(!scene.cache.apply(plan));
    scene.verify();
    const CachePlan stale = scene.plan(1, {4, 1}, 0, 4);
    scene.release(0);
    CHECK_THAT(!scene.cache.apply(stale));
}

void aGrowingPromptWaitsForRoomForAllOfIt(Check& check) {
    Scene scene(check, options(Reserve::grow, 9, 4));
    scene.grow(0, {16, 1}, 0, 16);
    const CachePlan whole = scene.plan(1, {20, 1}, 0, 4);
    CHECK_EQUAL(whole.refused_because, Cause::prompt_too_long_now);
    CHECK_EQUAL(whole.needed_blocks, 8u);
    scene.request.whole_prompt = false;
    CHECK_THAT(scene.cache.plan_grow(scene.request).fits());
}

void whatNeedsAPagedCacheIsRefused(Check& check) {
    Scene scene(check, options(Reserve::oracle, 9, 4));
    const CacheSequence sequence = scene.sequence(0, {8, 1});
    scene.grow(0, {8, 1}, 0, 8);
    CHECK_THAT(!scene.cache.plan_fork(scene.sequence(1, {8, 1}), SequenceId(0), 8));
    CHECK_THAT(!scene.cache.plan_evict(BlockId(1)));
    CHECK_THAT(!scene.cache.plan_reset());
    CHECK_THAT(!scene.cache.plan_swap_out(sequence, 8).fits());
    CHECK_THAT(!scene.cache.plan_swap_in(sequence).fits());
    CHECK_EQUAL(scene.cache.match(sequence).tokens, 0u);
    scene.verify();
    scene.release(0);
    const auto reset = scene.cache.plan_reset();
    CHECK_THAT(reset);
    CHECK_EQUAL(scene.apply(*reset).size(), std::size_t{1});
}

Cases<std::string> contradictoryOptionsAreNamed_cases() {
    Cases<std::string> cases;
    for (const char* key : {"prefix_caching", "window", "swap_blocks", "max_model_len"}) cases.add(key, std::string(key));
    return cases;
}
void contradictoryOptionsAreNamed(Check& check, const std::string& key) {
    CacheManagerOptions given = options(Reserve::max, 9, 4, 32);
    CHECK_THAT(CacheManager::create(given));
    if (key == "prefix_caching") given.prefix_caching = true;
    if (key == "window") given.groups[0].span.window = 8;
    if (key == "swap_blocks") given.host_blocks = 1;
    if (key == "max_model_len") given.max_model_len = 0;
    const auto made = CacheManager::create(given);
    CHECK_THAT(!made);
    CHECK_OR_SAY(contains(made.error().message(), key), made.error().message());
}

Cases<int> aRandomWalkKeepsTablesAndSlots_cases() {
    Cases<int> cases;
    cases.add("max", int(Reserve::max));
    cases.add("pow2", int(Reserve::pow2));
    cases.add("oracle", int(Reserve::oracle));
    cases.add("grow", int(Reserve::grow));
    return cases;
}
void aRandomWalkKeepsTablesAndSlots(Check& check, int reserve) {
    Scene scene(check, options(Reserve(reserve), 200, 3, 90));
    struct Running {
        Scene::Length length;
        std::uint32_t computed = 0;
    };
    std::vector<std::optional<Running>> running(20);
    std::mt19937 random(4711);
    int refused = 0, grown = 0;
    for (int step = 0; step < 4000 && !!check.good(); ++step) {
        const auto id = static_cast<std::uint32_t>(random() % running.size());
        auto& slot = running[id];
        if (!slot) slot = Running{{1 + static_cast<std::uint32_t>(random() % 40), 1 + static_cast<std::uint32_t>(random() % 50)}, 0};
        const std::uint32_t more =
            slot->computed < slot->length.prompt ? 1 + random() % (slot->length.prompt - slot->computed) : 1;
        if (slot->computed + more > slot->length.tokens() || random() % 40 == 0) {
            scene.release(id);
            slot.reset();
        } else if (const CachePlan plan = scene.plan(id, slot->length, slot->computed, more); plan.fits()) {
            scene.apply(plan);
            slot->computed += more;
            ++grown;
        } else {
            ++refused;
            if (random() % 2) {
                scene.release(id);
                slot.reset();
            }
        }
        std::vector<SlotHolder> holders;
        std::uint64_t written = 0;
        for (std::uint32_t index = 0; index < running.size(); ++index)
            if (running[index] && running[index]->computed > 0) {
                holders.push_back({SequenceId(index), running[index]->computed, running[index]->length.tokens()});
                written += running[index]->computed;
            }
        const SlotCounts slots = scene.cache.count_slots(holders, random() % 100);
        CHECK_EQUAL(slots.token, written);
        CHECK_EQUAL(slots.token + slots.reserved + slots.internal + slots.external + slots.free, std::uint64_t{199 * 3});
        if (Reserve(reserve) == Reserve::oracle) CHECK_EQUAL(slots.internal, std::uint64_t{0});
        if (Reserve(reserve) == Reserve::grow) CHECK_EQUAL(slots.internal + slots.reserved, std::uint64_t{0});
    }
    CHECK_THAT(refused > 50 && grown > 1000);  // both happened
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(figure3), figure3_cases());
    claims.add(CLAIM(figure13_thePoolOf15728SlotsHolds7ReservationsOf2048));
    claims.add(CLAIM(reservationsAreAsLongAsTheirRuleSays), reservationsAreAsLongAsTheirRuleSays_cases());
    claims.add(CLAIM(holesTooShortForTheHeadOfTheQueueAreExternal));
    claims.add(CLAIM(growingCopiesIntoANewRunInEveryStep));
    claims.add(CLAIM(aLoneSequenceGrowsAsFarAsMostSlotsSays), aLoneSequenceGrowsAsFarAsMostSlotsSays_cases());
    claims.add(CLAIM(theLongestSequenceIsTheLongestThatCanBeReserved), theLongestSequenceIsTheLongestThatCanBeReserved_cases());
    claims.add(CLAIM(aRefusalTouchesNothing));
    claims.add(CLAIM(aGrowingPromptWaitsForRoomForAllOfIt));
    claims.add(CLAIM(whatNeedsAPagedCacheIsRefused));
    claims.add(CLAIM(contradictoryOptionsAreNamed), contradictoryOptionsAreNamed_cases());
    claims.add(CLAIM(aRandomWalkKeepsTablesAndSlots), aRandomWalkKeepsTablesAndSlots_cases());
    return claims.rows();
}
