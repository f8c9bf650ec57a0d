#!/usr/bin/env python3
"""record.py [FOLDER]: what other engines give for image operators in their options, as rows of text.

Writes resize.txt, grid_sample.txt, pad.txt, blocks.txt and gradients.txt into FOLDER (default: its own);
tests/ops/image_operators_test.cc runs Weft on every row. Needs torch, torchvision, onnx, onnxruntime, numpy.
With --full, Resize comes in every combination of options and geometries (for FOLDER elsewhere).

A row:  operator | operands | attributes | engines | results
  operands  separated by ";": "type ~ N" is drawn (Drawn below), "type := values" a variable, "type =
            values" a constant of the graph, "_" absent
  engines   whose results these are, the first one's to the digit; "not X": X gives others, Weft
            follows the row
  results   separated by ";": extents and values. In gradients.txt: the gradients of sum(result * drawn
            8) by the variables, in their order.

Engines: ort: ONNX Runtime; ref: ONNX's reference evaluator in double precision; torch: PyTorch or
torchvision in double precision; numpy: a definition in this file, where engines refuse or round.
"""
import itertools
import math
import pathlib
import sys
from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
import torchvision
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

TOLERANCE = 2e-5
OPTIONS = onnxruntime.SessionOptions()
OPTIONS.log_severity_level = 4
OPTIONS.intra_op_num_threads = 1


def drawn(seed, shape):
    """Numbers that f32 and f16 hold exactly; `Drawn` in the test makes the same."""
    i = np.arange(int(np.prod(shape)), dtype=np.int64)
    return (((i * i * 17 + i * (29 + seed) + seed * 7) % 61 - 30) / 8).reshape(shape)


class Operand:
    """One operand: its text in the row, and its value in float64 or int64."""

    def __init__(self, text, value, dtype, constant):
        self.text, self.value, self.dtype, self.constant = text, value, dtype, constant


def type_text(dtype, shape):
    return f"{dtype}[{', '.join(map(str, shape))}]"


def number(v):
    v = float(v)
    if np.isnan(v):
        return "nan"
    if np.isinf(v):
        return "inf" if v > 0 else "-inf"
    return f"{v:.7g}" if v != int(v) or abs(v) > 1e6 else str(int(v))


def literal(v, dtype):
    v = v.item()
    if dtype[0] != "f":
        return str(int(v))
    return number(v) if not np.isfinite(v) else repr(float(v))


def draw(shape, seed, dtype="f32"):
    values = drawn(seed, shape)
    return Operand(f"{type_text(dtype, shape)} ~ {seed}", values if dtype[0] == "f" else np.trunc(values), dtype, False)


def given(values, dtype="f32", constant=True, shape=None):
    a = np.array(values, np.int64 if dtype[0] == "i" else np.float64)
    if shape:
        a = a.reshape(shape)
    body = ", ".join(literal(v, dtype) for v in a.ravel())
    return Operand(f"{type_text(dtype, a.shape)} {'=' if constant else ':='} [{body}]", a, dtype, constant)


def ints(values):
    return given(values, "i64")


NUMPY = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32, "u8": np.uint8}


def model_of(op, operands, attrs, opset, outputs, dtypes):
    names, inputs, constants = [], [], []
    for k, o in enumerate(operands):
        names.append(f"i{k}" if o else "")
        if not o:
            continue
        value = o.value.astype(dtypes[o.dtype])
        if o.constant:
            constants.append(numpy_helper.from_array(value, f"i{k}"))
        else:
            inputs.append(helper.make_tensor_value_info(f"i{k}", helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
    results = [f"o{k}" for k in range(outputs)]
    graph = helper.make_graph([helper.make_node(op, names, results, **attrs)], "g", inputs,
                              [onnx.ValueInfoProto(name=r) for r in results], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 10
    feeds = {f"i{k}": o.value.astype(dtypes[o.dtype]) for k, o in enumerate(operands) if o and not o.constant}
    return model, feeds


def run_ort(op, operands, attrs, opset, outputs=1):
    model, feeds = model_of(op, operands, attrs, opset, outputs, NUMPY)
    model = onnx.shape_inference.infer_shapes(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), OPTIONS, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def run_ref(op, operands, attrs, opset, outputs=1):
    # Scales and regions are f32 by the standard; the data is exact in f64.
    wide = dict(NUMPY, f32=np.float64)
    operands = list(operands)
    if op == "Resize":
        for k in (1, 2):
            if k < len(operands) and operands[k]:
                o = operands[k]
                operands[k] = Operand(o.text, o.value.astype(np.float32), o.dtype, o.constant)
    model, feeds = model_of(op, operands, attrs, opset, outputs, wide)
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(model).run(None, feeds)


def attribute_text(attrs):
    def one(v):
        if isinstance(v, str):
            return f'"{v}"'
        if isinstance(v, (list, tuple)):
            return "[" + ", ".join(map(str, v)) + "]"
        return repr(v)
    return ", ".join(f"{k} = {one(v)}" for k, v in attrs.items())


def alike(a, b):
    if len(a) != len(b):
        return False
    for x, y in zip(a, b):
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        if x.shape != y.shape:
            return False
        finite = np.abs(y[np.isfinite(y)])
        bound = TOLERANCE * (1 + (finite.max() if finite.size else 0))
        if not np.allclose(x, y, rtol=0, atol=bound, equal_nan=True):
            return False
    return True


class Table:
    """Rows of one file. `order` of a row: engines from the most to the least trusted."""

    def __init__(self, name):
        self.name, self.lines, self.notes = name, [], {}

    def add(self, op, operands, attrs, engines, order):
        results = {}
        for name, run in engines.items():
            try:
                results[name] = [np.asarray(r) for r in run()]
            except Exception as error:  # an engine that refuses says nothing
                results[name] = None
                if not type(error).__module__.startswith("onnxruntime"):
                    self.notes[f"{name}: {type(error).__name__}: {str(error)[:90]}"] = op
        ours = next((n for n in order if results.get(n) is not None), None)
        if ours is None:
            print(f"{self.name}: nobody runs {op} {attribute_text(attrs)}", file=sys.stderr)
            return
        same = [n for n in order if n != ours and results.get(n) is not None and alike(results[n], results[ours])]
        other = [n for n in order if n != ours and results.get(n) is not None and n not in same]
        text = "; ".join(f"[{', '.join(map(str, r.shape))}] " + " ".join(number(v) for v in r.ravel())
                         for r in results[ours])
        while operands and operands[-1] is None:
            operands = operands[:-1]
        self.lines.append(" | ".join([
            op, "; ".join(o.text if o else "_" for o in operands), attribute_text(attrs),
            " ".join([ours, *same, *(f"not {n}" for n in other)]), text.strip()]))

    def write(self, folder):
        head = (f"# Written by record.py with torch {torch.__version__.split('+')[0]}, torchvision "
                f"{torchvision.__version__.split('+')[0]}, onnx {onnx.__version__}, onnxruntime "
                f"{onnxruntime.__version__}; see there for the form of a row.\n")
        (folder / f"{self.name}.txt").write_text(head + "\n".join(self.lines) + "\n", encoding="utf-8")
        odd = sum(" not " in line.split(" | ")[3] for line in self.lines)
        print(f"{self.name}.txt: {len(self.lines)} rows, {odd} with an engine that differs")
        for note, op in self.notes.items():
            print(f"    {op}: {note}")


# ---- Resize ----

def resize_options():
    """Every combination of modes that means something."""
    coordinates = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                   "tf_crop_and_resize")
    for c in coordinates:
        for n in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            yield {"mode": "nearest", "coordinate_transformation_mode": c, "nearest_mode": n}
        for mode, antialias, exclude in itertools.product(("linear", "cubic"), (0, 1), (0, 1)):
            for a in ((-0.75, -0.5) if mode == "cubic" else (-0.75,)):
                row = {"mode": mode, "coordinate_transformation_mode": c, "antialias": antialias,
                       "exclude_outside": exclude}
                yield dict(row, cubic_coeff_a=a) if mode == "cubic" else row


GEOMETRIES = (  # extents, scales, sizes, policy
    ((5, 4), (2.0, 3.0), None, None),
    ((5, 4), (0.6, 1.7), None, None),
    ((7, 9), (0.35, 0.3), None, None),
    ((5, 4), None, (7, 3), None),
    ((1, 6), None, (4, 1), None),
    ((9, 2), None, (2, 5), None),
    ((10, 4), None, (2, 4), "not_larger"),
    ((10, 4), None, (3, 9), "not_smaller"),
    ((3, 11), None, (2, 3), "not_larger"),
    ((12, 3), None, (1, 1), "not_smaller"),
)


def torch_resize(x, attrs, sizes):
    """PyTorch's interpolate where one of its modes has the same meaning."""
    c, mode = attrs["coordinate_transformation_mode"], attrs["mode"]
    antialias = attrs.get("antialias", 0)
    if sizes is None or attrs.get("keep_aspect_ratio_policy") or c == "tf_crop_and_resize":
        raise ValueError("no such mode")
    t = torch.tensor(x)
    if mode == "nearest" and (c, attrs["nearest_mode"]) == ("asymmetric", "floor"):
        return F.interpolate(t, size=sizes, mode="nearest")
    if mode == "nearest" and (c, attrs["nearest_mode"]) == ("half_pixel", "round_prefer_ceil"):
        return F.interpolate(t, size=sizes, mode="nearest-exact")
    a = {"linear": None, "cubic": -0.5 if antialias else -0.75}.get(mode, 0)
    if mode == "nearest" or c not in ("half_pixel", "align_corners") or attrs["exclude_outside"] != antialias or \
            (a is not None and attrs["cubic_coeff_a"] != a) or (antialias and c == "align_corners"):
        raise ValueError("no such mode")
    return F.interpolate(t, size=sizes, mode="bilinear" if mode == "linear" else "bicubic",
                         align_corners=c == "align_corners", antialias=bool(antialias))


QUOTIENTS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric")


def nearest_positions(attrs, n, scale, size, kept):
    """Where one axis reads. A scale that is given divides in f32, one of extents is a fraction."""
    c, f = attrs["coordinate_transformation_mode"], np.float32
    if scale is not None:
        s, out = f(scale), int(np.floor(f(n) * f(scale)))
    else:
        s, out = (kept, int(kept * n + Fraction(1, 2))) if kept else (Fraction(size, n), size)
    positions = []
    for i in range(out):
        if scale is None:
            half = Fraction(1, 2)
            x = i / s if c == "asymmetric" else (i + half) / s - half
            if c == "half_pixel_symmetric":
                x += Fraction(n, 2) * (1 - out / (s * n))
        elif c == "asymmetric":
            x = float(f(i) / s)
        elif c == "half_pixel_symmetric":
            x = float(f(float(f(n) / f(2) * (f(1) - f(out) / (s * f(n)))) + (i + 0.5) / float(s) - 0.5))
        else:
            x = float((f(i) + f(0.5)) / s - f(0.5))
        if c == "pytorch_half_pixel" and out == 1:
            x = 0
        half = Fraction(1, 2)
        x = Fraction(x)
        p = {"floor": math.floor(x), "ceil": math.ceil(x), "round_prefer_ceil": math.floor(x + half),
             "round_prefer_floor": math.ceil(x - half)}[attrs["nearest_mode"]]
        positions.append(min(max(p, 0), n - 1))
    return positions


def nearest_resize(x, attrs, scales, sizes, axes):
    if attrs["mode"] != "nearest" or attrs["coordinate_transformation_mode"] not in QUOTIENTS:
        raise ValueError("no definition of nearest")
    axes = [a % 4 for a in axes or (2, 3)]
    policy = attrs.get("keep_aspect_ratio_policy")
    each = [Fraction(z, x.shape[a]) for z, a in zip(sizes, axes)] if sizes else []
    kept = {None: lambda _: None, "not_larger": min, "not_smaller": max}[policy](each)
    for k, a in enumerate(axes):
        x = np.take(x, nearest_positions(attrs, x.shape[a], scales and scales[k], sizes and sizes[k], kept), a)
    return x


def resize_row(table, op_attrs, geometry, seed, extra=None, dtype="f32", axes=None, roi=None, opset=19):
    dims, scales, sizes, policy = geometry
    attrs = dict(op_attrs, **(extra or {}))
    if policy:
        attrs["keep_aspect_ratio_policy"] = policy
    # Engines take four axes everywhere, and two of them resized.
    shape = (1, 1, *dims)
    crop = attrs["coordinate_transformation_mode"] == "tf_crop_and_resize"
    region = None
    if crop:
        attrs["extrapolation_value"] = 7.0
        region = given(roi or [0, 0, 0.125, -0.25, 1, 1, 0.75, 1.125])
    if policy or axes:
        axes = axes or [2, 3]
        attrs["axes"] = axes
        if crop:
            region = given(roi or [0.125, -0.25, 0.75, 1.125])
        one = []
    else:
        one = [1, 1]
    x = draw(shape, seed, dtype)
    s = given([*one, *scales]) if scales else None
    z = ints([*one, *sizes]) if sizes else None
    operands = [x, region, s, z]
    # The text of the standard has 0 where one element is left; ref compares a length that is not rounded.
    half = attrs["coordinate_transformation_mode"] == "pytorch_half_pixel"
    order = ["numpy", "ort", "ref", "torch"] if half else ["numpy", "ref", "ort", "torch"]
    if scales and any(int(np.float32(s) * np.float32(n)) != int(float(np.float32(s)) * n) for s, n in zip(scales, dims)):
        order = ["numpy", "ort", "ref"]  # 50 elements by 0.02f are one
    if dtype != "f32":
        order = ["numpy", "ref", "ort"]
    table.add("Resize", operands, attrs, {
        "ref": lambda: run_ref("Resize", operands, attrs, opset),
        "ort": lambda: run_ort("Resize", operands, attrs, opset),
        "numpy": lambda: [nearest_resize(x.value, attrs, scales, sizes, axes)],
        "torch": lambda: [torch_resize(x.value, attrs, None if axes else sizes)],
    }, order)


def resize(full):
    table = Table("resize")
    for k, attrs in enumerate(resize_options()):
        for g, geometry in enumerate(GEOMETRIES):
            # Three geometries an option: each pair of a value of an option and a geometry comes up.
            if not full and (g - k) % 10 not in (0, 3, 7):
                continue
            if geometry[3] and attrs["coordinate_transformation_mode"] == "tf_crop_and_resize" and attrs["mode"] != "linear":
                continue
            if geometry[3] and attrs["coordinate_transformation_mode"] == "pytorch_half_pixel" and attrs["mode"] == "linear" \
                    and attrs["exclude_outside"] > attrs["antialias"]:
                continue  # ONNX Runtime refuses, and ref has its own rule where one element is left
            resize_row(table, attrs, geometry, seed=k)
    half = {"mode": "linear", "coordinate_transformation_mode": "half_pixel", "antialias": 0, "exclude_outside": 0}
    wide = dict(half, antialias=1)
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    # Scales that f32 rounds, at coordinates that are elements or lie between two.
    for s in (0.3, 0.6, 0.7, 0.9, 1.1, 1.2, 1.4, 2.8):
        for mode in ("floor", "ceil"):
            resize_row(table, dict(nearest, nearest_mode=mode), ((1, 20), (1.0, s), None, None), 3)
        for mode in ("round_prefer_floor", "round_prefer_ceil"):
            resize_row(table, dict(nearest, nearest_mode=mode, coordinate_transformation_mode="half_pixel"),
                       ((1, 20), (1.0, s), None, None), 4)
    # Sizes whose quotient f64 rounds.
    for n, m in ((49, 7), (21, 49), (30, 9), (11, 33)):
        for mode in ("floor", "ceil"):
            resize_row(table, dict(nearest, nearest_mode=mode), ((1, n), None, (1, m), None), 5)
    # Very small scales, with what they leave.
    for geometry in (((30, 2), None, (1, 2), "not_larger"), ((40, 6), None, (1, 1), "not_larger"),
                     ((64, 3), None, (1, 3), None), ((50, 40), (0.02, 0.05), None, None),
                     ((9, 9), (0.1, 0.2), None, None), ((10, 4), None, (1, 4), "not_larger")):
        for attrs in (half, wide, dict(wide, mode="cubic", cubic_coeff_a=-0.75), nearest):
            resize_row(table, attrs, geometry, 6)
    # Chosen axes, integers, f64 data.
    resize_row(table, half, ((4, 5), None, (3, 7), None), 7, axes=[3, 2])
    resize_row(table, half, ((4, 5), (0.5, 2.0), None, None), 7, axes=[-1, 2])
    resize_row(table, nearest, ((4, 5), (2.0, 0.5), None, None), 7, dtype="i32")
    return table


# ---- GridSample ----

GRID = [-1, -1, 1, 1, 0.5, -0.25, -1.125, 0.625, 1.25, -1.5, -1.75, 0.375, 0.9375, 2.1875, -2.625, -3.3125, 0.0625, 5.5,
        0.75, -0.5, -0.875, 0.8125, 1.0625, -1.0625]


def grid_values(axes, points):
    return (GRID * 3)[:axes * points]


def torch_grid(x, grid, attrs):
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(attrs["mode"], attrs["mode"])
    return F.grid_sample(x, grid, mode=mode, padding_mode=attrs["padding_mode"],
                         align_corners=bool(attrs["align_corners"]))


def grid_options():
    for mode, padding, align in itertools.product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)):
        yield {"mode": mode, "padding_mode": padding, "align_corners": align}


def grid_sample(_):
    table = Table("grid_sample")

    def row(x, grid, attrs, order):
        operands = [x, grid]
        table.add("GridSample", operands, attrs, {
            "ort": lambda: run_ort("GridSample", operands, attrs, 20),
            "ref": lambda: run_ref("GridSample", operands, attrs, 20),
            "torch": lambda: [torch_grid(torch.tensor(x.value), torch.tensor(grid.value), attrs)],
        }, order)

    for attrs in grid_options():
        # Rounding comes before mirroring: the standard, ONNX Runtime.
        order = ["ort", "torch", "ref"] if attrs["mode"] == "nearest" else ["torch", "ort", "ref"]
        for h, w in ((4, 5), (1, 3), (2, 1)):
            row(draw((1, 2, h, w), h * 5 + w), given(grid_values(2, 12), constant=False, shape=(1, 3, 4, 2)), attrs, order)
        if attrs["mode"] != "cubic":
            row(draw((1, 1, 3, 2, 4), 2), given(grid_values(3, 8), constant=False, shape=(1, 2, 2, 2, 3)), attrs, order)
        # Whatever a coordinate may be: by PyTorch, where a step of f32 does not decide.
        odd = [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9]
        if attrs["padding_mode"] == "reflection":
            odd = [np.nan, np.inf, -np.inf]
        pairs = [v for o in odd for v in (o, 0.5)] + [v for o in odd for v in (-0.25, o)]
        row(draw((1, 1, 3, 4), 9), given(pairs, constant=False, shape=(1, 2, len(odd), 2)), attrs, ["torch", "ref", "ort"])
    return table


# ---- Pad ----

PADS = ((1, 2), (1, -1), (-1, 1), (2, -2), (-2, 3), (-1, -1), (5, -1), (-2, 7), (9, 4), (4, 4), (0, -3), (-3, 0), (3, -2),
        (-1, 5), (6, -3))


def numpy_pad(x, pads, mode, value=0.0, axes=None):
    """Negative pads cut first; what is left is padded."""
    axes = [a % x.ndim for a in (range(x.ndim) if axes is None else axes)]
    before, after = np.zeros(x.ndim, int), np.zeros(x.ndim, int)
    if mode == "constant" and any(d + min(pads[k], 0) + min(pads[k + len(axes)], 0) < 0
                                  for k, d in enumerate(x.shape[a] for a in axes)):
        return np.full([d + pads[k] + pads[k + len(axes)] for k, d in enumerate(x.shape)], value)
    for k, a in enumerate(axes):
        before[a], after[a] = pads[k], pads[k + len(axes)]
    cut = x[tuple(slice(max(0, -b), max(0, d - max(0, -e))) for b, e, d in zip(before, after, x.shape))]
    width = [(max(b, 0), max(e, 0)) for b, e in zip(before, after)]
    if mode == "constant":
        return np.pad(cut, width, constant_values=value)
    return np.pad(cut, width, mode=mode)


def pad(_):
    table = Table("pad")

    def row(x, pads, mode, value=None, axes=None):
        attrs = {"mode": mode}
        operands = [x, ints(pads), given(value, x.dtype) if value is not None else None, ints(axes) if axes else None]
        table.add("Pad", operands, attrs, {
            "numpy": lambda: [numpy_pad(x.value, pads, mode, value or 0.0, axes)],
            "ort": lambda: run_ort("Pad", operands, attrs, 23),
            "torch": lambda: [F.pad(torch.tensor(x.value)[None, None], pads, mode={
                "edge": "replicate", "wrap": "circular"}.get(mode, mode), **({"value": value or 0.0} if mode == "constant" else {}))[0, 0]]
            if len(x.value.shape) == 1 and not axes else 1 / 0,
        }, ["numpy", "ort", "torch"])

    for mode in ("constant", "edge", "reflect", "wrap"):
        for begin, end in PADS:
            row(draw((4,), 1), [begin, end], mode)
        for pads in ([1, -1, -1, 2], [-1, 3, 2, -2], [2, 0, -1, -1], [0, 5, 4, -1]):
            row(draw((3, 4), 2), pads, mode, 2.5 if mode == "constant" else None)
        row(draw((2, 3, 4), 3), [2, -1, -1, 3], mode, None, [-1, 1])
        row(draw((2, 3, 4), 4), [-1, 0, 1, 1, 1, -2], mode)
        row(draw((1, 5), 5), [3, 1, 2, -4], mode)
        row(draw((0, 3), 6), [0, 1, 0, -1], mode)
        row(draw((2, 3), 6, "i32"), [-2, 1, 0, 1], mode)  # nothing left, nothing wanted
    row(draw((0, 3), 6), [2, 0, 1, 0], "constant", 1.5)
    row(draw((4,), 6), [-6, 7], "constant", 1.5)
    return table


# ---- blocks, regions, windows ----

def even_lrn(x, size, alpha, beta, bias):
    """The definition: channels [c - floor((size - 1) / 2), c + ceil((size - 1) / 2)]."""
    sums = np.stack([(x[:, max(0, c - (size - 1) // 2):c + size // 2 + 1] ** 2).sum(1) for c in range(x.shape[1])], 1)
    return x / (bias + alpha / size * sums) ** beta


def blocks(_):
    table = Table("blocks")

    def row(op, operands, attrs, opset, more=None, order=("ort", "ref")):
        engines = {"ort": lambda: run_ort(op, operands, attrs, opset), "ref": lambda: run_ref(op, operands, attrs, opset)}
        engines.update(more or {})
        table.add(op, operands, attrs, engines, list(order))

    for mode, b, shape in itertools.product(("DCR", "CRD"), (1, 2, 3), ((1, 18, 2, 1), (2, 36, 1, 2))):
        if shape[1] % (b * b):
            continue
        row("DepthToSpace", [draw(shape, b)], {"blocksize": b, "mode": mode}, 13,
            {"torch": lambda: [F.pixel_shuffle(torch.tensor(drawn(b, shape)), b)] if mode == "CRD" else 1 / 0},
            ("ref", "ort", "torch"))
    for b in (1, 2, 3):
        row("SpaceToDepth", [draw((1, 2, 6, 6), b)], {"blocksize": b}, 13)

    for h, w, kernel, attrs in ((3, 4, (2, 2), {}), (5, 5, (2, 3), {"strides": [2, 1]}),
                                (4, 4, (3, 2), {"pads": [1, 0, 1, 2]}), (5, 6, (2, 2), {"dilations": [2, 3], "pads": [1, 1, 0, 1]}),
                                (6, 5, (3, 2), {"dilations": [1, 2], "strides": [2, 3], "pads": [2, 0, 1, 1]})):
        p, d, s = attrs.get("pads", [0] * 4), attrs.get("dilations", [1, 1]), attrs.get("strides", [1, 1])
        n = [(e + p[k] + p[k + 2] - d[k] * (q - 1) - 1) // s[k] + 1 for k, (e, q) in enumerate(zip((h, w), kernel))]
        x = draw((1, 2 * kernel[0] * kernel[1], n[0] * n[1]), 3)
        fold = lambda: [F.fold(torch.tensor(x.value), (h, w), kernel, d, p[:2], s)] if p[:2] == p[2:] else 1 / 0
        row("Col2Im", [x, ints([h, w]), ints(kernel)], attrs, 18, {"torch": fold}, ("ref", "ort", "torch"))

    places = given([[[[5, 7], [13, 15]]]], "i64", constant=False)
    for operands, attrs in (([draw((1, 1, 2, 2), 1), places], {"kernel_shape": [2, 2], "strides": [2, 2]}),
                            ([draw((1, 1, 2, 2), 1), places, ints([1, 1, 5, 5])], {"kernel_shape": [2, 2], "strides": [2, 2]}),
                            ([draw((1, 1, 2, 2), 2), given([[[[0, 2], [6, 8]]]], "i64", False)],
                             {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
                            ([draw((1, 2, 3), 2), given([[[0, 3, 5], [7, 8, 11]]], "i64", False)],
                             {"kernel_shape": [2], "strides": [2]})):
        # output_shape: the standard's own test, and with it the evaluator, places what was counted in the smaller image.
        row("MaxUnpool", operands, attrs, 22, None, ("ref", "ort") if len(operands) > 2 else ("ort", "ref"))

    for align, size in itertools.product((0, 1), ([2, 1, 3, 4], [1, 1, 1, 2], [1, 2, 2, 3, 2])):
        r = len(size) - 2
        theta = draw((size[0], r, r + 1), 4)
        row("AffineGrid", [theta, ints(size)], {"align_corners": align}, 20,
            {"torch": lambda: [F.affine_grid(torch.tensor(theta.value), size, align_corners=bool(align))]},
            ("torch", "ort", "ref"))

    for size, channels in itertools.product((1, 2, 3, 4, 5, 9), (1, 6)):
        x, p = draw((1, channels, 1, 2), 5), {"size": size, "alpha": 0.5, "beta": 0.625, "bias": 1.5}
        row("LRN", [x], p, 13,
            {"torch": lambda: [F.local_response_norm(torch.tensor(x.value), size, 0.5, 0.625, 1.5)] if size % 2 else 1 / 0,
             "numpy": lambda: [even_lrn(x.value, size, 0.5, 0.625, 1.5)]}, ("numpy", "torch", "ort"))

    rois = given([[0.5, 1, 4, 5], [-1, -2, 7, 3], [2, 2, 2, 2], [4, 4, 1, 1], [8, 8, 12, 12], [0, 0, 5, 5]], "f32", False)
    batch = given([0, 1, 0, 1, 1, 0], "i64", False)
    x = draw((2, 1, 5, 6), 6)
    for transform, mode, ratio in itertools.product(("half_pixel", "output_half_pixel"), ("avg", "max"), (0, 1, 3)):
        attrs = {"coordinate_transformation_mode": transform, "mode": mode, "sampling_ratio": ratio,
                 "output_height": 2, "output_width": 3, "spatial_scale": 0.75}
        boxes = torch.tensor(np.concatenate([batch.value[:, None], rois.value], 1))
        align = lambda: [torchvision.ops.roi_align(torch.tensor(x.value), boxes, (2, 3), 0.75, ratio or -1,
                                                   transform == "half_pixel")] if mode == "avg" else 1 / 0
        row("RoiAlign", [x, rois, batch], attrs, 16, {"torch": align}, ("torch", "ort", "ref"))

    for x, w, offset, mask, attrs in deform_cases():
        operands = [x, w, offset, draw((w.value.shape[0],), 3), mask]
        row("DeformConv", operands, attrs, 19,
            {"torch": lambda: [torch_deform(*(torch.tensor(o.value) if o else None for o in operands), attrs)]},
            ("torch", "ort", "ref"))
    return table


def deform_cases():
    for attrs in ({}, {"strides": [2, 1], "pads": [1, 0, 1, 0]}, {"dilations": [2, 1], "pads": [1, 1, 1, 1]},
                  {"group": 2}, {"offset_group": 2}, {"group": 2, "offset_group": 2, "pads": [1, 1, 1, 1]}):
        s, p, d = attrs.get("strides", [1, 1]), attrs.get("pads", [0] * 4), attrs.get("dilations", [1, 1])
        group, offsets = attrs.get("group", 1), attrs.get("offset_group", 1)
        h, w = ((e + 2 * p[k] - d[k] - 1) // s[k] + 1 for k, e in enumerate((4, 3)))
        for masked in (False, True):
            yield (draw((1, 2, 4, 3), 1), draw((2, 2 // group, 2, 2), 2), draw((1, offsets * 8, h, w), 7),
                   draw((1, offsets * 4, h, w), 4) if masked else None, attrs)


def torch_deform(x, w, offset, bias, mask, attrs):
    return torchvision.ops.deform_conv2d(x, offset, w, bias, attrs.get("strides", (1, 1)), attrs.get("pads", [0, 0])[:2],
                                         attrs.get("dilations", (1, 1)), mask)


# ---- gradients ----

def torch_gradient(run, variables):
    """The gradients of sum(result * drawn 8) by PyTorch."""
    leaves = [torch.tensor(v, requires_grad=True) for v in variables]
    y = run(*leaves)
    (y * torch.tensor(drawn(8, tuple(y.shape)))).sum().backward()
    return [leaf.grad if leaf.grad is not None else torch.zeros_like(leaf) for leaf in leaves]


def linear_gradient(run, x):
    """The same for what is linear in x, from its values at the unit vectors."""
    base = run(np.zeros_like(x))
    dy = drawn(8, base.shape)
    out = np.zeros(x.size)
    for k in range(x.size):
        unit = np.zeros(x.size)
        unit[k] = 1
        out[k] = ((run(unit.reshape(x.shape)) - base) * dy).sum()
    return [out.reshape(x.shape)]


def gradients(_):
    table = Table("gradients")
    for attrs in grid_options():
        for axes in (2, 3):
            if axes == 3 and attrs["mode"] == "cubic":
                continue
            x = draw((1, 2, 3, 4) if axes == 2 else (1, 1, 2, 2, 3), 2)
            # Centers of the outermost elements and beyond, but not where rounding or mirroring has a step.
            grid = given(grid_values(axes, 8), constant=False, shape=(1, 2, 4, 2) if axes == 2 else (1, 2, 2, 2, 3))
            if attrs["mode"] == "nearest":
                grid = given(np.array(grid_values(axes, 8)) * 0.96875, constant=False, shape=grid.value.shape)
            table.add("GridSample", [x, grid], attrs, {"torch": lambda: torch_gradient(
                lambda a, g: torch_grid(a, g, attrs), [x.value, grid.value])}, ["torch"])
    for mode in ("constant", "edge", "reflect", "wrap"):
        for pads in ([1, 2], [1, -1], [-2, 3], [5, -1], [-1, 6], [-1, -2]):
            x = draw((4,), 1)
            table.add("Pad", [x, ints(pads)], {"mode": mode}, {"numpy": lambda: linear_gradient(
                lambda v: numpy_pad(v, pads, mode), x.value)}, ["numpy"])
        x = draw((3, 2), 2)
        table.add("Pad", [x, ints([1, -1, -1, 3])], {"mode": mode}, {"numpy": lambda: linear_gradient(
            lambda v: numpy_pad(v, [1, -1, -1, 3], mode), x.value)}, ["numpy"])
    for k, attrs in enumerate(resize_options()):
        geometry = (((3, 2), None, (2, 5), None), ((6, 2), None, (2, 2), "not_larger"))[k % 2]
        if attrs["coordinate_transformation_mode"] == "tf_crop_and_resize" or (attrs["mode"] != "nearest" and k % 3 == 0):
            continue
        if attrs["coordinate_transformation_mode"] == "pytorch_half_pixel":
            geometry = ((3, 2), None, (2, 5), None)  # two elements or more: ref has its own rule for one
        if geometry[3]:
            attrs = dict(attrs, keep_aspect_ratio_policy=geometry[3], axes=[2, 3])
        one = [] if geometry[3] else [1, 1]
        x, sizes = draw((1, 1, *geometry[0]), k), ints([*one, *geometry[2]])

        def run(v, attrs=attrs, x=x, sizes=sizes):
            return np.asarray(run_ref("Resize", [Operand(x.text, v, "f32", False), None, None, sizes], attrs, 19)[0])
        table.add("Resize", [x, None, None, sizes], attrs, {"ref": lambda: linear_gradient(run, x.value)}, ["ref"])
    for x, w, offset, mask, attrs in deform_cases():
        operands = [x, w, offset, draw((w.value.shape[0],), 3), mask]
        values = [o.value for o in operands if o]
        table.add("DeformConv", operands, attrs, {"torch": lambda: torch_gradient(
            lambda *v: torch_deform(*v, *([None] * (5 - len(v))), attrs), values)}, ["torch"])
    x = draw((1, 5, 2), 5)
    for size in (1, 3, 5):
        table.add("LRN", [x], {"size": size, "alpha": 0.5, "beta": 0.625, "bias": 1.5}, {"torch": lambda: torch_gradient(
            lambda v: F.local_response_norm(v, size, 0.5, 0.625, 1.5), [x.value])}, ["torch"])
    return table


def main():
    words = [w for w in sys.argv[1:] if w != "--full"]
    folder = pathlib.Path(words[0]) if words else pathlib.Path(__file__).parent
    for make in (resize, grid_sample, pad, blocks, gradients):
        make("--full" in sys.argv).write(folder)


if __name__ == "__main__":
    main()
