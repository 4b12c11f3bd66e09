// SPDX-License-Identifier: GPL-3.0-or-later
//
// Sentences and derived numbers about a recording: the same text in callout, log, export and lesson.
#pragma once

#include "engine/record/recording.h"

#include <optional>
#include <span>
#include <string>

namespace kvloupe {

// "a" for the request's own sequence, "a.1" for children.
std::string sequence_name(const Recording& recording, const LaneRecord& lane, SequenceId sequence);

// The event's cause as a sentence: who, at which position, why ("sequence a opened block 7 because position 16 begins
// logical block 1").
std::string describe_cause(const Recording& recording, const LaneRecord& lane, const Event& event);

// The same for event `index` of the lane's log. What the event itself does not say is taken from its step: the position
// whose writing made it necessary ("c copied 5 slots of block 16 to block 53 because it writes position 37 into a block
// that has another owner").
std::string describe_event(const Recording& recording, const LaneRecord& lane, std::uint64_t index);

// Bytes the event moved or took (derived): allocate = block_bytes; copies, swaps, prefill and decode = tokens *
// bytes_per_token, where K/V is kept (of one of several cache groups: a slot's share of its block); others 0.
std::uint64_t event_bytes(const LaneRecord& lane, const Event& event);

// The reason why a request of the lane was rejected or failed: its event's detail text, else the sentence above.
std::string event_reason(const Recording& recording, const LaneRecord& lane, const Event& event);

// Times of one sequence in one lane, all measured on the lane's own clock of steps; empty where they do not exist (yet).
// Arrival and admission are the times of the lane's arrive and admit events; a token exists when its step ends.
// A fork, sample or beam never queued. A fork's first token counts from the start of the step that forked it, and what it
// inherited exists from the end of that step on. A sample's or beam's counts from its request's arrival; one that was forked
// after its parent's first token has that time of its parent. A request of several sequences queued as its first did.
struct RequestTimes {
    std::optional<double> queue_ms;                 // arrival to admission
    std::optional<double> time_to_first_token_ms;   // arrival to the end of the step that sampled the first token
    std::vector<double> inter_token_ms;             // between the ends of the steps that sampled successive tokens; tokens
                                                    // of one step have no time between them
    std::uint32_t output_tokens = 0;
    std::string finish_reason;                      // stop | length | cancelled | rejected | failed, "" while it lives
    std::string reason;                             // sentence for rejected and failed
    bool dropped = false;                           // a beam that better continuations replaced
};

// Up to and including step `last`; last < step_count().
RequestTimes request_times(const Recording& recording, const LaneRecord& lane, SequenceId sequence, std::size_t last);

// The same for all sequences of the lane in one pass over the recording (index: SequenceId).
std::vector<RequestTimes> all_request_times(const Recording& recording, const LaneRecord& lane, std::size_t last);

// What a lane continues and how: "continues lane 'cached' from step 12 on, under its rules until then; the next token of a is
// 'ship'". "" where it continues none.
std::string describe_branch(const LaneRecord& lane);

// Text of tokens by the lane's vocabulary: pieces joined, invalid UTF-8 as U+FFFD, control tokens left out.
std::string text_of(const VocabularyText& vocabulary, std::span<const TokenId> tokens);

}  // namespace kvloupe
