"""`torch.compile(model, backend="weft")`: a backend on AOTAutograd, which settles aliasing, mutation
and gradients and hands over graphs of aten operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from weft._weft import _touch, abi_id, version
from weft.torch.capture import private
from weft.torch.dynamo.lowering import Lowered, Options, lower
from weft.torch.dynamo.noting import Noted
from weft.torch.dynamo.running import noted

# How a joint graph is cut: bench/results/2026-11-28-torch-compile-cpu.md.
PARTITION = "min_cut"

# Of what pickles (`running.py`): entries of AOTAutograd's cache in another are not read.
_FORMAT = 3

observed = Noted[Lowered]()


def _compiler(kind: str, options: Options) -> Callable[..., Any]:
    def compile(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        steady = private.static_inputs() if kind == "inference" and options.steady else []
        with private.no_modes():
            made = lower(module, kind, steady, options)
        if kind == "inference":
            made.compiled.alone = private.needs_no_wrapper(len(example_inputs))
        noted.add(made.compiled)
        observed.add(made)
        return made.compiled

    return compile


def weft(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    cached: bool = True,
    **others: Any,
) -> Callable[..., Any]:
    """The backend. `options` of torch.compile: `partition` ("min_cut" or "default"), `steady`
    (whether weights are packed once, True), and those of `weft.compile`. Without `cached` nothing
    is taken from AOTAutograd's cache."""
    private.check_version()
    given = dict(options or {})
    partition = given.pop("partition", PARTITION)
    settings = Options(bool(given.pop("steady", True)), given)
    backend = private.aot_backend(
        fw_compiler=private.serializable(_compiler("forward", settings)),
        bw_compiler=private.serializable(_compiler("backward", settings)),
        inference_compiler=private.serializable(_compiler("inference", settings)),
        partition_fn=private.partitions()[partition],
        keep_inference_input_mutations=True,
    )
    kept = sorted({**dict(options or {}), "partition": partition}.items())
    with private.cached_as(f"weft {_FORMAT} {version} {abi_id} {kept}", cached), noted.inside() as parts:
        made: Callable[..., Any] = backend(module, example_inputs)
    direct = parts[0].direct() if len(parts) == 1 else None
    return made if direct is None else direct


private.on_optimizer_step(lambda *_: _touch())
