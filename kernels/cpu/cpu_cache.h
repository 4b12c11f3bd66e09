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

// Room for swapped-out blocks of a cache: (count, layers, K then V), each K or V a whole block of a layer.
class CpuHostBlocks final : public HostBlocks {
public:
    // Errors: not enough memory.
    static Result<std::unique_ptr<HostBlocks>> make(const KvCacheShape& shape, std::uint32_t count, Counters& counters);

    std::uint32_t count() const override { return m_count; }
    std::uint64_t bytes() const override { return m_bytes.size(); }
    std::byte* keys(std::uint32_t block, std::uint32_t layer) const {
        return m_bytes.data() + block * m_block_bytes + m_key_begin[layer];
    }
    std::byte* values(std::uint32_t block, std::uint32_t layer) const {
        return m_bytes.data() + block * m_block_bytes + m_value_begin[layer];
    }

private:
    CpuHostBlocks() = default;
    std::uint32_t m_count = 0;
    std::uint64_t m_block_bytes = 0;                        // of all layers
    std::vector<std::uint64_t> m_key_begin, m_value_begin;  // (layers) from the block's start
    AlignedBytes m_bytes;
};

// One allocation per layer for K and one for V, each (blocks, kv_heads, block_size, width of a row).
class CpuKvCache final : public KvCache {
public:
    // Errors: a shape with a zero, a precision that is not a float, more bytes than there are.
    static Result<std::unique_ptr<KvCache>> make(const KvCacheShape& shape, Purpose purpose, Counters& counters);

    const KvCacheShape& shape() const override { return m_shape; }
    std::uint64_t bytes() const override { return m_bytes; }
    std::uint64_t overflowed_values() const override { return m_overflowed.load(std::memory_order_relaxed); }
    void add_overflowed(std::uint64_t values) { m_overflowed.fetch_add(values, std::memory_order_relaxed); }

    std::byte* keys(std::uint32_t layer) const { return m_keys[layer].data(); }
    std::byte* values(std::uint32_t layer) const { return m_values[layer].data(); }
    // The row of a KV head in a slot.
    std::byte* key_row(std::uint32_t layer, std::uint64_t slot, std::uint32_t kv_head) const {
        return keys(layer) + m_key_planes[layer].codes(slot / m_shape.block_size, kv_head, slot % m_shape.block_size);
    }
    std::byte* value_row(std::uint32_t layer, std::uint64_t slot, std::uint32_t kv_head) const {
        return values(layer) + m_value_planes[layer].codes(slot / m_shape.block_size, kv_head, slot % m_shape.block_size);
    }
    // Elements from the layer's start to the rows of a KV head, for positions first .. first + count - 1 of a sequence with
    // this block table.
    void offsets(std::uint32_t layer, KvPart part, const std::uint32_t* table, std::uint32_t kv_head, std::uint32_t first,
                 std::uint32_t count, std::uint64_t* out) const;

    void copy_block(std::uint32_t from, std::uint32_t to, std::uint32_t tokens);
    void swap_out(std::uint32_t block, const CpuHostBlocks& host, std::uint32_t host_block, std::uint32_t tokens) const;
    void swap_in(std::uint32_t block, const CpuHostBlocks& host, std::uint32_t host_block, std::uint32_t tokens);
    void poison_block(std::uint32_t block);

private:
    CpuKvCache() = default;
    std::byte* keys_of(std::uint32_t block, std::uint32_t layer) const { return keys(layer) + block * m_key_planes[layer].block_bytes; }
    std::byte* values_of(std::uint32_t block, std::uint32_t layer) const {
        return values(layer) + block * m_value_planes[layer].block_bytes;
    }

    KvCacheShape m_shape;
    std::uint64_t m_bytes = 0;
    std::vector<KvPlane> m_key_planes, m_value_planes;  // (layers)
    std::vector<AlignedBytes> m_keys, m_values;
    std::atomic<std::uint64_t> m_overflowed{0};
};

}  // namespace kvloupe::cpu
