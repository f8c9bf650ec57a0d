#!/usr/bin/env python3
"""Writes edges.txt: gradients at kinks, ties, zeros and edges of domains, by PyTorch.

Each row is one operator on given values, in double precision, and the gradient of the sum of its
first result with respect to every variable. Where Weft's documented choice is another one than
PyTorch's, the row says what Weft gives and why; PyTorch's value stays in the row.

    python make_edges.py > edges.txt
"""
import math
import sys

import torch

torch.set_default_dtype(torch.float64)
inf, nan = math.inf, math.nan
ROWS = []


def number(v):
    v = float(v)
    if math.isnan(v):
        return "nan"
    if math.isinf(v):
        return "inf" if v > 0 else "-inf"
    return repr(v)


def flatten(v):
    if isinstance(v, (list, tuple)):
        return [x for e in v for x in flatten(e)]
    return [v]


def shape_of(v):
    if not isinstance(v, (list, tuple)):
        return []
    return [len(v)] + (shape_of(v[0]) if v else [])


class Empty:
    """A tensor without elements, which lists cannot say."""

    def __init__(self, *shape):
        self.shape = list(shape)


class Const(str):
    """An operand that is no variable, in the row's own words."""


def text_of(v):
    shape, values = (v.shape, []) if isinstance(v, Empty) else (shape_of(v), flatten(v))
    return f"f64{shape} := [{', '.join(number(x) for x in values)}]"


def tensor_of(v):
    t = torch.zeros(v.shape) if isinstance(v, Empty) else torch.tensor(v, dtype=torch.float64)
    return t.requires_grad_()


def row(op, operands, f, attrs="", note="", ours=None):
    variables = [tensor_of(v) for v in operands if not isinstance(v, Const)]
    y = f(*variables)
    if y.requires_grad:
        y.sum().backward()
    grads = []
    for v in variables:
        g = torch.zeros_like(v) if v.grad is None else v.grad
        grads.append(" ".join(number(x) for x in g.flatten().tolist()) or "empty")
    operand_text = "; ".join(v if isinstance(v, Const) else text_of(v) for v in operands)
    fields = [op, operand_text, attrs, "; ".join(grads), note]
    if ours is not None:
        fields.append("ours " + "; ".join(" ".join(number(x) for x in g) for g in ours))
    ROWS.append(" | ".join(fields))


def i64(values, shape=None):
    shape = [len(values)] if shape is None else shape
    return Const(f"i64{shape} = [{', '.join(str(v) for v in values)}]")


F = torch.nn.functional

# Extrema: ties share equally.
row("Max", [[1, 2, 3], [1, 5, 0]], torch.maximum, note="a tie halves")
row("Max", [4, 4], torch.maximum, note="0-d tie")
row("Max", [[[1, 2], [3, 4]], [1, 4]], torch.maximum, note="tie with a broadcast operand")
row("Max", [[inf, -inf], [inf, -inf]], torch.maximum, note="tie of infinities")
row("Max", [[0.0], [-0.0]], torch.maximum, note="0 ties with -0")
row("Max", [[2], [2], [2], [1]], lambda *x: torch.stack(x).amax(0), note="k of n tie: each 1/k")
row("Max", [[1, 7], [1, 7], [0, 7]], lambda *x: torch.stack(x).amax(0), note="2 of 3, 3 of 3")
row("Max", [[nan], [1]], torch.maximum, 
    note="nothing equals a NaN result: 0", ours=[[0], [0]])
row("Max", [Empty(0, 2), [1]], lambda a, b: torch.maximum(a, b), note="no elements")
row("Min", [[1, 2, 3], [1, 5, 0]], torch.minimum, note="a tie halves")
row("Min", [4, [4, 5]], torch.minimum, note="0-d against a vector")
row("Min", [[2], [2], [2]], lambda *x: torch.stack(x).amin(0), note="all tie")
row("ReduceMax", [[2, 2, 1]], lambda x: x.amax(), note="a tie halves")
row("ReduceMax", [[[1, 3, 3], [2, 2, 2]], i64([-1])], lambda x: x.amax(-1), note="negative axis")
row("ReduceMax", [[[1, 3], [3, 0]], i64([0, 1])], lambda x: x.amax((0, 1)), "keepdims = 0", "two axes")
row("ReduceMax", [[[1, 3], [3, 3]], i64([0])], lambda x: x.amax(0), "keepdims = 0", "one axis")
row("ReduceMax", [5], lambda x: x.amax(), note="0-d")
row("ReduceMax", [[inf, 1, inf]], lambda x: x.amax(), note="infinities tie")
row("ReduceMin", [[0, 0, 0, 4]], lambda x: x.amin(), note="a third each")
row("ReduceMin", [[[1, 1], [2, 1]], i64([1])], lambda x: x.amin(1), note="one row ties")
row("MaxPool", [[[[4, 4, 1, 4]]]], lambda x: F.max_pool1d(x, 2), "kernel_shape = [2], strides = [2]",
    "first of the window")
row("MaxPool", [[[[3, 3, 3]]]], lambda x: F.max_pool1d(x, 2, 1), "kernel_shape = [2]", "windows overlap")
row("MaxPool", [[[[-inf, -inf, 1, -inf, -inf, -inf, -inf]]]], lambda x: F.max_pool1d(x, 3, 2, 1),
    "kernel_shape = [3], strides = [2], pads = [1, 1]", "nothing but -inf: the first inside, not padding")
row("MaxPool", [[[[[-inf, -inf, -inf], [-inf, -inf, 5], [-inf, nan, -inf]]]]],
    lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 1)),
    "kernel_shape = [3, 2], strides = [2, 1], pads = [1, 1, 1, 1]", "-inf and NaN beside padding")
row("MaxPool", [[[[-inf] * 5]]], lambda x: F.max_pool1d(x, 2, 2, 1, 3),
    "kernel_shape = [2], strides = [2], pads = [1, 1], dilations = [3]", "a dilated window of -inf")
row("GlobalMaxPool", [[[[2, 7, 7]]]], lambda x: F.adaptive_max_pool1d(x, 1),
    note="a reduction, as ReduceMax: ties share", ours=[[0, 0.5, 0.5]])

# Clip: 1 at both bounds.
LOW, HIGH = Const("f64[] = [1]"), Const("f64[] = [2]")
row("Clip", [[0, 1, 1.5, 2, 3], LOW, HIGH], lambda x: torch.clamp(x, 1, 2),
    note="1 at both bounds, as the subgradient of either side's identity", ours=[[0, 1, 1, 1, 0]])
row("Clip", [[0, 1, 2], LOW], lambda x: torch.clamp(x, min=1),
    note="1 at the lower bound", ours=[[0, 1, 1]])
row("Clip", [[0, 1, 2], Const("_"), LOW], lambda x: torch.clamp(x, max=1),
    note="1 at the upper bound", ours=[[1, 1, 0]])
row("Clip", [[nan], LOW, HIGH], lambda x: torch.clamp(x, 1, 2), note="NaN: 0")
row("Clip", [[0, 1.5, 3], 1, 2], torch.clamp, note="variable bounds")
row("Clip", [[0, 1, 2, 3], 1, 2], torch.clamp,
    note="x takes all at a variable bound, as at a constant one", ours=[[0, 1, 1, 0], [1], [1]])
row("Clip", [[0, 1.5, 3], 2, 1], torch.clamp, note="bounds crossed: the upper one is the result")

# Kinks.
row("Relu", [[-1, 0.0, -0.0, 1]], F.relu, note="0 at 0")
row("Abs", [[-1, 0, 1]], torch.abs, note="0 at 0")
row("Sign", [[-1, 0, 1]], torch.sign, note="a step")
row("Floor", [[-1, 0.5, 1]], torch.floor, note="a step")
row("Ceil", [[-1, 0.5, 1]], torch.ceil, note="a step")
row("Round", [[-0.5, 0.5, 1.2]], torch.round, note="a step")
row("LeakyRelu", [[-1, 0, 1]], lambda x: F.leaky_relu(x, 0.25), "alpha = 0.25", "slope at 0")
row("PRelu", [[-2, 0, 3], 0.25], lambda x, s: F.prelu(x, s.reshape(1)), note="slope at 0")
row("ThresholdedRelu", [[0.5, 1, 2]], lambda x: F.threshold(x, 1.0, 0.0), note="0 at the threshold")
row("Elu", [[-1, 0, 1]], lambda x: F.elu(x, 1.0), note="1 on both sides of 0")
row("Elu", [[-1, 0, 1]], lambda x: F.elu(x, 0.5), "alpha = 0.5", "the left side at 0")
row("Elu", [[1000, -1000]], F.elu, note="far out")
row("Celu", [[-1, 0, 1000]], lambda x: F.celu(x, 2.0), "alpha = 2.0", "at 0 and far out")
SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875  # ONNX's, in f32
row("Selu", [[-1, 1, 1000]],
    lambda x: SELU_GAMMA * torch.where(x > 0, x, SELU_ALPHA * torch.expm1(x.clamp(max=0))),
    note="far out")
row("HardSigmoid", [[-3, 0, 3]], F.hardsigmoid, "alpha = 0.16666666666666666, beta = 0.5",
    "0 at both ends")
row("HardSwish", [[-4, 0, 4]], F.hardswish, note="flat and linear ends")
row("HardSwish", [[-3, 3]], F.hardswish, note="the flat and the linear side at the kinks")
row("Shrink", [[-2, -0.5, 0.5, 2]], lambda x: F.softshrink(x, 0.5), "lambd = 0.5, bias = 0.5",
    "0 at the thresholds")
row("Softsign", [[-1, 0, 1]], F.softsign, note="at 0")
row("Softplus", [[-1000, 0, 1000]], lambda x: F.softplus(x), note="far out")
row("Sigmoid", [[-1000, 0, 1000]], torch.sigmoid, note="saturated")
row("Tanh", [[-1000, 0, 1000]], torch.tanh, note="saturated")
row("Gelu", [[-100, 0, 100]], F.gelu, note="far out")
row("Gelu", [[-100, 0, 100]], lambda x: F.gelu(x, approximate="tanh"), 'approximate = "tanh"', "far out")
row("Mish", [[-1000, 0, 1000]], F.mish, note="far out")
row("Swish", [[-1000, 0, 1000]], F.silu, note="far out")
row("Erf", [[-30, 0, 30]], torch.erf, note="far out")

# Edges of domains.
row("Sqrt", [[0, 4]], torch.sqrt, note="inf at 0")
row("Log", [[0, 1]], torch.log, note="inf at 0")
row("Reciprocal", [[0, 2]], torch.reciprocal, note="-inf at 0")
row("Div", [[0], [0]], torch.div, note="0 / 0")
row("Div", [[1, 0], [0, 2]], torch.div, note="1 / 0, 0 / 2")
row("Div", [[1, 2], 2], torch.div, note="0-d divisor")
row("Asin", [[-1, 0, 1]], torch.asin, note="inf at the ends")
row("Acos", [[-1, 0, 1]], torch.acos, note="-inf at the ends")
row("Acosh", [[1, 2]], torch.acosh, note="inf at 1")
row("Atanh", [[-1, 0, 1]], torch.atanh, note="inf at the ends")
row("Exp", [[-inf, 0, 1000]], torch.exp, note="0 and inf")
row("Tan", [[0, 1]], torch.tan, note="plain")
row("Mod", [[5, -5, 5.5], [3, 3, -2]], torch.fmod, "fmod = 1", "signs")

# Powers.
row("Pow", [[0, 0, 0], [2, 1, 3]], torch.pow, note="base 0")
row("Pow", [[0], [0]], torch.pow, note="0^0")
row("Pow", [[0], [0.5]], torch.pow, note="root of 0")
row("Pow", [[-2, -2], [2, 3]], torch.pow, note="negative base: NaN for the exponent")
row("Pow", [[2, 4], 0], torch.pow, note="exponent 0")
row("Pow", [[1, 1], [5, -5]], torch.pow, note="base 1")
row("Pow", [2, [1, 2, 3]], torch.pow, note="0-d base")
row("Pow", [[-1.5, 0, 3], i64([2, 2, 2])], lambda x: x ** torch.tensor([2, 2, 2]), note="integer exponent")
row("Pow", [[0, 2], Const("f64[] = [0]")], lambda x: x ** 0, note="constant exponent 0")
row("Pow", [[0, -3], Const("f64[] = [2]")], lambda x: x ** 2, note="constant exponent 2")
row("Pow", [[0, -3], Const("f64[] = [1]")], lambda x: x ** 1, note="constant exponent 1")

# Products with zeros.
row("ReduceProd", [[0, 2, 3]], lambda x: x.prod(), note="one zero")
row("ReduceProd", [[0, 2, 0]], lambda x: x.prod(), note="two zeros")
row("ReduceProd", [[0]], lambda x: x.prod(), note="only a zero")
row("ReduceProd", [[[0, 2], [3, 4]], i64([-1])], lambda x: x.prod(-1), note="one row with a zero")
row("ReduceProd", [[-1, 2, -3]], lambda x: x.prod(), note="signs")
row("ReduceProd", [3], lambda x: x.prod(), note="0-d")
row("CumProd", [[2, 0, 3, 4], i64([0], [])], lambda x: x.cumprod(0), note="one zero")
row("CumProd", [[0, 2, 0, 3], i64([0], [])], lambda x: x.cumprod(0), note="two zeros")
row("CumProd", [[[0, 2], [3, 0]], i64([-1], [])], lambda x: x.cumprod(-1), note="zeros at either end")

# Reductions.
row("ReduceL1", [[-2, 0, 3]], lambda x: x.abs().sum(), note="0 at 0")
row("ReduceL2", [[0, 0]], lambda x: torch.linalg.vector_norm(x), note="the zero vector: 0")
row("ReduceL2", [[3, 4]], lambda x: torch.linalg.vector_norm(x), note="plain")
row("ReduceSumSquare", [[0, -2]], lambda x: (x * x).sum(), note="at 0")
row("ReduceLogSum", [[1, 3]], lambda x: x.sum().log(), note="plain")
row("ReduceLogSumExp", [[1000, 1000]], lambda x: x.logsumexp(0), note="shifted by the maximum")
row("ReduceLogSumExp", [[-inf, 1]], lambda x: x.logsumexp(0), note="one -inf")
row("ReduceSum", [Empty(2, 0), i64([1])], lambda x: x.sum(1), note="over nothing")
row("ReduceMean", [[[1, 2], [3, 4]], i64([-2])], lambda x: x.mean(-2), note="negative axis")
row("ReduceMean", [7], lambda x: x.mean(), note="0-d")
row("CumSum", [[1, 2, 3], i64([0], [])], lambda x: x.cumsum(0), note="plain")
row("Softmax", [[-inf, 0, 1]], lambda x: x.softmax(0) * 1, note="one -inf")
row("Softmax", [[-inf, -inf]], lambda x: x.softmax(0), note="all -inf: NaN")
row("Softmax", [[1000, 1000]], lambda x: x.softmax(0), note="large")
row("LogSoftmax", [[1000, 0]], lambda x: x.log_softmax(0), note="large")

# Broadcasts: each operand gets a sum of its own shape.
row("Add", [[[1, 2, 3], [4, 5, 6]], [1, 2, 3]], torch.add, note="row")
row("Add", [[1, 2, 3], [[1, 2, 3], [4, 5, 6]]], torch.add, note="row on the left")
row("Sub", [[[1], [2]], [[1, 2, 3]]], torch.sub, note="column and row")
row("Mul", [3, [[1, 2], [3, 4]]], torch.mul, note="0-d on the left")
row("Mul", [[[1, 2], [3, 4]], [[5]]], torch.mul, note="[1, 1] on the right")
row("Mul", [Empty(0, 3), [[2]]], torch.mul, note="no elements: zeros for the other")
row("Div", [[[2, 4], [6, 8]], [1, 2]], torch.div, note="row divisor")
row("Mul", [2, 3], torch.mul, note="0-d, 0-d")
row("Where", [Const("bool[2] = [true, false]"), [1, 2], 3],
    lambda a, b: torch.where(torch.tensor([True, False]), a, b), note="0-d branch")
row("Where", [Const("bool[2] = [true, false]"), [nan, 1], [2, nan]],
    lambda a, b: torch.where(torch.tensor([True, False]), a, b), note="NaN in either branch")
row("Expand", [[[1], [2]], i64([2, 3])], lambda x: x.expand(2, 3), note="one axis")

# Indices: repeated ones add up; the last write stays.
row("Gather", [[1, 2, 3], i64([1, -1, 1])], lambda x: x[[1, -1, 1]], note="repeated and negative")
row("GatherElements", [[[1, 2], [3, 4]], i64([0, 0, 1, 0], [2, 2])],
    lambda x: x.gather(1, torch.tensor([[0, 0], [1, 0]])), "axis = 1", "repeated")
row("GatherND", [[[1, 2], [3, 4]], i64([0, 1, 0, 1, 1, 0], [3, 2])],
    lambda x: x[[0, 0, 1], [1, 1, 0]], note="repeated")
row("ScatterElements", [[1, 2, 3], i64([1, 1]), [5, 6]],
    lambda x, u: x.scatter_add(0, torch.tensor([1, 1]), u), 'reduction = "add"', "repeated")
row("ScatterElements", [[1, 2, 3], i64([2, 0]), [5, 6]],
    lambda x, u: x.scatter(0, torch.tensor([2, 0]), u), note="written places get none")
row("ScatterElements", [[1, 2, 3], i64([1, 1]), [5, 6]],
    lambda x, u: x.scatter(0, torch.tensor([1, 1]), u),
    note="the update that was overwritten gets none", ours=[[1, 0, 1], [0, 1]])
row("ScatterElements", [[1, 5, 3], i64([1, 1, 0]), [5, 5, 0]],
    lambda x, u: x.scatter_reduce(0, torch.tensor([1, 1, 0]), u, "amax"), 'reduction = "max"',
    "data and updates tie")
row("ScatterElements", [[4, 5], i64([0, 0]), [4, 7]],
    lambda x, u: x.scatter_reduce(0, torch.tensor([0, 0]), u, "amin"), 'reduction = "min"', "a tie")
row("ScatterElements", [[2, 3, 5], i64([0, 0, 1]), [0, 4, 6]],
    lambda x, u: x.scatter_reduce(0, torch.tensor([0, 0, 1]), u, "prod"), 'reduction = "mul"',
    "a zero among the updates")
row("ScatterElements", [[0, 3], i64([0, 0]), [0, 4]],
    lambda x, u: x.scatter_reduce(0, torch.tensor([0, 0]), u, "prod"), 'reduction = "mul"',
    "two zeros")
row("ScatterND", [[1, 2, 3], i64([1, 1], [2, 1]), [5, 6]],
    lambda x, u: x.index_put((torch.tensor([1, 1]),), u, accumulate=True), 'reduction = "add"',
    "repeated")
row("TopK", [[3, 1, 2], i64([2])], lambda x: x.topk(2).values, note="the places taken")
row("Compress", [[1, 2, 3], Const("bool[3] = [true, false, true]")], lambda x: x[[True, False, True]],
    note="kept places")

# Movement.
row("Slice", [[1, 2, 3, 4], i64([-1]), i64([-5]), i64([0]), i64([-2])],
    lambda x: x.flip(0)[::2], note="step -2")
row("Pad", [[1, 2, 3], i64([2, 1])], lambda x: F.pad(x[None, None], (2, 1), "reflect"),
    'mode = "reflect"', "mirrored places count twice")
row("Pad", [[1, 2, 3], i64([2, 1])], lambda x: F.pad(x[None, None], (2, 1), "replicate"),
    'mode = "edge"', "the border counts again")
row("Pad", [[1, 2, 3], i64([-1, 2])], lambda x: F.pad(x, (-1, 2)), note="cut and filled")
row("Tile", [[1, 2], i64([3])], lambda x: x.repeat(3), note="repeats add up")
row("Trilu", [[[1, 2], [3, 4]]], torch.triu, note="the other half gets none")

# Normalization of constant rows, products.
row("LayerNormalization", [[[2, 2, 2]], [1, 2, 3]],
    lambda x, s: F.layer_norm(x, (3,), s, eps=1e-5), "epsilon = 0.00001", "variance 0")
row("InstanceNormalization", [[[[2, 2]]], [1], [0]],
    lambda x, s, b: F.instance_norm(x, weight=s, bias=b, eps=1e-5), "epsilon = 0.00001", "variance 0")
row("MatMul", [[1, 2], [3, 4]], torch.matmul, note="vector by vector")
row("MatMul", [[[1, 2], [3, 4]], [1, 1]], torch.matmul, note="matrix by vector")
row("MatMul", [Empty(2, 0), Empty(0, 3)], torch.matmul, note="inner extent 0")
row("AveragePool", [[[[1, 2, 3]]]], lambda x: F.avg_pool1d(x, 3, 1, 1, count_include_pad=False),
    "kernel_shape = [3], pads = [1, 1]", "padding does not count")
row("Det", [[[1, 2], [2, 4]]], torch.det, note="singular: the cofactors, which are the derivative",
    ours=[[4, -2, -2, 1]])
row("Det", [[[1, 2, 0], [0, 0, 0], [3, 1, 1]]], torch.det, note="a row of zeros: the cofactors",
    ours=[[0, 0, 0, -2, 1, 5, 0, 0, 0]])
row("DFT", [[[[1], [2], [4]]]], lambda x: torch.view_as_real(torch.fft.fft(x[..., 0])), note="real signal")
row("GridSample", [[[[[1, 2], [3, 4]]]], [[[[-1, -1], [0.25, 0.5]]]]],
    lambda x, g: F.grid_sample(x, g, align_corners=True), "align_corners = 1", "a corner, an inner point")
row("GridSample", [[[[[1, 2], [3, 4]]]], [[[[-2, 0.3], [3, 0.1]]]]],
    lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True),
    'align_corners = 1, padding_mode = "border"', "beyond the border")
row("GridSample", [[[[[1, 2], [3, 4]]]], [[[[-1.3, 0.3], [1.4, 0.1]]]]],
    lambda x, g: F.grid_sample(x, g, padding_mode="reflection", align_corners=False),
    'padding_mode = "reflection"', "mirrored")
row("GridSample", [[[[[1, 2, 5], [3, 4, 0], [1, 1, 7]]]], [[[[-0.3, 0.3], [0.4, 0.1]]]]],
    lambda x, g: F.grid_sample(x, g, mode="bicubic", align_corners=False), 'mode = "cubic"', "cubic")

# Bodies: a cell with captured weights as a Scan and as a Loop, an If both ways.
def wave(*shape, phase=0.0):
    """Values between -1 and 1 as nested lists."""
    values = [round(math.sin(1.7 * k + phase), 3) for k in range(math.prod(shape))]
    return torch.tensor(values).reshape(shape).tolist()


def cell_steps(h, xs, w):
    steps = []
    for x in xs:
        h = torch.tanh(h @ w + x)
        steps.append(h)
    return h, torch.stack(steps)


CELL = "%p = MatMul(%h, %w) %s = Add(%p, %x) %n = Tanh(%s)"
SCAN = ("num_scan_inputs = 1, num_captures = 1, body = graph (%h: f64[2], %x: f64[2], %w: f64[2, 2])"
        " -> (%n, %n) { " + CELL + " }")
LOOP = ("num_captures = 2, body = graph (%i: i64[], %c: bool[], %h: f64[2], %xs: f64[3, 2], %w: f64[2, 2])"
        " -> (%c, %n, %n) { %x = Gather(%xs, %i) " + CELL + " }")
CELL_VALUES = [wave(2), wave(3, 2, phase=1), wave(2, 2, phase=2)]
row("Scan", CELL_VALUES, lambda h, x, w: cell_steps(h, x, w)[0], SCAN, "captured weights add up over the steps")
row("Scan", CELL_VALUES, lambda h, x, w: cell_steps(h, x.flip(0), w)[0],
    SCAN + ", scan_input_directions = [1]", "from the end")
row("Loop", [Const("i64[] := [3]"), Const("_")] + CELL_VALUES, lambda h, x, w: cell_steps(h, x, w)[0], LOOP,
    "captured weights add up over the iterations")
row("Loop", [Const("i64[] := [2]"), Const("_")] + CELL_VALUES, lambda h, x, w: cell_steps(h, x[:2], w)[0], LOOP,
    "an operand that is not read to its end")
row("Loop", [Const("i64[] := [0]"), Const("_")] + CELL_VALUES, lambda h, x, w: h + 0, LOOP,
    "no iteration: zeros for what is captured")
BRANCHES = ("num_captures = 2, then_branch = graph (%x: f64[3], %w: f64[3]) -> (%y) { %y = Mul(%x, %w) }, "
            "else_branch = graph (%x: f64[3], %w: f64[3]) -> (%y) { %y = Exp(%x) }")
row("If", [Const("bool[] := [true]"), wave(3), wave(3, phase=1)], torch.mul, BRANCHES, "the first branch")
row("If", [Const("bool[] := [false]"), wave(3), wave(3, phase=1)], lambda x, w: x.exp(), BRANCHES,
    "the second one, which does not read w")


# Recurrent operators by PyTorch's own. ONNX orders gates otherwise, and keeps directions on an axis.
ORDERS = {"LSTM": [0, 2, 3, 1], "GRU": [1, 0, 2], "RNN": [0]}  # of PyTorch's gates in ONNX's


def recurrent(kind, lens, bidirectional, batch_first=False, **options):
    def run(x, w, r, b):
        order, hidden = ORDERS[kind], r.shape[-1]
        module = getattr(torch.nn, kind)(x.shape[-1], hidden, bidirectional=bidirectional,
                                         batch_first=batch_first, **options)

        def gates(t):
            return torch.cat([t.reshape(len(order), hidden, *t.shape[1:])[g] for g in order])

        values = {}
        for d in range(2 if bidirectional else 1):
            end = "_l0" + ("_reverse" if d else "")
            values["weight_ih" + end], values["weight_hh" + end] = gates(w[d]), gates(r[d])
            values["bias_ih" + end], values["bias_hh" + end] = map(gates, b[d].chunk(2))
        if lens:
            x = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lens), batch_first, False)
        y = torch.func.functional_call(module, values, (x,))[0]
        return torch.nn.utils.rnn.pad_packed_sequence(y, batch_first)[0] if lens else y
    return run


def recurrent_row(kind, note, lens=None, bidirectional=False, attrs="", **options):
    gates, directions = len(ORDERS[kind]), 2 if bidirectional else 1
    operands = [wave(3, 2, 2), wave(directions, gates * 2, 2, phase=1), wave(directions, gates * 2, 2, phase=2),
                wave(directions, 2 * gates * 2, phase=3)]
    if lens:
        operands.append(Const(f"i32[{len(lens)}] = {lens}"))
    words = (['direction = "bidirectional"'] if bidirectional else []) + ([attrs] if attrs else [])
    row(kind, operands, recurrent(kind, lens, bidirectional, **options), ", ".join(words), note)


for kind in ORDERS:
    before = "linear_before_reset = 1" if kind == "GRU" else ""
    recurrent_row(kind, "one direction", attrs=before)
    recurrent_row(kind, "both directions", bidirectional=True, attrs=before)
    recurrent_row(kind, "sequences of other lengths", [3, 1], True, before)
recurrent_row("RNN", "Relu", attrs='activations = ["Relu"]', nonlinearity="relu")
recurrent_row("LSTM", "the batch first", [2, 1, 2], True, "layout = 1", batch_first=True)

print("# Gradients at edges, by PyTorch " + torch.__version__.split("+")[0] + "; written by make_edges.py.")
print("# operator | operands | attributes | gradients of the sum of the first result | note [| ours: Weft's choice]")
for r in ROWS:
    print(r)
print(len(ROWS), "rows", file=sys.stderr)
