#!/usr/bin/env bash
# gpu_check.sh: checks and times everything that runs on a GPU, on a machine that need not be the one that built it.
#
#   tools/gpu_check.sh pack [FOLDER | FILE.tar.gz]   default: build/gpu_check.tar.gz; at most 45 MiB as .tar.gz
#   gpu_check.sh run [FOLDER]                        in the bundle, or in the tree with what is built; default: gpu_check_out
#
# The bundle holds the library, both backends, the commands `weft` and `tinyflow`, the tests and benches of a GPU (which make
# their models themselves), and the shared libraries that a bare Debian or Ubuntu with glibc 2.36 or later lacks. The driver,
# NVRTC, cuBLASLt and cuDNN are found where `run` runs: where the loader looks, in CUDA_HOME, in /usr/local/cuda, or in Python's
# packages `nvidia-*`.
#
# `run` takes less than 9 minutes, each part has its own limit, and no compiler is needed. It writes gpu_check.json, and the
# table gpu_check.md with each figure beside its floor or peer. Exit codes: 0 all is well, 1 a test failed or a part did not
# end, 3 there is no GPU to run on. With WEFT_DEVICE_TEST_BACKEND=cpu in the environment, `run` tries itself without a GPU, on
# tiny extents.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PROGRAMS=(weft tinyflow cuda_device_test)
LIMIT_MIB=45
TOTAL_S=530  # of `run`

say() { printf '== %s\n' "$*"; }
die() { printf 'error: %s\n' "$2" >&2; exit "$1"; }

# --- pack ----------------------------------------------------------------------------------------------------------------

# Shared libraries that FILE needs, but for those of the build and of every system.
needed_libraries() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -Ev '/(libweft[^/]*|libc|libm|libdl|libpthread|librt|libresolv|ld-linux[^/]*)\.so[^/]*$'
}

# A program is started by a script that says where its libraries are: the machine's own C++ library, unless it has none.
write_starter() {
  cat >"$1" <<'SH'
#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
libraries=$here/lib
if ! /sbin/ldconfig -p 2>/dev/null | grep -q 'libstdc++\.so\.6 .*x86-64'; then libraries=$libraries:$here/lib/fallback; fi
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/libexec/$(basename "$0")" "$@"
SH
  chmod +x "$1"
}

pack() {
  local root build target work stage library bytes
  root=$(cd "$HERE/.." && pwd)
  build=${WEFT_BUILD_DIR:-}
  if [ -z "$build" ]; then
    "$root/tools/build" default weft_tool tinyflow_command cuda_device_test weft_cpu weft_cuda
    build=$root/build
  fi
  target=${1:-$build/gpu_check.tar.gz}
  work=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$work'" EXIT
  stage=$work/gpu_check
  mkdir -p "$stage"/{bin,bench,lib/fallback,libexec}
  cp "${BASH_SOURCE[0]}" "$stage/gpu_check.sh"
  cp "$root"/bench/gpu_{bench,peers}.py "$stage/bench/"
  for library in libweft.so.0 libweft_cpu.so libweft_cuda.so; do cp -L "$build/lib/$library" "$stage/lib/"; done
  for program in "${PROGRAMS[@]}"; do
    cp "$build/bin/$program" "$stage/libexec/"
    write_starter "$stage/bin/$program"
  done
  while read -r library; do
    case $library in
      */libstdc++.so* | */libgcc_s.so*) cp -L "$library" "$stage/lib/fallback/" ;;
      *) cp -L "$library" "$stage/lib/" ;;
    esac
  done < <(LD_LIBRARY_PATH=$build/lib needed_libraries "$stage"/lib/libweft* "$stage"/libexec/*)
  chmod u+w "$stage"/lib/*.so* "$stage"/lib/fallback/*
  strip --strip-unneeded "$stage"/lib/*.so* "$stage"/lib/fallback/* "$stage"/libexec/*
  tar -C "$work" --owner=0 --group=0 --sort=name -c gpu_check | gzip -n >"$work/gpu_check.tar.gz"
  bytes=$(stat -c %s "$work/gpu_check.tar.gz")
  if [ "$bytes" -gt $((LIMIT_MIB << 20)) ]; then
    die 1 "the bundle has $((bytes >> 20)) MiB as .tar.gz, more than $LIMIT_MIB"
  fi
  case $target in
    *.tar.gz) mv "$work/gpu_check.tar.gz" "$target" ;;
    *)
      if [ -e "$target" ]; then die 2 "$target exists"; fi
      mv "$stage" "$target"
      ;;
  esac
  say "$target: $(awk "BEGIN {printf \"%.1f\", $bytes / 1048576}") MiB as .tar.gz"
}

# --- run -----------------------------------------------------------------------------------------------------------------

# Folders of Python's packages nvidia-*, one a line.
python_folders() {
  command -v python3 >/dev/null || return 0
  python3 -c '
import glob, os, site, sys
roots = dict.fromkeys([*site.getsitepackages(), site.getusersitepackages(), *sys.path])
for root in roots:
    for folder in sorted(glob.glob(os.path.join(root, "nvidia", "*", "lib"))):
        print(folder)
' 2>/dev/null || true
}

# Versions that Weft takes, the newest first.
files_of() {
  case $1 in
    driver) echo libcuda.so.1 ;;
    NVRTC) echo libnvrtc.so.13 libnvrtc.so.12 ;;
    cuBLASLt) echo libcublasLt.so.13 libcublasLt.so.12 ;;
    cuDNN) echo libcudnn.so.9 ;;
  esac
}

# Is it where the loader, or Weft itself, looks?
in_usual_places() {
  local root file
  for file in $(files_of "$1"); do
    if /sbin/ldconfig -p 2>/dev/null | grep -qF "$file "; then return 0; fi
    for root in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
      if [ -n "$root" ] && { [ -e "$root/lib64/$file" ] || [ -e "$root/lib/$file" ]; }; then return 0; fi
    done
  done
  return 1
}

# Folders to add to LD_LIBRARY_PATH: of what is not in the usual places.
find_libraries() {
  local what folder file found=()
  for what in driver NVRTC cuBLASLt cuDNN; do
    if in_usual_places "$what"; then continue; fi
    while read -r folder; do
      for file in $(files_of "$what"); do
        if [ -e "$folder/$file" ]; then
          found+=("$folder")
          break 2
        fi
      done
    done < <(if [ "$what" = driver ]; then
      printf '%s\n' /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib64-nvidia /usr/lib/wsl/lib
    else
      python_folders
    fi)
  done
  (IFS=:; printf '%s' "${found[*]-}")
}

# part NAME LIMIT COMMAND...: one part in its time; what it prints goes to NAME.log.
part() {
  local name=$1 limit=$2 left code=0 begin=$SECONDS
  shift 2
  left=$((TOTAL_S - SECONDS))
  if [ "$left" -lt "$limit" ]; then limit=$left; fi
  if [ "$limit" -lt 5 ]; then
    say "$name: no time left"
    printf '{"part": "%s", "code": null, "error": "no time left"}\n' "$name" >>"$OUT/parts.jsonl"
    FAILED=1
    return
  fi
  say "$name (at most $limit s)"
  timeout -k 5 "$limit" "$@" >"$OUT/$name.log" 2>&1 </dev/null || code=$?
  printf '{"part": "%s", "code": %d, "seconds": %d, "limit_s": %d}\n' \
    "$name" "$code" $((SECONDS - begin)) "$limit" >>"$OUT/parts.jsonl"
  if [ "$code" -eq 0 ]; then return; fi
  FAILED=1
  case $code in
    124 | 137) say "$name: stopped after $limit s" ;;
    *) say "$name: exit code $code" ;;
  esac
  tail -n 20 "$OUT/$name.log" >&2
}

# One JSON file and one table of all parts.
report() {
  python3 - "$OUT" <<'PY'
import json, pathlib, re, sys
out = pathlib.Path(sys.argv[1])
whole = {"parts": [json.loads(line) for line in (out / "parts.jsonl").read_text().splitlines()]}
lines = ["| part | result | seconds |", "|---|---|---:|"]
for p in whole["parts"]:
    log = out / (p["part"] + ".log")
    text = log.read_text(errors="replace") if log.exists() else ""
    cases = re.search(r"test cases:\s*(\d+)\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed", text)
    p["passed"], p["failed"] = (int(cases[2]), int(cases[3])) if cases else (None, None)
    checks = re.search(r"assertions:\s*(\d+)", text)
    result = "passed" if p["code"] == 0 else p.get("error") or f"exit code {p['code']}"
    if cases:
        result += f", {cases[2]} of {cases[1]} test cases" + (f", {checks[1]} checks" if checks else "")
    for graphs in re.findall(r"\d+ random graphs, \d+ mismatches", text):
        result += ", " + graphs
    lines.append(f"| {p['part']} | {result} | {p.get('seconds', '-')} |")
figures = ""
if (out / "gpu.json").exists():
    whole.update(json.loads((out / "gpu.json").read_text()) | {"parts": whole["parts"]})
    figures = (out / "gpu.md").read_text() + "\n"
(out / "gpu_check.json").write_text(json.dumps(whole, indent=1) + "\n")
(out / "gpu_check.md").write_text(figures + "\n".join(lines) + "\n")
PY
}

run() {
  local bin code=0 programs folders sanitizer try=()
  OUT=${1:-gpu_check_out}
  FAILED=0
  if [ -d "$HERE/libexec" ]; then bin=$HERE/bin; else bin=${WEFT_BUILD_DIR:-$HERE/../build}/bin; fi
  programs=$HERE/bench/gpu_bench.py
  if [ ! -f "$programs" ]; then programs=$HERE/../bench/gpu_bench.py; fi
  if [ ! -x "$bin/weft" ]; then die 2 "$bin/weft is not there: build first, or unpack the whole bundle"; fi
  mkdir -p "$OUT"
  OUT=$(cd "$OUT" && pwd)
  rm -f "$OUT"/parts.jsonl "$OUT"/gpu*.json "$OUT"/gpu*.md
  : >"$OUT/parts.jsonl"
  export WEFT_CACHE_DIR=$OUT/cache
  folders=$(find_libraries)
  if [ -n "$folders" ]; then export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folders; fi

  say "what this machine has"
  timeout 60 "$bin/weft" doctor | tee "$OUT/doctor.txt" | grep -E '^(cpu|backend cuda|kernels cuda|cuda) ' || true
  if [ -z "${WEFT_DEVICE_TEST_BACKEND:-}" ]; then
    printf 'weft 1\ngraph (%%x: f32[1000]) -> (%%y) {\n  %%y = Tanh(%%x)\n}\n' >"$OUT/probe.weft"
    timeout 60 "$bin/weft" compare "$OUT/probe.weft" cuda ref >"$OUT/probe.txt" 2>&1 </dev/null || code=$?
    if [ "$code" -eq 3 ]; then
      cat "$OUT/probe.txt" >&2
      die 3 "there is no GPU to check here; take the bundle to a machine with an NVIDIA driver of CUDA 12 or later, and NVRTC"
    fi
    if ! timeout 60 "$bin/weft" inspect "$OUT/probe.weft" --support cuda >"$OUT/probe.txt" 2>&1 </dev/null; then
      cat "$OUT/probe.txt" >&2
      die 3 "kernels cannot be compiled here: NVRTC is missing (pip install nvidia-cuda-nvrtc brings it)"
    fi
  else
    try=(--try-on-cpu)
  fi

  export WEFT_DEVICE_TEST_SECONDS=${WEFT_DEVICE_TEST_SECONDS:-25}
  part tests 130 "$bin/cuda_device_test"
  if command -v python3 >/dev/null; then
    # What is left is kept for the sanitizers.
    part benches 320 python3 "$programs" --bin "$bin" --out "$OUT" --seconds 310 ${try[@]+"${try[@]}"}
  else
    say "benches: skipped, there is no python3"
  fi
  sanitizer=$(command -v compute-sanitizer || compgen -G '/usr/local/cuda*/bin/compute-sanitizer' | head -n 1 || true)
  if [ -n "$sanitizer" ] && [ ${#try[@]} -eq 0 ]; then
    export WEFT_DEVICE_TEST_SECONDS=8
    for tool in memcheck racecheck; do
      part "$tool" 40 "$sanitizer" --tool "$tool" --target-processes all --error-exitcode 9 --launch-timeout 30 \
        "$bin/cuda_device_test" '-tc=device: random graphs,device: variables*'
    done
  else
    say "memcheck, racecheck: skipped, compute-sanitizer is not here"
  fi
  if command -v python3 >/dev/null; then
    report
    say "$OUT/gpu_check.json, $OUT/gpu_check.md"
    cat "$OUT/gpu_check.md"
  fi
  exit "$FAILED"
}

case ${1:-} in
  pack) shift && pack "$@" ;;
  run) shift && run "$@" ;;
  *) die 2 "usage: gpu_check.sh pack [FOLDER | FILE.tar.gz] | gpu_check.sh run [FOLDER]" ;;
esac
