// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/describe.h"
#include "engine/record/writer.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <set>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// Requests a (7 prompt tokens, arrival step 2) and b, a fork c of a with a request of its own, and a child of a.
struct Fixture {
    RecordingWriter writer{"describe", 0};
    LaneWriter* lane = nullptr;

    explicit Fixture(bool kv_cache = true, const char* kind = "paged") {
        LaneInfo info;
        info.policy.kind = kind;
        info.kv_cache = kv_cache;
        info.block_size = kv_cache ? 16 : 0;
        info.blocks = kv_cache ? 64 : 0;
        info.bytes_per_token = 2048;
        info.block_bytes = 32768;
        lane = &writer.add_lane(info, nullptr);
        writer.lanes_complete();
        for (const char* id : {"a", "b", "c"}) {
            RequestInfo request;
            request.id = id;
            request.arrival_step = 2;
            writer.add_request(request);
        }
        lane->add_sequence({RequestId(0), SequenceId::none(), 0});
        lane->add_sequence({RequestId(1), SequenceId::none(), 0});
        lane->add_sequence({RequestId(2), SequenceId(0), 37});
        lane->add_sequence({RequestId(0), SequenceId(0), 12});
    }

    std::string sentence(const Event& event) const {
        return describe_cause(*writer.recording(), lane->record(), event);
    }
};

Event make(EventKind kind, Cause cause, std::uint32_t block, std::uint32_t other, std::uint32_t tokens) {
    Event event;
    event.kind = kind;
    event.cause = cause;
    event.sequence = SequenceId(0);
    if (block != Event{}.other) event.block = BlockId(block);
    event.other = other;
    event.tokens = tokens;
    return event;
}

constexpr std::uint32_t none = 0xFFFFFFFFu;

void everyKindWithEveryCauseIsASentence(Check& check) {
    for (const bool cached : {true, false}) {
        const Fixture fixture(cached);
        for (int kind = 0; kind < event_kind_count; ++kind) {
            std::set<std::string> sentences;
            for (int cause = 0; cause < cause_count; ++cause) {
                for (const bool bare : {false, true}) {
                    Event event = make(static_cast<EventKind>(kind), static_cast<Cause>(cause), bare ? none : 7,
                                       bare ? none : 2, 3);
                    if (bare) event.sequence = SequenceId::none();
                    const std::string text = fixture.sentence(event);
                    const std::string row = std::string(name_of(event.kind).data()) + " cause " + std::to_string(cause);
                    CHECK_OR_SAY(text.size() > 6 && contains(text, ' '), row);
                    // No missing number shows as all ones.
                    CHECK_OR_SAY(!contains(text, "4,294,967,295") && !contains(text, "4294967295"), row);
                    CHECK_OR_SAY(!contains(text, "  ") && !text.ends_with(' '), row);
                    if (!bare) sentences.insert(text);
                }
            }
            // Each cause gives words of its own.
            CHECK_OR_SAY(sentences.size() >= cause_count - 1, name_of(static_cast<EventKind>(kind)));
        }
    }
}

struct SentencesNameWhoWhereAndWhyCase {
    int kind, cause;
    unsigned block, other, tokens;
    std::string sentence;
};
Cases<SentencesNameWhoWhereAndWhyCase> sentencesNameWhoWhereAndWhy_cases() {
    Cases<SentencesNameWhoWhereAndWhyCase> cases;
    const auto row = [&](EventKind kind, Cause cause, unsigned block, unsigned other, unsigned tokens,
                        const char* sentence) {
        cases.add(printed("%s %d", name_of(kind).data(), static_cast<int>(cause)), {static_cast<int>(kind), static_cast<int>(cause), block, other, tokens, sentence});
    };
    row(EventKind::arrive, Cause::arrival_step_reached, none, none, 37,
        "a arrived with a prompt of 37 tokens because step 2, its arrival step, was reached");
    row(EventKind::admit, Cause::fits_beside_running, none, none, 1,
        "a was admitted with a prompt of 1 token because the pool has room for it beside the requests that run");
    row(EventKind::refuse, Cause::pool_too_full, none, 1, 6,
        "a waits because it needs 6 blocks and only 1 is free");
    row(EventKind::refuse, Cause::batch_full, none, none, 0,
        "a waits because as many requests run as the batch may hold (max_num_seqs)");
    row(EventKind::reject, Cause::exceeds_pool, none, 544, 1399,
        "a was rejected because its prompt and new tokens need 1,399 slots and the pool has 544");
    row(EventKind::reject, Cause::exceeds_context, none, 512, 600,
        "a was rejected because its prompt and new tokens need 600 positions and the model's context holds 512");
    row(EventKind::allocate, Cause::first_slot_of_block, 7, 1, 0,
        "a opened block 7 because position 16 begins logical block 1");
    row(EventKind::fork, Cause::requested, none, 1, 37,
        "a forked from b at position 37 because it was asked for: 3 blocks shared, nothing copied");
    row(EventKind::copy_on_write, Cause::shared_block_written, 16, 53, 5,
        "a copied 5 slots of block 16 to block 53 because it writes its next token into a block that has another owner");
    row(EventKind::copy_on_write, Cause::grown_by_copy, 4, 40, 16,
        "a copied 16 slots of block 4 to block 40 because its region was full and grew by moving to a larger one");
    row(EventKind::fork, Cause::parallel_sampling, none, 1, 32,
        "a forked from b at position 32 because its request asked for several samples of one prompt: 2 blocks shared, "
        "nothing copied");
    row(EventKind::fork, Cause::beam_search, none, 1, 1,
        "a forked from b at position 1 because the beam continues it in more than one way: 1 block shared, nothing copied");
    row(EventKind::preempt, Cause::last_running, none, 1, 37,
        "a was preempted and gave up 37 computed tokens because b needed a block and a was admitted last");
    row(EventKind::preempt, Cause::last_running, none, 0, 1,
        "a was preempted and gave up 1 computed token because no block was free for its next token and it was admitted last");
    row(EventKind::preempt, Cause::priority, none, 1, 0,
        "a was preempted because b needed a block and a is the least important of those that run");
    row(EventKind::preempt, Cause::shortest_output, none, 1, 9,
        "a was preempted and gave up 9 computed tokens because b needed a block and a has the fewest output tokens of "
        "those that run");
    row(EventKind::preempt, Cause::requested, none, none, 9,
        "a was preempted and gave up 9 computed tokens because it was asked for");
    row(EventKind::swap_out, Cause::swapped_out, 12, 3, 16,
        "a moved 16 slots of block 12 to block 3 of host memory because it was preempted and keeps its keys and values");
    row(EventKind::free, Cause::swapped_out, 12, 0, 0,
        "a gave back block 12 because its keys and values lie in host memory now; it went to the tail of the free queue");
    row(EventKind::swap_in, Cause::swapped_in, 20, 3, 5,
        "a moved 5 slots from block 3 of host memory to block 20 because there is room for it again");
    row(EventKind::resume, Cause::swapped_in, none, none, 37,
        "a runs again with 37 computed tokens because there is room for it again");
    row(EventKind::resume, Cause::recomputed, none, none, 32,
        "a runs again with 32 computed tokens because there is room for it again; what is no longer in the cache is "
        "computed again");
    row(EventKind::prefix_hit, Cause::prefix_shared, 3, 0, 16,
        "a found 16 tokens of its prefix in block 3 because an earlier sequence computed the same prefix");
    row(EventKind::prefix_hit, Cause::duplicate_owner, 3, 0, 0,
        "a took block 3 for a block of its own because the radix tree holds a block with the same tokens");
    row(EventKind::free, Cause::duplicate_owner, 9, 0, 0,
        "a gave back block 9 because the radix tree holds a block with the same tokens; it went to the tail of the free "
        "queue");
    row(EventKind::store, Cause::block_full, 9, 0x4e1195df, 0x020de59e,
        "block 9 was registered under hash 4e1195df020de59e because all its slots have a token of a");
    row(EventKind::evict, Cause::last_owner_writes, 9, none, 0,
        "block 9 lost its hash because a writes into it and nobody else owns it");
    row(EventKind::evict, Cause::leaf_evicted, 9, none, 0,
        "block 9 lost its hash because a needed a block and it was the next leaf of the radix tree to go");
    row(EventKind::evict, Cause::sequence_preempted, 9, none, 0,
        "block 9 lost its hash because a was preempted before it had computed its slots");
    row(EventKind::evict, Cause::requested, 9, none, 0, "block 9 lost its hash because it was asked for");
    row(EventKind::free, Cause::sequence_preempted, 9, 1, 0,
        "a left block 9 because a was preempted; 1 other sequence still owns it");
    row(EventKind::free, Cause::batch_ended, 9, 0, 0,
        "a gave back block 9 because the whole batch has ended; it went to the tail of the free queue");
    row(EventKind::free, Cause::beam_dropped, 9, 0, 0,
        "a gave back block 9 because better continuations took its place in the beam; it went to the tail of the free queue");
    row(EventKind::finish, Cause::beam_dropped, none, none, 4,
        "a ended after 4 output tokens because better continuations took its place in the beam");
    row(EventKind::refuse, Cause::prompt_too_long_now, none, 3, 6,
        "a waits because its whole prompt needs 6 blocks and only 3 are free");
    row(EventKind::refuse, Cause::below_watermark, none, 3, 6,
        "a waits because it needs 6 blocks and only 3 are free above the watermark");
    row(EventKind::refuse, Cause::preempted_this_step, none, none, 0, "a waits because a step that preempts admits nobody");
    row(EventKind::refuse, Cause::batch_running, none, none, 0,
        "a waits because static batching admits nobody until the batch has ended");
    row(EventKind::refuse, Cause::budget_used, none, none, 0,
        "a waits because chunked prefill is off and its prompt exceeds what is left of the step's token budget");
    row(EventKind::allocate, Cause::reservation, 7, 1, 0,
        "a reserved block 7 because a contiguous region was reserved for it when it was admitted");
    row(EventKind::evict, Cause::block_needed, 53, none, 0,
        "block 53 lost its hash because a needed a block and it was first in the free queue");
    row(EventKind::free, Cause::sequence_finished, 7, 0, 0,
        "a gave back block 7 because a is finished; it went to the tail of the free queue");
    row(EventKind::free, Cause::sequence_cancelled, 7, 2, 0,
        "a left block 7 because a was cancelled; 2 other sequences still own it");
    row(EventKind::prefill, Cause::token_budget, none, 32, 18,
        "18 tokens of a written to positions 32–49 because the token budget of the step allowed no more of its prompt");
    row(EventKind::decode, Cause::next_token, none, 37, 1,
        "a computed and wrote position 37 because the token sampled last is the next to compute");
    row(EventKind::finish, Cause::end_of_sequence, none, none, 12,
        "a ended after 12 output tokens because it sampled an end-of-sequence token");
    row(EventKind::null_block, Cause::out_of_window, 9, 3, 0,
        "a points logical block 3 at the null block in place of block 9 because its positions lie before the attention "
        "window");
    return cases;
}
void sentencesNameWhoWhereAndWhy(Check& check, const SentencesNameWhoWhereAndWhyCase& row) {
    CHECK_EQUAL(Fixture().sentence(make(static_cast<EventKind>(row.kind), static_cast<Cause>(row.cause), row.block, row.other, row.tokens)),
                row.sentence);
}

void lanesWithoutACacheComputeAndDoNotWrite(Check& check) {
    const Event event = make(EventKind::prefill, Cause::no_kv_cache, none, 0, 9);
    CHECK_EQUAL(Fixture(false).sentence(event),
                "9 tokens of a recomputed at positions 0–8 because a lane without a KV cache keeps "
                                  "nothing of the steps before");
    CHECK_EQUAL(Fixture(false).sentence(make(EventKind::admit, Cause::fits_beside_running, none, none, 9)),
                "a was admitted with a prompt of 9 tokens because the batch has room for it");
}

void flagsSayWhereABlockWent(Check& check) {
    Event event = make(EventKind::free, Cause::sequence_finished, 7, 0, 0);
    event.flags = Event::flag_held;
    CHECK_EQUAL(Fixture().sentence(event), "a gave back block 7 because a is finished; the radix tree keeps it");
    event.flags = Event::flag_front;
    CHECK_THAT(Fixture().sentence(event).ends_with("; it went to the head of the free queue"));
    event = make(EventKind::evict, Cause::leaf_evicted, 7, none, 0);
    event.sequence = SequenceId::none();
    event.flags = Event::flag_released | Event::flag_front;
    CHECK_EQUAL(Fixture().sentence(event),
                "block 7 lost its hash because a block was needed and it was the next leaf of the radix tree to go; the "
                        "radix tree let it go to the head of the free queue");
}

void contiguousLanesSpeakOfRegions(Check& check) {
    Fixture fixture(true, "contiguous");
    CHECK_EQUAL(fixture.sentence(make(EventKind::refuse, Cause::pool_too_full, none, 15, 32)),
                "a waits because it needs 32 blocks in a row and only 15 are free");
    CHECK_EQUAL(fixture.sentence(make(EventKind::refuse, Cause::pool_too_full, none, 40, 32)),
                "a waits because it needs 32 blocks in a row and of the 40 free ones not as many are");
    CHECK_EQUAL(fixture.sentence(make(EventKind::free, Cause::grown_by_copy, 7, 0, 0)),
                "a gave back block 7 because its region was full and grew by moving to a larger one");
}

// c writes position 37: the copy and the write come in one step.
void writesNameTheirPosition(Check& check) {
    Fixture fixture;
    const auto event = [&](EventKind kind, Cause cause, std::uint32_t sequence, std::uint32_t block, std::uint32_t other,
                           std::uint32_t tokens) {
        Event one = make(kind, cause, block, other, tokens);
        one.sequence = SequenceId(sequence);
        fixture.lane->event(one);
    };
    fixture.lane->begin_step();
    event(EventKind::copy_on_write, Cause::shared_block_written, 2, 16, 53, 5);
    event(EventKind::evict, Cause::last_owner_writes, 1, 20, none, 0);
    event(EventKind::decode, Cause::next_token, 1, none, 21, 1);
    event(EventKind::decode, Cause::next_token, 2, none, 37, 1);
    fixture.lane->end_step({});
    fixture.lane->begin_step();
    event(EventKind::copy_on_write, Cause::shared_block_written, 0, 3, 4, 2);
    event(EventKind::preempt, Cause::last_running, 0, none, 1, 37);
    event(EventKind::prefill, Cause::whole_prompt, 0, none, 0, 37);
    fixture.lane->end_step({});
    const auto text = [&](std::uint64_t index) {
        return describe_event(*fixture.writer.recording(), fixture.lane->record(), index);
    };
    CHECK_EQUAL(text(0), "c copied 5 slots of block 16 to block 53 because it writes position 37 into a block that has "
                                  "another owner");
    CHECK_EQUAL(text(1), "block 20 lost its hash because b writes position 21 into it and nobody else owns it");
    CHECK_EQUAL(text(3), "c computed and wrote position 37 because the token sampled last is the next to compute");
    CHECK_EQUAL(text(4), "a copied 2 slots of block 3 to block 4 because it writes its next token into a block that "
                                  "has another owner");
}

void refusedActionsSayWhy(Check& check) {
    Fixture fixture;
    Event event = make(EventKind::refuse, Cause::action_refused, none, none, 0);
    CHECK_EQUAL(fixture.sentence(event), "an action was refused");
    event.detail = fixture.lane->intern("The action fork cannot be done: request: 'a' does not run");
    event.sequence = SequenceId::none();
    CHECK_EQUAL(fixture.sentence(event), "The action fork cannot be done: request: 'a' does not run");
}

void detailIsAppended(Check& check) {
    Fixture fixture;
    Event event = make(EventKind::finish, Cause::sequence_failed, none, none, 2);
    event.detail = fixture.lane->intern("layer 1 gave logits that are not finite");
    CHECK_EQUAL(fixture.sentence(event),
                "a ended after 2 output tokens because a failed: layer 1 gave logits that are not finite");
    Event reject = make(EventKind::reject, Cause::exceeds_pool, none, 12, 43);
    reject.detail = fixture.lane->intern("request 'a' needs 43 slots (40 prompt + 4 new tokens - 1)");
    CHECK_EQUAL(fixture.sentence(reject), "a was rejected: request 'a' needs 43 slots (40 prompt + 4 new tokens - 1)");
    CHECK_EQUAL(event_reason(*fixture.writer.recording(), fixture.lane->record(), event),
                "layer 1 gave logits that are not finite");
}

void childrenAreNumberedAndForksKeepTheirRequest(Check& check) {
    const Fixture fixture;
    const Recording& recording = *fixture.writer.recording();
    const LaneRecord& lane = fixture.lane->record();
    CHECK_EQUAL(sequence_name(recording, lane, SequenceId(0)), "a");
    CHECK_EQUAL(sequence_name(recording, lane, SequenceId(1)), "b");
    CHECK_EQUAL(sequence_name(recording, lane, SequenceId(2)), "c");
    CHECK_EQUAL(sequence_name(recording, lane, SequenceId(3)), "a.1");
    CHECK_EQUAL(sequence_name(recording, lane, SequenceId(9)), "sequence 9");
    CHECK_EQUAL(sequence_name(recording, lane, SequenceId::none()), "no sequence");
}

void bytesAreWhatWasMovedOrTaken(Check& check) {
    const Fixture fixture;
    const LaneRecord& lane = fixture.lane->record();
    const auto bytes = [&](EventKind kind) { return event_bytes(lane, make(kind, Cause::none, 1, 2, 5)); };
    CHECK_EQUAL(bytes(EventKind::allocate), std::uint64_t{32768});
    CHECK_EQUAL(bytes(EventKind::copy_on_write), std::uint64_t{10240});
    CHECK_EQUAL(bytes(EventKind::swap_out), std::uint64_t{10240});
    CHECK_EQUAL(bytes(EventKind::swap_in), std::uint64_t{10240});
    CHECK_EQUAL(bytes(EventKind::prefill), std::uint64_t{10240});
    CHECK_EQUAL(bytes(EventKind::fork), std::uint64_t{0});
    CHECK_EQUAL(bytes(EventKind::evict), std::uint64_t{0});
    const Fixture uncached(false);
    CHECK_EQUAL(event_bytes(uncached.lane->record(), make(EventKind::prefill, Cause::no_kv_cache, none, 0, 5)),
                std::uint64_t{0});
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(everyKindWithEveryCauseIsASentence));
    claims.add(CLAIM(sentencesNameWhoWhereAndWhy), sentencesNameWhoWhereAndWhy_cases());
    claims.add(CLAIM(lanesWithoutACacheComputeAndDoNotWrite));
    claims.add(CLAIM(flagsSayWhereABlockWent));
    claims.add(CLAIM(contiguousLanesSpeakOfRegions));
    claims.add(CLAIM(writesNameTheirPosition));
    claims.add(CLAIM(refusedActionsSayWhy));
    claims.add(CLAIM(detailIsAppended));
    claims.add(CLAIM(childrenAreNumberedAndForksKeepTheirRequest));
    claims.add(CLAIM(bytesAreWhatWasMovedOrTaken));
    return claims.rows();
}
