"""models.py: six small networks as exporters write them, with everything spelled out that ONNX Runtime's tools look for."""
import math

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper


class Builder:
    def __init__(self, seed):
        self.rng, self.nodes, self.weights, self.inputs, self.outputs, self.count = np.random.default_rng(seed), [], [], [], [], 0

    def __getattr__(self, op):
        """b.MatMul(x, w, axis=1): a node; its first output."""
        def make(*inputs, n=1, out=None, **attrs):
            names = [i if isinstance(i, str) else self.const(i) for i in inputs]
            self.count += 1
            outs = [out] if out else [f"{op}_{self.count}" + (f"_{k}" if n > 1 else "") for k in range(n)]
            self.nodes.append(helper.make_node(op, names, outs, name=f"/{op}_{self.count}", **attrs))
            return outs[0] if n == 1 else outs
        return make

    def const(self, value):
        value = np.asarray(value)
        if value.dtype == np.float64:
            value = value.astype("f4")
        self.count += 1
        self.weights.append(numpy_helper.from_array(value, f"const_{self.count}"))
        return self.weights[-1].name

    def w(self, *shape, scale=None):
        scale = scale or 1 / math.sqrt(shape[0] if len(shape) == 2 else max(1, np.prod(shape[1:])))
        self.weights.append(numpy_helper.from_array((self.rng.standard_normal(shape) * scale).astype("f4"), f"weight_{len(self.weights)}"))
        return self.weights[-1].name

    def near_one(self, n):
        self.weights.append(numpy_helper.from_array((1 + 0.1 * self.rng.standard_normal(n)).astype("f4"), f"weight_{len(self.weights)}"))
        return self.weights[-1].name

    def input(self, name, dims, dtype=T.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, dims))
        return name

    def output(self, name, dims, dtype=T.FLOAT):
        self.outputs.append(helper.make_tensor_value_info(name, dtype, dims))

    def model(self, opset):
        graph = helper.make_graph(self.nodes, "main", self.inputs, self.outputs, self.weights)
        m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, producer_name="pytorch")
        onnx.checker.check_model(m)
        return onnx.shape_inference.infer_shapes(m)

    # what exporters write for layers
    def linear(self, x, rows, columns):
        return self.Add(self.w(columns, scale=0.1), self.MatMul(x, self.w(rows, columns)))

    def layer_norm(self, x, size):
        d = self.Sub(x, self.ReduceMean(x, axes=[-1]))
        variance = self.ReduceMean(self.Pow(d, np.float32(2)), axes=[-1])
        return self.Add(self.Mul(self.Div(d, self.Sqrt(self.Add(variance, np.float32(1e-5)))), self.near_one(size)), self.w(size, scale=0.1))

    def rms_norm(self, x, size):
        mean = self.ReduceMean(self.Pow(x, np.float32(2)), axes=[-1])
        return self.Mul(self.near_one(size), self.Mul(x, self.Div(np.float32(1), self.Sqrt(self.Add(mean, np.float32(1e-6))))))

    def erf_gelu(self, x):
        return self.Mul(self.Mul(x, self.Add(self.Erf(self.Div(x, np.float32(math.sqrt(2)))), np.float32(1))), np.float32(0.5))

    def tanh_gelu(self, x):
        cube = self.Mul(self.Pow(x, np.float32(3)), np.float32(0.044715))
        inner = self.Tanh(self.Mul(self.Add(x, cube), np.float32(math.sqrt(2 / math.pi))))
        return self.Mul(self.Mul(x, np.float32(0.5)), self.Add(inner, np.float32(1)))

    def extent(self, x, axis):
        return self.Unsqueeze(self.Gather(self.Shape(x), np.array(axis)), np.array([0]))

    def heads(self, x, n, size, perm=(0, 2, 1, 3)):
        shape = self.Concat(self.extent(x, 0), self.extent(x, 1), np.array([n]), np.array([size]), axis=0)
        return self.Transpose(self.Reshape(x, shape), perm=list(perm))

    def merge(self, x, hidden):
        t = self.Transpose(x, perm=[0, 2, 1, 3])
        return self.Reshape(t, self.Concat(self.extent(t, 0), self.extent(t, 1), np.array([hidden]), axis=0))


def bert(layers=2, hidden=64, heads=4):
    b = Builder(1)
    dims = ["batch", "seq"]
    ids, mask, kind = (b.input(n, dims, T.INT64) for n in ("input_ids", "attention_mask", "token_type_ids"))
    words = b.Gather(b.w(100, hidden, scale=0.5), ids)
    positions = b.Slice(np.arange(64)[None], np.array([0]), b.extent(ids, 1), np.array([1]), np.array([1]))
    x = b.Add(b.Add(words, b.Gather(b.w(2, hidden, scale=0.5), kind)), b.Gather(b.w(64, hidden, scale=0.5), positions))
    x = b.layer_norm(x, hidden)
    wide = b.Cast(b.Unsqueeze(b.Unsqueeze(mask, np.array([1])), np.array([2])), to=T.FLOAT)
    hide = b.Mul(b.Sub(np.float32(1), wide), np.float32(-10000))
    size = hidden // heads
    for _ in range(layers):
        q, k, v = (b.linear(x, hidden, hidden) for _ in range(3))
        q, v, k = b.heads(q, heads, size), b.heads(v, heads, size), b.heads(k, heads, size, (0, 2, 3, 1))
        p = b.Softmax(b.Add(b.Div(b.MatMul(q, k), np.float32(math.sqrt(size))), hide), axis=-1)
        x = b.layer_norm(b.Add(b.linear(b.merge(b.MatMul(p, v), hidden), hidden, hidden), x), hidden)
        x = b.layer_norm(b.Add(b.linear(b.erf_gelu(b.linear(x, hidden, 4 * hidden)), 4 * hidden, hidden), x), hidden)
    b.Identity(x, out="last_hidden_state")
    b.output("last_hidden_state", ["batch", "seq", hidden])
    return b.model(14)


def gpt2(layers=2, hidden=64, heads=4):
    b = Builder(2)
    ids = b.input("input_ids", ["batch", "seq"], T.INT64)
    size = hidden // heads
    positions = b.Unsqueeze(b.Range(np.array(0), b.Squeeze(b.extent(ids, 1), np.array([0])), np.array(1)), np.array([0]))
    x = b.Add(b.Gather(b.w(100, hidden, scale=0.5), ids), b.Gather(b.w(64, hidden, scale=0.5), positions))
    triangle = np.tril(np.ones((64, 64), bool))[None, None]

    def flat_linear(x, rows, columns):
        shape = b.Concat(b.extent(x, 0), b.extent(x, 1), np.array([columns]), axis=0)
        y = b.Gemm(b.Reshape(x, np.array([-1, rows])), b.w(rows, columns), b.w(columns, scale=0.1))
        return b.Reshape(y, shape)

    for _ in range(layers):
        parts = b.Split(flat_linear(b.layer_norm(x, hidden), hidden, 3 * hidden), np.array([hidden] * 3), n=3, axis=2)
        q, k, v = b.heads(parts[0], heads, size), b.heads(parts[1], heads, size, (0, 2, 3, 1)), b.heads(parts[2], heads, size)
        scores = b.Div(b.MatMul(q, k), np.float32(math.sqrt(size)))
        n = b.extent(q, 2)
        rows = b.Slice(triangle, np.array([0]), n, np.array([2]), np.array([1]))
        causal = b.Slice(rows, np.array([0]), n, np.array([3]), np.array([1]))
        p = b.Softmax(b.Where(causal, scores, np.float32(-10000)), axis=-1)
        x = b.Add(x, flat_linear(b.merge(b.MatMul(p, v), hidden), hidden, hidden))
        x = b.Add(x, flat_linear(b.tanh_gelu(flat_linear(b.layer_norm(x, hidden), hidden, 4 * hidden)), 4 * hidden, hidden))
    b.MatMul(b.layer_norm(x, hidden), b.w(hidden, 100), out="logits")
    b.output("logits", ["batch", "seq", 100])
    return b.model(14)


def llama(layers=2, hidden=64, heads=4, kv=2):
    b = Builder(3)
    ids = b.input("input_ids", ["batch", "seq"], T.INT64)
    positions = b.input("position_ids", ["batch", "seq"], T.INT64)
    size = hidden // heads
    x = b.Gather(b.w(100, hidden, scale=0.5), ids)
    angle = np.arange(64)[:, None] / (10000 ** (np.arange(size // 2) * 2 / size))
    angle = np.concatenate([angle, angle], -1)
    cos, sin = (b.Unsqueeze(b.Gather(f(angle).astype("f4"), positions), np.array([1])) for f in (np.cos, np.sin))
    n = b.Squeeze(b.extent(ids, 1), np.array([0]))
    at = b.Range(np.array(0), n, np.array(1))
    hide = b.Where(b.Greater(b.Unsqueeze(at, np.array([0])), b.Unsqueeze(at, np.array([1]))), np.float32(-3e38), np.float32(0))

    def rotary(x):
        half = size // 2
        first = b.Slice(x, np.array([0]), np.array([half]), np.array([3]), np.array([1]))
        second = b.Slice(x, np.array([half]), np.array([2**63 - 1]), np.array([3]), np.array([1]))
        return b.Add(b.Mul(x, cos), b.Mul(b.Concat(b.Neg(second), first, axis=-1), sin))

    def repeated(x):
        shape = b.Concat(b.extent(x, 0), np.array([kv, heads // kv]), b.extent(x, 2), np.array([size]), axis=0)
        y = b.Expand(b.Unsqueeze(x, np.array([2])), shape)
        return b.Reshape(y, b.Concat(b.extent(x, 0), np.array([heads]), b.extent(x, 2), np.array([size]), axis=0))

    for _ in range(layers):
        y = b.rms_norm(x, hidden)
        q, k, v = (b.MatMul(y, b.w(hidden, m * size)) for m in (heads, kv, kv))
        q, k, v = rotary(b.heads(q, heads, size)), rotary(b.heads(k, kv, size)), b.heads(v, kv, size)
        k, v = repeated(k), repeated(v)
        scores = b.Div(b.MatMul(q, b.Transpose(k, perm=[0, 1, 3, 2])), np.float32(math.sqrt(size)))
        p = b.Softmax(b.Add(scores, hide), axis=-1)
        x = b.Add(x, b.MatMul(b.merge(b.MatMul(p, v), hidden), b.w(hidden, hidden)))
        y = b.rms_norm(x, hidden)
        gate = b.MatMul(y, b.w(hidden, 3 * hidden))
        x = b.Add(x, b.MatMul(b.Mul(b.Mul(gate, b.Sigmoid(gate)), b.MatMul(y, b.w(hidden, 3 * hidden))), b.w(3 * hidden, hidden)))
    b.MatMul(b.rms_norm(x, hidden), b.w(hidden, 100), out="logits")
    b.output("logits", ["batch", "seq", 100])
    return b.model(14)


def conv_norm(b, x, cin, cout, k=3, stride=1, group=1, activation=None):
    y = b.Conv(x, b.w(cout, cin // group, k, k), strides=[stride] * 2, pads=[k // 2] * 4, group=group, kernel_shape=[k, k])
    y = b.BatchNormalization(y, b.near_one(cout), b.w(cout, scale=0.1), b.w(cout, scale=0.1),
                             b.const(np.abs(b.rng.standard_normal(cout)) * 0.2 + 0.8), epsilon=1e-5)
    if activation == "relu6":
        return b.Clip(y, np.float32(0), np.float32(6))
    return getattr(b, activation)(y) if activation else y


def resnet():
    b = Builder(4)
    x = b.input("x", ["N", 3, 32, 32])
    x = b.MaxPool(conv_norm(b, x, 3, 16, 7, 2, activation="Relu"), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for cin, cout, stride in ((16, 16, 1), (16, 32, 2)):
        y = conv_norm(b, conv_norm(b, x, cin, cout, 3, stride, activation="Relu"), cout, cout)
        x = b.Relu(b.Add(y, conv_norm(b, x, cin, cout, 1, stride) if stride > 1 else x))
    b.Gemm(b.Flatten(b.GlobalAveragePool(x), axis=1), b.w(10, 32), b.w(10, scale=0.1), transB=1, out="logits")
    b.output("logits", ["N", 10])
    return b.model(13)


def mobilenet():
    b = Builder(5)
    x = conv_norm(b, b.input("x", ["N", 3, 32, 32]), 3, 16, 3, 2, activation="HardSwish")
    for expand, stride, activation in ((32, 1, "relu6"), (64, 2, "HardSwish"), (64, 1, "LeakyRelu")):
        y = conv_norm(b, x, 16, expand, 1, activation=activation)
        y = conv_norm(b, y, expand, expand, 3, stride, group=expand, activation=activation)
        gate = b.Relu(b.Conv(b.GlobalAveragePool(y), b.w(8, expand, 1, 1), b.w(8, scale=0.1)))
        y = b.Mul(y, b.Sigmoid(b.Conv(gate, b.w(expand, 8, 1, 1), b.w(expand, scale=0.1))))
        y = conv_norm(b, y, expand, 16, 1)
        x = b.Add(x, y) if stride == 1 else b.Concat(y, axis=1)
    x = b.AveragePool(x, kernel_shape=[2, 2], strides=[2, 2])
    x = b.Concat(x, b.Sigmoid(x), axis=1)
    x = b.Reshape(b.ReduceMean(x, axes=[2, 3], keepdims=0), np.array([-1, 32]))
    b.Softmax(b.Gemm(x, b.w(32, 10), b.w(10, scale=0.1)), axis=-1, out="scores")
    b.output("scores", ["N", 10])
    return b.model(14)


def vit(layers=2, hidden=48, heads=3):
    b = Builder(6)
    x = b.Conv(b.input("x", ["N", 3, 32, 32]), b.w(hidden, 3, 8, 8), b.w(hidden, scale=0.1), kernel_shape=[8, 8], strides=[8, 8])
    x = b.Transpose(b.Reshape(x, np.array([0, hidden, -1])), perm=[0, 2, 1])
    x = b.Add(x, b.w(1, 16, hidden, scale=0.3))
    size = hidden // heads
    for _ in range(layers):
        y = b.linear(b.layer_norm(x, hidden), hidden, 3 * hidden)
        y = b.Transpose(b.Reshape(y, np.array([0, 16, 3, heads, size])), perm=[2, 0, 3, 1, 4])
        q, k, v = (b.Gather(y, np.array(i), axis=0) for i in range(3))
        p = b.Softmax(b.Mul(b.MatMul(q, b.Transpose(k, perm=[0, 1, 3, 2])), np.float32(size**-0.5)), axis=-1)
        x = b.Add(x, b.linear(b.merge(b.MatMul(p, v), hidden), hidden, hidden))
        y = b.linear(b.layer_norm(x, hidden), hidden, 2 * hidden)
        x = b.Add(x, b.linear(b.Mul(y, b.Sigmoid(b.Mul(y, np.float32(1.702)))), 2 * hidden, hidden))
    b.MatMul(b.ReduceMean(b.layer_norm(x, hidden), axes=[1], keepdims=0), b.w(hidden, 10), out="logits")
    b.output("logits", ["N", 10])
    return b.model(14)


ALL = {f.__name__: f for f in (bert, gpt2, llama, resnet, mobilenet, vit)}
# What transformers' optimizer wants to be told.
TRANSFORMERS = {"bert": ("bert", 4, 64), "gpt2": ("gpt2", 4, 64), "llama": ("gpt2", 4, 64), "vit": ("vit", 3, 48)}
