// SPDX-License-Identifier: GPL-3.0-or-later
//
// What every backend checks before it believes its caller (engine/backend.h), in the same words.
#pragma once

#include "engine/backend.h"

#include <string>
#include <utility>
#include <vector>

namespace kvloupe {

// A batch that contradicts itself would make kernels read beyond their memory.
inline Result<void> check_batch(const Batch& batch) {
    const char* wrong = nullptr;
    const std::size_t rows = batch.tokens.size();
    const std::size_t groups = rows == 0 ? 1 : batch.slots.size() / rows;
    if (batch.positions.size() != rows || groups == 0 || batch.slots.size() != rows * groups)
        wrong = "as many positions as tokens, and as many slots in every group";
    std::uint64_t next = 0;
    for (const Batch::Sequence& s : batch.sequences) {
        if (s.first_row != next) wrong = "sequences whose rows follow one another";
        next = std::uint64_t{s.first_row} + s.rows;
        if (s.table_begin + std::uint64_t{s.table_size} * groups > batch.block_tables.size()) wrong = "block tables of all sequences";
    }
    if (next != rows) wrong = "sequences that cover all rows";
    for (std::uint32_t row : batch.logit_rows)
        if (row >= rows) wrong = "logit rows below the number of rows";
    if (wrong == nullptr) return {};
    return Error{"A batch of " + std::to_string(rows) + " rows lacks " + wrong, "This is a defect of the program"};
}

// whose: "the CPU's", for a tensor with too many rows or columns.
inline Result<void> check_weight(const Tensor& tensor, const std::string& whose) {
    constexpr std::uint64_t most = 0x7FFFFFFF;  // BLAS and kernels count rows and columns in 32 bits
    if (tensor.data == nullptr || tensor.rows == 0 || tensor.cols == 0)
        return Error{"Tensor '" + tensor.name + "' has no data", "The model lacks it; use a complete file"};
    if (tensor.cols % elements_per_pack(tensor.dtype) != 0)
        return Error{"Tensor '" + tensor.name + "' has rows of " + std::to_string(tensor.cols) + " elements, which " +
                         std::string(name_of(tensor.dtype)) + " packs of 32 do not divide",
                     "Use a file in which this tensor is f16 or f32"};
    if (tensor.rows > most || tensor.cols > most)
        return Error{"Tensor '" + tensor.name + "' is " + std::to_string(tensor.rows) + " by " + std::to_string(tensor.cols) +
                         ", more than " + whose + " products take",
                     "At most 2147483647 rows and columns are possible"};
    return {};
}

inline std::string text_of(const KvCacheShape& shape) {
    const KvLayerShape layer = shape.layers.empty() ? KvLayerShape{} : shape.layers.front();
    return std::to_string(shape.layers.size()) + " layers of " + std::to_string(shape.blocks) + " blocks of " +
           std::to_string(shape.block_size) + " tokens with " + std::to_string(layer.kv_heads) + " KV heads of " +
           std::to_string(layer.key_dim) + " values";
}

// Rows that a Hadamard matrix turns: twice the largest in use, the latents of DeepSeek.
inline constexpr std::uint32_t widest_turned_row = 1024;

// who: "The CPU", for a precision that it cannot keep.
inline Result<void> check_shape(const KvCacheShape& shape, const std::string& who) {
    bool empty = shape.layers.empty() || shape.blocks == 0 || shape.block_size == 0;
    for (const KvLayerShape& layer : shape.layers)
        empty = empty || layer.kv_heads == 0 || layer.key_dim == 0 || (layer.value_dim == 0 && !layer.latent);
    if (empty) return Error{"A KV cache of " + text_of(shape) + " holds nothing", "Every one of these numbers must be at least 1"};
    std::vector<const KvLayerShape*> first_of(shape.layers.size(), nullptr);  // layer of each place
    for (const KvLayerShape& layer : shape.layers) {
        if (auto keys = layer.key_plane(shape.block_size); !keys) return keys.error();
        if (auto values = layer.value_plane(shape.block_size); !values) return values.error();
        const bool joint = layer.keys.scale == KvScale::joint;
        if (joint != (layer.values.scale == KvScale::joint) || (joint && layer.keys.dtype != layer.values.dtype))
            return Error{who + " cannot keep K in " + text_of(layer.keys) + " beside V in " + text_of(layer.values),
                         "A scale for K and V together needs the same precision for both"};
        if ((layer.keys.keeps_residual() || layer.values.keeps_residual()) && shape.residual_pages == 0)
            return Error{"A KV cache in " + text_of(layer.keys.keeps_residual() ? layer.keys : layer.values) +
                             " has no pages for its newest tokens", "This is a defect of the program"};
        for (auto [format, width] : {std::pair{&layer.keys, layer.key_dim}, std::pair{&layer.values, layer.value_dim}})
            if (format->rotate && width > widest_turned_row)
                return Error{who + " cannot rotate rows of " + std::to_string(width) + " values", "Remove \"rotate\" for this model"};
        if (layer.place >= shape.layers.size())
            return Error{"A layer of a KV cache has place " + std::to_string(layer.place) + " of " + std::to_string(shape.layers.size()),
                         "This is a defect of the program"};
        const KvLayerShape*& first = first_of[layer.place];
        if (first == nullptr) first = &layer;
        // A page is sealed for all layers of its place at once.
        const bool alike = first->keys == layer.keys && first->values == layer.values && first->kv_heads == layer.kv_heads &&
                           first->key_dim == layer.key_dim && first->value_dim == layer.value_dim;
        const auto keeps_pages = [](const KvLayerShape& of) { return of.keys.keeps_residual() || of.values.keeps_residual(); };
        if ((keeps_pages(layer) || keeps_pages(*first)) && !alike)
            return Error{"Layers that share memory cannot keep their caches in " + text_of(first->keys) + " and in " + text_of(layer.keys),
                         "Give layers with and without a window the same heads and precision where KIVI is one of them"};
    }
    return {};
}

}  // namespace kvloupe
