// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/analysis/weight_size.h"

#include "engine/analysis/kv_size.h"

namespace kvloupe {

namespace {

class Counter {
public:
    Counter(const ModelConfig& config, const WeightForm& form, std::uint32_t gpus)
        : m_config(config), m_form(form), m_gpus(gpus), m_hidden(config.hidden) {}

    ModelParameters count() const {
        ModelParameters sum;
        const std::uint64_t rows = divided(m_config.vocabulary);
        sum.embedding = (rows + m_form.positions) * m_hidden;
        sum.output = m_config.tied_embeddings ? 0 : rows * m_hidden;
        sum.output_norm = norm(m_hidden);
        for (const LayerShape& shape : m_config.layer_shapes)
            sum.layers.push_back({m_config.latent.present() ? latent_attention(shape) : attention(shape),
                                  shape.experts ? experts() : dense(shape.intermediate),
                                  (m_config.post_norms ? 4 : 2) * norm(m_hidden)});
        return sum;
    }

private:
    std::uint64_t divided(std::uint64_t count) const { return (count + m_gpus - 1) / m_gpus; }
    std::uint64_t norm(std::uint64_t width) const { return m_form.norm_biases ? 2 * width : width; }

    std::uint64_t attention(const LayerShape& shape) const {
        const std::uint64_t queries = std::uint64_t{shape.query_heads} / m_gpus * m_config.head_dim;
        const std::uint64_t keys =
            std::uint64_t{kv_heads_per_gpu(shape.query_heads, shape.kv_heads, m_gpus)} * m_config.head_dim;
        std::uint64_t count = m_hidden * (2 * queries + 2 * keys);  // queries, keys, values, out
        if (m_config.attention_bias || m_form.biases) count += queries + 2 * keys;
        if (m_form.biases) count += m_hidden;
        if (m_config.query_key_norm) count += 2 * norm(m_config.head_dim);
        return count;
    }

    std::uint64_t latent_attention(const LayerShape& shape) const {
        const LatentShape& latent = m_config.latent;
        const std::uint64_t heads = shape.query_heads / m_gpus;
        const std::uint64_t queries = heads * (latent.nope_dim + latent.rotary_dim);
        const std::uint64_t rank = latent.query_rank;
        const std::uint64_t query_part = rank > 0 ? m_hidden * rank + norm(rank) + rank * queries : m_hidden * queries;
        return query_part + m_hidden * (latent.kv_rank + latent.rotary_dim) + norm(latent.kv_rank) +
               latent.kv_rank * heads * (latent.nope_dim + latent.value_dim) + heads * latent.value_dim * m_hidden;
    }

    std::uint64_t dense(std::uint64_t intermediate) const {
        const std::uint64_t width = divided(intermediate);
        const std::uint64_t matrices = (m_form.gated ? 3 : 2) * m_hidden * width;
        return matrices + (m_form.biases ? (m_form.gated ? 2 : 1) * width + m_hidden : 0);
    }

    std::uint64_t experts() const {
        const ExpertShape& experts = m_config.experts;
        const std::uint64_t each = 3 * m_hidden * divided(experts.intermediate);
        return (std::uint64_t{experts.count} + experts.shared) * each + experts.count * m_hidden +
               (experts.corrected ? experts.count : 0);
    }

    const ModelConfig& m_config;
    const WeightForm& m_form;
    std::uint32_t m_gpus;
    std::uint64_t m_hidden;
};

}  // namespace

std::uint64_t ModelParameters::attention() const {
    std::uint64_t count = 0;
    for (const LayerParameters& layer : layers) count += layer.attention;
    return count;
}

std::uint64_t ModelParameters::sum() const { return stage(0, static_cast<std::uint32_t>(layers.size())); }

std::uint64_t ModelParameters::stage(std::uint32_t first, std::uint32_t count) const {
    std::uint64_t result = 0;
    for (std::uint32_t i = first; i < first + count; ++i) result += layers[i].sum();
    const bool has_first = first == 0, has_last = first + count == layers.size();
    if (has_first) result += embedding;
    if (has_last) result += output_norm + (output > 0 || has_first ? output : embedding);
    return result;
}

ModelParameters count_parameters(const ModelConfig& config, const WeightForm& form, std::uint32_t gpus) {
    return Counter(config, form, gpus).count();
}

}  // namespace kvloupe
