# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints what the exported models score on resources/quality, computed in f32: figures for KVLoupe's own to be held against."""

import argparse
import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from export import load
from model import VARIANTS
from tokenizer import EOS


@torch.no_grad()
def stories(model, tokenizer, texts):
    """exp of the mean loss over every token after `<s>`, `</s>` included; and the number of tokens."""
    total = count = 0
    for text in texts:
        ids = torch.tensor([tokenizer.encode(text).ids + [EOS]])
        losses = F.cross_entropy(model(ids[:, :-1])[0].double(), ids[0, 1:], reduction="sum")
        total += losses.item()
        count += ids.shape[1] - 1
    return math.exp(total / count), count


@torch.no_grad()
def recall(model, tokenizer, questions):
    """Right answers and questions for every (facts, distance)."""
    cells = {}
    for question in questions:
        asked = question["tokens"]
        ids = tokenizer.encode(question["text"] + " " + question["answer"]).ids
        best = model(torch.tensor([ids]))[0].argmax(-1).tolist()
        right, done = cells.get((question["facts"], question["distance"]), (0, 0))
        cells[question["facts"], question["distance"]] = (right + (best[asked - 1:-1] == ids[asked:]), done + 1)
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, help="the folder of the exported folders")
    parser.add_argument("quality", type=Path, help="the folder of stories.json and recall.json")
    parser.add_argument("names", nargs="*", default=list(VARIANTS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = Tokenizer.from_file(str(options.models / options.names[0] / "tokenizer.json"))
    texts = [story["text"] for story in json.loads((options.quality / "stories.json").read_text())["stories"]]
    questions = json.loads((options.quality / "recall.json").read_text())["questions"]
    for name in options.names:
        model = load(options.models / name, name)
        perplexity, count = stories(model, tokenizer, texts)
        cells = recall(model, tokenizer, questions)
        by_facts = [" / ".join(str(cells[facts, distance][0]) for facts, distance in cells if facts == wanted) for wanted in (2, 4)]
        print(f"| `{name}` | {perplexity:.4f} ({count} tokens) | {' | '.join(by_facts)} |", flush=True)


if __name__ == "__main__":
    main()
