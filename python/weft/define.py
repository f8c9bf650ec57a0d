"""Operators and passes of one's own: `weft.op`, `weft.register_pass`.

    @weft.op("demo::Squareplus")
    def squareplus(x):
        return (x + weft.expr.sqrt(x * x + 4)) * 0.5

    y = squareplus(x)  # an entry of the graph of x
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, Callable, Iterable, Mapping, Sequence, Union, get_args, get_origin, get_type_hints, overload

from weft import _weft, ops
from weft._weft import Expr, Graph, PassContext, RewriteFacts
from weft.errors import ApiMisuseError, AttributeValueError, TypeMismatchError

__all__ = ["Operator", "PassContext", "RewriteFacts", "op", "register_pass"]

Function = Callable[..., Any]

_SCALARS: dict[Any, str] = {bool: "bool", int: "int", float: "float", str: "string"}
_LISTS: dict[Any, str] = {int: "ints", float: "floats", str: "strings"}
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _place(function: Any, depth: int) -> dict[str, Any]:
    """Where a function stands: who owns what it defines. For what has no code of its own, the caller."""
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    if code is not None:
        module = str(getattr(function, "__module__", None) or "python")
        return {"module": module, "file": code.co_filename, "line": code.co_firstlineno}
    frame = sys._getframe(depth)
    return {"module": str(frame.f_globals.get("__name__", "python")), "file": frame.f_code.co_filename, "line": frame.f_lineno}


def _type_of(hint: Any, default: Any) -> str | None:
    """The type of an attribute by its annotation, else by its default."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    arguments = [a for a in get_args(hint) if a is not Ellipsis]
    if get_origin(hint) is not None and get_origin(hint) is not Union and arguments and all(a == arguments[0] for a in arguments):
        return _LISTS.get(arguments[0])
    if hint is not None:
        return None
    if type(default) in _SCALARS:
        return _SCALARS[type(default)]
    if isinstance(default, (list, tuple)) and default:
        kinds = {type(item) for item in default}
        return "floats" if kinds == {int, float} else _LISTS.get(kinds.pop()) if len(kinds) == 1 else None
    return None


def _arguments(key: str, function: Function) -> tuple[list[tuple[str, str]], list[dict[str, Any]]]:
    """Operands (parameters by position) and attributes (those by keyword only) of the function of an operator."""
    inputs: list[tuple[str, str]] = []
    attributes: list[dict[str, Any]] = []
    try:
        hints = get_type_hints(function)
    except Exception:  # names that are not there at run time
        hints = {}
    for p in inspect.signature(function).parameters.values():
        if p.kind in _POSITIONAL:
            if p.default is not p.empty and p.default is not None:
                raise ApiMisuseError(f"operator '{key}': operand '{p.name}' has a default; an attribute stands behind a *, and an "
                                     "operand that may be absent has the default None", "WEFT-E0106")
            inputs.append((p.name, "required" if p.default is p.empty else "optional"))
        elif p.kind is p.VAR_POSITIONAL:
            inputs.append((p.name, "variadic"))
        elif p.kind is p.KEYWORD_ONLY:
            kind = _type_of(hints.get(p.name), p.default)
            if kind is None:
                raise AttributeValueError(f"operator '{key}': what type has the attribute '{p.name}'? Annotate it as int, float, "
                                          "bool, str or a list of them, or give it a default", "WEFT-E0303")
            field: dict[str, Any] = {"name": p.name, "type": kind, "doc": ""}
            if p.default is not p.empty:
                field["default"] = p.default
            attributes.append(field)
        else:
            raise ApiMisuseError(f"operator '{key}': its function takes any keywords (**{p.name}); attributes are named",
                                 "WEFT-E0106")
    if not inputs:
        raise ApiMisuseError(f"operator '{key}' has no operand", "WEFT-E0106")
    return inputs, attributes


def _takes(function: Function, count: int) -> bool:
    """Can it be called with so many arguments?"""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # of a builtin that tells nothing
        return True
    return True


def _simplify(function: Function) -> Function:
    """Of the node and the facts, whatever it takes."""
    if _takes(function, 2):
        return function

    def alone(node: Any, facts: Any) -> Any:
        return function(node)

    return alone


class Operator:
    """An operator that `weft.op` has defined. Called with entries it adds a node and gives its output, or a tuple of its outputs;
    called with expressions, as by the function of another operator, it gives those of its function.

    What it was defined without may be added by a decorator of that name: `@squareplus.FGradient`.
    """

    def __init__(self, name: str, function: Function | None, doc: str) -> None:
        self.name = name
        self._function = function
        self.__name__ = name.split("::")[-1]
        self.__doc__ = doc or type(self).__doc__

    def __call__(self, *inputs: Any, **attributes: Any) -> Any:
        if self._function is not None and any(isinstance(i, Expr) for i in inputs):
            return self._function(*inputs, **attributes)
        return _weft._make_node(self.name, *inputs, **attributes)

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    def _add(self, attribute: str, function: Function, depth: int = 3) -> Function:
        taken = _simplify(function) if attribute == "FSimplify" else function
        _weft._add_to_op(self.name, place=_place(function, depth), attribute=attribute, functions={attribute: taken})
        return function

    def FGradient(self, function: Function) -> Function:
        """`function(node, *grads)` gives the gradient of each operand: an entry, or None. `grads` are those of the outputs, None
        where there is none. Without it the expression is differentiated."""
        return self._add("FGradient", function)

    def FSimplify(self, function: Function) -> Function:
        """`function(node)` or `function(node, facts)` gives what replaces the outputs, or None: equal in value, dtype and shape."""
        return self._add("FSimplify", function)

    def FInferShape(self, function: Function) -> Function:
        """`function(*shapes, **attributes)` gives the shape of each output: sizes, texts of symbolic ones, None for what only the
        data tell. Asked where the ranks of all operands are known. Without it operands broadcast."""
        return self._add("FInferShape", function)

    def FInferType(self, function: Function) -> Function:
        """`function(*dtypes, **attributes)` gives the dtype of each output. Without it that is what the expression has, what the
        signature says, or what the first operand has. A function that is there already is not replaced: DuplicateError."""
        return self._add("FInferType", function)

    def FCompute(self, function: Function) -> Function:
        """`function(*arrays, **attributes)` gives an array for each output, of the dtype and shape that were inferred. What it is
        given are copies."""
        return self._add("FCompute", function)


def _define(key: str, function: Function | None, outputs: int | Sequence[str], functions: dict[str, Any], signature: str | None,
            doc: str | None, override: bool, depth: int) -> Operator:
    if "::" not in key and not override:
        raise ApiMisuseError(f"an operator of one's own has a domain: 'demo::{key}'", "WEFT-E0106")
    first = function if function is not None else functions["FCompute"]
    if not callable(first):
        raise TypeMismatchError(f"operator '{key}': a {type(first).__name__} is not a function", "WEFT-E0304")
    inputs, attributes = _arguments(key, first)
    if function is not None and signature is not None:
        raise ApiMisuseError(f"operator '{key}': an expression tells dtypes and shapes itself; a signature is for FCompute alone",
                             "WEFT-E0106")
    names = [f"y{i}" for i in range(outputs)] if isinstance(outputs, int) else list(outputs)
    if not names:
        raise ApiMisuseError(f"operator '{key}' has no output", "WEFT-E0106")
    if outputs == 1:
        names = ["y"]
    text = doc if doc is not None else inspect.getdoc(first) or ""
    if functions.get("FSimplify") is not None:
        functions["FSimplify"] = _simplify(functions["FSimplify"])
    _weft._define_op(key, place=_place(first, depth), doc=text, inputs=inputs, outputs=names, attributes=attributes,
                     functions={"expression": function, **functions}, signature=signature, replaces=override)
    ops._forget(key)
    return Operator(key, function, text)


@overload
def op(name: str, function: Function, /, *, outputs: int | Sequence[str] = ..., FInferType: Function | None = ...,
       FInferShape: Function | None = ..., FGradient: Function | None = ..., FSimplify: Function | None = ...,
       FCompute: Function | None = ..., signature: str | None = ..., doc: str | None = ..., override: bool = ...) -> Operator: ...
@overload
def op(name: str, /, *, FCompute: Function, outputs: int | Sequence[str] = ..., FInferType: Function | None = ...,
       FInferShape: Function | None = ..., FGradient: Function | None = ..., FSimplify: Function | None = ...,
       signature: str | None = ..., doc: str | None = ..., override: bool = ...) -> Operator: ...
@overload
def op(name: str, /, *, outputs: int | Sequence[str] = ..., FInferType: Function | None = ..., FInferShape: Function | None = ...,
       FGradient: Function | None = ..., FSimplify: Function | None = ..., FCompute: None = ..., signature: str | None = ...,
       doc: str | None = ..., override: bool = ...) -> Callable[[Function], Operator]: ...
def op(name: str, function: Function | None = None, /, *, outputs: int | Sequence[str] = 1, FInferType: Function | None = None,
       FInferShape: Function | None = None, FGradient: Function | None = None, FSimplify: Function | None = None,
       FCompute: Function | None = None, signature: str | None = None, doc: str | None = None,
       override: bool = False) -> Operator | Callable[[Function], Operator]:
    """Defines an element-wise operator by what it computes of one number of each operand: `function` is called with expressions
    (weft.expr) and gives one, or one for each of `outputs`. It is a whole operator then: inferred, differentiated, fused,
    compiled for every target, and saved in programs that need no Python. The function is called once for each combination of
    dtypes and attributes.

    Parameters by position are operands, with the default None those that may be absent; parameters by keyword only are
    attributes (int, float, bool, str, lists of them), by their annotation or default. f16 and bf16 are computed with in f32.

    Without a function, `FCompute` computes arrays of numpy when a program runs; `FInferShape` or a `signature` as
    "T[n, m], T[m] -> T[n]" says their shapes. Other functions: see `Operator`. A name that is taken is refused, naming both
    owners, but with `override`, which replaces what has it.
    """
    functions = {"FInferType": FInferType, "FInferShape": FInferShape, "FGradient": FGradient, "FSimplify": FSimplify,
                 "FCompute": FCompute}
    if function is not None or FCompute is not None:
        return _define(name, function, outputs, functions, signature, doc, override, 3)

    def decorate(f: Function) -> Operator:
        return _define(name, f, outputs, functions, signature, doc, override, 3)

    return decorate


Body = Callable[..., Union[Graph, None]]
Names = Union[str, Iterable[str]]


@overload
def register_pass(body: Body, /) -> Body: ...
@overload
def register_pass(name: str | None = ..., /, *, needs: Names = ..., provides: Names = ..., preserves: Names = ...,
                  options: Mapping[str, Any] | None = ..., changes_graph: bool = ..., result: str = ...,
                  override: bool = ...) -> Callable[[Body], Body]: ...
def register_pass(name: str | Body | None = None, /, *, needs: Names = (), provides: Names = (), preserves: Names = (),
                  options: Mapping[str, Any] | None = None, changes_graph: bool = True, result: str = "same",
                  override: bool = False) -> Body | Callable[[Body], Body]:
    """Registers a pass: `body(graph)` or `body(graph, context)` edits the graph that it is given, or gives another one.

    It is called as the function, without underscores and in capitals (`fold_negation`: FoldNegation), unless it is given a name.
    `needs` are attributes of the graph that have to be there ("shape", "dtype"): what provides them runs before; `provides` are
    those that it sets; `preserves` those whose rows still hold, "all" for a pass that edits nothing. `options` are names and
    defaults, or (default, doc), for `context.option(name)`. `result` says what becomes of the outputs: "same", "appends" or
    "differs". Handles of the graph are good until the body returns.
    """

    def decorate(body: Body) -> Body:
        key = name if isinstance(name, str) else "".join(w[:1].upper() + w[1:] for w in body.__name__.split("_"))
        _weft._define_pass(key, place=_place(body, 2), doc=inspect.getdoc(body) or "", body=body, takes_context=_takes(body, 2),
                           needs=needs, provides=provides, preserves=preserves, options=dict(options or {}),
                           changes_graph=changes_graph, result=result, replaces=override)
        return body

    return decorate(name) if callable(name) else decorate
