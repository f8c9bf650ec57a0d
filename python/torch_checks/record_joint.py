"""Writes python/tests/recorded/joint.gz: joint graphs of operators, with what autograd gives."""

from __future__ import annotations

import gzip
import json
import pathlib
import sys
from typing import Any

import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import joint  # noqa: E402
import seeded  # noqa: E402

TARGET = HERE.parent / "tests" / "recorded" / "joint.gz"
# One of each backward operator, and a second form where operands or statistics differ.
NAMES = (
    "relu", "tanh", "sigmoid", "gelu", "gelu tanh", "hardswish", "hardsigmoid", "relu6 at bounds",
    "elu", "leaky_relu", "softplus", "logsigmoid", "glu", "prelu",
    "conv2d", "conv2d weight alone", "conv2d groups", "conv2d depthwise", "conv1d",
    "conv_transpose2d groups",
    "max_pool2d ceil in the padding tied", "max_pool2d oblong", "avg_pool2d uncounted",
    "avg_pool2d ceil", "adaptive_avg_pool2d (4, 3)", "grid_sample", "pad reflect",
    "layer_norm", "layer_norm plain", "group_norm", "group_norm plain", "batch_norm training",
    "batch_norm training, scale alone", "batch_norm eval", "weight_norm",
    "softmax", "log_softmax", "nll_loss ignored", "nll_loss weights", "nll_loss2d", "mse_loss mean",
    "smooth_l1_loss sum", "huber_loss none", "binary_cross_entropy mean",
    "sdpa", "sdpa causal", "sdpa mask of whole rows", "sdpa float mask",
    "embedding padding", "select", "slice", "unfold", "diagonal", "gather", "index",
    "index_put add", "writes through views", "cdist", "var, std",
)  # fmt: skip


def _keep(array: Any) -> dict[str, Any]:
    values = np.asarray(array)
    return {
        "dtype": values.dtype.name,
        "dims": list(values.shape),
        "values": [round(v, 3) if isinstance(v, float) else v for v in values.ravel().tolist()],
    }


def main() -> None:
    table = {case[1]: case for case in joint.cases()}
    kept = []
    for name in NAMES:
        op, _, function, given, still = table[name]
        # Of few digits, so that the file is small.
        args = tuple(
            torch.round(a, decimals=3) if isinstance(a, torch.Tensor) and a.is_floating_point()
            else a
            for a in given
        )  # fmt: skip
        traced = joint.trace((op, name, function, args, still), torch.float64)
        record = traced.captured.record
        record.stacks = [() for _ in record.stacks]
        names = [o.name for o in record.outputs if o.value is not None]
        kept.append({
            "name": name,
            "tolerance": max(joint.COARSE.get(op, 0.0), 1e-9),
            "record": json.loads(record.to_json()),
            "tensors": {k: _keep(v.numpy()) for k, v in traced.captured.tensors.items()},
            "feeds": [_keep(f) for f in traced.feeds],
            "outputs": {n: seeded.project(n, w) for n, w in zip(names, traced.want)},
        })  # fmt: skip
        print(name, flush=True)
    data = gzip.compress(json.dumps(kept, separators=(",", ":")).encode(), 9, mtime=0)
    TARGET.write_bytes(data)
    print(len(data), "bytes")


if __name__ == "__main__":
    main()
