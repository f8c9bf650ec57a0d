"""Sizes over symbols: parsed, compared, and computed by nodes where a graph needs their value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, TypeVar

from weft.torch.record import Dim, Size

T = TypeVar("T")

_FUNCTIONS = {
    "FloorDiv": "//", "CleanDiv": "//", "Mod": "%", "PythonMod": "%", "Max": "max", "Min": "min",
    "max": "max", "min": "min", "IntTrueDiv": "/", "ToFloat": "float", "CeilToInt": "ceil",
    "FloorToInt": "floor", "TruncToInt": "floor", "CeilDiv": "ceildiv", "abs": "abs",
    "FloatTrueDiv": "/", "FloatPow": "**", "PowByNatural": "**", "OpaqueUnaryFn_sqrt": "sqrt",
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Div: "/",
    ast.Pow: "**",
}  # fmt: skip


@lru_cache(maxsize=4096)
def parse_size(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def fold(
    size: Size,
    symbol: Callable[[str], T],
    number: Callable[[int | float], T],
    apply: Callable[[str, list[T]], T],
) -> T:
    """One walk over the expression; `apply` gets `+ - * // % / **` and names of functions."""

    def walk(e: ast.expr) -> T:
        if isinstance(e, ast.Name):
            return symbol(e.id)
        if isinstance(e, ast.Constant) and isinstance(e.value, (int, float)):
            return number(e.value)
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub):
            return apply("neg", [walk(e.operand)])
        if isinstance(e, ast.BinOp) and type(e.op) in _OPERATORS:
            return apply(_OPERATORS[type(e.op)], [walk(e.left), walk(e.right)])
        if isinstance(e, ast.Call) and isinstance(e.func, ast.Name) and e.func.id in _FUNCTIONS:
            return apply(_FUNCTIONS[e.func.id], [walk(a) for a in e.args])
        raise ValueError(f"size '{size.text}' is not understood at '{ast.unparse(e)}'")

    return walk(parse_size(size.text))


def symbols_in(size: Size) -> set[str]:
    functions = set(_FUNCTIONS)
    names = {n.id for n in ast.walk(parse_size(size.text)) if isinstance(n, ast.Name)}
    return names - functions


def evaluate(size: Dim, symbols: dict[str, int]) -> int:
    """The number that a size is at given symbols."""
    if isinstance(size, int):
        return size

    def apply(op: str, args: list[Any]) -> Any:
        return _NUMBERS[op](*args)

    return int(fold(size, lambda name: symbols[name], lambda value: value, apply))


_NUMBERS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    "max": max,
    "min": min,
    "neg": lambda a: -a,
    "abs": abs,
    "sqrt": lambda a: float(a) ** 0.5,
    "float": float,
    "ceil": lambda a: -int(-a // 1),
    "floor": lambda a: int(a // 1),
    "ceildiv": lambda a, b: -(-a // b),
}


def product(dims: Sequence[Dim]) -> Dim:
    numbers = prod(d for d in dims if isinstance(d, int))
    names = sorted(f"({d.text})" if not d.text.isidentifier() else d.text
                   for d in dims if isinstance(d, Size))  # fmt: skip
    if not names or numbers == 0:
        return numbers
    return Size("*".join(([str(numbers)] if numbers != 1 else []) + names))


def count(dims: Sequence[Dim]) -> int | None:
    """How many elements; None where that is symbolic."""
    total = product(dims)
    return total if isinstance(total, int) else None


def combine(op: str, a: Dim, b: Dim) -> Dim:
    """`a op b`, a number where both are."""
    if isinstance(a, int) and isinstance(b, int):
        return int(_NUMBERS[op](a, b))
    if op in ("max", "min"):
        return Size(f"{op}({a}, {b})")
    if op in ("+", "-") and b == 0:
        return a
    return Size(f"({a}){op}({b})")


def broadcast(a: Sequence[Dim], b: Sequence[Dim]) -> tuple[Dim, ...]:
    """Dims of what a binary operator gives; torch has checked that the operands fit."""
    if len(a) < len(b):
        a, b = b, a
    lead = len(a) - len(b)
    out = list(a)
    for i, d in enumerate(b):
        mine = out[lead + i]
        if mine == 1 or (isinstance(mine, Size) and isinstance(d, int) and d != 1):
            out[lead + i] = d
    return tuple(out)
