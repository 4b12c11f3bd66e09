#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Installs what is missing, builds and runs all tests: bash tests/run.sh [PRESET…]   (default: dev asan tsan)
set -u
cd "$(dirname "$0")/.." || exit 1
. gui/install-packages.sh

ensure_packages "${KVLOUPE_BUILD_PACKAGES[@]}" "${KVLOUPE_TEST_PACKAGES[@]}" || exit 1

presets=("$@")
[ ${#presets[@]} -eq 0 ] && presets=(dev asan tsan)
failed=()
for preset in "${presets[@]}"; do
  echo "== $preset =="
  if ! build_preset "$preset"; then
    failed+=("$preset (build)")
    continue
  fi
  ctest --preset "$preset" || failed+=("$preset (tests)")
done
skipped=$(for preset in "${presets[@]}"; do
  sed -n 's/^SKIP *: *//p' "build/$preset/Testing/Temporary/LastTest.log" 2>/dev/null
done | sort -u)
[ -n "$skipped" ] && printf 'Skipped, with the reason:\n%s\n' "$skipped"
if [ ${#failed[@]} -gt 0 ]; then
  echo "Failed: ${failed[*]}" >&2
  exit 1
fi
echo "All tests passed under: ${presets[*]}"
