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

# ensure_environment PLACE PINS WHAT option...: a private environment of Debian's python3 with what tools/pip/PINS.txt pins;
# nothing is ever installed into the system's. Its stamp holds the pins, so a changed pin installs again and nothing else does.
ensure_environment() {
  local place=$1 pins=$ROOT/tools/pip/$2.txt
  if cmp -s "$pins" "$place/.pins"; then return; fi
  say "$3 in $place"
  mkdir -p "$DEPS"
  /usr/bin/python3 -m venv --clear "$place"
  "$place/bin/pip" install --quiet --only-binary :all: "${@:4}" -r "$pins" </dev/null
  cp "$pins" "$place/.pins"
}
ensure_venv() { ensure_environment "$VENV" build "private Python environment" --no-deps --require-hashes; }
# What the extension of the Python package is built with, and what its tests import.
ensure_python() { ensure_environment "$DEPS/python" python "environment of the Python package" --no-deps --require-hashes; }
# The engines that tests/onnxruntime asks.
ensure_peers() { ensure_environment "$DEPS/peers" peers "ONNX Runtime" --no-deps; }
# PyTorch and what tools/check_torch compares with (6 GB).
ensure_torch() { ensure_environment "$DEPS/torch" torch "PyTorch"; }

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
