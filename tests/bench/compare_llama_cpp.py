#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decoding rate of one GGUF file in KVLoupe and in llama.cpp, side by side in one run.

    python3 tests/bench/compare_llama_cpp.py MODEL.gguf [--program build/release/gui/kvloupe] [--threads 2] [--rounds 5]

Needs the Python package llama-cpp-python. The two take turns, so that what else the machine does meets both; each round
gives the median time of a decode step, the best round of each is kept. Same prompt length, same number of new tokens.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import time

import llama_cpp


def llama_round(context, prompt: int, new: int, vocabulary: int) -> float:
    """Median seconds of one decode step."""
    memory = llama_cpp.llama_get_memory(context)
    llama_cpp.llama_memory_clear(memory, True)
    times = []
    for i in range(prompt + new):  # the prompt one by one, too: only decoding is compared
        one = (ctypes.c_int32 * 1)(3 + (i * 7919 + 11) % (vocabulary - 4))
        begin = time.perf_counter()
        if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(one, 1)) != 0:
            raise RuntimeError("llama.cpp could not decode")
        llama_cpp.llama_get_logits(context)  # waits
        times.append(time.perf_counter() - begin)
    return statistics.median(times[prompt:])


def kvloupe_round(program: str, model: str, threads: int, prompt: int, new: int) -> dict:
    words = [program, "bench", model, "--json", "--threads", str(threads), "--prompt", str(prompt), "--new", str(new)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--program", default="build/release/gui/kvloupe")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--new", type=int, default=64)
    options = parser.parse_args()

    llama_cpp.llama_backend_init()
    silent = llama_cpp.llama_log_callback(lambda *_: None)  # lives as long as llama.cpp may call it
    llama_cpp.llama_log_set(silent, None)
    model = llama_cpp.llama_model_load_from_file(options.model.encode(), llama_cpp.llama_model_default_params())
    if not model:
        raise SystemExit(f"llama.cpp cannot load {options.model}")
    vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = 1024
    parameters.n_threads = options.threads
    parameters.n_threads_batch = options.threads
    context = llama_cpp.llama_init_from_model(model, parameters)

    theirs, ours, share = [], [], []
    for _ in range(options.rounds):
        theirs.append(1 / llama_round(context, options.prompt, options.new, vocabulary))
        figures = kvloupe_round(options.program, options.model, options.threads, options.prompt, options.new)
        ours.append(figures["decode"]["tokens_per_s"])
        share.append(figures["decode"]["share_of_read_bandwidth"])
    print(f"llama.cpp {llama_cpp.__version__}: {max(theirs):.1f} tokens/s (rounds: {', '.join(f'{x:.1f}' for x in theirs)})")
    print(f"KVLoupe: {max(ours):.1f} tokens/s (rounds: {', '.join(f'{x:.1f}' for x in ours)}), "
          f"{100 * max(share):.0f} % of the read bandwidth")
    print(f"ratio KVLoupe / llama.cpp: {max(ours) / max(theirs):.2f}")


if __name__ == "__main__":
    main()
