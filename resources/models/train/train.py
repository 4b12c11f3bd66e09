# SPDX-License-Identifier: GPL-3.0-or-later
"""Trains one variant with one seed on one core and leaves weights and a log in a folder of the caller's choice."""

import argparse
import json
import math
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer

from generator import MIXES, Generator
from model import VARIANTS, Model, Twin, describe, loss

# (mix, steps, rows, tokens a row). Repeated lists first: they finish the induction circuit that the weights start with.
STAGES = (
    ("list", 300, 16, 48),
    ("easy", 700, 10, 96),
    ("mid", 900, 8, 160),
    ("full", 550, 6, 320),
    ("full", 40, 4, 512),
)
RATE, LAST_RATE, WARM_UP = 3e-3, .05, 40
# More rows of 512 at a rate that rises again, for variants that the last stage leaves lost behind position 320: after it,
# latent attention had a perplexity of 1.8 at positions 256-319 and of 15-24 at 384-511, the others 1.8 and 2.0-2.4.
LONGER = {"mla": ("full", 150, 4, 512)}
LONGER_RATE, LONGER_WARM_UP = 1e-3, 10


def rate(step, steps):
    """Warm-up, constant until half time, then cosine to 5 %."""
    if step < WARM_UP:
        return RATE * (step + 1) / WARM_UP
    late = max(0.0, (step / steps - .5) * 2)
    return RATE * (LAST_RATE + (1 - LAST_RATE) * .5 * (1 + math.cos(math.pi * late)))


def rate_again(step, steps):
    """The rate of a LONGER stage: warm-up, then cosine to 5 %."""
    if step < LONGER_WARM_UP:
        return LONGER_RATE * (step + 1) / LONGER_WARM_UP
    return LONGER_RATE * (LAST_RATE + (1 - LAST_RATE) * .5 * (1 + math.cos(math.pi * step / steps)))


def batch(generator, mix, rows, length):
    """ids, targets (rows, length) and the targets' weights."""
    made = [generator.row(MIXES[mix], length + 1) for _ in range(rows)]
    ids = torch.tensor([row for row, _ in made])
    weights = torch.tensor([w for _, w in made])
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous(), weights[:, 1:].contiguous()


def optimizer_for(net, rate_now):
    """AdamW with weight decay on matrices only."""
    matrices = [p for p in net.parameters() if p.dim() > 1]
    gains = [p for p in net.parameters() if p.dim() == 1]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": .1}, {"params": gains, "weight_decay": 0.0}],
                             lr=rate_now, betas=(.9, .95), fused=True)


def learn(twin, optimizer, objective, data, rate_now):
    """One step on data, a batch(); the plain mean loss before it."""
    for group in optimizer.param_groups:
        group["lr"] = rate_now
    twin.spread()
    weighted, mean = objective(twin.full, *data)
    weighted.backward()
    twin.gather()
    torch.nn.utils.clip_grad_norm_(twin.model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return mean.item()


def train(variant, seed, tokenizer, folder, scale, fast, resume=None):
    torch.manual_seed(seed)
    generator = Generator(tokenizer, 1000 * seed)
    net = Model(VARIANTS[variant])
    twin = Twin(net)
    optimizer = optimizer_for(net, RATE)
    compiled = torch.compile(loss, dynamic=False) if fast else loss
    stages = [(mix, max(1, round(steps * scale)), rows, length)
              for mix, steps, rows, length in (*STAGES, *([LONGER[variant]] if variant in LONGER else []))]
    steps = sum(stage[1] for stage in stages[:len(STAGES)])
    step, tokens, started, cpu = 0, 0, time.time(), time.process_time()
    log = {"variant": variant, "seed": seed, "shape": describe(net.shape), "stages": stages, "curve": []}
    first = 0
    if resume:
        saved = torch.load(resume, weights_only=True)
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["stage"] + 1
        step = sum(stage[1] for stage in stages[:first])
        tokens, cpu, started = saved["tokens"], cpu - saved["cpu"], started - saved["wall"]
    for stage, (mix, count, rows, length) in enumerate(stages):
        if stage < first:
            continue
        recent = []
        generator.rng.seed(1000 * seed + stage)  # so that a resumed run sees the same rows
        objective = compiled if 48 <= length <= 320 else loss  # elsewhere compiling costs more than it saves
        for i in range(count):
            now = rate(step, steps) if stage < len(STAGES) else rate_again(i, count)
            recent.append(learn(twin, optimizer, objective, batch(generator, mix, rows, length), now))
            step += 1
            tokens += rows * length
            if (i + 1) % 100 == 0 or i + 1 == count:
                log["curve"].append((tokens, round(sum(recent) / len(recent), 4)))
                recent = []
                print(f"{variant} seed {seed} {mix}{length} {i + 1}/{count} tokens {tokens / 1e6:.2f} M loss "
                      f"{log['curve'][-1][1]:.3f} cpu {time.process_time() - cpu:.0f} s wall {time.time() - started:.0f} s",
                      flush=True)
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "stage": stage, "tokens": tokens,
                    "cpu": time.process_time() - cpu, "wall": time.time() - started},
                   folder / f"{variant}-{seed}.stage{stage}.pt")
    log.update(tokens=tokens, cpu_seconds=round(time.process_time() - cpu), wall_seconds=round(time.time() - started))
    torch.save(net.state_dict(), folder / f"{variant}-{seed}.pt")
    (folder / f"{variant}-{seed}.json").write_text(json.dumps(log, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    parser.add_argument("--folder", type=Path, required=True, help="where weights and logs go")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of steps of every stage")
    parser.add_argument("--compile", action="store_true", help="compile the loss (half as long, needs a C++ compiler)")
    parser.add_argument("--resume", type=Path, help="a checkpoint that an interrupted run left at the end of a stage")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    train(options.variant, options.seed, Tokenizer.from_file(str(options.tokenizer)), options.folder, options.scale,
          options.compile, options.resume)


if __name__ == "__main__":
    main()
