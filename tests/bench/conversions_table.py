#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of conversions in the README: what a model with multi-head attention is worth with fewer KV heads or with latents.

    tests/bench/conversions_table.py build/release/gui/kvloupe [--only REGEX] [-- further options of kvloupe quality]

The model is the bundled one with MHA, converted as the scenario's key "convert" does it; beside it stand the sisters that were trained
so, or uptrained. Every lane is compared with the unconverted one; caches are in f16. Sensitivity measures the model on the last
48 stories: with --texts 464 or less no story is both measured on and looked at for the conversion. Needs nothing but Python.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from quality_table import figure, measure

LAYERS = 4
WIDTHS = [128, 72, 64, 48, 36, 32, 24, 16]
SHARED = [64, 48, 36, 32, 24, 16]  # mean widths of budgets


def lanes():
    def lane(name, convert=None, model="bundled:mha"):
        return {"name": name, "model": model, **({"convert": convert} if convert else {})}

    result = [lane("MHA")]
    for by in ["energy", "sensitivity"]:
        result += [lane(f"MLA-{width}, {by}", {"to": "mla", "width": width, "by": by}) for width in WIDTHS]
    for by in ["energy", "sensitivity"]:
        result += [lane(f"MLA of {LAYERS * width}, {by}", {"to": "mla", "budget": LAYERS * width, "by": by}) for width in SHARED]
    result += [lane(f"GQA-{heads}, means of heads", {"to": "gqa", "kv_heads": heads}) for heads in [4, 2]]
    result += [
        lane("MQA, mean of heads", {"to": "mqa"}),
        lane("GQA-2, means of heads, uptrained", model="bundled:gqa-uptrained"),
        lane("GQA-2, trained so", model="bundled:gqa"),
        lane("MQA, trained so", model="bundled:mqa"),
        lane("MLA-32 + 16, trained so", model="bundled:mla"),
    ]
    return result


def bytes_per_token(program, kept):
    """Of every lane, as the program's results say it. By what a width was chosen does not matter here, so nothing is measured for it."""
    kept = json.loads(json.dumps(kept).replace('"sensitivity"', '"energy"'))
    with tempfile.TemporaryDirectory() as folder:
        scenario = pathlib.Path(folder) / "conversions.json"
        scenario.write_text(json.dumps({"version": 1, "model": "bundled:mha", "lanes": kept,
                                        "requests": [{"id": "a", "prompt": "One sunny day", "max_new_tokens": 1}]}))
        subprocess.run([program, "run", str(scenario), "--export", folder], check=True, stdout=subprocess.PIPE)
        summary = json.loads((pathlib.Path(folder) / "summary.json").read_text())
    return {lane["name"]: lane["kv"]["bytes_per_token"] for lane in summary["lanes"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--only", default="", help="a regular expression: MHA and the lanes whose whole name matches it")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given, options = parser.parse_args(sys.argv[1:end]), sys.argv[end + 1:]
    kept = [lane for lane in lanes() if not given.only or lane["name"] == "MHA" or re.fullmatch(given.only, lane["name"])]
    sizes = bytes_per_token(given.program, kept)
    report, refused = measure(given.program, "bundled:mha", kept, options)
    if not report:
        sys.exit(refused)
    recall = report["questions"] > 0
    print(f"{report['text']}, {report['tokens']:,} tokens predicted" + (f", {report['questions']} questions" if recall else "")
          + f"; {report['device']}; {report['measured_on']}; intervals of 95 %, drawn by {report['unit']}\n")
    print("| lane | bytes a token | of MHA's, % | perplexity | of MHA's, % | same top token, % |" + (" recall, % |" if recall else ""))
    print("|---|---|---|---|---|---|" + ("---|" if recall else ""))
    for lane in report["lanes"]:
        size = sizes[lane["lane"]]
        row = [lane["lane"], f"{size:,.0f}", f"{100 * size / sizes['MHA']:.1f}", figure(lane["perplexity"], 3),
               figure(lane["perplexity_ratio"], 2, 100), figure(lane["agreement"], 2, 100)]
        if recall:
            row.append(figure(lane["recall_total"]["right"], 1, 100))
        print("| " + " | ".join(row) + " |" + (f" {lane['failure']}" if lane["failure"] else ""))


if __name__ == "__main__":
    main()
