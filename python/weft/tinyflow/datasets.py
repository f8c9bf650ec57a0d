"""Pictures with classes. In MNIST's place is Fashion-MNIST of its Debian package, in CIFAR-10's a folder of its binary version,
or the same pictures with three channels, padded to 32 x 32."""

from __future__ import annotations

import gzip
import pathlib
from typing import Any, NamedTuple

import numpy as np

import weft

FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")


class DataSet:
    """Pictures and labels, given in batches, in a new order each time round."""

    def __init__(self, images: Any, labels: Any, flatten: bool, onehot: bool) -> None:
        scaled = images / np.float32(255)
        self.images = scaled.reshape(len(scaled), -1) if flatten else scaled
        self.labels = np.eye(10)[labels] if onehot else labels.astype(np.float32)
        self._generator, self._order = np.random.default_rng(0), np.arange(0)

    def next_batch(self, size: int) -> tuple[Any, Any]:
        while len(self._order) < size:
            self._order = np.concatenate([self._order, self._generator.permutation(len(self.images))])
        taken, self._order = self._order[:size], self._order[size:]
        return self.images[taken], self.labels[taken]


class Sets(NamedTuple):
    train: DataSet
    test: DataSet


def _grey(kind: str, folder: str | pathlib.Path = FASHION_MNIST) -> list[Any]:
    try:
        files = [gzip.decompress((pathlib.Path(folder) / f"{kind}-{f}-ubyte.gz").read_bytes()) for f in ("images-idx3", "labels-idx1")]
    except OSError as error:
        raise weft.FileError(f"the data set is not there: {error}; install the Debian package dataset-fashion-mnist") from error
    return [np.frombuffer(f, np.uint8, offset=4 + 4 * f[3]).reshape(np.frombuffer(f, ">i4", f[3], 4)) for f in files]


def get_mnist(flatten: bool = False, onehot: bool = False, folder: str | pathlib.Path = FASHION_MNIST) -> Sets:
    """28 x 28 numbers of [0, 1] a picture: `[n, 784]`, or `[n, 1, 28, 28]`."""
    return Sets(*(DataSet(x[:, None], y, flatten, onehot) for x, y in (_grey("train", folder), _grey("t10k", folder))))


def get_cifar10(folder: str | pathlib.Path | None = None, flatten: bool = False, onehot: bool = False) -> Sets:
    """3 x 32 x 32 numbers of [0, 1] a picture."""
    if folder is None:
        padded = [(np.pad(x, ((0, 0), (2, 2), (2, 2)))[:, None].repeat(3, axis=1), y) for x, y in map(_grey, ("train", "t10k"))]
        return Sets(*(DataSet(x, y, flatten, onehot) for x, y in padded))
    files = [f"data_batch_{i}.bin" for i in range(1, 6)], ["test_batch.bin"]
    rows = [np.concatenate([np.fromfile(pathlib.Path(folder) / f, np.uint8).reshape(-1, 3073) for f in some]) for some in files]
    return Sets(*(DataSet(r[:, 1:].reshape(-1, 3, 32, 32), r[:, 0], flatten, onehot) for r in rows))
