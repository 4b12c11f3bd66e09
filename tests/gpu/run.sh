#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# bash tests/gpu/run.sh   Tests and bench on an NVIDIA card; prints one table last. Ends within eight minutes once built.
# In the sources it builds the preset gpu-bundle where compilers and libraries are installed (bash run.sh --build does only
# that). In a bundle, which that preset makes (build/gpu-bundle/gpu-bundle), it runs what lies beside it. A bundle that lies
# in the build folder already is used as it is with bash run.sh --bundle, or where there are no build tools at all.
# Exit status: 0 all tests passed (whether figures are reached, the table says), 1 a test failed, 2 it cannot run here,
# 77 there is no usable GPU.
set -u
here=$(cd "$(dirname "$0")" && pwd)
deadline=$((SECONDS + 470))

say() { printf '== %s ==\n' "$*"; }
left() { local seconds=$((deadline - SECONDS)); [ "$seconds" -gt 5 ] && echo "$seconds" || echo 5; }

# Where the programs are: beside this script, or built from the sources.
bundle=$here
if [ ! -x "$here/tst_gpu_backend" ]; then
  root=$(cd "$here/../.." && pwd)
  bundle=$root/build/gpu-bundle/gpu-bundle
  if [ "${1:-}" = "--bundle" ]; then
    echo "The bundle that lies in $bundle is used as it is."
  elif command -v cmake >/dev/null && command -v ninja >/dev/null; then
    say "building the preset gpu-bundle"
    # What an older source made says nothing about this one: a build that fails ends here.
    if ! (cd "$root" && cmake --preset gpu-bundle && cmake --build --preset gpu-bundle); then
      echo "The preset gpu-bundle could not be built; nothing was tested. To test an older bundle: bash run.sh --bundle." >&2
      exit 2
    fi
    deadline=$((SECONDS + 470))
  elif [ "${1:-}" = "--build" ]; then
    echo "There are no build tools (cmake, ninja)." >&2
    exit 2
  elif [ -x "$bundle/tst_gpu_backend" ]; then
    echo "There are no build tools (cmake, ninja); the bundle that lies there already is used."
  fi
  if [ ! -x "$bundle/tst_gpu_backend" ]; then
    echo "There is no bundle in $bundle: take build/gpu-bundle/gpu-bundle from a machine that can build it." >&2
    exit 2
  fi
fi
[ "${1:-}" = "--build" ] && exit 0
if [ ! -e "$bundle/libkvloupe_cuda.so" ]; then
  echo "The CUDA backend was not built: no CUDA toolkit of 12.4 or newer was found." >&2
  exit 2
fi

# cuBLAS: the loader's own places, toolkits, and the one that comes with PyTorch.
blas=$(cat "$bundle/cublas-name")
python=$(command -v python3 || true)
paths=$bundle/lib
if ! ldconfig -p 2>/dev/null | grep -q "$blas"; then
  for folder in /usr/local/cuda*/lib64 /usr/local/cuda*/targets/x86_64-linux/lib \
                $([ -n "$python" ] && "$python" -c '
import glob, site, sysconfig
for root in {sysconfig.get_paths()["purelib"], *site.getsitepackages()}:
    print(*glob.glob(root + "/nvidia/*/lib"))' 2>/dev/null); do
    [ -e "$folder/$blas" ] && paths=$paths:$folder && break
  done
fi
export KVLOUPE_CUDA_PLUGIN=$bundle/libkvloupe_cuda.so KVLOUPE_FIXTURES=$bundle/fixtures
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
run() { LD_LIBRARY_PATH="$paths${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"; }

say "the device"
run "$bundle/gpu_bench" --look
status=$?
if [ $status -eq 77 ]; then
  echo "There is no usable GPU here; nothing was tested or measured."
  exit 77
elif [ $status -ne 0 ]; then
  echo "The programs do not start here (glibc too old?)." >&2
  exit 2
fi

failed=0
summary=()
for program in tst_gpu_backend tst_gpu_sessions; do
  say "$program"
  run timeout 150 "$bundle/$program" > "$results/$program.log" 2>&1
  status=$?
  grep -v '^PASS' "$results/$program.log"
  [ $status -eq 124 ] && echo "$program ran beyond its time."
  [ $status -ne 0 ] && failed=1
  totals=$(grep '^Totals' "$results/$program.log" || echo "ended with status $status")
  summary+=("$program"$'\t'"${totals#Totals: }"$'\t'"0 failed"$'\t'"$([ $status -eq 0 ] && echo holds || echo MISSED)")
done

say "gpu_bench"
seconds=$(left)
run timeout "$((seconds < 200 ? seconds : 200))" "$bundle/gpu_bench" --out "$results" || summary+=("gpu_bench"$'\t'"did not end"$'\t'"an end"$'\t'"MISSED")

if [ -n "$python" ] && [ -s "$results/figures.tsv" ] && "$python" -c 'import torch' 2>/dev/null; then
  say "PyTorch"
  timeout "$(left)" "$python" "$bundle/compare_torch.py" "$results" || echo "The comparison with PyTorch did not end in its time."
else
  summary+=("PyTorch"$'\t'"not installed here, not compared"$'\t'$'\t'"as measured")
fi

echo
{
  printf 'what\tmeasured\tasked\tverdict\n'
  cat "$results/rows.tsv" 2>/dev/null
  cat "$results/torch.tsv" 2>/dev/null
  printf '%s\n' "${summary[@]}"
} | awk -F'\t' '
  { for (i = 1; i <= 4; ++i) { cell[NR, i] = $i; if (length($i) > width[i]) width[i] = length($i) } }
  END {
    for (r = 1; r <= NR; ++r) {
      for (i = 1; i <= 4; ++i) printf "%s%-*s", (i > 1 ? " | " : ""), width[i], cell[r, i]
      printf "\n"
      if (r == 1) { for (i = 1; i <= 4; ++i) { line = sprintf("%*s", width[i], ""); gsub(/ /, "-", line); printf "%s%s", (i > 1 ? "-+-" : ""), line } printf "\n" }
    }
  }'
exit $failed
