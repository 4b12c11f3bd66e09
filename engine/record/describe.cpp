// SPDX-License-Identifier: GPL-3.0-or-later
//
// Sentences have two halves: what happened (by the event's kind) and why (by its cause); every kind reads with every
// cause, so a combination nobody foresaw is still a sentence.
#include "engine/record/describe.h"

namespace kvloupe {

namespace {

using Text = std::string;

bool known(std::uint32_t value) { return value != Event{}.other; }

Text number(std::uint64_t value) {
    Text digits = std::to_string(value);
    for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
    return digits;
}

Text counted(std::uint64_t count, const char* one) { return number(count) + " " + one + (count == 1 ? "" : "s"); }

Text positions(std::uint64_t first, std::uint64_t count) {
    if (count <= 1) return "position " + number(first);
    return "positions " + number(first) + "–" + number(first + count - 1);
}

Text block_name(BlockId block) { return block.valid() ? "block " + std::to_string(block.value) : Text("a block"); }

struct Sentence {
    const Recording& recording;
    const LaneRecord& lane;
    const Event& event;

    Text who() const { return event.sequence.valid() ? name(event.sequence) : Text("the cache"); }
    Text name(SequenceId id) const { return sequence_name(recording, lane, id); }
    Text what() const;
    Text why() const;
    Text after() const;
    Text needs() const { return "it needs " + counted(event.tokens, "block") + " and only "; }
    static Text are(std::uint64_t count) { return number(count) + (count == 1 ? " is" : " are"); }
};

Text Sentence::what() const {
    const std::uint64_t block_size = lane.info().block_size;
    const bool pushed = event.cause == Cause::no_kv_cache || !lane.info().kv_cache;
    switch (event.kind) {
    case EventKind::arrive: return who() + " arrived with a prompt of " + counted(event.tokens, "token");
    case EventKind::admit: return who() + " was admitted with a prompt of " + counted(event.tokens, "token");
    case EventKind::refuse: return who() + " waits";
    case EventKind::reject: return who() + " was rejected";
    case EventKind::prefix_hit:
        return who() + " found " + counted(event.tokens, "token") + " of its prefix in " + block_name(event.block);
    case EventKind::allocate: return who() + " opened " + block_name(event.block);
    case EventKind::fork: {
        const Text parent = known(event.other) ? name(SequenceId(event.other)) : Text("its parent");
        Text text = who() + " forked from " + parent + " at position " + number(event.tokens);
        if (block_size > 0)
            text += ": " + counted((event.tokens + block_size - 1) / block_size, "block") + " shared, nothing copied";
        return text;
    }
    case EventKind::copy_on_write: {
        const Text to = known(event.other) ? block_name(BlockId(event.other)) : Text("a block of its own");
        return who() + " copied " + counted(event.tokens, "slot") + " of " + block_name(event.block) + " to " + to;
    }
    case EventKind::evict: return block_name(event.block) + " lost its hash";
    case EventKind::free:
        return who() + (known(event.other) && event.other > 0 ? " left " : " gave back ") + block_name(event.block);
    case EventKind::preempt: return who() + " was preempted and gave up " + counted(event.tokens, "computed token");
    case EventKind::swap_out: return who() + " moved " + block_name(event.block) + " out to host memory";
    case EventKind::swap_in: return who() + " moved " + block_name(event.block) + " back from host memory";
    case EventKind::resume: return who() + " runs again";
    case EventKind::null_block: {
        Text text = who() + " points ";
        text += known(event.other) ? "logical block " + number(event.other) : Text("a logical block");
        text += " at the null block";
        if (event.block.valid() && event.block != null_block_id) text += " in place of " + block_name(event.block);
        return text;
    }
    case EventKind::store: return block_name(event.block) + " was registered under its hash";
    case EventKind::reset: return "the prefix cache was cleared";
    case EventKind::prefill: {
        const Text where = known(event.other) ? positions(event.other, event.tokens) : Text("its next positions");
        const char* verb = event.cause == Cause::no_kv_cache ? " recomputed at " : pushed ? " computed at " : " written to ";
        return counted(event.tokens, "token") + " of " + who() + verb + where;
    }
    case EventKind::decode: {
        const Text where = known(event.other) ? "position " + number(event.other) : Text("its next position");
        return who() + (pushed ? " computed " : " computed and wrote ") + where;
    }
    case EventKind::finish: return who() + " ended after " + counted(event.tokens, "output token");
    }
    return who() + " changed";
}

Text Sentence::why() const {
    const std::uint64_t block_size = lane.info().block_size;
    switch (event.cause) {
    case Cause::none: return "";
    case Cause::arrival_step_reached: {
        if (event.sequence.valid() && event.sequence.value < lane.sequences().size()) {
            const RequestId request = lane.sequences()[event.sequence.value].request;
            if (request.valid() && request.value < recording.requests().size())
                return "step " + number(recording.requests()[request.value].arrival_step) +
                       ", its arrival step, was reached";
        }
        return "its arrival step was reached";
    }
    case Cause::submitted: return "it was submitted while the session ran";
    case Cause::fits_beside_running: return "the pool has room for it beside the requests that run";
    case Cause::pool_too_full:
        if (event.kind == EventKind::refuse && known(event.other)) return needs() + are(event.other) + " free";
        return "the pool is too full for it";
    case Cause::prompt_too_long_now:
        if (known(event.other)) return "its whole prompt " + needs().substr(3) + are(event.other) + " free";
        return "its whole prompt does not fit";
    case Cause::below_watermark:
        if (known(event.other)) return needs() + are(event.other) + " free above the watermark";
        return "admission would go below the watermark";
    case Cause::batch_running: return "static batching admits nobody until the batch has ended";
    case Cause::budget_used: return "chunked prefill is off and its prompt exceeds what is left of the step's token budget";
    case Cause::preempted_this_step: return "a step that preempts admits nobody";
    case Cause::action_refused: return "";
    case Cause::batch_full: return "as many requests run as the batch may hold (max_num_seqs)";
    case Cause::exceeds_pool:
        if (event.kind == EventKind::reject && known(event.other))
            return "its prompt and new tokens need " + counted(event.tokens, "slot") + " and the pool has " +
                   number(event.other);
        return "its prompt and new tokens need more slots than the pool has";
    case Cause::exceeds_context:
        if (event.kind == EventKind::reject && known(event.other))
            return "its prompt and new tokens need " + counted(event.tokens, "position") +
                   " and the model's context holds " + number(event.other);
        return "its prompt and new tokens need more positions than the model's context holds";
    case Cause::first_slot_of_block:
        if (event.kind == EventKind::allocate && known(event.other))
            return "position " + number(event.other * block_size) + " begins logical block " + number(event.other);
        return "its next token begins a logical block";
    case Cause::reservation: return "a contiguous region was reserved for it when it was admitted";
    case Cause::sequence_preempted: return who() + " was preempted";
    case Cause::batch_ended: return "the whole batch has ended";
    case Cause::beam_dropped: return "better continuations took its place in the beam";
    case Cause::swapped_out: return "it gave its blocks to others and keeps its keys and values in host memory";
    case Cause::swapped_in: return "there is room for it again";
    case Cause::recomputed: return "there is room for it again; what is no longer in the cache is computed again";
    case Cause::sequence_finished: return who() + " is finished";
    case Cause::sequence_cancelled: return who() + " was cancelled";
    case Cause::sequence_failed: return who() + " failed";
    case Cause::token_budget: return "the token budget of the step allowed no more of its prompt";
    case Cause::whole_prompt: return "the step had room for the rest of its prompt";
    case Cause::next_token: return "the token sampled last is the next to compute";
    case Cause::end_of_sequence: return "it sampled an end-of-sequence token";
    case Cause::length_reached: return "it has all the new tokens it asked for (max_new_tokens)";
    case Cause::forced_tokens_used_up: return "its forced output tokens are used up";
    case Cause::no_kv_cache: return "a lane without a KV cache keeps nothing of the steps before";
    case Cause::out_of_chunk: return "its positions lie before the attention chunk";
    case Cause::shared_block_written: return "it writes its next token into a block that has another owner";
    case Cause::last_owner_writes: return who() + " writes into it and nobody else owns it";
    case Cause::grown_by_copy: return "a contiguous region grows by moving to a larger one";
    case Cause::parallel_sampling: return "its request asked for several samples of one prompt";
    case Cause::beam_search: return "the beam continues it in more than one way";
    case Cause::block_full: return "all its slots have a token";
    case Cause::last_running:
    case Cause::shortest_output:
    case Cause::priority: {
        const Text needed = event.kind == EventKind::preempt && known(event.other)
                                ? name(SequenceId(event.other)) + " needed a block and "
                                : Text("a block was needed and ");
        if (event.cause == Cause::last_running) return needed + "it was admitted last";
        return needed + (event.cause == Cause::priority ? "it is the least important of those that run"
                                                        : "it has the fewest output tokens of those that run");
    }
    case Cause::leaf_evicted: return "a block was needed and it was the next leaf of the radix tree to go";
    case Cause::out_of_window: return "its positions lie before the attention window";
    case Cause::block_needed: return "a block was needed and it was first in the free queue";
    case Cause::duplicate_owner: return "the radix tree holds a block with the same tokens";
    case Cause::prefix_shared: return "an earlier sequence computed the same prefix";
    case Cause::requested: return "it was asked for";
    case Cause::capacity: return "the capacity is used up";
    }
    return "";
}

// What followed from it.
Text Sentence::after() const {
    if (event.kind != EventKind::free) return "";
    if (event.flags & Event::flag_held) return "; the radix tree keeps it";
    if (known(event.other) && event.other > 0)
        return "; " + counted(event.other, "other sequence") + (event.other == 1 ? " still owns it" : " still own it");
    return event.flags & Event::flag_front ? "; it went to the head of the free queue"
                                           : "; it went to the tail of the free queue";
}

std::string detail_of(const LaneRecord& lane, const Event& event) {
    const bool has = event.detail.valid() && event.detail.value < lane.strings().size();
    return has ? lane.strings()[event.detail.value] : std::string();
}

}  // namespace

std::string sequence_name(const Recording& recording, const LaneRecord& lane, SequenceId sequence) {
    if (!sequence.valid()) return "no sequence";
    const auto& sequences = lane.sequences();
    if (sequence.value >= sequences.size()) return "sequence " + std::to_string(sequence.value);
    const SequenceInfo& info = sequences[sequence.value];
    if (!info.request.valid() || info.request.value >= recording.requests().size())
        return "sequence " + std::to_string(sequence.value);
    const std::string& id = recording.requests()[info.request.value].id;
    if (!info.name.empty()) return info.name;
    if (!info.parent.valid()) return id;
    // A child of the same request: its number among the request's sequences. A fork with a request of its own is that.
    std::size_t earlier = 0;
    for (std::uint32_t i = 0; i < sequence.value; ++i) earlier += sequences[i].request == info.request;
    return earlier == 0 ? id : id + "." + std::to_string(earlier);
}

std::string describe_cause(const Recording& recording, const LaneRecord& lane, const Event& event) {
    const Sentence sentence{recording, lane, event};
    const std::string detail = detail_of(lane, event);
    std::string text = sentence.what();
    // The detail of a rejection gives the same reason with all its numbers.
    const bool told = event.kind == EventKind::reject && !detail.empty();
    if (const std::string why = sentence.why(); !why.empty() && !told) text += " because " + why;
    text += sentence.after();
    return detail.empty() ? text : text + ": " + detail;
}

std::string event_reason(const Recording& recording, const LaneRecord& lane, const Event& event) {
    const std::string detail = detail_of(lane, event);
    return detail.empty() ? describe_cause(recording, lane, event) : detail;
}

std::uint64_t event_bytes(const LaneRecord& lane, const Event& event) {
    switch (event.kind) {
    case EventKind::allocate: return lane.info().block_bytes;
    case EventKind::copy_on_write: return event.tokens * lane.info().bytes_per_token;
    case EventKind::prefill:
    case EventKind::decode: return lane.info().kv_cache ? event.tokens * lane.info().bytes_per_token : 0;
    default: return 0;
    }
}

}  // namespace kvloupe
