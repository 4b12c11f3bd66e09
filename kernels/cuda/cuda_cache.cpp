// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/cuda_cache.h"

#include "kernels/backend_checks.h"

#include <algorithm>

namespace kvloupe::cuda {

Result<std::unique_ptr<KvCache>> CudaKvCache::make(Card& card, OverflowCounters& counters, const KvCacheShape& shape, Purpose purpose) {
    auto layout = CacheLayout::of(shape);
    if (!layout) return layout.error();
    auto memory = CardMemory::make(card, layout->bytes(), purpose, "a KV cache of " + text_of(shape));
    if (!memory) {
        if (card.fault().lost()) return memory.error();
        // What the driver itself takes by the way (its pages are of 2 MiB) is left to it.
        constexpr std::uint64_t page = std::uint64_t{2} << 20;
        const std::uint64_t most = layout->blocks_in(card.room().free / page * page);
        return Error{memory.error().sentence + "; " +
                         (most > 1 ? "the largest pool that fits has " + std::to_string(most) + " blocks" : "not even a small pool fits"),
                     most > 1 ? "Set \"blocks\" to at most " + std::to_string(most) + ", or use a smaller precision or model"
                              : "Use a smaller model, close what else uses the card, or choose the device 'cpu'"};
    }
    const auto counter = counters.take();
    if (!counter) return counter.error();
    std::unique_ptr<CudaKvCache> cache(new CudaKvCache(card, counters, *counter));
    cache->m_shape = shape;
    cache->m_layout = std::move(*layout);
    cache->m_memory = std::move(*memory);
    if (auto prepared = cache->prepare(); !prepared) return prepared.error();
    return std::unique_ptr<KvCache>(std::move(cache));
}

Result<void> CudaKvCache::prepare() {
    std::vector<CopyPart> parts = m_layout.block_parts();
    parts.insert(parts.end(), m_layout.page_parts().begin(), m_layout.page_parts().end());
    auto memory = CardMemory::make(m_card, parts.size() * sizeof(CopyPart), Purpose::activations, "the layout of a KV cache");
    if (!memory) return memory.error();
    m_parts = std::move(*memory);
    // Scales per tensor are 1, as where a checkpoint has none; per head 0, until the first step that writes.
    std::vector<float> fixed(m_layout.fixed_bytes() / sizeof(float), 0.0f);
    for (std::uint32_t i = 0; i < m_shape.layers.size(); ++i) {
        bool due = false;
        for (const PlaneLayout* of : {&m_layout.keys(i), &m_layout.values(i)}) {
            if (of->plane.format.scale == KvScale::tensor) fixed[(of->fixed - m_layout.fixed_begin()) / sizeof(float)] = 1;
            due = due || of->plane.format.scale == KvScale::head;
        }
        m_scales_due.push_back(due);
    }
    DeviceFault& fault = m_card.fault();
    const char* what = "the set-up of a KV cache";
    fault.note(cudaMemcpyAsync(m_parts.data(), parts.data(), m_parts.bytes(), cudaMemcpyHostToDevice, m_card.stream), what);
    if (!fixed.empty())
        fault.note(cudaMemcpyAsync(m_memory.data() + m_layout.fixed_begin(), fixed.data(), m_layout.fixed_bytes(), cudaMemcpyHostToDevice,
                                   m_card.stream), what);
    fault.note(cudaStreamSynchronize(m_card.stream), what);
    return fault.result();
}

CudaKvCache::~CudaKvCache() {
    m_card.forget_passes();
    m_counters.give_back(m_counter);
}

BlockCopy CudaKvCache::copy_of(const std::vector<CopyPart>& parts, std::size_t first, std::uint32_t tokens) const {
    BlockCopy copy;
    copy.parts = m_parts.as<const CopyPart>() + first;
    copy.count = static_cast<std::uint32_t>(parts.size());
    copy.tokens = std::min(tokens, m_shape.block_size);
    for (const CopyPart& part : parts) {
        copy.most_rows = std::max(copy.most_rows, part.rows);
        copy.longest_run = std::max({copy.longest_run, std::uint64_t{copy.tokens} * part.code_bytes, std::uint64_t{part.group_bytes}});
    }
    return copy;
}

cudaError_t CudaKvCache::poison_block(std::uint32_t block, cudaStream_t stream) const {
    for (const CopyPart& part : m_layout.block_parts()) {
        const CopyPart::Lies& lies = part.lies[0];
        const cudaError_t error = cudaMemsetAsync(m_memory.data() + lies.begin + block * lies.block_stride, 0xFF,
                                                  std::uint64_t{part.rows} * part.row_bytes, stream);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

cudaError_t CudaKvCache::poison_page(std::uint32_t page, cudaStream_t stream) const {
    for (const CopyPart& part : m_layout.page_parts()) {
        const CopyPart::Lies& lies = part.lies[0];
        const cudaError_t error = cudaMemsetAsync(m_memory.data() + lies.begin + page * lies.block_stride, 0xFF,
                                                  std::uint64_t{part.rows} * part.row_bytes, stream);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

std::uint64_t CudaKvCache::page_bytes() const {
    std::uint64_t bytes = 0;
    for (const CopyPart& part : m_layout.page_parts()) bytes += std::uint64_t{part.rows} * part.row_bytes;
    return bytes;
}

cudaError_t CudaKvCache::save_page(std::uint32_t page, std::byte* to, cudaStream_t stream) const {
    for (const CopyPart& part : m_layout.page_parts()) {
        const std::uint64_t bytes = std::uint64_t{part.rows} * part.row_bytes;
        const std::byte* const from = m_memory.data() + part.lies[0].begin + page * part.lies[0].block_stride;
        if (const cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream); error != cudaSuccess) return error;
        to += bytes;
    }
    return cudaSuccess;
}

cudaError_t CudaKvCache::restore_page(std::uint32_t page, const std::byte* from, cudaStream_t stream) const {
    for (const CopyPart& part : m_layout.page_parts()) {
        const std::uint64_t bytes = std::uint64_t{part.rows} * part.row_bytes;
        std::byte* const to = m_memory.data() + part.lies[0].begin + page * part.lies[0].block_stride;
        if (const cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream); error != cudaSuccess) return error;
        from += bytes;
    }
    return cudaSuccess;
}

bool CudaKvCache::takes_scales(std::uint32_t layer) {
    const bool due = m_scales_due[layer];
    m_scales_due[layer] = false;
    return due;
}

Result<std::unique_ptr<HostBlocks>> CudaHostBlocks::make(Card& card, const CudaKvCache& cache, std::uint32_t count) {
    std::unique_ptr<CudaHostBlocks> host(new CudaHostBlocks);
    host->m_count = count;
    host->m_block_bytes = cache.layout().host_block_bytes();
    std::uint64_t bytes = cache.layout().host_block_bytes();
    if (__builtin_mul_overflow(bytes, std::uint64_t{count}, &bytes))
        return Error{std::to_string(count) + " host blocks for a KV cache of " + text_of(cache.shape()) + " are larger than any memory",
                     "Use fewer host blocks"};
    auto memory = PinnedMemory::make(card, bytes, true, std::to_string(count) + " host blocks");
    if (!memory) return memory.error();
    host->m_memory = std::move(*memory);
    return std::unique_ptr<HostBlocks>(std::move(host));
}

}  // namespace kvloupe::cuda
