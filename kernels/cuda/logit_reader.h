// SPDX-License-Identifier: GPL-3.0-or-later
//
// LogitReader: summaries of logits instead of the logits themselves: a few hundred bytes a row cross the bus, not the
// vocabulary.
#pragma once

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/scratch.h"

namespace kvloupe::cuda {

class LogitReader {
public:
    explicit LogitReader(Card& card) : m_card(card), m_scratch(card, "the summaries of logits") {}

    struct Rows {
        const float* logits = nullptr;  // (asked.size(), vocabulary)
        std::uint32_t vocabulary = 0;
        std::span<const TokenId> asked;
    };
    // Queues everything; the summaries lie in main memory after the stream's next wait, for take().
    Result<void> queue(const Rows& rows);
    void take(std::span<LogitSummary> out) const;

private:
    Result<void> grow(std::size_t rows);

    Card& m_card;
    Scratch m_scratch;
    CardMemory m_asked, m_summaries;
    PinnedMemory m_host;               // asked tokens, then summaries
    std::size_t m_rows = 0;            // that there is room for
};

}  // namespace kvloupe::cuda
