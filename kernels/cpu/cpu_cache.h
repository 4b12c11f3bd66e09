// SPDX-License-Identifier: GPL-3.0-or-later
//
// The KV cache in main memory, and what the attention needs to know about where its rows lie.
#pragma once

#include "engine/backend.h"
#include "kernels/cpu/aligned_bytes.h"

#include <cstdint>
#include <vector>

namespace kvloupe::cpu {

// One allocation per layer for K and one for V, each (blocks, kv_heads, block_size, head_dim).
class CpuKvCache final : public KvCache {
public:
    // Errors: a shape with a zero, a precision that is not a float, more bytes than there are.
    static Result<std::unique_ptr<KvCache>> make(const KvCacheShape& shape, Purpose purpose, Counters& counters);

    const KvCacheShape& shape() const override { return m_shape; }
    std::uint64_t bytes() const override { return m_bytes; }

    std::byte* keys(std::uint32_t layer) const { return m_keys[layer].data(); }
    std::byte* values(std::uint32_t layer) const { return m_values[layer].data(); }
    // Elements from the layer's start to the row (head_dim) of a KV head in a slot.
    std::uint64_t offset(std::uint64_t slot, std::uint32_t kv_head) const {
        const std::uint64_t block = slot / m_shape.block_size;
        return ((block * m_shape.kv_heads + kv_head) * m_shape.block_size + slot % m_shape.block_size) * m_shape.head_dim;
    }
    // The same for positions first .. first + count - 1 of a sequence with this block table.
    void offsets(const std::uint32_t* table, std::uint32_t kv_head, std::uint32_t first, std::uint32_t count,
                 std::uint64_t* out) const;

    void copy_block(std::uint32_t from, std::uint32_t to, std::uint32_t tokens);
    void poison_block(std::uint32_t block);

private:
    CpuKvCache() = default;
    KvCacheShape m_shape;
    std::uint64_t m_bytes = 0;
    std::vector<AlignedBytes> m_keys, m_values;
};

}  // namespace kvloupe::cpu
