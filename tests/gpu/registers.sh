#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# bash tests/gpu/registers.sh   What the compiler says of every CUDA kernel: one line per source and architecture with the
# number of compiled kernels, their registers, stack frames, spills and static shared memory. Needs nvcc, no GPU.
# Exit status: 0 no decode kernel spills, 1 one does (or something did not compile), 2 no nvcc.
set -u
cd "$(dirname "$0")/../.." || exit 2
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
[ -x "$nvcc" ] || { echo "There is no nvcc here; set CUDACXX to it." >&2; exit 2; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

printf '%-24s %-6s %8s %10s %12s %14s %14s\n' source arch kernels registers "stack bytes" "spilled bytes" "shared bytes"
failed=0
for source in kernels/cuda/*.cu; do
  name=$(basename "$source" .cu)
  for arch in sm_80 sm_90; do
    if ! "$nvcc" -std=c++20 -O3 -arch="$arch" -I. -c -Xptxas -v -o "$scratch/kernel.o" "$source" 2> "$scratch/says"; then
      cat "$scratch/says" >&2
      failed=1
      continue
    fi
    awk -v name="$name" -v arch="$arch" '
      /bytes stack frame/ { if ($1 > stack) stack = $1; spilled += $5 + $9 }
      /Used [0-9]+ registers/ {
        for (i = 1; i < NF; ++i) {
          if ($i == "Used") { r = $(i + 1); ++kernels; if (least == 0 || r < least) least = r; if (r > most) most = r }
          if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/ && $i > shared) shared = $i
        }
      }
      END {
        printf "%-24s %-6s %8d %10s %12d %14d %14d\n", name, arch, kernels, least == most ? most : least "-" most, stack, spilled, shared
        exit name ~ /^attention_decode/ && spilled > 0
      }' "$scratch/says" || failed=1
  done
done
exit $failed
