"""common.py: what the scripts of this folder share: numbers made by hashing, as tinyflow/random.h makes them, the
networks, the data set, and parameters of the networks as functions of few numbers.

A state of a network is 430,000 numbers (LeNet) or 270,000 (ResNet-20). So that five states along a run can be kept in
the tree, the run trains 1,024 numbers z, on which every parameter depends through a hash:

    parameter[t][i] = first[t][i] + scale[t] * sign(t, i) * z[bucket(t, i)]

(Chen, Wilson, Tyree, Weinberger, Chen 2015: HashedNets.) `first`, `sign` and `bucket` are hashes of the number t of
the tensor and the number i of the element, equal in Python and in C++. Gradients are compared by all parameters.
"""
import gzip
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

DATA = "/usr/share/datasets/fashion-mnist"
FIRST, PLACE, PROJECT = 101, 102, 103  # what is hashed for
BUCKETS_LOG2 = 10
PROJECTIONS = 16
U64 = np.uint64


def mix(*words):
    """Mix of tinyflow/random.h, of arrays or integers."""
    with np.errstate(over="ignore"):
        z = None
        for w in words:
            w = np.asarray(w, dtype=U64)
            z = w if z is None else z ^ w
            z = z + U64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
            z = z ^ (z >> U64(31))
    return z


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = nn.Linear(800, 500), nn.Linear(500, 10)

    def forward(self, x):
        x = F.max_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.max_pool2d(torch.tanh(self.conv2(x)), 2)
        return self.fc2(torch.tanh(self.fc1(x.flatten(1))))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv1_norm = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.conv2_norm = nn.BatchNorm2d(outputs)
        if stride != 1:
            self.project = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.project_norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        h = F.relu(self.conv1_norm(self.conv1(x)))
        h = self.conv2_norm(self.conv2(h))
        return F.relu(h + (self.project_norm(self.project(x)) if hasattr(self, "project") else x))


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.conv_norm = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        inputs, self.blocks = 16, []
        for stage in range(3):
            for block in range(3):
                made = Block(inputs, 16 << stage, 2 if stage and not block else 1)
                inputs = 16 << stage
                self.add_module(f"stage{stage + 1}_{block + 1}", made)
                self.blocks.append(made)
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv_norm(self.conv(x)))
        for block in self.blocks:
            x = block(x)
        return self.fc(x.mean((2, 3)))


class Network:
    """A network, its batches, and its parameters as functions of z."""

    def __init__(self, name):
        self.name = name
        self.module = {"lenet": LeNet, "resnet20": ResNet20}[name]().train()
        self.batch = {"lenet": 64, "resnet20": 32}[name]
        self.parameters = dict(self.module.named_parameters())
        self.names = sorted(self.parameters)
        self.scale, self.first, self.sign, self.bucket, self.element = {}, {}, {}, {}, {}
        for t, key in enumerate(self.names):
            p = self.parameters[key]
            # Numbers of elements as tinyflow stores them: weights of dense layers are [inputs, outputs].
            count = np.arange(p.numel(), dtype=np.int64)
            shape = tuple(p.shape[::-1]) if p.dim() == 2 else tuple(p.shape)
            element = count.reshape(shape)
            self.element[key] = element.T if p.dim() == 2 else element
            i = self.element[key]
            norm, bias = "norm" in key, key.endswith("bias")
            if norm:
                bound = 0.0
            elif name == "resnet20" and p.dim() == 4:
                bound = np.sqrt(6.0 / np.prod(p.shape[1:]))
            else:
                weight = self.parameters[key.rsplit(".", 1)[0] + ".weight"]
                bound = 1.0 / np.sqrt(float(np.prod(weight.shape[1:])))
            unit = (mix(FIRST, t, i) >> U64(40)).astype(np.float64) * 2.0**-24
            first = bound * (2 * unit - 1) + (1.0 if norm and not bias else 0.0)
            self.first[key] = first.astype(np.float32).astype(np.float64)
            place = mix(PLACE, t, i)
            self.bucket[key] = (place >> U64(64 - BUCKETS_LOG2)).astype(np.int64)
            self.sign[key] = 1.0 - 2.0 * (place & U64(1)).astype(np.float64)
            self.scale[key] = 0.5 if norm else bound

    def state(self, z):
        """All parameters for one z, in float32, each computed in float64."""
        z = z.astype(np.float64)
        return {k: (self.first[k] + self.scale[k] * self.sign[k] * z[self.bucket[k]]).astype(np.float32)
                for k in self.names}

    def load(self, state, dtype=torch.float32):
        self.module.to(dtype)  # in place
        with torch.no_grad():
            for k, p in self.module.named_parameters():
                p.copy_(torch.from_numpy(state[k]))
            for m in self.module.modules():
                if isinstance(m, nn.BatchNorm2d):
                    m.reset_running_stats()

    def offsets(self):
        """Names of the offsets of the normalizations, which a state may hold itself."""
        return [k for k in self.names if "norm" in k and k.endswith("bias")]

    def keep_off_zero(self, state, number, window=2e-3):
        """Moves the offset of every channel by at most `window`, so that no operand of a Relu is near 0."""
        self.load(state, torch.float64)
        x, _ = self.pictures(number, torch.float64)

        def widen(norm, values):
            """`values` go to a Relu; the offset of `norm` is part of them."""
            for c in range(values.shape[1]):
                v = values[:, c].flatten()
                v = np.sort(v[v.abs() < window].numpy())
                v = np.concatenate(([-window], v, [window]))
                gap = int(np.argmax(np.diff(v)))
                old = float(norm.bias[c])
                new = float(np.float32(old - (v[gap] + v[gap + 1]) / 2))
                norm.bias[c] = new
                values[:, c] += new - old
            return F.relu(values)

        net = self.module
        with torch.no_grad():
            h = widen(net.conv_norm, net.conv_norm(net.conv(x)))
            for b in net.blocks:
                skip = b.project_norm(b.project(h)) if hasattr(b, "project") else h
                h = widen(b.conv1_norm, b.conv1_norm(b.conv1(h)))
                h = widen(b.conv2_norm, b.conv2_norm(b.conv2(h)) + skip)
            moved = {k: dict(net.named_parameters())[k].numpy().astype(np.float32) for k in self.offsets()}
        net.float()
        return {**state, **moved}

    def pictures(self, number, dtype=torch.float32):
        x, y = training_set()
        at = slice(number * self.batch, (number + 1) * self.batch)
        x, y = x[at].astype(np.float64), y[at].astype(np.int64)
        if self.name == "lenet":
            x = (x / 255)[:, None]
        else:
            x = np.pad(x, ((0, 0), (2, 2), (2, 2)))
            x = np.repeat(((x / 255 - 0.2860) / 0.3530)[:, None], 3, axis=1)
        return torch.from_numpy(x.astype(np.float32)).to(dtype), torch.from_numpy(y)

    def gradients(self, state, number, dtype=torch.float32, noise=0.0, seed=0):
        """Loss, and per tensor the projections of its gradient and its norm. `noise` is relative."""
        self.load(state, dtype)
        x, y = self.pictures(number, dtype)
        if noise:
            torch.manual_seed(seed)
            x = x * (1 + noise * torch.randn_like(x))
            with torch.no_grad():
                for p in self.module.parameters():
                    p.mul_(1 + noise * torch.randn_like(p))
        self.module.zero_grad()
        loss = F.cross_entropy(self.module(x), y)
        loss.backward()
        rows = []
        for t, key in enumerate(self.names):
            g = dict(self.module.named_parameters())[key].grad.double().numpy()
            bits = mix(PROJECT, t, self.element[key])
            row = [float((g * (1.0 - 2.0 * ((bits >> U64(k)) & U64(1)).astype(np.float64))).sum())
                   for k in range(PROJECTIONS)]
            rows.append(row + [float(np.sqrt((g * g).sum()))])
        self.module.float()
        return float(loss), rows

    def run_free(self, steps, dtype=torch.float32, channels_last=False):
        """Losses of the first steps of Adam from z = 0."""
        self.load(self.state(np.zeros(1 << BUCKETS_LOG2)), dtype)
        layout = torch.channels_last if channels_last else torch.contiguous_format
        self.module.to(memory_format=layout)
        optimizer = torch.optim.Adam(self.module.parameters(), lr=1e-3)
        losses = []
        for step in range(steps):
            x, y = self.pictures(step, dtype)
            optimizer.zero_grad()
            loss = F.cross_entropy(self.module(x.to(memory_format=layout)), y)
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        self.module.to(memory_format=torch.contiguous_format)
        return losses


_set = []


def training_set():
    if not _set:
        for file, offset in (("train-images-idx3-ubyte.gz", 16), ("train-labels-idx1-ubyte.gz", 8)):
            with gzip.open(os.path.join(DATA, file)) as f:
                _set.append(np.frombuffer(f.read(), dtype=np.uint8, offset=offset))
        _set[0] = _set[0].reshape(-1, 28, 28)
    return _set
