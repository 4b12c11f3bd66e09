#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""PyTorch on the same card beside our own figures: compare_torch.py FOLDER

Reads FOLDER/figures.tsv of gpu_bench and appends rows to FOLDER/torch.tsv, each as soon as it is measured, so that a time
limit keeps what there is. Used only where torch with CUDA is installed.

Attention: scaled_dot_product_attention over contiguous keys and values (it knows no pages), every backend that takes the
shape, the fastest counts. The step: transformers' Llama of the same shape with random f16 weights, a static cache and
torch.compile, greedy, batch 1.
"""
import statistics
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
FIGURES = {}
with open(f"{FOLDER}/figures.tsv") as lines:
    for line in lines:
        name, value = line.rstrip("\n").split("\t")
        FIGURES[name] = float(value)


def row(what, measured, reach, verdict):
    with open(f"{FOLDER}/torch.tsv", "a") as out:
        out.write("\t".join((what, measured, reach, verdict)) + "\n")
    print(f"{what}: {measured} ({verdict})", flush=True)


def microseconds(call, inputs, runs=24):
    """Median of single calls by events; the inputs take turns, so that none is in the card's own cache still."""
    for i in range(4):
        call(*inputs[i % len(inputs)])
    times = []
    for i in range(runs):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call(*inputs[i % len(inputs)])
        end.record()
        times.append((begin, end))
    torch.cuda.synchronize()
    return statistics.median(b.elapsed_time(e) * 1e3 for b, e in times)


def sdpa(batch, queries, keys, causal):
    """(fastest microseconds, its backend's name) over the backends that take the shape, with and without repeated heads."""
    copies = max(1, int(2**30 // (batch * keys * 8 * 128 * 2 * 2)))
    inputs = []
    for _ in range(min(copies, 8)):
        q = torch.randn(batch, 32, queries, 128, device="cuda", dtype=torch.float16)
        k, v = (torch.randn(batch, 8, keys, 128, device="cuda", dtype=torch.float16) for _ in range(2))
        inputs.append((q, k, v))
    best = None
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):
        if backend == SDPBackend.MATH and best is not None:
            continue
        try:
            with sdpa_kernel(backend):
                took = microseconds(lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=causal, enable_gqa=True), inputs)
        except RuntimeError:
            continue
        print(f"  {backend.name}: {took:.1f} us", flush=True)
        if best is None or took < best[0]:
            best = (took, backend.name)
    del inputs
    torch.cuda.empty_cache()
    return best


def decode_attention():
    for batch, context in ((32, 8192), (1, 32768)):
        ours = FIGURES.get(f"decode_us_{batch}_{context}")
        theirs = sdpa(batch, 1, context, False)
        if ours is None or theirs is None:
            continue
        row(f"PyTorch {torch.__version__} SDPA ({theirs[1]}), decode, batch {batch}, context {context}",
            f"{theirs[0]:.1f} us, ours {ours:.1f} us", "ours at least as fast", "holds" if ours <= theirs[0] else "MISSED")


def prefill_attention():
    ours = FIGURES.get("prefill_us_4096")
    theirs = sdpa(1, 4096, 4096, True)
    if ours is not None and theirs is not None:
        row(f"PyTorch {torch.__version__} SDPA ({theirs[1]}), prefill, 4096 tokens",
            f"{theirs[0]:.1f} us, ours {ours:.1f} us", "", "as measured")


def decode_step():
    ours = FIGURES.get("step_us")
    if ours is None:
        return
    import transformers
    from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

    config = LlamaConfig(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                         num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192, rope_theta=500000.0)
    torch.set_default_dtype(torch.float16)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model = model.to_empty(device="cuda").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.02, 0.02)
        inner = getattr(model.model, "rotary_emb", None)
        if inner is not None:  # to_empty() leaves its frequencies undefined
            model.model.rotary_emb = type(inner)(config=config, device="cuda")
    prompt, output = int(FIGURES["step_prompt"]), int(FIGURES["step_output"])
    try:
        cache = StaticCache(config=config, max_cache_len=prompt + output)
    except TypeError:
        cache = StaticCache(config=config, max_batch_size=1, max_cache_len=prompt + output, device="cuda", dtype=torch.float16)

    def step(token, position):
        logits = model(token, cache_position=position, past_key_values=cache, use_cache=True).logits
        return logits[:, -1:].argmax(-1)

    with torch.no_grad():
        tokens = torch.randint(0, 128256, (1, prompt), device="cuda")
        token = step(tokens, torch.arange(prompt, device="cuda")).clone()
        fast = torch.compile(step, mode="reduce-overhead", fullgraph=False)
        times = []
        for i in range(output):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            token = fast(token, torch.tensor([prompt + i], device="cuda")).clone()
            token.item()  # as a sampler would
            times.append((time.perf_counter() - begin) * 1e6)
    theirs = statistics.median(times[output // 3:])
    row(f"transformers {transformers.__version__}, static cache, torch.compile, the same step", f"{theirs:.0f} us, ours {ours:.0f} us",
        "ours at least as fast", "holds" if ours <= theirs else "MISSED")


def main():
    if not torch.cuda.is_available():
        print("This PyTorch finds no CUDA device; nothing to compare with.")
        return
    for part in (decode_attention, prefill_attention, decode_step):
        try:
            part()
        except Exception as problem:  # noqa: BLE001  another version's API is no failure of ours, but it is said
            row(f"PyTorch, {part.__name__}", f"not measured: {type(problem).__name__}: {str(problem).splitlines()[0][:120]}", "", "as measured")


main()
