// SPDX-License-Identifier: GPL-3.0-or-later
//
// A chained page hash for tests of the radix tree alone: 64-bit FNV-1a over the parent's hash, the keys and the tokens.
#pragma once

#include "engine/cache/radix_tree.h"

#include <cstring>

namespace kvloupe {

inline BlockHash fnv_page_hash(const std::optional<BlockHash>& parent, std::span<const TokenId> page,
                               const ExtraKeys& extra) {
    std::uint64_t state = 0xCBF29CE484222325u;
    const auto add = [&state](std::uint8_t byte) { state = (state ^ byte) * 0x100000001B3u; };
    if (parent)
        for (const std::byte byte : *parent) add(std::to_integer<std::uint8_t>(byte));
    for (const char letter : extra.adapter) add(static_cast<std::uint8_t>(letter));
    for (const TokenId token : page)
        for (int shift = 0; shift < 32; shift += 8) add(static_cast<std::uint8_t>(token >> shift));
    BlockHash hash{};
    std::memcpy(hash.data(), &state, sizeof state);
    return hash;
}

}  // namespace kvloupe
