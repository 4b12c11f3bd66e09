// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/generate_model.h"

#include "engine/model/config_limits.h"
#include "engine/model/quants.h"

#include <cmath>
#include <exception>
#include <span>
#include <utility>

namespace kvloupe {

namespace {

// splitmix64 (Steele, Lea, Flood 2014): the same sequence everywhere, unlike the standard library's distributions.
class Random {
public:
    explicit Random(std::uint64_t seed) : m_state(seed) {}
    // Uniform in [-1, 1), in steps of 2^-23.
    float next() {
        if (m_spare_valid) {
            m_spare_valid = false;
            return unit(static_cast<std::uint32_t>(m_spare >> 32));
        }
        std::uint64_t z = (m_state += 0x9E3779B97F4A7C15ull);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        m_spare = z ^ (z >> 31);
        m_spare_valid = true;
        return unit(static_cast<std::uint32_t>(m_spare));
    }

private:
    static float unit(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f; }
    std::uint64_t m_state;
    std::uint64_t m_spare = 0;
    bool m_spare_valid = false;
};

class Generator {
public:
    explicit Generator(const GenerateOptions& options)
        : m_options(options), m_random(options.seed), m_model(std::make_shared<Model>()) {}

    std::shared_ptr<const Model> generate() {
        Model& model = *m_model;
        model.config = m_options.shape;
        ModelConfig& config = model.config;
        config.architecture = "llama";
        config.parameters = 0;
        config.weight_bytes = 0;
        if (config.rotary_dim == 0) config.rotary_dim = config.head_dim;
        if (config.layer_shapes.empty()) config.make_uniform();
        if (config.name.empty())
            config.name = "generated " + config.attention_variant() + " " + std::to_string(config.layers) + "x" +
                          std::to_string(config.hidden) + " " + std::string(name_of(m_options.matrices));
        model.tokenizer = m_options.tokenizer;
        const std::uint64_t hidden = config.hidden;
        const std::uint64_t queries = std::uint64_t{config.query_heads} * config.head_dim;
        const std::uint64_t keys = std::uint64_t{config.kv_heads} * config.head_dim;
        model.embedding = matrix("embedding", config.vocabulary, hidden);
        for (std::uint32_t i = 0; i < config.layers; ++i) {
            const std::string prefix = "layer " + std::to_string(i) + " ";
            LayerWeights layer;
            layer.attention_norm = norm(prefix + "attention norm", hidden);
            layer.query = matrix(prefix + "query", queries, hidden);
            layer.key = matrix(prefix + "key", keys, hidden);
            layer.value = matrix(prefix + "value", keys, hidden);
            layer.attention_out = matrix(prefix + "attention out", hidden, queries);
            layer.ffn_norm = norm(prefix + "ffn norm", hidden);
            layer.gate = matrix(prefix + "gate", config.intermediate, hidden);
            layer.up = matrix(prefix + "up", config.intermediate, hidden);
            layer.down = matrix(prefix + "down", hidden, config.intermediate);
            model.layers.push_back(std::move(layer));
        }
        model.output_norm = norm("output norm", hidden);
        model.output = config.tied_embeddings ? model.embedding : matrix("output", config.vocabulary, hidden);
        model.weights_id = identity();
        return m_model;
    }

private:
    Tensor allocate(std::string name, DType dtype, std::uint64_t rows, std::uint64_t cols) {
        Tensor tensor;
        tensor.name = std::move(name);
        tensor.dtype = dtype;
        tensor.rows = rows;
        tensor.cols = cols;
        m_model->owned.emplace_back(static_cast<std::size_t>(tensor.bytes()));
        tensor.data = m_model->owned.back().data();
        m_model->config.parameters += rows * cols;
        m_model->config.weight_bytes += tensor.bytes();
        return tensor;
    }

    Tensor matrix(std::string name, std::uint64_t rows, std::uint64_t cols) {
        Tensor tensor = allocate(std::move(name), m_options.matrices, rows, cols);
        // A uniform value in [-1, 1) has the variance 1/3.
        const float scale = std::sqrt(3.0f / static_cast<float>(cols));
        m_row.resize(static_cast<std::size_t>(cols));
        std::byte* out = m_model->owned.back().data();
        for (std::uint64_t r = 0; r < rows; ++r, out += row_bytes(tensor.dtype, cols)) {
            for (float& value : m_row) value = scale * m_random.next();
            quantise_row(tensor.dtype, m_row, out);
        }
        return tensor;
    }

    Tensor norm(std::string name, std::uint64_t width) {
        Tensor tensor = allocate(std::move(name), DType::f32, 1, width);
        m_row.resize(static_cast<std::size_t>(width));
        for (float& value : m_row) value = 1.0f + 0.1f * m_random.next();
        quantise_row(DType::f32, m_row, m_model->owned.back().data());
        return tensor;
    }

    // Equal for equal weights: FNV-1a over shape, type and seed.
    std::uint64_t identity() const {
        const ModelConfig& config = m_model->config;
        std::uint64_t hash = 0xCBF29CE484222325ull;
        for (const std::uint64_t value :
             {std::uint64_t{config.layers}, std::uint64_t{config.hidden}, std::uint64_t{config.query_heads},
              std::uint64_t{config.kv_heads}, std::uint64_t{config.head_dim}, std::uint64_t{config.intermediate},
              std::uint64_t{config.vocabulary}, std::uint64_t{config.tied_embeddings},
              static_cast<std::uint64_t>(m_options.matrices), m_options.seed})
            for (int byte = 0; byte < 8; ++byte) hash = (hash ^ ((value >> (8 * byte)) & 0xFF)) * 0x100000001B3ull;
        return hash;
    }

    const GenerateOptions& m_options;
    Random m_random;
    std::shared_ptr<Model> m_model;
    std::vector<float> m_row;
};

Result<void> check_shape(const GenerateOptions& options) {
    const ModelConfig& shape = options.shape;
    const std::pair<const char*, std::uint64_t> needed[] = {
        {"layers", shape.layers},     {"hidden", shape.hidden},         {"query_heads", shape.query_heads},
        {"kv_heads", shape.kv_heads}, {"head_dim", shape.head_dim},     {"intermediate", shape.intermediate},
        {"vocabulary", shape.vocabulary}, {"context_length", shape.context_length}};
    for (const auto& entry : needed)
        if (entry.second == 0)
            return Error{std::string("a generated model needs ") + entry.first + ", which is 0", "Give a value above 0."};
    const std::uint32_t pack = elements_per_pack(options.matrices);
    const std::pair<const char*, std::uint64_t> rows[] = {
        {"hidden", shape.hidden},
        {"query_heads * head_dim", std::uint64_t{shape.query_heads} * shape.head_dim},
        {"intermediate", shape.intermediate}};
    for (const auto& entry : rows)
        if (entry.second % pack != 0)
            return Error{std::string("a generated model in ") + std::string(name_of(options.matrices)) + " needs " +
                             entry.first + " as a multiple of 32, not " + std::to_string(entry.second),
                         "Choose another width or type."};
    ModelConfig checked = shape;
    if (checked.rotary_dim == 0) checked.rotary_dim = checked.head_dim;
    if (checked.layer_shapes.empty()) checked.make_uniform();
    return check_config(checked, "generated model");
}

}  // namespace

Result<std::shared_ptr<const Model>> generate_model(const GenerateOptions& options) {
    try {
        if (const Result<void> checked = check_shape(options); !checked) return checked.error();
        return Generator(options).generate();
    } catch (const std::exception& failure) {
        return Error{std::string("a generated model of this size cannot be held in memory (") + failure.what() + ")",
                     "Choose a smaller one."};
    }
}

}  // namespace kvloupe
