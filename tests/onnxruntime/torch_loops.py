#!/usr/bin/env python3
"""torch_loops.py [WORD ..]: control flow and recurrences as PyTorch writes them, with dynamic dimensions: torch.export's cond,
while_loop, scan, recurrent layers and sizes that data decide; and scripted loops of TorchScript, which become Loop, If and sequences.
Each at several dimensions in one session: cpu, cpu:no-fusion and ref give what PyTorch gives, and nothing is compiled in runs. Where
they do not, the line says with whom ONNX Runtime agrees; a program that PyTorch itself does not export is told and left out.

Needs torch, onnxscript, numpy, onnx, onnxruntime and the library of the tree (WEFT_LIBRARY)."""
import io
import logging
import sys
import warnings
from typing import List

import numpy as np
import onnx
import torch
from torch import nn

import control_flow
import weft_library

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
PROGRAMS = {}  # name: (module, several tuples of inputs, dynamic axes of each input, scripted)


def program(*inputs, dims=None, scripted=False):
    """Of a class without arguments. `inputs`: functions of (a, b), the two dynamic sizes; `dims`: axes of sizes a and b of each."""
    def add(cls):
        torch.manual_seed(len(PROGRAMS))
        sizes = [(3, 4), (2, 3), (7, 5), (1, 2), (2, 1), (16, 9)]
        PROGRAMS[cls.__name__] = (cls().eval(), [tuple(f(a, b) for f in inputs) for a, b in sizes], dims, scripted)
        return cls
    return add


def rand(*shape):
    return torch.randn(*shape)


def recurrent(name, kind, batch_first=False, state=False, **options):
    both = 2 if options.get("bidirectional") else 1
    layers = options.get("num_layers", 1)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = getattr(nn, kind)(5, 6, batch_first=batch_first, **options)

        def forward(self, x, *h):
            y, last = self.cell(x, tuple(h) if len(h) > 1 else h[0] if h else None)
            return (y, *last) if isinstance(last, tuple) else (y, last)
    Layer.__name__ = name
    x = lambda a, b: rand(a, b, 5)
    dims = [{0: "a", 1: "b"}]
    inputs = [x]
    if state:
        for size in [options.get("proj_size") or 6, 6][:2 if kind == "LSTM" else 1]:
            inputs.append(lambda a, b, size=size: rand(layers * both, a if batch_first else b, size))
            dims.append({1: "a" if batch_first else "b"})
    program(*inputs, dims=dims)(Layer)


recurrent("lstm", "LSTM")
recurrent("lstm_batch_first", "LSTM", batch_first=True)
recurrent("lstm_deep_both_ways", "LSTM", num_layers=2, bidirectional=True)
recurrent("lstm_state", "LSTM", state=True, batch_first=True, bidirectional=True)
recurrent("lstm_projected", "LSTM", proj_size=3, state=True)
recurrent("lstm_without_bias", "LSTM", bias=False, num_layers=2)
recurrent("gru", "GRU")
recurrent("gru_both_ways", "GRU", bidirectional=True, batch_first=True)
recurrent("gru_state", "GRU", num_layers=2, state=True)
recurrent("rnn_relu", "RNN", nonlinearity="relu", num_layers=2)
recurrent("rnn_tanh_state", "RNN", state=True, bidirectional=True, batch_first=True)


@program(lambda a, b: rand(a, b), dims=[{0: "a", 1: "b"}])
class CondByData(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: torch.relu(x) + 1, lambda x: torch.sin(x) * 2, (x,))


@program(lambda a, b: rand(a, 4), dims=[{0: "a"}])
class CondCaptures(nn.Module):
    def __init__(self):
        super().__init__()
        self.f, self.g = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        y = x.cumsum(0)
        return torch.cond(y[-1].mean() > 0.1, lambda x: self.f(x) + y.mean(), lambda x: torch.tanh(self.g(x)), (x,)) * 2


@program(lambda a, b: rand(a, b), dims=[{0: "a", 1: "b"}])
class CondInCond(nn.Module):
    def forward(self, x):
        def inner(x):
            return torch.cond(x.max() > 1, lambda x: x - x.max(), lambda x: x * 2, (x,))
        return torch.cond(x.sum() > 0, inner, lambda x: x.abs(), (x,))


@program(lambda a, b: rand(a, b), lambda a, b: torch.tensor(a % 5), dims=[{0: "a", 1: "b"}, {}])
class While(nn.Module):
    def forward(self, x, n):
        def body(i, x, s):
            return i + 1, torch.tanh(x) + 0.25, s + x.sum()
        return torch._higher_order_ops.while_loop(lambda i, x, s: i < n, body, (torch.zeros((), dtype=torch.int64), x, torch.zeros(())))[1:]


@program(lambda a, b: torch.rand(a, b) + 0.5, dims=[{0: "a", 1: "b"}])
class WhileNewton(nn.Module):
    def forward(self, x):
        def more(y, x):
            return (y * y - x).abs().max() > 1e-3
        return torch._higher_order_ops.while_loop(more, lambda y, x: ((y + x / y) / 2, x.clone()), (x + 1, x))[0]


@program(lambda a, b: rand(a, b), dims=[{0: "a", 1: "b"}])
class WhileInCondInWhile(nn.Module):
    def forward(self, x):
        def inner(x):
            return torch._higher_order_ops.while_loop(lambda j, x: j < 3, lambda j, x: (j + 1, torch.sin(x) + 0.1),
                                                      (torch.zeros((), dtype=torch.int64), x))[1]

        def outer(i, x):
            return i + 1, torch.cond(x.sum() > 0, inner, lambda x: x + 1, (x,))
        return torch._higher_order_ops.while_loop(lambda i, x: i < 4, outer, (torch.zeros((), dtype=torch.int64), x))[1]


def scan(*args, **options):
    from torch._higher_order_ops.scan import scan
    return scan(*args, **options)


@program(lambda a, b: rand(b, 4), lambda a, b: rand(a, b, 4), dims=[{0: "b"}, {0: "a", 1: "b"}])
class ScanCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.u = (nn.Parameter(torch.randn(4, 4) / 2) for _ in range(2))

    def forward(self, h, x):
        def step(h, v):
            h = torch.tanh(h @ self.u + v @ self.w)
            return h, h * 2
        return scan(step, h, x)


@program(lambda a, b: rand(b), lambda a, b: rand(a, b), dims=[{0: "b"}, {0: "a", 1: "b"}])
class ScanDictReverse(nn.Module):
    def forward(self, h, x):
        def step(s, v):
            a = s["a"] * 0.9 + v
            b = torch.maximum(s["b"], a)
            return {"a": a, "b": b}, a + b
        s, y = scan(step, {"a": h, "b": h.clone()}, x, reverse=True)
        return s["a"], s["b"], y


@program(lambda a, b: rand(b), lambda a, b: rand(a, b), dims=[{0: "b"}, {0: "a", 1: "b"}])
class ScanTwoInputs(nn.Module):
    def forward(self, h, x):
        def step(h, v):
            a, b = v
            h = torch.sigmoid(h + a) * b
            return h, (h + 1, h.sum())
        h, (y, s) = scan(step, h, (x, x.cos()))
        return h, y, s


@program(lambda a, b: rand(a, b), dims=[{0: "a", 1: "b"}])
class NonZero(nn.Module):
    def forward(self, x):
        i = torch.nonzero(x > 0)
        return i, i.sum(0)


@program(lambda a, b: rand(a, b), dims=[{0: "a", 1: "b"}])
class Masked(nn.Module):
    def forward(self, x):
        y = x[x > 0.2]
        return y * 2, torch.cumsum(y, 0)


@program(lambda a, b: torch.randint(0, 4, (a, b)), dims=[{0: "a", 1: "b"}])
class UniqueCounts(nn.Module):
    def forward(self, x):
        values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
        return values, inverse, counts, counts.max()


@program(lambda a, b: rand(a, b), dims=[{0: "a", 1: "b"}])
class TopHalf(nn.Module):
    def forward(self, x):
        k = (x.shape[0] + 1) // 2
        v, i = torch.topk(x, k, dim=0)
        return v, i, x.gather(0, i) - v


@program(lambda a, b: rand(a, b), dims=[{0: "a", 1: "b"}])
class Positions(nn.Module):
    def forward(self, x):
        p = torch.arange(x.shape[0] + x.shape[1], device=x.device)
        hide = p[None, :x.shape[1]] > p[:x.shape[0], None]
        return x.masked_fill(hide, -1.0), torch.zeros(x.shape[1], x.shape[0]) + x.t()


# ---- TorchScript
@program(lambda a, b: rand(a, b), dims=[{0: "a", 1: "b"}], scripted=True)
class ScriptSum(nn.Module):
    def forward(self, x):
        s = torch.zeros_like(x[0])
        for i in range(x.size(0)):
            s = s * 0.5 + x[i]
        return s


@program(lambda a, b: rand(a, b), dims=[{0: "a", 1: "b"}], scripted=True)
class ScriptList(nn.Module):
    def forward(self, x):
        out: List[torch.Tensor] = []
        h = x[0]
        for i in range(x.size(0)):
            h = torch.tanh(h + x[i])
            out.append(h * 2)
        return torch.stack(out), h


@program(lambda a, b: rand(a, b), dims=[{0: "a", 1: "b"}], scripted=True)
class ScriptListOfParts(nn.Module):
    def forward(self, x):
        out: List[torch.Tensor] = []
        for i in range(x.size(0)):
            if bool(x[i].sum() > 0):
                out.append(x[i:i + 1])
            else:
                out.append(x[: i + 1] * 2)
        return torch.cat(out, 0)


@program(lambda a, b: rand(a, b), dims=[{0: "a", 1: "b"}], scripted=True)
class ScriptWhile(nn.Module):
    def forward(self, x):
        n = 0
        while bool(x.abs().sum() > 1.0) and n < 20:
            x = x * 0.7
            n += 1
        return x, torch.tensor(n)


@program(lambda a, b: rand(a, b), dims=[{0: "a", 1: "b"}], scripted=True)
class ScriptBreak(nn.Module):
    def forward(self, x):
        s = torch.zeros(x.size(1))
        for i in range(x.size(0)):
            if bool(s.sum() > 2.0):
                break
            if bool(x[i, 0] < 0.0):
                continue
            s = s + x[i].abs()
        return s


@program(lambda a, b: rand(a, b), dims=[{0: "a", 1: "b"}], scripted=True)
class ScriptNested(nn.Module):
    def forward(self, x):
        y = x
        for i in range(x.size(0)):
            for j in range(x.size(1)):
                if i != j:
                    y = y + x[i, j] * 0.1
                else:
                    y = torch.sin(y)
        return y


@program(lambda a, b: rand(a, b), dims=[{0: "a", 1: "b"}], scripted=True)
class ScriptRank(nn.Module):
    def forward(self, x):
        if x.size(0) > 3:
            y = x.sum(0)
        else:
            y = x.mean(0) - x[0]
        if bool(y.sum() > 0):
            return y * 2
        return y - 1


@program(lambda a, b: rand(a, b), dims=[{0: "a", 1: "b"}], scripted=True)
class ScriptPop(nn.Module):
    """Two lists, elements read and replaced."""
    def forward(self, x):
        rows: List[torch.Tensor] = []
        for i in range(x.size(0)):
            rows.append(x[i])
        s = rows[0]
        for i in range(1, len(rows)):
            s = s + rows[i] * rows[i - 1]
        return s, torch.tensor(len(rows))


@program(lambda a, b: rand(a, b), lambda a, b: torch.tensor(b), dims=[{0: "a", 1: "b"}, {}], scripted=True)
class ScriptGreedy(nn.Module):
    """Grows a sequence by what it holds, as greedy decoding does."""
    def forward(self, x, n):
        out = torch.argmax(x[:, :1], 0)
        for i in range(int(n)):
            scores = x.sum(1) + out.float().sum() * 0.01
            out = torch.cat([out, torch.argmax(scores, 0, keepdim=True)])
        return out


@program(lambda a, b: rand(a, b, 4), dims=[{0: "a", 1: "b"}], scripted=True)
class ScriptLstmCells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 5)

    def forward(self, x):
        h, c = torch.zeros(x.size(1), 5), torch.zeros(x.size(1), 5)
        out: List[torch.Tensor] = []
        for i in range(x.size(0)):
            h, c = self.cell(x[i], (h, c))
            out.append(h)
        return torch.stack(out), c


def export(module, inputs, dims, scripted):
    names = [f"x{i}" for i in range(len(inputs))]
    if scripted:
        file = io.BytesIO()
        torch.onnx.export(torch.jit.script(module), inputs, file, dynamo=False, input_names=names,
                          dynamic_axes={n: d for n, d in zip(names, dims) if d}, opset_version=17)
        return onnx.load_model_from_string(file.getvalue())
    symbols = {"a": torch.export.Dim("a", min=1, max=64), "b": torch.export.Dim("b", min=1, max=64)}
    shapes = tuple({axis: torch.export.Dim.DYNAMIC for axis in d} for d in dims)
    varargs = hasattr(module, "cell") and len(inputs) > 1
    done = torch.onnx.export(module, inputs, dynamo=True, verbose=False, dynamic_shapes=(shapes[0], shapes[1:]) if varargs else shapes, input_names=names)
    return done.model_proto


def flat(out):
    return [t.detach().numpy() for t in (out if isinstance(out, (tuple, list)) else [out])]


class Outputs:
    """What control_flow.first_apart asks of a program."""

    def __init__(self, model):
        self.model = model
        self.outputs = [type("Output", (), {"name": o.name, "kind": "tensor"}) for o in model.graph.output]


def main(words):
    wrong = total = runs = left_out = 0
    for name, (module, inputs, dims, scripted) in PROGRAMS.items():
        if words and not any(w in name for w in words):
            continue
        try:
            with torch.no_grad():
                model = export(module, inputs[0], dims, scripted)
        except Exception as e:
            left_out += 1
            print(f"{name}: PyTorch does not export it: {str(e).strip().splitlines()[0][:160]}", flush=True)
            continue
        total += 1
        p, faults = Outputs(model), []
        names = [i.name for i in model.graph.input]
        feeds = [dict(zip(names, [np.asarray(t.numpy()) for t in case])) for case in inputs]
        with torch.no_grad():
            wants = [flat(module(*case)) for case in inputs]
        for engine in control_flow.ENGINES:
            try:
                loaded = weft_library.Program(model, engine)
            except weft_library.WeftError as e:
                faults.append(f"{engine}: not compiled: {str(e)[:300]}")
                continue
            for k, (f, want) in enumerate(zip(feeds, wants)):
                runs += 1
                try:
                    got = loaded.run(f)
                except weft_library.WeftError as e:
                    theirs = control_flow.onnxruntime_runs(model, f)
                    faults.append(f"{engine}, {k}: {str(e)[:300]}; ONNX Runtime: {theirs[:80] if isinstance(theirs, str) else 'runs'}")
                    break
                want = [w.astype(g.dtype) if w.shape == g.shape else w for w, g in zip(want, got)]  # integers of Python
                error = control_flow.first_apart(p, want, got, 1e-4)
                if error:
                    faults.append(f"{engine}, {k}: {error}; {control_flow.third_voice(p, f, want, got, 1e-4)}")
                    break
            if loaded.compiled:
                faults.append(f"{engine}: compiled {loaded.compiled} in runs")
        wrong += bool(faults)
        for f in faults:
            print(f"{name}: {f}", flush=True)
    print(f"{total - wrong} of {total} programs right, {runs} runs; {left_out} that PyTorch does not export")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
