// SPDX-License-Identifier: GPL-3.0-or-later
//
// One layer of a cache in any precision, in the memory of the emulated device: blocks, pages and scales laid out as KvPlane says,
// all bits set (NaN) until something is put there. As kernels take it, and as kv_values.h reads it.
#pragma once

#include "kernels/cuda/kernels.h"
#include "tests/emulation/device_memory.h"
#include "tests/emulation/kv_values.h"

#include <algorithm>
#include <memory>
#include <random>

namespace kvloupe::test {

struct CodedShape {
    KvFormat keys, values;
    std::uint32_t kv_heads = 2, key_dim = 64, value_dim = 64, block_size = 16, blocks = 1, pages = 0;
};

class CodedCache {
public:
    explicit CodedCache(const CodedShape& shape)
        : m_shape(shape), m_planes{*KvPlane::of(shape.keys, KvPart::keys, shape.kv_heads, shape.key_dim, shape.block_size),
                                   *KvPlane::of(shape.values, KvPart::values, shape.kv_heads, shape.value_dim, shape.block_size)} {
        for (unsigned i = 0; i < 2; ++i) {
            m_data[i] = std::make_unique<DeviceArray<std::byte>>(m_planes[i].block_bytes * shape.blocks);
            m_pages[i] = std::make_unique<DeviceArray<std::byte>>(m_planes[i].residual_page_bytes * shape.pages);
            const bool tensor = m_planes[i].format.scale == KvScale::tensor;
            m_fixed[i] = std::make_unique<DeviceArray<float>>(std::vector<float>(m_planes[i].fixed_bytes / 4, tensor ? 1.0f : 0.0f));
        }
    }

    const KvPlane& plane(bool values) const { return m_planes[values]; }
    DeviceArray<std::byte>& data(bool values) { return *m_data[values]; }
    DeviceArray<std::byte>& pages(bool values) { return *m_pages[values]; }
    DeviceArray<float>& fixed(bool values) { return *m_fixed[values]; }
    bool guards_hold() const {
        for (unsigned i = 0; i < 2; ++i)
            if (!m_data[i]->guards_hold() || !m_pages[i]->guards_hold() || !m_fixed[i]->guards_hold()) return false;
        return true;
    }

    cuda::CacheLayer layer() {
        cuda::CacheLayer layer;
        layer.keys = tensor(false);
        layer.values = tensor(true);
        layer.block_size = m_shape.block_size;
        layer.kv_heads = m_shape.kv_heads;
        layer.head_dim_k = m_shape.key_dim;
        layer.head_dim_v = m_shape.value_dim;
        return layer;
    }
    KvBytes bytes(bool values) {
        KvBytes of;
        of.plane = m_planes[values];
        of.data = m_data[values]->data();
        of.pages = m_pages[values]->data();
        of.fixed = m_fixed[values]->data();
        const bool joint = of.plane.format.scale == KvScale::joint;
        of.scale_plane = &m_planes[values && !joint];
        of.scale_data = m_data[values && !joint]->data();
        return of;
    }

    // Scales per tensor and head of random size.
    void random_fixed(std::mt19937& random) {
        for (unsigned i = 0; i < 2; ++i)
            for (std::size_t s = 0; s < m_fixed[i]->size(); ++s) m_fixed[i]->data()[s] = 0.5f + static_cast<float>(random() >> 8) * 0x1p-24f;
    }
    // Random codes and scales of one token, such that values are about 1 to 4 in size.
    void random_token(bool values, std::uint64_t block, std::uint32_t page, std::uint32_t offset, std::mt19937& random) {
        const KvPlane& plane = m_planes[values];
        const DType type = plane.format.dtype;
        if (page > 0 && plane.format.keeps_residual()) {
            for (std::uint32_t head = 0; head < plane.heads; ++head)
                for (std::uint32_t i = 0; i < plane.head_dim; ++i)
                    put_half(m_pages[values]->data() + (((std::uint64_t{page - 1} * plane.heads + head) * plane.block_size + offset) * plane.head_dim + i) * 2,
                             3.4f * part(random) - 1.7f);
            return;
        }
        for (std::uint32_t row = 0; row < plane.rows(); ++row) {
            std::byte* const codes = m_data[values]->data() + plane.codes(block, row, offset);
            for (std::uint64_t i = 0; i < plane.code_bytes; ++i) codes[i] = static_cast<std::byte>(random());
            if (is_float(type))
                for (std::uint32_t i = 0; i < plane.width(); ++i) put_float(type, codes, i, 3.4f * part(random) - 1.7f);
            if (type == DType::fp8_e4m3 || type == DType::fp8_e5m2)
                for (std::uint64_t i = 0; i < plane.code_bytes; ++i)  // up to 2
                    codes[i] = static_cast<std::byte>((static_cast<unsigned>(codes[i]) & 0x80u) | (static_cast<unsigned>(codes[i]) & 0x7Fu) % 0x41u);
            if (is_packed(type))
                for (std::uint32_t pack = 0; pack < plane.width() / 32; ++pack) put_pack(type, codes + pack * bytes_per_pack(type), random);
            std::byte* const scales = m_data[values]->data() + plane.scales(block, row, offset);
            if (plane.format.scale == KvScale::channel) {
                const float top = type == DType::kivi2 ? 3.0f : 15.0f;
                const bool keys = plane.part == KvPart::keys;
                if (keys && offset % plane.format.group != 0) continue;  // the group's first token brings its scales
                std::byte* to = keys ? m_data[values]->data() + plane.scales(block, row, 0) + std::uint64_t{offset / plane.format.group} * plane.head_dim * 4 : scales;
                for (std::uint32_t pair = 0; pair < (keys ? plane.head_dim : plane.head_dim / plane.format.group); ++pair, to += 4) put_pair(to, top, random);
            } else if (plane.scale_bytes > 0 && type == DType::int4) {
                put_pair(scales, 15.0f, random);
            } else if (plane.scale_bytes > 0) {
                const float scale = (0.25f + part(random)) * (type == DType::int8 ? 2.0f / 127 : 1.0f);
                std::memcpy(scales, &scale, 4);
            }
        }
    }

private:
    static float part(std::mt19937& random) { return static_cast<float>(random() >> 8) * 0x1p-24f; }
    static void put_half(std::byte* to, float value) {
        const std::uint16_t bits = f32_to_f16(value);
        std::memcpy(to, &bits, 2);
    }
    static void put_pair(std::byte* to, float top, std::mt19937& random) {
        put_half(to, (1 + 2 * part(random)) / top);
        put_half(to + 2, -0.5f - part(random));
    }
    static void put_float(DType type, std::byte* row, std::uint32_t i, float value) {
        const std::uint16_t bits = type == DType::f16 ? f32_to_f16(value) : f32_to_bf16(value);
        if (type == DType::f32) std::memcpy(row + 4 * i, &value, 4);
        else std::memcpy(row + 2 * i, &bits, 2);
    }
    static void put_pack(DType type, std::byte* pack, std::mt19937& random) {
        const bool shifted = type == DType::q4_1 || type == DType::q5_1;
        const float top = type == DType::q8_0 ? 127.0f : type == DType::q4_0 ? 8.0f : type == DType::q5_0 ? 16.0f : type == DType::q4_1 ? 15.0f : 31.0f;
        put_half(pack, (random() % 2 == 0 ? 1.0f : -1.0f) * (0.5f + part(random)) * (shifted ? 2.0f : 1.7f) / top);
        if (shifted) put_half(pack + 2, part(random) - 0.5f);
    }
    cuda::CacheTensor tensor(bool values) {
        const KvPlane& plane = m_planes[values];
        cuda::CacheTensor tensor;
        tensor.data = m_data[values]->data();
        tensor.dtype = plane.format.dtype;
        tensor.in_rows = is_float(tensor.dtype) && !plane.format.rotate;
        tensor.rotate = plane.format.rotate;
        tensor.scale = plane.format.scale;
        tensor.heads_per_row = plane.heads_per_row;
        tensor.group = plane.format.group;
        tensor.code_bytes = static_cast<std::uint32_t>(plane.code_bytes);
        tensor.block_stride = plane.block_bytes;
        tensor.row_stride = static_cast<std::uint32_t>(plane.row_block_bytes);
        const bool joint = plane.format.scale == KvScale::joint;
        const KvPlane& scaled_by = m_planes[values && !joint];
        tensor.scales = m_data[values && !joint]->data() + scaled_by.scales(0, 0, 0);
        tensor.scale_block_stride = scaled_by.block_bytes;
        tensor.scale_row_stride = static_cast<std::uint32_t>(scaled_by.row_block_bytes);
        tensor.scale_stride = static_cast<std::uint32_t>(scaled_by.scale_bytes);
        if (plane.fixed_bytes > 0) {
            tensor.scales = reinterpret_cast<std::byte*>(m_fixed[values]->data());
            tensor.scale_block_stride = tensor.scale_stride = 0;
            tensor.scale_row_stride = plane.format.scale == KvScale::head ? 4 : 0;
        }
        if (plane.format.keeps_residual()) {
            tensor.pages = m_pages[values]->data();
            tensor.page_stride = plane.residual_page_bytes;
        }
        return tensor;
    }

    CodedShape m_shape;
    KvPlane m_planes[2];
    std::unique_ptr<DeviceArray<std::byte>> m_data[2], m_pages[2];
    std::unique_ptr<DeviceArray<float>> m_fixed[2];
};

// The formats of the tests: every precision, every kind of scale.
inline std::vector<KvFormat> coded_formats() {
    std::vector<KvFormat> formats;
    const auto add = [&](DType type, KvScale scale) {
        KvFormat format = KvFormat::of(type);
        format.scale = scale;
        formats.push_back(format);
    };
    for (DType type : {DType::fp8_e4m3, DType::fp8_e5m2})
        for (KvScale scale : {KvScale::tensor, KvScale::head, KvScale::token_head}) add(type, scale);
    for (DType type : {DType::int8, DType::int4})
        for (KvScale scale : {KvScale::token_head, KvScale::joint}) add(type, scale);
    for (DType type : {DType::q8_0, DType::q5_1, DType::q5_0, DType::q4_1, DType::q4_0}) add(type, KvScale::pack);
    for (DType type : {DType::kivi2, DType::kivi4}) add(type, KvScale::channel);
    return formats;
}

}  // namespace kvloupe::test
