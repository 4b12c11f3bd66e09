#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# make_bundle.sh SOURCES FOLDER PLUGIN PROGRAM…
# Copies the programs, the plugin, the fixtures and the shared libraries that they need into FOLDER, and refuses what a bare
# machine cannot run or nobody wants to carry: Qt, a missing library, more than 48 MiB. Left out: glibc (a newer one on the
# target is compatible, an older one is not), the driver and cuBLAS, which the target has.
set -euo pipefail
sources=$1 folder=$2 plugin=$3
shift 3

rm -rf "$folder"
mkdir -p "$folder/lib" "$folder/fixtures"
cp "$sources/tests/gpu/run.sh" "$sources/tests/gpu/compare_torch.py" "$sources/LICENSE" "$folder/"
cp -r "$sources/tests/fixtures/." "$folder/fixtures/"
for file in "$@" "$plugin"; do
  cp "$file" "$folder/"
  strip --strip-unneeded "$folder/$(basename "$file")"
done

left_out='^(linux-vdso|ld-linux|libc|libm|libdl|libpthread|librt|libcuda|libcublas|libcublasLt)[.-]'
for file in "$@" "$plugin"; do
  ldd "$file" | while read -r name arrow path _; do
    base=$(basename "$name")
    [[ $base =~ $left_out ]] && continue
    if [[ $base == libQt* ]]; then
      echo "$(basename "$file") needs $base: configure with -DKVLOUPE_GUI=OFF" >&2
      exit 1
    fi
    if [[ $arrow != "=>" || $path == not ]]; then
      echo "$(basename "$file") needs $base, which was not found" >&2
      exit 1
    fi
    cp -nL "$path" "$folder/lib/"
  done
done
readelf -d "$folder/$(basename "$plugin")" | sed -n 's/.*NEEDED.*\[\(libcublas\.so\.[0-9]*\)\]/\1/p' > "$folder/cublas-name"

size=$(du -sb "$folder" | cut -f1)
limit=$((48 * 1024 * 1024))
echo "The bundle $folder has $((size / 1024)) KiB."
if [ "$size" -gt "$limit" ]; then
  echo "That is more than 48 MiB." >&2
  exit 1
fi
