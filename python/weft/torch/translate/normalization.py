"""Layer, group, batch, instance, RMS normalisation; weight_norm."""

from __future__ import annotations

from collections.abc import Sequence

from weft.torch.record import Dim
from weft.torch.translate import sizes
from weft.torch.translate.core import Translation, Untranslatable, Val, rule


def stats_dtype(x: Val) -> str:
    """What mean and deviation are computed and kept in."""
    return "float64" if x.dtype == "float64" else "float32"


def stash(x: Val) -> int:
    """That dtype by ONNX's number."""
    return 11 if x.dtype == "float64" else 1


@rule("aten.native_layer_norm.default")
def native_layer_norm(
    t: Translation,
    input: Val,
    normalized_shape: Sequence[Dim],
    weight: Val | None,
    bias: Val | None,
    eps: float,
) -> list[Val | None]:
    axis = input.rank - len(normalized_shape)
    if weight is None:
        weight = t.full(1, normalized_shape, input.dtype)
    stats = (*input.dims[:axis], *([1] * len(normalized_shape)))
    types: list[tuple[str, Sequence[Dim]]] = [(input.dtype, input.dims)]
    kept: dict[str, int] = {}
    if t.wants(1) or t.wants(2):
        types += [(stats_dtype(input), stats)] * 2
        kept = {"stash_type": stash(input)}
    parts: list[Val | None] = list(
        t.ops(
            "LayerNormalization", [input, weight, bias], types, axis=axis - input.rank,
            epsilon=float(eps), **kept,
        )
    )  # fmt: skip
    parts = [p if p is None or i == 0 else t.cast(p, input.dtype) for i, p in enumerate(parts)]
    return parts


@rule("aten.layer_norm.default")
def layer_norm(
    t: Translation, input: Val, normalized_shape: Sequence[Dim], weight: Val | None = None,
    bias: Val | None = None, eps: float = 1e-5, cudnn_enable: bool = True,
) -> Val | None:  # fmt: skip
    return native_layer_norm(t, input, normalized_shape, weight, bias, eps)[0]


@rule("aten.rms_norm.default", "aten._fused_rms_norm.default")
def rms_norm(
    t: Translation, input: Val, normalized_shape: Sequence[Dim], weight: Val | None = None,
    eps: float | None = None,
) -> list[Val | None]:  # fmt: skip
    axes = list(range(input.rank - len(normalized_shape), input.rank))
    if eps is None:
        eps = {"float64": 2.220446049250313e-16}.get(input.dtype, 1.1920928955078125e-07)
    mean = t.reduce("ReduceMean", t.mul(input, input), axes, True)
    scale = t.op("Reciprocal", t.op("Sqrt", t.add(mean, eps)))
    y = t.mul(input, scale)
    return [y if weight is None else t.mul(y, weight), scale]


@rule("aten.native_group_norm.default")
def native_group_norm(
    t: Translation,
    input: Val,
    weight: Val | None,
    bias: Val | None,
    N: Dim,
    C: int,
    HxW: Dim,
    group: int,
    eps: float,
) -> list[Val | None]:
    dtype = input.dtype
    scale = t.full(1, [C], dtype) if weight is None else weight
    shift = t.full(0, [C], dtype) if bias is None else bias
    y = t.op("GroupNormalization", input, scale, shift, num_groups=group, epsilon=float(eps))
    if not (t.wants(1) or t.wants(2)):
        return [y]
    flat = t.reshape(input, [N, group, sizes.product([C // group, HxW])])
    mean = t.reduce("ReduceMean", flat, [2], True)
    centred = t.sub(flat, mean)
    variance = t.reduce("ReduceMean", t.mul(centred, centred), [2], False)
    rstd = t.op("Reciprocal", t.op("Sqrt", t.add(variance, eps)))
    return [y, t.squeeze(mean, [2]), rstd]


@rule("aten.group_norm.default")
def group_norm(
    t: Translation, input: Val, num_groups: int, weight: Val | None = None,
    bias: Val | None = None, eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Val:  # fmt: skip
    c = input.dims[1]
    assert isinstance(c, int)
    scale = t.full(1, [c], input.dtype) if weight is None else weight
    shift = t.full(0, [c], input.dtype) if bias is None else bias
    return t.op(
        "GroupNormalization", input, scale, shift, num_groups=num_groups, epsilon=float(eps)
    )


def _channels(t: Translation, input: Val, x: Val | None, value: float) -> Val:
    c = input.dims[1]
    return t.full(value, [c], input.dtype) if x is None else x


def batch_norm(
    t: Translation,
    input: Val,
    weight: Val | None,
    bias: Val | None,
    running_mean: Val | None,
    running_var: Val | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[list[Val | None], Val | None, Val | None]:
    """(y, saved mean, saved reciprocal deviation), and the new running statistics."""
    scale = _channels(t, input, weight, 1)
    shift = _channels(t, input, bias, 0)
    if not training:
        if running_mean is None or running_var is None:
            raise Untranslatable("batch normalisation without statistics outside of training")
        y = t.op(
            "BatchNormalization", input, scale, shift, running_mean, running_var,
            epsilon=float(eps),
        )  # fmt: skip
        # torch keeps empty statistics for the backward call.
        kept = [t.full(0, k.dims, k.dtype) if k and t.wants(i) else None
                for i, k in enumerate(t.results[:3]) if i]  # fmt: skip
        return [y, *kept], running_mean, running_var
    c = input.dims[1]
    old_mean = _channels(t, input, running_mean, 0)
    old_var = _channels(t, input, running_var, 1)
    # ONNX keeps `momentum` of the old value and a variance of n; torch the other way round, of
    # n - 1. So the batch's own statistics are asked for, and mixed here.
    types: list[tuple[str, Sequence[Dim]]] = [
        (input.dtype, input.dims), (old_mean.dtype, [c]), (old_var.dtype, [c]),
    ]  # fmt: skip
    y, mean, var = t.ops(
        "BatchNormalization", [input, scale, shift, old_mean, old_var], types,
        epsilon=float(eps), momentum=0.0, training_mode=1,
    )  # fmt: skip
    saved: list[Val | None] = [y, None, None]
    if t.wants(1) or t.wants(2):
        saved = [y, mean, t.op("Reciprocal", t.op("Sqrt", t.add(var, eps)))]
    if running_mean is None or running_var is None:
        return saved, None, None
    rest = [d for i, d in enumerate(input.dims) if i != 1]
    n = sizes.count(rest)
    if n is not None:
        unbiased = t.mul(var, n / max(n - 1, 1))
    else:
        count = t.cast(t.reshape(t.size(sizes.product(rest)), []), var.dtype)
        unbiased = t.mul(var, t.div(count, t.sub(count, 1)))
    new_mean = t.add(t.mul(old_mean, 1 - momentum), t.mul(mean, momentum))
    new_var = t.add(t.mul(old_var, 1 - momentum), t.mul(unbiased, momentum))
    return saved, new_mean, new_var


@rule("aten.native_batch_norm.default", "aten._native_batch_norm_legit.default")
def native_batch_norm(
    t: Translation,
    input: Val,
    weight: Val | None,
    bias: Val | None,
    running_mean: Val | None,
    running_var: Val | None,
    training: bool,
    momentum: float,
    eps: float,
) -> list[Val | None]:
    """In training it writes the running statistics, though its schema is silent about it."""
    saved, mean, var = batch_norm(
        t, input, weight, bias, running_mean, running_var, training, momentum, eps
    )
    if training and mean is not None and var is not None:
        t.write(3, mean)
        t.write(4, var)
    return saved


@rule("aten._native_batch_norm_legit_functional.default")
def native_batch_norm_functional(
    t: Translation, input: Val, weight: Val | None, bias: Val | None, running_mean: Val,
    running_var: Val, training: bool, momentum: float, eps: float,
) -> list[Val | None]:  # fmt: skip
    saved, mean, var = batch_norm(
        t, input, weight, bias, running_mean, running_var, training, momentum, eps
    )
    return [*saved, *([None] * (3 - len(saved))), mean, var]


@rule("aten._native_batch_norm_legit_no_training.default")
def native_batch_norm_no_training(
    t: Translation, input: Val, weight: Val | None, bias: Val | None, running_mean: Val,
    running_var: Val, momentum: float, eps: float,
) -> list[Val | None]:  # fmt: skip
    return batch_norm(t, input, weight, bias, running_mean, running_var, False, momentum, eps)[0]


@rule("aten._native_batch_norm_legit.no_stats")
def native_batch_norm_no_stats(
    t: Translation, input: Val, weight: Val | None, bias: Val | None, training: bool,
    momentum: float, eps: float,
) -> list[Val | None]:  # fmt: skip
    """By the statistics of this batch, kept nowhere: what instance_norm becomes."""
    if input.dims[0] == 1 and input.rank > 2 and not (t.wants(1) or t.wants(2)):
        scale, shift = _channels(t, input, weight, 1), _channels(t, input, bias, 0)
        return [t.op("InstanceNormalization", input, scale, shift, epsilon=float(eps))]
    axes = [i for i in range(input.rank) if i != 1]
    mean = t.reduce("ReduceMean", input, axes, True)
    centred = t.sub(input, mean)
    variance = t.reduce("ReduceMean", t.mul(centred, centred), axes, True)
    rstd = t.op("Reciprocal", t.op("Sqrt", t.add(variance, eps)))
    y = t.mul(centred, rstd)
    behind = list(range(1, input.rank - 1))
    if weight is not None:
        y = t.mul(y, t.unsqueeze(weight, behind))
    if bias is not None:
        y = t.add(y, t.unsqueeze(bias, behind))
    return [y, t.squeeze(mean, axes), t.squeeze(rstd, axes)]


@rule("aten.batch_norm.default")
def batch_norm_composite(
    t: Translation, input: Val, weight: Val | None, bias: Val | None, running_mean: Val | None,
    running_var: Val | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Val | None:  # fmt: skip
    saved, mean, var = batch_norm(
        t, input, weight, bias, running_mean, running_var, training, momentum, eps
    )
    if training and mean is not None and var is not None:
        t.write(3, mean)
        t.write(4, var)
    return saved[0]


@rule("aten._weight_norm_interface.default", "aten._weight_norm.default")
def weight_norm(t: Translation, v: Val, g: Val, dim: int = 0) -> list[Val | None]:
    axes = [i for i in range(v.rank) if i != dim % v.rank]
    norm = t.reduce("ReduceL2", v, axes, True)
    return [t.mul(v, t.div(g, norm)), norm]
