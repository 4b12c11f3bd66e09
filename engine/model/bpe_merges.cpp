// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/bpe_merges.h"

#include <algorithm>
#include <queue>

namespace kvloupe {

namespace {

constexpr std::size_t short_piece = 16;  // tokens; nearly all words. Scanning beats the heap here.

std::uint64_t pair_key(TokenId left, TokenId right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

struct Link {
    TokenId token = 0;
    std::int32_t previous = -1;
    std::int32_t next = -1;
    bool alive = true;
};

struct Candidate {
    std::uint32_t rank = 0;
    std::int32_t left = 0;       // index of the left link
    TokenId left_token = 0;      // what the pair was when it was queued
    TokenId right_token = 0;
    // std::priority_queue gives the greatest first.
    friend bool operator<(const Candidate& a, const Candidate& b) {
        return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
    }
};

}  // namespace

bool BpeMerges::add(TokenId left, TokenId right, TokenId merged) {
    const auto rank = static_cast<std::uint32_t>(m_merges.size());
    return m_merges.try_emplace(pair_key(left, right), Merge{rank, merged}).second;
}

const BpeMerges::Merge* BpeMerges::find(TokenId left, TokenId right) const {
    const auto it = m_merges.find(pair_key(left, right));
    return it == m_merges.end() ? nullptr : &it->second;
}

std::size_t BpeMerges::apply(std::span<TokenId> tokens) const {
    if (tokens.size() < 2) return tokens.size();
    return tokens.size() <= short_piece ? apply_short(tokens) : apply_long(tokens);
}

std::size_t BpeMerges::apply_short(std::span<TokenId> tokens) const {
    std::size_t count = tokens.size();
    const Merge* merges[short_piece] = {};  // of (i, i + 1)
    for (std::size_t i = 0; i + 1 < count; ++i) merges[i] = find(tokens[i], tokens[i + 1]);
    while (count > 1) {
        std::size_t best = count;
        for (std::size_t i = 0; i + 1 < count; ++i) {
            if (merges[i] != nullptr && (best == count || merges[i]->rank < merges[best]->rank)) best = i;
        }
        if (best == count) break;
        tokens[best] = merges[best]->merged;
        for (std::size_t i = best + 1; i + 1 < count; ++i) {
            tokens[i] = tokens[i + 1];
            merges[i] = merges[i + 1];
        }
        --count;
        merges[best] = best + 1 < count ? find(tokens[best], tokens[best + 1]) : nullptr;
        if (best > 0) merges[best - 1] = find(tokens[best - 1], tokens[best]);
    }
    return count;
}

std::size_t BpeMerges::apply_long(std::span<TokenId> tokens) const {
    std::vector<Link> links(tokens.size());
    const auto last = static_cast<std::int32_t>(tokens.size()) - 1;
    for (std::int32_t i = 0; i <= last; ++i) {
        links[static_cast<std::size_t>(i)] = {tokens[static_cast<std::size_t>(i)], i - 1, i < last ? i + 1 : -1, true};
    }
    std::vector<Candidate> storage;
    storage.reserve(tokens.size());
    std::priority_queue<Candidate> queue(std::less<Candidate>{}, std::move(storage));
    const auto link = [&links](std::int32_t i) -> Link& { return links[static_cast<std::size_t>(i)]; };
    const auto consider = [&](std::int32_t left) {
        if (left < 0 || link(left).next < 0) return;
        const TokenId a = link(left).token;
        const TokenId b = link(link(left).next).token;
        if (const Merge* merge = find(a, b)) queue.push({merge->rank, left, a, b});
    };
    for (std::int32_t i = 0; i < last; ++i) consider(i);
    while (!queue.empty()) {
        const Candidate top = queue.top();
        queue.pop();
        Link& left = link(top.left);
        if (!left.alive || left.token != top.left_token || left.next < 0) continue;
        Link& right = link(left.next);
        if (right.token != top.right_token) continue;
        left.token = find(top.left_token, top.right_token)->merged;
        right.alive = false;
        left.next = right.next;
        if (left.next >= 0) link(left.next).previous = top.left;
        consider(left.previous);
        consider(top.left);
    }
    std::size_t count = 0;
    for (const Link& l : links) {
        if (l.alive) tokens[count++] = l.token;
    }
    return count;
}

}  // namespace kvloupe
