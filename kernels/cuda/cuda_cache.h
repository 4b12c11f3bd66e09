// SPDX-License-Identifier: GPL-3.0-or-later
//
// The KV cache in a card's memory: one allocation, laid out by cache_layout.h. And the main memory that its blocks are swapped to:
// pinned, so that the kernel that copies blocks reaches both.
#pragma once

#include "kernels/cuda/cache_layout.h"
#include "kernels/cuda/card_memory.h"
#include "kernels/cuda/overflow_counters.h"

namespace kvloupe::cuda {

class CudaKvCache final : public KvCache {
public:
    // Errors: those of the layout; not enough memory, with the largest number of blocks that fits.
    static Result<std::unique_ptr<KvCache>> make(Card& card, OverflowCounters& counters, const KvCacheShape& shape, Purpose purpose);
    ~CudaKvCache() override;

    const KvCacheShape& shape() const override { return m_shape; }
    std::uint64_t bytes() const override { return m_memory.bytes(); }
    std::uint64_t overflowed_values() const override { return m_counters.value(m_counter); }

    CacheLayer layer(std::uint32_t layer) const { return m_layout.layer(layer, m_memory.data()); }
    unsigned long long* overflowed() const { return m_counters.device(m_counter); }
    const CacheLayout& layout() const { return m_layout; }
    BlockCopy::Place block(std::uint32_t block) const { return {m_memory.data(), 0, block}; }
    // Of the first tokens of blocks, or of f16 pages, without the places.
    BlockCopy copy(std::uint32_t tokens) const { return copy_of(m_layout.block_parts(), 0, tokens); }
    BlockCopy page_copy(std::uint32_t tokens) const { return copy_of(m_layout.page_parts(), m_layout.block_parts().size(), tokens); }
    // All bits of a block, or of a page, set: NaN in every float and in every scale; of integer codes it is the scale that shows.
    cudaError_t poison_block(std::uint32_t block, cudaStream_t stream) const;
    cudaError_t poison_page(std::uint32_t page, cudaStream_t stream) const;
    // A page of all layers, part by part, to main memory and back.
    std::uint64_t page_bytes() const;
    cudaError_t save_page(std::uint32_t page, std::byte* to, cudaStream_t stream) const;
    cudaError_t restore_page(std::uint32_t page, const std::byte* from, cudaStream_t stream) const;
    // Whether this is the first write to a layer whose scales are taken from it. Only the first call says so.
    bool takes_scales(std::uint32_t layer);

private:
    CudaKvCache(Card& card, OverflowCounters& counters, std::uint32_t counter) : m_card(card), m_counters(counters), m_counter(counter) {}
    // Copies the parts up and sets scales; waits.
    Result<void> prepare();
    BlockCopy copy_of(const std::vector<CopyPart>& parts, std::size_t first, std::uint32_t tokens) const;

    Card& m_card;
    OverflowCounters& m_counters;
    std::uint32_t m_counter;
    KvCacheShape m_shape;
    CacheLayout m_layout;
    CardMemory m_memory;
    CardMemory m_parts;               // CopyPart: of blocks, then of pages
    std::vector<bool> m_scales_due;   // (layers) scales per head were not taken yet
};

// (count) host blocks, laid out by CacheLayout.
class CudaHostBlocks final : public HostBlocks {
public:
    // Errors: not enough main memory.
    static Result<std::unique_ptr<HostBlocks>> make(Card& card, const CudaKvCache& cache, std::uint32_t count);

    std::uint32_t count() const override { return m_count; }
    std::uint64_t bytes() const override { return m_memory.bytes(); }
    std::span<std::byte> contents(std::uint32_t block) const override { return {m_memory.data() + block * m_block_bytes, m_block_bytes}; }
    BlockCopy::Place block(std::uint32_t block) const { return {m_memory.device(), 1, block}; }

private:
    CudaHostBlocks() = default;
    std::uint64_t m_block_bytes = 0;
    std::uint32_t m_count = 0;
    PinnedMemory m_memory;
};

}  // namespace kvloupe::cuda
