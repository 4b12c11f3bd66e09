// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/card_cache.h"

namespace kvloupe::cuda {

void CardCache::store(const Rows& rows, const RotaryShape& rotary, CudaKvCache& cache, std::uint32_t layer) {
    RotaryStore args;
    args.q = rows.q;
    args.k = rows.k;
    args.v = rows.v;
    args.positions = m_batch.positions();
    args.slots = m_batch.slots(rows.group);
    args.slot_pages = m_batch.slot_pages(rows.group);
    args.overflowed = cache.overflowed();
    args.rows = m_batch.key().rows;
    args.query_heads = rows.query_heads;
    args.rotary = m_attention.rotary(rotary);
    args.cache = cache.layer(layer);
    DeviceFault& fault = m_card.fault();
    if (!fault.good() || args.rows == 0) return;
    if (cache.takes_scales(layer)) {
        if (!fault.note(take_head_scales(args, m_card.stream), "the scales of a cache")) return;
        args.rotary.rotary_dim = 0;  // they have been turned
    }
    fault.note(rotary_store(args, m_card.stream), "the cache write");
}

void CardCache::load(const CudaKvCache& cache, const Positions& positions, float* keys, float* values) {
    const Batch::Sequence& sequence = m_batch.host_sequences()[positions.sequence];
    const std::uint64_t table = sequence.table_begin + std::uint64_t{positions.group} * sequence.table_size;
    ReadRows args;
    args.cache = cache.layer(positions.layer);
    args.table = m_batch.block_tables() + table;
    args.table_pages = m_batch.table_pages() == nullptr ? nullptr : m_batch.table_pages() + table;
    args.first = positions.first;
    args.count = positions.count;
    for (const bool of_values : {false, true}) {
        args.values = of_values;
        args.out = of_values ? values : keys;
        args.head_stride = of_values ? args.cache.head_dim_v : args.cache.head_dim_k;
        if (args.head_stride == 0) continue;  // a latent alone
        args.token_stride = args.head_stride * args.cache.kv_heads;
        m_card.fault().note(read_rows(args, m_card.stream), "expanding rows of the cache");
    }
}

Result<void> CardCache::read(const CudaKvCache& cache, const Slots& slots, std::span<float> keys, std::span<float> values) {
    const KvCacheShape& shape = cache.shape();
    if (slots.layer >= shape.layers.size() || slots.block >= shape.blocks || slots.page > shape.residual_pages || slots.tokens > shape.block_size)
        return Error{"A KV cache of " + std::to_string(shape.blocks) + " blocks has no block " + std::to_string(slots.block) + " of " +
                         std::to_string(slots.tokens) + " tokens in layer " + std::to_string(slots.layer), "This is a defect of the program"};
    ReadRows args;
    args.cache = cache.layer(slots.layer);
    args.count = slots.tokens;
    constexpr std::uint64_t table_bytes = 256;  // the block and its page, before the rows
    DeviceFault& fault = m_card.fault();
    const char* what = "reading a block";
    for (const bool of_values : {false, true}) {
        const std::uint32_t dim = of_values ? args.cache.head_dim_v : args.cache.head_dim_k;
        const std::span<float> to = of_values ? values : keys;
        const std::uint64_t count = std::uint64_t{slots.tokens} * args.cache.kv_heads * dim;
        if (to.size() < count)
            return Error{std::to_string(count) + " values of a block were asked for with room for " + std::to_string(to.size()),
                         "This is a defect of the program"};
        if (count == 0) continue;
        std::byte* const memory = m_rows.take(table_bytes + count * sizeof(float));
        if (memory == nullptr) return fault.result();
        const std::uint32_t table[2] = {slots.block, slots.page};
        fault.note(cudaMemcpyAsync(memory, table, sizeof table, cudaMemcpyHostToDevice, m_card.stream), what);
        args.values = of_values;
        args.table = reinterpret_cast<const std::uint32_t*>(memory);
        args.table_pages = args.table + 1;
        args.out = reinterpret_cast<float*>(memory + table_bytes);
        args.head_stride = std::uint64_t{slots.tokens} * dim;
        args.token_stride = dim;
        if (fault.note(read_rows(args, m_card.stream), what) &&
            fault.note(cudaMemcpyAsync(to.data(), args.out, count * sizeof(float), cudaMemcpyDeviceToHost, m_card.stream), what))
            fault.note(cudaStreamSynchronize(m_card.stream), what);
        if (!fault.good()) return fault.result();
    }
    return {};
}

void CardCache::copy(const CudaKvCache& cache, const BlockCopy::Place& from, const BlockCopy::Place& to, std::uint32_t tokens) {
    if (tokens == 0 || !m_card.ready()) return;
    BlockCopy copy = cache.copy(tokens);
    copy.from = from;
    copy.to = to;
    m_card.fault().note(copy_block(copy, m_card.stream), "the copy of a block");
}

void CardCache::copy_page(const CudaKvCache& cache, std::uint32_t from, std::uint32_t to, std::uint32_t tokens) {
    if (tokens == 0 || from == to || !m_card.ready()) return;
    BlockCopy copy = cache.page_copy(tokens);
    copy.from = cache.block(from);
    copy.to = cache.block(to);
    m_card.fault().note(copy_block(copy, m_card.stream), "the copy of a page");
}

void CardCache::seal(const CudaKvCache& cache, std::uint32_t block, std::uint32_t page) {
    if (!m_card.ready()) return;
    const char* what = "quantising a block";
    for (std::uint32_t layer = 0; layer < cache.shape().layers.size(); ++layer) {
        const CacheLayer of = cache.layer(layer);
        for (const bool keys : {true, false}) {
            const CacheTensor& tensor = keys ? of.keys : of.values;
            if (tensor.scale != KvScale::channel) continue;
            const Seal seal{tensor, keys, block, page, of.block_size, of.kv_heads, keys ? of.head_dim_k : of.head_dim_v};
            if (!m_card.fault().note(seal_block(seal, m_card.stream), what)) return;
        }
    }
    // Whoever still reads the page sees that.
    m_card.fault().note(cache.poison_page(page, m_card.stream), what);
}

void CardCache::poison(const CudaKvCache& cache, std::uint32_t block) {
    if (m_card.ready()) m_card.fault().note(cache.poison_block(block, m_card.stream), "poisoning a block");
}

}  // namespace kvloupe::cuda
