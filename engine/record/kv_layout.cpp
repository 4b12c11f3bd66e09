// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/kv_layout.h"

#include <algorithm>

namespace kvloupe {

namespace {

std::uint64_t scales_of(const KvPlane& plane) {
    return plane.rows() * (plane.block_size * plane.scale_bytes + plane.group_scale_bytes);
}

// The largest plane of a place; of several equally large ones the first.
struct LargestPlane {
    std::uint64_t block_bytes = 0, scale_bytes = 0, page_bytes = 0;

    void take(const KvPlane& plane) {
        if (plane.block_bytes > block_bytes) {
            block_bytes = plane.block_bytes;
            scale_bytes = scales_of(plane);
        }
        page_bytes = std::max(page_bytes, plane.residual_page_bytes);
    }
};

}  // namespace

KvLayout KvLayout::of(std::span<const LayerInfo> layers, std::uint32_t block_size) {
    KvLayout layout;
    layout.block_size = block_size;
    for (const LayerInfo& layer : layers) layout.places = std::max(layout.places, layer.place + 1);
    std::vector<LargestPlane> keys(layout.places), values(layout.places);
    for (const LayerInfo& layer : layers) {
        const auto key = KvPlane::of(layer.keys, KvPart::keys, layer.kv_heads, layer.key_dim, block_size);
        const auto value = KvPlane::of(layer.values, KvPart::values, layer.kv_heads, layer.value_dim, block_size);
        if (!key || !value) continue;
        keys[layer.place].take(*key);
        values[layer.place].take(*value);
        layout.fixed_bytes += key->fixed_bytes + value->fixed_bytes;
        if (layer.group >= layout.group_block_bytes.size()) layout.group_block_bytes.resize(layer.group + std::size_t{1});
        layout.group_block_bytes[layer.group] += key->block_bytes + value->block_bytes;
    }
    for (const std::vector<LargestPlane>* planes : {&keys, &values})
        for (const LargestPlane& plane : *planes) {
            layout.block_bytes += plane.block_bytes;
            layout.scale_bytes += plane.scale_bytes;
            layout.page_bytes += plane.page_bytes;
        }
    return layout;
}

}  // namespace kvloupe
