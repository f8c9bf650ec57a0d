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
