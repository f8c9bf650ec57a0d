# common.sh: what the scripts beside it share. WEFT is the command, PLUGIN the library, MODEL the model.
set -euo pipefail
WEFT=$1 PLUGIN=$2 MODEL=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/mirror.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export NO_COLOR=1

fail() {
  echo "mirror: $*"
  cat out err 2>/dev/null || true
  exit 1
}
# expect CODE TEXT ARGUMENTS...: that exit code, and TEXT on stdout or stderr.
expect() {
  local code=$1 text=$2 got=0
  shift 2
  "$WEFT" --plugin "$PLUGIN" "$@" >out 2>err || got=$?
  [ "$got" -eq "$code" ] || fail "weft $* gave exit code $got, not $code"
  [ -z "$text" ] || grep -qF -- "$text" out err || fail "weft $* does not say '$text'"
}
# says_not TEXT, says TEXT TIMES: of the command before it.
says_not() { if grep -qF -- "$1" out err; then fail "it says '$1'"; fi; }
says() { [ "$(cat out err | grep -cF -- "$1")" -eq "$2" ] || fail "it says '$1' not $2 times"; }
