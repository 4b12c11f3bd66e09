#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Checks beside the tests: the fuzz targets build with clang, warnings as errors, and run briefly; the release build
# starts, runs a sample scenario and takes pictures without a display; engine and kernels build and run a test without Qt.
set -eu
cd "$(dirname "$0")/.."
. gui/install-packages.sh

echo "== clang, fuzz targets =="
build_preset fuzz fuzzers
seconds=${KVLOUPE_FUZZ_SECONDS:-5}
for target in build/fuzz/tests/fuzz/fuzz_*; do
  [ -x "$target" ] && [ -f "$target" ] || continue
  name=$(basename "$target")
  scratch=$(mktemp -d)
  echo "$name: $seconds s"
  "$target" -max_total_time="$seconds" -print_final_stats=0 -verbosity=0 -artifact_prefix="$scratch/" "$scratch" \
    "tests/fuzz/corpus/${name#fuzz_}" || { echo "$name found an input that breaks it: $scratch" >&2; exit 1; }
  rm -rf "$scratch"
done

echo "== release, without a display =="
env -u DISPLAY -u WAYLAND_DISPLAY bash gui/start.sh
for file in summary.json steps.csv events.csv trace.json pool.png; do
  [ -s "build/release/sample-results/$file" ] || { echo "build/release/sample-results/$file is missing" >&2; exit 1; }
done

echo "== without Qt =="
build_preset no-gui tst_session
build/no-gui/tests/serve/tst_session
echo "All checks passed."
