#!/usr/bin/env python3
"""ops_peers.py: single operators on one CPU, Weft beside ONNX Runtime, OpenVINO (f32) and PyTorch.

    WEFT=build/bin/weft python3 bench/ops_peers.py [--threads 2] [--rounds 3] [--markdown FILE] [WORD ...]

Needs the Python packages numpy, onnx and onnxruntime; openvino and torch where they are installed. Nothing in the
build depends on it. WORDs pick the cases whose group or name holds one of them; --list names them.

Each case is a model of one node (a Transpose or two before it where the name says so) whose weights are constants,
unless the name says "B fed". Every engine is timed in every round, in turns, in a steady loop inside its process with
its outputs held; the table has the least time of all rounds, which a busy machine disturbs least (--median: the least
of the medians of the rounds). "best/Weft" above 1: Weft is
the fastest. "of floor": what the bytes and the operations of the case cost this machine at best (as `weft bench
--profile` has it) by what Weft took. Below some 20 us a case measures what a call costs, not what the operator does.
"""
import argparse, json, os, subprocess, sys, tempfile, time

# Freed pages are kept, so that no engine pays page faults for its results; one team of threads for each engine.
KEEP = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "4294967296"}
if __name__ == "__main__" and "MALLOC_MMAP_THRESHOLD_" not in os.environ:
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP})

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

try:
    import openvino
except ImportError:
    openvino = None
try:
    import torch
except ImportError:
    torch = None

SECONDS = 0.25  # of each loop
SETTLE = 0.1  # until the threads of the engine before have stopped spinning
CASES = []  # (group, name, maker); a maker gives (nodes, feeds, constants, torch function or None)


def tensor(*dims):
    return np.random.default_rng(sum(dims)).standard_normal(dims, dtype="f4")


def spatial(value, rank):
    return [value] * rank if isinstance(value, int) else list(value)


def conv(group, x, w, s=1, p=0, d=1, g=1, transposed=False, out_pad=0):
    """x: [n, c, ...]; w: [m, c / g, ...], for the transpose [c, m / g, ...]."""
    rank = len(x) - 2
    s, d, p, o = (spatial(v, rank) for v in (s, d, p, out_pad))
    maps = w[1] * g if transposed else w[0]
    name = f"{'x'.join(map(str, x))} to {maps}, {'x'.join(map(str, w[2:]))}"
    name += "".join(f" {k}{v[0]}" for k, v, usual in (("s", s, 1), ("d", d, 1)) if v[0] != usual)
    name += f" g{g}" if g > 1 else ""

    def make():
        attrs = dict(strides=s, dilations=d, pads=p + p, group=g)
        if any(o):
            attrs["output_padding"] = o
        node = helper.make_node("ConvTranspose" if transposed else "Conv", ["x", "w", "b"], ["y"], **attrs)
        weights, bias = tensor(*w) * np.float32(1 / np.sqrt(np.prod(w[1:]))), tensor(maps)

        def run_torch():
            f = getattr(torch.nn.functional, f"conv{'_transpose' if transposed else ''}{rank}d")
            ws, b = torch.from_numpy(weights), torch.from_numpy(bias)
            if transposed:
                return lambda t: f(t, ws, b, s, p, o, g, d)
            return lambda t: f(t, ws, b, s, p, d, g)
        return [node], {"x": tensor(*x)}, {"w": weights, "b": bias}, run_torch
    CASES.append((group, name, make))


def gemm(group, m, k, n, ta=0, tb=0, fed=False, c=(), alpha=1.0):
    name = f"{m}x{k}x{n}{' A^T' if ta else ''}{' B^T' if tb else ''}{', B fed' if fed else ''}"
    name += {0: "", 1: ", row C", 2: ", matrix C"}[len(c)] + (", alpha" if alpha != 1 else "")

    def make():
        a, b = tensor(*((k, m) if ta else (m, k))), tensor(*((n, k) if tb else (k, n)))
        node = helper.make_node("Gemm", ["a", "b"] + (["c"] if c else []), ["y"], transA=ta, transB=tb, alpha=alpha)
        feeds, constants = {"a": a}, {}
        (feeds if fed else constants)["b"] = b
        if c:
            constants["c"] = tensor(*c)

        def run_torch():
            fixed = None if fed else torch.from_numpy(b)
            add = torch.from_numpy(constants["c"]) if c else None

            def f(at, bt=fixed):
                at, bt = at.T if ta else at, bt.T if tb else bt
                return torch.addmm(add, at, bt, alpha=alpha) if c else torch.mm(at, bt)
            return f
        return [node], feeds, constants, run_torch
    CASES.append((group, name, make))


def matmul(group, a, b, fixed="", ta=(), tb=()):
    """fixed: "a" or "b" is a constant; ta, tb: the operand goes through a Transpose with this order of axes."""
    name = f"{'x'.join(map(str, a))} by {'x'.join(map(str, b))}" + (f", {fixed.upper()} constant" if fixed else "")
    name += "".join(f", {o} transposed {''.join(map(str, t))}" for o, t in (("A", ta), ("B", tb)) if t)

    def make():
        values = {"a": tensor(*a), "b": tensor(*b)}
        nodes, names = [], []
        for o, t in (("a", ta), ("b", tb)):
            if t:
                nodes.append(helper.make_node("Transpose", [o], [o + "t"], perm=t))
            names.append(o + "t" if t else o)
        nodes.append(helper.make_node("MatMul", names, ["y"]))
        feeds = {o: v for o, v in values.items() if o != fixed}

        def run_torch():
            def f(*given):
                now = dict(zip(feeds, given))
                if fixed:
                    now[fixed] = held
                at = now["a"].permute(ta) if ta else now["a"]
                return at @ (now["b"].permute(tb) if tb else now["b"])
            held = torch.from_numpy(values[fixed]) if fixed else None
            return f
        return nodes, feeds, {o: v for o, v in values.items() if o == fixed}, run_torch
    CASES.append((group, name, make))


def declare():
    g = "grouped"
    conv(g, [1, 64, 56, 56], [64, 32, 3, 3], p=1, g=2)
    conv(g, [1, 128, 28, 28], [128, 32, 3, 3], p=1, g=4)
    conv(g, [1, 128, 56, 56], [128, 4, 3, 3], p=1, g=32)
    conv(g, [1, 256, 56, 56], [256, 8, 3, 3], s=2, p=1, g=32)
    conv(g, [8, 256, 14, 14], [256, 8, 3, 3], p=1, g=32)
    conv(g, [1, 512, 28, 28], [512, 16, 3, 3], p=1, g=32)
    conv(g, [1, 48, 40, 40], [96, 16, 3, 3], p=1, g=3)
    conv(g, [1, 30, 40, 40], [30, 10, 3, 3], p=1, g=3)
    conv(g, [1, 240, 28, 28], [240, 80, 1, 1], g=3)
    conv(g, [1, 256, 28, 28], [256, 64, 1, 1], g=4)
    conv(g, [1, 32, 56, 56], [64, 1, 3, 3], p=1, g=32)
    conv(g, [1, 3, 224, 224], [12, 1, 5, 5], p=2, g=3)
    g = "dilated"
    conv(g, [1, 64, 56, 56], [64, 64, 3, 3], p=2, d=2)
    conv(g, [1, 256, 28, 28], [256, 256, 3, 3], p=4, d=4)
    conv(g, [1, 256, 33, 33], [256, 256, 3, 3], p=12, d=12)
    conv(g, [1, 96, 56, 56], [96, 1, 3, 3], p=2, d=2, g=96)
    conv(g, [1, 64, 56, 56], [64, 16, 3, 3], p=2, d=2, g=4)
    g = "1x1"
    conv(g, [1, 256, 56, 56], [64, 256, 1, 1])
    conv(g, [1, 512, 7, 7], [2048, 512, 1, 1])
    conv(g, [8, 64, 56, 56], [256, 64, 1, 1])
    conv(g, [1, 256, 56, 56], [512, 256, 1, 1], s=2)
    conv(g, [1, 24, 56, 56], [144, 24, 1, 1])
    conv(g, [1, 960, 1, 1], [240, 960, 1, 1])
    g = "few channels"
    conv(g, [1, 1, 224, 224], [8, 1, 3, 3], p=1)
    conv(g, [1, 3, 224, 224], [32, 3, 3, 3], s=2, p=1)
    conv(g, [1, 3, 512, 512], [3, 3, 3, 3], p=1)
    conv(g, [1, 1, 256, 256], [1, 1, 5, 5], p=2)
    conv(g, [1, 8, 128, 128], [8, 8, 3, 3], p=1)
    conv(g, [1, 64, 112, 112], [3, 64, 3, 3], p=1)
    conv(g, [1, 32, 128, 128], [1, 32, 1, 1])
    conv(g, [1, 3, 224, 224], [64, 3, 1, 1])
    conv(g, [8, 1, 28, 28], [20, 1, 5, 5])
    g = "large windows"
    conv(g, [1, 3, 224, 224], [64, 3, 7, 7], s=2, p=3)
    conv(g, [1, 64, 56, 56], [64, 64, 7, 7], p=3)
    conv(g, [1, 3, 224, 224], [64, 3, 11, 11], s=4, p=2)
    conv(g, [1, 16, 64, 64], [16, 16, 11, 11], p=5)
    conv(g, [1, 64, 27, 27], [192, 64, 5, 5], p=2)
    conv(g, [1, 64, 112, 112], [3, 64, 9, 9], p=4)
    conv(g, [1, 3, 224, 224], [768, 3, 16, 16], s=16)
    g = "1-D"
    conv(g, [1, 64, 1024], [64, 64, 3], p=1)
    conv(g, [1, 80, 3000], [512, 80, 3], p=1)
    conv(g, [8, 128, 512], [128, 128, 5], p=8, d=4)
    conv(g, [1, 1, 16000], [64, 1, 400], s=160)
    conv(g, [1, 512, 3200], [512, 512, 3], s=2)
    conv(g, [1, 256, 1000], [256, 1, 31], p=15, g=256)
    conv(g, [1, 768, 499], [768, 48, 128], p=64, g=16)
    conv(g, [8, 16, 4096], [16, 16, 9], p=4)
    g = "3-D"
    conv(g, [1, 3, 16, 112, 112], [64, 3, 3, 3, 3], p=1)
    conv(g, [1, 64, 8, 28, 28], [64, 64, 3, 3, 3], p=1)
    conv(g, [1, 16, 32, 32, 32], [16, 16, 3, 3, 3], p=1)
    conv(g, [1, 32, 16, 32, 32], [32, 1, 3, 3, 3], p=1, g=32)
    conv(g, [1, 64, 8, 28, 28], [128, 64, 1, 1, 1])
    g = "depthwise"
    conv(g, [1, 144, 56, 56], [144, 1, 3, 3], p=1, g=144)
    conv(g, [1, 144, 56, 56], [144, 1, 3, 3], s=2, p=1, g=144)
    conv(g, [1, 240, 28, 28], [240, 1, 5, 5], p=2, g=240)
    conv(g, [1, 240, 28, 28], [240, 1, 5, 5], s=2, p=2, g=240)
    conv(g, [1, 96, 56, 56], [96, 1, 7, 7], p=3, g=96)
    conv(g, [8, 96, 56, 56], [96, 1, 3, 3], p=1, g=96)
    conv(g, [8, 96, 56, 56], [96, 1, 3, 3], s=2, p=1, g=96)
    conv(g, [8, 240, 14, 14], [240, 1, 5, 5], p=2, g=240)
    conv(g, [1, 20, 112, 112], [20, 1, 3, 3], p=1, g=20)
    g = "ConvTranspose"
    t = dict(transposed=True)
    conv(g, [1, 64, 80, 80], [64, 32, 2, 2], s=2, **t)
    conv(g, [8, 128, 28, 28], [128, 64, 2, 2], s=2, **t)
    conv(g, [1, 128, 32, 32], [128, 64, 4, 4], s=2, p=1, **t)
    conv(g, [8, 512, 4, 4], [512, 256, 4, 4], s=2, p=1, **t)
    conv(g, [1, 64, 32, 32], [64, 3, 4, 4], s=2, p=1, **t)
    conv(g, [1, 64, 56, 56], [64, 64, 3, 3], p=1, **t)
    conv(g, [1, 64, 56, 56], [64, 32, 3, 3], s=2, p=1, out_pad=1, **t)
    conv(g, [1, 21, 64, 64], [21, 1, 4, 4], s=2, p=1, g=21, **t)
    conv(g, [1, 64, 32, 32], [64, 32, 4, 4], s=2, p=1, g=2, **t)
    conv(g, [1, 64, 80, 80], [64, 16, 2, 2], s=2, g=4, **t)
    conv(g, [1, 56, 32, 32], [56, 1, 9, 9], s=3, p=4, out_pad=2, **t)
    conv(g, [1, 256, 200], [256, 128, 16], s=8, p=4, **t)
    conv(g, [1, 128, 1600], [128, 64, 4], s=2, p=1, **t)
    conv(g, [1, 32, 16, 16, 16], [32, 16, 2, 2, 2], s=2, **t)
    conv(g, [1, 32, 8, 16, 16], [32, 16, 3, 3, 3], s=2, p=1, out_pad=1, **t)
    g = "Gemm"
    for fed in (False, True):
        for ta in (0, 1):
            for tb in (0, 1):
                gemm(g, 512, 512, 512, ta, tb, fed)
    gemm(g, 512, 768, 3072, 0, 1, c=(3072,))
    gemm(g, 256, 256, 256, c=(256, 256), alpha=0.5)
    for m in (1, 4, 16):
        gemm(g, m, 1024, 1024, 0, 1, c=(1024,))
    gemm(g, 1, 2048, 1000, 0, 1, c=(1000,))
    gemm(g, 8, 4096, 1024)
    gemm(g, 1, 1024, 1024, 0, 0, True)
    gemm(g, 1, 1024, 1024, 0, 1, True)
    gemm(g, 16, 1024, 1024, 0, 1, True)
    gemm(g, 16, 1024, 1024, 1, 0, True)
    gemm(g, 4096, 1024, 1)
    gemm(g, 4096, 64, 8)
    gemm(g, 1000, 13, 7)
    g = "MatMul"
    matmul(g, [8, 256, 64], [8, 64, 256])
    matmul(g, [96, 256, 64], [96, 64, 256])
    matmul(g, [8, 256, 256], [8, 256, 64])
    matmul(g, [96, 256, 256], [96, 256, 64])
    matmul(g, [1, 8, 256, 64], [1, 8, 256, 64], tb=(0, 1, 3, 2))
    matmul(g, [1, 256, 8, 64], [1, 256, 8, 64], ta=(0, 2, 1, 3), tb=(0, 2, 3, 1))
    matmul(g, [8, 256, 64], [8, 64, 256], ta=(0, 2, 1), tb=(0, 2, 1))  # extents of a mirror image
    matmul(g, [8, 128, 512], [512, 512], fixed="b")
    matmul(g, [8, 128, 512], [512, 512])
    matmul(g, [8, 4, 128, 64], [4, 64, 128])
    matmul(g, [4, 1, 128, 64], [1, 4, 64, 128])
    matmul(g, [128, 128], [8, 128, 256])
    matmul(g, [128, 128], [8, 128, 256], fixed="a")
    matmul(g, [8, 1, 64], [8, 64, 512])
    matmul(g, [1, 12, 1, 64], [1, 12, 512, 64], tb=(0, 1, 3, 2))
    matmul(g, [1024], [1024, 1024])
    matmul(g, [1024, 1024], [1024])
    matmul(g, [1024], [1024, 1024], fixed="b")
    matmul(g, [1000, 4, 4], [1000, 4, 4])
    matmul(g, [64, 16, 16], [64, 16, 16])
    matmul(g, [1, 512, 512], [64, 512, 16])


def loop_ms(f):
    """Least and median."""
    for _ in range(3):
        f()
    times, start = [], time.perf_counter()
    while len(times) < 5 or (time.perf_counter() - start < SECONDS and len(times) < 20000):
        before = time.perf_counter()
        f()
        times.append(time.perf_counter() - before)
    return min(times) * 1e3, sorted(times)[len(times) // 2] * 1e3


def save(path, nodes, feeds, constants):
    graph = helper.make_graph(
        nodes, "case", [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in feeds.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, n) for n, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)


def engines(path, feeds, run_torch, threads):
    """Names with functions that run once."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    # Held outputs: as the other engines have them.
    held = onnxruntime.OrtValue.ortvalue_from_numpy(session.run(None, feeds)[0])
    binding.bind_ortvalue_output("y", held)
    found = {"ONNX Runtime": lambda: session.run_with_iobinding(binding)}
    if openvino:
        wishes = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
        request = openvino.Core().compile_model(path, "CPU", wishes).create_infer_request()
        for i, value in enumerate(feeds.values()):
            request.set_input_tensor(i, openvino.Tensor(value, shared_memory=True))
        found["OpenVINO"] = request.infer
    if torch and run_torch:
        given, f = [torch.from_numpy(v) for v in feeds.values()], run_torch()
        found["PyTorch"] = lambda: f(*given)
    return found


def weft(command, path, threads, profile=False):
    length = ["--profile", "--iterations", "3"] if profile else ["--duration", str(SECONDS)]
    done = subprocess.run([command, "bench", path, "--json", "--threads", str(threads), "--warmup", "50", *length],
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    return json.loads(done.stdout)


def run_case(make, args):
    """{engine: ms}, the floor in ms, what Weft runs."""
    nodes, feeds, constants, run_torch = make()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "case.onnx")
        save(path, nodes, feeds, constants)
        found, least = engines(path, feeds, run_torch, args.threads), {}
        for _ in range(args.rounds):
            for name, f in {**found, "Weft": None}.items():
                time.sleep(SETTLE)
                if f:
                    ms = loop_ms(f)[args.median]
                else:
                    ms = weft(args.weft, path, args.threads)["median_ms" if args.median else "min_ms"]
                least[name] = min(ms, least.get(name, ms))
        steps = weft(args.weft, path, args.threads, profile=True)["profile"]
    return least, sum(s["floor_us"] for s in steps) / 1e3, "; ".join(s["runs"] for s in steps)


def arguments():
    parser = argparse.ArgumentParser(description="single operators: Weft beside its peers on the CPU")
    parser.add_argument("words", nargs="*", help="only cases whose group or name holds one of these")
    parser.add_argument("--weft", default=os.environ.get("WEFT", "build/bin/weft"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--median", action="store_true", help="compare medians instead of least times")
    parser.add_argument("--markdown", help="write the ratios as a table to this file")
    parser.add_argument("--list", action="store_true", help="name the cases")
    return parser.parse_args()


def main():
    args = arguments()
    declare()
    wanted = [c for c in CASES if not args.words or any(w in f"{c[0]} {c[1]}" for w in args.words)]
    if args.list:
        print("\n".join(f"{group}: {name}" for group, name, _ in wanted))
        return
    if torch:
        torch.set_num_threads(args.threads)
        torch.set_grad_enabled(False)
    table = ["| group | case | best peer | best/Weft | Weft of floor |", "|---|---|---|---|---|"]
    for group, name, make in wanted:
        try:
            ms, floor, runs = run_case(make, args)
        except Exception as e:  # one case that an engine refuses must not end the others
            print(f"{group:14s} {name}: {str(e)[:300]}", flush=True)
            continue
        own = ms.pop("Weft")
        best = min(ms, key=ms.get)
        times = "  ".join(f"{n} {t:8.4f}" for n, t in ms.items())
        print(f"{group:14s} {name:50s} best/Weft {ms[best] / own:5.2f}  of floor {floor / own:5.2f}  "
              f"ms: Weft {own:8.4f}  {times}  [{runs}]", flush=True)
        table.append(f"| {group} | {name} | {best} | {ms[best] / own:.2f} | {floor / own:.2f} |")
    if args.markdown:
        with open(args.markdown, "w") as out:
            out.write("\n".join(table) + "\n")


if __name__ == "__main__":
    main()
