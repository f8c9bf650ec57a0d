"""Operators as functions: `weft.ops.Softmax(x, axis=-1)` adds a node to the graph of `x` and gives its output, or a tuple of
its outputs.

Operands are entries, None for an optional one that is absent, and numbers and arrays, which become constants. Attributes are
keywords. `name=` names the node, `graph=` says where it goes when no operand is an entry. Operators of other domains are in
their name: `weft.ops.weft.SumTo(x, y)`. Signatures and documentation come from the registry, plugins included.
"""

from __future__ import annotations

import inspect
import keyword
import builtins
from typing import Any, Callable

from weft import _weft

_made: dict[str, tuple[int, Any]] = {}


def _kind(name: str) -> str:
    return name if name.isidentifier() and not keyword.iskeyword(name) else "".join(c if c.isalnum() else "_" for c in name) + "_"


def _signature(op: dict[str, Any]) -> inspect.Signature:
    """Operands by position, attributes by keyword."""
    parameters = []
    names = set()
    for argument in op["inputs"]:
        name = _kind(argument["name"])
        while name in names:
            name += "_"
        names.add(name)
        if argument["variadic"]:
            parameters.append(inspect.Parameter(name, inspect.Parameter.VAR_POSITIONAL))
            break
        default = None if argument["optional"] else inspect.Parameter.empty
        if default is inspect.Parameter.empty and parameters and parameters[-1].default is None:
            default = None
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY, default=default))
    if not op["inputs"] and op["max_inputs"] != 0:
        parameters.append(inspect.Parameter("inputs", inspect.Parameter.VAR_POSITIONAL))
    for attribute in op["attributes"]:
        if not attribute["name"].isidentifier() or keyword.iskeyword(attribute["name"]):
            continue
        default = inspect.Parameter.empty if attribute["required"] else None
        parameters.append(inspect.Parameter(attribute["name"], inspect.Parameter.KEYWORD_ONLY, default=default))
    for name in ("name", "graph"):
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None))
    if not op["declared"]:
        parameters.append(inspect.Parameter("attributes", inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(parameters)


def _doc(op: dict[str, Any]) -> str:
    lines = [op["doc"].strip() or op["name"], ""]
    for title, rows in (("Operands", op["inputs"]), ("Results", op["outputs"])):
        if rows:
            lines.append(f"{title}:")
        for row in rows:
            marks = ", optional" * row["optional"] + ", any number" * row["variadic"]
            lines.append(f"    {row['name']} ({row['type']}{marks}): {row['doc']}".rstrip(": "))
    if op["attributes"]:
        lines.append("Attributes:")
    for field in op["attributes"]:
        default = "required" if field["required"] else f"default {field['default'] or 'none'}"
        lines.append(f"    {field['name']} ({field['type']}, {default}): {field['doc']}".rstrip(": "))
    return "\n".join(lines)


def _function(key: str) -> Callable[..., Any]:
    described = _weft._describe_op(key)

    def op(*inputs: Any, **attributes: Any) -> Any:
        return _weft._make_node(key, *inputs, **attributes)

    op.__name__ = op.__qualname__ = key.split("::")[-1]
    op.__doc__ = _doc(described)
    op.__module__ = __name__
    op.__signature__ = _signature(described)  # type: ignore[attr-defined]
    return op


class _Domain:
    """The operators of a domain that is not ONNX's own."""

    def __init__(self, domain: str) -> None:
        self._domain = domain

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _find(f"{self._domain}::{name}", _with_dots(self._domain))

    def __dir__(self) -> builtins.list[str]:
        return [n.split("::")[1] for n in _weft._list_ops() if n.startswith(self._domain + "::")]

    def __repr__(self) -> str:
        return f"<operators of {self._domain}>"


def _with_dots(domain: str) -> str:
    return "weft.ops." + domain.replace(".", "_")


def _find(key: str, where: str) -> Any:
    if key in _made:
        return _made[key][1]
    try:
        made = _function(key)
    except LookupError as error:
        # hasattr and completion ask for what is not there.
        raise AttributeError(f"{where} has no operator {key.split('::')[-1]}. {getattr(error, 'hint', '')}".rstrip()) from None
    _made[key] = (0, made)
    return made


def _forget(key: str) -> None:
    """The operator has been defined anew."""
    _made.pop(key, None)


def _domains() -> dict[str, str]:
    """Names in Python of the domains: 'ai.onnx.ml' is ai_onnx_ml."""
    found = {n.split("::")[0] for n in _weft._list_ops() if "::" in n}
    return {d.replace(".", "_"): d for d in sorted(found)}


def get(key: str) -> Callable[..., Any]:
    """The function of an operator by its key: 'Relu', 'weft::SumTo'."""
    described: Callable[..., Any] = _find(key, "weft.ops") if key in _made else _function(key)
    return described


def list() -> builtins.list[str]:  # noqa: A001
    """Keys of all operators."""
    return _weft._list_ops()


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    domain = _domains().get(name)
    if domain is not None:
        return _Domain(domain)
    return _find(name, "weft.ops")


def __dir__() -> builtins.list[str]:
    return sorted([n for n in _weft._list_ops() if "::" not in n] + [*_domains(), "get", "list"])
