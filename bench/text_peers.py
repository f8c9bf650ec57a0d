#!/usr/bin/env python3
"""text_peers.py: tokens a second of language models with random weights, beside ONNX Runtime with bound caches.

    text_peers.py make DIR gpt2|qwen2|llama1b [--layers N]     writes DIR/NAME.onnx, as exporters write such models
    text_peers.py run DIR/NAME.onnx [--prompt N] [--tokens N] [--rounds N] [--threads N]     needs numpy, onnx, onnxruntime

WEFT names the command `weft`. Both go on greedily with the same prompt, and must give the same tokens. The caches of ONNX Runtime
stay on its side (IOBinding): what a run gives is bound as the next one's input. A copy of as many bytes as the weights that a token
reads is timed beside them: the share of that bandwidth is what is left to gain.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

import numpy as np

SHAPES = {  # layers, width, heads, heads of keys, width inside, tokens, positions, llama's parts
    "gpt2": (12, 768, 12, 12, 3072, 50257, 1024, False),
    "qwen2": (24, 896, 14, 2, 4864, 151936, 32768, True),
    "llama1b": (16, 2048, 32, 8, 8192, 32000, 8192, True),
    "tiny": (2, 64, 4, 2, 128, 500, 128, True),
}


def make(folder, name, layers):
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    count, width, heads, kv_heads, inside, vocabulary, positions, llama = SHAPES[name]
    count = layers or count
    depth = width // heads
    rng = np.random.default_rng(1)
    nodes, weights = [], []
    numbers = iter(range(10 ** 9))

    def op(kind, *inputs, outputs=1, name=None, **attributes):
        out = [name or f"v{next(numbers)}" for _ in range(outputs)]
        nodes.append(helper.make_node(kind, list(inputs), out, **attributes))
        return out[0] if outputs == 1 else out

    def constant(value, dtype=np.int64):
        c = f"c{next(numbers)}"
        weights.append(numpy_helper.from_array(np.asarray(value, dtype), c))
        return c

    def weight(*dims, scale=None):
        w = f"w{next(numbers)}"
        if scale == "one":
            a = 1 + 0.05 * rng.standard_normal(dims, dtype=np.float32)
        else:
            a = (rng.random(dims, dtype=np.float32) - np.float32(0.5)) * np.float32(3.46 * (scale or dims[0] ** -0.5))
        weights.append(numpy_helper.from_array(a.astype(np.float32), w))
        return w

    def norm(x):
        if llama:
            square = op("ReduceMean", op("Pow", x, constant(2, np.float32)), constant([-1]), keepdims=1)
            root = op("Sqrt", op("Add", square, constant(1e-6, np.float32)))
            return op("Mul", weight(width, scale="one"), op("Div", x, root))
        return op("LayerNormalization", x, weight(width, scale="one"), weight(width, scale=0.05), epsilon=1e-5)

    def linear(x, rows, columns, bias):
        y = op("MatMul", x, weight(rows, columns))
        return op("Add", weight(columns, scale=0.05), y) if bias else y

    def split(x, n):
        return op("Transpose", op("Reshape", x, constant([0, 0, n, depth])), perm=[0, 2, 1, 3])

    past_rows = op("Gather", op("Shape", "past_key_values.0.key"), constant(2))
    rows = op("Gather", op("Shape", "input_ids"), constant(1))
    total = op("Add", past_rows, rows)
    one, zero = constant(1), constant(0)
    queries = op("Unsqueeze", op("Range", past_rows, total, one), constant([1]))
    seen = op("Unsqueeze", op("LessOrEqual", op("Range", zero, total, one), queries), constant([0, 1]))
    seen = op("And", seen, op("Unsqueeze", op("Cast", "attention_mask", to=TensorProto.BOOL), constant([1, 2])))
    mask = op("Where", seen, constant(0, np.float32), constant(np.finfo(np.float32).min, np.float32))
    x = op("Gather", weight(vocabulary, width, scale=1.0 if not llama else 0.5), "input_ids")
    if llama:
        inverse = (10000.0 ** (-np.arange(0, depth, 2) / depth)).astype(np.float32)
        angles = op("Mul", op("Unsqueeze", op("Cast", "position_ids", to=TensorProto.FLOAT), constant([2])), constant(inverse, np.float32))
        angles = op("Unsqueeze", op("Concat", angles, angles, axis=-1), constant([1]))
        cos, sin = op("Cos", angles), op("Sin", angles)
    else:
        x = op("Add", x, op("Gather", weight(positions, width, scale=0.1), "position_ids"))

    def turned(q):
        if not llama:
            return q
        half = depth // 2
        a = op("Slice", q, constant([0]), constant([half]), constant([3]))
        b = op("Slice", q, constant([half]), constant([2 ** 62]), constant([3]))
        return op("Add", op("Mul", q, cos), op("Mul", op("Concat", op("Neg", b), a, axis=-1), sin))

    presents = []
    for layer in range(count):
        h = norm(x)
        if llama:
            q, k, v = (linear(h, width, n * depth, name == "qwen2") for n in (heads, kv_heads, kv_heads))
        else:
            q, k, v = op("Split", linear(h, width, 3 * width, True), constant([width] * 3), outputs=3, axis=2)
        q, k, v = turned(split(q, heads)), turned(split(k, kv_heads)), split(v, kv_heads)
        kept = []
        for part, new in (("key", k), ("value", v)):
            out = f"present.{layer}.{part}"
            op("Concat", f"past_key_values.{layer}.{part}", new, axis=2, name=out)
            presents.append((f"past_key_values.{layer}.{part}", out))
            kept.append(out)
        if kv_heads != heads:
            shape = op("Shape", kept[0])
            batch, seen_rows = op("Slice", shape, constant([0]), constant([1])), op("Slice", shape, constant([2]), constant([3]))
            many = op("Concat", batch, constant([kv_heads, heads // kv_heads]), seen_rows, constant([depth]), axis=0)
            whole = op("Concat", batch, constant([heads]), seen_rows, constant([depth]), axis=0)
            kept = [op("Reshape", op("Expand", op("Unsqueeze", t, constant([2])), many), whole) for t in kept]
        scores = op("MatMul", q, op("Transpose", kept[0], perm=[0, 1, 3, 2]))
        scores = op("Add", op("Mul", scores, constant(depth ** -0.5, np.float32)), mask)
        y = op("MatMul", op("Softmax", scores, axis=-1), kept[1])
        y = op("Reshape", op("Transpose", y, perm=[0, 2, 1, 3]), constant([0, 0, width]))
        x = op("Add", x, linear(y, width, width, not llama))
        h = norm(x)
        if llama:
            gate = linear(h, width, inside, False)
            h = op("Mul", op("Mul", gate, op("Sigmoid", gate)), linear(h, width, inside, False))
        else:
            h = op("Gelu", linear(h, width, inside, True), approximate="tanh")
        x = op("Add", x, linear(h, inside, width, not llama))
    op("MatMul", norm(x), weight(width, vocabulary), name="logits")

    def info(n, t, *dims):
        return helper.make_tensor_value_info(n, t, list(dims))
    f, i = TensorProto.FLOAT, TensorProto.INT64
    inputs = [info("input_ids", i, "batch", "sequence"), info("attention_mask", i, "batch", "total"), info("position_ids", i, "batch", "sequence")]
    inputs += [info(p, f, "batch", kv_heads, "past", depth) for p, _ in presents]
    outputs = [info("logits", f, "batch", "sequence", vocabulary)] + [info(p, f, "batch", kv_heads, "total", depth) for _, p in presents]
    graph = helper.make_graph(nodes, name, inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.onnx"
    for old in folder.glob(f"{name}.onnx*"):
        old.unlink()
    onnx.save(model, path, save_as_external_data=True, location=f"{name}.onnx.data", size_threshold=1024)
    print(path)


def weights_read(path):
    """Bytes of weights that a token reads: matrices of products, not the table of words."""
    import onnx
    m = onnx.load(path, load_external_data=False)
    used = {i for n in m.graph.node if n.op_type == "MatMul" for i in n.input}
    return sum(int(np.prod(t.dims)) * 4 for t in m.graph.initializer if t.name in used)


class Runtime:
    def __init__(self, path, threads):
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self.ort = ort
        self.session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.past = [i for i in self.session.get_inputs() if i.name.startswith("past")]
        self.present = [o.name for o in self.session.get_outputs() if o.name.startswith("present")]

    def go_on(self, prompt, tokens):
        held, made, times = 0, [], []
        step = np.array([prompt], np.int64)
        caches = [self.ort.OrtValue.ortvalue_from_numpy(np.zeros((1, i.shape[1], 0, i.shape[3]), np.float32)) for i in self.past]
        for _ in range(tokens):
            begin = time.perf_counter()
            n = step.shape[1]
            b = self.session.io_binding()
            b.bind_cpu_input("input_ids", step)
            b.bind_cpu_input("attention_mask", np.ones((1, held + n), np.int64))
            b.bind_cpu_input("position_ids", np.arange(held, held + n, dtype=np.int64)[None])
            for i, c in zip(self.past, caches):
                b.bind_ortvalue_input(i.name, c)
            b.bind_output("logits", "cpu")
            for o in self.present:
                b.bind_output(o, "cpu")
            self.session.run_with_iobinding(b)
            out = b.get_outputs()
            caches = out[1:]
            token = int(out[0].numpy()[0, -1].argmax())
            times.append(time.perf_counter() - begin)
            made.append(token)
            held += n
            step = np.array([[token]], np.int64)
        return made, times


def copy_gbs(size, threads):
    """Bandwidth of a product of a row with a matrix cannot pass what a read does; a sum reads once."""
    del threads
    a = np.ones(min(size, 1 << 29) // 4, np.float32)
    best = min(timed(lambda: a.sum()) for _ in range(3))
    return a.nbytes / best / 1e9


def timed(f):
    begin = time.perf_counter()
    f()
    return time.perf_counter() - begin


def run(a):
    prompt = np.random.default_rng(2).integers(0, 400, a.prompt).tolist()
    weft = os.environ.get("WEFT", "build/bin/weft")
    read = weights_read(a.model)
    rows = []
    runtime = Runtime(a.model, a.threads)
    with tempfile.TemporaryDirectory() as folder:
        tokens = pathlib.Path(folder) / "tokens.txt"
        tokens.write_text(" ".join(map(str, prompt)) + "\n")
        for _ in range(a.rounds):
            made, times = runtime.go_on(prompt, a.tokens)
            out = subprocess.run([weft, "generate", str(a.model), "--tokens", str(tokens), "--max-tokens", str(a.tokens), "--json",
                                  "--threads", str(a.threads)], check=True, capture_output=True, text=True)
            mine = json.loads(out.stdout)
            same = mine["texts"][0]["tokens"] == made
            theirs = float(np.median(times[1:]))
            ours = mine["median_token_ms"] / 1e3
            step = mine["token_ms"]
            k = max(1, len(step) // 4)
            rows.append({"same_tokens": same, "onnxruntime_token_ms": 1e3 * theirs, "weft_token_ms": 1e3 * ours, "ratio": theirs / ours,
                         "onnxruntime_prompt_ms": 1e3 * times[0], "weft_prompt_ms": 1e3 * mine["prompt_s"],
                         "prompt_ratio": times[0] / mine["prompt_s"], "weft_tokens_per_second": 1 / ours, "weft_gb_s": read / ours / 1e9,
                         "onnxruntime_gb_s": read / theirs / 1e9, "last_over_first_quarter": float(np.median(step[-k:]) / np.median(step[:k])),
                         **{key: mine[key] for key in ("caches", "cache_allocations", "cache_moved_bytes", "cache_copies", "arena_allocations")}})
            print(json.dumps(rows[-1]))
    best = max(rows, key=lambda r: -r["weft_token_ms"])
    print(json.dumps({"model": a.model.stem, "weights_mb": read / 1e6, "read_gb_s_one_core": copy_gbs(read, a.threads),
                      "best_weft_ms": best["weft_token_ms"], "best_onnxruntime_ms": min(r["onnxruntime_token_ms"] for r in rows)}))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = p.add_subparsers(dest="command", required=True)
    m = commands.add_parser("make")
    m.add_argument("folder", type=pathlib.Path)
    m.add_argument("name", choices=SHAPES)
    m.add_argument("--layers", type=int)
    r = commands.add_parser("run")
    r.add_argument("model", type=pathlib.Path)
    for option, default in (("prompt", 32), ("tokens", 64), ("rounds", 3), ("threads", 2)):
        r.add_argument(f"--{option}", type=int, default=default)
    a = p.parse_args()
    if a.command == "make":
        make(a.folder, a.name, a.layers)
    else:
        run(a)


if __name__ == "__main__":
    main()
