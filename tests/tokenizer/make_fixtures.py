# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the tokenizers that the tests bring themselves into fixtures/:

tiny-bpe.json   byte-level BPE of Hugging Face tokenizers, 256 bytes and 120 merges learned from the text below
tiny-spm.gguf   SentencePiece-style vocabulary with byte fallback, no tensors

    python make_fixtures.py        (needs the package tokenizers)
"""
import json
import pathlib
import struct

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

FOLDER = pathlib.Path(__file__).resolve().parent / "fixtures"

TEXT = """The cache keeps the keys and the values of every token that was read, so that the next token needs one
row of work and not the whole prefix. A block holds sixteen tokens; a table says where each block lies.
When the last owner of a block writes, it writes in place; while another owner is left, it copies the block first.
The reader doesn't see the copy, he'll see the words. They're here, we've said, I'm sure, you'd know: 1234567 tokens!
"""


def tiny_bpe():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=3 + 256 + 120, show_progress=False, special_tokens=["<pad>", "<s>", "</s>"],
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(TEXT.splitlines(), trainer)
    data = json.loads(tokenizer.to_str())
    (FOLDER / "tiny-bpe.json").write_text(json.dumps(data, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def string(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


# (text, score, type): 1 normal, 2 unknown, 3 control, 4 user-defined, 6 byte
SPM = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3)]
SPM += [(f"<0x{byte:02X}>", 0, 6) for byte in range(256)]                       # ids 3 to 258
SPM += [("\u2581h", -1, 1), ("el", -2, 1), ("\u2581hel", -3, 1), ("lo", -4, 1),   # 259 to 262
        ("\u2581hello", -5, 1), ("aa", -6, 1), ("aaaa", -7, 1),                  # 263 to 265
        ("\u2581\u2581", -8, 1), ("\u2581", -20, 1)]                              # 266, 267
SPM += [(letter, -21 - i, 1) for i, letter in enumerate("ehloa\u00e9\u4f60s")]       # 268 to 275
SPM += [("<tool>", 0, 4), ("<|im_end|>", 0, 3)]                                # 276, 277


def tiny_spm():
    keys = [
        ("general.architecture", 8, string("llama")),
        ("tokenizer.ggml.model", 8, string("llama")),
        ("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, len(SPM)) + b"".join(string(text) for text, _, _ in SPM)),
        ("tokenizer.ggml.scores", 9, struct.pack("<IQ", 6, len(SPM)) + b"".join(struct.pack("<f", s) for _, s, _ in SPM)),
        ("tokenizer.ggml.token_type", 9, struct.pack("<IQ", 5, len(SPM)) + b"".join(struct.pack("<i", t) for _, _, t in SPM)),
        ("tokenizer.ggml.bos_token_id", 4, struct.pack("<I", 1)),
        ("tokenizer.ggml.eos_token_id", 4, struct.pack("<I", 2)),
        ("tokenizer.ggml.unknown_token_id", 4, struct.pack("<I", 0)),
    ]
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys))
    for name, kind, value in keys:
        out += string(name) + struct.pack("<I", kind) + value
    (FOLDER / "tiny-spm.gguf").write_bytes(out)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    tiny_bpe()
    tiny_spm()
