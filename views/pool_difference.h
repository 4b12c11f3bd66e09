// SPDX-License-Identifier: GPL-3.0-or-later
//
// What differs between two pools, block by block: the lane in focus ("here") and the one that it is compared with ("there").
#pragma once

#include "views/block_owners.h"

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace kvloupe {

enum class BlockChange : std::uint8_t {
    same,
    here,     // only here it holds keys and values: in use, or free but cached
    there,    // only there
    differs,  // in both, but others own it, or its reference count, filled slots, state or content (hash, else tokens) is another
};
inline constexpr int block_change_count = static_cast<int>(BlockChange::differs) + 1;

struct PoolDifference {
    std::vector<BlockChange> blocks;                          // (blocks of the larger pool); empty: nothing is compared
    std::array<std::uint32_t, block_change_count> counts{};  // without the null block

    BlockChange at(std::uint32_t block) const { return block < blocks.size() ? blocks[block] : BlockChange::same; }
    std::uint32_t count(BlockChange change) const { return counts[static_cast<std::size_t>(change)]; }
};

// same: for every sequence here the one of the same name there (match_sequences()); a sequence without one is another owner than any
// there. hashes: both lanes hash alike, so that equal content has equal hashes.
PoolDifference poolDifference(const LaneState& here, const LaneState& there, const std::vector<SequenceId>& same, bool hashes);

// The tokens of a lane's sequences as they were after a step, those of the last steps before it and those of prompts.
class RecentTokens {
public:
    RecentTokens(const Recording& recording, const LaneRecord& lane, std::size_t step, std::size_t steps);
    // Nothing where neither says.
    std::optional<TokenId> at(SequenceId sequence, std::uint32_t position) const;

private:
    const Recording* m_recording;
    const LaneRecord* m_lane;
    std::unordered_map<std::uint64_t, TokenId> m_tokens;  // sequence << 32 | position
};

// Blocks that are not full have no hash: of those that look the same the ones differ in which a slot holds another token.
void compareTokens(PoolDifference& difference, const LaneState& here, const RecentTokens& ours, const LaneState& there, const RecentTokens& theirs);

// Whether the two lanes' hashes can be compared: the same index, bits and extra keys, and blocks of one size.
bool hashAlike(const LaneInfo& here, const LaneInfo& there);

}  // namespace kvloupe
