# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the seeds of the fuzz target cache into corpus/cache, from nothing but this script.

    python make_cache_corpus.py

An input is options (tests/cache/cache_walk.h, make_options), then operations; the operations here are the bytes of
SHA-256 in counter mode. Inputs that a fuzzer found (names beginning with "found-") are kept.
"""
import hashlib
import pathlib

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus" / "cache"

# Bits of the byte "rules"; with rules % 8 == 0 prefix caching is off.
CACHING, APPEND, SHORT_HASHES, BELIEVED, UNTAGGED = 1, 8, 16, 32, 64
WINDOW, SINKS, CHUNK, FULL = 0, 1, 2, 3


def options(blocks, block_size, rules, host=0, watermark=0, groups=((FULL,),)):
    out = [blocks - 2, block_size - 1, rules]
    if rules & SHORT_HASHES:
        out.append(1)  # 2 bits
    out += [host, watermark, len(groups) - 1]
    for kind, *numbers in groups:
        out.append(kind)
        out += [numbers[0] - 1] + numbers[1:] if numbers else []
    return bytes(out)


SEEDS = {
    "plain": options(12, 4, 0),
    "caching": options(20, 4, CACHING),
    "append-order": options(14, 3, CACHING | APPEND),
    "tiny-pool": options(3, 1, CACHING),
    "block-size-1": options(25, 1, CACHING, host=8),
    "short-hashes": options(16, 2, CACHING | SHORT_HASHES),
    "believed-collisions": options(16, 2, CACHING | SHORT_HASHES | BELIEVED),
    "untagged-keys": options(16, 2, CACHING | UNTAGGED),
    "swapping": options(12, 2, CACHING, host=11),
    "watermark": options(16, 2, CACHING, watermark=3),
    "window": options(12, 2, CACHING, groups=((WINDOW, 4),)),
    "window-and-sinks": options(16, 3, CACHING, host=6, groups=((SINKS, 5, 4),)),
    "chunk": options(12, 2, CACHING, groups=((CHUNK, 5),)),
    "hybrid": options(25, 2, CACHING, host=9, groups=((FULL,), (WINDOW, 6), (CHUNK, 4))),
    "hybrid-believed": options(25, 2, CACHING | SHORT_HASHES | BELIEVED, groups=((FULL,), (SINKS, 4, 2))),
}


def stream(name, size):
    out = b""
    while len(out) < size:
        out += hashlib.sha256(f"{name} {len(out)}".encode()).digest()
    return out[:size]


CORPUS.mkdir(parents=True, exist_ok=True)
for seed, head in SEEDS.items():
    (CORPUS / seed).write_bytes(head + stream(seed, 900))
