"""Scaled dot-product attention, written as its definition.

Weft's pass Attention makes one library call of it; a graph with gradients keeps the parts. Rows
that a mask hides wholly are 0, as in torch's kernels: `Where(IsNaN(p), 0, p)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.torch.record import Dim, Size
from weft.torch.translate.builder import DTYPES
from weft.torch.translate.core import Translation, Untranslatable, Val, rule


def _causal_mask(t: Translation, rows: Dim, columns: Dim, dtype: str) -> Val:
    """0 where the column is at or before the row, -inf behind it."""
    if isinstance(rows, int) and isinstance(columns, int) and dtype in DTYPES:
        seen = np.tril(np.ones((rows, columns), bool))
        return t.tensor(np.where(seen, 0, -np.inf).astype(DTYPES[dtype]))
    zero, one = t.scalar(0, "int64"), t.scalar(1, "int64")

    def count(n: Dim) -> Val:
        return t.op("Range", zero, t.scalar(n, "int64"), one, dims=[n])

    row, column = t.unsqueeze(count(rows), [1]), t.unsqueeze(count(columns), [0])
    before = t.binary("LessOrEqual", column, row, "int64", "bool")
    return t.where(before, 0.0, float("-inf"), dtype)


def attention(
    t: Translation,
    query: Val,
    key: Val,
    value: Val,
    mask: Val | None,
    is_causal: bool,
    scale: float | None,
    dims: Sequence[Dim],
    grouped: bool = False,
) -> tuple[Val, Val]:
    """The result and the scores, masked."""
    dtype = query.dtype
    heads = query.dims[-3] if query.rank > 2 else 1
    if grouped and key.dims[-3] != heads:
        key, value = (_repeat_heads(t, x, heads) for x in (key, value))
    if scale is None:
        width = query.dims[-1]
        if isinstance(width, Size):
            raise Untranslatable("attention over a symbolic number of features")
        scale = width**-0.5
    perm = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    rows, columns = query.dims[-2], key.dims[-2]
    lead = tuple(dims[:-2])
    scores = t.op("MatMul", query, t.transpose(key, perm), dims=(*lead, rows, columns))
    scores = t.mul(scores, scale)
    if mask is not None:
        if mask.dtype == "bool":
            mask = t.where(mask, 0.0, float("-inf"), dtype)
        scores = t.binary("Add", scores, mask, dtype)
    if is_causal:
        scores = t.add(scores, _causal_mask(t, rows, columns, dtype))
    if mask is not None and t.with_gradients:
        # The soft-max of a row that is hidden wholly is NaN, its gradient is none.
        highest = t.reduce("ReduceMax", mask, [-1], True)
        hidden = t.binary("Equal", highest, float("-inf"), dtype, "bool")
        scores = t.where(hidden, t.border(scores), scores, dtype)
    weights = t.op("Softmax", scores, axis=-1)
    if mask is not None:
        hidden = t.op("IsNaN", weights, dtype="bool")
        weights = t.where(hidden, 0.0, weights, dtype)
    return t.op("MatMul", weights, value, dims=dims), scores


def _repeat_heads(t: Translation, x: Val, heads: Dim) -> Val:
    """Heads that groups of queries share, one for each query head."""
    axis = x.rank - 3
    own = x.dims[axis]
    if not isinstance(own, int) or not isinstance(heads, int):
        raise Untranslatable("attention over a symbolic number of heads")
    wide = t.unsqueeze(x, [axis + 1])
    spread = (*wide.dims[: axis + 1], heads // own, *wide.dims[axis + 2 :])
    return t.reshape(t.expand(wide, spread), (*x.dims[:axis], heads, *x.dims[axis + 1 :]))


def _no_dropout(p: float) -> None:
    if p:
        raise Untranslatable("dropout inside of attention; call the module in eval mode")


@rule("aten._scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention_for_cpu(
    t: Translation, query: Val, key: Val, value: Val, dropout_p: float = 0.0,
    is_causal: bool = False, *, attn_mask: Val | None = None, scale: float | None = None,
) -> list[Val | None]:  # fmt: skip
    _no_dropout(dropout_p)
    y, scores = attention(
        t, query, key, value, attn_mask, is_causal, scale, t.result.dims, grouped=True
    )
    if not t.wants(1):
        return [y]
    lse = t.reduce("ReduceLogSumExp", scores, [-1], False)
    kind = t.results[1]
    assert kind is not None
    return [y, t.cast(lse, kind.dtype)]


@rule(
    "aten.scaled_dot_product_attention.default",
)
def scaled_dot_product_attention(
    t: Translation, query: Val, key: Val, value: Val, attn_mask: Val | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
    enable_gqa: bool = False,
) -> Val:  # fmt: skip
    _no_dropout(dropout_p)
    return attention(t, query, key, value, attn_mask, is_causal, scale, t.result.dims, enable_gqa)[
        0
    ]


@rule("aten._scaled_dot_product_attention_math.default")
def attention_math(
    t: Translation, query: Val, key: Val, value: Val, attn_mask: Val | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, dropout_mask: Any = None, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> list[Val | None]:  # fmt: skip
    _no_dropout(dropout_p)
    y, scores = attention(
        t, query, key, value, attn_mask, is_causal, scale, t.result.dims, enable_gqa
    )
    return [y, t.op("Softmax", scores, axis=-1) if t.wants(1) else None]
