"""Everything of torch that torch does not promise to keep, in one place.

Whoever needs a private name of torch takes it from here. Versions that nobody has tested are
refused: a private name that still exists may mean something else.
"""

from __future__ import annotations

import ast
import contextlib
import operator
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.compiler
import torch.library
import torch.fx.experimental.symbolic_shapes as symbolic_shapes
from torch._dispatch.python import enable_python_dispatcher as python_dispatcher
from torch._guards import Source as _GuardSource
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "DATA_DEPENDENT",
    "aot_backend",
    "cached_as",
    "empty_strided",
    "on_optimizer_step",
    "needs_no_wrapper",
    "no_modes",
    "overload",
    "output_code",
    "partitions",
    "serializable",
    "static_inputs",
    "FactEnv",
    "FakeTensor",
    "FakeTensorMode",
    "TorchDispatchMode",
    "check_version",
    "count_steps",
    "create_symbol",
    "exporting",
    "has_gradient_hooks",
    "has_setup_context",
    "has_step_hooks",
    "hint",
    "is_view",
    "key_path_names",
    "mark_stepped",
    "module_holders",
    "python_dispatcher",
    "replaced_apply",
    "pytree",
    "size_text",
    "version",
    "whole_linear",
]

TESTED = ((2, 15),)

# What a run on FakeTensors raises where the model reads a number out of its data.
DATA_DEPENDENT: tuple[type[Exception], ...] = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    symbolic_shapes.GuardOnDataDependentSymNode,
)


def check_version() -> None:
    """Refuses a torch whose private names nobody has tried."""
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version in TESTED or os.environ.get("WEFT_TORCH_UNTESTED") == "1":
        return
    tested = ", ".join(".".join(map(str, v)) for v in TESTED)
    raise ImportError(
        f"torch {torch.__version__} is not tested with weft.torch, which reads private names of "
        f"torch; tested: {tested} (WEFT_TORCH_UNTESTED=1 tries it all the same)"
    )


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Models that ask whether they are being traced are told so, and do not branch on data."""
    module: Any = torch.compiler
    before = module._is_compiling_flag, module._is_exporting_flag
    module._is_compiling_flag = module._is_exporting_flag = True
    try:
        yield
    finally:
        module._is_compiling_flag, module._is_exporting_flag = before


def has_setup_context(function: Any) -> bool:
    """An autograd.Function of the newer kind, whose forward takes no ctx."""
    default = torch.autograd.function._SingleLevelFunction.setup_context
    return bool(function.setup_context is not default)


@contextlib.contextmanager
def replaced_apply(apply: Any) -> Iterator[None]:
    """Another `apply` of all autograd.Functions."""
    function: Any = torch.autograd.Function
    before = function.__dict__["apply"]
    function.apply = apply
    try:
        yield
    finally:
        function.apply = before


class _Named(_GuardSource):  # type: ignore[misc,unused-ignore]
    """The source of a symbol: its name. torch's own would import dynamo, which takes a second."""

    text: str

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "text", text)

    @property
    def _name_template(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and other.text == self.text

    def is_ephemeral(self) -> bool:
        return False


_LIBRARY: Any = torch.library.Library("weft", "DEF")  # type: ignore[no-untyped-call,unused-ignore]
_LIBRARY.define("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor")


def _linear_meta(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    return input.new_empty((*input.shape[:-1], *weight.shape[:-1]))


_LIBRARY.impl("linear", _linear_meta, "Meta")


def whole_linear(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """F.linear as one call, where dtypes and ranks are the usual ones."""
    if input.dtype != weight.dtype or weight.dim() != 2 or input.dim() == 0:
        return torch._C._nn.linear(input, weight, bias)
    result: torch.Tensor = torch.ops.weft.linear(input, weight, bias)
    return result


def create_symbol(
    shape_env: Any, name: str, example: int, low: int, high: int | None
) -> tuple[str, torch.SymInt]:
    """A size that is `example` in this run: the name torch prints for it, and the size."""
    source = _Named(name)
    symbol = shape_env.create_symbol(
        example, source, dynamic_dim=symbolic_shapes.DimDynamic.DYNAMIC
    )
    size: Any = shape_env.create_symintnode(symbol, hint=example, source=source)
    if low > 2 or high is not None:
        bounds = {"min": max(low, 2)} | ({} if high is None else {"max": high})
        symbolic_shapes._constrain_range_for_size(size, **bounds)
    return str(symbol), size


def may_be_negative(size: Any) -> bool:
    """By what tracing knows of it so far."""
    node = size.node
    return bool(node.shape_env.bound_sympy(node.expr).lower < 0)


def size_text(size: Any) -> str:
    """The expression of a SymInt, after what was decided about its symbols."""
    node = size.node
    text = str(node.shape_env.simplify(node.expr))
    return _without_powers(text) if "**" in text else text


def _without_powers(text: str) -> str:
    """`(s - 2)**2` as a product: Weft's sizes know no powers."""

    class Products(ast.NodeTransformer):
        def visit_BinOp(self, e: ast.BinOp) -> ast.expr:
            self.generic_visit(e)
            times = e.right.value if isinstance(e.right, ast.Constant) else None
            if not isinstance(e.op, ast.Pow) or not isinstance(times, int) or times < 1:
                return e
            product = e.left
            for _ in range(times - 1):
                product = ast.BinOp(product, ast.Mult(), e.left)
            return product

    return ast.unparse(Products().visit(ast.parse(text, mode="eval")))


def hint(size: Any) -> int | None:
    """What a size is in the example; None where it comes from data."""
    if isinstance(size, int):
        return size
    node = size.node
    value = node.hint if node.has_hint() else None
    return None if value is None else int(value)


def is_view(op: Any) -> bool:
    """Its result shares the memory of its first operand, which it does not write."""
    schema = getattr(op, "_schema", None)
    if schema is None or len(schema.returns) != 1 or schema.returns[0].alias_info is None:
        return False
    return not any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)


def overload(name: str) -> Any:
    """An operator of torch by the name that fx graphs print: `aten.t.default`."""
    namespace, family, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), family), overload)


# torch.empty_strided on the CPU, as inductor's code calls it: a third of the time.
empty_strided: Any = torch._C._dynamo.guards._empty_strided_cpu


def output_code() -> Any:
    """The base of results that AOTAutograd's cache keeps. Imports dynamo."""
    from torch._inductor.output_code import OutputCode

    return OutputCode


def aot_backend(**compilers: Any) -> Any:
    """AOTAutograd as a backend of torch.compile."""
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(**compilers)


def serializable(compiler: Any) -> Any:
    """A compiler whose results AOTAutograd's cache may keep."""
    from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler

    return SerializableAOTDispatchCompiler(output_code(), compiler)


@contextlib.contextmanager
def cached_as(tag: str, cached: bool) -> Iterator[None]:
    """AOTAutograd's cache keeps what is compiled inside whole, under keys that `tag` is a part of.
    The backward part is compiled with the forward one: an entry has both."""
    from torch._functorch import config

    settings: Any = config
    compiler: Any = torch.compiler.config
    both = {"bundled_autograd_cache": True, "force_non_lazy_backward_lowering": True}
    if not cached:
        both["enable_autograd_cache"] = False
    with settings.patch(both), compiler.patch(cache_key_tag=compiler.cache_key_tag + tag):
        yield


def partitions() -> dict[str, Any]:
    """torch's ways to cut a joint graph into a forward and a backward part."""
    from torch._functorch import partitioners

    return {
        "default": partitioners.default_partition,
        "min_cut": partitioners.min_cut_rematerialization_partition,
    }


def static_inputs() -> list[int]:
    """Of the graph that is being compiled, the arguments that are parameters and buffers."""
    from torch._guards import TracingContext

    context: Any = TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return []
    return list(context.fw_metadata.static_input_indices or ())


def no_modes() -> Any:
    """Inside, calls on tensors compute: the compiler's fake tensors are out of the way."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def needs_no_wrapper(arguments: int) -> bool:
    """AOTAutograd has nothing to do around the graph that is being compiled, for inference: its
    arguments are those of the whole, it writes none of them outside of the graph, and its results
    are tensors of their own and numbers."""
    from torch._functorch._aot_autograd.schemas import OutputType, PlainTensorMeta
    from torch._guards import TracingContext

    context: Any = TracingContext.try_get()
    meta: Any = context.fw_metadata if context is not None else None
    return (
        meta is not None
        and len(meta.input_info) == arguments
        and not meta.mutated_inp_runtime_indices
        and not any(i.mutates_metadata or i.mutates_storage_metadata for i in meta.input_info)
        and all(o.output_type == OutputType.non_alias for o in meta.output_info)
        and not any(o.requires_grad for o in meta.output_info)
        and meta.num_intermediate_bases == 0
        and not meta.tokens
        and not meta.is_rng_op_functionalized
        and meta.grad_enabled_mutation is None
        and all(isinstance(m, PlainTensorMeta) for m in meta.subclass_inp_meta)
    )


def on_optimizer_step(call: Callable[..., None]) -> None:
    """Calls it behind each step of any optimizer."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(call)


class FactEnv(symbolic_shapes.ShapeEnv):  # type: ignore[misc,unused-ignore]
    """Notes where each fact about symbols was decided."""

    def __init__(self, place: Callable[[], Any]) -> None:
        super().__init__()
        self.facts: list[tuple[str, Any]] = []
        self._place = place

    def _log_guard(self, prefix: str, g: Any, forcing_spec: bool) -> None:
        self.facts.append((str(g), self._place()))
        super()._log_guard(prefix, g, forcing_spec)

    def pinned(self) -> dict[str, str]:
        """Symbols that have become numbers."""
        return {str(s): str(e) for s, e in self.replacements.items() if e.is_number}


def key_path_names(tree: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Leaves of nested tuples, lists, dicts and registered containers, each with its keys."""
    leaves, _ = pytree.tree_flatten_with_path(tree)
    return [(tuple(_key_text(k) for k in path), leaf) for path, leaf in leaves]


def _key_text(key: Any) -> Any:
    for attribute in ("idx", "key", "name"):
        if hasattr(key, attribute):
            return getattr(key, attribute)
    return str(key)


# ---- what a train step asks of modules, tensors and optimizers ----


def module_holders(module: torch.nn.Module) -> tuple[dict[str, Any], ...]:
    """Where a module has its own parameters, buffers and parts."""
    return module._parameters, module._buffers, module._modules


version: Callable[[torch.Tensor], int] = operator.attrgetter("_version")


def has_gradient_hooks(tensor: torch.Tensor) -> bool:
    return bool(tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None))


def has_step_hooks(optimizer: Any) -> bool:
    return bool(optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks)


def count_steps(counters: list[torch.Tensor]) -> None:
    """Adds 1 to each, in one call."""
    torch._foreach_add_(counters, 1)


def mark_stepped(optimizer: Any) -> None:
    """Schedulers warn where nothing has stepped before them."""
    optimizer._opt_called = True
