"""reference_ops.py: onnx.reference.ReferenceEvaluator, with those of its operators written again that are wrong or incomplete in
onnx 1.22. WHY names each of them with its reason. They are written from the text of the standard (onnx/defs), in NumPy, and
know nothing of Weft.

An optional is a list of the class Opt here, of one element or none: the evaluator itself gives a list or the value."""
import builtins
import math

import numpy as np
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

WHY = {
    "Loop": "an absent condition ends it at once; stacks results by vstack, which joins matrices and makes columns of scalars, "
            "and fails where there was no iteration",
    "Scan": "only axis 0, forwards; fails where there was no iteration",
    "SequenceMap": "fails for an empty sequence, gives bodies no captured values, takes one more sequence only",
    "SequenceInsert": "inserts at the front where the position is the length; fails in an empty sequence",
    "SplitToSequence": "keepdims=0 takes the wrong dimension out where the axis is negative and there are several; chunks of an "
                       "empty dimension",
    "Optional": "holds None where it should hold nothing",
    "Identity": "makes a list of an optional",
    "OptionalGetElement": "gives the list that Optional makes",
    "OptionalHasElement": "says yes to an empty optional",
    "LSTM": "one direction; no activations, clip, input_forget, sequence_lens; no Y_c; layout by the wrong axes",
    "GRU": "one direction; no activations, clip, sequence_lens; layout by the wrong axes",
    "RNN": "one direction; no clip, sequence_lens; layout by the wrong axes",
    "Gather": "an empty result is of one dimension",
    "GatherElements": "an empty result is of one dimension; numpy.choose has at most 32 choices",
    "GatherND": "fails where there is nothing to gather",
    "ScatterElements": "fails for five dimensions and for empty ones",
    "ScatterND": "max and min read the wrong elements",
    "Unique": "sorted=0 takes along axis 0 whatever the axis; indices are not those of the first ones",
    "TopK": "k of one dimension only, fails for empty ones",
    "NonZero": "a scalar",
    "NonMaxSuppression": "fails without the optional operands",
    "Reshape": "fails where an element count is 0",
    "Expand": "by a product, which is no product for booleans and makes -0 of nothing",
    "OneHot": "indices out of range wrap twice",
    "Compress": "a condition longer than the axis",
    "Range": "computes integers in floats",
    "ReduceMax": "fails for empty dimensions",
    "ReduceMin": "fails for empty dimensions",
    "Erf": "rounds to single precision",
    "Softsign": "fails for a scalar",
}


class Opt(list):
    """An optional: what it holds, or nothing."""


def captured(context, names):
    return {k: v for k, v in (context or {}).items() if k not in names}


class Body:
    """A body, with what it captures, that takes and gives lists."""

    def __init__(self, body, context):
        self.body, self.names = body, body.input_names
        self.context = captured(context, self.names)

    def __call__(self, values):
        return self.body.run(None, {**self.context, **dict(zip(self.names, values))})


def stack(results, axis, backward, one):
    """What iterations gave; `one` gives what one would, where there was none."""
    if backward:
        results = results[::-1]
    if results:
        return np.stack(results, axis)
    like = one()
    axis = axis + like.ndim + 1 if axis < 0 else axis
    return np.empty(like.shape[:axis] + (0,) + like.shape[axis:], like.dtype)


class Loop(OpRun):
    def need_context(self):
        return True

    def _run(self, trips, cond, *states, context=None, body=None, attributes=None):
        run = Body(body, context)
        n = len(body.input_names) - 2
        go = True if cond is None else bool(np.reshape(cond, ()))
        last = None if trips is None else int(np.reshape(trips, ()))
        states, first, i = list(states), list(states), 0
        stacks = [[] for _ in range(len(body.output_names) - 1 - n)]
        while go and (last is None or i < last):
            out = run([np.array(i, np.int64), np.array(go)] + states)
            go, states = bool(np.reshape(out[0], ())), out[1:1 + n]
            for s, v in zip(stacks, out[1 + n:]):
                s.append(v)
            i += 1
        for k, s in enumerate(stacks):
            stacks[k] = stack(s, 0, False, lambda: run([np.array(0, np.int64), np.array(True)] + first)[1 + n + k])
        return tuple(states + stacks)


class Scan(OpRun):
    def need_context(self):
        return True

    def _run(self, *args, context=None, body=None, num_scan_inputs=None, scan_input_axes=None, scan_input_directions=None,
             scan_output_axes=None, scan_output_directions=None, attributes=None):
        run = Body(body, context)
        m = num_scan_inputs
        n = len(args) - m
        states, slices = list(args[:n]), args[n:]
        axes, ways = scan_input_axes or [0] * m, scan_input_directions or [0] * m
        count = len(body.output_names) - n
        out_axes, out_ways = scan_output_axes or [0] * count, scan_output_directions or [0] * count
        length = slices[0].shape[axes[0]]
        stacks = [[] for _ in range(count)]
        for i in range(length):
            now = [np.take(x, length - 1 - i if way else i, axis) for x, axis, way in zip(slices, axes, ways)]
            out = run(states + now)
            states = out[:n]
            for s, v in zip(stacks, out[n:]):
                s.append(v)

        def one(k):
            now = [np.zeros(tuple(np.delete(x.shape, axis)), x.dtype) for x, axis in zip(slices, axes)]
            return run(states + now)[n + k]
        return tuple(states + [stack(s, axis, way, lambda: one(k)) for k, (s, axis, way) in enumerate(zip(stacks, out_axes, out_ways))])


class SequenceMap(OpRun):
    def need_context(self):
        return True

    def _run(self, sequence, *more, context=None, body=None, attributes=None):
        run = Body(body, context)
        out = [[] for _ in body.output_names]
        for i, x in enumerate(sequence):
            for s, v in zip(out, run([x] + [m[i] if isinstance(m, list) else m for m in more])):
                s.append(v)
        return tuple(out)


class SequenceInsert(OpRun):
    def _run(self, sequence, tensor, position=None):
        out = list(sequence)
        at = len(out) if position is None else int(np.reshape(position, ()))
        assert -len(out) <= at <= len(out)
        out.insert(at + len(out) if at < 0 else at, tensor)
        return (out,)


class SplitToSequence(OpRun):
    def _run(self, x, split=None, axis=0, keepdims=1):
        size = x.shape[axis]
        if split is None:
            parts = [1] * size
        elif split.ndim == 0:
            step = int(split)
            parts = [min(step, size - i) for i in range(0, size, step)]
        else:
            parts = [int(s) for s in split]
            assert sum(parts) == size
        ends = np.cumsum([0] + parts).astype(int)
        out = [np.take(x, np.arange(a, b), axis) for a, b in zip(ends, ends[1:])]
        if split is None and not keepdims:
            out = [np.squeeze(o, axis) for o in out]
        return (out,)


class Optional(OpRun):
    def _run(self, x=None, type=None):
        return (Opt([] if x is None else [x]),)


class Identity(OpRun):
    def _run(self, x):
        return (x,)


class Erf(OpRun):
    def _run(self, x):
        return (np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape).astype(x.dtype),)


class OptionalGetElement(OpRun):
    def _run(self, x):
        return (x[0] if isinstance(x, Opt) else x,)


class OptionalHasElement(OpRun):
    def _run(self, x=None):
        return (np.array(len(x) > 0 if isinstance(x, Opt) else x is not None),)


DEFAULTS = {"LeakyRelu": (0.01, 0), "ThresholdedRelu": (1, 0), "Elu": (1, 0), "HardSigmoid": (0.2, 0.5), "Affine": (1, 0), "ScaledTanh": (1, 1)}


def activation(name, alpha, beta):
    a, b = DEFAULTS.get(name, (0, 0))
    a, b = a if alpha is None else float(alpha), b if beta is None else float(beta)
    return {"Tanh": np.tanh, "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Relu": lambda x: np.maximum(x, 0),
            "Softsign": lambda x: x / (1 + abs(x)), "Softplus": lambda x: np.log1p(np.exp(-abs(x))) + np.maximum(x, 0),
            "LeakyRelu": lambda x: np.where(x < 0, a * x, x), "ThresholdedRelu": lambda x: np.where(x > a, x, 0),
            "Elu": lambda x: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x), "HardSigmoid": lambda x: np.clip(a * x + b, 0, 1),
            "Affine": lambda x: a * x + b, "ScaledTanh": lambda x: a * np.tanh(b * x)}[name]


def gru_cell(x, h, c, W, R, Wb, Rb, P, f, g, bound, linear, couple):
    wz, wr, wh = (x @ w.T + b for w, b in zip(np.split(W, 3), np.split(Wb, 3)))
    Rz, Rr, Rh = np.split(R, 3)
    bz, br, bh = np.split(Rb, 3)
    z, r = f(bound(wz + h @ Rz.T + bz)), f(bound(wr + h @ Rr.T + br))
    n = g(bound(wh + (r * (h @ Rh.T + bh) if linear else (r * h) @ Rh.T + bh)))
    return (1 - z) * n + z * h, None


def lstm_cell(x, h, c, W, R, Wb, Rb, P, f, g, k, bound, linear, couple):
    i, o, f_, n = np.split(x @ W.T + h @ R.T + Wb + Rb, 4, -1)
    pi, po, pf = np.split(P, 3)
    i = f(bound(i + pi * c))
    f_ = 1 - i if couple else f(bound(f_ + pf * c))
    c = f_ * c + i * g(bound(n))
    return f(bound(o + po * c)) * k(c), c  # the cell as it is: ONNX Runtime bounds sums of products alone


def rnn_cell(x, h, c, W, R, Wb, Rb, P, f, bound, linear, couple):
    return f(bound(x @ W.T + h @ R.T + Wb + Rb)), None


class Recurrent(OpRun):
    """Sums in double precision."""

    def _run(self, X, W, R, B=None, sequence_lens=None, initial_h=None, initial_c=None, P=None, activation_alpha=None,
             activation_beta=None, activations=None, clip=None, direction="forward", hidden_size=None, input_forget=0, layout=0,
             linear_before_reset=0, output_sequence=0):
        dtype = X.dtype
        gates, cell, default = self.cell
        one = len(default)
        ways = W.shape[0]
        hidden = R.shape[2]
        names = activations if activations and "activations" in {a.name for a in self.onnx_node.attribute} else default * ways
        if layout:
            X = X.swapaxes(0, 1)
            initial_h, initial_c = (None if v is None else v.swapaxes(0, 1) for v in (initial_h, initial_c))
        steps, batch, _ = X.shape
        f8 = lambda v, shape: np.zeros(shape) if v is None else v.astype("f8")
        X, W, R = X.astype("f8"), W.astype("f8"), R.astype("f8")
        B, P = f8(B, (ways, 2 * gates * hidden)), f8(P, (ways, 3 * hidden))
        h0, c0 = f8(initial_h, (ways, batch, hidden)), f8(initial_c, (ways, batch, hidden))
        lens = np.full(batch, steps) if sequence_lens is None else sequence_lens
        bound = (lambda v: np.clip(v, -clip, clip)) if clip else (lambda v: v)
        Y, last, last_c = np.zeros((steps, ways, batch, hidden)), h0.copy(), c0.copy()
        alphas, betas = list(activation_alpha or []), list(activation_beta or [])
        for d in range(ways):
            functions = []
            for name in names[d * one:(d + 1) * one]:
                alpha = alphas.pop(0) if name in DEFAULTS and alphas else None
                beta = betas.pop(0) if name in ("HardSigmoid", "Affine", "ScaledTanh") and betas else None
                functions.append(activation(name, alpha, beta))
            Wb, Rb = np.split(B[d], 2)
            for b in range(batch):
                h, c = h0[d, b], c0[d, b]
                order = range(int(lens[b]))
                for t in order if (direction == "forward" or d == 0 and direction == "bidirectional") else reversed(order):
                    h, c = cell(X[t, b], h, c, W[d], R[d], Wb, Rb, P[d], *functions, bound, linear_before_reset, input_forget)
                    Y[t, d, b] = h
                last[d, b] = h
                if c is not None:
                    last_c[d, b] = c
        if layout:
            Y, last, last_c = Y.transpose(2, 0, 1, 3), last.swapaxes(0, 1), last_c.swapaxes(0, 1)
        return tuple(v.astype(dtype) for v in (Y, last, last_c))[:3 if gates == 4 else 2]


class LSTM(Recurrent):
    cell = 4, lstm_cell, ["Sigmoid", "Tanh", "Tanh"]


class GRU(Recurrent):
    cell = 3, gru_cell, ["Sigmoid", "Tanh"]

    def _run(self, X, W, R, B=None, sequence_lens=None, initial_h=None, **attributes):
        return super()._run(X, W, R, B, sequence_lens, initial_h, **attributes)


class RNN(GRU):
    cell = 1, rnn_cell, ["Tanh"]


class Gather(OpRun):
    def _run(self, x, indices, axis=0):
        axis %= x.ndim
        assert indices.size == 0 or (-x.shape[axis] <= indices.min() and indices.max() < x.shape[axis])
        if indices.size == 0:
            return (np.empty(x.shape[:axis] + indices.shape + x.shape[axis + 1:], x.dtype),)
        return (np.take(x, indices, axis),)


class GatherElements(OpRun):
    def _run(self, x, indices, axis=0):
        at = list(np.indices(indices.shape))
        at[axis] = indices
        return (x[tuple(at)] if indices.size else np.empty(indices.shape, x.dtype),)


class GatherND(OpRun):
    def _run(self, x, indices, batch_dims=0):
        depth = indices.shape[-1]
        out = np.empty(indices.shape[:-1] + x.shape[batch_dims + depth:], x.dtype)
        for at in np.ndindex(indices.shape[:-1]):
            out[at] = x[at[:batch_dims] + tuple(indices[at])]
        return (out,)


COMBINE = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "min": np.minimum, "max": np.maximum}


class ScatterElements(OpRun):
    def _run(self, x, indices, updates, axis=0, reduction=None):
        out = x.copy()
        for at in np.ndindex(indices.shape):
            to = list(at)
            to[axis] = indices[at]
            to = tuple(to)
            out[to] = COMBINE[reduction](out[to], updates[at]) if reduction in COMBINE else updates[at]
        return (out,)


class ScatterND(OpRun):
    def _run(self, x, indices, updates, reduction=None):
        out = x.copy()
        for at in np.ndindex(indices.shape[:-1]):
            to = tuple(indices[at])
            out[to] = COMBINE[reduction](out[to], updates[at]) if reduction in COMBINE else updates[at]
        return (out,)


class Unique(OpRun):
    def _run(self, x, axis=None, sorted=1):
        if axis is None:
            rows, axis = x.reshape(-1, 1), 0
            take = lambda at: x.reshape(-1)[at]
        else:
            rows = np.moveaxis(x, axis, 0).reshape(x.shape[axis], int(np.prod(np.delete(x.shape, axis))))
            take = lambda at: np.take(x, at, axis)
        first, inverse, counts, order = [], [], [], {}
        for i, row in enumerate(map(tuple, rows.tolist())):
            if row not in order:
                order[row] = len(first)
                first.append(i)
                counts.append(0)
            inverse.append(order[row])
            counts[order[row]] += 1
        if sorted:
            by = [order[row] for row in builtins.sorted(order)]
            to = np.argsort(by) if by else []
            first, counts, inverse = [first[k] for k in by], [counts[k] for k in by], [to[k] for k in inverse]
        ints = tuple(np.array(v, np.int64) for v in (first, inverse, counts))
        return ((take(ints[0]),) + ints)[:len(self.onnx_node.output)]


class TopK(OpRun):
    def _run(self, x, k, axis=-1, largest=1, sorted=1):
        k, size = int(np.reshape(k, ())), x.shape[axis]
        assert 0 <= k <= size
        moved = np.moveaxis(x, axis, -1)
        values, at = np.empty(moved.shape[:-1] + (k,), x.dtype), np.empty(moved.shape[:-1] + (k,), np.int64)
        for row in np.ndindex(moved.shape[:-1]):
            by = builtins.sorted(range(size), key=lambda i: (-1 if largest else 1) * moved[row][i].item())[:k]
            values[row], at[row] = moved[row][by], by
        return np.moveaxis(values, -1, axis), np.moveaxis(at, -1, axis)


class NonZero(OpRun):
    def _run(self, x):
        if x.ndim == 0:
            return (np.zeros((0, int(x != 0)), np.int64),)
        return (np.array(np.nonzero(x), np.int64),)


class NonMaxSuppression(OpRun):
    def _run(self, boxes, scores, max_output_boxes_per_class=None, iou_threshold=None, score_threshold=None, center_point_box=0):
        most = 0 if max_output_boxes_per_class is None else int(np.reshape(max_output_boxes_per_class, ()))
        iou = 0 if iou_threshold is None else float(np.reshape(iou_threshold, ()))
        least = None if score_threshold is None else float(np.reshape(score_threshold, ()))

        def corners(box):
            a, b, c, d = (float(v) for v in box)
            if center_point_box:
                return b - d / 2, a - c / 2, b + d / 2, a + c / 2
            return min(a, c), min(b, d), max(a, c), max(b, d)

        def overlap(p, q):
            p, q = corners(p), corners(q)
            h, w = min(p[2], q[2]) - max(p[0], q[0]), min(p[3], q[3]) - max(p[1], q[1])
            if h <= 0 or w <= 0:
                return 0
            area = lambda r: (r[2] - r[0]) * (r[3] - r[1])
            return h * w / (area(p) + area(q) - h * w)

        chosen = []
        for n, c in np.ndindex(scores.shape[:2]):
            order = sorted(range(scores.shape[2]), key=lambda i: (-float(scores[n, c, i]), i))
            kept = []
            for i in order:
                if len(kept) == most:
                    break
                if (least is None or scores[n, c, i] > least) and all(overlap(boxes[n, i], boxes[n, j]) <= iou for j in kept):
                    kept.append(i)
                    chosen.append((n, c, i))
        return (np.array(chosen, np.int64).reshape(-1, 3),)


class Reshape(OpRun):
    def _run(self, x, shape, allowzero=0):
        dims = [x.shape[i] if d == 0 and not allowzero else int(d) for i, d in enumerate(shape)]
        if -1 in dims:
            rest = int(np.prod([d for d in dims if d != -1]))
            dims[dims.index(-1)] = x.size // rest if rest else 0
        return (x.reshape(dims),)


class Expand(OpRun):
    def _run(self, x, shape):
        return (np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(d) for d in shape))).copy(),)


class OneHot(OpRun):
    def _run(self, indices, depth, values, axis=-1):
        depth = int(np.reshape(depth, ()))
        axis = axis + indices.ndim + 1 if axis < 0 else axis
        out = np.full(indices.shape[:axis] + (depth,) + indices.shape[axis:], values[0], values.dtype)
        for at in np.ndindex(indices.shape):
            i = int(indices[at])
            if -depth <= i < depth:
                out[at[:axis] + (i % depth,) + at[axis:]] = values[1]
        return (out,)


class Compress(OpRun):
    def _run(self, x, condition, axis=None):
        if axis is None:
            x, axis = x.reshape(-1), 0
        at = np.nonzero(condition[:x.shape[axis]])[0]
        return (np.take(x, at, axis),)


class Range(OpRun):
    def _run(self, start, limit, delta, stash_type=None):
        n = max(int(np.ceil((float(limit) - float(start)) / float(delta))), 0)
        return ((start + np.arange(n).astype(start.dtype) * delta).astype(start.dtype),)


class ReduceExtreme(OpRun):
    def _run(self, x, axes=None, keepdims=1, noop_with_empty_axes=0):
        if axes is None or axes.size == 0:
            if noop_with_empty_axes:
                return (x,)
            axes = np.arange(x.ndim)
        low, high = (False, True) if x.dtype == bool else (
            (-np.inf, np.inf) if x.dtype.kind == "f" else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max))
        f, initial = (np.max, low) if self.most else (np.min, high)
        return (np.asarray(f(x, axis=tuple(int(a) for a in axes), keepdims=bool(keepdims), initial=initial), x.dtype),)


class ReduceMax(ReduceExtreme):
    most = True


class ReduceMin(ReduceExtreme):
    most = False


class Softsign(OpRun):
    def _run(self, x):
        return (np.asarray(x / (1 + abs(x)), x.dtype),)


OPERATORS = [Loop, Scan, SequenceMap, SequenceInsert, SplitToSequence, Optional, Identity, OptionalGetElement, OptionalHasElement, LSTM, GRU, RNN,
             Gather, GatherElements, GatherND, ScatterElements, ScatterND, Unique, TopK, NonZero, NonMaxSuppression, Reshape, Expand,
             OneHot, Compress, Range, ReduceMax, ReduceMin, Softsign, Erf]


def evaluator(model):
    return ReferenceEvaluator(model, new_ops=OPERATORS)
