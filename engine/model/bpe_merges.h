// SPDX-License-Identifier: GPL-3.0-or-later
//
// Byte-pair merges: among adjacent pairs the one of the lowest rank is merged, leftmost on ties, until none is left
// (FORMATS 2.5). A heap of pairs over a linked list: n log n, also for a text of one letter.
#pragma once

#include "engine/record/ids.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace kvloupe {

class BpeMerges {
public:
    // The pair's rank is the number of merges added before it. False if the pair is there already.
    bool add(TokenId left, TokenId right, TokenId merged);
    std::size_t size() const { return m_merges.size(); }

    // Merges in place and returns how many tokens are left at the front.
    std::size_t apply(std::span<TokenId> tokens) const;

private:
    struct Merge {
        std::uint32_t rank = 0;
        TokenId merged = 0;
    };
    const Merge* find(TokenId left, TokenId right) const;
    std::size_t apply_short(std::span<TokenId> tokens) const;
    std::size_t apply_long(std::span<TokenId> tokens) const;

    std::unordered_map<std::uint64_t, Merge> m_merges;  // left << 32 | right
};

}  // namespace kvloupe
