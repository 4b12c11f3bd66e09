// SPDX-License-Identifier: GPL-3.0-or-later
//
// ConvertedTensors: a model beside the one that it is made from, with tensors of its own for a layer's keys and values.
#pragma once

#include "engine/model/model.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kvloupe {

// All elements, row-major.
std::vector<float> elements_of(const Tensor& tensor);

class ConvertedTensors {
public:
    explicit ConvertedTensors(std::shared_ptr<const Model> source);

    ModelConfig& config() { return m_model->config; }
    // Keys and values of `heads` heads, each the mean of neighbouring ones. heads divides the layer's.
    void pool_heads(std::uint32_t layer, std::uint32_t heads);
    // Keys and values of a layer as up · down: down (width, hidden), up (2 * kv_heads * head_dim, width), the rows of all keys
    // before those of all values. The configuration is the caller's (ModelConfig::make_latents).
    void set_latent(std::uint32_t layer, std::uint32_t width, std::span<const float> down, std::span<const float> up);
    // text: of the options, for the name and weights_id. Errors: a value beyond the type's range.
    Result<std::shared_ptr<const Model>> finish(const std::string& text);

private:
    Tensor pooled(const Tensor& from, std::uint64_t group_rows, std::uint64_t means);
    Tensor make(std::string name, DType type, std::uint64_t rows, std::uint64_t cols, std::span<const float> values);
    void count_parameters();

    std::shared_ptr<Model> m_model;
    bool m_infinite = false;
};

}  // namespace kvloupe
