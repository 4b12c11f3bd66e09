// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/generate_model.h"

#include "engine/model/config_limits.h"
#include "engine/model/derived_tensors.h"
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
        config.architecture = config.latent.present() ? "deepseek_v2" : config.experts.present() ? "mixtral" : "llama";
        config.parameters = 0;
        config.weight_bytes = 0;
        complete(config);
        if (config.name.empty())
            config.name = "generated " + config.attention_variant() + " " + std::to_string(config.layers) + "x" +
                          std::to_string(config.hidden) + " " + std::string(name_of(m_options.matrices));
        model.tokenizer = m_options.tokenizer;
        const std::uint64_t hidden = config.hidden;
        model.embedding = matrix("embedding", config.vocabulary, hidden);
        for (std::uint32_t i = 0; i < config.layers; ++i) add_layer(i);
        model.output_norm = norm("output norm", hidden);
        model.output = config.tied_embeddings ? model.embedding : matrix("output", config.vocabulary, hidden);
        model.weights_id = identity();
        return m_model;
    }

    // What follows from the other values of a shape.
    static void complete(ModelConfig& config) {
        const LatentShape& latent = config.latent;
        if (latent.present()) {
            config.kv_heads = config.query_heads;
            config.head_dim = latent.nope_dim + latent.rotary_dim;
            config.rotary_dim = latent.rotary_dim;
        }
        if (config.rotary_dim == 0) config.rotary_dim = config.head_dim;
        if (!config.layer_shapes.empty()) return;
        config.make_uniform();
        for (LayerShape& layer : config.layer_shapes) layer.experts = config.experts.present();
    }

private:
    void add_layer(std::uint32_t index) {
        const ModelConfig& config = m_model->config;
        const LayerShape& shape = config.layer_shapes[index];
        const std::string prefix = "layer " + std::to_string(index) + " ";
        const std::uint64_t hidden = config.hidden;
        const std::uint64_t values = config.latent.present() ? config.latent.value_dim : config.head_dim;
        LayerWeights layer;
        layer.attention_norm = norm(prefix + "attention norm", hidden);
        if (config.latent.present()) add_latent(prefix, shape, layer);
        else add_attention(prefix, shape, layer);
        layer.attention_out = matrix(prefix + "attention out", hidden, shape.query_heads * values);
        layer.ffn_norm = norm(prefix + "ffn norm", hidden);
        if (config.post_norms) {
            layer.post_attention_norm = norm(prefix + "post attention norm", hidden);
            layer.post_ffn_norm = norm(prefix + "post ffn norm", hidden);
        }
        if (shape.experts) add_experts(prefix, layer);
        else add_feed_forward(prefix, shape.intermediate, layer.gate, layer.up, layer.down);
        m_model->layers.push_back(std::move(layer));
    }

    void add_attention(const std::string& prefix, const LayerShape& shape, LayerWeights& layer) {
        const ModelConfig& config = m_model->config;
        const std::uint64_t hidden = config.hidden, width = config.head_dim;
        layer.query = matrix(prefix + "query", shape.query_heads * width, hidden);
        layer.key = matrix(prefix + "key", shape.kv_heads * width, hidden);
        layer.value = matrix(prefix + "value", shape.kv_heads * width, hidden);
        if (config.attention_bias) {
            layer.query_bias = bias(prefix + "query bias", layer.query.rows);
            layer.key_bias = bias(prefix + "key bias", layer.key.rows);
            layer.value_bias = bias(prefix + "value bias", layer.value.rows);
        }
        if (!config.query_key_norm) return;
        layer.query_norm = norm(prefix + "query norm", width);
        layer.key_norm = norm(prefix + "key norm", width);
    }

    void add_latent(const std::string& prefix, const LayerShape& shape, LayerWeights& layer) {
        const LatentShape& latent = m_model->config.latent;
        const std::uint64_t hidden = m_model->config.hidden;
        const std::uint64_t queries = std::uint64_t{shape.query_heads} * m_model->config.head_dim;
        LatentWeights& weights = layer.latent;
        if (latent.query_rank > 0) {
            weights.query_down = matrix(prefix + "query down", latent.query_rank, hidden);
            weights.query_norm = norm(prefix + "query down norm", latent.query_rank);
            weights.query_up = matrix(prefix + "query up", queries, latent.query_rank);
        } else {
            layer.query = matrix(prefix + "query", queries, hidden);
        }
        weights.key_value_down = matrix(prefix + "key and value down", std::uint64_t{latent.kv_rank} + latent.rotary_dim, hidden);
        weights.key_value_norm = norm(prefix + "key and value norm", latent.kv_rank);
        weights.key_value_up = matrix(prefix + "key and value up",
                                      shape.query_heads * (std::uint64_t{latent.nope_dim} + latent.value_dim), latent.kv_rank);
        complete_latent(*m_model, shape.query_heads, weights);
    }

    void add_feed_forward(const std::string& prefix, std::uint64_t intermediate, Tensor& gate, Tensor& up, Tensor& down) {
        gate = matrix(prefix + "gate", intermediate, m_model->config.hidden);
        up = matrix(prefix + "up", intermediate, m_model->config.hidden);
        down = matrix(prefix + "down", m_model->config.hidden, intermediate);
    }

    void add_experts(const std::string& prefix, LayerWeights& layer) {
        const ExpertShape& experts = m_model->config.experts;
        layer.router = matrix(prefix + "router", experts.count, m_model->config.hidden);
        if (experts.corrected) layer.router_bias = bias(prefix + "router bias", experts.count);
        if (experts.shared > 0)
            add_feed_forward(prefix + "shared ", std::uint64_t{experts.shared} * experts.intermediate, layer.gate, layer.up,
                             layer.down);
        layer.experts.resize(experts.count);
        for (std::uint32_t i = 0; i < experts.count; ++i) {
            FeedForwardWeights& expert = layer.experts[i];
            add_feed_forward(prefix + "expert " + std::to_string(i) + " ", experts.intermediate, expert.gate, expert.up,
                             expert.down);
        }
    }

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

    Tensor bias(std::string name, std::uint64_t width) {
        Tensor tensor = allocate(std::move(name), DType::f32, 1, width);
        m_row.resize(static_cast<std::size_t>(width));
        for (float& value : m_row) value = 0.1f * m_random.next();
        quantise_row(DType::f32, m_row, m_model->owned.back().data());
        return tensor;
    }

    // Equal for equal weights: FNV-1a over shape, type and seed.
    std::uint64_t identity() const {
        const ModelConfig& config = m_model->config;
        std::uint64_t hash = 0xCBF29CE484222325ull;
        const LatentShape& latent = config.latent;
        const ExpertShape& experts = config.experts;
        std::vector<std::uint64_t> values = {
            config.layers, config.hidden, config.query_heads, config.kv_heads, config.head_dim, config.intermediate,
            config.vocabulary, config.tied_embeddings, config.attention_bias, config.query_key_norm, config.post_norms, latent.query_rank,
            latent.kv_rank, latent.nope_dim, latent.rotary_dim, latent.value_dim, experts.count, experts.shared,
            experts.intermediate, experts.corrected, static_cast<std::uint64_t>(m_options.matrices), m_options.seed};
        for (const LayerShape& layer : config.layer_shapes)
            values.insert(values.end(), {layer.query_heads, layer.kv_heads, layer.intermediate, layer.experts});
        for (const std::uint64_t value : values)
            for (int byte = 0; byte < 8; ++byte) hash = (hash ^ ((value >> (8 * byte)) & 0xFF)) * 0x100000001B3ull;
        return hash;
    }

    const GenerateOptions& m_options;
    Random m_random;
    std::shared_ptr<Model> m_model;
    std::vector<float> m_row;
};

// Widths of rows: packs must divide them.
std::vector<std::pair<std::string, std::uint64_t>> widths_of_rows(const ModelConfig& shape) {
    std::vector<std::pair<std::string, std::uint64_t>> widths = {{"hidden", shape.hidden}};
    const bool latent = shape.latent.present();
    const std::uint64_t values = latent ? shape.latent.value_dim : shape.head_dim;
    for (const LayerShape& layer : shape.layer_shapes) {
        widths.emplace_back(latent ? "query_heads * value_dim" : "query_heads * head_dim", layer.query_heads * values);
        if (!layer.experts) widths.emplace_back("intermediate", layer.intermediate);
    }
    if (latent) widths.emplace_back("kv_rank", shape.latent.kv_rank);
    if (latent && shape.latent.query_rank > 0) widths.emplace_back("query_rank", shape.latent.query_rank);
    if (shape.experts.present()) widths.emplace_back("intermediate of an expert", shape.experts.intermediate);
    return widths;
}

// shape: completed.
Result<void> check_shape(const GenerateOptions& options, const ModelConfig& shape) {
    const std::pair<const char*, std::uint64_t> needed[] = {
        {"layers", shape.layers},     {"hidden", shape.hidden},         {"query_heads", shape.query_heads},
        {"kv_heads", shape.kv_heads}, {"head_dim", shape.head_dim},     {"intermediate", shape.intermediate},
        {"vocabulary", shape.vocabulary}, {"context_length", shape.context_length},
        {"nope_dim", shape.latent.present() ? shape.latent.nope_dim : 1},
        {"value_dim", shape.latent.present() ? shape.latent.value_dim : 1},
        {"intermediate of an expert", shape.experts.present() ? shape.experts.intermediate : 1}};
    for (const auto& entry : needed)
        if (entry.second == 0)
            return Error{std::string("a generated model needs ") + entry.first + ", which is 0", "Give a value above 0."};
    const DType type = options.matrices;
    if (!is_weight_type(type) || type >= DType::q4_k)
        return Error{"a generated model cannot be in " + std::string(name_of(type)) + ", which is only read",
                     "Choose f32, f16, bf16, q8_0, q5_0, q5_1, q4_0 or q4_1."};
    const std::uint32_t pack = elements_per_pack(type);
    for (const auto& entry : widths_of_rows(shape))
        if (entry.second % pack != 0)
            return Error{std::string("a generated model in ") + std::string(name_of(type)) + " needs " + entry.first +
                             " as a multiple of " + std::to_string(pack) + ", not " + std::to_string(entry.second),
                         "Choose another width or type."};
    return check_config(shape, "generated model");
}

}  // namespace

Result<std::shared_ptr<const Model>> generate_model(const GenerateOptions& options) {
    try {
        ModelConfig shape = options.shape;
        if (shape.layers > ConfigLimits::layers)
            return Error{"a generated model has at most " + std::to_string(ConfigLimits::layers) + " layers, not " +
                             std::to_string(shape.layers), "Choose fewer."};
        Generator::complete(shape);
        if (const Result<void> checked = check_shape(options, shape); !checked) return checked.error();
        return Generator(options).generate();
    } catch (const std::exception& failure) {
        return Error{std::string("a generated model of this size cannot be held in memory (") + failure.what() + ")",
                     "Choose a smaller one."};
    }
}

}  // namespace kvloupe
