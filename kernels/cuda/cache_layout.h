// SPDX-License-Identifier: GPL-3.0-or-later
//
// CacheLayout: where K and V of every layer lie in a card's memory, and how many bytes they take. One allocation: for each place
// K's blocks, then V's, then the f16 pages of layers that keep a residual; last the scales per tensor and head. Each begins at a multiple
// of 256 bytes. Layers of one place share its blocks, whose stride is that of the place's largest layer.
#pragma once

#include "engine/backend.h"
#include "kernels/cuda/kernels.h"

#include <vector>

namespace kvloupe::cuda {

// K or V of one layer; bytes from the allocation's start.
struct PlaneLayout {
    KvPlane plane;
    std::uint64_t begin = 0;
    std::uint64_t block_stride = 0;
    std::uint64_t pages = 0;        // where the plane keeps a residual
    std::uint64_t page_stride = 0;
    std::uint64_t fixed = 0;        // scales per tensor or head
    std::uint64_t host_begin = 0;   // in a host block
};

class CacheLayout {
public:
    // Errors: a shape that check_shape() refuses, more bytes than any memory has.
    static Result<CacheLayout> of(const KvCacheShape& shape);

    std::uint64_t bytes() const { return m_bytes; }
    std::uint64_t host_block_bytes() const { return m_host_block_bytes; }  // of a block of all places, a multiple of 16
    std::uint64_t fixed_begin() const { return m_fixed_begin; }
    std::uint64_t fixed_bytes() const { return m_fixed_bytes; }
    const PlaneLayout& keys(std::uint32_t layer) const { return m_keys[layer]; }
    const PlaneLayout& values(std::uint32_t layer) const { return m_values[layer]; }
    // The layer as kernels take it, in memory that starts at `start`.
    CacheLayer layer(std::uint32_t layer, std::byte* start) const;
    // The largest pool of the shape in so many bytes; 0: none.
    std::uint64_t blocks_in(std::uint64_t bytes) const;

    // What a copy of a block, or of an f16 page, copies: every plane once, layers of a place that are laid out alike as one.
    const std::vector<CopyPart>& block_parts() const { return m_block_parts; }
    const std::vector<CopyPart>& page_parts() const { return m_page_parts; }

private:
    CacheTensor tensor(const PlaneLayout& lies, const PlaneLayout& scaled_by, std::byte* start) const;
    void add_parts(std::uint32_t layer);

    KvCacheShape m_shape;
    std::vector<PlaneLayout> m_keys, m_values;  // (layers)
    std::vector<CopyPart> m_block_parts, m_page_parts;
    std::uint64_t m_bytes = 0, m_host_block_bytes = 0, m_fixed_begin = 0, m_fixed_bytes = 0;
    std::uint64_t m_block_bytes = 0;            // of a block of all places
};

}  // namespace kvloupe::cuda
