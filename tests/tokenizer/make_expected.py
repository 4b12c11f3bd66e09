# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes expected.json: the token ids that Hugging Face's own tokenizers give, for the tests to compare with.

    python make_expected.py SHARED_TOKENIZERS      (the folder with *_hf_tokenizer.json and ggml-vocab-gpt-2.gguf.inp;
                                                    needs the packages tokenizers and transformers)

Of the files outside the project only ids are kept: the tests read the texts where they lie.
"""
import json
import pathlib
import sys

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).resolve().parent
BUNDLED = HERE.parent.parent / "resources" / "models"

# Own texts: case, numbers, contractions, white space, other scripts, emoji, text that looks like special tokens.
TEXTS = [
    "", " ", "  ", "\n", " \n\n x", "The cache", " the cache", "Anna has a red ball. Anna has a", "don't, he'll, WE'VE",
    "1234567 tokens, 3.5 of 12", "tab\tand  two   three", "\u4f60\u597d\uff0c\u4e16\u754c", "gr\u00fc\u00dfe \u00bd \u2167 \u0663",
    "\U0001f680 \U0001f636\u200d\U0001f32b\ufe0f e\u0301", "<s>the</s> </s>x <pad>", "a\u00a0b\u2003c\u3000d\u0085e\u180ef", "x=[1,2];\r\n\ty==x!!",
    "ThisIsCamelCase_and_snake", "the the the the the", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "end ", "<s> the <s>", "wordtheword the",
]


def byte_level(prefix=False, regex=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def split(pattern, behaviour="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behaviour, "invert": invert}


def sequence(*stages):
    return {"type": "Sequence", "pretokenizers": list(stages)}


def added(identifier, content, **options):
    token = dict(id=identifier, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    token.update(options)
    return token


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")


def variants(base):
    """name -> keys that replace those of tiny-bpe.json (those of 'model' one by one)."""
    first = len(base["model"]["vocab"])
    special = base["added_tokens"]
    out = {
        "as it is": {},
        "prefix space": {"pre_tokenizer": byte_level(True, True)},
        "no regex": {"pre_tokenizer": byte_level()},
        "prefix space without regex": {"pre_tokenizer": byte_level(True)},
        "digits one by one": {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": True}, byte_level(False, True))},
        "digits together": {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": False}, byte_level(True, True))},
        "Llama 3": {"pre_tokenizer": sequence(split(LLAMA3), byte_level())},
        "empty matches": {"pre_tokenizer": sequence(split("(?=[A-Z])|t*"), byte_level())},
        "words": {"pre_tokenizer": sequence(split(r"[\s\w]+"), split(r"\S+"), byte_level())},
        "lines": {"pre_tokenizer": sequence(split(r"^.|.$"), byte_level())},
        "merges as pairs, no type": {"model": {"merges": [m if isinstance(m, list) else m.split(" ") for m in base["model"]["merges"]]}},
        "ignore merges": {"model": {"ignore_merges": True, "merges": base["model"]["merges"][:40]}},
        "a template": {"post_processor": {
            "type": "Sequence", "processors": [byte_level(), {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}]}},
        "added tokens that strip": {"added_tokens": special[:1] + [
            added(1, "<s>", lstrip=True), added(2, "</s>", rstrip=True), added(first, "the the", special=False),
            added(first + 1, "the  ", special=False), added(first + 2, "word", single_word=True, special=False),
            added(first + 3, "\u4f60", special=False), added(first + 4, "aaaaaaa", lstrip=True, special=False)]},
        "normalizers": {"normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Replace", "pattern": {"String": "the"}, "content": "a token"}, {"type": "Prepend", "prepend": "_"},
            {"type": "Replace", "pattern": {"String": "!"}, "content": ""}]},
            "added_tokens": special + [added(first, "block the", normalized=True, special=False),
                                       added(first + 1, "x=", normalized=True, special=False)]},
    }
    for behaviour in ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            name = f"{behaviour}{', inverted' if invert else ''}"
            out[f"text, {name}"] = {"pre_tokenizer": sequence(split(" ", behaviour, invert, "String"), byte_level())}
            out[f"regex, {name}"] = {"pre_tokenizer": sequence(split("[a-z]{2}", behaviour, invert), byte_level(True))}
    for fuse in (False, True):
        for fallback in (False, True):
            out[f"characters, fuse {fuse}, fallback {fallback}"] = characters(fuse, fallback)
    return out


def characters(fuse, fallback):
    """The way of Llama 2: no bytes but characters, spaces marked, <0xNN> for what is no token."""
    tokens = ["<unk>", "<s>", "</s>"] + ([f"<0x{byte:02X}>" for byte in range(256)] if fallback else [])
    merges = ["t h", "th e", "\u2581 the", "\u2581 t", "o k", "e n", "ok en", "\u2581t oken", "a a", "aa aa", "\u2581 \u2581"]
    for text in list("\u2581abcdehknorstw\u4f60") + [m.replace(" ", "") for m in merges]:
        if text not in tokens:
            tokens.append(text)
    return {
        "added_tokens": [added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"vocab": {text: i for i, text in enumerate(tokens)}, "merges": merges, "unk_token": "<unk>", "fuse_unk": fuse,
                  "byte_fallback": fallback},
    }


def patched(base, patch):
    data = json.loads(json.dumps(base))
    for key, value in patch.items():
        if key == "model":
            data["model"].update(value)
        else:
            data[key] = value
    return data


def ids_of(tokenizer, texts):
    tokenizer.encode_special_tokens = True  # text that looks special is plain text
    plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    tokenizer.encode_special_tokens = False
    parsed = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    prompts = [tokenizer.encode(text, add_special_tokens=True).ids for text in texts]
    return {"plain": plain, "special": parsed, "prompt": prompts}


def main(shared):
    result = {"texts": TEXTS, "tiny": [], "bundled": {}, "shared": {}}
    base = json.loads((HERE / "fixtures" / "tiny-bpe.json").read_text(encoding="utf-8"))
    for name, patch in variants(base).items():
        tokenizer = Tokenizer.from_str(json.dumps(patched(base, patch)))
        result["tiny"].append({"name": name, "patch": patch, **ids_of(tokenizer, TEXTS)})
    for folder in sorted(BUNDLED.iterdir()):
        if (folder / "tokenizer.json").exists():
            result["bundled"][folder.name] = ids_of(Tokenizer.from_file(str(folder / "tokenizer.json")), TEXTS)
    texts = (shared / "ggml-vocab-gpt-2.gguf.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    if texts[-1] == "":
        texts.pop()
    for file in sorted(shared.glob("*_hf_tokenizer.json")):
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(file))
        result["shared"][file.name] = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    text = json.dumps(result, separators=(",", ":"), ensure_ascii=True)
    text = text.replace("{\"name\"", "\n{\"name\"").replace("],[", "],\n[").replace(",\"plain\"", ",\n\"plain\"")
    (HERE / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
