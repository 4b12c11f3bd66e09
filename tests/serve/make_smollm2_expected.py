# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes smollm2_expected.json: what llama.cpp computes for SmolLM2-135M-Instruct (Q4_1), as tests/fetch-models.sh
brings it: for five prompts its 64 greedy tokens, the margin of each argmax over the second token, and logits of the same
192 tokens at each step.

    python make_smollm2_expected.py ../models/SmolLM2-135M-Instruct.Q4_1.gguf

Needs llama-cpp-python. llama.cpp rounds the activations of quantised products to Q8_1, so its logits are not exact.
"""
import json
import pathlib
import sys

import llama_cpp
import numpy as np

PROMPTS = [
    "The capital of France is",
    "Once upon a time there was a small robot that wanted to",
    "def fibonacci(n):\n    ",
    "Water boils at a temperature of 100 degrees because",
    "Tom has 3 apples. Anna gives him 4 more. He eats 2. How many apples does Tom have? Answer:",
]
STEPS = 64
SAMPLE_EVERY = 256  # of the vocabulary of 49,152: 192 tokens, and the argmax


def main(path):
    model = llama_cpp.Llama(path, n_ctx=512, n_batch=512, logits_all=False, verbose=False, n_threads=1, n_threads_batch=1, seed=0)
    vocabulary = model.n_vocab()
    result = {"model": pathlib.Path(path).name, "llama_cpp_python": llama_cpp.__version__, "vocabulary": vocabulary,
              "sample_every": SAMPLE_EVERY, "prompts": []}
    for prompt in PROMPTS:
        tokens = model.tokenize(prompt.encode(), add_bos=False, special=False)
        model.reset()
        model.eval(tokens)
        greedy, margins, top, sampled = [], [], [], []
        for _ in range(STEPS):
            logits = np.ctypeslib.as_array(model._ctx.get_logits(), shape=(vocabulary,)).astype(np.float32).copy()
            first, second = np.argsort(-logits, kind="stable")[:2]
            greedy.append(int(first))
            top.append(round(float(logits[first]), 3))
            margins.append(round(float(logits[first] - logits[second]), 4))
            sampled.append([round(float(x), 2) for x in logits[::SAMPLE_EVERY]])
            model.eval([int(first)])
        result["prompts"].append({"text": prompt, "tokens": tokens, "greedy": greedy, "margin": margins, "top": top,
                                  "logits": sampled})
    out = pathlib.Path(__file__).resolve().parent / "smollm2_expected.json"
    lines = json.dumps(result, separators=(",", ":"), ensure_ascii=False).replace("],[", "],\n[").replace("},{", "},\n{")
    out.write_text(lines + "\n")
    print(out, out.stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1])
