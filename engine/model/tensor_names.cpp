// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/tensor_names.h"

namespace kvloupe {

namespace {

TensorNames make_gguf_names() {
    TensorNames names;
    names.embedding = "token_embd.weight";
    names.output_norm = "output_norm.weight";
    names.output = "output.weight";
    names.layer_prefix = "blk.";
    names.attention_norm = "attn_norm.weight";
    names.query = "attn_q.weight";
    names.key = "attn_k.weight";
    names.value = "attn_v.weight";
    names.attention_out = "attn_output.weight";
    names.ffn_norm = "ffn_norm.weight";
    names.gate = "ffn_gate.weight";
    names.up = "ffn_up.weight";
    names.down = "ffn_down.weight";
    names.query_bias = "attn_q.bias";
    names.key_bias = "attn_k.bias";
    names.value_bias = "attn_v.bias";
    names.query_norm = "attn_q_norm.weight";
    names.key_norm = "attn_k_norm.weight";
    names.post_attention_norm = "post_attention_norm.weight";
    names.post_ffn_norm = "post_ffw_norm.weight";
    names.query_down = "attn_q_a.weight";
    names.query_down_norm = "attn_q_a_norm.weight";
    names.query_up = "attn_q_b.weight";
    names.key_value_down = "attn_kv_a_mqa.weight";
    names.key_value_norm = "attn_kv_a_norm.weight";
    names.key_value_up = "attn_kv_b.weight";
    names.key_up_transposed = "attn_k_b.weight";
    names.value_up = "attn_v_b.weight";
    names.router = "ffn_gate_inp.weight";
    names.router_bias = "exp_probs_b.bias";
    names.shared_gate = "ffn_gate_shexp.weight";
    names.shared_up = "ffn_up_shexp.weight";
    names.shared_down = "ffn_down_shexp.weight";
    names.expert_gate = "ffn_gate_exps.weight";
    names.expert_up = "ffn_up_exps.weight";
    names.expert_down = "ffn_down_exps.weight";
    names.stacked_experts = true;
    return names;
}

}  // namespace

const TensorNames& gguf_names() {
    static const TensorNames names = make_gguf_names();
    return names;
}

TensorNames huggingface_names(const ModelConfig& config) {
    TensorNames names;
    names.embedding = "model.embed_tokens.weight";
    names.output_norm = "model.norm.weight";
    names.output = "lm_head.weight";
    names.layer_prefix = "model.layers.";
    names.attention_norm = "input_layernorm.weight";
    names.query = "self_attn.q_proj.weight";
    names.key = "self_attn.k_proj.weight";
    names.value = "self_attn.v_proj.weight";
    names.attention_out = "self_attn.o_proj.weight";
    names.ffn_norm = "post_attention_layernorm.weight";
    names.gate = "mlp.gate_proj.weight";
    names.up = "mlp.up_proj.weight";
    names.down = "mlp.down_proj.weight";
    names.query_bias = "self_attn.q_proj.bias";
    names.key_bias = "self_attn.k_proj.bias";
    names.value_bias = "self_attn.v_proj.bias";
    names.query_norm = "self_attn.q_norm.weight";
    names.key_norm = "self_attn.k_norm.weight";
    names.query_down = "self_attn.q_a_proj.weight";
    names.query_down_norm = "self_attn.q_a_layernorm.weight";
    names.query_up = "self_attn.q_b_proj.weight";
    names.key_value_down = "self_attn.kv_a_proj_with_mqa.weight";
    names.key_value_norm = "self_attn.kv_a_layernorm.weight";
    names.key_value_up = "self_attn.kv_b_proj.weight";
    names.router = "mlp.gate.weight";
    names.router_bias = "mlp.gate.e_score_correction_bias";
    names.shared_gate = "mlp.shared_experts.gate_proj.weight";
    names.shared_up = "mlp.shared_experts.up_proj.weight";
    names.shared_down = "mlp.shared_experts.down_proj.weight";
    names.expert_prefix = "mlp.experts.";
    names.expert_gate = "gate_proj.weight";
    names.expert_up = "up_proj.weight";
    names.expert_down = "down_proj.weight";
    if (config.latent.late_rotation) {  // KVLoupe's own (save_model.h)
        names.key_value_down = "self_attn.kv_latent_down.weight";
        names.key_value_up = "self_attn.kv_latent_up.weight";
    }
    if (config.architecture == "mixtral") {
        names.router = "block_sparse_moe.gate.weight";
        names.expert_prefix = "block_sparse_moe.experts.";
        names.expert_gate = "w1.weight";
        names.expert_up = "w3.weight";
        names.expert_down = "w2.weight";
    }
    if (config.post_norms) {  // Gemma: what is named post_attention_layernorm stands behind attention
        names.post_attention_norm = "post_attention_layernorm.weight";
        names.ffn_norm = "pre_feedforward_layernorm.weight";
        names.post_ffn_norm = "post_feedforward_layernorm.weight";
        names.norms_lack_one = true;
    }
    return names;
}

}  // namespace kvloupe
