// SPDX-License-Identifier: GPL-3.0-or-later
//
// How K or V of one layer is stored: precision, where its scales lie, and how many bytes that takes. The one place from which
// cache, kernels, predictions and pictures take the layout; bytes per token come from here, scales included.
//
// A plane is K or V of one layer: (blocks, heads, part of a head in a block). A head's part of a block holds, one after the
// other, the codes of its block_size tokens and then, at the next multiple of 4 bytes, their scales; so codes can be read in wide
// words, scales in one access, and what a token needs is found by its offset alone. Rejected: a token's scale right behind its codes, because rows would then begin at odd
// addresses. The packs of GGUF (q8_0 …) are the public layout bit for bit and have their scales inside.
//
// | precision            | scales                                                          | source                       |
// |----------------------|-----------------------------------------------------------------|------------------------------|
// | f32 f16 bf16         | none                                                            |                              |
// | fp8_e4m3, fp8_e5m2   | tensor: one f32 per plane (1, as where a checkpoint has none); head: one f32 per plane and head, taken from the first step that writes; token_head; saturating | CACHE_SEMANTICS 1.1, Q3 |
// | int8                 | token_head: f32 = max(absmax / 127, 1e-6), ties away from zero  | CACHE_SEMANTICS 1.1, Q1      |
// | int4                 | token_head: f16 step and f16 minimum, asymmetric over 15 steps  | CACHE_SEMANTICS 1.1          |
// | int8, int4, joint    | one for the K and the V row of a token and head; stored with K  |                              |
// | kivi2, kivi4         | K: f16 step and minimum per channel and `group` tokens; V: per token and `group` channels; the newest tokens stay in f16 (pages beside the pool) | FORMATS 3.8 |
// | q8_0 q5_1 q5_0 q4_1 q4_0 | in the packs of 32                                          | FORMATS 2.3, Q2              |
#pragma once

#include "engine/record/dtype.h"
#include "engine/record/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace kvloupe {

enum class KvScale : std::uint8_t { none, tensor, head, token_head, joint, pack, channel };

std::string_view name_of(KvScale scale);  // "none", "tensor", …, "pack" (inside the packs), "channel" (KIVI)

struct KvFormat {
    DType dtype = DType::f16;
    KvScale scale = KvScale::none;
    std::uint32_t group = 0;     // KIVI: tokens of a key channel, channels of a value row, that share a step and a minimum
    std::uint32_t residual = 0;  // KIVI: tokens from which on the f16 part is quantised; a multiple of the block size
    bool rotate = false;         // rows are turned by a Hadamard matrix / sqrt(width) before they are stored (Q4)

    bool operator==(const KvFormat&) const = default;
    // The format of a precision with the scales that are its default.
    static KvFormat of(DType dtype);
    bool keeps_residual() const { return scale == KvScale::channel; }
};

enum class KvPart : std::uint8_t { keys, values };

// Bytes of one plane. A "row" is what is stored for one token: of one head, or of heads_per_row neighbouring heads where a
// head is narrower than a pack (as in llama.cpp, whose packs go over a token's whole row).
struct KvPlane {
    KvFormat format;
    KvPart part = KvPart::keys;
    std::uint32_t heads = 0;               // KV heads of the layer
    std::uint32_t head_dim = 0;
    std::uint32_t block_size = 0;
    std::uint32_t heads_per_row = 1;
    std::uint64_t code_bytes = 0;          // of a row
    std::uint64_t scale_bytes = 0;         // of a row, behind the codes of the block; 0: none, or shared with K
    std::uint64_t group_scale_bytes = 0;   // KIVI keys: of a row's block, for all its groups of tokens
    std::uint64_t scale_begin = 0;         // of a row's block: where its scales begin, if it has any
    std::uint64_t row_block_bytes = 0;     // of a row's whole block
    std::uint64_t block_bytes = 0;         // of a block: rows() * row_block_bytes
    std::uint64_t fixed_bytes = 0;         // beside the blocks: scales per tensor or head
    std::uint64_t residual_page_bytes = 0; // KIVI: of one block kept in f16

    std::uint32_t rows() const { return heads / heads_per_row; }
    std::uint32_t width() const { return head_dim * heads_per_row; }  // elements of a row
    // From the plane's start.
    std::uint64_t row_block(std::uint64_t block, std::uint32_t row) const { return block * block_bytes + row * row_block_bytes; }
    std::uint64_t codes(std::uint64_t block, std::uint32_t row, std::uint32_t offset) const {
        return row_block(block, row) + offset * code_bytes;
    }
    std::uint64_t scales(std::uint64_t block, std::uint32_t row, std::uint32_t offset) const {
        return row_block(block, row) + scale_begin + offset * scale_bytes;
    }
    // Bytes of one token, scales included; KIVI's group scales divided over the block.
    double bytes_per_token() const { return static_cast<double>(block_bytes) / block_size; }

    // Values of width 0 are a plane of no bytes: those of a latent without a rotary key.
    // Errors, one sentence each: a precision no cache is kept in, scales that it does not have, a head size that packs, codes or
    // a rotation do not divide, groups that the block size does not hold.
    static Result<KvPlane> of(const KvFormat& format, KvPart part, std::uint32_t heads, std::uint32_t head_dim,
                              std::uint32_t block_size);
};

// "int8, a scale per token and head", "kivi2, groups of 32, 128 newest tokens in f16, rotated".
std::string text_of(const KvFormat& format);

}  // namespace kvloupe
