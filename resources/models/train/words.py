# SPDX-License-Identifier: GPL-3.0-or-later
"""The word lists of the bundled models' little world. Every word is one token (with its leading space)."""

NAMES = "Mia Ben Tom Ana Leo Zoe Max Eva Sam Lily Noah Ruby Omar Ella Finn Nora Hugo Iris Jack Kate Luna Owen Rosa Theo".split()
COLOURS = "red blue green yellow white black pink brown".split()
THINGS = "key ball hat cup coin ring book doll kite lamp spoon shell stone bell drum map flute rope brush pen".split()
CONTAINERS = "box bag basket drawer jar chest bucket bowl tin sack crate trunk".split()
PLACES = "park school market beach library farm forest lake zoo garden river bakery".split()
FOODS = "rice soup bread cake pasta cheese honey jam corn fish plums nuts".split()
ANIMALS = "dog cat bird hen goat pony rabbit turtle".split()
PETS = "Rex Coco Tiny Spot Fluffy Daisy Pip Shadow Biscuit Pepper Milo Bella".split()
NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()
ADJECTIVES = "sunny windy rainy cold warm quiet bright foggy".split()
TIMES = "day morning evening afternoon".split()

PUT_VERBS = ("put", "hid", "left")
PUNCTUATION = (".", ",", "?", ":")

# {a} and {b} are two people of the story. Punctuation stands alone: sentences here are lists of words.
FILLERS = (
    "The sun was warm and the wind was soft .",
    "They sang a song together .",
    "It was a good day .",
    "The leaves moved in the trees .",
    "They laughed and ran around .",
    "A small cloud moved over the hills .",
    "They sat down and had a rest .",
    "{a} told a funny story .",
    "{a} and {b} played a game .",
    "{a} smiled at {b} .",
    "The grass was tall and soft .",
    "{a} looked at the sky .",
)

# Every word that the sentences of generator.py use besides the lists above.
GRAMMAR = (
    "One met and in the to of is has a it It gave Who Where What does eat eats loves went at called named "
    "are The secret numbers said found took with Now now saw was hungry ate Nobody knows end"
).split()


def all_words():
    """The words that must be single tokens, without repetition, in a fixed order."""
    words = []
    for group in (NAMES, COLOURS, THINGS, CONTAINERS, PLACES, FOODS, ANIMALS, PETS, NUMBERS, ADJECTIVES, TIMES,
                  PUT_VERBS, GRAMMAR, " ".join(FILLERS).split()):
        for word in group:
            if word not in words and word not in PUNCTUATION and not word.startswith("{"):
                words.append(word)
    return words
