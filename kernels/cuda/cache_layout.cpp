// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/cache_layout.h"

#include "kernels/backend_checks.h"

#include <algorithm>

namespace kvloupe::cuda {

namespace {

constexpr std::uint64_t alignment = 256;

// Adds up parts of an allocation; false once they are more than 2^64 bytes.
class Sum {
public:
    // Where a part of count * stride bytes begins.
    std::uint64_t take(std::uint64_t count, std::uint64_t stride) {
        const std::uint64_t begin = m_bytes;
        std::uint64_t bytes = 0;
        m_fits = m_fits && !__builtin_mul_overflow(count, stride, &bytes) && bytes <= UINT64_MAX - alignment &&
                 !__builtin_add_overflow(m_bytes, (bytes + alignment - 1) / alignment * alignment, &m_bytes);
        return begin;
    }
    std::uint64_t bytes() const { return m_bytes; }
    bool fits() const { return m_fits && m_bytes <= UINT64_MAX >> 1; }

private:
    std::uint64_t m_bytes = 0;
    bool m_fits = true;
};

// One run of that many bytes, however many of the block's tokens are copied: scales of one group that has all tokens.
CopyPart whole_part(std::uint64_t bytes, CopyPart::Lies card, CopyPart::Lies host) {
    CopyPart part;
    part.lies[0] = card;
    part.lies[1] = host;
    part.rows = 1;
    part.row_bytes = part.group_bytes = static_cast<std::uint32_t>(bytes);
    part.group = UINT32_MAX >> 1;
    return part;
}

bool alike(const PlaneLayout& a, const PlaneLayout& b) {
    return a.begin == b.begin && a.plane.format == b.plane.format && a.plane.heads == b.plane.heads && a.plane.head_dim == b.plane.head_dim;
}

}  // namespace

Result<CacheLayout> CacheLayout::of(const KvCacheShape& shape) {
    if (auto checked = check_shape(shape, "A card"); !checked) return checked.error();
    const Error too_large{"A KV cache of " + text_of(shape) + " is larger than any memory", "Use fewer blocks"};
    CacheLayout layout;
    layout.m_shape = shape;
    std::uint32_t places = 0;
    for (const KvLayerShape& layer : shape.layers) {
        const auto keys = layer.key_plane(shape.block_size), values = layer.value_plane(shape.block_size);
        if (!keys) return keys.error();
        if (!values) return values.error();
        // Rows of a block are counted in 32 bits by the kernels, whatever the place.
        if (keys->row_block_bytes > UINT32_MAX || values->row_block_bytes > UINT32_MAX) return too_large;
        layout.m_keys.push_back({*keys, 0, 0, 0, 0, 0, 0});
        layout.m_values.push_back({*values, 0, 0, 0, 0, 0, 0});
        places = std::max(places, layer.place + 1);
    }
    Sum sum, host;
    bool in_words = true;  // a block's bytes are counted in 32 bits
    const auto lay_out = [&](std::vector<PlaneLayout>& planes, std::uint32_t place) {
        std::uint64_t stride = 0, page_stride = 0;
        const auto each = [&](auto&& use) {
            for (std::size_t i = 0; i < planes.size(); ++i)
                if (shape.layers[i].place == place) use(planes[i]);
        };
        each([&](const PlaneLayout& of) {
            stride = std::max(stride, of.plane.block_bytes);
            page_stride = std::max(page_stride, of.plane.residual_page_bytes);
        });
        in_words = in_words && stride <= UINT32_MAX && page_stride <= UINT32_MAX;
        const std::uint64_t begin = sum.take(shape.blocks, stride), pages = sum.take(shape.residual_pages, page_stride);
        const std::uint64_t host_begin = host.take(1, (stride + 15) / 16 * 16);
        each([&](PlaneLayout& of) {
            of.begin = begin;
            of.block_stride = stride;
            of.pages = pages;
            of.page_stride = page_stride;
            of.host_begin = host_begin;
        });
        layout.m_block_bytes += stride;
    };
    for (std::uint32_t place = 0; place < places && sum.fits(); ++place) {
        lay_out(layout.m_keys, place);
        lay_out(layout.m_values, place);
    }
    std::uint64_t fixed = 0;
    for (std::size_t i = 0; i < shape.layers.size(); ++i)
        for (PlaneLayout* of : {&layout.m_keys[i], &layout.m_values[i]}) {
            of->fixed = fixed;
            fixed += of->plane.fixed_bytes;
        }
    layout.m_fixed_begin = sum.take(1, fixed);
    layout.m_fixed_bytes = fixed;
    if (!sum.fits() || !host.fits() || !in_words) return too_large;
    for (std::size_t i = 0; i < shape.layers.size(); ++i) {
        layout.m_keys[i].fixed += layout.m_fixed_begin;
        layout.m_values[i].fixed += layout.m_fixed_begin;
    }
    layout.m_bytes = sum.bytes();
    layout.m_host_block_bytes = host.bytes();
    for (std::uint32_t i = 0; i < shape.layers.size(); ++i) layout.add_parts(i);
    return layout;
}

void CacheLayout::add_parts(std::uint32_t layer) {
    for (const auto* planes : {&m_keys, &m_values}) {
        const PlaneLayout& of = (*planes)[layer];
        bool mixed = false, known = false;  // other layouts in its place; copied with a layer before it
        for (std::uint32_t i = 0; i < planes->size(); ++i) {
            if (m_shape.layers[i].place != m_shape.layers[layer].place) continue;
            mixed = mixed || !alike((*planes)[i], of);
            known = known || i < layer;
        }
        if (known) continue;
        const KvPlane& plane = of.plane;
        if (mixed) {  // which of the layouts a block has is not known here: it is copied as a whole
            m_block_parts.push_back(whole_part(of.block_stride, {of.begin, of.block_stride}, {of.host_begin, m_host_block_bytes}));
            if (of.page_stride > 0) m_page_parts.push_back(whole_part(of.page_stride, {of.pages, of.page_stride}, {of.pages, of.page_stride}));
            continue;
        }
        CopyPart part;
        part.lies[0] = {of.begin, of.block_stride};
        part.lies[1] = {of.host_begin, m_host_block_bytes};
        part.rows = plane.rows();
        part.row_bytes = static_cast<std::uint32_t>(plane.row_block_bytes);
        part.code_bytes = static_cast<std::uint32_t>(plane.code_bytes);
        part.scale_begin = static_cast<std::uint32_t>(plane.scale_begin);
        part.scale_bytes = static_cast<std::uint32_t>(plane.scale_bytes);
        if (plane.group_scale_bytes > 0) {
            part.group = plane.format.group;
            part.group_bytes = static_cast<std::uint32_t>(plane.group_scale_bytes / (plane.block_size / plane.format.group));
        }
        m_block_parts.push_back(part);
        if (!plane.format.keeps_residual()) continue;
        CopyPart page;
        page.lies[0] = page.lies[1] = {of.pages, of.page_stride};
        page.rows = plane.heads;
        page.code_bytes = plane.head_dim * 2;
        page.row_bytes = page.code_bytes * plane.block_size;
        m_page_parts.push_back(page);
    }
}

CacheTensor CacheLayout::tensor(const PlaneLayout& of, const PlaneLayout& scaled_by, std::byte* start) const {
    const KvPlane& plane = of.plane;
    CacheTensor tensor;
    tensor.data = start + of.begin;
    tensor.dtype = plane.format.dtype;
    tensor.rotate = plane.format.rotate;
    tensor.scale = plane.format.scale;
    tensor.in_rows = is_float(tensor.dtype) && !tensor.rotate && of.block_stride == plane.block_bytes;
    tensor.heads_per_row = plane.heads_per_row;
    tensor.group = plane.format.group;
    tensor.code_bytes = static_cast<std::uint32_t>(plane.code_bytes);
    tensor.block_stride = of.block_stride;
    tensor.row_stride = static_cast<std::uint32_t>(plane.row_block_bytes);
    if (plane.fixed_bytes > 0) {
        tensor.scales = start + of.fixed;
        tensor.scale_row_stride = plane.format.scale == KvScale::head ? sizeof(float) : 0;
    } else {
        const KvPlane& scales = scaled_by.plane;
        tensor.scales = start + scaled_by.begin + scales.scale_begin;
        tensor.scale_block_stride = scaled_by.block_stride;
        tensor.scale_row_stride = static_cast<std::uint32_t>(scales.row_block_bytes);
        tensor.scale_stride = static_cast<std::uint32_t>(scales.scale_bytes);
    }
    if (plane.format.keeps_residual()) {
        tensor.pages = start + of.pages;
        tensor.page_stride = of.page_stride;
    }
    return tensor;
}

CacheLayer CacheLayout::layer(std::uint32_t layer, std::byte* start) const {
    const PlaneLayout &keys = m_keys[layer], &values = m_values[layer];
    CacheLayer view;
    view.keys = tensor(keys, keys, start);
    view.values = tensor(values, values.plane.format.scale == KvScale::joint ? keys : values, start);
    view.block_size = m_shape.block_size;
    view.kv_heads = keys.plane.heads;
    view.head_dim_k = keys.plane.head_dim;
    view.head_dim_v = values.plane.head_dim;
    return view;
}

std::uint64_t CacheLayout::blocks_in(std::uint64_t bytes) const {
    // Pages and scales stay; every part may be rounded up.
    const std::uint64_t rounding = 4 * alignment * m_keys.size();
    std::uint64_t beside = rounding + m_fixed_bytes;
    for (const auto* planes : {&m_keys, &m_values})
        for (std::size_t i = 0; i < planes->size(); ++i) {
            const bool first = std::none_of(planes->begin(), planes->begin() + static_cast<std::ptrdiff_t>(i),
                                            [&](const PlaneLayout& other) { return other.begin == (*planes)[i].begin; });
            if (first) beside += (*planes)[i].page_stride * m_shape.residual_pages;
        }
    return bytes <= beside ? 0 : std::min<std::uint64_t>((bytes - beside) / m_block_bytes, m_shape.blocks);
}

}  // namespace kvloupe::cuda
