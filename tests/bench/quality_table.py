#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of cache precisions in the README: perplexity, KL divergence and recall of every precision on held-out text.

    tests/bench/quality_table.py build/release/gui/kvloupe bundled:gqa [--window 64] [--only REGEX] [-- further options of kvloupe quality]

Every lane is compared with f16. A precision that the model's shape does not take is left out, and the reason is printed below
the table. Needs nothing but Python.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile


def lanes(window):
    def lane(name, **cache):
        return {"name": name, "cache": cache}

    plain = ["f16", "f32", "bf16", "fp8_e4m3", "fp8_e5m2", "int8", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "int4", "kivi4", "kivi2"]
    result = [lane(name, dtype=name) for name in plain]
    result += [
        lane("int8, joint scale", dtype="int8", scale="joint"),
        lane("int4, joint scale", dtype="int4", scale="joint"),
        lane("int4, rotated", dtype="int4", rotate=True),
        lane("q4_0, rotated", dtype="q4_0", rotate=True),
        lane("K int4, V f16", dtype_k="int4", dtype_v="f16"),
        lane("K f16, V int4", dtype_k="f16", dtype_v="int4"),
        lane("K int4 rotated, V f16", dtype_k="int4", dtype_v="f16", rotate=True),
        lane(f"window {window}", dtype="f16", window=window),
        lane(f"window {window}, 4 sinks", dtype="f16", window=window, sinks=4),
        lane(f"window {window}, 4 sinks, by rank", dtype="f16", window=window, sinks=4, positions="rank"),
    ]
    return result


def measure(program, model, kept, options):
    """The report, or the sentence of the lane that was refused."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"version": 1, "model": model, "lanes": kept, "requests": []}, file)
        file.flush()
        done = subprocess.run([program, "quality", file.name, "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.stdout:
        return json.loads(done.stdout), None
    return None, done.stderr.strip().splitlines()[-1]


def figure(value, digits, factor=1.0):
    if value is None:
        return ""
    return f"{factor * value['value']:.{digits}f} ({factor * value['low']:.{digits}f}–{factor * value['high']:.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--only", default="", help="a regular expression: f16 and the lanes whose whole name matches it")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given, options = parser.parse_args(sys.argv[1:end]), sys.argv[end + 1:]
    kept = [lane for lane in lanes(given.window) if not given.only or lane["name"] == "f16" or re.fullmatch(given.only, lane["name"])]
    left_out = []
    while True:
        report, refused = measure(given.program, given.model, kept, options)
        if report:
            break
        named = re.search(r"Lane '([^']+)'", refused)
        if not named or named.group(1) == "f16" or named.group(1) not in [lane["name"] for lane in kept]:
            sys.exit(refused)
        left_out.append(refused)
        kept = [lane for lane in kept if lane["name"] != named.group(1)]
    recall = report["questions"] > 0
    print(f"{report['text']}, {report['tokens']:,} tokens predicted" + (f", {report['questions']} questions" if recall else "")
          + f"; {report['device']}; {report['measured_on']}; intervals of 95 %, drawn by {report['unit']}\n")
    print("| cache | perplexity | of f16's, % | KL, thousandths of a nat | same top token, % |" + (" recall, % |" if recall else ""))
    print("|---|---|---|---|---|" + ("---|" if recall else ""))
    for lane in report["lanes"]:
        row = [lane["lane"], figure(lane["perplexity"], 3), figure(lane["perplexity_ratio"], 2, 100), figure(lane["divergence"], 3, 1000),
               figure(lane["agreement"], 2, 100)]
        if recall:
            row.append(figure(lane["recall_total"]["right"], 1, 100))
        print("| " + " | ".join(row) + " |" + (f" {lane['failure']}" if lane["failure"] else ""))
    for sentence in left_out:
        print(f"\nleft out: {sentence}")


if __name__ == "__main__":
    main()
