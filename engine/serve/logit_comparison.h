// SPDX-License-Identifier: GPL-3.0-or-later
//
// LogitComparison: the largest difference of a lane's logits to those of the first lane with equal weights, per request
// and index of the output token, while both answer the same text. The first index at which their tokens differ is still
// compared: its logits are of equal tokens before it. After it they answer different texts.
#pragma once

#include "engine/record/ids.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace kvloupe {

// Sees the logits (vocabulary) from which an output token is taken; called by the worker. For tests and measurements.
using LogitTap = std::function<void(LaneId lane, RequestId request, std::uint32_t output_index, std::span<const float> logits)>;

// Under what a sequence's logits are compared and tapped: its request, or for a child (a fork, a sample) an id of its own
// that is the same in all lanes.
constexpr RequestId logit_track(RequestId request, std::string_view child) {
    if (child.empty()) return request;
    std::uint32_t hash = 2166136261u;  // FNV-1a
    for (const char c : child) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    return RequestId(0x80000000u | (hash >> 1));
}

class LogitComparison {
public:
    // weights_ids (lanes): 0 is equal to nothing. Logits of the reference that a later lane still needs are kept up to
    // `memory_bytes`; beyond it the oldest are dropped, and what needed them has no difference.
    explicit LogitComparison(std::span<const std::uint64_t> weights_ids, std::uint64_t memory_bytes = 64ull << 20);

    // The logits (vocabulary) from which output token `index` of the request was taken, and that token. Index ascends by
    // one per lane and request. Returns max |a - b|, or nothing where there is no reference (yet), it was dropped, or
    // the tokens before `index` differ.
    std::optional<float> add(LaneId lane, RequestId request, std::uint32_t index, std::span<const float> logits,
                             TokenId token);

    // Whether the lane's logits are held against another lane's, or another lane's against them.
    bool compares(LaneId lane) const { return m_reference[lane.value].valid() || m_followers[lane.value] > 0; }

    std::uint64_t bytes() const { return m_bytes; }  // of the logits that are kept

    // The first lane with the same weights, none for a lane that has none before it.
    LaneId reference_of(LaneId lane) const { return m_reference[lane.value]; }

private:
    struct Entry {
        std::vector<float> logits;
        std::uint32_t readers = 0;  // lanes that have not compared yet
    };
    struct Track {                  // of one lane and request
        std::vector<TokenId> tokens;
        std::uint32_t equal = 0;    // leading tokens that equal the reference's
        bool differs = false;
    };
    using Key = std::pair<std::uint32_t, std::uint32_t>;  // lane, request

    void keep(LaneId lane, RequestId request, std::uint32_t index, std::span<const float> logits);

    std::vector<LaneId> m_reference;         // (lanes)
    std::vector<std::uint32_t> m_followers;  // (lanes)
    std::map<Key, Track> m_tracks;
    std::map<std::pair<Key, std::uint32_t>, Entry> m_entries;  // of reference lanes, by output index
    std::deque<std::pair<Key, std::uint32_t>> m_age;
    std::uint64_t m_bytes = 0;
    std::uint64_t m_memory;
};

}  // namespace kvloupe
