#!/usr/bin/env python3
"""make_recurrent_reference.py: PyTorch's side of tests/recurrent_reference_test.cc, in float64. Writes recurrent.json beside
this file:

    cases   nn.LSTM and nn.GRU of two layers, one way and both, sequences of one length and of several: the loss, a
            weighted sum of all they give, and of every gradient 8 projections and the norm
    model   a language model (embedding, two layers of LSTM, a dense layer) trained by Adam with clipped gradients, its
            state carried from batch to batch: the loss and the norm of the gradient at every step

Parameters and operands are hashes of what they are for (common.py), in the layout of ONNX's operators.

usage: make_recurrent_reference.py        needs torch
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from common import PROJECT, U64, mix

HERE = pathlib.Path(__file__).resolve().parent
PARAMETER, OPERAND, WEIGHT, TEXT = 111, 112, 113, 114
PROJECTIONS = 8
STEPS, BATCH, INPUTS, UNITS, LAYERS = 7, 3, 5, 6, 2
LENGTHS = [7, 4, 2]
# ONNX's order of gates, by PyTorch's: i o f g of i f g o, and z r h of r z n.
GATES = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2]}
MODEL = {"classes": 11, "units": 12, "batch": 4, "steps": 9, "runs": 12, "rate": 0.03, "most": 0.25}


def numbers(purpose, t, shape, bound=1.0):
    """In [-bound, bound)."""
    i = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    unit = (mix(purpose, t, i) >> U64(40)).astype(np.float64) * 2.0**-24
    return (bound * (2 * unit - 1)).astype(np.float32).astype(np.float64)


def reordered(x, kind, back=False):
    """Blocks of gates along axis 0: PyTorch's from ONNX's, or the other way."""
    order = GATES[kind]
    parts = np.split(x, len(order))
    if back:
        return np.concatenate([parts[g] for g in order])
    return np.concatenate([parts[order.index(g)] for g in range(len(order))])


class Layers:
    """The parameters of nn.LSTM or nn.GRU in ONNX's layout: [(name, value)] by layer."""

    def __init__(self, module, kind, first=0):
        self.module, self.kind, self.first = module, kind, first

    def each(self):
        """(number, names in PyTorch of a direction, shape)"""
        m, t = self.module, self.first
        ways = ["", "_reverse"][: 2 if m.bidirectional else 1]
        for k in range(m.num_layers):
            for what in (["weight_ih"], ["weight_hh"], ["bias_ih", "bias_hh"]):
                yield t, [[f"{w}_l{k}{way}" for w in what] for way in ways]
                t += 1

    def load(self):
        bound = 1 / np.sqrt(self.module.hidden_size)
        with torch.no_grad():
            for t, ways in self.each():
                shapes = [[getattr(self.module, n).shape for n in way] for way in ways]
                whole = [len(ways), sum(s[0] for s in shapes[0]), *shapes[0][0][1:]]
                value = numbers(PARAMETER, t, whole, bound)
                for way, v in zip(ways, value):
                    for name, part in zip(way, np.split(v, len(way))):
                        getattr(self.module, name).copy_(torch.from_numpy(reordered(part, self.kind)))

    def gradients(self):
        for t, ways in self.each():
            grads = [np.concatenate([reordered(getattr(self.module, n).grad.numpy(), self.kind, True) for n in way])
                     for way in ways]
            yield t, np.stack(grads)


def row(t, g):
    i = np.arange(g.size, dtype=np.int64).reshape(g.shape)
    bits = mix(PROJECT, t, i)
    signs = [1.0 - 2.0 * ((bits >> U64(k)) & U64(1)).astype(np.float64) for k in range(PROJECTIONS)]
    return [float((g * s).sum()) for s in signs] + [float(np.sqrt((g * g).sum()))]


def case(kind, both, lengths):
    module = getattr(nn, kind)(INPUTS, UNITS, LAYERS, bidirectional=both).double()
    layers = Layers(module, kind)
    layers.load()
    x = torch.from_numpy(numbers(OPERAND, 0, [STEPS, BATCH, INPUTS])).requires_grad_()
    ways = 2 if both else 1
    first = [torch.from_numpy(numbers(OPERAND, 1 + i, [LAYERS * ways, BATCH, UNITS])).requires_grad_()
             for i in range(2 if kind == "LSTM" else 1)]
    operand = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(LENGTHS)) if lengths else x
    y, last = module(operand, tuple(first) if kind == "LSTM" else first[0])
    if lengths:
        y = nn.utils.rnn.pad_packed_sequence(y, total_length=STEPS)[0]
    last = last if kind == "LSTM" else (last,)
    loss = (y * torch.from_numpy(numbers(WEIGHT, 0, y.shape))).sum()
    for i, s in enumerate(last):
        loss = loss + (s * torch.from_numpy(numbers(WEIGHT, 1 + i, s.shape))).sum()
    loss.backward()
    rows = [row(t, g) for t, g in layers.gradients()]
    return {"kind": kind, "both_ways": both, "lengths": lengths, "loss": float(loss.detach()), "gradients": rows,
            "gradient_of_x": row(100, x.grad.numpy()),
            "gradients_of_state": [row(101 + i, s.grad.numpy()) for i, s in enumerate(first)]}


def model():
    m = MODEL
    units, classes = m["units"], m["classes"]
    embedding, lstm = nn.Embedding(classes, units).double(), nn.LSTM(units, units, LAYERS).double()
    dense = nn.Linear(units, classes).double()
    Layers(lstm, "LSTM", first=1).load()
    with torch.no_grad():
        embedding.weight.copy_(torch.from_numpy(numbers(PARAMETER, 0, [classes, units])))
        bound = 1 / np.sqrt(units)
        dense.weight.copy_(torch.from_numpy(numbers(PARAMETER, 7, [units, classes], bound).T))
        dense.bias.copy_(torch.from_numpy(numbers(PARAMETER, 8, [classes], bound)))
    parameters = [p for module in (embedding, lstm, dense) for p in module.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=m["rate"])
    # A text with a rule: the next is the last one and something small, most of the time.
    count = m["runs"] * m["steps"] + 1
    h = mix(TEXT, np.arange(m["batch"] * count).reshape(m["batch"], count))
    text = (np.cumsum(h & U64(1), axis=1) % U64(classes)).astype(np.int64)
    state = [torch.zeros(LAYERS, m["batch"], units, dtype=torch.float64) for _ in range(2)]
    losses, norms = [], []
    for run in range(m["runs"]):
        at = run * m["steps"]
        x, y = (torch.from_numpy(text[:, a:a + m["steps"]].T.copy()) for a in (at, at + 1))
        h, last = lstm(embedding(x), tuple(state))
        loss = F.cross_entropy(dense(h).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = torch.sqrt(sum((p.grad ** 2).sum() for p in parameters))
        for p in parameters:
            p.grad *= m["most"] / max(float(norm), m["most"])
        optimizer.step()
        state = [s.detach() for s in last]
        losses.append(float(loss.detach()))
        norms.append(float(norm))
    return {**m, "text": text.tolist(), "losses": losses, "norms": norms}


def main():
    torch.set_num_threads(1)
    cases = [case(kind, both, lengths) for kind in ("LSTM", "GRU") for both in (False, True) for lengths in (False, True)]
    found = {"made_with": "torch " + torch.__version__, "lengths": LENGTHS, "cases": cases, "model": model()}
    text = json.dumps(found)
    (HERE / "recurrent.json").write_text(text.replace('"kind"', '\n "kind"').replace('"made_with"', '\n "made_with"')
                                         .replace('"model"', '\n"model"') + "\n")
    print(f"{len(text)} bytes; losses of the model {found['model']['losses'][0]:.4f} to {found['model']['losses'][-1]:.4f}, "
          f"norms {min(found['model']['norms']):.3f} to {max(found['model']['norms']):.3f}")


main()
