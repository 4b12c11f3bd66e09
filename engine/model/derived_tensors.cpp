// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/derived_tensors.h"

#include "engine/model/quants.h"

#include <cstring>
#include <utility>

namespace kvloupe {

namespace {

// The tensor's bytes, zeroed; the tensor points at them.
std::byte* allocate(Model& model, Tensor& tensor, std::string name, DType dtype, std::uint64_t rows, std::uint64_t cols) {
    tensor.name = std::move(name);
    tensor.dtype = dtype;
    tensor.rows = rows;
    tensor.cols = cols;
    model.owned.emplace_back(static_cast<std::size_t>(tensor.bytes()));
    tensor.data = model.owned.back().data();
    return model.owned.back().data();
}

const std::byte* row_of(const Tensor& tensor, std::uint64_t row) {
    return tensor.data + row * row_bytes(tensor.dtype, tensor.cols);
}

std::vector<float> expanded(const Tensor& tensor, std::uint64_t row) {
    std::vector<float> values(tensor.cols);
    dequantise_row(tensor.dtype, row_of(tensor, row), values);
    return values;
}

// Blocks of (rows, cols) to blocks of (cols, rows), `count` of them, out of rows first, first + step, … of the source.
// Elements of plain types move as they are, packed ones as f32.
void transpose(const Tensor& from, std::uint64_t count, std::uint64_t first, std::uint64_t step, std::uint64_t rows, DType type,
               std::byte* out, std::uint64_t out_step) {
    const std::uint32_t element = bytes_per_pack(type);
    for (std::uint64_t block = 0; block < count; ++block)
        for (std::uint64_t r = 0; r < rows; ++r) {
            const std::uint64_t source = block * step + first + r;
            const std::vector<float> values = from.dtype == type ? std::vector<float>() : expanded(from, source);
            const std::byte* const bytes =
                from.dtype == type ? row_of(from, source) : reinterpret_cast<const std::byte*>(values.data());
            for (std::uint64_t c = 0; c < from.cols; ++c)
                std::memcpy(out + ((block * out_step + c) * rows + r) * element, bytes + c * element, element);
        }
}

void split(Model& model, std::uint32_t heads, LatentWeights& weights) {
    const LatentShape& latent = model.config.latent;
    const Tensor& both = weights.key_value_up;
    const std::uint64_t nope = latent.nope_dim, value = latent.value_dim, per_head = nope + value;
    const DType type = is_float(both.dtype) ? both.dtype : DType::f32;
    std::byte* keys = allocate(model, weights.key_up_transposed, both.name + " (keys, transposed)", type,
                               std::uint64_t{heads} * latent.kv_rank, nope);
    transpose(both, heads, 0, per_head, nope, type, keys, latent.kv_rank);
    std::byte* values = allocate(model, weights.value_up, both.name + " (values)", both.dtype, heads * value, latent.kv_rank);
    const std::uint64_t row = row_bytes(both.dtype, both.cols);
    for (std::uint64_t head = 0; head < heads; ++head)
        std::memcpy(values + head * value * row, row_of(both, head * per_head + nope), value * row);
}

void join(Model& model, std::uint32_t heads, LatentWeights& weights) {
    const LatentShape& latent = model.config.latent;
    const Tensor& keys = weights.key_up_transposed;
    const Tensor& values = weights.value_up;
    const std::uint64_t nope = latent.nope_dim, value = latent.value_dim, rank = latent.kv_rank;
    const DType type = is_float(keys.dtype) && keys.dtype == values.dtype ? keys.dtype : DType::f32;
    const std::uint64_t row = row_bytes(type, rank);
    std::byte* const out =
        allocate(model, weights.key_value_up, keys.name + " (with values)", type, heads * (nope + value), rank);
    for (std::uint64_t head = 0; head < heads; ++head) {
        std::byte* const own = out + head * (nope + value) * row;
        // A head's (rank, nope) turned to (nope, rank).
        Tensor part = keys;
        part.data = row_of(keys, head * rank);
        part.rows = rank;
        transpose(part, 1, 0, 0, rank, type, own, 0);
        for (std::uint64_t v = 0; v < value; ++v) {
            const std::uint64_t source = head * value + v;
            const std::vector<float> wide = values.dtype == type ? std::vector<float>() : expanded(values, source);
            std::memcpy(own + (nope + v) * row,
                        values.dtype == type ? row_of(values, source) : reinterpret_cast<const std::byte*>(wide.data()), row);
        }
    }
}

}  // namespace

void add_one(Model& model, Tensor& norm) {
    std::vector<float> values = expanded(norm, 0);
    for (float& value : values) value += 1.0f;
    Tensor sum;
    std::memcpy(allocate(model, sum, norm.name + " + 1", DType::f32, 1, norm.cols), values.data(), values.size() * sizeof(float));
    norm = sum;
}

void complete_latent(Model& model, std::uint32_t heads, LatentWeights& weights) {
    if (weights.key_value_up.present())
        split(model, heads, weights);
    else
        join(model, heads, weights);
}

}  // namespace kvloupe
