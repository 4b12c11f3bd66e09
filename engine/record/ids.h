// SPDX-License-Identifier: GPL-3.0-or-later
//
// Distinct index types, so that a block id can never be passed where a sequence id is meant.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace kvloupe {

template <class Tag>
struct Index {
    static constexpr std::uint32_t none_value = 0xFFFFFFFFu;

    std::uint32_t value = none_value;

    constexpr Index() = default;
    constexpr explicit Index(std::uint32_t v) : value(v) {}
    static constexpr Index none() { return Index(); }
    constexpr bool valid() const { return value != none_value; }
    friend constexpr auto operator<=>(Index, Index) = default;
};

using LaneId = Index<struct LaneTag>;          // position of the lane in the session
using RequestId = Index<struct RequestTag>;    // position of the request in Recording::requests()
using SequenceId = Index<struct SequenceTag>;  // position of the sequence in LaneRecord::sequences()
using BlockId = Index<struct BlockTag>;        // physical block; block 0 is the null block
using StepId = Index<struct StepTag>;          // step number of a lane, from 0 without gaps
using StringId = Index<struct StringTag>;      // interned string of a lane

using TokenId = std::int32_t;  // index into the vocabulary

inline constexpr BlockId null_block_id{0};

}  // namespace kvloupe

template <class Tag>
struct std::hash<kvloupe::Index<Tag>> {
    std::size_t operator()(kvloupe::Index<Tag> id) const noexcept { return std::hash<std::uint32_t>{}(id.value); }
};
