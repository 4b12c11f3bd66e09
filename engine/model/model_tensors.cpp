// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/model_tensors.h"

#include "engine/model/derived_tensors.h"
#include "engine/model/message.h"

namespace kvloupe {

namespace {

class Assigner {
public:
    Assigner(Model& model, TensorTaker& taker, const TensorNames& names)
        : m_model(model), m_config(model.config), m_taker(taker), m_names(names) {}

    bool assign() {
        const std::uint64_t hidden = m_config.hidden;
        if (!m_taker.matrix(std::string(m_names.embedding), m_config.vocabulary, hidden, m_model.embedding) ||
            !norm(std::string(m_names.output_norm), hidden, m_model.output_norm))
            return false;
        if (m_config.tied_embeddings) {
            m_model.output = m_model.embedding;
            m_taker.ignore(std::string(m_names.output));  // some files keep a copy; the configuration decides
        } else if (!m_taker.matrix(std::string(m_names.output), m_config.vocabulary, hidden, m_model.output)) {
            return false;
        }
        // A file with fewer tensors than layers is refused before anything of that size is allocated.
        if (m_config.layers > m_taker.count())
            return m_taker.fail("has " + grouped(m_taker.count()) + " tensors, too few for the " + grouped(m_config.layers) +
                                " layers of its configuration");
        m_model.layers.resize(m_config.layers);
        for (std::uint32_t i = 0; i < m_config.layers; ++i)
            if (!assign_layer(i)) return false;
        if (const StoredTensor* const rest = m_taker.left_over())
            return m_taker.fail("tensor " + in_quotes(rest->name) + " has no place in a " + m_config.architecture +
                                    " model of " + grouped(m_config.layers) + " layers",
                                "The file is of another architecture, or needs something that is not built yet.");
        m_model.config.parameters = m_taker.parameters();
        m_model.config.weight_bytes = m_taker.bytes();
        return true;
    }

private:
    std::string name(std::string_view part) const { return m_prefix + std::string(part); }

    bool norm(const std::string& full_name, std::uint64_t width, Tensor& out) {
        if (!m_taker.vector(full_name, width, out)) return false;
        if (m_names.norms_lack_one) add_one(m_model, out);
        return true;
    }

    bool assign_layer(std::uint32_t index) {
        const LayerShape& shape = m_config.layer_shapes[index];
        LayerWeights& layer = m_model.layers[index];
        m_prefix = std::string(m_names.layer_prefix) + std::to_string(index) + ".";
        const std::uint64_t hidden = m_config.hidden;
        const std::uint64_t values = m_config.latent.present() ? m_config.latent.value_dim : m_config.head_dim;
        if (!norm(name(m_names.attention_norm), hidden, layer.attention_norm) ||
            !assign_cached(index, shape, layer) ||
            !m_taker.matrix(name(m_names.attention_out), hidden, shape.query_heads * values, layer.attention_out) ||
            !norm(name(m_names.ffn_norm), hidden, layer.ffn_norm))
            return false;
        if (m_config.post_norms && (!norm(name(m_names.post_attention_norm), hidden, layer.post_attention_norm) ||
                                    !norm(name(m_names.post_ffn_norm), hidden, layer.post_ffn_norm)))
            return false;
        // Old Hugging Face files carry the rotary frequencies, which follow from the base.
        m_taker.ignore(name("self_attn.rotary_emb.inv_freq"));
        if (shape.experts) return assign_experts(layer);
        return feed_forward(name(m_names.gate), name(m_names.up), name(m_names.down), shape.intermediate, layer.gate, layer.up,
                            layer.down);
    }

    bool assign_cached(std::uint32_t index, const LayerShape& shape, LayerWeights& layer) {
        if (!m_config.latent.present()) return assign_attention(shape, layer);
        if (m_config.latent.late_rotation) return assign_late_latent(shape, m_config.latent_width(index), layer);
        return assign_latent(shape, layer);
    }

    bool assign_attention(const LayerShape& shape, LayerWeights& layer) {
        const std::uint64_t keys = std::uint64_t{shape.kv_heads} * m_config.head_dim;
        return m_taker.matrix(name(m_names.query), std::uint64_t{shape.query_heads} * m_config.head_dim, m_config.hidden, layer.query) &&
               m_taker.matrix(name(m_names.key), keys, m_config.hidden, layer.key) &&
               m_taker.matrix(name(m_names.value), keys, m_config.hidden, layer.value) && assign_head_parts(shape, layer);
    }

    // Latents that a layer's keys and values are made from before they get what belongs to heads.
    bool assign_late_latent(const LayerShape& shape, std::uint64_t width, LayerWeights& layer) {
        const std::uint64_t rows = 2 * std::uint64_t{shape.kv_heads} * m_config.head_dim;
        return m_taker.matrix(name(m_names.query), std::uint64_t{shape.query_heads} * m_config.head_dim, m_config.hidden, layer.query) &&
               m_taker.matrix(name(m_names.key_value_down), width, m_config.hidden, layer.latent.key_value_down) &&
               m_taker.matrix(name(m_names.key_value_up), rows, width, layer.latent.key_value_up) && assign_head_parts(shape, layer);
    }

    // Biases and norms of query, key and value heads.
    bool assign_head_parts(const LayerShape& shape, LayerWeights& layer) {
        const std::uint64_t width = m_config.head_dim, queries = shape.query_heads * width, keys = shape.kv_heads * width;
        if (m_config.attention_bias && (!m_taker.vector(name(m_names.query_bias), queries, layer.query_bias) ||
                                        !m_taker.vector(name(m_names.key_bias), keys, layer.key_bias) ||
                                        !m_taker.vector(name(m_names.value_bias), keys, layer.value_bias)))
            return false;
        return !m_config.query_key_norm || (norm(name(m_names.query_norm), width, layer.query_norm) &&
                                            norm(name(m_names.key_norm), width, layer.key_norm));
    }

    bool assign_latent(const LayerShape& shape, LayerWeights& layer) {
        const LatentShape& latent = m_config.latent;
        const std::uint64_t hidden = m_config.hidden, heads = shape.query_heads;
        const std::uint64_t queries = heads * (std::uint64_t{latent.nope_dim} + latent.rotary_dim);
        LatentWeights& weights = layer.latent;
        if (latent.query_rank == 0) {
            if (!m_taker.matrix(name(m_names.query), queries, hidden, layer.query)) return false;
        } else if (!m_taker.matrix(name(m_names.query_down), latent.query_rank, hidden, weights.query_down) ||
                   !norm(name(m_names.query_down_norm), latent.query_rank, weights.query_norm) ||
                   !m_taker.matrix(name(m_names.query_up), queries, latent.query_rank, weights.query_up)) {
            return false;
        }
        if (!m_taker.matrix(name(m_names.key_value_down), std::uint64_t{latent.kv_rank} + latent.rotary_dim, hidden,
                            weights.key_value_down) ||
            !norm(name(m_names.key_value_norm), latent.kv_rank, weights.key_value_norm))
            return false;
        const bool halves = !m_names.key_up_transposed.empty() && m_taker.has(name(m_names.key_up_transposed));
        if (halves ? !m_taker.stack(name(m_names.key_up_transposed), heads, latent.kv_rank, latent.nope_dim,
                                    weights.key_up_transposed) ||
                         !m_taker.stack(name(m_names.value_up), heads, latent.value_dim, latent.kv_rank, weights.value_up)
                   : !m_taker.matrix(name(m_names.key_value_up), heads * (std::uint64_t{latent.nope_dim} + latent.value_dim),
                                     latent.kv_rank, weights.key_value_up))
            return false;
        complete_latent(m_model, shape.query_heads, weights);
        return true;
    }

    bool feed_forward(const std::string& gate_name, const std::string& up_name, const std::string& down_name,
                      std::uint64_t intermediate, Tensor& gate, Tensor& up, Tensor& down) {
        return m_taker.matrix(gate_name, intermediate, m_config.hidden, gate) &&
               m_taker.matrix(up_name, intermediate, m_config.hidden, up) &&
               m_taker.matrix(down_name, m_config.hidden, intermediate, down);
    }

    bool assign_experts(LayerWeights& layer) {
        const ExpertShape& experts = m_config.experts;
        if (!m_taker.matrix(name(m_names.router), experts.count, m_config.hidden, layer.router)) return false;
        if (experts.corrected && !m_taker.vector(name(m_names.router_bias), experts.count, layer.router_bias)) return false;
        if (experts.shared > 0 && !feed_forward(name(m_names.shared_gate), name(m_names.shared_up), name(m_names.shared_down),
                                                std::uint64_t{experts.shared} * experts.intermediate, layer.gate, layer.up,
                                                layer.down))
            return false;
        if (m_names.stacked_experts) return assign_stack(layer);
        for (std::uint32_t i = 0; i < experts.count; ++i) {
            const std::string prefix = name(m_names.expert_prefix) + std::to_string(i) + ".";
            FeedForwardWeights expert;
            if (!feed_forward(prefix + std::string(m_names.expert_gate), prefix + std::string(m_names.expert_up),
                              prefix + std::string(m_names.expert_down), experts.intermediate, expert.gate, expert.up,
                              expert.down))
                return false;
            layer.experts.push_back(std::move(expert));
        }
        return true;
    }

    bool assign_stack(LayerWeights& layer) {
        const ExpertShape& experts = m_config.experts;
        Tensor gates, ups, downs;
        if (!m_taker.stack(name(m_names.expert_gate), experts.count, experts.intermediate, m_config.hidden, gates) ||
            !m_taker.stack(name(m_names.expert_up), experts.count, experts.intermediate, m_config.hidden, ups) ||
            !m_taker.stack(name(m_names.expert_down), experts.count, m_config.hidden, experts.intermediate, downs))
            return false;
        const auto slice = [count = experts.count](const Tensor& stack, std::uint32_t index) {
            Tensor part = stack;
            part.rows = stack.rows / count;
            part.data = stack.data + index * part.bytes();
            part.name += " [" + std::to_string(index) + "]";
            return part;
        };
        layer.experts.resize(experts.count);
        for (std::uint32_t i = 0; i < experts.count; ++i)
            layer.experts[i] = {slice(gates, i), slice(ups, i), slice(downs, i)};
        return true;
    }

    Model& m_model;
    const ModelConfig& m_config;
    TensorTaker& m_taker;
    const TensorNames& m_names;
    std::string m_prefix;  // of the layer at hand
};

}  // namespace

Result<void> assign_tensors(Model& model, const std::vector<StoredTensor>& tensors, const TensorNames& names,
                            const std::vector<std::string>& ignored, const std::string& path) {
    TensorTaker taker(tensors, path);
    for (const std::string& prefix : ignored) taker.ignore_prefix(prefix);
    if (!Assigner(model, taker, names).assign()) return taker.error;
    return {};
}

}  // namespace kvloupe
