#!/usr/bin/env python3
"""Whole networks beside ONNX Runtime and OpenVINO, round by round, for machines that are shared with others.

usage: networks_peers.py MODEL.onnx ... [--shape INPUT=N,N.. ...] [--bind SYMBOL=N ...] [--rounds N] [--markdown]

Needs the Python packages numpy, onnx, onnxruntime and openvino, and the command weft (WEFT=build/bin/weft). Two threads, f32.
Extents that are not fixed are given by --shape to the peers and by --bind to Weft (`weft inspect` names its symbols).
In every round each engine runs for about a second, one after the other; of the medians of the rounds the least counts: load
only ever adds. `floor` is Weft's: bytes / bandwidth + operations / peak of all steps, as `weft bench --profile` prints them,
over the time. More than 1 is possible where a convolution by Winograd's algorithm does fewer operations than are counted.
Not part of the build or the tests.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import time

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np
import onnx
import onnxruntime
import openvino

SECONDS = 1.0


def feeds(path, bind, shapes):
    model = onnx.load(path, load_external_data=False)
    weights = {i.name for i in model.graph.initializer}
    rng = np.random.default_rng(0)
    types = {onnx.TensorProto.FLOAT: "float32", onnx.TensorProto.INT64: "int64", onnx.TensorProto.INT32: "int32",
             onnx.TensorProto.BOOL: "bool"}
    out = {}
    for i in model.graph.input:
        if i.name in weights:
            continue
        t = i.type.tensor_type
        shape = shapes.get(i.name) or [d.dim_value if d.HasField("dim_value") else bind.get(d.dim_param, 1) for d in t.shape.dim]
        value = rng.standard_normal(shape) if t.elem_type == onnx.TensorProto.FLOAT else rng.integers(0, 2, shape)
        out[i.name] = value.astype(types[t.elem_type])
    return out


def loop(run):
    times = []
    begin = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < SECONDS:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def ort(path, values):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 4
    options.add_session_config_entry("session.force_spinning_stop", "1")  # its idle threads would take the others' time
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_cpu_input(name, value)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return lambda: session.run_with_iobinding(binding)


def vino(path, values):
    core = openvino.Core()
    model = core.read_model(path)
    model.reshape({name: value.shape for name, value in values.items()})
    request = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 2, "INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    for name, value in values.items():
        request.set_tensor(name, openvino.Tensor(value, shared_memory=True))
    return request.infer


def weft(command, path, bind, profile=False):
    args = [command, "bench", path, "--json", "--duration", str(SECONDS), "--warmup", "200"]
    for name, value in bind.items():
        args += ["--bind", f"{name}={value}"]
    args += ["--bind-all", "1"]  # as feeds() has it
    out = subprocess.run(args + (["--profile"] if profile else []), capture_output=True, text=True)
    if out.returncode:
        raise RuntimeError(out.stderr.strip())
    return json.loads(out.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+")
    parser.add_argument("--bind", action="append", default=[])
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", action="store_true")
    a = parser.parse_args()
    command = os.environ.get("WEFT") or shutil.which("weft")
    bind = {n: int(v) for n, v in (b.split("=") for b in a.bind)}
    shapes = {n: [int(d) for d in v.split(",")] for n, v in (s.split("=") for s in a.shape)}
    row = "| {} | {} | {} | {} | {} |" if a.markdown else "{:28} {:>14} {:>14} {:>14} {:>10}"
    print(row.format("model", "best / Weft", "ORT / Weft", "OpenVINO / Weft", "floor"))
    if a.markdown:
        print("|---" * 5 + "|")
    for path in a.models:
        values = feeds(path, bind, shapes)
        peers = {"ort": ort(path, values), "openvino": vino(path, values)}
        least = {}
        for _ in range(a.rounds):
            for name, run in peers.items():
                least[name] = min(least.get(name, 1e30), loop(run))
            least["weft"] = min(least.get("weft", 1e30), weft(command, path, bind)["median_ms"])
        floor = sum(s["floor_us"] for s in weft(command, path, bind, profile=True)["profile"]) / 1e3
        mine = least["weft"]
        ratios = [f"{t / mine:.2f}" for t in (min(least["ort"], least["openvino"]), least["ort"], least["openvino"])]
        print(row.format(os.path.basename(path).removesuffix(".onnx"), *ratios, f"{floor / mine:.2f}"), flush=True)


if __name__ == "__main__":
    main()
