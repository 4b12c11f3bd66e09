// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/converted_tensors.h"

#include "engine/model/quants.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvloupe {

namespace {

DType stored_as(DType source) { return is_float(source) ? source : DType::f16; }

float largest_of(DType type) { return type == DType::f16 ? 65504.0f : std::numeric_limits<float>::max(); }

}  // namespace

std::vector<float> elements_of(const Tensor& tensor) {
    std::vector<float> values(tensor.rows * tensor.cols);
    for (std::uint64_t row = 0; row < tensor.rows; ++row)
        dequantise_row(tensor.dtype, tensor.data + row * row_bytes(tensor.dtype, tensor.cols),
                       std::span(values).subspan(row * tensor.cols, tensor.cols));
    return values;
}

ConvertedTensors::ConvertedTensors(std::shared_ptr<const Model> source) : m_model(std::make_shared<Model>()) {
    m_model->config = source->config;
    m_model->embedding = source->embedding;
    m_model->output_norm = source->output_norm;
    m_model->output = source->output;
    m_model->layers = source->layers;
    m_model->tokenizer = source->tokenizer;
    m_model->files = source->files;
    m_model->weights_id = source->weights_id;
    m_model->source = std::move(source);
}

Tensor ConvertedTensors::make(std::string name, DType type, std::uint64_t rows, std::uint64_t cols, std::span<const float> values) {
    Tensor tensor;
    tensor.name = std::move(name);
    tensor.dtype = type;
    tensor.rows = rows;
    tensor.cols = cols;
    m_model->owned.emplace_back(static_cast<std::size_t>(tensor.bytes()));
    std::byte* const out = m_model->owned.back().data();
    tensor.data = out;
    for (std::uint64_t row = 0; row < rows; ++row)
        quantise_row(type, values.subspan(row * cols, cols), out + row * row_bytes(type, cols));
    for (const float value : values) m_infinite = m_infinite || !(std::fabs(value) <= largest_of(type));
    return tensor;
}

// Blocks of `means` parts of group_rows rows each to one part that is their mean. A vector is a matrix of one column here.
Tensor ConvertedTensors::pooled(const Tensor& from, std::uint64_t group_rows, std::uint64_t means) {
    const std::vector<float> values = elements_of(from);
    const bool vector = from.rows == 1;
    const std::uint64_t cols = vector ? 1 : from.cols;
    const std::uint64_t part = group_rows * cols, parts = values.size() / part / means;
    std::vector<float> result(parts * part);
    for (std::uint64_t p = 0; p < parts; ++p)
        for (std::uint64_t i = 0; i < part; ++i) {
            double sum = 0;
            for (std::uint64_t m = 0; m < means; ++m) sum += static_cast<double>(values[(p * means + m) * part + i]);
            result[p * part + i] = static_cast<float>(sum / static_cast<double>(means));
        }
    const std::uint64_t rows = vector ? 1 : parts * group_rows;
    return make(from.name + " (means of heads)", stored_as(from.dtype), rows, vector ? result.size() : cols, result);
}

void ConvertedTensors::pool_heads(std::uint32_t layer, std::uint32_t heads) {
    LayerShape& shape = m_model->config.layer_shapes[layer];
    LayerWeights& weights = m_model->layers[layer];
    const std::uint64_t means = shape.kv_heads / heads, rows = m_model->config.head_dim;
    for (Tensor* tensor : {&weights.key, &weights.value, &weights.key_bias, &weights.value_bias})
        if (tensor->present()) *tensor = pooled(*tensor, rows, means);
    shape.kv_heads = heads;
}

void ConvertedTensors::set_latent(std::uint32_t layer, std::uint32_t width, std::span<const float> down, std::span<const float> up) {
    const LayerShape& shape = m_model->config.layer_shapes[layer];
    LayerWeights& weights = m_model->layers[layer];
    const std::uint64_t head = m_model->config.head_dim, rows = std::uint64_t{shape.kv_heads} * head;
    // Head by head its keys, then its values, as latent attention has them (model.h).
    std::vector<float> turned(up.size());
    for (std::uint64_t part = 0; part < 2; ++part)
        for (std::uint64_t row = 0; row < rows; ++row)
            std::copy_n(up.data() + (part * rows + row) * width, width,
                        turned.data() + ((row / head * 2 + part) * head + row % head) * width);
    const DType type = weights.key.dtype == weights.value.dtype ? stored_as(weights.key.dtype) : DType::f16;
    weights.latent.key_value_down = make(weights.key.name + " and values, down", type, width, m_model->config.hidden, down);
    weights.latent.key_value_up = make(weights.key.name + " and values, up", type, 2 * rows, width, turned);
    weights.key = {};
    weights.value = {};
}

void ConvertedTensors::count_parameters() {
    std::uint64_t parameters = 0, bytes = 0;
    const auto of = [&](const Model& model, bool add) {
        for (const LayerWeights& layer : model.layers)
            for (const Tensor* tensor : {&layer.key, &layer.value, &layer.key_bias, &layer.value_bias, &layer.latent.key_value_down,
                                         &layer.latent.key_value_up}) {
                if (!tensor->present()) continue;
                parameters += add ? tensor->rows * tensor->cols : -(tensor->rows * tensor->cols);  // modulo 2^64
                bytes += add ? tensor->bytes() : -tensor->bytes();
            }
    };
    of(*m_model->source, false);
    of(*m_model, true);
    m_model->config.parameters += parameters;
    m_model->config.weight_bytes += bytes;
}

Result<std::shared_ptr<const Model>> ConvertedTensors::finish(const std::string& text) {
    if (m_infinite)
        return Error{"The converted weights of '" + m_model->config.name + "' have values beyond the range of f16",
                     "Convert a file of the model in bf16 or f32."};
    ModelConfig& config = m_model->config;
    config.kv_heads = config.layer_shapes.empty() ? config.kv_heads : config.layer_shapes.front().kv_heads;
    count_parameters();
    config.name += ", " + text;
    std::uint64_t hash = m_model->weights_id ^ 0xCBF29CE484222325ull;  // FNV-1a
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
    m_model->weights_id = hash;
    return std::shared_ptr<const Model>(m_model);
}

}  // namespace kvloupe
