// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/model_tensors.h"

#include "engine/model/message.h"

#include <unordered_map>
#include <unordered_set>

namespace kvloupe {

const TensorNames gguf_names = {
    "token_embd.weight", "output_norm.weight", "output.weight",   "blk.",
    "attn_norm.weight",  "attn_q.weight",      "attn_k.weight",   "attn_v.weight", "attn_output.weight",
    "ffn_norm.weight",   "ffn_gate.weight",    "ffn_up.weight",   "ffn_down.weight"};

const TensorNames huggingface_names = {
    "model.embed_tokens.weight", "model.norm.weight",         "lm_head.weight",          "model.layers.",
    "input_layernorm.weight",    "self_attn.q_proj.weight",   "self_attn.k_proj.weight", "self_attn.v_proj.weight",
    "self_attn.o_proj.weight",   "post_attention_layernorm.weight", "mlp.gate_proj.weight", "mlp.up_proj.weight",
    "mlp.down_proj.weight"};

namespace {

std::string shape_text(const std::vector<std::uint64_t>& shape) {
    std::string text = "[";
    for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + "]";
}

// Alignment that reading elements of a type needs: the plain types are read as such, the packed ones byte by byte.
std::uint64_t alignment_of(DType type) { return is_packed(type) ? 2 : bytes_per_pack(type); }

class Assigner {
public:
    Assigner(Model& model, const std::vector<StoredTensor>& tensors, const std::string& path)
        : m_model(model), m_path(path) {
        for (const StoredTensor& tensor : tensors) m_by_name.emplace(tensor.name, &tensor);
    }
    Error error;

    bool assign(const TensorNames& names) {
        const ModelConfig& config = m_model.config;
        const std::uint64_t hidden = config.hidden;
        const std::uint64_t queries = std::uint64_t{config.query_heads} * config.head_dim;
        const std::uint64_t keys = std::uint64_t{config.kv_heads} * config.head_dim;
        if (!matrix(std::string(names.embedding), config.vocabulary, hidden, m_model.embedding) ||
            !vector(std::string(names.output_norm), hidden, m_model.output_norm))
            return false;
        if (config.tied_embeddings) {
            m_model.output = m_model.embedding;
            m_used.insert(std::string(names.output));  // some files keep a copy; the configuration decides
        } else if (!matrix(std::string(names.output), config.vocabulary, hidden, m_model.output)) {
            return false;
        }
        // A file with fewer tensors than layers is refused before anything of that size is allocated.
        if (config.layers > m_by_name.size())
            return fail("has " + grouped(m_by_name.size()) + " tensors, too few for the " + grouped(config.layers) +
                        " layers of its configuration");
        m_model.layers.resize(config.layers);
        for (std::uint32_t i = 0; i < config.layers; ++i) {
            LayerWeights& layer = m_model.layers[i];
            const std::string prefix = std::string(names.layer_prefix) + std::to_string(i) + ".";
            const auto name = [&](std::string_view part) { return prefix + std::string(part); };
            if (!vector(name(names.attention_norm), hidden, layer.attention_norm) ||
                !matrix(name(names.query), queries, hidden, layer.query) ||
                !matrix(name(names.key), keys, hidden, layer.key) ||
                !matrix(name(names.value), keys, hidden, layer.value) ||
                !matrix(name(names.attention_out), hidden, queries, layer.attention_out) ||
                !vector(name(names.ffn_norm), hidden, layer.ffn_norm) ||
                !matrix(name(names.gate), config.intermediate, hidden, layer.gate) ||
                !matrix(name(names.up), config.intermediate, hidden, layer.up) ||
                !matrix(name(names.down), hidden, config.intermediate, layer.down))
                return false;
            // Old Hugging Face files carry the rotary frequencies, which follow from rope_theta.
            m_used.insert(name("self_attn.rotary_emb.inv_freq"));
        }
        return nothing_left_over();
    }

private:
    bool fail(const std::string& what, const std::string& hint = "Use a complete file of the model.") {
        error = {m_path + ": " + what, hint};
        return false;
    }

    bool vector(const std::string& name, std::uint64_t width, Tensor& out) { return find(name, {width}, out); }
    bool matrix(const std::string& name, std::uint64_t rows, std::uint64_t cols, Tensor& out) {
        return find(name, {rows, cols}, out);
    }

    bool find(const std::string& name, const std::vector<std::uint64_t>& shape, Tensor& out) {
        const auto found = m_by_name.find(name);
        if (found == m_by_name.end()) return fail("has no tensor " + in_quotes(name));
        const StoredTensor& tensor = *found->second;
        if (tensor.shape != shape)
            return fail("tensor " + in_quotes(name) + " has the shape " + shape_text(tensor.shape) +
                            ", but the configuration asks for " + shape_text(shape),
                        "The configuration and the weights belong to different models.");
        if (!tensor.dtype)
            return fail("tensor " + in_quotes(name) + " is stored as " + in_quotes(tensor.type_name) +
                            ", which is not built yet",
                        "Use a file with F32, F16, BF16, Q8_0, Q4_0 or Q4_1 tensors.");
        if (tensor.offset % alignment_of(*tensor.dtype) != 0)
            return fail("tensor " + in_quotes(name) + " of type " + tensor.type_name + " begins at byte " +
                            grouped(tensor.offset) + ", which is no multiple of " +
                            std::to_string(alignment_of(*tensor.dtype)),
                        "Save the model again: current writers align tensors.");
        out.name = name;
        out.data = tensor.data;
        out.dtype = *tensor.dtype;
        out.rows = shape.size() == 1 ? 1 : shape[0];
        out.cols = shape.back();
        m_used.insert(name);
        m_model.config.parameters += out.rows * out.cols;
        m_model.config.weight_bytes += out.bytes();
        return true;
    }

    bool nothing_left_over() {
        for (const auto& [name, tensor] : m_by_name)
            if (!m_used.count(name))
                return fail("tensor " + in_quotes(name) + " has no place in a Llama model of " +
                                grouped(m_model.config.layers) + " layers",
                            "The file is of another architecture, or needs something that is not built yet.");
        return true;
    }

    Model& m_model;
    const std::string& m_path;
    std::unordered_map<std::string, const StoredTensor*> m_by_name;
    std::unordered_set<std::string> m_used;
};

}  // namespace

Result<void> assign_tensors(Model& model, const std::vector<StoredTensor>& tensors, const TensorNames& names,
                            const std::string& path) {
    Assigner assigner(model, tensors, path);
    if (!assigner.assign(names)) return assigner.error;
    return {};
}

}  // namespace kvloupe
