// SPDX-License-Identifier: GPL-3.0-or-later
//
// Sentences have two halves: what happened (by the event's kind) and why (by its cause); every kind reads with every
// cause, so a combination nobody foresaw is still a sentence.
#include "engine/record/describe.h"

#include <algorithm>
#include <cstdio>

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

Text hexadecimal(std::uint64_t value) {
    char text[20];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
    return text;
}

struct Sentence {
    const Recording& recording;
    const LaneRecord& lane;
    const Event& event;
    std::optional<std::uint32_t> position;  // that the sequence computes next, where it is known

    Text who() const { return event.sequence.valid() ? name(event.sequence) : Text("the cache"); }
    Text name(SequenceId id) const { return sequence_name(recording, lane, id); }
    Text what() const;
    Text why() const;
    Text after() const;
    Text needs() const { return "it needs " + counted(event.tokens, "block") + " and only "; }
    Text next() const { return position ? "position " + number(*position) : Text("its next token"); }
    Text whoever_needs() const { return event.sequence.valid() ? who() + " needed a block" : Text("a block was needed"); }
    Text victim(const char* reason) const;
    Text too_few_blocks() const;
    bool contiguous() const { return lane.info().policy.kind == "contiguous"; }
    static Text are(std::uint64_t count) { return number(count) + (count == 1 ? " is" : " are"); }
};

Text Sentence::what() const {
    const bool pushed = event.cause == Cause::no_kv_cache || !lane.info().kv_cache;
    switch (event.kind) {
    case EventKind::arrive: return who() + " arrived with a prompt of " + counted(event.tokens, "token");
    case EventKind::admit: return who() + " was admitted with a prompt of " + counted(event.tokens, "token");
    case EventKind::refuse: return event.cause == Cause::action_refused ? Text("an action was refused") : who() + " waits";
    case EventKind::reject: return who() + " was rejected";
    case EventKind::prefix_hit:
        if (event.cause == Cause::duplicate_owner) return who() + " took " + block_name(event.block) + " for a block of its own";
        if (event.cause == Cause::hash_collision || event.cause == Cause::keys_confused)
            return who() + " took " + block_name(event.block) + " for " + counted(event.tokens, "token") + " of its prefix";
        return who() + " found " + counted(event.tokens, "token") + " of its prefix in " + block_name(event.block);
    case EventKind::allocate: return who() + (event.cause == Cause::reservation ? " reserved " : " opened ") + block_name(event.block);
    case EventKind::fork: {
        const Text parent = known(event.other) ? name(SequenceId(event.other)) : Text("its parent");
        return who() + " forked from " + parent + " at position " + number(event.tokens);
    }
    case EventKind::copy_on_write: {
        const Text to = known(event.other) ? block_name(BlockId(event.other)) : Text("a block of its own");
        return who() + " copied " + counted(event.tokens, "slot") + " of " + block_name(event.block) + " to " + to;
    }
    case EventKind::evict: return block_name(event.block) + " lost its hash";
    case EventKind::free:
        return who() + (known(event.other) && event.other > 0 ? " left " : " gave back ") + block_name(event.block);
    case EventKind::preempt:
        return who() + " was preempted" +
               (event.tokens > 0 ? " and gave up " + counted(event.tokens, "computed token") : Text());
    case EventKind::swap_out:
    case EventKind::swap_in: {
        const bool out = event.kind == EventKind::swap_out;
        const Text host = known(event.other) ? "block " + std::to_string(event.other) + " of host memory" : Text("host memory");
        return who() + " moved " + counted(event.tokens, "slot") + (out ? " of " + block_name(event.block) + " to " + host
                                                                        : " from " + host + " to " + block_name(event.block));
    }
    case EventKind::resume:
        if (event.tokens == 0) return who() + " runs again";
        return who() + " runs again with " + counted(event.tokens, "computed token");
    case EventKind::null_block: {
        Text text = who() + " points ";
        text += known(event.other) ? "logical block " + number(event.other) : Text("a logical block");
        text += " at the null block";
        if (event.block.valid() && event.block != null_block_id) text += " in place of " + block_name(event.block);
        return text;
    }
    case EventKind::store:
        if (!known(event.other)) return block_name(event.block) + " was registered under its hash";
        return block_name(event.block) + " was registered under hash " +
               hexadecimal(std::uint64_t{event.other} << 32 | event.tokens);
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

Text Sentence::victim(const char* reason) const {
    if (event.kind != EventKind::preempt || !known(event.other)) return "a block was needed and it " + Text(reason);
    if (SequenceId(event.other) == event.sequence) return "no block was free for its next token and it " + Text(reason);
    return name(SequenceId(event.other)) + " needed a block and " + who() + " " + reason;
}

Text Sentence::too_few_blocks() const {
    if (event.kind != EventKind::refuse || !known(event.other)) return "the pool is too full for it";
    if (!contiguous()) return needs() + are(event.other) + " free";
    return "it needs " + counted(event.tokens, "block") + " in a row and " +
           (event.other < event.tokens ? "only " + are(event.other) + " free"
                                       : "of the " + number(event.other) + " free ones not as many are");
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
    case Cause::fits_beside_running:
        if (!lane.info().kv_cache) return "the batch has room for it";
        return "the pool has room for it beside the requests that run";
    case Cause::pool_too_full:
        return too_few_blocks();
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
    case Cause::sequence_preempted:
        return who() + " was preempted" + (event.kind == EventKind::evict ? " before it had computed its slots" : "");
    case Cause::batch_ended: return "the whole batch has ended";
    case Cause::beam_dropped: return "better continuations took its place in the beam";
    case Cause::swapped_out:
        return event.kind == EventKind::free ? Text("its keys and values lie in host memory now")
                                             : Text("it was preempted and keeps its keys and values");
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
    case Cause::shared_block_written: return "it writes " + next() + " into a block that has another owner";
    case Cause::last_owner_writes: return who() + " writes " + (position ? next() + " " : Text()) + "into it and nobody else owns it";
    case Cause::grown_by_copy: return "its region was full and grew by moving to a larger one";
    case Cause::parallel_sampling: return "its request asked for several samples of one prompt";
    case Cause::beam_search: return "the beam continues it in more than one way";
    case Cause::block_full:
        return event.sequence.valid() ? "all its slots have a token of " + who() : Text("all its slots have a token");
    case Cause::last_running: return victim("was admitted last");
    case Cause::priority: return victim("is the least important of those that run");
    case Cause::shortest_output: return victim("has the fewest output tokens of those that run");
    case Cause::leaf_evicted: return whoever_needs() + " and it was the next leaf of the radix tree to go";
    case Cause::out_of_window: return "its positions lie before the attention window";
    case Cause::block_needed:
        if (event.kind == EventKind::preempt) return victim("only waits for the other beams of its request");
        return whoever_needs() + " and it was first in the free queue";
    case Cause::duplicate_owner: return "the radix tree holds a block with the same tokens";
    case Cause::hash_collision: return "another prefix has the same shortened hash and tokens are not compared: a wrong hit";
    case Cause::keys_confused: return "a salt and an adapter of one name have the same untagged hash: a wrong hit";
    case Cause::prefix_shared: return "an earlier sequence computed the same prefix";
    case Cause::requested: return "it was asked for";
    case Cause::capacity: return "the capacity is used up";
    }
    return "";
}

// What followed from it.
Text Sentence::after() const {
    const char* end = event.flags & Event::flag_front ? "head" : "tail";
    if (event.kind == EventKind::fork && lane.info().block_size > 0) {
        const std::uint64_t size = lane.info().block_size;
        const char* groups = lane.info().policy.groups.size() > 1 ? " of each group" : "";
        return ": " + counted((event.tokens + size - 1) / size, "block") + groups + " shared, nothing copied";
    }
    if (event.kind == EventKind::evict && (event.flags & Event::flag_released))
        return "; the radix tree let it go to the " + Text(end) + " of the free queue";
    if (event.kind != EventKind::free) return "";
    if (event.flags & Event::flag_held) return "; the radix tree keeps it";
    if (known(event.other) && event.other > 0)
        return "; " + counted(event.other, "other sequence") + (event.other == 1 ? " still owns it" : " still own it");
    return contiguous() ? Text() : "; it went to the " + Text(end) + " of the free queue";
}

// The position that the event's sequence computes next, from the rest of the event's step.
std::optional<std::uint32_t> next_position(const LaneRecord& lane, std::uint64_t index) {
    constexpr std::uint64_t furthest = 4096;  // events; a step with more is described without
    const Event& event = lane.events()[index];
    const std::uint64_t end = std::min<std::uint64_t>(lane.events().size(), index + furthest);
    for (std::uint64_t i = index + 1; i < end; ++i) {
        const Event& later = lane.events()[i];
        if (later.sequence != event.sequence) continue;
        if (later.kind == EventKind::prefill || later.kind == EventKind::decode) return later.other;
        if (later.kind == EventKind::preempt || later.kind == EventKind::finish) return std::nullopt;
    }
    return std::nullopt;
}

std::string detail_of(const LaneRecord& lane, const Event& event) {
    const bool has = event.detail.valid() && event.detail.value < lane.strings().size();
    return has ? lane.strings()[event.detail.value] : std::string();
}

std::string tell(const Sentence& sentence) {
    const Event& event = sentence.event;
    const std::string detail = detail_of(sentence.lane, event);
    // The detail of a rejection gives the same reason with all its numbers, that of a refused action says it all.
    if (event.kind == EventKind::refuse && event.cause == Cause::action_refused && !detail.empty()) return detail;
    const bool has_reason = event.kind == EventKind::reject && !detail.empty();
    std::string text = sentence.what();
    if (const std::string why = sentence.why(); !why.empty() && !has_reason) text += " because " + why;
    text += sentence.after();
    return detail.empty() ? text : text + ": " + detail;
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
    return tell({recording, lane, event, std::nullopt});
}

std::string describe_event(const Recording& recording, const LaneRecord& lane, std::uint64_t index) {
    const Event& event = lane.events()[index];
    const bool writes = event.cause == Cause::shared_block_written || event.cause == Cause::last_owner_writes;
    return tell({recording, lane, event, writes ? next_position(lane, index) : std::nullopt});
}

std::string event_reason(const Recording& recording, const LaneRecord& lane, const Event& event) {
    const std::string detail = detail_of(lane, event);
    return detail.empty() ? describe_cause(recording, lane, event) : detail;
}

std::uint64_t event_bytes(const LaneRecord& lane, const Event& event) {
    switch (event.kind) {
    case EventKind::allocate: return lane.info().block_bytes;
    case EventKind::copy_on_write:
    case EventKind::swap_out:
    case EventKind::swap_in: {
        // A block of one of several cache groups holds its layers alone, but is moved as a whole.
        const bool groups = lane.info().policy.groups.size() > 1 && lane.info().block_size > 0;
        return event.tokens * (groups ? lane.info().block_bytes / lane.info().block_size : lane.info().bytes_per_token);
    }
    case EventKind::prefill:
    case EventKind::decode: return lane.info().kv_cache ? event.tokens * lane.info().bytes_per_token : 0;
    default: return 0;
    }
}

std::string describe_branch(const LaneRecord& lane) {
    const LaneBranch& branch = lane.info().branch;
    if (branch.of.empty()) return {};
    std::string text = "continues lane '" + branch.of + "' from step " + std::to_string(branch.at_step) + " on, " +
                       (branch.how == "switches" ? "under its rules until then" : "in a pool of its own that takes its tokens until then");
    if (branch.token < 0) return text;
    const auto& shown = lane.vocabulary().shown;
    const auto token = static_cast<std::size_t>(branch.token);
    return text + "; the next token of " + branch.request + " is " +
           (token < shown.size() ? "'" + shown[token] + "'" : "token " + std::to_string(branch.token));
}

}  // namespace kvloupe
