# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes resources/quality/stories.json and recall.json: text that the bundled models never saw, for measuring quality.

Both come from the generator of the training text under seeds of their own, and are checked: the plain text, tokenized,
is exactly the tokens that the generator meant. ../../quality/README.md describes the files.
"""

import argparse
import json
from pathlib import Path

from tokenizers import Tokenizer

from evaluate import DISTANCES, HELD_OUT, recall_case
from generator import KINDS, MIXES, Generator

STORIES_SEED = HELD_OUT + 50_000   # evaluate.py uses HELD_OUT itself to HELD_OUT + 4,240
RECALL_SEED = HELD_OUT + 60_000
STORIES, SHORTEST, LONGEST = 512, 40, 320  # tokens, `<s>` and `</s>` included
QUESTIONS = 72                     # for every number of facts and distance; a multiple of the kinds of facts
FACTS = (2, 4)


def readable(tokenizer, ids):
    """The text of ids (without `<s>`, `</s>`); fails if tokenizing it gives anything else."""
    text = tokenizer.decode(ids).lstrip(" ")
    again = tokenizer.encode(text, add_special_tokens=False).ids
    assert again == ids, text
    return text


def stories(tokenizer):
    """Whole stories of the last training stage's mix, of evenly spread lengths."""
    generator = Generator(tokenizer, STORIES_SEED)
    found = []
    while len(found) < STORIES:
        ids = []
        for sentence in generator.story(MIXES["full"], generator.rng.uniform(SHORTEST - 10, LONGEST)):
            ids += generator.encode(sentence)[0]
        if SHORTEST <= len(ids) + 2 <= LONGEST:
            found.append({"text": readable(tokenizer, ids), "tokens": len(ids) + 2})
    return {"version": 1, "seed": STORIES_SEED, "stories": found}


def question(tokenizer, generator, kind, facts, distance):
    ids, start, starred, exact = recall_case(generator, kind, facts, distance)
    assert starred == list(range(starred[0], starred[0] + len(starred))) and start <= starred[0]
    text, answer = readable(tokenizer, ids[1:starred[0]]), readable(tokenizer, [ids[i] for i in starred])
    assert tokenizer.encode(f"{text} {answer}").ids == ids[:starred[-1] + 1]
    return {"text": text, "answer": answer, "distance": distance, "facts": facts, "kind": kind,
            "exact_distance": exact, "tokens": starred[0]}


def questions(tokenizer):
    """Every kind at every distance with every number of facts, in turn: a beginning of the list is a fair sample of it."""
    generators = {(facts, distance): Generator(tokenizer, RECALL_SEED + 1000 * facts + distance)
                  for facts in FACTS for distance in DISTANCES}
    found = [question(tokenizer, generator, kind, facts, distance)
             for _ in range(QUESTIONS // len(KINDS)) for kind in KINDS for (facts, distance), generator in generators.items()]
    return {"version": 1, "seed": RECALL_SEED, "questions": found}


def lines(document, key):
    """The document with one element of the list `key` on a line."""
    head = {name: value for name, value in document.items() if name != key}
    rows = ",\n".join(json.dumps(row) for row in document[key])
    return json.dumps(head)[:-1] + f', "{key}": [\n{rows}\n]}}\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, document, key in (("stories.json", stories(tokenizer), "stories"),
                                ("recall.json", questions(tokenizer), "questions")):
        text = lines(document, key)
        assert json.loads(text) == document
        (options.folder / name).write_text(text)
        tokens = [row["tokens"] for row in document[key]]
        print(f"{name}: {len(tokens)} {key}, {min(tokens)}-{max(tokens)} tokens, {sum(tokens)} in all, {len(text)} bytes")


if __name__ == "__main__":
    main()
