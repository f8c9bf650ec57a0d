#!/usr/bin/env python3
"""make_reference.py: PyTorch's side of tests/reference_test.cc. Writes, for LeNet and ResNet-20, beside this file:

    NAME_states.npy        z of five states along a run (float32 [5, 1024]); see common.py
    resnet20_offsets.npy   the offsets of all normalizations at these states. Gradients jump where the operand of a Relu
                           is a rounding error away from 0: PyTorch's own float32 is 1e-2 from its float64, and its
                           variants are as far from each other. So the offset of every channel is moved by up to 2e-3,
                           to the middle of the widest gap between operands
    NAME_gradients.npy     per state and tensor: 16 projections of the gradient, and its norm (float64 [5, tensors, 17])
    NAME.json              losses of the states; losses of the first steps of a free run with Adam, in float64, and
                           the lowest and highest of PyTorch's float32 variants (threads, layout, library)

usage: make_reference.py [lenet] [resnet20]        needs torch and the Debian package dataset-fashion-mnist
"""
import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch.func import functional_call

from common import BUCKETS_LOG2, Network

HERE = pathlib.Path(__file__).resolve().parent
STATES = {"lenet": (0, 10, 40, 120, 250), "resnet20": (0, 5, 20, 50, 100)}
RATE = {"lenet": 0.05, "resnet20": 0.02}
FREE_STEPS = 20
WELL_CONDITIONED = 4e-4  # what noise and PyTorch's float32 may move projections by
NOISE, NOISY_RUNS = 1e-7, 4


def look(net, state, number):
    """Loss and rows of gradients in float64, and how far float32 and noise move them."""
    loss, row = net.gradients(state, number, torch.float64)
    row, worst = np.array(row), 0.0
    for trial in range(2 + NOISY_RUNS):
        if trial < 2:
            with torch.backends.mkldnn.flags(enabled=trial == 0):
                other = net.gradients(state, number)[1]
        else:
            other = net.gradients(state, number, torch.float64, noise=NOISE, seed=trial)[1]
        worst = max(worst, float((np.abs(np.array(other) - row)[:, :-1].max(1) / row[:, -1]).max()))
    print(f"  state {number}: loss {loss:.7f}, projections move by {worst:.1e}", flush=True)
    return loss, row.tolist(), worst


def train(net):
    """(step, z, loss, gradients, distance, state) from each of STATES on: a run of PyTorch over z."""
    z = torch.zeros(1 << BUCKETS_LOG2, dtype=torch.float32, requires_grad=True)
    optimizer = torch.optim.Adam([z], lr=RATE[net.name])
    fixed = {k: [torch.from_numpy(a[k]).to(d) for a, d in
                 ((net.first, torch.float32), (net.sign, torch.float32), (net.bucket, torch.int64))]
             for k in net.names}
    kept = []
    for step in range(STATES[net.name][-1] + 20):
        if len(kept) < len(STATES[net.name]) and step >= STATES[net.name][len(kept)]:
            now, number = z.detach().numpy().copy(), len(kept)
            state = net.state(now)
            if net.offsets():
                state = net.keep_off_zero(state, number)
            found = look(net, state, number)
            # Else two candidates of a maximum are as near to each other: the next step.
            if found[2] < WELL_CONDITIONED:
                kept.append((step, now, *found, state))
        if len(kept) == len(STATES[net.name]):
            break
        x, y = net.pictures(step)
        state = {k: first + net.scale[k] * sign * z[bucket] for k, (first, sign, bucket) in fixed.items()}
        loss = F.cross_entropy(functional_call(net.module, state, (x,)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print(f"  step {step}: loss {loss.item():.4f}", flush=True)
    return kept


def variants(net):
    """(description, losses) of free runs in float32."""
    for threads in (1, 2, 3):
        for last in (False, True):
            for library in (True, False):
                torch.set_num_threads(threads)
                with torch.backends.mkldnn.flags(enabled=library):
                    text = f"{threads} threads, {'NHWC' if last else 'NCHW'}, oneDNN {'on' if library else 'off'}"
                    yield text, net.run_free(FREE_STEPS, channels_last=last)
    torch.set_num_threads(2)


def main(name):
    print(name, flush=True)
    torch.set_num_threads(2)
    net = Network(name)
    states = train(net)
    assert len(states) == len(STATES[name])
    free64 = net.run_free(FREE_STEPS, torch.float64)
    net.module.float()
    runs = list(variants(net))
    for text, run in runs:
        print(f"  {text}: last loss {run[-1]:.6f}, float64 {free64[-1]:.6f}")
    all_runs = np.array([run for _, run in runs])
    np.save(HERE / f"{name}_states.npy", np.stack([s[1] for s in states]))
    np.save(HERE / f"{name}_gradients.npy", np.array([s[3] for s in states]))
    if net.offsets():
        rows = [np.concatenate([s[5][k] for k in net.offsets()]) for s in states]
        np.save(HERE / f"{name}_offsets.npy", np.stack(rows))
    (HERE / f"{name}.json").write_text(json.dumps({
        "made_with": "torch " + torch.__version__, "tensors": net.names, "batch": net.batch,
        "steps_of_states": [s[0] for s in states], "loss_of_state": [s[2] for s in states],
        "projections_move_by": [s[4] for s in states], "free_run_float64": free64,
        "free_run_lowest": all_runs.min(0).tolist(), "free_run_highest": all_runs.max(0).tolist(),
        "free_run_variants": [text for text, _ in runs]}, indent=1) + "\n")


for chosen in sys.argv[1:] or ("lenet", "resnet20"):
    main(chosen)
