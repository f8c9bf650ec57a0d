#!/usr/bin/env python3
"""Time to load a model and peak memory of running it, beside ONNX Runtime and OpenVINO.

usage: load_and_memory.py MODEL.onnx ... [--runs N]

Needs the Python packages numpy, onnx, onnxruntime and openvino, and the command weft (WEFT=build/bin/weft). Every engine gets
a process of its own per model, two threads, f32. Printed:
  load    seconds from the file to a program that can run, in a process that has loaded the library. Weft's with an empty
          kernel cache (load) and again (warm).
  first   seconds of the first run, where engines do what they have put off.
  peak    largest resident size of the process, and how much of it came after the library was loaded: an interpreter with
          numpy and the library on one side, a command on the other, are not to be compared.
Extents that are not fixed are 1. Not part of the build or the tests.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

THREADS = 2


def resident(what="VmHWM:"):  # getrusage would count in what the process was before
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith(what))


def onnxruntime(path, runs):
    import numpy as np
    import onnxruntime as ort

    values = dict(np.load(os.environ["FEEDS"]))
    base = resident("VmRSS:")
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    begin = time.perf_counter()
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return base, begin, lambda: session.run(None, values)


def openvino(path, runs):
    import numpy as np
    import openvino as ov

    values = dict(np.load(os.environ["FEEDS"]))
    core = ov.Core()
    base = resident("VmRSS:")
    begin = time.perf_counter()
    request = core.compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": THREADS, "INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    return base, begin, lambda: request.infer(values)


def child(engine, path, runs):
    base, begin, run = {"onnxruntime": onnxruntime, "openvino": openvino}[engine](path, runs)
    load = time.perf_counter() - begin
    begin = time.perf_counter()
    run()
    first = time.perf_counter() - begin
    for _ in range(runs):
        run()
    print(json.dumps({"load": load, "first": first, "peak": resident(), "base": base}))


def weft(path, runs):
    command = os.environ.get("WEFT") or shutil.which("weft")
    if not command:
        sys.exit("no weft: set WEFT to the command")
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(2):  # cold, warm
            out = subprocess.run([command, "bench", path, "--json", "--warmup", "0", "--iterations", str(runs)], capture_output=True,
                                 text=True, env={**os.environ, "WEFT_CACHE_DIR": cache, "OMP_NUM_THREADS": str(THREADS)})
            if out.returncode:
                sys.exit(out.stderr)
            rows.append(json.loads(out.stdout))
    return rows


def load(row):
    return row["read_s"] + row["compile_s"]


def main():
    args = sys.argv[1:]
    runs = 10
    if "--runs" in args:
        at = args.index("--runs")
        runs = int(args[at + 1])
        del args[at:at + 2]
    if os.environ.get("CHILD"):
        return child(os.environ["CHILD"], args[0], runs)
    print(f"{'model':28} {'engine':12} {'load s':>8} {'warm s':>8} {'first s':>8} {'peak MiB':>9} {'after loading the library':>26}")
    import numpy as np

    from networks_peers import feeds

    for path in args:
        name = os.path.basename(path).removesuffix(".onnx")
        cold, warm = weft(path, runs)
        print(f"{name:28} {'weft':12} {load(cold):8.3f} {load(warm):8.3f} {warm['first_run_ms'] / 1e3:8.3f} {warm['peak_rss_bytes'] / 2**20:9.0f}")
        with tempfile.NamedTemporaryFile(suffix=".npz") as file:
            np.savez(file.name, **feeds(path, {}, {}))
            for engine in ("onnxruntime", "openvino"):
                out = subprocess.run([sys.executable, __file__, path, "--runs", str(runs)], capture_output=True, text=True,
                                     env={**os.environ, "CHILD": engine, "FEEDS": file.name})
                if out.returncode:
                    print(f"{name:28} {engine:12} {out.stderr.strip().splitlines()[-1]}")
                    continue
                r = json.loads(out.stdout.splitlines()[-1])
                print(f"{'':28} {engine:12} {r['load']:8.3f} {'':8} {r['first']:8.3f} {r['peak']:9.0f} {r['peak'] - r['base']:26.0f}", flush=True)


main()
