// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/parameter_count.h"

#include <array>
#include <initializer_list>

namespace kvloupe {

namespace {

class Counter {
public:
    void add(std::uint64_t& part, std::initializer_list<const Tensor*> tensors) {
        for (const Tensor* tensor : tensors) {
            if (!tensor->present()) continue;
            part += tensor->rows * tensor->cols;
            m_stored[static_cast<std::size_t>(tensor->dtype)] += tensor->rows * tensor->cols;
        }
    }

    void add_layer(ParameterCount& count, const LayerWeights& w) {
        const LatentWeights& latent = w.latent;
        add(count.parts.attention, {&w.query, &w.key, &w.value, &w.query_bias, &w.key_bias, &w.value_bias, &w.query_norm, &w.key_norm,
                                    &w.attention_out, &latent.query_down, &latent.query_norm, &latent.query_up, &latent.key_value_down,
                                    &latent.key_value_norm});
        // The joint projection and its two cuts hold the same numbers.
        if (latent.key_value_up.present()) {
            add(count.parts.attention, {&latent.key_value_up});
            for (const Tensor* cut : {&latent.key_up_transposed, &latent.value_up})
                if (cut->present()) count.derived_bytes += cut->bytes();
        } else {
            add(count.parts.attention, {&latent.key_up_transposed, &latent.value_up});
        }
        add(count.parts.feed_forward, {&w.gate, &w.up, &w.down, &w.router, &w.router_bias});
        for (const FeedForwardWeights& expert : w.experts) add(count.parts.feed_forward, {&expert.gate, &expert.up, &expert.down});
        add(count.parts.norms, {&w.attention_norm, &w.post_attention_norm, &w.ffn_norm, &w.post_ffn_norm});
    }

    std::vector<StoredParameters> stored() const {
        std::vector<StoredParameters> result;
        for (std::size_t i = 0; i < m_stored.size(); ++i)
            if (m_stored[i] > 0) result.push_back({static_cast<DType>(i), m_stored[i]});
        return result;
    }

private:
    std::array<std::uint64_t, dtype_facts.size()> m_stored{};
};

}  // namespace

ParameterCount ParameterCount::of(const Model& model) {
    ParameterCount count;
    Counter counter;
    counter.add(count.parts.embedding, {&model.embedding});
    if (model.output.data != model.embedding.data) counter.add(count.parts.output, {&model.output});
    counter.add(count.parts.norms, {&model.output_norm});
    for (const LayerWeights& layer : model.layers) counter.add_layer(count, layer);
    count.stored = counter.stored();
    return count;
}

}  // namespace kvloupe
