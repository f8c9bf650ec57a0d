"""Soft-max, its logarithm, and losses."""

from __future__ import annotations

from typing import Any

from weft.torch.record import DType
from weft.torch.translate import sizes
from weft.torch.translate.core import Translation, Untranslatable, Val, rule

_REDUCTIONS = ("none", "mean", "sum")


@rule(
    "aten._softmax.default", "aten.softmax.int", "aten._log_softmax.default", "aten.log_softmax.int"
)
def softmax(t: Translation, self: Val, dim: int, *_: Any, **__: Any) -> Val:
    assert t._node is not None
    x = t.cast(self, t.result.dtype)
    if x.rank == 0:
        return t.full(0 if "log" in t._node.op else 1, [], x.dtype)
    return t.op("LogSoftmax" if "log_" in t._node.op else "Softmax", x, axis=dim)


@rule("aten._safe_softmax.default")
def safe_softmax(t: Translation, self: Val, dim: int, dtype: DType | None = None) -> Val:
    """Rows that are -inf throughout become 0."""
    y = t.op("Softmax", t.cast(self, t.result.dtype), axis=dim)
    return t.where(t.op("IsNaN", y, dtype="bool"), 0.0, y, y.dtype)


@rule("aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default",
      "aten.nll_loss.default", "aten.nll_loss_nd.default")  # fmt: skip
def nll_loss_forward(
    t: Translation, self: Val, target: Val, weight: Val | None = None, reduction: int = 1,
    ignore_index: int = -100,
) -> Any:  # fmt: skip
    """The loss and the weight of all that counted."""
    x = self
    if x.rank == 1:
        x, target = t.unsqueeze(x, [0]), t.unsqueeze(target, [0])
    dims = target.dims if _REDUCTIONS[reduction] == "none" else ()
    inputs = [x, target] if weight is None else [x, target, weight]
    y = t.op(
        "NegativeLogLikelihoodLoss", *inputs, dims=dims, reduction=_REDUCTIONS[reduction],
        ignore_index=ignore_index,
    )  # fmt: skip
    if self.rank == 1 and dims:
        y = t.squeeze(y, [0])
    assert t._node is not None
    if "_forward" not in t._node.op:
        return y
    if not t.wants(1):
        return [y]
    counted = t.op("Not", t.binary("Equal", target, ignore_index, target.dtype, "bool"))
    if weight is None:
        total = t.cast(counted, x.dtype)
    else:
        at = t.where(counted, target, 0, target.dtype)
        per = t.op("Gather", weight, at, dims=target.dims, axis=0)
        total = t.where(counted, per, 0.0, x.dtype)
    return [y, t.reduce("ReduceSum", total, None, False)]


def _reduced(t: Translation, x: Val, reduction: int) -> Val:
    if reduction == 0:
        return x
    return t.reduce("ReduceMean" if reduction == 1 else "ReduceSum", x, None, False)


@rule("aten.mse_loss.default")
def mse_loss(t: Translation, self: Val, target: Val, reduction: int = 1) -> Val:
    d = t.binary("Sub", self, target, t.result.dtype)
    return _reduced(t, t.mul(d, d), reduction)


@rule("aten.l1_loss.default")
def l1_loss(t: Translation, self: Val, target: Val, reduction: int = 1) -> Val:
    return _reduced(t, t.op("Abs", t.binary("Sub", self, target, t.result.dtype)), reduction)


@rule("aten.smooth_l1_loss.default")
def smooth_l1_loss(
    t: Translation, self: Val, target: Val, reduction: int = 1, beta: float = 1.0
) -> Val:
    d = t.op("Abs", t.binary("Sub", self, target, t.result.dtype))
    if beta == 0:
        return _reduced(t, d, reduction)
    near = t.mul(t.mul(d, d), 0.5 / beta)
    small = t.binary("Less", d, beta, d.dtype, "bool")
    return _reduced(t, t.where(small, near, t.sub(d, 0.5 * beta), d.dtype), reduction)


@rule("aten.huber_loss.default")
def huber_loss(
    t: Translation, self: Val, target: Val, reduction: int = 1, delta: float = 1.0
) -> Val:
    d = t.op("Abs", t.binary("Sub", self, target, t.result.dtype))
    small = t.binary("LessOrEqual", d, delta, d.dtype, "bool")
    far = t.mul(t.sub(d, 0.5 * delta), delta)
    return _reduced(t, t.where(small, t.mul(t.mul(d, d), 0.5), far, d.dtype), reduction)


@rule("aten.binary_cross_entropy.default")
def binary_cross_entropy(
    t: Translation, self: Val, target: Val, weight: Val | None = None, reduction: int = 1
) -> Val:
    """Logarithms are at least -100; the gradient is that of `bce_slope`, since one of a logarithm
    at 0 would be no number."""
    if t.with_gradients:
        y = _bce_near(t, self, t.border(self), target)
    else:  # whoever takes gradients of the graph finds finite ones at 0 and 1 as well
        end = t.cast(t.binary("GreaterOrEqual", self, 0.5, self.dtype, "bool"), self.dtype)
        at_end = t.binary("Equal", self, end, self.dtype, "bool")
        inside = _bce_at(t, t.where(at_end, 0.5, self, self.dtype), target)
        y = t.where(at_end, _bce_near(t, self, end, target), inside, inside.dtype)
    return _reduced(t, y if weight is None else t.mul(y, weight), reduction)


def _bce_at(t: Translation, p: Val, target: Val) -> Val:
    low = t.scalar(-100.0, p.dtype)
    log_p = t.op("Max", t.op("Log", p), low)
    log_q = t.op("Max", t.op("Log", t.binary("Sub", 1, p, p.dtype)), low)
    other = t.binary("Sub", 1, target, p.dtype)
    return t.op("Neg", t.add(t.mul(log_p, target), t.mul(log_q, other)))


def _bce_near(t: Translation, p: Val, place: Val, target: Val) -> Val:
    """The loss at p = place, through which no gradient goes: p - place is 0, and has the slope."""
    slope = t.border(bce_slope(t, place, target))
    return t.add(_bce_at(t, place, target), t.mul(t.sub(p, place), slope))


def bce_slope(t: Translation, p: Val, target: Val) -> Val:
    """(p - y) / (p (1 - p)), where p is 0 or 1 as torch has it."""
    spread = t.mul(p, t.binary("Sub", 1, p, p.dtype))
    return t.div(t.sub(p, target), t.op("Max", spread, t.scalar(1e-12, p.dtype)))


@rule("aten.binary_cross_entropy_backward.default")
def binary_cross_entropy_backward(
    t: Translation, grad_output: Val, self: Val, target: Val, weight: Val | None = None,
    reduction: int = 1,
) -> Val:  # fmt: skip
    x = t.mul(bce_slope(t, self, target), grad_output)
    if weight is not None:
        x = t.mul(x, weight)
    return x if reduction != 1 else t.div(x, sizes.product(self.dims))


@rule("aten.binary_cross_entropy_with_logits.default")
def binary_cross_entropy_with_logits(
    t: Translation, self: Val, target: Val, weight: Val | None = None,
    pos_weight: Val | None = None, reduction: int = 1,
) -> Val:  # fmt: skip
    """(1 - y) x + (1 + (p - 1) y) softplus(-x)."""
    soft = t.op("Softplus", t.op("Neg", self))
    if pos_weight is not None:
        factor = t.add(t.mul(target, t.sub(pos_weight, 1)), 1)
        soft = t.mul(soft, factor)
    other = t.binary("Sub", 1, target, self.dtype)
    y = t.add(t.mul(other, self), soft)
    return _reduced(t, y if weight is None else t.mul(y, weight), reduction)


@rule("aten.cross_entropy_loss.default")
def cross_entropy_loss(
    t: Translation, self: Val, target: Val, weight: Val | None = None, reduction: int = 1,
    ignore_index: int = -100, label_smoothing: float = 0.0,
) -> Val:  # fmt: skip
    if label_smoothing or target.dtype != "int64" or self.rank < 2:
        raise Untranslatable("cross_entropy_loss with smoothing or probabilities as one operator")
    inputs = [self, target] if weight is None else [self, target, weight]
    return t.op(
        "SoftmaxCrossEntropyLoss", *inputs, dims=t.result.dims, reduction=_REDUCTIONS[reduction],
        ignore_index=ignore_index,
    )  # fmt: skip
