# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures held-out perplexity and greedy recall of a checkpoint or an exported folder, always on f16-rounded weights.

A recall case is a story with a given number of facts, one of which is asked for; small talk between the fact's last
word and the question brings the answer's first word to the wanted distance (at least that many tokens, and less than
one sentence more). `recall`: every answer word is the arg max. `sentence`: every token of the answer sentence is, which
is what greedy decoding from the question mark on writes. Only the six kinds of generator.KINDS are mixed, in turn.
"""

import argparse
import json
import math
import random
from pathlib import Path

import torch
from tokenizers import Tokenizer

from export import load
from generator import ANSWER_WEIGHT, KINDS, MIXES, Generator, Story
from model import VARIANTS, loss, parameters
from train import batch
from words import NAMES

DISTANCES = (20, 60, 120, 240)
HELD_OUT = 10_000_000  # seeds from here on are never trained on


def recall_case(generator, kind, facts, distance, stranger=False):
    """ids of prompt + answer, the answer's beginning, the positions (in ids) of answer words, and the exact distance."""
    rng = generator.rng
    people = rng.sample(NAMES, 3)
    if stranger:
        people[rng.randrange(3)] = generator.stranger()
    story = Story(rng, MIXES["mid"], people)
    told = [story.fact(kind)] + [story.fact() for _ in range(facts - 1)]
    wanted = told[0]
    rng.shuffle(told)
    question, _ = generator.encode(wanted.question)
    answer, weights = generator.encode(wanted.answer)
    starred = [i for i, w in enumerate(weights) if w == ANSWER_WEIGHT]
    tail = len(question) + starred[0] + 2  # from the fact's last word to the first answer word, without small talk
    encoded = [(f is wanted, generator.encode(f.statement)[0]) for f in told]
    place = next(i for i, (mine, _) in enumerate(encoded) if mine)
    while tail + sum(len(s) for _, s in encoded[place + 1:]) > distance + 10 and place + 1 < len(encoded):
        encoded.insert(0, encoded.pop())  # too many facts behind it: tell them earlier
        place += 1
    between = tail + sum(len(s) for _, s in encoded[place + 1:])
    ids = [generator.bos] + generator.encode(story.intro())[0]
    for _, sentence in encoded:
        ids += sentence
    while between < distance:
        small_talk = generator.encode(story.filler())[0]
        ids += small_talk
        between += len(small_talk)
    ids += question
    start = len(ids)
    return ids + answer, start, [start + i for i in starred], between


@torch.no_grad()
def recall(model, tokenizer, facts, distance, cases, kinds=KINDS, stranger=False, by_kind=None):
    """Shares of cases with (all answer words, the whole answer sentence) right."""
    generator = Generator(tokenizer, HELD_OUT + 1000 * facts + distance)
    words = sentences = done = 0
    while done < cases:
        chunk = [recall_case(generator, kinds[(done + i) % len(kinds)], facts, distance, stranger)
                 for i in range(min(25, cases - done))]
        longest = max(len(ids) for ids, *_ in chunk)
        padded = torch.tensor([ids + [0] * (longest - len(ids)) for ids, *_ in chunk])
        best = model(padded).argmax(-1)
        for i, (ids, start, starred, _) in enumerate(chunk):
            good = all(best[i, p - 1] == ids[p] for p in starred)
            words += good
            sentences += all(best[i, p - 1] == ids[p] for p in range(start, len(ids)))
            if by_kind is not None:
                kind = kinds[(done + i) % len(kinds)]
                by_kind.setdefault(kind, []).append(good)
        done += len(chunk)
    return words / cases, sentences / cases


@torch.no_grad()
def absent(model, tokenizer, cases):
    """Share of questions about things never told that get `Nobody knows.` after three facts."""
    generator = Generator(tokenizer, HELD_OUT + 7)
    rng, right, done = generator.rng, 0, 0
    while done < cases:
        story = Story(rng, MIXES["mid"], rng.sample(NAMES, 3))
        sentences = [story.intro()] + [story.fact().statement for _ in range(3)]
        question = story.absent()
        if "?" not in question:
            continue
        ids = [generator.bos]
        for sentence in sentences:
            ids += generator.encode(sentence)[0]
        ids += generator.encode(question)[0]
        right += model(torch.tensor([ids]))[0, -4].argmax().item() == ids[-3]
        done += 1
    return right / cases


@torch.no_grad()
def perplexity(model, tokenizer, length=320, rows=96):
    """exp of the plain mean loss on held-out rows of the last training stage's mix."""
    generator = Generator(tokenizer, HELD_OUT)
    total = 0.0
    for _ in range(rows // 8):
        total += loss(model, *batch(generator, "full", 8, length))[1].item()
    return math.exp(total / (rows // 8))


def measure(model, tokenizer, cases):
    result = {"perplexity": round(perplexity(model, tokenizer), 4), "cases_per_cell": cases, "recall": {}, "sentence": {}}
    kinds = {}
    for facts in (2, 4):
        for distance in DISTANCES:
            words, sentence = recall(model, tokenizer, facts, distance, cases, by_kind=kinds if facts == 2 else None)
            result["recall"].setdefault(f"{facts}_facts", {})[str(distance)] = round(words, 4)
            result["sentence"].setdefault(f"{facts}_facts", {})[str(distance)] = round(sentence, 4)
    result["recall_by_kind_2_facts"] = {kind: round(sum(good) / len(good), 4) for kind, good in kinds.items()}
    took = recall(model, tokenizer, 2, 60, cases // 2, kinds=("took",))[0]
    strange = recall(model, tokenizer, 2, 60, cases // 2, stranger=True)[0]
    result["hard"] = {"took_it_2_facts_60": round(took, 4), "made_up_name_2_facts_60": round(strange, 4),
                      "nobody_knows_3_facts": round(absent(model, tokenizer, cases // 2), 4)}
    result["perplexity_512"] = round(perplexity(model, tokenizer, 511, 32), 4)
    return result


def greedy(model, tokenizer, prompt, count=40):
    """The prompt's greedy continuation, up to the end of the story."""
    ids = tokenizer.encode(prompt).ids
    start = len(ids)
    with torch.no_grad():
        while len(ids) < start + count and ids[-1] != tokenizer.token_to_id("</s>"):
            ids.append(model(torch.tensor([ids]))[0, -1].argmax().item())
    return tokenizer.decode(ids[start:], skip_special_tokens=False)


def main():
    parser = argparse.ArgumentParser(description="measure perplexity and recall")
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("weights", type=Path, help="a .pt checkpoint or an exported folder")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--prompt", action="append", help="print a greedy continuation instead")
    options = parser.parse_args()
    torch.set_num_threads(1)
    random.seed(0)
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    model = load(options.weights, options.variant)
    if options.prompt:
        for prompt in options.prompt:
            print(f"{prompt}|{greedy(model, tokenizer, prompt)}")
        return
    result = {"variant": options.variant, "parameters": parameters(model.shape), **measure(model, tokenizer, options.cases)}
    text = json.dumps(result, indent=1)
    print(text)
    if options.output:
        options.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
