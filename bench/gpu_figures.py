"""gpu_figures.py: the table of gpu_bench.py: every figure beside its floor, its bound or its peer, with what is asked for."""
import math
import statistics

from gpu_peers import OPS, ROWS, base_of, moved_bytes

NAMES = {"chain": "element-wise chain", "softmax": "softmax", "layer_norm": "layer-norm",
         "statistics": "BatchNormalization statistics"}
TOLD = {True: "yes", False: "no", None: "-"}
COPY = "floor: device copy of as many bytes"
STEP = "floor: bytes at the rate of a copy, products at that of one"


def at(tree, *keys):
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def fastest(*values):
    return min((v for v in values if v), default=None)


def met(mine, other, ratio, asked):
    """None where there is nothing to tell. Nothing at all of what is bounded has no ratio, and is good."""
    if asked is None or (mine == 0 and other is None):
        return None
    if mine == 0:
        return True
    return None if ratio is None else ratio >= asked


def floor_ms(found, key, product, side):
    """Of one step: each of its kernels and calls moves its bytes as a copy does, or computes as a large product does."""
    rows = at(found, key + "_again", "profile")
    bandwidth = max((at(found, c, "chain", "gb_per_s") or 0 for c in ("copy", "copy_again")), default=0)
    ms = at(found, product, "median_ms")
    if not rows or not bandwidth or not ms:
        return None
    rate = 2 * side**3 / (1e6 * ms)  # GFLOP/s
    return sum(max(r["bytes"] / bandwidth, r["flops"] / rate) for r in rows) / 1e6


def figures(found, z):
    """Rows: what, unit, Weft, what it stands beside and its figure, the ratio (above 1: Weft is better), what is asked."""
    rows = []

    def row(what, unit, mine, beside, other, asked=None, ratio=None):
        if asked is None and other is None:
            return  # a peer that is not here
        if ratio is None and mine and other:
            ratio = other / mine
        rows.append({"what": what, "unit": unit, "weft": mine, "beside": beside, "other": other, "ratio": ratio,
                     "asked": asked, "met": None if z.tiny else met(mine, other, ratio, asked)})

    def copied(name):
        return fastest(at(found, "copy", name, "ms"), at(found, "copy_again", name, "ms"))

    against = []
    for name in OPS:
        mine, floor = at(found, name, "median_ms"), 0.98 if name == "chain" else 0.93
        if name == "adam":
            continue
        what = NAMES[base_of(name)]
        if name in ROWS:
            what += f", rows of {z.rows(name)[1]}"
        row(what, "ms", mine, COPY, copied(name), floor)
        rows[-1]["gb_per_s"] = 1e-6 * moved_bytes(name, z) / mine if mine else None
        row(what, "ms", mine, "PyTorch, eager", at(found, "torch_ops", name, "eager", "ms"))
        compiled = at(found, "torch_ops", name, "compiled", "ms")
        row(what, "ms", mine, "PyTorch, torch.compile", compiled)
        row(what, "ms", mine, "JAX, jit", at(found, "jax_ops", name, "jit", "ms"))
        if name != "chain" and mine and compiled:
            against.append(compiled / mine)
    mean = math.exp(statistics.fmean(map(math.log, against))) if against else None
    row(f"softmax, layer-norm, statistics: geometric mean of {len(against)}", "", None, "PyTorch, torch.compile", None, 1.2,
        mean)

    what, mine = f"Adam, {len(z.adam())} tensors", at(found, "adam", "median_ms")
    row(what, "ms", mine, COPY, copied("adam"), 0.90)
    rows[-1]["gb_per_s"] = 1e-6 * moved_bytes("adam", z) / mine if mine else None
    row(what, "ms", mine, "PyTorch, fused", at(found, "torch_ops", "adam", "fused", "ms"), 1.1)
    row(what, "ms", mine, "PyTorch, foreach", at(found, "torch_ops", "adam", "foreach", "ms"), 3.0)
    row(what + ": launches", "", at(found, "adam", "kernels"), "bound", 1, 1.0)

    steps, batch, width = z.lstm
    what = f"LSTM, {steps} steps of batch {batch}, {width} wide, forward"
    row(what, "ms", at(found, "lstm", "median_ms"), "PyTorch, nn.LSTM", at(found, "torch_loops", "lstm", "ms"))
    what = f"Scan, {z.scan[0]} steps of {z.scan[1]} elements"
    row(what, "ms", at(found, "scan", "median_ms"), "PyTorch, a loop", at(found, "torch_loops", "scan", "ms"))

    def training(what, key, product, peers, fusion, start_us, cold_s, faster):
        one, plain = at(found, key), at(found, key + "_plain")
        step = at(one, "step_ms")
        row(what, "ms", step, STEP, floor_ms(found, key, product, z.product))
        for wait, mine, theirs in (("", "step_ms", "ms"), (", not waited for", "unwaited_ms", "unwaited_ms")):
            for beside, path, asked in peers:
                row(what + wait, "ms", at(one, mine), beside, at(found, *path, theirs), asked)
            row(what + wait, "ms", at(one, mine), "Weft without fusion", at(plain, mine), fusion)
        path = next(p for beside, p, _ in peers if "torch.compile" in beside)
        if start_us:
            row(f"{what}: processor time to start it", "us", at(one, "cpu_us"), "bound", start_us, 1.0)
        row(f"{what}: processor time to start it", "us", at(one, "cpu_us"), "PyTorch, torch.compile",
            at(found, *path, "cpu_us"))
        row(f"{what}: compiled with an empty cache", "s", at(one, "compile_s"), "bound", cold_s, 1.0)
        row(f"{what}: compiled with an empty cache", "s", at(one, "compile_s"), "PyTorch, torch.compile",
            at(found, *path, "compile_s"), faster)
        row(f"{what}: compiled again", "s", at(found, key + "_again", "compile_s"), "bound", 0.2, 1.0)

    lenet, resnet = f"LeNet b{z.lenet_batch} training step", f"ResNet-50 b{z.resnet_batch} bf16 training step"
    training(lenet, "lenet", "product_f32",
             [("PyTorch, eager", ("torch_lenet", "eager"), 6.0),
              ("PyTorch, torch.compile (reduce-overhead)", ("torch_lenet", "compiled"), 1.3),
              ("JAX, jit", ("jax_lenet", "jit"), 1.5)], 1.5, 15.0, 1.0, 10.0)
    launches = [at(found, "lenet", k) for k in ("kernels", "library_calls")]
    row(lenet + ": kernels and library calls", "", None if None in launches else sum(launches), "bound", 19, 1.0)
    training(resnet, "resnet", "product_bf16",
             [("PyTorch, eager, channels_last, autocast", ("torch_resnet", "eager"), 1.5),
              ("PyTorch, torch.compile, channels_last, autocast", ("torch_resnet", "compiled"), 1.1)], 1.3, None, 3.0, 20.0)
    row(resnet + ": distinct generated kernels", "", at(found, "resnet", "distinct_kernels"), "bound", 60, 1.0)

    for name, losses in (at(found, "programs") or {}).items():
        for kind, session in (("fusion", "gpu fusion"), ("plain", "gpu")):
            row(f"tinyflow {name} on \"{session}\": losses of 5 steps, largest difference", "of the loss",
                apart(losses[kind], losses["cpu"]), "bound: the CPU's within", loss_bound(name), 1.0)
    return rows


def loss_bound(program):
    """A sum in another order may round to the next number of bfloat16's 8 bits."""
    return 2e-2 if program == "resnet50" else 1e-3


def apart(mine, want):
    """The largest difference, as a part of the largest loss; None where one is missing or is not a finite number."""
    if not mine or not want or len(mine) != len(want):
        return None
    if not all(isinstance(v, (int, float)) and math.isfinite(v) for v in mine + want):
        return None
    largest = max(map(abs, want))
    difference = max(abs(a - b) for a, b in zip(mine, want))
    return difference / largest if largest else difference


def not_on_device(result, device):
    """Why what was timed is not what the device does, or not as fast as it could; None where it is."""
    if result.get("interpreted") != 0:
        return f"{result.get('interpreted')} steps ran in the host's interpreter"
    if not result.get("kernels", 0) + result.get("library_calls", 0):
        return "no kernel and no library call was run"
    if device != "cpu" and not result.get("replays"):
        return "steps were given one by one, and no recording was replayed"
    return None


# A library, the row of `weft doctor` that has it, its word in profiles, and what it has a part in.
LIBRARIES = (("cuBLASLt", "cuda cuBLASLt", "cublaslt", ("product_f32", "product_bf16", "lenet_again", "resnet_again")),
             ("cuDNN", "cuda cuDNN", "cudnn", ("lenet_again", "resnet_again")))


def unused_library(found):
    """(library, part) where the machine has it and no step of the part's profile names it."""
    unused = []
    for library, row, word, parts in LIBRARIES:
        if not at(found, "doctor", row, "ok"):
            continue
        for part in parts:
            profile = at(found, part, "profile")
            if profile is not None and not any(word in str(step.get("runs", "")).lower() for step in profile):
                unused.append((library, part))
    return unused


def number(value):
    return "-" if value is None else f"{value:.4g}"


def table(found, rows, log, tiny):
    device = at(found, "doctor", "cuda device 0", "found") or "no GPU"
    peers = [f"{name} {version}" for name, version in (("PyTorch", at(found, "torch_ops", "version")),
                                                       ("JAX", at(found, "jax_lenet", "version"))) if version]
    lines = [f"Device: {device}. Peers: {', '.join(peers) or 'none'}.",
             "Tried on a CPU with tiny extents: the figures mean nothing." if tiny else
             "Ratios above 1: Weft is better. Times end when the device has finished.", "",
             "| what | unit | Weft | beside | its figure | ratio | asked | met |", "|---|---|---:|---|---:|---:|---:|---|"]
    for r in rows:
        lines.append(f"| {r['what']} | {r['unit']} | {number(r['weft'])} | {r['beside']} | {number(r['other'])} | "
                     f"{number(r['ratio'])} | {number(r['asked'])} | {TOLD[r['met']]} |")
    asked = [r for r in rows if r["asked"] is not None]
    lines += ["", "Asked for: {}; met: {}; missed: {}; not measured: {}.".format(
        len(asked), *(sum(r["met"] is which for r in asked) for which in (True, False, None)))]
    wrong = [f"- {e['part']}: {e['error']}" for e in log if "error" in e]
    for part, result in found.items():
        for name, entry in result.items() if isinstance(result, dict) else ():
            if at(entry, "error"):
                wrong.append(f"- {part}, {name}: {entry['error']}")
    if wrong:
        lines += ["", "Without a result:", ""] + wrong
    return "\n".join(lines) + "\n"
