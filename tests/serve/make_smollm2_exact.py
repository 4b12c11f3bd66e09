# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes smollm2_exact.json: the logits that transformers computes in f32 from the unpacked weights of SmolLM2 (Q4_1) for
the prompts and forced tokens of smollm2_expected.json: 48 tokens of the vocabulary at each step. No activation is rounded,
so it tells whose arithmetic a difference to llama.cpp comes from.

    python make_smollm2_exact.py ../models/SmolLM2-135M-Instruct.Q4_1.gguf

Needs torch, transformers 4.46, accelerate and gguf.
"""
import json
import pathlib
import sys

import torch
import transformers

SAMPLE_EVERY = 1024


def main(path):
    here = pathlib.Path(__file__).resolve().parent
    path = pathlib.Path(path)
    forced = json.loads((here / "smollm2_expected.json").read_text())
    model = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, torch_dtype=torch.float32)
    model.lm_head.weight = model.model.embed_tokens.weight  # the file has no output tensor: tied
    logits = []
    with torch.no_grad():
        for prompt in forced["prompts"]:
            tokens = prompt["tokens"] + prompt["greedy"][:-1]
            rows = model(torch.tensor([tokens])).logits[0][len(prompt["tokens"]) - 1:, ::SAMPLE_EVERY]
            logits.append([[round(x, 4) for x in row] for row in rows.tolist()])
    result = {"model": path.name, "transformers": transformers.__version__, "torch": torch.__version__,
              "sample_every": SAMPLE_EVERY, "logits": logits}
    out = here / "smollm2_exact.json"
    out.write_text(json.dumps(result, separators=(",", ":")).replace("],[", "],\n[") + "\n")
    print(out, out.stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1])
