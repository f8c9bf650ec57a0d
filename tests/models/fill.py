#!/usr/bin/env python3
"""fill.py OUT_DIR [NAME ..]: the models of this folder with weights, as NAME.onnx. Equal in every run."""
import gzip
import hashlib
import pathlib
import sys

import numpy as np
import onnx
from onnx import numpy_helper

FOLDER = pathlib.Path(__file__).parent
LEFT_OUT = "weft:random"
NORMALISATIONS = ("BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization")


def scales(graph):
    """Names of tensors that multiply, and of variances."""
    factors, variances = set(), set()
    for n in graph.node:
        if n.op_type in NORMALISATIONS:
            factors.add(n.input[1])
        if n.op_type == "BatchNormalization":
            variances.add(n.input[4])
        if n.op_type == "Mul":
            factors.update(n.input)
    return factors, variances


def fill(tensor, factors, variances):
    seed = int.from_bytes(hashlib.sha256(tensor.name.encode()).digest()[:8], "little")
    dims = list(tensor.dims)
    x = np.random.default_rng(seed).standard_normal(dims)
    if tensor.name in variances:
        x = 1 + 0.1 * np.abs(x)
    elif tensor.name in factors and sum(d > 1 for d in dims) <= 1:
        x = 1 + 0.05 * x
    elif len(dims) > 1:
        x /= np.sqrt(max(1, np.prod(dims[1:]) if len(dims) > 2 else dims[0]))
    else:
        x *= 0.05
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    tensor.CopyFrom(numpy_helper.from_array(x.astype(dtype), tensor.name))


def fill_graph(graph):
    factors, variances = scales(graph)
    for t in graph.initializer:
        if t.doc_string == LEFT_OUT:
            fill(t, factors, variances)
    for n in graph.node:
        for a in n.attribute:
            if a.HasField("g"):
                fill_graph(a.g)
            if a.HasField("t") and a.t.doc_string == LEFT_OUT:
                a.t.name = a.t.name or n.output[0]
                fill(a.t, factors, variances)


def names():
    return sorted(f.name.removesuffix(".onnx.gz") for f in FOLDER.glob("*.onnx.gz"))


def load(name):
    model = onnx.load_model_from_string(gzip.decompress((FOLDER / f"{name}.onnx.gz").read_bytes()))
    fill_graph(model.graph)
    return model


def main(out, wanted):
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    for name in wanted or names():
        onnx.save(load(name), f"{out}/{name}.onnx")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
