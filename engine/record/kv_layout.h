// SPDX-License-Identifier: GPL-3.0-or-later
//
// KvLayout: bytes of a whole cache by the layouts of its layers (kv_format.h); nothing of it is measured.
//
// Layers of several KV cache groups with the same place share memory (vLLM's hybrid models, CACHE_SEMANTICS 1.1): a block id
// belongs to one group at a time, so a block takes, per place, what the largest layer there needs. Layers that share nothing
// have a place each, and a block takes the sum of all layers.
#pragma once

#include "engine/record/layer_info.h"

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe {

struct KvLayout {
    std::uint32_t block_size = 0;
    std::uint32_t places = 0;
    std::uint64_t block_bytes = 0;   // of a block, over all places
    std::uint64_t scale_bytes = 0;   // of them: scales beside the codes (those inside packs are codes here)
    std::uint64_t fixed_bytes = 0;   // beside the blocks: scales per tensor or head of all layers
    std::uint64_t page_bytes = 0;    // of one residual page: a block kept in f16, over all places
    std::vector<std::uint64_t> group_block_bytes;  // (groups) of a block that the group fills; the rest of block_bytes lies
                                                   // in places that the group leaves empty, or fills with narrower layers

    std::uint64_t pool_bytes(std::uint64_t blocks, std::uint64_t pages) const {
        return blocks * block_bytes + pages * page_bytes + fixed_bytes;
    }
    std::uint64_t slot_bytes() const { return block_size == 0 ? 0 : block_bytes / block_size; }

    // Layers whose formats do not fit their shapes count nothing: whoever made them has refused that.
    static KvLayout of(std::span<const LayerInfo> layers, std::uint32_t block_size);
};

}  // namespace kvloupe
