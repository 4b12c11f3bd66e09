# SPDX-License-Identifier: GPL-3.0-or-later
"""Generates the text that the bundled models are trained on and questioned about. Nothing in it comes from elsewhere.

A story names three people, states facts, asks for them again, asks for things it never told, and fills the rest with
small talk. Sentences are written with words and punctuation apart; a leading `*` marks an answer word, which can only be
known from an earlier fact and therefore weighs more in the loss and counts in the evaluation.
"""

import random
from dataclasses import dataclass

from words import (ADJECTIVES, ANIMALS, COLOURS, CONTAINERS, FILLERS, FOODS, NAMES, NUMBERS, PETS, PLACES, PUNCTUATION,
                   PUT_VERBS, THINGS, TIMES)

KINDS = ("put", "gave", "go", "like", "pet", "code")  # evaluated; "took" is "put" said in two sentences
ANSWER_WEIGHT = 3.0


@dataclass(frozen=True)
class Mix:
    """How a stage's stories are made. What is neither fact, recall nor absent question is filler."""

    fact: float        # probability that the next sentence states a fact
    recall: float      # ... asks for one
    absent: float      # ... asks for what was never told
    facts: tuple       # fewest and most facts of a story
    confusable: float  # probability that a thing re-uses an earlier colour or noun
    copy_rows: float   # share of rows that only repeat a random list
    took: float        # share of "put" facts said as "took ... put it"
    stranger: float    # share of stories with a made-up name of several tokens
    list: tuple = (3, 20)  # shortest and longest list of a copy row
    odd: float = .15       # share of a list's items that are any token, not a word's beginning


MIXES = {
    "list": Mix(0, 0, 0, (0, 0), 0, 1.0, 0, 0),
    "easy": Mix(.36, .50, .06, (2, 4), .00, .20, .00, .00),
    "mid": Mix(.33, .42, .07, (3, 7), .15, .10, .15, .04),
    "full": Mix(.32, .36, .07, (2, 10), .30, .05, .15, .04),
}


@dataclass
class Fact:
    kind: str
    statement: str
    question: str
    answer: str
    aside: str  # the fact said again without a question; {x} is somebody else
    asked: int = 0


class Story:
    """One story's people and what has been told about them; makes facts that never contradict earlier ones."""

    def __init__(self, rng, mix, people):
        self.rng, self.mix, self.people = rng, mix, people
        self.facts = []
        self.things = set()
        self.told = {kind: set() for kind in KINDS}

    def intro(self):
        a, b, c = self.people
        return f"One {self.rng.choice(ADJECTIVES)} {self.rng.choice(TIMES)} , {a} met {b} and {c} ."

    def filler(self):
        a, b = self.rng.sample(self.people, 2)
        return self.rng.choice(FILLERS).format(a=a, b=b)

    def fact(self, kind=None):
        """States a new fact of the kind, or of a random one that still has something to tell."""
        while True:
            chosen = kind or self.rng.choice(KINDS)
            fact = getattr(self, "_" + chosen)()
            if fact:
                self.facts.append(fact)
                return fact
            if kind:
                raise ValueError(f"no further fact of the kind {kind}")

    def recall(self):
        """A sentence that asks for a fact; mostly for the one that was asked for least."""
        rng = self.rng
        fact = min(self.facts, key=lambda f: (f.asked, rng.random())) if rng.random() < .7 else rng.choice(self.facts)
        fact.asked += 1
        if rng.random() < .75:
            return f"{fact.question} {fact.answer}"
        return fact.aside.replace("{x}", rng.choice([p for p in self.people if p not in fact.aside]))

    def absent(self):
        rng = self.rng
        kind = rng.choice(("put", "put", "gave", "gave", *KINDS))
        person = rng.choice(self.people)
        if kind in ("put", "gave"):
            thing = self._thing(.3, keep=False)
            question = f"Where is the {thing} ?" if kind == "put" else f"Who has the {thing} ?"
        elif kind == "code":
            if self.told["code"]:
                return self.filler()
            question = "What are the secret numbers ?"
        elif person in self.told[kind]:
            return self.filler()
        elif kind == "go":
            question = f"Where is {person} ?"
        elif kind == "like":
            question = f"What does {person} eat ?"
        else:
            question = f"What is the {rng.choice(ANIMALS)} of {person} called ?"
        return f"{question} *Nobody knows ."

    def _thing(self, confusable, keep=True):
        """A colour and a noun that were not told yet, as far as possible unlike the earlier ones."""
        rng = self.rng
        for attempt in range(100):
            colour, noun = rng.choice(COLOURS), rng.choice(THINGS)
            if self.things and rng.random() < confusable:
                other = rng.choice(sorted(self.things)).split()
                colour, noun = (other[0], noun) if rng.random() < .5 else (colour, other[1])
            elif attempt < 20 and any(colour in t or noun in t for t in self.things):
                continue
            if f"{colour} {noun}" not in self.things:
                break
        thing = f"{colour} {noun}"
        if keep:
            self.things.add(thing)
        return thing

    def _new_person(self, kind):
        free = [p for p in self.people if p not in self.told[kind]]
        if not free:
            return None
        person = self.rng.choice(free)
        self.told[kind].add(person)
        return person

    def _put(self, took=None):
        rng = self.rng
        a, thing = rng.choice(self.people), self._thing(self.mix.confusable)
        colour, container = rng.choice(COLOURS), rng.choice(CONTAINERS)
        took = rng.random() < self.mix.took if took is None else took
        verb = rng.choice(PUT_VERBS)
        if took:
            statement = f"{a} took the {thing} . {a} {verb} it in the {colour} {container} ."
        else:
            statement = f"{a} {verb} the {thing} in the {colour} {container} ."
        return Fact("took" if took else "put", statement, f"Where is the {thing} ?",
                    f"The {thing} is in the *{colour} *{container} .", f"{{x}} found the {thing} in the *{colour} *{container} .")

    def _took(self):
        return self._put(True)

    def _gave(self):
        a, b = self.rng.sample(self.people, 2)
        thing = self._thing(self.mix.confusable)
        return Fact("gave", f"{a} gave the {thing} to {b} .", f"Who has the {thing} ?", f"*{b} has it .",
                    f"Now the {thing} is with *{b} .")

    def _go(self):
        a, place = self._new_person("go"), self.rng.choice(PLACES)
        return a and Fact("go", f"{a} went to the {place} .", f"Where is {a} ?", f"{a} is at the *{place} .",
                          f"{{x}} saw {a} at the *{place} .")

    def _like(self):
        a, food = self._new_person("like"), self.rng.choice(FOODS)
        return a and Fact("like", f"{a} loves to eat {food} .", f"What does {a} eat ?", f"{a} eats *{food} .",
                          f"{a} was hungry and ate *{food} .")

    def _pet(self):
        a, animal, pet = self._new_person("pet"), self.rng.choice(ANIMALS), self.rng.choice(PETS)
        return a and Fact("pet", f"{a} has a {animal} named {pet} .", f"What is the {animal} of {a} called ?",
                          f"It is called *{pet} .", f"The {animal} of {a} is called *{pet} .")

    def _code(self):
        if self.told["code"]:
            return None
        self.told["code"].add("told")
        numbers = self.rng.sample(NUMBERS, 4)
        starred = " ".join("*" + n for n in numbers)
        return Fact("code", f"The secret numbers are {' '.join(numbers)} .", "What are the secret numbers ?",
                    f"The secret numbers are {starred} .", f"{{x}} said the secret numbers : {starred} .")


class Generator:
    """An endless source of training rows: (token ids, loss weights), both of the asked length."""

    def __init__(self, tokenizer, seed):
        self.rng = random.Random(seed)
        self.tokenizer = tokenizer
        vocabulary = tokenizer.get_vocab()
        self.bos, self.eos = vocabulary["<s>"], vocabulary["</s>"]
        self.pieces = {mark: (vocabulary[mark],) for mark in PUNCTUATION}
        self.words = sorted(i for t, i in vocabulary.items() if t.startswith("\u0120") and len(t) > 3)
        self.any = sorted(i for t, i in vocabulary.items() if not t.startswith("<") or t == "<")

    def ids(self, word):
        found = self.pieces.get(word)
        if found is None:
            found = self.pieces[word] = tuple(self.tokenizer.encode(" " + word, add_special_tokens=False).ids)
        return found

    def encode(self, sentence):
        """Token ids and loss weights of a sentence whose words stand apart."""
        ids, weights = [], []
        for word in sentence.split():
            weight = 1.0
            if word[0] == "*":
                word, weight = word[1:], ANSWER_WEIGHT
            part = self.ids(word)
            ids.extend(part)
            weights.extend([weight] * len(part))
        return ids, weights

    def stranger(self):
        """A made-up name, such as `Tavori`."""
        syllables = [self.rng.choice("bcdfghjklmnprstvwyz") + self.rng.choice("aeiou") for _ in range(self.rng.randint(2, 3))]
        name = "".join(syllables).capitalize()
        return name + self.rng.choice(("", "", "n", "s", "r", "l"))

    def story(self, mix, length):
        """One story of about that many tokens, as sentences."""
        rng = self.rng
        people = rng.sample(NAMES, 3)
        if rng.random() < mix.stranger:
            people[rng.randrange(3)] = self.stranger()
        story = Story(rng, mix, people)
        sentences = [story.intro()] if rng.random() < .75 else []
        most = rng.randint(*mix.facts)
        size = 0
        while size < length:
            dice = rng.random()
            if not story.facts or (dice < mix.fact and len(story.facts) < most):
                sentence = story.fact().statement
            elif mix.fact <= dice < mix.fact + mix.recall:
                sentence = story.recall()
            elif dice >= mix.fact + mix.recall and dice < mix.fact + mix.recall + mix.absent:
                sentence = story.absent()
            else:
                sentence = story.filler()
            sentences.append(sentence)
            size += sentence.count(" ") + 1
        return sentences + ["The end ."]

    def copy_row(self, mix, length):
        """A random list of tokens, repeated until the row is full."""
        rng = self.rng
        count = rng.randint(*mix.list)
        items = [rng.choice(self.any) if rng.random() < mix.odd else rng.choice(self.words) for _ in range(count)]
        ids = ([self.bos] + items * (length // count + 1))[:length]
        return ids, [1.0] * length

    def row(self, mix, length):
        if self.rng.random() < mix.copy_rows:
            return self.copy_row(mix, length)
        ids, weights = [], []
        while len(ids) < length:
            ids.append(self.bos)
            weights.append(1.0)
            for sentence in self.story(mix, length * self.rng.uniform(.6, 1.7)):
                part = self.encode(sentence)
                ids.extend(part[0])
                weights.extend(part[1])
            ids.append(self.eos)
            weights.append(1.0)
        return ids[:length], weights[:length]


def plain(sentences):
    """Sentences as readable text: marks removed, punctuation joined to the word before it."""
    text = " ".join(sentences).replace("*", "")
    for mark in PUNCTUATION:
        text = text.replace(" " + mark, mark)
    return text
