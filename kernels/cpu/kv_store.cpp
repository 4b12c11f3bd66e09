// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/half.h"
#include "engine/model/quants.h"
#include "kernels/backend_checks.h"
#include "kernels/cpu/fp8.h"
#include "kernels/cpu/kv_quantise.h"
#include "kernels/cpu/kv_rows.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

namespace kvloupe::cpu {

namespace {

void put(std::byte* at, float scale) { std::memcpy(at, &scale, sizeof scale); }
void put(std::byte* at, StepAndMinimum pair) {
    std::memcpy(at, &pair.step, 2);
    std::memcpy(at + 2, &pair.minimum, 2);
}

// A row, turned head by head where the format says so.
class TurnedRow {
public:
    TurnedRow(const KvPlane& plane, const float* row) : m_row(row), m_width(plane.width()) {
        if (!plane.format.rotate) return;
        assert(m_width <= widest_turned_row);
        std::copy_n(row, m_width, m_turned);
        for (std::uint32_t at = 0; at < m_width; at += plane.head_dim) hadamard(m_turned + at, plane.head_dim);
        m_row = m_turned;
    }
    TurnedRow(const TurnedRow&) = delete;
    TurnedRow& operator=(const TurnedRow&) = delete;
    std::span<const float> values() const { return {m_row, m_width}; }

private:
    const float* m_row;
    std::uint32_t m_width;
    float m_turned[widest_turned_row];
};

// Packs whose scale f16 cannot hold are infinite: their finite values count.
std::uint64_t count_infinite_packs(DType type, std::span<const float> x, const std::byte* packed) {
    std::uint64_t count = 0;
    for (std::size_t pack = 0; pack < x.size() / 32; ++pack) {
        std::uint16_t half[2] = {};
        const bool shifted = type == DType::q4_1 || type == DType::q5_1;
        std::memcpy(half, packed + pack * bytes_per_pack(type), shifted ? 4 : 2);
        if (std::isfinite(f16_to_f32(half[0])) && std::isfinite(f16_to_f32(half[1]))) continue;
        for (const float value : x.subspan(pack * 32, 32)) count += std::isfinite(value);
    }
    return count;
}

// One row by itself: everything but scales for K and V together.
std::uint64_t store_row(const CpuPlane& to, std::uint32_t row, const KvSlot& slot, const float* x) {
    const KvPlane& plane = to.plane;
    const DType type = plane.format.dtype;
    const TurnedRow turned(plane, x);
    const std::span<const float> values = turned.values();
    std::byte* const codes = to.codes(slot.block, row, slot.offset);
    std::byte* const scales = to.scales(slot.block, row, slot.offset);
    switch (plane.format.scale) {
    case KvScale::none: return narrow_row(type, values.data(), values.size(), codes);
    case KvScale::pack:
        quantise_row(type, values, codes);
        return count_infinite_packs(type, values, codes);
    case KvScale::tensor: return store_fp8(type, values, to.fixed[0], codes);
    case KvScale::head: return store_fp8(type, values, to.fixed[row], codes);
    case KvScale::token_head: break;
    case KvScale::channel:
        assert(slot.page > 0);
        if (slot.page == 0) return 0;
        return narrow_row(DType::f16, values.data(), values.size(), to.page_row(slot.page - 1, row, slot.offset));
    case KvScale::joint: return 0;
    }
    if (type == DType::int4) {
        ValueRange range;
        range.take(values);
        const StepAndMinimum by = step_and_minimum(range, 4);
        put(scales, by);
        store_codes(values, by, 4, codes);
        return beyond_f16(values);
    }
    const float scale = token_scale(magnitude_of(values), type == DType::int8 ? 127.0f : largest_of_fp8(type));
    put(scales, scale);
    if (type != DType::int8) return store_fp8(type, values, scale, codes);
    store_int8(values, scale, codes);
    return 0;
}

// One scale for the K and the V row of a token and head, which lies with K.
std::uint64_t store_joint(const CpuPlane& keys, const CpuPlane& values, std::uint32_t row, const KvSlot& slot, const float* k,
                          const float* v) {
    const TurnedRow k_row(keys.plane, k), v_row(values.plane, v);
    std::byte* const scales = keys.scales(slot.block, row, slot.offset);
    std::byte* const k_codes = keys.codes(slot.block, row, slot.offset);
    std::byte* const v_codes = values.codes(slot.block, row, slot.offset);
    if (keys.plane.format.dtype == DType::int4) {
        ValueRange range;
        range.take(k_row.values());
        range.take(v_row.values());
        const StepAndMinimum by = step_and_minimum(range, 4);
        put(scales, by);
        store_codes(k_row.values(), by, 4, k_codes);
        store_codes(v_row.values(), by, 4, v_codes);
        return beyond_f16(k_row.values()) + beyond_f16(v_row.values());
    }
    const float k_largest = magnitude_of(k_row.values()), v_largest = magnitude_of(v_row.values());
    const float scale = token_scale(std::isnan(v_largest) ? v_largest : std::max(k_largest, v_largest), 127.0f);
    put(scales, scale);
    store_int8(k_row.values(), scale, k_codes);
    store_int8(v_row.values(), scale, v_codes);
    return 0;
}

std::uint64_t store_plane(const CpuPlane& to, const KvSlot& slot, const float* x) {
    if (to.plane.width() == 0) return 0;  // a latent without a rotary key: there is no second row
    std::uint64_t beyond = 0;
    for (std::uint32_t row = 0; row < to.plane.rows(); ++row)
        beyond += store_row(to, row, slot, x + std::uint64_t{row} * to.plane.width());
    return beyond;
}

// Keys: a step and a minimum per channel and group of tokens.
void seal_keys(const CpuPlane& of, std::uint32_t head, std::uint32_t block, const float* rows) {
    const std::uint32_t dim = of.plane.head_dim, group = of.plane.format.group;
    const int bits = of.plane.format.dtype == DType::kivi2 ? 2 : 4;
    const std::uint32_t per_byte = 8 / static_cast<std::uint32_t>(bits);
    std::byte* scales = of.scales(block, head, 0);
    for (std::uint32_t first = 0; first < of.plane.block_size; first += group, scales += std::uint64_t{dim} * 4) {
        for (std::uint32_t t = first; t < first + group; ++t) std::memset(of.codes(block, head, t), 0, of.plane.code_bytes);
        for (std::uint32_t channel = 0; channel < dim; ++channel) {
            ValueRange range;
            for (std::uint32_t t = first; t < first + group; ++t) range.take(rows[std::uint64_t{t} * dim + channel]);
            const StepAndMinimum by = step_and_minimum(range, bits);
            put(scales + channel * 4, by);
            for (std::uint32_t t = first; t < first + group; ++t) {
                const unsigned code = code_of(rows[std::uint64_t{t} * dim + channel], by, bits);
                const unsigned shift = channel % per_byte * static_cast<unsigned>(bits);
                of.codes(block, head, t)[channel / per_byte] |= static_cast<std::byte>(code << shift);
            }
        }
    }
}

// Values: per token and group of channels.
void seal_values(const CpuPlane& of, std::uint32_t head, std::uint32_t block, const float* rows) {
    const std::uint32_t dim = of.plane.head_dim, group = of.plane.format.group;
    const int bits = of.plane.format.dtype == DType::kivi2 ? 2 : 4;
    for (std::uint32_t t = 0; t < of.plane.block_size; ++t)
        for (std::uint32_t first = 0; first < dim; first += group) {
            const std::span<const float> x(rows + std::uint64_t{t} * dim + first, group);
            ValueRange range;
            range.take(x);
            const StepAndMinimum by = step_and_minimum(range, bits);
            put(of.scales(block, head, t) + first / group * 4, by);
            store_codes(x, by, bits, of.codes(block, head, t) + first * static_cast<std::uint32_t>(bits) / 8);
        }
}

}  // namespace

void take_head_scales(const CpuPlane& of, const float* rows, std::uint32_t count) {
    const KvPlane& plane = of.plane;
    if (plane.format.scale != KvScale::head || count == 0) return;
    for (std::uint32_t head = 0; head < plane.heads; ++head) {
        if (of.fixed[head] != 0) continue;
        float largest = 0;
        for (std::uint32_t row = 0; row < count; ++row) {
            const TurnedRow turned(plane, rows + (std::uint64_t{row} * plane.heads + head) * plane.head_dim);
            for (const float value : turned.values())
                if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
        }
        of.fixed[head] = largest > 0 ? token_scale(largest, largest_of_fp8(plane.format.dtype)) : 1.0f;
    }
}

std::uint64_t store_token(const CpuKvCache& cache, std::uint32_t layer, const KvSlot& slot, const float* k, const float* v) {
    const CpuPlane& keys = cache.keys(layer);
    const CpuPlane& values = cache.values(layer);
    if (keys.plane.format.scale != KvScale::joint) return store_plane(keys, slot, k) + store_plane(values, slot, v);
    std::uint64_t beyond = 0;
    for (std::uint32_t head = 0; head < keys.plane.heads; ++head)
        beyond += store_joint(keys, values, head, slot, k + std::uint64_t{head} * keys.plane.head_dim,
                              v + std::uint64_t{head} * values.plane.head_dim);
    return beyond;
}

void seal_block(const CpuKvCache& cache, std::uint32_t block, std::uint32_t page) {
    std::vector<float> rows;
    // Layers that share a place share the page too: it is sealed once for them.
    for (const std::uint32_t layer : cache.laid_layers())
        for (const KvPart part : {KvPart::keys, KvPart::values}) {
            const CpuPlane& of = cache.plane(layer, part);
            if (!of.plane.format.keeps_residual()) continue;
            rows.resize(std::size_t{of.plane.block_size} * of.plane.head_dim);
            for (std::uint32_t head = 0; head < of.plane.heads; ++head) {
                expand_row(DType::f16, of.page_row(page, head, 0), rows.size(), rows.data());
                part == KvPart::keys ? seal_keys(of, head, block, rows.data()) : seal_values(of, head, block, rows.data());
            }
        }
    cache.poison_page(page);
}

}  // namespace kvloupe::cpu
