// SPDX-License-Identifier: GPL-3.0-or-later
//
// Chained page hashes for tests of the radix tree alone: 64-bit FNV-1a over the hash before, the adapter and the tokens.
#pragma once

#include "engine/cache/radix_tree.h"

#include <cstring>

namespace kvloupe {

inline std::vector<BlockHash> page_hashes(const RadixKey& key, std::uint32_t page_size) {
    std::vector<BlockHash> hashes;
    std::uint64_t state = 0xCBF29CE484222325u;
    const auto add = [&state](std::uint8_t byte) { state = (state ^ byte) * 0x100000001B3u; };
    for (const char letter : key.extra.adapter) add(static_cast<std::uint8_t>(letter));
    for (std::size_t token = 0; token < key.tokens.size(); ++token) {
        for (int shift = 0; shift < 32; shift += 8) add(static_cast<std::uint8_t>(key.tokens[token] >> shift));
        if ((token + 1) % page_size != 0) continue;
        hashes.emplace_back();
        std::memcpy(hashes.back().data(), &state, sizeof state);
    }
    return hashes;
}

}  // namespace kvloupe
