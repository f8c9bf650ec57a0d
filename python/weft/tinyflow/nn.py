"""Layers. Operands that are left out become variables: NAME_weight, NAME_bias, NAME_gamma, NAME_beta."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Sequence

import numpy as np

import weft
from weft import ops
from weft.tinyflow.symbol import Symbol, Variable, apply
from weft.tinyflow.symbol import tanh as tanh

_count = itertools.count()
Quad = Sequence[int]


def _window(what: str, ksize: Quad, strides: Quad, padding: str, data_format: str) -> dict[str, Any]:
    if padding not in ("SAME", "VALID") or data_format != "NCHW":
        raise weft.UsageError(f"{what}: padding is SAME or VALID and data_format NCHW, not {padding!r}, {data_format!r}")
    pads = [(k - 1) // 2 if padding == "SAME" else 0 for k in ksize[1:3]]
    return {"kernel_shape": list(ksize[1:3]), "strides": list(strides[1:3]), "pads": pads * 2}


def _layer(function: Callable[..., Any], kind: str, name: str | None, data: Symbol, weight: Symbol | None, bias: Symbol | None,
           no_bias: bool, outputs: int, rule: Callable[[Any], Any]) -> Symbol:
    name = name or f"{kind}{next(_count)}"
    weight = weight or Variable(name=f"{name}_weight", data=data, rule=rule)
    if bias is None and not no_bias:
        bias = Variable(name=f"{name}_bias", data=data, rule=lambda _: (outputs,))
    return apply(function, data, weight, *([] if bias is None else [bias]))


def conv2d(data: Symbol, weight: Symbol | None = None, bias: Symbol | None = None, *, num_filter: int = 0, ksize: Quad = (1, 1, 1, 1),
           strides: Quad = (1, 1, 1, 1), padding: str = "VALID", data_format: str = "NCHW", no_bias: bool = True,
           name: str | None = None) -> Symbol:
    window = _window("conv2d", ksize, strides, padding, data_format)
    return _layer(lambda *e: ops.Conv(*e, **window), "conv2d", name, data, weight, bias, no_bias, num_filter,
                  lambda s: (num_filter, s[1], *window["kernel_shape"]))


def linear(data: Symbol, weight: Symbol | None = None, bias: Symbol | None = None, *, num_hidden: int = 0, no_bias: bool = True,
           name: str | None = None) -> Symbol:
    """data x transposed weight, which has one row for each of `num_hidden`."""
    return _layer(lambda x, *e: ops.Gemm(ops.Flatten(x), *e, transB=1), "linear", name, data, weight, bias, no_bias, num_hidden,
                  lambda s: (num_hidden, int(np.prod(s[1:]))))


def max_pool(data: Symbol, ksize: Quad, strides: Quad = (1, 1, 1, 1), padding: str = "SAME", data_format: str = "NCHW") -> Symbol:
    window = _window("max_pool", ksize, strides, padding, data_format)
    return apply(lambda x: ops.MaxPool(x, **window)[0], data)


def avg_pool(data: Symbol, ksize: Quad, strides: Quad = (1, 1, 1, 1), padding: str = "SAME", data_format: str = "NCHW") -> Symbol:
    """The mean over each window; what is padded counts as 0."""
    window = _window("avg_pool", ksize, strides, padding, data_format)
    return apply(lambda x: ops.AveragePool(x, count_include_pad=1, **window), data)


def batch_normalization(data: Symbol, gamma: Symbol | None = None, beta: Symbol | None = None, *, epsilon: float = 1e-5,
                        name: str | None = None) -> Symbol:
    """By the statistics of the batch, in every run."""
    name = name or f"batch_normalization{next(_count)}"
    gamma = gamma or Variable(name=f"{name}_gamma", data=data, rule=lambda s: (s[1],))
    beta = beta or Variable(name=f"{name}_beta", data=data, rule=lambda s: (s[1],))

    def build(lowering: Any, x: Any, scale: Any, offset: Any) -> Any:
        none = np.zeros(lowering.shape_of(scale), np.float32)  # the statistics that are not used
        return ops.BatchNormalization(x, scale, offset, none, none, epsilon=epsilon, training_mode=1)[0]

    return Symbol(build, [data, gamma, beta])


def bias_add(data: Symbol, bias: Symbol) -> Symbol:
    """Adds one number to each channel, which is axis 1."""
    return Symbol(lambda lowering, x, b: x + ops.Unsqueeze(b, np.arange(1, len(lowering.shape_of(x)) - 1)), [data, bias])


def flatten_layer(data: Symbol) -> Symbol:
    return apply(ops.Flatten, data)


def relu(data: Symbol) -> Symbol:
    return apply(ops.Relu, data)


def softmax(data: Symbol) -> Symbol:
    return apply(lambda x: ops.Softmax(x, axis=-1), data)


def mean_sparse_softmax_cross_entropy_with_logits(logits: Symbol, label: Symbol) -> Symbol:
    """The mean of -log softmax(logits)[label]."""
    return apply(lambda x, y: ops.SoftmaxCrossEntropyLoss(x, ops.Cast(y, to="i64"), reduction="mean")[0], logits, label)


sparse_softmax_cross_entropy_with_logits = mean_sparse_softmax_cross_entropy_with_logits
