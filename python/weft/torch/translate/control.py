"""Control flow: cond, while_loop, scan, map, and regions that a switch is set for.

Bodies are graphs whose inputs are all that they read; what torch hands to each call alike becomes
a capture of ONNX's If, Loop and Scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.torch.record import Record
from weft.torch.translate.core import Translation, Untranslatable, Val, rule


def _tensors(values: Sequence[Any]) -> list[Val]:
    """Sizes among the operands are expressions in the bodies, and not handed over."""
    return [v for v in values if isinstance(v, Val)]


def _results(t: Translation) -> list[tuple[str, Any]]:
    return [(r.dtype, r.dims) for r in t.results if r is not None]


def _predicate(t: Translation, x: Any) -> Val:
    if not isinstance(x, Val):
        raise Untranslatable("a condition over sizes alone")
    return t.reshape(t.cast(x, "bool"), [])


@rule("cond")
def cond(
    t: Translation, pred: Any, true_fn: Record, false_fn: Record, operands: Sequence[Any] = ()
) -> list[Val]:
    given = _tensors(operands)
    return t.ops(
        "If", [_predicate(t, pred), *given], _results(t),
        then_branch=t.body(true_fn), else_branch=t.body(false_fn), num_captures=len(given),
    )  # fmt: skip


@rule("while_loop")
def while_loop(
    t: Translation, cond_fn: Record, body_fn: Record, carried_inputs: Sequence[Any],
    additional_inputs: Sequence[Any] = (),
) -> list[Val]:  # fmt: skip
    carried, more = _tensors(carried_inputs), _tensors(additional_inputs)
    if len(carried) != len(carried_inputs):
        raise Untranslatable("while_loop that carries a number")
    first = _predicate(t, t.inline(cond_fn, [*carried, *more])[0])

    def build(inner: Translation, inputs: list[Val]) -> list[Val]:
        states, captures = inputs[2 : 2 + len(carried)], inputs[2 + len(carried) :]
        new = inner.inline(body_fn, [*states, *captures])
        again = _predicate(inner, inner.inline(cond_fn, [*new, *captures])[0])
        return [again, *new]

    body = t.built_body(
        [("int64", ()), ("bool", ()), *((v.dtype, v.dims) for v in (*carried, *more))], build
    )
    return t.ops(
        "Loop", [None, first, *carried, *more], _results(t), body=body, num_captures=len(more)
    )


@rule("scan")
def scan(
    t: Translation, combine_fn: Record, init: Sequence[Any], xs: Sequence[Any],
    additional_inputs: Sequence[Any] = (),
) -> list[Val]:  # fmt: skip
    states, slices, more = _tensors(init), _tensors(xs), _tensors(additional_inputs)
    return t.ops(
        "Scan", [*states, *slices, *more], _results(t), body=t.body(combine_fn),
        num_scan_inputs=len(slices), num_captures=len(more),
    )  # fmt: skip


@rule("map_impl")
def map_impl(
    t: Translation, f: Record, xs: Sequence[Any], pos_args: Sequence[Any] = ()
) -> list[Val]:
    return scan(t, f, (), xs, pos_args)


@rule("wrap_with_set_grad_enabled")
def set_grad_enabled(t: Translation, enabled: bool, body: Record, *operands: Any) -> list[Val]:
    values = t.inline(body, _tensors(operands))
    return values if enabled else [t.border(v) for v in values]


@rule("wrap_with_autocast")
def autocast(
    t: Translation, device: Any, dtype: Any, enabled: bool, cache: Any, body: Record,
    *operands: Any,
) -> list[Val]:  # fmt: skip
    return t.inline(body, _tensors(operands))
