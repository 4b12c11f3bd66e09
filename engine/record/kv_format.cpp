// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/kv_format.h"

#include <bit>

namespace kvloupe {

namespace {

constexpr std::uint64_t f32_bytes = 4, f16_bytes = 2;

bool is_fp8(DType type) { return type == DType::fp8_e4m3 || type == DType::fp8_e5m2; }
bool is_integer(DType type) { return type == DType::int8 || type == DType::int4; }
bool is_kivi(DType type) { return type == DType::kivi2 || type == DType::kivi4; }

bool has_scale(DType type, KvScale scale) {
    if (is_float(type)) return scale == KvScale::none;
    if (is_packed(type)) return scale == KvScale::pack;
    if (is_kivi(type)) return scale == KvScale::channel;
    if (is_fp8(type)) return scale == KvScale::tensor || scale == KvScale::head || scale == KvScale::token_head;
    return is_integer(type) && (scale == KvScale::token_head || scale == KvScale::joint);
}

const char* scales_of(DType type) {
    if (is_float(type)) return "no scales";
    if (is_packed(type)) return "its scales in packs of 32";
    if (is_kivi(type)) return "a scale per channel for K and per token for V";
    return is_fp8(type) ? "a scale per tensor, head or token_head" : "a scale per token_head, or joint";
}

std::string precision(const KvFormat& format) { return "'" + std::string(name_of(format.dtype)) + "'"; }

}  // namespace

std::string_view name_of(KvScale scale) {
    static constexpr std::string_view names[] = {"none", "tensor", "head", "token_head", "joint", "pack", "channel"};
    return names[static_cast<std::size_t>(scale)];
}

KvFormat KvFormat::of(DType dtype) {
    KvFormat format;
    format.dtype = dtype;
    if (is_packed(dtype)) format.scale = KvScale::pack;
    if (is_fp8(dtype)) format.scale = KvScale::tensor;
    if (is_integer(dtype)) format.scale = KvScale::token_head;
    if (is_kivi(dtype)) {
        format.scale = KvScale::channel;
        format.group = 32;
        format.residual = 128;
    }
    return format;
}

Result<KvPlane> KvPlane::of(const KvFormat& format, KvPart part, std::uint32_t heads, std::uint32_t head_dim,
                            std::uint32_t block_size) {
    const DType type = format.dtype;
    if (part == KvPart::values && head_dim == 0 && heads > 0 && block_size > 0) {  // a latent alone: nothing is stored here
        KvPlane nothing;
        nothing.format = KvFormat::of(DType::f32);
        nothing.part = part;
        nothing.heads = heads;
        nothing.block_size = block_size;
        return nothing;
    }
    if (heads == 0 || head_dim == 0 || block_size == 0)
        return Error{"A KV cache of " + std::to_string(heads) + " heads of " + std::to_string(head_dim) + " values in blocks of " +
                         std::to_string(block_size) + " tokens holds nothing", "Every one of these numbers must be at least 1"};
    if (elements_per_pack(type) > 32)
        return Error{"No KV cache is kept in " + precision(format) + ", whose packs hold " + std::to_string(elements_per_pack(type)) +
                         " values", "Use f16, int8, q8_0 or another precision of the cache"};
    if (!has_scale(type, format.scale))
        return Error{"The cache precision " + precision(format) + " has no scale '" + std::string(name_of(format.scale)) + "'; it has " +
                         scales_of(type), "Remove the key \"scale\", or name one of these"};
    KvPlane plane;
    plane.format = format;
    plane.part = part;
    plane.heads = heads;
    plane.head_dim = head_dim;
    plane.block_size = block_size;
    if (is_packed(type))
        while (plane.heads_per_row < heads && (plane.width() % 32 != 0 || heads % plane.heads_per_row != 0)) ++plane.heads_per_row;
    if (plane.width() % elements_per_pack(type) != 0 || heads % plane.heads_per_row != 0)
        return Error{"The cache precision " + precision(format) + " stores packs of " + std::to_string(elements_per_pack(type)) +
                         " values, which do not divide a token's row of " + std::to_string(heads) + " x " + std::to_string(head_dim),
                     "Use f16 or int8 for this model"};
    if (format.rotate && !std::has_single_bit(head_dim))
        return Error{"Heads of " + std::to_string(head_dim) + " values cannot be rotated: a Hadamard matrix needs a power of two",
                     "Remove \"rotate\" for this model"};
    plane.code_bytes = kvloupe::row_bytes(type, plane.width());
    const bool shared = format.scale == KvScale::joint && part == KvPart::values;
    if ((format.scale == KvScale::token_head || format.scale == KvScale::joint) && !shared) plane.scale_bytes = f32_bytes;
    if (format.scale == KvScale::tensor) plane.fixed_bytes = f32_bytes;
    if (format.scale == KvScale::head) plane.fixed_bytes = heads * f32_bytes;
    if (is_kivi(type)) {
        const std::uint32_t in_group = part == KvPart::keys ? block_size : head_dim;
        if (format.group == 0 || in_group % format.group != 0)
            return Error{"Groups of " + std::to_string(format.group) + (part == KvPart::keys ? " tokens" : " channels") +
                             " do not divide " + (part == KvPart::keys ? "blocks of " : "heads of ") + std::to_string(in_group),
                         "Give a \"group\" that divides the block size and the head size, or another block size"};
        if (part == KvPart::values && format.group % elements_per_pack(type) != 0)
            return Error{"Groups of " + std::to_string(format.group) + " channels do not fill whole bytes with " + precision(format) + " codes",
                         "Give a \"group\" of a multiple of " + std::to_string(elements_per_pack(type))};
        if (format.residual % block_size != 0)
            return Error{"A residual of " + std::to_string(format.residual) + " tokens is no multiple of the block size " +
                             std::to_string(block_size), "Give a multiple of the block size"};
        const std::uint64_t pair = 2 * f16_bytes;  // step and minimum
        if (part == KvPart::keys) plane.group_scale_bytes = std::uint64_t{block_size} / format.group * head_dim * pair;
        else plane.scale_bytes = std::uint64_t{head_dim} / format.group * pair;
        plane.residual_page_bytes = std::uint64_t{heads} * block_size * head_dim * f16_bytes;
    }
    const bool scaled = plane.scale_bytes > 0 || plane.group_scale_bytes > 0;
    std::uint64_t scale_bytes = 0;
    if (__builtin_mul_overflow(plane.code_bytes, std::uint64_t{block_size}, &plane.scale_begin) ||
        (scaled && __builtin_add_overflow(plane.scale_begin, (4 - plane.scale_begin % 4) % 4, &plane.scale_begin)) ||
        __builtin_mul_overflow(plane.scale_bytes, std::uint64_t{block_size}, &scale_bytes) ||
        __builtin_add_overflow(plane.scale_begin, scale_bytes, &plane.row_block_bytes) ||
        __builtin_add_overflow(plane.row_block_bytes, plane.group_scale_bytes, &plane.row_block_bytes) ||
        __builtin_mul_overflow(plane.row_block_bytes, std::uint64_t{plane.rows()}, &plane.block_bytes))
        return Error{"A block of " + std::to_string(block_size) + " tokens is larger than any memory", "Use smaller blocks"};
    return plane;
}

std::string text_of(const KvFormat& format) {
    std::string text(name_of(format.dtype));
    switch (format.scale) {
    case KvScale::none:
    case KvScale::pack: break;
    case KvScale::tensor: text += ", one scale per tensor"; break;
    case KvScale::head: text += ", a scale per head"; break;
    case KvScale::token_head: text += ", a scale per token and head"; break;
    case KvScale::joint: text += ", a scale per token and head for K and V together"; break;
    case KvScale::channel:
        text += ", groups of " + std::to_string(format.group) + ", " + std::to_string(format.residual) + " newest tokens in f16";
        break;
    }
    if (format.rotate) text += ", rotated";
    return text;
}

}  // namespace kvloupe
