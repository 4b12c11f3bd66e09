# SPDX-License-Identifier: GPL-3.0-or-later
#
# Sourced by gui/start.sh and tests/run.sh: which Debian packages KVLoupe is built from, and how they get installed.

# What each is for stands in README.md, "Dependencies".
KVLOUPE_BUILD_PACKAGES=(
  g++ cmake ninja-build pkg-config
  qt6-base-dev qt6-svg-dev libqcustomplot-dev qt6-wayland
  libspdlog-dev nlohmann-json3-dev libeigen3-dev libhwy-dev libopenblas-dev libpcre2-dev nettle-dev
  libsqlite3-dev libzstd-dev
  fonts-dejavu-core fonts-wqy-microhei
)
KVLOUPE_TEST_PACKAGES=(lld xvfb xauth clang libclang-rt-14-dev unzip python3-pip)

# ensure_packages PACKAGE…: returns at once when all are there; else installs them, or says what to do and returns 1.
ensure_packages() {
  local package missing=()
  for package in "$@"; do
    if ! dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed; then
      missing+=("$package")
    fi
  done
  [ ${#missing[@]} -eq 0 ] && return 0

  local id="" version=""
  if [ -r /etc/os-release ]; then
    id=$(. /etc/os-release && printf '%s' "${ID:-}")
    version=$(. /etc/os-release && printf '%s' "${VERSION_ID:-}")
  fi
  if [ "${KVLOUPE_SKIP_INSTALL:-}" = 1 ]; then
    echo "KVLOUPE_SKIP_INSTALL=1: installing nothing and trying to build with what is here."
    return 0
  fi
  if ! command -v apt-get >/dev/null 2>&1 || [ "$id" != debian ] || { [ -n "$version" ] && [ "$version" -lt 12 ]; }; then
    cat >&2 <<MESSAGE
KVLoupe installs its build packages by itself on Debian 12 or newer only; this is '${id:-unknown} ${version}'.
Install what these Debian packages hold with your system's package manager:
  $*
On Debian 12 the command is:
  sudo apt-get install --no-install-recommends $*
Then run this script again with KVLOUPE_SKIP_INSTALL=1 to build with what is there.
MESSAGE
    return 1
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
      as_root=(sudo)
    else
      cat >&2 <<MESSAGE
KVLoupe needs packages that are not installed, and this user is neither root nor allowed to use sudo.
Ask someone who is to run:
  apt-get update && apt-get install --no-install-recommends ${missing[*]}
MESSAGE
      return 1
    fi
  fi
  echo "Installing Debian packages${as_root:+ (with sudo)}: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq || echo "The package lists could not be refreshed; trying with the old ones." >&2
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
      >/dev/null; then
    echo "apt-get could not install: ${missing[*]}. Its message stands above; mend that and start again." >&2
    return 1
  fi
}

# build_preset PRESET [TARGET…]: configures where needed and builds; silent when nothing changed.
build_preset() {
  local preset=$1
  shift
  local targets=()
  [ $# -gt 0 ] && targets=(--target "$@")
  if [ ! -f "build/$preset/build.ninja" ]; then
    cmake --preset "$preset" >"/dev/null" || return 1
  fi
  cmake --build --preset "$preset" "${targets[@]}"
}
