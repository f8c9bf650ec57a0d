#!/usr/bin/env python3
"""gpu_bench.py: the backend `cuda` on one GPU, each figure beside its floor or its peer of the same run.

    python3 bench/gpu_bench.py --bin build/bin [--out DIR] [--seconds 300] [--only WORD,..] [--try-on-cpu]

Writes DIR/gpu.json (everything) and DIR/gpu.md (one table). Needs the standard library alone; PyTorch and JAX are peers
where this python3 has them. Every measurement is a process of its own with a time limit, so that a failure costs one figure.

All times are of the host's clock around one run that ends when the device has finished, medians of a steady loop behind a
warm-up; operands and results stay on the device and are larger than its caches. The floor of what memory bounds is the
driver's own copy (cuMemcpyDtoDAsync) that moves as many bytes, timed the same way before and after all else: the faster one
counts. Where steps are "not waited for", several are started before the first is waited for. PyTorch and JAX have TF32
switched off, as Weft has. --try-on-cpu tries the whole of it without a GPU: tiny extents, no copies, figures that mean
nothing. Exit code 1: something of Weft failed, ran on the host, lost its recordings, gave no loss or another than the CPU, or
left a library unused that `weft doctor` has found. Exit code 4: all is right, but a figure is missed, or is not there though
nobody left it out.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from gpu_figures import apart, figures, loss_bound, not_on_device, table, unused_library
from gpu_models import model
from gpu_peers import MEASURE_S, OPS, TRY_S, Sizes

HERE = pathlib.Path(__file__).resolve()
PROGRAM_BATCH = 4
FAILED, SHORT = 1, 4  # exit codes


class Run:
    def __init__(self, args, work):
        self.args, self.sizes, self.work = args, Sizes(args.try_on_cpu), work
        self.end = time.monotonic() + args.seconds
        self.seconds = TRY_S if args.try_on_cpu else MEASURE_S  # of each loop
        self.device = "cpu" if args.try_on_cpu else "cuda"
        self.log, self.found = [], {}

    def finish(self, command, env, limit):
        """Return code, stdout, stderr. What a peer's compiler has started ends with it."""
        with subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=env, start_new_session=True) as process:
            try:
                out, err = process.communicate(timeout=limit)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        return process.returncode, out.decode("utf-8", "replace").strip(), err.decode("utf-8", "replace").strip()

    def wanted(self, name):
        words = self.args.only.split(",") if self.args.only else []
        return not words or any(w in name for w in words)

    def fail(self, name, error):
        """Of Weft, in a part that has ended."""
        self.log.append({"part": name, "own": True, "error": error})
        print(f"gpu_bench: {name}: {error}", file=sys.stderr, flush=True)

    def part(self, name, command, limit, env=None, own=True):
        """The last line of stdout as JSON; None, and why in the log, where it fails or takes too long."""
        if not self.wanted(name):
            return None
        limit = min(limit, self.end - time.monotonic())
        entry = {"part": name, "limit_s": round(limit, 1), "own": own}
        self.log.append(entry)
        if limit < 3:
            entry["error"] = "no time left"
            return None
        print(f"gpu_bench: {name}", file=sys.stderr, flush=True)
        begin = time.monotonic()
        try:
            code, out, err = self.finish(command, {**os.environ, **env} if env else None, limit)
            if code == 0:
                return json.loads(out if out.startswith("{") else out.splitlines()[-1])
            lines = err.splitlines() or ["no message"]
            told = [line for line in lines if line.startswith("error")] or lines[-1:]
            entry["error"] = f"exit code {code}: {told[0]}"
        except subprocess.TimeoutExpired:
            entry["error"] = f"stopped after {entry['limit_s']} s"
        except (OSError, ValueError, IndexError) as e:
            entry["error"] = f"no result: {e}"
        finally:
            entry["seconds"] = round(time.monotonic() - begin, 2)
        print(f"gpu_bench: {name}: {entry['error']}", file=sys.stderr, flush=True)
        return None

    def keep(self, key, value):
        """Every result is on disk before the next part begins."""
        self.found[key] = value
        self.write()

    def peer(self, key, name, limit):
        command = [sys.executable, HERE.with_name("gpu_peers.py"), name]
        caches = {v: str(self.work / v) for v in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
        self.keep(key, self.part(name, command + (["--try-on-cpu"] if self.args.try_on_cpu else []), limit, caches, own=False))

    def own(self, name, command, limit, **env):
        """A program of Weft; `libraries` are folders that it alone needs: peers bring their own."""
        if self.args.libraries:
            env["LD_LIBRARY_PATH"] = ":".join(filter(None, [os.environ.get("LD_LIBRARY_PATH"), self.args.libraries]))
        return self.part(name, command, limit, env)

    def weft(self, name):
        file = self.work / f"{name}.weft"
        file.write_text(model(name, self.sizes), encoding="utf-8")
        profile = ["--profile"] if name.startswith("product_") else []
        self.keep(name, self.own(f"weft-{name}", [self.args.bin / "weft", "bench", file, "--backend", self.device, "--json",
                                                  "--duration", self.seconds, *profile], 60))
        self.check_steps(f"weft-{name}", self.found[name])

    def check_steps(self, name, result):
        why = result and not_on_device(result, self.device)
        if why:
            self.fail(name, why)

    def tinyflow(self, key, program, limit, *options):
        """Compiled with an empty cache, and once more with what that one left in it, for the time and the bytes of steps."""
        command = [self.args.bin / "tinyflow", "bench", program, "--device", self.device, "--resident", "--json", *options]
        cache = str(self.work / f"cache-{key}")
        self.keep(key, self.own(f"tinyflow-{key}", command + ["--seconds", 2 * self.seconds], limit, WEFT_CACHE_DIR=cache))
        self.check_steps(f"tinyflow-{key}", self.found[key])
        if "--no-fusion" not in options:
            self.keep(key + "_again", self.own(f"tinyflow-{key}-again", command + ["--seconds", 0, "--profile"], limit,
                                               WEFT_CACHE_DIR=cache))

    def programs(self):
        """The first losses of every program, fed from the host, on both kinds of session; and the CPU's, to compare with."""
        try:
            code, out, err = self.finish([self.args.bin / "tinyflow", "--list"], None, 20)
            names = [line.split()[0] for line in out.splitlines() if code == 0 and line[:1].isalpha()]
        except (OSError, subprocess.TimeoutExpired):
            names = []
        if not names and self.wanted("program-"):
            self.fail("programs", "tinyflow names no program")
        found = {}
        for name in names:
            options = ["--batch", PROGRAM_BATCH, "--seconds", 0, "--json"]
            if name == "resnet50":
                options += ["--size", 32, "--blocks", 1, "--dtype", "bfloat16"]
            found[name] = {}
            for kind in ("cpu", "fusion", "plain"):
                command = [self.args.bin / "tinyflow", "bench", name, *options, *(["--no-fusion"] if kind == "plain" else []),
                           "--device", "cpu" if kind == "cpu" else self.device]
                part = f"program-{name}-{kind}"
                result = self.own(part, command, 30)
                found[name][kind] = result and result.get("losses")
                if result is None:  # told, or left out
                    continue
                if kind != "cpu":
                    self.check_steps(part, result)
                difference = apart(found[name][kind], found[name]["cpu"])
                if difference is None:
                    self.fail(part, f"losses {found[name][kind]} beside the CPU's {found[name]['cpu']}: not all are numbers")
                elif difference > loss_bound(name):
                    self.fail(part, f"losses {found[name][kind]} are not the CPU's {found[name]['cpu']}")
        self.keep("programs", found)

    def measure(self):
        z = self.sizes
        self.keep("doctor", self.own("doctor", [self.args.bin / "weft", "doctor", "--json"], 30))
        if not z.tiny:
            self.peer("copy", "copy", 40)
        for name in OPS[:5]:
            self.weft(name)
        lenet = ["--batch", z.lenet_batch]
        resnet = ["--batch", z.resnet_batch, "--dtype", "float32" if z.tiny else "bfloat16", *z.resnet]
        self.tinyflow("lenet", "lenet", 40, *lenet)
        self.tinyflow("lenet_plain", "lenet", 40, *lenet, "--no-fusion")
        self.tinyflow("resnet", "resnet50", 60, *resnet)
        self.tinyflow("resnet_plain", "resnet50", 60, *resnet, "--no-fusion")
        self.peer("torch_lenet", "torch-lenet", 70)
        self.peer("torch_ops", "torch-ops", 100)
        self.peer("torch_resnet", "torch-resnet", 150)
        for name in (*OPS[5:], "product_f32", "product_bf16", "lstm", "scan"):
            self.weft(name)
        self.peer("torch_loops", "torch-loops", 40)
        self.peer("jax_lenet", "jax-lenet", 40)
        self.programs()
        for library, where in () if z.tiny else unused_library(self.found):
            self.fail(where, f"{library} is installed, and was not used")
        self.peer("jax_ops", "jax-ops", 40)
        if not z.tiny:
            self.peer("copy_again", "copy", 40)

    def verdict(self):
        """The exit code."""
        if any(e["own"] and "error" in e for e in self.log):
            return FAILED
        asked = [r for r in figures(self.found, self.sizes) if r["asked"] is not None]
        missed = [r for r in asked if r["met"] is False or r["met"] is None and not self.args.only]
        late = [e for e in self.log if "error" in e]  # of peers
        return SHORT if not self.sizes.tiny and (missed or late) else 0

    def write(self):
        rows = figures(self.found, self.sizes)
        out = self.args.out
        (out / "gpu.json").write_text(
            json.dumps({"figures": rows, "measured": self.found, "bench_parts": self.log}, indent=1) + "\n", encoding="utf-8")
        (out / "gpu.md").write_text(table(self.found, rows, self.log, self.sizes.tiny), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bin", type=pathlib.Path, default=HERE.parent.parent / "build/bin")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--seconds", type=float, default=400, help="for all of it")
    parser.add_argument("--only", default="", help="parts whose name holds one of these words")
    parser.add_argument("--libraries", default="", help="folders of shared libraries for Weft's programs, as in a path")
    parser.add_argument("--try-on-cpu", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends what is under way, too
    work = pathlib.Path(tempfile.mkdtemp(prefix="weft-gpu."))
    try:
        run = Run(args, work)
        run.measure()
        run.write()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print((args.out / "gpu.md").read_text(encoding="utf-8"))
    return run.verdict()


if __name__ == "__main__":
    sys.exit(main())
