// SPDX-License-Identifier: GPL-3.0-or-later
//
// TokenTrack: the tokens of one sequence as they were at a step. Reads the part of a lane's token log in which the sequence
// lives, and that incrementally: a longer recording costs what is new, a step back costs nothing but the sequence's length.
#pragma once

#include "engine/record/recording.h"
#include "views/growing_data.h"
#include "views/sequence_scan.h"

#include <QString>

#include <vector>

namespace kvloupe {

struct TrackedToken {
    TokenId token = 0;
    TokenRecord::Source source = TokenRecord::prompt;
    const TokenRecord* record = nullptr;  // null: of the prompt, not recorded on its own
};

// Where the token log speaks of a sequence.
class TokenPlaces {
public:
    TokenPlaces() = default;
    TokenPlaces(const Recording& recording, LaneId lane, SequenceId sequence) : m_scan(recording, lane, sequence) {}
    void update(const Recording& recording, LaneId lane, const std::atomic<bool>& cancelled) {
        read(recording, lane, {UINT64_MAX}, cancelled);
    }
    void readSome(const Recording& recording, LaneId lane, std::uint64_t records) { readSome(recording, lane, ScanLimit{records}); }
    void readSome(const Recording& recording, LaneId lane, ScanLimit limit) { read(recording, lane, limit, false); }

    std::size_t steps() const { return m_scan.steps(); }
    std::uint64_t looked() const { return m_scan.looked(); }
    const std::vector<std::uint64_t>& indices() const { return m_indices; }  // ascending

private:
    void read(const Recording& recording, LaneId lane, ScanLimit limit, const std::atomic<bool>& cancelled);

    SequenceScan m_scan;
    std::vector<std::uint64_t> m_indices;
};

class TokenTrack {
public:
    // step < the lane's step count. Throws nothing; a sequence that has not arrived gives no tokens.
    // ready: called when a job has read what was too much to be read at once.
    void update(const std::shared_ptr<const Recording>& recording, LaneId lane, SequenceId sequence, std::size_t step,
                std::function<void()> ready = {});
    // The same without a job: reads no more than the limit.
    void updateSome(const std::shared_ptr<const Recording>& recording, LaneId lane, SequenceId sequence, std::size_t step, ScanLimit limit);
    void clear();
    void settle() { m_places.settle(); }

    const std::vector<TrackedToken>& tokens() const { return m_tokens; }  // index: position
    bool reading() const { return m_reading; }                            // the tokens may be more
    std::uint64_t looked() const { return m_places->looked(); }           // records looked at for this sequence

private:
    void begin(const std::shared_ptr<const Recording>& recording, LaneId lane, SequenceId sequence);
    void collect(std::size_t step);

    std::shared_ptr<const Recording> m_recording;
    LaneId m_lane;
    SequenceId m_sequence;
    GrowingData<TokenPlaces, SequenceScan::read_at_once> m_places;
    std::vector<TrackedToken> m_tokens;
    bool m_reading = false;
};

// Positions whose K/V a step computed for a sequence, from its prefill and decode events; count 0 when it did nothing.
struct StepWork {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    bool recomputed = false;  // an uncached lane went over the whole prefix again
};
StepWork workOf(const LaneRecord& lane, SequenceId sequence, std::size_t step);

// Label of a token in a small cell: the space in front is left out, line ends and lone spaces are drawn as signs.
QString tokenLabel(const VocabularyText& vocabulary, TokenId token);
// The token with its exact text in quotes, for tips and CSV.
QString tokenText(const VocabularyText& vocabulary, TokenId token);

}  // namespace kvloupe
