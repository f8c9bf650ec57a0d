#!/usr/bin/env python3
"""data_ops.py: operators that choose, order and move elements by what the data are, beside ONNX Runtime: random operands of
sizes that take every way of the CPU's library (few and many of many, lines and columns, one thread and two), ties included, and
empty ones. Results must be equal to the last bit. What ONNX Runtime leaves open (NaN in an order, what is not sorted) is tested
against the interpreter (src/backends/cpu/select/select_test.cc).

Needs numpy, onnx, onnxruntime and the command weft (WEFT=build/bin/weft). Prints a line for each case that is wrong, and the
count."""
import pathlib
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper

import peer

CASES = []  # (name, op, operands, attributes, outputs, attributes of comparison)
RANDOM = np.random.default_rng(7)


def values(dtype, *dims, span=9):
    if dtype == "bool":
        return RANDOM.random(dims) < 0.4
    if dtype[0] == "f":
        return (RANDOM.integers(-span, span, dims) / 4).astype(dtype)
    return RANDOM.integers(0 if dtype[0] == "u" else -min(span, 100), min(span, 100), dims).astype(dtype)


def at(extent, *dims):
    return RANDOM.integers(-extent, extent, dims)


def check(op, *operands, outputs=1, tolerance=0, **attrs):
    CASES.append((op, operands, attrs, outputs, tolerance))


def declare():
    for t, dims in (("f4", (3, 70)), ("bool", (5, 63, 2)), ("i8", (1000,)), ("i4", (400, 700)), ("u1", (0, 3)), ("f4", (1,))):
        check("NonZero", values(t, *dims))
    for t, dims, axis in (("f4", (30, 70), 0), ("f8", (30, 70), 1), ("i4", (3, 50, 4), 1), ("bool", (100000,), 0), ("f4", (3000, 100), 0), ("i8", (5, 0), 0)):
        check("Compress", values(t, *dims), RANDOM.random(dims[axis]) < 0.3, axis=axis)
    check("Compress", values("f4", 30, 70), RANDOM.random(2000) < 0.3)
    for t, dims, span, attrs in (("f4", (200,), 9, {}), ("i8", (5000,), 1 << 40, {}), ("i8", (80000,), 1 << 40, {}), ("f4", (300,), 20, {"sorted": 0}),
                                 ("i1", (1000,), 100, {}), ("f4", (200, 3), 2, {"axis": 0}), ("i8", (3, 90), 2, {"axis": 1}), ("f8", (60, 2, 2), 2, {"axis": 0, "sorted": 0})):
        check("Unique", RANDOM.integers(-span, span, dims).astype(t), outputs=4, **attrs)
    for t, dims, k, attrs in (("f4", (3, 90), 7, {}), ("f4", (2, 5000), 50, {}), ("f4", (2, 5000), 3000, {}), ("f4", (1, 200000), 100, {}), ("f4", (40, 19), 4, {"axis": 0}),
                              ("f4", (3, 400, 21), 5, {"axis": 1}), ("i8", (3, 900), 40, {"largest": 0}), ("i4", (30, 100), 100, {}), ("f8", (3, 900), 1, {"largest": 0}),
                              ("f4", (4, 5), 0, {})):
        check("TopK", values(t, *dims), np.array([k]), outputs=2, **attrs)
    for batch, classes, n, most, floor in ((1, 1, 50, 10, None), (2, 3, 300, 20, 0.3), (1, 20, 2000, 50, 0.5), (1, 1, 3000, 2000, None)):
        corner = RANDOM.random((batch, n, 2)) * 20
        boxes = np.concatenate([corner, corner + RANDOM.random((batch, n, 2)) * 4 + 1], -1).astype("f4")
        scores = RANDOM.permutation(batch * classes * n).reshape(batch, classes, n).astype("f4") / (batch * classes * n)
        for center in (0, 1):
            check("NonMaxSuppression", boxes, scores, np.array([most]), np.array([0.4], "f4"), None if floor is None else np.array([floor], "f4"), center_point_box=center)
    for t, dims, where, axis in (("f4", (50, 7), (20,), 0), ("i8", (5, 900), (3, 300), 1), ("bool", (9, 40, 3), (1000,), 1), ("f2", (2000, 128), (900,), 0), ("f4", (200000,), (150000,), 0)):
        check("Gather", values(t, *dims), at(dims[axis], *where), axis=axis)
    for t, dims, where, axis in (("f4", (50, 7), (20, 7), 0), ("i8", (5, 900), (5, 1200), 1), ("bool", (9, 40, 3), (9, 70, 3), 1), ("f4", (300, 500), (300, 500), 1), ("i4", (300, 500), (200, 500), 0)):
        check("GatherElements", values(t, *dims), at(dims[axis], *where), axis=axis)
        for reduction in ("none", "add", "mul", "max", "min"):
            small = [min(a, b) for a, b in zip(dims, where)]
            if reduction == "none":  # of equal indices, any may stay
                index = np.argsort(RANDOM.random(dims), axis)[tuple(slice(0, d) for d in small)] % dims[axis]
            else:
                index = at(dims[axis], *small)
            if t == "bool" and reduction != "none":
                continue
            check("ScatterElements", values(t, *dims), index, values(t, *small, span=2), axis=axis, reduction=reduction, tolerance=1e-5)
    for t, dims, count, depth in (("f4", (50, 7), 30, 2), ("i8", (40, 100), 60, 1), ("f4", (300, 128), 1000, 1), ("i4", (90, 90), 9000, 2)):
        index = np.stack([at(dims[j], count) for j in range(depth)], -1)
        check("GatherND", values(t, *dims), index)
        for reduction in ("add", "mul", "max", "min"):
            check("ScatterND", values(t, *dims), index, values(t, count, *dims[depth:], span=2), reduction=reduction, tolerance=1e-5)
    for axis in (-1, 0, 1):
        check("OneHot", at(12, 30, 5), np.array(12), np.array([2, 5], "f4"), axis=axis)
    for t, dims, axis in (("f4", (20, 300), 0), ("f8", (20, 300), 1), ("i4", (3, 70, 90), 1), ("i8", (9, 4), 1)):
        for attrs in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
            check("CumSum", values(t, *dims), np.array(axis), tolerance=1e-5, **attrs)
    for t, dims, axis in (("f4", (20, 300), 0), ("f4", (20, 300), 1), ("i4", (3, 70, 90), 1), ("f8", (2, 4000), 1)):
        for op in ("ArgMax", "ArgMin"):
            for last in (0, 1):
                check(op, values(t, *dims), axis=axis, select_last_index=last)


def main():
    declare()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "case.onnx")
        for op, operands, attrs, outputs, tolerance in CASES:
            names = [f"x{i}" if x is not None else "" for i, x in enumerate(operands)]
            feeds = {n: x for n, x in zip(names, operands) if n}
            node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], **attrs)
            graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in feeds.items()],
                                      [onnx.ValueInfoProto(name=o) for o in node.output])
            onnx.save(onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)), path)
            try:
                what = peer.differs(path, feeds, tolerance)
            except Exception as e:
                what = f"ONNX Runtime: {str(e)[:200]}"
            if what:
                wrong += 1
                print(f"{op}({', '.join(f'{x.dtype}{list(x.shape)}' for x in feeds.values())}) {attrs}: {what}", flush=True)
    print(f"{len(CASES)} cases, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
