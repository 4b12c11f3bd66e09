# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes trained weights as a Hugging Face folder in f16, and checks that `transformers` reads the same model from it."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from model import VARIANTS, Model
from tokenizer import BOS, EOS, PAD, build, config


def interleaved(rows, count):
    """The last `count` of rows (..., rows, width), pair i at (i, i + count / 2), with pair i at (2 i, 2 i + 1) instead.

    transformers' DeepSeek-V2 turns neighbours; scores do not depend on the order as long as queries and keys share it.
    """
    plain, turned = rows.split((rows.shape[-2] - count, count), -2)
    return torch.cat((plain, torch.stack(turned.chunk(2, -2), -2).flatten(-3, -2)), -2)


def halved(rows, count):
    """The inverse of interleaved()."""
    plain, turned = rows.split((rows.shape[-2] - count, count), -2)
    return torch.cat((plain, turned[..., 0::2, :], turned[..., 1::2, :]), -2)


def by_head(shape, q, change):
    """change(rows, count) applied to the rotary rows of every head of a latent model's query rows."""
    return change(q.view(shape.heads, -1, shape.width), shape.rotary).flatten(0, 1)


def attention_out(shape, state, ours, theirs):
    """The attention tensors of a block under their public names."""
    if shape.latent:
        return {
            theirs + "q_proj.weight": by_head(shape, state[ours + "q"], interleaved),
            theirs + "kv_a_proj_with_mqa.weight": interleaved(state[ours + "kv_a"], shape.rotary),
            theirs + "kv_a_layernorm.weight": state[ours + "kv_norm.weight"],
            theirs + "kv_b_proj.weight": state[ours + "kv_b"],
        }
    q = shape.heads * shape.head_dim
    return {
        theirs + "q_proj.weight": state[ours + "qk"][:q],
        theirs + "k_proj.weight": state[ours + "qk"][q:],
        theirs + "v_proj.weight": state[ours + "v"],
    }


def attention_in(shape, t, ours, theirs):
    """The inverse of attention_out()."""
    if shape.latent:
        return {
            ours + "q": by_head(shape, t[theirs + "q_proj.weight"], halved),
            ours + "kv_a": halved(t[theirs + "kv_a_proj_with_mqa.weight"], shape.rotary),
            ours + "kv_norm.weight": t[theirs + "kv_a_layernorm.weight"],
            ours + "kv_b": t[theirs + "kv_b_proj.weight"],
        }
    return {
        ours + "qk": torch.cat((t[theirs + "q_proj.weight"], t[theirs + "k_proj.weight"])),
        ours + "v": t[theirs + "v_proj.weight"],
    }


def hugging_face(shape, state):
    """The trained tensors under the names and in the shapes of the Llama, Mistral or DeepSeek-V2 family, f16."""
    out = {"model.embed_tokens.weight": state["embed"], "model.norm.weight": state["norm.weight"]}
    for i in range(shape.layers):
        ours, theirs = f"blocks.{i}.", f"model.layers.{i}."
        gate, up = state[ours + "gate_up"].chunk(2)
        out |= attention_out(shape, state, ours, theirs + "self_attn.")
        out |= {
            theirs + "input_layernorm.weight": state[ours + "norm1.weight"],
            theirs + "self_attn.o_proj.weight": state[ours + "o"],
            theirs + "post_attention_layernorm.weight": state[ours + "norm2.weight"],
            theirs + "mlp.gate_proj.weight": gate,
            theirs + "mlp.up_proj.weight": up,
            theirs + "mlp.down_proj.weight": state[ours + "down"],
        }
    return {name: tensor.detach().to(torch.float16).contiguous().clone() for name, tensor in out.items()}


def ours(shape, tensors):
    """The inverse of hugging_face(), in f32."""
    t = {name: tensor.float() for name, tensor in tensors.items()}
    state = {"embed": t["model.embed_tokens.weight"], "norm.weight": t["model.norm.weight"]}
    for i in range(shape.layers):
        mine, theirs = f"blocks.{i}.", f"model.layers.{i}."
        state |= attention_in(shape, t, mine, theirs + "self_attn.")
        state |= {
            mine + "norm1.weight": t[theirs + "input_layernorm.weight"],
            mine + "norm2.weight": t[theirs + "post_attention_layernorm.weight"],
            mine + "o": t[theirs + "self_attn.o_proj.weight"],
            mine + "gate_up": torch.cat((t[theirs + "mlp.gate_proj.weight"], t[theirs + "mlp.up_proj.weight"])),
            mine + "down": t[theirs + "mlp.down_proj.weight"],
        }
    return state


def trained(checkpoint):
    """The weights of a finished run's file, or of the file left at the end of a stage."""
    saved = torch.load(checkpoint, weights_only=True)
    return saved.get("net", saved)


def load(path, variant):
    """A model with f16-rounded weights from a training checkpoint (.pt) or an exported folder."""
    shape = VARIANTS[variant]
    if path.is_dir():
        tensors = load_file(path / "model.safetensors")
    else:
        tensors = hugging_face(shape, trained(path))
    model = Model(shape)
    model.load_state_dict(ours(shape, tensors))
    return model.eval()


def model_config(shape):
    """config.json. The family follows from the shape: a latent is DeepSeek-V2's, a window Mistral's, the rest Llama."""
    name, kind = (("DeepseekV2", "deepseek_v2") if shape.latent else ("Mistral", "mistral") if shape.window
                  else ("Llama", "llama"))
    config = {
        "architectures": [f"{name}ForCausalLM"],
        "model_type": kind,
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "intermediate_size": shape.feed_forward,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": shape.epsilon,
        "rope_theta": shape.rope_theta,
        "rope_scaling": None,
        "max_position_embeddings": shape.context,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "initializer_range": 0.05,
        "pretraining_tp": 1,
        "torch_dtype": "float16",
        "use_cache": True,
    }
    if shape.window:
        config["sliding_window"] = shape.window
    if shape.latent:
        del config["head_dim"]  # the family has three, and transformers sets this one itself
        config |= {
            "q_lora_rank": None,
            "kv_lora_rank": shape.latent,
            "qk_nope_head_dim": shape.head_dim,
            "qk_rope_head_dim": shape.rotary,
            "v_head_dim": shape.head_dim,
            "first_k_dense_replace": shape.layers,  # all layers are dense; transformers 5 refuses null numbers of experts
        }
    return config


def write(folder, name, document, indent=2):
    (folder / name).write_text(json.dumps(document, ensure_ascii=False, indent=indent) + "\n", encoding="utf-8")


def export(checkpoint, variant, folder):
    shape = VARIANTS[variant]
    folder.mkdir(parents=True, exist_ok=True)
    tensors = hugging_face(shape, trained(checkpoint))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    write(folder, "config.json", model_config(shape))
    write(folder, "generation_config.json", {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD, "do_sample": False})
    write(folder, "tokenizer.json", build(), 1)
    write(folder, "tokenizer_config.json", config())


def check(folder, variant):
    """Largest difference between the logits of `transformers` and ours on the exported weights, both computed in f32."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text in ("Mia put the red key in the blue box. Where is the red key?", "小明去了公园。 Ünïcode\n\ttabs  and 🙂"):
        ids = tokenizer(text).input_ids
        assert ids[0] == BOS and tokenizer.decode(ids[1:]) == " " + text, tokenizer.decode(ids)
    theirs = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32).eval()
    mine = load(folder, variant)
    ids = tokenizer("One sunny day, Mia met Ben and Tom. Mia put the red key in the blue box. Where is", return_tensors="pt").input_ids
    random = torch.randint(0, mine.shape.vocabulary, (2, 300), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        worst = max((theirs(x).logits - mine(x)).abs().max().item() for x in (ids, random))
        if mine.shape.window:
            check_window(mine, random)
    assert worst < 1e-3, worst
    return worst


def check_window(model, ids):
    """The comparison above says something about the window only if logits beyond it, and not before, depend on it."""
    open_model = Model(replace(model.shape, window=0))
    open_model.load_state_dict(model.state_dict())
    gap = (model(ids) - open_model(ids)).abs().amax((0, 2))
    assert gap[:model.shape.window].max() < 1e-4 and gap[model.shape.window:].max() > 1e-2, gap


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--checkpoint", type=Path, help="weights to export; without it the folder is only checked")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.checkpoint:
        export(options.checkpoint, options.variant, options.folder)
    print(f"{options.folder}: largest logit difference to transformers {check(options.folder, options.variant):.2e}")


if __name__ == "__main__":
    main()
