#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Installs what is missing, builds a release and opens the window. Arguments go to the program.
set -u
cd "$(dirname "$0")/.." || exit 1
. gui/install-packages.sh

ensure_packages "${KVLOUPE_BUILD_PACKAGES[@]}" || exit 1

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
[ -x build/release/gui/kvloupe ] || echo "Building KVLoupe (release); the first time takes a few minutes."
if ! build_preset release kvloupe >"$log" 2>&1; then
  cat "$log" >&2
  echo "KVLoupe could not be built; the compiler's message stands above." >&2
  exit 1
fi

program=build/release/gui/kvloupe
if [ $# -gt 0 ]; then
  trap - EXIT
  rm -f "$log"
  exec "$program" "$@"
fi
if reason=$("$program" --check-display 2>&1); then
  trap - EXIT
  rm -f "$log"
  exec "$program"
fi
results=build/release/sample-results
echo "No window can be opened here: ${reason##*$'\n'}"
echo "Running the sample scenario resources/scenarios/variants.json instead."
if "$program" run resources/scenarios/variants.json --export "$results" --pictures; then
  echo "The results are in $PWD/$results: summary.json, steps.csv, events.csv, trace.json and a picture of every view."
else
  exit 1
fi
