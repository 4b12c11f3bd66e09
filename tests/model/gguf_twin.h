// SPDX-License-Identifier: GPL-3.0-or-later
//
// Writes a loaded model as a GGUF file in f32, with the keys, names and row orders that converters use (FORMATS 2.2, the
// constants of the gguf package): the GGUF forms of the architectures are tested against their Hugging Face forms.
#pragma once

#include "engine/model/model.h"
#include "engine/model/quants.h"
#include "tests/model/model_bytes.h"

#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

class GgufTwin {
public:
    // latent_halves: attn_k_b and attn_v_b, and the newer meaning of key_length, instead of attn_kv_b.
    GgufTwin(const Model& of, bool latent_halves) : m_model(of), m_latent_halves(latent_halves) {}

    std::string bytes() {
        const ModelConfig& config = m_model.config;
        write_keys();
        put("token_embd.weight", m_model.embedding);
        put("output_norm.weight", m_model.output_norm);
        if (!config.tied_embeddings) put("output.weight", m_model.output);
        for (std::size_t i = 0; i < m_model.layers.size(); ++i) write_layer(i);
        GgufBytes file;
        file.header(m_names.size(), m_keys).out += m_key_bytes.out;
        std::uint64_t offset = 0;
        for (std::size_t i = 0; i < m_names.size(); ++i) {
            file.text(m_names[i]).put(static_cast<std::uint32_t>(m_dims[i].size()));
            for (const std::uint64_t dim : m_dims[i]) file.put(dim);
            file.put(std::uint32_t{0}).put(offset);  // F32
            offset += (m_data[i].size() * sizeof(float) + 31) / 32 * 32;
        }
        file.pad();
        for (const std::vector<float>& data : m_data) {
            file.out.append(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float));
            file.pad();
        }
        return file.out;
    }

    // Of the GGUF form.
    std::string_view architecture() const {
        const std::string& name = m_model.config.architecture;
        if (name == "llama" || name == "mistral" || name == "mixtral") return "llama";
        return name.rfind("deepseek", 0) == 0 ? "deepseek2" : std::string_view(name);
    }
    bool adjacent_heads() const { return architecture() == "llama"; }

private:
    std::string key(const char* name) const { return std::string(architecture()) + "." + name; }
    void u32(const char* name, std::uint32_t value) { ++m_keys, m_key_bytes.u32(key(name), value); }
    void f32(const char* name, float value) { ++m_keys, m_key_bytes.f32(key(name), value); }
    void string(const std::string& name, std::string_view value) { ++m_keys, m_key_bytes.string(name, value); }
    template <class T>
    void array(const std::string& name, std::uint32_t type, const std::vector<T>& values) {
        ++m_keys, m_key_bytes.key(name, 9).put(type).put(std::uint64_t{values.size()});
        for (const T& value : values) m_key_bytes.put(value);
    }

    void write_keys() {
        const ModelConfig& config = m_model.config;
        string("general.architecture", architecture());
        u32("block_count", config.layers);
        u32("context_length", config.context_length);
        u32("embedding_length", config.hidden);
        u32("feed_forward_length", config.layer_shapes[0].intermediate > 0 ? config.layer_shapes[0].intermediate : config.intermediate);
        std::vector<std::uint32_t> kv_heads;
        for (const LayerShape& layer : config.layer_shapes) kv_heads.push_back(layer.kv_heads);
        u32("attention.head_count", config.query_heads);
        if (!config.latent.present()) array(key("attention.head_count_kv"), 4, kv_heads);
        f32("attention.layer_norm_rms_epsilon", config.rms_epsilon);
        f32("rope.freq_base", config.rope_theta);
        u32("rope.dimension_count", config.rotary_dim);
        write_scaling();
        if (config.latent.present()) write_latent();
        else u32("attention.key_length", config.head_dim), u32("attention.value_length", config.head_dim);
        if (config.experts.present()) write_experts();
        if (config.layer_shapes[0].window > 0) u32("attention.sliding_window", config.layer_shapes[0].window);
        if (config.post_norms) write_gemma();
        write_tokenizer();
    }

    void write_scaling() {
        const RotaryScaling& scaling = m_model.config.rotary_scaling;
        if (scaling.kind == RotaryScaling::Kind::none) return;
        string(key("rope.scaling.type"), scaling.kind == RotaryScaling::Kind::linear ? "linear" : "yarn");
        f32("rope.scaling.factor", scaling.factor);
        if (scaling.kind != RotaryScaling::Kind::yarn) return;
        u32("rope.scaling.original_context_length", scaling.original_context);
        if (m_model.config.latent.present()) f32("rope.scaling.yarn_log_multiplier", 0.1f);  // mscale_all_dim 1
    }

    void write_latent() {
        const LatentShape& latent = m_model.config.latent;
        u32("attention.kv_lora_rank", latent.kv_rank);
        if (latent.query_rank > 0) u32("attention.q_lora_rank", latent.query_rank);
        u32("attention.head_count_kv", m_latent_halves ? 1 : m_model.config.query_heads);
        u32("attention.key_length", m_latent_halves ? latent.kv_rank + latent.rotary_dim : m_model.config.head_dim);
        u32("attention.value_length", m_latent_halves ? latent.kv_rank : latent.value_dim);
        if (!m_latent_halves) return;
        u32("attention.key_length_mla", m_model.config.head_dim);
        u32("attention.value_length_mla", latent.value_dim);
    }

    void write_experts() {
        const ExpertShape& experts = m_model.config.experts;
        u32("expert_count", experts.count);
        u32("expert_used_count", experts.used);
        if (!m_model.config.latent.present()) return;
        std::uint32_t dense = 0;
        while (!m_model.config.layer_shapes[dense].experts) ++dense;
        u32("leading_dense_block_count", dense);
        u32("expert_feed_forward_length", experts.intermediate);
        u32("expert_shared_count", experts.shared);
        u32("expert_gating_func", experts.score == ExpertShape::Score::sigmoid ? 2 : 1);
        f32("expert_weights_scale", experts.weight_scale);
        ++m_keys, m_key_bytes.key(key("expert_weights_norm"), 7).put(static_cast<std::uint8_t>(experts.normalised));
        u32("expert_group_count", experts.groups);
        u32("expert_group_used_count", experts.used_groups);
    }

    void write_gemma() {
        const ModelConfig& config = m_model.config;
        f32("attention.scale", config.attention_scale);
        if (config.attention_soft_cap > 0) f32("attn_logit_softcapping", config.attention_soft_cap);
        if (config.logit_soft_cap > 0) f32("final_logit_softcapping", config.logit_soft_cap);
        std::vector<std::uint8_t> sliding;
        for (const LayerShape& layer : config.layer_shapes) sliding.push_back(layer.window > 0);
        if (architecture() == "gemma3") array(key("attention.sliding_window_pattern"), 7, sliding);
    }

    // A small sentencepiece vocabulary: what it says does not matter here.
    void write_tokenizer() {
        string("tokenizer.ggml.model", "llama");
        ++m_keys, m_key_bytes.key("tokenizer.ggml.tokens", 9).put(std::uint32_t{8}).put(std::uint64_t{4});
        for (const char* token : {"<unk>", "<s>", "</s>", "a"}) m_key_bytes.text(token);
        array("tokenizer.ggml.scores", 6, std::vector<float>{0, 0, 0, -1});
        array("tokenizer.ggml.token_type", 5, std::vector<std::int32_t>{2, 3, 3, 1});
    }

    static std::vector<float> values_of(const Tensor& tensor) {
        std::vector<float> values(tensor.rows * tensor.cols);
        for (std::uint64_t r = 0; r < tensor.rows; ++r)
            dequantise_row(tensor.dtype, tensor.data + r * row_bytes(tensor.dtype, tensor.cols),
                           std::span<float>(values).subspan(r * tensor.cols, tensor.cols));
        return values;
    }

    void put(const std::string& name, std::vector<std::uint64_t> dims, std::vector<float> data) {
        m_names.push_back(name);
        m_dims.push_back(std::move(dims));
        m_data.push_back(std::move(data));
    }
    void put(const std::string& name, const Tensor& tensor) {
        if (!tensor.present()) return;
        put(name, tensor.rows == 1 ? std::vector{tensor.cols} : std::vector{tensor.cols, tensor.rows}, values_of(tensor));
    }
    // Rows of a head from half-split to adjacent pairs.
    void put_rotated(const std::string& name, const Tensor& tensor) {
        if (!tensor.present() || !adjacent_heads()) return put(name, tensor);
        const std::vector<float> from = values_of(tensor);
        std::vector<float> to(from.size());
        const std::uint64_t width = m_model.config.head_dim;
        for (std::uint64_t r = 0; r < tensor.rows; ++r) {
            const std::uint64_t inside = r % width, half = width / 2;
            const std::uint64_t target = r - inside + (inside < half ? 2 * inside : 2 * (inside - half) + 1);
            std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(r * tensor.cols), tensor.cols,
                        to.begin() + static_cast<std::ptrdiff_t>(target * tensor.cols));
        }
        put(name, {tensor.cols, tensor.rows}, std::move(to));
    }
    void put_experts(const std::string& name, const LayerWeights& layer, Tensor FeedForwardWeights::*part) {
        std::vector<float> all;
        for (const FeedForwardWeights& expert : layer.experts) {
            const std::vector<float> one = values_of(expert.*part);
            all.insert(all.end(), one.begin(), one.end());
        }
        const Tensor& first = layer.experts.front().*part;
        put(name, {first.cols, first.rows, layer.experts.size()}, std::move(all));
    }

    void write_layer(std::size_t index) {
        const LayerWeights& layer = m_model.layers[index];
        const std::string prefix = "blk." + std::to_string(index) + ".";
        put(prefix + "attn_norm.weight", layer.attention_norm);
        put_rotated(prefix + "attn_q.weight", layer.query);
        put_rotated(prefix + "attn_k.weight", layer.key);
        put(prefix + "attn_v.weight", layer.value);
        put(prefix + "attn_q.bias", layer.query_bias);
        put(prefix + "attn_k.bias", layer.key_bias);
        put(prefix + "attn_v.bias", layer.value_bias);
        put(prefix + "attn_q_norm.weight", layer.query_norm);
        put(prefix + "attn_k_norm.weight", layer.key_norm);
        put(prefix + "attn_output.weight", layer.attention_out);
        put(prefix + "post_attention_norm.weight", layer.post_attention_norm);
        put(prefix + "ffn_norm.weight", layer.ffn_norm);
        put(prefix + "post_ffw_norm.weight", layer.post_ffn_norm);
        const LatentWeights& latent = layer.latent;
        put(prefix + "attn_q_a.weight", latent.query_down);
        put(prefix + "attn_q_a_norm.weight", latent.query_norm);
        put(prefix + "attn_q_b.weight", latent.query_up);
        put(prefix + "attn_kv_a_mqa.weight", latent.key_value_down);
        put(prefix + "attn_kv_a_norm.weight", latent.key_value_norm);
        if (latent.key_value_up.present() && m_latent_halves) {
            const LatentShape& shape = m_model.config.latent;
            put(prefix + "attn_k_b.weight", {shape.nope_dim, shape.kv_rank, m_model.config.query_heads}, values_of(latent.key_up_transposed));
            put(prefix + "attn_v_b.weight", {shape.kv_rank, shape.value_dim, m_model.config.query_heads}, values_of(latent.value_up));
        } else {
            put(prefix + "attn_kv_b.weight", latent.key_value_up);
        }
        const std::string dense = layer.experts.empty() ? ".weight" : "_shexp.weight";
        put(prefix + "ffn_gate" + dense, layer.gate);
        put(prefix + "ffn_up" + dense, layer.up);
        put(prefix + "ffn_down" + dense, layer.down);
        if (layer.experts.empty()) return;
        put(prefix + "ffn_gate_inp.weight", layer.router);
        put(prefix + "exp_probs_b.bias", layer.router_bias);
        put_experts(prefix + "ffn_gate_exps.weight", layer, &FeedForwardWeights::gate);
        put_experts(prefix + "ffn_up_exps.weight", layer, &FeedForwardWeights::up);
        put_experts(prefix + "ffn_down_exps.weight", layer, &FeedForwardWeights::down);
    }

    const Model& m_model;
    bool m_latent_halves;
    std::uint64_t m_keys = 0;
    GgufBytes m_key_bytes;
    std::vector<std::string> m_names;
    std::vector<std::vector<std::uint64_t>> m_dims;  // innermost first
    std::vector<std::vector<float>> m_data;
};

}  // namespace kvloupe
