# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes smollm2_batched.json: llama.cpp's logits for SmolLM2-135M-Instruct (Q4_1) where it rounds no activations: the
prompts and greedy tokens of smollm2_expected.json as one batch each, whose products go through BLAS in f32. Per step the
argmax, its logit and margin, and logits of the same 48 tokens as in smollm2_exact.json.

    CMAKE_ARGS="-DGGML_BLAS=ON -DGGML_BLAS_VENDOR=OpenBLAS" pip install --no-binary llama-cpp-python llama-cpp-python
    python make_smollm2_batched.py ../models/SmolLM2-135M-Instruct.Q4_1.gguf

Decoding token by token, llama.cpp rounds activations to Q8_1 (smollm2_expected.json). Weights stay in plain buffers here,
because repacked ones are not for BLAS.
"""
import json
import pathlib
import sys

import llama_cpp
import numpy as np

SAMPLE_EVERY = 1024


def main(path):
    here = pathlib.Path(__file__).resolve().parent
    library = pathlib.Path(llama_cpp.__file__).parent / "lib"
    if not list(library.glob("libggml-blas*")):
        sys.exit("This llama-cpp-python was built without BLAS; the first lines of this script say how to build it.")
    original = llama_cpp.llama_model_default_params

    def plain_buffers():
        parameters = original()
        parameters.use_extra_bufts = False
        return parameters

    llama_cpp.llama_cpp.llama_model_default_params = llama_cpp.llama_model_default_params = plain_buffers
    model = llama_cpp.Llama(path, n_ctx=512, n_batch=512, logits_all=True, verbose=False, n_threads=2, n_threads_batch=2)
    expected = json.loads((here / "smollm2_expected.json").read_text())
    result = {"model": pathlib.Path(path).name, "llama_cpp_python": llama_cpp.__version__, "sample_every": SAMPLE_EVERY,
              "argmax": [], "top": [], "margin": [], "logits": []}
    for prompt in expected["prompts"]:
        tokens = prompt["tokens"] + prompt["greedy"][:-1]  # the last one's logits nobody asks for
        model.reset()
        model.eval(tokens)
        rows = np.asarray(model.scores[len(prompt["tokens"]) - 1:len(tokens)], dtype=np.float64)
        order = np.sort(rows, axis=1)
        result["argmax"].append([int(i) for i in np.argmax(rows, axis=1)])
        result["top"].append([round(float(x), 3) for x in order[:, -1]])
        result["margin"].append([round(float(x), 4) for x in order[:, -1] - order[:, -2]])
        result["logits"].append([[round(float(x), 3) for x in row[::SAMPLE_EVERY]] for row in rows])
    out = here / "smollm2_batched.json"
    text = json.dumps(result, separators=(",", ":")).replace("],[", "],\n[").replace(',"', ',\n"')
    out.write_text(text + "\n")
    print(out, out.stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1])
