#!/usr/bin/env python3
"""gpu_bench.py: the backend `cuda` on one GPU, each figure beside its floor or its peer of the same run.

    python3 bench/gpu_bench.py --bin build/bin [--out DIR] [--seconds 300] [--only WORD,..] [--try-on-cpu]

Writes DIR/gpu.json (everything) and DIR/gpu.md (one table). Needs the standard library alone; PyTorch and JAX are peers
where this python3 has them. Every measurement is a process of its own with a time limit, so that a hang costs one figure.

All times are of the host's clock around one run that ends when the device has finished, medians of a steady loop; operands
and results stay on the device. The floor of what memory bounds is the driver's own copy (cuMemcpyDtoDAsync) that moves as
many bytes, timed the same way. Where steps are "not waited for", several are started before the first is waited for. PyTorch has
TF32 switched off, as Weft has. --try-on-cpu tries the whole of it without a GPU: tiny extents, no floors, figures that
mean nothing.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from gpu_peers import MEASURE_S, OPS, TRY_S, Sizes, moved_bytes

HERE = pathlib.Path(__file__).resolve()

# --- the programs that are compared -----------------------------------------------------------------------------------


def text(shape):
    return "f32[" + ", ".join(map(str, shape)) + "]"


def chain_model(z):
    return f"""weft 1
graph (%x: f32[{z.chain}] {{state = 1}}, %o: f32[{z.chain}] {{state = 1}}, %a: f32[] param = [0.7], %b: f32[] param = [-0.1]) -> (%d) {{
  %p = Mul(%x, %a)
  %q = Add(%p, %b)
  %t = Tanh(%q)
  %s = Mul(%t, %x)
  %r = Relu(%s)
  %w = weft::Assign(%o, %r)
  %d = weft::Group(%w)
}}
"""


def softmax_model(z):
    shape = text((z.rows, z.columns))
    return f"""weft 1
graph (%x: {shape} {{state = 1}}, %o: {shape} {{state = 1}}) -> (%d) {{
  %y = Softmax(%x) {{axis = -1}}
  %w = weft::Assign(%o, %y)
  %d = weft::Group(%w)
}}
"""


def layer_norm_model(z):
    shape, row = text((z.rows, z.columns)), text((z.columns,))
    return f"""weft 1
graph (%x: {shape} {{state = 1}}, %s: {row} {{state = 1}}, %b: {row} {{state = 1}}, %o: {shape} {{state = 1}}) -> (%d) {{
  %y, %m, %i = LayerNormalization(%x, %s, %b) {{axis = -1}}
  %w = weft::Assign(%o, %y)
  %d = weft::Group(%w)
}}
"""


def statistics_model(z):
    c = z.images[1]
    return f"""weft 1
graph (%x: {text(z.images)} {{state = 1}}, %u: f32[1, {c}, 1, 1] {{state = 1}}, %v: f32[1, {c}, 1, 1] {{state = 1}}, %axes: i64[3] param = [0, 2, 3]) -> (%d) {{
  %m, %q = weft::Moments(%x, %axes)
  %a = weft::Assign(%u, %m)
  %b = weft::Assign(%v, %q)
  %d = weft::Group(%a, %b)
}}
"""


def adam_model(z):
    """p, m, v and g of every parameter stay on the device; the rule is torch's, with the bias corrections in `rate`."""
    inputs, body, done = [], [], []
    for name, value in (("b1", 0.9), ("c1", 0.1), ("b2", 0.999), ("c2", 0.001), ("eps", 1e-8), ("rate", 1e-3)):
        inputs.append(f"%{name}: f32[] param = [{value!r}]")
    for i, shape in enumerate(z.adam()):
        inputs += [f"%{k}{i}: {text(shape)} {{state = 1}}" for k in "pmvg"]
        body.append(f"""  %ma{i} = Mul(%m{i}, %b1)
  %mb{i} = Mul(%g{i}, %c1)
  %mc{i} = Add(%ma{i}, %mb{i})
  %va{i} = Mul(%v{i}, %b2)
  %gg{i} = Mul(%g{i}, %g{i})
  %vb{i} = Mul(%gg{i}, %c2)
  %vd{i} = Add(%va{i}, %vb{i})
  %vc{i} = Abs(%vd{i})
  %sq{i} = Sqrt(%vc{i})
  %de{i} = Add(%sq{i}, %eps)
  %rm{i} = Mul(%mc{i}, %rate)
  %up{i} = Div(%rm{i}, %de{i})
  %pc{i} = Sub(%p{i}, %up{i})
  %x{i} = weft::Assign(%m{i}, %mc{i})
  %y{i} = weft::Assign(%v{i}, %vc{i})
  %z{i} = weft::Assign(%p{i}, %pc{i})""")
        done += [f"%{k}{i}" for k in "xyz"]
    return "weft 1\ngraph (" + ", ".join(inputs) + ") -> (%d) {\n" + "\n".join(body) + \
        f"\n  %d = weft::Group({', '.join(done)})\n}}\n"


MODELS = {"chain": chain_model, "softmax": softmax_model, "layer_norm": layer_norm_model,
          "statistics": statistics_model, "adam": adam_model}

# --- the run --------------------------------------------------------------------------------------------------------------


class Run:
    def __init__(self, args):
        self.args, self.sizes = args, Sizes(args.try_on_cpu)
        self.end = time.monotonic() + args.seconds
        self.seconds = TRY_S if args.try_on_cpu else MEASURE_S  # of each loop
        self.log, self.work = [], pathlib.Path(tempfile.mkdtemp(prefix="weft-gpu."))

    def part(self, name, command, limit):
        """The last line of stdout as JSON; None, and why in the log, where it fails or takes too long."""
        words = self.args.only.split(",") if self.args.only else []
        if words and not any(w in name for w in words):
            return None
        left = self.end - time.monotonic()
        entry = {"part": name, "limit_s": round(min(limit, left), 1)}
        self.log.append(entry)
        if left < 3:
            entry["error"] = "no time left"
            return None
        print(f"gpu_bench: {name}", file=sys.stderr, flush=True)
        begin = time.monotonic()
        try:
            done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=min(limit, left), check=False)
            out = done.stdout.decode("utf-8", "replace").strip()
            if done.returncode == 0:
                return json.loads(out if out.startswith("{") else out.splitlines()[-1])
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
            told = [line for line in lines if line.startswith("error")] or lines[-1:]
            entry["error"] = f"exit code {done.returncode}: {told[0]}"
        except subprocess.TimeoutExpired:
            entry["error"] = f"stopped after {entry['limit_s']} s"
        except (OSError, ValueError, IndexError) as e:
            entry["error"] = f"no result: {e}"
        finally:
            entry["seconds"] = round(time.monotonic() - begin, 2)
        print(f"gpu_bench: {name}: {entry['error']}", file=sys.stderr, flush=True)
        return None

    def own(self, name, limit):
        command = [sys.executable, HERE.with_name("gpu_peers.py"), name]
        return self.part(name, command + (["--try-on-cpu"] if self.args.try_on_cpu else []), limit)

    def weft(self, name):
        model = self.work / f"{name}.weft"
        model.write_text(MODELS[name](self.sizes), encoding="utf-8")
        backend = "cpu" if self.args.try_on_cpu else "cuda"
        return self.part(f"weft-{name}", [self.args.bin / "weft", "bench", model, "--backend", backend, "--json",
                                          "--duration", self.seconds], 60)

    def tinyflow(self, program, limit, *options):
        device = "cpu" if self.args.try_on_cpu else "cuda"
        name = f"tinyflow-{program}" + ("-plain" if "--no-fusion" in options else "")
        return self.part(name, [self.args.bin / "tinyflow", "bench", program, "--device", device, "--resident", "--json",
                                "--seconds", 2 * self.seconds, *options], limit)

    def measure(self):
        z, found = self.sizes, {}
        found["doctor"] = self.part("doctor", [self.args.bin / "weft", "doctor", "--json"], 30)
        if not z.tiny:
            found["copy"] = self.own("copy", 40)
        for name in OPS:
            found[name] = self.weft(name)
        lenet = ["--batch", z.lenet_batch]
        resnet = ["--batch", z.resnet_batch, "--dtype", "float32" if z.tiny else "bfloat16", *z.resnet]
        found["lenet"] = self.tinyflow("lenet", 40, *lenet)
        found["lenet_plain"] = self.tinyflow("lenet", 40, *lenet, "--no-fusion")
        found["resnet"] = self.tinyflow("resnet50", 90, *resnet)
        found["torch_lenet"] = self.own("torch-lenet", 70)
        found["torch_resnet"] = self.own("torch-resnet", 150)
        found["torch_ops"] = self.own("torch-ops", 80)
        found["resnet_plain"] = self.tinyflow("resnet50", 60, *resnet, "--no-fusion")
        found["jax_ops"] = self.own("jax-ops", 40)
        return found


def at(tree, *keys):
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def figures(found, z):
    """Rows: what, unit, Weft, what it stands beside and its figure, the ratio (above 1: Weft is better), what is asked."""
    rows = []

    def row(what, unit, mine, beside, other, asked, ratio=None):
        if ratio is None and mine and other:
            ratio = other / mine
        rows.append({"what": what, "unit": unit, "weft": mine, "beside": beside, "other": other, "ratio": ratio,
                     "asked": asked, "met": None if z.tiny or ratio is None or asked is None else ratio >= asked})

    names = {"chain": "element-wise chain", "softmax": "softmax", "layer_norm": "layer-norm",
             "statistics": "BatchNormalization statistics", "adam": f"Adam, {len(z.adam())} tensors"}
    floors = {"chain": 0.98, "softmax": 0.93, "layer_norm": 0.93, "statistics": 0.93, "adam": 0.90}
    against = []
    for name, what in names.items():
        mine = at(found, name, "median_ms")
        row(what, "ms", mine, "floor: device copy of as many bytes", at(found, "copy", name, "ms"), floors[name])
        rows[-1]["bytes"] = moved_bytes(name, z)
        if name == "adam":
            row(what, "ms", mine, "PyTorch, fused Adam", at(found, "torch_ops", name, "fused", "ms"), 1.1)
            launches = at(found, name, "kernels")
            row("Adam, launches", "", launches, "floor: one", 1, 1.0)
            continue
        compiled = at(found, "torch_ops", name, "compiled", "ms")
        row(what, "ms", mine, "PyTorch, torch.compile", compiled, None)
        row(what, "ms", mine, "JAX, jit", at(found, "jax_ops", name, "jit", "ms"), None)
        if name != "chain" and mine and compiled:
            against.append(compiled / mine)
    mean = math.exp(statistics.fmean(map(math.log, against))) if len(against) == 3 else None
    row("softmax, layer-norm, statistics: geometric mean", "", None, "PyTorch, torch.compile", None, 1.2, mean)

    def training_rows(what, mine, plain, peers, fusion):
        for wait, key in (("", "ms"), (", not waited for", "unwaited_ms")):
            own = at(found, mine, "unwaited_ms" if wait else "step_ms")
            for beside, path, asked in peers:
                row(what + wait, "ms", own, beside, at(found, *path, key), asked)
        row(what, "ms", at(found, mine, "step_ms"), "Weft without fusion", at(found, plain, "step_ms"), fusion)

    training_rows(f"LeNet training step, batch {z.lenet_batch}", "lenet", "lenet_plain",
                  [("PyTorch, eager", ("torch_lenet", "eager"), 6.0),
                   ("PyTorch, torch.compile (reduce-overhead)", ("torch_lenet", "reduce-overhead"), 1.3)], 1.5)
    row("LeNet, processor time to start a step", "us", at(found, "lenet", "cpu_us"), "bound", 15.0, 1.0)
    training_rows(f"ResNet-50 training step, bf16, batch {z.resnet_batch}", "resnet", "resnet_plain",
                  [("PyTorch, torch.compile, channels_last, autocast", ("torch_resnet", "compiled"), 1.1)], 1.3)
    row("ResNet-50, distinct generated kernels", "", at(found, "resnet", "distinct_kernels"), "bound", 60, 1.0)
    row("ResNet-50, compiled with an empty cache", "s", at(found, "resnet", "compile_s"), "-", None, None)
    return rows


def number(value):
    return "-" if value is None else f"{value:.4g}"


def table(found, rows, log):
    device = at(found, "doctor", "cuda device 0", "found") or "no GPU"
    lines = [f"Device: {device}. Ratios above 1: Weft is better. Times end when the device has finished.", "",
             "| what | unit | Weft | beside | its figure | ratio | asked | met |", "|---|---|---:|---|---:|---:|---:|---|"]
    for r in rows:
        met = {True: "yes", False: "no", None: "-"}[r["met"]]
        lines.append(f"| {r['what']} | {r['unit']} | {number(r['weft'])} | {r['beside']} | {number(r['other'])} | "
                     f"{number(r['ratio'])} | {number(r['asked'])} | {met} |")
    wrong = [e for e in log if "error" in e]
    if wrong:
        lines += ["", "Parts without a result:", ""] + [f"- {e['part']}: {e['error']}" for e in wrong]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bin", type=pathlib.Path, default=HERE.parent.parent / "build/bin")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--seconds", type=float, default=400, help="for all of it")
    parser.add_argument("--only", default="", help="parts whose name holds one of these words")
    parser.add_argument("--try-on-cpu", action="store_true")
    args = parser.parse_args()
    run = Run(args)
    found = run.measure()
    rows = figures(found, run.sizes)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "gpu.json").write_text(
        json.dumps({"figures": rows, "measured": found, "parts": run.log}, indent=1) + "\n", encoding="utf-8")
    (args.out / "gpu.md").write_text(table(found, rows, run.log), encoding="utf-8")
    print((args.out / "gpu.md").read_text(encoding="utf-8"))
    return 0 if any(r["weft"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
