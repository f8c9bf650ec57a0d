#!/usr/bin/env bash
# gpu_check.sh: checks and times everything that runs on a GPU, on a machine that need not be the one that built it.
#
#   tools/gpu_check.sh pack [FOLDER | FILE.tar.gz]   default: build/gpu_check.tar.gz; at most 45 MiB as .tar.gz
#   gpu_check.sh run [FOLDER [OPTION...]]            in the bundle, or in the tree with what is built; default:
#                                                    gpu_check_out; the options go to the tests (-tc=PATTERN: some of them)
#
# The bundle holds the library, both backends, the commands `weft` and `tinyflow`, the tests and benches of a GPU (which make
# their models themselves), and the shared libraries that a bare Debian or Ubuntu with glibc 2.36 or later lacks. The driver,
# NVRTC, cuBLASLt and cuDNN are found where `run` runs: where the loader looks, in CUDA_HOME, in /usr/local/cuda, or in Python's
# packages `nvidia-*`.
#
# `run` takes less than 9 minutes, each part has its own limit, and no compiler is needed. It writes gpu_check.json, the table
# gpu_check.md with each figure beside its floor or peer, and gpu_check.log with all that the parts said. Exit codes: 0 all is
# well; 1 something failed, did not end, checked nothing, or was computed by the host; 3 there is no GPU to run on; 4 all is
# right, but short of what is asked: a figure is missed, a peer or a sanitizer is not there. With WEFT_DEVICE_TEST_BACKEND=cpu
# in the environment, `run` tries itself without a GPU, on tiny extents; WEFT_GPU_CHECK_ONLY=WORD,.. leaves out benches without
# these words.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PROGRAMS=(weft tinyflow cuda_device_test)
LIMIT_MIB=45
TOTAL_S=530   # of `run`
SANITIZE_S=60  # of that kept for sanitizers
SHORT_CODE=4   # right, but short of what is asked; of benches, too

say() { printf '== %s\n' "$*"; }
die() { printf 'error: %s\n' "$2" >&2; exit "$1"; }

# --- pack ----------------------------------------------------------------------------------------------------------------

# Shared libraries that FILE needs, but for those of the build and of every system.
needed_libraries() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -Ev '/(libweft[^/]*|libc|libm|libdl|libpthread|librt|libresolv|ld-linux[^/]*)\.so[^/]*$'
}

# newest WORD FILE...: the newest version of WORD (GLIBC, GLIBCXX) that the files ask for.
newest() {
  local word=$1
  shift
  objdump -T "$@" | grep -o "${word}_[0-9.]*" | sort -uV | tail -n 1
}

# A program is started by a script that says where its libraries are: the machine's own C++ library, unless that is older than
# what the bundle was built with.
write_starter() {
  cat >"$1" <<SH
#!/bin/sh
here=\$(cd "\$(dirname "\$0")/.." && pwd)
libraries=\$here/lib
own=\$(/sbin/ldconfig -p 2>/dev/null | sed -n 's/.*libstdc++\\.so\\.6 .*x86-64.* => //p' | head -n 1)
if [ -z "\$own" ] || ! grep -q '$2' "\$own"; then libraries=\$libraries:\$here/lib/fallback; fi
LD_LIBRARY_PATH=\$libraries\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec "\$here/libexec/\$(basename "\$0")" "\$@"
SH
  chmod +x "$1"
}

pack() {
  local root build target work stage file library soname glibcxx bytes
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
  cp "$root"/bench/gpu_*.py "$stage/bench/"
  soname=$(readelf -d "$build/lib/libweft.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
  for library in "$soname" libweft_cpu.so libweft_cuda.so; do cp -L "$build/lib/$library" "$stage/lib/"; done
  for program in "${PROGRAMS[@]}"; do cp "$build/bin/$program" "$stage/libexec/"; done
  # The build's own folder is no place to look in elsewhere.
  for file in "$stage"/lib/libweft* "$stage"/libexec/*; do printf 'file(RPATH_REMOVE FILE "%s")\n' "$file"; done \
    >"$work/rpath.cmake"
  if ! cmake -P "$work/rpath.cmake" >"$work/rpath.log" 2>&1; then die 1 "$(cat "$work/rpath.log")"; fi
  while read -r library; do
    case $library in
      */libstdc++.so* | */libgcc_s.so*) cp -L "$library" "$stage/lib/fallback/" ;;
      *) cp -L "$library" "$stage/lib/" ;;
    esac
  done < <(LD_LIBRARY_PATH=$build/lib needed_libraries "$stage"/lib/libweft* "$stage"/libexec/*)
  chmod u+w "$stage"/lib/*.so* "$stage"/lib/fallback/*
  strip --strip-unneeded "$stage"/lib/*.so* "$stage"/lib/fallback/* "$stage"/libexec/*
  glibcxx=$(newest GLIBCXX "$stage"/lib/*.so* "$stage"/libexec/*)
  for program in "${PROGRAMS[@]}"; do write_starter "$stage/bin/$program" "$glibcxx"; done
  tar -C "$work" --owner=0 --group=0 --sort=name -c gpu_check | gzip -n >"$work/gpu_check.tar.gz"
  bytes=$(stat -c %s "$work/gpu_check.tar.gz")
  if [ "$bytes" -gt $((LIMIT_MIB << 20)) ]; then
    die 1 "the bundle has $((bytes >> 20)) MiB as .tar.gz, more than $LIMIT_MIB"
  fi
  say "$target: $(awk "BEGIN {printf \"%.1f\", $bytes / 1048576}") MiB as .tar.gz; needs" \
    "$(newest GLIBC "$stage"/lib/*.so* "$stage"/lib/fallback/* "$stage"/libexec/*)"
  case $target in
    *.tar.gz) mv "$work/gpu_check.tar.gz" "$target" ;;
    *)
      if [ -e "$target" ]; then die 2 "$target exists"; fi
      mv "$stage" "$target"
      ;;
  esac
}

# --- run -----------------------------------------------------------------------------------------------------------------

# Versions that Weft takes; it chooses that for the driver.
files_of() {
  case $1 in
    driver) echo libcuda.so.1 ;;
    NVRTC) echo libnvrtc.so.13 libnvrtc.so.12 ;;
    cuBLASLt) echo libcublasLt.so.13 libcublasLt.so.12 ;;
    cuDNN) echo libcudnn.so.9 ;;
  esac
}

# Folders where a library may lie that the loader does not search, one a line.
folders_for() {
  local root
  if [ "$1" = driver ]; then
    printf '%s\n' /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib64-nvidia /usr/lib/wsl/lib
    return
  fi
  for root in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
    if [ -n "$root" ]; then printf '%s\n' "$root/lib64" "$root/lib"; fi
  done
  command -v python3 >/dev/null || return 0
  python3 -c '
import glob, os, site, sys
roots = dict.fromkeys([*site.getsitepackages(), site.getusersitepackages(), *sys.path])
for root in roots:
    for folder in sorted(glob.glob(os.path.join(root, "nvidia", "*", "lib"))):
        print(folder)
' 2>/dev/null || true
}

# found_folders WHAT: the first of these folders that has it, for each of its versions, one a line; nothing where the loader
# finds it, or nobody does.
found_folders() {
  local known file folder folders
  known=$(/sbin/ldconfig -p 2>/dev/null || true)
  folders=$(folders_for "$1")
  for file in $(files_of "$1"); do
    case $known in *"$file (libc6,x86-64"*) continue ;; esac
    while read -r folder; do
      if [ -n "$folder" ] && [ -e "$folder/$file" ]; then
        printf '%s\n' "$folder"
        break
      fi
    done <<<"$folders"
  done
}

# own COMMAND...: a program of Weft's, with the libraries that it alone needs; a peer brings its own.
own() {
  if [ -z "$LIBRARIES" ]; then
    "$@"
  else
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$LIBRARIES "$@"
  fi
}

# checked NAME: has this test program checked anything?
checked() { grep -Eq '^\[doctest\] assertions: +[1-9]' "$WORK/$1.log"; }

# note NAME RESULT: a part that is left out, and why.
note() {
  say "$1: $2"
  printf '{"part": "%s", "code": null, "result": "%s"}\n' "$1" "$2" >>"$WORK/parts.jsonl"
}

# part NAME LIMIT COMMAND...: one part in its time; what it prints goes to the log.
part() {
  local name=$1 limit=$2 left code=0 begin=$SECONDS
  shift 2
  left=$((TOTAL_S - SECONDS))
  if [ "$left" -lt "$limit" ]; then limit=$left; fi
  if [ "$limit" -lt 5 ]; then
    note "$name" "no time left"
    FAILED=1
    return
  fi
  say "$name (at most $limit s)"
  timeout -k 5 "$limit" "$@" >"$WORK/$name.log" 2>&1 </dev/null || code=$?
  case $name in
    tests | memcheck | racecheck)
      if [ "$code" -eq 0 ] && ! checked "$name"; then
        code=1
        echo "no check ran: is there a device, and does a test case match?" >>"$WORK/$name.log"
      fi
      ;;
  esac
  { printf '\n== %s\n' "$name" && cat "$WORK/$name.log"; } >>"$OUT/gpu_check.log"
  printf '{"part": "%s", "code": %d, "seconds": %d, "limit_s": %d}\n' \
    "$name" "$code" $((SECONDS - begin)) "$limit" >>"$WORK/parts.jsonl"
  if [ "$code" -eq 0 ]; then return; fi
  if [ "$code" -eq "$SHORT_CODE" ] && [ "$name" = benches ]; then
    SHORT=1
    say "$name: not all that is asked is met"
    return
  fi
  FAILED=1
  case $code in
    124 | 137) say "$name: stopped after $limit s" ;;
    *) say "$name: exit code $code" ;;
  esac
  tail -n 20 "$WORK/$name.log" >&2
}

# One JSON file and one table of all parts.
report() {
  python3 - "$WORK" "$OUT" <<'PY'
import json, pathlib, re, sys
work, out = map(pathlib.Path, sys.argv[1:])
parts = [json.loads(line) for line in (work / "parts.jsonl").read_text().splitlines()]
lines = ["| part | result | seconds |", "|---|---|---:|"]
for p in parts:
    log = work / (p["part"] + ".log")
    text = log.read_text(errors="replace") if log.exists() else ""
    cases = re.search(r"test cases:\s*(\d+)\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed", text)
    checks = re.search(r"assertions:\s*(\d+)", text)
    if p["code"] is not None:
        told = {0: "passed", 4: "short of what is asked", 124: "stopped", 137: "stopped"}
        p["result"] = told.get(p["code"], f"exit code {p['code']}")
    if cases:
        p["passed"], p["failed"] = int(cases[2]), int(cases[3])
        p["result"] += f", {cases[2]} of {cases[1]} test cases" + (f", {checks[1]} checks" if checks else "")
    for told in re.findall(r"\d+ random graphs[^,]*, \d+ mismatches|ERROR SUMMARY: .*|RACECHECK SUMMARY: .*", text):
        p["result"] += ", " + told
    lines.append(f"| {p['part']} | {p['result']} | {p.get('seconds', '-')} |")
whole, figures = {"parts": parts, "doctor": (work / "doctor.log").read_text(errors="replace").splitlines()}, ""
if (work / "gpu.json").exists():
    whole.update(json.loads((work / "gpu.json").read_text()))
    figures = (work / "gpu.md").read_text() + "\n"
(out / "gpu_check.json").write_text(json.dumps(whole, indent=1) + "\n")
(out / "gpu_check.md").write_text(figures + "\n".join(lines) + "\n")
PY
}

# number NAME: that field of the JSON in probe.log.
number() { sed -n "s/^ *\"$1\": *\([0-9.]*\),*$/\1/p" "$WORK/probe.log" | head -n 1; }

# Ends `run` where the host computes what the device should: kernels that do not compile are interpreted there, with the same
# results.
probe_steps() {
  local what
  if ! own timeout 60 "$BIN/weft" bench "$WORK/probe.weft" --backend "$DEVICE" --json --warmup 0 --iterations 6 \
    >"$WORK/probe.log" 2>"$WORK/probe.err" </dev/null; then
    cat "$WORK/probe.err" >&2
    die 1 "the probe cannot be timed"
  fi
  for what in kernels interpreted launches replays; do
    if [ -z "$(number "$what")" ]; then die 1 "the probe does not tell its $what"; fi
  done
  if [ "$(number kernels)" = 0 ] || [ "$(number interpreted)" != 0 ]; then
    cat "$WORK/probe.err" >&2
    die 1 "no kernel runs on the device: the host computes $(number interpreted) steps of the probe"
  fi
  if [ "$DEVICE" = cpu ]; then return; fi
  case $(number replays) in
    0 | 0.0)
      cat "$WORK/probe.err" >&2
      die 1 "the device records nothing: steps are given one by one"
      ;;
  esac
}

# Ends `run` where there is nothing to run on, with what is missing.
probe() {
  local code=0
  own timeout 60 "$BIN/weft" doctor >"$WORK/doctor.log" 2>&1 </dev/null || code=$?
  { printf '== doctor\n' && cat "$WORK/doctor.log"; } >>"$OUT/gpu_check.log"
  grep -E '^(weft|cpu|backend cuda|kernels cuda|cuda [^ ]*) ' "$WORK/doctor.log" || true
  if [ "$code" -ne 0 ]; then
    cat "$WORK/doctor.log" >&2
    die 1 "the programs do not run here (exit code $code); they need x86-64 and glibc 2.36 or later"
  fi
  printf 'weft 1\ngraph (%%x: f32[1000]) -> (%%y) {\n  %%y = Tanh(%%x)\n}\n' >"$WORK/probe.weft"
  if [ "$DEVICE" = cpu ]; then
    probe_steps
    return
  fi
  own timeout 60 "$BIN/weft" compare "$WORK/probe.weft" cuda ref >"$WORK/probe.log" 2>&1 </dev/null || code=$?
  if [ "$code" -ne 0 ]; then cat "$WORK/probe.log" >&2; fi
  case $code in
    0) ;;
    3) die 3 "there is no GPU to check here; take the bundle to a machine with NVRTC and an NVIDIA driver of CUDA 12 or later" ;;
    124 | 137) die 1 "the device does not answer" ;;
    *)
      FAILED=1
      say "probe: exit code $code"
      ;;
  esac
  if ! own timeout 60 "$BIN/weft" inspect "$WORK/probe.weft" --support cuda >"$WORK/probe.log" 2>&1 </dev/null; then
    cat "$WORK/probe.log" >&2
    die 3 "kernels cannot be compiled here: NVRTC is missing (pip install nvidia-cuda-nvrtc brings it)"
  fi
  if grep -q 'on the host' "$WORK/probe.log"; then
    cat "$WORK/probe.log" >&2
    die 1 "the probe does not run on the device"
  fi
  probe_steps
}

# Weft's own kernels alone: the libraries', of which there are thousands, would take minutes each.
sanitize() {
  local sanitizer code=0 tool
  sanitizer=$(command -v compute-sanitizer || compgen -G '/usr/local/cuda*/bin/compute-sanitizer' | head -n 1 || true)
  if [ "$DEVICE" = cpu ]; then
    note sanitizers "skipped: there is no GPU"
    return
  elif [ -z "$sanitizer" ]; then
    SHORT=1
    note sanitizers "skipped: compute-sanitizer is not here"
    return
  fi
  export WEFT_DEVICE_TEST_SECONDS=8 WEFT_CUBLASLT=/nowhere WEFT_CUDNN=/nowhere
  own timeout -k 5 30 "$sanitizer" --target-processes all --error-exitcode 9 "$BIN/weft" compare "$WORK/probe.weft" cuda ref \
    >"$WORK/sanitizers.log" 2>&1 </dev/null || code=$?
  if [ "$code" -ne 0 ] && [ "$code" -ne 9 ]; then
    { printf '\n== sanitizers\n' && cat "$WORK/sanitizers.log"; } >>"$OUT/gpu_check.log"
    SHORT=1
    note sanitizers "skipped: compute-sanitizer does not run on this machine (exit code $code)"
    return
  fi
  for tool in memcheck racecheck; do
    own part "$tool" 100 "$sanitizer" --tool "$tool" --target-processes all --error-exitcode 9 \
      "$BIN/cuda_device_test" '-tc=device: random graphs,device: variables*'
  done
}

run() {
  local programs driver what folder left try=()
  OUT=${1:-gpu_check_out}
  if [ $# -gt 0 ]; then shift; fi
  DEVICE=${WEFT_DEVICE_TEST_BACKEND:-cuda}
  FAILED=0 SHORT=0
  if [ -d "$HERE/libexec" ]; then BIN=$HERE/bin; else BIN=${WEFT_BUILD_DIR:-$HERE/../build}/bin; fi
  programs=$HERE/bench/gpu_bench.py
  if [ ! -f "$programs" ]; then programs=$HERE/../bench/gpu_bench.py; fi
  if [ ! -x "$BIN/weft" ]; then die 2 "$BIN/weft is not there: build first, or unpack the whole bundle"; fi
  mkdir -p "$OUT"
  OUT=$(cd "$OUT" && pwd)
  rm -f "$OUT"/gpu_check.{json,md,log}
  WORK=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$WORK'" EXIT
  : >"$WORK/parts.jsonl"
  export WEFT_CACHE_DIR=$WORK/cache
  driver=$(found_folders driver)
  if [ -n "$driver" ]; then export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$driver; fi
  LIBRARIES=
  for what in NVRTC cuBLASLt cuDNN; do
    while read -r folder; do
      case ":$LIBRARIES:" in *":$folder:"*) ;; *) LIBRARIES=${LIBRARIES:+$LIBRARIES:}$folder ;; esac
    done < <(found_folders "$what")
  done

  say "what this machine has"
  probe
  if [ "$DEVICE" = cpu ]; then try=(--try-on-cpu); fi
  export WEFT_DEVICE_TEST_SECONDS=${WEFT_DEVICE_TEST_SECONDS:-25}
  own part tests 170 "$BIN/cuda_device_test" "$@"
  if command -v python3 >/dev/null; then
    left=$((TOTAL_S - SANITIZE_S - SECONDS))
    part benches "$left" python3 "$programs" --bin "$BIN" --out "$WORK" --seconds $((left - 10)) \
      --libraries "$LIBRARIES" --only "${WEFT_GPU_CHECK_ONLY:-}" ${try[@]+"${try[@]}"}
  else
    SHORT=1
    note benches "skipped: there is no python3"
  fi
  sanitize
  if command -v python3 >/dev/null; then
    report
    say "$OUT/gpu_check.json, $OUT/gpu_check.md, $OUT/gpu_check.log"
    cat "$OUT/gpu_check.md"
  else
    say "$OUT/gpu_check.log"
  fi
  if [ "$FAILED" -eq 0 ] && [ "$SHORT" -ne 0 ]; then
    say "all is right, but short of what is asked"
    exit "$SHORT_CODE"
  fi
  exit "$FAILED"
}

case ${1:-} in
  pack) shift && pack "$@" ;;
  run) shift && run "$@" ;;
  *) die 2 "usage: gpu_check.sh pack [FOLDER | FILE.tar.gz] | gpu_check.sh run [FOLDER [OPTION...]]" ;;
esac
