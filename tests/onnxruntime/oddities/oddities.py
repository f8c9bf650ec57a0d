#!/usr/bin/env python3
"""oddities.py [PART_OF_A_NAME ..]: files with one oddity each (cases.py, node_cases.py, external_cases.py), through `weft run` and ONNX Runtime.

Each is taken: its results are those that ONNX Runtime has of it, or, where that refuses the file, of the same model without
the oddity. What is no valid ONNX has one warning of each kind that the case expects, and --strict refuses it; what is has
none, and --strict takes it. Every twin is refused, by an error that is not Weft's fault.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort

import cases  # noqa: F401
import external_cases  # noqa: F401
import node_cases  # noqa: F401
import peer
from parts import CASES

USER_ERRORS = (3, 4, 5)  # unsupported, invalid, a limit


def written(model, folder):
    folder.mkdir(parents=True)
    if callable(model):
        return pathlib.Path(model(str(folder)))
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def names_of(path):
    """Names of the outputs, which Weft's files are called by."""
    return [o.name for o in onnx.load(path, load_external_data=False).graph.output]


def by_onnxruntime(path, inputs):
    """The results, or None where ONNX Runtime refuses the file."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, inputs)
    except Exception:  # its errors have no base of their own
        return None


class Weft:
    def __init__(self, command, folder, inputs):
        self.command, self.folder, self.given = command, folder, []
        for name, value in inputs.items():
            np.save(folder / f"{name}.npy", value)
            self.given += ["--input", f"{name}={folder / name}.npy"]

    def run(self, path, *options):
        """Exit status, what it said, and the results by file."""
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        done = subprocess.run([self.command, "run", str(path), "--outputs-dir", str(out), *self.given, *options],
                              capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr.strip(), {f.stem: np.load(f) for f in out.iterdir()}


def problems(name, case, command, folder):
    """What is wrong with a case, in words."""
    weft = Weft(command, folder, case.inputs)
    good = by_onnxruntime(written(case.good, folder / "good"), case.inputs)
    path = written(case.odd, folder / "odd")
    want = by_onnxruntime(path, case.inputs)
    taken_by_peer = want is not None
    if want is None:
        want = good
    code, said, got = weft.run(path)
    if code:
        yield f"refused: {said}"
        return
    for output, expected in zip(names_of(path), want):
        value = got.get(re.sub("[/:]", "_", output))
        if value is None or value.shape != expected.shape or value.dtype != expected.dtype:
            yield f"output {output} is {None if value is None else (value.dtype, value.shape)}"
        elif not np.allclose(value, expected, 1e-5, 1e-6):
            yield f"output {output} differs by {np.abs(value - expected).max()}"
    warnings = re.findall(r"^warning\[([\w-]+)\] .*\(hint: .+\)$", said, re.M)
    if warnings != case.warns.split():
        yield f"warnings {warnings}, expected {case.warns or 'none'}: {said}"
    strict, said, _ = weft.run(path, "--strict")
    if (strict in USER_ERRORS) != bool(case.warns):
        yield f"--strict ends with {strict}: {said}"
    print(f"{name}: {case.warns or 'valid'}, ONNX Runtime {'takes' if taken_by_peer else 'refuses'} it", end="")
    for number, (twin, model) in enumerate(case.twins.items()):
        code, said, _ = weft.run(written(model, folder / f"twin{number}"))
        if code not in USER_ERRORS:
            yield f"twin '{twin}' ends with {code}: {said}"
    print(f", {len(case.twins)} twins refused" if case.twins else "")


def main():
    command, parts = peer.WEFT, sys.argv[1:]
    failed = twins = 0
    chosen = {n: f for n, f in CASES.items() if not parts or any(p in n for p in parts)}
    for name, make in chosen.items():
        case = make()
        twins += len(case.twins)
        with tempfile.TemporaryDirectory() as folder:
            wrong = list(problems(name, case, command, pathlib.Path(folder)))
        for text in wrong:
            print(f"FAILED {name}: {text}")
        failed += bool(wrong)
    print(f"{len(chosen)} files and {twins} twins, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
