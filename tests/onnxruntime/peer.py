"""peer.py: one model through ONNX Runtime and through the command weft, and how far apart the results are."""
import os
import pathlib
import re
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime as ort

WEFT = os.environ.get("WEFT", "build/bin/weft")


def session(path, level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL, save=None):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    if save:
        options.optimized_model_filepath = str(save)
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run_weft(path, feeds):
    """The outputs by name, or the text of the error."""
    with tempfile.TemporaryDirectory() as folder:
        args = [WEFT, "run", str(path), "--outputs-dir", folder + "/o"]
        for i, (name, value) in enumerate(feeds.items()):
            np.save(f"{folder}/{i}.npy", value)
            args += ["--input", f"{name}={folder}/{i}.npy"]
        done = subprocess.run(args, capture_output=True, text=True, timeout=600)
        if done.returncode:
            return done.stderr.strip() or f"exit code {done.returncode}"
        return {f.stem: np.load(f) for f in pathlib.Path(folder, "o").glob("*.npy")}


def apart(want, got):
    """Floats: the largest error, by the largest magnitude. Integers: the largest difference."""
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    if want.size == 0:
        return 0.0
    if want.dtype == bool:
        return float(np.sum(want != got))
    a, b = want.astype("f8"), got.astype("f8")
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return "NaN or infinity in other places"
    a, b = a[np.isfinite(a)], b[np.isfinite(b)]
    worst = float(np.max(np.abs(a - b), initial=0.0))
    return worst if want.dtype.kind in "iu" else worst / max(float(np.max(np.abs(a), initial=0.0)), 1e-3)


def differs(path, feeds, tolerance, want=None, steps=0, compared=None):
    """None where all outputs (or those `compared`) agree, else what is wrong. `steps`: that integers may differ by."""
    if want is None:
        s = session(path)
        want = dict(zip([o.name for o in s.get_outputs()], s.run(None, feeds)))
    got = run_weft(path, feeds)
    if isinstance(got, str):
        return got
    for name, value in want.items():
        if compared and name not in compared:
            continue
        file = re.sub("[/:]", "_", name)
        if file not in got:
            return f"no output {name}"
        error = apart(value, got[file])
        if isinstance(error, str):
            return f"{name}: {error}"
        if not error <= (steps if value.dtype.kind in "iu" else tolerance):
            return f"{name}: error {error:.2g}"
    return None
