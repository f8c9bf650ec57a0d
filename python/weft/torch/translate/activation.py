"""Activations: gelu, silu, hardswish, softplus ...

ONNX keeps attributes as float32; where that rounds a parameter and the operand is float64, the
formula is written out.
"""

from __future__ import annotations

import numpy as np

from weft.torch.translate.core import Number, Translation, Val, rule


def rounds(x: Val, *parameters: float) -> bool:
    """A float32 attribute would not be exact enough for x."""
    return x.dtype == "float64" and any(float(np.float32(p)) != p for p in parameters)


def _choose(t: Translation, x: Val, below: Val) -> Val:
    """x where it is positive."""
    return t.where(t.binary("Greater", x, 0, x.dtype, "bool"), x, below, x.dtype)


@rule("aten.relu.default")
def relu(t: Translation, self: Val) -> Val:
    return t.op("Relu", self)


@rule("aten.gelu.default")
def gelu(t: Translation, self: Val, approximate: str = "none") -> Val:
    return t.op("Gelu", self, approximate=approximate)


@rule("aten.silu.default")
def silu(t: Translation, self: Val) -> Val:
    return t.mul(self, t.op("Sigmoid", self))


@rule("aten.mish.default")
def mish(t: Translation, self: Val) -> Val:
    return t.op("Mish", self)


@rule("aten.elu.default")
def elu(
    t: Translation, self: Val, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> Val:
    """scale * (x > 0 ? x : alpha * (exp(input_scale * x) - 1))."""
    exact = not rounds(self, alpha, scale)
    if exact and scale == 1 and input_scale == 1:
        return t.op("Elu", self, alpha=float(alpha))
    if exact and input_scale == 1:
        return t.op("Selu", self, alpha=float(alpha), gamma=float(scale))
    # exp of what is positive may overflow, and its gradient with it.
    low = t.where(t.binary("Greater", self, 0, self.dtype, "bool"), 0, self, self.dtype)
    below = t.mul(t.sub(t.op("Exp", t.mul(low, input_scale)), 1), alpha)
    return t.mul(_choose(t, self, below), scale)


@rule("aten.leaky_relu.default")
def leaky_relu(t: Translation, self: Val, negative_slope: float = 0.01) -> Val:
    if rounds(self, negative_slope):
        return _choose(t, self, t.mul(self, negative_slope))
    return t.op("LeakyRelu", self, alpha=float(negative_slope))


@rule("aten._prelu_kernel.default", "aten.prelu.default")
def prelu(t: Translation, self: Val, weight: Val) -> Val:
    if weight.rank == 1 and self.rank > 2:
        weight = t.unsqueeze(weight, list(range(1, self.rank - 1)))
    return t.op("PRelu", self, weight)


@rule("aten.hardtanh.default")
def hardtanh(t: Translation, self: Val, min_val: Number = -1, max_val: Number = 1) -> Val:
    low, high = t.scalar(min_val, self.dtype), t.scalar(max_val, self.dtype)
    if not t.with_gradients:
        return t.op("Clip", self, low, high)
    # At a bound the gradient is 0, that of Clip is not.
    above = t.binary("GreaterOrEqual", self, high, self.dtype, "bool")
    below = t.binary("LessOrEqual", self, low, self.dtype, "bool")
    return t.where(above, high, t.where(below, low, self, self.dtype), self.dtype)


@rule("aten.relu6.default")
def relu6(t: Translation, self: Val) -> Val:
    return hardtanh(t, self, 0, 6)


@rule("aten.hardsigmoid.default")
def hardsigmoid(t: Translation, self: Val) -> Val:
    if rounds(self, 1 / 6):
        return t.op("HardSigmoid", t.add(t.div(self, 6), 0.5), alpha=1.0, beta=0.0)
    return t.op("HardSigmoid", self, alpha=1 / 6, beta=0.5)


@rule("aten.hardswish.default")
def hardswish(t: Translation, self: Val) -> Val:
    return t.op("HardSwish", self)


@rule("aten.softplus.default")
def softplus(t: Translation, self: Val, beta: Number = 1, threshold: Number = 20) -> Val:
    """log(1 + exp(beta x)) / beta, and x where beta x is above the threshold."""
    if beta == 1:
        # Softplus is exact at any x; what the threshold cuts is below one rounding from 20 on.
        soft = t.op("Softplus", self)
        if isinstance(threshold, (int, float)) and threshold >= 20:
            return soft
        scaled = self
    else:
        scaled = t.mul(self, beta)
        soft = t.div(t.op("Softplus", scaled), beta)
    above = t.binary("Greater", scaled, threshold, self.dtype, "bool")
    return t.where(above, self, soft, self.dtype)


@rule("aten.log_sigmoid_forward.default")
def log_sigmoid(t: Translation, self: Val) -> list[Val | None]:
    kept = t.op("Exp", t.op("Neg", t.op("Abs", self))) if t.wants(1) else None
    return [t.op("Neg", t.op("Softplus", t.op("Neg", self))), kept]


@rule("aten.threshold.default")
def threshold(t: Translation, self: Val, threshold: Number, value: Number) -> Val:
    above = t.binary("Greater", self, threshold, self.dtype, "bool")
    return t.where(above, self, value, self.dtype)


@rule("aten.hardshrink.default")
def hardshrink(t: Translation, self: Val, lambd: float = 0.5) -> Val:
    return t.op("Shrink", self, lambd=float(lambd), bias=0.0)


@rule("aten.softshrink.default")
def softshrink(t: Translation, self: Val, lambd: float = 0.5) -> Val:
    return t.op("Shrink", self, lambd=float(lambd), bias=float(lambd))


@rule("aten.celu.default")
def celu(t: Translation, self: Val, alpha: float = 1.0) -> Val:
    if rounds(self, alpha):
        return elu(t, self, alpha, 1, 1 / alpha)
    return t.op("Celu", self, alpha=float(alpha))


@rule("aten.selu.default")
def selu(t: Translation, self: Val) -> Val:
    return elu(t, self, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@rule("aten.glu.default")
def glu(t: Translation, self: Val, dim: int = -1) -> Val:
    axis = dim % self.rank
    half = t.result.dims[axis]
    parts = t.ops("Split", [self], [(self.dtype, t.result.dims)] * 2, axis=axis, num_outputs=2)
    del half
    return t.mul(parts[0], t.op("Sigmoid", parts[1]))


@rule("aten.logit.default")
def logit(t: Translation, self: Val, eps: float | None = None) -> Val:
    x = self
    if eps is not None:
        x = t.op("Clip", x, t.scalar(eps, x.dtype), t.scalar(1 - eps, x.dtype))
    return t.op("Log", t.div(x, t.binary("Sub", 1, x, x.dtype)))
