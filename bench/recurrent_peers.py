#!/usr/bin/env python3
"""recurrent_peers.py: a training step of tinyflow's char_lstm beside PyTorch's nn.LSTM on one CPU.

    TINYFLOW=build/bin/tinyflow python3 bench/recurrent_peers.py [--batch 32] [--size 256] [--threads 2] [--rounds 3]
                                                                [--markdown]

Needs the Python packages torch and numpy, and a C++ compiler for torch.compile. Both train the same model: an embedding, two
layers of LSTM with dropout between them and behind, a dense layer, soft-max cross-entropy, through 35 characters; gradients
clipped by their norm, Adam, the state carried from step to step. Operands are random class numbers. In every round each
engine runs for some seconds, one after the other; of the medians of the rounds the least counts: load only ever adds.
"forward" is PyTorch's loss alone, in training mode. "... / Weft" above 1: Weft is faster. Not part of the build or the tests.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import time

SECONDS = 3.0
STEPS, LAYERS, DROPOUT, MOST_NORM, CLASSES = 35, 2, 0.2, 5.0, 155  # as char_lstm.cc says


def loop(run):
    times = []
    begin = time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < SECONDS:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def torch_steps(a):
    """name -> a function that takes a step"""
    import torch
    from torch import nn
    import torch.nn.functional as F

    torch.set_num_threads(a.threads)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(CLASSES, a.size)
            self.lstm = nn.LSTM(a.size, a.size, LAYERS, dropout=DROPOUT)
            self.decoder = nn.Linear(a.size, CLASSES)

        def forward(self, x, y, h, c):
            out, (h, c) = self.lstm(self.embedding(x), (h, c))
            logits = self.decoder(F.dropout(out, DROPOUT, self.training))
            return F.cross_entropy(logits.flatten(0, 1), y.flatten()), h.detach(), c.detach()

    def stepper(compiled, fused, train=True):
        torch.manual_seed(0)
        model = Model().train()
        parameters = list(model.parameters())
        optimizer = torch.optim.Adam(parameters, lr=1e-3, fused=fused)
        forward = torch.compile(model) if compiled else model
        x, y = (torch.randint(0, CLASSES, (STEPS, a.batch)) for _ in range(2))
        state = [torch.zeros(LAYERS, a.batch, a.size) for _ in range(2)]

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss, state[0], state[1] = forward(x, y, *state)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, MOST_NORM)
            optimizer.step()
            return loss.item()

        def look():
            with torch.no_grad():
                return forward(x, y, *state)[0].item()
        (step if train else look)()
        return step if train else look

    yield "eager", lambda: stepper(False, False)
    yield "eager, fused Adam", lambda: stepper(False, True)
    yield "compiled", lambda: stepper(True, True)
    yield "eager, forward", lambda: stepper(False, False, False)


def weft(command, a):
    out = subprocess.run([command, "bench", "char_lstm", "--batch", str(a.batch), "--size", str(a.size), "--threads",
                          str(a.threads), "--seconds", str(SECONDS), "--json"], capture_output=True, text=True)
    if out.returncode:
        raise RuntimeError(out.stderr.strip())
    return json.loads(out.stdout)


def main():
    parser = argparse.ArgumentParser()
    for name, value in (("batch", 32), ("size", 256), ("threads", 2), ("rounds", 3)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--markdown", action="store_true")
    a = parser.parse_args()
    command = os.environ.get("TINYFLOW") or shutil.which("tinyflow")
    if not command:
        parser.error("no command tinyflow; set TINYFLOW")
    os.environ.setdefault("OMP_NUM_THREADS", str(a.threads))  # before torch is loaded
    peers, least = {}, {}
    for name, make in torch_steps(a):
        try:
            peers[name] = make()
        except Exception as e:
            print(f"{name}: not run: {str(e).splitlines()[0][:150]}")
    for _ in range(a.rounds):
        for name, step in peers.items():
            least[name] = min(least.get(name, 1e30), loop(step))
        least["Weft"] = min(least.get("Weft", 1e30), weft(command, a)["step_ms"])
    row = "| {} | {:.2f} | {:.2f} |" if a.markdown else "{:20} {:9.2f} ms a step {:6.2f} / Weft"
    if a.markdown:
        print("| engine | ms a step | / Weft |\n|---|---|---|")
    for name, ms in least.items():
        print(row.format(name, ms, ms / least["Weft"]), flush=True)


if __name__ == "__main__":
    main()
