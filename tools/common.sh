# shellcheck shell=bash
# common.sh: what the scripts of this folder share. Sourced, never run.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Things that are made once and outlive a clone: the private onnx build, models from packages.
DEPS=${WEFT_DEPS_DIR:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/weft/deps}
VENV=$DEPS/venv

say() { printf '== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Builds wait for memory as much as for cores: one job per core, and per 2 GiB.
job_count() {
  local cores memory_gib
  cores=$(nproc)
  memory_gib=$(awk '/MemAvailable/ {print int($2 / 2097152)}' /proc/meminfo)
  if [ "${memory_gib:-1}" -lt 1 ]; then memory_gib=1; fi
  if [ "$cores" -lt "$memory_gib" ]; then echo "$cores"; else echo "$memory_gib"; fi
}

# install_packages [-o APT_OPTION] NAME...: Debian packages; apt is not called when dpkg has them all.
install_packages() {
  local missing=() package sudo=() options=()
  if [ "$1" = -o ]; then
    options=(-o "$2")
    shift 2
  fi
  for package in "$@"; do
    if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
      missing+=("$package")
    fi
  done
  if [ ${#missing[@]} -eq 0 ]; then return; fi
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "not root and no sudo: install these first: ${missing[*]}"
    sudo=(sudo)
  fi
  say "installing ${missing[*]}"
  local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q "${options[@]}")
  # An old package list makes the install fail; then, and only then, fetch a new one.
  if ! "${apt[@]}" install --no-install-recommends "${missing[@]}" </dev/null >/dev/null 2>&1; then
    "${apt[@]}" update </dev/null >/dev/null
    "${apt[@]}" install --no-install-recommends "${missing[@]}" </dev/null
  fi
}

# A private Python environment of Debian's python3; nothing is ever installed into the system's.
# Its stamp holds the pins, so a changed pin installs again and nothing else does.
ensure_venv() {
  local stamp=$VENV/.pins
  if cmp -s "$ROOT/tools/pip/build.txt" "$stamp"; then return; fi
  say "private Python environment in $VENV"
  mkdir -p "$DEPS"
  /usr/bin/python3 -m venv --clear "$VENV"
  "$VENV/bin/pip" install --quiet --no-deps --require-hashes --only-binary :all: \
    -r "$ROOT/tools/pip/build.txt" </dev/null
  cp "$ROOT/tools/pip/build.txt" "$stamp"
}

# The same for the Python package: what its extension is built with, and what its tests import.
ensure_python() {
  local place=$DEPS/python
  if cmp -s "$ROOT/tools/pip/python.txt" "$place/.pins"; then return; fi
  say "environment of the Python package in $place"
  mkdir -p "$DEPS"
  /usr/bin/python3 -m venv --clear "$place"
  "$place/bin/pip" install --quiet --no-deps --require-hashes --only-binary :all: \
    -r "$ROOT/tools/pip/python.txt" </dev/null
  cp "$ROOT/tools/pip/python.txt" "$place/.pins"
}

# The same for the engines that tests/onnxruntime asks.
ensure_peers() {
  local place=$DEPS/peers
  if cmp -s "$ROOT/tools/pip/peers.txt" "$place/.pins"; then return; fi
  say "ONNX Runtime in $place"
  mkdir -p "$DEPS"
  /usr/bin/python3 -m venv --clear "$place"
  "$place/bin/pip" install --quiet --no-deps --only-binary :all: -r "$ROOT/tools/pip/peers.txt" </dev/null
  cp "$ROOT/tools/pip/peers.txt" "$place/.pins"
}

# Is NVRTC in one of the places where Weft looks for it (src/codegen/cuda/nvrtc/cuda_library.cc)?
has_nvrtc() {
  local root
  if [ -n "${WEFT_NVRTC:-}" ]; then return 0; fi
  # Not grep -q: ldconfig would die of a closed pipe, and the pipeline with it.
  if /sbin/ldconfig -p 2>/dev/null | grep 'libnvrtc\.so' >/dev/null; then return 0; fi
  for root in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
    if [ -n "$root" ] && compgen -G "$root/lib*/libnvrtc.so*" >/dev/null; then return 0; fi
  done
  return 1
}
