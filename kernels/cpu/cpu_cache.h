// SPDX-License-Identifier: GPL-3.0-or-later
//
// The KV cache in main memory, and what the attention needs to know about where its rows lie.
#pragma once

#include "engine/backend.h"
#include "kernels/cpu/aligned_bytes.h"

#include <atomic>
#include <cstdint>
#include <vector>

namespace kvloupe::cpu {

// Where K or V of one layer lies: the layout, and the memory it is laid out in.
struct CpuPlane {
    KvPlane plane;
    std::byte* blocks = nullptr;       // of the layer's place; layers of an equal place share them
    std::uint64_t stride = 0;          // bytes from block to block: of the place's largest one
    std::byte* pages = nullptr;        // KIVI: (residual_pages, heads, block_size, head_dim) in f16, shared as the blocks are
    std::uint64_t page_stride = 0;
    float* fixed = nullptr;            // scales per tensor (1) or head (heads), 0 until the first step that writes; else null

    std::byte* block(std::uint64_t index) const { return blocks + index * stride; }
    std::byte* row_block(std::uint64_t index, std::uint32_t row) const { return block(index) + row * plane.row_block_bytes; }
    std::byte* codes(std::uint64_t index, std::uint32_t row, std::uint32_t offset) const {
        return row_block(index, row) + offset * plane.code_bytes;
    }
    // Behind the codes of the block: of a token, and with KIVI's keys from the first group on.
    std::byte* scales(std::uint64_t index, std::uint32_t row, std::uint32_t offset) const {
        return row_block(index, row) + plane.scale_begin + offset * plane.scale_bytes;
    }
    // A head's row in an f16 page.
    std::byte* page_row(std::uint64_t page, std::uint32_t head, std::uint32_t offset) const {
        return pages + page * page_stride + (std::uint64_t{head} * plane.block_size + offset) * plane.head_dim * 2;
    }
};

// Bytes of what is stored of a block, place by place: K and V of the largest layer of each.
struct BlockStrides {
    std::vector<std::uint64_t> keys, values;            // (places) of a block
    std::vector<std::uint64_t> key_pages, value_pages;  // (places) of an f16 page; 0: no layer keeps one
    std::uint64_t block_bytes() const;                  // of a block of all places
};
// Errors: those of KvPlane::of.
Result<BlockStrides> strides_of(const KvCacheShape& shape);

// Room for swapped-out blocks of a cache: (count, places, K then V), each K or V a whole block.
class CpuHostBlocks final : public HostBlocks {
public:
    // Errors: not enough memory.
    static Result<std::unique_ptr<HostBlocks>> make(const KvCacheShape& shape, std::uint32_t count, Counters& counters);

    std::uint32_t count() const override { return m_count; }
    std::uint64_t bytes() const override { return m_bytes.size(); }
    std::span<std::byte> contents(std::uint32_t block) const override { return {block_of(block), m_block_bytes}; }
    std::byte* keys(std::uint32_t block, std::uint32_t place) const { return block_of(block) + m_key_begin[place]; }
    std::byte* values(std::uint32_t block, std::uint32_t place) const { return block_of(block) + m_value_begin[place]; }

private:
    CpuHostBlocks() = default;
    std::byte* block_of(std::uint32_t block) const { return m_bytes.data() + block * m_block_bytes; }

    std::uint32_t m_count = 0;
    std::uint64_t m_block_bytes = 0;                        // of all places
    std::vector<std::uint64_t> m_key_begin, m_value_begin;  // (places) from the block's start
    AlignedBytes m_bytes;
};

// One allocation per place for K and one for V, each (blocks, the place's largest block); for layers that keep a residual
// one each for its pages; one for all scales per tensor and head.
class CpuKvCache final : public KvCache {
public:
    // Errors: a shape with a zero, a precision that no cache is kept in, more bytes than there are.
    static Result<std::unique_ptr<KvCache>> make(const KvCacheShape& shape, Purpose purpose, Counters& counters);

    const KvCacheShape& shape() const override { return m_shape; }
    std::uint64_t bytes() const override { return m_bytes; }
    std::uint64_t overflowed_values() const override { return m_overflowed.load(std::memory_order_relaxed); }
    void add_overflowed(std::uint64_t values) { m_overflowed.fetch_add(values, std::memory_order_relaxed); }

    const CpuPlane& keys(std::uint32_t layer) const { return m_keys[layer]; }
    const CpuPlane& values(std::uint32_t layer) const { return m_values[layer]; }
    const CpuPlane& plane(std::uint32_t layer, KvPart part) const { return part == KvPart::keys ? keys(layer) : values(layer); }

    // One layer of each place, and one more for each other layout that it is given: all that blocks and pages hold.
    std::vector<std::uint32_t> laid_layers() const;

    // The first `tokens` slots of a block, codes and scales; of KIVI's keys the scales of every group that they reach into.
    void copy_block(std::uint32_t from, std::uint32_t to, std::uint32_t tokens);
    void swap_out(std::uint32_t block, const CpuHostBlocks& host, std::uint32_t host_block, std::uint32_t tokens) const;
    void swap_in(std::uint32_t block, const CpuHostBlocks& host, std::uint32_t host_block, std::uint32_t tokens);
    // All bits set, which is NaN in every float and in every scale: of integer codes it is the scale that shows.
    void poison_block(std::uint32_t block);
    void copy_page(std::uint32_t from, std::uint32_t to, std::uint32_t tokens);
    void poison_page(std::uint32_t page) const;
    std::uint64_t page_bytes() const;
    void save_page(std::uint32_t page, std::byte* to) const;
    void restore_page(std::uint32_t page, const std::byte* from) const;

private:
    CpuKvCache() = default;
    // A layer's planes, once for all layers of a place that are laid out alike.
    struct Laid {
        std::uint32_t layer = 0;
        std::uint32_t place = 0;
    };
    Result<void> allocate(const BlockStrides& strides, Purpose purpose, Counters& counters);
    void place_layers(const BlockStrides& strides);
    Result<std::byte*> take(std::uint64_t bytes, Purpose purpose, Counters& counters);

    KvCacheShape m_shape;
    std::uint64_t m_bytes = 0;
    std::vector<CpuPlane> m_keys, m_values;  // (layers)
    std::vector<Laid> m_laid;
    std::vector<AlignedBytes> m_memory;
    std::vector<std::byte*> m_key_blocks, m_value_blocks, m_key_pages, m_value_pages;  // (places)
    float* m_fixed = nullptr;
    std::atomic<std::uint64_t> m_overflowed{0};
};

}  // namespace kvloupe::cpu
