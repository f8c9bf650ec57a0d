"""random_programs.py: random ONNX programs of nested If, Loop and Scan, sequences and optionals, recurrent operators and sizes that
data decide, each valid whatever its inputs' dimensions are, 0 and 1 among them.

    p = Program(seed)          p.model: onnx.ModelProto        p.bindings(5): feeds, a dict of arrays and lists each

What a value is at most is known while it is made: its dtype, its rank, and dimensions that are numbers or symbols; equal symbols
are equal in every run. What depends on data or on the iteration gets a new symbol. Values that decide anything (conditions,
counts, orders) are exact: integers, or floats that no rounding has touched, or they are compared with a number that they will
not meet. Floats stay small, and no loop multiplies an error."""
import dataclasses
import random

import numpy as np
import onnx
from onnx import helper, numpy_helper

from reference_ops import Opt

ELEMENT = {"f4": 1, "f8": 11, "i8": 7, "i4": 6, "b1": 9, "u1": 2}
FLOATS, INTS = ("f4", "f8"), ("i8", "i4", "u1")
DEEPEST = 3


@dataclasses.dataclass(frozen=True)
class Value:
    name: str
    dtype: str
    shape: tuple = ()     # of each element, for sequences; a dimension that its elements do not share is None
    exact: bool = False
    kind: str = "tensor"  # or "sequence", "optional"
    least: int = 0        # elements of a sequence, at least

    @property
    def rank(self):
        return len(self.shape)

    def type(self, known=lambda d: False):
        """TypeProto; dimensions that `known` says are told."""
        dims = [d if isinstance(d, int) or d is not None and known(d) else None for d in self.shape]
        tensor = helper.make_tensor_type_proto(ELEMENT[self.dtype], dims)
        if self.kind == "sequence":
            return helper.make_sequence_type_proto(tensor)
        return helper.make_optional_type_proto(tensor) if self.kind == "optional" else tensor


def number(symbol):
    """Symbols are numbered as they are made; those of inputs come first."""
    return int(symbol[1:]) if symbol[1:].isdigit() else -1


class Block:
    """A graph that is being made: the program, a branch or a body."""

    def __init__(self, program, parent=None):
        self.p, self.parent = program, parent
        self.r = program.r
        self.depth = parent.depth + 1 if parent else 0
        self.nodes, self.initializers, self.own, self.inputs = [], [], [], []
        self.mark = program.symbols  # symbols below are the same in all iterations

    # ---- values
    def seen(self):
        return self.own + (self.parent.seen() if self.parent else [])

    def add(self, value):
        self.own.append(value)
        return value

    def input(self, like, shape=None, **changes):
        v = self.add(dataclasses.replace(like, name=self.p.name("i"), shape=like.shape if shape is None else shape, **changes))
        self.inputs.append(v)
        return v

    def fresh(self):
        return self.p.symbol()

    def pick(self, test=lambda v: True, kind="tensor"):
        """One that passes, the younger the likelier; else None."""
        found = [v for v in self.seen() if v.kind == kind and test(v)]
        if not found:
            return None
        own = [v for v in found if v in self.own]
        return self.r.choice(own[-6:] if own and self.r.random() < 0.7 else found)

    def const(self, array, exact=True):
        array = np.asarray(array)
        v = Value(self.p.name("c"), array.dtype.str[1:], array.shape, exact)
        if self.r.random() < 0.5:
            self.initializers.append(numpy_helper.from_array(array, v.name))
        else:
            self.nodes.append(helper.make_node("Constant", [], [v.name], value=numpy_helper.from_array(array)))
        return v

    def emit(self, op, operands, results, keep=True, **attributes):
        """`results`: (dtype, shape, exact) or Values without a name."""
        out = [Value(self.p.name("v"), *v) if isinstance(v, tuple) else dataclasses.replace(v, name=self.p.name("v")) for v in results]
        attributes = {k: v for k, v in attributes.items() if v is not None}
        names = [o.name if o else "" for o in operands]
        self.nodes.append(helper.make_node(op, names, [v.name for v in out], **attributes))
        self.p.used.update(names)
        if keep:
            self.own += out
        return out

    def op(self, name, operands, dtype, shape, exact=False, keep=True, **attributes):
        return self.emit(name, operands, [(dtype, tuple(shape), exact)], keep, **attributes)[0]

    def same(self, name, *operands, exact=False, keep=True, **attributes):
        return self.op(name, operands, operands[0].dtype, operands[0].shape, exact, keep, **attributes)

    # ---- conversions: what they make is not there to be picked, but for the result
    def number(self, v, dtype="i8"):
        return self.const(np.array(v, dtype))

    def small(self, v, bounded=False):
        """A float that does not grow."""
        if v.dtype not in FLOATS:
            return v
        if bounded or self.r.random() < 0.5:
            return self.same(self.r.choice(["Tanh", "Sin", "Softsign", "Sigmoid", "Erf" if not self.p.smooth else "Tanh"]), v)
        return self.same("Mul", v, self.const(np.array(0.5, v.dtype)))

    def cast(self, v, dtype):
        if v.dtype == dtype:
            return v
        if dtype == "b1":
            if v.dtype in FLOATS:
                return self.op("Greater", [v, self.const(np.array(0.1371 if not v.exact else 0.125, v.dtype))], "b1", v.shape, True)
            return self.op("Equal", [self.op("Mod", [v, self.const(np.array(2, v.dtype))], v.dtype, v.shape, True, False),
                                     self.const(np.array(0, v.dtype))], "b1", v.shape, True)
        if v.dtype in FLOATS and dtype not in FLOATS:
            if not v.exact:
                v = self.cast(v, "b1")
            elif dtype == "u1":
                v = self.same("Abs", v, exact=True, keep=False)
        if v.dtype in ("i8", "i4") and dtype == "u1":
            v = self.same("Mod", v, self.const(np.array(7, v.dtype)), exact=True, keep=False)
        return self.op("Cast", [v], dtype, v.shape, v.exact and dtype in INTS + FLOATS, to=ELEMENT[dtype])

    def sum_over(self, v, axes, keepdims=0):
        """Of floats and integers; integers stay small."""
        if v.dtype in ("b1", "u1"):
            v = self.cast(v, "i8")
        shape = [1 if i in axes else d for i, d in enumerate(v.shape) if keepdims or i not in axes]
        out = self.op("ReduceSum", [v, self.const(np.array(axes, "i8"))], v.dtype, shape, v.exact, keepdims=keepdims)
        if v.dtype in INTS:
            return self.same("Mod", out, self.const(np.array(11, v.dtype)), exact=True)
        return self.small(out) if self.depth and v.dtype in FLOATS else out

    def scalar(self, v):
        return self.sum_over(v, list(range(v.rank))) if v.rank else v

    def ranked(self, v, rank):
        if v.rank > rank:
            dtype = v.dtype
            return self.cast(self.sum_over(v, sorted(self.r.sample(range(v.rank), v.rank - rank))), dtype)
        if v.rank < rank:
            axes = sorted(self.r.sample(range(rank), rank - v.rank))
            dims = iter(v.shape)
            return self.op("Unsqueeze", [v, self.const(np.array(axes, "i8"))], v.dtype, [1 if i in axes else next(dims) for i in range(rank)], v.exact)
        return v

    def any(self, dtypes=None, rank=None, exact=None):
        """A tensor of one of these dtypes and of this rank (or of one of these), converted where there is none."""
        ranks = None if rank is None else rank if isinstance(rank, tuple) else (rank,)
        fits = lambda v: (not dtypes or v.dtype in dtypes) and (ranks is None or v.rank in ranks) and (not exact or v.exact)
        v = self.pick(fits)
        if v and self.r.random() < 0.9:
            return v
        v = self.pick(lambda v: not exact or v.exact or v.dtype not in FLOATS) or self.number(3)
        dtype = v.dtype if not dtypes or v.dtype in dtypes else self.r.choice(dtypes)
        v = self.cast(v, dtype)
        if ranks and v.rank not in ranks:
            v = self.cast(self.ranked(v, self.r.choice(ranks)), dtype)
        if exact and not v.exact:
            v = self.const(np.array(self.r.randrange(4), dtype))
            v = self.ranked(v, self.r.choice(ranks)) if ranks else v
        return v

    def like(self, v):
        """A value of this dtype and shape."""
        fits = lambda u: u.dtype == v.dtype and u.shape == v.shape and u.name != v.name
        found = self.pick(lambda u: fits(u) and u in self.own and u not in self.inputs) or self.pick(fits)
        if found and self.r.random() < (0.9 if found in self.own and found not in self.inputs else 0.3):
            return found
        s = self.cast(self.scalar(self.any()), v.dtype)
        return self.combine(v, s)

    def combine(self, a, b):
        """Of one dtype; the shape of the first, that of the second broadcasts to it."""
        if a.dtype == "b1":
            return self.op(self.r.choice(["And", "Or", "Xor"]), [a, b], "b1", a.shape, True)
        if a.dtype in FLOATS:
            name = self.r.choice(["Add", "Sub", "Mul", "Add", "Max", "Min"] if not self.p.smooth else ["Add", "Sub", "Mul"])
            exact = a.exact and b.exact and not self.depth and name != "Mul"
            out = self.op(name, [a, b], a.dtype, a.shape, exact)
            return self.small(out, name == "Mul") if name == "Mul" or self.depth and name not in ("Max", "Min") else out
        name = self.r.choice(["Add", "Mul", "Max", "Min"] + (["Sub"] if a.dtype != "u1" else []))
        out = self.op(name, [a, b], a.dtype, a.shape, True, keep=name in ("Max", "Min"))
        return out if name in ("Max", "Min") else self.op("Mod", [out, self.const(np.array(13, a.dtype))], a.dtype, a.shape, True)

    def condition(self):
        how = self.r.randrange(5)
        v = self.pick(lambda v: v.dtype == "b1" and not v.shape)
        if v and how < 2:
            return v if how or self.r.random() < 0.7 else self.op("Not", [v], "b1", (), True)
        if how == 2:
            return self.op(self.r.choice(["Less", "GreaterOrEqual", "Equal"]), [self.scalar(self.any(("i8",))), self.number(self.r.randrange(4))],
                           "b1", (), True)
        if how == 3:
            o = self.pick(kind="optional")
            if o:
                return self.op("OptionalHasElement", [o], "b1", (), True)
            s = self.pick(kind="sequence")
            if s:
                n = self.op("SequenceLength", [s], "i8", (), True)
                return self.op("Greater", [n, self.number(self.r.randrange(3))], "b1", (), True)
        v = self.scalar(self.any(FLOATS))
        return self.op(self.r.choice(["Less", "Greater"]), [v, self.const(np.array(0.3137, v.dtype))], "b1", (), True)

    def count(self, most=4):
        """An integer from 0 to `most`."""
        how = self.r.randrange(4)
        trips = [v for v in self.seen() if v.name in self.p.trips]
        if how == 0 and trips:
            return self.r.choice(trips)
        if how == 1:
            return self.number(self.r.randrange(most + 1))
        if how == 2:
            v = self.any(rank=(1, 2, 3))
            n = self.op("Size", [v], "i8", (), True)
        else:
            n = self.scalar(self.any(("i8",)))
        return self.same("Mod", n, self.number(most + 1), exact=True)

    def extent(self, v, axis):
        """As a vector of one element."""
        shape = self.op("Shape", [v], "i8", (v.rank,), True, keep=False)
        return self.op("Gather", [shape, self.const(np.array([axis]))], "i8", (1,), True, keep=False)

    # ---- a graph of what has been made
    def own_or_copy(self, v):
        if v in self.own and v not in self.inputs:
            return v
        if v in self.inputs and self.r.random() < 0.3:
            return v  # from an input to an output
        return self.emit("Identity", [v], [v])[0]

    def graph(self, outputs):
        known = lambda d: number(d) < self.mark and self.p.named(d)
        info = lambda v: helper.make_value_info(v.name, v.type(known))
        return helper.make_graph(self.nodes, self.p.name("g"), [info(v) for v in self.inputs], [info(v) for v in outputs], self.initializers)

    def steps(self, n):
        for _ in range(n):
            if self.p.size() > self.p.most:
                return
            self.r.choices(self.p.makers, self.p.weights)[0](self)


# ---- element-wise, reductions, movement
def unary(b):
    v = b.any()
    if v.dtype in FLOATS:
        name = b.r.choice(["Tanh", "Sigmoid", "Sin", "Cos", "Softsign", "Softplus", "Erf"] if b.p.smooth else
                          ["Neg", "Abs", "Relu", "Tanh", "Sigmoid", "Sin", "Cos", "Softsign", "Softplus", "Elu", "LeakyRelu", "Erf", "HardSigmoid"])
        return b.same(name, v, exact=v.exact and name in ("Neg", "Abs", "Relu"))
    if v.dtype == "b1":
        return b.op("Not", [v], "b1", v.shape, True)
    return b.combine(v, b.number(b.r.randrange(5), v.dtype))


def binary(b):
    a = b.any()
    how = b.r.randrange(4)
    if how == 0 and a.rank and a.dtype in FLOATS:
        axis = b.r.randrange(a.rank)
        return b.combine(a, b.cast(b.sum_over(a, [axis], keepdims=1), a.dtype))
    if how == 1 and a.rank and isinstance(a.shape[-1], int):
        data = np.array([b.r.randrange(-4, 5) / 4 if a.dtype in FLOATS else b.r.randrange(5) for _ in range(a.shape[-1])]).astype(a.dtype)
        return b.combine(a, b.const(data))
    return b.combine(a, b.like(a))


def compare(b):
    a = b.any(FLOATS + INTS, exact=True)
    return b.op(b.r.choice(["Less", "Greater", "Equal", "GreaterOrEqual", "LessOrEqual"]), [a, b.const(np.array(b.r.randrange(3), a.dtype))], "b1", a.shape, True)


def where(b):
    v = b.any()
    other = b.like(v)
    c = b.pick(lambda c: c.dtype == "b1" and c.shape in (v.shape, ())) or b.condition()
    return b.op("Where", [c, v, other], v.dtype, v.shape, v.exact and other.exact)


def cast(b):
    v = b.any()
    return b.cast(v, b.r.choice([d for d in b.p.dtypes if d != v.dtype] or [v.dtype]))


def reduce(b):
    v = b.any(rank=(1, 2, 3))
    return b.sum_over(v, sorted(b.r.sample(range(v.rank), b.r.randint(1, v.rank))), b.r.randrange(2))


def matmul(b):
    v = b.any(FLOATS, (2, 3))
    n = b.r.randint(1, 4)
    k = v.shape[-1]
    if isinstance(k, int):
        w = b.const(np.array([[b.r.randrange(-4, 5) / 8 for _ in range(n)] for _ in range(k)]).astype(v.dtype).reshape(k, n))
        return b.small(b.op("MatMul", [v, w], v.dtype, v.shape[:-1] + (n,)))
    perm = list(range(v.rank - 2)) + [v.rank - 1, v.rank - 2]
    t = b.op("Transpose", [v], v.dtype, [v.shape[i] for i in perm], v.exact, perm=perm)
    return b.small(b.op("MatMul", [v, t], v.dtype, v.shape[:-1] + (v.shape[-2],)), bounded=True)


def softmax(b):
    v = b.any(FLOATS, (1, 2, 3))
    if isinstance(v.shape[-1], int):
        return b.same("Softmax", v, axis=-1)
    return b.small(b.same("CumSum", v, b.number(b.r.randrange(v.rank)), exclusive=b.r.randrange(2), reverse=b.r.randrange(2)))


def transpose(b):
    v = b.any(rank=(2, 3))
    perm = b.r.sample(range(v.rank), v.rank)
    return b.op("Transpose", [v], v.dtype, [v.shape[i] for i in perm], v.exact, perm=perm)


def concat(b):
    v = b.any(rank=(1, 2, 3))
    axis = b.r.randrange(v.rank)
    fits = lambda u: u.dtype == v.dtype and u.rank == v.rank and all(d == e for i, (d, e) in enumerate(zip(u.shape, v.shape)) if i != axis)
    parts = [v] + [b.pick(fits) for _ in range(b.r.randint(1, 2))]
    total = sum(p.shape[axis] for p in parts) if all(isinstance(p.shape[axis], int) for p in parts) else b.fresh()
    return b.op("Concat", parts, v.dtype, v.shape[:axis] + (total,) + v.shape[axis + 1:], all(p.exact for p in parts), axis=axis)


def constant_slice(b):
    v = b.any(rank=(1, 2, 3))
    axis = b.r.randrange(v.rank)
    start, end, step = b.r.randrange(-3, 3), b.r.choice([b.r.randrange(-3, 6), 2**40]), b.r.choice([1, 1, 2])
    if b.r.random() < 0.2:
        start, end, step = 2**40, -2**40, -1
    d = v.shape[axis]
    d = len(range(d)[start:end:step]) if isinstance(d, int) else d if step == -1 else b.fresh()
    one = lambda k: b.const(np.array([k]))
    return b.op("Slice", [v, one(start), one(end), one(axis), one(step)], v.dtype, v.shape[:axis] + (d,) + v.shape[axis + 1:], v.exact)


def pad(b):
    v = b.any(FLOATS, (1, 2))
    pads = [b.r.randrange(3) for _ in range(2 * v.rank)]
    dims = [d + pads[i] + pads[i + v.rank] if isinstance(d, int) else d if pads[i] + pads[i + v.rank] == 0 else b.fresh() for i, d in enumerate(v.shape)]
    return b.op("Pad", [v, b.const(np.array(pads))], v.dtype, dims, v.exact)


def split(b):
    v = b.pick(lambda v: v.rank and any(isinstance(d, int) and d >= 2 for d in v.shape))
    if v:
        axis = b.r.choice([i for i, d in enumerate(v.shape) if isinstance(d, int) and d >= 2])
        first = b.r.randint(1, v.shape[axis] - 1)
        sizes = [first, v.shape[axis] - first]
        b.emit("Split", [v, b.const(np.array(sizes))], [(v.dtype, v.shape[:axis] + (s,) + v.shape[axis + 1:], v.exact) for s in sizes], axis=axis)


# ---- by computed sizes
def reshape(b):
    v = b.any(rank=(1, 2, 3))
    how = b.r.randrange(3)
    if how == 0 or v.rank == 1:
        return b.op("Reshape", [v, b.const(np.array([-1]))], v.dtype, (v.shape[0] if v.rank == 1 else b.fresh(),), v.exact)
    if how == 1:
        at = b.r.randrange(v.rank - 1)  # joins two axes by a product of extents
        ends = [b.extent(v, i) for i in range(v.rank)]
        parts = ends[:at] + [b.op("Mul", ends[at:at + 2], "i8", (1,), True, False)] + ends[at + 2:]
        target = b.op("Concat", parts, "i8", (len(parts),), True, False, axis=0)
        d, e = v.shape[at:at + 2]
        joined = d * e if isinstance(d, int) and isinstance(e, int) else b.fresh()
        return b.op("Reshape", [v, target], v.dtype, v.shape[:at] + (joined,) + v.shape[at + 2:], v.exact, allowzero=1)
    other = b.pick(lambda u: u.shape and sorted(map(str, u.shape)) == sorted(map(str, v.shape)))
    target = b.op("Shape", [other], "i8", (other.rank,), True, False)
    return b.op("Reshape", [v, target], v.dtype, other.shape, v.exact, allowzero=1)


def expand(b):
    v = b.any(rank=(0, 1, 2))
    n = b.count(3)
    first = b.op("Reshape", [n, b.const(np.array([1]))], "i8", (1,), True, False)
    target = b.op("Concat", [first, b.op("Shape", [v], "i8", (v.rank,), True, False)], "i8", (v.rank + 1,), True, False, axis=0) if v.rank else first
    return b.op("Expand", [v, target], v.dtype, (b.fresh(),) + v.shape, v.exact)


def slice_by_data(b):
    v = b.any(rank=(1, 2, 3))
    axis = b.r.randrange(v.rank)
    vector = lambda: b.op("Reshape", [b.count(5), b.const(np.array([1]))], "i8", (1,), True, False)
    return b.op("Slice", [v, vector(), vector(), b.const(np.array([axis]))], v.dtype, v.shape[:axis] + (b.fresh(),) + v.shape[axis + 1:], v.exact)


def range_of(b):
    return b.op("Range", [b.number(b.r.randrange(-2, 2)), b.count(), b.number(b.r.randint(1, 2))], "i8", (b.fresh(),), True)


def tile(b):
    v = b.any(rank=(1, 2))
    n = b.op("Reshape", [b.count(3), b.const(np.array([1]))], "i8", (1,), True, False)
    repeats = n if v.rank == 1 else b.op("Concat", [n, b.const(np.array([1]))], "i8", (2,), True, False, axis=0)
    return b.op("Tile", [v, repeats], v.dtype, (b.fresh(),) + v.shape[1:], v.exact)


# ---- by data
def non_zero(b):
    v = b.any(INTS + ("b1",), (1, 2, 3))
    return b.op("NonZero", [v], "i8", (v.rank, b.fresh()), True)


def compress(b):
    v = b.any(rank=(1, 2, 3))
    axis = b.r.randrange(v.rank)
    c = b.cast(b.sum_over(v, [i for i in range(v.rank) if i != axis]) if v.rank > 1 else v, "b1")
    return b.op("Compress", [v, c], v.dtype, v.shape[:axis] + (b.fresh(),) + v.shape[axis + 1:], v.exact, axis=axis)


def unique(b):
    axis = None if b.r.random() < 0.6 else 0
    v = b.any(INTS if b.r.random() < 0.7 else FLOATS, (1, 2), exact=True)
    if v.dtype in ("u1", "i4"):
        v = b.cast(v, "i8")
    u = b.fresh()
    n = b.r.randint(1, 4)
    inverse = b.fresh() if axis is None and v.rank > 1 else v.shape[0]
    shape = (u,) if axis is None else (u,) + v.shape[1:]
    if axis == 0 and any(not isinstance(d, int) for d in v.shape[1:]):
        return None  # rows of no elements: whether they are equal engines disagree on
    return b.emit("Unique", [v], [(v.dtype, shape, True), ("i8", (u,), True), ("i8", (inverse,), True), ("i8", (u,), True)][:n],
                  axis=axis, sorted=b.r.randrange(2))


def top_k(b):
    v = b.any(FLOATS + ("i8", "i4"), (1, 2, 3), exact=True)
    axis = b.r.randrange(v.rank)
    n = b.op("Reshape", [b.count(), b.const(np.array([1]))], "i8", (1,), True, False)
    k = b.op("Min", [n, b.extent(v, axis)], "i8", (1,), True, False)
    shape = v.shape[:axis] + (b.fresh(),) + v.shape[axis + 1:]
    return b.emit("TopK", [v, k], [(v.dtype, shape, True), ("i8", shape, True)], axis=axis, largest=b.r.randrange(2), sorted=1)


def suppress(b):
    v = b.any(("f4",), (1, 2, 3), exact=True)
    flat = b.op("Reshape", [v, b.const(np.array([-1]))], "f4", (b.fresh(),), True, False)
    padded = b.op("Concat", [flat, b.const(np.array([0, 0, 2, 2, 1, 1, 3, 3, 0, 0, 2, 1.5], "f4"))], "f4", (b.fresh(),), True, False, axis=0)
    size = b.op("Size", [padded], "i8", (), True, False)
    whole = b.op("Mul", [b.op("Div", [size, b.number(4)], "i8", (), True, False), b.number(4)], "i8", (), True, False)
    end = b.op("Reshape", [whole, b.const(np.array([1]))], "i8", (1,), True, False)
    n = b.fresh()
    boxes = b.op("Slice", [padded, b.const(np.array([0])), end], "f4", (b.fresh(),), True, False)
    boxes = b.op("Reshape", [boxes, b.const(np.array([1, -1, 4]))], "f4", (1, n, 4), True, False)
    scores = b.op("Reshape", [b.op("ReduceSum", [boxes, b.const(np.array([2]))], "f4", (1, n), True, False, keepdims=0), b.const(np.array([1, 1, -1]))],
                  "f4", (1, 1, n), True, False)
    most = b.op("Reshape", [b.count(), b.const(np.array([1]))], "i8", (1,), True, False)
    least = b.const(np.array([b.r.choice([-1.03, 0.53])], "f4")) if b.r.random() < 0.5 else None
    operands = [boxes, scores, most, b.const(np.array([0.4321], "f4"))] + ([least] if least else [])
    return b.op("NonMaxSuppression", operands, "i8", (b.fresh(), 3), True)


def indices_into(b, v, axis, exact_shape=False):
    """Indices of `axis`: as many as it is long, so that there are none where it has nothing."""
    end = b.extent(v, axis)
    scalar = b.op("Reshape", [end, b.const(np.array([], "i8"))], "i8", (), True, False)
    r = b.op("Range", [b.number(0), scalar, b.number(1)], "i8", (v.shape[axis],), True, False)
    if b.r.random() < 0.5:
        r = b.op("Sub", [b.op("Sub", [scalar, b.number(1)], "i8", (), True, False), r], "i8", (v.shape[axis],), True, False)
    elif not exact_shape:
        step = b.op("Mul", [r, b.number(b.r.randint(1, 3))], "i8", (v.shape[axis],), True, False)
        one = b.op("Max", [end, b.const(np.array([1]))], "i8", (1,), True, False)
        r = b.op("Mod", [step, one], "i8", (v.shape[axis],), True, False)
    if b.r.random() < 0.3:
        r = b.op("Sub", [r, end], "i8", (v.shape[axis],), True, False)  # from the end
    return r


def gather(b):
    v = b.any(rank=(1, 2, 3))
    axis = b.r.randrange(v.rank)
    i = indices_into(b, v, axis)
    if b.r.random() < 0.3:
        i = b.op("Unsqueeze", [i, b.const(np.array([0]))], "i8", (1,) + i.shape, True)
    return b.op("Gather", [v, i], v.dtype, v.shape[:axis] + i.shape + v.shape[axis + 1:], v.exact, axis=axis)


def gather_elements(b):
    v = b.any(rank=(1, 2))
    axis = b.r.randrange(v.rank)
    i = indices_into(b, v, axis)
    if v.rank == 2:
        i = b.op("Unsqueeze", [i, b.const(np.array([1 - axis]))], "i8", (1, i.shape[0])[::1 if axis else -1], True, False)
        i = b.op("Expand", [i, b.op("Shape", [v], "i8", (2,), True, False)], "i8", v.shape, True, False)
    return b.op("GatherElements", [v, i], v.dtype, v.shape, v.exact, axis=axis)


def gather_nd(b):
    v = b.any(rank=(1, 2, 3))
    i = b.op("Unsqueeze", [indices_into(b, v, 0), b.const(np.array([1]))], "i8", (v.shape[0], 1), True, False)
    return b.op("GatherND", [v, i], v.dtype, (v.shape[0],) + v.shape[1:], v.exact)


def scatter(b):
    v = b.any(FLOATS + ("i8", "i4"), (1, 2))
    i = indices_into(b, v, 0, exact_shape=True)
    updates = b.like(v)
    exact = v.exact and updates.exact
    how = b.r.choice([None, "add"]) if not b.depth else None
    if b.r.random() < 0.5:
        i = b.op("Unsqueeze", [i, b.const(np.array([1]))], "i8", (v.shape[0], 1), True, False)
        return b.op("ScatterND", [v, i, updates], v.dtype, v.shape, exact and not how or v.dtype in INTS, reduction=how)
    if v.rank == 2:
        i = b.op("Unsqueeze", [i, b.const(np.array([1]))], "i8", (v.shape[0], 1), True, False)
        i = b.op("Expand", [i, b.op("Shape", [v], "i8", (2,), True, False)], "i8", v.shape, True, False)
    return b.op("ScatterElements", [v, i, updates], v.dtype, v.shape, exact and not how or v.dtype in INTS, axis=0, reduction=how)


def one_hot(b):
    v = b.any(("i8", "i4"), (1, 2))
    depth = b.r.randint(1, 4) if b.r.random() < 0.5 else None
    d = b.number(depth) if depth else b.same("Add", b.count(3), b.number(1), exact=True)
    values = b.const(np.array([0, 1] if b.r.random() < 0.5 else [-0.5, 2], "f4"))
    axis = b.r.randint(0, v.rank)
    return b.op("OneHot", [v, d, values], "f4", v.shape[:axis] + (depth or b.fresh(),) + v.shape[axis:], True, axis=axis)


# ---- recurrent operators
def recurrent(b):
    r = b.r
    kind = r.choice(["LSTM", "GRU", "RNN"])
    gates, functions = {"LSTM": (4, 3), "GRU": (3, 2), "RNN": (1, 1)}[kind]
    x = b.any(FLOATS, 3)
    if not isinstance(x.shape[2], int):
        x = b.sum_over(x, [2], keepdims=1)
    hidden, inner, dtype = r.randint(1, 3), x.shape[2], x.dtype
    direction = r.choice(["forward", "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1
    layout = r.randrange(2) if b.p.opset >= 14 and r.random() < 0.4 else 0
    steps, batch = x.shape[:2] if not layout else x.shape[1::-1]
    weight = lambda *shape: b.const((np.array([r.randrange(-8, 9) / 12 for _ in range(int(np.prod(shape)))])).astype(dtype).reshape(shape))
    some = lambda make: make() if r.random() < 0.5 else None
    attributes = {"hidden_size": hidden, "direction": direction, "layout": layout or None}
    if r.random() < 0.4:
        names = (["Tanh", "Sigmoid", "Softsign", "Softplus"] if b.p.smooth else
                 ["Tanh", "Sigmoid", "Relu", "Softsign", "Softplus", "Elu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu"])
        attributes["activations"] = [r.choice(names) for _ in range(functions * ways)]
        if r.random() < 0.3:
            one = r.choice(["Tanh", "ScaledTanh"] if b.p.smooth else ["LeakyRelu", "Elu", "HardSigmoid", "ScaledTanh", "Affine"])
            attributes["activations"] = [one] * (functions * ways)
            if one != "Tanh":
                attributes["activation_alpha"] = [r.choice([0.25, 0.4]) for _ in range(functions * ways)]
                if one in ("HardSigmoid", "ScaledTanh", "Affine"):
                    attributes["activation_beta"] = [r.choice([0.25, 0.5]) for _ in range(functions * ways)]
    if r.random() < 0.25 and not b.p.smooth:
        attributes["clip"] = r.choice([0.5, 1.25])
    lens = None
    if r.random() < 0.35:
        ones = lambda i: b.op("Reshape", [b.extent(x, i), b.const(np.array([], "i8"))], "i8", (), True, False)
        t, n = ones(layout), ones(1 - layout)
        count = b.op("Range", [b.number(1), b.op("Add", [n, b.number(1)], "i8", (), True, False), b.number(1)], "i8", (batch,), True, False)
        lens = b.cast(b.op("Min", [count, t], "i8", (batch,), True, False), "i4")
    state = (ways, batch, hidden) if not layout else (batch, ways, hidden)

    def initial():
        dims = [b.const(np.array([ways])), b.extent(x, 1 - layout), b.const(np.array([hidden]))]
        dims = [dims[1], dims[0], dims[2]] if layout else dims
        target = b.op("Concat", dims, "i8", (3,), True, False, axis=0)
        return b.op("Expand", [b.const(np.full((1, 1, 1), 0.375, dtype)), target], dtype, state, True, False)

    operands = [x, weight(ways, gates * hidden, inner), weight(ways, gates * hidden, hidden), some(lambda: weight(ways, 2 * gates * hidden)),
                lens, some(initial)]
    if kind == "LSTM":
        operands += [some(initial), some(lambda: weight(ways, 3 * hidden))]
        attributes["input_forget"] = 1 if r.random() < 0.25 else None
    if kind == "GRU":
        attributes["linear_before_reset"] = r.randrange(2)
    while operands[-1] is None:
        operands.pop()
    y = (steps, ways, batch, hidden) if not layout else (batch, steps, ways, hidden)
    b.emit(kind, operands, [(dtype, y, False), (dtype, state, False), (dtype, state, False)][:3 if kind == "LSTM" else 2], **attributes)


# ---- sequences and optionals
def merged(shapes):
    return tuple(d if all(s[i] == d for s in shapes) else None for i, d in enumerate(shapes[0]))


def element(b, s):
    """A value of what the sequence takes."""
    return b.any((s.dtype,), s.rank)


def construct(b):
    first = b.any()
    parts = [first] + [b.any((first.dtype,), first.rank) for _ in range(b.r.randrange(3))]
    b.emit("SequenceConstruct", parts, [Value("", first.dtype, merged([v.shape for v in parts]), all(v.exact for v in parts), "sequence", len(parts))])


def empty_sequence(b):
    v = b.any()
    b.emit("SequenceEmpty", [], [Value("", v.dtype, v.shape, v.exact, "sequence", 0)], dtype=ELEMENT[v.dtype])


def insert(b):
    s = b.pick(kind="sequence")
    if s:
        v = element(b, s)
        at = [b.number(b.r.randint(-s.least, s.least), b.r.choice(["i8", "i4"]))] if b.r.random() < 0.5 else []
        shape = merged([s.shape, v.shape])
        b.emit("SequenceInsert", [s, v] + at, [dataclasses.replace(s, shape=shape, exact=s.exact and v.exact, least=s.least + 1)])


def erase(b):
    s = b.pick(lambda s: s.least, "sequence")
    if s:
        at = [b.number(b.r.randrange(-s.least, s.least))] if b.r.random() < 0.5 else []
        b.emit("SequenceErase", [s] + at, [dataclasses.replace(s, least=s.least - 1)])


def at(b):
    s = b.pick(lambda s: s.least, "sequence")
    if s:
        if b.r.random() < 0.4:  # by data
            n = b.op("SequenceLength", [s], "i8", (), True)
            i = b.op("Mod", [b.scalar(b.any(("i8",))), n], "i8", (), True)
        else:
            i = b.number(b.r.randrange(-s.least, s.least))
        b.op("SequenceAt", [s, i], s.dtype, [b.fresh() if d is None else d for d in s.shape], s.exact)


def length(b):
    s = b.pick(kind="sequence")
    if s:
        b.op("SequenceLength", [s], "i8", (), True)


def split_to_sequence(b):
    v = b.any(rank=(1, 2, 3))
    axis = b.r.randrange(v.rank)
    d = v.shape[axis]
    how = b.r.randrange(4)
    if how == 3 and isinstance(d, int) and d >= 2:
        first = b.r.randint(0, d)
        operands, each, least = [v, b.const(np.array([first, d - first]))], None, 2
    elif how == 2:
        operands, each, least = [v, b.number(b.r.randint(1, 3))], None, 0
    else:
        operands, each, least = [v], 1, d if isinstance(d, int) else 0
    keep = b.r.randrange(2)
    shape = v.shape[:axis] + (each,) + v.shape[axis + 1:]
    if len(operands) == 1 and not keep:
        shape = v.shape[:axis] + v.shape[axis + 1:]
    b.emit("SplitToSequence", operands, [Value("", v.dtype, shape, v.exact, "sequence", least)], axis=axis, keepdims=keep)


def concat_from_sequence(b):
    s = b.pick(lambda s: s.least and s.rank and s.shape.count(None) <= 1, "sequence")
    if s:
        if None in s.shape or b.r.random() < 0.5:
            axis = s.shape.index(None) if None in s.shape else b.r.randrange(s.rank)
            return b.op("ConcatFromSequence", [s], s.dtype, s.shape[:axis] + (b.fresh(),) + s.shape[axis + 1:], s.exact, axis=axis)
        axis = b.r.randint(0, s.rank)
        return b.op("ConcatFromSequence", [s], s.dtype, s.shape[:axis] + (b.fresh(),) + s.shape[axis:], s.exact, axis=axis, new_axis=1)


def sequence_map(b):
    s = b.pick(kind="sequence")
    if s and b.depth < DEEPEST and b.p.opset >= 17:
        body = Block(b.p, b)
        body.input(Value("", s.dtype, tuple(b.fresh() if d is None else d for d in s.shape), s.exact))
        more = [b.any() for _ in range(b.r.randrange(2))]
        for v in more:
            body.input(v)
        body.steps(b.r.randint(1, 3))
        outs = [body.own_or_copy(body.pick(lambda v: v in body.own)) for _ in range(b.r.randint(1, 2))]
        results = [Value("", v.dtype, tuple(d if isinstance(d, int) or number(d) < body.mark else None for d in v.shape), v.exact and v.dtype not in FLOATS,
                         "sequence", s.least) for v in outs]
        b.emit("SequenceMap", [s] + more, results, body=body.graph(outs))


def optional(b):
    v = b.any()
    if b.p.opset >= 15:
        if b.r.random() < 0.7:
            b.emit("Optional", [v], [dataclasses.replace(v, kind="optional")])
        else:
            b.emit("Optional", [], [dataclasses.replace(v, kind="optional", exact=False)], type=helper.make_tensor_type_proto(ELEMENT[v.dtype], None))


def get_element(b):
    """Where there is one; else something else."""
    o = b.pick(kind="optional")
    if o and b.depth < DEEPEST and b.p.opset >= 18:
        has = b.op("OptionalHasElement", [o], "b1", (), True)
        yes, no = Block(b.p, b), Block(b.p, b)
        v = yes.op("OptionalGetElement", [o], o.dtype, [b.fresh() for _ in o.shape], False)
        w = no.own_or_copy(no.any((o.dtype,), o.rank))
        b.emit("If", [has], [(o.dtype, tuple(b.fresh() for _ in o.shape), o.exact and w.exact and o.dtype not in FLOATS)],
               then_branch=yes.graph([v]), else_branch=no.graph([w]))


# ---- control flow
def joined(b, mark, v, w):
    """What If gives of v and w."""
    shape = tuple(d if d == e and (isinstance(d, int) or d is None or number(d) < mark) else None if v.kind == "sequence" else b.fresh()
                  for d, e in zip(v.shape, w.shape))
    return Value("", v.dtype, shape, v.exact and w.exact, v.kind, min(v.least, w.least))


def branch(b):
    if b.depth >= DEEPEST:
        return
    cond = b.condition()
    yes, no = Block(b.p, b), Block(b.p, b)
    yes.steps(b.r.randint(1, 5))
    no.steps(b.r.randint(0, 5))
    then_outs, else_outs, results = [], [], []
    for _ in range(b.r.randint(1, 3)):
        kind = b.r.choices(["tensor", "sequence", "optional"], [8, 2, 1])[0]
        v = yes.pick(kind=kind)
        w = v and (no.any((v.dtype,), v.rank) if kind == "tensor" else no.pick(lambda w: w.dtype == v.dtype and w.rank == v.rank, kind))
        if not w:
            continue
        then_outs.append(branch_output(yes, v))
        else_outs.append(branch_output(no, w))
        results.append(joined(b, yes.mark, v, w))
    if not results:
        v, w = branch_output(yes, yes.any()), None
        w = branch_output(no, no.any((v.dtype,), v.rank))
        then_outs, else_outs, results = [v], [w], [joined(b, yes.mark, v, w)]
    graphs = {"then_branch": yes.graph(then_outs), "else_branch": no.graph(else_outs)}
    b.emit("If", [cond], results, **graphs)


def branch_output(b, v):
    return v if v in b.own else b.emit("Identity", [v], [v])[0]


def distinct(b, outs):
    """Outputs of a body, each its own value."""
    seen, out = set(), []
    for v in outs:
        out.append(b.emit("Identity", [v], [v])[0] if v.name in seen else v)
        seen.add(out[-1].name)
    return out


def stays(b, v):
    return all(isinstance(d, int) or number(d) < b.mark for d in v.shape)


def next_state(body, state, how):
    """What an iteration makes of a state."""
    if state.kind == "sequence":
        v = element(body, state)
        return body.emit("SequenceInsert", [state, v], [dataclasses.replace(state, shape=merged([state.shape, v.shape]))])[0]
    if state.kind == "optional":
        return body.emit("Optional", [body.any((state.dtype,), state.rank)], [state])[0]
    if how == "keep":
        return body.like(state)
    if how == "grow":
        piece = body.op("Slice", [state, body.const(np.array([0])), body.const(np.array([1]))], state.dtype, (body.fresh(),) + state.shape[1:], state.exact)
        return body.op("Concat", [state, piece] if body.r.random() < 0.5 else [piece, state], state.dtype, (body.fresh(),) + state.shape[1:], False, axis=0)
    return body.op("Slice", [state, body.const(np.array([1])), body.const(np.array([2**40]))], state.dtype, (body.fresh(),) + state.shape[1:], False)


def initial_states(b, body, kinds):
    """(outside, inside, how) of each."""
    out = []
    for _ in range(b.r.randint(1, 3)):
        kind = b.r.choices(["tensor", "sequence", "optional"], kinds)[0]
        if kind != "tensor":
            v = b.pick(kind=kind)
            if v:  # elements of what rank an iteration inserts is that of the sequence, of what dimensions anything
                out.append((v, body.input(v, (None,) * v.rank, exact=False), "keep"))
            continue
        v = b.any()
        how = b.r.choice(["keep", "keep", "keep", "grow", "shrink"]) if v.rank and kinds[1] else "keep"
        shape = v.shape if how == "keep" else (b.fresh(),) + v.shape[1:]
        out.append((v, body.input(v, shape, exact=v.exact and v.dtype not in FLOATS), how))
    return out


def after(b, v, how):
    """What a state is behind its loop."""
    if v.kind == "optional":
        return dataclasses.replace(v, shape=(None,) * v.rank, exact=False)
    if v.kind == "sequence":
        return dataclasses.replace(v, shape=(None,) * v.rank, exact=False)
    return dataclasses.replace(v, shape=v.shape if how == "keep" else (b.fresh(),) + v.shape[1:], exact=v.dtype not in FLOATS)


def results_of(body, most):
    """What a body gives to be stacked: of one shape in all iterations."""
    out = []
    for _ in range(body.r.randint(0, most)):
        v = body.pick(lambda v: stays(body, v) and (v in body.own or body.r.random() < 0.2) and v.rank < 4)
        if v:
            out.append(body.own_or_copy(v))
    return out


def loop(b):
    if b.depth >= DEEPEST:
        return
    r = b.r
    body = Block(b.p, b)
    i = body.input(Value("", "i8", (), True))
    go = body.input(Value("", "b1", (), True))
    states = initial_states(b, body, [6, 0, 0] if b.p.smooth else [6, 2, 1])
    trips = b.count() if r.random() < 0.75 else None
    cond = b.condition() if r.random() < 0.3 else None
    body.mark = min([b.p.symbols] + [number(inside.shape[0]) for _, inside, how in states if how != "keep"])
    body.steps(r.randint(2, 6))
    new = [body.own_or_copy(next_state(body, inside, how)) for _, inside, how in states]
    stacked = results_of(body, 2)
    bound = lambda: body.op("Less", [i, body.number(r.randint(0, 3))], "b1", (), True)
    if trips is None:
        again = bound()
        if r.random() < 0.5:
            again = body.op("And", [again, body.condition()], "b1", (), True)
    else:
        again = r.choice([lambda: go, lambda: body.emit("Identity", [go], [go])[0], lambda: body.own_or_copy(body.const(np.array(True))), bound,
                          body.condition])()
    outs = distinct(body, [again if again in body.inputs else body.own_or_copy(again)] + new + stacked)
    results = [after(b, v, how) for v, _, how in states]
    results += [(v.dtype, (b.fresh(),) + v.shape, v.exact and v.dtype not in FLOATS) for v in stacked]
    if not results:
        return
    b.emit("Loop", [trips, cond] + [v for v, _, _ in states], results, body=body.graph(outs))


def scan(b):
    if b.depth >= DEEPEST:
        return
    r = b.r
    first = b.any(rank=(1, 2, 3))
    axis = r.randrange(first.rank)
    sliced, axes = [first], [axis]
    other = b.pick(lambda v: first.shape[axis] in v.shape) if r.random() < 0.4 else None
    if other:
        sliced.append(other)
        axes.append(other.shape.index(first.shape[axis]))
    body = Block(b.p, b)
    states = initial_states(b, body, [1, 0, 0]) if r.random() < 0.8 else []
    for v, a in zip(sliced, axes):
        body.input(v, v.shape[:a] + v.shape[a + 1:], exact=v.exact and v.dtype not in FLOATS)
    body.steps(r.randint(2, 6))
    new = [body.own_or_copy(next_state(body, inside, how)) for _, inside, how in states]
    stacked = results_of(body, 2)
    if not new + stacked:
        stacked = [body.emit("Identity", [body.inputs[-1]], [body.inputs[-1]])[0]]
    outs = distinct(body, new + stacked)
    ways, out_axes, out_ways = [r.randrange(2) for _ in sliced], [r.randint(0, v.rank) for v in stacked], [r.randrange(2) for _ in stacked]
    results = [after(b, v, how) for v, _, how in states]
    results += [(v.dtype, v.shape[:a] + (first.shape[axis],) + v.shape[a:], v.exact and v.dtype not in FLOATS) for v, a in zip(stacked, out_axes)]
    plain = r.random() < 0.3 and not any(axes + ways + out_axes + out_ways)
    more = {} if plain else {"scan_input_axes": axes, "scan_input_directions": ways}
    if stacked and not plain:
        more.update(scan_output_axes=out_axes, scan_output_directions=out_ways)
    b.emit("Scan", [v for v, _, _ in states] + sliced, results, body=body.graph(outs), num_scan_inputs=len(sliced), **more)


SMOOTH = {unary: 4, binary: 6, where: 2, reduce: 2, matmul: 4, softmax: 2, transpose: 1, concat: 2, constant_slice: 2, pad: 1, split: 1,
          reshape: 2, expand: 1, gather: 2, gather_elements: 1, gather_nd: 1, scatter: 1, recurrent: 3, branch: 5, loop: 5, scan: 5}
ALL = {**SMOOTH, compare: 2, cast: 2, slice_by_data: 2, range_of: 1, tile: 1, non_zero: 2, compress: 2, unique: 2, top_k: 2, suppress: 1,
       one_hot: 1, construct: 2, empty_sequence: 1, insert: 2, erase: 1, at: 2, length: 1, split_to_sequence: 2, concat_from_sequence: 2,
       sequence_map: 2, optional: 1, get_element: 1}
CONTROL = {branch, loop, scan, recurrent, sequence_map, get_element}
SIZES = [dict(N=3, M=2, T=4), dict(N=1, M=1, T=1), dict(N=2, M=5, T=0), dict(N=0, M=3, T=2), dict(N=4, M=1, T=3), dict(N=5, M=0, T=6)]


class Program:
    """`smooth`: of differentiable operators in double precision."""

    def __init__(self, seed, smooth=False):
        self.r = random.Random(f"{seed} {smooth}")
        self.seed, self.smooth = seed, smooth
        self.names = self.symbols = 0
        self.used, self.trips, self.all_blocks = set(), set(), []
        self.opset = self.r.choice([16, 18, 21, 22]) if not smooth else 21
        self.dtypes = ("f8", "i8", "b1") if smooth else ("f4", "f4", "i8", "b1", "f8", "i4", "u1")
        table = SMOOTH if smooth else ALL
        self.makers, self.weights = list(table), list(table.values())
        self.most = 260
        self.top = Block(self)
        self.blocks = [self.top]
        self.make_inputs()
        for _ in range(self.r.randint(3, 6)):
            self.top.steps(self.r.randint(0, 2))
            self.r.choice([branch, loop, scan])(self.top)
        outputs = [v for v in self.top.own if v.name not in self.used and v not in self.top.inputs]
        if smooth:
            outputs = [v for v in outputs if v.dtype == "f8"] or [self.top.any(("f8",))]
        self.r.shuffle(outputs)
        self.outputs = [self.top.own_or_copy(v) for v in outputs[:8]]
        for v in [o for o in self.outputs if o in self.top.inputs]:
            self.outputs[self.outputs.index(v)] = self.top.emit("Identity", [v], [v])[0]
        graph = self.top.graph(self.outputs)
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8 if self.opset < 21 else 10)

    def name(self, letter):
        self.names += 1
        return f"{letter}{self.names}"

    def symbol(self):
        self.symbols += 1
        return f"u{self.symbols}"

    def size(self):
        return self.names

    def named(self, d):
        return number(d) < 0

    def make_inputs(self):
        r, top = self.r, self.top
        dims = lambda rank: tuple(r.choice(["N", "M", "T", r.randint(1, 4)]) for _ in range(rank))
        real = self.r.choice(["f4", "f4", "f4", "f8"]) if not self.smooth else "f8"
        for dtype, rank in [(real, 3), (real, r.randint(1, 3)), ("i8", r.randint(0, 2))] + [(r.choice(self.dtypes), r.randint(0, 3)) for _ in range(r.randrange(3))]:
            top.input(Value("", dtype, dims(rank), True))
        top.input(Value("", "b1", (), True))
        self.trips.add(top.input(Value("", "i8", (), True)).name)
        if not self.smooth and r.random() < 0.3:
            top.input(Value("", real, dims(r.randint(0, 2)), True, "sequence"))
        if not self.smooth and r.random() < 0.2 and self.opset >= 18:
            top.input(Value("", real, dims(r.randint(0, 2)), False, "optional"))

    def feed(self, v, sizes, rng):
        dims = [sizes.get(d, d) for d in v.shape]
        if v.kind == "sequence":
            return [self.feed(dataclasses.replace(v, kind="tensor"), sizes, rng) for _ in range(rng.integers(0, 4))]
        if v.kind == "optional":
            return Opt([self.feed(dataclasses.replace(v, kind="tensor"), sizes, rng)] if rng.random() < 0.5 else [])
        if v.name in self.trips:
            return np.array(rng.integers(0, 5))
        if v.dtype == "b1":
            return np.asarray(rng.random(dims) < 0.5)
        if v.dtype in FLOATS:
            if self.smooth:
                return np.asarray(rng.uniform(-1.5, 1.5, dims))
            return np.asarray(rng.integers(-8, 9, dims) / 4).astype(v.dtype)
        return np.asarray(rng.integers(0, 6, dims)).astype(v.dtype)

    def bindings(self, n):
        rng = np.random.default_rng(abs(self.seed))
        order = [0, 1] + [2 + int(i) for i in rng.permutation(len(SIZES) - 2)]
        for k in range(n):
            yield {v.name: self.feed(v, SIZES[order[k % len(order)]], rng) for v in self.top.inputs}
