// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/convert_model.h"

#include "engine/model/converted_tensors.h"
#include "engine/model/latent_widths.h"
#include "engine/model/low_rank.h"

#include <algorithm>
#include <exception>
#include <numeric>

namespace kvloupe {

namespace {

std::string number(std::uint64_t value) { return std::to_string(value); }

// The rows of all keys, then those of all values.
std::vector<float> joint_projection(const LayerWeights& layer) {
    std::vector<float> both = elements_of(layer.key);
    const std::vector<float> values = elements_of(layer.value);
    both.insert(both.end(), values.begin(), values.end());
    return both;
}

// What a layer's joint projection can have at most.
std::uint64_t projection_rank(const ModelConfig& config, const LayerShape& layer) {
    return std::min<std::uint64_t>(2 * std::uint64_t{layer.kv_heads} * config.head_dim, config.hidden);
}

Result<ModelConfig> with_fewer_heads(ModelConfig config, const ConvertOptions& options) {
    const std::uint32_t heads = options.to == ConvertOptions::Target::mqa ? 1 : options.kv_heads;
    bool same = true;
    for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
        const std::uint32_t has = config.layer_shapes[layer].kv_heads;
        same = same && has == heads;
        if (heads == 0 || has % heads != 0)
            return Error{"kv_heads: " + number(heads) + " does not divide the " + number(has) + " KV heads of layer " + number(layer) +
                             " of '" + config.name + "'", "Give a divisor of " + number(has) + "."};
    }
    if (same)
        return Error{"'" + config.name + "' has " + number(heads) + " KV head" + (heads == 1 ? "" : "s") + " already",
                     "Give fewer heads, or leave the conversion out."};
    for (LayerShape& layer : config.layer_shapes) layer.kv_heads = heads;
    config.kv_heads = heads;
    return config;
}

Result<ModelConfig> with_latents(ModelConfig config, const ConvertOptions& options) {
    const LayerShape& first = config.layer_shapes.front();
    const std::uint64_t rank = projection_rank(config, first);
    for (const LayerShape& layer : config.layer_shapes)
        if (layer.kv_heads != first.kv_heads || layer.query_heads != first.query_heads)
            return Error{"The layers of '" + config.name + "' have different numbers of heads, for which latents are not made",
                         "Choose another model."};
    if (options.width > rank)
        return Error{"width: " + number(options.width) + " is beyond the projection, whose rank is at most " + number(rank) + " (" +
                         number(2 * std::uint64_t{first.kv_heads} * config.head_dim) + " rows of keys and values by " +
                         number(config.hidden) + ")",
                     "Give a width from 1 to " + number(rank) + "."};
    const std::uint64_t least = config.layers, most = rank * config.layers;
    if (options.width == 0 && (options.budget < least || options.budget > most))
        return Error{"budget: " + number(options.budget) + " values for " + number(config.layers) + " layers is out of range",
                     "Give " + number(least) + " to " + number(most) + ", the sum of all layers' widths."};
    std::vector<std::uint32_t> widths(config.layers, options.width > 0 ? options.width : options.budget / config.layers);
    if (options.width == 0)
        for (std::uint32_t i = 0; i < options.budget % config.layers; ++i) ++widths[i];
    config.make_latents(widths);
    return config;
}

class Converter {
public:
    Converter(std::shared_ptr<const Model> model, const ConvertOptions& options, const LoadOptions& run,
              const ConvertCalibration* calibration)
        : m_source(std::move(model)), m_config(m_source->config), m_options(options), m_run(run), m_calibration(calibration) {
        if (m_config.layer_shapes.empty()) m_config.make_uniform();
    }

    Result<std::shared_ptr<const Model>> convert() {
        if (auto possible = converted_config(m_config, m_options); !possible) return possible.error();
        return m_options.to == ConvertOptions::Target::mla ? to_latents() : to_fewer_heads();
    }

private:
    Result<void> begin(std::uint64_t done, std::uint64_t of, const std::string& what) const {
        if (m_run.stop.stop_requested()) return Error{"Converting was cancelled", ""};
        if (m_run.progress) m_run.progress(static_cast<double>(done) / static_cast<double>(of), what);
        return {};
    }
    Result<void> begin_layer(std::uint32_t layer) const {
        return begin(layer, m_config.layers, "Converting layer " + number(layer) + " of " + number(m_config.layers));
    }

    Result<std::shared_ptr<const Model>> to_fewer_heads() {
        const std::uint32_t heads = m_options.to == ConvertOptions::Target::mqa ? 1 : m_options.kv_heads;
        ConvertedTensors result(m_source);
        result.config().layer_shapes = m_config.layer_shapes;
        for (std::uint32_t layer = 0; layer < m_config.layers; ++layer) {
            if (auto begun = begin_layer(layer); !begun) return begun.error();
            result.pool_heads(layer, heads);
        }
        return result.finish(m_options.text());
    }

    Result<std::shared_ptr<const Model>> to_latents() {
        const bool weighed = m_options.by == ConvertOptions::Measure::sensitivity;
        if (weighed && m_calibration == nullptr)
            return Error{"by: 'sensitivity' needs a text on which the model is measured", "Give \"by\": \"energy\"."};
        for (std::uint32_t layer = 0; layer < m_config.layers; ++layer) {
            if (auto begun = begin_layer(layer); !begun) return begun.error();
            const std::vector<float> both = joint_projection(m_source->layers[layer]);
            std::span<const double> inputs;
            if (weighed) inputs = m_calibration->covariances[layer];
            m_factors.emplace_back(both, static_cast<std::uint32_t>(both.size() / m_config.hidden), m_config.hidden, inputs);
        }
        std::vector<std::uint32_t> widths(m_config.layers, m_options.width);
        if (m_options.width == 0) {
            std::vector<double> weights;
            if (weighed) {
                auto measured = measure_weights();
                if (!measured) return measured.error();
                weights = std::move(*measured);
            }
            std::vector<std::vector<double>> squared;
            for (const LowRank& factors : m_factors) squared.push_back(factors.squared());
            widths = share_budget(squared, weights, m_options.budget);
        }
        return with_widths(widths, m_options.text());
    }

    Result<std::shared_ptr<const Model>> with_widths(const std::vector<std::uint32_t>& widths, const std::string& text) const {
        ConvertedTensors result(m_source);
        result.config().layer_shapes = m_config.layer_shapes;
        result.config().make_latents(widths);
        for (std::uint32_t layer = 0; layer < m_config.layers; ++layer)
            result.set_latent(layer, widths[layer], m_factors[layer].down(widths[layer]), m_factors[layer].up(widths[layer]));
        return result.finish(text);
    }

    // convert_model.h says by what rule.
    Result<std::vector<double>> measure_weights() const {
        const std::uint32_t full = m_factors.front().rank();
        const std::uint32_t mean = std::clamp(m_options.budget / m_config.layers, 1u, full);
        std::vector<std::uint32_t> widths(m_config.layers, full);
        auto whole = loss_of(widths);
        if (!whole) return whole.error();
        std::vector<double> weights;
        for (std::uint32_t layer = 0; layer < m_config.layers; ++layer) {
            if (auto begun = begin(layer, m_config.layers, "Measuring what layer " + number(layer) + " costs"); !begun)
                return begun.error();
            double grown = 0, lost = 0;
            for (const std::uint32_t width : {mean, std::max(1u, mean / 2)}) {
                widths[layer] = width;
                auto loss = loss_of(widths);
                if (!loss) return loss.error();
                grown += *loss - *whole;
                lost += m_factors[layer].lost(width);
            }
            widths[layer] = full;
            // A layer whose cut does no harm on this text still counts a little, so that its largest values come first.
            weights.push_back(std::max(grown, 1e-6) / std::max(lost, 1e-12));
        }
        return weights;
    }

    Result<double> loss_of(const std::vector<std::uint32_t>& widths) const {
        auto model = with_widths(widths, "measured");
        if (!model) return model.error();
        return m_calibration->loss(*model);
    }

    std::shared_ptr<const Model> m_source;
    ModelConfig m_config;  // of the source, with the shapes of its layers
    const ConvertOptions& m_options;
    const LoadOptions& m_run;
    const ConvertCalibration* m_calibration;
    std::vector<LowRank> m_factors;  // (layers)
};

Error too_large(const Model& model, const std::exception& failure) {
    return {"'" + model.config.name + "' cannot be converted in this memory (" + failure.what() + ")", "Close other programs and try again."};
}

}  // namespace

Result<ModelConfig> converted_config(const ModelConfig& config, const ConvertOptions& options) {
    if (config.latent.present())
        return Error{"'" + config.name + "' keeps latents already, there are no KV heads to convert", "Choose a model with MHA or GQA."};
    ModelConfig shaped = config;
    if (shaped.layer_shapes.empty()) shaped.make_uniform();
    return options.to == ConvertOptions::Target::mla ? with_latents(std::move(shaped), options)
                                                     : with_fewer_heads(std::move(shaped), options);
}

Result<std::shared_ptr<const Model>> convert_model(std::shared_ptr<const Model> model, const ConvertOptions& options,
                                                   const LoadOptions& run, const ConvertCalibration* calibration) {
    try {
        return Converter(model, options, run, calibration).convert();
    } catch (const std::exception& failure) {
        return too_large(*model, failure);
    }
}

Result<std::shared_ptr<const Model>> expose_inputs(std::shared_ptr<const Model> model) {
    try {
        ModelConfig config = model->config;
        if (config.layer_shapes.empty()) config.make_uniform();
        ConvertedTensors result(model);
        result.config().layer_shapes = config.layer_shapes;
        result.config().make_latents(std::vector<std::uint32_t>(config.layers, config.hidden));
        std::vector<float> identity(std::size_t{config.hidden} * config.hidden, 0.0f);
        for (std::size_t i = 0; i < config.hidden; ++i) identity[i * (config.hidden + std::size_t{1})] = 1;
        for (std::uint32_t layer = 0; layer < config.layers; ++layer)
            result.set_latent(layer, config.hidden, identity, joint_projection(model->layers[layer]));
        return result.finish("inputs");
    } catch (const std::exception& failure) {
        return too_large(*model, failure);
    }
}

}  // namespace kvloupe
