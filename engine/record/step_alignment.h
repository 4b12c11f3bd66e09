// SPDX-License-Identifier: GPL-3.0-or-later
//
// StepAlignment: which step of another lane, of the same or another recording, stands beside a step of a lane: by its number, by the
// tokens that were written, or by the time since the first step.
// Goals: a look-up costs O(log steps), whatever was recorded; new steps cost what is new. Only the alignment by tokens reads
// anything beforehand: the token log of both lanes, once, in pieces as large as the caller has time for.
#pragma once

#include "engine/record/recording.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace kvloupe {

enum class Alignment : std::uint8_t { step, token, time };

// For each sequence of `lane` the one of `other` with the same name; none where there is none. (sequences of lane)
std::vector<SequenceId> match_sequences(const Recording& a, const LaneRecord& lane, const Recording& b, const LaneRecord& other);

// Steps in which a lane's sequences were given output tokens (sampled or forced).
class TokenSteps {
public:
    explicit TokenSteps(const LaneRecord& lane) : m_lane(&lane) {}

    // Reads steps that are new, until about `tokens` token records were looked at. True: all published steps were read.
    bool read(std::size_t tokens);

    // Output tokens of all sequences, or of one, up to and with the step; steps not read yet are left out.
    std::uint64_t total(std::size_t step) const;
    std::size_t count(SequenceId sequence, std::size_t step) const;
    // First step by whose end so many had been written; none where that never happened. n > 0.
    std::optional<std::size_t> step_of_total(std::uint64_t n) const;
    std::optional<std::size_t> step_of(SequenceId sequence, std::size_t n) const;
    std::size_t written(SequenceId sequence) const { return sequence.value < m_steps.size() ? m_steps[sequence.value].size() : 0; }

private:
    const LaneRecord* m_lane;
    std::vector<std::uint64_t> m_totals;               // (steps read)
    std::vector<std::vector<std::uint32_t>> m_steps;   // (sequences, their output tokens): ascending
};

class StepAlignment {
public:
    StepAlignment(std::shared_ptr<const Recording> a, LaneId lane, std::shared_ptr<const Recording> b, LaneId other);

    // The other lane's step beside `step` (a published one) of this lane; none while it has none.
    // - step: the same number, at most its last one.
    // - token: the first step by whose end the sequence of the same name had been given as many output tokens as `sequence` here;
    //   its last token's step where it never was given as many; before the first token the same number, but no step that gives it
    //   one. Where no sequence has that name (or is asked for), output tokens of all sequences count. Needs read_tokens().
    // - time: the last step that began no later after its lane's first step than this one.
    std::optional<std::size_t> map(Alignment by, std::size_t step, SequenceId sequence) const;

    // For Alignment::token: reads what is new in both lanes, about `tokens` records of each. True: everything was read.
    bool read_tokens(std::size_t tokens);

    // The other lane's sequence of the same name; names that came since the last call are looked up.
    SequenceId same_sequence(SequenceId sequence);
    const std::vector<SequenceId>& same_sequences();  // of all, as match_sequences()

private:
    std::optional<std::size_t> by_token(std::size_t step, SequenceId sequence) const;
    std::optional<std::size_t> by_time(std::size_t step) const;

    std::shared_ptr<const Recording> m_a, m_b;
    const LaneRecord *m_lane, *m_other;
    TokenSteps m_tokens, m_other_tokens;
    std::vector<SequenceId> m_same;       // (sequences of the lane)
    std::size_t m_other_sequences = 0;    // as matched
};

}  // namespace kvloupe
