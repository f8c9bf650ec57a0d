"""Layers. Operands that are left out become variables: NAME_weight, NAME_bias, NAME_gamma, NAME_beta; extents of theirs that follow
from the data are symbols (`unique("k")`), of which inference finds the numbers."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

import weft
from weft import ops
from weft.tinyflow.symbol import Symbol, Variable, unique

Quad = Sequence[int]


def _window(what: str, ksize: Quad, strides: Quad, padding: str, data_format: str) -> dict[str, Any]:
    if padding not in ("SAME", "VALID") or data_format != "NCHW":
        raise weft.UsageError(f"{what}: padding is SAME or VALID and data_format NCHW, not {padding!r}, {data_format!r}")
    pads = [(k - 1) // 2 if padding == "SAME" else 0 for k in ksize[1:3]]
    return {"kernel_shape": list(ksize[1:3]), "strides": list(strides[1:3]), "pads": pads * 2}


def _layer(function: Callable[..., Symbol], kind: str, name: str | None, data: Symbol, weight: Symbol | None, bias: Symbol | None,
           no_bias: bool, shape: Sequence[int | str]) -> Symbol:
    name = name or unique(kind)
    weight = Variable(name=f"{name}_weight", shape=shape) if weight is None else weight
    if bias is None and not no_bias:
        bias = Variable(name=f"{name}_bias", shape=shape[:1])
    return function(data, weight, *([] if bias is None else [bias]))


def conv2d(data: Symbol, weight: Symbol | None = None, bias: Symbol | None = None, *, num_filter: int = 0, ksize: Quad = (1, 1, 1, 1),
           strides: Quad = (1, 1, 1, 1), padding: str = "VALID", data_format: str = "NCHW", no_bias: bool = True,
           name: str | None = None) -> Symbol:
    window = _window("conv2d", ksize, strides, padding, data_format)
    return _layer(lambda *e: ops.Conv(*e, **window), "conv2d", name, data, weight, bias, no_bias,
                  (num_filter, unique("k"), *window["kernel_shape"]))


def linear(data: Symbol, weight: Symbol | None = None, bias: Symbol | None = None, *, num_hidden: int = 0, no_bias: bool = True,
           name: str | None = None) -> Symbol:
    """data x transposed weight, which has one row for each of `num_hidden`."""
    return _layer(lambda x, *e: ops.Gemm(ops.Flatten(x), *e, transB=1), "linear", name, data, weight, bias, no_bias,
                  (num_hidden, unique("k")))


def max_pool(data: Symbol, ksize: Quad, strides: Quad = (1, 1, 1, 1), padding: str = "SAME", data_format: str = "NCHW") -> Symbol:
    window = _window("max_pool", ksize, strides, padding, data_format)
    return ops.MaxPool(data, **window)[0]


def avg_pool(data: Symbol, ksize: Quad, strides: Quad = (1, 1, 1, 1), padding: str = "SAME", data_format: str = "NCHW") -> Symbol:
    """The mean over each window; what is padded counts as 0."""
    window = _window("avg_pool", ksize, strides, padding, data_format)
    return ops.AveragePool(data, count_include_pad=1, **window)


def batch_normalization(data: Symbol, gamma: Symbol | None = None, beta: Symbol | None = None, *, epsilon: float = 1e-5,
                        name: str | None = None) -> Symbol:
    """By the statistics of the batch, in every run."""
    name, channels = name or unique("batch_normalization"), unique("k")
    gamma = Variable(name=f"{name}_gamma", shape=(channels,)) if gamma is None else gamma
    beta = Variable(name=f"{name}_beta", shape=(channels,)) if beta is None else beta
    # In the last two places would stand statistics that came with it: in training nothing reads them.
    normalized: Symbol = ops.BatchNormalization(data, gamma, beta, gamma, beta, epsilon=epsilon, training_mode=1)[0]
    return normalized


def bias_add(data: Symbol, bias: Symbol) -> Symbol:
    """Adds one number to each channel, which is axis 1."""
    behind = ops.ConstantOfShape(ops.Shape(ops.Shape(data)) - 2, value=np.ones(1, np.int64))  # a 1 for each axis after that
    return data + ops.Reshape(bias, ops.Concat(np.array([-1]), behind, axis=0))


def mean_sparse_softmax_cross_entropy_with_logits(logits: Symbol, label: Symbol) -> Symbol:
    """The mean of -log softmax(logits)[label]."""
    return ops.SoftmaxCrossEntropyLoss(logits, ops.Cast(label, to="i64"), reduction="mean")[0]


flatten_layer, relu, softmax, tanh = ops.Flatten, ops.Relu, ops.Softmax, ops.Tanh
sparse_softmax_cross_entropy_with_logits = mean_sparse_softmax_cross_entropy_with_logits
