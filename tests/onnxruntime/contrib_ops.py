#!/usr/bin/env python3
"""contrib_ops.py [OP ... | --record]: every operator of com.microsoft that import lifts, and attention and rotary embedding
of the standard, in the forms that ONNX Runtime's CPU provider takes, beside that provider; and forms that must be refused,
with what the message names. --record writes contrib_ops.txt, which src/onnx/lift/lift_contrib_test.cc reads.

Needs numpy, onnx, onnxruntime and the command weft (WEFT=build/bin/weft). Where ONNX Runtime has no CPU kernel, the numbers
are those of a definition in numpy below. Prints a line for each case that
is wrong, and the count."""
import math
import pathlib
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

import peer

CASES, REFUSED = [], []
B = 2  # sequences in a batch


class Case:
    def __init__(self, op, inputs, attrs=None, outputs=1, constant=(), tolerance=2e-5, steps=0, want=None, domain="com.microsoft",
                 opset=21, skip_outputs=(), compared=None, symbolic=True):
        self.op, self.inputs, self.attrs, self.outputs = op, inputs, attrs or {}, outputs
        self.constant, self.tolerance, self.steps, self.want, self.domain = set(constant), tolerance, steps, want, domain
        self.opset, self.skip_outputs, self.compared = opset, set(skip_outputs), compared
        self.symbolic = symbolic

    def model(self, behind):
        """`behind`: operands come out of nodes, so that nothing but inference tells their ranks."""
        nodes, names, graph_inputs, initializers = [], [], [], []
        for i, x in enumerate(self.inputs):
            if x is None:
                names.append("")
                continue
            name = f"x{i}"
            if i in self.constant:
                initializers.append(numpy_helper.from_array(x, name))
            else:
                dims = list(x.shape)
                for k in {2: (0,), 3: (0, 1), 4: (0, 2)}.get(x.ndim, ()) if behind == "symbols" else ():
                    dims[k] = f"n{dims[k]}"
                if behind == "symbols" and x.ndim == 1 and x.dtype == np.int32:
                    dims = [f"n{len(x)}"]
                graph_inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), dims))
                if behind:
                    nodes.append(helper.make_node("Identity", [name], [name + "_"]))
                    name += "_"
            names.append(name)
        outputs = ["" if i in self.skip_outputs else f"y{i}" for i in range(self.outputs)]
        nodes.append(helper.make_node(self.op, names, outputs, domain=self.domain, name="it", **self.attrs))
        infos = [onnx.ValueInfoProto(name=o) for o in outputs if o]
        graph = helper.make_graph(nodes, "g", graph_inputs, infos, initializers)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def feeds(self):
        return {f"x{i}": x for i, x in enumerate(self.inputs) if x is not None and i not in self.constant}

    def __str__(self):
        shapes = ", ".join("_" if x is None else f"{x.dtype}{list(x.shape)}" for x in self.inputs)
        return f"{self.op}({shapes}) {self.attrs}"


def check(*args, **kw):
    CASES.append(Case(*args, **kw))


def refuse(text, *args, **kw):
    REFUSED.append((text, Case(*args, **kw)))


class Drawn(np.ndarray):
    """An operand that the test in C++ draws as well: `text` says how. What is computed from one is not one."""

    def __array_finalize__(self, other):
        self.text = None


SEEDS = iter(range(1, 10**6))


def drawn(shape, dtype, scale, offset=0.0):
    seed, i = next(SEEDS), np.arange(int(np.prod(shape)), dtype=np.int64)
    numbers = (i * i * 17 + i * (29 + seed) + seed * 7) % 61 - 30
    x = (numbers * scale + offset).reshape(shape).astype(dtype).view(Drawn)
    x.text = f"{x.dtype}{list(shape)} ~ {seed} {scale!r} {offset!r}"
    return x


def f(*shape, scale=1.0):
    return drawn(shape, "f4", scale / 16)


def near_one(*shape):
    return drawn(shape, "f4", 1 / 64, 1.0)


def u8(*shape):
    return drawn(shape, "u1", 4, 128)


def i8(*shape):
    return drawn(shape, "i1", 4)


def bits01(*shape):
    return (drawn(shape, "f4", 1.0) > 0).astype("i4")


def s(v, dtype="f4"):
    return np.array(v, dtype)


def erf(x):
    return np.vectorize(math.erf)(x).astype(x.dtype)


def gelu(x):
    return x * 0.5 * (1 + erf(x / np.float32(math.sqrt(2))))


# ---- activations ----
check("Gelu", [f(2, 3, 5)])
check("FastGelu", [f(2, 3, 5)])
check("FastGelu", [f(2, 3, 5), f(5)])
check("BiasGelu", [f(2, 3, 5), f(5)])
check("QuickGelu", [f(2, 3, 5)])
check("QuickGelu", [f(2, 3, 5)], {"alpha": 1.0})
x, b = f(2, 3, 8), f(8)
check("BiasSplitGelu", [x, b], want=[(x + b)[..., :4] * gelu((x + b)[..., 4:])])
x, w, b = f(3, 4), f(4, 5), f(5)
y = x @ w + b
check("GemmFastGelu", [x, w, b], want=[0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))])

# ---- products ----
for ta in (0, 1):
    for tb in (0, 1):
        check("FusedMatMul", [f(*([2, 4, 3] if ta else [2, 3, 4])), f(*([2, 5, 4] if tb else [2, 4, 5]))],
              {"transA": ta, "transB": tb, "alpha": 0.5})
        check("TransposeMatMul", [f(*([4, 3] if ta else [3, 4])), f(*([5, 4] if tb else [4, 5]))], {"transA": ta, "transB": tb})
        check("FusedMatMul", [f(2, 3, *([4, 6] if ta else [6, 4])), f(*([7, 4] if tb else [4, 7]))], {"transA": ta, "transB": tb})
        check("FusedMatMul", [f(4, 2, 3, 6), f(2, 3, *([5, 6] if tb else [6, 5]))], {"transB": tb, "transBatchA": 1})
check("FusedMatMul", [f(2, 3, 4, 6), f(6, 2, 3, 5)], {"transBatchB": 1})
check("FusedMatMul", [f(2, 3, 4, 6), f(5, 2, 3, 6)], {"transBatchB": 1, "transB": 1})
x, w = f(2, 3, 4), f(4, 5)
check("FusedMatMulActivation", [x, w], {"activation": "Relu", "alpha": 2.0}, want=[np.maximum(2 * (x @ w), 0)])
check("FusedMatMulActivation", [x, w], {"activation": "Clip", "activation_alpha": -0.5, "activation_beta": 0.5},
      want=[np.clip(x @ w, -0.5, 0.5)])
for activation, more in (("Relu", {}), ("Tanh", {}), ("Sigmoid", {}), ("LeakyRelu", {"activation_alpha": 0.2})):
    check("FusedGemm", [f(3, 4), f(4, 5), f(5)], {"activation": activation, **more})
    check("FusedGemm", [f(4, 3), f(5, 4), f(5)], {"activation": activation, "transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0, **more})
refuse("activation = Softmax", "FusedGemm", [f(3, 4), f(4, 5), f(5)], {"activation": "Softmax"})
for activation, params in (("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 1.0]),
                           ("HardSigmoid", [0.3, 0.4])):
    more = {"activation_params": params} if params else {}
    check("FusedConv", [f(2, 3, 7, 7), f(4, 3, 3, 3), f(4)], {"activation": activation, "kernel_shape": [3, 3], "pads": [1, 1, 1, 1], **more})
check("FusedConv", [f(1, 4, 7, 6), f(4, 1, 3, 3), f(4), f(1, 4, 4, 3)],
      {"activation": "Relu", "group": 4, "strides": [2, 2], "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]})
check("FusedConv", [f(1, 4, 7, 6), f(4, 4, 3, 3), None, f(1, 4, 5, 4)], {"activation": "Relu"})
check("FusedConv", [f(1, 4, 9), f(5, 4, 3)], {"activation": "Relu", "auto_pad": "SAME_UPPER"})
refuse("activation = Softmax", "FusedConv", [f(1, 4, 9), f(5, 4, 3)], {"activation": "Softmax"})

# ---- normalisation ----
for bias in (None, f(8)):
    for beta in (None, f(8)):
        check("SkipLayerNormalization", [f(2, 3, 8), f(2, 3, 8), near_one(8), beta, bias], {"epsilon": 1e-5}, outputs=4,
              skip_outputs=(1, 2))
    check("SkipSimplifiedLayerNormalization", [f(2, 3, 8), f(2, 3, 8), near_one(8), bias], {"epsilon": 1e-6}, outputs=4,
          skip_outputs=(1, 2))
check("SkipLayerNormalization", [f(2, 3, 8), f(3, 8), near_one(8), f(8)])
check("SkipLayerNormalization", [f(2, 3, 8), f(1, 3, 8), near_one(8), f(8)])
check("SkipSimplifiedLayerNormalization", [f(6, 8), f(6, 8), near_one(8)])
check("SimplifiedLayerNormalization", [f(2, 3, 8), near_one(8)], {"epsilon": 1e-6, "axis": -1, "stash_type": 1}, domain="")
check("SimplifiedLayerNormalization", [f(2, 3, 8), near_one(3, 8)], {"axis": 1}, domain="", opset=13)
refuse("statistics", "SimplifiedLayerNormalization", [f(2, 3, 8), near_one(8)], outputs=2, domain="")
refuse("statistics", "SkipLayerNormalization", [f(2, 3, 8), f(2, 3, 8), near_one(8), f(8)], outputs=2)
ids = drawn((2, 5), "i4", 0.3, 10)
seg = bits01(2, 5)
mask = (np.arange(5)[None] < np.array([[5], [3]])).astype("i4")
pos = drawn((2, 5), "i4", 0.15, 5)
embed = [ids, seg, f(20, 8), f(12, 8), f(2, 8), near_one(8), f(8)]
check("EmbedLayerNormalization", embed, {"epsilon": 1e-12}, outputs=2)
check("EmbedLayerNormalization", embed + [mask], outputs=2)
check("EmbedLayerNormalization", embed + [None], outputs=2)
check("EmbedLayerNormalization", embed + [mask, pos], outputs=3)
check("EmbedLayerNormalization", [ids, None, embed[2], embed[3], None, *embed[5:], mask], outputs=2)


def group_norm(x, gamma, beta, groups, eps, last, silu):
    x = np.moveaxis(x, -1, 1) if last else x
    n, c, h, w = x.shape
    z = x.reshape(n, groups, -1).astype("f8")
    z = ((z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + eps)).reshape(n, c, h, w)
    z = z * gamma[None, :, None, None] + beta[None, :, None, None]
    z = z / (1 + np.exp(-z)) if silu else z
    return (np.moveaxis(z, 1, -1) if last else z).astype("f4")


for last in (0, 1):
    for silu in (0, 1):
        shape = [2, 4, 5, 8] if last else [2, 8, 4, 5]
        x, gamma, beta, bias = f(*shape), near_one(8), f(8), f(8)
        attrs = {"groups": 4, "activation": silu, "channels_last": last, "epsilon": 1e-5}
        check("GroupNorm", [x, gamma, beta], attrs, want=[group_norm(x, gamma, beta, 4, 1e-5, last, silu)])
        skip = f(2, 8)
        total = x + (skip[:, None, None] if last else skip[:, :, None, None]) + (bias if last else bias[:, None, None])
        check("SkipGroupNorm", [x, gamma, beta, skip, bias], attrs, outputs=2,
              want=[group_norm(total, gamma, beta, 4, 1e-5, last, silu), total])
refuse("activation = 2", "GroupNorm", [f(2, 4, 5, 8), near_one(8), f(8)], {"groups": 4, "activation": 2})


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


x, b = f(2, 3, 4, 5), f(2, 1, 1, 5)
check("BiasSoftmax", [x, b], {"axis": 3, "is_inner_broadcast": 1}, want=[softmax(x + b)])
b = f(1, 1, 4, 5)
check("BiasSoftmax", [x, b], {"axis": 3, "is_inner_broadcast": 0}, want=[softmax(x + b)])
check("BiasSoftmax", [x, b], {"axis": 2, "is_inner_broadcast": 0}, want=[softmax((x + b).reshape(2, 3, 20)).reshape(x.shape)])
x, b, r = f(2, 6, 4), f(4), f(2, 6, 4)
check("BiasAdd", [x, b, r], want=[x + b + r])
check("BiasDropout", [x, b], want=[x + b])
check("BiasDropout", [x, b, r, s(0.5)], want=[x + b + r])

# ---- attention ----
S, N, H = 5, 3, 8
D = N * H
w, wb = f(6, 3 * D, scale=0.4), f(3 * D)
x = f(B, S, 6)
lengths = np.array([5, 3], "i4")
for uni in (0, 1):
    check("Attention", [x, w, wb], {"num_heads": N, "unidirectional": uni})
    check("Attention", [x, w, wb, lengths], {"num_heads": N, "unidirectional": uni})
    check("Attention", [x, w, wb, mask], {"num_heads": N, "unidirectional": uni})
    check("Attention", [x, w, wb, mask], {"num_heads": N, "unidirectional": uni, "mask_filter_value": -3.0, "scale": 0.3})
    check("Attention", [x, w, wb, np.array([5, 4, 1, 0], "i4")], {"num_heads": N, "unidirectional": uni}, symbolic=False)
    check("Attention", [x, w, wb, bits01(B, S, S)], {"num_heads": N, "unidirectional": uni})
    check("Attention", [x, w, wb, None, f(2, B, N, 4, H)], {"num_heads": N, "unidirectional": uni}, outputs=2)
    check("Attention", [x, w, wb, np.ones((B, S + 4), "i4"), f(2, B, N, 4, H)], {"num_heads": N, "unidirectional": uni}, outputs=2)
    check("Attention", [x, w, wb, None, None, f(B, N, S, S)], {"num_heads": N, "unidirectional": uni})
    check("Attention", [x, w, wb, mask, None, f(1, 1, S, S)], {"num_heads": N, "unidirectional": uni})
check("Attention", [x, f(6, 2 * D + 4 * N), f(2 * D + 4 * N)], {"num_heads": N, "qkv_hidden_sizes": [D, D, 4 * N]})
check("Attention", [x, w, np.zeros(3 * D, "f4")], {"num_heads": N})
check("Attention", [x, w, wb], {"num_heads": N}, outputs=2)
refuse("do_rotary", "Attention", [x, w, wb], {"num_heads": N, "do_rotary": 1})
refuse("past_present_share_buffer", "Attention", [x, w, wb, None, f(2, B, N, 4, H)], {"num_heads": N, "past_present_share_buffer": 1}, outputs=2)
refuse("mask of 4 axes", "Attention", [x, w, wb, np.ones((B, 1, 9, 9), "i4")], {"num_heads": N})
refuse("mask of one axis", "Attention", [x, w, wb, np.ones((3 * B + 2,), "i4")], {"num_heads": N})
qx, qw = u8(B, S, 6), i8(6, 3 * D)
for uni in (0, 1):
    for zero in (None, s(120, "u1")):
        check("QAttention", [qx, qw, wb, s(0.02), s(0.01), mask, zero, s(3, "i1")], {"num_heads": N, "unidirectional": uni}, tolerance=1e-4)
check("QAttention", [qx, qw, wb, s(0.02), s(0.01), None, s(120, "u1"), s(3, "i1"), f(2, B, N, 4, H)], {"num_heads": N}, outputs=2, tolerance=1e-4)
check("QAttention", [qx, qw, wb, s(0.02), drawn((3 * D,), "f4", 1 / 8192, 0.01), lengths, s(120, "u1"), i8(3 * D)], {"num_heads": N}, tolerance=1e-4,
      constant=(1,))

q, k, v = f(B, S, D), f(B, 7, D), f(B, 7, D)
pad = (np.arange(7)[None] < np.array([[7], [4]])).astype("i4")
check("MultiHeadAttention", [q, k, v], {"num_heads": N})
check("MultiHeadAttention", [q, k, v], {"num_heads": N, "scale": 0.2})
check("MultiHeadAttention", [q, k, v, f(3 * D)], {"num_heads": N})
check("MultiHeadAttention", [q, k, v, f(3 * D), pad], {"num_heads": N})
check("MultiHeadAttention", [q, k, v, None, np.array([7, 4], "i4")], {"num_heads": N})
check("MultiHeadAttention", [q, k, v, None, np.array([[[1, 1, 0, 0, 1, 1, 1]] * S] * B, "i4")], {"num_heads": N})
check("MultiHeadAttention", [q, k, v, None, None, f(B, N, S, 7)], {"num_heads": N})
check("MultiHeadAttention", [q, k, v, None, None, f(1, 1, S, 7)], {"num_heads": N})
check("MultiHeadAttention", [q, f(B, N, 7, H), f(B, N, 7, H)], {"num_heads": N})


def heads_attend(q, k, v):
    y = softmax(np.einsum("bsnd,btnd->bnst", q, k) / math.sqrt(q.shape[-1]))
    return np.einsum("bnst,btnd->bsnd", y, v).reshape(*q.shape[:2], -1)


kv = f(B, 7, N, 2, H)
check("MultiHeadAttention", [q, kv], {"num_heads": N}, want=[heads_attend(q.reshape(B, S, N, H), kv[:, :, :, 0], kv[:, :, :, 1])])
qkv = f(B, S, N, 3, H)
check("MultiHeadAttention", [qkv], {"num_heads": N}, want=[heads_attend(*(qkv[:, :, :, i] for i in range(3)))])
check("MultiHeadAttention", [q, k, f(B, 7, N * 4)], {"num_heads": N})
for uni in (0, 1):
    check("MultiHeadAttention", [q, f(B, S, D), f(B, S, D), None, None, None, f(B, N, 4, H), f(B, N, 4, H)],
          {"num_heads": N, "unidirectional": uni}, outputs=3)
    check("MultiHeadAttention", [q, f(B, S, D), f(B, S, D), f(3 * D), None, f(B, 1, S, S + 4), f(B, N, 4, H), f(B, N, 4, H)],
          {"num_heads": N, "unidirectional": uni}, outputs=3)
check("MultiHeadAttention", [q, f(B, S, D), f(B, S, D)], {"num_heads": N, "unidirectional": 1}, outputs=3)
refuse("past_sequence_length", "MultiHeadAttention",
       [f(B, 1, D), f(B, 1, D), f(B, 1, D), None, None, None, f(B, N, 8, H), f(B, N, 8, H), np.array([4], "i4")], {"num_heads": N})
refuse("output 3", "MultiHeadAttention", [q, k, v], {"num_heads": N}, outputs=4)

cos, sin = f(16, 4, scale=0.5), f(16, 4, scale=0.5)
at = np.array([[0, 1, 2, 3, 4], [7, 8, 9, 10, 3]], "i8")
for inter in (0, 1):
    check("RotaryEmbedding", [f(B, S, D), at, cos, sin], {"interleaved": inter})
    check("RotaryEmbedding", [f(B, S, D), np.array([3], "i8"), cos, sin], {"interleaved": inter, "num_heads": N})
    check("RotaryEmbedding", [f(B, N, S, H), at, cos, sin], {"interleaved": inter})
    check("RotaryEmbedding", [f(B, N, S, H), np.array([3], "i8"), cos, sin], {"interleaved": inter})
    check("RotaryEmbedding", [f(B, S, N * 12), at, cos, sin], {"interleaved": inter, "num_heads": N, "rotary_embedding_dim": 8})
    check("RotaryEmbedding", [f(B, N, S, 12), at, cos, sin], {"interleaved": inter, "num_heads": N, "rotary_embedding_dim": 8})
refuse("scale = 2", "RotaryEmbedding", [f(B, S, D), at, cos, sin], {"scale": 2.0})
refuse("is_packed_batching", "RotaryEmbedding", [f(B, S, D), at, cos, sin], {"is_packed_batching": 1})

H = 16
cos, sin = f(16, 8, scale=0.5), f(16, 8, scale=0.5)
for heads, kv in ((4, 4), (4, 2), (4, 1)):
    for rotary in (0, 1):
        table = [cos, sin] if rotary else [None, None]
        base = {"num_heads": heads, "kv_num_heads": kv, "do_rotary": rotary}
        prompt = [f(B, S, heads * H), f(B, S, kv * H), f(B, S, kv * H), None, None, np.array([S - 1, S - 1], "i4"), s(S, "i4"), *table]
        check("GroupQueryAttention", prompt, base, outputs=3)
        check("GroupQueryAttention", [f(B, S, (heads + 2 * kv) * H), None, None, *prompt[3:]], base, outputs=3)
        step = [f(B, 1, heads * H), f(B, 1, kv * H), f(B, 1, kv * H), f(B, kv, 6, H), f(B, kv, 6, H), np.array([6, 6], "i4"), s(7, "i4"), *table]
        check("GroupQueryAttention", step, base, outputs=3)
        ragged = [*step[:5], np.array([6, 4], "i4"), s(7, "i4"), *table]
        check("GroupQueryAttention", ragged, base, outputs=3, compared=["y0"])
        room = [*step[:3], f(B, kv, 9, H), f(B, kv, 9, H), np.array([6, 4], "i4"), s(7, "i4"), *table]
        check("GroupQueryAttention", room, base, outputs=3, compared=["y0"])
        check("GroupQueryAttention", prompt, {**base, "softcap": 2.0, "scale": 0.3}, outputs=3)
        check("GroupQueryAttention", prompt, {**base, "local_window_size": 2}, outputs=3)
        check("GroupQueryAttention", step, {**base, "local_window_size": 3, "rotary_interleaved": rotary}, outputs=3)
    bias = f(B, heads, S, S)
    check("GroupQueryAttention", [*prompt[:3], None, None, *prompt[5:7], None, None, None, bias], {"num_heads": heads, "kv_num_heads": kv}, outputs=3)
    check("GroupQueryAttention", [*prompt[:3], None, None, *prompt[5:7], None, None, None, f(1, 1, S, S)], {"num_heads": heads, "kv_num_heads": kv}, outputs=3)
gqa = {"num_heads": 4, "kv_num_heads": 2}
prompt = [f(B, S, 4 * H), f(B, S, 2 * H), f(B, S, 2 * H), None, None, np.array([S - 1, S - 1], "i4"), s(S, "i4")]
check("GroupQueryAttention", prompt, {**gqa, "smooth_softmax": 1}, outputs=3)
check("GroupQueryAttention", prompt, {**gqa, "kv_num_heads": 2, "smooth_softmax": 0}, outputs=3)
check("GroupQueryAttention", prompt + [None, None, None, None, f(4)], gqa, outputs=3)
refuse("k_quant_type", "GroupQueryAttention", prompt, {**gqa, "k_quant_type": "PER_TENSOR"}, outputs=3)
refuse("output 3", "GroupQueryAttention", prompt, gqa, outputs=4)

# ---- attention and rotary embedding of the standard ----
q, k, v = f(2, 4, 5, 8), f(2, 2, 7, 8), f(2, 2, 7, 6)
past = [f(2, 2, 3, 8), f(2, 2, 3, 6)]
ones = bits01(5, 7).astype(bool) | np.eye(5, 7, dtype=bool)
for opset in (23, 24):
    standard = {"domain": "", "opset": opset}
    check("Attention", [q, k, v], **standard)
    check("Attention", [q, k, v], {"is_causal": 1}, **standard)
    check("Attention", [q, k, v, ones], {"scale": 0.3}, **standard)
    check("Attention", [q, k, v, f(2, 4, 5, 7)], {"softcap": 1.5}, **standard)
    check("Attention", [q, k, v, f(2, 1, 5, 7)], **standard)
    check("Attention", [q, k, v, np.zeros((2, 1, 5, 7), bool)], **standard)
    check("Attention", [q, f(2, 2, 5, 8), f(2, 2, 5, 6), None, *past], {"is_causal": 1}, outputs=3, **standard)
    check("Attention", [f(2, 5, 32), f(2, 7, 16), f(2, 7, 12)], {"q_num_heads": 4, "kv_num_heads": 2}, **standard)
    check("Attention", [f(2, 5, 32), f(2, 7, 32), f(2, 7, 24), ones], {"q_num_heads": 4, "kv_num_heads": 4, "is_causal": 1}, **standard)
    half = [x.astype("f2") for x in (q, k, v)]
    check("Attention", half, tolerance=3e-3, **standard)
    check("Attention", [*half, ones], {"is_causal": 1, "softmax_precision": 1}, tolerance=3e-3, **standard)
    for mode in range(4):
        check("Attention", [q, k, v, f(5, 7), None, None], {"qk_matmul_output_mode": mode}, outputs=4, skip_outputs=(1, 2), **standard)
    for inter in (0, 1):
        check("RotaryEmbedding", [f(2, 3, 5, 8), f(16, 4), f(16, 4), at], {"interleaved": inter}, **standard)
        check("RotaryEmbedding", [f(2, 3, 5, 8), f(2, 5, 4), f(2, 5, 4)], {"interleaved": inter}, **standard)
        check("RotaryEmbedding", [f(2, 5, 24), f(16, 4), f(16, 4), at], {"interleaved": inter, "num_heads": 3}, **standard)
        check("RotaryEmbedding", [f(2, 3, 5, 12), f(16, 4), f(16, 4), at], {"interleaved": inter, "rotary_embedding_dim": 8}, **standard)
        check("RotaryEmbedding", [f(2, 5, 36), f(2, 5, 4), f(2, 5, 4)], {"interleaved": inter, "rotary_embedding_dim": 8, "num_heads": 3}, **standard)
# A mask that ends early hides what lies behind; ONNX Runtime does not take it.
short = f(2, 4, 5, 6)
shared = [np.repeat(x[:, :, :6], 2, axis=1) for x in (k, v)]
weights = softmax(q @ shared[0].transpose(0, 1, 3, 2) / math.sqrt(8) + short)
check("Attention", [q, k, v, short], domain="", opset=24, want=[(weights @ shared[1]).astype("f4")])
refuse("qk_matmul_output_mode = 4", "Attention", [q, k, v], {"qk_matmul_output_mode": 4}, domain="", opset=24)
refuse("needs the attribute num_heads", "RotaryEmbedding", [f(2, 5, 24), f(2, 5, 4), f(2, 5, 4)], domain="", opset=24)
refuse("not a multiple", "Attention", [f(2, 3, 5, 8), k, v], domain="", opset=24)


def t5_bias(table, rows, keys, both, most):
    buckets = table.shape[0]
    ahead = np.arange(keys)[None] - np.arange(rows)[:, None]
    out = np.zeros_like(ahead)
    if both:
        buckets //= 2
        out += (ahead > 0) * buckets
        far = np.abs(ahead)
    else:
        far = np.maximum(-ahead, 0)
    exact = buckets // 2
    big = exact + (np.log(np.maximum(far, 1) / exact) / math.log(most / exact) * (buckets - exact)).astype(int)
    out += np.where(far < exact, far, np.minimum(big, buckets - 1))
    return table[out].transpose(2, 0, 1)[None]


for both in (0, 1):
    table = f(8, 3)
    check("RelativePositionBias", [table, s(30, "i8"), s(30, "i8")], {"is_bidirectional": both, "max_distance": 20}, constant=(0,),
          want=[t5_bias(table, 30, 30, both, 20)])

# ---- quantized ----
xs, ys = s(0.03), s(0.05)
for make, zero in ((u8, s(130, "u1")), (i8, s(-3, "i1"))):
    for op in ("QLinearAdd", "QLinearMul"):
        check(op, [make(2, 3, 4), xs, zero, make(2, 3, 4), s(0.02), zero, ys, zero], steps=1)
        check(op, [make(2, 3, 4), xs, zero, make(4), s(0.02), zero, ys, zero], steps=1)
    for op, attrs in (("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.2})):
        check(op, [make(2, 3, 4), xs, zero, s(0.01), zero], attrs, steps=1, constant=(1, 2, 3, 4))
    for last in (0, 1):
        check("QLinearGlobalAveragePool", [make(2, 3, 4, 5), xs, zero, ys, zero], {"channels_last": last}, steps=1)
        check("QLinearAveragePool", [make(2, 3, 6, 5), xs, zero, ys, zero], {"kernel_shape": [2, 3], "strides": [2, 1], "channels_last": last},
              steps=1)
    check("QLinearAveragePool", [make(2, 3, 6, 5), xs, zero, ys, zero], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
          steps=1)
    x = make(2, 3, 4, 5)
    y = np.rint((x.astype("f4") - np.float32(zero)).mean((2, 3), keepdims=True) * xs / ys) + zero
    check("QLinearReduceMean", [x, xs, zero, ys, zero], {"axes": [2, 3], "keepdims": 1}, steps=1,
          want=[np.clip(y, np.iinfo(x.dtype).min, np.iinfo(x.dtype).max).astype(x.dtype)])
    check("QLinearConcat", [ys, zero, make(2, 3), xs, zero, make(2, 4), s(0.07), zero], {"axis": 1}, steps=1, constant=(0, 1, 3, 4, 6, 7))
    check("QLinearSoftmax", [make(2, 3, 4), xs, zero, s(1 / 256), s(0, "u1") if make is u8 else s(-128, "i1")], {"axis": -1, "opset": 13}, steps=1,
          constant=(1, 2, 3, 4))
    check("QLinearSoftmax", [make(2, 3, 4), xs, zero, s(1 / 256), s(0, "u1") if make is u8 else s(-128, "i1")], {"axis": 1, "opset": 11}, steps=1,
          constant=(1, 2, 3, 4))
    check("QLinearWhere", [bits01(2, 3).astype(bool), make(2, 3), xs, zero, make(3), s(0.02), zero, ys, zero], steps=1,
          constant=(2, 3, 5, 6, 7, 8))
    check("DynamicQuantizeMatMul", [f(2, 3, 4), make(4, 5), xs, zero], tolerance=1e-4)
    check("DynamicQuantizeMatMul", [f(3, 4), make(4, 5), near_one(5), make(5), f(5)], tolerance=1e-4)
    check("MatMulIntegerToFloat", [u8(2, 3, 4), make(4, 5), xs, ys, s(7, "u1"), zero], tolerance=1e-5)
    check("MatMulIntegerToFloat", [u8(3, 4), make(4, 5), xs, near_one(5), None, make(5), f(5)], tolerance=1e-5)
    check("DequantizeLinear", [make(2, 3), xs, zero], {})
    check("QuantizeLinear", [f(2, 3), xs, zero], {}, steps=0)
    check("NhwcMaxPool", [make(2, 6, 5, 3)], {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 0, 1]})
check("DequantizeLinear", [drawn((2, 3), "u2", 900, 30000), f(3), drawn((3,), "u2", 900, 30000)], {"axis": 1})
check("QuantizeLinear", [f(2, 3), xs, s(3000, "u2")], {})
for ta, tb in ((0, 0), (1, 0), (0, 1)):
    a, bm = u8(*((4, 3) if ta else (3, 4))), i8(*((5, 4) if tb else (4, 5)))
    check("QGemm", [a, xs, s(9, "u1"), bm, s(0.02), s(2, "i1"), drawn((5,), "i4", 3), s(0.5), s(100, "u1")],
          {"transA": ta, "transB": tb, "alpha": 0.5}, steps=1)
    check("QGemm", [a, xs, s(9, "u1"), bm, near_one(5), np.zeros(5, "i1"), drawn((5,), "i4", 3)],
          {"transA": ta, "transB": tb}, tolerance=1e-5)
check("QLinearConv", [u8(1, 3, 6, 6), xs, s(128, "u1"), i8(4, 3, 3, 3), s(0.01), s(0, "i1"), s(0.2), s(128, "u1"), drawn((4,), "i4", 3)],
      {"kernel_shape": [3, 3]}, steps=1, constant=(1, 2, 3, 4, 5, 6, 7, 8))
check("QLinearConv", [u8(1, 6, 6, 3), xs, s(128, "u1"), i8(4, 3, 3, 3), s(0.01), s(0, "i1"), s(0.2), s(128, "u1"), drawn((4,), "i4", 3)],
      {"kernel_shape": [3, 3], "channels_last": 1}, steps=1, constant=(1, 2, 3, 4, 5, 6, 7, 8))
qembed = [ids, seg, u8(20, 8), u8(12, 8), u8(2, 8), u8(8), u8(8), mask, s(0.02), s(0.02), s(0.02), s(0.01), s(0.01), *[s(128, "u1")] * 3, s(0, "u1"), s(128, "u1")]
check("QEmbedLayerNormalization", qembed, outputs=2, tolerance=1e-4)


def unpacked(x, bits):
    """Small numbers in bytes, the first one lowest."""
    return np.stack([(np.asarray(x) >> i) & (2**bits - 1) for i in range(0, 8, bits)], -1).reshape(*x.shape[:-1], -1).astype(int)


for bits in (2, 4, 8):
    for k_ in (64, 40):
        n_, block = 6, 16
        blocks = -(-k_ // block)
        bytes_ = u8(n_, blocks, block * bits // 8)
        scales, zeros = drawn((n_, blocks), "f4", 1 / 512, 0.08), u8(n_, -(-blocks * bits // 8))
        a, bias, floats = f(2, 3, k_), f(n_), f(n_, blocks) + 4
        attrs = {"K": k_, "N": n_, "bits": bits, "block_size": block}

        def by_hand(zero):
            w_ = ((unpacked(bytes_, bits) - np.asarray(zero)[..., None]) * np.asarray(scales)[..., None]).reshape(n_, -1)[:, :k_]
            return (np.asarray(a, "f8") @ w_.T).astype("f4")

        own = unpacked(zeros, bits)[:, :blocks]
        check("MatMulNBits", [a, bytes_, scales], attrs, constant=(1, 2), want=[by_hand(np.full((n_, blocks), 2 ** (bits - 1)))], tolerance=1e-4)
        check("MatMulNBits", [a, bytes_, scales, zeros, None, bias], attrs, constant=(1, 2, 3, 5), want=[by_hand(own) + bias], tolerance=1e-4)
        check("MatMulNBits", [a, bytes_, scales, floats], attrs, constant=(1, 2, 3), want=[by_hand(floats)], tolerance=1e-4)
a, q_, scales = f(3, 64), u8(6, 2, 16), drawn((6, 2), "f4", 1 / 512, 0.08)
attrs = {"K": 64, "N": 6, "bits": 4, "block_size": 32}
check("MatMulNBits", [a, q_, scales, u8(6, 1)], {**attrs, "accuracy_level": 0}, constant=(1, 2, 3), tolerance=1e-4)
check("MatMulNBits", [a, q_, scales, u8(6, 1)], {**attrs, "accuracy_level": 4}, constant=(1, 2, 3), tolerance=2e-2)
refuse("B is not a constant", "MatMulNBits", [a, q_, scales], attrs)
refuse("bits = 3", "MatMulNBits", [a, q_, scales], {**attrs, "bits": 3}, constant=(1, 2))
refuse("weight_prepacked", "MatMulNBits", [a, q_, scales], {**attrs, "weight_prepacked": 1}, constant=(1, 2))
table, picks, scales = u8(7, 32), np.array([[3, 0], [6, 3]], "i8"), drawn((7, 2), "f4", 1 / 512, 0.08)
attrs = {"bits": 4, "block_size": 32, "quantize_axis": 1, "gather_axis": 0}
check("GatherBlockQuantized", [table, picks, scales], attrs, constant=(0, 2))
check("GatherBlockQuantized", [table, picks, scales, u8(7, 1)], attrs, constant=(0, 2, 3))
refuse("gather_axis = 1", "GatherBlockQuantized", [table, picks, scales], {**attrs, "quantize_axis": 0, "gather_axis": 1}, constant=(0, 2))

for make in (u8, i8):
    zero = s([128], "u1") if make is u8 else s([2], "i1")
    check("DynamicQuantizeLSTM", [f(4, 2, 3, scale=0.5), make(1, 3, 20), make(1, 5, 20), f(1, 40, scale=0.5), None, None, None, None,
                                  s([0.004]), zero, s([0.004]), zero], {"hidden_size": 5}, outputs=3, tolerance=2e-2,
          constant=(1, 2, 8, 9, 10, 11))

# ---- the rest ----
check("Inverse", [f(4, 4) + 3 * np.eye(4, dtype="f4")], tolerance=1e-4)
check("Inverse", [f(2, 3, 4, 4) + 3 * np.eye(4, dtype="f4")], tolerance=1e-4)
refuse("expected matrices", "Inverse", [f(4)])
for up in (0, 1):
    check("Trilu", [f(2, 4, 5)], {"upper": up})
    check("Trilu", [f(2, 4, 5), s(1, "i8")], {"upper": up})
check("ExpandDims", [f(2, 3), s(1, "i4")])
check("Pad", [f(2, 3), np.array([0, 1, 2, 0], "i8"), s(1.5)], {"mode": "constant"})
check("Pad", [f(2, 3), np.array([[0, 1, 2, 0]], "i8"), s([1.5])], {"mode": "constant"})
check("Range", [s(1.0), s(7.0), s(1.5)])
check("GatherND", [f(2, 3, 4), np.array([[0, 1], [1, 2]], "i8")])
check("Unique", [s([2.0, 1.0, 1.0, 3.0, 4.0, 3.0])], outputs=3)
check("GridSample", [f(1, 2, 4, 5), f(1, 3, 3, 2, scale=0.5)], {"mode": "bilinear", "padding_mode": "border", "align_corners": 1})
check("GridSample", [f(1, 2, 4, 5), f(1, 3, 3, 2, scale=0.5)], {"mode": "bicubic"}, tolerance=1e-4)


def text_of(case):
    """A row of contrib_ops.txt: domain and operator | operands | attributes | results, each of up to 12 elements in even steps."""
    def numbers(x):
        return ",".join(format(float(v), '.9g') if x.dtype.kind == "f" else str(int(v)) for v in x.ravel())

    def operand(i, x):
        if x is None:
            return "_"
        text = getattr(x, "text", None) or f"{x.dtype}{list(x.shape)} = {numbers(x)}"
        return ("const " if i in case.constant else "") + text

    def attribute(v):
        lists = isinstance(v, (list, tuple))
        kind = {int: "i", float: "f", str: "s"}[type(v[0] if lists else v)]
        return f"{kind}{'s' if lists else ''} {','.join(map(str, v)) if lists else v}"

    if case.want:
        results = case.want
    else:
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(case.model(""), folder + "/m.onnx")
            results = peer.session(folder + "/m.onnx").run(None, case.feeds())
    shown = []
    names = [f"y{i}" for i in range(case.outputs) if i not in case.skip_outputs]
    for name, y in zip(names, results):
        if case.compared and name not in case.compared:
            continue
        step = max(1, -(-y.size // 12))
        shown.append(f"{name} {y.dtype}{list(y.shape)} {step} {numbers(np.asarray(y).ravel()[::step])}")
    skipped = [f"y{i}" for i in range(case.outputs) if i in case.skip_outputs]
    return " | ".join([f"{case.domain or 'ai.onnx'} {case.op} {case.opset} {case.outputs} {','.join(skipped) or '-'} {case.tolerance} {case.steps}",
                       "; ".join(operand(i, x) for i, x in enumerate(case.inputs)),
                       "; ".join(f"{k} {attribute(v)}" for k, v in case.attrs.items()), "; ".join(shown)])


def record():
    rows = ["# Written by contrib_ops.py --record: what ONNX Runtime (where it has no CPU kernel: numpy) gives; read by",
            "# src/onnx/lift/lift_contrib_test.cc. domain, operator, operator set, outputs, outputs without a name, tolerance,",
            "# steps of integers | operands | attributes | results: name, type, step between the elements, elements",
            f"# ONNX Runtime {peer.ort.__version__}"]
    rows += [text_of(case) for case in CASES]
    pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(rows) + "\n")


def main(only):
    wrong = count = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "m.onnx")
        for case in CASES:
            if only and case.op not in only:
                continue
            want = dict(zip((f"y{i}" for i in range(case.outputs) if i not in case.skip_outputs), case.want)) if case.want else None
            for behind in ("", "nodes", "symbols") if case.symbolic else ("", "nodes"):
                count += 1
                onnx.save(case.model(behind), path)
                try:
                    said = peer.differs(path, case.feeds(), case.tolerance, want, case.steps, case.compared)
                except Exception as e:  # of ONNX Runtime
                    said = f"ONNX Runtime: {e}"
                if said:
                    wrong += 1
                    print(f"{case} {behind}: {said[:600]}", flush=True)
                    break
        for text, case in REFUSED:
            if only and case.op not in only:
                continue
            count += 1
            onnx.save(case.model(""), path)
            wrong += not peer.is_refused(case, path, text)
    print(f"{count - wrong} of {count} as they should be")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(record() if sys.argv[1:] == ["--record"] else main(set(sys.argv[1:])))
