#!/usr/bin/env python3
"""int8_peers.py: quantised networks beside ONNX Runtime, in turns in one run.

usage: WEFT=build/bin/weft int8_peers.py DIR [--threads N] [--seconds S] [--rounds R] [--before WEFT] [NAME ...]

Models are those of DIR; those of networks named here are written there first, with seeded weights: mobilenet_v2,
encoder (6 layers of 768 as DistilBERT has, 128 tokens) and, from DIR/resnet50.onnx where there is one, its quantised forms.
Each is quantised by ONNX Runtime's own tool: _u8 and _s8 static (QDQ, weights per channel), _dyn dynamic. A line a model:
least times of ONNX Runtime, of Weft, of Weft for the float model, and of another Weft for the same model (--before).
Needs numpy, onnx, onnxruntime.
"""
import argparse
import json
import os
import pathlib
import subprocess
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

SIZES = {"N": 1, "H": 224, "W": 224}


class Net:
    """A graph of float nodes as it grows."""

    def __init__(self):
        self.nodes, self.weights, self.random = [], [], np.random.default_rng(3)

    def weight(self, array):
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def normal(self, *dims, scale=1.0):
        return self.weight((self.random.standard_normal(dims) * scale).astype(np.float32))

    def op(self, name, inputs, **attrs):
        out = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(name, inputs, [out], name=f"{name}_{out}", **attrs))
        return out

    def save(self, path, x_dims, y, y_dims):
        info = helper.make_tensor_value_info
        graph = helper.make_graph(self.nodes, "net", [info("x", TensorProto.FLOAT, x_dims)],
                                  [info(y, TensorProto.FLOAT, y_dims)], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def mobilenet_v2(path):
    net = Net()

    def conv(x, before, after, kernel, stride=1, group=1, bounded=True):
        fan = before // group * kernel * kernel
        y = net.op("Conv", [x, net.normal(after, before // group, kernel, kernel, scale=(2 / fan)**.5),
                            net.normal(after, scale=.1)],
                   kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4, group=group)
        return net.op("Clip", [y, net.weight(np.float32(0)), net.weight(np.float32(6))]) if bounded else y

    x, channels = conv("x", 3, 32, 3, 2), 32
    for widening, after, repeats, first in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                            (6, 160, 3, 2), (6, 320, 1, 1)]:
        for i in range(repeats):
            stride, wide = first if i == 0 else 1, channels * widening
            y = conv(x, channels, wide, 1) if widening > 1 else x
            y = conv(conv(y, wide, wide, 3, stride, wide), wide, after, 1, bounded=False)
            x = net.op("Add", [x, y]) if stride == 1 and channels == after else y
            channels = after
    x = net.op("Flatten", [net.op("GlobalAveragePool", [conv(x, 320, 1280, 1)])])
    y = net.op("Gemm", [x, net.normal(1000, 1280, scale=.03), net.weight(np.zeros(1000, np.float32))], transB=1)
    net.save(path, [1, 3, 224, 224], y, [1, 1000])


def encoder(path, tokens=128, layers=6, width=768, heads=12):
    net = Net()

    def linear(x, before, after):
        y = net.op("MatMul", [x, net.normal(before, after, scale=before**-.5)])
        return net.op("Add", [y, net.normal(after, scale=.1)])

    def normalised(x, y):
        return net.op("LayerNormalization",
                      [net.op("Add", [x, y]), net.weight(np.ones(width, np.float32)),
                       net.weight(np.zeros(width, np.float32))], axis=-1, epsilon=1e-5)

    apart, together = net.weight(np.array([0, 0, heads, width // heads])), net.weight(np.array([0, 0, width]))
    x = "x"
    for _ in range(layers):
        q, k, v = [net.op("Transpose", [net.op("Reshape", [linear(x, width, width), apart])], perm=perm)
                   for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])]
        scores = net.op("MatMul", [net.op("Div", [q, net.weight(np.float32((width / heads)**.5))]), k])
        mixed = net.op("MatMul", [net.op("Softmax", [scores], axis=-1), v])
        mixed = net.op("Reshape", [net.op("Transpose", [mixed], perm=[0, 2, 1, 3]), together])
        x = normalised(x, linear(mixed, width, width))
        h = linear(x, width, 4 * width)
        erf = net.op("Erf", [net.op("Div", [h, net.weight(np.float32(2**.5))])])
        gelu = net.op("Mul", [h, net.op("Add", [erf, net.weight(np.float32(1))])])
        x = normalised(x, linear(net.op("Mul", [gelu, net.weight(np.float32(.5))]), 4 * width, width))
    net.save(path, [1, tokens, width], x, [1, tokens, width])


def dims_of(value):
    return [d.dim_value or SIZES.get(d.dim_param, 1) for d in value.type.tensor_type.shape.dim]


class Samples(CalibrationDataReader):
    def __init__(self, path):
        value, random = onnx.load(path).graph.input[0], np.random.default_rng(0)
        self.left = iter([{value.name: random.standard_normal(dims_of(value)).astype(np.float32)} for _ in range(2)])

    def get_next(self):
        return next(self.left, None)


def quantised(source, folder):
    """Of a float model, its forms; those that are there already stay."""
    made, ready = {}, folder / f"{source.stem}.prepared"
    for kind, activation in (("u8", QuantType.QUInt8), ("s8", QuantType.QInt8), ("dyn", None)):
        made[kind] = folder / f"{source.stem}_{kind}.onnx"
        if made[kind].exists() or (activation is None and source.stem != "encoder"):
            continue
        if activation is None:
            quantize_dynamic(source, made[kind], weight_type=QuantType.QInt8)
            continue
        if not ready.exists():
            quant_pre_process(str(source), str(ready), skip_symbolic_shape=True)
        quantize_static(ready, made[kind], Samples(source), quant_format=QuantFormat.QDQ, activation_type=activation,
                        weight_type=QuantType.QInt8, per_channel=True)
    return [f for f in made.values() if f.exists()]


def time_ort(path, threads, seconds):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    fed = {i.name: random.standard_normal([d if isinstance(d, int) else SIZES.get(d, 1) for d in i.shape]).astype(np.float32)
           for i in session.get_inputs()}
    least, begin = float("inf"), time.time()
    while time.time() - begin < seconds:
        start = time.perf_counter()
        session.run(None, fed)
        least = min(least, time.perf_counter() - start)
    return least * 1e3


def time_weft(weft, path, threads, seconds):
    names = {d.dim_param for i in onnx.load(path).graph.input for d in i.type.tensor_type.shape.dim if d.dim_param}
    binds = [a for n in sorted(names) for a in ("--bind", f"{n}={SIZES.get(n, 1)}")]
    out = subprocess.run([weft, "bench", str(path), "--random", "--threads", str(threads), "--duration", str(seconds), "--json",
                          *binds], capture_output=True, text=True, check=True).stdout
    return json.loads(out)["min_ms"]


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("folder", type=pathlib.Path)
    parse.add_argument("names", nargs="*")
    parse.add_argument("--threads", type=int, default=2)
    parse.add_argument("--seconds", type=float, default=1.5)
    parse.add_argument("--rounds", type=int, default=3)
    parse.add_argument("--before", default="")
    a = parse.parse_intermixed_args()
    weft = os.environ.get("WEFT", "build/bin/weft")
    a.folder.mkdir(parents=True, exist_ok=True)
    for name, make in (("mobilenet_v2", mobilenet_v2), ("encoder", encoder)):
        if not (a.folder / f"{name}.onnx").exists():
            make(a.folder / f"{name}.onnx")
    sources = [a.folder / f"{n}.onnx" for n in ("resnet50", "mobilenet_v2", "encoder")]
    for source in (s for s in sources if s.exists()):
        for path in quantised(source, a.folder):
            if a.names and path.stem not in a.names:
                continue
            peer = ours = floats = before = float("inf")
            for _ in range(a.rounds):
                peer = min(peer, time_ort(path, a.threads, a.seconds))
                ours = min(ours, time_weft(weft, path, a.threads, a.seconds))
                floats = min(floats, time_weft(weft, source, a.threads, a.seconds))
                if a.before:
                    before = min(before, time_weft(a.before, path, a.threads, a.seconds))
            print(f"{path.stem:18} {a.threads} threads: ONNX Runtime {peer:8.2f} ms, Weft {ours:8.2f} ({peer / ours:.2f}), its "
                  f"float32 {floats:8.2f} ({floats / ours:.2f}), before {before:8.2f} ({before / ours:.2f})", flush=True)


if __name__ == "__main__":
    main()
