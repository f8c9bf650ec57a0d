"""Operators one by one: a small program for each form that a rule covers, beside eager torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Case = tuple[str, Callable[..., Any], tuple[Any, ...]]


def _x(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def _positive(*shape: int) -> torch.Tensor:
    return torch.rand(*shape) + 0.1


def _ints(low: int, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(low, high, shape)


def _mask(*shape: int) -> torch.Tensor:
    return torch.rand(*shape) > 0.5


def _unary() -> list[Case]:
    real = (
        "exp sin cos tanh sigmoid erf neg abs sign floor ceil round trunc square expm1 atan "
        "sinh cosh asinh relu exp2 erfc tan"
    ).split()
    positive = "log sqrt rsqrt reciprocal log1p log2 log10".split()
    unit = "asin acos atanh".split()
    cases: list[Case] = []
    for name in real:
        cases.append((name, getattr(torch, name), (_x(3, 5) * 2,)))
    for name in positive:
        cases.append((name, getattr(torch, name), (_positive(3, 5),)))
    for name in unit:
        cases.append((name, getattr(torch, name), (torch.rand(3, 5) * 1.8 - 0.9,)))
    cases.append(("acosh", torch.acosh, (_positive(4) + 1,)))
    for name in ("exp", "sqrt", "sin", "neg", "abs", "floor", "square"):
        cases.append((f"{name} of integers", getattr(torch, name), (_ints(0, 9, 3, 4),)))
    small = torch.tensor([1e-8, -1e-8, 1e-5, 0.0, 0.5, -0.5, 3.0])
    cases.append(("log1p near 0", torch.log1p, (small,)))
    cases.append(("expm1 near 0", torch.expm1, (small,)))
    return cases


def _binary() -> list[Case]:
    a, b = _x(3, 1, 4), _x(2, 4)
    i, j = _ints(-9, 9, 3, 4), _ints(1, 5, 4) * torch.tensor([1, -1, 1, -1])
    return [
        ("add", lambda a, b: a + b, (a, b)),
        ("add alpha", lambda a, b: torch.add(a, b, alpha=2.5), (a, b)),
        ("sub alpha", lambda a, b: torch.sub(a, b, alpha=3), (a, b)),
        ("rsub", lambda a: 2 - a, (a,)),
        ("mul of int and float", lambda a, i: a * i, (a, _ints(0, 5, 4))),
        ("int + 1.5", lambda i: i + 1.5, (i,)),
        ("bool + bool", lambda m, n: m + n, (_mask(4), _mask(4))),
        ("bool * bool", lambda m, n: m * n, (_mask(4), _mask(4))),
        ("bool sum", lambda m: m.sum(), (_mask(4, 5),)),
        ("int8 sum", lambda x: x.sum(0), (_ints(-100, 100, 30, 2).to(torch.int8),)),
        ("int / int", lambda i, j: i / j, (i, j)),
        ("int // int", lambda i, j: i // j, (i, j)),
        ("int % int", lambda i, j: i % j, (i, j)),
        ("float % float", lambda a, b: a % b, (a, b)),
        ("float // float", lambda a, b: a // b, (a * 5, b)),
        ("div trunc", lambda a, b: torch.div(a, b, rounding_mode="trunc"), (a * 5, b)),
        ("int div trunc", lambda i, j: torch.div(i, j, rounding_mode="trunc"), (i, j)),
        ("int div floor", lambda i, j: torch.div(i, j, rounding_mode="floor"), (i, j)),
        ("fmod", torch.fmod, (a * 5, b)),
        ("pow 2, 3, .5, -1", lambda x: (x**2, x**3, x**0.5, x**-1, x**2.5), (_positive(5),)),
        ("pow of tensors", torch.pow, (_positive(3, 4), _x(4))),
        ("2 ** x", lambda x: 2**x, (_x(4),)),
        ("int ** 2", lambda i: i**2, (i,)),
        ("maximum", torch.maximum, (a, b)),
        ("minimum of dtypes", torch.minimum, (_x(4), _ints(-2, 2, 4))),
        ("clamp", lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=0.1)), (_x(3, 4),)),
        ("clamp by tensors", torch.clamp, (_x(3, 4), _x(4) - 1, _x(4) + 1)),
        ("clamp of integers", lambda i: i.clamp(0, 3), (i,)),
        ("where", torch.where, (_mask(3, 4), _x(3, 4), _x(4))),
        ("where with numbers", lambda m, x: torch.where(m, x, 0.0), (_mask(4), _x(4))),
        ("masked_fill", lambda x, m: x.masked_fill(m, -1.0), (_x(3, 4), _mask(3, 4))),
        ("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), (_x(4), _x(4), _x(4))),
        ("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z), (_x(4), _x(4), _positive(4))),
        ("lerp", lambda x, y: torch.lerp(x, y, 0.3), (_x(4), _x(4))),
        ("atan2", torch.atan2, (_x(20), _x(20))),
        ("bitwise", lambda i, j: (i & j, i | j, i ^ j, ~i), (i, j)),
        ("shifts", lambda i: (i << 2, i >> 1), (i,)),
        ("logical", lambda m, n: (m & n, m | n, m ^ n, ~m, m.logical_not()),
         (_mask(6), _mask(6))),
        ("comparisons", lambda a, b: (a < b, a <= b, a > b, a >= b, a == b, a != b),
         (_ints(0, 3, 9), _ints(0, 3, 9))),
        ("compare int with 1.5", lambda i: i < 1.5, (i,)),
        ("compare float with int", lambda a, i: a > i, (_x(4), _ints(-1, 2, 4))),
        ("any, all", lambda m: (m.any(), m.all(), m.any(1), m.all(0, keepdim=True)),
         (_mask(3, 4),)),
        ("isnan, isinf", lambda x: ((x / 0).isnan(), (x / 0).isinf()),
         (torch.tensor([0.0, 1.0, -1.0]),)),
        ("casts", lambda x: (x.int(), x.double(), x.bool(), x.half().float(), x.long()),
         (_x(6) * 3,)),
        ("0-d with 1-d", lambda x: x * torch.tensor(2.0, dtype=torch.float64), (_x(4),)),
    ]  # fmt: skip


def _activations() -> list[Case]:
    x = _x(3, 8) * 3
    return [
        ("gelu", F.gelu, (x,)),
        ("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), (x,)),
        ("silu", F.silu, (x,)),
        ("mish", F.mish, (x,)),
        ("elu", lambda x: F.elu(x, 0.7), (x,)),
        ("selu", F.selu, (x,)),
        ("celu", lambda x: F.celu(x, 1.3), (x,)),
        ("leaky_relu", lambda x: F.leaky_relu(x, 0.2), (x,)),
        ("prelu", F.prelu, (_x(2, 3, 4), torch.tensor([0.1, 0.2, 0.3]))),
        ("hardtanh", lambda x: F.hardtanh(x, -0.5, 0.7), (x,)),
        ("relu6", F.relu6, (x * 3,)),
        ("hardsigmoid", F.hardsigmoid, (x * 2,)),
        ("hardswish", F.hardswish, (x * 2,)),
        ("softplus", F.softplus, (x * 10,)),
        ("softplus beta", lambda x: F.softplus(x, 2.0, 10.0), (x * 5,)),
        ("logsigmoid", F.logsigmoid, (x,)),
        ("threshold", lambda x: F.threshold(x, 0.3, -1.0), (x,)),
        ("hardshrink", F.hardshrink, (x,)),
        ("softshrink", F.softshrink, (x,)),
        ("glu", lambda x: F.glu(x, 1), (x,)),
        ("softmax", lambda x: (F.softmax(x, 0), F.log_softmax(x, -1)), (x,)),
        ("logit", lambda x: torch.logit(x, 1e-3), (torch.rand(9),)),
    ]


def _movement() -> list[Case]:
    x = _x(2, 3, 4, 5)
    return [
        ("view", lambda x: (x.view(6, 20), x.reshape(-1), x.flatten(1), x.unflatten(3, (5, 1))),
         (x,)),
        ("permute", lambda x: (x.permute(3, 0, 2, 1), x.transpose(1, -1), x.movedim(0, 2)), (x,)),
        ("t", lambda x: (x.t(), x.mT), (_x(3, 4),)),
        ("unsqueeze", lambda x: (x.unsqueeze(-1), x[None], x[:1].squeeze(0)), (x,)),
        ("expand", lambda x: (x[:, :1].expand(2, 3, 4, 5), x[:1].expand(7, -1, -1, -1)), (x,)),
        ("cat", lambda x, y: torch.cat([x, y, x], 1), (x, _x(2, 1, 4, 5))),
        ("cat of dtypes", lambda x, y: torch.cat([x, y]), (_x(2, 3), _ints(0, 5, 2, 3))),
        ("stack", lambda x: torch.stack([x, x * 2], 2), (x,)),
        ("slice", lambda x: (x[1:], x[:, -2:], x[..., ::2], x[:, :, 1:-1], x[:, 1:100]), (x,)),
        ("select", lambda x: (x[0], x[:, -1], x[..., 2]), (x,)),
        ("split", lambda x: (x.split(2, 2), x.split([1, 3], 2), x.chunk(3, 3), x.unbind(1)),
         (x,)),
        ("repeat", lambda x: (x.repeat(1, 2, 1, 3), x.repeat(2, 1, 1, 1, 1)), (x,)),
        ("repeat_interleave", lambda x: x.repeat_interleave(3, 1), (x,)),
        ("roll", lambda x: (x.roll(1, 2), x.roll((-1, 2), (0, 3)), x.roll(7)), (x,)),
        ("flip", lambda x: x.flip(0, 2), (x,)),
        ("pad", lambda x: (F.pad(x, (1, 2, 0, 1), value=0.5), F.pad(x, (-1, 1))), (x,)),
        ("pad reflect", lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), (x,)),
        ("pad replicate", lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"), (x,)),
        ("pad circular", lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"), (x,)),
        ("tril, triu", lambda x: (x.tril(), x.triu(1), x.tril(-1)), (_x(4, 5),)),
        ("diagonal", lambda x: (x.diagonal(), x.diagonal(1, 2, 3)), (x,)),
        ("unfold", lambda x: x.unfold(3, 2, 1), (x,)),
        ("as_strided", lambda x: x.as_strided((3, 4), (5, 2), 1), (_x(40),)),
        ("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), (_x(1, 8, 3, 3),)),
        ("einsum", lambda x, y: torch.einsum("bchw,bdhw->bcd", x, y), (x, x)),
    ]  # fmt: skip


def _creation() -> list[Case]:
    x = _x(2, 5)
    return [
        ("arange", lambda x: (torch.arange(5), torch.arange(1, 9, 2), torch.arange(0.0, 1.0, 0.3)),
         (x,)),
        ("linspace", lambda x: torch.linspace(-1, 1, 7) + x[0, 0], (x,)),
        ("full", lambda x: (torch.full((2, 3), 7), torch.full_like(x, 0.5), torch.ones_like(x)),
         (x,)),
        ("zeros, new", lambda x: (torch.zeros(2), x.new_zeros(3), x.new_full((2,), 4.0)), (x,)),
        ("eye", lambda x: torch.eye(3, 4) * x[0, 0], (x,)),
        ("literal", lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]), (x,)),
    ]  # fmt: skip


def _indexing() -> list[Case]:
    x = _x(4, 5, 6)
    i, j = _ints(-4, 4, 3), _ints(0, 5, 3)
    return [
        ("embedding", lambda w, i: F.embedding(i, w), (_x(7, 3), _ints(0, 7, 2, 3))),
        ("embedding padding", lambda w, i: F.embedding(i, w, padding_idx=0),
         (_x(7, 3), _ints(0, 7, 5))),
        ("gather", lambda x, i: x.gather(1, i), (x, _ints(0, 5, 4, 2, 6))),
        ("index_select", lambda x, i: x.index_select(1, i), (x, j)),
        ("index one", lambda x, i: x[i], (x, i)),
        ("index middle", lambda x, i: x[:, i], (x, j)),
        ("index two", lambda x, i, j: x[i, j], (x, i, j)),
        ("index two behind", lambda x, i, j: x[:, i, j], (_x(2, 4, 5), i, j)),
        ("index with a gap", lambda x, i, j: x[i, :, j], (x, i, j)),
        ("index broadcast", lambda x, i, j: x[i[:, None], j[None]], (x, i, j)),
        ("index_put", lambda x, i, v: torch.index_put(x, (i,), v), (x, torch.tensor([0, 2]),
                                                                  _x(2, 5, 6))),
        ("index_put add", lambda x, i, v: torch.index_put(x, (i,), v, True),
         (x, torch.tensor([1, 1]), _x(2, 5, 6))),
        ("index_put two", lambda x, i, j, v: torch.index_put(x, (i, j), v),
         (x, torch.tensor([0, 1]), torch.tensor([2, 3]), _x(6))),
        ("index_put middle", lambda x, i, v: torch.ops.aten.index_put(x, [None, i], v),
         (x, torch.tensor([0, 3]), _x(4, 2, 6))),
        ("masked set", lambda x, m: torch.index_put(x, (m,), torch.tensor(0.0)),
         (x, _mask(4, 5))),
        ("scatter", lambda x, i, s: x.scatter(1, i, s), (x, torch.arange(5).flip(0)[None, :, None]
                                                        .expand(4, 5, 6), _x(4, 5, 6))),
        ("scatter value", lambda x, i: x.scatter(0, i, 2.0), (x, _ints(0, 4, 1, 5, 6))),
        ("scatter_add", lambda x, i, s: x.scatter_add(0, i, s), (x, _ints(0, 4, 3, 5, 6),
                                                                _x(3, 5, 6))),
        ("scatter_reduce", lambda x, i, s: x.scatter_reduce(0, i, s, "amax"),
         (x, _ints(0, 4, 3, 5, 6), _x(3, 5, 6))),
        ("index_add", lambda x, i, s: x.index_add(1, i, s), (x, torch.tensor([0, 0, 3]),
                                                           _x(4, 3, 6))),
        ("index_copy", lambda x, i, s: x.index_copy(1, i, s), (x, torch.tensor([0, 3]),
                                                             _x(4, 2, 6))),
        ("index_fill", lambda x, i: x.index_fill(2, i, 1.0), (x, torch.tensor([0, 3]))),
        ("slice_scatter", lambda x, s: (torch.slice_scatter(x, s, 1, 1, 3),
                                        torch.slice_scatter(x, s, 1, 0, 4, 2)),
         (x, _x(4, 2, 6))),
        ("select_scatter", lambda x, s: torch.select_scatter(x, s, 1, -2), (x, _x(4, 6))),
        ("masked_scatter", lambda x, m, s: x.masked_scatter(m, s), (x, _mask(4, 5, 6), _x(200))),
        ("take", lambda x, i: torch.take(x, i), (x, _ints(0, 100, 3, 4))),
        ("one_hot", lambda i: F.one_hot(i, 6), (_ints(0, 6, 4),)),
        ("bucketize", lambda x, b: (torch.bucketize(x, b), torch.bucketize(x, b, right=True)),
         (_x(9), torch.tensor([-1.0, 0.0, 1.0]))),
        ("topk", lambda x: (x.topk(3, 1).values, x.topk(2, 2, largest=False).indices), (x,)),
        ("sort", lambda x: (x.sort(1).values, x.sort(2, descending=True).indices, x.argsort(0)),
         (x,)),
        ("writes through views", _writes, (x,)),
    ]  # fmt: skip


def _writes(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    row = y[1]
    row.add_(1)
    y[:, 2:4].mul_(2)
    y.transpose(0, 1)[0].fill_(3)
    y.view(-1)[5:9] = 0
    return y + row.sum()


def _reductions() -> list[Case]:
    x = _x(3, 4, 5)
    return [
        ("sum", lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True)), (x,)),
        ("mean", lambda x: (x.mean(), x.mean(-1), x.mean((0, 1))), (x,)),
        ("prod", lambda x: (x.prod(), x.prod(1)), (x,)),
        ("amax, amin", lambda x: (x.amax(1), x.amin((0, 2)), x.max(), x.min()), (x,)),
        ("max dim", lambda x: (*x.max(1), *x.min(2, keepdim=True)), (x,)),
        ("argmax", lambda x: (x.argmax(), x.argmax(1), x.argmin(2, keepdim=True)), (x,)),
        ("argmax ties", lambda i: i.argmax(1), (torch.tensor([[1, 2, 2], [3, 3, 1]]),)),
        ("var, std", lambda x: (x.var(), x.var(1), x.std(2, correction=0), x.var((0, 1))), (x,)),
        ("var_mean", lambda x: torch.var_mean(x, 1), (x,)),
        ("logsumexp", lambda x: (torch.logsumexp(x, 1), torch.logsumexp(x, (0, 2))), (x,)),
        ("cumsum", lambda x: (x.cumsum(1), x.cumprod(2)), (x,)),
        ("diff", lambda x: (torch.diff(x), torch.diff(x, 2, 1),
                            torch.diff(x, dim=0, prepend=x[:1])), (x,)),
        ("norms", lambda x: (x.norm(), x.norm(1, 1), x.norm(float("inf"), 2), x.norm(3, 0)), (x,)),
        ("count_nonzero", lambda i: (i.count_nonzero(), i.count_nonzero(1)), (_ints(0, 2, 3, 4),)),
        ("histc", lambda x: torch.histc(x, 5, -1, 1), (_x(50),)),
        ("cdist", lambda x, y: torch.cdist(x, y), (_x(4, 3), _x(5, 3))),
        ("normalize", lambda x: F.normalize(x, dim=1), (x,)),
    ]  # fmt: skip


def _products() -> list[Case]:
    return [
        ("mm", torch.mm, (_x(3, 4), _x(4, 5))),
        ("matmul ranks", lambda a, b, v: (a @ b, a @ v, v @ b[0]),
         (_x(2, 3, 4), _x(2, 4, 5), _x(4))),
        ("matmul broadcast", torch.matmul, (_x(2, 1, 3, 4), _x(5, 4, 2))),
        ("dot", torch.dot, (_x(5), _x(5))),
        ("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2),
         (_x(5), _x(3, 4), _x(4, 5))),
        ("baddbmm", lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5),
         (_x(2, 3, 5), _x(2, 3, 4), _x(2, 4, 5))),
        ("linear", F.linear, (_x(2, 3, 4), _x(5, 4), _x(5))),
        ("linear 4-d", F.linear, (_x(2, 3, 2, 4), _x(5, 4))),
        ("sdpa", F.scaled_dot_product_attention, (_x(2, 3, 5, 8), _x(2, 3, 7, 8), _x(2, 3, 7, 8))),
        ("sdpa causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
         (_x(2, 3, 5, 8), _x(2, 3, 5, 8), _x(2, 3, 5, 8))),
        ("sdpa mask", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, scale=0.3),
         (_x(2, 3, 5, 8), _x(2, 3, 7, 8), _x(2, 3, 7, 8), _mask(5, 7))),
        ("sdpa mask of whole rows", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
         (_x(1, 1, 3, 4), _x(1, 1, 3, 4), _x(1, 1, 3, 4),
          torch.tensor([[True, False, True], [False] * 3, [True] * 3]))),
        ("sdpa float mask", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
         (_x(2, 3, 5, 8), _x(2, 3, 7, 8), _x(2, 3, 7, 8), _x(1, 1, 5, 7))),
        ("sdpa groups", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
         (_x(2, 4, 5, 8), _x(2, 2, 7, 8), _x(2, 2, 7, 8))),
    ]  # fmt: skip


def _windows() -> list[Case]:
    x = _x(2, 4, 9, 8)
    return [
        ("conv2d", lambda x, w, b: F.conv2d(x, w, b, (2, 1), (1, 2), (1, 2)),
         (x, _x(6, 4, 3, 2), _x(6))),
        ("conv2d groups", lambda x, w: F.conv2d(x, w, groups=2), (x, _x(6, 2, 3, 3))),
        ("conv2d same", lambda x, w: F.conv2d(x, w, padding="same"), (x, _x(6, 4, 2, 3))),
        ("conv1d", lambda x, w: F.conv1d(x, w, padding=2), (_x(2, 3, 9), _x(4, 3, 5))),
        ("conv3d", F.conv3d, (_x(1, 2, 5, 6, 7), _x(3, 2, 2, 3, 2))),
        ("conv2d unbatched", F.conv2d, (_x(4, 9, 8), _x(6, 4, 3, 3))),
        ("conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1),
         (x, _x(4, 3, 3, 3))),
        ("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), (x,)),
        ("max_pool2d ceil", lambda x: F.max_pool2d(x, 2, 2, 0, ceil_mode=True), (x,)),
        ("max_pool2d ceil in the padding", lambda x: F.max_pool2d(x, 2, 2, 1, ceil_mode=True),
         (_x(1, 1, 6, 6),)),
        ("max_pool2d indices", lambda x: F.max_pool2d(x, 2, return_indices=True), (x,)),
        ("max_pool1d", lambda x: F.max_pool1d(x, 3), (_x(2, 3, 10),)),
        ("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), (x,)),
        ("avg_pool2d uncounted", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
         (x,)),
        ("avg_pool2d ceil", lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), (x,)),
        ("avg_pool2d divisor", lambda x: F.avg_pool2d(x, 2, divisor_override=3), (x,)),
        ("adaptive_avg_pool2d", lambda x: (F.adaptive_avg_pool2d(x, 1),
                                           F.adaptive_avg_pool2d(x, (3, 4)),
                                           F.adaptive_avg_pool2d(x, (4, 3))), (x,)),
        ("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 5), (_x(2, 3, 8),)),
        ("upsample nearest", lambda x: (F.interpolate(x, scale_factor=2.0),
                                        F.interpolate(x, size=(5, 13))), (x,)),
        ("upsample bilinear", lambda x: (
            F.interpolate(x, scale_factor=1.7, mode="bilinear"),
            F.interpolate(x, size=(5, 13), mode="bilinear"),
            F.interpolate(x, size=(5, 13), mode="bilinear", align_corners=True)), (x,)),
        ("upsample bicubic", lambda x: F.interpolate(x, size=(12, 11), mode="bicubic"), (x,)),
        ("grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False),
         (x, torch.rand(2, 5, 6, 2) * 2 - 1)),
        ("unfold2d", lambda x: F.unfold(x, (3, 2), padding=1, stride=2), (x,)),
        ("fold2d", lambda x: F.fold(x, (5, 6), (2, 2)), (_x(1, 12, 20),)),
    ]  # fmt: skip


def _norms() -> list[Case]:
    x = _x(2, 6, 5, 4)
    return [
        ("layer_norm", lambda x: F.layer_norm(x, (5, 4)), (x,)),
        ("layer_norm affine", lambda x, w, b: F.layer_norm(x, (4,), w, b, 1e-3),
         (x, _x(4), _x(4))),
        ("group_norm", lambda x, w, b: F.group_norm(x, 3, w, b), (x, _x(6), _x(6))),
        ("group_norm plain", lambda x: F.group_norm(x, 2), (x,)),
        ("instance_norm", F.instance_norm, (x,)),
        ("batch_norm", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b),
         (x, _x(6), _positive(6), _x(6), _x(6))),
        ("batch_norm of the batch", lambda x: F.batch_norm(x, None, None, training=True), (x,)),
        ("rms_norm", lambda x, w: F.rms_norm(x, (4,), w), (x, _x(4))),
    ]  # fmt: skip


def _losses() -> list[Case]:
    logits, labels = _x(6, 5), _ints(0, 5, 6)
    kept = labels.clone()
    kept[0] = -100
    return [
        ("cross_entropy", F.cross_entropy, (logits, labels)),
        ("cross_entropy ignore", F.cross_entropy, (logits, kept)),
        ("cross_entropy weight", lambda x, y, w: F.cross_entropy(x, y, w),
         (logits, labels, _positive(5))),
        ("cross_entropy none", lambda x, y: F.cross_entropy(x, y, reduction="none"),
         (logits, kept)),
        ("cross_entropy smooth", lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
         (logits, labels)),
        ("cross_entropy 2d", F.cross_entropy, (_x(2, 5, 3, 4), _ints(0, 5, 2, 3, 4))),
        ("mse, l1", lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y)), (_x(4), _x(4))),
        ("smooth_l1, huber", lambda x, y: (F.smooth_l1_loss(x, y), F.huber_loss(x, y)),
         (_x(9) * 2, _x(9))),
        ("bce", F.binary_cross_entropy, (torch.rand(9) * 0.98 + 0.01, torch.rand(9))),
        ("bce with logits", F.binary_cross_entropy_with_logits, (_x(9), torch.rand(9))),
        ("kl_div", lambda x, y: F.kl_div(x, y, reduction="batchmean"),
         (F.log_softmax(logits, 1), F.softmax(_x(6, 5), 1))),
    ]  # fmt: skip


def cases() -> list[Case]:
    torch.manual_seed(0)
    return [
        *_unary(), *_binary(), *_activations(), *_movement(), *_creation(), *_indexing(),
        *_reductions(), *_products(), *_windows(), *_norms(), *_losses(),
    ]  # fmt: skip
