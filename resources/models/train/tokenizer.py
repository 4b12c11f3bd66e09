# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the byte-level BPE tokenizer of the bundled models from the word lists.

Goal: real merges, so that the merge steps can be shown, and every word of the little world as one token with its
leading space; any other UTF-8 text falls apart into smaller pieces and in the end into bytes, and decodes losslessly.
Rejected: `ignore_merges` with no merges at all (smaller, but nothing to show and no pieces between word and byte).
"""

import argparse
import json
from collections import Counter
from pathlib import Path

from words import all_words

SPECIAL = ("<pad>", "<s>", "</s>")
PAD, BOS, EOS = 0, 1, 2
MULTIPLE = 16  # the vocabulary is padded to a multiple of this


def byte_characters():
    """The usual byte-level alphabet: printable bytes are themselves, the rest follow from U+0100 in byte order."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, extra = {}, 0
    for byte in range(256):
        if byte in plain:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(0x100 + extra)
            extra += 1
    return table


def learn_merges(words):
    """Plain BPE on the word list, each word counted once, until every word is one symbol. Ties: shorter, then a-z."""
    pieces = [tuple(word) for word in words]
    merges = []
    while True:
        pairs = Counter()
        for piece in pieces:
            pairs.update(zip(piece, piece[1:]))
        if not pairs:
            return merges
        best = min(pairs, key=lambda pair: (-pairs[pair], len(pair[0] + pair[1]), pair))
        merges.append(best)
        pieces = [merge(piece, best) for piece in pieces]


def merge(piece, pair):
    out, i = [], 0
    while i < len(piece):
        if piece[i:i + 2] == pair:
            out.append(pair[0] + pair[1])
            i += 2
        else:
            out.append(piece[i])
            i += 1
    return tuple(out)


def build():
    """The tokenizer.json document as a dictionary."""
    alphabet = byte_characters()
    space = alphabet[0x20]
    merges = learn_merges([space + word for word in all_words()])
    vocabulary = {token: i for i, token in enumerate(SPECIAL)}
    for byte in range(256):
        vocabulary[alphabet[byte]] = len(vocabulary)
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    added = [added_token(i, token) for i, token in enumerate(SPECIAL)]
    while (len(vocabulary)) % MULTIPLE:
        token = f"<unused{len(vocabulary)}>"
        added.append(added_token(len(vocabulary), token))
        vocabulary[token] = len(vocabulary)
    bos = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [bos, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [bos, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [BOS], "tokens": ["<s>"]}},
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": [f"{left} {right}" for left, right in merges],
        },
    }


def added_token(i, content):
    return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True}


def config():
    """The tokenizer_config.json document."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "add_bos_token": True,
        "add_eos_token": False,
        "add_prefix_space": True,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": 512,
    }


def main():
    parser = argparse.ArgumentParser(description="write tokenizer.json")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    document = build()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config(), indent=2) + "\n", encoding="utf-8")
    print(f"{len(document['model']['vocab'])} tokens, {len(document['model']['merges'])} merges, {len(all_words())} words")


if __name__ == "__main__":
    main()
