#!/usr/bin/env python3
"""data_ops_peers.py: operators that move, choose or order elements by what the data are, Weft beside ONNX Runtime on one CPU.

    WEFT=build/bin/weft python3 bench/data_ops_peers.py [--threads 2] [--rounds 3] [--markdown FILE] [--list] [WORD ...]

Needs the Python packages numpy, onnx and onnxruntime; nothing in the build depends on it. WORDs pick the cases whose group or
name holds one of them.

Each case is a model of one node (or of the chain that its name says) on random data. Results of both engines must be equal to
the last bit, or to 1e-5 of the largest value where sums are rounded. Both run in turns, each in a steady loop inside its
process with its outputs held; the least median of the rounds counts. "ORT / Weft" above 1: Weft is faster. What takes less
than some 10 us measures what a call costs: ONNX Runtime is called from Python, which adds some 3 us.
"""
import argparse, json, os, subprocess, sys, tempfile, time

# Freed pages are kept, so that no engine pays page faults for its results.
KEEP = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "4294967296"}
if __name__ == "__main__" and "MALLOC_MMAP_THRESHOLD_" not in os.environ:
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP})

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

SECONDS = 0.1  # of each loop
SETTLE = 0.05  # until the threads of the engine before have stopped spinning
CASES = []  # (group, name, maker); a maker gives (nodes, feeds, constants, outputs)


def rng(*seed):
    return np.random.default_rng(sum(seed) + 1)


def values(dtype, *dims, span=1000):
    """Normal floats; integers of (-span, span); half of the bools."""
    r = rng(*dims)
    if dtype == "bool":
        return r.random(dims) < 0.5
    if dtype in ("f4", "f8", "f2"):
        return r.standard_normal(dims).astype(dtype)
    return r.integers(-span if dtype[0] == "i" else 0, min(span, np.iinfo(dtype).max), dims).astype(dtype)


def sparse(dtype, share, *dims):
    """`share` of the elements are not 0."""
    x = values(dtype, *dims)
    x[rng(7, *dims).random(dims) >= share] = 0
    return x


def indices(extent, *dims, dtype="i8", negative=True):
    low = -extent if negative else 0
    return rng(extent, *dims).integers(low, extent, dims).astype(dtype)


def shape_text(*arrays):
    return ", ".join(f"{a.dtype}[{'x'.join(map(str, a.shape))}]" for a in arrays)


def case(group, op, feeds, constants=(), what="", outputs=1, **attrs):
    """One node over the operands in order; `constants`: which of them the model holds. None: absent."""
    def make():
        operands = feeds()
        names = [f"x{i}" if v is not None else "" for i, v in enumerate(operands)]
        held = {names[i]: v for i, v in enumerate(operands) if i in constants and v is not None}
        fed = {names[i]: v for i, v in enumerate(operands) if i not in constants and v is not None}
        outs = [f"y{i}" for i in range(outputs)]
        return [helper.make_node(op, names, outs, **attrs)], fed, held, outs
    CASES.append((group, f"{op} {what}".strip(), make))


def chain(group, name, make):
    CASES.append((group, name, make))


def boxes(batch, count, spread=100.0, size=20.0):
    """Corners of boxes of some clusters, so that many overlap."""
    r = rng(batch, count)
    centres = r.random((batch, max(count // 20, 1), 2)) * spread * 8
    c = np.take_along_axis(centres, r.integers(0, centres.shape[1], (batch, count))[..., None], 1)
    c = c + r.standard_normal((batch, count, 2)) * size / 4
    half = (r.random((batch, count, 2)) + 0.5) * size / 2
    return np.concatenate([c - half, c + half], -1).astype("f4")


def scores(*dims):
    return (rng(*dims).random(dims) ** 4).astype("f4")


def i64(*v):
    return np.array(v, "i8")


def f32(*v):
    return np.array(v, "f4")


def declare_choosing():
    g = "NonZero"
    for t, dims, share in (("f4", (50, 100), 0.5), ("bool", (10000,), 0.1), ("f4", (1000, 1000), 0.5), ("f4", (1000, 1000), 0.01),
                           ("bool", (1000000,), 0.5), ("bool", (64, 128, 128), 0.1), ("i8", (1000, 1000), 0.1),
                           ("i4", (1000, 1000), 0.5), ("u1", (2000, 2000), 0.02)):
        case(g, "NonZero", lambda t=t, d=dims, s=share: [sparse(t, s, *d)], what=f"{t}{list(dims)} {share:.0%}")
    g = "Compress"
    for t, dims, axis in (("f4", (100, 100), None), ("f4", (1000, 1000), None), ("i8", (1000000,), 0), ("bool", (1000000,), 0),
                          ("f4", (10000, 100), 0), ("f4", (1000, 1000), 1), ("i4", (8, 1000, 64), 1), ("f4", (8400, 4), 0)):
        n = int(np.prod(dims)) if axis is None else dims[axis]
        case(g, "Compress", lambda t=t, d=dims, n=n: [values(t, *d), rng(n).random(n) < 0.3], what=f"{t}{list(dims)} axis {axis}",
             **({} if axis is None else {"axis": axis}))
    g = "Unique"
    for t, n, span, is_sorted, outs in (("i8", 2000, 50, 1, 1), ("f4", 5000, 0, 1, 4), ("i8", 1000000, 500, 1, 1), ("i8", 1000000, 500, 1, 4),
                                        ("i8", 1000000, 1 << 40, 1, 1), ("i8", 1000000, 1 << 40, 1, 4), ("i8", 1000000, 500, 0, 4),
                                        ("f4", 1000000, 0, 1, 1), ("f4", 1000000, 0, 0, 4), ("i1", 1000000, 127, 1, 4)):
        case(g, "Unique", lambda t=t, n=n, s=span: [values(t, n, span=s)], outputs=outs, sorted=is_sorted,
             what=f"{t}[{n}] below {span}, sorted {is_sorted}, {outs} outputs")
    for t, dims, span, axis in (("i8", (1000, 8), 2, 0), ("i8", (100000, 8), 4, 0), ("f4", (20000, 16), 0, 0), ("i8", (64, 20000), 2, 1)):
        case(g, "Unique", lambda t=t, d=dims, s=span: [values(t, *d, span=s)], outputs=4, axis=axis,
             what=f"{t}{list(dims)} below {span}, axis {axis}")
    g = "TopK"
    for t, dims, k, axis, more in (
            ("f4", (1, 1000), 5, -1, {}), ("f4", (1, 1000), 100, -1, {}), ("f4", (8, 1000), 1, -1, {}), ("f4", (1, 8400), 300, -1, {}),
            ("f4", (1, 8732), 200, -1, {}), ("f4", (1000, 1000), 5, -1, {}), ("f4", (1000, 1000), 100, -1, {}),
            ("f4", (1, 50257), 50, -1, {}), ("f4", (32, 32000), 50, -1, {}), ("f4", (1, 242991), 1000, -1, {}),
            ("f4", (1, 1000000), 10, -1, {}), ("f4", (1, 1000000), 1000, -1, {}), ("f4", (1, 1000000), 100000, -1, {}),
            ("f4", (1, 1000000), 500000, -1, {"sorted": 0}), ("f4", (1000, 1000), 10, 0, {}), ("f4", (8, 1000, 64), 5, 1, {}),
            ("f4", (100, 1000), 1000, -1, {}), ("f4", (1, 100000), 100000, -1, {}), ("f4", (1000, 1000), 10, -1, {"largest": 0}),
            ("f4", (1000, 1000), 10, -1, {"sorted": 0}), ("i8", (1000, 1000), 10, -1, {}), ("i4", (1000, 1000), 100, -1, {}),
            ("i8", (1, 1000000), 1000, -1, {"largest": 0}), ("f8", (1000, 1000), 10, -1, {})):
        case(g, "TopK", lambda t=t, d=dims, k=k: [values(t, *d), i64(k)], constants=(1,), outputs=2, axis=axis,
             what=f"{t}{list(dims)} k {k} axis {axis}" + "".join(f" {a} {v}" for a, v in more.items()), **more)
    case(g, "TopK", lambda: [values("f4", 100, 1000), i64(20)], outputs=2, what="f4[100, 1000] k 20 fed")
    g = "NMS"
    for b, c, n, most, overlap, floor, center in ((1, 1, 100, 20, 0.5, None, 0), (1, 1, 1000, 100, 0.5, None, 0), (1, 1, 8400, 300, 0.45, 0.25, 0),
                                          (1, 80, 8400, 100, 0.45, 0.25, 0), (1, 90, 1917, 100, 0.6, 0.3, 0), (8, 20, 1000, 50, 0.5, 0.1, 0),
                                          (1, 1, 20000, 2000, 0.7, None, 0), (1, 20, 1000, 50, 0.5, 0.1, 1)):
        case(g, "NonMaxSuppression", lambda b=b, c=c, n=n, m=most, o=overlap, f=floor: [
            boxes(b, n), scores(b, c, n), i64(m), f32(o), None if f is None else f32(f)], constants=(2, 3, 4), center_point_box=center,
             what=f"{b} x {c} classes x {n} boxes, {most} of each, iou {overlap}, score {floor}{', centres' if center else ''}")
    case("RoiAlign", "RoiAlign", lambda: [values("f4", 1, 256, 50, 50), boxes(1, 300)[0] / 2, np.zeros(300, "i8")], output_height=7, output_width=7,
         sampling_ratio=2, spatial_scale=0.125, what="[1, 256, 50, 50], 300 regions")


def declare_indexing():
    g = "Gather"
    for t, dims, at, axis in (("f4", (1000, 64), (10,), 0), ("i8", (1000,), (100,), 0), ("f4", (30000, 768), (128,), 0), ("f4", (30000, 768), (8, 512), 0),
                              ("f4", (1000000,), (1000000,), 0), ("i8", (1000000,), (1000000,), 0), ("bool", (1000000,), (1000000,), 0),
                              ("f4", (1000, 1000), (500,), 1), ("f4", (8, 1000, 64), (500,), 1), ("f4", (100000, 4), (100000,), 0),
                              ("i4", (100000, 3), (300000,), 0), ("f2", (30000, 768), (4096,), 0)):
        case(g, "Gather", lambda t=t, d=dims, at=at, a=axis: [values(t, *d), indices(d[a], *at)], axis=axis, what=f"{t}{list(dims)} by {list(at)} axis {axis}")
    case(g, "Gather", lambda: [values("f4", 1000000), indices(1000000, 1000000, dtype="i4")], axis=0, what="f4[1000000] by i32[1000000]")
    g = "GatherElements"
    for t, dims, at, axis in (("f4", (64, 64), (64, 64), 1), ("f4", (1000, 1000), (1000, 1000), 1), ("f4", (1000, 1000), (1000, 1000), 0),
                              ("i8", (1000, 1000), (1000, 1000), 1), ("f4", (8, 1000, 64), (8, 300, 64), 1), ("bool", (1000, 1000), (1000, 1000), 1),
                              ("f4", (1, 100000), (1, 1000), 1), ("i4", (64, 64, 256), (64, 64, 256), 2)):
        case(g, "GatherElements", lambda t=t, d=dims, at=at, a=axis: [values(t, *d), indices(d[a], *at)], axis=axis,
             what=f"{t}{list(dims)} by {list(at)} axis {axis}")
    g = "GatherND"
    for t, dims, positions, depth, batch in (("f4", (64, 64), (100,), 2, 0), ("f4", (1000, 1000), (100000,), 2, 0), ("f4", (64, 64, 256), (1000,), 2, 0),
                                             ("i8", (1000, 1000), (1000000,), 2, 0), ("f4", (8, 1000, 64), (8, 300), 1, 1), ("f4", (100, 100, 100), (500000,), 3, 0)):
        def operands(t=t, d=dims, p=positions, k=depth, b=batch):
            return [values(t, *d), np.stack([indices(d[b + j], *p, j + 1)[..., 0] for j in range(k)], -1)]
        case(g, "GatherND", operands, batch_dims=batch, what=f"{t}{list(dims)} by {list(positions)} of {depth}, batch {batch}")
    g = "ScatterElements"
    for t, dims, at, axis, reduction in (("f4", (64, 64), (64, 64), 1, "none"), ("f4", (1000, 1000), (1000, 1000), 1, "none"), ("f4", (1000, 1000), (1000, 1000), 0, "none"),
                                         ("f4", (1000, 1000), (1000, 1000), 1, "add"), ("f4", (1000, 1000), (1000, 1000), 0, "add"), ("f4", (1000, 1000), (1000, 1000), 1, "mul"),
                                         ("f4", (1000, 1000), (1000, 1000), 1, "max"), ("f4", (1000, 1000), (1000, 1000), 0, "min"), ("i8", (1000, 1000), (1000, 1000), 1, "none"),
                                         ("i4", (1000, 1000), (1000, 1000), 1, "add"), ("f4", (1000000,), (1000,), 0, "none"), ("f4", (1000000,), (1000000,), 0, "add"),
                                         ("bool", (1000, 1000), (1000, 1000), 1, "none")):
        case(g, "ScatterElements", lambda t=t, d=dims, at=at, a=axis: [values(t, *d), indices(d[a], *at), values(t, *at)], axis=axis, reduction=reduction,
             what=f"{t}{list(dims)} by {list(at)} axis {axis} {reduction}")
    g = "ScatterND"
    for t, dims, positions, depth, reduction in (("f4", (64, 64), (100,), 2, "none"), ("f4", (1000, 1000), (100000,), 2, "none"), ("f4", (1000, 1000), (1000000,), 2, "none"),
                                                 ("f4", (10000, 128), (5000,), 1, "none"), ("f4", (10000, 128), (5000,), 1, "add"), ("f4", (10000, 128), (20000,), 1, "max"),
                                                 ("i8", (1000, 1000), (100000,), 2, "none"), ("f4", (1000, 1000), (100000,), 2, "mul"), ("i4", (1000, 1000), (100000,), 2, "min"),
                                                 ("bool", (1000, 1000), (100000,), 2, "none")):
        def operands(t=t, d=dims, p=positions, k=depth):
            return [values(t, *d), np.stack([indices(d[j], *p, j + 1)[..., 0] for j in range(k)], -1), values(t, *p, *d[k:])]
        case(g, "ScatterND", operands, reduction=reduction, what=f"{t}{list(dims)} by {list(positions)} of {depth} {reduction}")


def declare_filling():
    g = "Where"
    for t, c, x, y in (("f4", (64, 64), (64, 64), (64, 64)), ("f4", (1000, 1000), (1000, 1000), (1000, 1000)), ("f4", (1000, 1000), (1000, 1000), ()),
                       ("f4", (1000, 1), (1000, 1000), (1, 1000)), ("i8", (1000, 1000), (1000, 1000), (1000, 1000)),
                       ("i4", (1000, 1000), (1000, 1000), ()), ("u1", (1000, 1000), (1000, 1000), (1000, 1000))):
        case(g, "Where", lambda t=t, c=c, x=x, y=y: [values("bool", *c), values(t, *x), values(t, 2, *y)[0] if y else values(t, 1)], what=f"{t} {list(c)} {list(x)} {list(y)}")
    g = "Range"
    for t, n in (("i8", 1000), ("i8", 1000000), ("f4", 1000000), ("i4", 1000000)):
        case(g, "Range", lambda t=t, n=n: [np.array(v, t) for v in (3, 3 + 2 * n, 2)], what=f"{t} {n} elements, fed")
    g = "OneHot"
    for t, dims, depth, axis in (("f4", (100,), 10, -1), ("f4", (1000,), 1000, -1), ("f4", (100000,), 10, -1), ("f4", (1000,), 1000, 0),
                                 ("i8", (4, 128, 128), 21, 1), ("f4", (32, 128), 1000, -1)):
        case(g, "OneHot", lambda t=t, d=dims, n=depth: [indices(n, *d), i64(n), np.array([0, 1], t)], constants=(1, 2), axis=axis,
             what=f"{t} {list(dims)} depth {depth} axis {axis}")
    g = "ArgMax"
    for t, dims, axis, op, last in (("f4", (8, 1000), -1, "ArgMax", 0), ("f4", (1000, 1000), 1, "ArgMax", 0), ("f4", (1000, 1000), 0, "ArgMax", 0),
                                    ("f4", (1, 1000000), -1, "ArgMax", 0), ("f4", (1, 21, 256, 256), 1, "ArgMax", 0), ("i4", (1000, 1000), 1, "ArgMax", 0),
                                    ("i4", (1000, 1000), 0, "ArgMin", 0), ("f4", (1, 50257), -1, "ArgMin", 0), ("f4", (100000, 10), 1, "ArgMax", 0),
                                    ("f4", (1000, 1000), 1, "ArgMax", 1), ("f8", (1000, 1000), 1, "ArgMin", 0), ("u1", (1000, 1000), 1, "ArgMax", 0)):
        case(g, op, lambda t=t, d=dims: [values(t, *d)], axis=axis, select_last_index=last, what=f"{t}{list(dims)} axis {axis}{' last' if last else ''}")
    g = "CumSum"
    for t, dims, axis, more in (("f4", (64, 64), 1, {}), ("f4", (1000, 1000), 1, {}), ("f4", (1000, 1000), 0, {}), ("f4", (1000000,), 0, {}),
                                ("i8", (1000, 1000), 1, {}), ("i8", (8, 512), 1, {}), ("i4", (1000, 1000), 0, {"reverse": 1}), ("f4", (1000, 1000), 1, {"exclusive": 1, "reverse": 1}),
                                ("f8", (1000, 1000), 1, {}), ("f4", (8, 1000, 64), 1, {})):
        case(g, "CumSum", lambda t=t, d=dims, a=axis: [values(t, *d), np.array(a, "i8")], constants=(1,), what=f"{t}{list(dims)} axis {axis} {more or ''}", **more)
    g = "Trilu"
    for t, dims, k, upper in (("f4", (64, 64), 0, 1), ("f4", (1000, 1000), 0, 1), ("f4", (1000, 1000), 5, 0), ("i8", (1000, 1000), -1, 1),
                              ("f4", (64, 128, 128), 0, 0), ("bool", (1000, 1000), 0, 0)):
        case(g, "Trilu", lambda t=t, d=dims, k=k: [values(t, *d), np.array(k, "i8")], constants=(1,), upper=upper, what=f"{t}{list(dims)} k {k} upper {upper}")
    g = "EyeLike"
    for dims in ((64, 64), (1000, 1000)):
        case(g, "EyeLike", lambda d=dims: [values("f4", *d)], what=f"f4{list(dims)}")
    g = "ReverseSequence"
    for t, dims, b in (("f4", (32, 8, 64), 1), ("f4", (100, 64, 128), 1), ("f4", (64, 100, 128), 0), ("i8", (1000, 1000), 0)):
        case(g, "ReverseSequence", lambda t=t, d=dims, b=b: [values(t, *d), rng(*d).integers(1, d[1 - b] + 1, d[b])], batch_axis=b, time_axis=1 - b,
             what=f"{t}{list(dims)} batch axis {b}")
    g = "Tile, Expand"
    for t, dims, by in (("f4", (64, 64), (1, 4)), ("f4", (1000, 100), (1, 10)), ("f4", (1, 64), (16000, 1)), ("i8", (1000, 1, 10), (1, 100, 1)), ("f4", (1000, 3), (1, 300))):
        case(g, "Tile", lambda t=t, d=dims, by=by: [values(t, *d), i64(*by)], constants=(1,), what=f"{t}{list(dims)} by {list(by)}")
    for t, dims, to in (("f4", (1000, 1), (1000, 1000)), ("f4", (1, 1000), (1000, 1000)), ("bool", (1, 1, 128, 128), (8, 12, 128, 128)), ("i8", (1,), (1000000,))):
        case(g, "Expand", lambda t=t, d=dims, to=to: [values(t, *d), i64(*to)], constants=(1,), what=f"{t}{list(dims)} to {list(to)}")
    g = "Resize"
    for t, dims, scale in (("f4", (1, 16, 16, 16), 2), ("f4", (1, 64, 56, 56), 2), ("f4", (1, 256, 128, 128), 0.5), ("u1", (1, 3, 512, 512), 2), ("f4", (1, 3, 300, 300), 1.7)):
        case(g, "Resize", lambda t=t, d=dims, s=scale: [values(t, *d), None, f32(1, 1, s, s)], constants=(2,), mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric", what=f"nearest {t}{list(dims)} by {scale}")
    g = "sorts"
    chain(g, "TopK of all, gathered rows", sorted_rows)


def declare_rows():
    """Rows of a few and of many elements: picked, reduced, chosen, scattered."""
    g = "embedding"
    for t, dims, at, index in (("f4", (50257, 768), (1, 128), "i8"), ("f4", (50257, 768), (8, 128), "i4"), ("f4", (30522, 384), (32, 128), "i8"),
                               ("f2", (32000, 1024), (1, 512), "i8"), ("f4", (50257, 768), (1, 1), "i8"), ("f4", (1000, 16), (4096, 26), "i4")):
        case(g, "Gather", lambda t=t, d=dims, at=at, i=index: [values(t, *d), indices(d[0], *at, dtype=i, negative=False)], axis=0,
             what=f"{t}{list(dims)} by {index}{list(at)}")
    g = "ScatterElements"
    for dims, at, reduction in (((64, 1024), (64, 32), "none"), ((64, 1024), (64, 32), "add"), ((8, 128, 512), (8, 128, 512), "none")):
        case(g, "ScatterElements", lambda d=dims, at=at: [values("f4", *d), indices(d[-1], *at, dtype="i4"), values("f4", *at)], axis=-1,
             reduction=reduction, what=f"f4{list(dims)} by i4{list(at)} axis -1 {reduction}")
    g = "short rows"
    for n in (2, 10, 100, 1000):
        rows = 1000000 // n
        for op, t, more in (("ArgMax", "f4", {"axis": -1}), ("ArgMin", "i8", {"axis": -1}), ("Hardmax", "f4", {"axis": -1}),
                            ("LpNormalization", "f4", {"axis": -1, "p": 2})):
            case(g, op, lambda t=t, d=(rows, n): [values(t, *d)], what=f"{t}[{rows}, {n}]", **more)
        for op in ("ReduceMax", "ReduceSum", "ReduceMean"):
            case(g, op, lambda d=(rows, n): [values("f4", *d), i64(-1)], constants=(1,), what=f"f4[{rows}, {n}]")
        case(g, "Softmax", lambda d=(rows, n): [values("f4", *d)], axis=-1, what=f"f4[{rows}, {n}]")
    case(g, "LpNormalization", lambda: [values("f4", 8, 256, 32, 32)], axis=1, p=2, what="f4[8, 256, 32, 32] axis 1")
    case(g, "ArgMax", lambda: [values("f4", 64, 10)], axis=-1, what="f4[64, 10]")
    g = "TopK"
    for dims, k in (((128, 1000), 1), ((128, 1000), 100), ((10000, 10), 1), ((10000, 10), 5), ((4096, 64), 2), ((8, 50257), 5)):
        case(g, "TopK", lambda d=dims, k=k: [values("f4", *d), i64(k)], constants=(1,), outputs=2, what=f"f4{list(dims)} k {k}")
    g = "CumSum"
    for t, dims, axis in (("f4", (128, 64), 0), ("f4", (8, 12, 512), 2), ("i8", (1000, 1000), 0), ("i8", (32, 128), 1), ("f4", (100000, 10), 0),
                          ("f4", (100000, 10), 1), ("f4", (4, 256, 4096), 1)):
        case(g, "CumSum", lambda t=t, d=dims, a=axis: [values(t, *d), np.array(a, "i8")], constants=(1,), what=f"{t}{list(dims)} axis {axis}")


def declare_moving():
    g = "Tile, Expand"
    for t, dims, by in (("f4", (1, 3, 224, 224), (2, 1, 1, 1)), ("f4", (1, 256, 28, 28), (1, 1, 2, 2)), ("f4", (8, 64), (2, 3)), ("f4", (256, 256), (1, 2)),
                        ("f4", (256, 256), (2, 1)), ("u1", (512, 512), (1, 3)), ("f4", (1000, 10), (1, 7)), ("i8", (1, 128), (8, 1)), ("f2", (64, 1, 77), (1, 8, 1))):
        case(g, "Tile", lambda t=t, d=dims, by=by: [values(t, *d), i64(*by)], constants=(1,), what=f"{t}{list(dims)} by {list(by)}")
    for t, dims, to in (("f4", (1, 8, 1, 64, 64), (1, 8, 4, 64, 64)), ("f4", (32, 1, 768), (32, 128, 768)), ("f4", (100, 1, 10), (100, 100, 10)),
                        ("f4", (1000, 1), (1000, 3)), ("i8", (1, 128), (32, 128))):
        case(g, "Expand", lambda t=t, d=dims, to=to: [values(t, *d), i64(*to)], constants=(1,), what=f"{t}{list(dims)} to {list(to)}")
    g = "Pad"
    for t, dims, pads, mode in (("f4", (1, 3, 224, 224), (0, 0, 3, 3, 0, 0, 3, 3), "constant"), ("f4", (1, 64, 56, 56), (0, 0, 1, 1, 0, 0, 1, 1), "constant"),
                                ("f4", (1, 64, 56, 56), (0, 0, 1, 1, 0, 0, 1, 1), "reflect"), ("f4", (1, 64, 56, 56), (0, 0, 2, 2, 0, 0, 2, 2), "edge"),
                                ("u1", (1, 480, 640, 3), (0, 8, 8, 0, 0, 8, 8, 0), "constant"), ("f4", (1000, 1000), (0, 5, 0, 7), "constant"),
                                ("f4", (8, 100, 64), (0, 0, 0, 0, 28, 0), "constant"), ("f4", (1000, 1000), (4, 4, 4, 4), "wrap")):
        case(g, "Pad", lambda t=t, d=dims, p=pads: [values(t, *d), i64(*p)], constants=(1,), mode=mode, what=f"{t}{list(dims)} {mode}")
    g = "Slice"
    for t, dims, begin, end, axes, step in (("f4", (1000, 1000), (0,), (1000,), (1,), (2,)), ("f4", (1000, 1000), (0,), (1000,), (0,), (2,)),
                                            ("f4", (1000, 1000), (-1,), (-2000,), (1,), (-1,)), ("f4", (1000, 1000), (-1,), (-2000,), (0,), (-1,)),
                                            ("f4", (1, 3, 640, 640), (0, 1), (640, 640), (2, 3), (2, 2)), ("f4", (1000, 1000), (3,), (1000,), (1,), (5,)),
                                            ("u1", (1, 480, 640, 3), (-1,), (-4,), (3,), (-1,)), ("f4", (8, 512, 768), (0,), (1,), (1,), (1,)),
                                            ("f4", (1000, 1000), (100,), (900,), (1,), (1,)), ("i8", (1000, 1000), (0,), (1000,), (1,), (3,))):
        case(g, "Slice", lambda t=t, d=dims, v=(begin, end, axes, step): [values(t, *d)] + [i64(*x) for x in v], constants=(1, 2, 3, 4),
             what=f"{t}{list(dims)} axes {list(axes)} from {list(begin)} by {list(step)}")
    g = "Concat"
    for t, dims, n, axis in (("f4", (1, 64, 56, 56), 4, 1), ("f4", (1000, 16), 26, 1), ("f4", (32, 128, 64), 12, 2), ("f4", (1000, 1), 40, 1),
                             ("f4", (1, 768), 64, 0), ("i8", (1, 100), 8, 1), ("f4", (1000, 100), 3, 1)):
        case(g, "Concat", lambda t=t, d=dims, n=n: [values(t, *d) for _ in range(n)], axis=axis, what=f"{n} of {t}{list(dims)} axis {axis}")
    g = "Split"
    for t, dims, n, axis in (("f4", (32, 128, 2304), 3, 2), ("f4", (1, 64, 56, 56), 4, 1), ("f4", (1000, 1000), 10, 1), ("f4", (8400, 84), 84 // 4, 1),
                             ("f4", (12, 512, 64), 12, 0)):
        case(g, "Split", lambda t=t, d=dims: [values(t, *d)], outputs=n, axis=axis, num_outputs=n, what=f"{t}{list(dims)} into {n} axis {axis}")
    g = "Transpose"
    for t, dims, perm in (("f4", (1000, 1000), (1, 0)), ("f4", (4096, 64), (1, 0)), ("f4", (1, 512, 12, 64), (0, 2, 1, 3)), ("f4", (1, 12, 512, 64), (0, 1, 3, 2)),
                          ("f4", (1, 64, 112, 112), (0, 2, 3, 1)), ("f4", (1, 112, 112, 64), (0, 3, 1, 2)), ("u1", (1, 480, 640, 3), (0, 3, 1, 2)),
                          ("f4", (1, 3, 480, 640), (0, 2, 3, 1)), ("i8", (1000, 1000), (1, 0)), ("f2", (1000, 1000), (1, 0)), ("u1", (1000, 1000), (1, 0)),
                          ("f4", (1, 3, 85, 80, 80), (0, 1, 3, 4, 2))):
        case(g, "Transpose", lambda t=t, d=dims: [values(t, *d)], perm=perm, what=f"{t}{list(dims)} by {list(perm)}")
    g = "blocks"
    for dims, b in (((1, 3, 640, 640), 2), ((1, 64, 128, 128), 4), ((1, 16, 64, 64), 2)):
        case(g, "SpaceToDepth", lambda d=dims: [values("f4", *d)], blocksize=b, what=f"f4{list(dims)} by {b}")
    for dims, b, mode in (((1, 256, 64, 64), 2, "DCR"), ((1, 256, 64, 64), 2, "CRD"), ((1, 48, 128, 128), 4, "CRD"), ((1, 12, 320, 320), 2, "DCR")):
        case(g, "DepthToSpace", lambda d=dims: [values("f4", *d)], blocksize=b, mode=mode, what=f"f4{list(dims)} by {b} {mode}")
    g = "OneHot"
    case(g, "OneHot", lambda: [indices(3, 1000000), i64(3), f32(0, 1)], constants=(1, 2), axis=-1, what="f4 [1000000] depth 3 axis -1")
    case(g, "OneHot", lambda: [indices(50, 64, 100, dtype="i4"), i64(50), f32(0, 1)], constants=(1, 2), axis=-1, what="f4 i4[64, 100] depth 50 axis -1")
    g = "Where"
    for t, c, x, y in (("f4", (8, 1, 128, 128), (8, 12, 128, 128), ()), ("f4", (1, 1, 512, 512), (1, 12, 512, 512), ()), ("f4", (32, 100, 1), (32, 100, 768), ()),
                       ("i8", (1000, 1), (1000, 100), (1000, 100)), ("f2", (1000, 1000), (1000, 1000), ())):
        case(g, "Where", lambda t=t, c=c, x=x, y=y: [values("bool", *c), values(t, *x), values(t, 2, *y)[0] if y else values(t, 1)], what=f"{t} {list(c)} {list(x)} {list(y)}")


def declare_images():
    g = "Resize"
    for t, dims, scale, mode in (("u1", (1, 480, 640, 3), 0.5, "nearest"), ("u1", (1, 240, 320, 3), 2, "nearest"), ("f4", (1, 240, 320, 3), 2, "nearest"),
                                 ("u1", (1, 3, 480, 640), 0.5, "nearest"), ("f4", (1, 3, 480, 640), 0.5, "nearest"), ("f4", (1, 128, 40, 40), 2, "nearest"),
                                 ("f4", (1, 256, 20, 20), 2, "nearest"), ("f4", (1, 32, 32, 32), 4, "nearest"),
                                 ("f4", (1, 64, 56, 56), 2, "linear"), ("f4", (1, 3, 480, 640), 0.5, "linear"), ("f4", (1, 21, 65, 65), 8, "linear"),
                                 ("u1", (1, 3, 480, 640), 0.5, "linear"), ("u1", (1, 480, 640, 3), 0.5, "linear"), ("f4", (1, 240, 320, 3), 2, "linear"),
                                 ("u1", (1, 240, 320, 3), 2, "linear"), ("f4", (1, 3, 128, 128), 2, "cubic")):
        by = (1, scale, scale, 1) if dims[-1] == 3 else (1, 1, scale, scale)
        case(g, "Resize", lambda t=t, d=dims, by=by: [values(t, *d, span=256), None, f32(*by)], constants=(2,), mode=mode,
             coordinate_transformation_mode="asymmetric" if mode == "nearest" else "half_pixel",
             what=f"{mode} {t}{list(dims)} by {list(by)}", **({"nearest_mode": "floor"} if mode == "nearest" else {}))
    g = "GridSample"
    for dims, to, mode in (((1, 3, 224, 224), (224, 224), "linear"), ((1, 64, 56, 56), (56, 56), "linear"), ((1, 64, 56, 56), (56, 56), "nearest"),
                           ((8, 32, 32, 32), (32, 32), "linear")):
        case(g, "GridSample", lambda d=dims, to=to: [values("f4", *d), (rng(*to).random((d[0], *to, 2)) * 2.2 - 1.1).astype("f4")], mode=mode,
             what=f"{mode} f4{list(dims)} at {list(to)}")
    g = "crops"
    for dims, to in (((3, 300, 400), (3, 224, 224)), ((3, 200, 200), (3, 224, 224))):
        case(g, "CenterCropPad", lambda d=dims, to=to: [values("f4", *d), i64(*to)], constants=(1,), what=f"f4{list(dims)} to {list(to)}")
    case(g, "Col2Im", lambda: [values("f4", 1, 64 * 9, 56 * 56), i64(56, 56), i64(3, 3)], constants=(1, 2), pads=(1, 1, 1, 1), what="f4[1, 576, 3136] of 3 x 3")
    case(g, "Col2Im", lambda: [values("f4", 1, 3 * 256, 14 * 14), i64(224, 224), i64(16, 16)], constants=(1, 2), strides=(16, 16), what="f4[1, 768, 196] of 16 x 16")

    def unpooled():
        x = values("f4", 1, 64, 56, 56)
        r, c = np.meshgrid(np.arange(56) * 2, np.arange(56) * 2, indexing="ij")
        r, c = r + rng(1).integers(0, 2, (1, 64, 56, 56)), c + rng(2).integers(0, 2, (1, 64, 56, 56))
        return [x, (np.arange(64).reshape(1, 64, 1, 1) * 112 * 112 + r * 112 + c).astype("i8")]
    case(g, "MaxUnpool", unpooled, kernel_shape=(2, 2), strides=(2, 2), what="f4[1, 64, 56, 56] by 2")


def sorted_rows():
    nodes = [helper.make_node("TopK", ["x", "n"], ["v", "i"]), helper.make_node("Gather", ["rows", "i"], ["y0"])]
    return nodes, {"x": values("f4", 10000), "rows": values("f4", 10000, 16)}, {"n": i64(10000)}, ["y0"]


def ssd():
    """Soft-max scores and boxes of 1917 anchors: the best 400, NMS for each class, boxes and scores of what stays."""
    nodes = [helper.make_node("Softmax", ["logits"], ["all"], axis=-1),
             helper.make_node("Slice", ["all", "one", "many", "two"], ["classes"]),  # without the background
             helper.make_node("Transpose", ["classes"], ["scores"], perm=[0, 2, 1]),
             helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "floor"], ["kept"]),
             helper.make_node("Gather", ["kept", "c2"], ["box_at"], axis=1), helper.make_node("Gather", ["kept", "c1"], ["class_at"], axis=1),
             helper.make_node("Squeeze", ["boxes", "zero"], ["flat"]), helper.make_node("Gather", ["flat", "box_at"], ["chosen"], axis=0),
             helper.make_node("GatherND", ["scores", "kept"], ["chosen_scores"]),
             helper.make_node("Shape", ["chosen_scores"], ["count"]), helper.make_node("Min", ["count", "k"], ["n"]),
             helper.make_node("TopK", ["chosen_scores", "n"], ["y0", "order"]),
             helper.make_node("Gather", ["chosen", "order"], ["y1"], axis=0), helper.make_node("Gather", ["class_at", "order"], ["y2"], axis=0)]
    constants = dict(one=i64(1), many=i64(91), two=i64(2), zero=i64(0), most=i64(100), iou=f32(0.6), floor=f32(0.05), c1=np.array(1, "i8"),
                     c2=np.array(2, "i8"), k=i64(100))
    return nodes, {"logits": values("f4", 1, 1917, 91) * 2, "boxes": boxes(1, 1917)}, constants, ["y0", "y1", "y2"]


def proposals():
    """A region proposal network's end: the best 1000 of 12,000 anchors, clipped, small ones dropped, NMS, the best 300."""
    nodes = [helper.make_node("TopK", ["objectness", "k"], ["best", "at"]),
             helper.make_node("Gather", ["anchors", "at"], ["some"], axis=0), helper.make_node("Gather", ["deltas", "at"], ["moves"], axis=0),
             helper.make_node("Add", ["some", "moves"], ["moved"]), helper.make_node("Clip", ["moved", "low", "high"], ["clipped"]),
             helper.make_node("Split", ["clipped"], ["from", "to"], axis=1, num_outputs=2), helper.make_node("Sub", ["to", "from"], ["extent"]),
             helper.make_node("ReduceMin", ["extent", "one"], ["smallest"], keepdims=0), helper.make_node("Greater", ["smallest", "least"], ["large"]),
             helper.make_node("NonZero", ["large"], ["found"]), helper.make_node("Squeeze", ["found", "zero"], ["keep"]),
             helper.make_node("Gather", ["clipped", "keep"], ["kept"], axis=0), helper.make_node("Gather", ["best", "keep"], ["kept_scores"], axis=0),
             helper.make_node("Unsqueeze", ["kept", "zero"], ["nms_boxes"]), helper.make_node("Unsqueeze", ["kept_scores", "two_axes"], ["nms_scores"]),
             helper.make_node("NonMaxSuppression", ["nms_boxes", "nms_scores", "most", "iou"], ["chosen"]),
             helper.make_node("Gather", ["chosen", "c2"], ["final"], axis=1), helper.make_node("Gather", ["kept", "final"], ["y0"], axis=0),
             helper.make_node("Gather", ["kept_scores", "final"], ["y1"], axis=0)]
    constants = dict(k=i64(1000), low=np.array(0, "f4"), high=np.array(800, "f4"), one=i64(1), zero=i64(0), two_axes=i64(0, 1), least=np.array(12, "f4"),
                     most=i64(300), iou=f32(0.7), c2=np.array(2, "i8"))
    feeds = {"objectness": values("f4", 12000), "anchors": boxes(1, 12000)[0], "deltas": values("f4", 12000, 4)}
    return nodes, feeds, constants, ["y0", "y1"]


def declare():
    declare_choosing()
    declare_indexing()
    declare_filling()
    declare_rows()
    declare_moving()
    declare_images()
    chain("detection", "SSD: scores, NMS of 90 classes, the best 100", ssd)
    chain("detection", "proposals: TopK, NonZero, NMS, gathers", proposals)


def save(path, nodes, feeds, constants, outputs):
    graph = helper.make_graph(
        nodes, "case", [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in feeds.items()],
        [onnx.ValueInfoProto(name=o) for o in outputs], [numpy_helper.from_array(v, n) for n, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)


class Ort:
    """Outputs are bound to memory that is held: where their shapes are those of the data, these do not change."""

    def __init__(self, path, feeds, outputs, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        for name, value in feeds.items():
            self.binding.bind_cpu_input(name, value)
        self.results = self.session.run(outputs, feeds)
        self.held = [onnxruntime.OrtValue.ortvalue_from_numpy(r) for r in self.results]
        for name, value in zip(outputs, self.held):
            self.binding.bind_ortvalue_output(name, value)

    def median_ms(self):
        run, binding, times = self.session.run_with_iobinding, self.binding, []
        for _ in range(3):
            run(binding)
        start = time.perf_counter()
        while len(times) < 5 or (time.perf_counter() - start < SECONDS and len(times) < 20000):
            before = time.perf_counter()
            run(binding)
            times.append(time.perf_counter() - before)
        return sorted(times)[len(times) // 2] * 1e3


def weft(binary, command, path, folder, *more):
    done = subprocess.run([binary, command, path, "--load-inputs", folder, *more], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError("weft: " + done.stderr.strip()[-300:])
    return done.stdout


def check(got, want, name):
    """Sums of 1e6 terms in f32 differ by more than a rounding: Weft's are exact to one, ONNX Runtime's are not. TopK that
    need not be sorted, and scatters to one place several times, are ONNX Runtime's own choice."""
    if got.shape != want.shape:
        raise RuntimeError(f"{name}: the shape {got.shape}, not {want.shape}")
    same = got == want
    if want.dtype.kind == "f":
        same = same | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= 1e-5 * max(np.abs(want).max(initial=0), 1e-30))
    if not np.all(same):
        raise RuntimeError(f"{name}: {np.sum(~same)} of {want.size} elements differ")


def run_case(make, args):
    nodes, feeds, constants, outputs = make()
    with tempfile.TemporaryDirectory() as scratch:
        path, given, made = (os.path.join(scratch, n) for n in ("case.onnx", "in", "out"))
        save(path, nodes, feeds, constants, outputs)
        os.mkdir(given)
        for name, value in feeds.items():
            np.save(os.path.join(given, name + ".npy"), value)
        ort, note = Ort(path, feeds, outputs, args.threads), ""
        weft(args.weft, "run", path, given, "--outputs-dir", made)
        for name, want in zip(outputs, ort.results):
            try:
                check(np.load(os.path.join(made, name + ".npy")), want, name)
            except RuntimeError as e:
                note += f" DIFFERS: {e}"
        length = ["--json", "--threads", str(args.threads), "--warmup", "20", "--duration", str(SECONDS)]
        theirs, ours, before = [], [], []
        for _ in range(args.rounds):
            time.sleep(SETTLE)
            theirs.append(ort.median_ms())
            time.sleep(SETTLE)
            said = json.loads(weft(args.weft, "bench", path, given, *length))
            ours.append(said["median_ms"])
            if said["compiled_in_runs"]:
                note += f" {said['compiled_in_runs']} compiled in runs"
            if args.before:
                before.append(json.loads(weft(args.before, "bench", path, given, *length))["median_ms"])
    return min(theirs), min(ours), min(before, default=0), note


def main():
    parser = argparse.ArgumentParser(description="operators by data: Weft beside ONNX Runtime on the CPU")
    parser.add_argument("words", nargs="*", help="only cases whose group or name holds one of these")
    parser.add_argument("--weft", default=os.environ.get("WEFT", "build/bin/weft"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", help="another weft, timed in the same turns")
    parser.add_argument("--markdown", help="write the ratios as a table to this file")
    parser.add_argument("--list", action="store_true", help="name the cases")
    args = parser.parse_args()
    declare()
    wanted = [c for c in CASES if not args.words or any(w in f"{c[0]} {c[1]}" for w in args.words)]
    if args.list:
        print("\n".join(f"{group}: {name}" for group, name, _ in wanted))
        return
    more = "| ORT / Weft before " if args.before else ""
    table, ratios = [f"| case | ORT ms | Weft ms | ORT / Weft {more}|", "|---|---|---|---|" + "---|" * bool(args.before)], []
    for group, name, make in wanted:
        try:
            theirs, ours, before, note = run_case(make, args)
        except Exception as e:  # one case that an engine refuses must not end the others
            print(f"{group}: {name}: {str(e)[:300]}", flush=True)
            continue
        ratios.append(theirs / ours)
        more = f" {theirs / before:.2g} |" if before else ""
        table.append(f"| {name} | {theirs:.4f} | {ours:.4f} | {theirs / ours:.2f} |{more}")
        print(table[-1] + note, flush=True)
    if ratios:
        table.append(f"\nGeometric mean of {len(ratios)}: {np.exp(np.log(ratios).mean()):.2f}, least {min(ratios):.2f}.")
        print(table[-1])
    if args.markdown:
        with open(args.markdown, "w") as out:
            out.write("\n".join(table) + "\n")


if __name__ == "__main__":
    main()
