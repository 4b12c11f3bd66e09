# SPDX-License-Identifier: GPL-3.0-or-later
"""Collects training logs and measurements into quality.json and prints the table of README.md.

Shipped is the run with the median held-out perplexity; with two runs the worse one, so that no run is chosen for its luck.
"""

import argparse
import json
from pathlib import Path

from model import VARIANTS


def runs_of(variant, folder):
    """Every run of the variant that was measured, best perplexity first."""
    runs = []
    for log in sorted(folder.glob(f"{variant}-*.json")):
        measured = folder / "quality" / log.name
        if measured.exists():
            training = json.loads(log.read_text())
            runs.append({"seed": training["seed"], "training_tokens": training["tokens"],
                         "training_cpu_seconds": training["cpu_seconds"], **json.loads(measured.read_text())})
    return sorted(runs, key=lambda run: run["perplexity"])


def row(run, shipped):
    def cells(name, facts):
        return "/".join(f"{100 * value:.0f}" for value in run[name][facts].values())

    hard = run["hard"]
    return (f"| {run['variant']} | {run['seed']}{' (shipped)' if shipped else ''} | {run['training_tokens'] / 1e6:.2f} M "
            f"| {run['training_cpu_seconds']} | {run['perplexity']:.3f} | {cells('recall', '2_facts')} "
            f"| {cells('sentence', '2_facts')} | {cells('recall', '4_facts')} | {100 * hard['nobody_knows_3_facts']:.0f} "
            f"| {100 * hard['took_it_2_facts_60']:.0f} | {100 * hard['made_up_name_2_facts_60']:.0f} |")


def main():
    parser = argparse.ArgumentParser(description="collect measurements")
    parser.add_argument("folder", type=Path, help="logs; measurements lie in its folder quality/")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    document = {"version": 1, "origin": "measured on held-out stories, f16-rounded weights computed in f32",
                "recall": "share of questions in which every answer word is the arg max; keys are distances in tokens",
                "sentence": "share in which greedy decoding writes the whole answer sentence", "models": {}, "other_runs": []}
    for variant in VARIANTS:
        runs = runs_of(variant, options.folder)
        if not runs:
            continue
        chosen = runs[len(runs) // 2]
        document["models"][variant] = chosen
        document["other_runs"] += [run for run in runs if run is not chosen]
        for run in sorted(runs, key=lambda r: r["seed"]):
            print(row(run, run is chosen))
    options.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
