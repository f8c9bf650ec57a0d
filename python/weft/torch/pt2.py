"""Reads `.pt2` files, as torch.export.save writes them, with no torch installed.

Such a file is a zip: `models/model.json` (torch's schema 8), weights and constants as raw bytes
beside a list of their types. What is read is data: pickled parts are refused.
"""

from __future__ import annotations

import ast
import json
import os
import re
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.torch.functional import make_functional
from weft.torch.record import (
    Argument,
    Body,
    Dim,
    DType,
    Frame,
    Node,
    Output,
    Record,
    Ref,
    Size,
    SizeType,
    Source,
    Specialization,
    Symbol,
    TensorType,
)
from weft.torch.translate.builder import Array

SCHEMA = 8

_DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32",
    8: "float64", 12: "bool", 13: "bfloat16", 28: "uint16",
}  # fmt: skip
_MEMORY_FORMATS = {1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d",
                   4: "preserve_format"}  # fmt: skip
FRAME_PATTERN = re.compile(r'File "([^"]*)", line (\d+), in (\S+)')


class BadProgram(ValueError):
    """The file is not a program that torch.export.save has written, or is of another version."""


def read_pt2(path: str | os.PathLike[str]) -> tuple[Record, dict[str, Array]]:
    """The program of a file, functional, and its weights by name."""
    with zipfile.ZipFile(path) as file:
        names = file.namelist()
        model = next((n for n in names if n.endswith("models/model.json")), None)
        if model is None:
            raise BadProgram(f"{os.fspath(path)} has no models/model.json: not a .pt2 file")
        root = model.removesuffix("models/model.json")
        program = json.loads(file.read(model))
        tensors: dict[str, Array] = {}
        for kind, config in (
            ("weights", "model_weights_config.json"),
            ("constants", "model_constants_config.json"),
        ):
            listing = f"{root}data/{kind}/{config}"
            if listing in names:
                listed = json.loads(file.read(listing))["config"]
                for name, entry in listed.items():
                    tensors[name] = _read_tensor(file, f"{root}data/{kind}/", name, entry)
    return read_program(program), tensors


def _read_tensor(file: zipfile.ZipFile, folder: str, name: str, entry: Mapping[str, Any]) -> Array:
    if entry.get("use_pickle"):
        raise BadProgram(f"the tensor '{name}' is pickled; pickles are not read")
    meta = entry["tensor_meta"]
    dtype = _DTYPES.get(meta["dtype"], "")
    data = file.read(folder + entry["path_name"])
    sizes = [int(s["as_int"]) for s in meta["sizes"]]
    strides = [int(s["as_int"]) for s in meta["strides"]]
    offset = int(meta["storage_offset"]["as_int"])
    stored: np.dtype[Any] = _numpy_dtype(dtype, name)
    flat = np.frombuffer(data, stored)
    last = offset + sum((n - 1) * s for n, s in zip(sizes, strides)) if 0 not in sizes else -1
    if last >= flat.size or min([offset, *strides, *sizes], default=0) < 0:
        raise BadProgram(f"the tensor '{name}' reaches beyond its {flat.size} stored elements")
    if 0 in sizes:
        return np.zeros(sizes, stored)
    width = stored.itemsize
    return np.lib.stride_tricks.as_strided(
        flat[offset:], sizes, [s * width for s in strides], writeable=False
    )


def _numpy_dtype(dtype: str, name: str) -> np.dtype[Any]:
    if dtype == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise BadProgram(f"the tensor '{name}' is bfloat16: install ml_dtypes") from error
        kind: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return kind
    if not dtype:
        raise BadProgram(f"the tensor '{name}' is of a dtype that is not read")
    return np.dtype(dtype)


def read_program(program: Mapping[str, Any]) -> Record:
    """A program in torch's schema, as plain data, to a functional record."""
    version = program.get("schema_version", {}).get("major")
    if version != SCHEMA:
        raise BadProgram(f"schema {version}; schema {SCHEMA} is read")
    module = program["graph_module"]
    reader = _GraphReader(module["graph"])
    record = reader.record
    for spec in module["signature"]["input_specs"]:
        ((kind, content),) = spec.items()
        reader.add_input(kind, content)
    reader.read_nodes()
    names = _output_names(module)
    position = 0
    for spec in module["signature"]["output_specs"]:
        ((kind, content),) = spec.items()
        if kind == "user_output":
            value = reader.argument(content["arg"])
            label = names[position] if position < len(names) else f"output_{position}"
            record.outputs.append(Output(label, value))
            position += 1
        elif kind in ("buffer_mutation", "user_input_mutation"):
            target = content.get("buffer_name") or content.get("user_input_name")
            record.updates[target] = reader.number(content["arg"]["name"])
        else:
            raise BadProgram(f"output of kind {kind}")
    for name, bounds in program.get("range_constraints", {}).items():
        low, high = bounds.get("min_val"), bounds.get("max_val")
        record.symbols.append(Symbol(name, low or 0, high))
    for text in program.get("guards_code", []):
        record.specializations.append(Specialization(str(text), None, None))
    return make_functional(record)


def _output_names(module: Mapping[str, Any]) -> list[str]:
    """Keys of a dictionary that the module returns; positions else."""
    for entry in module.get("module_call_graph", []):
        if entry.get("fqn") != "" or not entry.get("signature"):
            continue
        spec = json.loads(entry["signature"]["out_spec"])
        tree = spec[1] if isinstance(spec, list) else spec
        context, children = tree.get("context"), tree.get("children_spec", [])
        if isinstance(context, str):
            try:
                context = json.loads(context)
            except ValueError:
                context = None
        if not children:
            return ["output"]
        leaves = all(not child.get("children_spec") for child in children)
        if isinstance(context, list) and len(context) == len(children) and leaves:
            return [str(key) for key in context]
    return []


class _GraphReader:
    """One graph of the schema; bodies of control flow have readers of their own."""

    def __init__(self, graph: Mapping[str, Any], stacks: Any = None) -> None:
        self.graph = graph
        self.record = Record()
        if stacks is not None:
            self.record.stacks = stacks
        self._numbers: dict[str, int] = {}
        self._sizes = {
            name: _size_of(value) for name, value in graph.get("sym_int_values", {}).items()
        }
        self._floats = {
            name: _size_of(value) for name, value in graph.get("sym_float_values", {}).items()
        }
        self._stack_numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        known = self._numbers.get(name)
        if known is None:
            meta = self.graph["tensor_values"][name]
            dtype = _DTYPES.get(meta["dtype"])
            if dtype is None:
                raise BadProgram(f"'{name}' is of dtype {meta['dtype']}, which is not read")
            self.record.values.append(TensorType(dtype, tuple(self._dim(s) for s in meta["sizes"])))
            known = self._numbers[name] = len(self.record.values) - 1
        return known

    def _dim(self, size: Mapping[str, Any]) -> Dim:
        if "as_int" in size:
            return int(size["as_int"])
        return _size_of(size)

    def add_input(self, kind: str, content: Mapping[str, Any]) -> None:
        if kind == "user_input":
            ((form, arg),) = content["arg"].items()
            if form == "as_tensor":
                name = arg["name"]
                self._add_source(name, "input", self.number(name))
            elif form not in ("as_none", "as_int", "as_float", "as_bool", "as_string"):
                raise BadProgram(f"input of kind {form}")
            return
        if kind == "constant_input":
            return
        if kind == "parameter":
            name, label, trainable = content["parameter_name"], "parameter", True
        elif kind == "buffer":
            name, label, trainable = content["buffer_name"], "buffer", False
        elif kind == "tensor_constant":
            name, label, trainable = content["tensor_constant_name"], "constant", False
        else:
            raise BadProgram(f"input of kind {kind}")
        inner = content["arg"]["name"]
        if trainable:
            trainable = bool(self.graph["tensor_values"][inner].get("requires_grad"))
        self._add_source(name, label, self.number(inner), trainable)

    def _add_source(self, name: str, kind: str, value: int, trainable: bool = False) -> None:
        self.record.sources.append(Source(name, kind, value, trainable))

    # ---- nodes ----

    def read_nodes(self) -> None:
        for node in self.graph["nodes"]:
            self._read_node(node)

    def _read_node(self, node: Mapping[str, Any]) -> None:
        op = node["target"].removeprefix("torch.ops.").removeprefix("higher_order.")
        outputs = node["outputs"]
        if outputs and all("as_sym_int" in o or "as_sym_bool" in o or "as_sym_float" in o
                           for o in outputs):  # fmt: skip
            if not op.startswith(("aten._local_scalar_dense", "aten.item")):
                return  # sizes are expressions already
        results: list[int | None] = []
        for output in outputs:
            ((form, content),) = output.items()
            if form == "as_tensor":
                results.append(self.number(content["name"]))
            elif form == "as_tensors":
                results += [self.number(c["name"]) for c in content]
            elif form == "as_optional_tensor":
                results.append(self.number(content["as_tensor"]["name"])
                               if "as_tensor" in content else None)  # fmt: skip
            elif form == "as_sym_int":
                size = self._sizes[content["as_name"]]
                self.record.values.append(SizeType(size.text))
                results.append(len(self.record.values) - 1)
            else:
                results.append(None)
        args: list[Argument] = []
        kwargs: dict[str, Argument] = {}
        for given in node["inputs"]:
            value = self.argument(given["arg"])
            if given.get("kind", 1) == 1:
                args.append(value)
            else:
                kwargs[given["name"]] = value
        stack = self._stack(node.get("metadata", {}).get("stack_trace", ""))
        self.record.nodes.append(Node(op, tuple(args), kwargs, tuple(results), stack))

    def _stack(self, text: str) -> int:
        known = self._stack_numbers.get(text)
        if known is None:
            self.record.stacks.append(user_frames(FRAME_PATTERN.findall(text)))
            known = self._stack_numbers[text] = len(self.record.stacks) - 1
        return known

    def argument(self, arg: Mapping[str, Any]) -> Argument:
        ((form, content),) = arg.items()
        if form == "as_none":
            return None
        if form in ("as_tensor", "as_optional_tensor"):
            if form == "as_optional_tensor":
                return self.argument(content)
            return Ref(self.number(content["name"]))
        if form == "as_tensors":
            return tuple(Ref(self.number(c["name"])) for c in content)
        if form == "as_optional_tensors":
            return tuple(self.argument(c) for c in content)
        if form in ("as_int", "as_float", "as_bool", "as_string"):
            if form == "as_float":
                return float(content)
            assert isinstance(content, (int, bool, str))
            return content
        if form in ("as_ints", "as_bools", "as_strings"):
            return tuple(content)
        if form == "as_floats":
            return tuple(float(c) for c in content)
        if form == "as_sym_int":
            return self._symbolic(content, self._sizes)
        if form == "as_sym_ints":
            return tuple(self._symbolic(c, self._sizes) for c in content)
        if form == "as_sym_float":
            return self._symbolic(content, self._floats)
        if form == "as_scalar_type":
            return DType(_DTYPES[content])
        if form == "as_memory_format":
            return _MEMORY_FORMATS.get(content, "contiguous_format")
        if form == "as_device":
            return str(content.get("type", "cpu"))
        if form == "as_layout":
            return "strided"
        if form == "as_sym_bool":
            return True  # what an assertion is about; sizes say it in their own expressions
        if form == "as_graph":
            return Body(self._body(content["graph"]))
        raise BadProgram(f"argument of kind {form}")

    def _symbolic(self, content: Mapping[str, Any], table: Mapping[str, Size]) -> Argument:
        if "as_name" in content:
            size = table[content["as_name"]]
            return int(size.text) if size.text.lstrip("-").isdigit() else size
        ((_, value),) = content.items()
        assert isinstance(value, (int, float))
        return value

    def _body(self, graph: Mapping[str, Any]) -> Record:
        reader = _GraphReader(graph, self.record.stacks)
        for given in graph["inputs"]:
            ((form, content),) = given.items()
            if form != "as_tensor":
                raise BadProgram(f"body with an input of kind {form}")
            reader._add_source(content["name"], "input", reader.number(content["name"]))
        reader.read_nodes()
        for i, output in enumerate(graph["outputs"]):
            reader.record.outputs.append(Output(f"output_{i}", reader.argument(output)))
        return make_functional(reader.record)


def user_frames(found: list[tuple[str, str, str]]) -> tuple[Frame, ...]:
    """Frames of a printed stack, innermost first, without torch's own."""
    frames = [Frame(file, int(line), function) for file, line, function in found]
    kept = [f for f in frames if f"{os.sep}torch{os.sep}" not in f.file] or frames
    return tuple(reversed(kept[-4:]))


def _size_of(value: Mapping[str, Any]) -> Size:
    if "as_int" in value:
        return Size(str(value["as_int"]))
    content = value.get("as_expr", value)
    if "as_float" in content:
        return Size(str(content["as_float"]))
    return Size(size_text(content["expr_str"]))


_INFIX = {"Add": "+", "Mul": "*", "FloorDiv": "//", "CleanDiv": "//", "Mod": "%",
          "PythonMod": "%", "Pow": "**"}  # fmt: skip


def size_text(written: str) -> str:
    """sympy's `Mul(Integer(2), Symbol('n', positive=True))` as `2*n`."""

    def walk(e: ast.expr) -> str:
        if isinstance(e, ast.Call) and isinstance(e.func, ast.Name):
            name = e.func.id
            if name == "Symbol":
                assert isinstance(e.args[0], ast.Constant)
                return str(e.args[0].value)
            if name in ("Integer", "Float"):
                return ast.unparse(e.args[0]).strip("'")
            parts = [walk(a) for a in e.args]
            if name in _INFIX:
                return "(" + _INFIX[name].join(parts) + ")"
            return f"{name}({', '.join(parts)})"
        if isinstance(e, (ast.Constant, ast.Name, ast.UnaryOp, ast.BinOp)):
            return ast.unparse(e)
        raise BadProgram(f"size '{written}'")

    try:
        text = walk(ast.parse(written, mode="eval").body)
    except SyntaxError as error:
        raise BadProgram(f"size '{written}'") from error
    return text[1:-1] if text.startswith("(") and _closes_last(text) else text


def _closes_last(text: str) -> bool:
    """The first bracket is closed by the last."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return i == len(text) - 1
    return False
