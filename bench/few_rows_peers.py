#!/usr/bin/env python3
"""few_rows_peers.py: one to a few rows times constant matrices on one CPU, Weft beside ONNX Runtime.

    WEFT=build/bin/weft python3 bench/few_rows_peers.py [--threads 2] [--rows 1,2,4,8] [--seconds 0.5] [--bits 4] [CASE ...]

Needs the Python packages numpy, onnx and onnxruntime; nothing in the build depends on it. A case is DEPTHxCOLUMNS, with T
behind it for a matrix that lies transposed (Gemm with transB). Its model has as many products, each with an input and a
matrix of its own, as fill 128 MB, so that no cache holds them, as in a language model. Both engines run in turns, twice;
times are the least of all runs, which a busy machine disturbs least. GB/s count the matrices. WEFT may name several
programs, separated by commas: what is before a change, and what is after it. With --bits 4 or 8 the products are
MatMulNBits of blocks of 32 (--level: its accuracy_level, 4 lets ONNX Runtime round the rows to 8 bits). How fast memory is read:
build/bin/bench_few_rows.
"""
import argparse, json, os, subprocess, sys, tempfile, time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

CASES = ["768x768", "768x3072", "3072x768", "768x50257", "768x50257T", "896x4864", "4864x896", "2048x2048", "4096x4096",
         "4096x11008"]
FILL = 128e6


def model(case, bits, level):
    """Bytes of the matrices, and the model, for any number of rows m."""
    transposed = case.endswith("T")
    k, n = map(int, case.rstrip("T").split("x"))
    blocks = -(-k // 32)
    size = 4 * k * n if bits == 32 else n * blocks * (32 * bits // 8 + 4)
    count = max(1, int(FILL / size))
    random = np.random.default_rng(k * n)
    nodes, weights, inputs, outputs = [], [], [], []
    for i in range(count):
        inputs.append(helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, ["m", k]))
        outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, ["m", n]))
        if bits < 32:
            codes = random.integers(0, 256, (n, blocks, 32 * bits // 8), dtype="u1")
            scales = random.standard_normal(n * blocks, dtype="f4")
            weights += [numpy_helper.from_array(codes, f"w{i}"), numpy_helper.from_array(scales, f"s{i}")]
            attrs = dict(K=k, N=n, bits=bits, block_size=32, accuracy_level=level)
            nodes.append(helper.make_node("MatMulNBits", [f"x{i}", f"w{i}", f"s{i}"], [f"y{i}"], domain="com.microsoft", **attrs))
            continue
        w = random.standard_normal((n, k) if transposed else (k, n), dtype="f4")
        weights.append(numpy_helper.from_array(w, f"w{i}"))
        attrs = dict(transB=1) if transposed else {}
        nodes.append(helper.make_node("Gemm" if transposed else "MatMul", [f"x{i}", f"w{i}"], [f"y{i}"], **attrs))
    graph = helper.make_graph(nodes, "few_rows", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 21 if bits < 32 else 18), helper.make_opsetid("com.microsoft", 1)]
    return size * count, helper.make_model(graph, opset_imports=opsets, ir_version=10)


def time_peer(session, rows, seconds):
    feeds = {x.name: np.ones((rows, x.shape[1]), "f4") for x in session.get_inputs()}
    session.run(None, feeds)
    best, end = 1e9, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        session.run(None, feeds)
        best = min(best, time.perf_counter() - start)
    return best


def time_weft(program, path, rows, threads, seconds):
    command = [program, "bench", path, "--bind", f"m={rows}", "--threads", str(threads), "--duration", str(seconds), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["min_ms"] / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", default="1,2,4,8")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--bits", type=int, default=32, choices=(4, 8, 32))
    parser.add_argument("--level", type=int, default=0)
    parser.add_argument("cases", nargs="*", default=CASES)
    options = parser.parse_args()
    programs = os.environ.get("WEFT", "build/bin/weft").split(",")
    names = ["ONNX Runtime"] + programs
    print(f"{options.threads} threads; GB/s of ONNX Runtime, and of {', '.join(programs)} (times ONNX Runtime's)")
    for case in options.cases or CASES:
        size, made = model(case, options.bits, options.level)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.onnx")
            onnx.save(made, path)
            del made
            settings = onnxruntime.SessionOptions()
            settings.intra_op_num_threads, settings.log_severity_level = options.threads, 4
            session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
            for rows in map(int, options.rows.split(",")):
                best = [1e9] * len(names)
                for _ in range(2):
                    best[0] = min(best[0], time_peer(session, rows, options.seconds))
                    for i, program in enumerate(programs):
                        best[1 + i] = min(best[1 + i], time_weft(program, path, rows, options.threads, options.seconds))
                line = "".join(f"  {size / t / 1e9:6.1f} ({best[0] / t:.2f})" for t in best[1:])
                print(f"{case:12} {rows} rows  {size / best[0] / 1e9:6.1f}{line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
