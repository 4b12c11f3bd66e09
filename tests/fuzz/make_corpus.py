# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the seeds of the fuzz targets gguf, safetensors and hf_config into corpus/, from nothing but this script.

    python make_corpus.py

Inputs that a fuzzer found (names beginning with "found-") are kept.
"""
import json
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


def put(target, name, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(keys, tensors, version=3, data=b""):
    """keys: (name, type, packed value); tensors: (name, dims, type, offset)."""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for name, kind, value in keys:
        out += text(name) + struct.pack("<I", kind) + value
    for name, dims, kind, offset in tensors:
        out += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
    return out + b"\0" * (-len(out) % 32) + data if tensors else out


def u32(value):
    return struct.pack("<I", value)


def llama_keys():
    return [("general.architecture", 8, text("llama")), ("llama.block_count", 4, u32(1)),
            ("llama.context_length", 4, u32(64)), ("llama.embedding_length", 4, u32(4)),
            ("llama.feed_forward_length", 4, u32(2)), ("llama.attention.head_count", 4, u32(2)),
            ("llama.attention.head_count_kv", 9, struct.pack("<IQI", 4, 1, 1)),
            ("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)),
            ("llama.rope.freq_base", 6, struct.pack("<f", 1e4))]


def llama_tensors():
    shapes = [("token_embd.weight", [4, 3]), ("output_norm.weight", [4]), ("blk.0.attn_norm.weight", [4]),
              ("blk.0.attn_q.weight", [4, 4]), ("blk.0.attn_k.weight", [4, 2]), ("blk.0.attn_v.weight", [4, 2]),
              ("blk.0.attn_output.weight", [4, 4]), ("blk.0.ffn_norm.weight", [4]), ("blk.0.ffn_gate.weight", [4, 2]),
              ("blk.0.ffn_up.weight", [4, 2]), ("blk.0.ffn_down.weight", [2, 4])]
    tensors, offset = [], 0
    for name, dims in shapes:
        tensors.append((name, dims, 1, offset))  # f16
        count = 1
        for dim in dims:
            count *= dim
        offset += (2 * count + 31) // 32 * 32
    return tensors, offset


def make_gguf():
    tensors, size = llama_tensors()
    put("gguf", "llama", gguf(llama_keys(), tensors, data=bytes(size)))
    put("gguf", "llama-v2", gguf(llama_keys(), tensors, version=2, data=bytes(size)))
    put("gguf", "vocabulary", gguf([
        ("general.architecture", 8, text("llama")), ("tokenizer.ggml.model", 8, text("llama")),
        ("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 3) + text("<unk>") + text("a") + text("b")),
        ("tokenizer.ggml.scores", 9, struct.pack("<IQ3f", 6, 3, 0, -1, -2)),
        ("tokenizer.ggml.token_type", 9, struct.pack("<IQ3i", 5, 3, 2, 1, 1))], []))
    put("gguf", "every-type", gguf([
        ("u8", 0, b"\1"), ("i8", 1, b"\xff"), ("u16", 2, b"\1\0"), ("i16", 3, b"\xff\xff"), ("u32", 4, u32(7)),
        ("i32", 5, u32(7)), ("f32", 6, struct.pack("<f", 1.5)), ("bool", 7, b"\1"), ("string", 8, text("s")),
        ("u64", 10, struct.pack("<Q", 2**63)), ("i64", 11, struct.pack("<q", -5)), ("f64", 12, struct.pack("<d", 2.5)),
        ("nested", 9, struct.pack("<IQ", 9, 2) + struct.pack("<IQBB", 0, 2, 1, 2) + struct.pack("<IQB", 7, 1, 1)),
        ("general.alignment", 4, u32(64))], []))
    put("gguf", "quantised", gguf([("general.architecture", 8, text("llama"))],
                                  [("a", [32], 8, 0), ("b", [64, 2], 2, 64), ("c", [32], 3, 160), ("d", [256], 12, 192)],
                                  data=bytes(192 + 144)))
    put("gguf", "overlap", gguf([], [("a", [16], 0, 0), ("b", [16], 0, 32)], data=bytes(128)))
    put("gguf", "big-endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0))
    put("gguf", "absurd-counts", b"GGUF" + struct.pack("<IQQ", 3, 2**62, 2**62))
    put("gguf", "absurd-array", gguf([("a", 9, struct.pack("<IQ", 8, 2**61))], []))
    put("gguf", "absurd-dims", gguf([], [("a", [2**62, 2**62], 0, 0)]))


def f32(value):
    return struct.pack("<f", value)


def family_gguf(name, architecture, keys, shapes, kind=0, element=4):
    """A model of one layer: tensors (name, dims), all of ggml type `kind`."""
    common = [("general.architecture", 8, text(architecture))]
    sizes = dict(block_count=1, context_length=64, embedding_length=4, feed_forward_length=2)
    common += [(f"{architecture}.{key}", 4, u32(value)) for key, value in sizes.items() if key not in keys]
    common += [(f"{architecture}.attention.layer_norm_rms_epsilon", 6, f32(1e-6))]
    common += [(f"{architecture}.{key}", 6 if isinstance(value, float) else 4, f32(value) if isinstance(value, float) else u32(value))
               for key, value in keys.items()]
    tensors, offset = [], 0
    for tensor, dims in shapes:
        tensors.append((tensor, dims, kind, offset))
        count = element
        for dim in dims:
            count *= dim
        offset += (count + 31) // 32 * 32
    put("gguf", name, gguf(common, tensors, data=bytes(offset)))


def make_family_gguf():
    ends = [("token_embd.weight", [4, 3]), ("output_norm.weight", [4])]
    block = lambda *parts: [("blk.0." + part, dims) for part, dims in parts]
    attention = block(("attn_norm.weight", [4]), ("attn_q.weight", [4, 4]), ("attn_k.weight", [4, 2]),
                      ("attn_v.weight", [4, 2]), ("attn_output.weight", [4, 4]), ("ffn_norm.weight", [4]))
    dense = block(("ffn_gate.weight", [4, 2]), ("ffn_up.weight", [4, 2]), ("ffn_down.weight", [2, 4]))
    experts = block(("ffn_gate_inp.weight", [4, 2]), ("ffn_gate_exps.weight", [4, 2, 2]), ("ffn_up_exps.weight", [4, 2, 2]),
                    ("ffn_down_exps.weight", [2, 4, 2]))
    heads = {"attention.head_count": 2, "attention.head_count_kv": 1}
    family_gguf("mixtral", "llama", {**heads, "expert_count": 2, "expert_used_count": 1}, ends + attention + experts)
    family_gguf("rope-freqs", "llama", heads, ends + [("rope_freqs.weight", [1])] + attention + dense)
    family_gguf("qwen2", "qwen2", heads, ends + attention + dense +
                block(("attn_q.bias", [4]), ("attn_k.bias", [2]), ("attn_v.bias", [2])))
    family_gguf("gemma3", "gemma3", {**heads, "attention.sliding_window": 8, "rope.freq_base": 1e6}, ends + attention + dense +
                block(("attn_q_norm.weight", [2]), ("attn_k_norm.weight", [2]), ("post_attention_norm.weight", [4]),
                      ("post_ffw_norm.weight", [4])))
    latent = {"attention.head_count": 2, "attention.kv_lora_rank": 3, "attention.q_lora_rank": 5, "rope.dimension_count": 2,
              "attention.key_length": 4, "attention.value_length": 3, "expert_count": 2, "expert_used_count": 1,
              "expert_feed_forward_length": 2, "expert_shared_count": 1, "expert_gating_func": 2, "expert_group_count": 1,
              "expert_group_used_count": 1, "expert_weights_scale": 2.5}
    parts = block(("attn_norm.weight", [4]), ("attn_q_a.weight", [4, 5]), ("attn_q_a_norm.weight", [5]), ("attn_q_b.weight", [5, 8]),
                  ("attn_kv_a_mqa.weight", [4, 5]), ("attn_kv_a_norm.weight", [3]), ("attn_output.weight", [6, 4]),
                  ("ffn_norm.weight", [4]), ("ffn_gate_shexp.weight", [4, 2]), ("ffn_up_shexp.weight", [4, 2]),
                  ("ffn_down_shexp.weight", [2, 4]), ("exp_probs_b.bias", [2]))
    family_gguf("deepseek", "deepseek2", latent, ends + parts + experts + block(("attn_kv_b.weight", [3, 10])))
    newer = {**latent, "attention.head_count_kv": 1, "attention.key_length": 5, "attention.value_length": 3,
             "attention.key_length_mla": 4, "attention.value_length_mla": 3}
    family_gguf("deepseek-halves", "deepseek2", newer, ends + parts + experts +
                block(("attn_k_b.weight", [2, 3, 2]), ("attn_v_b.weight", [3, 3, 2])))


def safetensors(header, data=b""):
    body = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(body)) + body + data


def make_safetensors():
    entry = lambda dtype, shape, begin, end: {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    put("safetensors", "empty", safetensors({}))
    put("safetensors", "two", safetensors({"a": entry("F32", [2, 2], 0, 16), "b": entry("BF16", [3], 16, 22),
                                           "__metadata__": {"format": "pt"}}, bytes(22)))
    put("safetensors", "scalar-and-empty", safetensors({"s": entry("I64", [], 0, 8), "e": entry("F16", [0, 4], 8, 8)},
                                                       bytes(8)))
    put("safetensors", "sub-byte", safetensors({"f": entry("F4", [4], 0, 2), "g": entry("F6_E2M3", [4], 2, 5)}, bytes(5)))
    put("safetensors", "padded", safetensors(json.dumps({"a": entry("U8", [1], 0, 1)}).encode() + b"   ", b"x"))
    put("safetensors", "overlap", safetensors({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6)}, bytes(6)))
    put("safetensors", "duplicate", safetensors(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                                                b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x"))
    put("safetensors", "deep", safetensors(b'{"a":' + b"[" * 300 + b"]" * 300 + b"}"))
    put("safetensors", "huge-header", struct.pack("<Q", 2**40) + b"{}")
    put("safetensors", "huge-shape", safetensors({"a": entry("F32", [2**62, 2**62], 0, 4)}, bytes(4)))
    put("safetensors", "bad-utf8", safetensors(b'{"\xff\xfe":{}}'))


def make_hf_config():
    llama = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
             "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
             "vocab_size": 288, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
             "rope_scaling": None, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "bos_token_id": 0,
             "eos_token_id": [1, 2], "hidden_act": "silu", "attention_bias": False}
    put("hf_config", "llama", json.dumps(llama))
    put("hf_config", "minimal", '{"model_type":"llama"}')
    put("hf_config", "rope-scaling", json.dumps({**llama, "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192}}))
    put("hf_config", "rope-parameters", json.dumps({**llama, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}))
    put("hf_config", "other", json.dumps({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}))
    put("hf_config", "wrong-types", json.dumps({**llama, "hidden_size": "32", "eos_token_id": -1}))
    put("hf_config", "huge", json.dumps({**llama, "num_hidden_layers": 10**30, "vocab_size": 2**63}))
    put("hf_config", "deep", '{"a":' + "[" * 300 + "]" * 300 + "}")
    put("hf_config", "duplicate", '{"model_type":"llama","model_type":"qwen2"}')
    for name, keys in {
        "mistral": {"sliding_window": 8}, "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
        "qwen2": {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
        "qwen3": {"layer_types": ["sliding_attention", "full_attention"], "use_sliding_window": True, "sliding_window": 4},
        "gemma2": {"query_pre_attn_scalar": 24, "attn_logit_softcapping": 50.0, "final_logit_softcapping": None},
        "gemma3": {"sliding_window": 8, "sliding_window_pattern": 2, "rope_local_base_freq": 1e4,
                   "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    }.items():
        put("hf_config", name, json.dumps({**llama, "architectures": None, "model_type": name, **keys}))
    put("hf_config", "gemma3-nested", json.dumps({"model_type": "gemma3", "eos_token_id": [1, 2], "text_config": {
        "hidden_size": 64, "num_hidden_layers": 7, "sliding_window": 16}}))
    latent = {**llama, "architectures": None, "model_type": "deepseek_v3", "q_lora_rank": 20, "kv_lora_rank": 24,
              "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12, "n_routed_experts": 8, "num_experts_per_tok": 3,
              "moe_intermediate_size": 8, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2,
              "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "mscale": 1.0,
                               "mscale_all_dim": 1.0}}
    put("hf_config", "deepseek-v3", json.dumps(latent))
    put("hf_config", "deepseek-v2", json.dumps({**latent, "model_type": "deepseek_v2", "q_lora_rank": None,
                                                "topk_method": "group_limited_greedy", "scoring_func": "softmax"}))
    put("hf_config", "heads-per-layer", json.dumps({**llama, "num_attention_heads": [4, 8], "num_key_value_heads": [1, 8],
                                                    "intermediate_size": [64, 32]}))
    put("hf_config", "quantised", json.dumps({**llama, "quantization_config": {"bits": 4}}))


if __name__ == "__main__":
    make_gguf()
    make_family_gguf()
    make_safetensors()
    make_hf_config()
