// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_cache.h"

#include "kernels/backend_checks.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace kvloupe::cpu {

namespace {

bool multiply(std::uint64_t& product, std::uint64_t factor) { return !__builtin_mul_overflow(product, factor, &product); }

// NaN in f32, f16, bf16, both fp8 and in every scale.
constexpr int nan_byte = 0xFF;

Error too_large(const KvCacheShape& shape) {
    return {"A KV cache of " + text_of(shape) + " is larger than any memory", "Use fewer blocks"};
}

// The first `tokens` slots of one block.
void copy_slots(const KvPlane& plane, const std::byte* from, std::byte* to, std::uint32_t tokens) {
    if (tokens == 0 || plane.block_bytes == 0) return;
    if (tokens >= plane.block_size) {
        std::memcpy(to, from, plane.block_bytes);
        return;
    }
    const std::uint64_t scales = plane.scale_begin;
    const std::uint64_t groups = plane.group_scale_bytes == 0 ? 0 : (tokens + plane.format.group - 1) / plane.format.group;
    const std::uint64_t group_bytes =
        plane.group_scale_bytes == 0 ? 0 : plane.group_scale_bytes / (plane.block_size / plane.format.group);
    for (std::uint32_t row = 0; row < plane.rows(); ++row) {
        const std::uint64_t at = row * plane.row_block_bytes;
        std::memcpy(to + at, from + at, tokens * plane.code_bytes);
        std::memcpy(to + at + scales, from + at + scales, tokens * plane.scale_bytes + groups * group_bytes);
    }
}

std::uint32_t places_of(const KvCacheShape& shape) {
    std::uint32_t places = 0;
    for (const KvLayerShape& layer : shape.layers) places = std::max(places, layer.place + 1);
    return places;
}

}  // namespace

std::uint64_t BlockStrides::block_bytes() const {
    std::uint64_t bytes = 0;
    for (std::size_t place = 0; place < keys.size(); ++place) bytes += keys[place] + values[place];
    return bytes;
}

Result<BlockStrides> strides_of(const KvCacheShape& shape) {
    BlockStrides strides;
    const std::uint32_t places = places_of(shape);
    for (auto* list : {&strides.keys, &strides.values, &strides.key_pages, &strides.value_pages}) list->assign(places, 0);
    for (const KvLayerShape& layer : shape.layers) {
        auto keys = layer.key_plane(shape.block_size);
        if (!keys) return keys.error();
        auto values = layer.value_plane(shape.block_size);
        if (!values) return values.error();
        strides.keys[layer.place] = std::max(strides.keys[layer.place], keys->block_bytes);
        strides.values[layer.place] = std::max(strides.values[layer.place], values->block_bytes);
        strides.key_pages[layer.place] = std::max(strides.key_pages[layer.place], keys->residual_page_bytes);
        strides.value_pages[layer.place] = std::max(strides.value_pages[layer.place], values->residual_page_bytes);
    }
    return strides;
}

Result<std::unique_ptr<KvCache>> CpuKvCache::make(const KvCacheShape& shape, Purpose purpose, Counters& counters) {
    if (auto checked = check_shape(shape, "The CPU"); !checked) return checked.error();
    auto strides = strides_of(shape);
    if (!strides) return strides.error();
    std::uint64_t bytes = strides->block_bytes();
    if (bytes > (UINT64_MAX >> 4) || !multiply(bytes, shape.blocks) || bytes > (UINT64_MAX >> 4)) return too_large(shape);
    std::unique_ptr<CpuKvCache> cache(new CpuKvCache);
    cache->m_shape = shape;
    if (auto allocated = cache->allocate(*strides, purpose, counters); !allocated) return allocated.error();
    cache->place_layers(*strides);
    for (std::uint32_t page = 0; page < shape.residual_pages; ++page) cache->poison_page(page);
    return std::unique_ptr<KvCache>(std::move(cache));
}

Result<std::byte*> CpuKvCache::take(std::uint64_t bytes, Purpose purpose, Counters& counters) {
    if (bytes == 0) return nullptr;
    auto memory = AlignedBytes::make(bytes, counters.of(purpose), "the KV cache");
    if (!memory) return memory.error();
    m_bytes += memory->size();
    m_memory.push_back(std::move(*memory));
    return m_memory.back().data();
}

// What was taken before an error is given back with the cache.
Result<void> CpuKvCache::allocate(const BlockStrides& strides, Purpose purpose, Counters& counters) {
    std::uint64_t fixed = 0;
    for (const KvLayerShape& layer : m_shape.layers)
        fixed += layer.key_plane(m_shape.block_size)->fixed_bytes + layer.value_plane(m_shape.block_size)->fixed_bytes;
    const auto take_all = [&](const std::vector<std::uint64_t>& of, std::uint64_t count, std::vector<std::byte*>& to) -> Result<void> {
        for (const std::uint64_t stride : of) {
            auto memory = take(stride * count, purpose, counters);
            if (!memory) return memory.error();
            to.push_back(*memory);
        }
        return {};
    };
    if (auto taken = take_all(strides.keys, m_shape.blocks, m_key_blocks); !taken) return taken;
    if (auto taken = take_all(strides.values, m_shape.blocks, m_value_blocks); !taken) return taken;
    if (auto taken = take_all(strides.key_pages, m_shape.residual_pages, m_key_pages); !taken) return taken;
    if (auto taken = take_all(strides.value_pages, m_shape.residual_pages, m_value_pages); !taken) return taken;
    auto scales = take(fixed, purpose, counters);
    if (!scales) return scales.error();
    if (*scales != nullptr) std::memset(*scales, 0, fixed);
    m_fixed = reinterpret_cast<float*>(*scales);
    return {};
}

void CpuKvCache::place_layers(const BlockStrides& strides) {
    float* fixed = m_fixed;
    const auto place = [&](const KvPlane& plane, std::byte* blocks, std::uint64_t stride, std::byte* pages,
                           std::uint64_t page_stride) {
        CpuPlane placed{plane, blocks, stride, pages, page_stride, plane.fixed_bytes > 0 ? fixed : nullptr};
        fixed += plane.fixed_bytes / sizeof(float);
        if (plane.format.scale == KvScale::tensor) *placed.fixed = 1;  // as where a checkpoint has none
        return placed;
    };
    std::vector<std::vector<std::uint32_t>> laid(strides.keys.size());  // (places) layers that m_laid names
    const auto alike = [](const CpuPlane& a, const CpuPlane& b) {
        return a.plane.format == b.plane.format && a.plane.heads == b.plane.heads && a.plane.head_dim == b.plane.head_dim;
    };
    for (std::uint32_t layer = 0; layer < m_shape.layers.size(); ++layer) {
        const KvLayerShape& of = m_shape.layers[layer];
        const std::uint32_t p = of.place;
        const KvPlane keys = *of.key_plane(m_shape.block_size), values = *of.value_plane(m_shape.block_size);
        m_keys.push_back(place(keys, m_key_blocks[p], strides.keys[p], m_key_pages[p], strides.key_pages[p]));
        m_values.push_back(place(values, m_value_blocks[p], strides.values[p], m_value_pages[p], strides.value_pages[p]));
        bool known = false;
        for (const std::uint32_t other : laid[p])
            known = known || (alike(m_keys[other], m_keys[layer]) && alike(m_values[other], m_values[layer]));
        if (known) continue;
        laid[p].push_back(layer);
        m_laid.push_back({layer, p});
    }
}

std::vector<std::uint32_t> CpuKvCache::laid_layers() const {
    std::vector<std::uint32_t> layers;
    for (const Laid& laid : m_laid) layers.push_back(laid.layer);
    return layers;
}

void CpuKvCache::copy_block(std::uint32_t from, std::uint32_t to, std::uint32_t tokens) {
    if (from == to) return;
    for (const Laid& laid : m_laid)
        for (const CpuPlane* of : {&m_keys[laid.layer], &m_values[laid.layer]})
            copy_slots(of->plane, of->block(from), of->block(to), tokens);
}

void CpuKvCache::swap_out(std::uint32_t block, const CpuHostBlocks& host, std::uint32_t host_block, std::uint32_t tokens) const {
    for (const Laid& laid : m_laid) {
        copy_slots(keys(laid.layer).plane, keys(laid.layer).block(block), host.keys(host_block, laid.place), tokens);
        copy_slots(values(laid.layer).plane, values(laid.layer).block(block), host.values(host_block, laid.place), tokens);
    }
}

void CpuKvCache::swap_in(std::uint32_t block, const CpuHostBlocks& host, std::uint32_t host_block, std::uint32_t tokens) {
    for (const Laid& laid : m_laid) {
        copy_slots(keys(laid.layer).plane, host.keys(host_block, laid.place), keys(laid.layer).block(block), tokens);
        copy_slots(values(laid.layer).plane, host.values(host_block, laid.place), values(laid.layer).block(block), tokens);
    }
}

void CpuKvCache::poison_block(std::uint32_t block) {
    for (const Laid& laid : m_laid)
        for (const CpuPlane* of : {&m_keys[laid.layer], &m_values[laid.layer]})
            if (of->stride > 0) std::memset(of->block(block), nan_byte, of->stride);
}

void CpuKvCache::copy_page(std::uint32_t from, std::uint32_t to, std::uint32_t tokens) {
    if (from == to) return;
    for (const Laid& laid : m_laid)
        for (const CpuPlane* of : {&m_keys[laid.layer], &m_values[laid.layer]}) {
            if (!of->plane.format.keeps_residual()) continue;
            for (std::uint32_t head = 0; head < of->plane.heads; ++head)
                std::memcpy(of->page_row(to, head, 0), of->page_row(from, head, 0),
                            std::uint64_t{tokens} * of->plane.head_dim * 2);
        }
}

void CpuKvCache::poison_page(std::uint32_t page) const {
    for (const Laid& laid : m_laid)
        for (const CpuPlane* of : {&m_keys[laid.layer], &m_values[laid.layer]})
            if (of->plane.format.keeps_residual()) std::memset(of->page_row(page, 0, 0), nan_byte, of->page_stride);
}

std::uint64_t CpuKvCache::page_bytes() const {
    std::uint64_t bytes = 0;
    for (const Laid& laid : m_laid)
        for (const CpuPlane* of : {&m_keys[laid.layer], &m_values[laid.layer]})
            if (of->plane.format.keeps_residual()) bytes += of->page_stride;
    return bytes;
}

void CpuKvCache::save_page(std::uint32_t page, std::byte* to) const {
    for (const Laid& laid : m_laid)
        for (const CpuPlane* of : {&m_keys[laid.layer], &m_values[laid.layer]}) {
            if (!of->plane.format.keeps_residual()) continue;
            std::memcpy(to, of->page_row(page, 0, 0), of->page_stride);
            to += of->page_stride;
        }
}

void CpuKvCache::restore_page(std::uint32_t page, const std::byte* from) const {
    for (const Laid& laid : m_laid)
        for (const CpuPlane* of : {&m_keys[laid.layer], &m_values[laid.layer]}) {
            if (!of->plane.format.keeps_residual()) continue;
            std::memcpy(of->page_row(page, 0, 0), from, of->page_stride);
            from += of->page_stride;
        }
}

Result<std::unique_ptr<HostBlocks>> CpuHostBlocks::make(const KvCacheShape& shape, std::uint32_t count, Counters& counters) {
    auto strides = strides_of(shape);
    if (!strides) return strides.error();
    std::unique_ptr<CpuHostBlocks> host(new CpuHostBlocks);
    host->m_count = count;
    for (std::size_t place = 0; place < strides->keys.size(); ++place) {
        host->m_key_begin.push_back(host->m_block_bytes);
        host->m_value_begin.push_back(host->m_block_bytes + strides->keys[place]);
        host->m_block_bytes += strides->keys[place] + strides->values[place];
    }
    std::uint64_t bytes = host->m_block_bytes;
    if (!multiply(bytes, count))
        return Error{std::to_string(count) + " host blocks for a KV cache of " + text_of(shape) + " are larger than any memory",
                     "Use fewer host blocks"};
    auto memory = AlignedBytes::make(bytes, counters.host_blocks, "the host blocks");
    if (!memory) return memory.error();
    host->m_bytes = std::move(*memory);
    return std::unique_ptr<HostBlocks>(std::move(host));
}

}  // namespace kvloupe::cpu
