#!/usr/bin/env python3
"""control_flow_peers.py: control flow and recurrences as torch.export writes them, Weft beside ONNX Runtime on one CPU.

    WEFT=build/bin/weft python3 bench/control_flow_peers.py FOLDER [--threads 2] [--markdown FILE] [WORD ...]

Needs the Python packages torch, onnx, onnxscript, onnxruntime and numpy; nothing in the build depends on it. The programs
are made once, in FOLDER, each with dimensions that are fixed by the exporter. WORDs pick those whose name holds one.

Both engines run the same random inputs; results have to agree to 1e-3 of the largest value (a plain recurrence of 100 steps
multiplies what a rounding leaves). The time is the least median of three rounds in turns. "ORT / Weft" above 1: Weft is
faster.
"""
import argparse, json, os, pathlib, subprocess, sys, tempfile, time, warnings

warnings.filterwarnings("ignore")
import numpy as np
import onnxruntime

ROUNDS = 3
SECONDS = 0.5


def programs():
    """name -> (module, inputs)"""
    import torch
    from torch import nn
    from torch._higher_order_ops.scan import scan
    from torch._higher_order_ops.while_loop import while_loop

    torch.manual_seed(0)

    class Recurrent(nn.Module):
        def __init__(self, kind, layers=1, both=False):
            super().__init__()
            self.cell = getattr(nn, kind)(128, 256, layers, bidirectional=both)

        def forward(self, x):
            return self.cell(x)[0]

    class Classifier(nn.Module):
        """The last state of a bidirectional LSTM, and a layer."""

        def __init__(self):
            super().__init__()
            self.cell = nn.LSTM(64, 64, batch_first=True, bidirectional=True)
            self.out = nn.Linear(128, 10)

        def forward(self, x):
            return self.out(self.cell(x)[0][:, -1])

    class BothGru(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRU(64, 64, batch_first=True, bidirectional=True)

        def forward(self, x):
            return self.cell(x)[0]

    class StatefulLstm(nn.Module):
        """Its first states are inputs, and its last ones are given."""

        def __init__(self):
            super().__init__()
            self.cell = nn.LSTM(64, 128)

        def forward(self, h, c, x):
            y, (h, c) = self.cell(x, (h, c))
            return y, h, c

    class ReluRnn(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.RNN(64, 128, nonlinearity="relu", bidirectional=True)

        def forward(self, x):
            return self.cell(x)[0]

    class GatedScan(nn.Module):
        """A cell with gates and a normalisation, as people write their own."""

        def __init__(self):
            super().__init__()
            self.w, self.u = nn.Linear(64, 384), nn.Linear(128, 384)
            self.norm = nn.LayerNorm(128)

        def forward(self, h, x):
            def step(h, v):
                r, z, n = (self.w(v) + self.u(h)).chunk(3, -1)
                h = torch.sigmoid(z) * h + (1 - torch.sigmoid(z)) * torch.tanh(n * torch.sigmoid(r))
                h = self.norm(h)
                return h, h.clone()
            return scan(step, h, x)

    class AttentionScan(nn.Module):
        """A decoder that looks at a memory in every step."""

        def __init__(self):
            super().__init__()
            self.u, self.w = nn.Linear(64, 64), nn.Linear(128, 64)

        def forward(self, h, x, memory):
            def step(h, v):
                p = torch.softmax((memory @ h.unsqueeze(-1)).squeeze(-1) * 0.125, -1)
                seen = (p.unsqueeze(-1) * memory).sum(1)
                h = torch.tanh(self.w(torch.cat([seen, v], -1)) + self.u(h))
                return h, p
            return scan(step, h, x)

    class ScanInCond(nn.Module):
        def __init__(self):
            super().__init__()
            self.u = nn.Parameter(torch.randn(64, 64) / 8)

        def forward(self, h, x):
            def step(h, v):
                h = torch.tanh(h @ self.u + v)
                return h, h.clone()
            return torch.cond(x.sum() > 0, lambda h, x: scan(step, h, x)[1], lambda h, x: torch.relu(x), (h, x))

    class CondInScan(nn.Module):
        def __init__(self):
            super().__init__()
            self.u = nn.Parameter(torch.randn(64, 64) / 8)

        def forward(self, h, x):
            def step(h, v):
                h = torch.cond(v.sum() > 0, lambda h, v: torch.tanh(h @ self.u + v), lambda h, v: h * 0.5, (h, v))
                return h, h.clone()
            return scan(step, h, x)

    class ElementCondInScan(nn.Module):
        def forward(self, h, x):
            def step(h, v):
                h = torch.cond(v.sum() > 0, lambda h, v: torch.tanh(h + v), lambda h, v: h * 0.5, (h, v))
                return h, h.clone()
            return scan(step, h, x)

    class ScanInScan(nn.Module):
        """Rows, and the columns of each."""

        def __init__(self):
            super().__init__()
            self.u = nn.Parameter(torch.randn(32, 32) / 6)

        def forward(self, h, x):
            def column(h, v):
                h = torch.tanh(h @ self.u + v)
                return h, h.clone()
            def row(h, v):
                h, y = scan(column, h, v)
                return h * 0.5, y
            return scan(row, h, x)

    class FixedPoint(nn.Module):
        """A layer applied until it moves little: how many times, data decide."""

        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(128, 128) / 40)

        def forward(self, x):
            def moves(i, z, d, x):
                return torch.logical_and(d > 1e-4, i < 50)
            def step(i, z, d, x):
                y = torch.tanh(z @ self.w + x)
                return i + 1, y, (y - z).abs().max(), x.clone()
            return while_loop(moves, step, (torch.zeros((), dtype=torch.int64), torch.zeros_like(x), torch.ones(()), x))[1]

    class Greedy(nn.Module):
        """Tokens one after the other until all sequences have ended."""

        def __init__(self):
            super().__init__()
            self.table, self.u, self.out = nn.Embedding(100, 64), nn.Linear(64, 64), nn.Linear(64, 100)

        def forward(self, h, token):
            def goes(i, h, token, best):
                return torch.logical_and(i < 30, (token != 0).any())
            def step(i, h, token, best):
                h = torch.tanh(self.u(h) + self.table(token))
                score, token = self.out(h).max(-1)
                return i + 1, h, token, best + score
            i = torch.zeros((), dtype=torch.int64)
            return while_loop(goes, step, (i, h, token, torch.zeros(h.shape[0])))[1:]

    class DictWhile(nn.Module):
        """Momentum: a state of three tensors, a fixed number of steps."""

        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.randn(64, 64) / 20)

        def forward(self, x, b):
            def step(i, x, v, b):
                v = 0.9 * v - 0.1 * ((x @ self.a - b) @ self.a.T)
                return i + 1, x + v, v, b.clone()
            i = torch.zeros((), dtype=torch.int64)
            return while_loop(lambda i, x, v, b: i < 25, step, (i, x, torch.zeros_like(x), b))[1]

    class CellScan(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.u = (nn.Parameter(torch.randn(128, 128) / 12) for _ in range(2))

        def forward(self, h, x):
            def step(h, v):
                h = torch.tanh(h @ self.u + v @ self.w)
                return h, h.clone()
            return scan(step, h, x)

    class ElementScan(nn.Module):
        def forward(self, h, x):
            def step(h, v):
                h = torch.sigmoid(h) * 0.5 + v
                return h, torch.relu(h)
            return scan(step, h, x)

    class DictScan(nn.Module):
        """A state of two tensors, in a dict."""

        def forward(self, h, x):
            def step(s, v):
                a = s["a"] * 0.9 + v
                b = torch.maximum(s["b"], a)
                return {"a": a, "b": b}, a + b
            s, y = scan(step, {"a": h, "b": h.clone()}, x)
            return s["a"], s["b"], y

    class Power(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(128, 128) / 12)

        def forward(self, n, x):
            return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, torch.tanh(x @ self.w)), (torch.zeros((), dtype=torch.int64), x))[1]

    class Newton(nn.Module):
        """Until it is near: how many times, data decide."""

        def forward(self, x):
            def near(y, x):
                return (y * y - x).abs().max() > 1e-3
            return while_loop(near, lambda y, x: ((y + x / y) / 2, x.clone()), (x + 1, x))[0]

    class Nested(nn.Module):
        """A loop in a loop."""

        def forward(self, n, x):
            def inner(j, y):
                return j + 1, torch.sin(y) + 0.1
            def outer(i, x):
                y = while_loop(lambda j, y: j < 3, inner, (torch.zeros((), dtype=torch.int64), x))[1]
                return i + 1, y * 0.5
            return while_loop(lambda i, x: i < n, outer, (torch.zeros((), dtype=torch.int64), x))[1]

    class Cond(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(256, 256), nn.Linear(256, 256)

        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: torch.relu(self.a(x)), lambda x: torch.tanh(self.b(x)), (x,))

    class ElementCond(nn.Module):
        def forward(self, x):
            return torch.cond(x.mean() > 0, lambda x: torch.exp(-x * x), lambda x: torch.log1p(x.abs()), (x,))

    for batch in (1, 32):
        x = torch.randn(35, batch, 128)
        name = f"_b{batch}"
        yield "lstm" + name, Recurrent("LSTM"), (x,)
        yield "lstm_two_layers" + name, Recurrent("LSTM", 2), (x,)
        yield "lstm_both_ways" + name, Recurrent("LSTM", both=True), (x,)
        yield "lstm_classifier" + name, Classifier(), (torch.randn(batch, 50, 64),)
        yield "gru" + name, Recurrent("GRU"), (x,)
        yield "rnn" + name, Recurrent("RNN"), (x,)
        yield "scan_cell" + name, CellScan(), (torch.randn(batch, 128), torch.randn(35, batch, 128))
        yield "scan_elements" + name, ElementScan(), (torch.randn(batch, 128), torch.randn(100, batch, 128))
        yield "scan_dict" + name, DictScan(), (torch.randn(batch, 128), torch.randn(100, batch, 128))
        yield "while_power" + name, Power(), (torch.tensor(20), torch.randn(batch, 128))
        yield "while_newton" + name, Newton(), (torch.rand(batch, 128) + 0.5,)
        yield "while_nested" + name, Nested(), (torch.tensor(10), torch.randn(batch, 128))
        yield "cond" + name, Cond(), (torch.randn(batch, 256),)
        yield "cond_elements" + name, ElementCond(), (torch.randn(batch, 256),)
        yield "gru_both_ways" + name, BothGru(), (torch.randn(batch, 50, 64),)
        yield "lstm_states" + name, StatefulLstm(), (torch.randn(1, batch, 128), torch.randn(1, batch, 128), torch.randn(40, batch, 64))
        yield "rnn_relu_both_ways" + name, ReluRnn(), (torch.randn(40, batch, 64),)
        yield "scan_gates" + name, GatedScan(), (torch.randn(batch, 128), torch.randn(40, batch, 64))
        yield "scan_attention" + name, AttentionScan(), (torch.randn(batch, 64), torch.randn(20, batch, 64), torch.randn(batch, 16, 64))
        yield "scan_in_cond" + name, ScanInCond(), (torch.randn(batch, 64), torch.randn(30, batch, 64) + 0.1)
        yield "cond_in_scan" + name, CondInScan(), (torch.randn(batch, 64), torch.randn(30, batch, 64))
        yield "cond_elements_in_scan" + name, ElementCondInScan(), (torch.randn(batch, 64), torch.randn(60, batch, 64))
        yield "scan_in_scan" + name, ScanInScan(), (torch.randn(batch, 32), torch.randn(8, 10, batch, 32))
        yield "while_fixed_point" + name, FixedPoint(), (torch.randn(batch, 128),)
        yield "while_greedy" + name, Greedy(), (torch.randn(batch, 64), torch.randint(1, 100, (batch,)))
        yield "while_momentum" + name, DictWhile(), (torch.randn(batch, 64), torch.randn(batch, 64))


def make(folder, words):
    import torch
    for name, module, inputs in programs():
        path = folder / f"{name}.onnx"
        if path.exists() or (words and not any(w in name for w in words)):
            continue
        try:
            torch.onnx.export(module.eval(), inputs, path, dynamo=True, verbose=False)
            np.savez(folder / f"{name}.npz", *[np.asarray(i) for i in inputs])
        except Exception as e:
            path.unlink(missing_ok=True)
            print(f"{name}: not exported: {str(e).splitlines()[0][:150]}", file=sys.stderr)


class Ort:
    def __init__(self, path, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(self, feeds):
        return self.session.run(None, feeds)

    def median(self, feeds):
        times, begin = [], time.perf_counter()
        while time.perf_counter() - begin < SECONDS or len(times) < 5:
            t = time.perf_counter()
            self.session.run(None, feeds)
            times.append(time.perf_counter() - t)
        return sorted(times)[len(times) // 2] * 1e3


def weft(command, path, folder, *more):
    full = [os.environ.get("WEFT", "build/bin/weft"), command, str(path), "--load-inputs", str(folder), *more]
    done = subprocess.run(full, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def measure(path, threads):
    ort = Ort(path, threads)
    stored = np.load(path.with_suffix(".npz"))
    feeds = {i.name: stored[f"arr_{k}"] for k, i in enumerate(ort.session.get_inputs())}
    with tempfile.TemporaryDirectory() as scratch:
        inputs, outputs = pathlib.Path(scratch, "in"), pathlib.Path(scratch, "out")
        inputs.mkdir()
        for name, value in feeds.items():
            np.save(inputs / f"{name.replace('/', '_').replace(':', '_')}.npy", value)
        weft("run", path, inputs, "--outputs-dir", str(outputs))
        error = 0.0
        for out, want in zip(ort.session.get_outputs(), ort.run(feeds)):
            got = np.load(outputs / f"{out.name.replace('/', '_').replace(':', '_')}.npy")
            if got.shape != want.shape:
                raise RuntimeError(f"{out.name}: {got.shape}, not {want.shape}")
            if want.size:
                scale = max(float(np.abs(want).max()), 1e-30)
                error = max(error, float(np.abs(got.astype(np.float64) - want.astype(np.float64)).max()) / scale)
        if error > 1e-3:
            raise RuntimeError(f"results differ by {error:.1e}")
        theirs, ours, compiled = [], [], 0
        for _ in range(ROUNDS):
            theirs.append(ort.median(feeds))
            time.sleep(0.1)
            said = json.loads(weft("bench", path, inputs, "--json", "--duration", str(SECONDS), "--threads", str(threads)))
            ours.append(said["median_ms"])
            compiled += said["compiled_in_runs"]
    return error, min(theirs), min(ours), compiled


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--markdown")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    make(args.folder, args.words)
    ratios, lines = [], ["| program | error | ORT ms | Weft ms | ORT / Weft |", "|---|---|---|---|---|"]
    for path in sorted(args.folder.glob("*.onnx")):
        if args.words and not any(w in path.stem for w in args.words):
            continue
        try:
            error, theirs, ours, compiled = measure(path, args.threads)
        except Exception as e:
            print(f"{path.stem}: {str(e).splitlines()[0][:200]}", flush=True)
            continue
        ratios.append(theirs / ours)
        lines.append(f"| {path.stem} | {error:.0e} | {theirs:.3f} | {ours:.3f} | {theirs / ours:.2f} |")
        print(lines[-1] + (f" {compiled} compiled in runs" if compiled else ""), flush=True)
    if ratios:
        lines.append(f"\nGeometric mean of {len(ratios)}: {np.exp(np.log(ratios).mean()):.2f}, least {min(ratios):.2f}.")
        print(lines[-1])
    if args.markdown:
        pathlib.Path(args.markdown).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
