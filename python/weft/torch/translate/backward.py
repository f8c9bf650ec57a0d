"""aten's backward operators: each is the gradient of its forward form (`gradient.py`).

A rule says which operands of the forward call the backward call has, and which results it has
kept. Statistics and indices that the forward operator's own gradient computes again from the
operands are not read; in one graph with the forward part they are there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.torch.record import Dim, DType
from weft.torch.translate import sizes
from weft.torch.translate.core import Number, Translation, Untranslatable, Val, rule
from weft.torch.translate.gradient import gradient, masked, missing
from weft.torch.translate.normalization import stash, stats_dtype

# ---- element by element ----


def _of_operand(op: str, forward: str) -> None:
    """X_backward(grad, self, parameters of the forward operator)."""

    def function(t: Translation, dy: Val, self: Val, *parameters: Any, **named: Any) -> Val:
        return gradient(t, f"aten.{forward}.default", (self, *parameters), [0], dy, **named)[0]

    rule(f"aten.{op}.default", f"aten.{op}.grad_input")(function)


for _name in (
    "gelu", "silu", "mish", "hardswish", "hardsigmoid", "hardtanh", "softplus", "hardshrink",
    "softshrink", "glu", "logit",
):  # fmt: skip
    _of_operand(f"{_name}_backward", _name)


def _of_result(op: str, forward: str) -> None:
    """X_backward(grad, result of the forward operator): its operand is not kept."""

    def function(t: Translation, grad_output: Val, output: Val) -> Val:
        operand = missing(output.dtype, output.dims)
        forward_op = f"aten.{forward}.default"
        return gradient(t, forward_op, (operand,), [0], grad_output, saved={0: output})[0]

    rule(f"aten.{op}.default")(function)


_of_result("tanh_backward", "tanh")
_of_result("sigmoid_backward", "sigmoid")


@rule("aten.threshold_backward.default")
def threshold_backward(t: Translation, grad_output: Val, self: Val, threshold: Number) -> Val:
    """`self` may be the result of relu, which is above 0 where its operand is."""
    return gradient(t, "aten.threshold.default", (self, threshold, 0), [0], grad_output)[0]


@rule("aten.leaky_relu_backward.default")
def leaky_relu_backward(
    t: Translation, grad_output: Val, self: Val, negative_slope: float, self_is_result: bool
) -> Val:
    """A result has the sign of its operand: torch refuses a slope below 0 with one."""
    return gradient(t, "aten.leaky_relu.default", (self, negative_slope), [0], grad_output)[0]


@rule("aten.elu_backward.default")
def elu_backward(
    t: Translation, grad_output: Val, alpha: float, scale: float, input_scale: float,
    is_result: bool, self_or_result: Val,
) -> Val:  # fmt: skip
    if is_result:
        raise Untranslatable("the gradient of elu_ from its result")
    args = (self_or_result, alpha, scale, input_scale)
    return gradient(t, "aten.elu.default", args, [0], grad_output)[0]


@rule("aten.log_sigmoid_backward.default")
def log_sigmoid_backward(t: Translation, grad_output: Val, self: Val, buffer: Val) -> Val:
    return gradient(t, "aten.log_sigmoid_forward.default", (self,), [0], grad_output)[0]


@rule("aten._prelu_kernel_backward.default")
def prelu_backward(t: Translation, grad_output: Val, self: Val, weight: Val) -> list[Val]:
    """The weight's gradient comes for each element; its sum is a node of its own."""
    args = (self, t.expand(weight, self.dims))
    return gradient(t, "aten._prelu_kernel.default", args, [0, 1], grad_output)


@rule("aten.native_dropout_backward.default")
def native_dropout_backward(t: Translation, grad_output: Val, mask: Val, scale: float) -> Val:
    """What the forward operator draws cannot be drawn again: the mask says what it was."""
    return t.mul(t.mul(grad_output, t.cast(mask, grad_output.dtype)), scale)


# ---- products, windows, images ----


@rule("aten.convolution_backward.default")
def convolution_backward(
    t: Translation, grad_output: Val, input: Val, weight: Val, bias_sizes: Sequence[Dim] | None,
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int, output_mask: Sequence[bool],
) -> list[Val | None]:  # fmt: skip
    channels = grad_output.dims[grad_output.rank - weight.rank + 1]
    bias = missing(weight.dtype, [channels]) if output_mask[2] else None
    args = (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    return masked(t, "aten.convolution.default", args, output_mask, grad_output)


@rule("aten.max_pool2d_with_indices_backward.default",
      "aten.max_pool3d_with_indices_backward.default")  # fmt: skip
def max_pool_backward(
    t: Translation, grad_output: Val, self: Val, kernel_size: list[int], stride: list[int],
    padding: list[int], dilation: list[int], ceil_mode: bool, indices: Val,
) -> Val:  # fmt: skip
    forward = f"aten.max_pool{len(kernel_size)}d.default"
    args = (self, kernel_size, stride, padding, dilation, ceil_mode)
    return gradient(t, forward, args, [0], grad_output)[0]


@rule("aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default")
def avg_pool_backward(
    t: Translation, grad_output: Val, self: Val, kernel_size: list[int], *window: Any
) -> Val:
    forward = f"aten.avg_pool{len(kernel_size)}d.default"
    return gradient(t, forward, (self, kernel_size, *window), [0], grad_output)[0]


def _adaptive_avg_pool(n: int) -> None:
    def function(t: Translation, grad_output: Val, self: Val) -> Val:
        args = (self, list(grad_output.dims[-n:]))
        return gradient(t, f"aten._adaptive_avg_pool{n}d.default", args, [0], grad_output)[0]

    rule(f"aten._adaptive_avg_pool{n}d_backward.default")(function)


for _n in (2, 3):
    _adaptive_avg_pool(_n)


@rule("aten.adaptive_max_pool2d_backward.default")
def adaptive_max_pool_backward(t: Translation, grad_output: Val, self: Val, indices: Val) -> Val:
    args = (self, list(grad_output.dims[-2:]))
    return gradient(t, "aten.adaptive_max_pool2d.default", args, [0], grad_output)[0]


def _upsample(name: str, smooth: bool) -> None:
    def function(
        t: Translation, grad_output: Val, output_size: Sequence[Dim], input_size: Sequence[Dim],
        *parameters: Any, **named: Any,
    ) -> Val:  # fmt: skip
        x = missing(grad_output.dtype, input_size)
        args = (x, output_size, *parameters)
        return gradient(t, f"aten.{name}.default", args, [0], grad_output, **named)[0]

    rule(f"aten.{name}_backward.default", f"aten.{name}_backward.vec")(function)


for _name in (
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d",
    "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
    "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
):  # fmt: skip
    _upsample(_name, "nearest" not in _name)


@rule("aten.grid_sampler_2d_backward.default", "aten.grid_sampler_3d_backward.default")
def grid_sampler_backward(
    t: Translation, grad_output: Val, input: Val, grid: Val, interpolation_mode: int,
    padding_mode: int, align_corners: bool, output_mask: Sequence[bool],
) -> list[Val | None]:  # fmt: skip
    args = (input, grid, interpolation_mode, padding_mode, align_corners)
    return masked(t, "aten.grid_sampler.default", args, output_mask, grad_output)


def _pad(name: str) -> None:
    def function(t: Translation, grad_output: Val, self: Val, padding: Sequence[Dim]) -> Val:
        return gradient(t, f"aten.{name}.default", (self, padding), [0], grad_output)[0]

    rule(f"aten.{name}_backward.default")(function)


for _name in ("reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d"):
    _pad(_name)


@rule("transformers.grouped_mm_fallback_backward.default")
def grouped_mm_backward(
    t: Translation, input: Val, weight: Val, offs: Val, grad_output: Val
) -> list[Val]:
    args = (input, weight, offs)
    return gradient(t, "transformers.grouped_mm_fallback.default", args, [0, 1], grad_output)


@rule("aten._cdist_backward.default")
def cdist_backward(t: Translation, grad: Val, x1: Val, x2: Val, p: float, cdist: Val) -> Val:
    return gradient(t, "aten._cdist_forward.default", (x1, x2, p), [0], grad, saved={0: cdist})[0]


# ---- normalisation ----


def _layer_norm(
    t: Translation, x: Val, weight: Val | None, bias: Val | None, axis: int
) -> list[Val]:
    """With the statistics that are kept: which epsilon they were made with is not."""
    kept = (stats_dtype(x), (*x.dims[:axis], *[1] * (x.rank - axis)))
    return t.ops(
        "LayerNormalization", [x, t.full(1, [1], x.dtype) if weight is None else weight, bias],
        [(x.dtype, x.dims), kept, kept], axis=axis - x.rank, epsilon=0.0, stash_type=stash(x),
    )  # fmt: skip


@rule("aten.native_layer_norm_backward.default")
def native_layer_norm_backward(
    t: Translation, grad_out: Val, input: Val, normalized_shape: Sequence[Dim], mean: Val,
    rstd: Val, weight: Val | None, bias: Val | None, output_mask: Sequence[bool],
) -> list[Val | None]:  # fmt: skip
    axis = input.rank - len(normalized_shape)
    args = (input, weight, bias)
    saved = {1: mean, 2: rstd}
    return masked(t, _layer_norm, args, output_mask, grad_out, saved=saved, axis=axis)


def _rms_norm(t: Translation, x: Val, weight: Val | None, axes: list[int]) -> list[Val]:
    square = t.reduce("ReduceMean", t.mul(x, x), axes, True)
    y = t.mul(x, t.op("Reciprocal", t.op("Sqrt", square)))
    return [y if weight is None else t.mul(y, weight), square]


@rule("aten._fused_rms_norm_backward.default")
def rms_norm_backward(
    t: Translation, grad_out: Val, input: Val, normalized_shape: Sequence[Dim], rstd: Val,
    weight: Val | None, output_mask: Sequence[bool],
) -> list[Val | None]:  # fmt: skip
    """The mean square with its epsilon is what `rstd` says."""
    square = t.op("Reciprocal", t.mul(rstd, rstd))
    axes = list(range(input.rank - len(normalized_shape), input.rank))
    args, saved = (input, weight), {1: square}
    return masked(t, _rms_norm, args, output_mask, grad_out, saved=saved, axes=axes)


def _group_norm(
    t: Translation, input: Val, weight: Val | None, bias: Val | None, groups: int, points: Dim
) -> list[Val]:
    """As layer normalization of each group, whose statistics are results."""
    channels = input.dims[1]
    assert isinstance(channels, int)
    rows = [groups, channels // groups]
    weight, bias = (v and t.reshape(v, [*rows, 1]) for v in (weight, bias))
    x = t.reshape(input, [input.dims[0], *rows, points])
    y, mean, rstd = _layer_norm(t, x, weight, bias, 2)
    return [t.reshape(y, input.dims), mean, rstd]


@rule("aten.native_group_norm_backward.default")
def native_group_norm_backward(
    t: Translation, grad_out: Val, input: Val, mean: Val, rstd: Val, weight: Val | None, N: Dim,
    C: int, HxW: Dim, group: int, output_mask: Sequence[bool],
) -> list[Val | None]:  # fmt: skip
    bias = missing(input.dtype, [C])
    saved = {1: t.unsqueeze(mean, [2, 3]), 2: t.unsqueeze(rstd, [2, 3])}
    if weight is None and output_mask[1]:
        raise Untranslatable("the gradient of a weight that is not there")
    return masked(
        t, _group_norm, (input, weight, bias), output_mask, grad_out, saved=saved, groups=group,
        points=HxW,
    )  # fmt: skip


def _batch_norm_of_batch(
    t: Translation, x: Val, weight: Val, bias: Val, eps: float
) -> list[Val]:
    """With the mean and variance of the batch as they are defined, which are kept: no pass over
    `x` finds them again. The mean in the variance has no part in the gradient, since the
    differences to it add up to 0."""
    axes = [i for i in range(x.rank) if i != 1]
    wide = t.cast(x, stats_dtype(x))
    mean = t.reduce("ReduceMean", wide, axes, False)
    behind = list(range(1, x.rank - 1))
    centred = t.sub(wide, t.border(t.unsqueeze(mean, behind)))
    variance = t.reduce("ReduceMean", t.mul(centred, centred), axes, False)
    y = t.op("BatchNormalization", x, weight, bias, mean, variance, epsilon=float(eps))
    return [y, mean, variance]


def _batch_norm(
    t: Translation, grad_out: Val, input: Val, weight: Val | None, running_mean: Val | None,
    running_var: Val | None, save_mean: Val | None, save_invstd: Val | None, train: bool,
    eps: float, output_mask: Sequence[bool],
) -> list[Val | None]:  # fmt: skip
    c = input.dims[1]
    scale = t.full(1, [c], input.dtype) if weight is None else weight
    shift = missing(scale.dtype, [c])
    if train:
        assert save_mean is not None and save_invstd is not None
        variance = t.sub(t.op("Reciprocal", t.mul(save_invstd, save_invstd)), eps)
        made = masked(
            t, _batch_norm_of_batch, (input, scale, shift), output_mask, grad_out,
            saved={1: save_mean, 2: variance}, eps=eps,
        )  # fmt: skip
    else:
        args = (input, scale, shift, running_mean, running_var, False, 0.0, eps)
        made = masked(t, "aten.native_batch_norm.default", args, output_mask, grad_out)
    return made if weight is not None else [made[0], None, made[2]]


@rule("aten.native_batch_norm_backward.default")
def native_batch_norm_backward(
    t: Translation, grad_out: Val, input: Val, weight: Val | None, running_mean: Val | None,
    running_var: Val | None, save_mean: Val | None, save_invstd: Val | None, train: bool,
    eps: float, output_mask: Sequence[bool],
) -> list[Val | None]:  # fmt: skip
    return _batch_norm(
        t, grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps,
        output_mask,
    )  # fmt: skip


@rule("aten.batch_norm_backward.default")
def batch_norm_backward(
    t: Translation, grad_out: Val, input: Val, weight: Val | None, running_mean: Val | None,
    running_var: Val | None, save_mean: Val | None, save_var: Val | None, update: bool,
    eps: float, output_mask: Sequence[bool], reserve: Val | None = None,
) -> list[Val | None]:  # fmt: skip
    return _batch_norm(
        t, grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps,
        output_mask,
    )  # fmt: skip


@rule("aten._weight_norm_interface_backward.default")
def weight_norm_backward(
    t: Translation, grad_w: Val, saved_v: Val, saved_g: Val, saved_norms: Val, dim: int
) -> list[Val]:
    args = (saved_v, saved_g, dim)
    forward = "aten._weight_norm_interface.default"
    return gradient(t, forward, args, [0, 1], grad_w, saved={1: saved_norms})


# ---- soft-max, attention, losses ----


@rule("aten._softmax_backward_data.default")
def softmax_backward(
    t: Translation, grad_output: Val, output: Val, dim: int, input_dtype: DType
) -> Val:
    return _softmax_gradient(t, "aten._softmax.default", grad_output, output, dim, input_dtype)


@rule("aten._log_softmax_backward_data.default")
def log_softmax_backward(
    t: Translation, grad_output: Val, output: Val, dim: int, input_dtype: DType
) -> Val:
    return _softmax_gradient(t, "aten._log_softmax.default", grad_output, output, dim, input_dtype)


def _softmax_gradient(
    t: Translation, forward: str, grad_output: Val, output: Val, dim: int, input_dtype: DType
) -> Val:
    args = (missing(input_dtype.name, output.dims), dim, False)
    return gradient(t, forward, args, [0], grad_output, saved={0: output})[0]


@rule("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_attention_backward(
    t: Translation, grad_out: Val, query: Val, key: Val, value: Val, out: Val, logsumexp: Val,
    dropout_p: float, is_causal: bool, *, attn_mask: Val | None = None, scale: float | None = None,
) -> list[Val]:  # fmt: skip
    return gradient(
        t, "aten._scaled_dot_product_flash_attention_for_cpu.default",
        (query, key, value, dropout_p, is_causal), [0, 1, 2], grad_out,
        attn_mask=attn_mask, scale=scale,
    )  # fmt: skip


@rule("aten.nll_loss_backward.default", "aten.nll_loss2d_backward.default")
def nll_loss_backward(
    t: Translation, grad_output: Val, self: Val, target: Val, weight: Val | None, reduction: int,
    ignore_index: int, total_weight: Val,
) -> Val:  # fmt: skip
    args = (self, target, weight, reduction, ignore_index)
    return gradient(t, "aten.nll_loss_forward.default", args, [0], grad_output)[0]


def _loss(name: str) -> None:
    def function(
        t: Translation, grad_output: Val, self: Val, target: Val, *parameters: Any, **named: Any
    ) -> Val:
        args = (self, target, *parameters)
        return gradient(t, f"aten.{name}.default", args, [0], grad_output, **named)[0]

    rule(f"aten.{name}_backward.default")(function)


for _name in ("mse_loss", "smooth_l1_loss", "huber_loss"):
    _loss(_name)


# ---- reading at places ----


@rule("aten.embedding_dense_backward.default")
def embedding_dense_backward(
    t: Translation, grad_output: Val, indices: Val, num_weights: Dim, padding_idx: int,
    scale_grad_by_freq: bool,
) -> Val:  # fmt: skip
    if scale_grad_by_freq:  # a mean over the places of each row, which the forward part is not
        ones, zeros = t.full(1, indices.dims, "int64"), t.full(0, [num_weights], "int64")
        at = t.unsqueeze(indices, [indices.rank])
        counts = t.op("ScatterND", zeros, at, ones, reduction="add")
        per = t.op("Gather", counts, indices, dims=indices.dims, axis=0)
        grad_output = t.div(grad_output, t.cast(t.unsqueeze(per, [per.rank]), grad_output.dtype))
    weight = missing(grad_output.dtype, [num_weights, grad_output.dims[-1]])
    args = (weight, indices, padding_idx)
    return gradient(t, "aten.embedding.default", args, [0], grad_output)[0]


def _of_sizes(op: str, forward: str) -> None:
    """X_backward(grad, sizes of the operand, parameters of the forward operator)."""

    def function(
        t: Translation, grad_output: Val, input_sizes: Sequence[Dim], *parameters: Any, **named: Any
    ) -> Val:
        args = (missing(grad_output.dtype, input_sizes), *parameters)
        return gradient(t, forward, args, [0], grad_output, **named)[0]

    rule(f"aten.{op}.default")(function)


_of_sizes("slice_backward", "aten.slice.Tensor")
_of_sizes("unfold_backward", "aten.unfold.default")
_of_sizes("diagonal_backward", "aten.diagonal.default")


def _select(t: Translation, self: Val, dim: int, index: Dim) -> Val:
    """As a slice: its gradient is a pad."""
    axis = dim % self.rank
    first = sizes.combine("+", self.dims[axis], index) if _negative(index) else index
    return t.squeeze(t.slice(self, axis, first, sizes.combine("+", first, 1), 1), [axis])


def _negative(index: Dim) -> bool:
    return isinstance(index, int) and index < 0


@rule("aten.select_backward.default")
def select_backward(
    t: Translation, grad_output: Val, input_sizes: Sequence[Dim], dim: int, index: Dim
) -> Val:
    x = missing(grad_output.dtype, input_sizes)
    return gradient(t, _select, (x, dim, index), [0], grad_output)[0]
