"""Operators in joint graphs: forward and backward as AOTAutograd traces them, beside autograd.

Each case names the backward operator that has to stand in its graph, so that what is compared is
the translator's rule for it; and which operands want a gradient, so that masks of results differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from common import distance
from torch._functorch.aot_autograd import aot_export_joint_simple

import weft
import weft.torch
from weft.torch.capture import fx
from weft.torch.capture.recorder import Captured

# Backward operator, name, function, operands; those of floats want gradients unless `still` says
# otherwise.
Case = tuple[str, str, Callable[..., Any], tuple[Any, ...], tuple[int, ...]]

# What torch computes in float64 with constants of float32.
COARSE = {"hardsigmoid_backward": 1e-6}


def _x(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def _case(
    op: str, name: str, function: Callable[..., Any], *args: Any, still: Sequence[int] = ()
) -> Case:
    return op, name, function, args, tuple(still)


def _activations() -> list[Case]:
    x = _x(3, 8) * 3
    bounds = torch.tensor([-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0], dtype=torch.float64)
    forms: list[tuple[str, str, Callable[..., Any]]] = [
        ("threshold_backward", "relu", F.relu),
        ("threshold_backward", "threshold", lambda x: F.threshold(x, 0.3, -1.0)),
        ("tanh_backward", "tanh", torch.tanh),
        ("sigmoid_backward", "sigmoid", torch.sigmoid),
        ("gelu_backward", "gelu", F.gelu),
        ("gelu_backward", "gelu tanh", lambda x: F.gelu(x, approximate="tanh")),
        ("", "silu", F.silu),
        ("", "mish", F.mish),
        ("hardswish_backward", "hardswish", F.hardswish),
        ("hardsigmoid_backward", "hardsigmoid", F.hardsigmoid),
        ("hardtanh_backward", "hardtanh", lambda x: F.hardtanh(x, -0.5, 0.7)),
        ("hardtanh_backward", "relu6", F.relu6),
        ("elu_backward", "elu", lambda x: F.elu(x, 0.7)),
        ("elu_backward", "selu", F.selu),
        ("elu_backward", "celu", lambda x: F.celu(x, 1.3)),
        ("leaky_relu_backward", "leaky_relu", lambda x: F.leaky_relu(x, 0.2)),
        ("leaky_relu_backward", "leaky_relu_", lambda x: F.leaky_relu_(x * 2, 0.2)),
        ("softplus_backward", "softplus", F.softplus),
        ("softplus_backward", "softplus beta", lambda x: F.softplus(x, 2.0, 3.0)),
        ("log_sigmoid_backward", "logsigmoid", F.logsigmoid),
        ("", "hardshrink", F.hardshrink),
        ("", "softshrink", lambda x: F.softshrink(x, 0.7)),
        ("glu_backward", "glu", lambda x: F.glu(x, 1)),
        ("glu_backward", "glu first", lambda x: F.glu(x[:2], 0)),
    ]
    cases = [_case(op, name, f, x) for op, name, f in forms]
    cases += [
        _case(op, f"{name} at bounds", f, bounds)
        for op, name, f in forms
        if name in ("relu", "relu6", "hardswish", "hardsigmoid", "leaky_relu", "elu", "hardshrink")
    ]
    cases += [
        _case("hardtanh_backward", "hardtanh at bounds", F.hardtanh, bounds),
        _case("logit_backward", "logit", lambda x: torch.logit(x, 1e-2), torch.rand(30).double()),
        _case("_prelu_kernel_backward", "prelu", F.prelu, _x(2, 3, 4), _x(3)),
        _case("_prelu_kernel_backward", "prelu of one", F.prelu, _x(2, 3, 4), _x(1)),
        _case("native_dropout_backward", "dropout of nothing",
              lambda x: torch.native_dropout(x, 0.0, True)[0], x),
    ]  # fmt: skip
    return cases


def _convolutions() -> list[Case]:
    x, w = _x(2, 4, 9, 8), _x(6, 4, 3, 2)

    def conv(name: str, function: Callable[..., Any], *args: Any, still: Any = ()) -> Case:
        return _case("convolution_backward", name, function, *args, still=still)

    return [
        conv("conv2d", lambda x, w, b: F.conv2d(x, w, b, (2, 1), (1, 2), (1, 2)), x, w, _x(6)),
        conv("conv2d weight alone", lambda x, w, b: F.conv2d(x, w, b, 2), x, w, _x(6),
             still=(0, 2)),
        conv("conv2d input alone", lambda x, w, b: F.conv2d(x, w, b, 2), x, w, _x(6),
             still=(1, 2)),
        conv("conv2d bias alone", lambda x, w, b: F.conv2d(x, w, b, 2), x, w, _x(6),
             still=(0, 1)),
        conv("conv2d no bias", F.conv2d, x, w),
        conv("conv2d groups", lambda x, w: F.conv2d(x, w, groups=2), x, _x(6, 2, 3, 3)),
        conv("conv2d depthwise", lambda x, w: F.conv2d(x, w, padding=1, groups=4), x,
             _x(8, 1, 3, 3)),
        conv("conv2d 1 x 1", lambda x, w: F.conv2d(x, w, stride=2), x, _x(6, 4, 1, 1)),
        conv("conv2d same", lambda x, w: F.conv2d(x, w, padding="same"), x, _x(6, 4, 2, 3)),
        conv("conv2d unbatched", F.conv2d, _x(4, 9, 8), _x(6, 4, 3, 3), _x(6)),
        conv("conv1d", lambda x, w, b: F.conv1d(x, w, b, 2, 2), _x(2, 3, 9), _x(4, 3, 5), _x(4)),
        conv("conv1d depthwise", lambda x, w: F.conv1d(x, w, padding=3, groups=3)[..., :9],
             _x(2, 3, 9), _x(3, 1, 4)),
        conv("conv3d", F.conv3d, _x(1, 2, 5, 6, 7), _x(3, 2, 2, 3, 2), _x(3)),
        conv("conv_transpose2d", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1), x,
             _x(4, 3, 3, 3), _x(3)),
        conv("conv_transpose2d groups",
             lambda x, w: F.conv_transpose2d(x, w, None, (2, 3), (1, 0), (1, 2), 2, (1, 2)), x,
             _x(4, 3, 3, 2)),
        conv("conv_transpose1d", lambda x, w: F.conv_transpose1d(x, w, stride=3), _x(2, 3, 5),
             _x(3, 2, 4)),
    ]  # fmt: skip


def _windows() -> list[Case]:
    x = _x(2, 4, 9, 8)
    tied = torch.randint(0, 3, (2, 3, 9, 8)).double()
    cases = []
    for name, args in (
        ("plain", (2,)), ("overlapping", (3, 2, 1)), ("dilated", (2, 2, 0, 2)),
        ("ceil", (2, 2, 0, 1, True)), ("ceil in the padding", (2, 2, 1, 1, True)),
        ("oblong", ((3, 2), (2, 1), (1, 0), (1, 2))),
    ):  # fmt: skip
        for kind, operand in (("", x), (" tied", tied)):
            cases.append(
                _case("max_pool2d_with_indices_backward", f"max_pool2d {name}{kind}",
                      lambda x, a=args: F.max_pool2d(x, *a), operand)
            )  # fmt: skip
    for name, args in (
        ("plain", (2,)), ("padded", (3, 2, 1)), ("uncounted", (3, 2, 1, False, False)),
        ("ceil", (3, 2, 0, True)), ("ceil uncounted", (3, 2, 1, True, False)),
        ("divisor", (2, 2, 0, False, True, 3)), ("oblong", ((3, 2), (1, 2), (1, 0))),
    ):  # fmt: skip
        cases.append(
            _case("avg_pool2d_backward", f"avg_pool2d {name}",
                  lambda x, a=args: F.avg_pool2d(x, *a), x)
        )  # fmt: skip
    for size in ((3, 4), (4, 3), (9, 8), (2, 5)):
        cases.append(
            _case("_adaptive_avg_pool2d_backward", f"adaptive_avg_pool2d {size}",
                  lambda x, s=size: F.adaptive_avg_pool2d(x, s), x)
        )  # fmt: skip
    for pooled in (1, (3, 4)):
        cases.append(
            _case("adaptive_max_pool2d_backward", f"adaptive_max_pool2d {pooled}",
                  lambda x, s=pooled: F.adaptive_max_pool2d(x, s), x)
        )  # fmt: skip
    resized: list[tuple[str, dict[str, Any]]] = [
        ("", {"scale_factor": 2.0}),
        ("", {"size": (5, 13)}),
        ("", {"scale_factor": 1.7, "mode": "bilinear"}),
        ("", {"size": (5, 13), "mode": "bilinear"}),
        ("", {"size": (15, 13), "mode": "bilinear", "align_corners": True}),
        ("", {"size": (12, 11), "mode": "bicubic"}),
    ]  # fmt: skip
    for op, options in resized:
        name = " ".join(f"{k}={v}" for k, v in options.items())
        cases.append(
            _case(op, f"interpolate {name}", lambda x, o=options: F.interpolate(x, **o), x)
        )
    return [
        *cases,
        _case("", "interpolate 1d",
              lambda x: F.interpolate(x, scale_factor=2.0), _x(2, 3, 5)),
        _case("", "interpolate linear",
              lambda x: F.interpolate(x, size=9, mode="linear"), _x(2, 3, 5)),
        _case("grid_sampler_2d_backward", "grid_sample",
              lambda x, g: F.grid_sample(x, g, align_corners=False), x,
              torch.rand(2, 5, 6, 2).double() * 2.4 - 1.2),
        _case("grid_sampler_2d_backward", "grid_sample input alone",
              lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True), x,
              torch.rand(2, 5, 6, 2).double() * 2.4 - 1.2, still=(1,)),
        _case("reflection_pad2d_backward", "pad reflect",
              lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), x),
        _case("replication_pad2d_backward", "pad replicate",
              lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"), x),
        _case("constant_pad_nd", "pad", lambda x: F.pad(x, (1, -2, 2, 1), value=3.0), x),
        _case("col2im", "unfold", lambda x: F.unfold(x, (3, 2), padding=1, stride=2), x),
        _case("im2col", "fold", lambda x: F.fold(x, (5, 6), (2, 2)), _x(1, 12, 20)),
    ]  # fmt: skip


def _norms() -> list[Case]:
    x = _x(2, 6, 5, 4)
    layer, group = "native_layer_norm_backward", "native_group_norm_backward"
    batch = "native_batch_norm_backward"

    def trained(x: Any, w: Any, b: Any, m: Any, v: Any) -> Any:
        return F.batch_norm(x, m.clone(), v.clone(), w, b, training=True, eps=1e-3)

    return [
        _case(layer, "layer_norm", lambda x, w, b: F.layer_norm(x, (4,), w, b, 1e-3), x, _x(4),
              _x(4)),
        _case(layer, "layer_norm plain", lambda x: F.layer_norm(x, (5, 4)), x),
        _case(layer, "layer_norm far from 0", lambda x: F.layer_norm(x, (4,)), x + 1000),
        _case(layer, "layer_norm two dims", lambda x, w: F.layer_norm(x, (5, 4), w), x, _x(5, 4)),
        _case(layer, "layer_norm input alone", lambda x, w, b: F.layer_norm(x, (4,), w, b), x,
              _x(4), _x(4), still=(1, 2)),
        _case(layer, "layer_norm parameters alone", lambda x, w, b: F.layer_norm(x, (4,), w, b),
              x, _x(4), _x(4), still=(0,)),
        _case(group, "group_norm", lambda x, w, b: F.group_norm(x, 3, w, b), x, _x(6), _x(6)),
        _case(group, "group_norm plain", lambda x: F.group_norm(x, 2), x),
        _case(group, "group_norm of rank 3", lambda x, w, b: F.group_norm(x, 2, w, b), _x(2, 6, 5),
              _x(6), _x(6), still=(1,)),
        _case(batch, "batch_norm training", trained, x, _x(6), _x(6), _x(6), _x(6).abs(),
              still=(3, 4)),
        _case(batch, "batch_norm training, input alone", trained, x, _x(6), _x(6), _x(6),
              _x(6).abs(), still=(1, 2, 3, 4)),
        _case(batch, "batch_norm training, scale alone", trained, x, _x(6), _x(6), _x(6),
              _x(6).abs(), still=(0, 2, 3, 4)),
        _case(batch, "batch_norm of the batch",
              lambda x: F.batch_norm(x, None, None, training=True), x),
        _case(batch, "batch_norm of rank 2", lambda x, w, b: F.batch_norm(
            x, None, None, w, b, training=True), _x(7, 6), _x(6), _x(6)),
        _case(batch, "batch_norm eval", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), x,
              _x(6), _x(6).abs() + 0.1, _x(6), _x(6), still=(1, 2)),
        _case(batch, "batch_norm eval plain", lambda x, m, v: F.batch_norm(x, m, v), x,
              _x(6), _x(6).abs() + 0.1, still=(1, 2)),
        _case(batch, "instance_norm", F.instance_norm, x),
        _case("_weight_norm_interface_backward", "weight_norm",
              lambda v, g: torch._weight_norm(v, g, 0), _x(4, 3, 5), _x(4, 1, 1)),
        _case("_weight_norm_interface_backward", "weight_norm last",
              lambda v, g: torch._weight_norm(v, g, 2), _x(4, 3, 5), _x(1, 1, 5)),
        _case("", "rms_norm", lambda x, w: F.rms_norm(x, (4,), w), x, _x(4)),
    ]  # fmt: skip


def _losses() -> list[Case]:
    logits, labels = _x(6, 5), torch.randint(0, 5, (6,))
    kept = labels.clone()
    kept[0] = -100
    weight = _x(5).abs() + 0.1
    nll = "nll_loss_backward"
    unit = torch.rand(9).double() * 0.98 + 0.01
    cases = [
        _case("_softmax_backward_data", "softmax", lambda x: F.softmax(x, -1), logits),
        _case("_softmax_backward_data", "softmax first", lambda x: F.softmax(x, 0), _x(3, 4, 5)),
        _case("_log_softmax_backward_data", "log_softmax", lambda x: F.log_softmax(x, 1), logits),
        _case(nll, "nll_loss", F.nll_loss, logits, labels),
        _case(nll, "nll_loss ignored", F.nll_loss, logits, kept),
        _case(nll, "nll_loss none", lambda x, y: F.nll_loss(x, y, reduction="none"), logits, kept),
        _case(nll, "nll_loss sum", lambda x, y, w: F.nll_loss(x, y, w, reduction="sum"),
              logits, kept, weight, still=(2,)),
        _case(nll, "nll_loss weights", F.nll_loss, logits, kept, weight, still=(2,)),
        _case(nll, "nll_loss of one", F.nll_loss, _x(5), labels[0]),
        _case(nll, "cross_entropy ignore_index",
              lambda x, y, i=int(labels[1]): F.cross_entropy(x, y, ignore_index=i), logits, labels),
        _case(nll, "cross_entropy smooth",
              lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), logits, labels),
        _case("nll_loss2d_backward", "nll_loss2d",
              F.cross_entropy, _x(2, 5, 3, 4), torch.randint(0, 5, (2, 3, 4)), weight,
              still=(2,)),
        _case("", "bce with logits", F.binary_cross_entropy_with_logits, _x(9), unit),
        _case("", "kl_div", lambda x, y: F.kl_div(F.log_softmax(x, 1), y, reduction="batchmean"),
              logits, F.softmax(_x(6, 5), 1), still=(1,)),
        _case("", "l1_loss", F.l1_loss, _x(9), _x(9)),
    ]  # fmt: skip
    for reduction in ("mean", "sum", "none"):
        both: list[tuple[str, Any]] = [
            ("mse_loss", F.mse_loss), ("smooth_l1_loss", lambda *a, **k: F.smooth_l1_loss(
                *a, beta=0.7, **k)),
            ("huber_loss", lambda *a, **k: F.huber_loss(*a, delta=0.7, **k)),
        ]  # fmt: skip
        for name, function in both:
            cases.append(
                _case(f"{name}_backward", f"{name} {reduction}",
                      lambda x, y, f=function, r=reduction: f(x, y, reduction=r), _x(9) * 2, _x(9))
            )  # fmt: skip
        cases.append(
            _case("binary_cross_entropy_backward", f"binary_cross_entropy {reduction}",
                  lambda x, y, r=reduction: F.binary_cross_entropy(x, y, reduction=r), unit,
                  torch.rand(9).double(), still=(1,))
        )  # fmt: skip
    return cases


def _attention() -> list[Case]:
    op = "_scaled_dot_product_flash_attention_for_cpu_backward"
    q, k, v = _x(2, 3, 5, 8), _x(2, 3, 7, 8), _x(2, 3, 7, 8)
    sdpa = F.scaled_dot_product_attention
    mask = torch.rand(5, 7) > 0.5
    mask[:, 0] = True
    whole = mask.clone()
    whole[2] = False
    return [
        _case(op, "sdpa", sdpa, q, k, v),
        _case(op, "sdpa scale", lambda q, k, v: sdpa(q, k, v, scale=0.3), q, k, v),
        _case(op, "sdpa causal", lambda q, k, v: sdpa(q, k, v, is_causal=True), q, q * 2, q + 1),
        _case(op, "sdpa mask", sdpa, q, k, v, mask),
        _case(op, "sdpa float mask", sdpa, q, k, v,
              _x(2, 1, 5, 7), still=(3,)),
        _case(op, "sdpa mask of whole rows", sdpa, q, k, v, whole),
        _case(op, "sdpa query alone", sdpa, q, k, v, still=(1, 2)),
        _case("", "sdpa groups", lambda q, k, v: sdpa(q, k, v, enable_gqa=True), _x(2, 4, 5, 8),
              _x(2, 2, 7, 8), _x(2, 2, 7, 8)),
    ]  # fmt: skip


def _places() -> list[Case]:
    x = _x(4, 5, 6)
    i, j = torch.tensor([0, 2, 2]), torch.tensor([4, 1, 1])
    indices = torch.tensor([[1, 0, 6], [1, 1, 2]])
    embedding = "embedding_dense_backward"
    return [
        _case(embedding, "embedding", lambda w, i: F.embedding(i, w), _x(7, 3), indices),
        _case(embedding, "embedding padding", lambda w, i: F.embedding(i, w, padding_idx=1),
              _x(7, 3), indices),
        _case("select_backward", "select", lambda x: (x[1], x[:, -1], x[..., 2]), x),
        _case("slice_backward", "slice",
              lambda x: (x[1:], x[:, -2:], x[..., ::2], x[:, 1:-1], x[:, 1:100]), x),
        _case("unfold_backward", "unfold", lambda x: x.unfold(2, 3, 2), x),
        _case("diagonal_backward", "diagonal", lambda x: (x.diagonal(), x.diagonal(1, 1, 2)), x),
        _case("scatter_add", "gather", lambda x, i: x.gather(1, i), x,
              torch.tensor([[[1], [1], [0]]] * 4)),
        _case("index_add", "index_select", lambda x, j: x.index_select(1, j), x, j),
        _case("index_put", "index", lambda x, i, j: (x[i], x[:, j], x[i, j], x[i, :, j]), x,
              i, j),
        _case("", "index_put", lambda x, v, i: torch.index_put(x, (i,), v), x, _x(2, 5, 6),
              i[:2]),
        _case("", "index_put add", lambda x, v, i: torch.index_put(x, (i,), v, True), x,
              _x(3, 5, 6), i),
        _case("", "scatter", lambda x, s, i: x.scatter(0, i[None, :, None].expand(1, 3, 6), s),
              x, _x(1, 3, 6), i),
        _case("", "scatter_add", lambda x, s, j: x.scatter_add(
            1, j[None, :, None].expand(4, 3, 6), s), x, _x(4, 3, 6), j),
        _case("", "masked_fill", lambda x: x.masked_fill(x > 0.5, -1.0), x),
        _case("", "where", lambda x, y: torch.where(x > y, x, y * 2), x, _x(5, 6)),
        _case("", "cat, stack", lambda x, y: (torch.cat([x, y], 1), torch.stack([x, x], 2)), x,
              _x(4, 2, 6)),
        _case("", "split", lambda x: (x.split(2, 1)[1], x.chunk(3, 2)[0], x.unbind(1)[3]), x),
        _case("", "repeat, expand", lambda x: (x.repeat(2, 1, 3), x[:1].expand(3, 5, 6)), x),
        _case("", "roll, flip", lambda x: (x.roll(1, 2), x.flip(1)), x),
        _case("", "tril", lambda x: (x.tril(), x.triu(1)), x),
        _case("", "sort, topk", lambda x: (x.sort(1).values, x.topk(2, 2).values), x),
        _case("", "slice_scatter", lambda x, s: torch.slice_scatter(x, s, 1, 1, 3), x,
              _x(4, 2, 6)),
        _case("", "select_scatter", lambda x, s: torch.select_scatter(x, s, 1, -2), x, _x(4, 6)),
        _case("", "as_strided", lambda x: x.as_strided((3, 4), (5, 2), 1) * 2, _x(40)),
        _case("", "as_strided_scatter", lambda x, s: torch.as_strided_scatter(
            x, s, (3, 4), (5, 2), 1), _x(40), _x(3, 4)),
        _case("", "writes through views", _writes, x),
    ]  # fmt: skip


def _writes(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    row = y[1]
    row.add_(1)
    y[:, 2:4].mul_(2)
    y.transpose(0, 1)[0].mul_(y.transpose(0, 1)[1].clone())
    y.view(-1)[5:9] = 0
    return y + row.sum()


def _arithmetic() -> list[Case]:
    x, y = _x(3, 4, 5), _x(4, 5)
    return [
        _case("", "add, sub, mul, div", lambda x, y: (x + y, x - y, x * y, x / y), x, y),
        _case("", "powers", lambda x: (x**2, x**3, x.abs() ** 0.5, x**-1, x.abs() ** 2.5), x),
        _case("", "pow", lambda x, y: x.abs() ** y, x, y),
        _case("", "max, min", lambda x, y: (torch.maximum(x, y), torch.minimum(x, y)), x, y),
        _case("", "clamp", lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp_max(0.1)), x),
        _case("", "functions", lambda x: (x.exp(), x.sin(), x.cos(), x.atan(), x.erf(), x.neg(),
                                          x.expm1(), x.sinh(), x.abs(), x.sign(), x.floor()), x),
        _case("", "logarithms", lambda x: (x.log(), x.log1p(), x.sqrt(), x.rsqrt(), x.log2(),
                                           x.reciprocal()), x.abs() + 0.1),
        _case("", "fmod, remainder", lambda x: (x.fmod(0.7), x.remainder(0.7)), x),
        _case("", "lerp, addcmul", lambda x, y: (torch.lerp(x, y, 0.3),
                                                 torch.addcmul(x, x, y, value=0.5)), x, y),
        _case("", "sums", lambda x: (x.sum(), x.sum(1), x.mean((0, 2)), x.mean()), x),
        _case("", "products", lambda x: (x.prod(), x.cumsum(1), x.prod(1)), x),
        _case("", "extrema", lambda x: (x.amax(1), x.amin((0, 2)), x.max(), x.max(1).values), x),
        _case("", "var, std", lambda x: (x.var(), x.var(1), x.std(2, correction=0)), x),
        _case("", "logsumexp", lambda x: (x.logsumexp(1), x.logsumexp((0, 2))), x),
        _case("", "norms", lambda x: (x.norm(), x.norm(1, 1), x.norm(float("inf"), 2),
                                      x.norm(3, 0)), x),
        _case("", "cdist", torch.cdist, _x(4, 3), _x(5, 3)),
        _case("", "mm, bmm, linear", lambda a, b, c: (a @ b, torch.bmm(a[None], b[None]),
                                                      F.linear(a, b.t(), c)),
              _x(3, 4), _x(4, 5), _x(5)),
        _case("", "addmm, baddbmm", lambda c, a, b: (
            torch.addmm(c, a, b, beta=0.5, alpha=2),
            torch.baddbmm(c[None, None], a[None], b[None], beta=0.5)), _x(5), _x(3, 4), _x(4, 5)),
        _case("", "einsum", lambda x, y: torch.einsum("abc,bc->ab", x, y), x, y),
        _case("", "matmul broadcast", torch.matmul, _x(2, 1, 3, 4), _x(5, 4, 2)),
        _case("", "detach", lambda x, y: x * y.detach() + y.detach().sin() * x.detach(), x, y,
              still=()),
    ]  # fmt: skip


# What autograd on its way to a joint graph writes out in other operators, but torch.compile does
# not, or what no function above leads to: called as they are.
Call = tuple[str, Callable[..., Any], tuple[Any, ...]]


def calls() -> list[Call]:
    aten: Any = torch.ops.aten
    x, dy = _x(3, 8) * 3, _x(3, 8)
    image, small = _x(2, 4, 9, 8), _x(2, 4, 5, 13)
    solid = _x(1, 2, 6, 7, 8)
    norm = (_x(6), torch.rand(6).double() + 0.5)
    pooled, places = aten.max_pool3d_with_indices(solid, [2, 3, 2], [2, 2, 2], [1, 1, 0])
    averaged = aten.avg_pool3d(solid, [2, 3, 2], [2, 2, 2], [0, 1, 1], False, False)
    found: list[Call] = [
        ("silu_backward", aten.silu_backward, (dy, x)),
        ("mish_backward", aten.mish_backward, (dy, x)),
        ("hardshrink_backward", lambda g, x: aten.hardshrink_backward(g, x, 0.5), (dy, x)),
        ("softshrink_backward", lambda g, x: aten.softshrink_backward(g, x, 0.75), (dy, x)),
        ("native_dropout_backward", lambda g, m: aten.native_dropout_backward(g, m, 2.0),
         (dy, x > 0)),
        ("max_pool3d_backward", lambda g, x, i: aten.max_pool3d_with_indices_backward(
            g, x, [2, 3, 2], [2, 2, 2], [1, 1, 0], [1, 1, 1], False, i),
         (torch.randn_like(pooled), solid, places)),
        ("avg_pool3d_backward", lambda g, x: aten.avg_pool3d_backward(
            g, x, [2, 3, 2], [2, 2, 2], [0, 1, 1], False, False, None),
         (torch.randn_like(averaged), solid)),
        ("_adaptive_avg_pool3d_backward", aten._adaptive_avg_pool3d_backward,
         (_x(1, 2, 3, 7, 4), solid)),
        ("native_batch_norm_backward of the saved", lambda g, x, w, m, v: (
            aten.native_batch_norm_backward(g, x, w, m, v, None, None, False, 1e-3,
                                            [True, True, True])),
         (_x(2, 6, 5), _x(2, 6, 5), _x(6), *norm)),
        ("select_backward", lambda g: aten.select_backward(g, [3, 5, 8], 1, -2), (dy,)),
        ("slice_backward", lambda g: aten.slice_backward(g, [3, 20], 1, 2, 18, 2), (dy,)),
        ("slice_backward from behind", lambda g: aten.slice_backward(g, [3, 20], 1, -9, -1, 1),
         (dy,)),
        ("embedding_dense_backward", lambda g, i: aten.embedding_dense_backward(g, i, 9, -1, False),
         (_x(2, 3, 4), torch.tensor([[0, 8, 8], [1, -1 + 9, 2]]))),
        ("embedding_dense_backward by frequency",
         lambda g, i: aten.embedding_dense_backward(g, i, 9, 2, True),
         (_x(2, 3, 4), torch.tensor([[0, 8, 8], [1, 8, 2]]))),
        ("unfold_backward", lambda g: aten.unfold_backward(g, [4, 9], 1, 3, 2), (_x(4, 4, 3),)),
        ("upsample_nearest2d_backward", lambda g: aten.upsample_nearest2d_backward(
            g, [5, 13], [2, 4, 9, 8]), (small,)),
        ("upsample_nearest2d_backward scales", lambda g: aten.upsample_nearest2d_backward(
            g, [18, 16], [2, 4, 9, 8], 2.0, 2.0), (_x(2, 4, 18, 16),)),
        ("upsample_bicubic2d_backward", lambda g: aten.upsample_bicubic2d_backward(
            g, [12, 11], [2, 4, 9, 8], False), (_x(2, 4, 12, 11),)),
        ("upsample_linear1d_backward", lambda g: aten.upsample_linear1d_backward(
            g, [9], [2, 3, 5], False), (_x(2, 3, 9),)),
        ("upsample_nearest1d_backward", lambda g: aten.upsample_nearest1d_backward(
            g, [10], [2, 3, 5]), (_x(2, 3, 10),)),
        ("upsample_trilinear3d_backward", lambda g: aten.upsample_trilinear3d_backward(
            g, [6, 5, 4], [1, 2, 3, 4, 5], False), (_x(1, 2, 6, 5, 4),)),
    ]  # fmt: skip
    for corners in (False, True):
        found.append(
            (f"upsample_bilinear2d_backward corners={corners}",
             lambda g, c=corners: aten.upsample_bilinear2d_backward(
                 g, [15, 13], [2, 4, 9, 8], c), (_x(2, 4, 15, 13),))
        )  # fmt: skip
    for mask in ((True, False, False), (False, True, True), (False, False, True)):
        found.append(
            (f"convolution_backward {mask}",
             lambda g, x, w, m=mask: [r for r in aten.convolution_backward(
                 g, x, w, [6], [2, 1], [1, 2], [1, 2], False, [0, 0], 2, m) if r is not None],
             (torch.randn_like(F.conv2d(image, _x(6, 2, 3, 2), None, (2, 1), (1, 2), (1, 2), 2)),
              image, _x(6, 2, 3, 2)))
        )  # fmt: skip
    return found


def call_error(call: Call, dtype: torch.dtype) -> float:
    _, function, args = call
    given = tuple(_cast(a, dtype) for a in args)
    exported = weft.torch.export(function, given)  # type: ignore[arg-type]
    want = function(*(_cast(a, torch.float64) for a in given))
    flat = [w for w in (want if isinstance(want, (list, tuple)) else [want]) if w is not None]
    got = weft.Session(exported.compile()).run(
        {e.name: v.numpy() for e, v in zip(exported.graph.inputs, given)}
    )
    return max(distance(np.asarray(g), _cast(w, dtype).numpy()) for g, w in zip(got, flat))


def cases() -> list[Case]:
    torch.manual_seed(0)
    return [
        *_activations(), *_convolutions(), *_windows(), *_norms(), *_losses(), *_attention(),
        *_places(), *_arithmetic(),
    ]  # fmt: skip


def _cast(a: Any, dtype: torch.dtype) -> Any:
    return a.detach().to(dtype) if isinstance(a, torch.Tensor) and a.is_floating_point() else a


@dataclass(slots=True)
class Traced:
    """A case's joint graph, what it is fed with, and what torch gives in float64."""

    captured: Captured
    feeds: list[Any]
    want: list[Any]


def trace(case: Case, dtype: torch.dtype) -> Traced:
    op, _, function, given, still = case

    def operands(kind: torch.dtype) -> tuple[Any, ...]:
        return tuple(
            _cast(_cast(a, dtype), kind).requires_grad_(i not in still)
            if isinstance(a, torch.Tensor) and a.is_floating_point()
            else a
            for i, a in enumerate(given)
        )

    def whole(*args: Any) -> tuple[Any, ...]:
        result = function(*args)
        # No result may be a view of an operand.
        return tuple(r.clone() for r in (result if isinstance(result, (tuple, list)) else [result]))

    args, wide = operands(dtype), operands(torch.float64)
    captured = fx.capture_graph(aot_export_joint_simple(whole, args, trace_joint=True))
    names = {n.op.split(".")[1] for n in captured.record.nodes}
    if op and op not in names:
        raise AssertionError(f"no {op} in the graph: {sorted(names)}")
    results = whole(*wide)
    generator = torch.Generator().manual_seed(1)
    # Of few digits, as what is recorded.
    pairs = [
        (r, torch.randn(r.shape, generator=generator, dtype=dtype).round(decimals=3))
        for r in results
        if r.requires_grad
    ]
    wanted = [a for a in wide if isinstance(a, torch.Tensor) and a.requires_grad]
    gradients = torch.autograd.grad(
        [r for r, _ in pairs], wanted, [s.double() for _, s in pairs], allow_unused=True
    )
    feeds = [a.detach().numpy() for a in args if isinstance(a, torch.Tensor)]
    want = [*results, *(g for g in gradients if g is not None)]
    return Traced(
        captured,
        feeds + [s.numpy() for _, s in pairs],
        [_cast(w, dtype).detach().numpy() for w in want],
    )


def joint_error(case: Case, dtype: torch.dtype) -> float:
    """The largest difference of results and gradients from those of autograd."""
    traced = trace(case, dtype)
    record = traced.captured.record
    exported = weft.torch.build(record, traced.captured.tensors)
    got = weft.Session(exported.compile()).run(*traced.feeds)
    named = dict(zip(exported.graph.output_names, got))
    names = [o.name for o in record.outputs if o.value is not None]
    if len(names) != len(traced.want):
        raise AssertionError(f"{len(names)} results, {len(traced.want)} wanted")
    return max(distance(np.asarray(named[n]), w) for n, w in zip(names, traced.want))
