// SPDX-License-Identifier: GPL-3.0-or-later
//
// The KV cache in a card's memory: one allocation for all layers, laid out (layers, K then V), each of them
// (blocks, kv_heads, block_size, head_dim) and beginning at a multiple of 256 bytes. And the main memory that its blocks are
// swapped to: pinned, so that the kernel that copies blocks reaches both.
#pragma once

#include "kernels/cuda/card_memory.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/overflow_counters.h"

namespace kvloupe::cuda {

// Bytes of one cache's parts. What is checked here cannot overflow later.
struct CacheLayout {
    std::uint64_t key_bytes = 0, value_bytes = 0;              // of one layer, rounded up to 256
    std::uint64_t block_key_bytes = 0, block_value_bytes = 0;  // of one block of one layer
    std::uint64_t layer_bytes() const { return key_bytes + value_bytes; }

    // Errors: a shape with a zero, a precision that is not a float, more bytes than any memory has.
    static Result<CacheLayout> of(const KvCacheShape& shape);
};

class CudaKvCache final : public KvCache {
public:
    // Errors: those of the layout; not enough memory, with the largest number of blocks that fits.
    static Result<std::unique_ptr<KvCache>> make(Card& card, OverflowCounters& counters, const KvCacheShape& shape, Purpose purpose);
    ~CudaKvCache() override;

    const KvCacheShape& shape() const override { return m_shape; }
    std::uint64_t bytes() const override { return m_memory.bytes(); }
    std::uint64_t overflowed_values() const override { return m_counters.value(m_counter); }

    CacheLayer layer(std::uint32_t layer) const;
    unsigned long long* overflowed() const { return m_counters.device(m_counter); }
    BlockCopy::Place block(std::uint32_t block) const;
    // Between places of this cache or of its host blocks: what is the same for every copy.
    BlockCopy copy(std::uint32_t tokens) const;
    const CacheLayout& layout() const { return m_layout; }
    std::byte* keys_of(std::uint32_t block, std::uint32_t layer) const;
    std::byte* values_of(std::uint32_t block, std::uint32_t layer) const { return keys_of(0, layer) + m_layout.key_bytes + block * m_layout.block_value_bytes; }

private:
    CudaKvCache(Card& card, OverflowCounters& counters, std::uint32_t counter) : m_card(card), m_counters(counters), m_counter(counter) {}
    Card& m_card;
    OverflowCounters& m_counters;
    std::uint32_t m_counter;
    KvCacheShape m_shape;
    CacheLayout m_layout;
    CardMemory m_memory;
};

// (count, layers, K then V), each K or V a whole block of a layer.
class CudaHostBlocks final : public HostBlocks {
public:
    // Errors: not enough main memory.
    static Result<std::unique_ptr<HostBlocks>> make(Card& card, const CudaKvCache& cache, std::uint32_t count);

    std::uint32_t count() const override { return m_count; }
    std::uint64_t bytes() const override { return m_memory.bytes(); }
    BlockCopy::Place block(std::uint32_t block) const;

private:
    CudaHostBlocks() = default;
    std::uint32_t m_count = 0;
    std::uint32_t m_layers = 0;
    std::uint64_t m_key_bytes = 0, m_value_bytes = 0;  // of one block of one layer, rounded up to 16
    PinnedMemory m_memory;
};

}  // namespace kvloupe::cuda
