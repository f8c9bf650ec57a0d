#!/usr/bin/env python3
"""Parts of networks given to other engines: what that takes beside both alone, and whether its costs are estimated rightly.

usage: delegates.py networks|divisions|borders|start --plugin F.so [--delegate openvino] [--rounds N] MODEL ..

A MODEL is a path, behind it @INPUT=AxB,INPUT=AxB where dimensions are not fixed: tv_resnet50.onnx@x=1x3x224x224.
networks   ONNX Runtime, OpenVINO by its own interface, Weft on `cpu`, with all given to the delegate, and with the division that
           --delegate-choice auto chose (in a run before). Rounds in turns; of the medians of the rounds the least counts.
           `auto / best whole`: the better of cpu and all, over auto; `auto / peer`: the better of ONNX Runtime and OpenVINO.
divisions  Ten divisions of each network: `weft inspect --divisions`, the error of the estimates, and how many of the pairs that
           differ by more than 5 % it puts in the right order.
borders    Each network whole and in 2, 4, 8, 16 consecutive regions of the delegate: times of the whole.
start      (of fixed dimensions) Reading and compiling by OpenVINO, and loading a .weftx that holds its engine, with the first run; both in processes of
           their own.
Needs numpy, onnx, onnxruntime, openvino (networks, start) and the command weft (WEFT=build/bin/weft). Two threads, f32. Not part
of the build or the tests. On a machine that others use, run it under `chrt -f 10`.
"""
import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

SECONDS = 0.7
DIVISIONS = [f"alternate:{n}" for n in (2, 3, 5, 6, 8, 10, 12)] + ["none", "all", "all:4"]
BORDERS = ["all"] + [f"all:{n}" for n in (2, 4, 8, 16)]


class Model:
    def __init__(self, text):
        self.path, _, shapes = text.partition("@")
        self.name = os.path.basename(self.path).removesuffix(".onnx")
        self.shapes = dict(s.split("=") for s in shapes.split(",") if s)

    def arguments(self):
        return [self.path] + [a for name, dims in self.shapes.items() for a in ("--shape", f"{name}={dims}")]


def weft(a, command, model, *options):
    out = subprocess.run([a.weft, "--plugin", a.plugin, command, *model.arguments(), "--json", *options],
                         capture_output=True, text=True)
    if out.returncode:
        raise RuntimeError(out.stderr.strip())
    return json.loads(out.stdout)


def networks(a, models):
    from networks_peers import feeds, loop, ort, vino
    print("| network | cpu / peer | all / OpenVINO | regions of auto | auto / cpu | auto / all | auto / best whole | auto / peer |")
    print("|---" * 8 + "|")
    for model in models:
        values = feeds(model.path, {}, {n: [int(d) for d in dims.split("x")] for n, dims in model.shapes.items()})
        peers = {"ort": ort(model.path, values), "openvino": vino(model.path, values)}
        own = {"cpu": [], "all": ["--delegate", a.delegate],
               "auto": ["--delegate", a.delegate, "--delegate-choice", "auto"]}
        regions = weft(a, "bench", model, *own["auto"], "--iterations", "3")["delegated"]  # chooses
        least = {}
        for _ in range(a.rounds):
            for name, run in peers.items():
                least[name] = min(least.get(name, 1e30), loop(run))
            for name, options in own.items():
                took = weft(a, "bench", model, *options, "--duration", str(SECONDS), "--warmup", "100")["median_ms"]
                least[name] = min(least.get(name, 1e30), took)
        peer, whole, auto = min(least["ort"], least["openvino"]), min(least["cpu"], least["all"]), least["auto"]
        ratios = [peer / least["cpu"], least["openvino"] / least["all"], regions, least["cpu"] / auto, least["all"] / auto,
                  whole / auto, peer / auto]
        print(f"| {model.name} | " + " | ".join(str(r) if isinstance(r, int) else f"{r:.3f}" for r in ratios) + " |", flush=True)


def timed(a, model, choices):
    return weft(a, "inspect", model, "--delegate", a.delegate, "--divisions", ",".join(choices))["divisions"]


def divisions(a, models):
    print("| network | mean error | largest error | within 15 % | pairs in order | regions, estimated / measured us |")
    print("|---" * 6 + "|")
    for model in models:
        rows = timed(a, model, DIVISIONS)
        errors = [r["estimate_us"] / r["us"] - 1 for r in rows]
        pairs = [(p, q) for p, q in itertools.combinations(rows, 2)
                 if max(p["us"], q["us"]) > 1.05 * min(p["us"], q["us"])]
        right = sum((p["us"] < q["us"]) == (p["estimate_us"] < q["estimate_us"]) for p, q in pairs)
        print(f"| {model.name} | {statistics.mean(map(abs, errors)):.1%} | {max(errors, key=abs):+.1%} "
              f"| {sum(abs(e) <= 0.15 for e in errors)} of {len(rows)} | {right} of {len(pairs)} | "
              + ", ".join(f"{r['regions']}: {r['estimate_us']:.0f} / {r['us']:.0f}" for r in rows) + " |", flush=True)


def borders(a, models):
    print(f"| network, given to {a.delegate} | whole, us | 2 | 4 | 8 | 16 regions | us a tensor that crosses, in 16 |")
    print("|---" * 7 + "|")
    for model in models:
        whole, *cut = timed(a, model, BORDERS)
        last = cut[-1]
        each = (last["us"] - whole["us"]) / max(1, last["border_tensors"] - whole["border_tensors"])
        print(f"| {model.name} | {whole['us']:.0f} | " + " | ".join(f"{c['us'] / whole['us']:.2f}" for c in cut)
              + f" | {each:.0f} |", flush=True)


OPENVINO = """
import sys, time, openvino
core = openvino.Core()
core.set_property("CPU", {"INFERENCE_NUM_THREADS": 2, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"})
start = time.perf_counter()
model = core.read_model(sys.argv[1])
model.reshape({s.split("=")[0]: [int(d) for d in s.split("=")[1].split("x")] for s in sys.argv[2:]})
compiled = core.compile_model(model, "CPU")
print(time.perf_counter() - start)
"""


def start(a, models):
    print("| network | OpenVINO reads and compiles, s | .weftx: load, s | first run, s | together / OpenVINO |")
    print("|---" * 5 + "|")
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            kept = os.path.join(folder, "kept.weftx")
            subprocess.run([a.weft, "--plugin", a.plugin, "compile", model.path, "--target", "cpu", "-o", kept,
                            "--delegate", a.delegate], check=True, capture_output=True)
            theirs, ours = [], []
            for _ in range(a.rounds):
                shapes = [f"{n}={d}" for n, d in model.shapes.items()]
                theirs.append(float(subprocess.run([sys.executable, "-c", OPENVINO, model.path, *shapes],
                                                   check=True, capture_output=True, text=True).stdout))
                out = subprocess.run([a.weft, "--plugin", a.plugin, "bench", kept, "--json", "--iterations", "3", "--warmup", "0"],
                                     check=True, capture_output=True, text=True)
                row = json.loads(out.stdout)
                ours.append((row["read_s"] + row["compile_s"], row["first_run_ms"] / 1e3))
            load, first = min(ours, key=sum)
            print(f"| {model.name} | {min(theirs):.3f} | {load:.3f} | {first:.3f} | {(load + first) / min(theirs):.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["networks", "divisions", "borders", "start"])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--delegate", default="openvino")
    parser.add_argument("--rounds", type=int, default=3)
    a = parser.parse_args()
    a.weft = os.environ.get("WEFT") or shutil.which("weft")
    {"networks": networks, "divisions": divisions, "borders": borders, "start": start}[a.what](a, [Model(m) for m in a.models])


if __name__ == "__main__":
    main()
