# SPDX-License-Identifier: GPL-3.0-or-later
"""Collects training logs and measurements into quality.json and prints the table of README.md.

Shipped is the run with the median held-out perplexity; with two runs the worse one, so that no run is chosen for its luck.
Of the models that were trained on from another one only the runs with the share of tokens in SHIPPED_SHARE stand for
election. What a run was not measured for is absent, and `-` in the table.
"""

import argparse
import json
from pathlib import Path

from model import VARIANTS

SHIPPED_SHARE = {"swa": .1, "gqa-uptrained": .2}  # chosen by looking at the table


def runs_of(variant, folder):
    """Every run of the variant that was measured, best perplexity first. Logs are called VARIANT-SEED[-PERCENT].json."""
    runs = []
    for log in sorted(folder.glob(f"{variant}-[0-9]*.json")):
        measured = folder / "quality" / log.name
        if measured.exists():
            training = json.loads(log.read_text())
            run = {"seed": training["seed"], "training_tokens": training["tokens"],
                   "training_cpu_seconds": training["cpu_seconds"]}
            if "share" in training:
                run |= {"continued_from": training["from"], "continued_share": training["share"]}
            runs.append(run | json.loads(measured.read_text()))
    return sorted(runs, key=lambda run: run["perplexity"])


def choose(variant, runs):
    """The run that is shipped."""
    able = [run for run in runs if run.get("continued_share") == SHIPPED_SHARE.get(variant)]
    return able[len(able) // 2] if able else None


def row(run, shipped):
    def cells(name, facts):
        return "/".join(f"{100 * value:.0f}" for value in run[name][facts].values()) if name in run else "-"

    def hard(name):
        return f"{100 * run['hard'][name]:.0f}" if "hard" in run else "-"

    share = f" + {100 * run['continued_share']:.0f} %" if "continued_share" in run else ""
    return (f"| {run['variant']}{share} | {run['seed']}{' (shipped)' if shipped else ''} "
            f"| {run['training_tokens'] / 1e6:.2f} M | {run['training_cpu_seconds']} | {run['perplexity']:.3f} "
            f"| {cells('recall', '2_facts')} | {cells('sentence', '2_facts')} | {cells('recall', '4_facts')} "
            f"| {hard('nobody_knows_3_facts')} | {hard('took_it_2_facts_60')} | {hard('made_up_name_2_facts_60')} |")


def main():
    parser = argparse.ArgumentParser(description="collect measurements")
    parser.add_argument("folder", type=Path, help="logs; measurements lie in its folder quality/")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    document = {"version": 1, "origin": "measured on held-out stories, f16-rounded weights computed in f32",
                "recall": "share of questions in which every answer word is the arg max; keys are distances in tokens",
                "sentence": "share in which greedy decoding writes the whole answer sentence",
                "continued": "runs with continued_from start from that model's shipped weights; training_tokens and "
                             "training_cpu_seconds are what came after, continued_share the same as a share of a whole training",
                "models": {}, "other_runs": []}
    for variant in VARIANTS:
        runs = runs_of(variant, options.folder)
        if not runs:
            continue
        chosen = choose(variant, runs)
        if chosen:
            document["models"][variant] = chosen
        document["other_runs"] += [run for run in runs if run is not chosen]
        for run in sorted(runs, key=lambda r: (r.get("continued_share", 0), r["seed"])):
            print(row(run, run is chosen))
    options.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
