# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the seeds of the fuzz target tokenizer into corpus/tokenizer, from nothing but this script.

    python make_tokenizer_corpus.py

Inputs that a fuzzer found (names beginning with "found-") are kept.
"""
import json
import pathlib

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus" / "tokenizer"


def base():
    return {
        "added_tokens": [{"id": 6, "content": "<s>", "lstrip": True, "rstrip": True, "single_word": True, "special": True},
                         {"id": 7, "content": "bb", "normalized": True, "special": False}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u0120": 2, "ab": 3, "\u0120ab": 4, "\"": 5},
                  "merges": ["a b", "\u0120 ab"], "ignore_merges": True},
    }


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    variants = {"plain": {}}
    variants["split"] = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": False},
        {"type": "Split", "pattern": {"Regex": "(?i:'s)|[^\\r\\n\\p{L}]?\\p{L}+|\\s+(?!\\S)|\\u0061{1,2}"},
         "behavior": "MergedWithPrevious", "invert": True}, {"type": "ByteLevel", "use_regex": False}]}}
    variants["literal"] = {"pre_tokenizer": {"type": "Split", "pattern": {"String": "a"}, "behavior": "MergedWithNext"}, "decoder": None}
    variants["template"] = {"post_processor": {
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [6]}}}}
    variants["normalizer"] = {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "b"}, {"type": "Replace", "pattern": {"String": "a"}, "content": "bb"}]}}
    variants["characters"] = {"pre_tokenizer": None, "added_tokens": [], "decoder": {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "b"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"vocab": {"a": 0, "b": 1, "<unk>": 2, "<0x7D>": 3, "ab": 4}, "merges": [["a", "b"]], "unk_token": "<unk>",
                  "fuse_unk": True, "byte_fallback": True}}
    variants["gap"] = {"added_tokens": [{"id": 9, "content": "x"}]}
    for name, patch in variants.items():
        (CORPUS / name).write_text(json.dumps({**base(), **patch}))
    (CORPUS / "deep").write_text("[" * 100)
    (CORPUS / "duplicate").write_text('{"model":{},"model":{}}')
    (CORPUS / "truncated").write_text(json.dumps(base())[:200])


if __name__ == "__main__":
    main()
