// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/kv_rows.h"

#include "engine/model/half.h"
#include "kernels/cpu/fp8.h"

#include <algorithm>
#include <cstring>

namespace kvloupe::cpu {

namespace {

float float_at(const std::byte* from) {
    float value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

float half_at(const std::byte* from) {
    std::uint16_t bits;
    std::memcpy(&bits, from, sizeof bits);
    return f16_to_f32(bits);
}

int bits_of(DType type) { return type == DType::kivi2 ? 2 : 4; }

// The plane where the scales of a row lie: with K, where one serves both.
const CpuPlane& scaled_by(const CpuKvCache& cache, std::uint32_t layer, KvPart part) {
    return cache.plane(layer, part).plane.format.scale == KvScale::joint ? cache.keys(layer) : cache.plane(layer, part);
}

// What the elements of 8 bits of a token are multiplied with.
float factor_of(const CpuPlane& of, const CpuPlane& scales, std::uint32_t head, const KvRun& run, std::uint32_t token) {
    switch (of.plane.format.scale) {
    case KvScale::tensor: return of.fixed[0];
    case KvScale::head: return of.fixed[head];
    default: return float_at(scales.scales(run.block, head, run.offset + token));
    }
}

// The same for all tokens of a run.
void take_factors(const CpuPlane& of, const CpuPlane& scales, std::uint32_t head, const KvRun& run, float* out) {
    if (of.plane.format.scale == KvScale::token_head || of.plane.format.scale == KvScale::joint)
        std::memcpy(out, scales.scales(run.block, head, run.offset), run.count * sizeof(float));
    else
        std::fill_n(out, run.count, factor_of(of, scales, head, run, 0));
    // Widening reads E4M3 as 1/256 of its value.
    if (of.plane.format.dtype == DType::fp8_e4m3)
        for (std::uint32_t i = 0; i < run.count; ++i) out[i] *= 256.0f;
}

// One head's elements of rows in packs, which may go over several heads.
void expand_packs(const CpuPlane& of, std::uint32_t head, const KvRun& run, float* out) {
    const KvPlane& plane = of.plane;
    const DType type = plane.format.dtype;
    const bool fives = type == DType::q5_0 || type == DType::q5_1;
    const auto expand = [&](const std::byte* packs, std::uint32_t count, float* to) {
        fives ? expand_fives(type, packs, count, to) : expand_row(type, packs, count, to);
    };
    const std::uint32_t row = head / plane.heads_per_row, begin = head % plane.heads_per_row * plane.head_dim;
    for (std::uint32_t t = 0; t < run.count; ++t, out += plane.head_dim) {
        const std::byte* codes = of.codes(run.block, row, run.offset + t);
        if (begin % 32 == 0 && plane.head_dim % 32 == 0) {
            expand(codes + std::uint64_t{begin} / 32 * bytes_per_pack(type), plane.head_dim, out);
            continue;
        }
        const std::uint32_t end = begin + plane.head_dim;
        for (std::uint32_t pack = begin / 32; pack * 32 < end; ++pack) {
            float values[32];
            expand(codes + std::uint64_t{pack} * bytes_per_pack(type), 32, values);
            const std::uint32_t from = std::max(begin, pack * 32), to = std::min(end, pack * 32 + 32);
            std::copy(values + (from - pack * 32), values + (to - pack * 32), out + (from - begin));
        }
    }
}

// Keys: the steps and minima of a group's channels are expanded once for its tokens.
void expand_kivi_keys(const CpuPlane& of, std::uint32_t head, const KvRun& run, float* out) {
    constexpr std::uint32_t at_once = 64;  // channels
    const std::uint32_t dim = of.plane.head_dim, group = of.plane.format.group;
    const int bits = bits_of(of.plane.format.dtype);
    for (std::uint32_t done = 0; done < run.count;) {
        const std::uint32_t offset = run.offset + done;
        const std::uint32_t count = std::min(run.count - done, group - offset % group);
        const std::byte* pairs = of.scales(run.block, head, 0) + std::uint64_t{offset / group} * dim * 4;
        for (std::uint32_t channel = 0; channel < dim; channel += at_once) {
            const std::uint32_t channels = std::min(at_once, dim - channel);
            float both[2 * at_once], steps[at_once], minima[at_once];
            expand_row(DType::f16, pairs + channel * 4, 2 * channels, both);
            for (std::uint32_t i = 0; i < channels; ++i) {
                steps[i] = both[2 * i];
                minima[i] = both[2 * i + 1];
            }
            for (std::uint32_t t = 0; t < count; ++t)
                expand_channels(bits, of.codes(run.block, head, offset + t) + channel * static_cast<std::uint32_t>(bits) / 8, channels, steps,
                                minima, out + std::uint64_t{done + t} * dim + channel);
        }
        done += count;
    }
}

void expand_kivi_values(const CpuPlane& of, std::uint32_t head, const KvRun& run, float* out) {
    const std::uint32_t dim = of.plane.head_dim, group = of.plane.format.group;
    const int bits = bits_of(of.plane.format.dtype);
    for (std::uint32_t t = 0; t < run.count; ++t) {
        const std::byte* codes = of.codes(run.block, head, run.offset + t);
        const std::byte* pairs = of.scales(run.block, head, run.offset + t);
        for (std::uint32_t channel = 0; channel < dim; channel += group, pairs += 4)
            expand_codes(bits, codes + channel * static_cast<std::uint32_t>(bits) / 8, group, half_at(pairs), half_at(pairs + 2),
                         out + std::uint64_t{t} * dim + channel);
    }
}

// Calls f(first token of the tile, run) for the tokens begin .. end - 1 of a tile at position `first`, block by block.
template <class F>
void for_runs(const KvTable& table, std::uint32_t block_size, std::uint32_t first, std::uint32_t begin, std::uint32_t end, F&& f) {
    for (std::uint32_t t = begin; t < end;) {
        const std::uint32_t logical = (first + t) / block_size, offset = (first + t) % block_size;
        const std::uint32_t count = std::min(end - t, block_size - offset);
        f(t, KvRun{table.blocks[logical], table.pages == nullptr ? 0 : table.pages[logical], offset, count});
        t += count;
    }
}

std::uint64_t lines(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

void expand_rows(const CpuKvCache& cache, std::uint32_t layer, KvPart part, std::uint32_t head, const KvRun& run, float* out) {
    const CpuPlane& of = cache.plane(layer, part);
    const CpuPlane& scales = scaled_by(cache, layer, part);
    const KvPlane& plane = of.plane;
    const DType type = plane.format.dtype;
    const std::uint32_t dim = plane.head_dim;
    if (plane.format.keeps_residual()) {
        if (run.page > 0)
            return expand_row(DType::f16, of.page_row(run.page - 1, head, run.offset), std::uint64_t{run.count} * dim, out);
        return part == KvPart::keys ? expand_kivi_keys(of, head, run, out) : expand_kivi_values(of, head, run, out);
    }
    if (is_packed(type)) return expand_packs(of, head, run, out);
    for (std::uint32_t t = 0; t < run.count; ++t, out += dim) {
        const std::byte* codes = of.codes(run.block, head, run.offset + t);
        if (is_float(type)) {
            expand_row(type, codes, dim, out);
        } else if (type == DType::int4) {
            const std::byte* pair = scales.scales(run.block, head, run.offset + t);
            expand_codes(4, codes, dim, half_at(pair), half_at(pair + 2), out);
        } else {
            const float factor = factor_of(of, scales, head, run, t);
            for (std::uint32_t i = 0; i < dim; ++i)
                out[i] = factor * (type == DType::int8 ? static_cast<float>(static_cast<std::int8_t>(codes[i]))
                                                       : fp8_to_f32(type, static_cast<std::uint8_t>(codes[i])));
        }
    }
}

bool expands(const CpuPlane& of) {
    const DType type = of.plane.format.dtype;
    if (is_packed(type)) return of.plane.head_dim % elements_per_pack(type) != 0;
    return type == DType::int4 || type == DType::kivi2 || type == DType::kivi4;
}

std::uint64_t tile_room_bytes(const CpuPlane& of) {
    const std::uint64_t expanded = expands(of) ? lines(std::uint64_t{tile_tokens} * of.plane.head_dim * sizeof(float)) : 0;
    return lines(tile_tokens * sizeof(const std::byte*)) + lines(tile_tokens * sizeof(float)) + expanded;
}

KvTileRoom tile_room(const CpuPlane& of, std::byte* memory) {
    std::byte* scales = memory + lines(tile_tokens * sizeof(const std::byte*));
    std::byte* expanded = scales + lines(tile_tokens * sizeof(float));
    return {reinterpret_cast<const std::byte**>(memory), reinterpret_cast<float*>(scales),
            expands(of) ? reinterpret_cast<float*>(expanded) : nullptr};
}

KvTileRows read_tile(const CpuKvCache& cache, std::uint32_t layer, KvPart part, std::uint32_t head, const KvTable& table,
                     std::uint32_t first, const TileSpan& any, const KvTileRoom& room) {
    const CpuPlane& of = cache.plane(layer, part);
    const CpuPlane& scales = scaled_by(cache, layer, part);
    const KvPlane& plane = of.plane;
    const DType type = plane.format.dtype;
    const bool expanded = room.expanded != nullptr;
    const bool scaled = !expanded && !is_float(type) && !is_packed(type);
    const auto take = [&](std::uint32_t t, const KvRun& run) {
        if (expanded) {
            float* out = room.expanded + std::uint64_t{t} * plane.head_dim;
            expand_rows(cache, layer, part, head, run, out);
            for (std::uint32_t i = 0; i < run.count; ++i)
                room.rows[t + i] = reinterpret_cast<const std::byte*>(out + std::uint64_t{i} * plane.head_dim);
            return;
        }
        const std::byte* codes = of.codes(run.block, head, run.offset);
        for (std::uint32_t i = 0; i < run.count; ++i) room.rows[t + i] = codes + i * plane.code_bytes;
        if (scaled) take_factors(of, scales, head, run, room.scales + t);
    };
    for_runs(table, plane.block_size, first, 0, any.sinks, take);
    for_runs(table, plane.block_size, first, any.begin, any.end, take);
    return {room.rows, scaled ? room.scales : nullptr, expanded ? DType::f32 : type};
}

void fetch_scales(const CpuKvCache& cache, std::uint32_t layer, std::uint32_t head, const KvTable& table, std::uint32_t begin,
                  std::uint32_t end) {
    for (const CpuPlane* of : {&cache.keys(layer), &cache.values(layer)}) {
        const KvPlane& plane = of->plane;
        if (plane.scale_bytes == 0) continue;
        for_runs(table, plane.block_size, begin, 0, end - begin, [&](std::uint32_t, const KvRun& run) {
            const std::byte* from = of->scales(run.block, head, run.offset);
            for (std::uint64_t at = 0; at < run.count * plane.scale_bytes; at += 64) __builtin_prefetch(from + at, 0, 3);
            __builtin_prefetch(from + run.count * plane.scale_bytes - 1, 0, 3);
        });
    }
}

}  // namespace kvloupe::cpu
