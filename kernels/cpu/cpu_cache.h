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
        return m_bytes.data() + (std::uint64_t{block} * m_layers + layer) * (m_key_bytes + m_value_bytes);
    }
    std::byte* values(std::uint32_t block, std::uint32_t layer) const { return keys(block, layer) + m_key_bytes; }

private:
    CpuHostBlocks() = default;
    std::uint32_t m_count = 0;
    std::uint32_t m_layers = 0;
    std::uint64_t m_key_bytes = 0, m_value_bytes = 0;  // of one block of one layer
    AlignedBytes m_bytes;
};

// One allocation per layer for K and one for V, each (blocks, kv_heads, block_size, head_dim).
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
    // Elements from the layer's start to the row (head_dim) of a KV head in a slot.
    std::uint64_t offset(std::uint64_t slot, std::uint32_t kv_head) const {
        const std::uint64_t block = slot / m_shape.block_size;
        return ((block * first().kv_heads + kv_head) * m_shape.block_size + slot % m_shape.block_size) * first().key_dim;
    }
    // The same for positions first .. first + count - 1 of a sequence with this block table.
    void offsets(const std::uint32_t* table, std::uint32_t kv_head, std::uint32_t first, std::uint32_t count,
                 std::uint64_t* out) const;

    void copy_block(std::uint32_t from, std::uint32_t to, std::uint32_t tokens);
    void swap_out(std::uint32_t block, const CpuHostBlocks& host, std::uint32_t host_block, std::uint32_t tokens) const;
    void swap_in(std::uint32_t block, const CpuHostBlocks& host, std::uint32_t host_block, std::uint32_t tokens);
    void poison_block(std::uint32_t block);

private:
    CpuKvCache() = default;
    const KvLayerShape& first() const { return m_shape.layers.front(); }  // all are alike
    // The first `tokens` rows of every head, from one block (kv_heads, block_size, head_dim) to another.
    void copy_rows(const std::byte* from, std::byte* to, DType type, std::uint32_t tokens) const;
    std::byte* keys_of(std::uint32_t block, std::uint32_t layer) const {
        return keys(layer) + row_bytes(first().keys.dtype, block * block_elements());
    }
    std::byte* values_of(std::uint32_t block, std::uint32_t layer) const {
        return values(layer) + row_bytes(first().values.dtype, block * block_elements());
    }
    std::uint64_t block_elements() const {
        return std::uint64_t{first().kv_heads} * m_shape.block_size * first().key_dim;
    }

    KvCacheShape m_shape;
    std::uint64_t m_bytes = 0;
    std::vector<AlignedBytes> m_keys, m_values;
    std::atomic<std::uint64_t> m_overflowed{0};
};

}  // namespace kvloupe::cpu
