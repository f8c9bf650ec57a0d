#!/usr/bin/env python3
"""make_table.py: which elements ONNX Runtime makes NaN in every pair of cases.txt, into table.txt.

Needs onnx, onnxruntime and numpy: make_table.py PATH_OF_WEFT. Models are exported by the `weft` command, every other
number comes from ONNX Runtime without optimisations. A row: family, producer, follower, how many elements are NaN, and the
hash of where (FNV-1a over one byte an element, 1 for NaN), or "refused" where ONNX Runtime has no such operator.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime as ort

HERE = pathlib.Path(__file__).parent


def read_cases():
    families, family = [], None
    for line in (HERE / "cases.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        kind, rest = line.split(" ", 1)
        if kind == "family":
            name, extents = rest.split()
            family = (name, [int(e) for e in extents.split(",")], [], [])
            families.append(family)
        else:
            name, nodes = rest.split(" | ")
            family[2 if kind == "produce" else 3].append((name, nodes))
    return families


def text_of(extents, nodes):
    header = [f"%x: f32{extents}"]

    def parameter(match):
        name = f"%w{len(header)}"
        kind, body = match.group(1), match.group(2)
        numbers = [p for p in body.split(",")]
        if kind == "f":
            count = int(np.prod([int(n) for n in numbers]))
            values = [f"{0.0625 * (1 + i % 7)}" for i in range(count)]
            header.append(f"{name}: f32[{body}] param = [{', '.join(values)}]")
        elif kind == "s":
            header.append(f"{name}: f32[] param = [{body}]")
        else:
            header.append(f"{name}: i64[{len(numbers)}] param = [{body}]")
        return name

    lines = [re.sub(r"@([fsi])[\[(]([^\])]*)[\])]", parameter, n.strip()) for n in nodes.split(";")]
    return "weft 1\ngraph (" + ", ".join(header) + ") -> (%z) {\n  " + "\n  ".join(lines) + "\n}\n"


def source(extents):
    count = int(np.prod(extents))
    x = np.array([(i * 7919 % 23 - 11) / 8 for i in range(count)], np.float32)
    x[count * 5 // 8] = np.nan
    return x.reshape(extents)


def fnv(mask):
    h = 0xCBF29CE484222325
    for b in mask.ravel():
        h = ((h ^ int(b)) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def main():
    weft, rows = sys.argv[1], []
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        text, model = folder + "/case.weft", folder + "/case.onnx"
        for name, extents, producers, followers in read_cases():
            for producer, first in producers:
                for follower, second in followers:
                    rename = second.replace("%a", "%d").replace("%b", "%e")
                    pathlib.Path(text).write_text(text_of(extents, first + "; " + rename))
                    subprocess.run([weft, "opt", text, "--passes", "InferType,InferShape", "-o", model], check=True)
                    try:
                        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
                        mask = np.isnan(session.run(None, {"x": source(extents)})[0])
                        rows.append(f"{name} {producer} {follower} {int(mask.sum())} {fnv(mask):016x}")
                    except Exception as e:
                        print(producer, follower, str(e)[:200], file=sys.stderr)
                        rows.append(f"{name} {producer} {follower} refused")
    (HERE / "table.txt").write_text("\n".join(rows) + "\n")


main()
