"""Writes the stub of weft.ops from the registry: ops_stub.py OUT.pyi"""

from __future__ import annotations

import inspect
import sys
from typing import Any

TYPES = {"int": "int", "float": "float", "bool": "bool", "string": "str", "ints": "Sequence[int]", "floats": "Sequence[float]",
         "strings": "Sequence[str]", "tensor": "ArrayLike", "graph": "Graph", "dtype": "DTypeLike", "shape": "ShapeLike"}
HEADER = '''# Made from the registry of operators.
import builtins
from collections.abc import Callable, Sequence
from typing import Any

from weft._types import ArrayLike, DTypeLike, Operand, ShapeLike
from weft._weft import Entry, Graph

'''


def result(op: dict[str, Any]) -> str:
    count = op["num_outputs"]
    if count == 1:
        return "Entry"
    # How many there are may depend on attributes.
    return "Any" if count < 0 else "tuple[" + ", ".join(["Entry"] * count) + "]"


def attribute(field: dict[str, Any]) -> str:
    kind = "int | str" if field["type"].startswith("{") else TYPES.get(field["type"], "Any")
    if field["type"] == "int" and field["name"] in ("to", "dtype"):
        kind = "int | DTypeLike"
    return kind


def function(ops: Any, weft: Any, key: str, indent: str) -> str:
    op = weft._describe_op(key)
    signature: inspect.Signature = ops._signature(op)
    fields = {f["name"]: f for f in op["attributes"]}
    parts, kinds = (["self"] if indent else []), {p.kind for p in signature.parameters.values()}
    keyword_only = False
    for p in signature.parameters.values():
        if p.kind == p.VAR_POSITIONAL:
            parts.append(f"*{p.name}: Operand | None")
            keyword_only = True
        elif p.kind == p.POSITIONAL_ONLY:
            optional = p.default is not p.empty
            parts.append(f"{p.name}: Operand{' | None = None' if optional else ''}")
        elif p.kind == p.VAR_KEYWORD:
            parts.append(f"**{p.name}: Any")
        else:
            if not keyword_only:
                if p.POSITIONAL_ONLY in kinds:
                    parts.append("/")
                parts.append("*")
                keyword_only = True
            if p.name == "graph" and p.name not in fields:
                parts.append("graph: Graph | None = None")
            elif p.name == "name" and p.name not in fields:
                parts.append("name: str | None = None")
            else:
                kind = attribute(fields[p.name])
                parts.append(f"{p.name}: {kind}" if p.default is p.empty else f"{p.name}: {kind} | None = None")
    doc = ops._doc(op).replace("\\", "\\\\").replace('"""', "'''")
    body = ("\n" + indent + "    ").join(doc.split("\n")).rstrip()
    name = key.split("::")[-1]
    return f'{indent}def {name}({", ".join(parts)}) -> {result(op)}:\n{indent}    """{body}\n{indent}    """\n'


def main() -> None:
    from weft import _weft as weft
    from weft import ops

    names = weft._list_ops()
    text = [HEADER, *(function(ops, weft, n, "") for n in names if "::" not in n)]
    for python_name, domain in ops._domains().items():
        text.append(f"class _{python_name}:\n")
        text += [function(ops, weft, n, "    ") for n in names if n.startswith(domain + "::")]
        text.append(f"\n{python_name}: _{python_name}\n\n")
    text.append('def get(key: str) -> Callable[..., Any]:\n    """The function of an operator by its key: \'Relu\', '
                '\'weft::SumTo\'."""\n\ndef list() -> builtins.list[str]:\n    """Keys of all operators."""\n\n'
                "def _signature(op: dict[str, Any]) -> Any: ...\n"
                "def _doc(op: dict[str, Any]) -> str: ...\ndef _domains() -> dict[str, str]: ...\ndef _forget(key: str) -> None: ...\n")
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("\n".join(text))


if __name__ == "__main__":
    main()
