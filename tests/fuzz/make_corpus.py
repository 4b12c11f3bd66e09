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
    put("hf_config", "quantised", json.dumps({**llama, "quantization_config": {"bits": 4}}))


if __name__ == "__main__":
    make_gguf()
    make_safetensors()
    make_hf_config()
