"""peer.py: one model through ONNX Runtime and through the command weft, and how far apart the results are."""
import os
import pathlib
import re
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

WEFT = os.environ.get("WEFT", "build/bin/weft")


def session(path, level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL, save=None):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    if save:
        options.optimized_model_filepath = str(save)
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def save(value, path):
    """A tensor, or a map: the name of the file, path with an extension."""
    if isinstance(value, np.ndarray) and value.dtype.kind not in "OU":
        np.save(path + ".npy", value)
        return path + ".npy"
    if isinstance(value, dict):
        texts = isinstance(next(iter(value)), str)
        proto = onnx.MapProto(key_type=onnx.TensorProto.STRING if texts else onnx.TensorProto.INT64,
                              values=numpy_helper.from_list([np.array(v, "f4") for v in value.values()]),
                              **{"string_keys": [k.encode() for k in value]} if texts else {"keys": list(value)})
    else:
        proto = onnx.TensorProto(data_type=onnx.TensorProto.STRING, dims=value.shape, string_data=[str(t).encode() for t in value.ravel()])
    pathlib.Path(path + ".pb").write_bytes(proto.SerializeToString())
    return path + ".pb"


def load(path):
    """A tensor, or what ONNX Runtime gives for a sequence of tensors or maps."""
    if path.suffix == ".npy":
        return np.load(path)
    tensor = onnx.TensorProto.FromString(path.read_bytes())
    if tensor.name:  # the field of a tensor's name is not that of a sequence's
        return numpy_helper.to_array(tensor)
    sequence = onnx.SequenceProto.FromString(path.read_bytes())
    if sequence.elem_type == onnx.SequenceProto.TENSOR:
        return [numpy_helper.to_array(t) for t in sequence.tensor_values]
    maps = sequence.map_values
    return [dict(zip(list(m.keys) or [k.decode() for k in m.string_keys], (numpy_helper.to_array(t).item() for t in m.values.tensor_values)))
            for m in maps]


def run_weft(path, feeds):
    """The outputs by name, or the text of the error."""
    with tempfile.TemporaryDirectory() as folder:
        args = [WEFT, "run", str(path), "--outputs-dir", folder + "/o"]
        for i, (name, value) in enumerate(feeds.items()):
            args += ["--input", f"{name}={save(value, f'{folder}/{i}')}"]
        done = subprocess.run(args, capture_output=True, text=True, timeout=600)
        if done.returncode:
            return done.stderr.strip() or f"exit code {done.returncode}"
        return {f.stem: load(f) for f in pathlib.Path(folder, "o").iterdir()}


def apart(want, got):
    """Floats: the largest error, by the largest magnitude. Integers: the largest difference. Strings: how many differ."""
    if isinstance(want, list) and want and isinstance(want[0], np.ndarray):
        errors = [apart(a, b) for a, b in zip(want, got)] + [abs(len(want) - len(got))]
        return next((e for e in errors if isinstance(e, str)), None) or max(errors)
    if isinstance(want, list):
        if [sorted(m) for m in want] != [sorted(m) for m in got]:
            return "maps of other keys"
        want, got = (np.array([[m[k] for k in sorted(m)] for m in maps], "f4") for maps in (want, got))
    if want.dtype.kind in "OU":
        if want.shape != got.shape:
            return f"{list(got.shape)} for {list(want.shape)} strings"
        return float(np.sum(want.astype(str) != got.astype(str))) or 0.0
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
        exact = not isinstance(value, list) and value.dtype.kind in "iu"
        if not error <= (steps if exact else tolerance):
            return f"{name}: error {error:.2g}"
    return None


def is_refused(case, path, text):
    """weft does not run the file of `case`, with a message that holds `text`; else prints what it says."""
    got = run_weft(path, case.feeds())
    refused = isinstance(got, str) and text in got
    if not refused:
        print(f"{case}: should be refused for '{text}': {got if isinstance(got, str) else 'taken'}", flush=True)
    return refused
