#!/usr/bin/env python3
"""quantised.py: networks that `weft quantise` wrote, through ONNX Runtime (as they are, and with its own integer kernels) and
through weft: all near the floats, and near each other. ONNX's checker takes each file."""
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import peer

LEAST_DB = 25  # of results by those in floats: 8 bits of evenly spread numbers give about 40 a layer


def network(seed, depthwise):
    """Convolutions with a residual sum, pooling, Relu and Clip; a classifier with a bias behind its matmul."""
    r = np.random.default_rng(seed)
    weights, nodes = [], []

    def weight(name, *dims):
        fan = max(1, int(np.prod(dims[1:])) if len(dims) > 2 else dims[0])
        weights.append(numpy_helper.from_array((r.standard_normal(dims) / np.sqrt(fan)).astype("f4"), name))
        return name

    def node(op, inputs, out, **attributes):
        nodes.append(helper.make_node(op, inputs, [out], name=out, **attributes))
        return out

    c = 8
    a = node("Relu", [node("Conv", ["x", weight("w0", c, 3, 3, 3), weight("b0", c)], "c0", pads=[1] * 4)], "a")
    group = c if depthwise else 1
    b = node("Conv", [a, weight("w1", c, c // group, 3, 3), weight("b1", c)], "c1", pads=[1] * 4, group=group)
    weights.append(numpy_helper.from_array(np.float32(0), "least"))
    weights.append(numpy_helper.from_array(np.float32(6), "most"))
    b = node("Clip", [b, "least", "most"], "clip")
    s = node("Relu", [node("Add", [node("Conv", [b, weight("w2", c, c, 1, 1)], "c2"), a], "sum")], "s")
    p = node("MaxPool", [s], "p", kernel_shape=[2, 2], strides=[2, 2])
    f = node("Flatten", [p], "f")
    y = node("MatMul", [f, weight("v", c * 16, 10)], "m")
    node("Add", [y, weight("vb", 10)], "y")
    graph = helper.make_graph(nodes, "network", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def decibels(want, got):
    noise = np.sum((np.float64(want) - got) ** 2)
    return 10 * np.log10(np.sum(np.float64(want) ** 2) / noise) if noise else np.inf


def main():
    wrong = total = 0
    forms = [["--method", m, "--activations", t, *more] for m, t in itertools.product(("minmax", "mse"), ("u8", "s8"))
             for more in ([], ["--per-tensor", "--symmetric"], ["--bias-correction"])]
    for number, form in enumerate(forms):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            (folder / "data").mkdir()
            x = np.random.default_rng(100 + number).standard_normal((64, 3, 8, 8)).astype("f4")
            np.save(folder / "data/x.npy", x)
            source, made = folder / "m.onnx", folder / "q.onnx"
            onnx.save(network(number, number % 2 == 1), source)
            done = subprocess.run([peer.WEFT, "quantise", source, "--data", folder / "data", "--rows", "16", "-o", made, "--json",
                                   *form], capture_output=True, text=True)
            total += 1
            if done.returncode:
                wrong += 1
                print(form, "WRONG:", done.stderr.strip(), flush=True)
                continue
            report = json.loads(done.stdout)
            onnx.checker.check_model(onnx.load(made), full_check=True)
            want = peer.session(source).run(None, {"x": x})[0]
            plain = peer.session(made).run(None, {"x": x})[0]
            integer = peer.session(made, ort.GraphOptimizationLevel.ORT_ENABLE_ALL).run(None, {"x": x})[0]
            ours = peer.run_weft(made, {"x": x})
            ours = ours["y"] if isinstance(ours, dict) else ours
            problems = []
            if isinstance(ours, str):
                problems.append(ours)
            else:
                # ONNX Runtime without VNNI adds pairs of u8 * s8 in i16, which saturates: compared as a whole.
                for name, got in (("ONNX Runtime, as it is", plain), ("ONNX Runtime", integer), ("weft", ours)):
                    if not decibels(want, got) > LEAST_DB:
                        problems.append(f"{name}: {decibels(want, got):.1f} dB from the floats")
                if not decibels(plain, ours) > LEAST_DB + 5:
                    problems.append(f"weft is {decibels(plain, ours):.1f} dB from ONNX Runtime")
            if report["integer_calls"] != 4 or not all(layer["quantised"] for layer in report["layers"]):
                problems.append(f"{report['integer_calls']} integer calls of 4")
            if abs(report["outputs"][0]["db"] - decibels(want, ours)) > 0.5:
                problems.append(f"reported {report['outputs'][0]['db']:.1f} dB, {decibels(want, ours):.1f} dB seen")
            wrong += bool(problems)
            print(" ".join(form), f"WRONG: {'; '.join(problems)}" if problems else f"{decibels(want, ours):.1f} dB", flush=True)
    print(f"{total - wrong} of {total} right")
    return wrong > 0


sys.exit(main())
