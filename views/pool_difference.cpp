// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/pool_difference.h"

#include <algorithm>
#include <tuple>

namespace kvloupe {

namespace {

using OwnerKey = std::tuple<std::uint32_t, std::uint32_t, std::uint8_t>;  // sequence there, logical index, group

bool sameOwners(std::span<const BlockOwner> here, std::span<const BlockOwner> there, const std::vector<SequenceId>& same) {
    if (here.size() != there.size()) return false;
    std::vector<OwnerKey> ours, theirs;
    for (const BlockOwner& owner : here) {
        const SequenceId other = owner.sequence.value < same.size() ? same[owner.sequence.value] : SequenceId();
        if (!other.valid()) return false;
        ours.emplace_back(other.value, owner.logical, owner.group);
    }
    for (const BlockOwner& owner : there) theirs.emplace_back(owner.sequence.value, owner.logical, owner.group);
    std::sort(ours.begin(), ours.end());
    std::sort(theirs.begin(), theirs.end());
    return ours == theirs;
}

}  // namespace

bool hashAlike(const LaneInfo& here, const LaneInfo& there) {
    const CachePolicy &a = here.policy, &b = there.policy;
    return a.prefix_caching == b.prefix_caching && a.prefix_index == b.prefix_index && a.hash_bits == b.hash_bits &&
           a.tag_extra_keys == b.tag_extra_keys && here.block_size == there.block_size;
}

PoolDifference poolDifference(const LaneState& here, const LaneState& there, const std::vector<SequenceId>& same, bool hashes) {
    BlockOwners ours, theirs;
    ours.collect(here);
    theirs.collect(there);
    PoolDifference difference;
    const auto size = static_cast<std::uint32_t>(std::max(here.blocks().size(), there.blocks().size()));
    difference.blocks.assign(size, BlockChange::same);
    const BlockState none;
    for (std::uint32_t block = 1; block < size; ++block) {
        const BlockState& a = block < here.blocks().size() ? here.blocks()[block] : none;
        const BlockState& b = block < there.blocks().size() ? there.blocks()[block] : none;
        const bool holdsHere = a.owners > 0 || a.cached(), holdsThere = b.owners > 0 || b.cached();
        BlockChange& change = difference.blocks[block];
        if (holdsHere != holdsThere) {
            change = holdsHere ? BlockChange::here : BlockChange::there;
        } else if (holdsHere) {
            const bool content = !hashes || (a.hashed == b.hashed && (!a.hashed || a.hash == b.hash));
            const bool equal = a.owners == b.owners && a.held == b.held && a.filled == b.filled && content &&
                               sameOwners(ours.of(block), theirs.of(block), same);
            change = equal ? BlockChange::same : BlockChange::differs;
        }
        ++difference.counts[static_cast<std::size_t>(change)];
    }
    return difference;
}

RecentTokens::RecentTokens(const Recording& recording, const LaneRecord& lane, std::size_t step, std::size_t steps)
    : m_recording(&recording), m_lane(&lane) {
    if (step >= lane.step_count()) return;
    const std::uint64_t end = lane.step(step).tokens.end;
    for (std::uint64_t i = lane.step(step - std::min(step, steps)).tokens.begin; i < end; ++i) {
        const TokenRecord& token = lane.tokens()[i];
        m_tokens[std::uint64_t{token.sequence.value} << 32 | token.position] = token.token;
    }
}

std::optional<TokenId> RecentTokens::at(SequenceId sequence, std::uint32_t position) const {
    const auto known = m_tokens.find(std::uint64_t{sequence.value} << 32 | position);
    if (known != m_tokens.end()) return known->second;
    if (sequence.value >= m_lane->sequences().size()) return {};
    const SequenceInfo& info = m_lane->sequences()[sequence.value];
    if (info.parent.valid() || !info.request.valid() || info.request.value >= m_recording->requests().size()) return {};
    const std::vector<TokenId>& prompt = m_recording->requests()[info.request.value].prompt;
    return position < prompt.size() ? std::optional(prompt[position]) : std::nullopt;
}

void compareTokens(PoolDifference& difference, const LaneState& here, const RecentTokens& ours, const LaneState& there,
                   const RecentTokens& theirs) {
    const std::size_t size = std::min({difference.blocks.size(), here.blocks().size(), there.blocks().size()});
    for (std::uint32_t block = 1; block < size; ++block) {
        const BlockState &a = here.blocks()[block], &b = there.blocks()[block];
        if (difference.blocks[block] != BlockChange::same || a.owners == 0 || a.hashed) continue;
        for (std::uint32_t slot = 0; slot < a.filled; ++slot) {
            const auto own = ours.at(a.first_owner, a.logical * here.block_size() + slot);
            const auto other = theirs.at(b.first_owner, b.logical * there.block_size() + slot);
            if (!own || !other || *own == *other) continue;
            difference.blocks[block] = BlockChange::differs;
            --difference.counts[static_cast<std::size_t>(BlockChange::same)];
            ++difference.counts[static_cast<std::size_t>(BlockChange::differs)];
            break;
        }
    }
}

}  // namespace kvloupe
