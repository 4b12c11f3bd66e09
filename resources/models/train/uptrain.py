# SPDX-License-Identifier: GPL-3.0-or-later
"""Trains a variant on from the weights of another one, for a share of the tokens that the other one was trained with.

`gqa-uptrained` starts from the multi-head model: the key and value rows of the heads that will share are averaged, as in
the GQA paper (arXiv:2305.13245, section 2.1). `swa` starts from the grouped model, with the window closed. Share 0 writes
the start itself, so that what the conversion alone costs can be measured.
"""

import argparse
import json
import math
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer

from export import load
from generator import Generator
from model import VARIANTS, Model, Twin, describe, loss
from train import STAGES, batch, learn, optimizer_for

STARTS = {"gqa-uptrained": "mha", "swa": "gqa"}  # and where each one starts from
WHOLE = sum(steps * rows * length for _, steps, rows, length in STAGES)  # tokens of a training from scratch
SHORT, LONG, LONG_EVERY = (6, 320), (4, 512), 8  # rows and tokens a row; every eighth step is a long one
RATES = {"gqa-uptrained": 3e-3, "swa": 1e-3}  # the better one of these two at a share of 5 %, one run each
LAST_RATE = .05
NEW_ROWS = 6  # rows come from seed 1000 n + 6: the stages of train.py end at 5


def pooled(rows, heads, kv_heads):
    """(kv_heads * head_dim, width): rows (heads * head_dim, width) averaged over the heads that will share."""
    return rows.view(kv_heads, heads // kv_heads, -1, rows.shape[-1]).mean(1).flatten(0, 1)


@torch.no_grad()
def start(variant, folder):
    """The variant's model, its weights made from those in the exported folder of the one that it starts from."""
    source = load(folder, STARTS[variant])
    net = Model(VARIANTS[variant])
    state = source.state_dict()
    before, after = source.shape, net.shape
    if after.kv_heads < before.kv_heads:
        q = before.heads * before.head_dim
        for i in range(before.layers):
            qk, v = state[f"blocks.{i}.qk"], state[f"blocks.{i}.v"]
            state[f"blocks.{i}.qk"] = torch.cat((qk[:q], pooled(qk[q:], before.kv_heads, after.kv_heads)))
            state[f"blocks.{i}.v"] = pooled(v, before.kv_heads, after.kv_heads)
    net.load_state_dict(state)
    return net


def steps_of(share):
    """Steps that come to about that share of WHOLE."""
    tokens = (LONG_EVERY - 1) * SHORT[0] * SHORT[1] + LONG[0] * LONG[1]
    return round(share * WHOLE * LONG_EVERY / tokens)


def rate(step, steps, highest):
    """Warm-up over the first 20 steps (a tenth of a short run), then cosine to 5 %."""
    warm_up = min(20, max(1, steps // 10))
    if step < warm_up:
        return highest * (step + 1) / warm_up
    done = (step - warm_up) / max(1, steps - warm_up)
    return highest * (LAST_RATE + (1 - LAST_RATE) * .5 * (1 + math.cos(math.pi * done)))


def uptrain(variant, share, seed, source, tokenizer, folder, fast):
    torch.manual_seed(seed)
    generator = Generator(tokenizer, 1000 * seed + NEW_ROWS)
    net = start(variant, source)
    highest = RATES[variant]
    twin, optimizer = Twin(net), optimizer_for(net, highest)
    compiled = torch.compile(loss, dynamic=False) if fast else loss
    steps = steps_of(share)
    name = f"{variant}-{seed}-{round(100 * share)}"
    tokens, started, cpu, recent = 0, time.time(), time.process_time(), []
    log = {"variant": variant, "seed": seed, "share": share, "from": STARTS[variant], "shape": describe(net.shape),
           "steps": steps, "rate": highest, "curve": []}
    for step in range(steps):
        long = step % LONG_EVERY == LONG_EVERY - 1
        rows, length = LONG if long else SHORT
        data = batch(generator, "full", rows, length)
        recent.append(learn(twin, optimizer, loss if long else compiled, data, rate(step, steps, highest)))
        tokens += rows * length
        if (step + 1) % 20 == 0 or step + 1 == steps:
            log["curve"].append((tokens, round(sum(recent) / len(recent), 4)))
            recent = []
            print(f"{name} {step + 1}/{steps} tokens {tokens / 1e3:.0f} k loss {log['curve'][-1][1]:.3f} "
                  f"cpu {time.process_time() - cpu:.0f} s wall {time.time() - started:.0f} s", flush=True)
    log.update(tokens=tokens, cpu_seconds=round(time.process_time() - cpu), wall_seconds=round(time.time() - started))
    torch.save(net.state_dict(), folder / f"{name}.pt")
    (folder / f"{name}.json").write_text(json.dumps(log, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variant", choices=STARTS)
    parser.add_argument("--share", type=float, required=True, help="of the tokens of a training from scratch, such as 0.1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=Path, required=True, help="exported folder of the model that it starts from")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    parser.add_argument("--folder", type=Path, required=True, help="where weights and logs go")
    parser.add_argument("--compile", action="store_true", help="compile the loss (pays from about a tenth on)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    uptrain(options.variant, options.share, options.seed, options.start, Tokenizer.from_file(str(options.tokenizer)),
            options.folder, options.compile)


if __name__ == "__main__":
    main()
