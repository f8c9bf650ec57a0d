"""Weft beside eager PyTorch: run.py PART [NAME ...]; tools/check_torch makes the environment.

Parts: operators, joint, transformers, classifiers, gradients, optimizers, programs, random,
random_joint, compiled, compiled_training, speed, compile_speed, testcases, train.
A line for each case, then how many were equal; the exit code says whether all were.
"""

from __future__ import annotations

import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

Measure = Callable[[], str | None]


def _within(error: float, tolerance: float) -> str | None:
    return None if error <= tolerance else f"differs: error {error:.2e}, tolerance {tolerance:.0e}"


def _operators(names: list[str]) -> Iterator[tuple[str, Measure]]:
    import operators
    from common import compare

    for name, function, args in operators.cases():
        if not names or name in names:
            yield (
                name,
                lambda f=function, a=args: _within(  # type: ignore[misc]
                    compare(f, [(a, {})], onnxruntime=False).weft, 1e-5
                ),
            )


def _joint(names: list[str]) -> Iterator[tuple[str, Measure]]:
    import joint

    def measure(error: Callable[[torch.dtype], float], tolerance: float) -> str | None:
        return _within(error(torch.float64), tolerance) or _within(error(torch.float32), 1e-4)

    for case in joint.cases():
        if not names or case[1] in names or case[0] in names:
            tolerance = max(joint.COARSE.get(case[0], 0.0), 1e-9)
            yield (
                case[1],
                lambda c=case, e=tolerance: measure(lambda d: joint.joint_error(c, d), e),  # type: ignore[misc]
            )
    for call in joint.calls():
        if not names or call[0] in names:
            yield call[0], lambda c=call: measure(lambda d: joint.call_error(c, d), 1e-9)  # type: ignore[misc]


def _both(difference: Any, tolerance: float) -> str | None:
    worst = max(difference.weft, difference.onnxruntime)
    return _within(worst, tolerance)


def _transformers(names: list[str]) -> Iterator[tuple[str, Measure]]:
    import transformers_set
    from common import compare

    def measure(name: str) -> str | None:
        model, inputs, shapes = transformers_set.bindings(name)
        return _both(compare(model, [((), kwargs) for kwargs in inputs], shapes), 1e-5)

    for name in names or transformers_set.ALL:
        yield name, lambda n=name: measure(n)  # type: ignore[misc]


def _classifiers(names: list[str]) -> Iterator[tuple[str, Measure]]:
    import classifiers
    from common import compare

    def measure(name: str) -> str | None:
        model, size = classifiers.make(name)
        batch = torch.export.Dim("batch")
        inputs: list[Any] = [((torch.randn(n, 3, size, size),), {}) for n in (2, 1)]
        return _both(compare(model, inputs, ({0: batch},)), 1e-5)

    for name in names or classifiers.names():
        yield name, lambda n=name: measure(n)  # type: ignore[misc]


def _gradients(names: list[str]) -> Iterator[tuple[str, Measure]]:
    import training

    for task in training.tasks():
        if not names or task[0] in names:
            tolerance = training.TOLERANCES.get(task[0], 1e-9)
            yield task[0], lambda t=task, e=tolerance: _within(training.gradient_error(t), e)  # type: ignore[misc]


def _optimizers(names: list[str]) -> Iterator[tuple[str, Measure]]:
    import training

    for name in names or training.OPTIMIZERS:
        yield name, lambda n=name: _within(training.optimizer_error(n), 1e-9)  # type: ignore[misc]
    for network in training.TRAINED:
        for name in ("SGD momentum", "AdamW") if not names else ():
            # AdamW divides a gradient by its own size, and with it the rounding of small ones.
            tolerance = 1e-7 if name == "AdamW" else 1e-9
            yield (
                f"{network}, {name}",
                lambda n=name, k=network, e=tolerance: _within(training.optimizer_error(n, k), e),  # type: ignore[misc]
            )


def _programs(names: list[str]) -> Iterator[tuple[str, Measure]]:
    import programs

    for kind in programs.MODULES:
        if not names or kind.__name__ in names:
            yield kind.__name__, lambda k=kind: _within(programs.program_error(k), 1e-5)  # type: ignore[misc]
    if not names or "decode" in names:
        yield "decode", lambda: _within(programs.decode_error(), 1e-5)
    if not names or "decode T5" in names:
        yield "decode T5", lambda: _within(programs.encoder_decode_error(), 1e-5)


def _random(names: list[str]) -> Iterator[tuple[str, Measure]]:
    import random_programs
    from common import compare

    shapes = {"x": {0: torch.export.Dim("batch")}}

    def measure(seed: int) -> str | None:
        torch.manual_seed(seed)
        inputs: list[Any] = [((torch.randn(n, 3, 4),), {}) for n in (2, 5)]
        return _within(compare(random_programs.program(seed), inputs, shapes, False).weft, 1e-5)

    for seed in map(int, names) if names else range(300):
        yield str(seed), lambda s=seed: measure(s)  # type: ignore[misc]


def _compiled(names: list[str]) -> Iterator[tuple[str, Measure]]:
    import classifiers
    import compiled
    import compiled_edges
    import transformers_set

    def transformer(name: str) -> str | None:
        model, kwargs = transformers_set.ALL[name]()
        return _within(compiled.inference_error(model, (), kwargs), 1e-5)

    def classifier(name: str) -> str | None:
        model, size = classifiers.make(name)
        args = (torch.randn(2, 3, size, size),)
        return _within(compiled.inference_error(model, args, {}), 1e-5)

    for function in (*compiled.BEHAVIOURS, *compiled_edges.BEHAVIOURS):
        if not names or function.__name__ in names:
            yield function.__name__, lambda f=function: _within(f(), 1e-5)  # type: ignore[misc]
    for name in names or transformers_set.ALL:
        if name in transformers_set.ALL:
            yield name, lambda n=name: transformer(n)  # type: ignore[misc]
    chosen = names or [n for n in classifiers.names() if n not in classifiers.GIANTS]
    for name in chosen:
        if name in classifiers.names():
            yield name, lambda n=name: classifier(n)  # type: ignore[misc]
    print(compiled.TOTAL)


def _compiled_training(names: list[str]) -> Iterator[tuple[str, Measure]]:
    import compiled

    for name, make in compiled.training_tasks():
        if not names or name in names:
            tolerance = compiled.TOLERANCES.get(name, 1e-6)
            yield (
                name,
                lambda m=make, e=tolerance: _within(compiled.training_error(*m()), e),  # type: ignore[misc]
            )
    print(compiled.TOTAL)


def _compile_speed(names: list[str]) -> Iterator[tuple[str, Measure]]:
    import compile_speed

    def call(name: str) -> str | None:
        times = compile_speed.measure(name)
        ratio = times["inductor"] / times["weft"]
        print({k: round(v, 1) for k, v in times.items()}, f"{ratio:.2f}x inductor", end=" ")
        asked = compile_speed.ASKED.get(name, 0.0)
        return None if ratio >= asked else f"slow: {ratio:.2f}x, {asked}x required"

    def first(name: str) -> str | None:
        times = compile_speed.first_calls(name)
        print({k: round(v, 2) for k, v in times.items()}, end=" ")
        late = times["weft"] - times["aot_eager"]
        return None if late <= 0.5 else f"slow: {late:.2f} s more than aot_eager"

    for name in names or compile_speed.CASES:
        yield name, lambda n=name: call(n)  # type: ignore[misc]
    for name in ("resnet18 b1", "lenet b64, step"):
        if not names:
            yield f"first call of {name}", lambda n=name: first(n)  # type: ignore[misc]


def _random_joint(names: list[str]) -> Iterator[tuple[str, Measure]]:
    import random_programs

    for seed in map(int, names) if names else range(300):
        yield str(seed), lambda s=seed: _within(random_programs.joint_error(s), 1e-9)  # type: ignore[misc]


def _speed(names: list[str]) -> Iterator[tuple[str, Measure]]:
    import speed

    def ratio(dynamic: bool, least: float) -> str | None:
        mine, other = speed.weft_seconds(48, 16, dynamic), speed.torch_seconds(48, 16, dynamic)
        print(f"weft {mine:.2f} CPU s, torch.onnx {other:.2f}: {other / mine:.1f}x", end=" ")
        return None if other / mine >= least else f"slow: {other / mine:.1f}x, {least}x required"

    def tokens() -> str | None:
        few, many = speed.weft_seconds(48, 16, False, 5), speed.weft_seconds(48, 2048, False, 5)
        print(f"2048 tokens {many / few:.2f}x", end=" ")
        return None if many <= 1.1 * few else "depends on the tokens"

    def layers(dynamic: bool) -> str | None:
        slope, seconds = speed.layers_exponent(dynamic)
        print(f"exponent {slope:.2f} of {' '.join(f'{s:.2f}' for s in seconds)} s", end=" ")
        return None if slope <= 1.1 else "grows faster than the layers"

    def kernels(dynamic: bool) -> str | None:
        found = speed.kernels(12, dynamic)
        print(f"{sum(found.values())} kernels of torch", end=" ")
        return f"ran {dict(found)}" if found else None

    def memory() -> str | None:
        share = speed.memory_share(48)
        print(f"{share:.3f}x the parameters", end=" ")
        return None if share <= 0.1 else "takes more than a tenth of the parameters"

    cases: dict[str, Measure] = {
        "48 blocks, static": lambda: ratio(False, 10),
        "48 blocks, dynamic": lambda: ratio(True, 15),
        "48 blocks, tokens": tokens,
        "6 to 96 blocks, static": lambda: layers(False),
        "6 to 96 blocks, dynamic": lambda: layers(True),
        "kernels, literal": lambda: None if speed.counting_works() else "are not counted",
        "kernels, static": lambda: kernels(False),
        "kernels, dynamic": lambda: kernels(True),
        "memory": memory,
    }
    for name in names or cases:
        yield name, cases[name]


def _testcases(names: list[str]) -> Iterator[tuple[str, Measure]]:
    import test_cases

    for name in names or test_cases.CASES:
        tolerance = 1e-9 if "double" in name else 1e-4
        yield name, lambda n=name, e=tolerance: _within(test_cases.error(n), e)  # type: ignore[misc]


def _train(names: list[str]) -> Iterator[tuple[str, Measure]]:
    import train_steps as checks
    from lenet import LeNet

    cases: dict[str, Callable[[], float]] = {}
    for name in checks.OPTIMIZERS:
        cases[f"LeNet, {name}"] = lambda n=name: checks.steps_error(n, LeNet)  # type: ignore[misc]
        cases[f"residual, {name}"] = lambda n=name: checks.steps_error(n, checks.Residual)  # type: ignore[misc]
    for name in ("SGD dampening", "Adam", "Adam fused"):
        cases[f"alternating, {name}"] = lambda n=name: checks.alternating_error(n)  # type: ignore[misc]
        cases[f"reload, {name}"] = lambda n=name: checks.reload_error(n)  # type: ignore[misc]
    for name in ("SGD momentum", "Adam", "AdamW"):
        cases[f"schedule, {name}"] = lambda n=name: checks.schedule_error(n)  # type: ignore[misc]
    cases |= {
        "modes": checks.modes_error,
        "dynamic": checks.dynamic_error,
        "replaced": checks.replaced_error,
        "groups": checks.groups_error,
        "loss module": checks.loss_module_error,
        "closure": checks.closure_error,
        "random": checks.random_error,
    }
    for name, measure in cases.items():
        if not names or name in names:
            yield name, lambda m=measure: _within(m(), 1e-9)  # type: ignore[misc]
    for name, call, part in checks.refusals():
        if not names or name in names:
            yield name, lambda c=call, p=part: checks.refusal_problem(c, p)  # type: ignore[misc]


PARTS = {
    "operators": _operators,
    "joint": _joint,
    "transformers": _transformers,
    "classifiers": _classifiers,
    "gradients": _gradients,
    "optimizers": _optimizers,
    "programs": _programs,
    "random": _random,
    "compiled": _compiled,
    "compiled_training": _compiled_training,
    "random_joint": _random_joint,
    "compile_speed": _compile_speed,
    "speed": _speed,
    "testcases": _testcases,
    "train": _train,
}


def main() -> int:
    part, *names = sys.argv[1:] or [""]
    if part not in PARTS:
        print(__doc__)
        return 2
    warnings.simplefilter("ignore")
    passed = total = 0
    for name, measure in PARTS[part](names):
        total += 1
        began = time.perf_counter()
        try:
            problem = measure()
        except Exception as error:  # a case that fails is one of many
            text = str(error).strip().splitlines() or [""]
            problem = f"{type(error).__name__}: {text[0]}"
            if names:
                traceback.print_exc()
        passed += problem is None
        print(
            f"{part} {name}: {problem or 'equal'} ({time.perf_counter() - began:.1f} s)", flush=True
        )
    print(f"{part}: {passed} of {total}")
    return 0 if passed == total and total else 1


if __name__ == "__main__":
    sys.exit(main())
